"""The operations a rule or a level may ask of its host; `executing.py` performs, `recording.py` records."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from finchlang.base.errors import Span
from finchlang.host.ir import Buffer, Cell, Const, Expr, Var
from finchlang.syntax.types import Type


class Host(Protocol):
    """A host. Positions are Int64 and count from 0; `lower`/`upper` are facts for the prover."""

    def let(
        self, expr: Expr, name: str = "t", lower: Expr | None = None, upper: Expr | None = None
    ) -> Expr:
        """`expr` evaluated once: a variable, or `expr` itself if it is a constant or variable."""

    def load(
        self,
        buffer: Buffer,
        index: Expr,
        name: str = "v",
        type: Type | None = None,
        lower: Expr | None = None,
        upper: Expr | None = None,
    ) -> Expr:
        """buffer[index] now, cast to `type` if given."""

    def store(self, buffer: Buffer, index: Expr, value: Expr) -> None:
        """buffer[index] = value, cast to the buffer's type."""

    def cell(self, init: Expr, name: str = "c") -> Cell:
        """A new mutable cell holding `init`."""

    def get(self, cell: Cell, lower: Expr | None = None, upper: Expr | None = None) -> Expr:
        """What `cell` holds now."""

    def set(self, cell: Cell, value: Expr) -> None:
        """Change what `cell` holds."""

    def branch(
        self,
        condition: Expr,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        is_rare: bool = False,
    ) -> None:
        """Run one of the arms; only the possible one if the condition is constant. `is_rare` as in If."""

    def loop(
        self, condition: Callable[[], Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        """While `condition` holds, run `body`. `is_endless` as in While."""

    def count(self, start: Expr, stop: Expr, body: Callable[[Expr], None], name: str = "i") -> None:
        """Run `body` for each integer from `start` to `stop`, both included."""

    def grow(self, buffer: Buffer, size: Expr) -> None:
        """Make room for `size` entries."""

    def fill(self, buffer: Buffer, start: Expr, stop: Expr, value: Expr) -> None:
        """buffer[start .. stop - 1] = value."""

    def search(self, buffer: Buffer, start: Expr, stop: Expr, key: Expr, name: str = "q") -> Var:
        """The least position p in start..stop with p == stop or buffer[p] >= key."""

    def disjoint(
        self, buffer: Buffer, index: Expr, shift: Expr, other: Buffer, place: Expr
    ) -> Expr:
        """Whether none of buffer[index .. index + BLOCK - 1] + shift is one of
        other[place .. place + BLOCK - 1], as far as the bits tell that both types have."""

    def sort(self, buffer: Buffer, start: Expr, stop: Expr) -> None:
        """Sort buffer[start .. stop - 1]."""

    def sort_by(
        self,
        numbers: Buffer,
        scratch: Buffer,
        start: Expr,
        stop: Expr,
        keys: Buffer,
        bound: Expr,
    ) -> None:
        """Sort numbers[start .. stop - 1] by their keys, where n has keys[n] in 0..bound - 1, and
        equal ones stay in their order; `scratch`, with room for `stop`, is undefined afterwards."""

    def sort_bits(
        self, words: Buffer, scratch: Buffer, start: Expr, stop: Expr, low: Expr, high: Expr
    ) -> None:
        """Sort words[start .. stop - 1] (Int64) by their bits from `low` up to, not including, `high`,
        which is below 64; those that agree there stay in their order; `scratch` as in `sort_by`."""

    def share(
        self,
        key: Hashable,
        values: tuple[Expr, ...],
        cells: tuple[Cell, ...],
        body: Callable[[tuple[Expr, ...], tuple[Cell, ...]], None],
    ) -> None:
        """Run `body` on variables that hold `values`, of which nothing else is known, and on cells that
        stand for `cells`. What it does follows from `key`, so that it need be recorded only once."""

    def fail(
        self, kind: str, message: str, values: tuple[Expr, ...] = (), span: Span | None = None
    ) -> None:
        """Stop with a FinchError."""


def fail_unless(
    host: Host, holds: Expr, kind: str, message: str, values: tuple[Expr, ...], span: Span | None
) -> None:
    """Stop with a FinchError unless a condition holds."""
    if not (isinstance(holds, Const) and holds.value):
        host.branch(holds, lambda: None, lambda: host.fail(kind, message, values, span))
