"""The evaluator of the script stratum: a walk over its tree; constructs mean what Julia's do."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from finchlang.algebra import OPERATORS, Operator, literal_type
from finchlang.script.builtins import Builtin, level_or_scalar
from finchlang.script.callables import (
    PREDEFINED,
    FinchFunction,
    LevelName,
    MaskName,
    check_call,
    faults,
)
from finchlang.script.environment import Environment, assigned_names
from finchlang.script.indexing import ALL, set_subscript, subscript
from finchlang.script.show import kind_of, text
from finchlang.script.values import (
    FinchRange,
    array_literal,
    dense,
    is_array,
    number,
    on_plain_numbers,
    operate,
    plain,
    truth,
)
from finchlang.source import FinchError, Span
from finchlang.syntax import (
    NOTHING,
    Break,
    Call,
    Colon,
    Continue,
    For,
    Function,
    Group,
    If,
    Kernel,
    KeywordCall,
    Let,
    Literal,
    Macro,
    Node,
    Parametric,
    Range,
    Return,
    Rows,
    Script,
    Subscript,
    Text,
    Variable,
    While,
)
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.masks import MaskValue
from finchlang.types import Type

#: how deeply calls of a script's functions may nest, and the frames of Python's that may take
CALL_DEPTH, FRAMES = 5_000, 200_000


class RunKernel(Protocol):
    """Runs a kernel on what its free names are bound to, and gives what it returns."""

    def __call__(self, kernel: Kernel, environment: Environment, /) -> Any: ...


class _Leave(Exception):
    """`break`, `continue` or `return` on its way to what it leaves."""

    def __init__(self, node: Node, value: Any = None):
        super().__init__()
        self.node, self.value = node, value

    def outside(self) -> FinchError:
        """The error where there is nothing to leave."""
        word = type(self.node).__name__.lower()
        where = "a function" if isinstance(self.node, Return) else "a loop"
        return FinchError("syntax", f"`{word}` stands outside of {where}", self.node.span)


class Evaluator:
    """Evaluates scripts. `run_kernel` does what `@finch` asks for; `output` takes what is printed.

    Everything that goes wrong is a FinchError with the place in the script.
    """

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        self.run_kernel = run_kernel
        self.depth = 0  # of calls of the script's functions
        self._literals: dict[int, tuple[Literal, Any]] = {}  # what they are, by identity
        self.output = output or (lambda s: sys.stdout.write(s))
        self.rules: dict[type[Node], Callable[[Any, Environment], Any]] = {
            Literal: self.literal,
            Variable: self.variable,
            Call: self.call,
            KeywordCall: self.call,
            Parametric: self.parametric,
            Text: self.string,
            Range: self.range,
            Rows: self.rows,
            Group: self.group,
            Subscript: self.subscript,
            Let: self.let,
            Function: self.function,
            Script: self.script,
            If: self.conditional,
            While: self.repeat,
            For: self.iterate,
            Macro: self.macro,
            Kernel: self.run_kernel,
            Return: self.leave,
            Break: self.leave,
            Continue: self.leave,
        }

    def evaluate(self, script: Node, environment: Environment) -> Any:
        """Run a script; the value of its last statement, None if that has none."""
        limit, self.depth = sys.getrecursionlimit(), 0
        sys.setrecursionlimit(max(limit, FRAMES))
        try:
            return self.value(script, environment)
        except _Leave as leave:
            raise leave.outside() from None
        except RecursionError:
            raise FinchError("resource", "this is nested too deeply", script.span) from None
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped", script.span) from None
        finally:
            sys.setrecursionlimit(limit)

    def value(self, node: Node, env: Environment) -> Any:
        """The value of any node; None for statements without one."""
        try:
            return self.rules[type(node)](node, env)
        except FinchError as error:
            error.at(node.span)
            raise

    # ---------------------------------------------------------------- expressions

    def literal(self, node: Literal, env: Environment) -> Any:
        known = self._literals.get(id(node))
        if known is None:
            found = literal_type(node)
            value = node.value if found is None else number(node.value, found)
            known = self._literals[id(node)] = (node, value)
        return known[1]

    def variable(self, node: Variable, env: Environment) -> Any:
        return self.named(node.name, node.span, env)

    def named(self, name: str, span: Span | None, env: Environment) -> Any:
        """What a name stands for: bound in the script, or defined by the language."""
        scope = env.owner(name)
        if name in scope.values:
            return scope.values[name]
        if scope.parent is not None:
            message = f"{name} is local to this function and has no value yet"
            hint = "what a function assigns to is its own: give it a value first, or pass it in"
            raise FinchError("unknown name", message, span, hint)
        if name in PREDEFINED:
            return PREDEFINED[name]
        close = difflib.get_close_matches(name, {*env.names(), *PREDEFINED}, 1)
        guess = f"did you mean {close[0]}?" if close else None
        raise FinchError("unknown name", f"{name} is not defined", span, guess)

    def string(self, node: Text, env: Environment) -> str:
        parts = [p if isinstance(p, str) else text(self.value(p, env)) for p in node.parts]
        return "".join(parts)

    def range(self, node: Range, env: Environment) -> FinchRange:
        step = 1 if node.step is None else self.value(node.step, env)
        return FinchRange(self.value(node.start, env), step, self.value(node.stop, env))

    def rows(self, node: Rows, env: Environment) -> Any:
        rows = [[self.value(entry, env) for entry in row] for row in node.rows]
        return array_literal(rows, node.is_matrix)

    def group(self, node: Group, env: Environment) -> tuple[Any, ...]:
        return tuple([self.value(item, env) for item in node.items])

    def subscript(self, node: Subscript, env: Environment) -> Any:
        return subscript(self.value(node.object, env), self.indices(node, env))

    def indices(self, node: Subscript, env: Environment) -> list[Any]:
        return [ALL if isinstance(i, Colon) else self.value(i, env) for i in node.indices]

    def parametric(self, node: Parametric, env: Environment) -> LevelName:
        if node.name not in LEVELS:
            close = difflib.get_close_matches(node.name, LEVELS, 1)
            hint = f"did you mean {close[0]}?" if close else f"levels: {', '.join(LEVELS)}"
            raise FinchError("unknown name", f"there is no level {node.name}", node.span, hint)
        return LevelName(node.name, tuple([self.value(p, env) for p in node.parameters]))

    # ---------------------------------------------------------------- calls

    def call(self, node: Call | KeywordCall, env: Environment) -> Any:
        op = node.op
        if isinstance(op, Variable):
            if op.name in ("&&", "||", "ifelse") and not env.has(op.name):
                return self.lazy(op.name, node.args, env)
            function = self.named(op.name, op.span, env)
        else:
            function = self.value(op, env)
        args = [self.value(arg, env) for arg in node.args]
        if isinstance(node, KeywordCall):
            keywords = {name: self.value(value, env) for name, value in node.keywords}
            return self.apply(function, args, keywords, node.span)
        return self.applied(function, args, node.span)

    def applied(self, function: Any, args: list[Any], span: Span | None) -> Any:
        """`function(args...)`, quickly for operators on Python's own numbers."""
        if type(function) is Operator:
            quick = on_plain_numbers(function, tuple(map(type, args)))
            if quick is not None:
                return quick(args)
        return self.apply(function, args, {}, span)

    def lazy(self, name: str, args: tuple[Node, ...], env: Environment) -> Any:
        """`&&`, `||` and `c ? a : b` evaluate only the operands they need."""
        if len(args) != (3 if name == "ifelse" else 2):
            raise FinchError("type", f"`{name}` does not take {len(args)} arguments")
        first = truth(self.value(args[0], env))
        if name == "ifelse":
            return self.value(args[1 if first else 2], env)
        return self.value(args[1], env) if first == (name == "&&") else first

    def apply(
        self, function: Any, args: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        """`function(args...; keywords...)`, for whatever can be called."""
        if isinstance(function, Builtin):
            with faults(span, f"`{function.usage}`"):
                if function.prints:
                    args = [self.output, *args]
                try:
                    return function.function(*args, **keywords)
                except TypeError:
                    check_call(function, args, keywords)
                    raise
        if keywords:
            raise FinchError("type", f"{kind_of(function)} takes no keyword arguments", span)
        if isinstance(function, Type):
            function = OPERATORS[function.name]
        if isinstance(function, Operator):
            with faults(span, f"`{function.name}`"):
                return operate(function, args)
        if isinstance(function, LevelName):
            with faults(span, function.name):
                return level_or_scalar(function.name, function.parameters, tuple(args))
        if isinstance(function, MaskName):
            with faults(span, f"`{function.name}`"):
                return MaskValue(function.name, tuple(args))
        if isinstance(function, FinchFunction):
            return self.enter(function, args, span)
        raise FinchError("type", f"{kind_of(function)} is no function", span)

    def enter(self, function: FinchFunction, args: list[Any], span: Span | None) -> Any:
        parameters = function.definition.parameters
        if len(args) != len(parameters):
            message = f"{function} takes {len(parameters)} arguments, {len(args)} are given"
            raise FinchError("type", message, span)
        scope = Environment(function.scope, function.locals)
        for name, arg in zip(parameters, args, strict=True):
            scope.set(name, arg)
        if self.depth >= CALL_DEPTH:
            name = function.definition.name
            raise FinchError("resource", f"{name} is called more than {CALL_DEPTH} deep", span)
        self.depth += 1
        try:
            result = self.value(function.definition.body, scope)
        except _Leave as leave:
            if not isinstance(leave.node, Return):
                raise leave.outside() from None
            result = leave.value
        finally:
            self.depth -= 1
        return NOTHING if result is None else result

    # ---------------------------------------------------------------- statements

    def script(self, node: Script, env: Environment) -> Any:
        result = None
        for statement in node.statements:
            result = self.value(statement, env)
        return result

    def let(self, node: Let, env: Environment) -> Any:
        value = self.value(node.value, env)
        if node.op is not None:
            old = self.value(node.targets[0], env)
            value = self.applied(self.named(node.op, node.span, env), [old, value], node.span)
        if len(node.targets) == 1:
            self.assign(node.targets[0], value, env)
            return value
        values = list(self.items(value))
        if len(values) < len(node.targets):
            message = f"{len(values)} values are assigned to {len(node.targets)} names"
            raise FinchError("type", message)
        for target, item in zip(node.targets, values, strict=False):
            self.assign(target, item, env)
        return value

    def assign(self, target: Node, value: Any, env: Environment) -> None:
        if value is None:
            raise FinchError("type", "this statement has no value to assign", target.span)
        if isinstance(target, Variable):
            env.set(target.name, value)
            return
        assert isinstance(target, Subscript)
        place = self.value(target.object, env), self.indices(target, env)
        with faults(target.span, "the assignment"):
            set_subscript(*place, value)

    def function(self, node: Function, env: Environment) -> None:
        own = {n for n in assigned_names(node.body) if not env.is_local(n)} | {*node.parameters}
        env.set(node.name, FinchFunction(node, env, frozenset(own)))

    def conditional(self, node: If, env: Environment) -> Any:
        for condition, body in node.branches:
            if self.condition(condition, env):
                return self.value(body, env)
        return None

    def condition(self, node: Node, env: Environment) -> bool:
        try:
            return truth(self.value(node, env))
        except FinchError as error:
            error.at(node.span)
            raise

    def repeat(self, node: While, env: Environment) -> None:
        with interruptible(node.span):
            while self.condition(node.condition, env):
                if not self.body(node.body, env):
                    break

    def iterate(self, node: For, env: Environment) -> None:
        with interruptible(node.span):
            for item in self.items(self.value(node.iterable, env)):
                scope = Environment(env, (node.variable,))
                scope.set(node.variable, item)
                if not self.body(node.body, scope):
                    break

    def body(self, node: Node, env: Environment) -> bool:
        """Run a loop's body once; whether the loop goes on."""
        try:
            self.value(node, env)
        except _Leave as leave:
            if isinstance(leave.node, Return):
                raise
            return isinstance(leave.node, Continue)
        return True

    def items(self, value: Any) -> Iterator[Any]:
        if is_array(value):
            return map(plain, dense(value).flatten(order="F"))
        if isinstance(value, (FinchRange, tuple, list, str)):
            return iter(value)
        raise FinchError("type", f"{kind_of(value)} has no entries to go through")

    def leave(self, node: Return | Break | Continue, env: Environment) -> Any:
        given = node.value if isinstance(node, Return) else None
        raise _Leave(node, None if given is None else self.value(given, env))

    # ---------------------------------------------------------------- macros

    def macro(self, node: Macro, env: Environment) -> Any:
        if node.name == "time":
            start = time.perf_counter()
            value = self.value(node.args[0], env)
            self.output(f"  {time.perf_counter() - start:.6f} seconds\n")
            return value
        if node.name == "__DIR__":
            source = node.span.source.name if node.span else ""
            return "." if source.startswith("<") else str(Path(source).parent)
        assert node.name == "assert"
        condition, *message = node.args
        if not self.condition(condition, env):
            said = condition.span.text if condition.span else "?"
            what = text(self.value(message[0], env)) if message else said
            raise FinchError("type", f"assertion failed: {what}", node.span)
        return None


@contextmanager
def interruptible(span: Span | None) -> Iterator[None]:
    """A loop, which Ctrl-C stops with an error at its place."""
    try:
        yield
    except KeyboardInterrupt:
        raise FinchError("interrupted", "stopped in this loop", span) from None
