"""The cause of a difference: which ways differ, what makes them agree, and the first step whose write only
some of them have, with its rule and the statement of the residual."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.calls.arguments import memory_of
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.denote.denote import denote
from finchlang.host.engine import Applied, EventKind, OneByOne
from finchlang.host.executing import ExecutingHost, run_residual
from finchlang.host.inspecting import plain
from finchlang.host.ir import Store
from finchlang.optimize.pipeline import PASSES, Pass, transform
from finchlang.rules.table import OPTIONAL
from finchlang.tensors.tensor import Tensor
from finchlang.testing.apart import DONE, Apart, shows
from finchlang.testing.compare_engines import Comparison, Way, compare, suspects
from finchlang.testing.compare_stored import same
from finchlang.testing.grammar import LEVELS
from finchlang.testing.random_shapes import OPERATORS

#: compares a text in some ways, as `compare` does
Compared = Callable[..., Comparison]
#: for how long steps are compared
SECONDS = 60.0
_LEVEL = re.compile(r"\b((?:Sparse|Run|Pack|Ragged|Upper|Lower|Symm|Inter)\w*)(?:\{[^}]*\})?\(")
_WORKSPACE = re.compile(r"^ *@workspace .*\n", re.MULTILINE)
_NAMED = re.compile(r"operator table: .*[a-z]")
_CALLED = re.compile(r"\b([a-z]\w*)\(")
_SIGN = re.compile(r"(?<=[\w)\]]) (<<\w+>>=|[-*/%^&|⊻]=?|<=?|>=?|[!=]=|&&|\|\|) (?=[\w(\[-])")


@record
class Blame:
    """What is known of a difference. `lines` say what differs, `part` names the part of the system at
    fault, `rules` are the derived rules (or `paper`) without any one of which nothing differs, `step` is
    the first step at which semantics part, `statement` what checked native code complains of, or ""."""

    lines: tuple[str, ...]
    part: str = ""
    rules: tuple[str, ...] = ()
    step: str = ""
    statement: str = ""

    def __str__(self) -> str:
        said = [*self.lines, f"look at {self.part}"] if self.part else [*self.lines]
        if self.rules:
            said.append(f"all agree with --rules={' or '.join(self.rules)}")
        said += [self.step] if self.step else []
        if self.statement:
            said.append(f"checked native code: {self.statement}")
        return "\n".join(said)


def blame(text: str, ways: Sequence[Way], compared: Compared = compare) -> Blame:
    """Find the cause of the difference that a text shows in some ways, by running it in other ways with
    `compared`: about once for each derived rule, so the text should be short."""
    found = compared(text, ways=ways)
    if found.agrees:
        return Blame(())
    apart = Apart(_parting)
    outcome, told = apart.call((text, ways), SECONDS)
    apart.end()
    where, step = told if outcome == DONE else ("".join(apart.told), "")
    statement = _statement(text, ways, compared)
    rules = tuple(r for r in _RULES if _agree(compared, text, ways, rules=r))
    part = where or _part(text, ways, compared, found, rules)
    return Blame(tuple(found.differences), part, rules, step, statement)


_RULES = ("paper", *(f"all-{name}" for name in sorted(OPTIONAL)))


def _agree(compared: Compared, text: str, ways: Sequence[Way], **choices: Any) -> bool:
    """Whether all of the ways, with these choices, run a text without an error, and agree."""
    others = tuple(dict.fromkeys(replace(way, **choices) for way in ways))
    try:
        found = compared(text, ways=others)
    except FinchError:
        return False
    return found.agrees and not found.errors


def _part(
    text: str, ways: Sequence[Way], compared: Compared, found: Comparison, rules: tuple[str, ...]
) -> str:
    """The part at fault: the one that the neighbours that differ do not share; if all but the denotation
    are alike, the first workspace, derived rule, level or operator without which nothing differs."""
    named = _suspected(found)
    if named and "the rules" not in named:
        return " or ".join(named)
    chosen = _WORKSPACE.sub("", text)  # annotations are refused without workspaces
    if _agree(compared, text, ways, workspaces=False):
        return "workspaces"
    if chosen != text and _agree(compared, chosen, ways):
        return "workspaces"
    single = [r for r in rules if r != "paper"]
    if single:
        return " or ".join(f"the derived rule {r.removeprefix('all-')}" for r in single)
    is_of_all = False  # whether it also shows with other levels: then it is the fault of none
    for what, other, like in _without(text):
        if is_of_all and not _NAMED.search(what):
            continue
        if _agree(compared, other, ways):
            plain = tuple(replace(way, rules="paper") for way in ways)
            others = ((t, own) for t in like for own in (ways, plain))
            is_of_all = any(shows(compared, found, t, own) for t, own in others)
            if not is_of_all:
                return what
    operators = [m[1] for m in _CALLED.finditer(text) if m[1] in OPERATORS]
    return f"the shape operator {operators[0]}" if operators else "the rules"


def _suspected(found: Comparison) -> list[str]:
    """The parts that a fault may be in, by which engines are on which side."""
    faults = sorted(found.faults, key=lambda f: (f[0] not in ("value", "error"), str(f)))
    if any(kind == "breaks" and place.startswith("normalize/") for kind, *_, place in faults):
        return ["normalisation"]
    kind, *sides = faults[0]
    if any(fault[0] == "breaks" and fault[-1] == "host/_entries" for fault in faults):
        return []  # an access out of bounds, which native code does not notice
    if kind == "against":
        return []
    if kind in ("value", "error"):
        groups = sides[0]
    else:  # of two neighbours, the one nearer to the machine is taken to be wrong
        wrong = {f[1] for f in faults if len(f) > 1 and f[1] in found.engines}
        wrong = {sides[1]} if kind in ("stores", "has entries in", "steps") else wrong
        groups = [[e for e in found.engines if e not in wrong], [*wrong]]
    return suspects([tuple(e.split()[0] for e in group) for group in groups if group])


def _without(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """A level or operator, the text with another one in its place, and texts with others of its kind."""
    names = dict.fromkeys(m[1] for m in _LEVEL.finditer(text))
    for name in sorted(names, key=lambda n: n == "SparseList"):
        level = re.compile(rf"\b{name}(?:\{{[^}}]*\}})?\(")
        others = [level.sub(f"{other}(", text) for other in LEVELS if other != name]
        yield f"the level {name}", level.sub("Dense(", text), others[1:]
    for name in dict.fromkeys(m[1] for m in _CALLED.finditer(text)):
        if name not in OPERATORS:  # a shape operator that reducing has left is needed
            for other in ("min" if name == "max" else "max", "-"):  # of two arguments, of one
                yield f"the operator table: {name}", re.sub(rf"\b{name}\(", f"{other}(", text), []
    for sign in dict.fromkeys(m[1] for m in _SIGN.finditer(text)):
        new = " += " if sign.endswith("=") and sign not in ("<=", ">=", "!=", "==") else " + "
        yield f"the operator table: {sign}", text.replace(f" {sign} ", new), []


def _statement(text: str, ways: Sequence[Way], compared: Compared) -> str:
    for way in ways:
        if way.engine == "native":
            checked = compared(text, ways=(replace(way, checked=True, threads=1),))
            return checked.differences[0] if checked.differences else ""
    return ""


# ------------------------------------------------------------------------------------------ steps


class _Log(ExecutingHost):
    """Keeps everything that is written: place, value, the statement, and the step it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, int, Any, str]] = []
        self.by: list[str] = []
        self.number = 0

    def do_Store(self, s: Store) -> None:
        super().do_Store(s)
        at = self.evaluate(s.index)
        statement = f"{s.buffer.name}[{plain(s.index)}] = {plain(s.value)}"
        self.writes.append((s.buffer.name, at, self.arrays[s.buffer][at].item(), statement))

    @property
    def final(self) -> dict[tuple[str, int], Any]:
        return {(name, at): value for name, at, value, _ in self.writes}

    def rule(self, applied: Applied) -> None:
        self.number += applied.kind == EventKind.STEP
        new = len(self.writes) - len(self.by)
        self.by += [f"step {self.number}, {applied.name},"] * new


