"""How statements of a function end, and so which ways lead through them."""

from __future__ import annotations

from finchlang.syntax import nodes as ast, traversal as trees

#: how a statement ends: what follows it is next, or it leaves a step of a loop, a loop, or the function
NEXT, CONTINUE, BREAK, RETURN = range(4)
Ways = frozenset[int]


@trees.remembered
def ways(node: ast.Node) -> Ways:
    match node:
        case ast.Return():
            return frozenset((RETURN,))
        case ast.Break():
            return frozenset((BREAK,))
        case ast.Continue():
            return frozenset((CONTINUE,))
        case ast.If(branches):
            return frozenset().union(*(ways(body) for _, body in arms(branches)))
        case ast.While(condition, body):
            inside = ways(body)
            is_left = condition != ast.Literal(True) or BREAK in inside
            return (inside & {RETURN}) | ({NEXT} if is_left else frozenset())
        case ast.For(_, _, body):
            return (ways(body) & {RETURN}) | {NEXT}
        case ast.Script(statements):
            found = frozenset((NEXT,))
            for statement in statements:
                if NEXT in found:
                    found = (found - {NEXT}) | ways(statement)
            return found
    return frozenset((NEXT,))


def arms(branches: tuple[tuple[ast.Node, ast.Node], ...]) -> tuple[tuple[ast.Node, ast.Node], ...]:
    """The branches of an `if`, with an empty `else` if there is none."""
    is_whole = bool(branches) and branches[-1][0] == ast.Literal(True)
    return branches if is_whole else (*branches, (ast.Literal(True), ast.Script(())))


def flat(statements: tuple[ast.Node, ...]) -> tuple[ast.Node, ...]:
    """Statements with nested blocks flattened."""
    parts = (flat(s.statements) if isinstance(s, ast.Script) else (s,) for s in statements)
    return tuple([statement for part in parts for statement in part])


def as_expression(body: ast.Script) -> ast.Node | None:
    """A body that only chooses between expressions as one expression, so that Simplify sees it."""
    first, *rest = body.statements
    match first:
        case ast.Return(value):
            return value
        case ast.If(branches):
            *chosen, (_, otherwise) = arms(branches)
            if rest and sum(NEXT in ways(arm) for _, arm in arms(branches)) > 1:
                return None  # what follows would have to be copied
            result, op = _followed(otherwise, tuple(rest)), ast.Variable("ifelse")
            for condition, arm in reversed(chosen):
                value = _followed(arm, tuple(rest))
                if result is None or value is None:
                    return None
                result = ast.Call(op, (condition, value, result), span=first.span)
            return result
    return None


def _followed(arm: ast.Node, rest: tuple[ast.Node, ...]) -> ast.Node | None:
    statements = flat((arm,))
    if NEXT in ways(arm):
        statements = (*statements, *flat(rest))
    return as_expression(ast.Script(statements)) if statements else None
