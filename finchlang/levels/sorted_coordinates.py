"""Levels whose fibers list coordinates in ascending order in `idx`, delimited by `ptr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from finchlang.base.records import record
from finchlang.host.construct import ONE, ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import Fiber
from finchlang.syntax import nodes as ast, types

#: the present position of a stepper
Here = Callable[[Host], Expr]
#: the payload at coordinate i (from 1), which is listed at position q
Child = Callable[[Host, Expr, Expr], ast.Node]


def load_range(host: Host, fiber: Fiber, offsets: str = "ptr") -> tuple[Expr, Expr]:
    """The range of positions that belong to `fiber` by its offsets; the second is not included."""
    array = fiber.store.buffers[offsets]
    start = host.load(array, fiber.position, "start", types.Int64, lower=ZERO)
    return start, host.load(array, add(fiber.position, 1), "stop", types.Int64, lower=start)


@record(slots=True)
class Listed:
    """The positions start..stop - 1 of `idx`, with the coordinate (from 0) of each, or the last one of
    its region, in ascending order. Between them, and after the coordinate `last` (from 1), is `fill`."""

    idx: Buffer
    start: Expr
    stop: Expr
    fill: ast.Node
    last: Expr = ZERO
    name: str = "i"

    def until_last(self, host: Host, size: Expr) -> Listed:
        """This with `last` read from `idx`; 0 if nothing is listed."""

        def end() -> Expr:
            return add(host.load(self.idx, sub(self.stop, 1), self.name, types.Int64), 1)

        some = compare("lt", self.start, self.stop)
        last = host.only_if(some, end, "last", ZERO, lower=ZERO, upper=size)
        return replace(self, last=last)

    def coordinate(self, host: Host, q: Expr) -> Expr:
        """The coordinate (from 1) of position q."""
        bound = sub(self.last, 1)
        return add(host.load(self.idx, q, self.name, types.Int64, lower=ZERO, upper=bound), 1)

    def locate(self, host: Host, q: Expr, i: Expr) -> Expr:
        """The first position from q on at or after coordinate i."""
        return host.search(self.idx, q, self.stop, sub(i, 1))

    def find(
        self, host: Host, i: Expr, holds: Callable[[Expr], Expr], there: Callable[[Expr], ast.Node]
    ) -> ast.Node:
        """`there(q)` for the first position q at or after i, if there is one and it `holds`."""
        q = self.locate(host, self.start, i)
        hit = host.only_if(compare("lt", q, self.stop), lambda: holds(q), "hit")
        return lp.Switch(hit, there(q), self.fill)

    def at(self, host: Host, i: Expr, there: Callable[[Expr], ast.Node]) -> ast.Node:
        """`there(q)` for the position q of coordinate i, if it is listed."""

        def holds(q: Expr) -> Expr:
            return compare("eq", host.load(self.idx, q, self.name, types.Int64), sub(i, 1))

        return self.find(host, i, holds, there)

    def steps(
        self,
        host: Host,
        protocol: str | None,
        body: Callable[[Host, Here], ast.Node],
        tail: Callable[[Host, Expr, Expr], ast.Node] | None = None,
        region: Callable[[Host, Expr], lp.Entry] | None = None,
        following: Callable[[Host, Expr], Expr] = lambda host, q: add(q, 1),
    ) -> lp.Steps:
        """A stepper (or jumper) over the positions. `body(host, here)` is the looplet up to the
        coordinate of `here`, and `following` gives the position after another. `tail` is given if each
        looplet is a run of fill and then a payload, `region` if it is a run of fill and then a region:
        then the rule Meet can use the positions."""
        at = host.cell(self.start, "q")
        kind = lp.Jumper if protocol == "gallop" else lp.Stepper

        def point(host: Host, q: Expr) -> lp.Entry:
            assert tail is not None
            i = self.coordinate(host, q)
            return i, i, lambda host: tail(host, q, i)

        known = lp.Stored(
            *(self.start, self.stop, self.fill, at, self.locate, region or point),
            are_points=tail is not None,
            listed=(self.idx, ONE) if tail else None,
        )
        here, go = known.here, known.go
        return kind(
            seek=lambda host, i: go(host, self.locate(host, here(host), i)),
            stride=lambda host: self.coordinate(host, here(host)),
            body=lambda host: body(host, here),
            next=lambda host: go(host, following(host, here(host))),
            last=self.last,
            stored=known if tail or region else None,
        )

    def then_fill(self, steps: lp.Steps) -> ast.Node:
        """The steps up to the last coordinate, then a run of fill."""
        return lp.Sequence((lp.Phase(steps, stop=self.last), lp.Phase(lp.Run(self.fill))))


def spikes(host: Host, listed: Listed, size: Expr, protocol: str | None, child: Child) -> ast.Node:
    """The looplets over coordinates 1..size: a stepper (or jumper) over spikes up to the last stored
    coordinate, then a run of fill; with `follow` a binary search at each coordinate."""
    if protocol == "follow":
        return lp.Lookup(
            lambda host, i: listed.at(host, i, lambda q: lp.delayed(lambda host: child(host, q, i)))
        )
    listed = listed.until_last(host, size)

    def spike(host: Host, here: Here) -> ast.Node:
        q = here(host)
        return lp.Spike(listed.fill, child(host, q, listed.coordinate(host, q)), is_stored=True)

    def body(host: Host, here: Here) -> ast.Node:
        return lp.delayed(lambda host: spike(host, here))

    return listed.then_fill(listed.steps(host, protocol, body, child))


def counting(host: Host, fiber: Fiber) -> Callable[[Host], None]:
    """An epilogue that counts the entries written to `fiber` from now on, and sets the dirty bit."""
    store, after = fiber.store, add(fiber.position, 1)
    first = host.get(store.stored)

    def epilogue(host: Host) -> None:
        written = host.let(sub(host.get(store.stored), first), "written")
        # a fiber is left and entered again where its index is bound in the loop, as in A[i + 1]
        count = add(host.load(store.ptr, after, "count", types.Int64), written)
        host.store(store.ptr, after, host.let(count, "count"))
        fiber.mark(host, compare("gt", written, 0))

    return epilogue


def append_entry(
    host: Host, fiber: Fiber, arrays: Sequence[Buffer], coordinates: Sequence[Expr]
) -> tuple[ast.Node, Callable[[Host], None]]:
    """The entry after the last of all fibers, and the epilogue, which stores its coordinates (from 1) in
    `arrays` if something was written to it: else the next entry takes its place."""
    store = fiber.store
    q = host.get(store.stored)
    fiber.level.child.assemble(host, store.child, fiber.level.below(fiber.dims), q, q)

    def keep() -> None:
        for array, i in zip(arrays, coordinates, strict=True):
            host.grow(array, add(q, 1))
            host.store(array, q, sub(i, 1))
        host.set(store.stored, add(q, 1))

    return fiber.entry(host, q, keep)
