"""Functions of scripts as operators: their bodies, staged over a host where they are called.

Each name in a function, and its result, has one type on all ways through it, so that a kernel computes
what the script would. Staging the body once for variables of the arguments' types finds these types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from threading import get_ident
from typing import Any

from finchlang.base.errors import Bug, FinchError, Span
from finchlang.base.locks import cached_property
from finchlang.base.records import record
from finchlang.host.construct import TRUE, ZERO, add, compare, const
from finchlang.host.engine import Machine
from finchlang.host.executing import ExecutingHost
from finchlang.host.interface import Host, fail_unless
from finchlang.host.ir import Cell, Const, Expr, Var
from finchlang.host.recording import ResidualHost
from finchlang.operators import body_rules
from finchlang.operators.build import Build
from finchlang.operators.operator import Operator
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import check_values, flat
from finchlang.syntax.types import TYPES, Bool, Float64, Int64, Type
from finchlang.syntax.user_function import Itself, Operation

#: calls of functions that call themselves nest so deeply
RECURSION = 500
#: how many steps of loops a call on literals may take when the kernel is made, or it is left to run time
STEPS = 1_000


def _not_built(*args: Expr) -> Expr:
    raise Bug("a function of the script is staged over a host")


@record(eq=False)
class StagedOperator(Operator):
    """The row of a function of the script, its `node`. `lookup` gives the rows of operators in its body."""

    build: Build = _not_built
    node: Operation = field(kw_only=True)
    lookup: body_rules.Lookup = field(kw_only=True)
    known_names: dict[tuple[Type, ...], body_rules.BodyNames] = field(default_factory=dict)
    #: the types taken for those of results while these are found, by a thread, for its own use
    guesses: dict[tuple[int, tuple[Type, ...]], Type] = field(default_factory=dict)
    is_staged = True

    @cached_property
    def is_recursive(self) -> bool:
        return any(isinstance(n, Itself) for n in trees.walk(self.node.body))

    def row_of(self, node: ast.Node) -> Operator | None:
        """The row of an operator in the body."""
        return self if isinstance(node, Itself) else self.lookup(node)

    @cached_property
    def returns_last(self) -> bool:
        """Whether the one `return` of the body is its last statement."""
        body: Any = self.node.body
        returns = [*trees.find_all(body, ast.Return)]
        return len(returns) == 1 and flat(body.statements)[-1] is returns[0]

    @cached_property
    def changing(self) -> set[str]:
        """The names that need a cell: those not assigned once alone, at the outermost level."""
        body, given = self.node.body, [*_assigned(trees.walk(self.node.body))]
        once = _assigned(flat(body.statements)) if isinstance(body, ast.Script) else ()
        fixed = {n for n in once if given.count(n) == 1 and n not in self.node.parameters}
        return {*given} - fixed

    def names(self, types: tuple[Type, ...]) -> body_rules.BodyNames:
        """The types of names for arguments of these types. Raises FinchError "type"."""
        if types not in self.known_names:
            check_values(self.node.body, self.node.parameters, may_be_unset)
            found = self.with_guess(types) if self.is_recursive else self.found_names(types)
            self.known_names[types] = found
        return self.known_names[types]

    def found_names(self, types: tuple[Type, ...]) -> body_rules.BodyNames:
        names = body_rules.BodyNames()
        args = [Var(n, t) for n, t in zip(self.node.parameters, types, strict=True)]
        host = ResidualHost()
        host.is_exact = True  # functions that are called have their code once
        names.types[body_rules.RESULT] = self.run(host, args, names, True).type
        return names

    def with_guess(self, types: tuple[Type, ...]) -> body_rules.BodyNames:
        """The types of names of a function that calls itself: those with which the result has the type that
        was taken for it. Where the function ends there is one such type."""
        first: FinchError | None = None
        for guess in (Int64, Float64, Bool, *TYPES.values()):
            self.guesses[get_ident(), types] = guess
            try:
                found = self.found_names(types)
                if found.types[body_rules.RESULT] == guess:
                    return found
            except FinchError as error:
                first = first or error
            finally:
                del self.guesses[get_ident(), types]
        raise first or FinchError("type", f"`{self.name}` has no one type of result")

    def result_type(self, types: tuple[Type, ...]) -> Type:
        return self.names(types).types[body_rules.RESULT]

    def applied(
        self, args: Sequence[Expr], host: Host, span: Span | None, given: Expr = TRUE
    ) -> Expr:
        named = zip(self.node.parameters, args, strict=True)
        args = [host.let(arg, name) for name, arg in named]
        types = tuple([arg.type for arg in args])
        if (guess := self.guesses.get((get_ident(), types))) is not None:
            return host.variable("result", guess)
        names = self.names(types)
        if host.is_exact or self.is_recursive:
            return self.shared(host, args, names, span, given)
        return self.run(host, args, names, given=given)

    def shared(
        self,
        host: Host,
        args: list[Expr],
        names: body_rules.BodyNames,
        span: Span | None,
        given: Expr,
    ) -> Expr:
        """As `run`, in a procedure for all calls with arguments of these types."""
        result = host.cell(body_rules.any_of(names.types[body_rules.RESULT]), "result")
        count, depth = len(args), host.depth
        inner = add(depth, 1) if self.is_recursive else depth

        def body(values: tuple[Expr, ...], cells: tuple[Cell, ...]) -> None:
            around = host.depth, host.note
            host.depth, host.note = values[count], values[count + 1 :]
            host.set(cells[0], self.run(host, values[:count], names))
            host.depth, host.note = around

        def enter() -> None:
            if self.is_recursive:
                message = f"`{self.name}` is called more than {RECURSION} deep"
                fail_unless(host, compare("lt", depth, RECURSION), "resource", message, (), span)
            key = self.node, tuple([arg.type for arg in args]), host.is_exact, len(host.note)
            host.share(key, (*args, inner, *host.note), (result,), body, True)

        host.branch(given, enter)
        return host.get(result)

    def run(
        self,
        host: Host,
        args: Sequence[Expr],
        names: body_rules.BodyNames,
        is_first: bool = False,
        given: Expr = TRUE,
    ) -> Expr:
        """Run the body by the rules for its statements; the first time to find the types of names, which
        takes a host that records: it goes through all arms in order."""
        node, machine = self.node, Machine(body_rules.STATEMENTS)
        own = node.name, node.parameters
        body = body_rules.FunctionBody(*own, self.changing, self.row_of, names)
        state = body_rules.BodyState(host, body, dict(zip(node.parameters, args, strict=True)))
        if not isinstance(node.body, ast.Script):
            return body_rules.evaluate(machine, node.body, state, given)
        if is_first or names.is_marked:
            state = replace(state, mark=host.cell(ZERO, "mark"))
        if not is_first:
            body.make_cells(host, state.values)
        if not is_first and self.returns_last and given is TRUE:
            *before, last = node.body.statements
            after = machine.run(ast.Script(tuple(before)), state)
            return body_rules.evaluate(machine, last.value, after)  # type: ignore[attr-defined]
        if not is_first:
            unset = body_rules.any_of(names.types[body_rules.RESULT])
            body.cells[body_rules.RESULT] = host.cell(unset, "result")
        host.branch(given, partial(body_rules.perform, machine, node.body, state))
        return host.get(body.cells[body_rules.RESULT])

    def folded(self, args: Sequence[Const]) -> Const | None:
        """The result for constants; None if there is none, or finding it takes too many steps."""
        host = _Hasty()
        try:
            result = self.applied(args, host, None)
            return const(host.evaluate(result), result.type)
        except (FinchError, _TooLong):
            return None


def may_be_unset(name: str, span: Span | None) -> None:
    hint = f"give `{name}` a value on every way that leads here"
    raise FinchError("type", f"`{name}` may have no value here", span, hint)


def _assigned(nodes: Iterable[ast.Node]) -> Iterator[str]:
    """The names that statements assign to, each as often as it is assigned."""
    return (t.name for n in nodes if isinstance(n, ast.Let) for t in n.targets)  # type: ignore


class _TooLong(Exception):
    """Too many steps were taken for literals."""


class _Hasty(ExecutingHost):
    """A host that gives up after STEPS steps of loops."""

    def loop(
        self, condition: Callable[[], Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        def step() -> None:
            if self.steps["loop"] > STEPS:
                raise _TooLong
            body()

        super().loop(condition, step)
