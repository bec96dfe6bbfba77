"""The derived rule Union: what stands at one coordinate, or in one piece of a dimension, is told apart
only as far as it makes a difference. Code then grows linearly with the number of operands, where the
base rules tell all combinations of them apart."""

from __future__ import annotations

from finchlang.looplets import Choice, Spike
from finchlang.rules.context import accesses_in, bounded, find_all, is_at
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.joint_point import Point
from finchlang.rules.joint_region import Region
from finchlang.rules.one_of import gives_tensors
from finchlang.rules.regions import spike as spike_rule
from finchlang.syntax import Loop, Node


@rule("Union", is_derived=True)
def union(machine: Machine, term: Node, state: State) -> Step | None:
    """E[f(access(spike(z, tail), i), access(choice(c, body, z'), i), ...)] at one coordinate →
    if f is no literal: E[f(v, v', ...)], v being the tail if the spike ends here, else z;
    if f is z'': E[z'']; ...

    f being the largest expression with several of them whose cases are known. Over a region of
    choices alone, if f is no literal: E[f(access(lookup(i ↦ choice(...)), i), ...)]. Relies on
    nothing but Simplify, which says what the cases of f are (see `cases`)."""
    choices = find_all(term, Choice)
    region = bounded(term)
    tensors = [c for c in choices if gives_tensors(c)]
    if tensors:
        return Point(machine, term, state, tensors).step()
    if region is not None and region[0] is not region[1]:
        assert isinstance(term, Loop)
        wide = [c for c in choices if _is_over(c, term)]
        if wide:
            runs = spike_rule.apply(machine, term, state)
            return runs or Region(machine, term, state, wide).step()
    if choices or len(find_all(term, Spike)) > 1:
        return Point(machine, term, state, choices).step()
    return None


def _is_over(looplet: Node, loop: Loop) -> bool:
    """Whether a looplet stands at the index of a loop."""
    return any(a.tensor is looplet and is_at(a, loop.index) for a in accesses_in(loop.body))
