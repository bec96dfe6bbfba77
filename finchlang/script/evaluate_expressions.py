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
from finchlang.script.linear_algebra import MATRIX
from finchlang.script.show import joined, kind_of, text
from finchlang.script.subscripts import ALL, shape_of, subscript
from finchlang.script.tensor_arithmetic import (
    SIGNS,
    Identity,
    Pending,
    Row,
    called,
    combined,
    elementwise,
    forced,
    is_lazy,
    part_of,
    stacked,
    takes,
)
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.tensor import Scalar
from finchlang.text.other_languages import explained
from finchlang.text.print import INFIX, pretty
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

    def by_elements(self, function: Any, *args: Any) -> Any:
        """`function.(args...)`, lazily for tensors."""
        return elementwise(function, list(args), lambda *xs: self(function, *xs))

    def run_kernel(self, *args: Any) -> Any:
        return self.evaluator.run_kernel(*args)


class Expressions:
    """Turns nodes into closures. The method with the name of a kind of node takes such a node and the scope
    around it, and makes the closures of its parts once. `output` prints, `run_kernel` runs kernels."""

    depth = 0  # of calls of the script's functions
    unknown_calls = 0  # how many calls have been turned into closures that may run anything

    closure: Callable[[ast.Node, Scope], Closure]
    #: the closure of an operator with a dot (`a .+ b`)
    dotted: Callable[..., Closure]

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        self.run_kernel = run_kernel
        self.output = output or (lambda s: sys.stdout.write(s))

    def closures(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        return [self.closure(node, scope) for node in nodes]

    def operands(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        """The closures of operands of an array operation, whose values may be lazy unless one behind them may
        change something."""
        found, counts = [], []
        for node in nodes:
            found.append(self.lazy_closure(node, scope))
            counts.append(self.unknown_calls)
        pairs = zip(found, counts, strict=True)
        return [c if n == self.unknown_calls else self.forcing(c) for c, n in pairs]

    def lazy_closure(self, node: ast.Node, scope: Scope) -> Closure:
        """As `closure`, but the value may be lazy."""
        made = _LAZY.get(type(node))
        return self.closure(node, scope) if made is None else getattr(self, made)(node, scope, True)

    def forcing(self, run: Closure) -> Closure:
        """`run`, with lazy values computed."""

        def force(env: Environment) -> Any:
            found = run(env)
            is_done = type(found) is not Pending and type(found) is not Row
            return found if is_done else forced(found, self.run_kernel)

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

    def several(
        self, nodes: tuple[ast.Node, ...], scope: Scope
    ) -> Callable[[Environment], list[Any]]:
        """The values of arguments or elements, with all entries of those that are splat."""
        if not any(isinstance(node, ast.Splat) for node in nodes):
            given = self.closures(nodes, scope)
            return lambda env: [each(env) for each in given]
        parts = [
            (self.closure(node.value if isinstance(node, ast.Splat) else node, scope), type(node))
            for node in nodes
        ]

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

    def Subscript(self, node: ast.Subscript, scope: Scope, keeps: bool = False) -> Closure:
        """The part of a value; of an array that is lazy, lazily: `(A * B)[1, 2]` is one sum."""
        value, indices = self.lazy_closure(node.object, scope), self.places(node, scope)
        span = node.span

        def entry(env: Environment) -> Any:
            try:
                found = value(env)
                at = indices(env, found)
                if is_lazy(found) and (keeps or type(found) is Pending):
                    part = part_of(found, at)
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

    # ---------------------------------------------------------------- calls

    def Call(self, node: ast.Call | ast.KeywordCall, scope: Scope, keeps: bool = False) -> Closure:
        op, span = node.op, node.span
        is_named = isinstance(op, ast.Variable)
        if is_named and op.name[0] == ".":
            return self.dotted(node, scope, keeps)
        meant = (
            functions.PREDEFINED.get(op.name) if is_named and not scope.is_local(op.name) else None
        )
        is_known = is_named and meant is not None and (op.name in SIGNS or _is_of_arrays(meant))
        has_splat = any(isinstance(arg, ast.Splat) for arg in node.args)
        if isinstance(node, ast.KeywordCall) or has_splat:
            pairs = node.keywords if isinstance(node, ast.KeywordCall) else ()
            given = [(name, self.closure(value, scope)) for name, value in pairs]
            called, several = self.closure(op, scope), self.several(node.args, scope)
            if is_known and not has_splat:
                operands = self.operands(node.args, scope)
                several = lambda env: [arg(env) for arg in operands]  # noqa: E731
            else:
                self.unknown_calls += 1

            def call_with_keywords(env: Environment) -> Any:
                function, args = called(env), several(env)
                if is_known and function is not meant:
                    args = [forced(arg, self.run_kernel) for arg in args]
                return self.apply(
                    function, args, {n: value(env) for n, value in given}, span, keeps
                )

            return placed(span, call_with_keywords)
        arguments = (self.operands if is_known else self.closures)(node.args, scope)
        if is_named:
            return self.call_by_name(node, arguments, scope, keeps)
        self.unknown_calls += 1
        return self.call_of(self.closure(op, scope), arguments, span)

    KeywordCall = Call

    def call_of(
        self,
        called: Closure,
        arguments: list[Closure],
        span: Span | None,
        keeps: bool = False,
        meant: Any = None,
    ) -> Closure:
        """A call; one whose name is `meant` to take lazy arrays, unless the script has bound it."""

        def call(env: Environment) -> Any:
            try:
                function, args = called(env), [arg(env) for arg in arguments]
                if meant is not None and function is not meant:
                    args = [forced(arg, self.run_kernel) for arg in args]
                return self.apply(function, args, {}, span, keeps)
            except FinchError as error:
                raise error.at(span) from None

        return call

    def call_by_name(
        self, node: ast.Call, arguments: list[Closure], scope: Scope, keeps: bool = False
    ) -> Closure:
        """A call of the function that a name is bound to in the script, or else in the language."""
        op, span = node.op, node.span
        assert isinstance(op, ast.Variable)
        meant = functions.PREDEFINED.get(op.name)
        if scope.is_local(op.name) or not isinstance(meant, (Operator, data.Builtin, types.Type)):
            self.unknown_calls += op.name not in ("&&", "||")
        elif isinstance(meant, data.Builtin) and (meant.calls or op.name[-1] == "!"):
            self.unknown_calls += not meant.is_lazy
        is_lazy = op.name in SIGNS or _is_of_arrays(meant)
        own_meaning = meant if is_lazy and not scope.is_local(op.name) else None
        bound = self.call_of(self.Variable(op, scope), arguments, span, keeps, own_meaning)
        if scope.is_local(op.name):
            return bound
        if op.name in ("&&", "||", "ifelse"):
            own = placed(span, lazy(op.name, arguments))
        elif isinstance(meant, Operator):
            return self.call_operator(meant, node, bound, arguments, keeps)
        else:
            return bound
        name = op.name
        return lambda env: bound(env) if name in env.outermost else own(env)

    def call_operator(
        self, op: Operator, node: ast.Call, bound: Closure, arguments: list[Closure], keeps: bool
    ) -> Closure:
        """A call of an operator of the table, directly if all arguments are Python's own numbers; of what
        its name is `bound` to if the script has bound it."""
        known, span, name = data.plain_functions(op), node.span, node.op.name  # type: ignore[attr-defined]

        def call(env: Environment) -> Any:
            if name in env.outermost:
                return bound(env)
            try:
                args = [arg(env) for arg in arguments]
                function = known[tuple(map(type, args))]
                return (
                    self.apply(op, args, {}, span, keeps) if function is None else function(*args)
                )
            except FinchError as error:
                raise _with_dot(error, node).at(span) from None

        def call_of_two(env: Environment) -> Any:  # as `call`, quicker: most operators take two
            if name in env.outermost:
                return bound(env)
            try:
                a, b = left(env), right(env)
                function = known[type(a), type(b)]
                if function is None:
                    return self.apply(op, [a, b], {}, span, keeps)
                return function(a, b)
            except FinchError as error:
                raise _with_dot(error, node).at(span) from None

        if len(arguments) != 2:
            return call
        left, right = arguments
        return call_of_two

    def apply(
        self,
        function: Any,
        args: list[Any],
        keywords: dict[str, Any],
        span: Span | None,
        keeps: bool = False,
    ) -> Any:
        """`function(args...; keywords...)`, which may be lazy if the caller `keeps` it so. Raises FinchError
        "type" for a value that is no function."""
        if isinstance(function, data.Builtin):
            found = self.apply_builtin(function, args, keywords, span, keeps)
            return found if keeps else forced(found, self.run_kernel)
        if isinstance(function, functions.FinchFunction):
            return self.enter(function, args, keywords, span)
        if keywords:
            raise FinchError("type", f"{kind_of(function)} takes no keyword arguments", span)
        if isinstance(function, types.Type):
            function = OPERATORS[function.name]
        try:
            if isinstance(function, Operator):
                if takes(function.name, args):
                    found = combined(function.name, args)
                    return found if keeps else forced(found, self.run_kernel)
                args = [forced(arg, self.run_kernel) for arg in args]
                if function.name in MATRIX and any(map(data.is_array, args)):
                    return MATRIX[function.name](*args)
                return data.operate(function, args)
            if isinstance(function, functions.LevelName):
                return level_or_scalar(function.name, function.parameters, tuple(args))
            if isinstance(function, Identity):
                return function.of_size(*args)
            if isinstance(function, functions.MaskName):
                return MaskValue(function.name, tuple(args))
        except functions.PYTHON_FAULTS as error:
            name = getattr(function, "name", "I")
            what = name if isinstance(function, functions.LevelName) else f"`{name}`"
            raise functions.fault(error, what, span) from None
        raise FinchError("type", f"{kind_of(function)} is no function", span)

    def apply_builtin(
        self,
        function: data.Builtin,
        args: list[Any],
        keywords: dict[str, Any],
        span: Span | None,
        keeps: bool = False,
    ) -> Any:
        try:
            if function.is_lazy:
                found = called(function.name, args, keywords, keeps)
                if found is not NotImplemented:
                    return found
                args = [forced(arg, self.run_kernel) for arg in args]
            elif Pending in map(type, args) and not function.takes_lazy:
                what = f"`{function.name}` takes arrays that are computed"
                raise FinchError("type", what, span, "write `compute(B)` in the place of `B`")
            if function.prints:
                args = [self.output, *args]
            elif function.calls:
                args = [Caller(self, span), *args]
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


#: the methods that make closures whose values may be lazy
_LAZY = {
    **{ast.Call: "Call", ast.KeywordCall: "Call", ast.Broadcast: "Broadcast"},
    **{ast.Subscript: "Subscript"},
}


def _is_of_arrays(meant: Any) -> bool:
    return isinstance(meant, data.Builtin) and meant.is_lazy


def _with_dot(error: FinchError, node: ast.Call) -> FinchError:
    """The error with the code of the call by elements as its hint, where it tells of a dot."""
    if error.hint is not data.WITH_DOT:
        return error
    op, args = node.op, node.args
    assert isinstance(op, ast.Variable)
    is_sign = op.name in INFIX or op.name == "!"
    dotted = ast.Call(ast.Variable(f".{op.name}"), args) if is_sign else ast.Broadcast(op, args)
    return FinchError(error.kind, error.message, error.span, f"write `{pretty(dotted)}`")


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
    guess = did_you_mean(name, known, "")
    return explained(FinchError("unknown name", f"{name} is not defined", span, guess))
