"""Memory checks: before each statement that accesses arrays, whether the entries exist, and whether those
that it reads were written. If not, the program ends with a Bug that names the statement.

An array that grows has as many entries as there were at first, or as Grow was asked for, whatever its
capacity. It has a shadow with a byte for each entry: whether it was written since it was asked for. What an
array holds when the program begins counts as written; scratch memory, and what a sort leaves undefined, do
not. Of the range of a search only the first and the last entry are checked: with a check of each entry an
outer product of 1,600 x 1,600 took 22 times as long as unchecked, and takes 3 times as long so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finchlang.base.errors import BUG
from finchlang.host import ir
from finchlang.host.construct import ONE, ZERO, add, cast, compare, const, minimum, op, sub
from finchlang.host.listing import Listing
from finchlang.host.rewrite import everything, moved, rewrite
from finchlang.syntax.types import Int64, UInt8, UInt64

UNWRITTEN, WRITTEN = const(0, UInt8), const(1, UInt8)
#: a buffer, the range from start to before stop, and whether the entries are read
Part = tuple[ir.Buffer, ir.Expr, ir.Expr, bool]


def check_memory(residual: ir.Residual) -> ir.Residual:
    """The program with checks; comes after all other passes. The last buffers of the result belong to the
    checks; the caller gives them no memory."""
    checks = _Checks(residual)
    procedures = [replace(p, body=rewrite(p.body, checks.checked)) for p in residual.procedures]
    body = ir.Code((*checks.begin(), *rewrite(residual.body, checks.checked).statements))
    buffers = (*residual.buffers, checks.sizes, *checks.shadows.values())
    return replace(residual, buffers=buffers, body=body, procedures=tuple(procedures))


def parts(statement: ir.Stmt) -> Iterator[Part]:
    """The parts of arrays that `statement` reads and writes, as far as its operands give their
    positions."""
    match statement:
        case ir.Load(_, buffer, index) | ir.Store(buffer, index):
            yield buffer, index, add(index, 1), isinstance(statement, ir.Load)
        case ir.Fill(buffer, start, stop):
            yield buffer, start, stop, False
        case ir.Search(_, buffer, start, stop) | ir.Sort(buffer, start, stop):
            yield buffer, start, stop, True
        case ir.Disjoint(_, buffer, index, _, other, place):
            yield buffer, index, add(index, ir.BLOCK), True
            yield other, place, add(place, ir.BLOCK), True
        case ir.SortBits(buffer, scratch, start, stop):
            yield buffer, start, stop, True
            yield scratch, start, stop, False


class _Checks:
    """`shadows` has the shadow of each array that has one, `numbers` the position in `sizes` of its number
    of entries; `scratch` has that number for scratch buffers."""

    def __init__(self, residual: ir.Residual):
        self.sizes, self.scratch = ir.Buffer("sizes", Int64), dict(residual.scratch)
        grown = dict.fromkeys(moved(everything(residual)))
        self.numbers = {b: const(number) for number, b in enumerate((*grown, *self.scratch))}
        self.shadows = {b: ir.Buffer(f"{b}_written", UInt8) for b in self.numbers}
        self._listing = Listing()
        self._listing.text(residual)  # for the names that statements have there

    def begin(self) -> Iterator[ir.Stmt]:
        """Initially all entries of arrays given count as written, and none of scratch memory."""
        yield ir.Grow(self.sizes, const(len(self.numbers)))
        for buffer, number in self.numbers.items():
            own, size = self.scratch.get(buffer), ir.Var("size", Int64)
            shadow = self.shadows[buffer]
            yield ir.Room(size, buffer) if own is None else ir.Bind(size, const(own))
            yield from (ir.Store(self.sizes, number, size), ir.Grow(shadow, size))
            yield ir.Fill(shadow, ZERO, size, WRITTEN if own is None else UNWRITTEN)

    def checked(self, statement: ir.Stmt) -> list[ir.Stmt]:
        """`statement`, with checks before it, and after it a note of what it has written."""
        if isinstance(statement, ir.Grow):
            return self._grown(statement)
        if isinstance(statement, ir.Exchange):
            return self._exchanged(statement)
        if isinstance(statement, ir.Room):
            return [self._sized(statement.variable, statement.buffer)]
        if isinstance(statement, ir.CallProcedure):
            used, changed = self._shadowed(statement.used), self._shadowed(statement.changed)
            return [replace(statement, used=used, changed=changed)]
        touched, result = list(parts(statement)), list[ir.Stmt]()
        if touched:
            self._line = self._listing.statement(statement).replace("{", "{{").replace("}", "}}")
        for part in touched:
            result += self._accessed(*part, isinstance(statement, ir.Search))
        if isinstance(statement, ir.SortBits):
            low, high = statement.low, statement.high
            is_wrong = op("or", compare("lt", low, ZERO), compare("gt", low, high))
            is_wrong = op("or", is_wrong, compare("gt", high, 63))
            result.append(self._fail_if(is_wrong, "by bits {} to {}", low, high))
        result.append(statement)
        for buffer, start, stop, is_read in touched:
            if not is_read and buffer in self.shadows:
                content = WRITTEN if isinstance(statement, (ir.Store, ir.Fill)) else UNWRITTEN
                result.append(ir.Fill(self.shadows[buffer], start, stop, content))
        return result

    def _accessed(
        self, buffer: ir.Buffer, start: ir.Expr, stop: ir.Expr, is_read: bool, is_searched: bool
    ) -> list[ir.Stmt]:
        size, name = ir.Var("size", Int64), self._listing.name(buffer)
        count, last, result = sub(stop, start), sub(stop, 1), [self._sized(size, buffer)]
        if count is ONE:  # of unsigned numbers, among which negative ones are the greatest
            is_outside = compare("ge", cast(start, UInt64), cast(size, UInt64))
        elif isinstance(count, ir.Const) and count.value > 0:  # `stop` may have wrapped around
            is_behind = compare("gt", start, sub(size, count))
            is_outside = op("or", compare("lt", start, ZERO), is_behind)
        else:
            is_outside = op("or", compare("lt", start, ZERO), compare("gt", stop, size))
            is_outside = op("and", is_outside, compare("lt", start, stop))
        places, ends = ("{}", (start,)) if count is ONE else ("{}:{}", (start, last))
        result.append(self._fail_if(is_outside, f"{name}[{places}] of {{}}", *ends, size))
        if is_read and buffer in self.shadows:
            each, note = ir.Var("at", Int64), ir.Var("written", UInt8)
            at, first, behind = start if count is ONE else each, start, last
            if is_searched:
                first, behind = ZERO, minimum(sub(count, 1), 1)
                at = op("select", compare("eq", each, ZERO), start, last)
            is_unwritten = compare("eq", note, UNWRITTEN)
            fail = self._fail_if(is_unwritten, f"{name}[{{}}] was never written", at)
            look = (ir.Load(note, self.shadows[buffer], at), fail)
            result += look if at is start else [ir.ForLoop(each, first, behind, ir.Code(look))]
        return result

    def _grown(self, statement: ir.Grow) -> list[ir.Stmt]:
        shadow, number = self.shadows[statement.buffer], self.numbers[statement.buffer]
        before = ir.Var("size", Int64)
        size = statement.size
        unwritten = ir.Fill(shadow, before, size, UNWRITTEN)
        new = ir.Store(self.sizes, number, size), ir.Grow(shadow, size), unwritten
        is_new = compare("gt", statement.size, before)
        look = self._sized(before, statement.buffer)
        return [statement, look, ir.Branch(is_new, ir.Code(new))]

    def _exchanged(self, statement: ir.Exchange) -> list[ir.Stmt]:
        both = statement.buffer, statement.other
        shadows, numbers = [self.shadows[b] for b in both], [self.numbers[b] for b in both]
        sizes = ir.Var("size", Int64), ir.Var("size", Int64)
        return [
            statement,
            ir.Exchange(*shadows),
            *(ir.Load(size, self.sizes, at) for size, at in zip(sizes, numbers, strict=True)),
            *(ir.Store(self.sizes, at, s) for s, at in zip(sizes[::-1], numbers, strict=True)),
        ]

    def _sized(self, size: ir.Var, buffer: ir.Buffer) -> ir.Stmt:
        number = self.numbers.get(buffer)
        return ir.Room(size, buffer) if number is None else ir.Load(size, self.sizes, number)

    def _fail_if(self, is_wrong: ir.Expr, message: str, *values: ir.Expr) -> ir.Stmt:
        fail = ir.Fail(BUG, f"`{self._line}`: {message}", values)
        return ir.Branch(is_wrong, ir.Code((fail,)))

    def _shadowed(self, buffers: tuple[ir.Buffer, ...]) -> tuple[ir.Buffer, ...]:
        return (*buffers, self.sizes, *(self.shadows[b] for b in buffers if b in self.shadows))
