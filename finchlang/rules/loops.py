"""The rules for loops and looplets (Finch'25 Fig 15, Looplets'23 section 6).

In these docstrings E[x] is a loop body in which the access with looplet x stands; a looplet that
stands in several accesses is one looplet, and is lowered once for all of them.
"""

from __future__ import annotations

from typing import Any

from finchlang.host.build import ONE, add, compare, maximum, op, sub
from finchlang.host.ir import Expr
from finchlang.looplets import (
    AcceptRun,
    Jumper,
    Lookup,
    Looplet,
    Phase,
    Run,
    Sequence,
    Shift,
    Spike,
    Stepper,
    Steps,
    Switch,
    Thunk,
    set_end,
)
from finchlang.rewrite import accesses, mentions, substitute, walk
from finchlang.rules.engine import (
    Machine,
    State,
    Step,
    bounds,
    find,
    find_all,
    find_looplets,
    is_at,
    put,
    rewrite_accesses,
    rule,
    with_bounds,
)
from finchlang.rules.expressions import evaluate, evaluate_extent, fail_unless, is_ready, resolve
from finchlang.rules.prove import at_most, greater, less_than, lesser
from finchlang.syntax import EMPTY, Access, Assign, Extent, Literal, Loop, Node, Value
from finchlang.tensors.level import READ, UPDATE


@rule("Extent")
def extent(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨a, s⟩ ⇒ a', ⟨b, s⟩ ⇒ b'  ⟹  ⟨loop(i, extent(a, b), body), s⟩ → ⟨loop(i, extent(a', b'), body), s⟩"""
    if not isinstance(term, Loop) or bounds(term) is not None or not _is_extent(term.extent):
        return None
    start, stop, _ = evaluate_extent(term.extent, state)
    return with_bounds(term, start, stop), state


def _is_extent(node: Any) -> bool:
    return is_ready(node) if isinstance(node, Extent) else all(map(_is_extent, node.args))


@rule("Thunk")
def thunk(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨preamble, t⟩⟩ → t', ⟨E[body], (e, t', d)⟩ → (e', t'', d), ⟨⟨epilogue, t''⟩⟩ → t'''  ⟹
    ⟨E[thunk(preamble, body, epilogue)], (e, t, d)⟩ → (e', t''', d)"""
    found = find(term, Thunk)
    if found is None:
        return None
    body, epilogue = found.preamble(state.host)
    rest = put(term, {id(found): body})
    if epilogue is None:
        return rest, state
    state = machine.run(rest, state)
    epilogue(state.host)
    return EMPTY, state


@rule("Phase")
def phase(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), E[access(phase(extent(c, d), body), j..., i)]), s⟩ →
    ⟨loop(i, extent(max(a, c), min(b, d)), E[access(body, j..., i)]), s⟩"""
    loop = _bounded(term)
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
        case Spike(body, tail, end):
            return Spike(body, tail, moved(end))
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
        case Steps(seek, stride, current, following, last):
            return type(node)(
                None if seek is None else lambda host, i: seek(host, sub(i, delta)),
                lambda host: add(stride(host), delta),
                lambda host: Shift(current(host), delta),
                following,
                moved(last),
            )
        case AcceptRun(accept):
            return AcceptRun(lambda host, a, b: accept(host, sub(a, delta), sub(b, delta)))
        case Shift(body, more):
            return Shift(body, add(delta, more))
    return node  # a Run, or payload


@rule("Switch")
def switch(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨cond, t⟩⟩ ⇒ true   ⟹  ⟨E[access(switch(cond, head, tail), i...)], s⟩ → ⟨E[access(head, i...)], s⟩
    ⟨⟨cond, t⟩⟩ ⇒ false  ⟹  ⟨E[access(switch(cond, head, tail), i...)], s⟩ → ⟨E[access(tail, i...)], s⟩
    (SwitchTrue, SwitchFalse)"""
    found = find(term, Switch)
    if found is None:
        return None
    state.host.branch(
        found.condition,
        machine.arm("SwitchTrue", put(term, {id(found): found.head}), state),
        machine.arm("SwitchFalse", put(term, {id(found): found.tail}), state),
    )
    return EMPTY, state


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
    loop = _bounded(term)
    found = find(term, Spike)
    if loop is None or found is None:
        return None
    start, stop = loop
    spikes = find_all(term, Spike)

    def at_end() -> None:
        # where a spike says nothing of its end, it is the end of this very region
        fixed = {id(s): Spike(s.body, s.tail, s.end or stop) for s in spikes}
        point = put(term, fixed)
        if start is not stop:
            runs = put(term, {id(s): Run(s.body) for s in spikes})
            machine.run(with_bounds(runs, start, sub(stop, 1)), state)
        _spike_point(machine, with_bounds(point, stop, stop), stop, state)

    _if_not_empty(state, start, stop, at_end)
    return EMPTY, state


