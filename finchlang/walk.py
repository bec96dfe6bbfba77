"""Generic walks over nodes: children, rebuild, substitute, and the free names of a term."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from operator import is_
from typing import Any

from finchlang.syntax import Access, Block, Define, Index, Loop, Node, Variable

#: how the children in a field are read and mapped, by the field's annotation
_FORMS = {
    **dict.fromkeys(("Node", "Access", "Index", "Variable"), ("node.{0}", "function(node.{0})")),
    "Node | None": ("*([node.{0}] if node.{0} else ())", "node.{0} and function(node.{0})"),
    **dict.fromkeys(
        ("tuple[Node, ...]", "tuple[Variable, ...]"),
        ("*node.{0}", "tuple([function(x) for x in node.{0}])"),
    ),
    "tuple[Any, ...]": (  # of a text: plain strings are among them
        "*[x for x in node.{0} if isinstance(x, Node)]",
        "tuple([function(x) if isinstance(x, Node) else x for x in node.{0}])",
    ),
}


@cache
def _reader(kind: Any) -> Callable[[Node], list[Node]]:
    """`children` for one kind of node, written out field by field like a dataclass's methods (walks
    by getattr take 1.6 times as long)."""
    parts = [_FORMS[f.type][0].format(f.name) for f in _child_fields(kind)]
    return eval(f"lambda node: [{', '.join(parts)}]", {"Node": Node})


@cache
def _mapper(kind: Any) -> Callable[[Callable[[Node], Node], Node], Any] | None:
    """`map_children` for one kind of node, likewise; None if it has no children."""
    if not _child_fields(kind):
        return None
    new = {f.name: _FORMS[f.type][1].format(f.name) for f in _child_fields(kind)}
    lines = ["def map_children(function, node):"]
    lines += [f"    new_{name} = {mapped}" for name, mapped in new.items()]
    is_same = [
        f"all(map(is_, new_{f.name}, node.{f.name}))"
        if f.type.startswith("tuple")
        else f"new_{f.name} is node.{f.name}"
        for f in _child_fields(kind)
    ]
    values = [f"{n}={'new_' if n in new else 'node.'}{n}" for n in (*_fields(kind), "span")]
    lines += [
        f"    if {' and '.join(is_same)}: return node",
        f"    return kind({', '.join(values)})",
    ]
    names: dict[str, Any] = {"Node": Node, "is_": is_, "kind": kind}
    exec("\n".join(lines), names)
    return names["map_children"]


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a kind of node, without its span."""
    return tuple(f.name for f in fields(kind) if f.name != "span")


@cache
def _child_fields(kind: Any) -> tuple[Any, ...]:
    """The fields in which a kind of node may have children."""
    if getattr(kind, "is_leaf", False):
        return ()
    return tuple(f for f in fields(kind) if f.type in _FORMS)


def children(node: Node) -> list[Node]:
    """The nodes directly below `node`, left to right."""
    kind: Any = type(node)
    return _reader(kind)(node)


def map_children(function: Callable[[Node], Node], node: Node) -> Any:
    """`node` with `function` applied to each child; the very same object if no child changed."""
    kind: Any = type(node)
    mapper = _mapper(kind)
    return node if mapper is None else mapper(function, node)


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
        if below := children(top):
            below.reverse()
            stack += below


def rewrite_bottom_up(function: Callable[[Node], Node], node: Node) -> Any:
    """`function` applied to every node, children before parents."""
    return function(map_children(lambda child: rewrite_bottom_up(function, child), node))


def substitute(node: Node, bindings: dict[Node, Node]) -> Any:
    """`node` with every free occurrence of a key of `bindings` (an Index or Variable) replaced.

    Names are unique after the scopes pass, so nothing can be captured; a binder of the same name
    nevertheless shadows it.
    """
    match node:
        case Index() | Variable():
            return bindings.get(node, node)
        case Loop(index, extent, body) if index in bindings:
            rest = {k: v for k, v in bindings.items() if k != index}
            new = substitute(extent, bindings), substitute(body, rest)
            return Loop(index, *new, span=node.span)
        case Define(variable, value, body) if variable in bindings:
            rest = {k: v for k, v in bindings.items() if k != variable}
            new = substitute(value, bindings), substitute(body, rest)
            return Define(variable, *new, span=node.span)
    return map_children(lambda child: substitute(child, bindings), node)


def mentions(node: Node, name: Any) -> bool:
    """Whether the Index or Variable `name` occurs in `node`."""
    kind, text = type(name), name.name
    found: Iterator[Any] = walk(node)
    return any(type(n) is kind and n.name == text for n in found)


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
