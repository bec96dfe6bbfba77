"""Random array expressions beside the same ones of NumPy, and of `array_api_strict` where they stand in
the standard: shapes, types, fills and formats."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict as strict
import numpy as np
import scipy.sparse as sp

import finchlang.array as xp
from finchlang import Tensor
from finchlang.script.tensors import over
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.formats import parse_format
from finchlang.types import type_of_dtype

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64")
FORMATS = {
    1: ("Dense(%s)", "SparseList(%s)", "SparseBand(%s)", "RunList(%s)", "SparseByteMap(%s)"),
    2: (
        *("Dense(SparseList(%s))", "Dense(Dense(%s))", "SparseList(SparseList(%s))"),
        *("SparseCOO{2}(%s)", "SparseList(Dense(%s))", "Dense(SparseRunList(%s))"),
    ),
    3: ("SparseCOO{3}(%s)", "Dense(SparseList(SparseList(%s)))", "Dense(Dense(Dense(%s)))"),
    4: ("SparseCOO{4}(%s)", "Dense(Dense(Dense(Dense(%s))))"),
}
ANY = ("abs", "isnan", "isfinite", "logical_not")
NUMBERS = ("negative", "square", "sign", "floor", "abs", "isnan", "isfinite")
WIDE = ("exp", "sqrt", "tanh")
ARITHMETIC = (
    *("add", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal"),
    *("greater", "greater_equal", "subtract"),
)
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
PLACES = ("argmin", "argmax")
REDUCTIONS = ("sum", "prod", "min", "max", "any", "all", "count_nonzero")
MEANS = ("mean", "var", "std")


@dataclass
class Pair:
    """An array of ours, what it is to NumPy, how it was made, and what it is to the reference of the
    standard (None: it does not stand in it)."""

    ours: Any
    numpy: Any
    text: str
    standard: Any = None

    @property
    def is_wide(self) -> bool:
        """Whether NumPy takes it for float32 or float64 in functions of floats."""
        return np.asarray(self.numpy).dtype.itemsize >= 4

    @property
    def is_bool(self) -> bool:
        return np.asarray(self.numpy).dtype == bool


def standard(function: Callable[..., Any] | None, *args: Any, **keywords: Any) -> Any:
    """What the standard's reference makes of arguments; None if it does not take them."""
    if function is None or any(arg is None for arg in args):
        return None
    try:
        return function(*args, **keywords)
    except (TypeError, ValueError, IndexError):
        return None


def leaf(rng: random.Random, shape: tuple[int, ...], dtype: str | None = None) -> Pair:
    """An operand: a tensor of any format and fill, a NumPy array, a SciPy matrix, a number."""
    dtype = dtype or rng.choice(DTYPES)
    numbers = np.random.default_rng(rng.randrange(1 << 16))
    kind = rng.choice(("tensor", "tensor", "numpy", "scipy"))
    fill = np.array(rng.choice((0, 0, 1)) if kind == "tensor" else 0).astype(dtype)
    low = 0 if dtype == "bool" or dtype.startswith("u") else -3
    array = numbers.integers(low, 2 if dtype == "bool" else 4, shape).astype(dtype)
    if dtype.startswith("float"):
        array = array / np.array(2, dtype)
    array = np.where(numbers.random(shape) < 0.6, fill, array)
    text = f"{dtype}{shape}"
    if not shape:
        return Pair(array[()], array[()], f"{dtype} {array}", strict.asarray(array))
    known = strict.asarray(array)
    if kind == "numpy":
        return Pair(np.asarray(array, order=rng.choice("CF")), array, f"NumPy {text}", known)
    if kind == "scipy" and len(shape) == 2:
        name = rng.choice(("csc_array", "csr_array"))
        return Pair(getattr(sp, name)(array), array, f"{name} {text}", known)
    own = type_of_dtype(dtype)
    assert own is not None
    level = parse_format(rng.choice(FORMATS[len(shape)]) % "Element(0.0)")
    level = over(level, Element(typed_literal(fill[()], own)))
    return Pair(Tensor.from_numpy(array, level), array, f"{level} {shape}", known)


