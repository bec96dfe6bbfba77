"""Names, simple expressions and calls of the script stratum, as closures over an environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError, Span, did_you_mean
from finchlang.calls.environment import Environment, Scope
from finchlang.levels.workspace import POLICIES
from finchlang.levels.workspace.workspace import Workspace
from finchlang.operators.operator_table import OPERATORS, Operator, literal_type
from finchlang.script import functions, values as data
from finchlang.script.builtins import level_or_scalar
from finchlang.script.functions import arguments
from finchlang.script.show import joined, kind_of, text
from finchlang.script.subscripts import ALL, shape_of, subscript
from finchlang.script.tensor_arithmetic import compute, is_by_kernel
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.tensor import Scalar
from finchlang.text.meant import INDEXED, explained
from finchlang.wrappers.masks import MaskValue

#: runs a kernel on the values of its free names, and returns what the kernel returns
RunKernel = Callable[[ast.KernelNode, Environment], Any]
#: a node of a script ready to run: returns its value, None for statements without one
Closure = Callable[[Environment], Any]
#: calls of a script's functions may nest so deeply
CALL_DEPTH = 5_000


class Leave(Exception):
    """Raised by `break`, `continue` and `return`, and caught by the loop or function that they leave."""

    def __init__(self, node: ast.Return | ast.Break | ast.Continue, value: Any = None):
        super().__init__()
        self.node, self.value = node, value

    def outside(self) -> FinchError:
        word = type(self.node).__name__.lower()
        where = "a function" if isinstance(self.node, ast.Return) else "a loop"
        return FinchError("syntax", f"`{word}` stands outside of {where}", self.node.span)


class Caller(NamedTuple):
    """The first argument of built-in functions that call others, with the place of their own call."""

    evaluator: Any
    span: Span | None

    def __call__(self, function: Any, *args: Any) -> Any:
        return self.evaluator.apply(function, list(args), {}, self.span)


class Expressions:
    """Turns nodes into closures. The method with the name of a kind of node takes such a node and the scope
    around it, and makes the closures of its parts once. `output` prints, `run_kernel` runs kernels."""

    depth = 0  # of calls of the script's functions

    closure: Callable[[ast.Node, Scope], Closure]
    #: the closure of an operator with a dot (`a .+ b`)
    dotted: Callable[[ast.Call, Scope], Closure]

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        self.run_kernel = run_kernel
        self.output = output or (lambda s: sys.stdout.write(s))

    def closures(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        return [self.closure(node, scope) for node in nodes]

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

        def range(env: Environment) -> data.FinchRange:
            step = first(env)
            return data.FinchRange(start(env), step, stop(env))

        return placed(node.span, range)

    def Rows(self, node: ast.Rows, scope: Scope) -> Closure:
        rows, is_matrix = [self.closures(row, scope) for row in node.rows], node.is_matrix

        def array(env: Environment) -> Any:
            return data.array_literal([[entry(env) for entry in row] for row in rows], is_matrix)

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
                raise error.at(span) from None

        def content(env: Environment) -> Any:
            found = value(env)
            return data.held(found) if isinstance(found, Scalar) else entry(env)

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

    # ---------------------------------------------------------------- calls

    def Call(self, node: ast.Call | ast.KeywordCall, scope: Scope) -> Closure:
        op, span = node.op, node.span
        arguments = self.closures(node.args, scope)
        if isinstance(node, ast.KeywordCall):
            given = [(name, self.closure(value, scope)) for name, value in node.keywords]
            called = self.closure(op, scope)

            def call_with_keywords(env: Environment) -> Any:
                function, args = called(env), [arg(env) for arg in arguments]
                return self.apply(function, args, {n: value(env) for n, value in given}, span)

            return placed(span, call_with_keywords)
        if isinstance(op, ast.Variable) and op.name[0] == ".":
            return self.dotted(ast.Call(op, node.args, span=span), scope)
        if isinstance(op, ast.Variable):
            return self.call_by_name(op, arguments, span, scope)
        return self.call_of(self.closure(op, scope), arguments, span)

    KeywordCall = Call

    def call_of(self, called: Closure, arguments: list[Closure], span: Span | None) -> Closure:
        def call(env: Environment) -> Any:
            try:
                return self.apply(called(env), [arg(env) for arg in arguments], {}, span)
            except FinchError as error:
                raise error.at(span) from None

        return call

    def call_by_name(
        self, op: ast.Variable, arguments: list[Closure], span: Span | None, scope: Scope
    ) -> Closure:
        """A call of the function that a name is bound to in the script, or else in the language."""
        bound = self.call_of(self.Variable(op, scope), arguments, span)
        meant = functions.PREDEFINED.get(op.name)
        if scope.is_local(op.name):
            return bound
        if op.name in ("&&", "||", "ifelse"):
            own = placed(span, lazy(op.name, arguments))
        elif isinstance(meant, Operator):
            return self.call_operator(meant, op.name, bound, arguments, span)
        else:
            return bound
        name = op.name
        return lambda env: bound(env) if name in env.outermost else own(env)

    def call_operator(
        self, op: Operator, name: str, bound: Closure, arguments: list[Closure], span: Span | None
    ) -> Closure:
        """A call of an operator of the table, directly if all arguments are Python's own numbers; of what
        `name` is `bound` to if the script has bound it."""
        known = data.plain_functions(op)

        def call(env: Environment) -> Any:
            if name in env.outermost:
                return bound(env)
            try:
                args = [arg(env) for arg in arguments]
                function = known[tuple(map(type, args))]
                return self.apply(op, args, {}, span) if function is None else function(*args)
            except FinchError as error:
                raise error.at(span) from None

        def call_of_two(env: Environment) -> Any:  # as `call`, quicker: most operators take two
            if name in env.outermost:
                return bound(env)
            try:
                a, b = left(env), right(env)
                function = known[type(a), type(b)]
                return self.apply(op, [a, b], {}, span) if function is None else function(a, b)
            except FinchError as error:
                raise error.at(span) from None

        if len(arguments) != 2:
            return call
        left, right = arguments
        return call_of_two

    def apply(
        self, function: Any, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        """`function(args...; keywords...)`. Raises FinchError "type" for a value that is no function."""
        if isinstance(function, data.Builtin):
            return self.apply_builtin(function, args, keywords, span)
        if isinstance(function, functions.FinchFunction):
            return self.enter(function, args, keywords, span)
        if keywords:
            raise FinchError("type", f"{kind_of(function)} takes no keyword arguments", span)
        if isinstance(function, types.Type):
            function = OPERATORS[function.name]
        try:
            if isinstance(function, Operator):
                if is_by_kernel(function, args):
                    return compute(function, args, self.run_kernel)
                return data.operate(function, args)
            if isinstance(function, functions.LevelName):
                return level_or_scalar(function.name, function.parameters, tuple(args))
            if isinstance(function, functions.MaskName):
                return MaskValue(function.name, tuple(args))
        except functions.PYTHON_FAULTS as error:
            name = function.name
            what = name if isinstance(function, functions.LevelName) else f"`{name}`"
            raise functions.fault(error, what, span) from None
        hint = INDEXED if data.is_array(function) else None
        raise FinchError("type", f"{kind_of(function)} is no function", span, hint)

    def apply_builtin(
        self, function: data.Builtin, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        if function.prints:
            args = [self.output, *args]
        elif function.calls:
            args = [Caller(self, span), *args]
        try:
            return function.function(*args, **keywords)
        except functions.PYTHON_FAULTS as error:
            if isinstance(error, TypeError):
                functions.check_call(function, args, keywords)
            raise functions.fault(error, f"`{function.usage}`", span) from None

    def enter(
        self,
        function: functions.FinchFunction,
        args: list[Any],
        keywords: dict[str, Any],
        span: Span | None,
    ) -> Any:
        definition, environment = function.definition, None
        parameters = definition.parameters
        if keywords or definition.defaults or definition.types:
            environment = arguments(function, args, keywords, span)
        elif len(args) != len(parameters):
            message = f"{function} takes {len(parameters)} arguments, {len(args)} are given"
            raise FinchError("type", message, span)
        if self.depth >= CALL_DEPTH:
            name = definition.name
            raise FinchError("resource", f"{name} is called more than {CALL_DEPTH} deep", span)
        if environment is None:
            values = dict(zip(parameters, args, strict=True))
            environment = Environment(function.scope, function.parent, values)
        self.depth += 1
        try:
            result = self.run_body(function, environment)
        except Leave as leave:
            if not isinstance(leave.node, ast.Return):
                raise leave.outside() from None
            result = leave.value
        except FinchError as error:
            error.calls.append((definition.name, span))
            raise
        finally:
            self.depth -= 1
        return ast.NOTHING if result is None else result

    def run_body(self, function: functions.FinchFunction, environment: Environment) -> Any:
        """The value of a function's body in the environment of a call."""
        return function.body(environment)


