"""A looplet nest of any kind as a cursor over its pieces: phase after phase and step after step, where the
base rules tell all combinations of phases apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations, zip_longest
from typing import Any

from finchlang.algebra.bounds import at_most, greater, lesser
from finchlang.base.records import record
from finchlang.host.construct import TRUE, add, compare, disjunction, op, sub
from finchlang.host.guarding import guarded
from finchlang.host.inspecting import scratch
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import Fiber
from finchlang.rules.derived.cursors import Cursor, Entered, Seen, entered, is_mask, plain
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.traversal import remembered


@remembered
def is_divided(nest: Node) -> bool:
    """Whether the base rules would divide a region of the loop into parts by this nest."""
    if not isinstance(nest, lp.Steps):
        return isinstance(nest, lp.Sequence) and len(nest.phases) > 1
    host = scratch()
    return not isinstance(entered(host, nest.body(host)), (lp.Run, lp.Spike))


def are_divided(nests: list[lp.Looplet]) -> bool:
    """Whether the base rules would divide the loop into too many parts: all combinations of phases of the
    nests, where it is not known which phase ends first."""
    found = [x for x in nests if is_divided(x)]
    if all(map(is_mask, found)):
        return False
    sequences = [x for x in found if isinstance(x, lp.Sequence)]
    stops = [[p.stop for p in x.phases[:-1] if p.stop is not None] for x in sequences]
    # Where no nest has steps, as windows in dense arrays, the first phase of one may end after the second
    # of another: the parts are fewer than combinations of what is there.
    are_all_places = len(sequences) == len(nests) and all(map(_has_no_steps, sequences))
    together = zip_longest(*stops) if are_all_places else [chain(*stops)]
    is_ordered = len(sequences) == len(found) and all(
        at_most(a, b) or at_most(b, a)
        for own in together
        for a, b in combinations([stop for stop in own if stop is not None], 2)
    )
    is_begun = any(x.phases[0].start for x in sequences)
    return bool(found) and not is_ordered and not is_begun


@remembered
def _has_no_steps(sequence: lp.Sequence) -> bool:
    """Whether all phases of a sequence are runs and lookups."""
    bodies = [entered(scratch(), phase.body) for phase in sequence.phases]
    return all(isinstance(body, (lp.Run, lp.Lookup)) for body in bodies)


@remembered
def leaves_nothing(nest: Node) -> bool:
    """Whether no thunk in a nest has an epilogue."""
    match plain(nest):
        case lp.Thunk(preamble):
            body, epilogue = preamble(scratch())
            return epilogue is None and leaves_nothing(body)
        case lp.Phase(body):
            return leaves_nothing(body)
        case lp.Sequence(phases):
            return all(map(leaves_nothing, phases))
        case lp.Switch(_, head, tail):
            return leaves_nothing(head) and leaves_nothing(tail)
        case lp.Steps() as steps:
            return leaves_nothing(steps.body(scratch()))
    return True


@record
class _Piece:
    """`looplet` goes on up to the coordinate `end`, where `when` holds."""

    when: Expr
    end: Expr
    looplet: Node


class Pieces(Cursor):
    """A nest that has something everywhere: at each coordinate the piece that goes on there."""

    fill = None

    def __init__(self, host: Host, nest: lp.Looplet, start: Expr, stop: Expr):
        self.nest, self.beyond = nest, add(stop, 1)
        found = Entered(host, nest, start, stop)
        self.plain, self.steps = found.nest, found.steps

    def stands_at(self, start: Expr) -> bool:
        return all(at_most(greater(start, first), steps.first) for steps, first in self.steps)

    def lasts_until(self, stop: Expr) -> bool:
        return True

    def seek(self, host: Host, i: Expr) -> None:
        for steps, first in self.steps:
            _seek(steps, host, greater(i, first))

    def is_left(self, host: Host, at: Expr | None) -> Expr:
        return TRUE

    def see(self, host: Host, beyond: Expr | None, at: Expr | None, is_uncut: bool) -> Seen:
        assert at is not None
        step = _Step(host, at, self.beyond, [steps for steps, _ in self.steps])
        found = list(step.pieces(self.plain, None, TRUE))
        is_spike = is_uncut and _is_spike_or_fill(found)
        if not is_spike:
            found = [p for piece in found for p in _without_spikes(piece, at)]
        ends = [(piece.when, piece.end) for piece in found]
        end = selected(host, ends[:-1], ends[-1][1], "end")

        def whole(host: Host) -> Node:
            return self._spike(host, found, end) if is_spike else _chosen(found)

        def go_on(host: Host, i: Expr | None) -> None:
            for steps, works, stride in step.working:
                done = op("and", works, compare("eq", stride, end))
                host.branch(done, partial(steps.next, host))

        return Seen(self.nest, at, end, None, whole, go_on)

    def _spike(self, host: Host, found: list[_Piece], last: Expr) -> lp.Spike:
        """Pieces of which one is a spike as one spike; where another piece goes on, it ends after the
        loop."""
        (piece,) = [p for p in found if isinstance(p.looplet, lp.Spike)]
        spike: Any = piece.looplet
        if len(found) == 1 and spike.end is piece.end:
            return lp.Spike(spike.body, spike.tail, last)
        end = selected(host, [(piece.when, spike.end)], self.beyond, "end")
        return lp.Spike(spike.body, spike.tail, end)


@dataclass
class _Step:
    """What goes on at the coordinate `at`, up to `beyond` if nothing ends it. `steps` have been sought;
    `working` lists steppers, the condition under which each is active, and its stride."""

    host: Host
    at: Expr
    beyond: Expr
    steps: list[lp.Steps]
    working: list[tuple[lp.Steps, Expr, Expr]] = field(default_factory=list)

    def pieces(self, node: Node, end: Expr | None, when: Expr) -> Iterator[_Piece]:
        """The pieces that may go on here, none beyond `end` if that is given; where `when` holds, the
        condition of one of them does."""
        host = self.host
        match plain(node):
            case lp.Thunk(preamble):
                inner, _ = preamble(guarded(host, when))
                yield from self.pieces(inner, end, when)
            case lp.Phase(body, _, stop):
                if stop is not None:
                    body, end = lp.set_end(body, stop), _lesser(end, stop)
                yield from self.pieces(body, end, when)
            case lp.Sequence((*phases, last)):
                for phase in phases:
                    assert phase.stop is not None
                    here = compare("le", self.at, phase.stop)
                    yield from self.pieces(phase, end, op("and", when, here))
                    when = op("and", when, op("not", here))
                yield from self.pieces(last, end, when)
            case lp.Switch(condition, head, tail):
                yield from self.pieces(head, end, op("and", when, condition))
                yield from self.pieces(tail, end, op("and", when, op("not", condition)))
            case lp.Steps() as steps:
                inside = guarded(host, when)
                if not any(steps is s for s in self.steps):
                    _seek(steps, inside, self.at)
                stride = host.let(steps.stride(inside), "stride")
                self.working.append((steps, when, stride))
                body = lp.set_end(steps.body(inside), stride)
                yield from self.pieces(body, _lesser(end, stride), when)
            case found:
                end = self.beyond if end is None else end
                yield _Piece(when, end, lp.set_end(found, end))


def _lesser(end: Expr | None, stop: Expr) -> Expr:
    return stop if end is None else lesser(end, stop)


def _seek(steps: lp.Steps, host: Host, i: Expr) -> None:
    if steps.seek is not None:  # else it has been sought
        steps.seek(host, i)


def _without_spikes(piece: _Piece, at: Expr) -> Iterator[_Piece]:
    """A piece at coordinate `at`; a spike is divided into its run and its tail."""
    spike = piece.looplet
    if not isinstance(spike, lp.Spike):
        yield piece
        return
    assert spike.end is not None  # by set_end
    before = compare("lt", at, spike.end)
    end = lesser(piece.end, sub(spike.end, 1))
    yield _Piece(op("and", piece.when, before), end, lp.Run(spike.body))
    yield _Piece(op("and", piece.when, op("not", before)), piece.end, lp.Run(spike.tail))


def _is_spike_or_fill(pieces: list[_Piece]) -> bool:
    """Whether one of the pieces is a spike, and the others runs of its body."""
    spikes = [p.looplet for p in pieces if isinstance(p.looplet, lp.Spike)]
    runs = [p.looplet.body for p in pieces if isinstance(p.looplet, lp.Run)]
    return len(spikes) == 1 == len(pieces) - len(runs) and all(r == spikes[0].body for r in runs)


def _chosen(pieces: list[_Piece]) -> Node:
    """The one of several looplets whose condition holds; runs of one literal are one."""
    runs: dict[str, tuple[Node, list[Expr]]] = {}
    options: list[tuple[Expr, Node]] = []
    for piece in pieces:
        match piece.looplet:
            case lp.Run(Literal() as fill):
                runs.setdefault(repr(fill), (piece.looplet, []))[1].append(piece.when)
            case found:
                options.append((piece.when, found))
    options += [(disjunction(*conditions), run) for run, conditions in runs.values()]
    return choose(options[:-1], options[-1][1])


def choose(options: list[tuple[Expr, Any]], otherwise: Any, is_stored: bool = False) -> Any:
    """The choice among several nodes; without options it is `otherwise` itself. Fibers of one level that
    differ in their positions alone, as a run and the elements beside it, are one."""
    apart: list[tuple[Expr, Node]] = []
    for when, node in options:
        if are_alike(node, otherwise):
            position = op("select", when, node.position, otherwise.position)
            otherwise = replace(otherwise, position=position)
        else:
            apart.append((when, node))
    return lp.Choice(tuple(apart), otherwise, is_stored) if apart else otherwise


def are_alike(node: Any, other: Any) -> bool:
    """Whether two nodes are fibers that differ in their positions alone."""
    are_fibers = isinstance(node, Fiber) and isinstance(other, Fiber)
    return are_fibers and replace(node, position=other.position) == other


def selected(host: Host, options: list[tuple[Expr, Expr]], otherwise: Expr, name: str) -> Expr:
    for condition, value in reversed(options):
        otherwise = op("select", condition, value, otherwise)
    return host.let(otherwise, name)
