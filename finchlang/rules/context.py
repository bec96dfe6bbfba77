"""E[...], the context in which looplets stand (Finch'25 Fig 15), as a rule's argument: what a rule
puts in their place, over which region, and at which coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.rules.engine import (
    Machine,
    Rule,
    State,
    Step,
    accesses_in,
    bounded,
    find,
    find_all,
    put,
    with_bounds,
)
from finchlang.rules.prove import greater, lesser
from finchlang.syntax import Literal, Node, Value
from finchlang.walk import substitute


class Context:
    """A term E[x, ...] with the looplets x, ... in it as its `holes`. A looplet that stands in several
    accesses is one hole, and is replaced in all of them."""

    __slots__ = ("term", "holes")

    def __init__(self, term: Any, holes: tuple[Any, ...]):
        self.term, self.holes = term, holes

    @property
    def hole(self) -> Any:
        """The looplet in the first hole."""
        return self.holes[0]

    @property
    def region(self) -> tuple[Expr, Expr]:
        """a and b of loop(i, extent(a, b), E[x])."""
        found = bounded(self.term)
        assert found is not None
        return found

    def all(self, kind: type[Any]) -> Context:
        """The same term, with all looplets of `kind` in it as holes."""
        return Context(self.term, tuple(find_all(self.term, kind)))

    def over(self, start: Expr, stop: Expr) -> Context:
        """loop(i, extent(start, stop), E[x])."""
        return Context(with_bounds(self.term, start, stop), self.holes)

    def within(self, host: Host, start: Expr | None, stop: Expr | None) -> Context:
        """loop(i, extent(max(a, start), min(b, stop)), E[x]); None is the region's own end."""
        a, b = self.region
        if start is not None:
            a = host.let(greater(a, start), "start")
        if stop is not None:
            b = host.let(lesser(b, stop), "stop")
        return self.over(a, b)

    def __getitem__(self, looplet: Node) -> Any:
        """E[access(looplet, j..., i)], in the first hole."""
        return put(self.term, {id(self.hole): looplet})

    def fill(self, *looplets: Node) -> Any:
        """E[access(looplet, j..., i), ...], in all holes."""
        return put(self.term, dict(zip(map(id, self.holes), looplets, strict=True)))

    def payload(self, *values: Node) -> Any:
        """E[access(value, j...), ...]: the last index has done its work and goes."""
        return put(self.term, dict(zip(map(id, self.holes), values, strict=True)), consume=True)

    def at(self, i: Expr, *values: Node) -> Any:
        """E[access(value, j...), ...] with the loop's body at coordinate i."""
        body = Context(self.term.body, self.holes).payload(*values) if values else self.term.body
        return substitute(body, {self.term.index: Value(i)})


def at_a_value(term: Node, kind: type[Any]) -> tuple[Context, Node] | None:
    """E[access(x, j..., i)] with the first looplet of `kind` for x whose i has a value, and that i."""
    for access in accesses_in(term):
        if isinstance(access.tensor, kind) and isinstance(access.indices[-1], (Literal, Value)):
            return Context(term, (access.tensor,)), access.indices[-1]
    return None


#: what a rule for looplets does: applied to E it gives what is left, or None
LoopletRule = Callable[[Machine, Context, State], Step | None]


def looplet_rule(
    name: str,
    kind: type[Any],
    in_loop: bool = False,
    every: bool = False,
    steps: tuple[str, ...] = (),
) -> Callable[[LoopletRule], Rule]:
    """Make a function the rule called `name` for E[x], x being the first looplet of `kind`, or with
    `every` for E[x, ...] with all of them; with `in_loop` only if the term is a loop over a known
    extent."""

    def make(function: LoopletRule) -> Rule:
        def apply(machine: Machine, term: Node, state: State) -> Step | None:
            found = find(term, kind)
            if found is None or (in_loop and bounded(term) is None):
                return None
            E = Context(term, tuple(find_all(term, kind)) if every else (found,))
            return function(machine, E, state)

        apply.__doc__ = function.__doc__
        return Rule(name, apply, steps=steps)

    return make
