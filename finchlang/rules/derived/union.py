"""The derived rule Union: what stands at one coordinate, or in one piece of a dimension, is told apart
only as far as it makes a difference. Code then grows linearly with the number of operands, where the
base rules tell all combinations of them apart."""

from __future__ import annotations

from typing import Any

from finchlang.algebra.simplify import is_scope, simplify
from finchlang.host.engine import Machine, Step, rule
from finchlang.host.interface import Host
from finchlang.levels.element import typed_literal
from finchlang.levels.looplets import AcceptRun, Choice, Lookup, Run, Sequence, Spike, Steps
from finchlang.rules.base import context
from finchlang.rules.base.expressions import evaluate
from finchlang.rules.base.loops import accept_run, lookup, loop, unfurl, unfurlable
from finchlang.rules.base.state import State
from finchlang.rules.derived.operand_choice import gives_tensors
from finchlang.rules.derived.union_at_a_point import Point
from finchlang.rules.derived.union_over_a_region import Region, as_lookup, is_of_runs_and_lookups
from finchlang.syntax import traversal as trees
from finchlang.syntax.nodes import EMPTY, Access, Assign, Block, Literal, Loop, Node
from finchlang.wrappers.masks import Mask


@rule(
    "Union",
    is_derived=True,
    says="Whether {access} has an entry at this place is decided here, and the result with it.",
)
def union(machine: Machine, term: Node, state: State) -> Step | None:
    """E[f(access(spike(z, tail), i), access(choice(c, body, z'), i), ...)] at one coordinate →
    if f is no literal: E[f(v, v', ...)], v being the tail if the spike ends here, else z;
    if f is z'': E[z'']; ...

    f being the largest expression with several of them whose cases are known. A `let` with cases goes where
    its name stands, if that is in one place. Statements that do not ask for just the same operands are done
    one after the other, once what several of them write to has been looked up. What is a tensor or a fill
    here goes undecided into the loops within, as one_of(c => tensor, ..., fill), unless nothing is left
    where it is the fill.
    Over a region of choices alone, if f is no literal: E[f(access(lookup(i ↦ choice(...)), i), ...)], with
    numbers that are the same everywhere read before. Relies on nothing but Simplify, which says what the
    cases of f are (see `cases`). Choices of tensors wait for what parts them: a mask of a loop within, as
    that of the rows in which blocks stand."""
    choices = context.find_all(term, Choice)
    tensors = [c for c in choices if gives_tensors(c)]
    waiting = _waiting(term, choices, state.host)
    if waiting is not None:
        return waiting, state
    apart = _apart(term)
    is_wide = context.bounded(term) is not None and context.point_of(term) is None
    if len(apart) > 1 and not is_wide:
        written = _written_twice(apart)
        if not written:
            for part in apart:
                machine.run(part, state.inside())
            return EMPTY, state
        if all(isinstance(target.tensor, (Lookup, AcceptRun)) for target in written):
            return _looked_up_once(machine, term, state, written), state
    if tensors:
        return _of_tensors(machine, term, state, tensors)
    if is_wide:
        assert isinstance(term, Loop)
        here = [a.tensor for a in context.accesses_in(term.body) if context.is_at(a, term.index)]
        wide = [c for c in choices if c in here]
        if wide:
            if context.find_all(term, Spike):
                return None  # runs, then what is at their end
            return Region(machine, term, state, wide).step()
    if choices or len(context.find_all(term, Spike)) > 1:
        return Point(machine, term, state, choices).step()
    return None


def _waiting(term: Node, choices: list[Choice], host: Host) -> Node | None:
    """The term at one coordinate with choices looked up, if a mask of a loop within parts those of tensors;
    else None."""
    at = context.point_of(term)
    if at is None or not isinstance(term, Loop):
        return None
    here = {id(a.tensor): a for a in context.accesses_in(term.body) if context.is_at(a, term.index)}
    own = [c for c in choices if id(c) in here and is_of_runs_and_lookups(c)]
    inner = [c for c in choices if gives_tensors(c) or (c in own and len(here[id(c)].indices) > 1)]
    is_free = not any(here[id(c)].captured for c in own)
    if not (own and inner and is_free and _is_parted_within(term, inner)):
        return None
    there = {id(c): as_lookup(c).body(host, at) for c in own}
    return context.put(term, there, consume=True)


def _apart(term: Node) -> list[Node]:
    """Statements, each with those that ask for just the same operands, in their order: the cases of others
    would be told apart within each of its cases. Two that go through the same steps stay together: the
    second would begin where the first one left them."""
    body = term.body if isinstance(term, Loop) else term
    if not isinstance(body, Block) or is_scope(body):
        return []
    groups: list[tuple[set[int], set[int], list[Node]]] = []
    for statement in body.statements:
        asked = [x for kind in (Choice, Spike) for x in context.find_all(statement, kind)]
        found = {id(x) for x in asked or context.find_all(statement, Lookup)}  # which may give one
        steps = (x for x in context.find_looplets(statement) if isinstance(x, (Steps, Sequence)))
        moving, own = {*map(id, steps)}, [statement]
        while groups and (
            not found or groups[-1][0] in (found, set()) or any(moving & g[1] for g in groups)
        ):
            before, moved, statements = groups.pop()
            found, moving, own = before | found, moved | moving, statements + own
        groups.append((found, moving, own))
    parts = [trees.block(*own) for _, _, own in groups]
    return [trees.replace(term, body=p) for p in parts] if isinstance(term, Loop) else parts


