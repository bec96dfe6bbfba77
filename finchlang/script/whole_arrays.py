"""Functions of whole arrays for NumPy's arrays, vectors and other values with entries: reductions, also
along dimensions, and what goes along one. For tensors they are lazy (`array_expressions.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from itertools import accumulate
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script import containers, values as data
from finchlang.script.lazy_values import Pending
from finchlang.script.shape_functions import FUNCTIONS as SHAPES
from finchlang.script.show import kind_of
from finchlang.syntax.types import Int64, type_of_dtype, type_of_value
from finchlang.tensors.array_base import size_text
from finchlang.text.meant import COMPARED

#: a `Caller`: it calls functions, of elements or whole arrays, lazily for tensors
Call = Any
FUNCTIONS = data.Builtins()


def grid(value: Any) -> np.ndarray:
    """A value with entries as an array of NumPy. Raises FinchError "type" if they are no numbers."""
    found = data.as_array(value)
    if not isinstance(found, np.ndarray):
        raise FinchError("type", f"{kind_of(value)} is no array of numbers")
    return found


def check_product(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether `A * B` of these sizes is that of a column and a row. Raises FinchError "dimension" for sizes
    that have no product, with the product that they have as its hint."""
    is_column = len(a) == 1 and len(b) == 2 and b[0] == 1
    if is_column or len(a) == 2 and len(b) in (1, 2) and a[1] == b[0]:
        return is_column
    message = f"arrays of sizes {size_text(a)} and {size_text(b)} have no product"
    hint = None
    if a == b:
        hint = data.WITH_DOT
    elif a[:1] == b[:1]:
        hint = "`A' * B` has sizes that fit"
    elif len(a) == len(b) == 2 and a[1] == b[1]:
        hint = "`A * B'` has sizes that fit"
    raise FinchError("dimension", message, hint=hint)


def no_match(*shapes: tuple[int, ...]) -> FinchError:
    """The error of arithmetic on arrays of these sizes, with a hint if turning one of two over helps."""
    a, b = sorted(shapes, key=len) if len(shapes) == 2 else ((), ())
    hint = None
    if len(a) == len(b) == 1:
        hint = "`vcat(a, b)` joins them, `a .+ b'` takes each with each"
    elif a == b[::-1]:
        hint = "`A'` has the sizes of the other"
    elif len(a) == 1 and b[1:] == a:
        hint = "a vector goes down the columns; `A .+ x'` has it in each row"
    sizes = " and ".join(map(size_text, shapes))
    return FinchError("dimension", f"arrays of sizes {sizes} do not match", hint=hint)


#: the reductions by their names in the array API, which have the same name unless it is here
_STANDARD = {"maximum": "max", "minimum": "min", "count": "count_nonzero"}


def along(xp: Any, name: str, array: Any, dims: Any = None) -> Any:
    """A reduction of a namespace's array along dimensions, which the result has with size 1, or of all."""
    axes = containers.axes_of(array, dims)
    if name in ("any", "all", "count") and array.dtype != bool:
        told = f"a condition must be a Bool, not {type_of_dtype(array.dtype)}"
        raise FinchError("type", told, hint=COMPARED)
    of = range(len(array.shape)) if axes is None else axes
    if name in ("maximum", "minimum") and 0 in [array.shape[axis] for axis in of]:
        raise FinchError("type", f"{name} of nothing")
    # divided by one less than the number of elements
    more = {"correction": 1} if name in ("var", "std") else {}
    function = getattr(xp, _STANDARD.get(name, name))
    return function(array, axis=axes, keepdims=axes is not None, **more)


# ------------------------------------------------------------------------------ reductions


#: the types whose products and sums of prefixes are the same in NumPy
_OWN = (np.int64, np.float64)


