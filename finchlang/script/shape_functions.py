"""The shape operators as functions of scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.calls.lazy_shape import TensorView, numpy_view
from finchlang.normalize.shapes.shape_table import OPERATORS
from finchlang.script import values as data
from finchlang.script.containers import joined_vectors, split_string
from finchlang.script.lazy_values import alike
from finchlang.script.show import kind_of, repeated
from finchlang.syntax.nodes import Extent, Literal, Node, Variable, call
from finchlang.tensors.array_base import size_text

#: the shape operators that have a meaning for strings, too
_OF_STRINGS: dict[str, Callable[..., Any]] = {
    "split": split_string,
    "repeat": lambda string, count: repeated(string, data.whole(count, "how often")),
}
#: those of arrays in a row, which take numbers too, with the dimension, counted from 0
_JOINED = {"vcat": 0, "hcat": 1}
#: the place, after the tensors, of the argument that is a size and an argument of kernels (as all sizes of
#: reshape are); other numbers are literals in them
_SIZES = {"split": 1, "broadcast": 1, "repeat": 1, "tile": 1, "roll": 1}


def shape_function(name: str) -> Callable[..., Any]:
    """The function of a script for a shape operator. It returns a lazy view, or a NumPy view if there is
    one of a NumPy array, and raises FinchError "type" or "dimension" for wrong arguments at once."""
    parts = OPERATORS[name].form.rstrip(")").partition("(")[2].split(", ")
    first, takes_all = parts.index("A"), "B" in parts

    def made(*args: Any, dims: Any = None, inner: Any = (), outer: Any = ()) -> Any:
        if name == "repeat" and len(args) == 1 and (inner, outer) != ((), ()):
            return _along("tile", _along("repeat", args[0], inner), outer)
        if (inner, outer) != ((), ()):
            raise _other(name, "takes no keyword arguments")
        if dims is not None and name == "cat":
            args = (dims, *args)
        elif dims is not None:
            raise _other(name, "takes no `dims`")
        is_vector = len(args) == 2 and data.is_array(args[0]) and len(args[0].shape) == 1
        if name == "repeat" and is_vector:
            return FUNCTIONS["tile"].function(args[0], 1, args[1])
        if args and isinstance(args[0], str) and name in _OF_STRINGS:
            return _OF_STRINGS[name](*args)
        values: dict[str, Any] = {}
        if name in _JOINED:
            vector = joined_vectors(_JOINED[name], args)
            if vector is not None:
                return vector
            args = tuple(map(_array, args))
            if args and all(isinstance(arg, np.ndarray) for arg in args):
                return concatenated(_JOINED[name], args)
            if all(map(data.is_array, args)):
                check_stacked(_JOINED[name], args)
        if len(args) == 2 and isinstance(args[1], tuple):  # sizes or modes as a tuple
            args = (args[0], *args[1])
        nodes = list[Node]()
        for k, arg in enumerate(args):
            if k == first or takes_all and k > first:
                nodes.append(_tensor(name, arg, values))
            else:
                nodes.append(_setting(name, arg, k - (k > first), values))
        made_of = call(name, *nodes)
        try:
            view = TensorView(made_of, values)  # raises if the arguments are wrong
        except FinchError as error:
            if name == "reshape" and error.message.startswith("there are sizes"):
                error.message = f"{kind_of(args[0])} has no shape {size_text(args[1:])}"
                error.hint = "the number of entries stays; one size may be -1, for what is left"
            raise
        modes = [arg for arg in args[1:] if type(arg) is int]
        found = numpy_view(name, args[0], modes, view.shape)
        return view if found is None else found

    return made


#: by the axis along which arrays are joined: the way they stand, what they need, the other way to join them
_WAYS = (
    ("one below the other", "columns", "`hcat` puts them side by side"),
    ("side by side", "rows", "`vcat` puts them one below the other"),
)


def check_stacked(axis: int, arrays: Any) -> None:
    """Raises FinchError "dimension" if arrays do not stand side by side (axis 1) or in a column (0)."""
    shapes = [tuple(array.shape) for array in arrays]
    if not shapes:
        return
    order = max(axis + 1, *map(len, shapes))
    first, *others = [shape + (1,) * (order - len(shape)) for shape in shapes]
    rest = [(*shape[:axis], *shape[axis + 1 :]) for shape in (first, *others)]
    other = next((s for s, own in zip(others, rest[1:], strict=True) if own != rest[0]), None)
    if other is None:
        return
    way, needed, else_ = _WAYS[axis]
    hint = f"they need as many {needed}" if order == 2 else "their other sizes must be equal"
    if order == 2 and other[axis] == first[1 - axis]:
        hint = f"{hint}, and `B'` has those of `A`"
    elif order == 2 and other[axis] == first[axis]:
        hint = f"{hint}; {else_}"
    sizes = " and ".join(map(size_text, shapes))
    raise FinchError("dimension", f"arrays of sizes {sizes} do not stand {way}", hint=hint)


def _array(value: Any) -> Any:
    """A number, range or vector of numbers as an array; other values as they are."""
    if isinstance(value, data.FinchRange):
        return data.as_array(value)
    value = [value] if data.is_number(value) else value
    return data.shaped(value) if isinstance(value, list) else value


def concatenated(axis: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays side by side or one below the other, in memory of their own: views would nest ever deeper."""
    check_stacked(axis, arrays)
    order = max(axis + 1, *[array.ndim for array in arrays])
    wide = [a.reshape(a.shape + (1,) * (order - a.ndim)) for a in alike("*", *arrays)]
    return np.asfortranarray(np.concatenate(wide, axis))


