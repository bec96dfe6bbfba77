"""Collapse and split as looplet nests: what they hold, over every level, and that their structure is
kept: steps go with what is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from every_format import fits, nests
from kernels import kernel, run_congruent, run_script, run_staged

from finchlang.host.print import text
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

LIST = "SparseList(Element(0.0))"
LISTS, ROWS = f"SparseList({LIST})", f"Dense({LIST})"
DENSE = "Dense(Dense(Element(0.0)))"
BLOCK = np.zeros((4, 6))
BLOCK[1:3, 2:5] = 2.0


def entries(rows: int, columns: int, count: int, seed: int = 0) -> np.ndarray:
    """A matrix with so many entries, anywhere."""
    rng = np.random.default_rng(seed)
    array = np.zeros(rows * columns)
    array[rng.choice(rows * columns, count, replace=False)] = 1 + np.arange(count)
    return array.reshape(rows, columns)


def empty(format: str, *shape: int) -> Tensor:
    return Tensor.from_numpy(np.zeros(shape), format)


# ------------------------------------------------------------------------------------- every level

MATRICES = (entries(4, 6, 7), BLOCK, np.ones((4, 6)), np.zeros((4, 6)))
SQUARES = (np.tril(entries(4, 4, 9)), np.triu(entries(4, 4, 9)), np.ones((4, 4)))


@pytest.mark.parametrize("format", nests("Element(0.0)", 2))
def test_collapse_and_split_of_every_level(format: str) -> None:
    chosen = len(format) % len(MATRICES)
    order = (*MATRICES[chosen:], *MATRICES[:chosen], *SQUARES)
    array, tensor = next((a, t) for a in order if (t := fits(format, a)) is not None)
    m, n = array.shape
    values = {"A": tensor, "c": empty(LIST, m * n), "D": empty(f"Dense({ROWS})", 2, m // 2, n)}
    body = f"""c .= 0; D .= 0
