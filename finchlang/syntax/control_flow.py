"""How statements of a function end, and so which ways lead through them, with which names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from finchlang.base.records import record
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.nodes import Node

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
        case ast.For(_, _, body, _, joined):
            return (ways(body) & {RETURN, BREAK if joined else RETURN}) | {NEXT}
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


# ------------------------------------------------------------------- names that may have no value


@record(slots=True)
class Called(ast.Node):
    """The body of a function of the script where it is called; `return` leaves it."""

    body: Node  # spelled as traversals know it


#: told of a name that may have no value, and of the place where it is used
Unset = Callable[[str, Any], None]


def check_values(body: ast.Node, known: Iterable[str], unset: Unset) -> frozenset[str]:
    """Go through all ways through a body, on which the names `known` have a value; `unset` is called with
    the name and place of a use that another may lead to. Gives the names that have one behind it."""
    return _Values(unset).after(body, frozenset(known))


class _Values:
    """What has a value at the ends of the loops and calls around, by the way in which they are left."""

    def __init__(self, unset: Unset):
        self.unset = unset
        self.ends: dict[int, list[frozenset[str]]] = {CONTINUE: [], BREAK: [], RETURN: []}

    def use(self, node: ast.Node, known: frozenset[str]) -> None:
        if isinstance(node, ast.Variable):
            if node.name not in known:
                self.unset(node.name, node.span)
            return
        uses = getattr(node, "uses", None)  # a node may say itself which expressions it uses
        for part in trees.children(node) if uses is None else uses:
            if not (isinstance(node, ast.Call) and part is node.op):
                self.use(part, known)

    def after(self, node: ast.Node, known: frozenset[str]) -> frozenset[str]:
        """The names that have a value behind a statement, where `known` have one before it."""
        match node:
            case ast.Script(statements):
                for statement in flat(statements):
                    known = self.after(statement, known)
                    if NEXT not in ways(statement):
                        break
                return known
            case ast.Let(targets, _, value):
                self.use(value, known)
                return known | {target.name for target in targets}  # type: ignore[attr-defined]
            case ast.If(branches):
                found = []
                for condition, body in arms(branches):
                    self.use(condition, known)
                    behind = self.after(body, known)
                    found += [behind] if NEXT in ways(body) else []
                return frozenset.intersection(*found) if found else known
            case ast.While(condition, body):
                self.use(condition, known)
                left = self.left(BREAK, body, known)
                is_endless = condition == ast.Literal(True) and left
                return frozenset.intersection(*left) if is_endless else known
            case ast.For(name, ast.Extent() as range, body):
                self.use(range, known)
                self.left(BREAK, body, known | {name})
                return known
            case Called(body):
                left = self.left(RETURN, body, known)
                return frozenset.intersection(*left) if left else known
            case ast.Return() | ast.Break() | ast.Continue():
                if isinstance(node, ast.Return) and node.value is not None:
                    self.use(node.value, known)
                for way in ways(node):
                    self.ends[way].append(known)
            case _:
                self.use(node, known)
        return known

    def left(self, way: int, body: ast.Node, known: frozenset[str]) -> list[frozenset[str]]:
        """What is known where what `body` stands in is left: in this way, or, of a call, at its end."""
        around, self.ends[way] = self.ends[way], []
        behind = self.after(body, known)
        found, self.ends[way] = self.ends[way], around
        is_end = way == RETURN and NEXT in ways(body)
        return [*found, behind] if is_end else found
