"""The rules for looplets that divide a region: Phase, Shift, Run, Spike, Sequence (Finch'25 Fig 15,
Looplets'23 section 6).

In these docstrings E[x] is a loop body in which the access with looplet x stands; a looplet that
stands in several accesses is one looplet, and is lowered once for all of them.
"""

from __future__ import annotations

from dataclasses import replace

from finchlang.host.construct import add, compare, sub
from finchlang.host.engine import Arm, Machine, Step
from finchlang.levels.looplets import Phase, Run, Sequence, Shift, Spike, set_end, shifted
from finchlang.rules.base import context
from finchlang.rules.base.state import State, if_not_empty
from finchlang.syntax.nodes import EMPTY, Block


@context.looplet_rule(
    "Phase",
    Phase,
    in_loop=True,
    says="This part of the loop over {index} runs over {region}: there {access} is {was}.",
)
def phase(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨loop(i, extent(a, b), E[access(phase(extent(c, d), body), j..., i)]), s⟩ →
    ⟨loop(i, extent(max(a, c), min(b, d)), E[access(body, j..., i)]), s⟩"""
    c, d, body = E.hole.start, E.hole.stop, E.hole.body
    return E.within(state.host, c, d)[set_end(body, d)], state


@context.looplet_rule(
    "Shift",
    Shift,
    every=True,
    steps=("Shift",),
    says="{access} counts its places from another start: {is}.",
)
def shift(machine: Machine, E: context.Context, state: State) -> Step:
    """loop(i, extent(a, b), E[access(shift(body, delta), j..., i)]) →
    loop(i, extent(a, b), E[access(body', j..., i)]), body' being `body` moved by delta
    (Looplets'23 section 8)"""
    return E.each(machine, "Shift", [shifted(x.body, x.delta) for x in E.holes]), state


@context.looplet_rule(
    "Run",
    Run,
    every=True,
    steps=("Run",),
    says="Over this range {access} is {was}, so it no longer depends on {index}.",
)
def run(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨loop(i, ext, E[access(run(body), j..., i)]), s⟩ → ⟨loop(i, ext, E[access(body, j...)]), s⟩"""
    return E.each(machine, "Run", [x.body for x in E.holes], consume=True), state


@context.looplet_rule(
    "Spike", Spike, in_loop=True, steps=("Spike",), says="{access} is {was}. {case}."
)
def spike(machine: Machine, E: context.Context, state: State) -> Step:
    """A spike is a run, then a single value at its end:
    loop(i, extent(a, b), E[access(spike(body, tail), j..., i)]) →
    block(loop(i, extent(a, b - 1), E[access(run(body), j..., i)]), loop(i, extent(b, b), E[tail]))

    All spikes of the loop take the step at once: they are runs up to b - 1. At b each is at its end
    or not, which is asked of one after the other. (It stands in no figure; Table 2 and step 11 of
    Fig 18 say it.)"""
    start, stop = E.region
    if start is stop and E.hole.end is not None:
        ended = compare("eq", E.hole.end, stop)
        tail, body = E.payload(E.hole.tail), E[Run(E.hole.body)]
        arms = [Arm("Spike", E.term, x, state) for x in (tail, body)]
        return machine.branch(ended, *arms)
    spikes = E.all(Spike)

    def at_end() -> None:
        # a spike without an end of its own ends with this region
        point = spikes.over(stop, stop).fill(*(replace(s, end=s.end or stop) for s in spikes.holes))
        if start is stop:
            machine.tell("Spike", lambda: (E.term, point))
        else:
            runs = spikes.over(start, sub(stop, 1)).fill(*(Run(s.body) for s in spikes.holes))
            machine.tell("Spike", lambda: (E.term, Block((runs, point))))
            machine.run(runs, state)
        machine.run(point, state)

    if_not_empty(state.host, start, stop, at_end)
    return EMPTY, state


@context.looplet_rule(
    "Sequence",
    Sequence,
    says="The loop over {index} is cut in parts. In the first {access} is {first}."
    " | The loop over {index} goes on with the next part, where {access} is {is}.",
)
def sequence(machine: Machine, E: context.Context, state: State) -> Step:
    """⟨loop(i, ext, E[access(head, j..., i)]), s⟩ → s'  ⟹
    ⟨loop(i, ext, E[access(sequence(head, tail), j..., i)]), s⟩ →
    ⟨loop(i, ext, E[access(tail, j..., i)]), s'⟩"""
    (head, *tail) = E.hole.phases
    if not tail:
        return E[head], state
    state = machine.premise("Sequence", E.term, E[head], state)
    after = tail[0]
    if after.start is None and head.stop is not None:
        after = Phase(after.body, add(head.stop, 1), after.stop)
    return E[Sequence((after, *tail[1:]))], state