class _Parting(Observer):
    """Looks for the first kernel at which semantics part, and for its first write that differs; the results
    are `part` and `step`."""

    part = step = ""

    def __init__(self, tell: Callable[[str], None] = lambda part: None):
        self.tell = tell

    def kernel(self, event: KernelEvent) -> None:
        if self.step or self.part:
            return
        assert event.meaning is not None
        node, bound, functions = event.meaning()
        right = denote(node.program, bound, functions)
        self.part = _pass_at_fault(event, right, bound, functions)
        log, other = _Log(), _Log()
        made = event.run("interpret", OneByOne(log.rule, log.evaluate), log)
        event.run("residual", None, other)
        pairs = enumerate(zip_longest(log.writes, other.writes, fillvalue=("", -1, None, "")))
        apart = (k for k, (a, b) in pairs if a[:2] != b[:2] or not _equal(a[2], b[2]))
        at = next(apart, None)
        if at is None:
            if not self.part and (changes := [c for c in PASSES if _is_wrong(event, c, other)]):
                self.part = f"a pass over the residual: {changes[0].__name__}"
            self.tell(self.part)
            at = _last_of(event, right, made, log)
        if at is None:
            return
        said = [f"{n}[{k}] = {v!r}" for n, k, v, _ in log.writes[at : at + 1]] or ["nothing"]
        rule = [*log.by[at : at + 1], f"step {log.number}, the last,"][0]
        statement = [*(w[-1] for w in other.writes[at : at + 1]), "nothing"][0]
        line = event.source.span.line if event.source.span else 1
        self.step = f"kernel at line {line}: {rule} writes {said[0]}; the residual: {statement}"


