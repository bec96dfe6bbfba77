"""What is looked at of memory that is somebody else's, quickly: where an array is, whether lists of
coordinates are in order, and whether they still are as they were copied."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from finchlang.disk_cache import default_cache
from finchlang.host.fold import ONE, TRUE, ZERO, add, compare, conjunction, op, sub
from finchlang.host.ir import Buffer, Expr, Residual, Var
from finchlang.host.residual import ResidualHost
from finchlang.native.jit import address_finder, compile_residual
from finchlang.native.kernel import NativeKernel
from finchlang.types import Int64, Type, type_of_dtype


def address_of(array: np.ndarray) -> int:
    """Where an array is in memory now."""
    try:
        return _finder[0](array)
    except IndexError:  # it is not compiled yet
        _finder.append(address_finder())
        return address_of(array)
    except (BufferError, ValueError):  # of a type that has no buffers
        return array.__array_interface__["data"][0]


_finder: list[Callable[[Any], int]] = []


@cache
def order_check(index: np.dtype) -> NativeKernel:
    """The program `_order` for indices of a type."""
    return compile_residual(_order(_type(index)), default_cache())


@cache
def copy_check(index: np.dtype) -> NativeKernel:
    """The program `_copies` for indices of a type."""
    return compile_residual(_copies(_type(index)), default_cache())


def _type(index: np.dtype) -> Type:
    type = type_of_dtype(index)
    assert type is not None
    return type


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


def _copies(index: Type) -> Residual:
    """`(ptr, idx, own_ptr, own_idx; first, stop, first, stop, first, stop)`: whether the entries from
    the first to before the stop are the same in `ptr` and `own_ptr`, and in `idx` and `own_idx` for
    both of the ranges that come then."""
    host = ResidualHost()
    buffers = [Buffer(name, index) for name in ("ptr", "idx", "own_ptr", "own_idx")]
    ptr, idx, own_ptr, own_idx = buffers
    different = host.cell(ZERO, "different")
    inputs: list[Var] = []

    def compare_range(one: Buffer, other: Buffer) -> None:
        first, stop = host.variable("first", Int64), host.variable("stop", Int64)
        inputs.extend((first, stop))

        def entry(q: Expr) -> None:
            a, b = host.load(one, q, "a", Int64), host.load(other, q, "b", Int64)
            host.set(different, op("or", host.get(different), op("xor", a, b)))

        host.count(first, sub(stop, 1), entry, "q")

    compare_range(ptr, own_ptr)
    compare_range(idx, own_idx)
    compare_range(idx, own_idx)
    same = host.cell(compare("eq", host.get(different), ZERO), "same")
    return Residual("copies", tuple(buffers), tuple(inputs), (same,), host.code())
