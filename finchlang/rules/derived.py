"""Derived rules: each replaces a pattern that the base rules would lower to slower code, and states
what it relies on. `--rules=paper` leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from finchlang.host.fold import add, compare, sub
from finchlang.host.ir import Expr
from finchlang.looplets import Blocks, Jumper, Lookup, Looplet, Positions, Stepper, Steps, Stored
from finchlang.rules.breaks import run_regions, triggers
from finchlang.rules.context import Context, bounded, find_all, find_looplets, put
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.leaving import count
from finchlang.rules.prove import at_most, greater, lesser
from finchlang.rules.simplify import counts_once, is_nothing, simplify
from finchlang.syntax import EMPTY, Assign, Extent, Index, Loop, Node, Sieve, Value
from finchlang.walk import accesses, mentions


@rule("Positions", is_derived=True, steps=("Positions",))
def positions(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[stepper over spikes at positions p..q - 1]) →
    loop(k, extent(p', q' - 1), E[tail(k)][i ↦ coordinate(k)])

    where p' is the first position at or after a, and q' the first after b. Relies on: the stepper is
    the only looplet besides lookups; between the spikes nothing is left to do (E[fill] simplifies to
    nothing), or an update that counts once (E[fill] is `update`): then sieve(q' - p' <= b - a, update)
    comes first; positions are in order of their coordinates. Over all the stepper's coordinates no
    coordinate is compared at all."""
    stepper, region = _sole_stepper(term), bounded(term)
    known = None if stepper is None else stepper.positions
    if stepper is None or known is None:
        return None
    update = _in_gaps(machine, term, stepper, known, state)
    if update is None:
        return None
    assert isinstance(term, Loop) and region is not None
    host, (start, stop) = state.host, region
    first, end = _between(region, state, stepper, known)
    if update != EMPTY:
        has_gaps = compare("le", sub(end or known.stop, first), sub(stop, start))
        machine.run(Sieve(Value(has_gaps), update), state.inside())

    def once(loop: Loop, q: Expr) -> None:
        i = known.coordinate(host, q)
        body = Context(loop, (stepper,)).at(i, known.tail(host, q, i))
        machine.tell("Loop", lambda: (loop, body), i)
        machine.run(body, state.inside())

    last = sub(end or known.stop, 1)
    machine.tell("Positions", lambda: (term, _by_position(term, first, last)))
    _over(machine, term, state, first, last, once)
    return EMPTY, state


@rule("Regions", is_derived=True, steps=("Regions",))
def regions(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[stepper over regions at positions p..q - 1]) →
    loop(k, extent(p', q'), loop(i, extent(max(a, first(k)), min(b, last(k))), E[body(k)]))

    where p' is the first position whose region ends at or after a, and q' the last, or the first
    whose region ends after b. Relies on what Positions does, of the gaps between the regions. Blocks
    lead other steppers, which go on in each region from where they are."""
    steps, region = _leader(machine, term, state), bounded(term)
    if steps is None:
        return None
    assert isinstance(term, Loop) and region is not None
    host, (start, stop), known = state.host, region, steps.regions
    first, end = _between(region, state, steps, known)
    is_whole = at_most(start, steps.first)  # nothing is before or after the region

    def once(loop: Loop, q: Expr) -> None:
        begin, behind, body = known.region(host, q)
        begin = begin if is_whole else greater(begin, start)
        behind = behind if end is None else lesser(behind, stop)
        inside = Context(loop, (steps,)).over(begin, behind)[body]
        machine.tell("Loop", lambda: (loop, inside), begin)
        run = partial(machine.run, inside, state)
        # the last may begin after b, where what is to be done before it is not known to be possible
        run() if end is None else if_not_empty(host, begin, behind, run)

    last = sub(known.stop, 1)
    if end is not None:
        has_gaps = known.fill is not None
        last = lesser(last, end if has_gaps else known.locate(host, first, stop))
    machine.tell("Regions", lambda: (term, _by_position(term, first, last)))
    _over(machine, term, state, first, last, once)
    return EMPTY, state


def _leader(machine: Machine, term: Node, state: State) -> Any:
    """What a loop goes through region by region, with nothing to do between them: its only stepper, or
    one of the jumpers, if all are over blocks."""
    sole = _sole_stepper(term)
    jumpers = [] if sole is not None or is_point(term) else find_all(term, Jumper)
    if not all(isinstance(x, Blocks) for x in jumpers):
        return None
    for x in jumpers or [sole]:
        if x and x.regions and skips_gaps(machine, term, x, x.regions, state):
            return x
    return None


def _by_position(term: Loop, first: Expr, last: Expr) -> Loop:
    """A loop over positions in place of coordinates, to be looked at."""
    return Loop(Index("q"), Extent(Value(first), Value(last)), term.body)


def _sole_stepper(term: Node) -> Stepper | None:
    """The stepper of a loop over several coordinates that has no other looplets besides lookups."""
    if is_point(term):
        return None
    others = [x for x in find_looplets(term) if not isinstance(x, Lookup)]
    return others[0] if len(others) == 1 and isinstance(others[0], Stepper) else None


def is_point(term: Node) -> bool:
    """Whether a term is no loop over several coordinates."""
    region = bounded(term)
    return region is None or region[0] is region[1]


def skips_gaps(machine: Machine, term: Node, looplet: Looplet, known: Stored, state: State) -> bool:
    """Whether between the entries of `looplet` nothing is left to do."""
    fill = known.fill
    return fill is None or is_nothing(put(term, {id(looplet): fill}, consume=True), state)


def _in_gaps(
    machine: Machine, term: Node, stepper: Stepper, known: Positions, state: State
) -> Node | None:
    """What is to be done once if there is something between the positions; None if that depends on
    where it is, or on how often, or on what else the loop does."""
    if skips_gaps(machine, term, stepper, known, state):
        return EMPTY
    assert isinstance(term, Loop)
    body = term.body
    if not isinstance(body, Assign) or not counts_once(body) or not known.are_distinct:
        return None
    gap = simplify(put(term, {id(stepper): known.fill}, consume=True))
    tensor = body.target.tensor
    is_read = any(access.tensor == tensor for access in accesses(body.value))
    is_placed = mentions(body.target, term.index)
    is_update = isinstance(gap, Sieve) and isinstance(gap.body, Assign)
    return gap if is_update and not (is_read or is_placed) else None


def _between(
    region: tuple[Expr, Expr], state: State, stepper: Steps, known: Stored
) -> tuple[Expr, Expr | None]:
    """The first position of `stepper` at or after the start of a region, and the first after its
    stop; None if the region goes on to the last."""
    start, stop = region
    first, end = known.start, None
    if not at_most(start, stepper.first):
        first = known.locate(state.host, known.here(state.host), start)
    if stepper.last is None or not at_most(stepper.last, stop):
        end = known.locate(state.host, first, add(stop, 1))
    return first, end


def _over(
    machine: Machine,
    term: Loop,
    state: State,
    first: Expr,
    last: Expr,
    once: Callable[[Loop, Expr], None],
) -> None:
    """A loop's part `once(term, q)` for each position q in first..last."""

    def part(q: Expr) -> Expr:
        once(term, q)
        return q

    def rest(left: Loop, start: Expr) -> None:
        _over(machine, left, state, start, last, once)

    if first is last:
        once(term, first)
    elif triggers(machine, term, state):
        run_regions(machine, term, state, first, last, part, rest)
    else:
        count(machine, term, state, first, last, lambda q: once(term, q), "q")
