"""The derived rule Pieces: of a loop with many looplet nests, each becomes one stepper over its
pieces, where the base rules tell all combinations of their phases apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from finchlang.host.fold import TRUE, add, compare, op, sub
from finchlang.host.guarded import guarded
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.host.scratch import scratch
from finchlang.looplets import (
    Choice,
    Looplet,
    Phase,
    Run,
    Sequence,
    Spike,
    Stepper,
    Steps,
    Switch,
    Thunk,
    set_end,
)
from finchlang.rules.absence import Absence, alternatives
from finchlang.rules.cases import disjunction
from finchlang.rules.context import Context, bounded, find_looplets, put
from finchlang.rules.cursors import plain
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.prove import at_most, lesser
from finchlang.rules.regions import divided
from finchlang.rules.simplify import simplify
from finchlang.syntax import (
    Access,
    Assign,
    Literal,
    Node,
)
from finchlang.walk import remembered, walk

#: with this many nests it is better not to tell apart the combinations of their phases
MANY = 4
#: so many operands of a product take too long one after the other
LONG = 8


@rule("Pieces", is_derived=True)
def pieces(machine: Machine, term: Node, state: State) -> Step | None:
    """loop(i, extent(a, b), E[access(nest, i)...]) → loop(i, extent(a, b), E[access(stepper, i)...])

    where each nest of phases and steppers becomes one stepper over its pieces: runs, spikes, lookups,
    or a choice of these. For four nests or more that leave E something to do beside their entries;
    otherwise E is taken apart into what it is in each phase. A sequence whose first phases have been
    run begins within the region, which is cut to that. But a mask that parts the nests into those of
    one phase and those of the others is divided first, as by Sequence. Relies on: the nests are read."""
    nests = _divided_nests(term, MANY)
    if len(nests) < MANY or not _are_unordered(nests):
        return None
    mask = next((x for x in find_looplets(term) if _parts(term, x, len(nests))), None)
    if mask is not None:
        return divided(machine, Context(term, (mask,)), state)
    cut = _ends_all(term, nests)
    nests = [x for x in nests if not any(x is other for other in cut)]
    if len(nests) < MANY:
        return None
    E = Context(term, ())
    for x in nests:
        if isinstance(x, Sequence):
            E = E.within(state.host, x.phases[0].start, None)
    flat = {id(x): _Pieces(state.host, x, E.region).stepper() for x in nests}
    return put(E.term, flat), state


def _parts(term: Node, mask: Node, count: int) -> bool:
    """Whether a looplet is a mask, and there are no more nests in all its phases together than the
    `count` there is in the term: each nest is in one of them."""
    fills = _fills(mask)
    if not isinstance(mask, Sequence) or len(fills) < len(mask.phases):
        return False
    E = Context(term, (mask,))
    left = [len(_divided_nests(simplify(E.payload(fill)), 1)) for fill in fills.values()]
    return sum(left) <= count


def _are_unordered(nests: list[Looplet]) -> bool:
    """Whether many of them may end before, or after, others. Of sequences it may be known which phase
    ends first, as of the parts of a whole: then there are no combinations to tell apart."""
    left = MANY - sum(not isinstance(x, Sequence) for x in nests)
    chains: list[list[Expr]] = []
    for stop in [p.stop for x in nests if isinstance(x, Sequence) for p in x.phases[:-1] if p.stop]:
        if len(chains) >= left:
            return True
        for chain in chains:
            if all(at_most(stop, other) or at_most(other, stop) for other in chain):
                chain.append(stop)
                break
        else:
            chains.append([stop])
    return len(chains) >= left


def _divided_nests(term: Node, least: int) -> list[Looplet]:
    """The nests that are read in a loop over several coordinates and by which the base rules would
    divide it, if there can be so many."""
    region = bounded(term)
    nests = [x for x in find_looplets(term) if isinstance(x, (Steps, Sequence))]
    if len(nests) < least or region is None or region[0] is region[1]:
        return []
    written = {id(n.target.tensor) for n in walk(term) if isinstance(n, Assign)}
    return [x for x in nests if id(x) not in written and _is_divided(x)]


@remembered
def _is_divided(nest: Node) -> bool:
    """Whether the base rules would divide a region of the loop into parts by this nest."""
    if not isinstance(nest, Steps) or isinstance(nest, OverPieces):
        return isinstance(nest, Sequence) and len(nest.phases) > 1
    return not isinstance(_preview(nest.body), (Run, Spike))


def _preview(make: Callable[[Host], Node]) -> Node:
    """The looplet that a nest goes on with, thunks entered: found by recording its code in vain."""
    host = scratch()
    found = make(host)
    while isinstance(found, Thunk):
        found = found.preamble(host)[0]
    return found


#: a nest, by its identity, in one of its phases
_Case = tuple[int, int]


def _fills(nest: Node, first: int = 0) -> dict[_Case, Literal]:
    """The literals that phases of a sequence, from the first on, are runs of."""
    bodies = [phase.body for phase in nest.phases[first:]] if isinstance(nest, Sequence) else []
    found = [(k, b.body) for k, b in enumerate(bodies, first) if isinstance(b, Run)]
    return {(id(nest), k): body for k, body in found if isinstance(body, Literal)}


def _ends_all(term: Node, nests: list[Looplet]) -> list[Node]:
    """The nests that have a run in which nothing is left to do of a term."""
    runs = [(x, fill) for x in nests for fill in _fills(x).values()]

    def fills(access: Access) -> Iterator[tuple[int, Node]]:
        return ((k, fill) for k, (nest, fill) in enumerate(runs) if nest is access.tensor)

    return [runs[k][0] for k in alternatives(Absence(fills).statement(term))]


@dataclass(frozen=True)
class _Piece:
    """Where `when` holds, `looplet` goes on up to the coordinate `end`."""

    when: Expr
    end: Expr
    looplet: Node


@dataclass(frozen=True, slots=True, eq=False)
class OverPieces(Stepper):
    """The stepper that a nest has become."""


class _Pieces:
    """A nest as one stepper. What it holds in cells is the coordinate where the current piece
    begins (or a later one within it), and where its steppers stand."""

    def __init__(self, host: Host, nest: Node, region: tuple[Expr, Expr]):
        self.nest = plain(nest)
        self.steps = list(_steps_in(self.nest))
        self.first, self.beyond = region[0], add(region[1], 1)
        self.at = host.cell(region[0], "at")
        #: of the step being made: the steppers at work, whether they are, and their strides
        self.working: list[tuple[Steps, Expr, Expr]] = []
        for steps in self.steps:
            if not at_most(self.first, steps.first):  # there a stepper stands where it should
                if_not_empty(host, *region, partial(_seek, steps, host, self.first))

    def stepper(self) -> Stepper:
        return OverPieces(self.seek, self.stride, self.body, self.next, first=self.first)

    def seek(self, host: Host, i: Expr) -> None:
        host.set(self.at, i)
        for steps in self.steps:
            _seek(steps, host, i)

    def stride(self, host: Host) -> Expr:
        self.working = []
        at = host.get(self.at)
        found = list(self._pieces(host, self.nest, at, self.beyond, TRUE))
        is_spike = _is_spike_or_fill(found)
        if not is_spike:
            found = [part for piece in found for part in _without_spikes(piece, at)]
        ends = [(piece.when, piece.end) for piece in found]
        self.end = selected(host, ends[:-1], ends[-1][1], "end")
        self.looplet = self._spike(host, found) if is_spike else _chosen(found)
        return self.end

    def body(self, host: Host) -> Node:
        return self.looplet

    def _spike(self, host: Host, found: list[_Piece]) -> Spike:
        """Pieces of which one is a spike as a spike, which does not end where they are runs."""
        (piece,) = [p for p in found if isinstance(p.looplet, Spike)]
        spike: Any = piece.looplet
        if spike.end is piece.end:
            return Spike(spike.body, spike.tail, self.end)
        end = selected(host, [(piece.when, spike.end)], self.beyond, "end")
        return Spike(spike.body, spike.tail, end)

    def next(self, host: Host) -> None:
        host.set(self.at, add(self.end, 1))
        for steps, works, stride in self.working:
            done = op("and", works, compare("eq", stride, self.end))
            host.branch(done, partial(steps.next, host))

    def _pieces(self, host: Host, node: Node, at: Expr, end: Expr, when: Expr) -> Iterator[_Piece]:
        """The pieces that may go on at coordinate `at` (and not beyond `end`), if `when` holds: then
        one of their conditions does."""
        match plain(node):
            case Thunk(preamble):
                inner, _ = preamble(guarded(host, when))
                yield from self._pieces(host, inner, at, end, when)
            case Phase(body, _, stop):
                if stop is not None:
                    body, end = set_end(body, stop), lesser(end, stop)
                yield from self._pieces(host, body, at, end, when)
            case Sequence((*phases, last)):
                for phase in phases:
                    assert phase.stop is not None
                    here = host.let(compare("le", at, phase.stop), "here")
                    yield from self._pieces(host, phase, at, end, op("and", when, here))
                    when = op("and", when, op("not", here))
                yield from self._pieces(host, last, at, end, when)
            case Switch(condition, head, tail):
                condition = host.let(condition, "is")
                yield from self._pieces(host, head, at, end, op("and", when, condition))
                when = op("and", when, op("not", condition))
                yield from self._pieces(host, tail, at, end, when)
            case Steps() as steps:
                inside = guarded(host, when)
                if not any(steps is s for s in self.steps):
                    _seek(steps, inside, at)
                stride = host.let(steps.stride(inside), "stride")
                self.working.append((steps, when, stride))
                body = set_end(steps.body(inside), stride)
                yield from self._pieces(host, body, at, lesser(end, stride), when)
            case found:
                yield _Piece(when, end, set_end(found, end))


def _seek(steps: Steps, host: Host, i: Expr) -> None:
    if steps.seek is not None:  # else it stands where it should
        steps.seek(host, i)


def _steps_in(nest: Node) -> Iterator[Steps]:
    match nest:
        case Steps():
            yield nest
        case Phase(body):
            yield from _steps_in(body)
        case Sequence(phases):
            for phase in phases:
                yield from _steps_in(phase)
        case Switch(_, head, tail):
            yield from _steps_in(head)
            yield from _steps_in(tail)


def _without_spikes(piece: _Piece, at: Expr) -> Iterator[_Piece]:
    """A piece that goes on at coordinate `at`, if it is a spike as the run or the tail of it."""
    spike = piece.looplet
    if not isinstance(spike, Spike):
        yield piece
        return
    assert spike.end is not None  # by set_end
    before = compare("lt", at, spike.end)
    end = lesser(piece.end, sub(spike.end, 1))
    yield _Piece(op("and", piece.when, before), end, Run(spike.body))
    yield _Piece(op("and", piece.when, op("not", before)), piece.end, Run(spike.tail))


def _is_spike_or_fill(pieces: list[_Piece]) -> bool:
    """Whether one of the pieces is a spike, and the others runs of its body."""
    spikes = [p.looplet for p in pieces if isinstance(p.looplet, Spike)]
    runs = [p.looplet.body for p in pieces if isinstance(p.looplet, Run)]
    return len(spikes) == 1 == len(pieces) - len(runs) and all(r == spikes[0].body for r in runs)


def _chosen(pieces: list[_Piece]) -> Node:
    """The one of several looplets whose condition holds; runs of one literal are one."""
    runs: dict[str, tuple[Node, list[Expr]]] = {}
    options: list[tuple[Expr, Node]] = []
    for piece in pieces:
        match piece.looplet:
            case Run(Literal() as fill):
                runs.setdefault(repr(fill), (piece.looplet, []))[1].append(piece.when)
            case found:
                options.append((piece.when, found))
    options += [(disjunction(*conditions), run) for run, conditions in runs.values()]
    return choose(options[:-1], options[-1][1])


def choose(options: list[tuple[Expr, Node]], otherwise: Node) -> Node:
    """The choice among several nodes, or the only one that there is."""
    return Choice(tuple(options), otherwise) if options else otherwise


def selected(host: Host, options: list[tuple[Expr, Expr]], otherwise: Expr, name: str) -> Expr:
    """The value of the option whose condition holds."""
    for condition, value in reversed(options):
        otherwise = op("select", condition, value, otherwise)
    return host.let(otherwise, name)