def _total(name: str, operator: str, ufunc: Any, call: Call, function: Any, value: Any) -> Any:
    """A reduction of all entries: by NumPy for arrays, by the operator for other values."""
    if function:
        value = data.shaped(call.each(*function, value))
    has_total = name == "sum" or (0 in getattr(value, "shape", ())) == (name == "prod")
    if data.is_array(value) and (has_total or isinstance(value, np.ndarray) and name == "prod"):
        return data.plain(data.reduced(ufunc, value))
    if isinstance(value, data.FinchRange) and len(value) > 2 and name != "prod":
        ends = value[0], value[len(value) - 1]
        if name != "sum":
            value = ends
        elif type(ends[0]) is type(ends[1]) is int:
            return Int64.wrap(sum(ends) * len(value) // 2)
    found = list(data.entries(value))
    if not found and name not in ("sum", "prod"):
        raise FinchError("type", f"{name} of nothing")
    if operator in "+*":
        _refuse_strings(name, found)
    return reduce(data.binary(operator), found or [int(name == "prod")])


def _refuse_strings(name: str, values: Any) -> None:
    if str in map(type, values):
        hint = "`join(v)` joins strings, `parse(Float64, s)` reads a number"
        raise FinchError("type", f"{name} takes numbers, not strings", hint=hint)


#: of how many numbers there is a mean and so on; of fewer it is NaN
_LEAST = {"mean": 1, "var": 2, "std": 2}


def _statistic(name: str, call: Call, function: Any, value: Any) -> Any:
    if name == "mean" and not function and isinstance(value, data.FinchRange) and len(value):
        value = value[0], value[len(value) - 1]
    values = call.each(*function, value) if function else value
    if not data.is_array(values):
        _refuse_strings(name, data.entries(values))
    found = grid(values)
    return data.plain(along(np, name, found)) if found.size >= _LEAST[name] else math.nan


def _truths(name: str, call: Call, function: Any, value: Any) -> Any:
    found = containers.are_true(call, (*function, value), name)
    return {"any": any, "all": all, "count": sum}[name](found)  # type: ignore[operator]


def _reduction(name: str, total: Callable[..., Any], operator: Any = None) -> None:
    REDUCTIONS.append(name)

    def reduced(call: Call, *args: Any, dims: Any = None) -> Any:
        function, value = containers.with_function(name, "an array", args)
        if dims is not None:
            array = grid(call.by_elements(*function, value) if function else value)
            axes = containers.axes_of(array, dims) or ()
            if math.prod([array.shape[axis] for axis in axes]) >= _LEAST.get(name, 0):
                return np.asfortranarray(along(np, name, array, dims))
            sizes = [1 if axis in axes else size for axis, size in enumerate(array.shape)]
            return np.full(sizes, math.nan, np.result_type(array, np.float32), order="F")
        return total(call, function, value)

    def begun(call: Call, *args: Any, dims: Any = None, init: Any = None) -> Any:
        if init is None:
            return reduced(call, *args, dims=dims)
        function, value = containers.with_function(name, "an array", args)
        fold = FUNCTIONS["mapreduce" if function else "reduce"].function
        return fold(call, *function, operator, value, dims=dims, init=init)

    FUNCTIONS.add(name, begun if operator else reduced, calls=True, is_lazy=True)


#: the names of the reductions
REDUCTIONS: list[str] = []
#: the reductions of all entries, by their operators
TOTALS: dict[str, partial[Any]] = {}
for _name, _operator, _ufunc in (
    *(("sum", "+", np.sum), ("prod", "*", np.prod)),
    *(("maximum", "max", np.max), ("minimum", "min", np.min)),
):
    TOTALS[_operator] = partial(_total, _name, _operator, _ufunc)
    _reduction(_name, TOTALS[_operator], OPERATORS[_operator])
for _name in _LEAST:
    _reduction(_name, partial(_statistic, _name))
for _name in ("any", "all", "count"):
    _reduction(_name, partial(_truths, _name))


@FUNCTIONS.add("median")
def _median(value: Any) -> float:
    found = grid(value)
    if not found.size:
        raise FinchError("type", "median of nothing")
    return float(np.median(found))


@FUNCTIONS.add("extrema")
def _extrema(value: Any) -> tuple[Any, Any]:
    least = _total("minimum", "min", np.min, None, (), value)
    return least, _total("maximum", "max", np.max, None, (), value)


def _found(find: Callable[[np.ndarray], Any], value: Any) -> tuple[Any, Any]:
    """The first such entry, column-major, and its coordinates; NaN counts as least and as greatest."""
    few = data.scattered(value)
    array = np.asarray(data.as_array(few.values if few else value))
    if array.size == 0 or array.dtype.kind not in "biuf":
        what = kind_of(value) if array.size else "nothing"
        raise FinchError("type", f"{what} has no least or greatest number")
    flat = array.flatten(order="F")
    k = int(find(flat))
    return data.plain(flat[k]), containers.place_in(value, int(few.places[k]) if few else k)


def _coordinates(find: Callable[[np.ndarray], Any], value: Any) -> Any:
    return _found(find, value)[1]


for _name, _find in (("min", np.argmin), ("max", np.argmax)):
    FUNCTIONS.add(f"arg{_name}", partial(_coordinates, _find))
    FUNCTIONS.add(f"find{_name}", partial(_found, _find))


# ------------------------------------------------------------------------------ functions of others


def check_some(function: Any, name: str, is_any: bool) -> None:
    """Raises FinchError "type" for a reduction of nothing by another function than a sum or product."""
    if not is_any and getattr(function, "name", "") not in ("+", "*"):
        raise FinchError("type", f"{name} of nothing needs `init`")


def _folded(call: Call, function: Any, values: list[Any], init: Any, name: str) -> Any:
    values = values if init is None else [init, *values]
    check_some(function, name, bool(values))
    if not values:
        return int(function.name == "*")
    return reduce(lambda a, b: call(function, a, b), values)


@FUNCTIONS.add("foldl", calls=True)
def _fold_left(call: Call, function: Any, value: Any, *, init: Any = None) -> Any:
    return _folded(call, function, [*data.entries(value)], init, "foldl")


@FUNCTIONS.add("foldr", calls=True)
def _fold_right(call: Call, function: Any, value: Any, *, init: Any = None) -> Any:
    values = [*data.entries(value)][::-1]
    return _folded(lambda op, a, b: call(op, b, a), function, values, init, "foldr")


@FUNCTIONS.add("reduce", calls=True, is_lazy=True)
def _reduced(call: Call, function: Any, value: Any, *, dims: Any = None, init: Any = None) -> Any:
    total = TOTALS.get(function.name) if isinstance(function, Operator) else None
    if total is not None and isinstance(value, np.ndarray) and init is None:
        name = total.args[0]
        if value.dtype in _OWN if value.size else name in ("sum", "prod"):
            return FUNCTIONS[name].function(call, value, dims=dims)
    if dims is None:
        return _folded(call, function, list(data.entries(value)), init, "reduce")
    array = grid(value)
    axes = containers.axes_of(array, dims) or ()
    others = [1 if axis in axes else size for axis, size in enumerate(array.shape)]
    last = np.moveaxis(array, axes, range(-len(axes), 0))
    lines = last.reshape(math.prod(others), -1 if array.size else 0, order="F")
    found = [_folded(call, function, [*map(data.plain, line)], init, "reduce") for line in lines]
    return data.shaped(found, tuple(others))


@FUNCTIONS.add("mapreduce", calls=True, is_lazy=True)
def _mapreduced(call: Call, function: Any, operator: Any, *values: Any, **how: Any) -> Any:
    return _reduced(call, operator, _mapped(call, function, *values), **how)


@FUNCTIONS.add("map", calls=True, is_lazy=True)
def _mapped(call: Call, function: Any, *values: Any) -> Any:
    if not values:
        raise FinchError("type", "map takes a function and arrays", hint="map(x -> x^2, [1, 2])")
    found = call.each(function, *values)
    if len(values) == 1 and isinstance(values[0], tuple):
        return tuple(data.entries(found))
    shapes = {tuple(v.shape) for v in values if data.is_array(v)}
    return data.shaped(found, shapes.pop() if len(shapes) == 1 else None)


@FUNCTIONS.add("broadcast", calls=True, is_lazy=True)
def _broadcast(call: Call, first: Any, *others: Any) -> Any:
    if data.is_array(first):
        return SHAPES["broadcast"].function(first, *others)
    return call.by_elements(first, *others)


# ------------------------------------------------------------------------------ along a dimension


def _cumulated(name: str, operator: str, ufunc: Any) -> None:
    def cumulated(value: Any, *, dims: Any = None) -> Any:
        if dims is not None:
            array = grid(value)
            return np.asfortranarray(ufunc(array, axis=containers.axis_of(array, dims)))
        containers.one_dimension(name, value)
        if data.is_array(value) and data.dense(value).dtype in _OWN:
            return ufunc(data.dense(value))
        return data.shaped([*accumulate(data.entries(value), data.binary(operator))])

    FUNCTIONS.add(name, cumulated)


_cumulated("cumsum", "+", np.cumsum)
_cumulated("cumprod", "*", np.cumprod)


@FUNCTIONS.add("accumulate", calls=True)
def _accumulated(call: Call, function: Any, value: Any, *, init: Any = None) -> Any:
    containers.one_dimension("accumulate", value)
    found = accumulate(data.entries(value), partial(call, function), initial=init)
    return data.shaped([*found][init is not None :])


@FUNCTIONS.add("diff")
def _differences(value: Any, *, dims: Any = 1) -> Any:
    array = grid(value)
    return np.asfortranarray(np.diff(array, axis=containers.axis_of(array, dims)))


def _parts(axis: int, value: Any) -> list[Any]:
    array = grid(value)
    if array.ndim != 2:
        raise FinchError("dimension", f"{kind_of(value)} is no matrix")
    return [*map(np.array, array if axis == 0 else array.T)]


FUNCTIONS.add("eachrow", partial(_parts, 0))
FUNCTIONS.add("eachcol", partial(_parts, 1))


# ------------------------------------------------------------------------------ lazy arrays


@FUNCTIONS.add("lazy", calls=True, takes_lazy=True)
def _lazy(call: Call, value: Any) -> Any:
    if type(value) is not Pending and not data.is_array(value):
        raise FinchError("type", f"{kind_of(value)} is no array")
    return call.lazily(value)


@FUNCTIONS.add("compute", calls=True, takes_lazy=True)
def _compute(call: Call, *values: Any) -> Any:
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return _compute(call, *values[0]) if len(values[0]) > 1 else (_compute(call, *values[0]),)
    waiting = [value for value in values if type(value) is Pending]
    found = iter(call.computed(waiting) if waiting else ())
    results = tuple(next(found) if type(value) is Pending else value for value in values)
    if any(not data.is_array(v) and type_of_value(v) is None for v in results):
        raise FinchError("type", "compute takes arrays and numbers")
    return results[0] if len(results) == 1 else results
