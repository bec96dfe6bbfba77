"""A recording host whose residual counts, as native code, how often each loop goes round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from finchlang.calls.runner import KernelEvent
from finchlang.host import ir
from finchlang.host.construct import ONE, add, const
from finchlang.host.engine import Machine, Rule, Step
from finchlang.host.recording import ResidualHost
from finchlang.rules.base.state import State
from finchlang.syntax import nodes as ast
from finchlang.syntax.types import Int64

#: a place in the source: its line, and what stands there
Place = tuple[int, str]


class CountingHost(ResidualHost):
    """A ResidualHost that adds one to an entry of `counts` in each round of a loop; `places` says for each
    entry which loop of the source it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = ir.Buffer("counts", Int64)
        self.places: list[Place] = []
        self._at: list[Place] = [(0, "of the compiler")]

    def noted(self, rule: Rule) -> Rule:
        """A rule that notes, while it is applied, which statement of the source that is for."""

        def apply(machine: Machine, term: ast.Node, state: State) -> Step | None:
            at = self._place(term)
            self._at.append(self._at[-1] if at is None else at)
            found = rule.apply(machine, term, state)
            self._at.pop()
            return found

        return replace(rule, apply=apply)

    @staticmethod
    def _place(term: ast.Node) -> Place | None:
        if term.span is None:
            return None
        if isinstance(term, ast.Loop):
            return term.span.line, f"for {term.index.name}"
        return term.span.line, term.span.source.line(term.span.line).strip()

    def _count(self) -> None:
        at = const(len(self.places), Int64)
        self.places.append(self._at[-1])
        self.store(self.counts, at, add(self.load(self.counts, at), ONE))

    def loop(
        self, condition: Callable[[], ir.Expr], body: Callable[[], None], is_endless: bool = False
    ) -> None:
        def counted() -> None:
            self._count()
            body()

        super().loop(condition, counted, is_endless)

    def count(
        self, start: ir.Expr, stop: ir.Expr, body: Callable[[ir.Expr], None], name: str = "i"
    ) -> None:
        def counted(variable: ir.Expr) -> None:
            self._count()
            body(variable)

        super().count(start, stop, counted, name)


def iterations(event: KernelEvent) -> dict[Place, int]:
    """How often the loops of a kernel go round, by their places in the source: all loops that one of the
    source has become are added up. It is run natively on copies of its arguments, so only while these are
    as they were given: before its first run. Raises FinchError as the kernel does."""
    host = CountingHost()
    event.stage(host, None, host.noted)
    counts = np.zeros(max(len(host.places), 1), np.int64)
    event.run_native(host, {host.counts: counts})
    found: dict[Place, int] = {}
    for place, count in zip(host.places, counts.tolist(), strict=False):
        found[place] = found.get(place, 0) + count
    return found
