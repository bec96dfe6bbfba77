"""The derived rule Leapfrog: jumpers and steppers that go on to where all of them have an entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from finchlang.host.fold import FALSE, ZERO, add, compare, conjunction, maximum, minimum, sub
from finchlang.host.interface import Host
from finchlang.host.ir import BLOCK, Expr
from finchlang.looplets import Jumper, Lookup, Positions, Stepper, Steps
from finchlang.rules.breaks import triggers
from finchlang.rules.context import Context, bounded, find_looplets
from finchlang.rules.derived import skips_gaps
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.leaving import asked_after
from finchlang.rules.pieces import LONG
from finchlang.rules.prove import at_most, lesser
from finchlang.syntax import EMPTY, Loop, Node


@rule("Leapfrog", is_derived=True, steps=("Leapfrog",))
def leapfrog(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[jumper or stepper over spikes at positions p..q - 1, ...]) →
    while all have a position left: i = the largest of their coordinates;
    if all are at i: E[tail, tail', ...], and all move on by one; else those behind leap to i

    Steppers move on by one; two of them pass over blocks that have nothing in common. Relies on:
    there are no looplets but these and lookups; where one of them is between its spikes nothing is
    left to do; no two positions have one coordinate. A leap is one search, where by the rule Jumper
    the others seek once more. (T. Veldhuizen, Leapfrog Triejoin, ICDT 2014.)"""
    region, found = bounded(term), _leapers(term)
    if region is None or region[0] is region[1] or found is None:
        return None
    assert isinstance(term, Loop)
    if not all(skips_gaps(machine, term, x, x.positions, state) for x in found):
        return None
    if triggers(machine, term, state):
        return None
    machine.tell("Leapfrog", lambda: (term, term))
    run = partial(_run, machine, term, state, found, region)
    if all(at_most(region[0], x.first) for x in found):
        run()
    else:  # in a region without coordinates nothing goes to its start
        if_not_empty(state.host, *region, run)
    return EMPTY, state


def _run(
    machine: Machine, term: Loop, state: State, found: list[Any], region: tuple[Expr, Expr]
) -> None:
    """The whole loop."""
    E = Context(term, tuple(found))
    known = [x.positions for x in found]
    ends = _ends(found, region, state)
    host = state.host
    is_left = asked_after(machine, term, state)

    def meet() -> None:
        positions = [x.here(host) for x in known]
        coordinates = [x.coordinate(host, q) for x, q in zip(known, positions, strict=True)]
        farthest = host.let(reduce(maximum, coordinates), "farthest")

        def hit() -> None:
            at = coordinates[0]
            pairs = zip(known, positions, strict=True)
            body = E.at(at, *(x.tail(host, q, at) for x, q in pairs))
            machine.tell("Loop", lambda: (term, body), at)
            machine.run(body, state.inside())
            for x, q in zip(known, positions, strict=True):
                x.go(host, add(q, 1))
            is_left.ask()

        def leaps() -> None:
            for x, q, i in zip(found, positions, coordinates, strict=True):
                host.branch(compare("lt", i, farthest), partial(_leap, host, x, q, farthest))

        host.branch(conjunction(*(compare("eq", i, farthest) for i in coordinates)), hit, leaps)

    def are_left() -> Expr:
        left = (compare("lt", x.here(host), end) for x, end in zip(known, ends, strict=True))
        return conjunction(*left, is_left.holds())

    is_blocked = len(found) == 2 and all(isinstance(x, Stepper) for x in found)
    is_blocked = is_blocked and all(x.listed is not None for x in known)
    host.loop(are_left, _by_blocks(host, known, ends, meet) if is_blocked else meet)


def _leap(host: Host, x: Any, q: Expr, farthest: Expr) -> None:
    """From position q, which is behind."""
    after: Expr = add(q, 1)
    known: Positions = x.positions
    known.go(host, known.locate(host, after, farthest) if isinstance(x, Jumper) else after)


def _by_blocks(
    host: Host, known: Sequence[Positions], ends: list[Expr], meet: Callable[[], None]
) -> Callable[[], None]:
    """`meet` for two, but where the first comes to a new block of positions: as long as this and the next
    block of the other have no coordinate in common, the one that ends first is passed over, or both.
    The last block ends with the list, and has been passed over in part; or it begins before the list,
    with what can at most be equal by chance."""
    (idx, delta), (other, other_delta) = (x.listed for x in known if x.listed is not None)
    shift = host.let(sub(delta, other_delta), "shift")
    block = host.cell(known[0].start, "block")  # where the first comes to a new one

    def pass_over() -> None:
        pairs = zip(known, ends, strict=True)
        stops = [host.let(minimum(add(x.here(host), BLOCK), end), "stop") for x, end in pairs]
        q, r = (sub(stop, BLOCK) for stop in stops)
        is_passed = host.cell(FALSE, "passed")

        def ask() -> None:
            host.set(is_passed, host.disjoint(idx, q, shift, other, r))

        def go_on() -> None:
            i, j = (x.coordinate(host, sub(q, 1)) for x, q in zip(known, stops, strict=True))
            are_first = compare("le", i, j), compare("le", j, i)
            for is_first, x, q in zip(are_first, known, stops, strict=True):
                host.branch(is_first, partial(x.go, host, q))

        host.branch(conjunction(compare("le", ZERO, q), compare("le", ZERO, r)), ask)
        host.branch(host.get(is_passed), go_on, partial(host.set, block, stops[0]))

    def step() -> None:
        host.branch(compare("ge", known[0].here(host), host.get(block)), pass_over, meet)

    return step


def _leapers(term: Node) -> list[Any] | None:
    """The jumpers and steppers of a loop that has no other looplets besides lookups, if there are
    several, and all are over spikes of which no two have one coordinate. Of many one is a jumper, as
    each is asked what is left to do without it."""
    found: list[Any] = [x for x in find_looplets(term) if not isinstance(x, Lookup)]
    if len(found) < 2 or (len(found) >= LONG and not any(isinstance(x, Jumper) for x in found)):
        return None
    for x in found:
        if not isinstance(x, Steps) or x.positions is None or not x.positions.are_distinct:
            return None
    return found


def _ends(found: list[Any], region: tuple[Expr, Expr], state: State) -> list[Expr]:
    """The positions to stop before, after all have gone to the start of a region. Where nothing says
    that all entries are in the region, it is enough to find the last of one."""
    host, (start, stop) = state.host, region
    for x in found:
        if not at_most(start, x.first):
            known = x.positions
            known.go(host, known.locate(host, known.here(host), start))
    ends = [x.positions.stop for x in found]
    lasts = [x.last for x in found if x.last is not None]
    if not lasts or not at_most(reduce(lesser, lasts), stop):
        known = found[0].positions
        ends[0] = known.locate(host, known.here(host), add(stop, 1))
    return ends
