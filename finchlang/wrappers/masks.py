"""Masks: Boolean tensors without storage, given as looplets (Finch'25 Table 5).

In its first index a mask is true on one interval, whose limits follow from the other indices and the
mask's arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.host.construct import add, is_natural, maximum, minimum, op, split_sum, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.element import typed_literal
from finchlang.levels.level import TensorLike
from finchlang.levels.looplets import Lookup, Run, amid
from finchlang.syntax.nodes import Call, Literal, Node, call
from finchlang.syntax.types import Int64

_TRUE, _FALSE = typed_literal(True), typed_literal(False)
Limits = tuple[Expr | None, Expr | None]


@record(eq=False)
class MaskKind:
    """A row of the table of masks: `name(parameters...)[i, ...]` is true for i from the first to the last
    of `limits(arguments, other indices)` (None: no limit). `shape(arguments)` gives the sizes of its
    modes as expressions of a program (None: a mode without bounds)."""

    name: str
    order: int
    limits: Callable[[tuple[Expr, ...], tuple[Expr, ...]], Limits]
    parameters: tuple[str, ...] = ()
    shape: Callable[[tuple[Node, ...]], tuple[Node | None, ...]] = lambda args: (None, None)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"


@record
class MaskValue:
    """The value of `UpTriMask()` or `splitmask(n, p)` in a script; in a kernel the mask takes the place
    of its name. Raises FinchError "type" for other arguments than integers."""

    name: str
    args: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        kind = MASKS[self.name]
        if len(self.args) != len(kind.parameters) or any(type(a) is not int for a in self.args):
            raise FinchError("type", f"a mask is made by {kind}, of integers")

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"

    @property
    def call(self) -> Call:
        return call(self.name, *(Literal(a) for a in self.args))


@record(slots=True)
class Mask(TensorLike):
    """A mask with its arguments, or the rest of one at `outer` indices; `dims` are the sizes left."""

    kind: MaskKind
    args: tuple[Expr, ...]
    dims: tuple[Expr | None, ...]
    outer: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        name = f"{self.kind.name}Col" if self.outer else self.kind.name
        return f"{name}({', '.join(map(str, (*self.args, *self.outer)))})"

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def fill_value(self) -> Literal | None:
        return _FALSE

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        if len(self.dims) > 1:
            rest = self.dims[:-1]
            return Lookup(lambda host, j: replace(self, dims=rest, outer=(j, *self.outer)))
        first, last = self.kind.limits(self.args, tuple(map(_between, self.outer)))
        first = first and host.let(first, "first")
        return amid(_FALSE, first, last and host.let(last, "last"), Run(_TRUE))


def _between(j: Expr) -> Expr:
    """An index with integers before and after it: no coordinate lies between it and the end of all."""
    base, _ = split_sum(j)
    if base is not None and is_natural(base):
        return j
    return minimum(maximum(j, Int64.lowest + 1), Int64.highest - 1)


def _split(args: tuple[Expr, ...], outer: tuple[Expr, ...]) -> Limits:
    (n, parts), (j,) = args, outer
    before = op("idiv", op("mul", n, sub(j, 1)), parts)
    return add(before, 1), op("idiv", op("mul", n, j), parts)


def _chunk(args: tuple[Expr, ...], outer: tuple[Expr, ...]) -> Limits:
    (n, length), (j,) = args, outer
    return add(op("mul", length, sub(j, 1)), 1), minimum(op("mul", length, j), n)


def _chunks(args: tuple[Node, ...]) -> tuple[Node | None, ...]:
    n, length = args
    rounded = call("-", call("+", *args), Literal(1))
    count = call("div", rounded, length)
    is_none = call("==", length, Literal(0))  # there are no chunks of length 0
    return n, call("ifelse", is_none, Literal(0), count)


_KINDS = (
    MaskKind("UpTriMask", 2, lambda args, outer: (None, outer[0])),
    MaskKind("LoTriMask", 2, lambda args, outer: (outer[0], None)),
    MaskKind("DiagMask", 2, lambda args, outer: (outer[0], outer[0])),
    MaskKind(
        "BandMask",
        3,
        # an empty band still ends no earlier than what is before it
        lambda args, outer: (outer[0], maximum(outer[1], sub(outer[0], 1))),
        shape=lambda args: (None, None, None),
    ),
    MaskKind("splitmask", 2, _split, ("n", "p"), lambda args: args),
    MaskKind("chunkmask", 2, _chunk, ("n", "b"), _chunks),
)
#: masks by name: `UpTriMask()[i, j]` is i <= j, `LoTriMask()[i, j]` i >= j, `DiagMask()[i, j]`
#: i == j, `BandMask()[i, j, k]` j <= i <= k; `splitmask(n, p)[i, j]`: whether i is in the j-th of p
#: nearly equal parts of 1:n, `chunkmask(n, b)[i, j]`: in the j-th of its chunks of length b
MASKS: dict[str, MaskKind] = {
    spelling: kind for kind in _KINDS for spelling in (kind.name, kind.name.lower())
}


def is_bare(name: str) -> bool:
    """Whether a name is a mask that takes no arguments, and so stands for `name()`."""
    return name in MASKS and not MASKS[name].parameters
