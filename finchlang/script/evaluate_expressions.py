"""Names and simple expressions of the script stratum, as closures over an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError, Span, did_you_mean
from finchlang.calls.environment import Environment, Scope
from finchlang.levels.workspace import POLICIES
from finchlang.levels.workspace.workspace import Workspace
from finchlang.operators.operator_table import literal_type
from finchlang.script.functions import PREDEFINED, LevelName
from finchlang.script.show import joined, text
from finchlang.script.subscripts import ALL, shape_of, subscript
from finchlang.script.values import FinchRange, array_literal, held, number
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.tensor import Scalar
from finchlang.text.other_languages import explained

#: a node of a script ready to run: returns its value, None for statements without one
Closure = Callable[[Environment], Any]


class Expressions:
    """Turns nodes into closures. The method with the name of a kind of node takes such a node and the scope
    around it, and makes the closures of its parts once, not at each run."""

    closure: Callable[[ast.Node, Scope], Closure]

    def closures(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        return [self.closure(node, scope) for node in nodes]

    def Literal(self, node: ast.Literal, scope: Scope) -> Closure:
        type = literal_type(node)
        value = node.value if type is None else number(node.value, type)
        return lambda env: value

    def Variable(self, node: ast.Variable, scope: Scope) -> Closure:
        return self.named(node.name, node.span, scope)

    def named(self, name: str, span: Span | None, scope: Scope) -> Closure:
        """The value of a name, bound in the script or predefined."""
        values, is_local = scope.values_with(name), scope.is_local(name)

        def missing(env: Environment) -> Any:
            if name in PREDEFINED and not is_local:
                return PREDEFINED[name]
            raise _unknown(name, span, is_local, env) from None

        def value(env: Environment) -> Any:
            try:
                return values(env)[name]
            except KeyError:
                return missing(env)

        def own_value(env: Environment) -> Any:  # as `value`, of this very scope: the usual case
            try:
                return env.values[name]
            except KeyError:
                return missing(env)

        return own_value if scope.owner(name) is scope else value

    def Text(self, node: ast.Text, scope: Scope) -> Closure:
        parts = [p if isinstance(p, str) else self.closure(p, scope) for p in node.parts]

        def string(env: Environment) -> str:
            return joined([p if isinstance(p, str) else text(p(env)) for p in parts])

        return placed(node.span, string)

    def Range(self, node: ast.Range, scope: Scope) -> Closure:
        step = ast.Literal(1) if node.step is None else node.step
        first, start, stop = self.closures((step, node.start, node.stop), scope)

        def range(env: Environment) -> FinchRange:
            step = first(env)
            return FinchRange(start(env), step, stop(env))

        return placed(node.span, range)

    def Rows(self, node: ast.Rows, scope: Scope) -> Closure:
        rows, is_matrix = [self.closures(row, scope) for row in node.rows], node.is_matrix

        def array(env: Environment) -> Any:
            return array_literal([[entry(env) for entry in row] for row in rows], is_matrix)

        return placed(node.span, array)

    def Group(self, node: ast.Group, scope: Scope) -> Closure:
        items = self.closures(node.items, scope)
        return lambda env: tuple([item(env) for item in items])

    def Subscript(self, node: ast.Subscript, scope: Scope) -> Closure:
        value, indices = self.closure(node.object, scope), self.places(node, scope)
        span = node.span

        def entry(env: Environment) -> Any:
            try:
                found = value(env)
                return subscript(found, indices(env, found))
            except FinchError as error:
                error.at(span)
                raise

        def content(env: Environment) -> Any:
            found = value(env)
            return held(found) if isinstance(found, Scalar) else entry(env)

        return entry if node.indices else content

    def places(self, node: ast.Subscript, scope: Scope) -> Callable[[Environment, Any], list[Any]]:
        """The function that gives the indices into a value; in them `end` is the size of the dimension."""
        inner, has_end = Scope(scope, ("end",)), any(map(_has_end, node.indices))
        indices: list[Closure] = [
            (lambda env: ALL)
            if isinstance(index, ast.Colon)
            else self.closure(index, inner if has_end else scope)
            for index in node.indices
        ]

        def places(env: Environment, value: Any) -> list[Any]:
            return [index(env) for index in indices]

        def places_with_end(env: Environment, value: Any) -> list[Any]:
            shape = shape_of(value)
            if len(shape) != len(indices):  # an error that `subscript` reports
                shape = (*shape, *[0] * len(indices))[: len(indices)]
            within = [Environment(inner, env, {"end": size}) for size in shape]
            return [index(each) for index, each in zip(indices, within, strict=True)]

        return places_with_end if has_end else places

    def Typed(self, node: ast.Typed, scope: Scope) -> Closure:
        """`x::Int64`: the value of x. Raises FinchError "type" unless it is a number of that type."""
        value = self.Variable(node.name, scope)
        if types.named_type(node.kind) is None:
            raise FinchError("syntax", f"there is no type {node.kind}", node.span)

        def typed(env: Environment) -> Any:
            found = types.type_of_value(value(env))
            if found is None or found.name != node.kind:
                what = f"a {found}" if found else "no number"
                message = f"{node.name.name} is {what}, not a {node.kind}"
                raise FinchError("type", message, node.span)
            return value(env)

        return typed

    def Mode(self, node: ast.Mode, scope: Scope) -> Closure:
        hint = "write it in a kernel"
        raise FinchError("syntax", "a tensor has a mode in a kernel only", node.span, hint)

    def Parametric(self, node: ast.Parametric, scope: Scope) -> Closure:
        name, span = node.name, node.span
        parameters = [self.parameter(name, node, scope) for node in node.parameters]

        def level(env: Environment) -> LevelName:
            if name in LEVELS:
                return LevelName(name, tuple([parameter(env) for parameter in parameters]))
            hint = did_you_mean(name, LEVELS, "") or f"levels: {', '.join(LEVELS)}"
            error = FinchError("unknown name", f"there is no level {name}", span, hint)
            raise explained(error)

        return level

    def parameter(self, name: str, node: ast.Node, scope: Scope) -> Closure:
        """A parameter of the level `name`; a policy of a workspace is its name."""
        given = self.closure(node, scope)
        if name != Workspace.__name__ or not isinstance(node, ast.Variable):
            return given
        policy = node.name
        if policy in POLICIES:
            return lambda env: policy

        def known(env: Environment) -> Any:
            try:
                return given(env)
            except FinchError:
                hint, message = f"policies: {', '.join(POLICIES)}", f"there is no policy {policy}"
                raise FinchError("unknown name", message, node.span, hint) from None

        return known


def _has_end(node: ast.Node) -> bool:
    """Whether `end` stands in an index, outside of the indices of another subscript in it."""
    below = [node.object] if isinstance(node, ast.Subscript) else trees.children(node)
    return node == ast.Variable("end") or any(map(_has_end, below))


def placed(span: Span | None, run: Closure) -> Closure:
    """`run`, with errors placed at `span` if they have no place yet."""

    def placed_run(env: Environment) -> Any:
        try:
            return run(env)
        except FinchError as error:
            error.at(span)
            raise

    return placed_run


def _unknown(name: str, span: Span | None, is_local: bool, env: Environment) -> FinchError:
    if is_local:
        message = f"{name} is local to this function and has no value yet"
        hint = "what a function assigns to is its own: give it a value first, or pass it in"
        return FinchError("unknown name", message, span, hint)
    return unknown_name(name, span, {*env.names(), *PREDEFINED})


def unknown_name(name: str, span: Span | None, known: set[str]) -> FinchError:
    guess = did_you_mean(name, known, "")
    return explained(FinchError("unknown name", f"{name} is not defined", span, guess))
