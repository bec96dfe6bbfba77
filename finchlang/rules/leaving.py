"""Loops that do nothing but reduce into one place end where its value is the operator's annihilator
(SparseArray'21 section 7.2), without a short-circuit scalar.

The value is asked for after steps, not before the first, so that whatever the first of them checks
is checked. Loops that are counted take blocks of steps, ever longer ones, which stay as quick as
without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.algebra import operator
from finchlang.host.fold import FALSE, ONE, TRUE, add, compare, conjunction, const, minimum, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.normalize.types import type_of
from finchlang.operation import Operation
from finchlang.properties import Operator
from finchlang.rules.cases import disjunction
from finchlang.rules.engine import Machine, State
from finchlang.rules.expressions import evaluate
from finchlang.syntax import (
    Access,
    Assign,
    Call,
    Declare,
    Freeze,
    Index,
    Loop,
    Node,
    Thaw,
    Variable,
)
from finchlang.tensors.level import UPDATE, Fiber
from finchlang.types import Type
from finchlang.walk import accesses, names, walk

#: gives whether a loop's result may still change
GoesOn = Callable[[], Expr]

#: so many steps are counted before the first question, then so many times as many each time, so that
#: these are all that there can be
_FIRST, _TIMES, _BLOCKS = 64, 64, 8

#: of types of more bits than this only 0 is looked out for: any other value is one of too many
_NARROW = 16


def leaving(machine: Machine, term: Loop, state: State) -> GoesOn | None:
    """What a loop asks for between its steps, if it may leave early."""
    if "Break" not in machine.names:
        return None
    assigns = [n for n in walk(term.body) if isinstance(n, Assign)]
    if not assigns or any((a.target, a.op) != (assigns[0].target, assigns[0].op) for a in assigns):
        return None
    target, row = assigns[0].target, operator(assigns[0].op)
    tensor = target.tensor
    found: Any = state.tensors.get(tensor.name) if isinstance(tensor, Variable) else tensor
    if target.indices or row is None or not _is_place(found):
        return None
    is_final = _final(row, assigns, found.level.element_type)
    if is_final is None or not _is_pure(term.body) or _is_read(tensor, term.body, len(assigns)):
        return None

    level, host = found.level, state.host
    # where the fill is final from the start, an update is waited for that stores it
    is_waiting = is_final(const(level.fill.value, level.element_type)) != FALSE

    def goes_on() -> Expr:
        has_ended = is_final(evaluate(level.read(host, found), state))
        if is_waiting and found.dirty is not None:
            has_ended = conjunction(host.get(found.dirty), has_ended)
        return op("not", has_ended)

    return goes_on


def _is_place(found: object) -> bool:
    """Whether it is a scalar or an element that is written, and no structure to loops around."""
    if not isinstance(found, Fiber) or found.mode != UPDATE:
        return False
    level = found.level
    return level.is_leaf and not (level.is_structured or level.is_short_circuit)


def _final(row: Operator, assigns: list[Assign], own: Type) -> Callable[[Expr], Expr] | None:
    """When no update changes a value of type `own`; None if that never is, or is not to be expected. Of
    floats the laws of the table are about structure only, and do not hold beside NaN; those that a
    function of the script declares are taken at their word."""
    if row.overrides and row.identity is not None and not row.lazy_missing:
        unit = own.wrap(row.identity.value(own))
        return lambda value: compare("ne", value, const(unit, own))
    if own.kind == "pair" or (own.is_float and row.staged is None):
        return None
    types = {type_of(Call(a.op, (a.target, a.value))) or own for a in assigns}
    zeros = []
    for law in row.annihilators:
        zero = law.value(own)
        if zero is None or not law.is_about(1) or law.result is not None:
            continue
        if row.staged is None and own.bits > _NARROW and own.wrap(zero) != 0:
            continue
        if all(law.value(type) == own.wrap(zero) for type in types):
            zeros.append(own.wrap(zero))  # else it is no value of this type
    if not zeros:
        return None
    return lambda value: disjunction(*(compare("eq", value, const(z, own)) for z in zeros))


def _is_pure(body: Node) -> bool:
    """Whether nothing is lost with steps that are left out: no error, after the first of them."""
    for node in walk(body):
        if isinstance(node, (Declare, Freeze, Thaw)):
            return False
        if isinstance(node, Loop):
            inside = {name for kind, name in names(node.extent) if kind is Index}
            if inside or any(accesses(node.extent)) or _has_meet(node.extent):
                return False
        if isinstance(node, Call) and _may_fail(node):
            return False
        if isinstance(node, Access) and any(any(accesses(i)) for i in node.indices):
            return False
    return True


def _has_meet(extent: Node) -> bool:
    return any(isinstance(n, Call) and n.op == Variable("meet") for n in walk(extent))


def _may_fail(call: Call) -> bool:
    row = operator(call.op)
    if isinstance(call.op, Operation):
        return any(isinstance(n, Call) and _may_fail(n) for n in walk(call.op.body))
    return row is not None and row.may_fail([type_of(arg) for arg in call.args])


def _is_read(tensor: Node, body: Node, updates: int) -> bool:
    """Whether what is reduced into is read, too."""
    return sum(access.tensor == tensor for access in accesses(body)) > updates


class Asked:
    """Whether a loop goes on, as it was found when that was asked for last."""

    def __init__(self, host: Host, goes_on: GoesOn | None):
        self.host, self.goes_on = host, goes_on
        self.cell = None if goes_on is None else host.cell(TRUE, "going")

    def ask(self) -> None:
        if self.cell is not None and self.goes_on is not None:
            self.host.set(self.cell, self.goes_on())

    def holds(self) -> Expr:
        return TRUE if self.cell is None else self.host.get(self.cell)


def asked_after(machine: Machine, term: Loop, state: State) -> Asked:
    """What a loop asks after its steps."""
    return Asked(state.host, leaving(machine, term, state))


def count(
    machine: Machine,
    term: Loop,
    state: State,
    first: Expr,
    last: Expr,
    step: Callable[[Expr], None],
    name: str,
) -> None:
    """Take the steps of a loop from `first` to `last`, as long as it goes on: that is asked after
    blocks of them, and if they have loops in them after each."""
    host, is_left = state.host, asked_after(machine, term, state)
    if is_left.cell is None:
        host.count(first, last, step, name)
        return
    at, more = host.cell(first, "at"), host.cell(const(_FIRST - 1), "more")
    has_loops = any(isinstance(n, Loop) for n in walk(term.body))

    def asking(i: Expr) -> None:
        step(i)
        is_left.ask()

    def guarded(i: Expr) -> None:
        host.branch(is_left.holds(), lambda: asking(i))

    def block() -> None:
        start, length = host.get(at, lower=first, upper=last), host.get(more)
        stop = host.let(minimum(last, add(start, length)), "stop")
        host.count(start, stop, guarded if has_loops else step, name)
        host.set(at, add(stop, 1))
        host.set(more, op("mul", length, _TIMES))
        if not has_loops:
            is_left.ask()

    def next_block(_: Expr) -> None:
        is_more = conjunction(compare("le", host.get(at), last), is_left.holds())
        host.branch(is_more, block)

    def blocks() -> None:
        host.count(ONE, const(_BLOCKS), next_block, "block")

    if has_loops:
        blocks()
    else:  # most rows of a sparse matrix are short
        is_long = compare("lt", add(first, _FIRST - 1), last)
        host.branch(is_long, blocks, lambda: host.count(first, last, step, name))
