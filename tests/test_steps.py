"""How many steps the host takes: structure is used, and staging takes the very same steps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from both_hosts import Memory, loop_sum
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import kernel, run_congruent, run_staged
from looplet_nests import LookupNest
from test_traces import CSC, KERNELS, SPARSE, UPPER

from finchlang.run.kernel import Kernel
from finchlang.tensors.tensor import Scalar, Tensor

TABLES = pytest.mark.parametrize("which", ["all", "paper"])


def vector_at(places: Any, size: int, values: Any = None, format: str = SPARSE) -> Tensor:
    places = np.array(places)
    values = np.ones(len(places)) if values is None else np.array(values, float)
    return Tensor.from_coo(format, (size,), [places], values)


# ------------------------------------------------------------------------------- what is not there


def triangle(n: int, below: int) -> tuple[dict[str, Any], float]:
    """An n x n matrix with ten entries on or above the diagonal and `below` in each column below."""
    rng = np.random.default_rng(n)
    above = [(int(rng.integers(0, k + 1)), k) for k in range(n - 10, n)]
    under = [(k + 1 + r, k) for k in range(n) for r in range(below) if k + 1 + r < n]
    rows, columns = np.array(above + under).T
    tensor = Tensor.from_coo(CSC, (n, n), [rows, columns], np.ones(len(rows)))
    return {"A": tensor, "s": Scalar(0.0)}, float(len(above))


@TABLES
def test_the_upper_triangle_visits_nothing_below_the_diagonal(which: str) -> None:
    totals: dict[tuple[int, int], int] = {}
    for n in (50, 100, 200):
        for below in (0, 1, 30):
            values, expected = triangle(n, below)
            found = run_staged(kernel(UPPER), values, which)
            assert found["s"] == expected
            totals[n, below] = found.total
    for n in (50, 100, 200):
        # a column that has something below is looked into, but no deeper for thirty than for one
        assert abs(totals[n, 30] - totals[n, 1]) <= 5 * n * int(np.log2(31))
        assert totals[n, 30] <= totals[n, 1] * 1.5
    for below in (0, 1, 30):
        first, second, third = (totals[n, below] for n in (50, 100, 200))
        assert third - second <= 2.2 * (second - first)  # columns alone, not columns times rows


@TABLES
def test_entries_below_the_diagonal_are_never_read(which: str) -> None:
    """With what the upper triangle holds the same, values below are loaded no more often."""
    values, _ = triangle(100, 0)
    few = run_staged(kernel(UPPER), values, which)
    values, _ = triangle(100, 30)
    many = run_staged(kernel(UPPER), values, which)
    # each column loads its range, its last coordinate and where it stops: nothing for each entry
    assert many.steps["load"] - few.steps["load"] <= 3 * 100


def spmv(entries: int, n: int = 100) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    places = rng.choice(n * n, entries, replace=False)
    dense = np.zeros(n * n)
    dense[places] = rng.integers(1, 9, entries)
    return {
        "A": scipy.sparse.csc_matrix(dense.reshape(n, n)),
        "x": rng.integers(1, 9, n).astype(float),
        "y": np.zeros(n),
    }


@TABLES
@pytest.mark.parametrize("name", ["spmv_csc", "spmv_csr"])
def test_spmv_is_linear_in_the_entries(name: str, which: str) -> None:
    totals = []
    for entries in (200, 400, 600):
        values = spmv(entries)
        if name == "spmv_csr":
            values["A"] = values["A"].tocsr()
        found = run_staged(kernel(KERNELS[name][0]), values, which)
        np.testing.assert_array_equal(found["y"], values["A"] @ values["x"])
        totals.append(found.total)
    first, second, third = totals
    assert abs((third - second) - (second - first)) <= 0.1 * (second - first)
    assert third < 40 * 600  # and not n * n


def test_the_derived_rule_pays() -> None:
    values = spmv(500)
    derived, base = (
        run_staged(kernel(KERNELS["spmv_csc"][0]), values, which) for which in ("all", "paper")
    )
    assert derived.total * 1.5 < base.total


@TABLES
def test_a_sparse_dot_product_steps_over_what_is_stored(which: str) -> None:
    """Linear in the entries of both, whatever the size."""
    totals = {}
    for count in (20, 40):
        for size in (1000, 1_000_000):
            y = vector_at(np.arange(count) * (size // count), size)
            z = vector_at(np.arange(count) * (size // count) + 7, size)
            found = run_staged(kernel(KERNELS["dot"][0]), {"y": y, "z": z, "s": Scalar(0.0)}, which)
            assert found["s"] == 0.0
            totals[count, size] = found.total
    assert totals[20, 1000] == totals[20, 1_000_000]
    assert totals[40, 1000] == totals[40, 1_000_000] < 2.2 * totals[20, 1000]


@TABLES
@pytest.mark.parametrize("long", [10_000, 1_000_000])
def test_gallop_takes_the_short_list_times_a_logarithm(long: int, which: str) -> None:
    short = np.arange(10) * (long // 10) + 3
    y = vector_at(short, long)
    z = vector_at(np.arange(long), long)
    values = {"y": y, "z": z, "s": Scalar(0.0)}
    found = run_staged(kernel(KERNELS["gallop"][0]), values, which)
    assert found["s"] == 10.0
    assert found.total < 10 * 60 * np.log2(long)
    swapped = run_staged(kernel(KERNELS["gallop"][0]), {"y": z, "z": y, "s": Scalar(0.0)}, which)
    assert swapped["s"] == 10.0
    assert swapped.total < 10 * 60 * np.log2(long)


def test_followed_lists_are_searched() -> None:
    """A follower is looked up where the leader is, in steps of a logarithm each."""
    size = 100_000
    y, z = vector_at(np.arange(10) * 9999, size), vector_at(np.arange(size), size)
    body = "s .= 0\nfor i = _\ns[] += y[i] * z[follow(i)]\nend"
    found = run_staged(kernel(body), {"y": y, "z": z, "s": Scalar(0.0)})
    assert found["s"] == 10.0
    assert found.total < 10 * 60 * np.log2(size)


def product(count: int) -> tuple[dict[str, Any], str]:
    lists = {f"a{k}": vector_at(np.arange(0, 600, k + 2), 600) for k in range(count)}
    value = " * ".join(f"{name}[i]" for name in lists)
    return {**lists, "s": Scalar(0.0)}, f"s .= 0\nfor i = _\ns[] += {value}\nend"


def test_a_product_of_five_is_staged_at_once() -> None:
    values, body = product(5)
    residual = run_staged(kernel(body), values).watch.events[0].compiled
    took = []
    for _ in range(3):
        start = time.process_time()
        fresh = Kernel(residual.source, residual.formats)
        assert fresh.residual.body.statements
        took.append(time.process_time() - start)
    assert min(took) < 0.3


# -------------------------------------------------------------------------------------- congruence


FORMATS = ("Dense(Element(0.0))", SPARSE, "SparseByteMap(Element(0.0))")
VALUES = ("a[i] * b[i]", "a[i] + b[i]", "a[i] * b[i] + c[i]", "max(a[i], b[i]) * c[i]", "a[i] - i")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_congruence_of_random_kernels(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 8))
    entries = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0]), min_size=size, max_size=size)
    arrays = {name: np.array(data.draw(entries), float) for name in "abc"}
    values: dict[str, Any] = {
        n: Tensor.from_numpy(a, data.draw(st.sampled_from(FORMATS))) for n, a in arrays.items()
    }
    values["y"] = Tensor(data.draw(st.sampled_from(FORMATS)), size)
    value = data.draw(st.sampled_from(VALUES))
    which = data.draw(st.sampled_from(["all", "paper"]))
    found = run_congruent(kernel(f"y .= 0\nfor i = _\ny[i] = {value}\nend"), values, which)
    assert found.error is None
    a, b, c = arrays.values()
    expected = {
        "a[i] * b[i]": a * b,
        "a[i] + b[i]": a + b,
        "a[i] * b[i] + c[i]": a * b + c,
        "max(a[i], b[i]) * c[i]": np.maximum(a, b) * c,
        "a[i] - i": a - np.arange(1, size + 1),
    }
    np.testing.assert_array_equal(found["y"], expected[value])


def test_lookups_take_a_step_for_each_coordinate() -> None:
    """The steps that are left when there is no structure to use."""
    totals = []
    for n in (10, 20, 30):
        memory = Memory()
        nest = LookupNest(memory, [(1, n)], [[1.0] * n])
        totals.append(loop_sum([nest.tensor("a")], memory, n=memory.number(n)).steps.total())
    assert totals[2] - totals[1] == totals[1] - totals[0] > 0
