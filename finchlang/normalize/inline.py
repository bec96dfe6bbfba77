"""The inline pass: functions of the script that are expressions, in the places where they are called,
so that the laws of the operators in them are seen."""

from __future__ import annotations

from finchlang.algebra import operator
from finchlang.normalize.context import Context, is_call, may_be_missing
from finchlang.syntax import (
    Access,
    Call,
    Index,
    Literal,
    Node,
    Operation,
    Script,
    Value,
    Variable,
    is_missing,
)
from finchlang.walk import accesses, rewrite_bottom_up, substitute, walk


def inline(program: Node, context: Context) -> Node:
    """`program` with calls of functions as expressions of what they are called with, where that is
    the same: nothing is computed twice, and nothing is left out that may be missing or fail."""
    return rewrite_bottom_up(_inlined, program)


def has_functions(program: Node) -> bool:
    return any(isinstance(n, Operation) for n in walk(program))


def _inlined(node: Node) -> Node:
    if not isinstance(node, Call) or not isinstance(node.op, Operation):
        return node
    body = rewrite_bottom_up(_inlined, node.op.body)
    if isinstance(body, Script):
        return node
    uses = [n.name for n in _values(body) if isinstance(n, Variable)]
    for name, arg in zip(node.op.parameters, node.args, strict=True):
        if not uses.count(name) or not _is_certain(arg):
            return node
        if uses.count(name) > 1 and not _is_read_once(arg):
            return node
    bindings: dict[Node, Node] = dict(
        zip(map(Variable, node.op.parameters), node.args, strict=True)
    )
    return substitute(body, bindings)


def _values(node: Node) -> list[Node]:
    """The parts of an expression that are values."""
    if not isinstance(node, Call):
        return [node]
    return [node, *(n for arg in node.args for n in _values(arg))]


def _is_read_once(node: Node) -> bool:
    """Whether what stands in several places is computed, or read, once nevertheless."""
    if isinstance(node, Access):
        return not any(isinstance(n, Call) for i in node.indices for n in walk(i))
    return isinstance(node, (Literal, Variable, Index, Value))


def _is_certain(node: Node) -> bool:
    """Whether an argument is surely there: its evaluation neither fails nor gives `missing`."""
    for part in walk(node):
        if is_missing(part):
            return False
        row = operator(part.op) if isinstance(part, Call) else None
        if row is not None and (row.undefined is not None or row.staged is not None):
            return False
    return not any(map(_may_be_missing, accesses(node)))


def _may_be_missing(access: Access) -> bool:
    loops = [sum(isinstance(n, Index) for n in walk(index)) for index in access.indices]
    is_free = any(is_call(n, "~") for index in access.indices for n in walk(index))
    return is_free or max(loops, default=0) > 1 or may_be_missing(access.tensor)
