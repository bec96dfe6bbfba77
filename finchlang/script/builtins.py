"""The built-in functions of scripts, by name, each with its documentation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.operators.operator_table import OPERATORS
from finchlang.script import linear_algebra, strings, values as data, vectors_and_dicts
from finchlang.script.make_tensors import (
    construct_tensor,
    element_type,
    pattern_of,
    random_sparse,
    sparse_of,
    swizzled,
    tensor_of,
)
from finchlang.script.shape_functions import SHAPE_FUNCTIONS, shape_function
from finchlang.script.show import joined, kind_of, text
from finchlang.script.strings import repeat_string, split_string
from finchlang.script.vectors_and_dicts import are_true, items
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.array_base import LazyTensor, size_text
from finchlang.tensors.convert import convert, copy_of
from finchlang.tensors.formats import LEVELS, construct
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor


@dataclass(frozen=True)
class Builtin:
    """A built-in function with its usage and documentation. One that `prints` gets the output's `write` as
    its first argument; one that `calls` functions of the script gets a `Caller`."""

    name: str
    usage: str
    doc: str
    function: Callable[..., Any]
    prints: bool = False
    calls: bool = False

    kind: ClassVar[str] = "a function"

    def __str__(self) -> str:
        return self.name


#: by name; operators, levels and element types are in tables of their own
BUILTINS: dict[str, Builtin] = {}


def _add(
    usage: str, doc: str, function: Callable[..., Any], prints: bool = False, calls: bool = False
) -> None:
    name = usage.partition("(")[0]
    BUILTINS[name] = Builtin(name, usage, doc, function, prints, calls)


def level_or_scalar(name: str, parameters: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """`name{parameters...}(args...)`: a level, or for a scalar level a Scalar, whose value may follow its
    fill. Raises FinchError "type"."""
    if not issubclass(LEVELS[name], ScalarLevel):
        return construct(name, parameters, args)
    fills = 0 if any(not isinstance(p, types.Type) for p in parameters) else 1
    if len(args) > fills + 1:
        raise FinchError("type", f"{name} takes a fill and a value")
    format = construct(name, parameters, args[:fills])
    return Scalar(format, *args[fills:])


# --------------------------------------------------------------------------------- output and text


def _print(write: Callable[[str], Any], *values: Any) -> Any:
    write(joined([*map(text, values)]))
    return ast.NOTHING


def _println(write: Callable[[str], Any], *values: Any) -> Any:
    return _print(write, *values, "\n")


def _parse(type: Any, string: str) -> Any:
    if not isinstance(type, types.Type) or not isinstance(string, str):
        raise FinchError("type", "parse takes a type and a string", hint='parse(Int64, "12")')
    try:
        found: Any = float(string) if type.is_float else int(string)
    except ValueError:
        raise FinchError("type", f"`{string}` is no {type}") from None
    if not type.is_float and type.wrap(found) != found:
        raise FinchError("type", f"{type} cannot hold {found}")
    return data.number(found, type)


_add("println(x...)", "print values and a line end", _println, prints=True)
_add("print(x...)", "print values", _print, prints=True)


def _display(write: Callable[[str], Any], value: Any) -> Any:
    from finchlang.script.display import display_text

    return _print(write, display_text(value), "\n")


_add(
    "display(A)",
    "print a tensor's levels with what they take, then its entries or a picture of a large one",
    _display,
    prints=True,
)
_add("string(x...)", "the string that `print` would print", lambda *xs: joined([*map(text, xs)]))
_add("parse(type, s)", 'the number a string is written as: `parse(Int64, "12")`', _parse)


def _error(*values: Any) -> None:
    raise FinchError("type", joined([*map(text, values)]))


_add("error(x...)", "stop with a message", _error)
_add("time()", "seconds since 1970", time.time)

# ------------------------------------------------------------------------------ tensors and arrays


def _sizes(args: tuple[Any, ...]) -> tuple[types.Type, tuple[int, ...]]:
    """An optional element type (Float64) and sizes, of the arguments of `zeros` and others."""
    type = args[0] if args and isinstance(args[0], types.Type) else None
    sizes = tuple(data.whole(a, "a size") for a in (args[1:] if type else args))
    if any(size < 0 for size in sizes):
        raise FinchError("dimension", "a size cannot be negative")
    return type or types.Float64, sizes


def _filled(value: Any, sizes: tuple[Any, ...]) -> np.ndarray:
    if not data.is_number(value):
        raise FinchError("type", f"an array is filled with a number, not {kind_of(value)}")
    return _full("fill", _sizes(sizes)[1], value, None)


def _full(name: str, sizes: tuple[int, ...], value: Any, dtype: np.dtype | None) -> np.ndarray:
    try:
        return full_aligned(sizes, value, np.array(value).dtype if dtype is None else dtype)
    except (MemoryError, OverflowError, ValueError):
        message = f"`{name}`: no memory for an array of size {size_text(sizes)}"
        raise FinchError("resource", message) from None


def _constant(value: int) -> Callable[..., np.ndarray]:
    def make(*args: Any) -> np.ndarray:
        type, sizes = _sizes(args)
        return _full("ones" if value else "zeros", sizes, value, type.dtype)

    return make


def _random(*args: Any, seed: int | None = None) -> Any:
    generator, (type, shape) = np.random.default_rng(seed), _sizes(args)
    if type.is_float:
        found = generator.random(shape, type.dtype)
    else:
        found = generator.integers(type.lowest, type.highest, shape, type.dtype, endpoint=True)
    return np.asfortranarray(found) if shape else data.plain(found[()])


def _size(value: Any, mode: Any = None) -> Any:
    shape = _shape(value)
    if mode is None:
        return shape
    k = data.whole(mode, "the number of a dimension")
    if not 1 <= k <= len(shape):
        raise FinchError("dimension", f"{kind_of(value)} has no dimension {k}")
    return shape[k - 1]


def _shape(value: Any) -> tuple[int, ...]:
    if data.is_array(value) or isinstance(value, Scalar):
        return tuple(value.shape)
    if isinstance(value, (list, tuple, str, dict, data.FinchRange)):
        return (len(value),)
    if data.is_number(value):
        return ()
    raise FinchError("type", f"{kind_of(value)} has no size")


def _sizeof(value: Any) -> int:
    if isinstance(value, types.Type):
        return value.bits // 8
    if data.is_number(value):
        return element_type(value).dtype.itemsize
    return tensor_of(value).nbytes


def _fill_value(value: Any) -> Any:
    tensor = tensor_of(value)
    return data.number(tensor.fill, element_type(tensor))


_add(
    "Tensor(format, ...)",
    "a tensor of sizes `m, n`, or a copy of an array or tensor",
    construct_tensor,
)
_add(
    "Scalar(fill, value)",
    "a tensor of no dimensions; `value` is the fill if left out",
    lambda *args: level_or_scalar("Scalar", (), args),
)
_add("swizzle(A, p...)", "A with its dimensions in another order: `swizzle(A, 2, 1)`", swizzled)
_OF_STRINGS: dict[str, Callable[..., Any]] = {"split": split_string, "repeat": repeat_string}


def _of_shape(usage: str) -> Callable[..., Any]:
    """The function of a shape operator's name, which may also have a meaning for strings (`split`)."""
    of_tensors = shape_function(usage)
    of_strings = _OF_STRINGS.get(usage.partition("(")[0], of_tensors)
    if of_strings is of_tensors:
        return of_tensors
    return lambda x, *args: (of_strings if isinstance(x, str) else of_tensors)(x, *args)