def _is_wrong(event: KernelEvent, change: Pass, right: _Log) -> bool:
    log = _Log()
    with suppress(Exception), event.memory() as given:
        run_residual(transform(event.residual, [change]), *given, log)
        return log.final != right.final
    return True


def _last_of(event: KernelEvent, right: dict[str, Any], made: Any, log: _Log) -> int | None:
    """The first write that is the last one to its place, where the denotation (its result is `right`) or
    native code has another value."""

    def meant(own: Any, given: Any, memory: Any) -> Any:
        return memory_of(right[own.name], given) if own.name in right else memory

    def expected() -> Iterator[list[Any]]:
        yield [meant(*row) for row in made]
        yield [memory for *_, memory in event.run("native")]

    last = {write[:2]: k for k, write in enumerate(log.writes)}
    for memories in expected():
        found = []
        for (bound, _, memory), other in zip(made, memories, strict=True):
            for buffer, *both in zip(bound.buffers, memory.arrays, other.arrays, strict=False):
                values = zip(*(array.tolist() for array in both), strict=False)
                wrong = (k for k, (x, y) in enumerate(values) if not _equal(x, y))
                found += [last[buffer.name, k] for k in wrong if (buffer.name, k) in last]
        if found:
            return min(found)
    return None


def _equal(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b) or (isinstance(a, float) and same(a, b, 1e-9))


def _pass_at_fault(
    event: KernelEvent, right: dict[str, Any], bound: dict[str, Any], functions: Any
) -> str:
    """The pass of normalisation after which the denotation gives another result, or ""."""
    spaces = {n: Tensor(level, *(0,) * level.order) for n, level in event.workspaces.items()}
    for name, program in event.passes:
        try:
            found = denote(program, bound | spaces, functions)
        except FinchError:
            return ""
        if not all(same(np.asarray(found[n]), np.asarray(right[n]), 1e-9) for n in right):
            return f"normalisation: {name}"
    return ""


def _parting(task: tuple[str, Sequence[Way]], tell: Callable[[str], None]) -> tuple[str, str]:
    text, ways = task
    way = next((w for w in ways if w.engine != "denote"), Way())
    found = _Parting(tell)
    with suppress(Exception):  # the difference may be that it breaks
        replace(way, engine="interpret", checked=False, threads=1).session((), found).run(text)
    return found.part, found.step
