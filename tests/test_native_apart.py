"""Rare branches are functions of their own: they change the cells and buffers of the code around them."""

from __future__ import annotations

import numpy as np
import pytest
from ir_samples import Sample, compiled
from native_calls import run

from finchlang.host.execute import run_residual
from finchlang.host.fold import FALSE, ONE, ZERO, cast, const, op
from finchlang.host.ir import Residual
from finchlang.host.verify import check
from finchlang.native import jit
from finchlang.native.emit import emit
from finchlang.source import FinchError
from finchlang.types import Float32, Float64, Int64, Type

pytestmark = pytest.mark.optimised


def appended_in_batches() -> Residual:
    """Every number of `x` is appended to `out`, which grows by ten entries in a rare branch; there,
    another counts how often, and sums what there is so far."""
    s = Sample()
    host, x, out, n = s.host, s.buffer("x"), s.buffer("out", Float32), s.input("n")
    room, sums = s.output(ZERO, "room"), s.output(const(0.0), "sums")
    often, is_odd = s.output(ZERO, "often"), s.output(FALSE, "odd")
    scale = host.let(cast(n, Float64), "scale")

    def grow(i) -> None:
        host.set(room, op("add", i, 10))
        host.grow(out, host.get(room))

        def tell() -> None:
            s.add_to(often, 1)
            host.set(is_odd, op("not", host.get(is_odd)))

            def add(k) -> None:
                value = cast(host.load(out, k), Float64)
                s.add_to(sums, op("fdiv", value, scale))

            host.count(ZERO, op("sub", i, 1), add)

        host.branch(op("gt", i, 0), tell, is_rare=True)

    def append(i) -> None:
        host.branch(op("ge", i, host.get(room)), lambda: grow(i), is_rare=True)
        host.store(out, i, host.load(x, i))

    host.count(ZERO, op("sub", n, 1), append)
    return s.residual()


def test_cells_and_buffers_are_changed() -> None:
    residual = appended_in_batches()
    check(residual)
    x = np.arange(1.0, 96.0)
    given = [x, np.zeros(0, np.float32)]
    _, arrays, outputs = run_residual(residual, [a.copy() for a in given], [95])
    (_, out), found = run(compiled(appended_in_batches), given, [95])
    np.testing.assert_array_equal(out[:95], x)
    np.testing.assert_array_equal(out[:95], arrays[1][:95])
    assert found == pytest.approx(outputs) and found[2] == 9


def test_the_same_is_one_function() -> None:
    s = Sample()
    h = s.buffer("h", Int64)
    for _ in range(2):
        for k in (0, 1):
            first = s.host.load(h, ZERO, "first")
            many = op("gt", first, 3)
            s.host.branch(many, lambda k=k: s.add_at(h, ONE, const(k + 1)), is_rare=True)  # type: ignore
    text, *parts = emit(s.residual())
    assert len(parts) == 2
    assert text.count("call preserve_mostcc i32 @part") == 4


def test_two_kernels_with_the_same_part_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else they have; a third, which has it on other types, does not share it."""

    def kernel(type: Type, others: int) -> Residual:
        s = Sample()
        for k in range(others):
            s.add_at(s.buffer(f"other{k}", Int64), ZERO, ONE)
        h, n = s.buffer("h", type), s.input("n")
        s.host.branch(op("gt", n, 0), lambda: s.add_at(h, ZERO, const(7, type)), is_rare=True)
        return s.residual()

    compiled_parts: list[str] = []
    original = jit.machine_code

    def machine_code(source: str, is_rare: bool = False) -> bytes:
        compiled_parts.extend([source] * is_rare)
        return original(source, is_rare)

    monkeypatch.setattr(jit, "machine_code", machine_code)
    monkeypatch.setattr(jit, "_parts", {})
    for type, others in [(Int64, 0), (Int64, 3), (Float64, 0)]:
        ones = [np.ones(1, np.int64) for _ in range(others)]
        arrays, _ = run(
            jit.compile_residual(kernel(type, others)), [*ones, np.ones(1, type.dtype)], [1]
        )
        assert [a[0] for a in arrays] == [2] * others + [8]
    assert len(compiled_parts) == 2


def failing() -> Residual:
    s = Sample()
    h, n = s.buffer("h", Int64), s.input("n")
    s.host.branch(op("gt", n, 9), lambda: s.host.fail("bounds", "{} is far too much", (n,)))

    def rarely() -> None:
        s.host.branch(op("gt", n, 5), lambda: s.host.fail("bounds", "{} is too much", (n,)))
        s.host.store(h, ZERO, n)

    s.host.branch(op("gt", n, 3), rarely, is_rare=True)
    return s.residual()


def test_failures_come_out() -> None:
    kernel = compiled(failing)
    assert run(kernel, [np.zeros(1, np.int64)], [4])[0][0].tolist() == [4]
    for n, message in ((7, "7 is too much"), (10, "10 is far too much")):
        with pytest.raises(FinchError, match=message):
            run(kernel, [np.zeros(1, np.int64)], [n])
