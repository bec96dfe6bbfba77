"""Do the semantics agree? A script is run in several ways on the same data, and compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from finchlang.session import Observer, Session
from finchlang.source import FinchError, Note
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar
from finchlang.types import Pair

#: the four semantics, each nearer to the machine
SEMANTICS = ("denote", "interpret", "residual", "native")
#: the parts of the system, and the semantics that rest on each
PARTS = {
    "the denotation": ("denote",),
    "normalisation": ("interpret", "residual", "native"),
    "the operator table": ("interpret", "residual", "native"),
    "the rules": ("interpret", "residual", "native"),
    "the executing host": ("interpret", "residual"),
    "staging": ("residual", "native"),
    "native code": ("native",),
}


@dataclass(frozen=True)
class Way:
    """How a script is run: by which engine, with which rules (`all`, `paper`, `all-Union` ...), with
    workspaces or without, with each access to memory checked in native code, and at once on how many
    threads, in a session each."""

    engine: str = "native"
    rules: str = "all"
    workspaces: bool = True
    checked: bool = False
    threads: int = 1

    def __str__(self) -> str:
        said = [] if self.rules == "all" else [f"--rules={self.rules}"]
        said += [] if self.workspaces else ["--no-workspaces"]
        said += ["--checked"] if self.checked else []
        said += [] if self.threads == 1 else [f"--threads={self.threads}"]
        return " ".join([self.engine, *said])

    def session(self, args: Sequence[str] = (), observer: Observer | None = None) -> Session:
        """A new session that runs kernels this way, and prints nowhere."""
        choices = self.engine, self.rules, lambda _: None, args, observer
        return Session(*choices, self.workspaces, self.checked)


def ways_of(engines: Sequence[str] = SEMANTICS, **choices: Any) -> tuple[Way, ...]:
    """A way for each engine; `choices` are what else a Way says, of all of them."""
    return tuple(Way(engine, **choices) for engine in engines)


@dataclass
class Comparison:
    """What running a script in several ways gave, by the engine of each, or if that does not tell them
    apart by all of it: `errors` has what each ended with, if it did; `differences` has a line for each
    name that they do not agree on; `notes` are those of the kernels; `report` is for people.
    """

    engines: tuple[str, ...]
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, FinchError] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.differences

    @property
    def report(self) -> str:
        compared = sorted(set().union(*self.results.values()) - {"ARGS"}) if self.results else []
        if self.agrees:
            return f"{', '.join(self.engines)} agree on {', '.join(compared) or 'everything'}"
        return "\n".join(self.differences)


def compare(
    text: str,
    name: str = "<input>",
    tolerance: float = 1e-9,
    args: Sequence[str] = (),
    ways: Sequence[Way] = ways_of(),
) -> Comparison:
    """Run a script in each of `ways` and compare every variable it leaves.

    Floats agree within the relative `tolerance`; an error agrees with an error of the same kind.
    """
    is_plain = len({way.engine for way in ways}) == len(ways)
    labels = [way.engine if is_plain else str(way) for way in ways]
    found = Comparison(tuple(labels))
    for label, way in zip(labels, ways, strict=True):
        session = way.session(args)
        try:
            session.run(text, name)
            values = {n: session[n] for n in session.names()}
        except FinchError as error:
            values = {"the error": error.kind}
            found.errors[label] = error
        found.results[label] = values
        found.notes = session.notes or found.notes
    _know_orders(found)
    for name in sorted(set().union(*found.results.values())):
        groups = _agreeing(name, found.results, tolerance)
        if len(groups) > 1:
            found.differences.append(_difference(name, groups, found.results))
    return found


def _know_orders(found: Comparison) -> None:
    """The denotation knows no formats: where all others say that one is written out of order, it agrees."""
    others = [found.errors.get(engine) for engine in found.engines if engine != "denote"]
    if others and all(error and error.kind == "access order" for error in others):
        found.results["denote"] = {"the error": "access order"}


def _agreeing(
    name: str, results: dict[str, dict[str, Any]], tolerance: float
) -> list[tuple[str, ...]]:
    """The engines, those together that have the same value for a name as their neighbour."""
    groups: list[tuple[str, ...]] = []
    for engine, values in results.items():
        value = values.get(name)
        for k, group in enumerate(groups):
            if same(results[group[-1]].get(name), value, tolerance):
                groups[k] = (*group, engine)
                break
        else:
            groups.append((engine,))
    return groups


def _difference(
    name: str, groups: list[tuple[str, ...]], results: dict[str, dict[str, Any]]
) -> str:
    values = (f"{', '.join(g)}: {_short(results[g[0]].get(name))}" for g in groups)
    return f"{name} differs (look at {' or '.join(suspects(groups))}): {'; '.join(values)}"


def suspects(groups: list[tuple[str, ...]]) -> list[str]:
    """The parts that a fault can be in, given which engines agree: those that do not rest on the part
    agree, some that do differ from them, and as few as can be are right in spite of it."""
    least: dict[str, int] = {}
    for part, resting in PARTS.items():
        innocent = [rest for g in groups if (rest := [e for e in g if e not in resting])]
        if len(innocent) != 1:
            continue
        right = next(g for g in groups if innocent[0][0] in g)
        if any(e in resting for g in groups if g is not right for e in g):
            least[part] = sum(e in resting for e in right)
    fewest = min(least.values(), default=0)
    return [part for part, count in least.items() if count == fewest] or ["more than one part"]


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two script values are equal, floats within a relative tolerance; what no kernel can
    produce (functions, formats) is not compared."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return same(a.value, b.value, tolerance)
    if isinstance(a, Pair) and isinstance(b, Pair):
        return all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    first, second = _as_array(a), _as_array(b)
    if first is None or second is None:
        if isinstance(a, float) and isinstance(b, float) and not math.isnan(a):
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        if isinstance(a, (int, float, bool, str)) or isinstance(b, (int, float, bool, str)):
            return a == b or (a != a and b != b)
        return (a is None) == (b is None)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind == "f":
        loose = max(tolerance, 1e-4) if first.dtype == np.float32 else tolerance
        scale = float(np.max(np.abs(first[np.isfinite(first)]), initial=0.0))
        return np.allclose(first, second, rtol=loose, atol=loose * scale, equal_nan=True)
    return bool(np.array_equal(first, second))


def _as_array(value: Any) -> np.ndarray | None:
    if isinstance(value, np.ndarray):
        return value
    try:
        tensor = as_tensor(value)
    except FinchError:
        return None
    return None if tensor is None else tensor.to_numpy()


def _short(value: Any) -> str:
    array = _as_array(value)
    text = repr(value) if array is None else np.array2string(array, threshold=20)
    return text if len(text) <= 200 else text[:200] + " ..."
