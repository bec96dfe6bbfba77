"""Arrays in other shapes, beside NumPy and `array-api-strict`: values, types, shapes, what is stored, and
that one kernel does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as xp
from finchlang import Tensor
from tests.array_expressions import Pair, WithShapes, check, expression

strict.set_array_api_strict_flags(api_version="2024.12")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(1, 9, shape) * (random.random(shape) < 0.5) * 1.0


def same(ours: Any, numpy: Any, name: str) -> None:
    check(Pair(ours, numpy, name, None))


A, B, C, V, T = numbers(3, 4), numbers(3, 4, seed=1), numbers(2, 4), numbers(12), numbers(2, 3, 4)
OPERANDS: dict[str, Callable[[np.ndarray], Any]] = {
    "CSR": sp.csr_array,
    "CSC": lambda a: Tensor.from_numpy(a, "Dense(SparseList(Element(0.0)))"),
    "COO": lambda a: Tensor.from_numpy(a, "SparseCOO{2}(Element(0.0))"),
    "lists": lambda a: Tensor.from_numpy(a, "SparseList(SparseList(Element(0.0)))"),
    "runs": lambda a: Tensor.from_numpy(a, "Dense(SparseRunList(Element(0.0)))"),
    "hash": lambda a: Tensor.from_numpy(a, "Dense(SparseHash{1}(Element(0.0)))"),
    "NumPy": np.asfortranarray,
}
#: functions of an operand of ours or NumPy's, by the namespace
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "flatten": lambda xp, a: xp.reshape(a, (-1,)),
    "flatten by columns": lambda xp, a: xp.reshape(a, (-1,), order="F"),
    "2 x 6": lambda xp, a: xp.reshape(a, (2, -1)),
    "6 x 2": lambda xp, a: xp.reshape(a, (6, 2)),
    "split": lambda xp, a: xp.reshape(a, (3, 1, 2, 2)),
    "new axes": lambda xp, a: xp.reshape(a, (1, 3, 1, 4, 1)),
    "below": lambda xp, a: xp.concatenate([a, C]),
    "beside": lambda xp, a: xp.concatenate([B, a, B], axis=1),
    "all": lambda xp, a: xp.concatenate([a, C], axis=None),
    "stack": lambda xp, a: xp.stack([a, B], axis=1),
    "vstack": lambda xp, a: xp.vstack([a, C[0]]),
    "hstack": lambda xp, a: xp.hstack([a, B]),
    "dstack": lambda xp, a: xp.dstack([a, B]),
    "columns": lambda xp, a: xp.column_stack([a, V[:3]]),
    "block": lambda xp, a: xp.block([[a, B], [C, C]]),
    "of expressions": lambda xp, a: xp.concatenate([a * 2.0 + B, C - 1.0, xp.ones((1, 4))]),
    "of parts": lambda xp, a: xp.concatenate([a[1:], a[:1, ::-1], a[[2, 0]]]),
    "nested": lambda xp, a: xp.reshape(xp.concatenate([xp.concatenate([a, C]) * 2.0, B]), (4, 8)),
    "roll": lambda xp, a: xp.roll(a, 1, axis=1),
    "roll all": lambda xp, a: xp.roll(a, -5),
    "roll both": lambda xp, a: xp.roll(a, (1, 2), axis=(0, 1)),
    "repeat": lambda xp, a: xp.repeat(a, 2, axis=0),
    "repeat all": lambda xp, a: xp.repeat(a, 2),
    "repeat each": lambda xp, a: xp.repeat(a, [1, 0, 2], axis=0),
    "tile": lambda xp, a: xp.tile(a, (2, 3)),
    "tile more": lambda xp, a: xp.tile(a, (2, 1, 2)),
    "kron": lambda xp, a: xp.kron(a, C),
    "triu": lambda xp, a: xp.triu(a, 1),
    "tril": lambda xp, a: xp.tril(a, -1),
    "diagonal": lambda xp, a: xp.diagonal(a, 1),
    "squeeze": lambda xp, a: xp.squeeze(xp.expand_dims(a, axis=1), axis=1),
    "moveaxis": lambda xp, a: xp.moveaxis(xp.reshape(a, (3, 2, 2)), 0, -1),
    "flip": lambda xp, a: xp.flip(a, axis=0),
    "ravel": lambda xp, a: xp.ravel(a),
    "times": lambda xp, a: xp.reshape(a, (-1,)) * V,
    "sum": lambda xp, a: (xp.reshape(a, (-1,)) * V).sum(),
    "product": lambda xp, a: xp.concatenate([a, C]) @ V[:4],
}


#: each function of a kind of operands, the most general ones of all
CASES = [
    (name, operand)
    for n, name in enumerate(FUNCTIONS)
    for k, operand in enumerate(OPERANDS)
    if name in ("flatten", "nested") or k == n % len(OPERANDS)
]


@pytest.mark.parametrize(("name", "operand"), CASES)
def test_functions_of_shapes_give_what_numpy_gives(name: str, operand: str) -> None:
    lazy = xp.asarray(OPERANDS[operand](A))
    same(FUNCTIONS[name](np, lazy), FUNCTIONS[name](np, A), name)


def test_the_namespace_has_what_the_standard_has() -> None:
    array = strict.asarray(T)
    for name, args, keywords in (
        ("reshape", ((4, 6),), {}),
        ("reshape", ((4, 6),), {"copy": True}),
        ("flip", (), {"axis": 1}),
        ("roll", (2,), {"axis": 2}),
        ("repeat", (2,), {"axis": 1}),
        ("tile", ((2, 1, 1),), {}),
        ("permute_dims", ((2, 0, 1),), {}),
        ("moveaxis", (0, 2), {}),
        ("expand_dims", (), {"axis": 1}),
        ("broadcast_to", ((5, 2, 3, 4),), {}),
        ("tril", (), {"k": 1}),
        ("triu", (), {"k": -1}),
    ):
        expected = getattr(strict, name)(array, *args, **keywords)
        found = getattr(xp, name)(T, *args, **keywords)
        same(found, np.asarray(expected), name)
    for name, keywords in (("concat", {"axis": 1}), ("concat", {"axis": None}), ("stack", {})):
        expected = getattr(strict, name)([array, array], **keywords)
        same(getattr(xp, name)([T, T], **keywords), np.asarray(expected), name)
    for ours, theirs in zip(xp.unstack(T, axis=1), strict.unstack(array, axis=1), strict=True):
        same(ours, np.asarray(theirs), "unstack")
    row = strict.asarray(V[:4])
    expected = strict.broadcast_arrays(strict.asarray(A), row)
    for ours, theirs in zip(xp.broadcast_arrays(A, V[:4]), expected, strict=True):
        same(ours, np.asarray(theirs), "broadcast_arrays")


def test_types_promote() -> None:
    parts = [np.array([1, 2], np.int8), np.array([3], np.uint8), np.array([4], np.float32)]
    same(xp.concat(parts), np.concatenate(parts), "concat")


def test_sparse_stays_sparse() -> None:
    matrix = sp.csr_array(A)
    assert "SparseList" in str(xp.compute(xp.reshape(matrix, -1)).format)
    below = xp.compute(xp.concat([matrix, matrix]))
    assert str(below.format) == "swizzle(Dense(SparseList{Int32}(Element(0.0))), 2, 1)"
    assert below.body.countstored() == 2 * matrix.nnz
    with_a_row = xp.compute(xp.concat([matrix, np.ones((1, 4))]))
    assert "SparseList" in str(with_a_row.format)
    vector = Tensor.from_numpy(V, "SparseList(Element(0.0))")
    assert xp.compute(xp.reshape(vector, (3, 4))).body.countstored() == np.count_nonzero(V)


@pytest.mark.parametrize(
    "array",
    [
        (xp.reshape(sp.csr_array(A), -1) * V).sum(),
        xp.concat([sp.csr_array(A), sp.csr_array(B)]) @ V[:4],
        (xp.asarray(sp.csr_array(A)) * B)[1:2, :],
        xp.reshape(xp.asarray(sp.csr_array(A)) + B, (2, 6)) * xp.roll(xp.asarray(V[:6]), 1),
    ],
)
def test_they_are_one_kernel_without_a_temporary(array: Any) -> None:
    text = xp.plan(array)
    assert text.count("@finch") == 1 and text.count(".=") == 1


def test_modes_that_become_one_are_written_one_by_one() -> None:
    matrix = sp.csr_array(A)
    product = xp.kron(matrix, matrix)
    assert "collapse" not in xp.plan(product)  # which would be read place by place
    assert xp.compute(product).body.countstored() == matrix.nnz**2


def test_a_slice_of_a_product_sums_only_what_is_in_it() -> None:
    text = xp.plan((xp.asarray(sp.csr_array(A)) @ xp.asarray(sp.csr_array(B.T)))[1:2])
    assert text.count(".=") == 1 or "t0[i, j]" in text
    same((xp.asarray(sp.csr_array(A)) @ B.T)[1:2], (A @ B.T)[1:2], "slice")


def test_numpy_memory_is_viewed() -> None:
    array = np.arange(12.0)
    lazy = xp.reshape(array, (3, 4))
    assert np.shares_memory(lazy.node.value, array)
    array[0] = 7
    assert float(lazy[0, 0]) == 7
    assert not np.shares_memory(xp.reshape(array, (3, 4), copy=True).node.value, array)


def test_numpys_own_functions_and_methods() -> None:
    tensor = Tensor.from_numpy(A, "Dense(SparseList(Element(0.0)))")
    for ours, theirs in (
        (np.reshape(tensor, (2, 6)), A.reshape(2, 6)),
        (np.ravel(tensor), A.ravel()),
        (np.concatenate([tensor, C]), np.concatenate([A, C])),
        (tensor.reshape(2, 6), A.reshape(2, 6)),
        (tensor.reshape((2, 6), order="F"), A.reshape(2, 6, order="F")),
        (tensor.ravel(), A.ravel()),
        (tensor.flatten(), A.flatten()),
        (tensor.T, A.T),
        (tensor.repeat(2, axis=1), A.repeat(2, axis=1)),
        (tensor.diagonal(), A.diagonal()),
        (tensor.swapaxes(0, 1), A.swapaxes(0, 1)),
        (np.swapaxes(tensor, 0, 1), A.T),
    ):
        same(ours, theirs, "")


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (1,), (1, 1)])
def test_sizes_of_0_and_1(shape: tuple[int, ...]) -> None:
    array = np.ones(shape)
    for name, args in (("reshape", (-1,)), ("roll", (1,)), ("repeat", (2,)), ("tile", (2,))):
        found = getattr(xp, name)(xp.asarray(array), *args)
        same(found, getattr(np, name)(array, *args), name)
    same(xp.concat([array, array]), np.concatenate([array, array]), "concat")
    same(xp.stack([array, array]), np.stack([array, array]), "stack")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: xp.reshape(A, (5, 2)), r"shape \(3, 4\) has 12 elements.*\(5, 2\)"),
        (lambda: xp.reshape(A, (5, -1)), r"12 elements.*\(5, -1\)"),
        (lambda: xp.reshape(A, (-1, -1)), "only one size can be -1"),
        (lambda: xp.reshape(A, (-3, -4)), "not negative"),
        (lambda: xp.concat([A, V]), r"\(3, 4\) and \(12,\)"),
        (lambda: xp.concat([A, C], axis=1), r"axis 1.*\(3, 4\) and \(2, 4\)"),
        (lambda: xp.concat([A, C], axis=2), "axis 2 is out of bounds"),
        (lambda: xp.concat([]), "at least one"),
        (lambda: xp.concat([1.0, 2.0]), "without dimensions"),
        (lambda: xp.stack([A, C]), r"one shape, not \(3, 4\), \(2, 4\)"),
        (lambda: xp.squeeze(A, axis=0), "no axes"),
        (lambda: xp.expand_dims(A, axis=(1, 1)), "there twice"),
        (lambda: xp.permute_dims(A, (0, 0)), "not the axes"),
        (lambda: xp.diagonal(A, 0, 1, 1), "there twice"),
        (lambda: xp.roll(A, (1, 2, 3), axis=(0, 1)), "a shift for each axis"),
        (lambda: xp.repeat(A, [1, 2], axis=0), "2 numbers for the 3 parts"),
        (lambda: xp.repeat(A, -1), "not negative"),
        (lambda: xp.tril(V), "two dimensions"),
        (lambda: xp.block([[A], []]), "nested equally deep"),
        (lambda: xp.broadcast_to(A, (3, 5)), "do not broadcast"),
    ],
)
def test_errors_say_both_sizes(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("seed", range(10))
def test_expressions_with_shapes_give_what_numpy_gives(seed: int) -> None:
    rng = WithShapes(seed)
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    check(expression(rng, shape, 2))
