"""Copies of lists of coordinates that come from outside, and whether these are in order."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.base.disk_cache import default_cache, kept
from finchlang.host import construct as code, ir
from finchlang.native.abi import Layout
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.link import kernel_of, linking
from finchlang.native.target import key_of
from finchlang.syntax.types import Bool, Int64, Type, type_of_dtype

if TYPE_CHECKING:
    from finchlang.host.writing import WritingHost

#: below so many bytes aligning a copy costs more than it gains
SMALL = 4096


def ordered_copies(
    ptr: np.ndarray, idx: np.ndarray, fibers: int, size: int, room: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Copies of the lists of `fibers` fibers in a dimension of `size`, with `room` entries; None if they
    are not in order."""
    own = _copy(ptr), _copy(idx)
    return own if _order_check(idx.dtype).call([*own], [fibers, size, room])[0] else None


def _copy(array: np.ndarray) -> np.ndarray:
    return array.copy() if array.nbytes < SMALL else aligned_copy(array)


@cache
def _order_check(index: np.dtype) -> NativeKernel:
    """The program of `_order` for indices of a type. Its key on disk is the type's name, since
    the sources are part of every key."""
    type = type_of_dtype(index)
    assert type is not None
    layout = Layout("order", (type, type), (Int64,) * 3, (Bool,), (), (), (), ())
    name, disk = key_of("order", type.name), default_cache()
    with linking:
        return kernel_of(layout, kept(disk, name, lambda: _compiled(type)), name, disk)


def _compiled(index: Type) -> bytes:
    from finchlang.host.writing import WritingHost
    from finchlang.native.jit import lower, object_code

    return object_code(lower(_order(index, WritingHost()))[0])


def _order(index: Type, host: WritingHost) -> ir.Residual:
    """`(ptr, idx; fibers, size, room)`, written with `host`: whether these are the lists of `fibers`
    fibers in a dimension of `size`, with `room` entries: positions ascend from 0, coordinates are in range,
    and ascend within each fiber. Only ptr[0..fibers] and idx[0..room - 1] are read.

    Coordinates may fall only where a fiber begins. Falls are counted over all entries, regardless of
    fibers, so that the loop is vectorised, and those at the beginnings of fibers are subtracted: a million
    entries take .07 ms in place of .21."""
    ptr, idx = ir.Buffer("ptr", index), ir.Buffer("idx", index)
    fibers, size, room = host.inputs("fibers", "size", "room")
    zero = code.const(0, index)
    good, falls = host.cell(code.TRUE, "good"), host.cell(zero, "falls")
    least, greatest = host.cell(zero, "least"), host.cell(zero, "greatest")

    def require(*conditions: ir.Expr) -> None:
        host.set(good, code.conjunction(host.get(good), *conditions))

    def around(values: ir.Buffer, q: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        return host.load(values, code.sub(q, 1), "before"), host.load(values, q, "at")

    with host.each(code.ONE, fibers, "j") as j:
        host.update(falls, "max", code.compare("gt", *around(ptr, j)))
    first, stop = host.load(ptr, code.ZERO, "first"), host.load(ptr, fibers, "stop", Int64)
    last = code.sub(stop, 1)
    require(code.compare("eq", host.get(falls), zero))
    require(code.compare("eq", first, zero), code.compare("le", stop, room))
    with host.when(code.conjunction(host.get(good), code.compare("gt", stop, code.ZERO))):
        first = host.load(idx, code.ZERO, "first")
        host.set(least, first)
        host.set(greatest, first)
        with host.each(code.ONE, last, "q") as q:
            before, at = around(idx, q)
            host.update(falls, "add", code.compare("ge", before, at))
            host.update(least, "min", at)
            host.update(greatest, "max", at)
        with host.when(code.compare("gt", last, code.ZERO)), host.each(code.ONE, fibers, "j") as j:
            begin, end = around(ptr, j)
            at = code.minimum(code.maximum(code.cast(begin, Int64), code.ONE), last)
            falling = code.compare("ge", *around(idx, at))
            is_new = code.compare("lt", begin, end), code.compare("gt", begin, zero)
            host.update(falls, "sub", code.conjunction(falling, code.conjunction(*is_new)))
        is_ascending = code.compare("eq", host.get(falls), zero)
        require(is_ascending, code.compare("ge", host.get(least), zero))
        require(code.compare("lt", code.cast(host.get(greatest), Int64), size))
    return ir.Residual("order", (ptr, idx), (fibers, size, room), (good,), host.code())