def _tensor(name: str, value: Any, values: dict[str, Any]) -> Node:
    value = value if data.is_number(value) else _array(value)
    if isinstance(value, TensorView):
        own: dict[str, Node] = {}
        for inner, part in value.values.items():
            is_size = isinstance(part, int)
            own[inner] = _added("n", part, values) if is_size else _tensor(name, part, values)
        return value.call_of(own)
    if not data.is_array(value) or not value.shape:
        raise FinchError("type", f"`{name}` takes a tensor here, not {kind_of(value)}")
    known = next((k for k, given in values.items() if given is value), None)
    return _added("A", value, values) if known is None else Variable(known)


def _added(letter: str, value: Any, values: dict[str, Any]) -> Node:
    name = f"{letter}{len(values) + 1}"
    values[name] = value
    return Variable(name)


def _setting(name: str, value: Any, place: int, values: dict[str, Any]) -> Node:
    ends = [value.start, value.stop, value.step] if isinstance(value, data.FinchRange) else [None]
    if all(type(n) is int for n in ends):
        step = None if value.step == 1 else Literal(value.step)
        return Extent(_added("n", value.start, values), _added("n", value.stop, values), step)
    if type(value) is not int and not (type(value) is bool and (name, place) == ("split", 2)):
        raise _other(name, f"takes an integer here, not {kind_of(value)}")
    is_size = _SIZES.get(name) == place or name == "reshape" and value >= 0
    if value < 0 and place and name in ("repeat", "tile", "broadcast"):
        raise FinchError("dimension", f"a count is 0 or more, not {value}")
    return _added("n", value, values) if is_size and type(value) is int else Literal(value)


def _other(name: str, what: str) -> FinchError:
    """The error that a shape operator does not take what it is given."""
    return FinchError("type", f"`{name}` {what}", hint=f"write `{FUNCTIONS[name].usage}`")


def _along(name: str, value: Any, counts: Any) -> Any:
    """A shape operator with a count for each dimension, as Julia's `repeat(A; inner)`; or for the first."""
    for mode, count in enumerate(counts if isinstance(counts, tuple) else (counts,), 1):
        value = FUNCTIONS[name].function(value, mode, count)
    return value


FUNCTIONS = data.Builtins()
for _name in OPERATORS:
    FUNCTIONS.add(_name, shape_function(_name))
FUNCTIONS.add("circshift", lambda A, shifts: _along("roll", A, shifts))
