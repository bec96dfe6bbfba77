"""Values of Python as values of scripts, and the names that they can be bound to."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.script.make_tensors import construct_tensor
from finchlang.script.show import kind_of
from finchlang.script.values import array_literal, is_number
from finchlang.syntax import nodes as ast
from finchlang.syntax.types import foreign, type_of_dtype
from finchlang.tensors.adopt import as_tensor, is_pydata, is_scipy
from finchlang.tensors.array_base import ArrayMethods, LazyTensor, TensorBase
from finchlang.tensors.entries import masked_entries
from finchlang.tensors.formats import MODES, parse_format
from finchlang.tensors.tensor import SwizzledTensor, Tensor
from finchlang.text.literals import name_of
from finchlang.text.tree_cache import script_of

#: nested lists may have so many entries: a few lists, each twice in the next, would have very many
MOST = 1 << 26


def check_name(name: Any) -> str:
    """The name as scripts have it. Raises FinchError "type" for no string, "syntax" for what is no name."""
    if not isinstance(name, str):
        raise FinchError("type", f"a name is a string, not {foreign(name)}")
    if not is_name(name):
        raise FinchError("syntax", f"{name!r} is no name")
    return name_of(name)


@lru_cache(maxsize=1024)
def is_name(name: str) -> bool:
    try:
        statements = script_of(f"{name} = 0").statements
    except FinchError:
        return False
    return statements == (ast.Let((ast.Variable(name_of(name)),), None, ast.Literal(0)),)


def from_python(value: Any, name: str = "x") -> Any:
    """A value of Python as a value of scripts: None becomes `nothing`, lists of numbers, also nested ones,
    become arrays, and PyData's sparse arrays and lazy arrays become tensors. `name` is used in hints.

    Raises FinchError "dimension" for lists of different lengths in a list, "resource" for lists nested too
    deeply or in themselves, "type" for large integers, other dtypes and arrays of other libraries.
    """
    if value is None:
        return ast.NOTHING
    if type(value) is int and not is_number(value):
        raise FinchError("type", f"a name cannot be bound to {foreign(value)}")
    if type(value) is list:
        return _array(value)
    if type(value) is dict or isinstance(value, tuple):
        return _with_parts(value, name)
    if is_pydata(value):
        return as_tensor(value)
    if isinstance(value, ArrayMethods) and not isinstance(value, (TensorBase, LazyTensor)):
        return value.compute()  # of a lazy array
    if isinstance(value, np.ma.MaskedArray):
        raise masked_entries(name)
    library = type(value).__module__.partition(".")[0]
    if library == "polars" or (library not in _TAKEN and hasattr(type(value), "__array__")):
        ways = (f"{name}.{w}" for w in _WAYS if hasattr(type(value), w.partition("(")[0]))
        what = f"an object {library}.{type(value).__name__}"
        message = f"{what} is not taken, an array of NumPy with its values is"
        raise FinchError("type", message, None, f"`{next(ways, f'np.asarray({name})')}`")
    dtype = getattr(value, "dtype", None) if library == "numpy" or is_scipy(value) else None
    if isinstance(dtype, np.dtype) and type_of_dtype(dtype) is None:
        what = "a number" if isinstance(value, np.generic) else "an array"
        is_complex = dtype.kind == "c"
        hint = f"`{name}.astype(float)` has one, if these are numbers"
        hint = f"`{name}.real` and `{name}.imag` have one" if is_complex else hint
        raise FinchError("type", f"{what} of {dtype} has no element type here", None, hint)
    if not isinstance(value, _VALUES) and library != "finchlang" and dtype is None:
        hint = "values: numbers, strings, arrays, tensors, functions, tuples, lists, dictionaries"
        raise FinchError("type", f"a name cannot be bound to {foreign(value)}", None, hint)
    return value


def tensor_in_python(*given: Any) -> Tensor:
    """`Tensor(format, array)` and `Tensor(array)` of Python: as in scripts, but the format may be a text,
    and a swizzled array keeps its order of modes. Raises FinchError as the functions of scripts do."""
    values = [from_python(value) for value in given]
    if values and isinstance(values[0], str):
        values[0] = parse_format(values[0])
    elif len(values) == 1 and isinstance(tensor := as_tensor(values[0]), SwizzledTensor):
        values = [tensor.body.format, tensor]
    made = construct_tensor(*values)
    if not isinstance(made, Tensor):
        raise FinchError("type", "a scalar is made by Scalar(value), not by Tensor")
    return made


#: values of scripts, besides those with a `dtype` and finchlang's own
_VALUES = (bool, int, float, str, tuple, np.generic, np.ndarray)
#: the libraries whose arrays are taken as they are
_TAKEN = ("numpy", "scipy", "finchlang")
#: how an array of another library that has the method becomes a NumPy array (for hints)
_WAYS = ("collect().to_numpy()", "to_numpy()", "to_array().to_numpy()", "numpy()", "compute()")


def _array(values: list[Any]) -> Any:
    shape, entries, outer = [len(values)], values, {id(values)}
    while entries and all(type(entry) is list for entry in entries):
        if any(len(entry) != len(entries[0]) for entry in entries):
            raise FinchError("dimension", "the lists in a list are of different lengths")
        shape.append(len(entries[0]))
        own = set(map(id, entries))
        if len(shape) > MODES or own & outer or len(entries) * shape[-1] > MOST:
            raise FinchError("resource", "these lists are nested too deeply, or in themselves")
        outer |= own
        entries = [entry for inner in entries for entry in inner]
    others = [entry for entry in entries if not is_number(entry)]
    if others:
        if any(isinstance(entry, int) for entry in others):
            raise FinchError("type", f"this list has {foreign(1 << 64)}")
        return _with_parts(values, "x")  # a growing vector of scripts, as of strings
    try:
        return (array_literal([entries], False) if entries else np.zeros(0)).reshape(shape)
    except OverflowError:
        raise FinchError("type", "no type of 64 bits has all numbers of this list") from None


def _with_parts(value: Any, name: str) -> Any:
    """A tuple, list or dictionary with its parts as values of scripts: the same object if they are."""
    old = value.values() if type(value) is dict else value
    try:
        new = [from_python(part, name) for part in old]
    except RecursionError:
        raise FinchError("resource", "this is nested too deeply, or in itself") from None
    if all(map(operator.is_, old, new)):
        return value
    if type(value) is dict:
        return dict(zip(value, new, strict=True))
    return new if type(value) is list else tuple(new)


def refuse(name: ast.Variable, value: Any) -> None:
    """Raises FinchError "type" for a name in a kernel whose value is neither a tensor nor a number."""
    kind, what = kind_of(value), "a kernel takes tensors, and numbers of the element types"
    hint = f"call it: `{name.name}(...)`" if kind == "a function" else None
    if kind in ("a range", "a tuple", "a vector"):
        made = "zeros(0)" if value in ([], ()) else f"collect({name.name})"
        hint = f"before the kernel make an array of it: `{name.name} = {made}`"
    if kind == "a vector" and value and not is_number(value[0]):
        hint = "a matrix is written `[1 2; 3 4]`"
    raise FinchError("type", f"`{name.name}` is {kind}; {what}", name.span, hint)