def expression(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    """A random expression of a shape."""
    if depth == 0:
        return leaf(rng, shape)
    kinds = ("one", "two", "two", "two", "where", "reduce", "reduce", "permute", "slice", "product")
    kind = rng.choice((*kinds, *["shape"] * 4) if isinstance(rng, WithShapes) else kinds)
    if kind == "shape":
        return _shape_function(rng, shape, depth)
    if kind == "two":
        return _binary(rng, shape, depth)
    if kind == "where":
        which = expression(rng, shape, depth - 1)
        if not which.is_bool and rng.random() < 0.8:
            which = _called("not_equal", [which, Pair(0, 0, "0", 0)])
        return _called("where", [which, *_alike(rng, [leaf(rng, shape), leaf(rng, shape)])])
    if kind == "reduce" and len(shape) < 3:
        return _reduction(rng, shape, depth)
    if kind == "slice":
        return _slice(rng, shape, depth)
    if kind == "product" and shape:
        return _product(rng, shape, depth)
    arg = expression(rng, shape, depth - 1)
    if kind == "permute" and np.ndim(arg.numpy) == len(shape):
        back = expression(rng, shape[::-1], depth - 1)
        axes = tuple(reversed(range(len(shape))))
        known = standard(strict.permute_dims, back.standard, axes=axes)
        found = xp.permute_dims(back.ours)
        return Pair(found, np.transpose(back.numpy), f"permute({back.text})", known)
    names = ANY if arg.is_bool or rng.random() < 0.2 else NUMBERS
    names += WIDE if arg.is_wide else ()
    return _called(rng.choice(names), [arg])


def _called(name: str, args: list[Pair], *more: Any, **keywords: Any) -> Pair:
    text = ", ".join([*(arg.text for arg in args), *map(str, more), *map(str, keywords.items())])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*(arg.numpy for arg in args), *more, **keywords)
    ours = getattr(xp, name)(*(arg.ours for arg in args), *more, **keywords)
    with np.errstate(all="ignore"):
        known = standard(
            getattr(strict, name, None), *(arg.standard for arg in args), *more, **keywords
        )
    return Pair(ours, expected, f"{name}({text})", known)


def _alike(rng: random.Random, args: list[Pair]) -> list[Pair]:
    """Two operands, mostly of one kind of types, as the standard wants them: Bools, integers or floats."""
    types = [np.asarray(arg.numpy).dtype for arg in args]
    kinds = ["bif".index(type.kind.replace("u", "i")) for type in types]
    if kinds[0] != kinds[1] and rng.random() < 0.8:
        k = kinds.index(min(kinds))
        args[k] = _converted(args[k], types[1 - k])
    return args


def _converted(arg: Pair, type: np.dtype) -> Pair:
    known = standard(lambda array: strict.astype(array, getattr(strict, type.name)), arg.standard)
    ours = xp.astype(arg.ours, type)
    return Pair(ours, np.asarray(arg.numpy).astype(type), f"{type}({arg.text})", known)


