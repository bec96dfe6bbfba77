"""The rules for looplets that divide a region: Phase, Shift, Run, Spike, Sequence (Finch'25 Fig 15,
Looplets'23 section 6).

In these docstrings E[x] is a loop body in which the access with looplet x stands; a looplet that
stands in several accesses is one looplet, and is lowered once for all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from finchlang.host.fold import add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import (
    AcceptRun,
    Lookup,
    Phase,
    Positions,
    Regions,
    Run,
    Sequence,
    Shift,
    Spike,
    Steps,
    Switch,
    Thunk,
    set_end,
)
from finchlang.rules.engine import (
    Machine,
    State,
    Step,
    bounded,
    drop,
    find,
    find_all,
    if_not_empty,
    put,
    rule,
    with_bounds,
)
from finchlang.rules.prove import greater, lesser
from finchlang.syntax import EMPTY, Loop, Node


@rule("Phase")
def phase(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), E[access(phase(extent(c, d), body), j..., i)]), s⟩ →
    ⟨loop(i, extent(max(a, c), min(b, d)), E[access(body, j..., i)]), s⟩"""
    loop = bounded(term)
    found = find(term, Phase)
    if loop is None or found is None:
        return None
    start, stop = loop
    body = set_end(found.body, found.stop)
    if found.start is not None:
        start = state.host.let(greater(start, found.start), "start")
    if found.stop is not None:
        stop = state.host.let(lesser(stop, found.stop), "stop")
    return put(with_bounds(term, start, stop), {id(found): body}), state  # type: ignore[arg-type]


@rule("Shift")
def shift(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[access(shift(body, delta), j..., i)]) →
    loop(i, extent(a, b), E[access(body', j..., i)]), body' being `body` moved by delta
    (Looplets'23 section 8)"""
    found = find(term, Shift)
    if found is None:
        return None
    return put(term, {id(found): _shifted(found.body, found.delta)}), state


def _shifted(node: Any, delta: Expr) -> Any:
    """A looplet with all its coordinates moved by `delta`."""

    def moved(end: Expr | None) -> Expr | None:
        return None if end is None else add(end, delta)

    match node:
        case Lookup(at):
            return Lookup(lambda host, i: at(host, sub(i, delta)))
        case Spike(_, _, end):
            return replace(node, end=moved(end))
        case Phase(body, start, stop):
            return Phase(Shift(body, delta), moved(start), moved(stop))
        case Sequence(phases):
            return Sequence(tuple(_shifted(p, delta) for p in phases))
        case Switch(condition, head, tail):
            return Switch(condition, Shift(head, delta), Shift(tail, delta))
        case Thunk(preamble):

            def enter(host: Any) -> Any:
                body, epilogue = preamble(host)
                return Shift(body, delta), epilogue

            return Thunk(enter)
        case Steps(seek, stride, current, _, last, positions, regions, first):
            return replace(
                node,
                seek=None if seek is None else lambda host, i: seek(host, sub(i, delta)),
                stride=lambda host: add(stride(host), delta),
                body=lambda host: Shift(current(host), delta),
                last=moved(last),
                positions=None if positions is None else _shifted_positions(positions, delta),
                regions=None if regions is None else _shifted_regions(regions, delta),
                first=add(first, delta),
            )
        case AcceptRun(accept):
            return AcceptRun(lambda host, a, b: accept(host, sub(a, delta), sub(b, delta)))
        case Shift(body, more):
            return Shift(body, add(delta, more))
    return node  # a Run, or payload


def _shifted_positions(known: Positions, delta: Expr) -> Positions:
    return replace(
        known,
        coordinate=lambda host, q: add(known.coordinate(host, q), delta),
        tail=lambda host, q, i: known.tail(host, q, sub(i, delta)),
        locate=lambda host, q, i: known.locate(host, q, sub(i, delta)),
    )


def _shifted_regions(known: Regions, delta: Expr) -> Regions:
    def region(host: Host, q: Expr) -> tuple[Expr, Expr, Node]:
        first, last, body = known.region(host, q)
        return add(first, delta), add(last, delta), Shift(body, delta)

    def locate(host: Host, q: Expr, i: Expr) -> Expr:
        return known.locate(host, q, sub(i, delta))

    return replace(known, region=region, locate=locate)


@rule("Run")
def run(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, ext, E[access(run(body), j..., i)]), s⟩ → ⟨loop(i, ext, E[access(body, j...)]), s⟩"""
    found = find(term, Run)
    if found is None:
        return None
    return put(term, {id(found): found.body}, consume=True), state


@rule("Spike")
def spike(machine: Machine, term: Node, state: State) -> Step | None:
    """A spike is a run, then a single value at its end:
    loop(i, extent(a, b), E[access(spike(body, tail), j..., i)]) →
    block(loop(i, extent(a, b - 1), E[access(run(body), j..., i)]), loop(i, extent(b, b), E[tail]))

    All spikes of the loop are runs up to b - 1. At b, each is at its end or not."""
    loop = bounded(term)
    found = find(term, Spike)
    if loop is None or found is None:
        return None
    start, stop = loop
    if start is stop and found.end is not None:
        _spike_point(machine, term, found, stop, state)  # type: ignore[arg-type]
        return EMPTY, state
    spikes = find_all(term, Spike)

    def at_end() -> None:
        # where a spike says nothing of its end, it is the end of this very region
        fixed = {id(s): replace(s, end=s.end or stop) for s in spikes}
        point = put(term, fixed)
        if start is not stop:
            runs = put(term, {id(s): Run(s.body) for s in spikes})
            machine.run(with_bounds(runs, start, sub(stop, 1)), state)
        machine.run(with_bounds(point, stop, stop), state)

    if_not_empty(state, start, stop, at_end)
    return EMPTY, state


def _spike_point(machine: Machine, term: Loop, found: Spike, at: Expr, state: State) -> None:
    """The single iteration at `at`: the first spike is at its end, or is a run still."""
    assert found.end is not None
    tail = put(term, {id(found): found.tail}, consume=True)
    body = put(term, {id(found): Run(found.body)})
    ended = compare("eq", found.end, at)
    state.host.branch(
        ended, lambda: drop(machine.run(tail, state)), lambda: drop(machine.run(body, state))
    )


@rule("Sequence")
def sequence(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, ext, E[access(head, j..., i)]), s⟩ → s'  ⟹
    ⟨loop(i, ext, E[access(sequence(head, tail), j..., i)]), s⟩ →
    ⟨loop(i, ext, E[access(tail, j..., i)]), s'⟩"""
    found = find(term, Sequence)
    if found is None:
        return None
    (head, *tail) = found.phases
    if not tail:
        return put(term, {id(found): head}), state
    state = machine.run(put(term, {id(found): head}), state)
    after = tail[0]
    if after.start is None and head.stop is not None:
        after = Phase(after.body, add(head.stop, 1), after.stop)
    return put(term, {id(found): Sequence((after, *tail[1:]))}), state
