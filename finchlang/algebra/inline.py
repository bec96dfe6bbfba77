"""Inlining: the body of a function of the script in place of a call of it. The pass `inline` does it in a
whole program, so that Simplify and structure reach into functions; those with laws, which their bodies need
not show, stay calls there, until the law `definition` finds that structure decides in one."""

from __future__ import annotations

from finchlang.algebra.expression_types import is_there
from finchlang.algebra.program_context import ProgramContext
from finchlang.operators.operator_table import row_of
from finchlang.syntax.nodes import Call, Node, Script, Variable
from finchlang.syntax.traversal import find_all, rewrite_bottom_up, substitute, walk
from finchlang.syntax.user_function import Laws, Operation

#: an expression of more nodes stays a call: calls in arguments are copied, so that nested ones multiply
LARGEST = 500


def inline(program: Node, context: ProgramContext) -> Node:
    """`program` with calls of functions replaced by their bodies, where those mean the same."""
    return rewrite_bottom_up(_without_laws, program)


def has_functions(program: Node) -> bool:
    return any(find_all(program, Operation))


def _without_laws(node: Node) -> Node:
    has_laws = isinstance(node, Call) and isinstance(node.op, Operation) and node.op.laws != Laws()
    return node if has_laws else inlined(node)


def inlined(node: Node) -> Node:
    """The body of a function in place of a call of it, where it means the same; else `node` itself."""
    if not isinstance(node, Call) or not isinstance(node.op, Operation):
        return node
    body, parameters = rewrite_bottom_up(_without_laws, node.op.body), node.op.parameters
    if isinstance(body, Script):
        return node
    used = {n.name for n in find_all(body, Variable)}
    # an expression is evaluated as far as it is needed, but all arguments of a function are
    is_strict = used.issuperset(parameters) and not any(map(_is_lazy, walk(body)))
    if not is_strict and not all(map(_is_certain, node.args)):
        return node
    bindings: dict[Node, Node] = dict(zip(map(Variable, parameters), node.args, strict=True))
    found = substitute(body, bindings)
    return found if sum(1 for _ in walk(found)) <= LARGEST else node


def _is_lazy(node: Node) -> bool:
    row = row_of(node)
    return row.lazy_missing or row.selects or row.short_circuits


def _is_certain(node: Node) -> bool:
    """Whether an argument surely has a value: it is not missing, and calls no staged function."""
    return is_there(node) and not any(row_of(n).is_staged for n in walk(node))
