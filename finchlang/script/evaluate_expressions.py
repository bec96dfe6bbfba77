"""Names, simple expressions and calls of the script stratum, as closures over an environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Hint, Span, did_you_mean
from finchlang.calls.environment import Environment, Scope
from finchlang.levels.workspace import POLICIES
from finchlang.levels.workspace.workspace import Workspace
from finchlang.operators.operator_table import literal_type
from finchlang.script import functions, values as data
from finchlang.script.lazy_values import Pending, is_lazy
from finchlang.script.show import joined, text
from finchlang.script.subscripts import ALL, subscript
from finchlang.script.tensor_arithmetic import forced, lazily, settled, stacked
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.tensor import Scalar
from finchlang.text.meant import called_by, explained

#: runs a kernel on the values of its free names, and returns what the kernel returns
RunKernel = Callable[[ast.KernelNode, Environment], Any]
#: a node of a script ready to run: returns its value, None for statements without one
Closure = Callable[[Environment], Any]


class Leave(Exception):
    """Raised by `break`, `continue` and `return`, and caught by the loop or function that they leave."""

    def __init__(self, node: ast.Return | ast.Break | ast.Continue, value: Any = None):
        self.node, self.value = node, value

    def outside(self) -> FinchError:
        word = type(self.node).__name__.lower()
        where = "a function" if isinstance(self.node, ast.Return) else "a loop"
        return FinchError("syntax", f"`{word}` stands outside of {where}", self.node.span)


class Expressions:
    """Turns nodes into closures. The method with the name of a kind of node takes such a node and the scope
    around it, and makes the closures of its parts once. `output` prints, `run_kernel` runs kernels."""

    unknown_calls = 0  # how many calls have been turned into closures that may run anything

    closure: Callable[[ast.Node, Scope], Closure]

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        self.run_kernel = run_kernel
        # standard output as it is then: tests and notebooks put another one there
        self.output = output or (lambda s: sys.stdout.write(s))

    def closures(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        return [self.closure(node, scope) for node in nodes]

    def operands(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        """The closures of operands, whose values may be lazy unless one behind may change something."""
        found, counts = [], []
        for node in nodes:
            found.append(self.lazy_closure(node, scope))
            counts.append(self.unknown_calls)
        pairs = zip(found, counts, strict=True)
        return [c if n == self.unknown_calls else self.forcing(c) for c, n in pairs]

    def lazy_closure(self, node: ast.Node, scope: Scope) -> Closure:
        """As `closure`, but the value may be lazy."""
        if type(node) not in _LAZY:
            return self.closure(node, scope)
        return getattr(self, type(node).__name__)(node, scope, True)

    def forcing(self, run: Closure) -> Closure:
        """`run`, with lazy values computed; a row stays one."""

        def force(env: Environment) -> Any:
            found = run(env)
            return settled(found, self.run_kernel) if type(found) is Pending else found

        return force

    def Literal(self, node: ast.Literal, scope: Scope) -> Closure:
        type = literal_type(node)
        value = node.value if type is None else data.number(node.value, type)
        return lambda env: value

    def Variable(self, node: ast.Variable, scope: Scope) -> Closure:
        """The value of a name, bound in the script or predefined."""
        name, span = node.name, node.span
        values, is_local = scope.values_with(name), scope.is_local(name)

        def missing(env: Environment) -> Any:
            if name in functions.PREDEFINED and not is_local:
                return functions.PREDEFINED[name]
            raise _unknown(name, span, is_local, env) from None

        def value(env: Environment) -> Any:
            try:
                return values(env)[name]
            except KeyError:
                return missing(env)

        return value

    def Text(self, node: ast.Text, scope: Scope) -> Closure:
        if all(isinstance(part, str) for part in node.parts):
            whole = joined(node.parts)
            return lambda env: whole
        parts = [p if isinstance(p, str) else self.closure(p, scope) for p in node.parts]

        def string(env: Environment) -> str:
            return joined([p if isinstance(p, str) else text(p(env)) for p in parts])

        return placed(node.span, string)

    def Extent(self, node: ast.Extent, scope: Scope) -> Closure:
        step = ast.Literal(1) if node.step is None else node.step
        first, start, stop = self.closures((step, node.start, node.stop), scope)

        def range(env: Environment) -> data.FinchRange:
            step = first(env)
            return data.FinchRange(start(env), step, stop(env))

        return placed(node.span, range)

    def Rows(self, node: ast.Rows, scope: Scope) -> Closure:
        rows, is_matrix = [self.several(row, scope) for row in node.rows], node.is_matrix

        def array(env: Environment) -> Any:
            found = [row(env) for row in rows]
            if is_matrix or len(found) > 1:
                given = [entry for row in found for entry in row]
                if any(data.is_array(entry) or data.is_vector(entry) for entry in given):
                    return forced(stacked(found), self.run_kernel)
                found = found if is_matrix else [given]
            return data.array_literal(found, is_matrix)

        return placed(node.span, array)

    def Numbers(self, node: ast.Numbers, scope: Scope) -> Closure:
        array = np.array(node.rows if node.is_matrix else node.rows[0], order="F")
        return lambda env: array.copy("F")

    def several(
        self, nodes: tuple[ast.Node, ...], scope: Scope
    ) -> Callable[[Environment], list[Any]]:
        """The values of arguments or elements, with all entries of those that are splat."""
        if not any(isinstance(node, ast.Splat) for node in nodes):
            return all_of(self.closures(nodes, scope))
        inner = [node.value if isinstance(node, ast.Splat) else node for node in nodes]
        parts = [*zip(self.closures(tuple(inner), scope), map(type, nodes), strict=True)]

        def values(env: Environment) -> list[Any]:
            found: list[Any] = []
            for value, kind in parts:
                found += data.entries(value(env)) if kind is ast.Splat else [value(env)]
            return found

        return values

    def Splat(self, node: ast.Splat, scope: Scope) -> Closure:
        hint = "write `f(v...)`, `[v...]` or `(v..., x)`"
        raise FinchError("syntax", "`...` stands behind an argument or element", node.span, hint)

    def Group(self, node: ast.Group, scope: Scope) -> Closure:
        items = self.several(node.items, scope)
        return placed(node.span, lambda env: tuple(items(env)))

    def Access(self, node: ast.Access, scope: Scope, keeps: bool = False) -> Closure:
        """The part of a value; of an array that is lazy, lazily: `(A * B)[1, 2]` is one sum."""
        value, indices = self.lazy_closure(node.tensor, scope), self.places(node, scope)
        span = node.span

        def entry(env: Environment) -> Any:
            try:
                found = value(env)
                at = indices(env, found)
                if is_lazy(found) and (keeps or type(found) is Pending):
                    part = lazily().part_of(found, at)
                    if part is not None:
                        return part if keeps else forced(part, self.run_kernel)
                return subscript(forced(found, self.run_kernel), at)
            except FinchError as error:
                raise error.at(span) from None

        def content(env: Environment) -> Any:
            found = forced(value(env), self.run_kernel)
            if isinstance(found, Scalar):
                return data.held(found)
            return found if data.is_number(found) else entry(env)

        return entry if node.indices else content

    def places(self, node: ast.Access, scope: Scope) -> Callable[[Environment, Any], list[Any]]:
        """The function that gives the indices into a value; in them `end` is the size of the dimension."""
        inner, has_end = Scope(scope, ("end",)), any(map(_has_end, node.indices))
        indices = self.closures(node.indices, inner if has_end else scope)

        def places(env: Environment, value: Any) -> list[Any]:
            return [index(env) for index in indices]

        def places_with_end(env: Environment, value: Any) -> list[Any]:
            shape = data.sizes(value, "cannot be indexed")
            if len(shape) != len(indices):  # an error that `subscript` reports
                shape = (*shape, *[0] * len(indices))[: len(indices)]
            within = [Environment(inner, env, {"end": size}) for size in shape]
            return [index(each) for index, each in zip(indices, within, strict=True)]

        return places_with_end if has_end else places

    def Colon(self, node: ast.Colon, scope: Scope) -> Closure:
        return lambda env: ALL

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

        def level(env: Environment) -> functions.LevelName:
            if name in LEVELS:
                return functions.LevelName(name, tuple([each(env) for each in parameters]))
            hint = did_you_mean(name, LEVELS) or f"levels: {', '.join(LEVELS)}"
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
    below = [node.tensor] if isinstance(node, ast.Access) else trees.children(node)
    return node == ast.Variable("end") or any(map(_has_end, below))


#: the nodes whose values may be lazy
_LAZY = (ast.Call, ast.KeywordCall, ast.Broadcast, ast.Access)


def all_of(closures: list[Closure]) -> Callable[[Environment], list[Any]]:
    """The values of several nodes."""
    return lambda env: [each(env) for each in closures]


def placed(span: Span | None, run: Closure) -> Closure:
    """`run`, with errors placed at `span` if they have no place yet."""

    def placed_run(env: Environment) -> Any:
        try:
            return run(env)
        except FinchError as error:
            raise error.at(span) from None

    return placed_run


def _unknown(name: str, span: Span | None, is_local: bool, env: Environment) -> FinchError:
    if is_local:
        message = f"{name} is local to this function and has no value yet"
        hint = "names of a function are its own: give this one a value first, or pass it in"
        return FinchError("unknown name", message, span, hint)
    return unknown_name(name, span, {*env.names(), *functions.PREDEFINED} - {"I"})


def unknown_name(name: str, span: Span | None, known: set[str]) -> FinchError:
    guess: str | None = did_you_mean(name, known)
    if name[-1] == "!" and name[:-1] in known:
        guess = f"`{name[:-1]}` leaves its argument as it is: write `x = {name[:-1]}(...)`"
    return explained(FinchError("unknown name", f"{name} is not defined", span, guess))


def named(error: FinchError, env: Environment, kernel: ast.KernelNode) -> FinchError:
    """The error of a kernel about a name, with what the script has of it as the hint."""
    from finchlang.text.foreign_names import is_foreign  # not needed where nothing is wrong

    span = error.span
    if span is None or isinstance(error.hint, Hint):
        return error
    if error.kind == "dimension":
        loops = trees.find_all(kernel, ast.Loop)
        given = {n.index.name for n in loops if isinstance(n.extent, ast.Extent)}
        if error.hint is None and span.text in given:
            over = f"`for {span.text} = _` goes over all of the dimension"
            error.hint = f"{over}, `x[~{span.text}]` over a part"
        return error
    name, _, call = span.text.partition("(")
    names = {*env.names()}
    if not is_foreign(name) and (guess := did_you_mean(name, names)):
        error.hint = guess
    elif name in names and not call and data.is_array(env.get(name)):
        return called_by(error)
    elif error.hint is None and error.message == f"`{name}` is not known":
        known = sorted(n for n in names if data.is_array(env.get(n)) or data.is_number(env.get(n)))
        is_few = 0 < len(known) < 9
        error.hint = f"the script has {', '.join(f'`{n}`' for n in known)}" if is_few else None
    return error
