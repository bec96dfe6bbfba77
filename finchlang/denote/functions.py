"""Functions of the script in the denotation: they are called as the script's own evaluator runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from finchlang.denote.operators import SPELLINGS
from finchlang.denote.values import Failed, Number, number, type_error
from finchlang.source import FinchError
from finchlang.syntax import MISSING, Node, Variable
from finchlang.types import Type, type_of_dtype


class Function(Protocol):
    """A function of the script, which its own evaluator runs."""

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result for numbers. Raises FinchError."""

    def type(self, types: Sequence[Type]) -> Type:
        """The type of the result for numbers of these types. Raises FinchError "type"."""


def type_of_result(function: Function, args: list[Any], node: Node) -> Type | None:
    """The type of the result for these values, None if one is missing. Raises FinchError "type"."""
    if MISSING in args:
        return None
    if not all(isinstance(a, (Number, Failed)) for a in args):
        raise type_error("a function takes numbers").at(node.span)
    try:
        return function.type([_type_of(a.value) for a in args])
    except FinchError as error:
        raise error.at(node.span) from None


def of_function(
    function: Function, type: Any, args: list[Any], node: Node, is_idle: bool
) -> Number | Failed:
    """A function on values, with a result of `type`; it is not called where that is not needed."""
    any_value = number(type.wrap((0, 0) if type.kind == "pair" else 0), type)
    failed = next((a for a in args if isinstance(a, Failed)), None)
    if failed is not None:
        return Failed(failed.error, any_value.value)
    if is_idle:
        return any_value
    try:
        result = number(function([a.value for a in args]))
    except FinchError as error:
        if error.kind != "bounds":
            raise error.at(node.span) from None
        return Failed(error.at(node.span), any_value.value)
    return Number(result.value, all(a.is_structural for a in args))


def _type_of(value: Any) -> Type:
    found = type_of_dtype(value.dtype)
    assert found is not None
    return found


def is_needed(op: Node, before: list[Any]) -> bool:
    """Whether the next operand of an operator is needed, after those before."""
    name = SPELLINGS.get(op.name, op.name) if isinstance(op, Variable) else ""
    if not before or name not in ("ifelse", "&&", "||"):
        return True
    first = before[0]
    if not isinstance(first, Number) or not first.is_bool:
        return False
    return bool(first.value) == (name == "&&" or (name == "ifelse" and len(before) == 1))
