"""The evaluator of the script stratum: statements and control flow; constructs mean what Julia's do.

A script is turned into closures once (`Evaluator.closure`), which then run in an environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.script import law_declarations
from finchlang.script.evaluate_expressions import Closure, Leave, RunKernel, placed
from finchlang.script.evaluate_forms import Forms, interruptible, taken_apart
from finchlang.script.functions import PYTHON_FAULTS, FinchFunction, fault
from finchlang.script.show import show, text
from finchlang.script.subscripts import set_subscript
from finchlang.script.vectors_and_dicts import items
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import EnoughFrames, replace

#: so many scripts are kept as closures; the oldest goes first
SCRIPTS = 256


class Evaluator(Forms):
    """Evaluates scripts. All errors are FinchErrors with their place in the script."""

    def __init__(self, run_kernel: RunKernel, output: Callable[[str], Any] | None = None):
        super().__init__(run_kernel, output)
        self._ready: dict[int, tuple[ast.Node, Closure]] = {}  # by the script's id

    def evaluate(self, script: ast.Node, environment: Environment) -> Any:
        """Run a script in the outermost environment. Returns the value of its last statement, None if that
        has none."""
        self.environment = environment
        return self._outermost(
            lambda: self.ready(script, environment.scope)(environment), script.span
        )

    def called(self, function: Any, args: list[Any]) -> Any:
        """The value of a function of the script, called from outside of the script."""
        return self._outermost(lambda: self.apply(function, args, {}, None), None)

    def _outermost(self, run: Callable[[], Any], span: Span | None) -> Any:
        self.depth = 0
        try:
            with EnoughFrames():
                return run()
        except Leave as leave:
            raise leave.outside() from None
        except FinchError as error:
            raise error.at(span) from None
        except RecursionError:
            raise FinchError("resource", "this is nested too deeply", span) from None
        except MemoryError:
            raise FinchError("resource", "there is no memory for this", span) from None
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped", span) from None

    def ready(self, script: ast.Node, scope: Scope) -> Closure:
        """A script as a closure, cached in case the same one is run again."""
        known = self._ready.get(id(script))
        if known is None:
            if len(self._ready) >= SCRIPTS:
                del self._ready[next(iter(self._ready))]
            known = self._ready[id(script)] = script, self.closure(script, scope)
        return known[1]

    def Script(self, node: ast.Script, scope: Scope) -> Closure:
        statements = self.closures(node.statements, scope)

        def run(env: Environment) -> Any:
            result = None
            for statement in statements:
                result = statement(env)
            return result

        return statements[0] if len(statements) == 1 else run

    def KernelNode(self, node: ast.KernelNode, scope: Scope) -> Closure:
        run_kernel = self.run_kernel
        return placed(node.span, lambda env: run_kernel(node, env))

    # ---------------------------------------------------------------- assignments

    def Let(self, node: ast.Let, scope: Scope) -> Closure:
        """`x = value`, `a, b = values`, and `x += value` as `x = x + value`, which reads x first, as Julia
        does."""
        span, target = node.span, node.targets[0]
        if node.op is not None and isinstance(target, ast.Subscript) and not _is_plain(target):
            return self.update(node, target, scope)
        if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Variable):
            value = self.Lambda(node.value, scope, target.name)
        else:
            value = self.closure(node.value, scope)
        if node.op is not None:
            old = self.closure(node.targets[0], scope)
            value = self.call_by_name(ast.Variable(node.op, span=span), [old, value], span, scope)
        assignments = [self.assignment(target, scope) for target in node.targets]
        assign, *others = assignments

        def let(env: Environment) -> Any:
            found = value(env)
            assign(env, found)
            return found

        def let_each(env: Environment) -> Any:
            found = value(env)
            values = list(items(found))
            if len(values) < len(assignments):
                message = f"{len(values)} values are assigned to {len(assignments)} names"
                raise FinchError("type", message)
            for assign, one in zip(assignments, values, strict=False):
                assign(env, one)
            return found

        return placed(span, let_each) if others else let

    def update(self, node: ast.Let, target: ast.Subscript, scope: Scope) -> Closure:
        """`A[f(x)] += value`: the indices are computed once, and are names of a scope of their own."""
        names = tuple(f"index {k}" for k in range(len(target.indices)))
        inner, kept = Scope(scope, names), [ast.Variable(name, span=target.span) for name in names]
        place, indices = self.closure(target.object, scope), self.places(target, scope)
        let = self.Let(replace(node, targets=(replace(target, indices=tuple(kept)),)), inner)

        def update(env: Environment) -> Any:
            values = dict(zip(names, indices(env, place(env)), strict=True))
            return let(Environment(inner, env, values))

        return placed(target.span, update)

    def assignment(self, target: ast.Node, scope: Scope) -> Callable[[Environment, Any], None]:
        """The function that binds a target to a value."""
        span = target.span

        def check(value: Any) -> None:
            if value is None:
                raise FinchError("type", "this statement has no value to assign", span)

        if isinstance(target, ast.Variable):
            name, values = target.name, scope.values_with(target.name)

            def bind(env: Environment, value: Any) -> None:
                check(value)
                values(env)[name] = value

            return bind
        assert isinstance(target, ast.Subscript)
        place, indices = self.closure(target.object, scope), self.places(target, scope)

        def store(env: Environment, value: Any) -> None:
            check(value)
            array = place(env)
            at = indices(env, array)
            try:
                set_subscript(array, at, value)
            except FinchError as error:
                raise error.at(span) from None
            except PYTHON_FAULTS as error:
                raise fault(error, "the assignment", span) from None

        return store

    # ---------------------------------------------------------------- control

    def If(self, node: ast.If, scope: Scope) -> Closure:
        branches = [(self.condition(c, scope), self.closure(b, scope)) for c, b in node.branches]

        def conditional(env: Environment) -> Any:
            for holds, body in branches:
                if holds(env):
                    return body(env)
            return None

        return conditional

    def While(self, node: ast.While, scope: Scope) -> Closure:
        holds, goes_on = self.condition(node.condition, scope), self.body(node.body, scope)

        def repeat(env: Environment) -> None:
            while holds(env) and goes_on(env):
                pass

        return interruptible(node.span, repeat)

    def For(self, node: ast.For, scope: Scope) -> Closure:
        names = node.names or (node.variable,)
        inner = Scope(scope, names)
        entries, goes_on = self.closure(node.iterable, scope), self.body(node.body, inner)

        def iterate(env: Environment) -> None:
            for item in items(entries(env)):
                if not goes_on(Environment(inner, env, taken_apart(item, names))):
                    break

        return interruptible(node.span, placed(node.span, iterate))

    def body(self, node: ast.Node, scope: Scope) -> Callable[[Environment], bool]:
        """The function that runs a loop's body once, and returns whether the loop goes on."""
        run = self.closure(node, scope)

        def goes_on(env: Environment) -> bool:
            try:
                run(env)
            except Leave as leave:
                if isinstance(leave.node, ast.Return):
                    raise
                return isinstance(leave.node, ast.Continue)
            return True

        return goes_on

    def Return(self, node: ast.Return | ast.Break | ast.Continue, scope: Scope) -> Closure:
        given = node.value if isinstance(node, ast.Return) else None
        value = None if given is None else self.closure(given, scope)

        def leave(env: Environment) -> Any:
            raise Leave(node, None if value is None else value(env))

        return leave

    Break = Continue = Return

    # ---------------------------------------------------------------- macros

    def Macro(self, node: ast.Macro, scope: Scope) -> Closure:
        others = {
            **{"time": self.timed, "elapsed": self.timed, "show": self.shown},
            **{"assert": self.assertion, "__DIR__": self.directory},
            **{"array": self.array, "einsum": self.array},
        }
        return others.get(node.name, self.declaration)(node, scope)

    def declaration(self, node: ast.Macro, scope: Scope) -> Closure:
        """A declaration of laws, which binds the function's name to a new function."""
        first, *others = node.args
        name = first.op if isinstance(first, ast.Call) else first
        assert isinstance(name, ast.Variable)
        function, values = self.Variable(name, scope), scope.values_with(name.name)

        def declare(env: Environment) -> None:
            value = function(env)
            known = law_declarations.declared(value, name)
            if not isinstance(first, ast.Call):
                value_of = lambda n: self.closure(n, scope)(env)  # noqa: E731
                laws = law_declarations.with_properties(known, tuple(others), value_of)
            elif node.name == "case":
                names = law_declarations.patterns(known, first)
                definition = ast.Function(name.name, names, others[0], span=node.span)
                inner = Scope(scope, {*definition.parameters})
                body = FinchFunction(definition, inner, env, self.closure(others[0], inner))
                laws = law_declarations.with_case(known, first, body)
            else:
                laws = law_declarations.with_region(known, first, others[0])
            values(env)[name.name] = law_declarations.with_laws(value, known, laws)

        return declare

    def array(self, node: ast.Macro, scope: Scope) -> Closure:
        def array(env: Environment) -> Any:
            from finchlang.script.array_statements import made

            return made(node, env, lambda n: self.closure(n, scope)(env), self.run_kernel)

        return placed(node.span, array)

    def timed(self, node: ast.Macro, scope: Scope) -> Closure:
        run, is_told = self.closure(node.args[0], scope), node.name == "time"

        def timed(env: Environment) -> Any:
            start = time.perf_counter()
            value = run(env)
            elapsed = time.perf_counter() - start
            if is_told:
                self.output(f"  {elapsed:.6f} seconds\n")
            return value if is_told else elapsed

        return timed

    def shown(self, node: ast.Macro, scope: Scope) -> Closure:
        """`@show e`: prints the text of e with its value."""
        run, span = self.closure(node.args[0], scope), node.args[0].span

        def shown(env: Environment) -> Any:
            value = run(env)
            self.output(f"{span.text if span else '?'} = {show(value)}\n")
            return value

        return shown

    def assertion(self, node: ast.Macro, scope: Scope) -> Closure:
        condition, *others = node.args
        holds, message = self.condition(condition, scope), self.closures(tuple(others), scope)
        said = condition.span.text if condition.span else "?"

        def check(env: Environment) -> None:
            if not holds(env):
                what = text(message[0](env)) if message else said
                raise FinchError("type", f"assertion failed: {what}", node.span)

        return check

    def directory(self, node: ast.Macro, scope: Scope) -> Closure:
        source = node.span.source.name if node.span else ""
        folder = "." if source.startswith("<") else str(Path(source).parent)
        return lambda env: folder


def _is_plain(target: ast.Subscript) -> bool:
    """Whether computing the indices twice is the same as once."""
    return all(isinstance(i, (ast.Variable, ast.Literal, ast.Colon)) for i in target.indices)
