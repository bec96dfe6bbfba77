"""What a rule or a level may ask of its host. An operation is a statement of the host language, which
`executing.py` performs and `recording.py` records; what stands for code in a statement is up to each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial

from finchlang.base.errors import Span
from finchlang.host import construct as code, ir
from finchlang.host.ir import Buffer, Cell, Const, Expr, Op, Stmt, Var
from finchlang.syntax.types import Bool, Int64, Type

#: what is known of a variable, if anything; the body of a branch or loop, and of a counted loop; values and
#: cells, and code that works on these
Fact = Expr | None
Body = Callable[[], None]
Turn = Callable[[Expr], None]
Exprs = tuple[Expr, ...]
Cells = tuple[Cell, ...]
Shared = Callable[[Exprs, Cells], None]
#: conditions, and whether they hold
Facts = Mapping[Expr, bool]

_COMPLEMENTS = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


class Host(ABC):
    """A host. Positions are Int64 and count from 0; `known` are facts for the prover: the bounds `lower`
    and `upper`. Functions that are given as arguments, as the arms of a branch, may be called later than
    the rule runs (the interpreter) or only once (recording)."""

    #: what failures note
    note: Exprs = ()
    #: whether functions of the script compute with floats exactly as they are written, and share their code
    is_exact = False
    #: how deep the calls are nested of the function that is run and that calls itself
    depth: Expr = code.ZERO
    #: what the arms of branches around know
    facts: Facts = {}

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()

    def apart(self, body: Body) -> None:
        """Run `body`, which shares no code (`share`) with what is around it."""
        body()

    @abstractmethod
    def do(self, statement: Stmt) -> None:
        """Perform or record a statement."""

    def fresh(self, name: str) -> str:
        """A name that no other variable or cell has."""
        self._names[name] += 1
        return f"{name}_{self._names[name]}"

    def variable(self, name: str, type: Type, **known: Fact) -> Var:
        """A new variable, bound from outside as an input of a kernel, or by a statement to come."""
        return Var(self.fresh(name), type, **known)

    def let(self, expr: Expr, name: str = "t", **known: Fact) -> Expr:
        """`expr` evaluated once: a variable, or `expr` itself if it is a constant or variable."""
        if isinstance(expr, (Const, Var)):
            return expr
        variable = Var(self.fresh(name), expr.type, definition=expr, **known)
        self.do(ir.Bind(variable, expr))
        return variable

    def load(
        self, buffer: Buffer, index: Expr, name: str = "v", type: Type | None = None, **known: Fact
    ) -> Expr:
        """A variable with buffer[index] as it is now, cast to `type` if given."""
        kind = type or buffer.type
        is_cast = kind != buffer.type
        variable = self.variable(name, buffer.type, **({} if is_cast else known))
        self.do(ir.Load(variable, buffer, index))
        return self.let(code.cast(variable, kind), name, **known) if is_cast else variable

    def store(self, buffer: Buffer, index: Expr, value: Expr) -> None:
        """buffer[index] = value, cast to the buffer's type."""
        self.do(ir.Store(buffer, index, code.cast(value, buffer.type)))

    def cell(self, init: Expr, name: str = "c") -> Cell:
        """A new mutable cell holding `init`."""
        cell = Cell(self.fresh(name), init.type)
        self.do(ir.Set(cell, init))
        return cell

    def get(self, cell: Cell, **known: Fact) -> Expr:
        """A variable with the content of `cell` as it is now."""
        variable = self.variable(cell.name.rsplit("_", 1)[0], cell.type, **known)
        self.do(ir.Get(variable, cell))
        return variable

    def set(self, cell: Cell, value: Expr) -> None:
        self.do(ir.Set(cell, code.cast(value, cell.type)))

    def clock(self) -> Expr:
        """What a clock of the machine says, as `ir.Clock`."""
        variable = self.variable("clock", Int64)
        self.do(ir.Clock(variable))
        return variable

    def grow(self, buffer: Buffer, size: Expr) -> None:
        """Make room for at least `size` entries; new ones are undefined."""
        self.do(ir.Grow(buffer, size))

    def exchange(self, buffer: Buffer, other: Buffer) -> None:
        """Two buffers of one type exchange their memory."""
        self.do(ir.Exchange(buffer, other))

    def fill(self, buffer: Buffer, start: Expr, stop: Expr, value: Expr) -> None:
        """buffer[start .. stop - 1] = value."""
        self.do(ir.Fill(buffer, start, stop, code.cast(value, buffer.type)))

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Var:
        """The least position p in start..stop with p == stop or buffer[p] >= key."""
        variable = self.variable(name, Int64, lower=start, upper=stop)
        self.do(ir.Search(variable, buffer, start, stop, code.key_among(key, buffer.type)))
        return variable

    def disjoint(
        self, buffer: Buffer, index: Expr, shift: Expr, other: Buffer, place: Expr
    ) -> Expr:
        """Whether two blocks have no number in common, as `ir.Disjoint`."""
        variable = self.variable("disjoint", Bool)
        self.do(ir.Disjoint(variable, buffer, index, shift, other, place))
        return variable

    def sort(self, buffer: Buffer, start: Expr, stop: Expr) -> None:
        """As `ir.Sort`."""
        self.do(ir.Sort(buffer, start, stop))

    def sort_bits(
        self, words: Buffer, scratch: Buffer, start: Expr, stop: Expr, low: Expr, high: Expr
    ) -> None:
        """As `ir.SortBits`."""
        self.do(ir.SortBits(words, scratch, start, stop, low, high))

    def fail(self, kind: str, message: str, values: Exprs = (), span: Span | None = None) -> None:
        """Stop with a FinchError of `kind`; `message` has a `{}` for each of `values`."""
        self.do(ir.Fail(kind, message, values, span, self.note))

    @abstractmethod
    def block(self, body: Body, *variables: Var) -> ir.Code:
        """Code that does what `body` does: the arm of a branch, or the body of a loop that counts by a
        variable."""

    def branch(
        self,
        condition: Expr,
        then: Body,
        otherwise: Body | None = None,
        is_rare: bool = False,
        variable: Var | None = None,
    ) -> None:
        """Run one of the arms, or the only possible one if it is known whether the condition holds.
        `is_rare` and `variable` as in `ir.Branch`."""
        condition = self.reduced(condition)
        if not isinstance(condition, Const):
            code = self.block(self._arm(condition, True, then))
            other = ir.Code(())
            if otherwise is not None:
                other = self.block(self._arm(condition, False, otherwise))
            self.do(ir.Branch(condition, code, other, is_rare, variable))
        elif condition.value:
            then()
        elif otherwise is not None:
            otherwise()

    def reduced(self, condition: Expr) -> Expr:
        """A condition as it is in the arms of branches around."""
        return reduced(condition, self.facts)

    def _arm(self, condition: Expr, holds: bool, body: Body) -> Body:
        return partial(self.knowing, {**self.facts, **dict(facts_of(condition, holds))}, body)

    def knowing(self, facts: Facts, body: Body) -> None:
        """Run `body`, where just these facts are known."""
        around, self.facts = self.facts, facts
        try:
            body()
        finally:  # a failure may be caught around
            self.facts = around

    def only_if(
        self,
        condition: Expr,
        value: Callable[[], Expr],
        name: str,
        otherwise: Expr | Callable[[], Expr] = code.FALSE,
        type: Type | None = None,
        **known: Fact,
    ) -> Expr:
        """`value()`, which is computed only where `condition` holds, else `otherwise` or what that returns;
        cast to `type`, or to that of `otherwise`."""
        condition = self.reduced(condition)
        other = (lambda: otherwise) if isinstance(otherwise, Expr) else otherwise
        kind = otherwise.type if isinstance(otherwise, Expr) else type
        assert kind is not None
        if isinstance(condition, Const):
            return code.cast(value() if condition.value else other(), kind)
        variable = self.variable(name, kind, **known)

        def give(value: Callable[[], Expr]) -> None:
            self.do(ir.Give(variable, code.cast(value(), kind)))

        self.branch(condition, partial(give, value), partial(give, other), variable=variable)
        return variable

    @abstractmethod
    def loop(self, condition: Callable[[], Expr], body: Body, is_endless: bool = False) -> None:
        """While `condition` holds, run `body`. `is_endless` as in `ir.WhileLoop`."""

    def count(self, start: Expr, stop: Expr, body: Turn, name: str = "i") -> None:
        """Run `body` for each integer from `start` to `stop`, both included."""
        variable = self.variable(name, Int64, lower=start, upper=stop)
        code = self.block(lambda: body(variable), variable)
        self.do(ir.ForLoop(variable, start, stop, code))

    def each_of(self, count: Expr, body: Turn, name: str = "i") -> None:
        """Run `body` for each of `count` integers, from 0 on."""
        self.count(code.ZERO, code.sub(count, 1), body, name)

    @abstractmethod
    def share(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool = False
    ) -> None:
        """Run `body` on variables that hold `values`, of which nothing else is known, and on cells that
        stand for `cells`. Calls with the same `key` must do the same, so that code is recorded only
        once. A body that `is_closed`, which uses nothing of the code around it, may share itself."""


