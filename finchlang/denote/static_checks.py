"""Modes and types that a program asks for, settled before it is denoted: modes from the order of its
statements (Finch'25 sections 4 and 5.5), types from the values of its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.denote.check_lifecycle import check_life_cycle
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import find_all, map_children, walk
from finchlang.syntax.types import type_of_value


def settled(program: ast.Node, bindings: Mapping[str, Any]) -> ast.Node:
    """`program` with the modes that it asks for as numbers, and typed names checked and made plain. Raises
    FinchError of kind type for a name whose value is of another type."""
    kinds = {type(n) for n in walk(program)}
    if kinds.isdisjoint((ast.Mode, ast.Typed)):
        return program
    asked = check_life_cycle(program) if ast.Mode in kinds else {}
    own = {n.variable.name for n in find_all(program, ast.Define)}

    def settle(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Variable) and node.name in ast.MODES:
            is_bound = node.name in own or node.name in bindings
            return node if is_bound else _number(node.name)
        if isinstance(node, ast.Mode):
            if type_of_value(bindings.get(node.tensor.name)) is not None:
                raise FinchError("type", f"{node.tensor.name} is a number, no tensor", node.span)
            return _number(asked[id(node)])
        if isinstance(node, ast.Typed):
            found = type_of_value(bindings.get(node.name.name))
            if found is None or found.name != node.kind:
                raise FinchError("type", f"{node.name.name} is no {node.kind}", node.span)
            return node.name
        return map_children(settle, node)

    return settle(program)


def _number(mode: str) -> ast.Literal:
    return ast.Literal(ast.MODES.index(mode), "UInt8")
