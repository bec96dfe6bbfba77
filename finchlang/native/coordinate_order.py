"""The program that checks whether lists of coordinates are in order, and its object code."""

from __future__ import annotations

from finchlang.host import construct as code, ir
from finchlang.host.recording import ResidualHost
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
    host = ResidualHost()
    ptr, idx = ir.Buffer("ptr", index), ir.Buffer("idx", index)
    names = ("fibers", "size", "room")
    fibers, size, room = [host.variable(name, Int64) for name in names]
    zero = code.const(0, index)
    good, falls = host.cell(code.TRUE, "good"), host.cell(zero, "falls")
    least, greatest = host.cell(zero, "least"), host.cell(zero, "greatest")

    def require(*conditions: ir.Expr) -> None:
        host.set(good, code.conjunction(host.get(good), *conditions))

    def update(cell: ir.Cell, name: str, value: ir.Expr) -> None:
        host.set(cell, code.op(name, host.get(cell), code.cast(value, index)))

    def around(values: ir.Buffer, q: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        return host.load(values, code.sub(q, 1), "before"), host.load(values, q, "at")

    def position(j: ir.Expr) -> None:
        update(falls, "max", code.compare("gt", *around(ptr, j)))

    def entry(q: ir.Expr) -> None:
        before, at = around(idx, q)
        update(falls, "add", code.compare("ge", before, at))
        update(least, "min", at)
        update(greatest, "max", at)

    def begin(j: ir.Expr) -> None:
        start, stop = around(ptr, j)
        before, at = around(
            idx, code.minimum(code.maximum(code.cast(start, Int64), code.ONE), last)
        )
        is_new = code.conjunction(code.compare("lt", start, stop), code.compare("gt", start, zero))
        update(falls, "sub", code.conjunction(code.compare("ge", before, at), is_new))

    def coordinates() -> None:
        first = host.load(idx, code.ZERO, "first")
        host.set(least, first)
        host.set(greatest, first)
        host.count(code.ONE, last, entry, "q")
        are_many = code.compare("gt", last, code.ZERO)
        host.branch(are_many, lambda: host.count(code.ONE, fibers, begin, "j"))
        require(
            code.compare("eq", host.get(falls), zero), code.compare("ge", host.get(least), zero)
        )
        require(code.compare("lt", code.cast(host.get(greatest), Int64), size))

    host.count(code.ONE, fibers, position, "j")
    first, stop = host.load(ptr, code.ZERO, "first"), host.load(ptr, fibers, "stop", Int64)
    last = code.sub(stop, 1)
    require(code.compare("eq", host.get(falls), zero))
    require(code.compare("eq", first, zero), code.compare("le", stop, room))
    are_there = code.conjunction(host.get(good), code.compare("gt", stop, code.ZERO))
    host.branch(are_there, coordinates)
    return ir.Residual("order", (ptr, idx), (fibers, size, room), (good,), host.code())
