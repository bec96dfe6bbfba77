"""Do the semantics agree? A script is run in several ways on the same data, and compared."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Note, Span
from finchlang.base.records import record
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.levels.packed import Packed
from finchlang.python.session import Session
from finchlang.tensors.formats import LEVELS
from finchlang.testing.compare_stored import as_array, same, stored_differences, unsound
from finchlang.testing.data import plain, reference
from finchlang.testing.looking import LookingSession, tells_of

#: the four semantics, from the most abstract to the machine
SEMANTICS = ("denote", "interpret", "residual", "native")
#: the name under which a result has the error that ended a script
ERROR = "the error"
#: What is let through where all ways but the denotation, which has no formats, end with the same kind of
#: error: by name, the errors. Windows are looked at as a whole by the others, and by the denotation at the
#: places that are needed.
_SQUARE = "|".join(name for name, level in LEVELS.items() if issubclass(level, Packed))
LET_THROUGH = {
    "a format that is not written in this order": "access order: ",
    "a format that is square": rf"\w+: ({_SQUARE}) is square,",
    "a format that has another fill": ".*it cannot be declared otherwise$",
    "a format that would have to merge what is written": "type: .* and would be merged, ",
    "a loop over a shifted tensor beyond 2^62": r"bounds: the extent \S+ ends beyond 2\^62",
    "a window that is looked at where its loop begins": r"\w+: the (window|slice) ",
}
#: the parts of the system, each with the semantics that depend on it
PARTS = {
    "the denotation": ("denote",),
    "normalisation": ("interpret", "residual", "native"),
    "the operator table": ("interpret", "residual", "native"),
    "the rules": ("interpret", "residual", "native"),
    "the executing host": ("interpret", "residual"),
    "staging": ("residual", "native"),
    "native code": ("native",),
}


@record
class Way:
    """How a script is run: by which engine, with which rules (`all`, `paper`, `all-Union` ...), with or
    without workspaces, with or without a check of each memory access in native code, on how many threads at
    once, each with a session of its own, and whether native code has loops of the script whole."""

    engine: str = "native"
    rules: str = "all"
    workspaces: bool = True
    checked: bool = False
    threads: int = 1
    staging: bool = True

    def __str__(self) -> str:
        said = [] if self.rules == "all" else [f"--rules={self.rules}"]
        said += [] if self.workspaces else ["--no-workspaces"]
        said += ["--checked"] if self.checked else []
        said += [] if self.threads == 1 else [f"--threads={self.threads}"]
        said += [] if self.staging else ["--no-staging"]
        return " ".join([self.engine, *said])

    def session(self, args: Sequence[str] = (), observer: Observer | None = None) -> Session:
        choices = self.engine, self.rules, lambda _: None, args, observer
        made = LookingSession if self.engine == "denote" else Session
        return made(*choices, self.workspaces, self.checked, self.staging)


def ways_of(engines: Sequence[str] = SEMANTICS, **choices: Any) -> tuple[Way, ...]:
    """A way for each engine; `choices` are further fields of all of them."""
    return tuple(Way(engine, **choices) for engine in engines)


@dataclass
class Comparison:
    """The results of running a script in several ways. They are labelled by engine, or by the whole way if
    engines do not tell them apart. `errors` has the error that ended a way, if any; `differences` has a
    line for each disagreement; `allowed` counts by name the differences that are let through; `notes` are
    those of the kernels; `report` is a text for people.
    """

    engines: tuple[str, ...]
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, FinchError] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    allowed: Counter[str] = field(default_factory=Counter)
    #: host steps of each kernel that was run, for engines that count them
    steps: dict[str, list[Counter[str]]] = field(default_factory=dict)
    #: where the denotation saw an access out of range
    places: list[Span | None] = field(default_factory=list)
    #: the kind of each difference, with the ways on each side
    faults: set[tuple[Any, ...]] = field(default_factory=set)

    @property
    def agrees(self) -> bool:
        return not self.differences

    def differ(self, line: str, *fault: Any) -> None:
        """Note a difference: a line for people, and the fault, its kind with who is on which side."""
        self.differences.append(line)
        self.faults.add(fault)

    def shows(self, other: Comparison) -> bool:
        """Whether there are differences, all of kinds that `other` has too."""
        return bool(self.faults) and self.faults <= other.faults

    @property
    def report(self) -> str:
        compared = sorted(set().union(*self.results.values()) - {"ARGS"}) if self.results else []
        if self.agrees:
            return f"{', '.join(self.engines)} agree on {', '.join(compared) or 'everything'}"
        return "\n".join(self.differences)


class _Steps(Observer):
    stages = True

    def __init__(self) -> None:
        self.taken: list[Counter[str]] = []

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.taken.append(steps)


def compare(
    text: str,
    file: str = "<input>",
    tolerance: float = 1e-9,
    args: Sequence[str] = (),
    ways: Sequence[Way] = ways_of(),
    tell: Callable[[str], Any] = lambda label: None,
    against: str = "",
) -> Comparison:
    """Run a script in each of `ways`, and compare every variable that it leaves.

    Floats agree within the relative `tolerance`; an error agrees with an error of the same kind, and a Bug
    or any other exception with nothing. Ways with the same rules must store the same and, if both count
    them, take the same host steps; ways with other rules must have the same entries. Stored tensors must be
    valid. `against` is a function that gives the expected results (`data.reference`); `tell` is called with
    the label of the way that is run next.
    """
    found = Comparison(labels(ways))
    by_label = dict(zip(found.engines, ways, strict=True))
    for label, way in by_label.items():
        tell(label)
        for at_once in _run(found, label, way, text, file, args):
            if not same([*found.results[label].items()], [*at_once.items()], tolerance):
                found.differ(f"{label}: threads differ", "threads", label)
    _allow(found)
    names = sorted(set().union(*found.results.values()))
    if len(_agreeing(ERROR, found.results, tolerance)) > 1:
        names = [ERROR]  # after different errors nothing else can be compared
    for name in names:
        groups = _agreeing(name, found.results, tolerance)
        if len(groups) > 1:
            values = [found.results[g[0]].get(name) for g in groups]
            kinds = tuple(str(v).partition(":")[0] for v in values if name == ERROR)
            said = (f"{', '.join(g)}: {_short(v)}" for g, v in zip(groups, values, strict=True))
            line = f"{name} differs (look at {' or '.join(suspects(groups))}): {'; '.join(said)}"
            found.differ(line, "error" if kinds else "value", tuple(groups), kinds)
    for line, fault in stored_differences(found, by_label, tolerance):
        found.differ(line, *fault)
    if against and not found.errors:
        expected, written = reference(against, text, file, args)
        _compare_with(expected, found, against, tolerance, written)
    return found


def _compare_with(
    expected: dict[str, Any],
    found: Comparison,
    against: str,
    tolerance: float,
    written: Container[str],
) -> None:
    """Compare all ways with expected values, whatever their types. Whether a kernel has written one, and
    numbers differ, is part of the fault, so that reducing leaves that kernel."""
    for name, value in expected.items():
        if any(name not in values for values in found.results.values()):
            raise FinchError("type", f"{against} gives {name}, which the script does not")
        array, wrong = np.asarray(plain(value)), dict[str, Any]()
        for label, values in found.results.items():
            own = np.asarray(plain(values[name]))
            if own.dtype.kind not in "biuf" or not same(own, array.astype(own.dtype), tolerance):
                wrong[label] = own
        if wrong:
            first = next(iter(wrong.values()))
            line = f"{name} is {_short(first)}, and {_short(array)} by {against}"
            is_alike = first.dtype.kind in "biuf" and first.shape == array.shape
            fault = "against", tuple(wrong), name in written, is_alike
            found.differ(f"{', '.join(wrong)}: {line}", *fault)


def labels(ways: Sequence[Way]) -> tuple[str, ...]:
    """Labels of ways: their engines, or if these do not tell them apart, the whole ways."""
    is_plain = len({way.engine for way in ways}) == len(ways)
    return tuple(way.engine if is_plain else str(way) for way in ways)


def _run(
    found: Comparison, label: str, way: Way, text: str, name: str, args: Sequence[str]
) -> list[dict[str, Any]]:
    def once(_: int) -> tuple[dict[str, Any], Session, list[Counter[str]]]:
        observer = _Steps()
        session = way.session(args, observer)
        try:
            session.run(text, name)
            ended = dict[str, Any]()
        except FinchError as error:
            ended = {ERROR: error.kind}
            found.errors[label] = error
        except Exception as error:  # a Bug, or whatever else breaks
            ended = {ERROR: f"{type(error).__name__}: {error}"}
            frame = traceback.extract_tb(error.__traceback__)[-1]
            room = re.sub(r".*\bfinchlang\W(\w+).*", r"\1", frame.filename)
            place = f"{room}/{frame.name}"
            line = f"{label} breaks: {type(error).__name__}: {error}"
            found.differ(line, "breaks", label, type(error).__name__, place)
        values = {n: session[n] for n in session.names()} | ended
        for line in unsound(values):  # an invalid tensor cannot be compared
            found.differ(f"{label}: {line}", "corrupt", label)
            values = {ERROR: "corrupt"}
        return values, session, observer.taken

    with ThreadPoolExecutor(way.threads) if way.threads > 1 else nullcontext() as pool:
        all_of = list(pool.map(once, range(way.threads)) if pool else map(once, (0,)))
    found.results[label], session, steps = all_of[0]
    if way.engine in ("interpret", "residual") and ERROR not in found.results[label]:
        found.steps[label] = steps
    found.notes = session.notes or found.notes
    if isinstance(session, LookingSession):
        found.places = session.places
    return [values for values, *_ in all_of[1:]]


def _allow(found: Comparison) -> None:
    """Let the denotation agree where it cannot know better: see LET_THROUGH. It may lack memory for dense
    arrays, as code may be too long that the interpreter does not need. A wrong size is a dimension or a
    bounds error, depending on when it is noticed."""
    is_long = {n for n, e in found.errors.items() if e.message.startswith("the code of")}
    ran = sorted(set(found.engines) - is_long, key=lambda n: n.split()[0] == "denote")
    for label in is_long if ran else ():  # as another has it, which stores what they would
        found.allowed["code that is too long"] += 1
        found.results[label] = found.results[ran[0]]
        del found.errors[label]
        if ran[0] in found.errors:
            found.errors[label] = found.errors[ran[0]]
    rest = [found.errors.get(label) for label in found.engines if label.split()[0] != "denote"]
    kinds = {error.kind if error else None for error in rest}
    others = next(iter(kinds)) if len(kinds) == 1 else None
    said = [f"{error.kind}: {error.message}" for error in rest if error]
    for label in (label for label in found.engines if label.split()[0] == "denote"):
        own = found.results[label].get(ERROR)
        if own == "resource" and kinds == {None}:
            found.allowed["a tensor that is too large to be dense"] += 1
            found.results[label] = next(r for n, r in found.results.items() if n != label)
            del found.errors[label]
        has_told = [e is not None and tells_of(e, found.places) for e in rest]
        mine = found.errors.get(label)
        has_passed = all(has_told) and not (mine and tells_of(mine, found.places))
        if others is None or own == others and not has_passed:
            continue
        names = [n for n, form in LET_THROUGH.items() if all(re.match(form, e) for e in said)]
        if has_passed:
            names.append("a place out of range that is not needed")
        if {own, others} == {"bounds", "dimension"}:
            names.append("a wrong size, noticed early or late")
        if names:
            found.allowed[names[0]] += 1
            found.results[label] = next(r for n, r in found.results.items() if n != label)


def _agreeing(
    name: str, results: dict[str, dict[str, Any]], tolerance: float
) -> list[tuple[str, ...]]:
    """The engines in groups; each has the same value for a name as the last one of its group."""
    groups: list[list[str]] = []
    for engine, values in results.items():
        alike = (g for g in groups if same(results[g[-1]].get(name), values.get(name), tolerance))
        try:
            group = next(alike, None)
        except RecursionError:
            raise FinchError("resource", f"`{name}` is nested too deeply to be compared") from None
        if group is None:
            groups.append(group := [])
        group.append(engine)
    return list(map(tuple, groups))


def suspects(groups: list[tuple[str, ...]]) -> list[str]:
    """The parts that may be at fault, given which engines agree: all engines that do not depend on the part
    agree, some that do differ from them, and as few of these as possible are right."""
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


def _short(value: Any) -> str:
    array = as_array(value)
    text = repr(value) if array is None else np.array2string(array, threshold=20)
    return text if len(text) <= 200 else text[:200] + " ..."
