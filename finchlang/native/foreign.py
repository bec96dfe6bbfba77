"""Copies of lists of coordinates that somebody else made, and whether these are in order."""

from __future__ import annotations

from functools import cache

import numpy as np

from finchlang.disk_cache import default_cache
from finchlang.host.fold import ONE, TRUE, ZERO, add, compare, conjunction, sub
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
    of `size`, with `room` entries: positions that ascend from 0 and coordinates in range
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
