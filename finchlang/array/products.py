"""Products of arrays: each is a sum of products of elements, and one loop nest."""

from __future__ import annotations

from typing import Any

from finchlang.array.expression import Array, Expression, Reduce, View, apply
from finchlang.array.operands import operands
from finchlang.array.promotion import broadcast_shapes, normalized_axis
from finchlang.syntax.types import Bool


def _summed(args: list[Expression], places: list[tuple[int, ...]], order: int, kept: int) -> Array:
    """The product of arguments whose modes are at these `places` among `order` modes, summed over all modes
    but the first `kept`. Bools are multiplied by `&&` and summed by `||`."""
    sizes = [1] * order
    for arg, own in zip(args, places, strict=True):
        for place, size in zip(own, arg.shape, strict=True):
            sizes[place] = size if sizes[place] == 1 else sizes[place]
    shape = tuple(sizes)
    spread = [View(arg, own, shape) for arg, own in zip(args, places, strict=True)]
    is_bool = args[0].values.type is Bool
    product: Expression = spread[0]
    for other in spread[1:]:
        product = apply("&&" if is_bool else "*", product, other)
    axes = tuple(range(kept, order))
    return Array(Reduce("||" if is_bool else "+", product, axes) if axes else product)


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product over the last two axes, others broadcast; a vector is a row on the left, a column
    on the right. Raises ValueError if the sizes that are summed over differ, or an array has no
    dimensions."""
    a, b = operands(x1, x2)
    if not a.shape or not b.shape:
        raise ValueError("matmul takes arrays of at least one dimension")
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise ValueError(f"matmul of shapes {a.shape} and {b.shape}: the sizes summed over differ")
    stack = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    first, second = (len(x.shape) > 1 for x in (a, b))
    order = len(stack) + first + second + 1
    row, column, summed = len(stack), len(stack) + first, order - 1
    places = [
        (*range(len(stack) - max(len(x.shape) - 2, 0), len(stack)), *rest)
        for x, rest in (
            (a, (row, summed) if first else (summed,)),
            (b, (summed, column) if second else (summed,)),
        )
    ]
    return _summed([a, b], places, order, order - 1)


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
    _check_pairs(a, b, *pairs)
    first = m + n - 2 * len(pairs[0])
    places, start = [], 0
    for order, own in zip((m, n), pairs, strict=True):
        rest = [k for k in range(order) if k not in own]
        found = {k: start + at for at, k in enumerate(rest)}
        found |= {k: first + at for at, k in enumerate(own)}
        places.append(tuple([found[k] for k in range(order)]))
        start += len(rest)
    return _summed([a, b], places, first + len(pairs[0]), first)


def dot(x1: Any, x2: Any, /) -> Array:
    """NumPy's `dot`: the sum of products over the last axis of the first array and the last but one, or
    only one, of the second; if one is a number, the product of the elements with it."""
    a, b = operands(x1, x2)
    if not a.shape or not b.shape:
        return Array(apply("&&" if a.values.type is Bool else "*", a, b))
    return tensordot(x1, x2, axes=([-1], [-2 if len(b.shape) > 1 else 0]))


def _check_pairs(a: Expression, b: Expression, first: list[int], second: list[int]) -> None:
    if len(first) != len(second) or len({*first}) + len({*second}) < 2 * len(first):
        raise ValueError("tensordot sums over as many different axes of both arrays")
    for k, n in zip(first, second, strict=True):
        if a.shape[k] != b.shape[n]:
            what = f"axis {k} of {a.shape} and axis {n} of {b.shape}"
            raise ValueError(f"tensordot sums over axes of one size, not {what}")


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along one axis; other axes broadcast. Raises ValueError if the axis has different
    sizes."""
    a, b = operands(x1, x2)
    sizes = [x.shape[normalized_axis(axis, len(x.shape))] for x in (a, b)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"vecdot of axes of sizes {sizes[0]} and {sizes[1]}")
    product = apply("&&" if a.values.type is Bool else "*", a, b)
    op = "||" if a.values.type is Bool else "+"
    return Array(Reduce(op, product, (normalized_axis(axis, len(product.shape)),)))


def einsum(subscripts: str, /, *arrays: Any) -> Array:
    """The sum of products in NumPy's notation, as one loop nest: `einsum("ik,kj->ij", A, B)`. Without `->`
    the letters that occur once are kept, in alphabetical order. There is no `...`. Raises ValueError for
    a notation that is wrong or does not fit the arrays."""
    args = operands(*arrays)
    text = subscripts.replace(" ", "")
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
        for letter, size in zip(part, arg.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                what = f"{letter} has the sizes {sizes[letter]} and {size}"
                raise ValueError(f"einsum {subscripts!r}: {what}")
    modes = [*result, *(letter for letter in letters if letter not in result)]
    places = [tuple([modes.index(letter) for letter in part]) for part in parts]
    return _summed(args, places, len(modes), len(result))
