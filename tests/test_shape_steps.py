"""How many steps loops over results of shape operators take: in proportion to what is stored in the part
that is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_congruent, run_staged

from finchlang.host.ir import For, While
from finchlang.host.walk import walk
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

TABLES = pytest.mark.parametrize("which", ["all", "paper"])
LIST = "SparseList(Element(0.0))"
LISTS = f"SparseList({LIST})"
CSC = f"Dense({LIST})"


def matrix(n: int, columns: int, each: int, format: str = LISTS) -> Tensor:
    """n x n, with entries in some columns, each as many."""
    rng = np.random.default_rng(n + columns)
    j = np.repeat(rng.choice(n, columns, replace=False), each)
    i = np.concatenate([rng.choice(n, each, replace=False) for _ in range(columns)])
    return Tensor.from_coo(format, (n, n), [i, j], np.ones(columns * each))


def vector(n: int, entries: int) -> Tensor:
    places = np.random.default_rng(n + entries).choice(n, entries, replace=False)
    return Tensor.from_coo(LIST, (n,), [places], np.ones(entries))


def total(body: str, values: dict[str, Any], which: str) -> int:
    found = run_staged(kernel(body), values, which)
    assert found.error is None
    return found.total


SUM = "for k = _\n    s[] += {}\nend"


@TABLES
def test_flattening_takes_steps_for_entries_and_fibers_with_entries(which: str) -> None:
    def steps(n: int, columns: int, each: int) -> int:
        values = {"A": matrix(n, columns, each), "s": Scalar(0.0)}
        return total(SUM.format("collapse(A, 1, 2)[k]"), values, which)

    few = steps(100, 5, 8)
    assert steps(1000, 5, 8) == few  # not for places
    assert steps(100, 5, 16) <= 2.05 * few
    assert steps(100, 10, 8) <= 2.05 * few


def test_a_dense_mode_over_lists_is_one_loop_over_positions() -> None:
    """Without a search, a division or a remainder."""
    values = {"A": matrix(200, 100, 10, CSC), "s": Scalar(0.0)}
    found = run_congruent(kernel(SUM.format("collapse(A, 1, 2)[k]")), values)
    assert not {"search", "idiv", "irem"} & {k for k, n in found.steps.items() if n > 3}
    assert found.total <= 12 * 1000 + 20 * 200


@TABLES
def test_splitting_takes_steps_for_entries(which: str) -> None:
    body = "C .= 0\nfor j = _, i = _\n    C[i, j] = split(b, 1, 10)[i, j]\nend"

    def steps(n: int, entries: int) -> int:
        values = {"b": vector(n, entries), "C": Tensor(LISTS, 0, 0)}
        found = run_staged(kernel(body), values, which)
        np.testing.assert_array_equal(found["C"], values["b"].to_numpy().reshape(-1, 10).T)
        return found.total

    few = steps(1000, 20)
    assert steps(10_000, 20) <= 1.3 * few
    assert steps(10_000, 40) <= 2.5 * few


@TABLES
def test_gallop_over_a_flattened_matrix_takes_the_shorter_one_times_a_logarithm(which: str) -> None:
    value = "collapse(A, 1, 2)[gallop(k)] * v[gallop(k)]"

    def steps(columns: int, each: int, entries: int) -> int:
        values = {"A": matrix(200, columns, each), "v": vector(40_000, entries), "s": Scalar(0.0)}
        return total(SUM.format(value), values, which)

    few = steps(100, 40, 5)
    assert few <= 5 * 40 * np.log2(4000)
    assert steps(200, 80, 5) <= 1.5 * few  # four times as long
    short = steps(2, 3, 5000)
    assert short <= 8 * 40 * np.log2(5000)


@TABLES
def test_a_slice_of_a_product_takes_steps_for_what_is_in_the_slice(which: str) -> None:
    body = (
        "let T[i, j] = A[i, j] * B[i, j]\n"
        "for j = _, i = _\n    s[] += slice(T, 2, 11:20)[i, j]\nend\nend"
    )

    def steps(outside: int) -> int:
        places = np.arange(10, 20), np.arange(10, 20)
        rng = np.random.default_rng(0)
        columns = np.append(np.repeat(np.arange(20, 60), outside), places[1])
        rows = np.append(
            rng.permuted(np.tile(np.arange(60), (40, 1)), axis=1)[:, :outside], places[0]
        )
        given = {}
        for name in "AB":
            given[name] = Tensor.from_coo(LISTS, (60, 60), [rows, columns], np.ones(len(rows)))
        return total(body, given | {"s": Scalar(0.0)}, which)

    assert steps(30) <= steps(0) + 30


def test_parts_whose_sizes_are_products_are_told_apart_once() -> None:
    """Sizes that are computed alike at several places are known to be the same."""
    whole = "hcat(collapse(T, 3, 2), roll(vcat(A, A, A), 1, 1), vcat(A, A, A))"
    body = f"for j = _, i = _\n    C[i, j] = {whole}[i, j]\nend"
    A, C = matrix(2, 2, 1, CSC), np.zeros((6, 6))
    T = Tensor.from_coo("SparseHash{3}(Element(0.0))", (6, 1, 2), [[1], [0], [1]], np.ones(1))
    found = run_staged(kernel(body), {"A": A, "T": T, "C": C})
    rows = np.vstack([A.to_numpy()] * 3)
    np.testing.assert_array_equal(
        found["C"], np.hstack([T.to_numpy()[:, 0], np.roll(rows, 1, 0), rows])
    )
    assert sum(isinstance(n, (For, While)) for n in walk(found.residual.body)) <= 80


def test_what_is_read_in_loops_over_two_modes_is_stored_if_it_has_many_parts() -> None:
    body = "for i = _\n    collapse(C, 1, 2)[i] = vcat(v, w, v)[i]\nend"
    v, w = vector(2, 1), vector(4, 2)
    found = run_staged(kernel(body), {"v": v, "w": w, "C": np.zeros((2, 4))})
    parts = [part.to_numpy() for part in (v, w, v)]
    np.testing.assert_array_equal(found["C"].ravel("F"), np.concatenate(parts))
    assert sum(isinstance(n, (For, While)) for n in walk(found.residual.body)) <= 80


def test_a_matrix_of_blocks_is_cut_and_nothing_is_merged() -> None:
    """One loop for each block; where parts of unknown sizes stand side by side, a few more."""
    for tensor, most in {"hcat(vcat(A, B), vcat(B, A))": 9, "block(2, A, B, B, A)": 15}.items():
        body = f"C .= 0\nfor j = _, i = _\n    C[i, j] = {tensor}[i, j]\nend"
        values = {"A": matrix(8, 3, 2, CSC), "B": matrix(8, 4, 3, CSC), "C": Tensor(CSC, 0, 0)}
        found = run_staged(kernel(body), values)
        A, B = (values[name].to_numpy() for name in "AB")
        np.testing.assert_array_equal(found["C"], np.block([[A, B], [B, A]]))
        loops = [n for n in walk(found.residual.body) if isinstance(n, (For, While))]
        assert len(loops) <= most