def _binary(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    own = tuple(size if rng.random() < 0.6 else 1 for size in shape)
    if rng.random() < 0.4:
        own = own[rng.randint(0, len(own)) :]
    args = [expression(rng, shape, depth - 1), expression(rng, own, depth - 1)]
    if rng.random() < 0.2:
        number = rng.choice((2, 1, 0, True))
        args[1] = Pair(number, number, str(number), number)
    else:
        args = _alike(rng, args)
    if rng.random() < 0.5:
        args.reverse()
    kinds = "".join(np.result_type(arg.numpy).kind for arg in args)
    has_bits = np.result_type(*(arg.numpy for arg in args)).kind != "f"  # Int8 with UInt64 has none
    names = BITS if has_bits else ARITHMETIC
    # the standard has no arithmetic of Bools, and logic of nothing else
    is_logical = rng.random() < 0.8 if kinds == "bb" else rng.random() < 0.1
    name = rng.choice(LOGICAL + BITS * (kinds == "bb") if is_logical else ARITHMETIC + names)
    if name == "subtract" and np.result_type(*(arg.numpy for arg in args)).kind == "b":
        name = "logical_xor"
    return _called(name, args)


def _reduction(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    axis, size = rng.randint(0, len(shape)), rng.randint(1, 3)
    arg = expression(rng, shape[:axis] + (size,) + shape[axis:], depth - 1)
    names = REDUCTIONS + PLACES + (MEANS if arg.is_wide else ())
    found = rng.choice(("any", "all") if arg.is_bool and rng.random() < 0.7 else names)
    result = _called(found, [arg], axis=axis, keepdims=True)
    known = standard(strict.squeeze, result.standard, axis=axis)
    ours, numpy = xp.squeeze(result.ours, axis), np.squeeze(result.numpy, axis)
    return Pair(ours, numpy, result.text, known)


def _slice(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    """A part of a larger array."""
    steps = [rng.choice((1, 1, 2, -1)) for _ in shape]
    starts = [rng.randint(0, 1) for _ in shape]
    larger = tuple(
        start + max(size - 1, 0) * abs(step) + 1
        for size, step, start in zip(shape, steps, starts, strict=True)
    )
    arg = expression(rng, larger, depth - 1)
    key = []
    for size, step, start in zip(shape, steps, starts, strict=True):
        last = start + (size - 1) * abs(step)
        ends = (start, start + size * step, step) if step > 0 else (last, None, step)
        key.append(slice(*ends) if size and not (step < 0 and start) else slice(0, size))
    if np.shape(arg.numpy) != larger:
        return arg
    found, text = arg.numpy[tuple(key)], f"{arg.text}{key}"
    known = standard(lambda array: array[tuple(key)], arg.standard)
    return Pair(xp.asarray(arg.ours)[tuple(key)], found, text, known)


def _product(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    """A matrix product with the last mode of a matrix."""
    inner = rng.randint(1, 3)
    a = expression(rng, (*shape[:-1], inner), depth - 1)
    b = leaf(rng, (inner, shape[-1]))
    a, b = _alike(rng, [a, b])
    if np.shape(a.numpy) != (*shape[:-1], inner):
        return a
    return _called("matmul", [a, b])


class WithShapes(random.Random):
    """A generator of random numbers, by which expressions have functions of shapes."""


def _shape_function(rng: random.Random, shape: tuple[int, ...], depth: int) -> Pair:
    """A function that changes shapes, of expressions, so that the result has this shape."""
    order = len(shape)
    if not order:
        return _called("reshape", [expression(rng, (1,) * rng.randint(1, 2), depth - 1)], ())
    axis = rng.randrange(order)
    size, others = shape[axis], (shape[:axis], shape[axis + 1 :])

    def along(own: int) -> tuple[int, ...]:
        return (*others[0], own, *others[1])

    def of(own: tuple[int, ...]) -> Pair:
        found = expression(rng, own, depth - 1)
        while np.shape(found.numpy) != own:
            found = leaf(rng, own)
        return found

    kind = rng.choice(
        ("reshape", "reshape", "concat", "concat", "stack", "roll", "repeat", "tile", "flip")
        + ("tril", "triu", "diagonal", "expand", "squeeze", "kron", "moveaxis")
    )
    if kind == "reshape":
        return _called("reshape", [of(_other_shape(rng, math.prod(shape)))], shape)
    if kind == "concat" and size:
        sizes = [rng.randint(0, size), 0]
        sizes[1] = size - sizes[0]
        if rng.random() < 0.3:
            sizes[1:] = [sizes[1], 0] if rng.random() < 0.5 else [sizes[1] // 2, -(-sizes[1] // 2)]
        return _joined(rng, "concat", [of(along(own)) for own in sizes], axis)
    if kind == "stack" and size in (1, 2, 3):
        rest = others[0] + others[1]
        return _joined(rng, "stack", [of(rest) for _ in range(size)], axis)
    if kind == "roll":
        return _called("roll", [of(shape)], rng.randint(-4, 4), axis=rng.choice((axis, None)))
    if kind in ("repeat", "tile") and size:
        times = rng.choice([n for n in (1, 2, 3, 4) if size % n == 0])
        part = of(along(size // times))
        if kind == "repeat":
            return _called("repeat", [part], times, axis=axis)
        return _called("tile", [part], tuple(times if k == axis else 1 for k in range(order)))
    if kind == "flip":
        return _called("flip", [of(shape)], axis=axis)
    if kind in ("tril", "triu") and order > 1:
        return _called(kind, [of(shape)], k=rng.randint(-2, 2))
    if kind == "diagonal" and order < 3:
        larger = shape[-1] + rng.randint(0, 1), shape[-1]
        return _called("diagonal", [of((*larger, *shape[:-1]))])
    if kind == "expand":
        arg = of(shape)
        found = _called("expand_dims", [arg], axis=axis)
        return _called("squeeze", [found], axis=axis)
    if kind == "kron" and size and order < 3:
        a = tuple(rng.choice([n for n in (1, 2, 3, 4) if s % n == 0] or [1]) for s in shape)
        return _called("kron", [of(a), of(tuple(s // n for s, n in zip(shape, a, strict=True)))])
    if kind == "moveaxis" and order > 1:
        moved = of(tuple(np.moveaxis(np.empty(shape), axis, 0).shape))
        return _called("moveaxis", [moved], 0, axis)
    return _called("reshape", [of((math.prod(shape),))], shape)


def _joined(rng: random.Random, name: str, parts: list[Pair], axis: int) -> Pair:
    text = ", ".join(part.text for part in parts)
    numpy = np.concatenate if name == "concat" else np.stack
    types = {np.asarray(part.numpy).dtype.kind.replace("u", "i") for part in parts}
    known = standard(
        lambda *arrays: getattr(strict, name)(arrays, axis=axis),
        *(part.standard if len(types) == 1 else None for part in parts),
    )
    ours = getattr(xp, name)([part.ours for part in parts], axis=axis)
    expected = numpy([part.numpy for part in parts], axis=axis)
    return Pair(ours, expected, f"{name}({text}; {axis})", known)


def _other_shape(rng: random.Random, count: int) -> tuple[int, ...]:
    """A random shape of so many places."""
    found: list[int] = []
    while len(found) < 2 and rng.random() < 0.6:
        divisors = [n for n in range(1, 13) if count and count % n == 0] or [rng.randint(0, 2)]
        found.append(rng.choice(divisors))
        count = count // found[-1] if found[-1] else count
    return (*found, count)


def check(pair: Pair) -> bool:
    """Compare types, shapes and values; whether the expression stands in the standard."""
    references = [pair.numpy] if pair.standard is None else [pair.numpy, pair.standard]
    lazy = xp.asarray(pair.ours)
    found = xp.compute(lazy)
    dense = found if isinstance(found, np.ndarray) else found.to_numpy()
    for expected in map(np.asarray, references):
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype), pair.text
        assert dense.dtype == expected.dtype, pair.text
        np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-6, err_msg=pair.text)
    return len(references) > 1
