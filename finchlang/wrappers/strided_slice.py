"""Strided slices: a looplet nest over coordinates made a nest over every step-th of them.

Coordinate i of the slice that begins at `first` is coordinate first + (i - 1) * step of the nest. With a
positive step a nest keeps its structure: a phase, run or step of a stepper ends at the last element of
the slice in it, and a stepper goes on to the one that holds the next element. A negative step reverses
the order, which steppers cannot: it needs lookups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from finchlang.base.records import record
from finchlang.host.construct import ONE, ZERO, add, compare, maximum, minimum, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Const, Expr
from finchlang.levels import looplets as lp
from finchlang.syntax.nodes import Node

#: up to this step, a stepper passes over positions between elements one by one: a search costs more
SHORT = 16


@record
class Slice:
    """The coordinates first, first + step, ...; `is_rising` if the step is positive."""

    first: Expr
    step: Expr
    is_rising: bool

    def at(self, i: Expr) -> Expr:
        """The coordinate of element i."""
        return add(self.first, mul(sub(i, ONE), self.step))

    def reach(self, coordinate: Expr) -> Expr:
        """The last element not beyond `coordinate` in the slice's direction; 0 if there is none."""
        past = add(sub(coordinate, self.first), self.step)
        return maximum(op("idiv", past, self.step), ZERO)

    def holds(self, coordinate: Expr) -> Expr:
        """Whether an element is at `coordinate`, which must not be before the first."""
        return compare("eq", op("irem", sub(coordinate, self.first), self.step), ZERO)

    def of(self, node: Any) -> Any:
        """The slice of a looplet nest; ends of spikes must be set."""
        match node:
            case lp.Lookup(at, may_miss):
                return lp.Lookup(lambda host, i: at(host, host.let(self.at(i), "at")), may_miss)
            case lp.AcceptRun(accept):

                def write(host: Host, i: Expr) -> Node:
                    at = host.let(self.at(i), "at")
                    return accept(host, at, at)

                return lp.Lookup(write)
            case lp.Spike():
                return self._spike(node)
            case lp.Phase(body, start, stop):
                return self._phase(body, start, stop)
            case lp.Sequence(phases):
                return self._sequence(phases)
            case lp.Shift(body, delta):
                return replace(self, first=sub(self.first, delta)).of(body)
            case lp.Switch() | lp.Thunk():
                return lp.rebuild(node, self.of)
            case lp.Stepper() | lp.Jumper():
                return self._steps(node)
        return node  # a Run, or payload

    def _spike(self, spike: lp.Spike) -> Node:
        assert spike.end is not None
        end, run = self.reach(spike.end), lp.Run(spike.body)
        if not self.is_rising:  # the tail comes first
            return lp.Sequence((lp.Phase(lp.Run(spike.tail), stop=end), lp.Phase(run)))
        return lp.Switch(self.holds(spike.end), replace(spike, end=end), run)

    def _phase(self, body: Node, start: Expr | None, stop: Expr | None) -> lp.Phase:
        body, first, last = self.of(lp.set_end(body, stop)), start and sub(start, ONE), stop
        if not self.is_rising:
            first, last = stop and add(stop, ONE), start
        return lp.Phase(body, first and add(self.reach(first), ONE), last and self.reach(last))

    def _sequence(self, phases: tuple[lp.Phase, ...]) -> lp.Sequence:
        if self.is_rising:
            return lp.Sequence(tuple(self.of(p) for p in phases))
        known, before = list[lp.Phase](), None
        for phase in phases:
            start = phase.start
            if start is None and before is not None:
                start = add(before, ONE)
            known.append(lp.Phase(phase.body, start, phase.stop))
            before = phase.stop
        return lp.Sequence(tuple(self.of(p) for p in reversed(known)))

    def _steps(self, steps: lp.Stepper | lp.Jumper) -> Node:
        seek, stride, body, last = steps.seek, steps.stride, steps.body, steps.last
        # steppers go one way only, so a falling slice needs lookups
        assert self.is_rising and seek is not None
        known = steps.stored if steps.stored and steps.stored.are_points else None
        if isinstance(steps, lp.Stepper) and known is not None and known.are_distinct:
            return lp.delayed(lambda host: self._held(host, steps, known))

        def go_on(host: Host) -> None:
            """Go on to the step that holds the next element; after the last step there is none."""
            target = host.let(self.at(add(self.reach(stride(host)), ONE)), "target")
            steps.next(host)
            if last is None:
                seek(host, target)
                return

            def seek_on() -> None:
                host.branch(compare("lt", stride(host), target), lambda: seek(host, target))

            host.branch(compare("le", target, last), seek_on)

        if isinstance(steps, lp.Blocks) and steps.lookup is not None:
            steps = replace(steps, lookup=self.of(steps.lookup))
        return replace(
            steps,
            seek=lambda host, i: seek(host, self.at(i)),
            stride=lambda host: self.reach(stride(host)),
            body=lambda host: self.of(lp.set_end(body(host), stride(host))),
            next=go_on,
            last=None,  # several positions may be at the last element
            stored=None if known is None else self._points(known),
            first=self.reach(steps.first),
            ends_behind=False,
        )

    def _held(self, host: Host, steps: lp.Steps, known: lp.Stored) -> lp.Steps:
        """A stepper over the positions that hold an element. It passes over the others when it moves, and
        stands behind the last element when none is left."""
        assert steps.last is not None
        seek: Any = steps.seek
        past = add(self.reach(steps.last), ONE)
        element = host.cell(past, "element")

        def look(host: Host) -> None:
            found = known.coordinate(host, known.here(host))
            reached = host.let(self.reach(found), "reached")

            def pass_over() -> None:
                steps.next(host)
                if not (isinstance(self.step, Const) and self.step.value <= SHORT):
                    seek(host, self.at(add(reached, ONE)))

            host.branch(self.holds(found), lambda: host.set(element, reached), pass_over)

        def settle(host: Host) -> None:
            host.set(element, past)

            def is_on_its_way() -> Expr:
                is_left = compare("lt", known.here(host), known.stop)
                return op("and", is_left, compare("eq", host.get(element), past))

            host.loop(is_on_its_way, lambda: look(host))

        def go_to(host: Host, i: Expr) -> None:
            seek(host, self.at(i))
            settle(host)

        def go_on(host: Host) -> None:
            steps.next(host)
            settle(host)

        def spike(host: Host) -> Node:
            q = minimum(known.here(host), sub(known.stop, ONE))  # valid even if none is left
            assert known.fill is not None
            return lp.Spike(known.fill, known.entry(host, q)[2](host), is_stored=True)

        return replace(
            steps,
            seek=go_to,
            stride=lambda host: host.get(element),
            body=lambda host: lp.delayed(spike),
            next=go_on,
            last=None,
            stored=self._points(known),
            first=ZERO,
            ends_behind=True,
        )

    def _points(self, known: lp.Stored) -> lp.Stored:
        """The cursor over all positions. Positions between two elements have the coordinate of the
        element before, and there a payload only if they are at it."""

        def entry(host: Host, q: Expr) -> lp.Entry:
            found, _, make = known.entry(host, q)
            i = host.let(self.reach(found), "i")

            def tail(host: Host) -> Node:
                at = host.let(self.at(i), "at")
                assert known.fill is not None
                return lp.Switch(compare("eq", found, at), make(host), known.fill)

            return i, i, tail

        return replace(
            known,
            entry=entry,
            locate=lambda host, q, i: known.locate(host, q, self.at(i)),
            are_distinct=False,
            listed=None,
        )


def length(start: Expr, step: Expr, stop: Expr) -> Expr:
    """The number of elements of start:step:stop."""
    return Slice(start, step, True).reach(stop)


def is_within(start: Expr, step: Expr, stop: Expr, extent: tuple[Expr, Expr]) -> Expr:
    """Whether all elements of start:step:stop lie in an extent."""
    first, last = extent
    if step is ONE:
        inside = op("and", compare("le", first, start), compare("le", stop, last))
        return op("or", compare("gt", start, stop), inside)
    count = length(start, step, stop)
    end = Slice(start, step, True).at(count)
    low, high = minimum(start, end), maximum(start, end)
    inside = op("and", compare("le", first, low), compare("le", high, last))
    return op("or", compare("eq", count, ZERO), inside)
