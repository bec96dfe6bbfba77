"""How statements of a function end, and so which ways lead through them."""

from __future__ import annotations

from finchlang.syntax import (
    Break,
    Call,
    Continue,
    For,
    If,
    Literal,
    Node,
    Return,
    Script,
    Variable,
    While,
)
from finchlang.walk import remembered

#: how a statement ends: what follows it is next, or it leaves a step of a loop, a loop, or the function
NEXT, CONTINUE, BREAK, RETURN = range(4)
Ways = frozenset[int]


@remembered
def ways(node: Node) -> Ways:
    """How a statement may end."""
    match node:
        case Return():
            return frozenset((RETURN,))
        case Break():
            return frozenset((BREAK,))
        case Continue():
            return frozenset((CONTINUE,))
        case If(branches):
            return frozenset().union(*(ways(body) for _, body in arms(branches)))
        case While(condition, body):
            inside = ways(body)
            is_left = condition != Literal(True) or BREAK in inside
            return (inside & {RETURN}) | ({NEXT} if is_left else frozenset())
        case For(_, _, body):
            return (ways(body) & {RETURN}) | {NEXT}
        case Script(statements):
            found = frozenset((NEXT,))
            for statement in statements:
                if NEXT in found:
                    found = (found - {NEXT}) | ways(statement)
            return found
    return frozenset((NEXT,))


def arms(branches: tuple[tuple[Node, Node], ...]) -> tuple[tuple[Node, Node], ...]:
    """The branches of an `if`, with the `else` that does nothing if there is none."""
    is_whole = bool(branches) and branches[-1][0] == Literal(True)
    return branches if is_whole else (*branches, (Literal(True), Script(())))


def flat(statements: tuple[Node, ...]) -> tuple[Node, ...]:
    """Statements without blocks among them."""
    return tuple(
        [s for n in statements for s in (flat(n.statements) if isinstance(n, Script) else (n,))]
    )


def as_expression(body: Script) -> Node | None:
    """A body that only chooses between expressions as one expression, so that Simplify sees it."""
    first, *rest = body.statements
    match first:
        case Return(value):
            return value
        case If(branches):
            *chosen, (_, otherwise) = arms(branches)
            if rest and sum(NEXT in ways(arm) for _, arm in arms(branches)) > 1:
                return None  # what follows would be there twice
            result = _followed(otherwise, tuple(rest))
            for condition, arm in reversed(chosen):
                value = _followed(arm, tuple(rest))
                if result is None or value is None:
                    return None
                result = Call(Variable("ifelse"), (condition, value, result), span=first.span)
            return result
    return None


def _followed(arm: Node, rest: tuple[Node, ...]) -> Node | None:
    """An arm and what follows it."""
    statements = flat((arm,))
    if NEXT in ways(arm):
        statements = (*statements, *flat(rest))
    return as_expression(Script(statements)) if statements else None
