"""The SparseList level over somebody else's arrays, which may change at any time: SciPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.host.fold import ONE, TRUE, ZERO, add, compare, conjunction, sub
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.residual import ResidualHost
from finchlang.tensors.sparse_list import SparseList
from finchlang.types import Int64, Type


@dataclass(frozen=True)
class BorrowedList(SparseList):
    """A SparseList whose `ptr` and `idx` are not the tensor's own: whatever they hold when a kernel
    reads them, positions stay within the arrays and coordinates within the dimension.

    What is out of range is taken for the nearest that is in it, and noted in the cell `fault`; so
    is a coordinate that does not ascend. A kernel that noted a fault fails in the end.
    """

    is_borrowed: ClassVar[bool] = True

    def __str__(self) -> str:
        return str(SparseList(self.lvl, self.index))


def order_check(index: Type) -> Residual:
    """`(ptr, idx; fibers, size, room)`: whether these are a BorrowedList of so many fibers, in a
    dimension of `size`, with `room` entries: positions that ascend from 0 and coordinates in range
    that ascend within each fiber. It reads nothing but ptr[0..fibers] and idx[0..room - 1]."""
    host = ResidualHost()
    ptr, idx = Buffer("ptr", index), Buffer("idx", index)
    names = ("fibers", "size", "room")
    fibers, size, room = [host.variable(name, Int64) for name in names]
    good = host.cell(TRUE, "good")
    last = host.cell(host.load(ptr, ZERO, "last", Int64), "last")
    host.set(good, compare("eq", host.get(last), ZERO))

    def require(condition: Expr) -> None:
        host.set(good, conjunction(host.get(good), condition))

    def fiber(j: Expr) -> None:
        start, stop = host.get(last), host.load(ptr, j, "stop", Int64)
        require(conjunction(compare("le", start, stop), compare("le", stop, room)))

        def entries() -> None:
            def entry(q: Expr) -> None:
                i = host.load(idx, sub(q, 1), "i", Int64)
                require(conjunction(compare("ge", i, ZERO), compare("lt", i, size)))
                require(compare("lt", i, host.load(idx, q, "j", Int64)))

            host.count(add(start, 1), sub(stop, 1), entry, "q")
            end = host.load(idx, sub(stop, 1), "end", Int64)
            require(conjunction(compare("ge", end, ZERO), compare("lt", end, size)))

        host.branch(conjunction(host.get(good), compare("lt", start, stop)), entries)
        host.set(last, stop)

    host.count(ONE, fibers, fiber, "j")
    return Residual("order", (ptr, idx), (fibers, size, room), (good,), host.code())
