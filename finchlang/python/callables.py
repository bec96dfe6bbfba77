"""Python's functions in scripts: translated from their source; built-in ones and ufuncs as operators."""

from __future__ import annotations

import builtins
import math
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cache, partial, reduce
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.calls.arguments import MAKERS
from finchlang.calls.environment import OUTERMOST, Environment, Scope, assigned_names
from finchlang.python.from_python import from_python
from finchlang.python.translate_source import WORDS, Translation
from finchlang.script.evaluate import Evaluator
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.syntax import nodes as ast, types
from finchlang.syntax.traversal import replace, rewrite_bottom_up
from finchlang.text.tree_cache import script_of

#: operators and functions of Python that no operator of the language equals, written in the language
_WRITTEN = {
    # an integer to a negative power would be a float in Python: here it is made an error (fld by 0). Of the
    # types only integers have 2 ^ -1 == 0
    "power": "power(a, b) = b < 0 && 2 ^ (0 * a * b - 1) == 0 ? a ^ fld(b, 0 * b) : a ^ b",
    "max": "max(a, b) = b > a ? b : a",
    "min": "min(a, b) = b < a ? b : a",
    "int": "int(x) = Int64(trunc(x))",
    "whole": "round(x) = Int64(round(x))",
    "lower": "floor(x) = Int64(floor(x))",
    "upper": "ceil(x) = Int64(ceil(x))",
    "gcd": "function gcd(a, b) while b != 0; a, b = b, a % b; end; return abs(a) end",
    "fabs": "fabs(x) = abs(Float64(x))",
    "fmod": "fmod(a, b) = Float64(a) % Float64(b)",
    "pow": "pow(a, b) = Float64(a) ^ Float64(b)",
    "degrees": "degrees(x) = x * (180.0 / pi)",
    "radians": "radians(x) = x * (pi / 180.0)",
    "square": "square(x) = x * x",
}
#: functions of `math` that are in the language, or in _WRITTEN, by the same name
_OF_MATH = (
    *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "hypot", "atan2"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"),
    *("atanh", "copysign", "nextafter", "ldexp", "isnan", "gcd", "fabs", "fmod", "pow", "isinf"),
    *("isfinite", "degrees", "radians"),
)
#: functions of Python, with their names in the language or in _WRITTEN
_PYTHON: dict[Any, str] = {
    **{abs: "abs", max: "max", min: "min", int: "int", float: "Float64", bool: "Bool"},
    **{round: "whole", pow: "power", math.floor: "lower", math.ceil: "upper", math.trunc: "int"},
    **{getattr(math, name): name for name in _OF_MATH if hasattr(math, name)},
}
#: NumPy's ufuncs that have another name in the language
_UFUNCS = {
    **{"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "fld"},
    **{"remainder": "mod", "fmod": "%", "power": "^", "float_power": "pow"},
    **{"negative": "-", "positive": "+", "absolute": "abs", "rint": "round"},
    **{"maximum": "max", "minimum": "min", "equal": "==", "not_equal": "!=", "less": "<"},
    **{"less_equal": "<=", "greater": ">", "greater_equal": ">="},
    **{"logical_and": "&&", "logical_or": "||", "logical_not": "!", "logical_xor": "xor"},
    **{"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "xor", "invert": "~"},
    **{"left_shift": "<<", "right_shift": ">>", "arctan2": "atan2"},
    **{"conjugate": "+", "deg2rad": "radians", "rad2deg": "degrees"},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
#: the functions of _WRITTEN that are NumPy's of the same name, too
_SHARED = {"gcd", "fabs", "degrees", "radians", "square", "pow"}


class Undefined:
    """The value of a name that is not defined in Python; messages call it by its `kind`."""

    kind = "not defined in Python"


def from_callable(value: Any) -> Any:
    """A function of Python or NumPy as a value of scripts; another value itself. Raises FinchError "type"
    for a function that cannot be translated, or that no operator equals."""
    if isinstance(value, (FunctionType, np.ufunc, BuiltinFunctionType)):
        found = _meaning(value)
        if found is not None:
            return found
        library = "NumPy" if isinstance(value, np.ufunc) else "Python"
        what = f"{library}'s `{value.__name__}`"
        hint = "write it as a function of Python, or of the script"
    elif isinstance(value, (partial, MethodType)):
        what = f"this {type(value).__name__} of Python"
        hint = "write what it computes as a function of its own"
    else:
        own = getattr(type(value), "as_function", None)  # of a Kernel
        return value if own is None else own(value)
    raise FinchError("type", f"{what} is no operator here", hint=hint)


_FLOAT = types.Float64.dtype
_DTYPES = frozenset(type.dtype for type in types.TYPES.values())


def taken(function: FinchFunction, at: int | str, value: Any) -> Any:
    """A value of Python for the parameter at a position, or of a name, as a value of scripts. Raises
    FinchError for a value that no name of a session can be bound to."""
    kind = type(value)
    if kind is int:
        if -(1 << 63) <= value < 1 << 63:
            return value
    elif kind in MAKERS and getattr(value, "dtype", _FLOAT) in _DTYPES:
        return value
    names = function.definition.parameters
    name = names[min(at, len(names) - 1)] if isinstance(at, int) and names else str(at)
    try:
        return from_python(from_callable(value), name)
    except FinchError as error:
        message = f"`{name}` of {function.definition.name}: {error.message}"
        raise FinchError(error.kind, message, error.span, error.hint) from None


def function_of(function: FunctionType) -> FinchFunction:
    """A function of Python as one of the script, translated once."""
    known = getattr(function, "__finch__", None)
    # `functools.wraps` copies attributes to another function
    if known is None or known[0] is not function.__code__:
        translation = Translation(function)
        names = Names(function, translation.free)
        remember(function, made(translation.definition(), names))
        known = function.__finch__  # type: ignore[attr-defined]
    return known[1]


def remember(function: FunctionType, value: FinchFunction) -> None:
    """Note which function of the script a function of Python is."""
    function.__finch__ = function.__code__, value  # type: ignore[attr-defined]


def made(node: ast.Function, values: Any = None) -> FinchFunction:
    """A function of the script, with these values for the names around it."""
    inner = Scope(OUTERMOST, assigned_names(node.body) | {*node.parameters})
    body = Evaluator(_without_kernels).closure(node.body, inner)
    return FinchFunction(node, inner, Environment(values=values), body)


def _without_kernels(kernel: Any, environment: Environment) -> Any:
    raise FinchError("type", "a function of Python has no kernels")


@cache
def _written(name: str) -> FinchFunction:
    (node,) = script_of(_WRITTEN[name], f"<{name}>").statements
    node = rewrite_bottom_up(lambda n: replace(n, span=None), node)  # errors are placed at the call
    return made(node, {"pi": math.pi})


def _meaning(value: Any) -> Any:
    """A callable of Python as a value of scripts; None if it is none."""
    if isinstance(value, FunctionType):
        return function_of(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return types.type_of_dtype(np.dtype(value))
    if isinstance(value, np.ufunc):
        name, written = _UFUNCS.get(value.__name__, value.__name__), _SHARED
    elif isinstance(value, (BuiltinFunctionType, type)):
        name, written = _PYTHON.get(value, ""), {*_WRITTEN}
    else:
        return value
    return _written(name) if name in written else PREDEFINED.get(name)


class Names(Mapping[str, Any]):
    """The present values in Python of the names in a translated function: of its closure, its module and
    Python's built-ins. `paths` maps a name to its path in Python (`math.pi`); names of operators that are
    in _WRITTEN are not Python's."""

    def __init__(self, function: FunctionType, paths: dict[str, str]):
        self.function, self.paths = function, paths

    def __getitem__(self, name: str) -> Any:
        if name in WORDS and name in _WRITTEN:
            return _written(name)
        root, *path = self.paths[name].split(".")
        try:
            value = reduce(getattr, path, self.root(root))
        except (KeyError, ValueError, AttributeError):
            return Undefined()
        found = _meaning(value)
        return value if found is None else found

    def root(self, name: str) -> Any:
        function, own = self.function, self.function.__code__.co_freevars
        if name in own:
            return function.__closure__[own.index(name)].cell_contents  # type: ignore[index]
        return ChainMap(function.__globals__, vars(builtins))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)