def fail_unless(
    host: Host, holds: Expr, kind: str, message: str, values: Exprs, span: Span | None
) -> None:
    """Stop with a FinchError of `kind` unless a condition holds; nothing is done if it is true already."""
    if not (isinstance(holds, Const) and holds.value):
        host.branch(holds, lambda: None, lambda: host.fail(kind, message, values, span))


def bit_length(host: Host, number: Expr) -> Expr:
    """How many bits `number` (Int64) has; 0 if it is not positive. Takes the same time for all numbers."""
    return host.let(code.op("bits", number), "bits", lower=code.ZERO)


def facts_of(condition: Expr, holds: bool) -> Iterator[tuple[Expr, bool]]:
    """What follows from a condition that holds, or that does not."""
    yield condition, holds
    match condition:
        case Op(name="not", args=(inner,)):
            yield from facts_of(inner, not holds)
        case Op(name="and" | "or" as name, args=parts) if (name == "and") is holds:
            for part in parts:
                yield from facts_of(part, holds)
        case Op(name=name, args=(one, other)) if name in _COMPLEMENTS and not one.type.is_float:
            yield code.op(_COMPLEMENTS[name], one, other), not holds


def reduced(condition: Expr, facts: Facts) -> Expr:
    """A condition as it is where the facts are known."""
    if isinstance(condition, Const) or not facts:
        return condition
    if condition in facts:
        return code.TRUE if facts[condition] else code.FALSE
    if isinstance(condition, Op) and condition.name in ("and", "or", "not"):
        return code.op(condition.name, *(reduced(part, facts) for part in condition.args))
    return condition
