"""The rules for any number of looplets in a row: Jumper, StepperSeek, StepperNext (Finch'25 Fig 15,
Looplets'23 section 6).
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial, reduce

from finchlang.algebra.bounds import at_most, lesser
from finchlang.host import construct as code, ir
from finchlang.host.engine import Machine, Step
from finchlang.levels.looplets import Blocks, Jumper, Stepper, Steps, apart, set_end
from finchlang.rules.base.context import Context, looplet_rule
from finchlang.rules.base.early_exit import in_regions
from finchlang.rules.base.state import State, branches, if_not_empty


@looplet_rule(
    "Jumper",
    Jumper,
    in_loop=True,
    every=True,
    steps=("Jumper",),
    says="The loop over {index} jumps to the farthest of the next entries: before it nothing is to be done."
    " | The jump is done; the loop over {index} goes on after it.",
)
def jumper(machine: Machine, E: Context, state: State) -> Step:
    """⟨⟨seek(a) of every jumper, t⟩⟩ → t', c = min(b, the largest stride),
    ⟨loop(i, extent(a, c), E[the leader's body, the others as steppers]), (e, t', d)⟩ → s'  ⟹
    ⟨loop(i, extent(a, b), E[jumper(seek, body, next)...]), (e, t, d)⟩ →
    ⟨loop(i, extent(c + 1, b), E[jumper(seek, body, next)...]), s'⟩

    The leader is the first jumper with the largest stride (Looplets'23 section 6, Table 2). Blocks stay
    jumpers, since they are not cut, and in a block others may lead."""
    last, host, jumpers = E.region[1], state.host, E.holes

    def region(start: ir.Expr) -> ir.Expr:
        for j in jumpers:
            j.seek(host, start)
        strides = [host.let(j.stride(host), "stride") for j in jumpers]
        farthest = host.let(reduce(code.maximum, strides), "farthest")
        stop = host.let(lesser(last, farthest), "stop", lower=start)

        def lead(k: int) -> None:
            is_block = isinstance(jumpers[k], Blocks)  # in which others may lead
            followers = [
                j
                if is_block or isinstance(j, Blocks)
                else Stepper(*(getattr(j, f) for f in _STEPS))
                for j in jumpers
            ]
            bodies = [*followers[:k], set_end(jumpers[k].body(host), strides[k])]
            rest = E.over(start, stop).fill(*bodies, *followers[k + 1 :])
            machine.premise("Jumper", E.over(start, last).term, rest, state, start)

        leads = [code.compare("eq", stride, farthest) for stride in strides]
        *arms, (_, last_arm) = [(is_first, partial(lead, k)) for k, is_first in enumerate(leads)]
        branches(host, arms, last_arm)
        return stop

    return in_regions(machine, "Jumper", E.term, state, region), state


#: the fields that jumpers and steppers have in common
_STEPS = tuple(field.name for field in fields(Steps) if field.name != "span")


@looplet_rule(
    "StepperSeek",
    Stepper,
    in_loop=True,
    every=True,
    steps=("StepperSeek",),
    says="Find the first entry of {accesses} at or after {start}.",
)
def stepper_seek(machine: Machine, E: Context, state: State) -> Step | None:
    """⟨⟨seek(a), t⟩⟩ → t'  ⟹
    ⟨loop(i, extent(a, b), E[access(stepper(seek, body, next), j..., i)]), (e, t, d)⟩ →
    ⟨loop(i, extent(a, b), E[access(stepper(body, next), j..., i)]), (e, t', d)⟩"""
    found = tuple(s for s in E.holes if s.seek is not None)
    if not found:
        return None
    start, stop = E.region
    for s in found:
        if not at_most(start, s.first):  # else its first entry is the right one
            if_not_empty(state.host, start, stop, partial(s.seek, state.host, start))
    stood = [replace(s, seek=None) for s in found]
    return Context(E.term, found).each(machine, "StepperSeek", stood), state


@looplet_rule(
    "StepperNext",
    Stepper,
    in_loop=True,
    every=True,
    steps=("StepperNext",),
    says="Take {accesses} piece by piece; this is the first piece."
    " | Go on to the next stored entry of {accesses}.",
)
def stepper_next(machine: Machine, E: Context, state: State) -> Step:
    """⟨loop(i, ext, E[access(body, j..., i)]), (e, t, d)⟩ → (e', t', d), ⟨⟨next, t'⟩⟩ → t''  ⟹
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), s⟩ →
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), (e', t'', d)⟩

    All these steps of a loop are taken here, each over the region up to the smallest stride (the
    figure leaves the extents out); each stepper that ends there moves on, once."""
    (first, last), host = E.region, state.host
    is_point = first is last

    def region(start: ir.Expr) -> ir.Expr:
        # apart, since an arm that is derived late must not read what a later derivation notes in them
        steppers = [apart(s) for s in E.holes]
        strides = [host.let(s.stride(host), "stride") for s in steppers]
        stop = last if is_point else lesser(last, reduce(lesser, strides))
        stop = host.let(stop, "stop", lower=start)
        bodies = [set_end(s.body(host), end) for s, end in zip(steppers, strides, strict=True)]
        whole, part = E.over(start, last).term, E.over(start, stop).fill(*bodies)
        machine.premise("StepperNext", whole, part, state, start)
        if not is_point:  # what comes after a single coordinate seeks anyway
            for s, stride in zip(steppers, strides, strict=True):
                host.branch(code.compare("eq", stride, stop), partial(s.next, host))
        return stop

    return in_regions(machine, "StepperNext", E.term, state, region), state
