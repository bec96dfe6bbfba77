"""Random loops of scripts and functions mean the same as a unit, step by step, and by the semantics.

`FUNCTIONS=1000 pytest tests/properties/test_functions.py` tries so many, and
`python -m tests.campaigns.functions` does so in child processes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.calls.runner import Observer
from finchlang.testing.compare_engines import compare
from finchlang.testing.compare_stored import as_array, same
from tests.properties.random_functions import script

#: scripts that the suite tries
CASES = int(os.environ.get("FUNCTIONS", "20"))
FIRST = int(os.environ.get("FUNCTIONS_SEED", "0"))
STEP = 5
TOLERANCE = 1e-9


@dataclass
class Run:
    """A way to run a script, as `compare` takes it, which keeps the session that was made and what it has
    printed. It has the fields of `Way`."""

    engine: str
    staging: bool = False
    rules: str = "all"
    workspaces: bool = True
    checked: bool = False
    threads: int = 1
    printed: list[str] = field(default_factory=list)
    made: list[Session] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.engine}{' --staging' * self.staging}"

    def session(self, args: Sequence[str] = (), observer: Observer | None = None) -> Session:
        given = self.engine, self.rules, self.printed.append, args, observer
        self.made.append(Session(*given, staging=self.staging))
        return self.made[-1]

    @property
    def values(self) -> dict[str, Any]:
        return {name: self.made[0][name] for name in self.made[0].names()}

    @property
    def said(self) -> str:
        return "".join(self.printed)


def differences(text: str) -> list[str]:
    """A line for each way in which a script is not the same with its loops as units and kernel by kernel,
    as machine code, interpreted and by the denotation; or in which units take other steps in kernels."""
    engines = "native", "interpret", "residual"
    *staged, plain, interpreted, denoted = runs = (
        *(Run(engine, True) for engine in engines), Run("native"), Run("interpret"), Run("denote"),
    )  # fmt: skip
    found = compare(text, ways=runs)  # type: ignore[arg-type]
    lines, errors = list(found.differences), found.errors
    error = errors.get(str(plain))
    told = [run for run in runs if run is not denoted or not error]  # which may fail elsewhere
    lines += [
        f"{run} prints {run.said!r}, not {plain.said!r}" for run in told if run.said != plain.said
    ]
    if not lines and error is None:
        one, other = (steps_in_kernels(text, staging) for staging in (True, False))
        if one is not None and other is not None and one != other:
            lines.append(f"units take {one - other} more in kernels, and {other - one} less")
    if lines or error is None:
        return lines + [
            f"{run}: {line}" for run in runs for line in unlike(run.values, plain.values)
        ]
    for run in (*staged, interpreted):
        if place_of(errors[str(run)]) != place_of(error):
            lines.append(f"{run} fails otherwise:\n{errors[str(run)]}\n{plain}:\n{error}")
        lines += [f"{run} leaves after the error: {u}" for u in unlike(run.values, plain.values)]
    return lines


class InKernels(Observer):
    """Counts the rules that are applied in kernels of the script, by the interpreter."""

    stages = traces = True

    def __init__(self) -> None:
        self.counts, self.is_counted = Counter[str](), False
        self.failed = 0  # units, of which rounds are run once more

    def rule(self, applied: Any) -> None:
        is_step = applied.kind.name == "STEP"
        if applied.name == "Kernel":  # its premise comes before its step
            self.is_counted = not (is_step or applied.before.is_own)
        self.counts[applied.name] += is_step and self.is_counted

    def started(self, event: Any) -> None:
        is_kernel = type(event.source).__name__ == "KernelNode"
        self.is_counted = (
            is_kernel and event.source.span is not None
        )  # not one of an expression of arrays
        self.failed += 1

    def finished(self, event: Any, steps: Counter[str]) -> None:
        self.failed -= 1


def steps_in_kernels(text: str, staging: bool) -> Counter[str] | None:
    """How often each rule is applied in kernels of a script, with or without units; None if a unit failed
    where the loop goes on kernel by kernel."""
    observer = InKernels()
    Session("interpret", "all", lambda _: None, (), observer, staging=staging).run(text)
    return None if observer.failed else observer.counts


def unlike(values: dict[str, Any], others: dict[str, Any]) -> Iterator[str]:
    """Names that are bound to other values, or to values of another type, or that stand for one tensor
    where they stand for two."""
    for name in sorted(values.keys() | others.keys()):
        one, other = values.get(name), others.get(name)
        if not same(one, other, TOLERANCE) or type(one) is not type(other):
            yield f"{name} is {shown(one)}, not {shown(other)}"
    if (ours := shared(values)) != (theirs := shared(others)):
        yield f"names of one tensor are {ours}, not {theirs}"


def shared(values: dict[str, Any]) -> list[tuple[str, str]]:
    """The pairs of names that are bound to the same tensor."""
    tensors = {name: v for name, v in values.items() if isinstance(v, (Tensor, Scalar, np.ndarray))}
    return [(a, b) for a, b in combinations(tensors, 2) if tensors[a] is tensors[b]]


def shown(value: Any) -> str:
    array = as_array(value)
    text = repr(value) if array is None else f"{array.dtype} {array.tolist()}"
    return f"{type(value).__name__} {text}"


def place_of(error: FinchError) -> Any:
    """What is compared of an error: its kind, its place, and the calls that led there."""
    places = [
        span and (span.line, span.column, span.end) for _, span in (("", error.span), *error.calls)
    ]
    return error.kind, places, [name for name, _ in error.calls]


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, STEP))
def test_loops_are_the_same_as_units(first: int) -> None:
    for seed in range(first, min(first + STEP, FIRST + CASES)):
        lines = differences(script(seed))
        assert not lines, "\n".join([f"seed {seed}", *lines, script(seed)])


EXCHANGES = """
F = Tensor(SparseList(Element(0)), [1, 2])
G = Tensor(SparseList(Element(0)), [3, 4])
n = 7
for k = 1:3
    F, G = G, F
    n = k
    @finch for i = _
        F[i] += k
    end
