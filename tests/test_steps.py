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
from looplet_nests import LookupNest, Payload, RunNest
from test_traces import CSC, KERNELS, SPARSE, UPPER

from finchlang.host.print import text
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


@TABLES
@pytest.mark.parametrize("value", ["E[i] <<min>>= d[1] + A[i]", "g[] |= A[i] < d[i]"])
def test_min_plus_visits_what_is_stored(value: str, which: str) -> None:
    """An infinite fill annihilates a sum and is less than nothing, as structure."""
    counts = set()
    for n in (10, 100):
        dense = np.full(n, np.inf)
        dense[1] = 2.0
        values = {
            "A": Tensor.from_numpy(dense, "SparseList(Element(Inf))"),
            "d": np.arange(1.0, n + 1),
            "E": np.arange(4.0, n + 4),
            "g": Scalar(False),
        }
        found = run_staged(kernel(f"for i = _\n{value}\nend"), values, which)
        if value.startswith("E"):
            np.testing.assert_array_equal(found["E"], np.minimum(np.arange(4.0, n + 4), 1 + dense))
        else:
            assert not found["g"]
        counts.add(found.total)
    assert len(counts) == 1


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


@pytest.mark.parametrize("value", ["A[i] / B[i]", "A[i] >> B[i]", "A[i] && !B[i]", "A[i] % B[i]"])
def test_an_operand_that_decides_nothing_is_searched(value: str) -> None:
    """Steps in proportion to the entries on the left, however many there are on the right."""
    kind, fill = (float, "0.0") if "&&" not in value and ">>" not in value else (int, "0")
    kind, fill = (bool, "false") if "&&" in value else (kind, fill)
    format, totals = f"SparseList(Element({fill}))", []
    for few in (5, 50):
        for many in (500, 5000):
            given = {
                name: Tensor.from_coo(format, (10_000,), [places], np.ones(number, kind))
                for name, number in (("A", few), ("B", many))
                for places in [np.arange(number) * (10_000 // number)]
            }
            body = kernel(f"C .= {fill}\nfor i = _; C[i] = {value} end")
            totals.append(run_staged(f"C = Tensor({format}, 10_000)\n{body}", given).total)
    assert totals[1] - totals[0] <= 5 * 4  # a search for each
    assert totals[3] <= 10 * totals[1]


def test_followed_lists_are_searched() -> None:
    """A follower is looked up where the leader is, in steps of a logarithm each."""
    size = 100_000
    y, z = vector_at(np.arange(10) * 9999, size), vector_at(np.arange(size), size)
    body = "s .= 0\nfor i = _\ns[] += y[i] * z[follow(i)]\nend"
    found = run_staged(kernel(body), {"y": y, "z": z, "s": Scalar(0.0)})
    assert found["s"] == 10.0
    assert found.total < 10 * 60 * np.log2(size)


def test_runs_are_summed_at_once() -> None:
    steps = []
    for n in (10, 1_000_000):
        memory = Memory()
        run = RunNest(memory, [(1, n)], Payload(memory, [3.0], False))
        found = loop_sum([run.tensor("a")], memory, n=n)
        assert found["s"] == 3.0 * n
        steps.append(found.steps.total())
    assert steps[0] == steps[1] < 20


def test_an_annihilated_factor_is_not_computed() -> None:
    """What zero annihilates takes no steps: y's gaps cost nothing, however dear the rest."""
    size = 5000
    y = vector_at([7, 70], size)
    x = np.ones(size)
    body = "s .= 0\nfor i = _\ns[] += y[i] * sqrt(exp(x[i]) + x[i] * x[i])\nend"
    found = run_staged(kernel(body), {"y": y, "x": x, "s": Scalar(0.0)})
    assert found.total < 60


def product(count: int) -> tuple[dict[str, Any], str]:
    lists = {f"a{k}": vector_at(np.arange(0, 600, k + 2), 600) for k in range(count)}
    value = " * ".join(f"{name}[i]" for name in lists)
    return {**lists, "s": Scalar(0.0)}, f"s .= 0\nfor i = _\ns[] += {value}\nend"


@TABLES
def test_code_grows_linearly_with_the_factors_of_a_product(which: str) -> None:
    """DESIGN, law 6; and a product of five is staged in a moment. (Two have code of their own.)"""
    lengths = []
    for count in range(3, 8):
        values, body = product(count)
        found = run_staged(kernel(body), values, which)
        assert found["s"] == len(range(0, 600, int(np.lcm.reduce(range(2, count + 2)))))
        lengths.append(text(found.residual).count("\n"))
    growth = np.diff(lengths)
    assert growth.max() - growth.min() <= 2


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

N = 12
RNG = np.random.default_rng(11)


def some(shape: Any, density: float = 0.4) -> np.ndarray:
    return RNG.integers(1, 9, shape) * (RNG.random(shape) < density).astype(float)


def inputs() -> dict[str, Any]:
    return {
        "A": Tensor.from_numpy(some((N, N)), CSC),
        "B": Tensor.from_numpy(some((N, N)), "SparseList(SparseList(Element(0.0)))"),
        "D": some((N, N), 1.0),
        "x": some(N, 1.0),
        "u": Tensor.from_numpy(some(N), SPARSE),
        "v": Tensor.from_numpy(some(N), "SparseByteMap(Element(0.0))"),
        "y": np.zeros(N),
        "w": Tensor(SPARSE, N),
        "m": Tensor("SparseByteMap(Element(0.0))", N),
        "s": Scalar(0.0),
        "t": Scalar(0.0),
        "k": 5,
    }


CONGRUENT = {
    "transposed spmv": "y .= 0\nfor j = _, i = _\ny[j] += A[i, j] * x[i]\nend",
    "doubly sparse": "s .= 0\nfor j = _, i = _\ns[] += A[i, j] * B[i, j]\nend",
    "sampled": "s .= 0\nfor j = _, i = _\ns[] += A[i, j] * D[i, j] * x[j]\nend",
    "three lists": "s .= 0\nfor i = _\ns[] += u[i] * v[i] * u[i]\nend",
    "union": "w .= 0\nfor i = _\nw[i] = u[i] + v[i]\nend",
    "union into a map": "m .= 0\nfor i = _\nm[i] = u[i] + 2 * v[i]\nend",
    "maximum": "s .= 0\nfor i = _\ns[] <<max>>= u[i] - v[i]\nend",
    "masked": "s .= 0\nfor j = _, i = _\nif i <= j && D[i, j] > 4\ns[] += A[i, j]\nend\nend",
    "diagonal": "s .= 0\nfor j = _, i = _\nif i == j\ns[] += A[i, j]\nend\nend",
    "number": "s .= 0\nfor i = _\ns[] += u[i] * k - v[i]\nend",
    "two results": "s .= 0\nt .= 0\nfor i = _\ns[] += u[i]\nt[] += u[i] * v[i]\nend",
    "gallop and walk": "s .= 0\nfor i = _\ns[] += u[gallop(i)] * v[walk(i)]\nend",
    "update": "for i = _\ny[i] += u[i]\nend",
    "defined": "s .= 0\nfor j = _\nlet a = x[j] + 1\nfor i = _\ns[] += a * A[i, j]\nend\nend\nend",
    "conditions": "y .= 0\nfor i = _\nif x[i] > 3\ny[i] = u[i]\nelse\ny[i] = 1\nend\nend",
}


@TABLES
@pytest.mark.parametrize("name", CONGRUENT)
def test_congruence(name: str, which: str) -> None:
    found = run_congruent(kernel(CONGRUENT[name]), inputs(), which)
    assert found.error is None
    assert found.total > 0


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


MINIMAX = """s .= {}
for i = _
    t .= Inf
    for j = _
        t[] <<min>>= A[j, i]
    end
    s[] <<{}>>= t[]
end"""


@TABLES
@pytest.mark.parametrize("operator,start,expected", [("max", "-Inf", 0.0), ("+", "0.0", -3.0)])
def test_fibers_that_are_not_there_are_reduced_once(
    which: str, operator: str, start: str, expected: float
) -> None:
    """max_i min_j goes by the fibers that are stored; of sums each counts."""
    totals = []
    for n in (100, 1_000):
        where = [np.array([1, 2]), np.array([2, 50])]
        format = "SparseList(SparseList(Element(0.0)))"
        A = Tensor.from_coo(format, (4, n), where, np.array([-3.0, 7.0]))
        values = {"A": A, "s": Scalar(0.0), "t": Scalar(0.0)}
        found = run_staged(kernel(MINIMAX.format(start, operator)), values, which)
        assert found["s"] == expected
        totals.append(found.total)
    assert (totals[0] == totals[1]) == (operator == "max")
