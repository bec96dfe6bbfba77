"""Masks: Boolean tensors that are structure and nothing else, given as looplets (Finch'25 Table 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from finchlang.host.build import sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup, Phase, Run, Sequence
from finchlang.syntax import Literal, Node
from finchlang.tensors.element import typed_literal
from finchlang.tensors.level import TensorLike

_TRUE, _FALSE = typed_literal(True), typed_literal(False)


@dataclass(frozen=True, slots=True)
class Mask(TensorLike):
    """A mask over two dimensions without bounds; `column(j)` is the looplet of its column j."""

    name: str
    column: Callable[[Expr], Node]

    def __str__(self) -> str:
        return f"{self.name}()"

    def sizes(self) -> tuple[Expr | None, ...]:
        return (None, None)

    def fill_value(self) -> Literal | None:
        return _FALSE

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return Lookup(lambda host, j: MaskColumn(self.name, j, self.column))


@dataclass(frozen=True, slots=True)
class MaskColumn(TensorLike):
    """Column `j` of a mask."""

    name: str
    j: Expr
    column: Callable[[Expr], Node]

    def __str__(self) -> str:
        return f"{self.name}Col({self.j})"

    def sizes(self) -> tuple[Expr | None, ...]:
        return (None,)

    def fill_value(self) -> Literal | None:
        return _FALSE

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return self.column(self.j)


def _up_triangle(j: Expr) -> Node:
    """i <= j"""
    return Sequence((Phase(Run(_TRUE), stop=j), Phase(Run(_FALSE))))


def _diagonal(j: Expr) -> Node:
    """i == j"""
    before = Phase(Run(_FALSE), stop=sub(j, 1))
    return Sequence((before, Phase(Run(_TRUE), stop=j), Phase(Run(_FALSE))))


#: mask constructors by name: `UpTriMask()[i, j]` is i <= j, `DiagMask()[i, j]` is i == j
MASKS: dict[str, Mask] = {
    spelling: Mask(name, column)
    for name, column in (("UpTriMask", _up_triangle), ("DiagMask", _diagonal))
    for spelling in (name, name.lower())
}
