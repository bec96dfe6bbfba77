"""The sums pass: sums of sizes that occur in several places get names. The k-th part of a concatenation
begins where those before it end: without names its window would be a sum of k sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from finchlang.algebra.index_arithmetic import terms
from finchlang.algebra.program_context import ProgramContext, is_call, is_single
from finchlang.syntax.nodes import Access, Call, Declare, Define, Loop, Node, Variable
from finchlang.syntax.traversal import behind_lets, map_children, replace, walk


def sums(program: Node, context: ProgramContext) -> Node:
    """`program` with a `let` before all else for each sum of sizes, of tensors that keep their sizes, that
    occurs several times in wrappers or in single-iteration loops."""
    found = _Sums(program)
    context.reserve(program)
    values = list[tuple[Variable, Node]]()
    for number, whole in found.several():
        variable = Variable(context.fresh("n"), span=whole.span)
        values.append((variable, map_children(found.named, whole)))
        found.names[number] = variable

    def named(program: Node) -> Node:
        for variable, value in reversed(values):
            program = Define(variable, value, program, span=variable.span)
        return program

    return behind_lets(found.renamed(program), named) if values else program


class _Sums:
    """The sums of sizes in a program. Equal ones have one number; the parts of a sum have smaller ones."""

    def __init__(self, program: Node):
        self.declared = {n.tensor.name for n in walk(program) if isinstance(n, Declare)}
        self.numbers: dict[Any, int] = {}
        self.known: dict[int, tuple[Node, int | None]] = {}  # by identity, which a node keeps
        self.count: Counter[int] = Counter()
        self.sums: dict[int, Node] = {}
        self.names: dict[int, Node] = {}
        for n in walk(program):
            if isinstance(n, Access) and isinstance(n.tensor, Call):
                self.look(n.tensor)
            elif isinstance(n, Loop) and is_single(n.extent):
                self.look(n.extent)

    def look(self, node: Node) -> None:
        for n in walk(node):
            number = self.number(n) if _adds(n) else None
            if number is not None:
                self.count[number] += 1
                self.sums[number] = n

    def number(self, node: Node) -> int | None:
        """The number of a sum of sizes, or of a size; None of all else."""
        if id(node) not in self.known:
            self.known[id(node)] = node, self._number(node)
        return self.known[id(node)][1]

    def _number(self, node: Node) -> int | None:
        key: Any = None
        if isinstance(node, Call) and _adds(node):
            key = tuple(map(self.number, node.args))
        elif is_call(node, "size") and node.args[0].name not in self.declared:  # type: ignore
            key = node
        if key is None or (isinstance(key, tuple) and None in key):
            return None
        return self.numbers.setdefault(key, len(self.numbers))

    def several(self) -> list[tuple[int, Node]]:
        """The sums that occur more than once, by number, so that parts come first."""
        return [(k, self.sums[k]) for k in sorted(self.sums) if self.count[k] > 1]

    def named(self, node: Node) -> Any:
        number = self.number(node) if _adds(node) else None
        return self.names[number] if number in self.names else map_children(self.named, node)

    def renamed(self, node: Node) -> Any:
        """A program with names for its sums, in the same places as `__init__` counts them."""
        if isinstance(node, Access):
            node = replace(node, tensor=self.named(node.tensor))
        elif isinstance(node, Loop) and is_single(node.extent):
            node = replace(node, extent=self.named(node.extent))
        return map_children(self.renamed, node)


def _adds(node: Node) -> bool:
    """Whether an expression is a sum without differences."""
    signs = [sign for sign, _ in terms(node)]
    return len(signs) > 1 and min(signs) > 0
