"""Levels whose fibers list coordinates in ascending order in `idx`, delimited by `ptr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from finchlang.base.records import record
from finchlang.host.construct import ONE, ZERO, add, compare, mul, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import Fiber
from finchlang.syntax import nodes as ast, types

#: the present position of a stepper
Here = Callable[[Host], Expr]
#: the entry at a position of a list
EntryAt = Callable[[Host, "Listed", Expr], lp.Entry]
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
    its region, in ascending order. Between them, and after the coordinate `last` (from 1), is `fill`.
    `after(host, q, i)` is the position after those at the coordinate i of q, if there may be several."""

    idx: Buffer
    start: Expr
    stop: Expr
    fill: ast.Node
    last: Expr = ZERO
    name: str = "i"
    after: Callable[[Host, Expr, Expr], Expr] | None = None

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

    def points(self, host: Host, size: Expr, protocol: str | None, child: Child) -> ast.Node:
        """As `looplets`, for entries of one coordinate each."""

        def entry(host: Host, listed: Listed, q: Expr) -> lp.Entry:
            i = listed.coordinate(host, q)
            return i, i, lambda host: child(host, q, i)

        return self.looplets(host, size, protocol, entry, True)

    def looplets(
        self, host: Host, size: Expr, protocol: str | None, entry: EntryAt, are_points: bool = False
    ) -> ast.Node:
        """The looplets over coordinates 1..size: a stepper (or jumper) over runs of fill, each with an
        entry at its end, and a run of fill after the last; with `follow` a search at each coordinate."""
        if protocol == "follow":
            whole = replace(self, last=size)

            def find(host: Host, i: Expr) -> ast.Node:
                q = self.locate(host, self.start, i)

                def holds() -> Expr:
                    return compare("le", entry(host, whole, q)[0], i)

                def there(host: Host) -> ast.Node:
                    found = entry(host, whole, q)[2](host)
                    return found if are_points else lp.at_point(host, found, i)

                hit = host.only_if(compare("lt", q, self.stop), holds, "hit")
                return lp.Switch(hit, lp.delayed(there), self.fill)

            return lp.Lookup(find)
        listed, after = self.until_last(host, size), self.after

        def body(host: Host, here: Here) -> ast.Node:
            def inside(host: Host) -> ast.Node:
                first, _, make = entry(host, listed, here(host))
                if are_points:
                    return make(host) if after else lp.Spike(self.fill, make(host), is_stored=True)
                gap = lp.Phase(lp.Run(self.fill), stop=sub(first, 1))
                return lp.Sequence((gap, lp.Phase(make(host))))

            return lp.Spike(self.fill, lp.delayed(inside)) if after else lp.delayed(inside)

        steps = listed.steps(host, protocol, body, entry, are_points)
        return lp.Sequence((lp.Phase(steps, stop=listed.last), lp.Phase(lp.Run(self.fill))))

    def steps(
        self,
        host: Host,
        protocol: str | None,
        body: Callable[[Host, Here], ast.Node],
        entry: EntryAt | None = None,
        are_points: bool = False,
    ) -> lp.Steps:
        """A stepper (or jumper) over the positions, whose looplet up to the coordinate of `here` is
        `body(host, here)`. With an `entry` at each, the rule Meet can use the positions."""
        kind = lp.Jumper if protocol == "gallop" else lp.Stepper
        known = lp.Stored(
            *(self.start, self.stop, self.fill, host.cell(self.start, "q"), self.locate),
            entry=lambda host, q: entry(host, self, q),  # type: ignore[misc]
            are_points=are_points,
            listed=(self.idx, ONE) if are_points else None,
        )
        here, go, after = known.here, known.go, self.after

        def following(host: Host, q: Expr) -> Expr:
            return after(host, q, self.coordinate(host, q)) if after else add(q, 1)

        return kind(
            seek=lambda host, i: go(host, self.locate(host, here(host), i)),
            stride=lambda host: self.coordinate(host, here(host)),
            body=lambda host: body(host, here),
            next=lambda host: go(host, following(host, here(host))),
            last=self.last,
            stored=known if entry and not after else None,
        )


def delimit(host: Host, ptr: Buffer, keys: Buffer, stored: Cell, span: Expr, count: Expr) -> None:
    """Make the offsets of `count` fibers from the `stored` sorted keys of all their entries: those of
    fiber p are from p * span on."""
    host.store(ptr, ZERO, ZERO)
    stop = host.get(stored)
    if count is ONE:
        host.store(ptr, ONE, stop)
        return

    def fiber(p: Expr) -> None:
        start, after = host.load(ptr, p, "start", types.Int64, lower=ZERO), add(p, 1)
        host.store(ptr, after, host.search(keys, start, stop, host.let(mul(after, span), "end")))

    host.each_of(count, fiber, "p")


def each_listed(
    host: Host, ptr: Buffer, span: Expr, count: Expr, body: Callable[[Expr, Expr], None]
) -> None:
    """Run `body(q, p * span)` for each position q of each of `count` fibers p."""

    def fiber(p: Expr) -> None:
        start = host.load(ptr, p, "start", types.Int64)
        stop = host.load(ptr, add(p, 1), "stop", types.Int64)
        base = host.let(mul(p, span), "base")
        host.count(start, sub(stop, 1), lambda q: body(q, base), "q")

    if count is ONE:
        fiber(ZERO)
    else:
        host.each_of(count, fiber, "p")


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
    fiber.level.child.assemble(host, store.child, q, q)

    def keep() -> None:
        for array, i in zip(arrays, coordinates, strict=True):
            host.grow(array, add(q, 1))
            host.store(array, q, sub(i, 1))
        host.set(store.stored, add(q, 1))

    return fiber.entry(host, q, keep)
