"""The evaluator of the script stratum: statements, control flow, and forms that open a scope or apply a
function to many elements; constructs mean what Julia's do.

A script is turned into closures once (`Evaluator.closure`), which then run in an environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Span
from finchlang.base.locks import keep
from finchlang.base.paths import read_script
from finchlang.calls.environment import OUTERMOST, Environment, Scope, assigned_names
from finchlang.calls.runner import Runner
from finchlang.script import functions, law_declarations, values as data
from finchlang.script.evaluate_calls import CALL_DEPTH, RUNNING, Calls
from finchlang.script.evaluate_expressions import Closure, Leave, RunKernel, named, placed
from finchlang.script.show import show, text
from finchlang.script.staged_loops import OVER, StagedLoop, StagedLoops, collecting, count_of
from finchlang.script.subscripts import set_subscript
from finchlang.script.tensor_arithmetic import elementwise, forced, set_all
from finchlang.syntax import nodes as ast
from finchlang.syntax.control_flow import BREAK, ways
from finchlang.syntax.traversal import EnoughFrames, replace, walk
from finchlang.text.literals import SPELLINGS
from finchlang.text.tree_cache import script_of

NOT_STAGED = ast.Macro("staged", (ast.Literal(False),))
_END: Any = object()  # what no loop is over
#: so many scripts are kept as closures; the oldest goes first
SCRIPTS = 256


class Evaluator(Calls):
    """Evaluates scripts. All errors are FinchErrors with their place in the script."""

    def __init__(
        self,
        run_kernel: RunKernel,
        output: Callable[[str], Any] | None = None,
        units: Runner | None = None,
    ):
        super().__init__(run_kernel, output)
        self.loops = None if units is None else StagedLoops(units, self.value_of)
        self._ready: dict[int, tuple[ast.Node, Closure]] = {}  # by the script's id

    def evaluate(self, script: ast.Node, environment: Environment) -> Any:
        """Run a script in the outermost environment. Returns the value of its last statement, or None."""
        self.environment = environment
        return self._outermost(self._run, script.span, script, environment)

    @np.errstate(all="ignore")  # numbers overflow without warning, as in kernels
    def _outermost(self, run: Callable[..., Any], span: Span | None, *args: Any) -> Any:
        before, outer = self.depth, RUNNING.get()
        now = RUNNING.set(self)
        try:
            self.depth = 0 if outer is None else outer.depth + CALL_DEPTH // 100
            if self.depth > CALL_DEPTH:
                raise FinchError("resource", "scripts go on to run each other")
            with EnoughFrames():
                return run(*args)
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
        finally:
            self.depth = before
            RUNNING.reset(now)

    def value_of(self, node: ast.Node, environment: Environment) -> Any:
        """The value of a node in an environment."""
        return self.closure(node, environment.scope)(environment)

    def _run(self, script: ast.Node, environment: Environment) -> Any:
        """Run a script by its closure, which is kept in case the same one is run again."""
        known = self._ready.get(id(script))
        if known is None:
            made = script, self.closure(script, environment.scope)
            known = keep(self._ready, id(script), made, SCRIPTS)
        return known[1](environment)

    def closure(self, node: ast.Node, scope: Scope) -> Closure:
        return getattr(self, type(node).__name__)(node, scope)

    def Script(self, node: ast.Script, scope: Scope) -> Closure:
        statements = self.statements(node.statements, scope)

        def run(env: Environment) -> Any:
            result = None
            for statement in statements:
                result = statement(env)
            return result

        return statements[0] if len(statements) == 1 else run

    def statements(self, nodes: tuple[ast.Node, ...], scope: Scope) -> list[Closure]:
        """The closures of statements; one behind `@staged false` is not compiled whole."""
        loops, made = self.loops, []
        for before, node in zip((None, *nodes), nodes, strict=False):
            self.loops = None if before == NOT_STAGED else loops
            made.append(self.closure(node, scope))
        self.loops = loops
        return made

    def KernelNode(self, node: ast.KernelNode, scope: Scope) -> Closure:
        run_kernel = self.run_kernel

        def run(env: Environment) -> Any:
            try:
                return run_kernel(node, env)
            except FinchError as error:
                is_told = error.kind in ("unknown name", "dimension")
                raise named(error, env, node) if is_told else error from None

        return placed(node.span, run)

    # ---------------------------------------------------------------- assignments

    def Let(self, node: ast.Let, scope: Scope) -> Closure:
        """`x = value`, `a, b = values`, and `x += value` as `x = x + value`, which reads x first."""
        span, target = node.span, node.targets[0]
        if node.op is not None and isinstance(target, ast.Access) and not _is_plain(target):
            return self.update(node, target, scope)
        if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Variable):
            value = self.Lambda(node.value, scope, target.name)
        else:
            value = self.closure(node.value, scope)
        if node.op is not None:
            old = self.closure(node.targets[0], scope)
            parts = target, node.value
            call = ast.call(node.op, *parts, span=span)
            value = self.Call(call, scope, False, [old, self.lazy_closure(node.value, scope)])
        assignments = [self.assignment(target, scope) for target in node.targets]
        assign, *others = assignments

        def let(env: Environment) -> Any:
            found = value(env)
            assign(env, found)
            return found

        are_names = {*map(type, node.targets)} == {ast.Variable}

        def assign_each(env: Environment, found: Any) -> Any:
            values = found if type(found) is tuple else list(data.entries(found))
            if len(values) < len(assignments):
                message = f"{len(values)} values are assigned to {len(assignments)} names"
                raise FinchError("type", message)
            for assign, one in zip(assignments, values, strict=False):
                assign(env, one)
            return found

        def let_each(env: Environment) -> Any:
            found = value(env)
            try:
                return assign_each(env, found)
            except BaseException:
                if are_names:  # of what they swap nothing is lost; indices may have effects
                    assign_each(env, found)
                raise

        return placed(span, let_each) if others else let

    def update(self, node: ast.Let, target: ast.Access, scope: Scope) -> Closure:
        """`A[f(x)] += value`: the array and the indices are computed once, and are names of a scope of
        their own; a name alone stays, for messages."""
        names = ("array", *(f"index {k}" for k in range(len(target.indices))))
        inner, kept = Scope(scope, names), [ast.Variable(name, span=target.span) for name in names]
        place, indices = self.closure(target.tensor, scope), self.places(target, scope)
        array = target.tensor if isinstance(target.tensor, ast.Variable) else kept[0]
        new = replace(target, tensor=array, indices=tuple(kept[1:]))
        let = self.Let(replace(node, targets=(new,)), inner)

        def update(env: Environment) -> Any:
            found = place(env)
            values = dict(zip(names, (found, *indices(env, found)), strict=True))
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
                if value is None:
                    check(value)
                values(env)[name] = value

            return bind
        assert isinstance(target, ast.Access)
        place, indices = self.closure(target.tensor, scope), self.places(target, scope)

        def store(env: Environment, value: Any) -> None:
            check(value)
            array = place(env)
            at = indices(env, array)
            try:
                set_subscript(array, at, value)
            except FinchError as error:
                raise error.at(span) from None
            except functions.PYTHON_FAULTS as error:
                raise functions.fault(error, "the assignment", span) from None

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
        loops, loop = self.loops, StagedLoop(node)

        def repeat(env: Environment) -> None:
            run = None if loops is None else loops.begin(loop, None)
            while run is None or run.rest(env, 0) != OVER:
                if not (holds(env) and goes_on(env)):
                    return

        return interruptible(node.span, repeat)

    def For(self, node: ast.For, scope: Scope) -> Closure:
        names = node.names or (node.variable,)
        inner = Scope(scope, names)
        entries, goes_on = self.closure(node.iterable, scope), self.body(node.body, inner)
        loops, loop = self.loops, StagedLoop(node)
        if node.joined and BREAK in ways(node.body):
            loops = None  # what it leaves is not its own

        def iterate(env: Environment) -> None:
            found = entries(env)
            rest, round = iter(data.entries_now(found)), 0
            run = None if loops is None else loops.begin(loop, found)
            while True:
                done = None if run is None else run.rest(env, round)
                if done == OVER:
                    return
                if done:
                    rest = islice(rest, done, None)
                item = next(rest, _END)
                if item is _END:
                    return
                if not goes_on(Environment(inner, env, taken_apart(item, names))):
                    if node.joined:
                        raise Leave(ast.Break())
                    return
                round += 1

        return interruptible(node.span, iterate)

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

    # ---------------------------------------------------------------- functions and scopes

    def Function(self, node: ast.Function, scope: Scope) -> Closure:
        made, values = self.made(node, scope), scope.values_with(node.name)

        def define(env: Environment) -> None:
            functions.refuse_methods(node, values(env).get(node.name))
            values(env)[node.name] = made(env)

        return define

    def Lambda(self, node: ast.Lambda, scope: Scope, name: str = "lambda") -> Closure:
        return self.made(ast.Function(name, node.parameters, node.body, span=node.span), scope)

    def made(self, node: ast.Function, scope: Scope) -> Closure:
        """A function value, with the environment in which it is defined."""
        functions.check_types(node)
        own = {n for n in assigned_names(node.body) if not scope.is_local(n)}
        inner = Scope(scope, own | {*node.parameters})
        body = self.closure(node.body, inner)
        defaults = {name: self.closure(given, inner) for name, given in node.defaults}
        call, is_staged = partial(self._outermost, self.enter, None), self.loops is not None
        made = partial(functions.FinchFunction, body=body, defaults=defaults, call=call)
        return lambda env: made(node, inner, env, is_staged=is_staged)

    def Comprehension(self, node: ast.Comprehension, scope: Scope) -> Closure:
        inner = Scope(scope, {n for names in node.names for n in names})
        value = self.closure(node.value, inner)
        condition = node.condition
        holds = (lambda env: True) if condition is None else self.condition(condition, inner)
        within = [scope] + [scope if node.is_grid else inner] * (len(node.iterables) - 1)
        unknown = self.unknown_calls
        sources = [self.closure(i, s) for i, s in zip(node.iterables, within, strict=True)]
        parts = [n for each in node.iterables[1:] for n in walk(each)]
        named = inner.owned & {n.name for n in parts if isinstance(n, ast.Variable)}
        #: whether each source is the same for all entries of those before
        is_whole = node.is_grid or not named and self.unknown_calls == unknown
        order = [*range(len(sources))]  # of a grid column-major: the first source is the fastest
        order = order[::-1] if node.is_grid else order
        names = [node.names[k] for k in order]
        loops, loop = self.loops, collecting(node.value, names, condition, node.span)

        def rounds(
            env: Environment, order: list[int], given: list[Any], known: dict[str, Any]
        ) -> Iterator[Environment]:
            """An environment for each element, of nested loops in this order over the sources `given`, or
            over such as the names `known` give."""
            k, *others = order
            around = Environment(inner, env, known) if known else env
            for item in data.entries(given[k] if given else sources[k](around)):
                more = known | taken_apart(item, node.names[k])
                if others:
                    yield from rounds(env, others, given, more)
                else:
                    yield Environment(inner, env, more)

        def collect(env: Environment) -> Any:
            given: list[Any] = []
            for source in sources if is_whole else ():
                if node.is_grid or not given or count_of(given[-1]) != 0:
                    given.append(source(env))
            given = given if len(given) == len(sources) else []
            ordered = [given[k] for k in order] if given else given
            found: Any = loops.collected(loop, env, ordered) if loops and given else None
            if found is not None and not node.is_grid:
                return found if found.size else []
            shapes = [getattr(source, "shape", None) for source in given]
            if found is None:
                given = [[*data.entries(source)] for source in given] if node.is_grid else given
                found = [value(each) for each in rounds(env, order, given, {}) if holds(each)]
            sizes = (s or (count_of(v) or 0,) for s, v in zip(shapes, given, strict=True))
            return data.shaped(found, sum(sizes, ()) if node.is_grid else None)

        return interruptible(node.span, collect)

    def Broadcast(self, node: ast.Broadcast, scope: Scope, keeps: bool = False) -> Closure:
        name = node.op.name if isinstance(node.op, ast.Variable) else ""
        self.unknown_calls += name not in functions.PREDEFINED or scope.is_local(name)
        return self.by_elements(self.closure(node.op, scope), node.args, node.span, scope, keeps)

    def dotted(self, node: ast.Call, scope: Scope, keeps: bool = False) -> Closure:
        assert isinstance(node.op, ast.Variable)
        sign = node.op.name[1:]
        if sign == "=":
            return self.filled_in(node, scope)
        op = functions.PREDEFINED[SPELLINGS.get(sign, sign)]
        return self.by_elements(lambda env: op, node.args, node.span, scope, keeps)

    def by_elements(
        self, called: Closure, args: tuple[Any, ...], span: Span | None, scope: Scope, keeps: bool
    ) -> Closure:
        arguments = self.operands(args, scope)

        def run(env: Environment) -> Any:
            function, given = called(env), [arg(env) for arg in arguments]
            apply = self.apply
            each = lambda *xs: apply(function, list(xs), {}, span)  # noqa: E731
            found = elementwise(function, given, each, self.run_kernel)
            return found if keeps else forced(found, self.run_kernel)

        return interruptible(span, run)

    def filled_in(self, node: ast.Call, scope: Scope) -> Closure:
        """`x .= e` and `A[:, 1] .= e`: sets the elements of what is there."""
        target, given = node.args
        value = self.lazy_closure(given, scope)
        part = target if isinstance(target, ast.Access) else None
        place = self.closure(part.tensor if part else target, scope)
        indices = self.places(part, scope) if part else None

        def fill_in(env: Environment) -> Any:
            array, found = place(env), value(env)
            if indices is None:
                set_all(array, found, self.run_kernel)
            else:
                set_subscript(array, indices(env, array), forced(found, self.run_kernel), True)
            return array

        return placed(node.span, fill_in)

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
        value = self.closure(node, scope)
        return placed(node.span, lambda env: data.truth(value(env)))

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
        """Runs the script in a file, whose path is relative to the including file, in the outermost
        environment. Raises FinchError "I/O" if it cannot be read, "resource" for endless inclusion."""
        if not isinstance(path, str):
            raise FinchError("type", "include takes the path of a file")
        if self.depth >= CALL_DEPTH:
            raise FinchError("resource", "files include each other without end")
        asking = span.source.name if span is not None else "<"
        file = path if asking.startswith("<") else str(Path(asking).parent / path)
        script = script_of(read_script(file), file)
        self.depth += CALL_DEPTH // 100
        try:
            return self.closure(script, OUTERMOST)(self.environment)
        finally:
            self.depth -= CALL_DEPTH // 100

    # ---------------------------------------------------------------- macros

    def Macro(self, node: ast.Macro, scope: Scope) -> Closure:
        others = {
            **{"time": self.timed, "elapsed": self.timed, "show": self.shown},
            **{"assert": self.assertion, "__DIR__": self.directory},
            **{"array": self.array, "einsum": self.array},
            "staged": lambda node, scope: lambda env: None,
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
                known = law_declarations.with_properties(known, tuple(others), value_of)
            elif node.name == "case":
                names = law_declarations.patterns(known, first)
                definition = ast.Function(name.name, names, others[0], span=node.span)
                body = self.made(definition, scope)(env)
                known = law_declarations.with_case(known, first, body)
            else:
                known = law_declarations.with_region(known, first, others[0])
            values(env)[name.name] = law_declarations.with_laws(value, known)

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


def taken_apart(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The values of a loop's names for an item, which is taken apart if there are several names."""
    if len(names) == 1:
        return {names[0]: item}
    parts = list(data.entries(item))
    if len(parts) < len(names):
        raise FinchError("type", f"{len(parts)} values are given to {len(names)} names")
    return dict(zip(names, parts, strict=False))


def interruptible(span: Span | None, loop: Callable[[Environment], Any]) -> Closure:
    """A loop that Ctrl-C stops with a FinchError "interrupted" at its place; also its errors are placed."""

    def run(env: Environment) -> Any:
        try:
            return loop(env)
        except KeyboardInterrupt:
            raise FinchError("interrupted", "stopped in this loop", span) from None

    return placed(span, run)


def _is_plain(target: ast.Access) -> bool:
    """Whether computing the array and the indices twice is the same as once."""
    indices = (isinstance(i, (ast.Variable, ast.Literal, ast.Colon)) for i in target.indices)
    return isinstance(target.tensor, ast.Variable) and all(indices)
