"""Subscripts in scripts: `A[1, 2]`, `A[:, 1]`, `A[2:4]`, `s[]`, read and set, counted from 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError, number_of
from finchlang.calls.lazy_shape import TensorView
from finchlang.script import values as data
from finchlang.script.show import kind_of, other_sizes, show
from finchlang.syntax.types import Type, can_store, paired, type_of_dtype, type_of_value
from finchlang.tensors.adopt import as_tensor, is_scipy
from finchlang.tensors.array_base import size_text
from finchlang.tensors.convert import entries_at
from finchlang.tensors.entries import values_of
from finchlang.tensors.tensor import Scalar, SwizzledTensor

ALL = slice(None)  # the index `:`


def subscript(value: Any, indices: list[Any]) -> Any:
    """`value[indices...]`, counted from 1. Parts of arrays and tensors are copied to NumPy arrays. Raises
    FinchError "bounds", "dimension" or "type"."""
    is_single = type(value) in (list, str) and len(indices) == 1 and type(indices[0]) is int
    if is_single and 0 < indices[0] <= len(value):
        return value[indices[0] - 1]
    if type(value) is np.ndarray and (at := _place(value, indices)) is not None:
        return data.plain(value[at])
    if isinstance(value, Scalar):
        _check_count(value, (), indices)
        return data.held(value)
    if type(value) is dict:
        key = _key(indices)
        if key not in value:
            hint = "`haskey(d, key)` tells, and `get(d, key, 0)` has a value for a key that is not there"
            raise FinchError("bounds", f"there is no key {show(key)}", hint=hint)
        return value[key]
    if isinstance(value, Type):
        if any(map(data.is_array, indices)):
            raise FinchError("type", f"an array of {value} holds numbers", hint="`Int[1 2; 3 4]`")
        return values_of(value, data.array_literal([indices], False)) if indices else []
    if isinstance(value, (tuple, list, data.FinchRange, str)):
        (subscript,) = _subscripts(value, (len(value),), indices)
        if isinstance(subscript, int):
            return value[subscript]
        is_list = isinstance(subscript, np.ndarray)
        part = [value[k] for k in (subscript if is_list else range(len(value))[subscript])]
        if isinstance(value, str):
            return "".join(part)
        return tuple(part) if isinstance(value, tuple) else data.array_literal([part], False)
    if not data.is_array(value):
        raise FinchError("type", f"{kind_of(value)} cannot be indexed")
    value = value if isinstance(value, np.ndarray) else as_tensor(value)
    indices, places = _spread_tuple(indices), _places(value, indices)
    if places is not None:
        return _at(value, places)
    if len(indices) == 1 and indices[0] is ALL:
        return data.dense(value).flatten(order="F")
    subscripts = _subscripts(value, value.shape, indices)
    found = _part(value, subscripts)
    return np.array(found, order="F") if isinstance(found, np.ndarray) else data.plain(found)


def _place(array: np.ndarray, indices: list[Any]) -> tuple[int, ...] | None:
    """The place of the one entry at these indices, None if they are not integers within the sizes."""
    shape = array.shape
    if len(indices) != len(shape) or not shape:
        return None
    for index, size in zip(indices, shape, strict=True):
        if type(index) is not int or not 0 < index <= size:
            return None
    return tuple([index - 1 for index in indices])


#: the hint where an entry behind the last one is set
KEEPS = "an array keeps its size; a vector that grows begins as `[]`, and `push!(x, 1)` appends"


def set_subscript(target: Any, indices: list[Any], value: Any, spreads: bool = False) -> None:
    """`target[indices...] = value`, or `.= value` if the value `spreads` as in broadcasting. Raises
    FinchErrors as `subscript`, "access order" for a tensor that is not dense."""
    kind = data.PLAIN.get(type(value))  # of arrays that have the number as it is
    is_kept = kind is not None and type(target) is np.ndarray and target.dtype == kind.dtype
    if is_kept and target.flags.writeable and (at := _place(target, indices)) is not None:
        target[at] = value
        return
    if isinstance(target, Scalar):
        _check_count(target, (), indices)
        element = target.format.element_type
        target.value = element.wrap(_storable(value, element))
        return
    if type(target) is dict:
        target[_key(indices)] = value
        return
    if isinstance(target, list):
        (subscript,) = _subscripts(target, (len(target),), indices)
        if isinstance(subscript, int):
            target[subscript] = value
            return
        at = np.arange(len(target))[subscript]
        found = _of_size(value, at.shape, spreads)
        each = [value] * len(at) if found is value else [*data.entries(found)]
        for k, item in zip(at, each, strict=True):
            target[k] = item
        return
    if not data.is_array(target):
        ways: dict[type, str] = {tuple: "a vector, `[1, 2, 3]`, has entries that can be set"}
        ways[data.FinchRange] = "`collect(r)` makes a vector of it, whose entries can be set"
        ways[str] = '`replace(s, "a" => "b")` makes another string'
        what = f"the entries of {kind_of(target)} cannot be set"
        raise FinchError("type", what, hint=ways.get(type(target)))
    if isinstance(target, TensorView):
        hint = "a kernel writes through it: `@finch V[1] = 2`"
        hint = f"{hint}; or make a tensor of it: `V = copy(V)`"
        raise FinchError("type", "the entries of a view cannot be set one by one", hint=hint)
    target = as_tensor(target) if is_scipy(target) else target
    indices = _spread_tuple(indices)
    subscripts: Any = _places(target, indices)
    try:
        if subscripts is None:
            subscripts = _crossed(_subscripts(target, target.shape, indices), target.shape)
    except FinchError as error:
        error.hint = error.hint or (KEEPS if error.kind == "bounds" else None)
        raise
    array = dense_view(target)
    if array is None:
        entry = f"A[{', '.join('1' * len(target.shape))}]"
        hint = f"a kernel sets one, `@finch {entry} = 2`, and best many at once in its loops"
        message = f"the entries of {target.format} cannot be set one by one"
        raise FinchError("access order", message, hint=hint)
    if not array.flags.writeable:
        raise FinchError("type", "this array is read-only")
    kept, shape = type_of_dtype(array.dtype), array[subscripts].shape
    if kept and not shape and (data.is_array(value) or data.is_vector(value)):
        raise FinchError("dimension", f"{kind_of(value)} is assigned to one entry")
    found = _of_size(value, shape, spreads)
    array[subscripts] = found if kept is None else _storable(found, kept)


def _key(indices: list[Any]) -> Any:
    key = indices[0] if len(indices) == 1 else tuple(indices)
    if not isinstance(key, (str, tuple)) and not data.is_number(key):
        raise FinchError("type", f"{kind_of(key)} is no key")
    return key


def dense_view(value: Any) -> np.ndarray | None:
    """An array over the memory of a tensor that is dense in every mode; None for another tensor."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, SwizzledTensor):
        body = dense_view(value.body)
        axes = [value.permutation.index(k + 1) for k in range(value.order)]
        return None if body is None else body.transpose(axes)
    return value._dense_view()


