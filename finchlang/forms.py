"""The nodes of scripts that open a scope in an expression, and of what is tried."""

from __future__ import annotations

from dataclasses import dataclass

from finchlang.syntax import Node


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """`x -> body`, `(x, y) -> body`; what follows a call's `do` is one with a Script."""

    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Broadcast(Node):
    """`op.(args...)`: a function of the elements."""

    op: Node
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`[value for names in iterables if condition]`, a loop for each iterable, whose entries are taken
    apart where there are several names; `is_grid` if each loop is a dimension."""

    value: Node
    names: tuple[tuple[str, ...], ...]
    iterables: tuple[Node, ...]
    condition: Node | None
    is_grid: bool


@dataclass(frozen=True, slots=True)
class Local(Node):
    """`let name = value, ... end`: the names are the body's own."""

    values: tuple[tuple[str, Node], ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Try(Node):
    """`try body catch name handler finally last end`; the name may be "", the others None."""

    body: Node
    name: str
    handler: Node | None
    last: Node | None
