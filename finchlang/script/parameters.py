"""Parameters of a script's functions: their types, defaults, and arguments given by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment
from finchlang.script.functions import FinchFunction
from finchlang.script.show import kind_of
from finchlang.script.values import Builtin, FinchRange, is_array, is_number
from finchlang.syntax import nodes as ast, types
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor


def _is_array(*dimensions: int) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        shape = value.shape if is_array(value) else None
        if isinstance(value, (list, FinchRange)):
            shape = (len(value),)
        return shape is not None and (not dimensions or len(shape) in dimensions)

    return check


def _is_numeric(*kinds: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        found = types.type_of_value(value)
        return found is not None and found.kind in kinds

    return check


_INTEGERS, _FLOATS = _is_numeric("int", "uint", "bool"), _is_numeric("float")
#: Julia's names of abstract types, and of types of values that are no numbers
ABSTRACT: dict[str, Callable[[Any], bool]] = {
    "Any": lambda value: True,
    "Number": is_number,
    "Real": is_number,
    "Integer": _INTEGERS,
    "AbstractFloat": _FLOATS,
    **dict.fromkeys(("String", "AbstractString"), lambda value: isinstance(value, str)),
    "Tuple": lambda value: isinstance(value, tuple),
    "Dict": lambda value: isinstance(value, dict),
    "Function": lambda value: isinstance(value, (FinchFunction, Builtin)),
    **dict.fromkeys(("AbstractArray", "Array", "AbstractTensor"), _is_array()),
    **dict.fromkeys(("AbstractVector", "Vector"), _is_array(1)),
    **dict.fromkeys(("AbstractMatrix", "Matrix"), _is_array(2)),
    "Tensor": lambda value: isinstance(value, (Tensor, SwizzledTensor)),
    "Scalar": lambda value: isinstance(value, Scalar),
}


def check_types(definition: ast.Function) -> None:
    """Raises FinchError "unknown name" for a type that there is not, "type" for two parameters of one
    name."""
    names = definition.parameters
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FinchError("type", f"`{twice}` is a parameter twice", definition.span)
    for _, type in definition.types:
        if type not in ABSTRACT and types.named_type(type) is None:
            hint = "leave it out, or write `Int`, `Float64`, `Number`, `AbstractVector` ..."
            raise FinchError("unknown name", f"there is no type {type}", definition.span, hint)


def refuse_methods(definition: ast.Function, known: Any) -> None:
    """Raises FinchError "type" if a text defines a function twice with other types of parameters: in Julia
    these would be two methods."""
    old = known.definition if isinstance(known, FinchFunction) else None
    if old is None or old.span is None or definition.span is None or old is definition:
        return
    if old.span.source is definition.span.source and old.types != definition.types:
        message = f"`{definition.name}` is defined twice: a function has no methods by types"
        hint = f"give one another name, as in `{definition.name}2`"
        raise FinchError("type", message, definition.span, hint)


def arguments(
    function: FinchFunction, args: list[Any], keywords: dict[str, Any], span: Span | None
) -> Environment:
    """The environment of a call, with arguments given in order or by name, and defaults for others, which
    may use earlier parameters. Raises FinchError "type" if they do not fit the parameters."""
    definition = function.definition
    name, parameters = definition.name, definition.parameters
    values = dict(zip(parameters, args, strict=False))
    wrong = next((n for n in keywords if n not in parameters or n in values), None)
    if wrong is not None:
        is_known = wrong in parameters
        what = f"is given `{wrong}` twice" if is_known else f"has no parameter `{wrong}`"
        raise FinchError("type", f"{function} {what}", span)
    if len(args) > len(parameters):
        message = f"{function} takes {len(parameters)} arguments, {len(args)} are given"
        raise FinchError("type", message, span)
    values |= keywords
    environment = Environment(function.scope, function.parent, values)
    kinds = dict(definition.types)
    for parameter in parameters:
        if parameter not in values:
            default = function.defaults.get(parameter)
            if default is None:
                raise FinchError("type", f"{function} is called without `{parameter}`", span)
            values[parameter] = default(environment)
        kind = kinds.get(parameter)
        if kind is not None and not _is(values[parameter], kind):
            message = f"`{parameter}` of `{name}` must be {kind}, not {kind_of(values[parameter])}"
            raise FinchError("type", message, span)
    return environment


def _is(value: Any, kind: str) -> bool:
    if (check := ABSTRACT.get(kind)) is not None:
        return check(value)
    is_number = isinstance(value, (bool, int, float, np.generic))
    return is_number and types.type_of_value(value) == types.named_type(kind)