end
"""
FAILS = f"{EXCHANGES}for k = 1:3\n    n += k\n    @finch F[k] += n\nend\n"


def broken(change: Callable[[Session, Callable[[], Any]], None]) -> Any:
    """A session in which `change(session, run)` stands for running a script."""

    class Broken(Session):
        def run(self, *args: Any) -> Any:
            change(self, lambda: super(Broken, self).run(*args))

    return Broken


def _exchange(session: Session, run: Callable[[], Any]) -> None:
    run()
    session["F"], session["G"] = session["G"], session["F"]


def _copy(session: Session, run: Callable[[], Any]) -> None:
    run()
    session["n"] = float(session["n"])


def _undo(session: Session, run: Callable[[], Any]) -> None:
    """Everything is as it was before the loop that fails."""
    try:
        run()
    except FinchError:
        session["n"] = 3
        session["F"].storage[-1]["val"][:] = [7, 8]
        raise


@pytest.mark.parametrize(
    ("text", "change"), [(EXCHANGES, _exchange), (EXCHANGES, _copy), (FAILS, _undo)]
)
def test_what_differs_is_found(text: str, change: Any, monkeypatch: Any) -> None:
    made = Run.session

    def session(run: Run, *args: Any) -> Session:
        if not run.staging:
            return made(run, *args)
        run.made.append(broken(change)("native", "all", run.printed.append, *args))
        return run.made[-1]

    monkeypatch.setattr(Run, "session", session)
    assert differences(text)


def test_steps_in_kernels_are_counted_in_units_too() -> None:
    whole, alone = (steps_in_kernels(EXCHANGES, staging) for staging in (True, False))
    assert whole is not None and whole == alone and whole["Assign"] == 18
    assert steps_in_kernels(EXCHANGES.replace("1:3", "1:4"), True) != alone


def test_a_seed_gives_the_same_script_again() -> None:
    assert script(7) == script(7)
    assert len({script(seed) for seed in range(20)}) == 20
