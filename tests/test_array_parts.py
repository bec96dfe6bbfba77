"""Parts of arrays, products, and places of extremes give what NumPy gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import finchlang.array as xp
from finchlang import Tensor
from tests.array_expressions import Pair, check, leaf

CSC = "Dense(SparseList(Element(0.0)))"


def _slice(rng: random.Random, size: int) -> Any:
    step = rng.choice((None, None, 1, 2, 3, -1, -2))
    ends = [rng.choice((None, rng.randint(-size - 1, size + 1))) for _ in range(2)]
    return slice(*ends, step)


@pytest.mark.parametrize("seed", range(25))
def test_indexing(seed: int) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 3)))
    array = leaf(rng, shape)
    key: list[Any] = []
    for size in shape[: rng.randint(0, len(shape))]:
        key.append(rng.randint(-size, size - 1) if rng.random() < 0.3 else _slice(rng, size))
    if rng.random() < 0.3:
        key.insert(rng.randint(0, len(key)), None)
    if rng.random() < 0.3:
        key.insert(rng.randint(0, len(key)), Ellipsis)
    found = xp.asarray(array.ours)[tuple(key)]
    check(Pair(found, array.numpy[tuple(key)], f"{array.text}{key}"))
    doubled = xp.add(found, found)
    if array.numpy.dtype != bool:
        check(Pair(doubled, 2 * array.numpy[tuple(key)], f"2 {array.text}{key}"))


def test_lists_and_masks() -> None:
    rng = random.Random(1)
    array = leaf(rng, (4, 5), "float64")
    lazy, given = xp.asarray(array.ours), array.numpy
    check(Pair(xp.take(lazy, np.array([3, 0, -1]), axis=1), given[:, [3, 0, -1]], "take"))
    check(Pair(lazy[[2, 2, 0]], given[[2, 2, 0]], "list"))
    check(Pair(lazy[given > 0.2], given[given > 0.2], "mask"))
    check(Pair(lazy[lazy > 0.2], given[given > 0.2], "lazy mask"))
    check(Pair(lazy[lazy < 0.2], given[given < 0.2], "mask of fill true"))
    check(Pair(xp.flip(lazy), np.flip(given), "flip"))
    check(Pair(xp.flip(lazy, axis=0), np.flip(given, axis=0), "flip"))


PRODUCTS = (
    *(((4, 5), (5, 3)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,))),
    *(((2, 4, 5), (5, 3)), ((2, 4, 5), (1, 5, 3)), ((4, 5), (2, 5, 3))),
)


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    rng = random.Random(len(a) * 10 + len(b))
    for _ in range(3):
        x, y = leaf(rng, a, dtype), leaf(rng, b, dtype)
        check(Pair(xp.matmul(x.ours, y.ours), x.numpy @ y.numpy, f"{x.text} @ {y.text}"))


def test_other_products() -> None:
    rng = random.Random(2)
    x, y, z = (leaf(rng, s, "float64") for s in ((4, 3, 5), (5, 4), (5,)))
    for axes in (1, 0, ([2, 0], [0, 1]), ([0], [1])):
        expected = np.tensordot(x.numpy, y.numpy, axes=axes)
        check(Pair(xp.tensordot(x.ours, y.ours, axes=axes), expected, f"tensordot {axes}"))
    check(Pair(xp.vecdot(x.ours, z.ours), np.vecdot(x.numpy, z.numpy), "vecdot"))
    given, own = (x.numpy, y.numpy, z.numpy), (x.ours, y.ours, z.ours)
    for text in ("ijk,kl,k->lj", "ijk,ki,k->", "ijk,kl,k", "ijk,kl,k->ijkl"):
        check(Pair(xp.einsum(text, *own), np.einsum(text, *given), text))
    square = leaf(rng, (4, 4), "float64")
    for text in ("ii->i", "ii", "ij->ji"):
        check(Pair(xp.einsum(text, square.ours), np.einsum(text, square.numpy), text))
    check(Pair(np.matmul(y.ours, x.numpy[:, :, 0]), y.numpy @ x.numpy[:, :, 0], "np.matmul"))


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("seed", range(6))
def test_places_of_extremes(name: str, seed: int) -> None:
    rng = random.Random(seed)
    array = leaf(rng, tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3))))
    for axis in (None, *range(array.numpy.ndim)):
        expected = getattr(np, name)(array.numpy, axis=axis)
        found = getattr(xp, name)(array.ours, axis=axis)
        check(Pair(found, expected, f"{name} {array.text} {axis}"))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda t: t[7, 0], IndexError),
        (lambda t: t[0, 0, 0], IndexError),
        (lambda t: t["x"], TypeError),
        (lambda t: t[True], TypeError),
        (lambda t: t[0, True], TypeError),
        (lambda t: t[1.5], TypeError),
        (lambda t: t[np.ones(3, bool)], IndexError),
        (lambda t: t @ t, ValueError),
        (lambda t: xp.einsum("ij,jk->ik", t, t), ValueError),
        (lambda t: xp.einsum("ij->iz", t), ValueError),
        (lambda t: xp.tensordot(t, t, axes=1), ValueError),
        (lambda t: xp.vecdot(t, np.ones(4)), ValueError),
        (lambda t: xp.argmin(t, axis=2), ValueError),
    ],
)
def test_what_is_wrong_is_told(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong(Tensor(CSC, 6, 5))


def test_products_of_sparse_matrices_are_sparse() -> None:
    tensor = Tensor.from_numpy(np.diag(np.arange(5.0)), CSC)
    product = xp.compute(tensor @ tensor)
    assert str(product.format) == CSC and product.countstored() == 4
    assert str(xp.compute(tensor[1:4, ::2]).format) == CSC
