"""The sums pass: sums of sizes that occur in several places get names. The k-th part of a concatenation
begins where those before it end: without names its window would be a sum of k sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.syntax import nodes as ast, traversal as trees


def sums(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` with a `let` before all else for each sum of sizes, of tensors that keep their sizes, that
    occurs several times in wrappers or in single-iteration loops."""
    found = _Sums(program)
    context.reserve(program)
    values = list[tuple[ast.Variable, ast.Node]]()
    for number, whole in found.several():
        variable = ast.Variable(context.fresh("n"), span=whole.span)
        values.append((variable, trees.map_children(found.named, whole)))
        found.names[number] = variable

    def named(program: ast.Node) -> ast.Node:
        for variable, value in reversed(values):
            program = ast.Define(variable, value, program, span=variable.span)
        return program

    return trees.behind_lets(found.renamed(program), named) if values else program


class _Sums:
    """The sums of sizes in a program. Equal ones have one number; the parts of a sum have smaller ones."""

    def __init__(self, program: ast.Node):
        self.declared = {n.tensor.name for n in trees.walk(program) if isinstance(n, ast.Declare)}
        self.numbers: dict[Any, int] = {}
        self.known: dict[int, tuple[ast.Node, int | None]] = {}  # by identity, which a node keeps
        self.count: Counter[int] = Counter()
        self.sums: dict[int, ast.Node] = {}
        self.names: dict[int, ast.Node] = {}
        for n in trees.walk(program):
            if isinstance(n, ast.Access) and isinstance(n.tensor, ast.Call):
                self.look(n.tensor)
            elif isinstance(n, ast.Loop) and ctx.is_single(n.extent):
                self.look(n.extent)

    def look(self, node: ast.Node) -> None:
        for n in trees.walk(node):
            number = self.number(n) if _adds(n) else None
            if number is not None:
                self.count[number] += 1
                self.sums[number] = n

    def number(self, node: ast.Node) -> int | None:
        """The number of a sum of sizes, or of a size; None of all else."""
        if id(node) not in self.known:
            self.known[id(node)] = node, self._number(node)
        return self.known[id(node)][1]

    def _number(self, node: ast.Node) -> int | None:
        key: Any = None
        if isinstance(node, ast.Call) and _adds(node):
            key = tuple(map(self.number, node.args))
        elif ctx.is_call(node, "size") and node.args[0].name not in self.declared:
            key = node
        if key is None or (isinstance(key, tuple) and None in key):
            return None
        return self.numbers.setdefault(key, len(self.numbers))

    def several(self) -> list[tuple[int, ast.Node]]:
        """The sums that occur more than once, by number, so that parts come first."""
        return [(k, self.sums[k]) for k in sorted(self.sums) if self.count[k] > 1]

    def named(self, node: ast.Node) -> Any:
        number = self.number(node) if _adds(node) else None
        return self.names[number] if number in self.names else trees.map_children(self.named, node)

    def renamed(self, node: ast.Node) -> Any:
        """A program with names for its sums, in the same places as `__init__` counts them."""
        if isinstance(node, ast.Access):
            node = trees.replace(node, tensor=self.named(node.tensor))
        elif isinstance(node, ast.Loop) and ctx.is_single(node.extent):
            node = trees.replace(node, extent=self.named(node.extent))
        return trees.map_children(self.renamed, node)


def _adds(node: ast.Node) -> bool:
    """Whether an expression is a sum without differences."""
    signs = [sign for sign, _ in affine.terms(node)]
    return len(signs) > 1 and min(signs) > 0
