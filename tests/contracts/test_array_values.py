"""The contract of array expressions: what NumPy says of the same, of dense and of sparse operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as xp
from finchlang import Tensor

Case = tuple[Callable[..., Any], Callable[..., Any]]


def both(name: str, *args: Any, **keywords: Any) -> Case:
    """A function that has one name in both."""
    np_name = {"concat": "concatenate"}.get(name, name)
    return (
        lambda a, b: getattr(xp, name)(a, *args, **keywords),
        lambda a, b: getattr(np, np_name)(a, *args, **keywords),
    )


def same(function: Callable[..., Any]) -> Case:
    """Operators and subscripts, which both have."""
    return function, function


#: what is made of a matrix of 4 x 6 and a vector of 6
CASES: dict[str, Case] = {
    "reshape to two": both("reshape", (3, 8)),
    "reshape to three": both("reshape", (2, 6, 2)),
    "every second": same(lambda a, b: a[::2, 1::2]),
    "reversed": same(lambda a, b: a[::-1, ::-2]),
    "a part backwards": same(lambda a, b: a[3:0:-1, 4:1:-1]),
    "the last row": same(lambda a, b: a[-1]),
    "a list": same(lambda a, b: a[[0, -1, 2, 0]]),
    "a new axis": same(lambda a, b: a[:, None, :] * b),
    "tril": both("tril"),
    "tril above": both("tril", k=1),
    "triu": both("triu"),
    "triu above": both("triu", k=1),
    "triu below": both("triu", k=-1),
    "roll": both("roll", 2, axis=1),
    "roll backwards": both("roll", -1, axis=0),
    "repeat": both("repeat", 3, axis=0),
    "cumulative sum": (lambda a, b: xp.cumulative_sum(a, axis=1), lambda a, b: a.cumsum(axis=1)),
    "argmax": both("argmax"),
    "argmax of rows": both("argmax", axis=1),
    "argmin": both("argmin"),
    "sum of ones": same(lambda a, b: (a + 1).sum(axis=0)),
    "sum of exponentials": (
        lambda a, b: xp.sum(xp.exp(a), axis=1),
        lambda a, b: np.exp(a).sum(axis=1),
    ),
    "minimum": (lambda a, b: xp.min(a - 1, axis=0), lambda a, b: (a - 1).min(axis=0)),
    "product": same(lambda a, b: a @ b),
    "product of matrices": same(lambda a, b: a.T @ a),
    "product the other way": same(lambda a, b: (a @ a.T)[:, ::-1]),
    "broadcast": same(lambda a, b: a * b + b),
    "where": (lambda a, b: xp.where(a > 1, a, b), lambda a, b: np.where(a > 1, a, b)),
    "diagonal above": both("diagonal", offset=1),
    "diagonal below": both("diagonal", offset=-2),
    "three in a row": (
        lambda a, b: xp.concat([a, 2 * a, a[:1]], axis=0),
        lambda a, b: np.concatenate([a, 2 * a, a[:1]]),
    ),
    "side by side": (
        lambda a, b: xp.concat([a + 1, a, a * a], axis=1),
        lambda a, b: np.concatenate([a + 1, a, a * a], axis=1),
    ),
    "stacked": (lambda a, b: xp.stack([a, a], axis=1), lambda a, b: np.stack([a, a], axis=1)),
    "kron": (lambda a, b: xp.kron(a[:2, :2], a), lambda a, b: np.kron(a[:2, :2], a)),
    "a mask": same(lambda a, b: a[a > 0]),
    "transposed times": same(lambda a, b: a.T * np.arange(4.0)),
}
MATRIX = np.array(
    [[0, 2.0, 0, 0, 5, 0], [1, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0], [3, 0, 5, 0, 0, 4]]
)
VECTOR = np.array([1.0, 0, -2, 0, 3, 1])
OPERANDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "dense": lambda: (xp.asarray(MATRIX), xp.asarray(VECTOR)),
    "SciPy": lambda: (xp.asarray(sp.csr_array(MATRIX)), xp.asarray(VECTOR)),
    "columns": lambda: (
        xp.asarray(Tensor.from_numpy(MATRIX, "Dense(SparseList(Element(0.0)))")),
        xp.asarray(Tensor.from_numpy(VECTOR, "SparseList(Element(0.0))")),
    ),
}


def runs() -> Iterator[Any]:
    """Each case with each kind of operands; quick is one of the kinds."""
    for k, (name, kind) in enumerate(itertools.product(CASES, OPERANDS)):
        marks = [pytest.mark.slow] if (k + k // 3) % 3 else []
        yield pytest.param(name, kind, id=f"{name}-{kind}", marks=marks)


@pytest.mark.parametrize(("name", "kind"), [*runs()])
def test_expressions_beside_numpy(name: str, kind: str) -> None:
    ours, theirs = CASES[name]
    expected = theirs(MATRIX, VECTOR)
    found = np.asarray(ours(*OPERANDS[kind]()))
    assert found.shape == expected.shape and np.allclose(found, expected), f"{found}\n{expected}"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_operands_that_are_stored_in_other_orders(order: tuple[int, ...]) -> None:
    """One of them is copied in the order of the loops."""
    array = np.where(np.arange(24).reshape(2, 3, 4) % 3, 0.0, np.arange(24.0).reshape(2, 3, 4))
    format = "SparseList(SparseList(SparseList(Element(0.0))))"
    back = tuple(int(k) for k in np.argsort(order))
    other = Tensor.from_numpy(np.ascontiguousarray(array.transpose(order)), format)
    one, turned = xp.asarray(Tensor.from_numpy(array, format)), xp.permute_dims(other, back)
    assert np.array_equal(np.asarray(one * turned), array * array)
    assert np.array_equal(np.asarray(one + turned), 2 * array)
    assert np.allclose(np.asarray((one * turned).sum(axis=1)), (array * array).sum(axis=1))
