"""Calls in the script stratum: of operators, of built-in functions and of the script's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script.builtins import level_or_scalar
from finchlang.script.evaluate_expressions import Closure, Expressions, placed
from finchlang.script.functions import (
    PREDEFINED,
    PYTHON_FAULTS,
    FinchFunction,
    LevelName,
    MaskName,
    check_call,
    fault,
)
from finchlang.script.parameters import arguments
from finchlang.script.show import kind_of
from finchlang.script.tensor_arithmetic import compute, is_by_kernel
from finchlang.script.values import Builtin, operate, plain_functions, truth
from finchlang.syntax import nodes as ast, types
from finchlang.wrappers.masks import MaskValue

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
    """The first argument of built-in functions that call others: the evaluator, and where they are called
    themselves."""

    evaluator: Any
    span: Span | None

    def __call__(self, function: Any, *args: Any) -> Any:
        return self.evaluator.apply(function, list(args), {}, self.span)


class Calls(Expressions):
    """Turns calls into closures. `output` prints, `run_kernel` runs kernels."""

    run_kernel: Callable[[ast.KernelNode, Environment], Any]
    output: Callable[[str], Any]
    depth = 0  # of calls of the script's functions

    #: the closure of an operator with a dot (`a .+ b`)
    dotted: Callable[[ast.Call, Scope], Closure]

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
                error.at(span)
                raise

        return call

    def call_by_name(
        self, op: ast.Variable, arguments: list[Closure], span: Span | None, scope: Scope
    ) -> Closure:
        """A call of the function that a name is bound to in the script, or else in the language."""
        bound = self.call_of(self.named(op.name, op.span, scope), arguments, span)
        meant = PREDEFINED.get(op.name)
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
        functions = plain_functions(op)

        def call(env: Environment) -> Any:
            if name in env.outermost:
                return bound(env)
            try:
                args = [arg(env) for arg in arguments]
                function = functions[tuple(map(type, args))]
                return self.apply(op, args, {}, span) if function is None else function(*args)
            except FinchError as error:
                error.at(span)
                raise

        def call_of_two(env: Environment) -> Any:  # as `call`, quicker: most operators take two
            if name in env.outermost:
                return bound(env)
            try:
                a, b = left(env), right(env)
                function = functions[type(a), type(b)]
                return self.apply(op, [a, b], {}, span) if function is None else function(a, b)
            except FinchError as error:
                error.at(span)
                raise

        if len(arguments) != 2:
            return call
        left, right = arguments
        return call_of_two

    def apply(
        self, function: Any, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        """`function(args...; keywords...)` for any value. Raises FinchError "type" if it cannot be
        called."""
        if isinstance(function, Builtin):
            return self.apply_builtin(function, args, keywords, span)
        if isinstance(function, FinchFunction):
            return self.enter(function, args, keywords, span)
        if keywords:
            raise FinchError("type", f"{kind_of(function)} takes no keyword arguments", span)
        if isinstance(function, types.Type):
            function = OPERATORS[function.name]
        try:
            if isinstance(function, Operator):
                if is_by_kernel(function, args):
                    return compute(function, args, self.run_kernel)
                return operate(function, args)
            if isinstance(function, LevelName):
                return level_or_scalar(function.name, function.parameters, tuple(args))
            if isinstance(function, MaskName):
                return MaskValue(function.name, tuple(args))
        except PYTHON_FAULTS as error:
            name = function.name if isinstance(function, LevelName) else f"`{function.name}`"
            raise fault(error, name, span) from None
        raise FinchError("type", f"{kind_of(function)} is no function", span)

    def apply_builtin(
        self, function: Builtin, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        if function.prints:
            args = [self.output, *args]
        elif function.calls:
            args = [Caller(self, span), *args]
        try:
            return function.function(*args, **keywords)
        except PYTHON_FAULTS as error:
            if isinstance(error, TypeError):
                check_call(function, args, keywords)
            raise fault(error, f"`{function.usage}`", span) from None

    def enter(
        self, function: FinchFunction, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        definition, environment = function.definition, None
        parameters = definition.parameters
        if keywords or definition.defaults or definition.types:
            environment = arguments(function, args, keywords, span)
        elif len(args) != len(parameters):
            message = f"{function} takes {len(parameters)} arguments, {len(args)} are given"
            raise FinchError("type", message, span)
        if self.depth >= CALL_DEPTH:
            name = function.definition.name
            raise FinchError("resource", f"{name} is called more than {CALL_DEPTH} deep", span)
        if environment is None:
            values = dict(zip(parameters, args, strict=True))
            environment = Environment(function.scope, function.parent, values)
        self.depth += 1
        try:
            result = function.body(environment)
        except Leave as leave:
            if not isinstance(leave.node, ast.Return):
                raise leave.outside() from None
            result = leave.value
        except FinchError as error:
            error.calls.append((function.definition.name, span))
            raise
        finally:
            self.depth -= 1
        return ast.NOTHING if result is None else result


def lazy(name: str, operands: list[Closure]) -> Closure:
    """`&&`, `||` and `c ? a : b`, which evaluate only the operands that they need."""
    count = 3 if name == "ifelse" else 2
    if len(operands) != count:

        def refuse(env: Environment) -> Any:
            raise FinchError("type", f"`{name}` does not take {len(operands)} arguments")

        return refuse
    first, second, third = operands[0], operands[1], operands[-1]

    def choose(env: Environment) -> Any:
        return second(env) if truth(first(env)) else third(env)

    def both(env: Environment) -> Any:
        return truth(first(env)) and second(env)

    def either(env: Environment) -> Any:
        return truth(first(env)) or second(env)

    return {"ifelse": choose, "&&": both, "||": either}[name]
