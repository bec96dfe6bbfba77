"""`split(A, k, m)`, a mode of a tensor as two, the first of which, of size m, runs fastest: a looplet nest
over the mode is made one over blocks of it, and the payload at a block is a tensor with a nest over that.

Coordinate i of block j is coordinate (j - 1) * m + i of the mode. Of sorted storage only the blocks
that have an entry are visited, each between two of its positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.host.construct import ONE, TRUE, ZERO, add, compare, mul, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import UPDATE, Uniform, Within
from finchlang.syntax.nodes import Call, Literal, Node, Value, Variable, call
from finchlang.syntax.traversal import substitute, walk
from finchlang.wrappers.broadcast import Around, Evaluate, Resolve

#: makes a looplet nest that is read by a protocol
Looplets = Callable[[Host, str | None], Node]
#: the names of placeholders for settings begin with this
PLACEHOLDER = "setting "


@record(slots=True)
class LoopletNest(Within):
    """The rest of a tensor, with the looplets that `make` gives in its last mode, of `size`. The
    placeholders `names` in them stand for the settings beside this in `nest(this, setting...)`."""

    modes: int
    size: Expr
    make: Looplets
    names: tuple[Node, ...] = ()

    is_split = True

    def __str__(self) -> str:
        return f"{self.body}[...]"

    @property
    def order(self) -> int:
        return self.modes

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        return self.body.extent(back) if back else (ONE, self.size)

    def located(self, in_a_row: bool) -> int:
        return self.body.located(in_a_row)

    def uniform(self, value: Node) -> Node:
        return self.body.uniform(value)

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return self.make(host, protocol)


class NestCall(Around):
    """The call of a nest."""

    @classmethod
    def made(cls, call: Call, resolve: Resolve, evaluate: Evaluate) -> LoopletNest:
        """The nest of a call, with its settings put in place of the placeholders."""
        found, *settings = call.args
        assert isinstance(found, LoopletNest)
        bindings = dict(zip(found.names, settings, strict=True))

        def make(host: Host, protocol: str | None) -> Node:
            return lp.map_payloads(lambda p: substitute(p, bindings), found.make(host, protocol))

        names = tuple(n for setting in settings for n in placeholders(setting))
        return replace(found, make=make, names=names)


def placeholders(node: Node) -> list[Node]:
    found = (n for n in walk(node) if isinstance(n, Variable) and n.name.startswith(PLACEHOLDER))
    return list(dict.fromkeys(found))


@record(slots=True)
class Split(Around):
    """`split(A, k, m)`: modes k and k + 1 stand for mode k of A, k running fastest, with the size m. With
    both sizes, `split(A, k, m, n)`, either may be 0."""

    is_split = True
    own = 2

    def located(self, in_a_row: bool) -> int:
        within = self.body.located(in_a_row)
        return within + 1 if within > self.body.order - self.at else within

    def own_extent(self, number: int) -> tuple[Expr, Expr]:
        if number == 0:
            return ONE, self._size()
        if len(self.call.args) > 3:
            return ONE, self.evaluate(self.call.args[3])
        return ONE, op("idiv", self._whole(), self._size())

    def _size(self) -> Expr:
        return self.evaluate(self.call.args[2])

    def _whole(self) -> Expr:
        found = self.body.extent(self.body.order - self.at)
        if found is None or found[0] is not ONE:
            message = "a mode that is split begins at 1 and has an end"
            raise FinchError("dimension", message, self.call.span)
        return found[1]

    def uniform(self, value: Node) -> Node:
        within, size = self.body.uniform(value), self._size()
        if not self.is_own:
            return self.rest(within)
        if self.order == 2:
            return Uniform(value, (size,), self.mode)
        return call("broadcast", within, Literal(self.at), Value(size))

    def nest(self, host: Host, protocol: str | None) -> Node:
        own, whole = self._size(), self._whole()
        size = own
        if len(self.call.args) > 3:  # the program has checked the product of the sizes
            size = op("max", own, ONE)
            # a size of 0 is taken as 1: there are n blocks nevertheless
            if self.mode != UPDATE and size is not own:
                whole = op("max", whole, self.evaluate(self.call.args[3]))

        def looplets(host: Host, asked: str | None) -> Node:
            return lp.set_end(self.body.unfurl(host, None, asked or protocol), whole)

        def block(make: Looplets) -> Node:
            names = tuple(placeholders(self.call))
            nest = LoopletNest(self.body, self.order - 1, own, make, names)
            return call("nest", nest, *names) if names else nest

        projection = Projection(size, looplets, block, self.body.is_split)
        if self.mode == UPDATE:
            return projection.written(looplets(host, protocol))
        if protocol == "follow":
            return projection.blocks(looplets)
        return projection.of(looplets(host, protocol))


@record
class Projection:
    """Makes nests over a mode nests over its blocks of `size`. `looplets(host, protocol)` makes the nest
    over the whole mode again, and `block(looplets)` a tensor with looplets in its last mode. If the mode
    `is_split` already, what stands between its first and last run is not divided again."""

    size: Expr
    looplets: Looplets
    block: Callable[[Looplets], Node]
    is_split: bool

    def before(self, j: Expr) -> Expr:
        """The last coordinate before block j."""
        return mul(self.size, sub(j, ONE))

    def whole(self, i: Expr) -> Expr:
        """The last block that ends at coordinate i or before."""
        return op("idiv", i, self.size)

    def reach(self, i: Expr) -> Expr:
        """The last block that begins at coordinate i or before."""
        return op("idiv", add(i, sub(self.size, ONE)), self.size)

    def blocks(self, make: Looplets) -> lp.Lookup:
        """A lookup over blocks; in each is the nest that `make` gives, shifted."""

        def at(host: Host, j: Expr) -> Node:
            delta = sub(ZERO, host.let(self.before(j), "before"))
            return self.block(lambda host, protocol: lp.Shift(make(host, protocol), delta))

        return lp.Lookup(at)

    def of(self, node: Any) -> Any:
        """The nest over blocks for a nest over the mode; ends of spikes must be set."""
        match node:
            case lp.Run(Literal()):
                return node
            case lp.Lookup():
                return self.blocks(lambda host, protocol: node)
            case lp.Sequence(phases):
                return self._sequence(phases)
            case lp.Shift(body, delta):
                return self.of(lp.shifted(body, delta))
            case lp.Thunk() | lp.Switch() | lp.Choice():
                return lp.rebuild(node, self.of)
            case lp.Steps(stored=lp.Stored(fill=Literal()) as known):
                return lp.delayed(lambda host: FilledBlocks(self, host, node, known).looplets(host))
        return self.blocks(self.looplets)

    def _sequence(self, phases: tuple[lp.Phase, ...]) -> lp.Sequence:
        """For each phase, the blocks within it, then the block that it shares with the next."""
        bodies = [phase.body for phase in phases]
        steps = next((b for b in bodies if isinstance(b, lp.Steps)), None)
        known = steps and steps.stored
        fill = known.fill if known and known.are_points else None
        is_filled = all(b is steps or (isinstance(b, lp.Run) and b.body == fill) for b in bodies)
        whole, parts = self.blocks(self.looplets), list[lp.Phase]()
        before: Expr = ZERO

        def add_part(body: Node, stop: Expr | None) -> None:
            nonlocal before
            before = before if stop is None else op("max", before, stop)
            if parts and parts[-1].body is body:
                parts.pop()
            parts.append(lp.Phase(body, None, stop and before))

        for phase in phases:
            body, stop = self.of(lp.set_end(phase.body, phase.stop)), phase.stop
            if self.is_split and not is_filled and not isinstance(body, lp.Run):
                body = whole
            if stop is None or phase is phases[-1]:  # it has all blocks if these are of size 0
                add_part(body, None)
            elif is_filled:  # entries describe a block that two phases share, too
                add_part(body, self.reach(stop) if phase.body is steps else self.whole(stop))
            else:
                add_part(body, self.whole(stop))
                add_part(whole, self.reach(stop))
        return lp.Sequence(tuple(parts))

    def written(self, node: Any) -> Any:
        """The nest over blocks for one that is written, which is entered and left once for all blocks."""
        if isinstance(node, lp.Switch):
            return lp.rebuild(node, self.written)

        def preamble(host: Host) -> tuple[Node, Callable[[Host], None]]:
            epilogues: list[Callable[[Host], None]] = []

            def enter(node: Node) -> Node:
                if isinstance(node, lp.Thunk):
                    body, epilogue = node.preamble(host)
                    epilogues.extend([epilogue] if epilogue else [])
                    return enter(body)
                is_around = isinstance(node, (lp.Shift, lp.Phase, lp.Sequence))
                return lp.rebuild(node, enter) if is_around else node

            def leave(host: Host) -> None:
                for epilogue in reversed(epilogues):
                    epilogue(host)

            nest = enter(node)
            return self.blocks(lambda host, protocol: nest), leave

        return lp.Thunk(preamble)


class FilledBlocks:
    """A stepper over the blocks in which a stepper over stored positions has an entry. The current
    block's entries begin at position `at` and end before position `end`."""

    def __init__(self, projection: Projection, host: Host, steps: lp.Steps, known: Any):
        self.projection, self.steps, self.known = projection, steps, known
        self.is_listed = known.are_points and known.are_distinct
        self.at, self.end = host.cell(known.start, "q"), host.cell(known.start, "end")
        self.block = host.cell(ZERO, "block")
        self.settle(host)

    def settle(self, host: Host) -> None:
        """Find the block of the position `at`, which is after the previous block."""
        at = host.get(self.at)

        def find() -> None:
            first = self.projection.reach(self.known.entry(host, at)[0])
            block = op("max", first, add(host.get(self.block), 1))
            block = host.let(first if self.is_listed else block, "block")
            host.set(self.block, block)
            if self.is_listed:
                host.set(self.end, self.after(host, at, block))

        host.branch(compare("lt", at, self.known.stop), find)

    def after(self, host: Host, q: Expr, block: Expr) -> Expr:
        """The first position from q on whose entry reaches beyond a block."""
        return self.known.locate(host, q, add(self.projection.before(add(block, 1)), 1))

    def seek(self, host: Host, j: Expr) -> None:
        host.set(self.at, self.after(host, host.get(self.at), sub(j, ONE)))
        host.set(self.block, sub(j, ONE))
        self.settle(host)

    def next(self, host: Host) -> None:
        if self.is_listed:
            host.set(self.at, host.get(self.end))
        else:
            host.set(self.at, self.after(host, host.get(self.at), host.get(self.block)))
        self.settle(host)

    def body(self, host: Host) -> Node:
        def spike(host: Host) -> Node:
            if self.is_listed:
                block = self.projection.block(self.entries(host))
            else:
                blocks = self.projection.blocks(self.projection.looplets)
                block = blocks.body(host, host.get(self.block))
            return lp.Spike(self.known.fill, block)

        return lp.delayed(spike)

    def looplets(self, host: Host) -> Node:
        """The stepper up to the last block with an entry, then fill."""
        reach, last = self.projection.reach, self.steps.last
        kind = lp.Jumper if isinstance(self.steps, lp.Jumper) else lp.Stepper
        parts = self.seek, lambda host: host.get(self.block), self.body, self.next
        steps: Any = kind(*parts, first=reach(self.steps.first))
        if last is not None:
            return replace(steps, last=reach(last))
        known = self.known
        is_any = compare("lt", known.start, known.stop)
        final = sub(known.stop, ONE)

        def find() -> Expr:
            i = known.entry(host, final)[1]
            # in a slice, positions before its first element have the coordinate 0, and no block
            there = TRUE if self.is_listed else compare("lt", ZERO, i)
            return op("select", there, reach(i), ZERO)

        last = host.only_if(is_any, find, "last", ZERO)
        steps = replace(steps, last=last)
        return lp.Sequence((lp.Phase(steps, stop=last), lp.Phase(lp.Run(known.fill))))

    def entries(self, host: Host) -> Looplets:
        """The looplets of the current block: its positions with fill between them."""
        known, start, stop = self.known, host.get(self.at), host.get(self.end)
        size, is_led = self.projection.size, isinstance(self.steps, lp.Jumper)
        before = host.let(self.projection.before(host.get(self.block)), "before")

        def looplets(host: Host, protocol: str | None) -> Node:
            if protocol == "follow":
                return lp.Shift(self.projection.looplets(host, protocol), sub(ZERO, before))
            kind = lp.Jumper if protocol == "gallop" or (is_led and not protocol) else lp.Stepper
            return lp.delayed(lambda host: between(host, kind))

        def between(host: Host, kind: type[lp.Steps]) -> Node:
            cell = host.cell(start, "q")
            last = sub(known.coordinate(host, sub(stop, ONE)), before)
            last = host.let(last, "last", upper=size)

            own = replace(known, start=start, stop=stop, at=cell)

            def spike(host: Host) -> Node:
                payload = known.entry(host, own.here(host))[2](host)
                return lp.Spike(known.fill, payload, is_stored=True)

            steps: Any = kind(
                lambda host, i: own.go(host, known.locate(host, own.here(host), i)),
                lambda host: known.coordinate(host, own.here(host)),
                lambda host: lp.delayed(spike),
                lambda host: own.go(host, add(own.here(host), 1)),
                stored=own,
            )
            local: Any = lp.shifted(steps, sub(ZERO, before))
            local = replace(local, last=last, first=ONE)
            return lp.Sequence((lp.Phase(local, stop=last), lp.Phase(lp.Run(known.fill))))

        return looplets
