"""The planner of arrays: orders of loops and formats of results by how much operands store."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as xp
from finchlang import Session, Tensor


def matrix(rows: int, columns: int, entries: int, format: str, seed: int = 0) -> sp.sparray:
    random = np.random.default_rng(seed)
    where = random.integers(0, rows, entries), random.integers(0, columns, entries)
    return sp.coo_array((random.random(entries), where), shape=(rows, columns)).asformat(format)


@pytest.mark.parametrize("formats", [*product(("csr", "csc"), repeat=2)], ids="-".join)
@pytest.mark.parametrize("entries", (300, 6000))
def test_products_of_matrices(formats: tuple[str, str], entries: int) -> None:
    a, b = matrix(60, 70, entries, formats[0]), matrix(70, 80, entries, formats[1], 1)
    result = xp.compute(xp.asarray(a) @ xp.asarray(b))
    assert np.allclose(xp.todense(result), (a @ b).toarray())


@pytest.mark.parametrize("formats", [*product(("csr", "csc"), repeat=2)], ids="-".join)
def test_a_product_of_sparse_matrices_is_sparse(formats: tuple[str, str]) -> None:
    a, b = matrix(200_000, 200_000, 1000, formats[0]), matrix(200_000, 200_000, 1000, formats[1], 1)
    result = xp.compute(xp.asarray(a) @ xp.asarray(b))
    assert "SparseList" in str(result.format)
    assert np.isclose(float(xp.compute(xp.sum(result)).value), (a @ b).sum())


def loops(text: str) -> list[str]:
    """The order of the loops around the last assignment of a program."""
    lines = [line.split() for line in text.splitlines()]
    last = max(k for k, words in enumerate(lines) if "+=" in words)
    start = last
    while lines[start - 1][0] == "for":
        start -= 1
    return [words[1] for words in lines[start:last]]


@pytest.mark.parametrize("entries, result", ((100_000, "Dense(Dense"), (2000, "Dense(SparseList")))
def test_the_result_is_as_full_as_is_expected(
    entries: int, result: str, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = matrix(2000, 2000, entries, "csr"), matrix(2000, 2000, entries, "csr", 1)
    text = xp.plan(xp.asarray(a) @ xp.asarray(b))
    assert result in next(line for line in text.splitlines() if line.startswith("t0"))
    assert loops(text) == ["i", "k", "j"]  # by rows, as both are stored
    assert capsys.readouterr().out == text
    Session().run(text)


def test_candidates_are_told_the_cheapest_first() -> None:
    a, b = matrix(500, 400, 3000, "csr"), matrix(400, 300, 3000, "csc", 1)
    text = xp.plan(xp.asarray(a) @ xp.asarray(b))
    (told,) = [line for line in text.splitlines() if line.startswith("#")]
    found = [part.rsplit(": ", 1) for part in told.split("steps: ")[1].split(", ")]
    costs = [float(cost) for _, cost in found]
    assert costs == sorted(costs) and len(costs) > 1
    assert found[0][0].split() == loops(text)


def test_what_is_stored_across_the_order_is_copied_once() -> None:
    a, b = matrix(500, 400, 3000, "csr"), matrix(400, 300, 3000, "csc", 1)
    text = xp.plan(xp.asarray(a) @ xp.asarray(b))
    assert text.count("c0[") == 2
    c = matrix(400, 300, 3000, "csr", 1)
    assert "c0" not in xp.plan(xp.asarray(a) @ xp.asarray(c))


def test_products_of_three() -> None:
    a, b, c = (matrix(40, 40, 200, f, k) for k, f in enumerate(("csr", "csc", "csr")))
    found = xp.compute(xp.einsum("ij,jk,kl->il", *map(xp.asarray, (a, b, c))))
    assert np.allclose(xp.todense(found), (a @ b @ c).toarray())


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_products_of_nothing(shape: tuple[int, int, int]) -> None:
    n, m, k = shape
    result = xp.compute(xp.asarray(matrix(n, m, 0, "csr")) @ xp.asarray(matrix(m, k, 0, "csc")))
    assert xp.todense(result).shape == (n, k) and not xp.todense(result).any()


@pytest.mark.parametrize("of", ["csc", "csr"])
def test_extremes_over_the_innermost_modes_are_one_loop_nest(of: str) -> None:
    a = matrix(30, 40, 200, of)
    innermost = 0 if of == "csc" else 1
    for value, axis in ((a, innermost), (a.T, 1 - innermost), (a, None)):
        found = xp.max(xp.asarray(value) - 1, axis=axis)
        assert xp.plan(found).count(".=") == 1
        assert np.array_equal(xp.todense(found), (value.toarray() - 1).max(axis=axis))
    assert xp.plan(xp.max(xp.asarray(a), axis=1 - innermost)).count(".=") > 1


def planned(expression: xp.Array) -> str:
    """The text of a plan, which was run as a script."""
    found = xp.plan(expression)
    Session().run(found)
    return found


def test_sums_copy_the_smaller_operand() -> None:
    large, small = matrix(300, 300, 9000, "csr"), matrix(300, 300, 90, "csc", 1)
    for a, b in ((large, small), (small, large)):
        total = xp.asarray(a) + xp.asarray(b)
        text = planned(total)
        copied = "x0" if a is small else "x1"
        assert f"c0[i, j] = {copied}[i, j]" in text
        assert "t0 = swizzle(Tensor(Dense(SparseList(" in text  # by rows, as the larger one
        assert np.allclose(xp.todense(total), (a + b).toarray())


def test_what_few_entries_meet_is_looked_up() -> None:
    large, few = matrix(3000, 3000, 90_000, "csr"), matrix(3000, 3000, 20, "csc", 1)
    where = xp.where(xp.asarray(few) > 0.1, xp.asarray(large), 0)
    assert "x1[i, follow(j)]" in planned(where)
    assert np.allclose(xp.todense(where), np.where(few.toarray() > 0.1, large.toarray(), 0))


def test_long_fibers_are_searched_for_what_short_ones_have() -> None:
    large, few = matrix(300, 300, 30_000, "csr"), matrix(300, 300, 300, "csr", 1)
    product = xp.asarray(large) * xp.asarray(few)
    assert "x0[i, gallop(j)] * x1[i, j]" in planned(product)
    assert "gallop" not in planned(xp.asarray(large) + xp.asarray(few))
    assert "gallop" not in planned(xp.asarray(large) * (xp.asarray(large) + 0))
    assert np.allclose(xp.todense(product), (large * few).toarray())


def test_sums_over_one_mode_are_as_full_as_is_expected() -> None:
    random = np.random.default_rng(0)
    for entries, format in ((20, "Dense(SparseList"), (20_000, "Dense(Dense")):
        where = tuple(random.integers(0, 30, (3, entries)))
        places = np.unique(np.array(where), axis=1)
        of = "Dense(SparseList(SparseList(Element(0.0))))"
        a = Tensor.from_coo(of, (30, 30, 30), tuple(places), random.random(places.shape[1]))
        total = xp.sum(xp.asarray(a), axis=0)
        assert f"t0 = Tensor({format}" in planned(total)
        assert np.allclose(xp.todense(total), a.to_numpy().sum(axis=0))