def _of_size(value: Any, shape: tuple[int, ...], spreads: bool = False) -> Any:
    """An array, vector or range as an array for a part of this shape, whose sizes it must have but for
    those of 1, as in Julia, or to which it `spreads`; another value itself, for all of the part. Raises
    FinchError "dimension"."""
    if not shape or not (data.is_array(value) or data.is_vector(value)):
        return value
    found = data.dense(value) if data.is_array(value) else data.shaped([*data.entries(value)])
    if spreads and isinstance(found, np.ndarray):
        try:
            return np.broadcast_to(found.T, shape[::-1]).T
        except ValueError:
            what = f"{kind_of(value)} does not broadcast to a part of size {size_text(shape)}"
            raise FinchError("dimension", what, hint=_of_part(found, shape)) from None
    if [n for n in np.shape(found) if n != 1] != [n for n in shape if n != 1]:
        what = f"{kind_of(value)} is assigned to a part of size {size_text(shape)}"
        raise FinchError("dimension", what, hint=_of_part(found, shape))
    return found.reshape(shape, order="F") if isinstance(found, np.ndarray) else found


def _of_part(value: Any, shape: tuple[int, ...]) -> str:
    number = "both have one size, or one number fills the part: `A[1:2, 1] .= 0`"
    return other_sizes(np.shape(value), shape, "x") or number


def _storable(value: Any, element: Type) -> Any:
    is_array = isinstance(value, np.ndarray)
    source = type_of_dtype(value.dtype) if is_array else type_of_value(paired(value))
    if source is None or not can_store(source, element):
        hint = "an array keeps its type of entries: `[1.0, 2.0]` and `zeros(3)` hold fractions"
        is_fraction = source is not None and source.is_float and element.is_integer
        message = f"{kind_of(value)} cannot be stored as {element}"
        raise FinchError("type", message, hint=hint if is_fraction else None)
    return value if is_array else element.wrap(value)


def _part(tensor: Any, subscripts: tuple[Any, ...]) -> Any:
    """The part of a tensor that NumPy would give for its dense array, which is not made; lists of
    coordinates are taken each with all of the other modes."""
    view = dense_view(tensor)
    if view is not None:
        return view[_crossed(subscripts, view.shape)]
    lists: dict[int, np.ndarray] = {}
    for mode, (index, size) in enumerate(zip(subscripts, tensor.shape, strict=True)):
        if not isinstance(index, slice):
            lists[mode] = np.atleast_1d(index)
        elif index != ALL:
            lists[mode] = np.arange(*index.indices(size))
    shape, coordinates, values = entries_at(tensor, lists)
    found = full_aligned(shape, tensor.fill, tensor.dtype)
    found[tuple(coordinates)] = values
    return found[tuple(0 if isinstance(p, int) else ALL for p in subscripts)]


