"""Derived rules for sums of many sparse operands: code that grows linearly with their number, where
the base rules tell all combinations of them apart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from finchlang.algebra import Operator, operator
from finchlang.host.fold import add, cast, compare, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr, Op, Var
from finchlang.looplets import Phase, Run, Sequence, Spike, Stepper
from finchlang.rules.engine import Machine, State, Step, accesses_in, bounded, find_all, put, rule
from finchlang.rules.expressions import evaluate
from finchlang.rules.laws import deciding_laws
from finchlang.rules.simplify import simplify
from finchlang.syntax import EMPTY, Access, Call, Literal, Node, Value
from finchlang.tensors.level import READ, Fiber
from finchlang.types import Int64
from finchlang.walk import walk

#: with this many sequences it is better not to tell apart which of them are exhausted
_MANY = 4


# ------------------------------------------------------------------------------------ one coordinate


@rule("Spikes", is_derived=True)
def spikes(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, a), E[f(access(spike(z, tail), i), access(spike(z', tail'), i), ...)]) →
    if a spike ends at a: v = z; if the first ends at a: v = tail; ...; E[f(v, v', ...)]
    else E[f(access(run(z), i), access(run(z'), i), ...)]

    Relies on: the tails are values, and no z decides f (is its annihilator), so that it makes no
    difference which of the spikes have ended, but for none."""
    region = bounded(term)
    if region is None or region[0] is not region[1]:
        return None
    merged = _mergeable(term)
    if len(merged) < 2:
        return None
    host, at = state.host, region[0]
    ended = [compare("eq", s.end, at) for s in merged]  # type: ignore[arg-type]

    def some() -> None:
        values: dict[int, Node] = {}
        for found, is_here in zip(merged, ended, strict=True):
            values[id(found)] = _value_at(host, found, is_here, state)
        machine.run(put(term, values, consume=True), state)

    def none() -> None:
        runs: dict[int, Node] = {id(s): Run(s.body) for s in merged}
        machine.run(put(term, runs), state)

    if _is_one_of(at, {s.end for s in merged}):
        some()
    else:
        host.branch(reduce(lambda x, y: op("or", x, y), ended), some, none)
    return EMPTY, state


def _is_one_of(at: Expr, ends: set[Expr | None]) -> bool:
    """Whether `at` is certain to be among `ends`, as the least of some of them."""
    if at in ends:
        return True
    if isinstance(at, Var) and at.definition is not None:
        return _is_one_of(at.definition, ends)
    return isinstance(at, Op) and at.name == "min" and all(_is_one_of(a, ends) for a in at.args)


def _value_at(host: Host, spike: Spike, is_here: Expr, state: State) -> Node:
    """The value of a spike at a coordinate: its tail's if it ends there, else its body's."""
    between = evaluate(spike.body, state)

    def tail() -> Expr:
        there: Any = spike.tail
        return evaluate(there.level.read(host, there) if isinstance(there, Fiber) else there, state)

    if spike.is_stored or not isinstance(spike.tail, Fiber):
        there = tail()
        return Value(host.let(op("select", is_here, there, cast(between, there.type)), "v"))
    cell = host.cell(cast(between, spike.tail.level.element_type), "v")
    host.branch(is_here, lambda: host.set(cell, tail()))
    return Value(host.let(host.get(cell), "v"))


def _mergeable(term: Node) -> list[Spike]:
    """The spikes of the largest expression in `term` whose value no single one of them decides, if
    they stand nowhere else."""
    everywhere = [a.tensor for a in accesses_in(term) if isinstance(a.tensor, Spike)]
    if len(set(everywhere)) < 2:
        return []
    best: list[Spike] = []
    for node in walk(term):
        if isinstance(node, Call):
            inside = list(_operands(node, node))
            found = [s for s in dict.fromkeys(inside) if inside.count(s) == everywhere.count(s)]
            best = max(best, found, key=len)
    return best


