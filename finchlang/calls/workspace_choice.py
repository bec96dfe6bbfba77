"""How many places workspaces span, as far as that is known before a call."""

from __future__ import annotations

from typing import Any

from finchlang.algebra.index_arithmetic import length, terms
from finchlang.algebra.program_context import reads, root
from finchlang.calls.workspace_exchange import Choice, Sum
from finchlang.normalize.pass_list import Normalized
from finchlang.syntax import nodes as ast, traversal as trees


def spans(program: ast.Node, normalized: Normalized) -> dict[str, Choice]:
    """For the workspaces of `program`, in normal form, with two formats to choose from: how many places
    they have in each mode, if that is known before it begins. One of several modes that is declared in a
    loop is left out: each declaration of its second format takes time in proportion to its places."""
    sizes, found, unknown = _KnownSizes(), dict[str, Choice](), set[str]()
    copied: dict[str, str] = {}  # the tensor that each transposed copy is of
    totals: dict[int, Sum | None] = {}  # of loops, by identity
    for node, around in trees.statements(program) if normalized.choices else ():
        loops = [totals[id(header)] for header in around if isinstance(header, ast.Loop)]
        match node:
            case ast.Define(variable, value):
                sizes.known[variable.name] = value
            case ast.Loop(_, extent):
                totals[id(node)] = sizes.extent(extent)
            case ast.Declare(tensor, _, dims):
                declared = sizes.declared[tensor.name] = tuple(map(sizes.extent, dims))
                known = tuple([total for total in declared if total is not None])
                is_choice = tensor.name in normalized.choices and len(known) == len(dims)
                if is_choice and (len(dims) == 1 or not loops):
                    found[tensor.name] = known, ()
                    if loops:
                        unknown.add(tensor.name)
            case ast.Assign(target, _, value):
                name = root(target.tensor)
                if name in found:
                    read = tuple(copied.get(n, n) for n in reads(node) if n != name)
                    known = tuple([size for size in loops if size is not None])
                    if len(known) < len(loops) or not normalized.tensors.keys() >= {*read}:
                        unknown.add(name)
                    found[name] = found[name][0], (*found[name][1], (known, read))
                if isinstance(value, ast.Access):
                    copied[str(name)] = str(root(value.tensor))
    return {name: (c[0], ()) if name in unknown else c for name, c in found.items()}


class _KnownSizes:
    """What is known at a place of a program: values of `let`, and dimensions of declared tensors."""

    def __init__(self) -> None:
        self.known: dict[str, ast.Node] = {}
        self.declared: dict[str, tuple[Sum | None, ...]] = {}

    def extent(self, node: Any) -> Sum | None:
        if isinstance(node, ast.Variable) and node.name in self.known:
            return self.extent(self.known[node.name])
        if ast.is_meet(node):  # all that meet agree
            return next((s for s in map(self.extent, node.args) if s is not None), None)
        return self.sum(length(node)) if isinstance(node, ast.Extent) else None

    def sum(self, node: Any) -> Sum | None:
        match node:
            case ast.Literal(int(value)):
                return ((value, "", 0),)
            case ast.Variable(name):
                known = self.known.get(name)
                return ((1, name, 0),) if known is None else self.sum(known)
            case ast.Call(ast.Variable("size"), (ast.Variable(name), ast.Literal(mode))):
                dims = self.declared.get(name)
                return ((1, name, mode),) if dims is None else dims[mode - 1]
        total: list[tuple[int, str, int]] = []
        for sign, term in terms(node):
            part = None if term is node else self.sum(term)
            if part is None:
                return None
            total += [(sign * factor, name, mode) for factor, name, mode in part]
        return tuple(total)