def _crossed(subscripts: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Subscripts for NumPy, which takes lists of coordinates together where they are not crossed."""
    if not any(isinstance(p, np.ndarray) for p in subscripts):
        return subscripts
    pairs = zip(subscripts, shape, strict=True)
    crossed = iter(np.ix_(*[np.arange(n)[p] for p, n in pairs if not isinstance(p, int)]))
    return tuple(p if isinstance(p, int) else next(crossed) for p in subscripts)


def _spread_tuple(indices: list[Any]) -> list[Any]:
    """`A[(2, 1)]`, as of `argmax`, as `A[2, 1]`."""
    return [*indices[0]] if len(indices) == 1 and isinstance(indices[0], tuple) else indices


def _places(value: Any, indices: list[Any]) -> tuple[np.ndarray, ...] | None:
    """The coordinates from 0 where a mask of the shape of the value is true, column-major, or of a vector
    of tuples; None for other indices. Raises FinchError "bounds"."""
    index: Any = indices[0] if len(indices) == 1 else None
    is_of_places = isinstance(index, list) and all(isinstance(item, tuple) for item in index)
    if is_of_places and (index or len(value.shape) > 1):
        rows = [_subscripts(value, value.shape, [*item]) for item in index]
        return tuple(np.array(rows, int).reshape(-1, len(value.shape)).T)
    if not data.is_array(index) or not index.shape or index.dtype != bool:
        return None
    if tuple(index.shape) != tuple(value.shape):
        sizes = f"{size_text(index.shape)} of an array of size {size_text(value.shape)}"
        raise FinchError("bounds", f"a mask of size {sizes}")
    mask: Any = as_tensor(index)
    if isinstance(index, np.ndarray) or mask.fill:
        return tuple(np.nonzero(data.dense(index).T)[::-1])
    coordinates, values = mask.entries()
    held = coordinates[:, values]
    return tuple(held[:, np.lexsort(held)])


def _at(value: Any, places: tuple[np.ndarray, ...]) -> np.ndarray:
    """The entries at coordinates from 0."""
    view = dense_view(value)
    if view is not None:
        return view[places]
    coordinates, values = value.entries()
    flat = np.ravel_multi_index(tuple(coordinates), value.shape)
    wanted = np.ravel_multi_index(places, value.shape)
    order = np.argsort(flat)
    at = np.searchsorted(flat[order], wanted)
    is_stored = np.append(flat[order], -1)[at] == wanted
    found = np.full(len(wanted), value.fill, value.dtype)
    found[is_stored] = values[order[at[is_stored]]]
    return found


def _check_count(value: Any, shape: tuple[int, ...], indices: list[Any]) -> None:
    if len(indices) != len(shape):
        what = f"{kind_of(value)} takes {number_of(len(shape), 'index', 'indices')}, not {len(indices)}"
        is_flat = len(indices) == 1 and len(shape) > 1
        hint = "`vec(A)` counts column by column" if is_flat else None
        if len(shape) == 1 and len(indices) == 2:
            hint = "an entry of a vector is `x[1]`"
            if isinstance(value, list):
                hint = "a matrix is written `[1 2; 3 4]`, an entry of a vector in one `x[1][2]`"
        if is_flat and len(shape) == 2:
            hint = f"a row is `A[1, :]`, a column `A[:, 1]`, an entry `A[1, 2]`; {hint}"
        raise FinchError("dimension", what, hint=hint)


def _subscripts(value: Any, shape: tuple[int, ...], indices: list[Any]) -> tuple[Any, ...]:
    """The indices for NumPy: counted from 0, ranges as slices, vectors as arrays."""
    _check_count(value, shape, indices)
    return tuple(index_of(i, size) for i, size in zip(indices, shape, strict=True))


def index_of(index: Any, size: int) -> Any:
    """An index of a mode of this size for NumPy. Raises FinchError "bounds" or "type"."""
    if index is ALL:
        return ALL
    if isinstance(index, data.FinchRange):
        for k in (0, len(index) - 1)[: len(index)]:
            index_of(data.whole(index[k], "an index"), size)
        return index.slice
    if isinstance(index, list) or data.is_array(index) and len(index.shape) == 1:
        return _listed(np.array(index) if isinstance(index, list) else data.dense(index), size)
    k = data.whole(index, "an index")
    if not 1 <= k <= size:
        hint = None if size else "there are no entries"
        if k <= 0 < size:
            hint = f"indices count from 1: the first is `x[1]`, the last `x[end]`, which is {size}"
            if -size < k < -1:
                hint = f"{hint}; this is `x[end - {-k - 1}]`"
        raise FinchError("bounds", f"index {k} is not in 1:{size}", hint=hint)
    return k - 1


def _listed(index: np.ndarray, size: int) -> np.ndarray:
    if index.dtype == bool:
        if len(index) != size:
            raise FinchError("bounds", f"a mask of size {len(index)} of a mode of size {size}")
        return np.flatnonzero(index)
    if index.size and index.dtype.kind not in "iu":
        raise FinchError("type", f"indices are integers, a range or a mask, not {kind_of(index)}")
    wrong = index[(index < 1) | (index > size)]
    if wrong.size:
        raise FinchError("bounds", f"index {wrong[0]} is not in 1:{size}")
    return index.astype(np.int64) - 1
