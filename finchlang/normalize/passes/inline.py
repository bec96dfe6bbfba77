"""The inline pass: functions of the script that are expressions, in the places where they are called,
so that structure decides in them as in what is written there. Expects wrappers, and dimensions."""

from __future__ import annotations

from finchlang.algebra.expression_types import is_there
from finchlang.algebra.program_context import ProgramContext
from finchlang.operators.operator_table import operator
from finchlang.syntax.nodes import Call, Node, Script, Variable
from finchlang.syntax.traversal import rewrite_bottom_up, substitute, walk
from finchlang.syntax.user_function import Laws, Operation

#: an expression of more parts than these stays a call: one of a call of a call grows with each
LARGEST = 500


def inline(program: Node, context: ProgramContext) -> Node:
    """`program` with calls of functions that are expressions as these, if they mean the same."""
    return rewrite_bottom_up(_inlined, program)


def has_functions(program: Node) -> bool:
    return any(isinstance(n, Operation) for n in walk(program))


def _inlined(node: Node) -> Node:
    if not isinstance(node, Call) or not isinstance(node.op, Operation):
        return node
    if node.op.laws != Laws():  # which its body need not show
        return node
    body, parameters = rewrite_bottom_up(_inlined, node.op.body), node.op.parameters
    if isinstance(body, Script):
        return node
    used = {n.name for n in walk(body) if isinstance(n, Variable)}
    # what is not needed is left out of an expression, but not of the arguments of a function
    is_strict = used.issuperset(parameters) and not any(map(_is_lazy, walk(body)))
    if not is_strict and not all(map(_is_certain, node.args)):
        return node
    bindings: dict[Node, Node] = dict(zip(map(Variable, parameters), node.args, strict=True))
    found = substitute(body, bindings)
    return found if sum(1 for _ in walk(found)) <= LARGEST else node


def _is_lazy(node: Node) -> bool:
    row = operator(node.op) if isinstance(node, Call) else None
    return row is not None and (row.lazy_missing or row.selects or row.short_circuits)


def _is_certain(node: Node) -> bool:
    """Whether an argument surely has a value: it is neither missing nor found by a loop."""
    rows = [operator(n.op) for n in walk(node) if isinstance(n, Call)]
    return is_there(node) and not any(row is not None and row.staged is not None for row in rows)
