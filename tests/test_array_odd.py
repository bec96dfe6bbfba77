"""Arrays with odd fills, types and keys, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import finchlang.array as fa
from finchlang import Session, Tensor

rng = np.random.default_rng(3)


def tensor(x: np.ndarray, fill: str) -> Any:
    session = Session()
    session["x"] = x
    return session.run(f"Tensor(Dense(SparseList(Element({fill}))), x)")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "float64", "uint64", "bool"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_places_of_values_of_any_type(name: str, axis: Any, dtype: str) -> None:
    x = rng.integers(0, 4, (3, 5)).astype(dtype)
    zero = "false" if dtype == "bool" else f"{fa.asarray(x).node.values.type}(0)"
    found = getattr(fa, name)(tensor(x, zero), axis=axis)
    np.testing.assert_array_equal(fa.todense(found), getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("fill", ["NaN", "Inf", "-Inf"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["min", "max", "prod", "sum"])
def test_reductions_of_fills_that_are_no_numbers(name: str, axis: Any, fill: str) -> None:
    x = rng.random((4, 5)) + 0.5
    x[1:, :2] = x[0, 3] = float(fill)
    found = getattr(fa, name)(tensor(x, fill), axis=axis)
    np.testing.assert_allclose(fa.todense(found), getattr(np, name)(x, axis=axis))


def test_a_new_axis_is_another_program() -> None:
    x = rng.random((4, 5))
    for key in [(..., 3), (slice(None), None, 3), (slice(None), 3, None, None)]:
        np.testing.assert_array_equal(fa.todense(tensor(x, "0.0")[key]), x[key])


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var"])
def test_fills_that_are_stored_are_counted_once(name: str) -> None:
    values = np.array([[0.5, 2.0], [2.0, 2.0], [2.0, 2.0]])
    tensor = Tensor.from_numpy(values, "SparseList(Dense(Element(2.0)))")
    found = fa.todense(getattr(fa, name)(tensor, axis=1))
    np.testing.assert_allclose(found, getattr(np, name)(values, axis=1))


@pytest.mark.parametrize("fill", [np.nan, np.inf, 0.0])
def test_variances_of_lines_without_a_fill(fill: float) -> None:
    array = np.array([[0, 1.5, -2], [0, np.nan, 3]])
    x = fa.asarray(array, fill_value=fill)
    for axis in (0, 1):
        np.testing.assert_allclose(fa.todense(fa.var(x, axis=axis)), array.var(axis))


def _of_ints(matrix: Any) -> None:
    matrix.data = matrix.data.astype(np.int32)


@pytest.mark.parametrize(
    "operand, change",
    [
        (np.arange(6.0).reshape(2, 3), lambda x: setattr(x, "shape", (3, 2))),
        (np.arange(6.0).reshape(2, 3), lambda x: setattr(x, "shape", (6,))),
        (np.arange(6.0), lambda x: x.resize((4,), refcheck=False)),
        (scipy.sparse.csr_array(np.eye(3)), lambda x: x.resize((2, 2))),
        (scipy.sparse.csr_array(np.eye(3)), _of_ints),
        (Tensor("SparseList(Element(0.0))", 2), lambda x: _copied(np.ones(3), x)),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_operands_that_change_under_an_expression_are_refused(operand: Any, change: Any) -> None:
    doubled = fa.asarray(operand) * 2
    expressions = doubled, fa.sum(doubled), fa.asarray(operand)
    for expression in expressions:
        fa.compute(expression)
    change(operand)
    for expression in expressions:
        with pytest.raises(ValueError, match=r"an operand was an array of .* now"):
            fa.compute(expression)
    fa.compute(fa.asarray(operand) * 2)


def _copied(source: Any, target: Any) -> None:
    session = Session()
    session["x"], session["y"] = source, target
    session.run("@finch begin y .= 0; for i = _ y[i] = x[i] end end")
