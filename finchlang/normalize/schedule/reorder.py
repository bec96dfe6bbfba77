"""`reorder(k, i, j)`: the loops of a nest in another order."""

from __future__ import annotations

from collections.abc import Sequence

from finchlang.algebra.program_context import (
    INIT,
    PLAIN,
    ProgramContext,
    is_call,
    names_in,
    place,
    root,
    wrapped,
)
from finchlang.base.errors import FinchError
from finchlang.normalize.schedule.nest_headers import NestHeaders, rewrite_nest
from finchlang.operators.operator_table import operator
from finchlang.syntax.nodes import Assign, Declare, Index, Loop, Node, Schedule, Variable
from finchlang.syntax.traversal import walk
from finchlang.text.print import pretty


def reorder(program: Node, command: Schedule, context: ProgramContext) -> Node:
    """`program` with the loops over the indices of `command` in their order. Raises FinchError "type"."""

    def rewrite(nest: NestHeaders, wanted: tuple[Loop, ...]) -> Node:
        left = iter(wanted)
        loops = [next(left) if loop in wanted else loop for loop in nest.loops]
        before, after = ([loop.index.name for loop in order] for order in (nest.loops, loops))
        check_order_is_free(nest.body, (before, after), command, context)
        return nest.built(loops)

    return rewrite_nest(program, command.args, context, rewrite)


def check_order_is_free(
    body: Node, orders: Sequence[Sequence[str]], command: Schedule, context: ProgramContext
) -> None:
    """Check that `body` stores the same with its loops in both of two orders: each tensor is updated by
    an operator that takes its operands in any order, or the updates of each place come in the same order.
    (The life cycle checks that no tensor is read as well.) Raises FinchError "type"."""
    for name, updates in _updates(body).items():
        if all(_takes_any_order(a.op) and a.op == updates[0].op for a in updates):
            continue
        for assign in updates:
            own = determined(assign, context)
            first, second = ([n for n in order if n not in own] for order in orders)
            if first == second and assign.target == updates[0].target:
                continue
            sign = "=" if assign.op in PLAIN else f"<<{pretty(assign.op)}>>="
            pair = [updates[0], assign][assign is updates[0] :]
            at = ", ".join(place(a.span) for a in pair)
            why = f"its updates ({at}) by `{sign}` come to the same places more than once"
            message = f"in another order `{context.shown(name)}` would hold other values: {why}"
            raise FinchError("type", message, command.span)


def _updates(body: Node) -> dict[str, list[Assign]]:
    """The updates of each tensor that is not declared in the body."""
    own = {n.tensor.name for n in walk(body) if isinstance(n, Declare)}
    found: dict[str, list[Assign]] = {}
    for node in walk(body):
        if isinstance(node, Assign) and (name := root(node.target.tensor) or "") not in own:
            found.setdefault(name, []).append(node)
    return found


def _takes_any_order(op: Node) -> bool:
    """Whether f(f(x, a), b) = f(f(x, b), a). (`initwrite` comes to each place once.)"""
    row = operator(op)
    if row is None or op == Variable(INIT):
        return op == Variable(INIT)
    return row.associative and row.commutative or row.group is not None


def determined(assign: Assign, context: ProgramContext) -> set[str]:
    """The indices that have one value for each place that is written."""
    for wrapper in wrapped(assign.target.tensor)[0]:
        # `A[i + j]` is shifted by an index, `A[i + n]` by a number
        if is_call(wrapper, "toeplitz") or any(map(names_in, wrapper.args[1:])):
            return set()
    found = {i.name for i in assign.target.indices if isinstance(i, Index)}
    for made, given in context.derived:
        found |= set(made) if found.issuperset(given) else set()
    return found
