"""Looplet nests as cursors: entries in order, with fill between and after them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from finchlang.algebra.bounds import at_most, greater, lesser
from finchlang.base.errors import Bug
from finchlang.base.records import record
from finchlang.host.construct import ONE, TRUE, ZERO, add, compare, maximum, minimum, op
from finchlang.host.guarding import guarded
from finchlang.host.inspecting import scratch
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import looplets as lp
from finchlang.syntax.nodes import Literal, Node
from finchlang.syntax.traversal import remembered


def plain(nest: Any) -> Any:
    """A nest with its shifts carried out as far as is possible without calling its functions."""
    match nest:
        case lp.Shift(body, delta):
            return plain(lp.shifted(body, delta))
        case lp.Phase() | lp.Sequence() | lp.Switch():
            return lp.rebuild(nest, plain)
    return nest


def entered(host: Host, node: Node) -> Node:
    """A looplet with the thunks around it entered."""
    while isinstance(node := plain(node), lp.Thunk):
        node = node.preamble(host)[0]
    return node


class Entered:
    """A nest with its thunks entered once for the region start..stop; `steps` are its steppers, each with a
    coordinate before which it is not in use."""

    def __init__(self, host: Host, nest: Node, start: Expr, stop: Expr):
        self.host = host
        self.steps: list[tuple[lp.Steps, Expr]] = []
        self.nest = self._within(nest, start, stop, TRUE)

    def _within(self, node: Node, start: Expr, stop: Expr, when: Expr) -> Node:
        """A part of the nest, which is used in start..stop where `when` holds."""
        host = self.host
        match plain(node):
            case lp.Thunk(preamble):
                is_used = TRUE if at_most(start, stop) else compare("le", start, stop)
                when = host.let(op("and", when, is_used), "used")
                return self._within(preamble(guarded(host, when))[0], start, stop, when)
            case lp.Phase(body, first, last):
                start = start if first is None else greater(start, first)
                if last is not None:
                    body, stop = lp.set_end(body, last), lesser(stop, last)
                return lp.Phase(self._within(body, start, stop, when), first, last)
            case lp.Sequence(phases):
                found: list[Any] = []
                for phase in phases:
                    found.append(self._within(phase, start, stop, when))
                    start = start if phase.stop is None else greater(start, add(phase.stop, 1))
                return lp.Sequence(tuple(found))
            case lp.Switch(condition, head, tail):
                condition = host.let(condition, "is")
                arms = ((head, condition), (tail, op("not", condition)))
                parts = (self._within(x, start, stop, op("and", when, c)) for x, c in arms)
                return lp.Switch(condition, *parts)
            case lp.Steps() as steps:
                self.steps.append((steps, start))
                return steps
            case found:
                return found


@record(slots=True)
class Seen:
    """What a cursor is at: `whole` makes the looplet of first..last, and `fill` is what comes before.
    `go_on` moves past it, by one entry, or to the first entry that ends at a given coordinate or later;
    None if coordinates alone say that. Unless `is_sure` there may be no entry, so that it must not be read
    without a test."""

    nest: lp.Looplet
    first: Expr
    last: Expr
    fill: Node | None
    whole: Callable[[Host], Any]
    go_on: Callable[[Host, Expr | None], None] | None
    is_point: bool = False
    is_sure: bool = True

    def is_certain(self, i: Expr) -> bool:
        """Whether the entry is known to cover i, given that it does not end before."""
        return self.fill is None or (self.is_sure and at_most(self.first, i))

    def looplet(self, host: Host, i: Expr, is_uncut: bool = True) -> Node:
        """The nest from i on, up to where something begins or ends; if it `is_uncut`, a point may be the
        last coordinate, as the end of a spike."""
        whole: Node = self.whole(host)
        if self.is_certain(i):
            return whole
        assert self.fill is not None
        if self.is_point and is_uncut:
            assert isinstance(whole, lp.Run)
            return lp.Spike(self.fill, whole.body, self.first, is_stored=self.is_sure)
        is_stored = self.is_sure and isinstance(whole, lp.Run)
        here = compare("le", self.first, i)
        return lp.Choice(((here, whole),), lp.Run(self.fill), is_stored)


class Cursor(ABC):
    """A nest with entries in order, and `fill` between them, or None if that is not one literal. It may
    `begin` at a coordinate that is known before it is read."""

    nest: lp.Looplet
    steps: Any
    fill: Node | None
    are_points = False
    begin: Expr | None = None

    def stands_at(self, start: Expr) -> bool:
        """Whether a region that begins at `start` needs no seek."""
        return at_most(start, self.steps.first)

    def ends_within(self, stop: Expr) -> bool:
        """Whether all its entries are known to end at or before `stop`."""
        return False

    def lasts_until(self, stop: Expr) -> bool:
        """Whether an entry is known to be left before each coordinate up to `stop`."""
        return False

    @abstractmethod
    def seek(self, host: Host, i: Expr) -> None:
        """Move to the first entry that ends at i or later."""

    def cut(self, host: Host, stop: Expr) -> Cursor:
        """The cursor over the points up to `stop`."""
        raise Bug(f"{self.nest} has no points")

    @abstractmethod
    def is_left(self, host: Host, at: Expr | None) -> Expr:
        """Whether an entry is left, from `at` on if that is given."""

    @abstractmethod
    def see(self, host: Host, beyond: Expr | None, at: Expr | None, is_uncut: bool) -> Seen:
        """The current entry, from `at` on if that is given. If `beyond` is None there must be one; else
        there may be none, and then first and last are `beyond`, a coordinate after the loop. `is_uncut` is
        that of `Seen.looplet`."""

    def sought(self, host: Host, i: Expr, beyond: Expr, is_uncut: bool) -> Seen:
        """The first entry that ends at i or later, after a seek."""
        self.seek(host, i)
        return self.see(host, beyond, i, is_uncut)


@dataclass(slots=True)
class ListedCursor(Cursor):
    """A stepper over sorted storage, up to position `end`. If it `leads` it may be ahead of the loop, as a
    jumper. One is left up to coordinate `last`, or that of the steps."""

    nest: lp.Looplet
    steps: lp.Steps
    known: lp.Stored
    end: Expr
    leads: bool = False
    begin: Expr | None = None
    last: Expr | None = None

    @property
    def fill(self) -> Node | None:  # type: ignore[override]
        return self.known.fill

    @property
    def are_points(self) -> bool:  # type: ignore[override]
        return self.known.are_points

    def ends_within(self, stop: Expr) -> bool:
        return self.steps.last is not None and at_most(self.steps.last, stop)

    def lasts_until(self, stop: Expr) -> bool:
        # a stretch may have no entry wherever it ends
        last = self.steps.last if self.begin is None else None
        return last is not None and at_most(stop, last)

    def seek(self, host: Host, i: Expr) -> None:
        self.known.go(host, self.known.locate(host, self.known.here(host), i))

    def cut(self, host: Host, stop: Expr) -> ListedCursor:
        end = self.known.locate(host, self.known.here(host), add(stop, 1))
        return replace(self, end=end)

    def is_left(self, host: Host, at: Expr | None) -> Expr:
        last = (self.last or self.steps.last) if self.end is self.known.stop else None
        leads = self.leads or isinstance(self.steps, lp.Jumper)
        if at is not None and last is not None and not leads:
            return compare("le", at, last)
        return compare("lt", self.known.here(host), self.end)

    def see(self, host: Host, beyond: Expr | None, at: Expr | None, is_uncut: bool) -> Seen:
        q, known, reader = self.known.here(host), self.known, host
        if beyond is not None:
            there = compare("lt", q, self.end)
            reader = guarded(host, there)
        first, last, body = known.entry(reader, q)
        if beyond is not None:
            first = host.let(op("select", there, first, beyond), "first")
            last = first if known.are_points else op("select", there, last, beyond)
        if not known.are_points:
            lower = None if at_most(first, last) else first  # a fact for the prover
            last = host.let(last, "last", lower=lower)

        def whole(host: Host) -> Node:
            if known.are_points:
                return lp.Run(lp.Thunk(lambda host: (body(host), None)))
            return body(host)

        how = partial(self._go_on, q), known.are_points, beyond is None
        return Seen(self.nest, first, last, known.fill, whole, *how)

    def _go_on(self, q: Expr, host: Host, i: Expr | None) -> None:
        """Move past position q: by one, or in a jumper by a search for i."""
        after = add(q, 1)
        if i is not None and isinstance(self.steps, lp.Jumper):
            after = self.known.locate(host, after, i)
        self.known.go(host, after)


@dataclass(slots=True)
class SteppedCursor(Cursor):
    """A stepper over points whose stride is behind its last one when none is left; up to `last`."""

    nest: lp.Looplet
    steps: lp.Steps
    fill: Node | None
    last: Expr
    are_points = True

    def ends_within(self, stop: Expr) -> bool:
        return at_most(self.last, stop)

    def seek(self, host: Host, i: Expr) -> None:
        if self.steps.seek is not None:  # else it has been sought
            self.steps.seek(host, i)

    def cut(self, host: Host, stop: Expr) -> SteppedCursor:
        return replace(self, last=lesser(self.last, stop))

    def is_left(self, host: Host, at: Expr | None) -> Expr:
        return compare("le", self.steps.stride(host), self.last)

    def see(self, host: Host, beyond: Expr | None, at: Expr | None, is_uncut: bool) -> Seen:
        first = self.steps.stride(host)
        if beyond is not None:
            first = op("select", compare("le", first, self.last), first, beyond)
        first = host.let(first, "first")

        def tail(host: Host) -> tuple[Node, None]:
            spike: Any = entered(host, self.steps.body(host))
            return spike.tail, None

        def go_on(host: Host, i: Expr | None) -> None:
            self.steps.next(host)

        point, is_sure = lp.Run(lp.Thunk(tail)), beyond is None
        return Seen(self.nest, first, first, self.fill, lambda host: point, go_on, True, is_sure)


@dataclass(slots=True)
class StretchCursor(Cursor):
    """At most one entry, first..last, if there `is_any`: where the region has been gone through up to a
    coordinate says whether it is left, so that no position is kept."""

    nest: lp.Looplet
    fill: Node
    first: Expr
    last: Expr
    body: Any
    is_any: Expr

    @property
    def begin(self) -> Expr:  # type: ignore[override]
        return self.last if isinstance(self.body, lp.Spike) else self.first

    def stands_at(self, start: Expr) -> bool:
        return at_most(start, self.first)

    def ends_within(self, stop: Expr) -> bool:
        return at_most(self.last, stop)

    def seek(self, host: Host, i: Expr) -> None:
        """Nothing: coordinates say where it is."""

    def is_left(self, host: Host, at: Expr | None) -> Expr:
        assert at is not None
        return op("and", self.is_any, compare("le", at, self.last))

    def see(self, host: Host, beyond: Expr | None, at: Expr | None, is_uncut: bool) -> Seen:
        first, last, body = self.first, self.last, self.body
        if beyond is not None:
            first = host.let(op("select", self.is_left(host, at), first, beyond), "first")
            last = op("select", compare("lt", first, beyond), last, beyond)
        is_sure = beyond is None
        return Seen(self.nest, first, last, self.fill, lambda host: body, None, False, is_sure)

    def counted(self, host: Host) -> ListedCursor:
        """The same by a position, which is 0 where it is left, else 1."""
        end = op("select", self.is_any, ONE, ZERO)
        first, last, body, at = self.first, self.last, self.body, host.cell(ZERO, "q")
        is_point = isinstance(body, lp.Spike)
        there = body.tail if is_point else body

        def locate(host: Host, q: Expr, i: Expr) -> Expr:
            return minimum(end, maximum(q, op("select", compare("le", i, last), ZERO, ONE)))

        def entry(host: Host, q: Expr) -> lp.Entry:
            return self.begin, last, lambda host: there

        known = lp.Stored(ZERO, end, self.fill, at, locate, entry, is_point)
        parts = (lambda host: last), (lambda host: body), (lambda host: None)
        steps = lp.Steps(None, *parts, last, known, first)
        return ListedCursor(self.nest, steps, known, end, begin=self.begin)


def listed(nest: lp.Looplet) -> ListedCursor | None:
    """A nest as a cursor, if it is one stepper over sorted storage, followed by its fill; else None."""
    found, stop = plain(nest), None
    if isinstance(found, lp.Sequence):
        first, *rest = found.phases
        found, stop = first.body, first.stop
        if not isinstance(found, lp.Steps) or found.stored is None or stop is None:
            return None
        fill = found.stored.fill
        if any(not isinstance(p.body, lp.Run) or p.body.body != fill for p in rest):
            return None
        if found.last is None or not at_most(found.last, stop):
            return None
        if first.start is not None and not at_most(first.start, found.first):
            return None
    known = found.stored if isinstance(found, lp.Steps) else None
    return None if known is None else ListedCursor(nest, found, known, known.stop)


def begins_at(nest: lp.Looplet, start: Expr) -> bool:
    """Whether a nest is known to begin at or before `start`: a first phase that begins later would cut the
    loop."""
    first = plain(nest).phases[0].start if isinstance(nest, lp.Sequence) else None
    return first is None or at_most(first, start)


@record(slots=True)
class Stretch:
    """A sequence with one phase between runs of one literal: a run, a lookup, or a spike."""

    nest: lp.Looplet
    phases: tuple[lp.Phase, ...]
    number: int
    fill: Literal

    is_short: ClassVar[bool] = True

    def cursor(self, host: Host, start: Expr, stop: Expr) -> ListedCursor | StretchCursor:
        """The stretch as a cursor with at most one entry, in the region start..stop."""
        phase = self.phases[self.number]
        before = self.phases[self.number - 1].stop if self.number else None
        first = phase.start or (start if before is None else add(before, 1))
        last = phase.stop or stop
        first, last = host.let(first, "first"), host.let(last, "last")
        body: Any = lp.set_end(phase.body, last)
        is_any = host.let(compare("le", first, last), "any")
        found = StretchCursor(self.nest, self.fill, first, last, body, is_any)
        return found.counted(host) if isinstance(body, lp.Spike) else found


@record(slots=True)
class Stepped:
    """A sequence with a phase of points between runs of one literal, of which the stepper says itself when
    none is left."""

    nest: lp.Looplet
    last: Expr
    fill: Literal
    is_short: ClassVar[bool] = False

    def cursor(self, host: Host, start: Expr, stop: Expr) -> SteppedCursor:
        """The nest as a cursor in the region start..stop."""
        ((steps, _),) = Entered(host, self.nest, start, stop).steps
        return SteppedCursor(self.nest, steps, self.fill, self.last)


def stepped(nest: lp.Looplet) -> Stepped | None:
    """A nest of a sequence of a stepper that `ends_behind`, of spikes, and then runs of their fill."""
    if not isinstance(nest, lp.Sequence):
        return None
    (first, *rest), host = plain(nest).phases, scratch()
    steps = entered(host, first.body)
    if not isinstance(steps, lp.Steps) or not steps.ends_behind or first.stop is None:
        return None
    spike = entered(host, steps.body(host))
    fill = _literal(lp.Run(spike.body)) if isinstance(spike, lp.Spike) else None
    if first.start is not None or fill is None or any(_literal(p.body) != fill for p in rest):
        return None
    return Stepped(nest, first.stop, fill)


@remembered
def stretch(nest: lp.Looplet) -> Stretch | Stepped | None:
    """A sequence as something between runs of one literal, if it is that."""
    if (found := stepped(nest)) is not None:
        return found
    phases = plain(nest).phases if isinstance(nest, lp.Sequence) else ()
    for number, phase in enumerate(phases):
        fills = [_literal(p.body) for k, p in enumerate(phases) if k != number]
        fill = fills[0] if fills else None
        if fill is None or any(other is None or other != fill for other in fills):
            continue
        if isinstance(phase.body, (lp.Run, lp.Lookup)):
            return Stretch(nest, phases, number, fill)
        if isinstance(phase.body, lp.Spike) and phase.body.end is None and phase.body.body == fill:
            return Stretch(nest, phases, number, fill)
    return None


def _literal(node: Node) -> Literal | None:
    return node.body if isinstance(node, lp.Run) and isinstance(node.body, Literal) else None


def runs_of(nest: Node) -> list[Node]:
    """The different bodies of the runs among the phases of a sequence."""
    phases = plain(nest).phases if isinstance(nest, lp.Sequence) else ()
    return list(dict.fromkeys(p.body.body for p in phases if isinstance(p.body, lp.Run)))


def is_mask(nest: Node) -> bool:
    """Whether a nest has nothing but runs of literals."""
    bodies = [p.body for p in plain(nest).phases] if isinstance(nest, lp.Sequence) else [nest]
    return all(isinstance(b, lp.Run) and isinstance(b.body, Literal) for b in bodies)
