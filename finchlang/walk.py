"""Generic walks over nodes: children, rebuild, substitute, and the free names of a term."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from operator import is_
from typing import Any

from finchlang.syntax import Access, Block, Define, Index, Literal, Loop, Node, Value, Variable

#: annotations of fields that never hold a node
_PLAIN = frozenset(("str", "str | None", "bool"))


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a kind of node, without its span."""
    return tuple(f.name for f in fields(kind) if f.name != "span")


@cache
def _child_fields(kind: Any) -> tuple[str, ...]:
    """The fields in which a kind of node may have children."""
    if kind in (Literal, Index, Variable, Value) or getattr(kind, "is_leaf", False):
        return ()
    plain = {f.name for f in fields(kind) if f.type in _PLAIN or f.name == "type"}
    return tuple(name for name in _fields(kind) if name not in plain)


def children(node: Node) -> list[Node]:
    """The nodes directly below `node`, left to right."""
    kind: Any = type(node)
    found: list[Node] = []
    for name in _child_fields(kind):
        value = getattr(node, name)
        if type(value) is tuple:
            found += [item for item in value if isinstance(item, Node)]
        elif isinstance(value, Node):
            found.append(value)
    return found


def map_children(function: Callable[[Node], Node], node: Node) -> Any:
    """`node` with `function` applied to each child; the very same object if no child changed."""
    changed: dict[str, Any] | None = None
    kind: Any = type(node)
    for name in _child_fields(kind):
        value = getattr(node, name)
        if type(value) is tuple:
            items = [function(v) if isinstance(v, Node) else v for v in value]
            if all(map(is_, items, value)):
                continue
            new: Any = tuple(items)
        elif not isinstance(value, Node) or (new := function(value)) is value:
            continue
        changed = changed or {}
        changed[name] = new
    return node if changed is None else replace(node, **changed)


def replace(node: Node, **changes: Any) -> Any:
    """A copy of `node` with some fields changed (and its span kept)."""
    kind: Any = type(node)
    values = {name: getattr(node, name) for name in _fields(kind)}
    values["span"] = node.span
    values.update(changes)
    return kind(**values)


def walk(node: Node) -> Iterator[Node]:
    """`node` and every node below it, parents first."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack += children(top)[::-1]


def rewrite_bottom_up(function: Callable[[Node], Node], node: Node) -> Any:
    """`function` applied to every node, children before parents."""
    return function(map_children(lambda child: rewrite_bottom_up(function, child), node))


def substitute(node: Node, bindings: dict[Node, Node]) -> Any:
    """`node` with every free occurrence of a key of `bindings` (an Index or Variable) replaced.

    Names are unique after the scopes pass, so nothing can be captured; a binder of the same name
    nevertheless shadows it.
    """
    if isinstance(node, (Index, Variable)) and node in bindings:  # hashing others is slow
        return bindings[node]
    if isinstance(node, Loop) and node.index in bindings:
        rest = {k: v for k, v in bindings.items() if k != node.index}
        extent = substitute(node.extent, bindings)
        return Loop(node.index, extent, substitute(node.body, rest), span=node.span)
    if isinstance(node, Define) and node.variable in bindings:
        rest = {k: v for k, v in bindings.items() if k != node.variable}
        value = substitute(node.value, bindings)
        return Define(node.variable, value, substitute(node.body, rest), span=node.span)
    if isinstance(node, (Loop, Define)):
        # the binder itself is not an occurrence
        parts = ("extent", "body") if isinstance(node, Loop) else ("value", "body")
        new = {p: substitute(getattr(node, p), bindings) for p in parts}
        if all(new[p] is getattr(node, p) for p in parts):
            return node
        return replace(node, **new)
    return map_children(lambda child: substitute(child, bindings), node)


def mentions(node: Node, name: Node) -> bool:
    """Whether the Index or Variable `name` occurs in `node`."""
    return any(n == name for n in walk(node) if isinstance(n, (Index, Variable)))


def accesses(node: Node) -> Iterator[Access]:
    """Every Access in `node`, parents first."""
    return (n for n in walk(node) if isinstance(n, Access))


def block(*statements: Node) -> Node:
    """The statements as one: nested blocks are flattened, a single statement stands for itself."""
    flat: list[Node] = []
    for statement in statements:
        if isinstance(statement, Block):
            flat.extend(statement.statements)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
