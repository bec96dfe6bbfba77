"""Modes and types that a program asks for, settled before it is denoted: modes from the order of its
statements (Finch'25 sections 4 and 5.5), types from the values of its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.denote.shape_arithmetic import tensors_of
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import head, headed, map_children, replace, walk
from finchlang.syntax.types import type_of_value

READ, UPDATE = ast.MODES
Modes = dict[str, str]


def settled(program: ast.Node, bindings: Mapping[str, Any]) -> ast.Node:
    """`program` with the modes that it asks for as numbers, and typed names checked and made plain. Raises
    FinchError of kind type for a name whose value is of another type."""
    if not any(isinstance(n, (ast.Mode, ast.Typed)) for n in walk(program)):
        return program
    own = {n.variable.name for n in walk(program) if isinstance(n, ast.Define)}

    def settle(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Variable) and node.name in ast.MODES:
            is_bound = node.name in own or node.name in bindings
            return node if is_bound else _number(node.name)
        if isinstance(node, ast.Mode) and type_of_value(bindings.get(node.tensor.name)) is not None:
            raise FinchError("type", f"{node.tensor.name} is a number, no tensor", node.span)
        if isinstance(node, ast.Typed):
            found = type_of_value(bindings.get(node.name.name))
            if found is None or found.name != node.kind:
                raise FinchError("type", f"{node.name.name} is no {node.kind}", node.span)
            return node.name
        return map_children(settle, node)

    return _scope(settle(program), {})


def _number(mode: str) -> ast.Literal:
    return ast.Literal(ast.MODES.index(mode), "UInt8")


def _scope(node: ast.Node, modes: Modes) -> Any:
    """A scope, given the modes of tensors before it. A tensor that is declared, or updated by a statement,
    is in update mode from there on, until it is read."""
    if isinstance(node, ast.Define):
        return headed(node, _asked(node.value, modes), _scope(node.body, modes))
    if not isinstance(node, ast.Block):
        return _statement(node, modes)
    return replace(node, statements=tuple(_statement(s, modes) for s in node.statements))


def _statement(node: ast.Node, modes: Modes) -> Any:
    """A statement of the scope whose tensors have `modes`, which are changed."""
    match node:
        case ast.Declare(tensor):  # its initial value is computed before it is in update mode
            node = _asked(node, modes | {tensor.name: READ})
            modes[tensor.name] = UPDATE
        case ast.Thaw(tensor):
            modes[tensor.name] = UPDATE
        case ast.Freeze(tensor):
            modes[tensor.name] = READ
        case _:
            modes |= _uses(node)
    return _inside(node, modes)


def _inside(node: ast.Node, modes: Modes) -> Any:
    """A statement, with the modes that tensors have there."""
    if isinstance(node, ast.Block):
        return _scope(node, modes)
    if isinstance(node, (ast.Loop, ast.Sieve, ast.Define)):
        return headed(node, _asked(head(node), modes), _scope(node.body, dict(modes)))
    return _asked(node, modes)


def _asked(node: ast.Node, modes: Modes) -> Any:
    if isinstance(node, ast.Mode):
        return _number(modes.get(node.tensor.name, READ))
    return map_children(lambda child: _asked(child, modes), node)


def _uses(node: ast.Node) -> Modes:
    """The modes of the tensors that a statement reads or updates, without those that it declares."""
    declared = {n.tensor.name for n in walk(node) if isinstance(n, ast.Declare)}
    targets = [n.target for n in walk(node) if isinstance(n, ast.Assign)]
    updated = {t.name for target in targets for t in tensors_of(target.tensor)}
    accesses = [n for n in walk(node) if isinstance(n, ast.Access)]
    read = {t.name for access in accesses for t in tensors_of(access.tensor)} - updated
    modes = dict.fromkeys(read, READ) | dict.fromkeys(updated, UPDATE)
    return {name: mode for name, mode in modes.items() if name not in declared}
