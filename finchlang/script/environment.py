"""Scopes: which names a script has bound, and where an assignment goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from finchlang.syntax import For, Function, Let, Node, Variable


class Environment:
    """A scope in another one, or the outermost (that of a file or the prompt).

    An inner scope owns the names it was made with: a function its parameters and what it assigns
    to, a `for` its variable. An assignment goes to the nearest scope that owns the name, and
    otherwise to the outermost one, so that a loop at top level changes global variables.
    """

    def __init__(self, parent: Environment | None = None, owned: Iterable[str] = ()):
        self.parent = parent
        self.owned = frozenset(owned)
        self.values: dict[str, Any] = {}

    def owner(self, name: str) -> Environment:
        """The scope that `name` belongs to."""
        scope = self
        while scope.parent is not None and name not in scope.owned:
            scope = scope.parent
        return scope

    def has(self, name: str) -> bool:
        return name in self.owner(name).values

    def get(self, name: str) -> Any:
        """What `name` is bound to; KeyError if it is not."""
        return self.owner(name).values[name]

    def set(self, name: str, value: Any) -> None:
        self.owner(name).values[name] = value

    def is_local(self, name: str) -> bool:
        """Whether a scope other than the outermost owns `name`."""
        return self.owner(name).parent is not None

    def names(self) -> Iterator[str]:
        """Every name visible here."""
        scope: Environment | None = self
        while scope is not None:
            yield from scope.values
            scope = scope.parent


def assigned_names(node: Node) -> set[str]:
    """The names a function's body assigns to, which are therefore local to it; those a nested
    function assigns to or a `for` runs over are their own."""
    match node:
        case Function(name):
            return {name}
        case For(variable, iterable, body):
            return assigned_names(iterable) | (assigned_names(body) - {variable})
        case Let(targets):
            own = {t.name for t in targets if isinstance(t, Variable)}
            return own | assigned_names(node.value)
    return {name for child in nodes_below(node) for name in assigned_names(child)}


def nodes_below(part: Any) -> Iterator[Node]:
    """The nodes directly below a node, also those in tuples of tuples."""
    for item in part if isinstance(part, tuple) else _fields(part):
        if isinstance(item, Node):
            yield item
        elif isinstance(item, tuple):
            yield from nodes_below(item)


def _fields(node: Node) -> tuple[Any, ...]:
    return tuple(getattr(node, f.name) for f in fields(node) if f.name != "span")
