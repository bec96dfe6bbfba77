"""The derived rule Together: operands of which each has something to do are walked along until the last of
them ends, and not anew wherever one of them ends."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from finchlang.host.fold import add, compare
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup, Phase, Run, Sequence, Spike, Stepper, Thunk
from finchlang.rules.context import Context, bounded, find_looplets
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.prove import greater, lesser
from finchlang.rules.simplify import is_nothing
from finchlang.syntax import Loop, Node
from finchlang.walk import walk


@rule("Together", is_derived=True, steps=("Together",))
def together(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨loop(i, extent(a, c), E[stepper'...]), s⟩ → s', c = min(b, the largest d)  ⟹
    ⟨loop(i, extent(a, b), E[sequence(phase(extent(_, d), stepper), run(body))...]), s⟩ →
    ⟨loop(i, extent(c + 1, b), E[run(body)...]), s'⟩

    A stepper' that has no position left has its stride behind c. Relies on: there are two or more
    of these sequences, and no looplets besides but lookups; each alone, with runs in place of the
    others, has something to do. There are loops inside: so what is done for each choice of those that
    have something at a coordinate is staged once, where Sequence has it again for each order in
    which they may end. (In innermost loops steppers that are not at their end are read without asking
    which of them are there, and Sequence has the quicker code.)"""
    region = bounded(term)
    if region is None or region[0] is region[1]:
        return None
    assert isinstance(term, Loop)
    found = [x for x in find_looplets(term) if not isinstance(x, Lookup)]
    if len(found) < 2 or not any(isinstance(node, Loop) for node in walk(term.body)):
        return None
    if not all(_is_listed(x) for x in found):
        return None
    E = Context(term, tuple(found))
    after = [x.phases[1].body for x in found]
    for k in range(len(found)):
        others = Context(term, tuple(found[:k] + found[k + 1 :]))
        alone = others.payload(*(run.body for run in after[:k] + after[k + 1 :]))
        if is_nothing(alone, state):
            return None
    host, (start, stop) = state.host, region
    end = host.let(reduce(greater, [x.phases[0].stop for x in found]), "end")
    steppers = [_endless(x.phases[0].body, end) for x in found]
    first = E.over(start, lesser(stop, end)).fill(*steppers)
    state = machine.premise("Together", term, first, state)
    rest = E.over(greater(start, add(end, 1)), stop).fill(*after)
    machine.tell("Together", lambda: (term, rest))
    return rest, state


def _is_listed(looplet: Node) -> bool:
    match looplet:
        case Sequence((Phase(Stepper() as steps, None, stop), Phase(Run(), None, None))):
            return steps.positions is not None and stop is not None
    return False


def _endless(steps: Stepper, end: Expr) -> Stepper:
    """The stepper with a stride after `end` where it has no position left."""
    known = steps.positions
    assert known is not None

    def stride(host: Host) -> Expr:
        q, found = known.here(host), host.cell(add(end, 1), "stride")

        def read() -> None:
            host.set(found, known.coordinate(host, q))

        host.branch(compare("lt", q, known.stop), read)
        return host.get(found)

    def body(host: Host) -> Node:
        q = known.here(host)
        payload = Thunk(lambda host: (known.tail(host, q, known.coordinate(host, q)), None))
        return Spike(known.fill, payload)

    return replace(steps, stride=stride, body=body, last=end, positions=None)
