"""Memory checks: before each statement that reads or writes arrays whether the entries are there, and
whether those that it reads were written. Where not, the program ends with a Bug that names the statement.

An array that grows has as many entries as there were at first, or as Grow was asked for, whatever room
there is. It has a shadow, too, a byte for each entry: whether that was written since it was asked for.
What an array holds when the program begins counts as written; scratch memory, and what a sort leaves
undefined, do not. Of what is searched the first and the last entry are looked at, as a search would take
as many steps as there are entries otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from finchlang.host.fold import ONE, ZERO, add, cast, compare, const, minimum, op, sub
from finchlang.host.ir import (
    BLOCK,
    Buffer,
    Call,
    Code,
    Const,
    Disjoint,
    Expr,
    Fail,
    Fill,
    For,
    Grow,
    If,
    Let,
    Load,
    Residual,
    Room,
    Search,
    Sort,
    SortBits,
    SortBy,
    Stmt,
    Store,
    Var,
)
from finchlang.host.print import Listing
from finchlang.host.walk import everything, rewrite
from finchlang.source import BUG
from finchlang.types import Int64, UInt8

UNWRITTEN, WRITTEN = const(0, UInt8), const(1, UInt8)
#: so many entries of an array, from the first to the one before the last, and whether they are read
Part = tuple[Buffer, Expr, Expr, bool]


def check_memory(residual: Residual) -> Residual:
    """The program with checks, to come after all other passes. Its last buffers are for these; whoever
    runs it gives them no memory."""
    checks = _Checks(residual)
    procedures = [replace(p, body=rewrite(p.body, checks.checked)) for p in residual.procedures]
    body = Code((*checks.begin(), *rewrite(residual.body, checks.checked).statements))
    buffers = (*residual.buffers, checks.sizes, *checks.shadows.values())
    return replace(residual, buffers=buffers, body=body, procedures=tuple(procedures))


def parts(statement: Stmt) -> Iterator[Part]:
    """What `statement` reads and writes of arrays, at positions that it has from elsewhere."""
    match statement:
        case Load(_, buffer, index) | Store(buffer, index):
            yield buffer, index, add(index, 1), isinstance(statement, Load)
        case Fill(buffer, start, stop):
            yield buffer, start, stop, False
        case Search(_, buffer, start, stop) | Sort(buffer, start, stop):
            yield buffer, start, stop, True
        case Disjoint(_, buffer, index, _, other, place):
            yield buffer, index, add(index, BLOCK), True
            yield other, place, add(place, BLOCK), True
        case SortBy(buffer, scratch, start, stop) | SortBits(buffer, scratch, start, stop):
            yield buffer, start, stop, True
            yield scratch, start, stop, False


class _Checks:
    """`shadows` has the shadow of each array that has one, and `numbers` where in `sizes` its number of
    entries is; `scratch` tells that of those that are the program's own."""

    def __init__(self, residual: Residual):
        self.sizes, self.scratch = Buffer("sizes", Int64), dict(residual.scratch)
        grown = dict.fromkeys(s.buffer for s in everything(residual) if isinstance(s, Grow))
        self.numbers = {b: const(number) for number, b in enumerate((*grown, *self.scratch))}
        self.shadows = {b: Buffer(f"{b}_written", UInt8) for b in self.numbers}
        self._listing = Listing()
        self._listing.text(residual)  # statements are then told by the names they have there

    def begin(self) -> Iterator[Stmt]:
        """All there is of arrays given counts as written, and nothing of scratch."""
        yield Grow(self.sizes, const(len(self.numbers)))
        for buffer, number in self.numbers.items():
            own, size, shadow = self.scratch.get(buffer), Var("size", Int64), self.shadows[buffer]
            yield Room(size, buffer) if own is None else Let(size, const(own))
            yield from (Store(self.sizes, number, size), Grow(shadow, size))
            yield Fill(shadow, ZERO, size, WRITTEN if own is None else UNWRITTEN)

    def checked(self, statement: Stmt) -> list[Stmt]:
        """`statement`, with checks before it; behind it is noted what it has written."""
        if isinstance(statement, Grow):
            return self._grown(statement)
        if isinstance(statement, Room):
            return [self._sized(statement.variable, statement.buffer)]
        if isinstance(statement, Call):
            used, changed = self._shadowed(statement.used), self._shadowed(statement.changed)
            return [replace(statement, used=used, changed=changed)]
        touched, result = list(parts(statement)), list[Stmt]()
        if touched:
            self._listing.statement(statement, 0)
            self._line = self._listing.lines.pop().replace("{", "{{").replace("}", "}}")
        for part in touched:
            result += self._accessed(*part, isinstance(statement, Search))
        result += self._keys(statement)
        result.append(statement)
        for buffer, start, stop, is_read in touched:
            if not is_read and buffer in self.shadows:
                content = WRITTEN if isinstance(statement, (Store, Fill)) else UNWRITTEN
                result.append(Fill(self.shadows[buffer], start, stop, content))
        return result

    def _accessed(
        self, buffer: Buffer, start: Expr, stop: Expr, is_read: bool, is_searched: bool = False
    ) -> list[Stmt]:
        """Whether the entries are there and, if they are read, were written."""
        size, name = Var("size", Int64), self._listing.name(buffer)
        count, last, result = sub(stop, start), sub(stop, 1), [self._sized(size, buffer)]
        # if `count` is known, `stop` may have wrapped around
        is_some = isinstance(count, Const) and count.value > 0
        is_far = compare("gt", start, sub(size, count)) if is_some else compare("gt", stop, size)
        is_outside = op("or", compare("lt", start, ZERO), is_far)
        if not is_some:
            is_outside = op("and", is_outside, compare("lt", start, stop))
        places, ends = ("{}", (start,)) if count is ONE else ("{}:{}", (start, last))
        result.append(self._fail_if(is_outside, f"{name}[{places}] of {{}}", *ends, size))
        if is_read and buffer in self.shadows and not buffer.is_anything:
            each, note = Var("at", Int64), Var("written", UInt8)
            at, first, behind = start if count is ONE else each, start, last
            if is_searched:
                first, behind = ZERO, minimum(sub(count, 1), 1)
                at = op("select", compare("eq", each, ZERO), start, last)
            is_unwritten = compare("eq", note, UNWRITTEN)
            fail = self._fail_if(is_unwritten, f"{name}[{{}}] was never written", at)
            look = (Load(note, self.shadows[buffer], at), fail)
            result += look if at is start else [For(each, first, behind, Code(look))]
        return result

    def _keys(self, statement: Stmt) -> list[Stmt]:
        """Whether what is sorted has keys, and all are as the sort has it."""
        if isinstance(statement, SortBits):
            low, high = statement.low, statement.high
            is_wrong = op("or", compare("lt", low, ZERO), compare("gt", low, high))
            is_wrong = op("or", is_wrong, compare("gt", high, 63))
            return [self._fail_if(is_wrong, "by bits {} to {}", low, high)]
        if not isinstance(statement, SortBy):
            return []
        at, number = Var("at", Int64), Var("number", statement.buffer.type)
        key = Var("key", statement.keys.type)
        found, place = cast(key, Int64), cast(number, Int64)
        is_wrong = op("or", compare("lt", found, ZERO), compare("ge", found, statement.bound))
        look = (
            Load(number, statement.buffer, at),
            *self._accessed(statement.keys, place, add(place, 1), True),
            Load(key, statement.keys, place),
            self._fail_if(is_wrong, "a key {} of {}", found, statement.bound),
        )
        return [For(at, statement.start, sub(statement.stop, 1), Code(look))]

    def _grown(self, statement: Grow) -> list[Stmt]:
        shadow, number = self.shadows[statement.buffer], self.numbers[statement.buffer]
        before = Var("size", Int64)
        new = (
            Store(self.sizes, number, statement.size),
            Grow(shadow, statement.size),
            Fill(shadow, before, statement.size, UNWRITTEN),
        )
        is_new = compare("gt", statement.size, before)
        look = self._sized(before, statement.buffer)
        return [statement, look, If(is_new, Code(new), Code(()))]

    def _sized(self, size: Var, buffer: Buffer) -> Stmt:
        """`size` = how many entries an array has."""
        number = self.numbers.get(buffer)
        return Room(size, buffer) if number is None else Load(size, self.sizes, number)

    def _fail_if(self, is_wrong: Expr, message: str, *values: Expr) -> Stmt:
        fail = Fail(BUG, f"`{self._line}`: {message}", values)
        return If(is_wrong, Code((fail,)), Code(()))

    def _shadowed(self, buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return (*buffers, self.sizes, *(self.shadows[b] for b in buffers if b in self.shadows))