def _written_twice(parts: list[Node]) -> list[Access]:
    """The targets with indices of which several of the parts write to the tensor, one for each tensor."""
    found: list[dict[Node, Access]] = []
    for part in parts:
        targets = (n.target for n in trees.find_all(part, Assign))
        found.append({t.tensor: t for t in targets if t.indices})
    written = [tensor for part in found for tensor in part]
    known = {tensor: target for part in found for tensor, target in part.items()}
    return [target for tensor, target in known.items() if written.count(tensor) > 1]


def _looked_up_once(machine: Machine, term: Node, state: State, targets: list[Access]) -> Node:
    """The term with what is written looked up: it is entered, and left, once for all statements."""
    at, there = context.point_of(term), dict[int, Node]()
    for target in targets:
        index = target.indices[-1]
        is_here = isinstance(term, Loop) and index == term.index
        i = at if at is not None and is_here else evaluate(index, state, machine)
        x: Any = target.tensor
        there[id(x)] = x.body(state.host, *((i,) if isinstance(x, Lookup) else (i, i)))
    return context.put(term, there, consume=True)


def _of_tensors(machine: Machine, term: Node, state: State, tensors: list[Choice]) -> Step | None:
    """The step that tells choices of tensors apart, or one that leads to terms where fewer of them meet."""
    step = _where_nothing_is_left(machine, term, state)
    if step is None and isinstance(term, Loop) and _is_parted_within(term, tensors):
        step = _entered(machine, term, state) or _looked_up(machine, term, state)
        if step is None and any(context.find(term, kind) for kind in (Sequence, Steps)):
            return None
    if step is not None:
        return step
    for x in dict.fromkeys(a.tensor for a in context.accesses_in(term)):
        if _parts(term, x, tensors):
            if isinstance(x, Choice):
                return Point(machine, term, state, [x]).one_by_one()
            return _entered(machine, term, state) if isinstance(x, Mask) else None
    return Point(machine, term, state, tensors).step()


def _where_nothing_is_left(machine: Machine, term: Node, state: State) -> Step | None:
    """The step of a loop with nothing to look at, now or once other indices are done: everything it goes
    over is accepted whole, or it has one coordinate."""
    if not isinstance(term, Loop) or context.bounded(term) is None:
        return None
    here = [a for a in context.accesses_in(term.body) if term.index in a.indices]
    if not all(context.is_at(a, term.index) and isinstance(a.tensor, AcceptRun) for a in here):
        return None
    whole = accept_run.apply(machine, term, state) if here else None
    is_point = whole is None and context.point_of(term) is not None
    return loop.apply(machine, term, state) if is_point else whole


def _is_parted_within(term: Loop, tensors: list[Choice]) -> bool:
    """Whether a mask of a loop within parts the choices."""
    loops = ((loop, x) for loop in trees.find_all(term.body, Loop) for x in unfurlable(loop))
    masks = ((loop, x) for loop, x in loops if isinstance(x, Mask))
    return context.bounded(term) is not None and any(_parts(*mask, tensors) for mask in masks)


def _entered(machine: Machine, term: Node, state: State) -> Step | None:
    """What waits to be looked up, or else the loop's tensors as looplets."""
    return lookup.apply(machine, term, state) or unfurl.apply(machine, term, state)


def _looked_up(machine: Machine, term: Loop, state: State) -> Step | None:
    """The step of a loop with nothing but elements to look up."""
    here = [a for a in context.accesses_in(term.body) if term.index in a.indices]
    are_lookups = all(context.is_at(a, term.index) and isinstance(a.tensor, Lookup) for a in here)
    return loop.apply(machine, term, state) if are_lookups else None


def _parts(term: Node, divider: Node, tensors: list[Choice]) -> bool:
    """Whether a mask, a sequence of literals or another choice separates the choices of tensors: each of
    them is left in one of its cases alone."""
    match divider:
        case Mask() if isinstance(term, Loop) and divider in unfurlable(term):
            cases: list[Node] = [typed_literal(True), typed_literal(False)]
        case Sequence(phases):
            cases = [phase.body.body for phase in phases if isinstance(phase.body, Run)]
            if len(cases) < len(phases) or not all(isinstance(n, Literal) for n in cases):
                return False
        case Choice() if not gives_tensors(divider):
            cases = divider.nodes
        case _:
            return False

    def rest(case: Node) -> Node:
        return simplify(
            context.rewrite_accesses(
                lambda a: context.put_in(a, case, False) if a.tensor == divider else a, term
            )
        )

    left = [x for case in cases for x in context.find_looplets(rest(case)) if x in tensors]
    return len(left) == len(set(left))
