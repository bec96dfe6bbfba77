"""Derived rules: each replaces a pattern that the base rules would lower to slower code, and states
what it relies on. `--rules=paper` leaves them out."""

from __future__ import annotations

from finchlang.host.build import add, sub
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup, Stepper
from finchlang.rewrite import substitute
from finchlang.rules.breaks import run_regions, triggers
from finchlang.rules.engine import Machine, State, Step, bounds, drop, find_looplets, put, rule
from finchlang.rules.prove import at_most
from finchlang.rules.simplify import simplify
from finchlang.syntax import EMPTY, Loop, Node, Value


@rule("Positions", is_derived=True)
def positions(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[stepper over spikes at positions p..q - 1]) →
    loop(k, extent(p', q' - 1), E[tail(k)][i ↦ coordinate(k)])

    where p' is the first position at or after a, and q' the first after b. Relies on: the stepper is
    the only looplet besides lookups; between the spikes nothing is left to do (E[fill] simplifies to
    nothing); positions are in order of their coordinates. Over all the stepper's coordinates no
    coordinate is compared at all."""
    if not isinstance(term, Loop):
        return None
    region = bounds(term)
    looplets = find_looplets(term)
    steppers = [s for s in looplets if isinstance(s, Stepper)]
    if region is None or len(steppers) != 1 or region[0] is region[1]:
        return None
    stepper, known = steppers[0], steppers[0].positions
    if known is None or any(x is not stepper and not isinstance(x, Lookup) for x in looplets):
        return None
    if simplify(put(term, {id(stepper): known.fill}, consume=True)) != EMPTY:
        return None
    start, stop = region
    host = state.host
    first, end = known.start, known.stop
    if not at_most(start, stepper.first):
        first = known.locate(host, start)
    if stepper.last is None or not at_most(stepper.last, stop):
        end = known.locate(host, add(stop, 1))

    _over(machine, term, state, stepper, first, sub(end, 1))
    return EMPTY, state


def _over(
    machine: Machine, term: Loop, state: State, stepper: Stepper, first: Expr, last: Expr
) -> None:
    """The tails of `stepper` at positions first..last."""
    host, known = state.host, stepper.positions
    assert known is not None

    def once(q: Expr) -> Expr:
        i = known.coordinate(host, q)
        body = put(term.body, {id(stepper): known.tail(host, q, i)}, consume=True)
        machine.run(substitute(body, {term.index: Value(i)}), state)
        return q

    def rest(left: Loop, start: Expr) -> None:
        _over(machine, left, state, stepper, start, last)

    if triggers(term, state):
        run_regions(machine, term, state, first, last, once, rest)
    else:
        host.count(first, last, lambda q: drop(once(q)), "q")
