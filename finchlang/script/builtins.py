"""The built-in functions of scripts, by name; the manual documents them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError, clipped
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.operators.operator_table import OPERATORS
from finchlang.script import (
    containers,
    linear_algebra,
    make_tensors,
    shape_functions,
    values as data,
    whole_arrays,
)
from finchlang.script.show import joined, kind_of, text
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.array_base import LazyTensor, size_text
from finchlang.tensors.convert import convert, copy_of
from finchlang.tensors.formats import LEVELS, construct
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.text.meant import EXCHANGED

BUILTINS = data.Builtins()
for _module in (make_tensors, shape_functions, containers, whole_arrays, linear_algebra):
    BUILTINS |= _module.FUNCTIONS


def level_or_scalar(name: str, parameters: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """`name{parameters...}(args...)`: a level, or for a scalar level a Scalar, whose value may follow its
    fill. Raises FinchError "type"."""
    if not issubclass(LEVELS[name], ScalarLevel):
        return construct(name, parameters, args)
    fills = 0 if any(not isinstance(p, types.Type) for p in parameters) else 1
    if len(args) > fills + 1:
        raise FinchError("type", f"{name} takes a fill and a value")
    return Scalar(construct(name, parameters, args[:fills]), *args[fills:])


BUILTINS.add("Scalar", lambda *args: level_or_scalar("Scalar", (), args))


# --------------------------------------------------------------------------------- output and text


@BUILTINS.add("string", takes_lazy=True)
def _string(*values: Any) -> str:
    return joined([*map(text, values)])


@BUILTINS.add("print", calls=True, takes_lazy=True)
def _print(call: Any, *values: Any) -> Any:
    call.evaluator.output(_string(*values))
    return ast.NOTHING


BUILTINS.add("println", lambda call, *xs: _print(call, *xs, "\n"), calls=True, takes_lazy=True)


@BUILTINS.add("display", calls=True)
def _display(call: Any, value: Any) -> Any:
    from finchlang.script.display import display_text

    return _print(call, display_text(value), "\n")


@BUILTINS.add("parse")
def _parse(type: Any, string: str) -> Any:
    if not isinstance(type, types.Type) or not isinstance(string, str):
        raise FinchError("type", "parse takes a type and a string", hint='parse(Int64, "12")')
    try:
        found: Any = float(string) if type.is_float else int(string)
    except ValueError:
        hint = "parse(Float64, s) reads fractions" if re.search(r"\d[.e]", string) else None
        raise FinchError("type", f"`{clipped(string)}` is no {type}", hint=hint) from None
    if not type.is_float and type.wrap(found) != found:
        raise FinchError("type", f"{type} cannot hold {found}")
    return data.number(found, type)


@BUILTINS.add("error")
def _error(*values: Any) -> None:
    raise FinchError("type", _string(*values))


BUILTINS.add("time", time.time)


# ------------------------------------------------------------------------------ tensors and arrays


def _full(name: str, sizes: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    try:
        return full_aligned(sizes, value, dtype)
    except (MemoryError, OverflowError, ValueError):
        message = f"`{name}`: no memory for an array of size {size_text(sizes)}"
        raise FinchError("resource", message) from None


def _of_one_number(name: str, value: int, *args: Any) -> np.ndarray:
    type, sizes = make_tensors.type_and_sizes(args)
    return _full(name, sizes, value, type.dtype)


BUILTINS.add("zeros", partial(_of_one_number, "zeros", 0))
BUILTINS.add("ones", partial(_of_one_number, "ones", 1))
BUILTINS.add("trues", partial(_of_one_number, "trues", 1, types.Bool))
BUILTINS.add("falses", partial(_of_one_number, "falses", 0, types.Bool))


@BUILTINS.add("similar")
def _similar(value: Any, *args: Any) -> Any:
    type, sizes = make_tensors.type_and_sizes(args)
    is_typed = type in args
    if isinstance(value, np.ndarray) or not data.is_array(value):
        array = whole_arrays.grid(value)
        return _full("similar", sizes or array.shape, 0, type.dtype if is_typed else array.dtype)
    tensor = make_tensors.tensor_of(value)
    if is_typed:
        hint = "make one of another format: its fill has the type"
        raise FinchError("type", "a tensor like another one has its type", hint=hint)
    if isinstance(tensor, SwizzledTensor) and not sizes:
        return SwizzledTensor(_similar(tensor.body), tensor.permutation)
    return Tensor(tensor.format, *(sizes or tensor.shape))


@BUILTINS.add("fill")
def _filled(value: Any, *sizes: Any) -> np.ndarray:
    if not data.is_number(value):
        message = f"an array is filled with a number, not {kind_of(value)}"
        hint = "`fill(v, n)` makes an array, `x .= v` sets each entry of one"
        raise FinchError("type", message, hint=hint)
    dtype = make_tensors.element_type(value).dtype
    return _full("fill", make_tensors.type_and_sizes(sizes)[1], value, dtype)


@BUILTINS.add("randn")
def _normal(*args: Any, seed: int | None = None) -> Any:
    shape = make_tensors.type_and_sizes(args)[1]
    found = np.random.default_rng(seed).standard_normal(shape)
    return np.asfortranarray(found) if shape else float(found)


@BUILTINS.add("rand")
def _random(*args: Any, seed: int | None = None) -> Any:
    generator = np.random.default_rng(seed)
    if args and (isinstance(args[0], (list, data.FinchRange)) or data.is_array(args[0])):
        (values, *sizes), shape = args, make_tensors.type_and_sizes(args[1:])[1]
        if not (values := list(data.entries(values))):
            raise FinchError("type", "there is no entry to take")
        places = generator.integers(len(values), size=shape)
        taken = [values[place] for place in np.ravel(places, order="F")]
        return data.shaped(taken, shape) if sizes else taken[0]
    type, shape = make_tensors.type_and_sizes(args)
    found: Any
    if type.is_float:
        found = generator.random(shape, type.dtype)
    else:
        found = generator.integers(type.lowest, type.highest, shape, type.dtype, endpoint=True)
    return np.asfortranarray(found) if shape else data.plain(found[()])


@BUILTINS.add("size", takes_lazy=True)
def _size(value: Any, mode: Any = None) -> Any:
    shape = _shape(value)
    if mode is None:
        return shape
    k = data.whole(mode, "the number of a dimension")
    if not 1 <= k <= len(shape):
        raise FinchError("dimension", f"{kind_of(value)} has no dimension {k}")
    return shape[k - 1]


def _shape(value: Any) -> tuple[int, ...]:
    return () if data.is_number(value) else data.sizes(value)


@BUILTINS.add("sizeof")
def _sizeof(value: Any) -> int:
    if isinstance(value, types.Type):
        return value.bits // 8
    if data.is_number(value):
        return make_tensors.element_type(value).dtype.itemsize
    return make_tensors.tensor_of(value).nbytes


@BUILTINS.add("fill_value")
def _fill_value(value: Any) -> Any:
    tensor = make_tensors.tensor_of(value)
    return data.number(tensor.fill, make_tensors.element_type(tensor))


BUILTINS.add("ndims", lambda A: len(_shape(A)), takes_lazy=True)
BUILTINS.add("length", lambda A: math.prod(_shape(A)), takes_lazy=True)
BUILTINS.add("copy", copy_of)
BUILTINS.add("deepcopy", lambda x: deepcopy(x))


BUILTINS.add("dropfills", lambda A: convert(*[make_tensors.tensor_of(A)] * 2))
BUILTINS.add("include", lambda call, path: call.evaluator.include(path, call.span), calls=True)
for _name in ("nnz", "countstored"):
    BUILTINS.add(_name, lambda A: make_tensors.tensor_of(A).countstored())


# the modules of file formats are imported when the first file is read or written


@BUILTINS.add("fread")
def _fread(path: Any) -> Any:
    from finchlang.files.suffixes import fread

    return fread(path)


@BUILTINS.add("fwrite")
def _fwrite(path: Any, value: Any) -> Any:
    from finchlang.files.suffixes import fwrite

    if isinstance(value, str) and not isinstance(path, str):
        hint = EXCHANGED if hasattr(path, "shape") else None
        raise FinchError("type", "fwrite takes a path and a tensor", hint=hint)
    fwrite(path, value)
    return ast.NOTHING


# ------------------------------------------------------------------------------ numbers and ranges


def _rounded(name: str, *args: Any, digits: Any = None) -> Any:
    """`round(x)`, `round(Int64, x)`, `round(x; digits = 2)`, and the like."""
    type, x = (None, *args)[-2:] if args else (None, None)
    is_typed = type is None or isinstance(type, types.Type)
    if len(args) > 2 or data.is_array(x) or not is_typed:
        message = f"{name} takes a number, or a type and a number"
        hint = f"{name}(2.345, digits = 1), {name}(Int64, 2.5)"
        if len(args) == 1 and digits is None:
            hint = f"`{name}.(x)` has that of each entry of an array `x`"
        raise FinchError("type", message, hint=hint)
    if digits is not None:
        if type is not None:
            raise FinchError("type", f"{name} takes a type or `digits`, not both")
        scale = 10.0 ** min(max(data.whole(digits, "digits"), -308), 308)
        result = data.operate(OPERATORS[name], [x * scale]) / scale
        return result if math.isfinite(result) else x  # it has no more digits than that
    result = data.operate(OPERATORS[name], [x])
    if type is None:
        return result
    return data.operate(OPERATORS[type.name], [result])


for _name in ("round", "floor", "ceil", "trunc"):
    BUILTINS.add(_name, partial(_rounded, _name))


def _end_of(name: str, type: Any) -> Any:
    if not isinstance(type, types.Type):
        raise FinchError("type", f"{name} takes a type", hint=f"{name}(Int64)")
    return data.number(type.highest if name == "typemax" else type.lowest, type)


for _name in ("typemax", "typemin"):
    BUILTINS.add(_name, partial(_end_of, _name))


def _of_integers(name: str, function: Callable[..., int], *args: Any) -> int:
    given = [data.whole(arg, "an argument") for arg in args]
    try:
        found = function(*given)
    except ValueError:
        raise FinchError("bounds", f"{name} takes no negative numbers") from None
    if found > types.Int64.highest:
        message = f"Int64 cannot hold {name}({', '.join(map(str, given))})"
        raise FinchError("bounds", message, hint="floats are larger: `prod(1.0:n)`")
    return found


for _name, _of in (
    *(("gcd", math.gcd), ("lcm", math.lcm)),
    *(("factorial", lambda n: math.factorial(min(n, 99))), ("binomial", math.comb)),
):
    BUILTINS.add(_name, partial(_of_integers, _name, _of))


@BUILTINS.add("range")
def _range(
    start: Any, *ends: Any, stop: Any = None, step: Any = None, length: Any = None
) -> data.FinchRange | np.ndarray:
    if stop is None and not ends and None not in (step, length):
        ends, length = (start + step * (data.whole(length, "a length") - 1),), None
    ends = ends if stop is None else (*ends, stop)
    if not ends:
        raise FinchError("type", "a range has two ends", hint="range(a, b) goes from a to b")
    stop, *others = ends
    if others:
        hint = "range(a, b; length = n) has n numbers, range(a, b; step = s) goes by s"
        raise FinchError("type", "range takes its third number by name", hint=hint)
    if length is not None:
        return np.linspace(start, stop, data.whole(length, "a length"))
    return data.FinchRange(start, 1 if step is None else step, stop)


BUILTINS.add("LinRange", lambda a, b, n: np.linspace(a, b, data.whole(n, "a length")))


@BUILTINS.add("collect")
def _collect(value: Any) -> Any:
    if isinstance(value, data.FinchRange) and not len(value):
        return np.empty(0, make_tensors.element_type(value.start).dtype)
    return linear_algebra.dense_copy(value)


@BUILTINS.add("isapprox")
def _isapprox(a: Any, b: Any, rtol: float | None = None, atol: float = 0.0) -> bool:
    """Julia's `isapprox`: whether norm(a - b) <= max(atol, rtol * max(norm(a), norm(b)))."""
    found = [data.dense(v) if data.is_array(v) else getattr(v, "value", v) for v in (a, b)]
    x, y = map(np.asarray, found)
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


BUILTINS.add("isequal", lambda a, b: a is b or data.equal(a, b, data.identical))
BUILTINS.add("ismissing", lambda x: x is ast.MISSING)
BUILTINS.add("isnothing", lambda x: x is ast.NOTHING)


#: what `typeof` gives for values that have no type of their own
_KINDS = {str: "String", tuple: "Tuple", list: "Vector", dict: "Dict", data.FinchRange: "Range"}
_KINDS |= {type(ast.NOTHING): "Nothing", type(ast.MISSING): "Missing"}


@BUILTINS.add("typeof")
def _typeof(x: Any) -> Any:
    if kind_of(x) == "a function" or type(x) in _KINDS:
        return data.NamedValue(_KINDS.get(type(x), "Function"))
    is_tensor = isinstance(x, (Tensor, SwizzledTensor, Scalar, LazyTensor))
    return x.format if is_tensor else make_tensors.element_type(x)
