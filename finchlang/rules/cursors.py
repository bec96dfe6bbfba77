"""Looplet nests as cursors: entries in order, with fill between them and behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.host.fold import add, compare, op
from finchlang.host.guarded import guarded
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import (
    Choice,
    Jumper,
    Looplet,
    Phase,
    Run,
    Sequence,
    Shift,
    Spike,
    Steps,
    Stored,
    Switch,
    Thunk,
    shifted,
)
from finchlang.rules.prove import at_most, greater
from finchlang.syntax import Node


def plain(nest: Any) -> Any:
    """A nest with its shifts carried out as far as is possible without entering it."""
    match nest:
        case Shift(body, delta):
            return plain(shifted(body, delta))
        case Phase(body, start, stop):
            return Phase(plain(body), start, stop)
        case Sequence(phases):
            return Sequence(tuple(plain(p) for p in phases))
        case Switch(condition, head, tail):
            return Switch(condition, plain(head), plain(tail))
    return nest


@dataclass(frozen=True, slots=True)
class Seen:
    """The entry where a cursor is: at position q from `first` to `last`. Unless `is_sure` it may have
    none, which begins and ends `beyond` the loop then."""

    cursor: Cursor
    q: Expr
    first: Expr
    last: Expr
    body: Any
    is_sure: bool

    def payload(self) -> Node:
        """What is at the coordinate of a point."""
        body = self.body
        return Thunk(lambda host: (body(host), None))

    def looplet(self, host: Host, i: Expr, is_uncut: bool = False) -> Node:
        """The cursor's nest from i on, up to where an entry ends, or before which one begins; or up to a
        point, if it `is_uncut`."""
        fill = self.cursor.known.fill
        is_certain = fill is None or (self.is_sure and at_most(self.first, i))
        are_points = self.cursor.known.are_points
        body = Run(self.payload()) if are_points else self.body(host)
        if is_certain:
            return body
        assert fill is not None
        if are_points and is_uncut:
            return Spike(fill, self.payload(), self.first, is_stored=self.is_sure)
        return Choice(((compare("le", self.first, i), body),), Run(fill))


@dataclass(frozen=True, slots=True, eq=False)
class Cursor:
    """A nest of which all is known: its stepper, and up to where that goes."""

    nest: Looplet
    steps: Steps
    known: Stored
    end: Expr

    def is_left(self, host: Host) -> Expr:
        """Whether it has an entry."""
        return compare("lt", self.known.here(host), self.end)

    def see(self, host: Host, beyond: Expr | None = None, at: Expr | None = None) -> Seen:
        """The entry it is at, as far as it is not before `at`; with `beyond`, a coordinate behind the
        loop, it need not have one."""
        q, known = self.known.here(host), self.known
        if beyond is None:
            first, last, body = known.entry(host, q)
        else:
            there = host.let(compare("lt", q, self.end), "there")
            begin, stop, body = known.entry(guarded(host, there), q)
            first = host.let(op("select", there, begin, beyond), "first")
            last = first
            if not known.are_points:
                last = host.let(op("select", there, stop, beyond), "last")
        if at is not None and not known.are_points:
            first = host.let(greater(first, at), "first")
        return Seen(self, q, first, last, body, beyond is None)

    def sought(self, host: Host, i: Expr, beyond: Expr) -> Seen:
        """The first entry that ends at i or later, if there is one."""
        self.seek(host, i)
        return self.see(host, beyond)

    def ends_within(self, stop: Expr) -> bool:
        """Whether all entries are known to end up to a coordinate."""
        return self.steps.last is not None and at_most(self.steps.last, stop)

    def leave(self, host: Host, seen: Seen) -> None:
        """Move on by one."""
        self.known.go(host, add(seen.q, 1))

    def leap(self, host: Host, seen: Seen, i: Expr) -> None:
        """Move on, from an entry that ends before i: by one, or as a jumper to i."""
        after = add(seen.q, 1)
        is_jumper = isinstance(self.steps, Jumper)
        self.known.go(host, self.known.locate(host, after, i) if is_jumper else after)

    def seek(self, host: Host, i: Expr) -> None:
        """Move on to the first entry that ends at i or later."""
        self.known.go(host, self.known.locate(host, self.known.here(host), i))


def cursor(nest: Looplet) -> Cursor | None:
    """A nest as a cursor; None if it is not one stepper over sorted storage, and fill after it."""
    found, stop = plain(nest), None
    if isinstance(found, Sequence):
        first, *rest = found.phases
        found, stop = first.body, first.stop
        if not isinstance(found, Steps) or found.stored is None or stop is None:
            return None
        fill = found.stored.fill
        if any(not isinstance(p.body, Run) or p.body.body != fill for p in rest):
            return None
        if found.last is None or not at_most(found.last, stop):
            return None
        if first.start is not None and not at_most(first.start, found.first):
            return None
    known = found.stored if isinstance(found, Steps) else None
    if known is None:
        return None
    return Cursor(nest, found, known, known.stop)
