"""Definitions of functions, comprehensions, calls with a dot, `let`, `try` and `include` as closures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import OUTERMOST, Environment, Scope, assigned_names
from finchlang.script.evaluate_expressions import Closure, Expressions, placed
from finchlang.script.functions import PREDEFINED, FinchFunction, check_types, refuse_methods
from finchlang.script.tensor_arithmetic import elementwise
from finchlang.script.values import shaped, truth
from finchlang.script.vectors_and_dicts import items
from finchlang.syntax import nodes as ast
from finchlang.text.literals import SPELLINGS
from finchlang.text.tree_cache import script_of


class Forms(Expressions):
    """Turns forms that open a scope, or that apply a function to many elements, into closures."""

    environment: Environment  # the outermost one

    def Function(self, node: ast.Function, scope: Scope) -> Closure:
        made, values = self.made(node, scope), scope.values_with(node.name)

        def define(env: Environment) -> None:
            refuse_methods(node, values(env).get(node.name))
            values(env)[node.name] = made(env)

        return define

    def Lambda(self, node: ast.Lambda, scope: Scope, name: str = "lambda") -> Closure:
        return self.made(ast.Function(name, node.parameters, node.body, span=node.span), scope)

    def made(self, node: ast.Function, scope: Scope) -> Closure:
        """A function value, with the environment in which it is defined."""
        check_types(node)
        own = {n for n in assigned_names(node.body) if not scope.is_local(n)}
        inner = Scope(scope, own | {*node.parameters})
        body = self.closure(node.body, inner)
        defaults = {name: self.closure(given, inner) for name, given in node.defaults}
        return lambda env: FinchFunction(node, inner, env, body, defaults=defaults)

    def Comprehension(self, node: ast.Comprehension, scope: Scope) -> Closure:
        inner = Scope(scope, {n for names in node.names for n in names})
        value = self.closure(node.value, inner)
        condition = node.condition
        holds = (lambda env: True) if condition is None else self.condition(condition, inner)
        within = [scope] + [scope if node.is_grid else inner] * (len(node.iterables) - 1)
        sources = [self.closure(i, s) for i, s in zip(node.iterables, within, strict=True)]

        def rounds(env: Environment, k: int, known: dict[str, Any]) -> Iterator[Environment]:
            """An environment for each element, of nested loops over the sources from the k-th on."""
            if k == len(sources):
                yield Environment(inner, env, known)
                return
            for item in items(sources[k](Environment(inner, env, known) if k else env)):
                yield from rounds(env, k + 1, known | taken_apart(item, node.names[k]))

        def all_of(env: Environment) -> Any:
            return shaped([value(each) for each in rounds(env, 0, {}) if holds(each)])

        def grid(env: Environment) -> Any:
            parts = [list(items(source(env))) for source in sources]
            found = []
            for places in product(*parts[::-1]):  # column-major: the first source is the fastest
                named = zip(places[::-1], node.names, strict=True)
                known = {
                    n: v for place, names in named for n, v in taken_apart(place, names).items()
                }
                found.append(value(Environment(inner, env, known)))
            return shaped(found, tuple(map(len, parts)))

        run = grid if node.is_grid else all_of
        return interruptible(node.span, placed(node.span, run))

    def Broadcast(self, node: ast.Broadcast, scope: Scope) -> Closure:
        return self.by_elements(self.closure(node.op, scope), node.args, node.span, scope)

    def dotted(self, node: ast.Call, scope: Scope) -> Closure:
        assert isinstance(node.op, ast.Variable)
        sign = node.op.name[1:]
        op = PREDEFINED[SPELLINGS.get(sign, sign)]
        return self.by_elements(lambda env: op, node.args, node.span, scope)

    def by_elements(
        self, called: Closure, args: tuple[Any, ...], span: Span | None, scope: Scope
    ) -> Closure:
        arguments = self.closures(args, scope)

        def run(env: Environment) -> Any:
            function, given = called(env), [arg(env) for arg in arguments]
            apply = self.apply
            each = lambda *xs: apply(function, list(xs), {}, span)  # noqa: E731
            return elementwise(function, given, each, self.run_kernel)

        return interruptible(span, placed(span, run))

    def Local(self, node: ast.Local, scope: Scope) -> Closure:
        steps = []
        for name, value in node.values:
            given, scope = self.closure(value, scope), Scope(scope, (name,))
            steps.append((name, given, scope))
        inner = Scope(scope, {n for n in assigned_names(node.body) if not scope.is_local(n)})
        body = self.closure(node.body, inner)

        def local(env: Environment) -> Any:
            for name, value, within in steps:
                env = Environment(within, env, {name: value(env)})
            return body(Environment(inner, env))

        return local

    def condition(self, node: ast.Node, scope: Scope) -> Callable[[Environment], bool]:
        value, span = self.closure(node, scope), node.span

        def holds(env: Environment) -> bool:
            try:
                return truth(value(env))
            except FinchError as error:
                raise error.at(span) from None

        return holds

    def Try(self, node: ast.Try, scope: Scope) -> Closure:
        """`try`, where `catch` binds its name to the error's message. An interruption is not caught."""
        body, inner = self.closure(node.body, scope), Scope(scope, (node.name,))
        handler = None if node.handler is None else self.closure(node.handler, inner)
        last = None if node.last is None else self.closure(node.last, scope)

        def attempt(env: Environment) -> Any:
            try:
                try:
                    return body(env)
                except FinchError as error:
                    if handler is None or error.kind == "interrupted":
                        raise
                    message = error.message
                return handler(Environment(inner, env, {node.name: message}))
            finally:
                if last is not None:
                    last(env)

        return attempt

    def include(self, path: Any, span: Span | None) -> Any:
        """Runs the script in a file, in the outermost environment. A relative path is taken from the folder
        of the including file. Raises FinchError "I/O" if it cannot be read."""
        if not isinstance(path, str):
            raise FinchError("type", "include takes the path of a file")
        asking = span.source.name if span is not None else "<"
        folder = Path() if asking.startswith("<") else Path(asking).parent
        try:
            text = (folder / path).read_text("utf-8")
        except UnicodeDecodeError:
            raise FinchError("I/O", f"{path} is no text") from None
        except OSError as error:
            raise FinchError("I/O", f"{path} cannot be read: {error.strerror}") from None
        script = script_of(text, str(folder / path))
        return self.closure(script, OUTERMOST)(self.environment)


def taken_apart(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The values of a loop's names for an item, which is taken apart if there are several names. Raises
    FinchError "type" if it has too few parts."""
    if len(names) == 1:
        return {names[0]: item}
    parts = list(items(item))
    if len(parts) < len(names):
        raise FinchError("type", f"{len(parts)} values are given to {len(names)} names")
    return dict(zip(names, parts, strict=False))


def interruptible(span: Span | None, loop: Callable[[Environment], Any]) -> Closure:
    """A loop that Ctrl-C stops with a FinchError "interrupted" at its place."""

    def run(env: Environment) -> Any:
        try:
            return loop(env)
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped in this loop", span) from None

    return run
