"""The rules for any number of looplets in a row: Jumper, StepperSeek, StepperNext (Finch'25 Fig 15,
Looplets'23 section 6).
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from finchlang.host.fold import compare, maximum
from finchlang.host.ir import Expr
from finchlang.looplets import (
    Jumper,
    Stepper,
    set_end,
)
from finchlang.rules.breaks import run_regions
from finchlang.rules.engine import (
    Machine,
    State,
    Step,
    bounded,
    find_all,
    if_not_empty,
    put,
    rule,
    with_bounds,
)
from finchlang.rules.prove import at_most, lesser
from finchlang.syntax import EMPTY, Node


@rule("Jumper")
def jumper(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨seek(a) of every jumper, t⟩⟩ → t', c = min(b, the largest stride),
    ⟨loop(i, extent(a, c), E[the leader's body, the others as steppers]), (e, t', d)⟩ → s'  ⟹
    ⟨loop(i, extent(a, b), E[jumper(seek, body, next)...]), (e, t, d)⟩ →
    ⟨loop(i, extent(c + 1, b), E[jumper(seek, body, next)...]), s'⟩

    The leader is the first jumper with the largest stride (Looplets'23 section 6, Table 2)."""
    loop = bounded(term)
    jumpers = find_all(term, Jumper)
    if loop is None or not jumpers:
        return None
    first, last = loop
    host = state.host

    def region(start: Expr) -> Expr:
        for j in jumpers:
            j.seek(host, start)
        strides = [host.let(j.stride(host), "stride") for j in jumpers]
        farthest = strides[0]
        for stride in strides[1:]:
            farthest = maximum(farthest, stride)
        farthest = host.let(farthest, "farthest")
        stop = host.let(lesser(last, farthest), "stop", lower=start)
        _lead(machine, with_bounds(term, start, stop), jumpers, strides, farthest, state)  # type: ignore[arg-type]
        return stop

    run_regions(machine, term, state, first, last, region)  # type: ignore[arg-type]
    return EMPTY, state


def _lead(
    machine: Machine,
    term: Node,
    jumpers: list[Jumper],
    strides: list[Expr],
    farthest: Expr,
    state: State,
) -> None:
    """The region with the first jumper whose stride is the largest as its leader."""

    def choose(k: int) -> None:
        leader = jumpers[k]
        changes: dict[int, Any] = {
            id(j): Stepper(
                *(j.seek, j.stride, j.body, j.next, j.last, j.positions, j.regions, j.first)
            )
            for j in jumpers
        }
        changes[id(leader)] = set_end(leader.body(state.host), strides[k])
        machine.run(put(term, changes), state)

    def attempt(k: int) -> None:
        if k == len(jumpers) - 1:
            choose(k)
        else:
            leads = compare("eq", strides[k], farthest)
            state.host.branch(leads, lambda: choose(k), lambda: attempt(k + 1))

    attempt(0)


@rule("StepperSeek")
def stepper_seek(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨seek(a), t⟩⟩ → t'  ⟹
    ⟨loop(i, extent(a, b), E[access(stepper(seek, body, next), j..., i)]), (e, t, d)⟩ →
    ⟨loop(i, extent(a, b), E[access(stepper(body, next), j..., i)]), (e, t', d)⟩"""
    loop = bounded(term)
    found = next((s for s in find_all(term, Stepper) if s.seek is not None), None)
    if loop is None or found is None:
        return None
    start, stop = loop
    if not at_most(start, found.first):  # there a stepper stands where it should
        if_not_empty(state, start, stop, lambda: found.seek(state.host, start))
    sought = replace(found, seek=None)
    return put(term, {id(found): sought}), state


@rule("StepperNext")
def stepper_next(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, ext, E[access(body, j..., i)]), (e, t, d)⟩ → (e', t', d), ⟨⟨next, t'⟩⟩ → t''  ⟹
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), s⟩ →
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), (e', t'', d)⟩

    The region goes up to the smallest stride; each stepper that ends there moves on, once."""
    loop = bounded(term)
    steppers = find_all(term, Stepper)
    if loop is None or not steppers:
        return None
    first, last = loop
    host = state.host
    is_point = first is last

    def region(start: Expr) -> Expr:
        strides = [host.let(s.stride(host), "stride") for s in steppers]
        stop = last if is_point else lesser(last, reduce(lesser, strides))
        stop = host.let(stop, "stop", lower=start)
        bodies = {
            id(s): set_end(s.body(host), stride)
            for s, stride in zip(steppers, strides, strict=True)
        }
        machine.run(put(with_bounds(term, start, stop), bodies), state)  # type: ignore[arg-type]
        if not is_point:  # what comes after a single coordinate seeks anyway
            for s, stride in zip(steppers, strides, strict=True):
                _advance(state, s, stride, stop)
        return stop

    run_regions(machine, term, state, first, last, region)  # type: ignore[arg-type]
    return EMPTY, state


def _advance(state: State, stepper: Stepper, stride: Expr, stop: Expr) -> None:
    state.host.branch(compare("eq", stride, stop), lambda: stepper.next(state.host))
