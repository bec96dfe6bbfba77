"""Growth, failures and interrupts of native code: nothing leaks, and arrays are as before."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import ir_samples as samples
import numpy as np
import pytest
from in_child import in_child
from ir_samples import checked, compiled
from native_calls import run

from finchlang.host.fold import ONE, ZERO, const, op
from finchlang.host.ir import Residual
from finchlang.native import jit
from finchlang.native.jit import compile_residual
from finchlang.source import FinchError
from finchlang.types import (
    Bool,
    Float32,
    Float64,
    Int32,
    Int64,
    UInt64,
)

pytestmark = pytest.mark.optimised


def test_growth_keeps_contents_and_frees_memory() -> None:
    kernel = compiled(samples.appended)
    start = np.full(5, -1)
    (grown,), _ = run(kernel, [start], [1000])
    assert grown is not start and len(grown) >= 1000
    np.testing.assert_array_equal(grown[:1000], np.arange(1000))
    (again,), _ = run(kernel, [grown], [700])
    assert again is grown
    (larger,), _ = run(kernel, [grown], [100_000])  # grown memory is outside memory the next time
    np.testing.assert_array_equal(larger[:100_000], np.arange(100_000))
    np.testing.assert_array_equal(grown[:1000], np.arange(1000))


def test_no_leaks() -> None:
    kernel, failing = compiled(samples.appended), compiled(samples.appended, Int64, 9999)
    tracemalloc.start()  # the memory of kernels is traced, as they use the interpreter's functions
    try:
        run(kernel, [np.zeros(1, np.int64)], [10_000])
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            run(kernel, [np.zeros(1, np.int64)], [10_000])
            with pytest.raises(FinchError):
                run(failing, [np.zeros(1, np.int64)], [10_000])
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000  # one array has 80,000 bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [-1, -(2**63), 2**50, 2**62, 2**63 - 1])
def test_absurd_sizes_are_refused(size: int) -> None:
    def make() -> Residual:
        s = samples.Sample()
        data, n = s.buffer("data", Int32), s.input("n")
        s.host.store(data, ZERO, const(5, Int32))
        s.host.grow(data, n)
        s.host.store(data, ONE, const(6, Int32))
        return s.residual()

    data = np.array([1, 2], np.int32)
    with pytest.raises(FinchError) as caught:
        run(compile_residual(checked(make())), [data], [size])
    assert caught.value.kind == "resource"
    assert data.tolist() == [1, 2]


def test_failure_restores_and_reports() -> None:
    y, x = np.arange(6.0), np.arange(10.0, 14.0)
    kernel = compiled(samples.gather)
    k = np.array([1, 2, 4, 5, 1, 1], np.int32)
    frame_before = y.copy()
    with pytest.raises(FinchError) as caught:
        run(kernel, [y, x, k], [6, 4])
    assert caught.value.kind == "bounds" and caught.value.message == "5 is not in 1:4"
    np.testing.assert_array_equal(y, frame_before)
    k[3] = 4
    run(kernel, [y, x, k], [6, 4])
    assert y.tolist() == [10.0, 11.0, 13.0, 13.0, 10.0, 10.0]


def test_failure_values_of_every_type_and_the_right_statement() -> None:
    s = samples.Sample()
    which = s.input("which")
    inputs = [s.input(f"x{k}", t) for k, t in enumerate((UInt64, Float32, Bool, Float64))]
    for number in range(3):
        message = f"no. {number}: {{}} {{}} {{}} {{}}"
        fail = partial(s.host.fail, "type", message, tuple(inputs))
        s.host.branch(op("eq", which, number), fail)
    kernel = compile_residual(checked(s.residual()))
    values = [2**64 - 1, 0.5, True, -1e300]
    for number in range(3):
        with pytest.raises(FinchError, match=f"no. {number}: {2**64 - 1} 0.5 True -1e[+]300"):
            run(kernel, [], [number, *values])
    run(kernel, [], [3, *values])


# --------------------------------------------------------------------------------------- interrupts


@pytest.mark.parametrize("counted", [True, False])
def test_interrupt_ends_a_long_loop(counted: bool) -> None:
    kernel = compiled(samples.endless, counted)
    h = np.array([42, 0])
    sender = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])
    start = time.perf_counter()
    try:
        with pytest.raises(FinchError) as caught:
            run(kernel, [h], [])
    finally:
        sender.wait()
    assert caught.value.kind == "interrupted"
    assert time.perf_counter() - start < 1.3
    assert h.tolist() == [42, 0]
    assert run(compiled(samples.inner_product), [np.ones(2), np.ones(2)], [2])[1] == [2.0]


class Alarm(Exception):
    pass


def interrupt_soon(kernel, arrays, inputs) -> float:
    """Seconds from a signal, whose handler raises Alarm, to the end of `kernel`."""

    def handler(*_: object) -> None:
        raise Alarm

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.perf_counter()
    try:
        with pytest.raises(Alarm):
            run(kernel, arrays, inputs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    return time.perf_counter() - start - 0.1


def test_interrupt_in_nested_loops() -> None:
    """Rows that are too short to look for interrupts, fills in a loop, and sorts in one."""
    slow = 10**9

    def rows() -> Residual:
        s = samples.Sample()
        h = s.buffer("h", Int64)

        def row(i):
            s.host.count(ONE, const(10), lambda j: s.add_at(h, ZERO, op("xor", i, j)))

        s.host.count(ONE, const(slow * 1000), row)
        return s.residual()

    def fills() -> Residual:
        s = samples.Sample()
        h = s.buffer("h", Int64)
        s.host.count(ONE, const(slow), lambda i: s.host.fill(h, ZERO, const(100_000), i))
        return s.residual()

    def sorts() -> Residual:
        s = samples.Sample()
        h = s.buffer("h", Int64)
        s.host.count(ONE, const(slow), lambda i: s.host.sort(h, ZERO, const(100_000)))
        return s.residual()

    def long_row_without_an_array() -> Residual:
        s = samples.Sample()
        h = s.buffer("h", Int64)

        def row(_):
            def step(j) -> None:
                s.host.store(h, ZERO, op("xor", op("mul", s.host.load(h, ZERO), 5), j))

            s.host.count(ONE, const(10**13), step)

        s.host.count(ONE, const(10), row)
        return s.residual()

    for make in (rows, fills, sorts, long_row_without_an_array):
        h = np.arange(100_000) % 7
        before = h.copy()
        assert interrupt_soon(compile_residual(checked(make())), [h], []) < 1.0
        np.testing.assert_array_equal(h, before)


def test_an_interrupt_in_llvms_passes_leaves_nothing_to_the_collector() -> None:
    """Which may free a module after what it is in, and crash."""

    def interrupted(*_: object) -> None:
        error = KeyboardInterrupt()
        error.cycle = error  # type: ignore[attr-defined]
        raise error

    def work(report: Callable[[str], None]) -> None:
        jit._run = interrupted
        for _ in range(10):
            with pytest.raises(KeyboardInterrupt):
                jit.machine_code("define void @f() {\n  ret void\n}\n")
            gc.collect()

    ended = in_child(work)
    assert ended, f"{ended.fault}\n{ended.said}"