def _spike_point(machine: Machine, term: Loop, at: Expr, state: State) -> None:
    """The single iteration at `at`: the first spike is at its end, or is a run still."""
    found = find(term, Spike)
    tail = put(term, {id(found): found.tail}, consume=True)
    body = put(term, {id(found): Run(found.body)})
    ended = compare("eq", found.end, at)
    state.host.branch(
        ended, lambda: _drop(machine.run(tail, state)), lambda: _drop(machine.run(body, state))
    )


def _drop(_: object) -> None:
    """Arms of a branch give nothing back."""


def _if_not_empty(state: State, start: Expr, stop: Expr, body: Any) -> None:
    if at_most(start, stop):
        body()
    elif not less_than(stop, start):
        state.host.branch(compare("le", start, stop), body)


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


@rule("Jumper")
def jumper(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨seek(a) of every jumper, t⟩⟩ → t', c = min(b, the largest stride),
    ⟨loop(i, extent(a, c), E[the leader's body, the others as steppers]), (e, t', d)⟩ → s'  ⟹
    ⟨loop(i, extent(a, b), E[jumper(seek, body, next)...]), (e, t, d)⟩ →
    ⟨loop(i, extent(c + 1, b), E[jumper(seek, body, next)...]), s'⟩

    The leader is the first jumper with the largest stride (Looplets'23 section 6, Table 2)."""
    loop = _bounded(term)
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

    _regions(state, first, last, region)
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
            id(j): Stepper(j.seek, j.stride, j.body, j.next, j.last, j.positions) for j in jumpers
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


def _regions(state: State, first: Expr, last: Expr, region: Any) -> None:
    """Run `region(start)`, which gives the end of the region it did, from `first` to `last`."""
    host = state.host
    if at_most(last, first):  # at most one coordinate
        _if_not_empty(state, first, last, lambda: _drop(region(first)))
        return
    cell = host.cell(first, "at")

    def body() -> None:
        # inside the loop its condition holds
        start = host.get(cell, lower=first, upper=last)
        host.set(cell, add(region(start), 1))

    host.loop(lambda: compare("le", host.get(cell), last), body)


@rule("StepperSeek")
def stepper_seek(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨seek(a), t⟩⟩ → t'  ⟹
    ⟨loop(i, extent(a, b), E[access(stepper(seek, body, next), j..., i)]), (e, t, d)⟩ →
    ⟨loop(i, extent(a, b), E[access(stepper(body, next), j..., i)]), (e, t', d)⟩"""
    loop = _bounded(term)
    found = next((s for s in find_all(term, Stepper) if s.seek is not None), None)
    if loop is None or found is None:
        return None
    start, stop = loop
    if start is not ONE:  # at the first coordinate of all a stepper stands where it should
        _if_not_empty(state, start, stop, lambda: found.seek(state.host, start))
    sought = Stepper(None, found.stride, found.body, found.next, found.last, found.positions)
    return put(term, {id(found): sought}), state


@rule("StepperNext")
def stepper_next(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, ext, E[access(body, j..., i)]), (e, t, d)⟩ → (e', t', d), ⟨⟨next, t'⟩⟩ → t''  ⟹
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), s⟩ →
    ⟨loop(i, ext, E[access(stepper(body, next), j..., i)]), (e', t'', d)⟩

    The region goes up to the smallest stride; each stepper that ends there moves on, once."""
    loop = _bounded(term)
    steppers = find_all(term, Stepper)
    if loop is None or not steppers:
        return None
    first, last = loop
    host = state.host
    is_point = first is last

    def region(start: Expr) -> Expr:
        strides = [host.let(s.stride(host), "stride") for s in steppers]
        stop = last
        for stride in strides:
            stop = stop if is_point else lesser(stop, stride)
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

    _regions(state, first, last, region)
    return EMPTY, state


def _advance(state: State, stepper: Stepper, stride: Expr, stop: Expr) -> None:
    state.host.branch(compare("eq", stride, stop), lambda: stepper.next(state.host))


@rule("Lookup")
def lookup(machine: Machine, term: Node, state: State) -> Step | None:
    """e(i) = i', ⟨⟨seek(i'), t⟩⟩ → t'  ⟹
    ⟨E[access(lookup(seek, body), j..., i)], (e, t, d)⟩ → ⟨E[access(body(i'), j...)], (e, t', d)⟩"""
    sites = [a for a in _bound_accesses(term) if isinstance(a.tensor, Lookup)]
    if not sites:
        return None
    found, at = sites[0].tensor, sites[0].indices[-1]
    assert isinstance(found, Lookup)
    payload = found.body(state.host, evaluate(at, state))

    def change(access: Access) -> Access:
        if access.tensor is found and access.indices[-1] == at:
            return Access(payload, access.indices[:-1], span=access.span, type=access.type)
        return access

    return rewrite_accesses(change, term), state


def _bound_accesses(term: Node) -> list[Access]:
    """The accesses whose last index has a value."""
    return [a for a in accesses(term) if a.indices and isinstance(a.indices[-1], (Literal, Value))]


@rule("AcceptRun")
def accept_run(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), E[assign(access(run(body), j..., i), op, rhs)]), s⟩ →
    ⟨loop(i, extent(a, b), E[sieve(i == a, assign(access(body, j..., i), op, rhs))]), s⟩

    where nothing else depends on i. With an index that has a value, the run is that one coordinate."""
    found = find(term, AcceptRun)
    if found is None:
        return None
    loop = _bounded(term)
    host = state.host
    if loop is None:
        sites = [a for a in _bound_accesses(term) if a.tensor is found]
        if not sites:
            return None
        at = evaluate(sites[0].indices[-1], state)
        return put(term, {id(found): found.body(host, at, at)}, consume=True), state
    assert isinstance(term, Loop)
    others = rewrite_accesses(lambda a: EMPTY if a.tensor is found else a, term.body)
    if mentions(others, term.index) or any(a is not found for a in find_looplets(term)):
        return None
    start, stop = loop

    def whole() -> None:
        payload = found.body(host, start, stop)
        machine.run(put(term.body, {id(found): payload}, consume=True), state)

    _if_not_empty(state, start, stop, whole)
    return EMPTY, state


@rule("Unfurl")
def unfurl(machine: Machine, term: Node, state: State) -> Step | None:
    """e(tns) ↦ tns', e(mode(tns)) ↦ m, ⟨⟨unfurl(tns', ext, m), t⟩⟩ ↦ tns''  ⟹
    ⟨loop(i, ext, E[access(tns, j..., i)]), s⟩ → ⟨loop(i, ext, E[access(tns'', j..., i)]), s⟩

    The extent must lie within the tensor's dimension; what cannot be proved is checked."""
    if not isinstance(term, Loop) or bounds(term) is None or _unfurlable(term) is None:
        return None
    rest: Any = term
    while (site := _unfurlable(rest)) is not None:  # every access with this index at once
        rest = _unfurl_site(rest, site, state)
    return rest, state


def _unfurl_site(term: Any, site: Access, state: State) -> Any:
    """`term` with the looplet of one tensor in all the accesses of this tensor at the loop's index."""
    region = bounds(term)
    assert region is not None
    tensor = resolve(site.tensor, state)
    size, stop = tensor.sizes()[-1], region[1]
    if size is not None:
        _check_range(term, site, size, region, state)
        if region[0] is not ONE or not at_most(size, stop):
            stop = size
    mode = UPDATE if _is_target(site, term) else READ
    looplet = tensor.unfurl(state.host, stop if size is not None else None, mode, None)

    def change(access: Access) -> Access:
        if access.tensor == site.tensor and is_at(access, term.index):
            return Access(looplet, access.indices, span=access.span, type=access.type)
        return access

    return rewrite_accesses(change, term)


def _unfurlable(term: Loop) -> Access | None:
    for found in accesses(term.body):
        if is_at(found, term.index) and not isinstance(found.tensor, Looplet):
            return found
    return None


def _is_target(site: Access, term: Node) -> bool:
    return any(isinstance(n, Assign) and n.target == site for n in walk(term))


def _check_range(
    term: Loop, site: Access, size: Expr, loop: tuple[Expr, Expr], state: State
) -> None:
    start, stop = loop
    if at_most(ONE, start) and at_most(stop, size):
        return
    inside = op("and", compare("le", ONE, start), compare("le", stop, size))
    if start is not stop:  # an empty extent is never outside
        inside = op("or", compare("gt", start, stop), inside)
    mode = len(site.indices)
    if start is stop:
        message, values = f"index {{}} of dimension {mode} is not in 1:{{}}", (start, size)
    else:
        message = f"the extent {{}}:{{}} is not within dimension {mode}, which is 1:{{}}"
        values = (start, stop, size)  # type: ignore[assignment]
    fail_unless(state.host, inside, "bounds", message, values, site.span or term.span)


@rule("Loop")
def loop(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, b), body), s⟩ →
    ⟨block(define(i, a, body), sieve(a < b, loop(i, extent(a + 1, b), body))), s⟩"""
    region = _bounded(term)
    if region is None:
        return None
    assert isinstance(term, Loop)
    start, stop = region

    def once(i: Expr) -> None:
        machine.run(substitute(term.body, {term.index: Value(i)}), state)

    if at_most(stop, start):  # at most one iteration
        _if_not_empty(state, start, stop, lambda: once(start))
    else:
        state.host.count(start, stop, once, term.index.name)
    return EMPTY, state


def _bounded(term: Node) -> tuple[Expr, Expr] | None:
    """The evaluated extent of a term that is a loop, else None."""
    return bounds(term) if isinstance(term, Loop) else None