def lazy(name: str, operands: list[Closure]) -> Closure:
    """`&&`, `||` and `c ? a : b`, which evaluate only the operands that they need."""
    count = 3 if name == "ifelse" else 2
    if len(operands) != count:

        def refuse(env: Environment) -> Any:
            raise FinchError("type", f"`{name}` does not take {len(operands)} arguments")

        return refuse
    first, second, third = operands[0], operands[1], operands[-1]

    def choose(env: Environment) -> Any:
        return second(env) if data.truth(first(env)) else third(env)

    def both(env: Environment) -> Any:
        return data.truth(first(env)) and second(env)

    def either(env: Environment) -> Any:
        return data.truth(first(env)) or second(env)

    return {"ifelse": choose, "&&": both, "||": either}[name]


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
            raise error.at(span) from None

    return placed_run


def _unknown(name: str, span: Span | None, is_local: bool, env: Environment) -> FinchError:
    if is_local:
        message = f"{name} is local to this function and has no value yet"
        hint = "what a function assigns to is its own: give it a value first, or pass it in"
        return FinchError("unknown name", message, span, hint)
    return unknown_name(name, span, {*env.names(), *functions.PREDEFINED})


def unknown_name(name: str, span: Span | None, known: set[str]) -> FinchError:
    guess = did_you_mean(name, known)
    return explained(FinchError("unknown name", f"{name} is not defined", span, guess))
