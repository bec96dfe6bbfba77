"""Functions of scripts as operators: their bodies, staged over a host where they are called.

Each name in a function, and its result, has one type on all ways through it, so that a kernel computes
what the script would. Staging the body once for variables of the arguments' types finds these types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property, reduce
from typing import Any

from finchlang.base.errors import Bug, FinchError, Span
from finchlang.base.records import record
from finchlang.host.construct import FALSE, TRUE, ZERO, add, compare, const, exactly, op, sub
from finchlang.host.executing import ExecutingHost
from finchlang.host.interface import Host
from finchlang.host.ir import Cell, Const, Expr, Var
from finchlang.host.recording import ResidualHost
from finchlang.operators.build import Build, modulus
from finchlang.operators.operator import Operator, called
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import BREAK, CONTINUE, NEXT, RETURN, Ways, arms, flat, ways
from finchlang.syntax.types import TYPES, Bool, Int64, Type, type_of_value
from finchlang.syntax.user_function import Operation

#: how many steps of loops a call on literals may take when the kernel is made, or it is left to run time
STEPS = 10_000
#: the name of the result, which no name of a script is
RESULT = "return"
#: gives the row of the operator that a node names
Lookup = Callable[[ast.Node], Operator | None]


@dataclass(eq=False)
class BodyNames:
    """What staging a body for argument types finds: the types of its names and of the result, and whether
    a cell must hold how the last statement ended (`is_marked`)."""

    types: dict[str, Type] = field(default_factory=dict)
    is_marked: bool = False


def _not_built(*args: Expr) -> Expr:
    raise Bug("a function of the script is staged over a host")


@record(eq=False)
class StagedOperator(Operator):
    """The row of a function of the script, its `node`. `lookup` gives the rows of operators in its body."""

    build: Build = _not_built
    node: Operation = field(kw_only=True)
    lookup: Lookup = field(kw_only=True)
    known_names: dict[tuple[Type, ...], BodyNames] = field(default_factory=dict)
    is_staged = True

    @cached_property
    def returns_last(self) -> bool:
        """Whether the one `return` of the body is its last statement."""
        body: Any = self.node.body
        returns = [n for n in trees.walk(body) if isinstance(n, ast.Return)]
        return len(returns) == 1 and flat(body.statements)[-1] is returns[0]

    @cached_property
    def changing(self) -> set[str]:
        """The names that need a cell: those not assigned once alone, at the outermost level."""
        body, given = self.node.body, [*_assigned(trees.walk(self.node.body))]
        once = _assigned(flat(body.statements)) if isinstance(body, ast.Script) else ()
        fixed = {n for n in once if given.count(n) == 1 and n not in self.node.parameters}
        return {*given} - fixed

    def names(self, types: tuple[Type, ...]) -> BodyNames:
        """The types of names for arguments of these types. Raises FinchError "type"."""
        if types not in self.known_names:
            names = BodyNames()
            args = [Var(n, t) for n, t in zip(self.node.parameters, types, strict=True)]
            result = StagedBody(self, ResidualHost(), args, names, is_first=True).run(TRUE)
            names.types[RESULT] = result.type
            self.known_names[types] = names
        return self.known_names[types]

    def result_type(self, types: tuple[Type, ...]) -> Type:
        return self.names(types).types[RESULT]

    def applied(
        self, args: Sequence[Expr], host: Host, span: Span | None, given: Expr = TRUE
    ) -> Expr:
        named = zip(self.node.parameters, args, strict=True)
        args = [host.let(arg, name) for name, arg in named]
        names = self.names(tuple([arg.type for arg in args]))
        return StagedBody(self, host, args, names).run(given)

    def folded(self, args: Sequence[Const]) -> Const | None:
        """The result for constants; None if there is none, or finding it takes too many steps."""
        host = _Hasty()
        try:
            result = self.applied(args, host, None)
            return const(host.evaluate(result), result.type)
        except (FinchError, _TooLong):
            return None


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


@dataclass(eq=False)
class StagedBody:
    """One run of a body over a host. A name has a cell if it is assigned more than once, or not at the
    outermost level. The cell `mark` holds how the last statement ended, where that is asked for.

    The first run (`is_first`) finds the types of names, for `names`, and checks that names have a value
    where they are used: `known` are those that have one. It needs a host that records, which goes through
    all arms in order; one that performs may come to an arm or a loop's body later than to what follows
    it, or never.
    """

    staged: StagedOperator
    host: Host
    args: InitVar[Sequence[Expr]]
    names: BodyNames
    is_first: bool = False
    cells: dict[str, Cell] = field(default_factory=dict)
    mark: Cell | None = None

    def __post_init__(self, args: Sequence[Expr]) -> None:
        self.operation = self.staged.node
        self.values = dict(zip(self.operation.parameters, args, strict=True))
        self.known = set(self.operation.parameters)
        self.broken: list[list[set[str]]] = []  # what is known at the breaks of the loops around

    def run(self, given: Expr) -> Expr:
        body, host, names = self.operation.body, self.host, self.names
        if not isinstance(body, ast.Script):
            return self.expression(body, given)
        if self.is_first:
            self.mark = host.cell(ZERO, "mark")
            self.statements(body.statements)
            return host.get(self.cells[RESULT])
        self.mark = host.cell(ZERO, "mark") if names.is_marked else None
        self.make_cells()
        *before, last = body.statements
        if self.staged.returns_last and given is TRUE:
            self.statements(tuple(before))
            return self.expression(last.value)  # type: ignore[attr-defined]
        self.cells[RESULT] = host.cell(_any(names.types[RESULT]), "result")
        host.branch(given, lambda: self.statements(body.statements))
        return host.get(self.cells[RESULT])

    def make_cells(self) -> None:
        """The cells of names that change: of parameters with their values, of others with any."""
        host = self.host
        for name, type in self.names.types.items():
            if name in self.staged.changing and name not in self.values:
                self.cells[name] = host.cell(_any(type), name)
        for name in self.operation.parameters:
            if name in self.staged.changing:
                self.cells[name] = host.cell(self.values[name], name)

    # ---------------------------------------------------------------- expressions

    def expression(self, node: ast.Node, given: Expr = TRUE) -> Expr:
        match node:
            case ast.Literal(value, name):
                type = TYPES[name] if name else type_of_value(value)
                assert type is not None
                return const(value, type)
            case ast.Variable(name):
                return self.value(name, node.span)
            case ast.Call(op, args):
                row = self.staged.lookup(op)
                if row is None:
                    raise Bug(f"{op!r} is no operator")
                return self.call(row, node, args, given)
        raise Bug(f"{node!r} is no expression of an operator")

    def call(self, row: Operator, node: ast.Node, args: tuple[ast.Node, ...], given: Expr) -> Expr:
        found: list[Expr] = []

        def evaluate(arg: ast.Node, needed: Expr) -> Expr:
            found.append(self.expression(arg, needed))
            return found[-1]

        result = called(row, args, evaluate, self.host, node.span, given)
        if self.host.is_exact:
            result = exactly(result)
        if row.selects and found[1].type != found[2].type:
            raise self.differs("this", found[1].type, found[2].type, args[2].span)
        return result

    def value(self, name: str, span: Span | None) -> Expr:
        if self.is_first and name not in self.known:
            message = f"`{name}` may have no value here"
            hint = f"give `{name}` a value on every way that leads here"
            raise FinchError("type", message, span, hint)
        return self.host.get(self.cells[name]) if name in self.cells else self.values[name]

    def condition(self, node: ast.Node) -> Expr:
        found = self.expression(node)
        if found.type != Bool:
            message = f"a condition must be a Bool, not {found.type}"
            raise FinchError("type", message, node.span, "compare it, as in `x != 0`")
        return found

    def differs(self, what: str, one: Type, other: Type, span: Span | None) -> FinchError:
        message = f"{what} is {one} on one way through `{self.operation.name}`, {other} on another"
        wide = other if one == Bool or other.is_float else one
        hint = f"an operator has one type on all ways: convert one, as in `{wide}(...)`"
        return FinchError("type", message, span, hint)

    # ---------------------------------------------------------------- statements

    def statements(self, nodes: tuple[ast.Node, ...]) -> None:
        """Statements one after the other, as long as none leaves what they stand in."""
        nodes = flat(nodes)
        for k, node in enumerate(nodes):
            rest, ends = nodes[k + 1 :], ways(node)
            leaves = NEXT in ends and len(ends) > 1
            if leaves and rest and isinstance(node, ast.If):
                found = arms(node.branches)
                going = [at for at, (_, body) in enumerate(found) if NEXT in ways(body)]
                if len(going) == 1:  # what follows belongs to that arm
                    condition, body = found[going[0]]
                    longer = (condition, ast.Script((body, *rest)))
                    self.choose((*found[: going[0]], longer, *found[going[0] + 1 :]))
                    return
            self.statement(node)
            if leaves and rest:
                is_next = compare("eq", self.marked(), NEXT)
                self.host.branch(is_next, lambda rest=rest: self.statements(rest))  # type: ignore
                return
            if NEXT not in ends:
                return

    def statement(self, node: ast.Node) -> None:
        match node:
            case ast.Let(targets, _, value):
                values = value.items if len(targets) > 1 else (value,)  # type: ignore[attr-defined]
                found = [self.host.let(self.expression(v)) for v in values]
                for target, expr in zip(targets, found, strict=True):
                    self.assign(target.name, expr, target.span)  # type: ignore[attr-defined]
            case ast.If(branches):
                self.choose(arms(branches))
            case ast.While(condition, body):
                self.loop(lambda: self.condition(condition), body, condition == ast.Literal(True))
            case ast.For(name, ast.Range() as range, body):
                self.count(name, range, body)
            case ast.Return(value):
                assert value is not None
                self.assign(RESULT, self.expression(value), value.span)
                self.leave(RETURN)
            case ast.Break():
                if self.is_first:
                    self.broken[-1].append(set(self.known))
                self.leave(BREAK)
            case ast.Continue():
                self.leave(CONTINUE)
            case _:
                self.expression(node)

    def assign(self, name: str, value: Expr, span: Span | None) -> None:
        known = self.names.types.get(name)
        if name in self.operation.parameters:
            known = self.values[name].type
        if known is not None and known != value.type:
            what = "the result" if name == RESULT else f"`{name}`"
            raise self.differs(what, known, value.type, span)
        self.names.types[name] = value.type
        self.known.add(name)
        if name in self.cells:
            self.host.set(self.cells[name], value)
        elif name == RESULT or name in self.staged.changing:
            self.cells[name] = self.host.cell(value, name)
        else:
            self.values[name] = value

    def choose(self, branches: tuple[tuple[ast.Node, ast.Node], ...]) -> None:
        """Run the first of the branches whose condition holds."""
        (condition, body), *others = branches
        if not others:
            self.statements((body,))
            return
        before, ends = set(self.known), []

        def arm(run: Callable[[], None], leaves: bool) -> Callable[[], None]:
            def do() -> None:
                self.known = set(before)
                run()
                if not leaves:
                    ends.append(self.known)

            return do

        more = tuple(others)
        self.host.branch(
            self.condition(condition),
            arm(lambda: self.statements((body,)), NEXT not in ways(body)),
            arm(lambda: self.choose(more), all(NEXT not in ways(b) for _, b in more)),
        )
        self.known = reduce(set.intersection, ends) if ends else before

    def loop(
        self,
        condition: Callable[[], Expr],
        body: ast.Node,
        is_endless: bool,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """A loop whose steps do `begin` first. The mark of a break or return is looked at before the
        condition."""
        host, ends = self.host, ways(body)
        before = set(self.known)
        self.broken.append([])

        def goes_on() -> Expr:
            if not ends & {BREAK, RETURN}:
                return condition()
            is_next = compare("eq", self.marked(), NEXT)
            if is_endless:
                return is_next
            holds = host.cell(FALSE, "holds")
            host.branch(is_next, lambda: host.set(holds, condition()))
            return host.get(holds)

        def step() -> None:
            self.known = set(before)
            begin()
            self.statements((body,))
            self.forget(CONTINUE, ends)

        host.loop(goes_on, step, is_endless=True)
        self.forget(BREAK, ends)
        broken = self.broken.pop()
        self.known = reduce(set.intersection, broken) if is_endless and broken else before

    def count(self, name: str, range: ast.Range, body: ast.Node) -> None:
        """A loop over the integers of a range, whose ends are evaluated once."""
        host = self.host
        start, stop = (self.bound(end) for end in (range.start, range.stop))
        step = 1 if range.step is None else range.step.value  # type: ignore[attr-defined]
        last = stop  # it is known before: behind the greatest integer counting would begin anew
        if abs(step) > 1:
            size = const(step)
            rest = modulus(sub(modulus(stop, size), modulus(start, size)), size)
            last = host.let(sub(stop, rest), "last")
        at = host.cell(start, name)
        is_left = host.cell(compare("le" if step > 0 else "ge", start, stop), "is_left")

        def begin() -> None:
            value = host.get(at)
            host.set(is_left, compare("ne", value, last))
            host.set(at, add(value, step))
            self.known.add(name)
            self.values[name] = value
            if name in self.staged.changing:
                self.assign(name, value, None)

        self.loop(lambda: host.get(is_left), body, False, begin)

    def bound(self, node: ast.Node) -> Expr:
        found = self.host.let(self.expression(node), "n")
        if found.type != Int64:
            message = f"a bound of a range in an operator is an Int64, not {found.type}"
            raise FinchError("type", message, node.span, "convert it, as in `Int64(...)`")
        return found

    # ---------------------------------------------------------------- how statements end

    def marked(self) -> Expr:
        self.names.is_marked = True
        assert self.mark is not None
        return self.host.get(self.mark)

    def leave(self, way: int) -> None:
        if self.mark is not None:
            self.host.set(self.mark, const(way))

    def forget(self, way: int, ends: Ways) -> None:
        """Reset the mark of this way to NEXT: what it leaves ends here."""
        if way in ends and self.mark is not None:
            mark = self.host.get(self.mark)
            self.host.set(self.mark, op("select", compare("eq", mark, way), ZERO, mark))


def _any(type: Type) -> Const:
    return const(type.wrap((0, 0) if type.kind == "pair" else 0), type)
