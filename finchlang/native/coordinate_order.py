"""The program that checks whether lists of coordinates are in order, and its object code."""

from __future__ import annotations

from finchlang.host import construct as code, ir
from finchlang.host.writing import WritingHost
from finchlang.native.jit import lower, object_code
from finchlang.syntax.types import Int64, Type


def code_for(index: Type) -> bytes:
    return object_code(lower(order(index))[0])


def order(index: Type) -> ir.Residual:
    """`(ptr, idx; fibers, size, room)`: whether these are the lists of `fibers` fibers in a dimension of
    `size`, with `room` entries: positions ascend from 0, coordinates are in range, and ascend within each
    fiber. Only ptr[0..fibers] and idx[0..room - 1] are read.

    Coordinates may fall only where a fiber begins. Falls are counted over all entries, regardless of
    fibers, so that the loop is vectorised, and those at the beginnings of fibers are subtracted: a million
    entries take .07 ms in place of .21."""
    host = WritingHost()
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
