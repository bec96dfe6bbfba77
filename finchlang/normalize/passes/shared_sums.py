"""The sums pass: sums of sizes that occur in several places get names. The k-th part of a concatenation
begins where those before it end: without names its window would be a sum of k sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.normalize.schedule.nest_headers import within
from finchlang.syntax import nodes as ast, traversal as trees


def sums(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` with a `let` before all else for each sum of sizes, of tensors that keep their sizes, that
    occurs several times in wrappers or in single-iteration loops."""
    declared = {n.tensor.name for n in trees.find_all(program, ast.Declare)}
    counts, names = Counter[ast.Node](), dict[ast.Node, ast.Variable]()

    def counted(node: ast.Node) -> ast.Node:
        for child in trees.children(node):  # before the sum that it is a part of
            counted(child)
        counts.update([node] if _is_sum_of_sizes(node, declared) else [])
        return node

    def named(node: ast.Node) -> Any:
        return names.get(node) or trees.map_children(named, node)

    _changed(program, counted)
    context.reserve(program)
    lets = list[ast.Node]()
    for whole in [node for node, count in counts.items() if count > 1]:
        variable = ast.Variable(context.fresh("n"), span=whole.span)
        value = trees.map_children(named, whole)
        lets.append(ast.Define(variable, value, ast.EMPTY, span=whole.span))
        names[whole] = variable
    changed = _changed(program, named) if lets else program
    return trees.behind_lets(changed, lambda rest: within(lets, rest))


def _changed(node: ast.Node, change: Callable[[ast.Node], Any]) -> Any:
    """A program with the tensors in its accesses and the extents of single-iteration loops changed."""
    if isinstance(node, ast.Access) and isinstance(node.tensor, ast.Call):
        node = trees.replace(node, tensor=change(node.tensor))
    elif isinstance(node, ast.Loop) and ctx.is_single(node.extent):
        node = trees.replace(node, extent=change(node.extent))
    return trees.map_children(lambda child: _changed(child, change), node)


def _is_sum_of_sizes(node: ast.Node, declared: set[str]) -> bool:
    """Whether an expression is a sum, without differences, of sizes of tensors that are not declared."""
    found = list(affine.terms(node))
    sizes = [n for sign, n in found if sign > 0 and ctx.is_call(n, "size")]
    return len(sizes) == len(found) > 1 and declared.isdisjoint(n.args[0].name for n in sizes)
