"""The derived rules Sought and Located: an operand without a say in where there is something to do is
searched there, or looked up, and not walked through."""

from __future__ import annotations

from typing import Any

from finchlang.host.fold import FALSE, compare
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import Blocks, Choice, Lookup, Stepper, Steps
from finchlang.rules.context import bounded, find_all, find_looplets, put
from finchlang.rules.derived import is_point, skips_gaps
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.pieces import MANY
from finchlang.syntax import Node


@rule("Sought", is_derived=True)
def sought(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[access(stepper, i), access(other, i)]) →
    loop(i, extent(a, b), E[access(stepper, i), access(lookup(seek, body), i)])

    where between the spikes of some stepper nothing is left to do, but between those of `other`, of
    which no two have one coordinate, there is: A / B, A && !M. Relies on: coordinates come in
    order, so that each search goes on from the last one; it takes steps in proportion to the entries
    of the former, times a logarithm. For a few operands, each of which is asked."""
    region = bounded(term)
    if region is None or region[0] is region[1]:
        return None
    found = [x for x in find_looplets(term) if not isinstance(x, Lookup)]
    if not 2 <= len(found) <= MANY or not all(isinstance(x, Steps) and x.positions for x in found):
        return None
    others = [x for x in found if not skips_gaps(machine, term, x, x.positions, state)]
    if len(others) == len(found) or not others or not all(map(_is_searched, others)):
        return None
    return put(term, {id(x): _lookup(state.host, x) for x in others}), state


@rule("Located", is_derived=True)
def located(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[access(steps, i), access(blocks, i)]) →
    loop(i, extent(a, b), E[access(steps, i), access(lookup(seek, body), i)])

    where between the entries of `steps` nothing is left to do. Relies on: what the blocks have can be
    looked up in any order."""
    if is_point(term):
        return None
    found = find_all(term, Steps)
    blocks = [x for x in found if isinstance(x, Blocks) and x.lookup is not None]
    leaders = [(x, x.positions or x.regions) for x in found if x not in blocks]
    if not blocks or not any(
        known and skips_gaps(machine, term, x, known, state) for x, known in leaders
    ):
        return None
    return put(term, {id(x): x.lookup for x in blocks if x.lookup}), state


def _is_searched(x: Steps) -> bool:
    return isinstance(x, Stepper) and x.positions is not None and x.positions.are_distinct


def _lookup(host: Host, x: Any) -> Lookup:
    """What `x` has at a coordinate, which is not before the one it was asked for last."""
    known = x.positions
    cell = host.cell(known.here(host), "q")

    def at(host: Host, i: Expr) -> Node:
        q = known.locate(host, host.get(cell), i)
        host.set(cell, q)
        hit = host.cell(FALSE, "hit")
        host.branch(
            compare("lt", q, known.stop),
            lambda: host.set(hit, compare("eq", known.coordinate(host, q), i)),
        )
        return Choice(((host.get(hit), known.tail(host, q, i)),), known.fill)

    return Lookup(at)