for _usage, _what in SHAPE_FUNCTIONS.items():
    _add(_usage, _what, _of_shape(_usage))
for _usage, _row in (
    vectors_and_dicts.FUNCTIONS | strings.FUNCTIONS | linear_algebra.FUNCTIONS
).items():
    _add(_usage, _row.doc, _row.function, calls=_row.calls)
_add(
    "include(path)",
    "run the script in a file, whose path is taken from the folder of the one that asks",
    lambda caller, path: caller.evaluator.include(path, caller.span),
    calls=True,
)
_add("size(A, k)", "the sizes of A as a tuple, or its k-th size", _size)
_add("ndims(A)", "the number of dimensions", lambda A: len(_shape(A)))
_add("length(A)", "the number of entries", lambda A: math.prod(_shape(A)))
_add("eltype(A)", "the type of the entries", element_type)
_add("fill_value(A)", "the value of what is not stored", _fill_value)
_add(
    "countstored(A)",
    "the number of stored leaves; a run is one",
    lambda A: tensor_of(A).countstored(),
)
_add("nnz(A)", "the same as countstored", lambda A: tensor_of(A).countstored())
_add("sizeof(A)", "the bytes that A is stored in", _sizeof)
_add(
    "dropfills(A)",
    "a copy that stores only what differs from the fill",
    lambda A: convert(tensor_of(A), tensor_of(A)),
)
_add("pattern(A)", "a Bool tensor that is true where A stores an entry", pattern_of)
_add("copy(A)", "a copy of an array or tensor", copy_of)
_add("zeros(n...)", "an array of 0.0, or of a type's zero: `zeros(Int64, 3)`", _constant(0))
_add("ones(n...)", "an array of 1.0, or of a type's one", _constant(1))
_add("fill(v, n...)", "an array of v", lambda value, *sizes: _filled(value, sizes))
_add(
    "rand(n...; seed)",
    "an array of random numbers from 0 to 1, or one number; of any numbers of a type: `rand(Int64, 3)`",
    _random,
)
_add(
    "fsparse(I, J, V, shape)",
    "the sparse tensor with entries V at the coordinates I, J, ..., summed where these are equal",
    sparse_of,
)
_add(
    "fsprand(m, n, density; seed)",
    "a random sparse tensor of any number of dimensions",
    random_sparse,
)


