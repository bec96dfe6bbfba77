"""The rule Missing: where data decides whether an expression is `missing`, a statement does what it does
under the condition that it is not."""

from __future__ import annotations

from functools import reduce

from finchlang.algebra import AND, NOT, OR, SELECT, operator
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.expressions import evaluate, is_ready
from finchlang.rules.simplify import is_scope
from finchlang.syntax import (
    MISSING,
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Extent,
    Literal,
    Node,
    Sieve,
    Value,
    is_missing,
)
from finchlang.walk import mentions, replace, substitute, walk

_TRUE, _FALSE, _MISSING = Literal(True), Literal(False), Literal(MISSING)


@rule("Missing")
def missing(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨assign(access(tns), op, rhs), s⟩ → ⟨sieve(c, assign(access(tns), op, rhs')), s⟩

    where c says whether rhs is there, and rhs' is rhs without what is missing; likewise for the
    condition of a sieve. (What is missing whatever the data are is left to Simplify.)
    ⟨c, s⟩ ⇒ c', ⟨rhs', s⟩ ⇒ val  ⟹  ⟨define(var, rhs, body), s⟩ → ⟨body[ifelse(c', val, missing)/var], s⟩
    or, where var is an index, or an argument of a wrapper,
    ⟨define(var, rhs, body), s⟩ →
    ⟨block(sieve(c, define(var, rhs', body)), sieve(!c, body[missing/var])), s⟩"""
    if not isinstance(term, (Assign, Sieve, Define)):
        return None
    head = term.condition if isinstance(term, Sieve) else term.value
    if not is_ready(head) or isinstance(term, Define) and is_scope(term.body):
        return None
    if not any(map(is_missing, walk(head))):
        return None
    condition, value = presence(head)
    if value is None:
        return None
    if isinstance(term, Define):
        return _defined(machine, term, condition, value, state)
    if isinstance(term, Assign):
        return Sieve(condition, replace(term, value=value), span=term.span), state
    return replace(term, condition=_both(condition, value)), state


def _defined(machine: Machine, term: Define, condition: Node, value: Node, state: State) -> Step:
    """The rule for a definition of what is there under a condition."""
    there = replace(term, value=value)
    if condition == _TRUE:
        return there, state
    places = [n for n in walk(term.body) if isinstance(n, (Access, Extent, Declare))]
    if any(mentions(place, term.variable) for place in places):
        without = substitute(term.body, {term.variable: _MISSING})
        is_away = Call(NOT, (condition,))
        either = Sieve(condition, there, span=term.span), Sieve(is_away, without, span=term.span)
        return Block(either), state
    is_there = state.host.let(evaluate(condition, state, machine), "there")
    held = state.host.let(evaluate(value, state, machine, is_there), term.variable.name)
    chosen = Call(SELECT, (Value(is_there), Value(held), _MISSING), span=term.span)
    return substitute(term.body, {term.variable: chosen}), state


def presence(node: Node) -> tuple[Node, Node | None]:
    """The condition under which an expression is not missing, and what it is then; None if it always
    is missing."""
    if is_missing(node):
        return _FALSE, None
    row = operator(node.op) if isinstance(node, Call) else None
    if row is None or not isinstance(node, Call):
        return _TRUE, node
    parts = [presence(arg) for arg in node.args]
    values = [value for _, value in parts if value is not None]
    if row.selects:
        (known, condition), (is_first, first), (is_second, second) = parts
        if condition is None or first is None and second is None:
            return _FALSE, None
        if first is None or second is None:
            chosen = condition if second is None else Call(NOT, (condition,))
            there = is_first if second is None else is_second
            return _both(known, _both(chosen, there)), first if second is None else second
        if is_first == is_second == _TRUE:
            return known, Call(SELECT, (condition, first, second), span=node.span)
        there = Call(SELECT, (condition, is_first, is_second))
        return _both(known, there), Call(SELECT, (condition, first, second), span=node.span)
    if row.lazy_missing:  # the first that is there
        is_any, value = parts[-1]
        for is_there, one in reversed(parts[:-1]):
            if one is None:
                continue
            if is_there == _TRUE or value is None:
                is_any, value = is_there, one
                continue
            is_any = _TRUE if is_any == _TRUE else Call(OR, (is_there, is_any))
            value = Call(SELECT, (is_there, one, value), span=node.span)
        return is_any, value
    if len(values) < len(parts):
        return _FALSE, None
    conditions = [condition for condition, _ in parts]
    return reduce(_both, conditions), Call(node.op, tuple(values), span=node.span)


def _both(one: Node, other: Node) -> Node:
    return other if one == _TRUE else one if other == _TRUE else Call(AND, (one, other))
