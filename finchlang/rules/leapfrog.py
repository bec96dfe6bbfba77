"""The derived rule Leapfrog: jumpers that leap over each other to where all of them have an entry."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from finchlang.host.fold import add, compare, conjunction, maximum
from finchlang.host.ir import Cell, Expr
from finchlang.looplets import Jumper, Lookup, Steps
from finchlang.rules.breaks import triggers
from finchlang.rules.context import Context, bounded, find_looplets
from finchlang.rules.derived import skips_gaps
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.leaving import asked_after
from finchlang.rules.prove import at_most, lesser
from finchlang.syntax import EMPTY, Loop, Node


@rule("Leapfrog", is_derived=True, steps=("Leapfrog",))
def leapfrog(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[jumper over spikes at positions p..q - 1, jumper over others, ...]) →
    while every jumper has a position left: i = the largest of their coordinates;
    if all are at i: E[tail, tail', ...], and all move on by one; else those behind leap to i

    Steppers may be among the jumpers; they move on by one. Relies on: there are no looplets but
    these and lookups; where one of them is between its spikes nothing is left to do; no two
    positions have one coordinate. A leap is one search, where by the rule Jumper the others seek
    once more. (T. Veldhuizen, Leapfrog Triejoin, ICDT 2014.)"""
    region, found = bounded(term), _leapers(term)
    if region is None or region[0] is region[1] or found is None:
        return None
    assert isinstance(term, Loop)
    if not all(skips_gaps(machine, term, x, x.positions, state) for x in found):
        return None
    if triggers(machine, term, state):
        return None
    E = Context(term, tuple(found))
    machine.tell("Leapfrog", lambda: (term, term))
    cells, ends = _positions(found, region, state)
    host = state.host
    is_left = asked_after(machine, term, state)

    def meet() -> None:
        positions = [host.get(cell) for cell in cells]
        coordinates = [
            x.positions.coordinate(host, q) for x, q in zip(found, positions, strict=True)
        ]
        farthest = host.let(reduce(maximum, coordinates), "farthest")

        def hit() -> None:
            at = coordinates[0]
            pairs = zip(found, positions, strict=True)
            body = E.at(at, *(x.positions.tail(host, q, at) for x, q in pairs))
            machine.tell("Loop", lambda: (term, body), at)
            machine.run(body, state.inside())
            for cell, q in zip(cells, positions, strict=True):
                host.set(cell, add(q, 1))
            is_left.ask()

        def leap(x: Any, cell: Cell, q: Expr) -> None:
            after: Expr = add(q, 1)
            if isinstance(x, Jumper):
                after = x.positions.locate(host, after, farthest)  # type: ignore[union-attr]
            host.set(cell, after)

        def leaps() -> None:
            for i, *what in zip(coordinates, found, cells, positions, strict=True):
                host.branch(compare("lt", i, farthest), partial(leap, *what))

        host.branch(conjunction(*(compare("eq", i, farthest) for i in coordinates)), hit, leaps)

    def all_are_left() -> Expr:
        pairs = zip(cells, ends, strict=True)
        any_left = (compare("lt", host.get(cell), end) for cell, end in pairs)
        return conjunction(*any_left, is_left.holds())

    host.loop(all_are_left, meet)
    return EMPTY, state


def _leapers(term: Node) -> list[Any] | None:
    """The jumpers and steppers of a loop that has no other looplets besides lookups, if there are
    several, a jumper among them, and all are over spikes of which no two have one coordinate."""
    found: list[Any] = [x for x in find_looplets(term) if not isinstance(x, Lookup)]
    if len(found) < 2 or not any(isinstance(x, Jumper) for x in found):
        return None
    for x in found:
        if not isinstance(x, Steps) or x.positions is None or not x.positions.are_distinct:
            return None
    return found


def _positions(
    found: list[Any], region: tuple[Expr, Expr], state: State
) -> tuple[list[Cell], list[Expr]]:
    """Cells with the first positions to look at, and the positions to stop before. Where nothing
    says that all entries are in the region, it is enough to find the last of one jumper."""
    host, (start, stop) = state.host, region
    cells = []
    for x in found:
        known, first = x.positions, x.positions.start
        if not at_most(start, x.first):
            first = known.locate(host, known.here(host), start)
        cells.append(host.cell(first, "q"))
    ends = [x.positions.stop for x in found]
    lasts = [x.last for x in found if x.last is not None]
    if not lasts or not at_most(reduce(lesser, lasts), stop):
        ends[0] = found[0].positions.locate(host, host.get(cells[0]), add(stop, 1))
    return cells, ends
