"""The built-in functions of vectors, dictionaries and strings, and those that take other functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key, partial, wraps
from itertools import repeat
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.script import values as data
from finchlang.script.show import joined, kind_of, repeated, text
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.array_base import size_text
from finchlang.text.meant import AS_VECTOR, EXCHANGED

#: a `Caller`: calls a function of the script or a built-in one
Call = Any
FUNCTIONS = data.Builtins()


# ------------------------------------------------------------------------------ vectors that grow


def _of_first(kind: type, what: str, name: str, function: Callable[..., Any]) -> None:
    """Adds a function whose first argument is of a kind; that is its value if `function` returns None."""

    @wraps(function)  # it is called as `function` is
    def checked(first: Any, *args: Any) -> Any:
        hint = EXCHANGED if kind in map(type, args) else None
        if kind is list and data.is_array(first):
            hint = "a vector that grows begins as `x = []`; `vcat(x, y)` makes a new array"
            raise FinchError("type", f"{kind_of(first)} does not change its size", hint=hint)
        if type(first) is not kind:
            raise FinchError("type", f"{kind_of(first)} is no {what}", hint=hint)
        found = function(first, *args)
        return first if found is None else found

    FUNCTIONS.add(name, checked)


_growing = partial(_of_first, list, "vector that grows")
_of_dictionary = partial(_of_first, dict, "dictionary")


def _popped(vector: list[Any], place: int) -> Any:
    if not vector:
        raise FinchError("bounds", "the vector is empty")
    return vector.pop(place)


def _at(vector: list[Any], place: Any, last: int) -> int:
    k = data.whole(place, "an index")
    if not 1 <= k <= last:
        raise FinchError("bounds", f"index {k} is not in 1:{last}")
    return k - 1


_growing("push!", lambda v, *xs: v.extend(xs))
_growing("pop!", lambda v: _popped(v, -1))
_growing("pushfirst!", lambda v, x: v.insert(0, x))
_growing("popfirst!", lambda v: _popped(v, 0))
# all are read before `v` changes
_growing("append!", lambda v, *ws: v.extend([x for w in ws for x in data.entries(w)]))
_growing("insert!", lambda v, k, x: v.insert(_at(v, k, len(v) + 1), x))
_growing("deleteat!", lambda v, k: v.__delitem__(_at(v, k, len(v))))
_growing("empty!", lambda v: v.clear())

# ------------------------------------------------------------------------------ order


def _order(call: Call, values: list[Any], by: Any, is_less: Any, rev: Any) -> list[int]:
    """The places of the values, from 0, in stable order of these."""
    keys = values if by is None else list(data.entries(call.each(by, values)))
    if is_less is None and data.is_ordered(keys):
        return sorted(range(len(keys)), key=keys.__getitem__, reverse=data.truth(rev))

    def less(a: Any, b: Any) -> bool:
        if is_less is not None:
            return data.truth(call(is_less, a, b))
        if isinstance(a, tuple) and isinstance(b, tuple):
            for x, y in zip(a, b, strict=False):
                if not data.equal(x, y):
                    return less(x, y)
            return len(a) < len(b)
        return data.truth(data.binary("<")(a, b))

    def compare(j: int, k: int) -> int:
        return -1 if less(keys[j], keys[k]) else int(less(keys[k], keys[j]))

    return sorted(range(len(values)), key=cmp_to_key(compare), reverse=data.truth(rev))


@FUNCTIONS.add("sort", calls=True)
def _sorted(
    call: Call, value: Any, *, by: Any = None, lt: Any = None, rev: Any = False, dims: Any = None
) -> Any:
    is_plain = by is None and lt is None and data.is_array(value)
    if not is_plain or dims is None:
        one_dimension("sort", value)
    if is_plain and (dims is not None or value.dtype.kind in "iuf"):
        axis, is_back = axis_of(value, 1 if dims is None else dims), data.truth(rev)
        if not isinstance(value, np.ndarray):  # what is stored is sorted
            import finchlang.array as namespace

            return namespace.compute(namespace.sort(value, axis=axis, descending=is_back))
        found = np.sort(value, axis=axis)
        return np.asfortranarray(np.flip(found, axis) if is_back else found)
    values = list(data.entries(value))
    return data.shaped([values[k] for k in _order(call, values, by, lt, rev)])


@FUNCTIONS.add("sort!", calls=True)
def _sort(call: Call, value: Any, *, by: Any = None, lt: Any = None, rev: Any = False) -> Any:
    found = _sorted(call, value, by=by, lt=lt, rev=rev)
    if isinstance(value, list):
        value[:] = list(data.entries(found))
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        value[:] = found
    else:
        raise FinchError("type", f"{kind_of(value)} cannot be sorted in place")
    return value


@FUNCTIONS.add("sortperm", calls=True)
def _sortperm(call: Call, value: Any, *, by: Any = None, lt: Any = None, rev: Any = False) -> Any:
    one_dimension("sortperm", value)
    if by is None and lt is None and data.is_array(value) and data.dense(value).dtype.kind in "iuf":
        is_back = data.truth(rev)
        places = np.argsort(data.dense(value)[:: -1 if is_back else 1], stable=True)
        return len(places) - places[::-1] if is_back else places + 1
    return data.shaped([k + 1 for k in _order(call, list(data.entries(value)), by, lt, rev)])


def one_dimension(name: str, value: Any) -> None:
    if data.is_array(value) and len(value.shape) != 1:
        hint: str | None = f"along a dimension it is `{name}(A, dims = 1)`"
        hint = None if name == "sortperm" else hint
        raise FinchError("dimension", f"{name} takes a vector, not {kind_of(value)}", hint=hint)


def axes_of(array: Any, dims: Any) -> tuple[int, ...] | None:
    """`dims`, which count from 1, as axes from 0; None for all. Raises FinchError "dimension"."""
    if dims is None:
        return None
    given = list(dims) if isinstance(dims, (tuple, list, data.FinchRange)) else [dims]
    axes = [data.whole(mode, "a dimension") - 1 for mode in given]
    for axis in axes:
        if not 0 <= axis < len(array.shape):
            message = f"an array of size {size_text(array.shape)} has no mode {axis + 1}"
            raise FinchError("dimension", message)
        if axes.count(axis) > 1:
            raise FinchError("dimension", f"mode {axis + 1} is there twice in `dims`")
    return tuple(axes)


def axis_of(array: Any, dims: Any) -> int:
    """One of `dims` as an axis from 0. Raises FinchErrors as `axes_of`."""
    (axis,) = axes_of(array, data.whole(dims, "a dimension")) or ()
    return axis


@FUNCTIONS.add("reverse")
def _reversed(value: Any, *, dims: Any = None) -> Any:
    if dims is not None and data.is_array(value):
        return np.asfortranarray(np.flip(data.dense(value), axes_of(value, dims)))
    if isinstance(value, str):
        return value[::-1]
    one_dimension("reverse", value)
    found = list(data.entries(value))[::-1]
    return tuple(found) if isinstance(value, tuple) else data.shaped(found)


@FUNCTIONS.add("unique")
def _unique(value: Any) -> Any:
    found: list[Any] = []
    seen: set[Any] = set()
    few = data.scattered(value)
    for item in data.entries(few.values if few else value):
        is_nan = isinstance(item, (float, np.floating)) and item != item
        try:
            is_new = (key := "NaN" if is_nan else item) not in seen
            seen.add(key)
        except TypeError:  # not hashable, as arrays
            is_new = not any(data.equal(item, other) for other in found)
        found += [item] * is_new
    return data.shaped(found)


# ------------------------------------------------------------------------------ functions of others


@FUNCTIONS.add("filter", calls=True)
def _filter(call: Call, function: Any, value: Any) -> Any:
    if type(value) is dict:
        return {k: v for k, v in value.items() if data.truth(call(function, types.Pair(k, v)))}
    held = are_true(call, (function, value), "filter")
    found = [item for item, holds in zip(data.entries(value), held, strict=True) if holds]
    if isinstance(value, str):
        return "".join(found)
    return tuple(found) if isinstance(value, tuple) else data.shaped(found)


@FUNCTIONS.add("foreach", calls=True)
def _foreach(call: Call, function: Any, *values: Any) -> Any:
    for each in zip(*map(data.entries, values), strict=False):
        call(function, *each)
    return ast.NOTHING


def with_function(name: str, what: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """The function of `name(f, A)`, if one is given, and A. Raises FinchError "type" for others."""
    if not 1 <= len(args) <= 2:
        hint = AS_VECTOR if all(map(data.is_number, args)) and args else None
        raise FinchError("type", f"{name} takes {what}, or a function and {what}", hint=hint)
    if len(args) == 2 and data.is_array(args[0]) and data.is_number(args[1]):
        hint = f"write `{name}(A, dims = {args[1] or 1})`; dimensions count from 1"
        raise FinchError("type", f"{name} takes a dimension as `dims`", hint=hint)
    return args[:-1], args[-1]


def are_true(call: Call, args: tuple[Any, ...], name: str) -> Iterator[bool]:
    """For each entry whether it is true, or the function given is true for it."""
    function, value = with_function(name, "a vector", args)
    known = call.mapped(*function, value) if function else None
    if known is not None:
        return map(data.truth, known.tolist())
    return (data.truth(call(*function, x) if function else x) for x in data.entries(value))


def place_in(value: Any, k: int) -> Any:
    """The place of the k-th entry from 0, column-major: of several dimensions its coordinates."""
    shape = value.shape if data.is_array(value) else ()
    if len(shape) < 2:
        return k + 1
    return tuple(int(i) + 1 for i in np.unravel_index(k, shape, order="F"))


def _found(call: Call, args: tuple[Any, ...], name: str, is_first: bool = False) -> Iterator[Any]:
    """The places of the entries that are true, or for which the function given is true; perhaps only one
    of those that a tensor does not store, if the first is asked for."""
    few = data.scattered(args[-1])
    if few is not None:
        held = [*are_true(call, (*args[:-1], few.values), name)]
        if is_first or few.fill is None or not held[few.fill]:
            return (place_in(args[-1], int(k)) for k in few.places[held])
    return (place_in(args[-1], k) for k, held in enumerate(are_true(call, args, name)) if held)


@FUNCTIONS.add("findall", calls=True)
def _all_places(call: Call, *args: Any) -> Any:
    return data.shaped([*_found(call, args, "findall")])


@FUNCTIONS.add("findfirst", calls=True)
def _first_place(call: Call, *args: Any) -> Any:
    return next(_found(call, args, "findfirst", True), ast.NOTHING)


FUNCTIONS.add("enumerate", lambda v: [*enumerate(data.entries(v), 1)])
FUNCTIONS.add("zip", lambda *vs: [*zip(*map(data.entries, vs), strict=False)])
FUNCTIONS.add("isempty", lambda v: 0 in data.sizes(v, "has no entries"))


@FUNCTIONS.add("isin")
def _is_in(item: Any, value: Any) -> bool:
    if isinstance(value, str):
        return isinstance(item, str) and item in value
    if type(value) is dict and not isinstance(item, types.Pair):
        hint = "`haskey(d, k)` tells whether there is a key, `x in values(d)` a value"
        raise FinchError("type", "a dictionary has pairs", hint=hint)
    if isinstance(value, data.FinchRange) and data.is_number(item):
        is_plain = type(value.start) is type(value.stop) is int and value.step == 1
        return item in range(value.start, value.stop + 1) if is_plain else item in [*value]
    few = data.scattered(value)
    found = data.entries(few.values if few else value)
    if data.is_plain([item]) and isinstance(found, Sequence) and data.is_plain(found):
        return any(map(operator.eq, repeat(item), found))
    return any(data.equal(item, x) for x in found)


# ------------------------------------------------------------------------------ dictionaries


@FUNCTIONS.add("Dict")
def _dictionary(*pairs: Any) -> dict[Any, Any]:
    if len(pairs) == 1 and not isinstance(pairs[0], types.Pair):
        pairs = tuple(data.entries(pairs[0]))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise FinchError("type", "Dict takes pairs", hint='Dict("a" => 1, "b" => 2)')
        if isinstance(pair[0], (list, dict)) or data.is_array(pair[0]):
            raise FinchError("type", f"{kind_of(pair[0])} is no key")
    return dict(pairs)


def _delete(value: dict[Any, Any], key: Any) -> None:
    value.pop(key, None)


_of_dictionary("haskey", lambda d, k: k in d)
_of_dictionary("keys", lambda d: data.shaped(list(d)))
_of_dictionary("values", lambda d: data.shaped([*d.values()]))
_of_dictionary("get", lambda d, k, x: d.get(k, x))
_of_dictionary("delete!", _delete)


@FUNCTIONS.add("pairs")
def _pairs(value: Any) -> Any:
    entries = data.entries(value)
    return [*(entries if type(value) is dict else enumerate(entries, 1))]


# ------------------------------------------------------------------------------ strings


def _joined(values: Any, sign: Any = "") -> str:
    if not isinstance(sign, str):
        what = f"join takes a vector and a string between its entries, not {kind_of(sign)}"
        raise FinchError("type", what, hint=EXCHANGED if isinstance(values, str) else None)
    parts = [text(value) for value in data.entries(values)]
    given = text(sign)
    return joined([p for part in parts for p in (given, part)][1:])


def _replaced(string: Any, *pairs: Any) -> str:
    for pair in pairs:
        is_known = isinstance(pair, types.Pair) and isinstance(pair[0], str)
        if not is_known or not isinstance(string, str):
            hint = 'replace("a-b", "-" => "+")'
            raise FinchError("type", "replace takes a string and pairs of strings", hint=hint)
        string = joined([string.replace(pair[0], text(pair[1]))])
    return string


def _padded(name: str, value: Any, size: Any, sign: Any = " ") -> str:
    string, missing = text(value), data.whole(size, "a length") - len(text(value))
    if not isinstance(sign, str) or len(sign) != 1:
        raise FinchError("type", f"{name} pads with one character")
    parts = [repeated(sign, max(0, missing)), string]
    return joined(parts if name == "lpad" else parts[::-1])


def split_string(string: str, sign: Any = None) -> list[str]:
    """The parts of a string between whitespace, or between `sign`; its characters if that is empty."""
    if sign is not None and not isinstance(sign, str):
        raise FinchError("type", f"a string is split at a string, not {kind_of(sign)}")
    return list(string) if sign == "" else string.split(sign)


def _of_string(name: str, function: Callable[..., Any]) -> None:
    """Adds a function that raises FinchError "type" unless all arguments are strings."""

    def checked(*args: Any) -> Any:
        for arg in args:
            if not isinstance(arg, str):
                raise FinchError("type", f"{name} takes strings, not {kind_of(arg)}")
        return function(*args)

    FUNCTIONS.add(name, checked)


FUNCTIONS.add("join", _joined)
_of_string("uppercase", str.upper)
_of_string("lowercase", str.lower)
_of_string("strip", str.strip)
FUNCTIONS.add("replace", _replaced)
_of_string("occursin", lambda a, s: a in s)
_of_string("contains", lambda s, a: a in s)
_of_string("startswith", str.startswith)
_of_string("endswith", str.endswith)
for _name in ("lpad", "rpad"):
    FUNCTIONS.add(_name, partial(_padded, _name))


def joined_vectors(axis: int, parts: Sequence[Any]) -> Any:
    """Vectors and numbers one below the other (axis 0), if some are empty or not of numbers; else None."""
    is_row = all(data.is_number(part) or data.is_vector(part) for part in parts)
    if axis or not is_row or all(map(_is_of_numbers, parts)):
        return None
    each = [[part] if data.is_number(part) else data.entries(part) for part in parts]
    return data.shaped([entry for entries in each for entry in entries])


def _is_of_numbers(value: Any) -> bool:
    is_list = isinstance(value, (list, data.FinchRange))
    return not is_list or not isinstance(data.shaped([*value]), list)
