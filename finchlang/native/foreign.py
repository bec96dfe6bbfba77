"""Copies of lists of coordinates that somebody else made, and whether these are in order."""

from __future__ import annotations

from functools import cache

import numpy as np

from finchlang.disk_cache import default_cache
from finchlang.host.fold import ONE, TRUE, ZERO, cast, compare, conjunction, const, op, sub
from finchlang.host.ir import Buffer, Expr, Residual
from finchlang.host.residual import ResidualHost
from finchlang.native.jit import compile_residual
from finchlang.native.kernel import NativeKernel
from finchlang.tensors.aligned import aligned_copy
from finchlang.types import Int64, Type, type_of_dtype

#: so many bytes take less time to read than a call takes
SMALL = 4096


def ordered_copies(
    ptr: np.ndarray, idx: np.ndarray, fibers: int, size: int, room: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Copies of the lists of so many fibers in a dimension of `size`, with `room` entries; None if they
    are not in order."""
    own = _copy(ptr), _copy(idx)
    return own if _order_check(idx.dtype).call([*own], [fibers, size, room])[0] else None


def _copy(array: np.ndarray) -> np.ndarray:
    """In a small array nobody feels where it begins, but the time that it takes to align it."""
    return array.copy() if array.nbytes < SMALL else aligned_copy(array)


@cache
def _order_check(index: np.dtype) -> NativeKernel:
    """The program `_order` for indices of a type."""
    type = type_of_dtype(index)
    assert type is not None
    return compile_residual(_order(type), default_cache())


def _order(index: Type) -> Residual:
    """`(ptr, idx; fibers, size, room)`: whether these are the lists of so many fibers, in a dimension
    of `size`, with `room` entries: positions that ascend from 0 and coordinates in range that ascend
    within each fiber. It reads nothing but ptr[0..fibers] and idx[0..room - 1].

    Coordinates may fall only where a fiber begins: falls are counted over all entries, without regard
    to fibers, which vectors do, and taken off where fibers begin."""
    host = ResidualHost()
    ptr, idx = Buffer("ptr", index), Buffer("idx", index)
    names = ("fibers", "size", "room")
    fibers, size, room = [host.variable(name, Int64) for name in names]
    good, falls = host.cell(TRUE, "good"), host.cell(const(0, index), "falls")

    def require(condition: Expr) -> None:
        host.set(good, conjunction(host.get(good), condition))

    def add_fall(name: str, values: Buffer, relation: str, q: Expr) -> None:
        before, at = host.load(values, sub(q, 1), "before"), host.load(values, q, "at")
        is_fall = cast(compare(relation, at, before), index)
        host.set(falls, op(name, host.get(falls), is_fall))

    def fiber(j: Expr) -> None:
        start, stop = host.load(ptr, sub(j, 1), "start", Int64), host.load(ptr, j, "stop", Int64)

        def ends() -> None:
            require(compare("ge", host.load(idx, start, "first", Int64), ZERO))
            require(compare("lt", host.load(idx, sub(stop, 1), "last", Int64), size))
            is_behind = compare("gt", start, ZERO)
            host.branch(is_behind, lambda: add_fall("sub", idx, "le", start))

        host.branch(compare("lt", start, stop), ends)

    def coordinates() -> None:
        host.count(ONE, sub(stop, 1), lambda q: add_fall("add", idx, "le", q), "q")
        host.count(ONE, fibers, fiber, "j")
        require(compare("eq", host.get(falls), const(0, index)))

    host.count(ONE, fibers, lambda j: add_fall("max", ptr, "lt", j), "j")
    first, stop = host.load(ptr, ZERO, "first", Int64), host.load(ptr, fibers, "stop", Int64)
    require(compare("eq", host.get(falls), const(0, index)))
    require(conjunction(compare("eq", first, ZERO), compare("le", stop, room)))
    host.branch(host.get(good), coordinates)
    return Residual("order", (ptr, idx), (fibers, size, room), (good,), host.code())