# the modules of file formats are imported when the first file is read or written


def _fread(path: Any) -> Any:
    from finchlang.files.suffixes import fread

    return fread(path)


def _fwrite(path: Any, value: Any) -> Any:
    from finchlang.files.suffixes import fwrite

    fwrite(path, value)
    return ast.NOTHING


_add("fread(path)", "the tensor in a .mtx, .ttx, .tns, .npy or .bsp.{h5,npz,zarr} file", _fread)
_add(
    "fwrite(path, A)",
    "write a tensor to a .mtx, .ttx, .tns, .npy or .bsp.{h5,npz,zarr} file",
    _fwrite,
)

# ------------------------------------------------------------------------------ numbers and ranges


def _reduction(name: str) -> Callable[[Any], Any]:
    """`sum`, `maximum` or `minimum`: by NumPy for arrays, by the operator for other values."""
    ufuncs: dict[str, tuple[str, Any]] = {
        "sum": ("+", np.sum),
        "maximum": ("max", np.max),
        "minimum": ("min", np.min),
    }
    operator, ufunc = ufuncs[name]

    def reduce(call: Callable[..., Any], *args: Any) -> Any:
        *function, value = args if args else (0,)
        if len(function) > 1 or not args:
            raise FinchError("type", f"{name} takes an array, or a function and an array")
        if function:
            value = [call(function[0], x) for x in items(value)]
        if data.is_array(value) and (name == "sum" or value.shape and 0 not in value.shape):
            return data.plain(data.reduced(ufunc, value))
        found = list(data.entries(value))
        if not found and name != "sum":
            raise FinchError("type", f"{name} of nothing")
        result = found[0] if found else 0
        for item in found[1:]:
            result = data.operate(OPERATORS[operator], [result, item])
        return result

    return reduce


def _coordinates(find: Callable[[np.ndarray], Any]) -> Callable[[Any], Any]:
    """`argmin` or `argmax`: the coordinates of the first least or greatest entry, column-major; NaN counts
    as least and as greatest."""

    def found(value: Any) -> Any:
        array = data.dense(value) if data.is_array(value) else np.array(list(data.entries(value)))
        if array.size == 0 or array.dtype.kind not in "biuf":
            raise FinchError("type", f"{kind_of(value)} has no least or greatest number")
        flat = int(find(array.flatten(order="F")))
        index = tuple(int(i) + 1 for i in np.unravel_index(flat, array.shape, order="F"))
        return index[0] if len(index) == 1 else index

    return found


