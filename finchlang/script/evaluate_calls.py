"""Calls in the script stratum: of operators, built-in functions and the script's own, as closures."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script import functions, values as data
from finchlang.script.builtins import level_or_scalar
from finchlang.script.evaluate_expressions import Closure, Expressions, Leave, all_of, placed
from finchlang.script.lazy_values import Identity, Pending, is_lazy
from finchlang.script.linear_algebra import MATRIX, identity_matrix
from finchlang.script.show import kind_of
from finchlang.script.staged_loops import StagedLoop, StagedLoops
from finchlang.script.tensor_arithmetic import SIGNS, combined, elementwise, forced, lazily, takes
from finchlang.syntax import nodes as ast, types
from finchlang.text.meant import INDEXED, SHADOWED
from finchlang.text.print import pretty, with_dot
from finchlang.wrappers.masks import MaskValue

#: calls of a script's functions may nest so deeply
CALL_DEPTH = 5_000
#: as so many calls counts one of a built-in function that calls them: Python's own stack, which is that of
#: the process, goes through C there
BUILT_IN = 2
#: what runs a script in a thread: a function of Python that it calls, as its output, may run another
RUNNING: ContextVar[Any] = ContextVar("RUNNING", default=None)


class Caller(NamedTuple):
    """The first argument of built-in functions that call others, with the place of their own call."""

    evaluator: Any
    span: Span | None

    def __call__(self, function: Any, *args: Any) -> Any:
        return self.evaluator.apply(function, list(args), {}, self.span)

    def mapped(self, function: Any, *values: Any) -> Any:
        """The results of a function for the entries of values, if it is run whole, else None."""
        loops = self.evaluator.loops
        return None if loops is None else loops.mapped(function, values)

    def each(self, function: Any, *values: Any) -> Any:
        """The results of a function for the entries of values."""
        found = self.mapped(function, *values)
        if found is not None:
            return found
        return [self(function, *xs) for xs in zip(*map(data.entries, values), strict=False)]

    def by_elements(self, function: Any, *args: Any) -> Any:
        """`function.(args...)`, lazily for tensors."""
        run = self.evaluator.run_kernel
        return elementwise(function, list(args), lambda *xs: self(function, *xs), run)

    def lazily(self, value: Any) -> Pending:
        """An array as a lazy one that is kept so."""
        found = lazily().pending([value], lambda node: node)
        found.is_kept = True
        return found

    def computed(self, values: list[Pending]) -> list[Any]:
        return lazily().computed(values, self.evaluator.run_kernel)


class Calls(Expressions):
    """Turns calls into closures, and applies functions to values."""

    depth = 0  # of calls of the script's functions
    loops: StagedLoops | None = None  # those that are run whole

    #: the closure of an operator with a dot (`a .+ b`)
    dotted: Callable[..., Closure]

    def Call(
        self,
        node: ast.Call | ast.KeywordCall,
        scope: Scope,
        keeps: bool = False,
        arguments: list[Closure] | None = None,
    ) -> Closure:
        """A call of the function that a name is bound to in the script, or else in the language; or of
        another value. Its arguments may be closures already."""
        op, span = node.op, node.span
        name = op.name if isinstance(op, ast.Variable) else ""
        if name[:1] == ".":
            return self.dotted(node, scope, keeps)
        meant = None if scope.is_local(name) else functions.PREDEFINED.get(name)
        of_arrays = isinstance(meant, data.Builtin) and meant.is_lazy
        is_known = of_arrays or name in SIGNS and meant is not None  # to take lazy arrays
        if arguments is None and not any(isinstance(arg, ast.Splat) for arg in node.args):
            arguments = (self.operands if is_known else self.closures)(node.args, scope)
        several = self.several(node.args, scope) if arguments is None else all_of(arguments)
        self.unknown_calls += not (name in ("&&", "||") or _runs_nothing(meant, name))
        pairs = node.keywords if isinstance(node, ast.KeywordCall) else ()
        keywords = {name: self.closure(value, scope) for name, value in pairs}
        called = self.closure(op, scope)

        def bound(env: Environment) -> Any:
            try:
                function, args = called(env), several(env)
                if is_known and function is not meant:  # the script has bound its name
                    args = [forced(arg, self.run_kernel) for arg in args]
                named = {name: value(env) for name, value in keywords.items()} if keywords else {}
                return self.apply(function, args, named, span, keeps)
            except FinchError as error:
                if error.hint in (SHADOWED, INDEXED) and error.span == span:
                    function = called(env)
                    if isinstance(function, data.Builtin):  # it was given what is no function
                        error.hint = f"`{function.usage}`: {function.doc}"
                raise error.at(span) from None

        if arguments is None or keywords or scope.is_local(name):
            return bound
        if name in ("&&", "||", "ifelse"):
            own = placed(span, lazy(name, arguments))
        elif isinstance(meant, Operator):
            own = self.call_operator(meant, node, arguments, keeps)  # type: ignore[arg-type]
        else:
            return bound
        return lambda env: bound(env) if name in env.outermost else own(env)

    KeywordCall = Call

    def call_operator(
        self, op: Operator, node: ast.Call, arguments: list[Closure], keeps: bool
    ) -> Closure:
        """A call of an operator of the table, directly if all arguments are Python's own numbers."""
        known, span = data.plain_functions(op), node.span

        def call(env: Environment) -> Any:
            try:
                args = [arg(env) for arg in arguments]
                function = known[tuple(map(type, args))]
                if function is None:
                    return self.apply(op, args, {}, span, keeps)
                return function(*args)
            except FinchError as error:
                raise _with_dot(error, node).at(span) from None

        def call_of_two(env: Environment) -> Any:  # as `call`, quicker: most operators take two
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
        """`function(args...; keywords...)`, which may be lazy if the caller `keeps` it so. Raises
        FinchError "type" for a value that is no function."""
        if isinstance(function, data.Builtin):
            found = self.apply_builtin(function, args, keywords, span, keeps)
            return found if keeps else forced(found, self.run_kernel)
        if isinstance(function, functions.FinchFunction):
            return self.enter(function, args, keywords, span)
        if keywords:
            what = f"`{function.name}`" if isinstance(function, Operator) else kind_of(function)
            raise FinchError("type", f"{what} takes no keyword arguments", span)
        if isinstance(function, types.Type):
            function = OPERATORS[function.name]
        try:
            if isinstance(function, Operator):
                if takes(function.name, args):
                    found = combined(function.name, args)
                    return found if keeps else forced(found, self.run_kernel)
                args = [forced(arg, self.run_kernel) for arg in args]
                if function.name == "!" and kind_of(args[0]) == "a function":
                    return self.negated(function, args[0])
                if Pending in map(type, args):
                    message = f"`{function.name}` takes values that are computed"
                    raise FinchError("type", message, span, "write `compute(x)` for a lazy `x`")
                if function.name in MATRIX and any(map(data.is_array, args)):
                    return MATRIX[function.name](*args)
                return data.directly(function, args)
            if isinstance(function, functions.LevelName):
                return level_or_scalar(function.name, function.parameters, tuple(args))
            if isinstance(function, Identity):
                return identity_matrix(function, *args)
            if isinstance(function, (functions.MaskName, MaskValue)):
                return MaskValue(function.name, tuple(args))
        except functions.PYTHON_FAULTS as error:
            name = getattr(function, "name", "I")
            what = name if isinstance(function, functions.LevelName) else f"`{name}`"
            raise functions.fault(error, what, span) from None
        hint = INDEXED if data.is_array(function) else SHADOWED
        raise FinchError("type", f"{kind_of(function)} is no function", span, hint)

    def negated(self, negation: Operator, function: Any) -> data.Builtin:
        """`!f`: the function that is true where `f` is not."""
        name = f"!{getattr(function, 'name', 'f')}"

        def applied(call: Caller, *args: Any) -> Any:
            return call(negation, call(function, *args))

        return data.Builtin(name, applied, calls=True)

    def apply_builtin(
        self,
        function: data.Builtin,
        args: list[Any],
        keywords: dict[str, Any],
        span: Span | None,
        keeps: bool = False,
    ) -> Any:
        calls = BUILT_IN if function.calls else 0
        self.depth += calls
        try:
            if function.is_lazy and any(map(is_lazy, args)):
                if keywords.keys() - {"dims", "init"}:
                    functions.check_call(function, [None] * function.calls + args, keywords)
                found = lazily().called(function.name, args, keywords, keeps)
                if found is not NotImplemented:
                    return found
            if function.is_lazy:
                pairs = ((arg, type(arg) is Pending) for arg in args)
                args = [forced(arg, self.run_kernel) if lazy else arg for arg, lazy in pairs]
            elif Pending in map(type, args) and not function.takes_lazy:
                what = f"`{function.name}` takes arrays that are computed"
                raise FinchError("type", what, span, "write `compute(B)` in the place of `B`")
            if function.calls:
                args = [Caller(self, span), *args]
            return function.function(*args, **keywords)
        except functions.PYTHON_FAULTS as error:
            functions.check_call(function, args, keywords)
            raise functions.fault(error, f"`{function.usage}`", span) from None
        finally:
            self.depth -= calls

    def enter(
        self,
        function: functions.FinchFunction,
        args: list[Any],
        keywords: dict[str, Any],
        span: Span | None,
    ) -> Any:
        definition = function.definition
        environment = functions.arguments(function, args, keywords, span)
        if self.depth >= CALL_DEPTH:
            name = definition.name
            raise FinchError("resource", f"{name} is called more than {CALL_DEPTH} deep", span)
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
        loops = self.loops
        if loops is not None and function.is_staged:
            whole = function.whole = function.whole or StagedLoop(function.definition)
            # calls of the function within are not counted, and must not be too many
            if whole.is_tried(environment) and self.depth < CALL_DEPTH // 2:
                done = loops.rounds(whole, environment)
                if isinstance(done, tuple):
                    return done[1]
                whole.went_on()
            whole.rounds += 1
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


def _runs_nothing(meant: Any, name: str) -> bool:
    """Whether calling what a name means in the language runs nothing of the script and changes nothing."""
    if isinstance(meant, data.Builtin) and (meant.calls or name[-1] == "!"):
        return meant.is_lazy
    return isinstance(meant, (Operator, data.Builtin, types.Type))


def _with_dot(error: FinchError, node: ast.Call) -> FinchError:
    """The error with the code of the call by elements as its hint, where it tells of a dot."""
    if error.hint is not data.WITH_DOT:
        return error
    assert isinstance(node.op, ast.Variable)
    code, sign = pretty(with_dot(node.op, node.args)), node.op.name
    if sign in "&|" and not any(isinstance(arg, ast.Call) for arg in node.args):
        hint = f"`{sign}` goes before comparisons: write `(a .> 1) .{sign} (b .< 3)`"
        return FinchError(error.kind, error.message, error.span, hint)
    return FinchError(error.kind, error.message, error.span, f"write `{code}`")