def _operands(node: Call, root: Call) -> Iterator[Spike]:
    """The spikes that are operands of `root`'s operator, directly or through operators like it."""
    if not _takes_anything(node) and (node.op != root.op or _takes_anything(root)):
        return
    for k, arg in enumerate(node.args, 1):
        if isinstance(arg, Call):
            yield from _operands(arg, root)
        elif _is_scalar(arg) and not _decides(arg.tensor.body, node, k):  # type: ignore[attr-defined]
            yield arg.tensor  # type: ignore[attr-defined]


def _is_scalar(node: Node) -> bool:
    """Whether a node is an access of one value of a spike whose end is known."""
    if not isinstance(node, Access) or not isinstance(node.tensor, Spike) or len(node.indices) > 1:
        return False
    spike = node.tensor
    tail, is_ended = spike.tail, spike.end is not None
    is_leaf = isinstance(tail, Fiber) and tail.level.is_leaf and tail.mode == READ
    return is_ended and isinstance(spike.body, Literal) and (is_leaf or isinstance(tail, Value))


def _row(node: Call) -> Operator | None:
    """The operator of a call, if it looks at all its arguments."""
    row = operator(node.op)
    if row is None or row.lazy_missing or row.selects or row.overrides:
        return None
    return row


def _takes_anything(node: Call) -> bool:
    """Whether no finite argument decides the result of a call."""
    row = _row(node)
    return row is not None and all(law.value(Int64) is None for law in row.annihilators)


def _decides(fill: Node, node: Call, argument: int) -> bool:
    """Whether `fill` as an argument (counted from 1) decides the result of a call."""
    return _row(node) is None or any(deciding_laws(node, argument, fill))


# ------------------------------------------------------------------------------------- one dimension


@rule("Exhausted", is_derived=True)
def exhausted(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[access(sequence(stepper over spikes, run(z)), i)...]) →
    loop(i, extent(a, b), E[access(stepper', i)...])

    where stepper' goes on behind its last coordinate with a spike that never ends. For four such
    sequences or more that leave E something to do behind them; otherwise E is taken apart into what
    it is once each of them is exhausted. Relies on: the spikes' body is z."""
    region = bounded(term)
    if region is None or region[0] is region[1]:
        return None
    found = [s for s in find_all(term, Sequence) if _is_list(s) and _outlives(term, s)]
    if len(found) < _MANY:
        return None
    beyond = add(region[1], 1)
    endless = {id(s): _endless(state.host, s.phases[0].body, beyond) for s in found}
    return put(term, endless), state


def _is_list(sequence: Sequence) -> bool:
    match sequence.phases:
        case (Phase(Stepper() as stepper, None, stop), Phase(Run(fill), None, None)):
            known = stepper.positions
            return known is not None and known.fill == fill and stop is stepper.last
    return False


def _outlives(term: Any, sequence: Sequence) -> bool:
    """Whether something is left to do where a sequence is exhausted."""
    fill = sequence.phases[-1].body.body  # type: ignore[attr-defined]
    return bool(simplify(put(term, {id(sequence): fill}, consume=True)) != EMPTY)


def _endless(host: Host, stepper: Any, beyond: Expr) -> Stepper:
    """A stepper over the spikes of another one, then one more that does not end before `beyond`."""
    known = stepper.positions
    cell, end = host.cell(known.start, "q"), host.cell(beyond, "end")

    def seek(host: Host, i: Expr) -> None:
        host.set(cell, known.locate(host, host.get(cell), i))

    def stride(host: Host) -> Expr:
        q = host.get(cell)
        is_left = compare("lt", q, known.stop)
        host.branch(
            is_left,
            lambda: host.set(end, known.coordinate(host, q)),
            lambda: host.set(end, beyond),
        )
        return host.get(end)

    def body(host: Host) -> Node:
        return Spike(known.fill, known.tail(host, host.get(cell), host.get(end)))

    def move_on(host: Host) -> None:
        host.set(cell, add(host.get(cell), 1))

    return Stepper(seek, stride, body, move_on, first=stepper.first)
