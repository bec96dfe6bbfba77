"""Sums in loops, in another order: derived rules that take a repeated one at once, and distribute where
this lets structure through (Looplets'23 Fig 5)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from finchlang.algebra import Operator, operator, referred
from finchlang.host.fold import ONE, add, compare, conjunction, const, op, sub
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup, Looplet, Sequence, may_be_missing
from finchlang.normalize.types import type_of
from finchlang.rules.context import bounded, find_looplets
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.expressions import evaluate, resolve
from finchlang.rules.laws import in_type, inverse, is_inverse, is_undoing
from finchlang.rules.prove import at_most
from finchlang.rules.simplify import is_exact, repeat
from finchlang.syntax import (
    EMPTY,
    Access,
    Assign,
    Call,
    Literal,
    Loop,
    Node,
    Value,
    Variable,
    is_missing,
)
from finchlang.tensors.level import Fiber
from finchlang.walk import mentions, walk


@rule("Repetition", is_derived=True)
def repetition(machine: Machine, term: Node, state: State) -> Step | None:
    """i ∉ body, ⟨repeat(body, b - a + 1), s⟩ → s', s'(tns) is finite  ⟹
    ⟨loop(i, extent(a, b), body), s⟩ → s'

    body has loops that add up floats in one place tns, so that Simplify keeps the order of its steps.
    Relies on: all that body writes are such places; each step adds what does not depend on the sum, so
    that each sum on the way of the loop is a mean of sums on this way, and finite if these are; of those
    an infinity or NaN would stay. Where the result has one, the loop is run from what was there."""
    region = bounded(term)
    if region is None or not isinstance(term, Loop) or mentions(term.body, term.index):
        return None
    length = Value(add(sub(region[1], region[0]), ONE))
    body = repeat(term.body, length, in_order=False)
    updates = [n for n in walk(term.body) if isinstance(n, Assign)]
    if body is None or not all(map(_moves, updates)):
        return None
    places = [n.target.tensor for n in updates]
    found = [resolve(p, state) if isinstance(p, Variable) else p for p in places]
    host, leaves = state.host, [p for p in found if isinstance(p, Fiber) and p.level.is_leaf]
    if len(leaves) < len(places):
        return None

    def values() -> list[Expr]:
        return [evaluate(leaf.level.read(host, leaf), state) for leaf in leaves]

    def whole() -> None:
        before, inside = values(), state.inside()
        machine.run(body, inside)
        floats = [v for v in values() if v.type.is_float]
        are_finite = (compare("lt", op("abs", v), const(inf, v.type)) for v in floats)

        def in_order() -> None:
            for leaf, value in zip(leaves, before, strict=True):
                leaf.level.write(host, leaf, value)
            others = (r for r in machine.rules if r.name != "Repetition")
            Machine(others, machine.tracer).run(term, inside)

        host.branch(op("not", conjunction(*are_finite)), in_order)

    if_not_empty(host, *region, whole)
    return EMPTY, state


def _moves(update: Assign) -> bool:
    """Whether steps of an update are sums, or their order makes no difference."""
    row = operator(update.op)
    is_sum = row is not None and (row.translates or row.right_idempotent)
    return is_sum or is_exact(update)


@rule("Terms", is_derived=True)
def terms(machine: Machine, term: Node, state: State) -> Step | None:
    """i ∉ a, ⟨loop(i, ext, assign(access(tns), g, a)), s⟩ → s'  ⟹
    ⟨loop(i, ext, assign(access(tns), g, g(a, E[access(looplet, i)]))), s⟩ →
    ⟨loop(i, ext, assign(access(tns), g, E[access(looplet, i)])), s'⟩

    Products around the sum are distributed. Relies on: g is associative and commutative, and n times
    a is one multiple of a, which a is collapsed to: of integers, since sums of floats may overflow in
    another order, or g is right-idempotent; nothing of the target is left to look up, since a
    place is found, and what a level does once it is written is done, for both assignments together;
    no term may be missing, since a sum with one is missing as a whole; a sequence of phases is in all of
    the region, not behind a part that has been done; what is added to is a plain
    scalar, or the terms that are taken apart have no literals, which with a fill could be a sum of
    nothing, so that nothing is stored. Where there are only lookups the loop stays as it is: it would be
    no shorter."""
    if not isinstance(term, Loop) or not isinstance(term.body, Assign) or bounded(term) is None:
        return None
    assign = term.body
    group = _sum_of(operator(assign.op))
    if group is None or not isinstance(assign.value, Call) or assign.target.indices:
        return None
    looplets = find_looplets(term)
    if all(isinstance(x, Lookup) for x in looplets) or _may_be_missing(assign.value):
        return None
    if any(_is_behind(x, term) for x in looplets):
        return None
    type = type_of(assign.value)
    if type != type_of(Call(assign.op, (assign.target, assign.value))) or type is None:
        return None
    if type.is_float and not group.right_idempotent:
        return None
    constant, rest = split_terms(assign.value, group, lambda n: not mentions(n, term.index))
    if constant is None or rest is None:
        return None
    has_literals = any(isinstance(n, Literal) for n in walk(constant))
    if has_literals and not _is_always_stored(assign.target.tensor, state):
        return None
    parts = [Assign(assign.target, assign.op, v, span=assign.span) for v in (constant, rest)]
    alone, left = (Loop(term.index, term.extent, part, span=term.span) for part in parts)
    return left, machine.run(alone, state)


def _is_behind(looplet: Looplet, term: Loop) -> bool:
    """Whether phases may begin after the region does: the rule Sequence has done what is before."""
    start = looplet.phases[0].start if isinstance(looplet, Sequence) else None
    region = bounded(term)
    return start is not None and region is not None and not at_most(start, region[0])


def _is_always_stored(tensor: Node, state: State) -> bool:
    """Whether it is a scalar that does not tell whether it was assigned."""
    found = resolve(tensor, state) if isinstance(tensor, Variable) else None
    return isinstance(found, Fiber) and not found.level.is_structured


def _may_be_missing(value: Node) -> bool:
    """Whether something that `value` is made of may be missing, as far as can be seen."""
    return any([_is_unsure(node) for node in walk(value)])


def _is_unsure(node: Node) -> bool:
    if isinstance(node, Access) and node.indices:
        return len(node.indices) > 1 or may_be_missing(node.tensor)
    return is_missing(node)


def _sum_of(row: Operator | None) -> Operator | None:
    """The operator g for which a reduction with `row` is the same as one for each operand of g; none
    if n times the same is no multiple, but a power that may overflow."""
    if row is None:
        return None
    group = row if row.associative and row.commutative else referred(row.group)
    if group is None or row not in (group, referred(group.undone_by)):
        return None
    multiple = referred(row.repeated)
    is_safe = row.right_idempotent or (
        multiple is not None and group.reference in multiple.distributes_over
    )
    return group if is_safe else None


def split_terms(
    node: Node, group: Operator, belongs: Callable[[Node], bool]
) -> tuple[Node | None, Node | None]:
    """(a, b) with `node` = g(a, b), where of the terms of `node` those that `belong` make a, the others
    b; None for no terms. What distributes over g is distributed."""
    if belongs(node):
        return node, None
    type = type_of(node)
    if not isinstance(node, Call) or type is None:
        return None, node
    if is_inverse(node, group) and type_of(node.args[0]) == type:
        parts = split_terms(node.args[0], group, belongs)
        return tuple(p and inverse(group, p) for p in parts)  # type: ignore[return-value]
    args = tuple(in_type(a, type) for a in node.args)
    if len(args) != 2 or any(type_of(a) != type for a in args):
        return None, node
    node = Call(node.op, args, span=node.span)
    undoing = is_undoing(node, group)
    if undoing or operator(node.op) is group:
        pairs = zip(*(split_terms(a, group, belongs) for a in node.args), strict=True)
        return tuple(_sum(node, group, *pair) for pair in pairs)  # type: ignore[return-value]
    return _distributed(node, group, belongs)


def _sum(node: Call, group: Operator, a: Node | None, b: Node | None) -> Node | None:
    """What is there of two operands of a sum or difference."""
    if b is None:
        return a
    if a is None:
        return inverse(group, b) if is_undoing(node, group) else b
    return Call(node.op, (a, b), span=node.span)


def _distributed(
    node: Call, group: Operator, belongs: Callable[[Node], bool]
) -> tuple[Node | None, Node | None]:
    """f(a, g(b, c)) as f(a, b) and f(a, c), if a belongs where b does."""
    row = operator(node.op)
    assert row is not None
    if group.reference in row.distributes_over:
        at = row.distributes_over[group.reference]
        for k, factor in enumerate(node.args):
            if at in (None, 2 - k) and belongs(factor):
                parts = split_terms(node.args[1 - k], group, belongs)
                wrapped = (p and (factor, p) if k == 0 else p and (p, factor) for p in parts)
                return tuple(w and Call(node.op, w, span=node.span) for w in wrapped)  # type: ignore
    return None, node
