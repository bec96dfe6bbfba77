"""What Python and NumPy ask of arrays: the operators and protocols of each class that is one. What they
do is in `finchlang.array`, which is imported when one of them is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_BINARY = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"},
    **{"floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "matmul": "matmul"},
    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"},
}
_COMPARISONS = {
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"},
    **{"gt": "greater", "ge": "greater_equal"},
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
#: methods that are functions of `finchlang.array` with the array as their first argument
_METHODS = (
    *("sum", "prod", "min", "max", "any", "all", "mean", "var", "std", "argmin", "argmax"),
    *("astype", "clip", "compute", "plan", "todense", "take", "squeeze", "round"),
    *("ravel", "repeat", "diagonal", "swapaxes"),
)
_PROPERTIES = {"T": "transpose", "mT": "matrix_transpose", "size": "size_of", "device": "device_of"}
#: those that `finchlang.array.interop` has, by their names in classes
_SPECIAL = {
    **{"__array_ufunc__": "array_ufunc", "__array_function__": "array_function"},
    **{"__array__": "array", "__array_namespace__": "array_namespace", "to_device": "to_device"},
    **{
        "__bool__": "to_bool",
        "__int__": "to_int",
        "__float__": "to_float",
        "__index__": "to_index",
    },
    **{"__complex__": "to_complex", "__len__": "length", "__iter__": "iterate"},
    **{"__setitem__": "setitem", "transpose": "transposed", "reshape": "reshaped"},
    "flatten": "flattened",
}


class NotAnArray(TypeError):
    """An operand is neither an array nor a number."""


_found: dict[tuple[str, str], Callable[..., Any]] = {}


def _function(name: str, module: str = "finchlang.array") -> Callable[..., Any]:
    found = _found.get((name, module))
    if found is None:
        found = _found[name, module] = getattr(importlib.import_module(module), name)
    return found


def _binary(name: str, is_reflected: bool) -> Callable[..., Any]:
    function: Any = None

    def method(self: Any, other: Any) -> Any:
        nonlocal function
        function = function or _function(name)
        try:
            return function(other, self) if is_reflected else function(self, other)
        except NotAnArray:
            return NotImplemented

    return method


def _method(name: str, module: str = "finchlang.array") -> Callable[..., Any]:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return _function(name, module)(self, *args, **keywords)

    return method


def join(kind: type) -> None:
    """Make a class one of arrays: with the operators and methods that it does not have itself."""
    methods: dict[str, Any] = {}
    for sign, name in {**_BINARY, **_COMPARISONS}.items():
        methods[f"__{sign}__"] = _binary(name, False)
        if sign in _BINARY:
            methods[f"__r{sign}__"] = _binary(name, True)
    methods |= {f"__{sign}__": _method(name) for sign, name in _UNARY.items()}
    methods |= {name: _method(name) for name in _METHODS}
    methods |= {name: property(_method(of)) for name, of in _PROPERTIES.items()}
    methods["__getitem__"] = _method("getitem", "finchlang.array.indexing")
    special = "finchlang.array.interop"
    methods |= {name: _method(of, special) for name, of in _SPECIAL.items()}
    methods["__hash__"] = object.__hash__
    for name, method in methods.items():
        if name not in vars(kind) or name == "__hash__":
            setattr(kind, name, method)
