"""Functions of the script as operators of kernels, as data: what they compute, and what is declared of
them (SparseArray'21 sections 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finchlang.syntax import Literal, Node


@dataclass(frozen=True, slots=True)
class Case(Node):
    """What a function is for some arguments: where those that are Literals here are these, and those
    that have the same name are equal, it is `result` of the others, by their names."""

    patterns: tuple[Node, ...]
    result: Node


@dataclass(frozen=True, slots=True)
class Laws(Node):
    """What a script declares of a function (SparseArray'21 sections 4 and 5).

    `properties` are names of `Operator`'s fields; an identity and annihilators are Literals, and an
    operator that it distributes over a Node, each with the argument that this is about, counted from
    1 (None: each). `region` is a set expression over names of the arguments, which stand before it.
    """

    properties: tuple[str, ...] = ()
    identity: tuple[Literal, int | None] | None = None
    annihilators: tuple[tuple[Literal, int | None], ...] = ()
    distributes: tuple[tuple[Node, int | None], ...] = ()
    inverse: Node | None = None
    cases: tuple[Case, ...] = ()
    region: tuple[tuple[Node, ...], Node] | None = None


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """A function of the script as an operator of kernels, whole: it stands where an operator does, as
    `op` of a Call or of an Assign.

    `body` is an expression of the parameters, or a Script whose ways all end in `return`. All other
    names in it are its own: numbers of the script around it are Literals there, and the functions it
    calls are Operations, as they were when the kernel was called. `script.closing` makes it.
    """

    name: str
    parameters: tuple[str, ...]
    body: Node
    laws: Laws = Laws()

    is_leaf: ClassVar[bool] = True  # the kernel's names are none of its own

    def __hash__(self) -> int:
        return hash((self.name, self.parameters))
