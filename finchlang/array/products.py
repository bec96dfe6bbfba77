"""Products of arrays: each is a sum of products of elements, and one loop nest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from itertools import repeat
from typing import Any

from finchlang.array.expression import Array, Expression, Reduce, View, apply
from finchlang.array.operands import operands
from finchlang.array.promotion import broadcast_shapes, normalized_axis, with_letters
from finchlang.syntax.types import Bool

__all__ = ["dot", "einsum", "matmul", "tensordot", "vecdot"]


def _product(a: Expression, b: Expression) -> Expression:
    """The products of elements; of Bools whether both are true."""
    return apply("&&" if a.values.type is Bool else "*", a, b)


def _sum(arg: Expression, axes: tuple[int, ...]) -> Array:
    """The sums over some axes; of Bools whether one is true."""
    op = "||" if arg.values.type is Bool else "+"
    return Array(Reduce(op, arg, axes) if axes else arg)


def _contracted(
    args: list[Expression], labels: list[Any], kept: list[Any], rest: list[Any]
) -> Array:
    """The product of arguments with labels for their modes, of modes `kept`, and summed over the `rest`."""
    spread = _spread(tuple(map(tuple, labels)), (*kept, *rest))
    sizes = [1] * (len(kept) + len(rest))
    for arg, places in zip(args, spread, strict=True):
        for place, size in zip(places, arg.shape, strict=True):
            sizes[place] = size if sizes[place] == 1 else sizes[place]
    views: Iterable[Expression] = map(View, args, spread, repeat(tuple(sizes)))
    return _sum(reduce(_product, views), tuple(range(len(kept), len(sizes))))


@lru_cache(4096)
def _spread(labels: tuple[Any, ...], modes: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """For each argument's labels where they stand among the modes."""
    return [tuple([modes.index(label) for label in own]) for own in labels]


@lru_cache(4096)
def _matrices(m: int, n: int) -> tuple[list[Any], list[Any]]:
    """The labels of two arrays of m and n modes in their matrix product, and those of the result."""
    stack = [*range(max(m, n, 2) - 2)]
    rows, columns = ["row"][: m - 1], ["column"][: n - 1]
    left, right = (stack[len(stack) - max(k - 2, 0) :] for k in (m, n))
    return [(*left, *rows, "sum"), (*right, "sum", *columns)], [*stack, *rows, *columns]


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product over the last two axes, others broadcast; a vector is a row on the left, a column
    on the right. Raises ValueError if the sizes that are summed over differ, or an array has no
    dimensions."""
    a, b = operands(x1, x2)
    if not a.shape or not b.shape:
        raise ValueError("matmul takes arrays of at least one dimension")
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise ValueError(f"matmul of shapes {a.shape} and {b.shape}: the sizes summed over differ")
    broadcast_shapes(a.shape[:-2], b.shape[:-2])  # raises where they do not fit
    return _contracted([a, b], *_matrices(len(a.shape), len(b.shape)), ["sum"])


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Array:
    """The sum of products over some axes: the last `axes` of the first array and the first of the second,
    or the axes in two lists. Raises ValueError if those differ in number or in size."""
    a, b = operands(x1, x2)
    m, n = len(a.shape), len(b.shape)
    if hasattr(axes, "__index__"):
        if not 0 <= axes <= min(m, n):
            raise ValueError(f"arrays of {m} and {n} dimensions have no {axes} axes to sum over")
        pairs: list[list[int]] = [list(range(m - axes, m)), list(range(axes))]
    else:
        lists = [[x] if hasattr(x, "__index__") else list(x) for x in axes]
        pairs = [[normalized_axis(x, k) for x in xs] for xs, k in zip(lists, (m, n), strict=True)]
    first, second = pairs
    if len(first) != len(second) or len({*first}) + len({*second}) < 2 * len(first):
        raise ValueError("tensordot sums over as many different axes of both arrays")
    left, right = [*range(m)], [*range(m, m + n)]
    for k, p in zip(first, second, strict=True):
        if a.shape[k] != b.shape[p]:
            what = f"axis {k} of {a.shape} and axis {p} of {b.shape}"
            raise ValueError(f"tensordot sums over axes of one size, not {what}")
        right[p] = k
    kept = [label for label in (*left, *right) if label not in first]
    return _contracted([a, b], [left, right], kept, first)


def dot(x1: Any, x2: Any, /) -> Array:
    """NumPy's `dot`: the sum of products over the last axis of the first array and the last but one, or
    only one, of the second; if one is a number, the product of the elements with it."""
    a, b = operands(x1, x2)
    if not a.shape or not b.shape:
        return Array(_product(a, b))
    return tensordot(x1, x2, axes=([-1], [-2 if len(b.shape) > 1 else 0]))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along one axis; other axes broadcast. Raises ValueError if the axis has different
    sizes."""
    a, b = operands(x1, x2)
    sizes = [x.shape[normalized_axis(axis, len(x.shape))] for x in (a, b)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"vecdot of axes of sizes {sizes[0]} and {sizes[1]}")
    product = _product(a, b)
    return _sum(product, (normalized_axis(axis, len(product.shape)),))


def einsum(subscripts: str, /, *arrays: Any) -> Array:
    """The sum of products in NumPy's notation, `einsum("ik,kj->ij", A, B)`; without `->` letters that occur
    once are kept, sorted. Sizes of 1 are repeated. Raises ValueError for a notation that does not fit."""
    args = operands(*arrays)
    text = with_letters(subscripts.replace(" ", ""), [len(arg.shape) for arg in args])
    given, arrow, result = text.partition("->")
    parts = given.split(",")
    if len(parts) != len(args):
        raise ValueError(f"einsum {subscripts!r} is of {len(parts)} arrays, not {len(args)}")
    letters = sorted(set(given) - {","})
    if not arrow:
        result = "".join([letter for letter in letters if given.count(letter) == 1])
    wrong = [c for c in letters if not c.isalpha()] + [c for c in result if c not in letters]
    if wrong or len(set(result)) < len(result):
        what = wrong[0] if wrong else "a letter"
        raise ValueError(f"einsum {subscripts!r}: {what!r} has no place")
    sizes: dict[str, int] = {}
    for part, arg in zip(parts, args, strict=True):
        if len(part) != len(arg.shape):
            raise ValueError(f"einsum: {part!r} is of {len(part)} dimensions, not {len(arg.shape)}")
        own: dict[str, int] = {}
        for letter, size in zip(part, arg.shape, strict=True):
            known = sizes.get(letter, 1)
            if own.setdefault(letter, size) != size or 1 not in (size, known) and size != known:
                what = f"{letter} has the sizes {max(known, own[letter])} and {size}"
                raise ValueError(f"einsum {subscripts!r}: {what}")
            sizes[letter] = size if known == 1 else known  # a size of 1 is repeated
    rest = [letter for letter in letters if letter not in result]
    return _contracted(args, parts, [*result], rest)
