"""Products: `collapse(A, k, k + 1)`, two modes of a tensor as one, in which mode k runs fastest.

Coordinate i of the inner mode at j of the outer one is coordinate (j - 1) * m + i, where m is the size of
the inner mode. A run of fill stays one run, and an entry at j becomes a block with the inner nest,
shifted: blocks without an entry are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.base.errors import Bug, FinchError
from finchlang.base.records import record
from finchlang.host.construct import ONE, add, mul, op, sub
from finchlang.host.interface import Host, fail_unless
from finchlang.host.ir import Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import UPDATE
from finchlang.operators.build import PLACES
from finchlang.syntax.nodes import Literal, Node
from finchlang.wrappers.broadcast import Around


@record(slots=True)
class Collapse(Around):
    """`collapse(A, k, k + 1)`: mode k stands for modes k and k + 1 of A, k running fastest."""

    more = -1

    def located(self, in_a_row: bool) -> int:
        within, behind = self.body.located(in_a_row), self.order - self.at
        return within - 1 if within > behind + 1 else min(within, behind)

    def own_extent(self, number: int) -> tuple[Expr, Expr]:
        return ONE, mul(*self._sizes())

    def _sizes(self) -> tuple[Expr, Expr]:
        """The sizes of the inner and the outer mode."""
        back = self.order - self.at
        inner, outer = self.body.extent(back + 1), self.body.extent(back)
        if inner is None or outer is None or inner[0] is not ONE or outer[0] is not ONE:
            message = "modes that are collapsed begin at 1 and have an end"
            raise FinchError("dimension", message, self.call.span)
        return inner[1], outer[1]

    def uniform(self, value: Node) -> Node:
        within = self.body.uniform(value)
        return self.resolve(within).uniform(value) if self.is_own else self.rest(within)

    def nest(self, host: Host, protocol: str | None) -> Node:
        inner, outer = sizes = self._sizes()
        fits, span = PLACES.fits(inner, outer), self.call.span
        fail_unless(host, fits, "dimension", PLACES.message, sizes, span)
        nest = lp.set_end(self.body.unfurl(host, None, protocol), outer)

        def within(host: Host, payload: Node) -> Node:
            found = self.resolve(payload, host=host).unfurl(host, None, protocol)
            return lp.set_end(found, inner)

        product = Product(inner, outer, within, self.body.located(False) > 1)
        if self.mode == UPDATE or protocol == "follow" or self.body.located(True) > 1:
            return product.follow(nest)
        return product.of(nest)


@record
class Product:
    """Makes nests over an outer mode, of size `count`, nests over both modes. `within(host, payload)`
    is the nest over the inner mode, of `size`, of a payload. `is_located` if both modes are read by
    lookups."""

    size: Expr
    count: Expr
    within: Callable[[Host, Node], Node]
    is_located: bool

    def above(self, k: Expr) -> Expr:
        """The outer coordinate that coordinate k belongs to."""
        return ONE if k is ONE else add(op("idiv", sub(k, ONE), self.size), 1)

    def up_to(self, j: Expr) -> Expr:
        """The last coordinate of block j."""
        return mul(self.size, j)

    def before(self, j: Expr) -> Expr:
        """The last coordinate before block j."""
        return self.up_to(sub(j, ONE))

    def of(self, node: Any) -> Any:
        """The nest over both modes for a nest over the outer mode; ends of spikes must be set."""
        match node:
            case lp.Run(Literal()):
                return node
            case lp.Run(body):
                return self._row(lambda host, j: body)
            case lp.Lookup(at):
                return self._row(at)
            case lp.Spike(body, tail, end):
                assert end is not None
                before = self.before(end)
                run = lp.Phase(self.of(lp.Run(body)), stop=before)
                block = lp.Phase(self.block(tail, before), stop=add(before, self.size))
                return lp.Sequence((run, block))
            case lp.Phase(body, start, stop):
                first, last = start and add(self.before(start), 1), stop and self.up_to(stop)
                return lp.Phase(self.of(lp.set_end(body, stop)), first, last)
            case lp.Sequence(phases):
                return lp.Sequence(tuple(self.of(p) for p in phases))
            case lp.Shift(body, delta):
                return self.of(lp.shifted(body, delta))
            case lp.Steps():
                return self._steps(node)
            case lp.Switch() | lp.Choice() | lp.Thunk():
                return lp.rebuild(node, self.of)
        raise Bug(f"a product of {node}")

    def block(self, payload: Node, before: Expr) -> Node:
        """The looplets for a payload, in the block after coordinate `before`."""
        if isinstance(payload, Literal):
            return lp.Run(payload)
        if isinstance(payload, lp.Looplet):
            return lp.rebuild(payload, lambda part: self.block(part, before))
        return lp.Shift(lp.delayed(lambda host: self.within(host, payload)), before)

    def at(self, host: Host, j: Expr, payload: Callable[[Host], Node]) -> lp.Entry:
        """The block at j as an entry."""
        before = host.let(self.before(j), "before")
        block = lp.delayed(lambda host: self.block(payload(host), before))
        return add(before, 1), add(before, self.size), lambda host: block

    def _steps(self, steps: lp.Steps) -> lp.Blocks:
        seek, last, known = steps.seek, steps.last, steps.stored
        found = steps.lookup if isinstance(steps, lp.Blocks) else None
        assert seek is not None

        def region(host: Host, q: Expr) -> lp.Entry:
            assert known is not None
            first, end, make = known.entry(host, q)
            if known.are_points:
                return self.at(host, host.let(first, "j", lower=ONE), make)
            start, stop = add(self.before(first), 1), self.up_to(end)
            return start, stop, lambda host: self.of(lp.set_end(make(host), end))

        return lp.Blocks(
            seek=lambda host, k: seek(host, self.above(k)),
            stride=lambda host: self.up_to(steps.stride(host)),
            body=lambda host: self.of(lp.set_end(steps.body(host), steps.stride(host))),
            next=steps.next,
            last=last and self.up_to(last),
            stored=known and self._stored(known, region),
            first=add(self.before(steps.first), 1),
            lookup=self.follow(found) if self.is_located and found is not None else None,
        )

    def _stored(self, known: lp.Stored, region: Any) -> lp.Stored | None:
        """A stepper's cursor with blocks as entries; None if what is between them is no literal."""
        if known.fill is not None and not isinstance(known.fill, Literal):
            return None

        own = known.start, known.stop, known.fill, known.at
        return lp.Stored(*own, lambda host, q, k: known.locate(host, q, self.above(k)), region)

    def _row(self, at: Callable[[Host, Expr], Node]) -> lp.Thunk:
        """A stepper with a block for each outer coordinate."""

        def blocks(host: Host) -> Node:
            def region(host: Host, j: Expr) -> lp.Entry:
                return self.at(host, j, lambda host: at(host, j))

            own = ONE, add(self.count, 1), None, host.cell(ONE, "j")
            known = lp.Stored(*own, lambda host, q, k: self.above(k), region)
            return lp.Blocks(
                seek=lambda host, k: known.go(host, self.above(k)),
                stride=lambda host: self.up_to(known.here(host)),
                body=lambda host: region(host, host.let(known.here(host), "j", lower=ONE))[2](host),
                next=lambda host: known.go(host, add(known.here(host), 1)),
                last=self.up_to(self.count),
                stored=known,
                lookup=self.follow(lp.Lookup(at)) if self.is_located else None,
            )

        return lp.delayed(blocks)

    def follow(self, node: Any) -> Node:
        """A nest over both modes that is looked up at each coordinate."""
        if isinstance(node, (lp.Thunk, lp.Switch)):
            return lp.rebuild(node, self.follow)

        def at(host: Host, k: Expr) -> Node:
            k = sub(k, ONE)
            j, i = add(op("idiv", k, self.size), 1), add(op("irem", k, self.size), 1)

            def inside(payload: Node) -> Node:
                if isinstance(payload, Literal):
                    return payload
                return lp.delayed(lambda host: lp.at_point(host, self.within(host, payload), i))

            return lp.map_payloads(inside, lp.at_point(host, node, j))

        return lp.Lookup(at, may_miss=True)