for k=_; c[k] = collapse(A, 1, 2)[k] end
for l=_, j=_, i=1:{m // 2}; D[i, j, l] = split(A, 1, {m // 2})[i, j, l] end"""
    for engine in ("interpret", "native"):
        ran = run_script(kernel(body), values, engine)
        assert ran.error is None
        np.testing.assert_array_equal(ran["c"], array.ravel(order="F"))
        np.testing.assert_array_equal(ran["D"], array.reshape((m // 2, 2, n), order="F"))


@pytest.mark.parametrize("format", nests("Element(0.0)", 1))
def test_split_is_written_to_every_level(format: str) -> None:
    for array in (entries(3, 4, 5), BLOCK[:, 2:3].repeat(2, 1), entries(3, 4, 1)):
        flat = array.ravel(order="F")
        if fits(format, flat) is None:
            continue
        m, n = array.shape
        values = {"A": Tensor.from_numpy(array, LISTS), "c": empty(format, m * n)}
        body = f"c .= 0; for j=_, i=_; split(c, 1, {m})[i, j] = A[i, j] end"
        ran = run_script(kernel(body), values, "native")
        assert ran.error is None
        np.testing.assert_array_equal(ran["c"], flat)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("format", [LISTS, ROWS, DENSE, "SparseRunList(SparseBand(Element(0.0)))"])
def test_sizes_0_and_1(shape: tuple[int, int], format: str) -> None:
    array = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    m, size = max(shape[0], 1), array.size
    values = {"A": Tensor.from_numpy(array, format), "c": empty(LIST, size)}
    values["D"] = empty(ROWS, m, size // m)
    body = f"""c .= 0; D .= 0; for k=_; c[k] = collapse(A, 1, 2)[k] end
for j=_, i=1:{m}; D[i, j] = split(collapse(A, 1, 2), 1, {m})[i, j] end"""
    ran = run_congruent(kernel(body), values)
    assert ran.error is None
    np.testing.assert_array_equal(ran["c"], array.ravel(order="F"))
    np.testing.assert_array_equal(ran["D"], array.ravel(order="F").reshape((m, -1), order="F"))


def test_four_nested() -> None:
    array = entries(4, 6, 9)
    shapes = "split(collapse(slice(split(A, 2, 3), 2, 1:2:3), 1, 2), 1, 4)"
    chosen = array.reshape((4, 3, 2), order="F")[:, ::2].reshape((4, 2, 2), order="F")
    body = f"D .= 0; for l=_, j=_, i=_; D[i, j, l] = {shapes}[i, j, l] end"
    for format in (LISTS, ROWS, DENSE, "SparseHash{2}(Element(0.0))"):
        values = {"A": Tensor.from_numpy(array, format), "D": empty(f"Dense({ROWS})", 4, 2, 2)}
        for which in ("all", "paper"):
            ran = run_congruent(kernel(body), values, which)
            np.testing.assert_array_equal(ran["D"], chosen)


def test_settings_of_inner_modes_are_known_later() -> None:
    array = entries(6, 4, 12)
    body = "for j=1:2, i=1:2, k=1:3; s[] += k * split(window(A, i:(i + 2), nothing), 2, 2)[k, i, j] end"
    values = {"A": Tensor.from_numpy(array, ROWS), "s": Scalar(0.0)}
    ran = run_congruent(kernel(f"s .= 0; {body}"), values)
    parts = array.reshape((6, 2, 2), order="F")
    assert ran["s"] == sum(
        k * parts[i + k - 2, i - 1, j] for j in (0, 1) for i in (1, 2) for k in (1, 2, 3)
    )


@pytest.mark.parametrize("index", ["k", "follow(k)"])
@pytest.mark.parametrize("format", [ROWS, DENSE])
def test_what_is_missing_in_each_block(index: str, format: str) -> None:
    padded = "collapse(window(permissive(A, true, false), 0:3, nothing), 1, 2)"
    v = Tensor.from_numpy(np.eye(8)[2], LIST)
    values = {"A": Tensor.from_numpy(np.diag([1.0, 3.0]), format), "v": v, "s": Scalar(0.0)}
    body = f"s .= 0; for k=_; s[] += {padded}[{index}] + 2 + v[k] end"
    assert run_congruent(kernel(body), values)["s"] == 1 + 3 + 4 * 2 + 1


# ------------------------------------------------------------------------------------------- steps


def steps(body: str, which: str = "all", **values: Any) -> int:
    ran = run_staged(kernel(body), values, which)
    assert ran.error is None
    return ran.total


def growth(body: str, make: Any, which: str = "all") -> float:
    """By how many times the steps grow with a size four times as large."""
    return steps(body, which, **make(200)) / steps(body, which, **make(50))


FLAT = "s .= 0; for k=_; s[] += collapse(A, 1, 2)[{}] * v[{}] end"


@pytest.mark.parametrize("which", ["all", "paper"])
def test_empty_fibers_are_passed_over(which: str) -> None:
    def make(n: int) -> dict[str, Any]:
        return {"A": Tensor.from_numpy(entries(n, n, 6), LISTS), "c": empty(LIST, n * n)}

    assert growth("c .= 0; for k=_; c[k] = collapse(A, 1, 2)[k] end", make, which) < 1.3


@pytest.mark.parametrize("which", ["all", "paper"])
def test_empty_blocks_are_passed_over(which: str) -> None:
    def make(n: int) -> dict[str, Any]:
        line = entries(n * n, 1, 6)[:, 0]
        return {"b": Tensor.from_numpy(line, LIST), "n": n, "C": empty(LISTS, n, n)}

    body = "C .= 0; for j=_, i=_; C[i, j] = split(b, 1, n)[i, j] end"
    assert growth(body, make, which) < 1.3


@pytest.mark.parametrize("which", ["all", "paper"])
@pytest.mark.parametrize("shorter", ["A", "v"])
def test_the_shorter_one_leads(which: str, shorter: str) -> None:
    def make(n: int) -> dict[str, Any]:
        few, many = entries(n, n, 6), entries(n, n, n * n // 3, 1)
        matrix, line = (few, many) if shorter == "A" else (many, few)
        A, v = Tensor.from_numpy(matrix, LISTS), Tensor.from_numpy(line.ravel(), LIST)
        return {"A": A, "v": v, "s": Scalar(0.0)}

    assert growth(FLAT.format("gallop(k)", "gallop(k)"), make, which) < 1.7


def test_what_is_dense_is_located() -> None:
    def make(n: int) -> dict[str, Any]:
        A = Tensor.from_numpy(np.ones((n, n)), DENSE)
        line = entries((n - 1) * n, 1, 6)[:, 0]
        return {"A": A, "v": Tensor.from_numpy(line, LIST), "s": Scalar(0.0), "n": n}

    body = FLAT.replace("collapse(A, 1, 2)", "collapse(slice(A, 1, 2:n), 1, 2)")
    assert growth(body.format("k", "k"), make) < 1.2
    make_whole = FLAT.format("k", "k")
    values = make(9) | {"v": Tensor.from_numpy(entries(81, 1, 6)[:, 0], LIST)}
    assert "div" not in residual(make_whole, values)  # consecutive places are one row


def residual(body: str, values: dict[str, Any]) -> str:
    """The loops of a kernel's residual, without what comes before them."""
    listing = text(run_staged(kernel(body), values).residual)
    return listing[listing.index("for ") :] if "for " in listing else ""


def test_no_division_or_search_for_an_entry() -> None:
    values: dict[str, Any] = {"A": Tensor.from_numpy(entries(4, 6, 7), ROWS)}
    values["c"] = empty(LIST, 24)
    inner = residual("c .= 0; for k=_; c[k] = collapse(A, 1, 2)[k] end", values)
    assert not any(word in inner for word in ("div", "rem", "search", "while"))
    values = {"A": Tensor.from_numpy(entries(24, 1, 7)[:, 0], LIST), "c": empty(ROWS, 4, 6)}
    inner = residual("c .= 0; for j=_, i=_; c[i, j] = split(A, 1, 4)[i, j] end", values)
    loop = inner[: inner.index("end\n")]
    assert not any(word in loop for word in ("div", "rem", "search", "while"))


# ------------------------------------------------------------------------------------------ checks


@pytest.mark.parametrize("m", [-2, 0, 5])
def test_a_size_that_does_not_divide(m: int) -> None:
    values = {"b": Tensor.from_numpy(np.ones(12), LIST), "C": empty(LISTS, 3, 4), "m": m}
    ran = run_congruent(kernel("C .= 0; for j=_, i=_; C[i, j] = split(b, 1, m)[i, j] end"), values)
    assert ran.error is not None
    assert ran.error.kind == "dimension"
    assert str(m) in ran.error.message
    np.testing.assert_array_equal(ran["C"], np.zeros((3, 4)))


def test_too_many_places() -> None:
    huge = Tensor.from_coo(LISTS, (2**33, 2**33), [[0], [0]], np.ones(1))
    values = {"A": huge, "s": Scalar(0.0)}
    for engine in ("interpret", "native"):
        body = "s .= 0; for k=_; s[] += collapse(A, 1, 2)[k] end"
        ran = run_script(kernel(body), values, engine)
        assert ran.error is not None
        assert ran.error.kind == "dimension"
        assert str(2**33) in ran.error.message