def _rounded(name: str) -> Callable[..., Any]:
    """`round(x)`, `round(Int64, x)`, `round(x; digits = 2)`."""

    def rounded(*args: Any, digits: Any = None) -> Any:
        type, x = (None, *args)[-2:] if args else (None, None)
        is_typed = type is None or isinstance(type, types.Type)
        if len(args) > 2 or data.is_array(x) or not is_typed:
            raise FinchError("type", f"{name} takes a number, or a type and a number")
        if digits is not None:
            scale = 10.0 ** data.whole(digits, "digits")
            return data.operate(OPERATORS[name], [x * scale]) / scale
        result = data.operate(OPERATORS[name], [x])
        if type is None:
            return result
        if not type.is_float and (not math.isfinite(result) or type.wrap(result) != result):
            raise FinchError("type", f"{type} cannot hold {text(result)}")
        return data.number(result, type)

    return rounded


def _range(
    start: Any, stop: Any, step: Any = None, length: Any = None
) -> data.FinchRange | np.ndarray:
    if length is not None:
        return np.linspace(start, stop, data.whole(length, "a length"))
    return data.FinchRange(start, 1 if step is None else step, stop)


def _collect(value: Any) -> Any:
    if data.is_array(value):
        return data.dense(value).copy(order="F")
    items = list(data.entries(value))
    if isinstance(value, data.FinchRange) and not items:
        return np.empty(0, element_type(value.start).dtype)
    return np.array(items) if items and all(map(data.is_number, items)) else items


def _isapprox(a: Any, b: Any, rtol: float | None = None, atol: float = 0.0) -> bool:
    """Julia's `isapprox`: whether norm(a - b) <= max(atol, rtol * max(norm(a), norm(b)))."""
    x, y = (
        np.asarray(data.dense(v) if data.is_array(v) else getattr(v, "value", v)) for v in (a, b)
    )
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        raise FinchError("type", f"isapprox does not take {kind_of(a)} and {kind_of(b)}")
    if x.shape != y.shape:
        return False
    x, y = x.astype(float).ravel(), y.astype(float).ravel()
    if rtol is None:
        rtol = 0.0 if atol > 0 else math.sqrt(np.finfo(float).eps)
    if np.array_equal(x, y):
        return True
    bound = max(atol, rtol * max(float(np.linalg.norm(x)), float(np.linalg.norm(y))))
    return float(np.linalg.norm(x - y)) <= bound


for _name, _what in (("sum", "the sum"), ("maximum", "the greatest"), ("minimum", "the least")):
    _add(
        f"{_name}(f, A)",
        f"{_what} of the entries, or of what a function gives for them",
        _reduction(_name),
        calls=True,
    )
_add("argmin(A)", "the coordinates of the first of the least entries", _coordinates(np.argmin))
_add("argmax(A)", "the coordinates of the first of the greatest entries", _coordinates(np.argmax))
for _name, _what in (
    ("round", "nearest"),
    ("floor", "next lower"),
    ("ceil", "next higher"),
    ("trunc", "next"),
):
    _where = " towards 0" if _name == "trunc" else ""
    _add(
        f"{_name}(type, x; digits)",
        f"the {_what} whole number{_where}, of `type` if given",
        _rounded(_name),
    )
_add("range(a, b; step, length)", "the range a:b, or `length` numbers from a to b", _range)
_add("collect(r)", "the entries of a range or tuple as a vector", _collect)
_add(
    "isapprox(a, b; rtol, atol)",
    "whether numbers, arrays or tensors are equal up to rounding",
    _isapprox,
)
_add(
    "isequal(a, b)",
    "whether two values are equal, `missing` and NaN to themselves, -0.0 not to 0.0",
    lambda a, b: a is b or data.equal(a, b, data.identical),
)
_add("ismissing(x)", "whether x is `missing`", lambda x: x is ast.MISSING)
_add("isnothing(x)", "whether x is `nothing`", lambda x: x is ast.NOTHING)
_add(
    "typeof(x)",
    "the type of a number, the format of a tensor",
    lambda x: (
        x.format if isinstance(x, (Tensor, SwizzledTensor, Scalar, LazyTensor)) else element_type(x)
    ),
)
for _name, _what, _test in (("any", "an", any), ("all", "every", all)):
    _add(
        f"{_name}(f, A)",
        f"whether {_what} entry is true, or a function is true for it",
        lambda call, *args, name=_name, test=_test: test(are_true(call, args, name)),
        calls=True,
    )
