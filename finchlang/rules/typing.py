"""Types of expressions, found once before a kernel runs: every access and variable gets its element
type, and `=` the fill it starts from."""

from __future__ import annotations

from collections.abc import Mapping

from finchlang.algebra import operator
from finchlang.rules.expressions import type_of
from finchlang.source import FinchError
from finchlang.syntax import Access, Assign, Call, Define, Literal, Node, Sieve, Variable
from finchlang.tensors.level import Level
from finchlang.tensors.masks import MASKS
from finchlang.types import Bool, Type, can_store
from finchlang.walk import map_children, replace

Names = Mapping[str, Level | Type | None]


def annotate(node: Node, names: Names) -> Node:
    """`node` with the types of its accesses and variables; `names` has the free names' formats.

    Raises FinchError "type" where an operator or a store does not take its operands.
    """
    if isinstance(node, Define):
        value = annotate(node.value, names)
        type = _checked_type(value)
        body = annotate(node.body, {**names, node.variable.name: type})
        return Define(node.variable, value, body, span=node.span)
    if isinstance(node, Variable):
        found = names.get(node.name)
        return replace(node, type=found) if isinstance(found, Type) else node
    if isinstance(node, Access):
        indices = tuple(annotate(i, names) for i in node.indices)
        type = _element_type(node.tensor, names)
        return Access(node.tensor, indices, span=node.span, type=type)
    node = map_children(lambda child: annotate(child, names), node)
    if isinstance(node, Assign):
        return _assign(node, names)
    if isinstance(node, Sieve):
        _condition(node.condition)
    return node


def _element_type(tensor: Node, names: Names) -> Type | None:
    found = _level(tensor, names)
    return found.element_type if found is not None else Bool if _is_mask(tensor) else None


def _level(tensor: Node, names: Names) -> Level | None:
    match tensor:
        case Variable(name):
            found = names.get(name)
            return found if isinstance(found, Level) else None
        case Call(_, (body, *_)) if not _is_mask(tensor):
            return _level(body, names)
    return None


def _is_mask(tensor: Node) -> bool:
    return isinstance(tensor, Call) and isinstance(tensor.op, Variable) and tensor.op.name in MASKS


def _assign(node: Assign, names: Names) -> Assign:
    level = _level(node.target.tensor, names)
    assert level is not None
    value = _checked_type(node.value)
    if node.op == Variable("initwrite"):
        node = replace(node, op=Call(Variable("initwrite"), (level.fill,)))
    row = operator(node.op)
    if row is None:
        raise FinchError("unknown name", "this is no operator", node.op.span or node.span)
    if value is None:
        return node
    target = level.element_type
    result = type_of(Call(node.op, (node.target, node.value), span=node.span))
    if result is not None and not can_store(result, target):
        message = f"a value of type {result} cannot be kept as {target}"
        raise FinchError("type", message, node.span, f"convert it, as in {target}(...)")
    return node


def _condition(node: Node) -> None:
    type = _checked_type(node)
    if type is not None and type != Bool:
        raise FinchError("type", f"a condition must be a Bool, not {type}", node.span)
    if isinstance(node, Literal) and not isinstance(node.value, bool):
        raise FinchError("type", "a condition must be a Bool", node.span)


def _checked_type(node: Node) -> Type | None:
    """The type of an expression, with an operator's complaint placed where it stands."""
    if isinstance(node, Call):
        for arg in node.args:
            _checked_type(arg)
        row = operator(node.op)
        if row is not None:
            low, high = row.arity
            if not low <= len(node.args) <= high:
                message = f"{row.name} takes {low if low == high else f'{low} to {high}'} arguments"
                raise FinchError("type", message, node.span)
    try:
        return type_of(node)
    except FinchError as error:
        raise error.at(node.span) from None
