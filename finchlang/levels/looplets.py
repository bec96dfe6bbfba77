"""The looplets (Finch'25 Table 2, Looplets'23 section 4): data that describes how to iterate over one
dimension of a tensor, and `rebuild`, the fold over them. Their meaning is given by the rules
(`rules/base/loops.py`, `rules/base/regions.py`, `rules/base/steppers.py`).

Where a looplet needs code, it holds a Python function over host operations. A *payload* is what a leaf
looplet gives for one coordinate: a Literal, a Value, a fiber of the remaining dimensions, or another
looplet. Looplets are nodes so that they can take the place of a tensor in an access. They are compared by
identity, as each may hold state of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from types import MethodType
from typing import Any, ClassVar

from finchlang.base.errors import Bug
from finchlang.base.records import record
from finchlang.host.construct import ONE, ZERO, add, compare, op, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Expr, Var
from finchlang.syntax import nodes as ast, types


@record(eq=False, slots=True)
class Looplet(ast.Node):
    """The base of looplets."""

    is_leaf: ClassVar[bool] = True  # generic walks do not look inside

    # Node compares by structure, and would find two looplets of one kind equal
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}(...)"


@record(eq=False, slots=True)
class Lookup(Looplet):
    """A region with the payload `body(host, i)` at coordinate i. `may_miss` if that may be `missing`."""

    body: Callable[[Host, Expr], ast.Node]
    may_miss: bool = False


@record(eq=False, slots=True)
class Run(Looplet):
    """A constant region: `body` is the payload at every coordinate."""

    body: ast.Node


@record(eq=False, slots=True)
class Spike(Looplet):
    """A run of payload `body`, then the single payload `tail` at the last coordinate.

    `end` is that coordinate. A level may leave it out: the phase, stepper or jumper around the spike then
    sets it to its own end. A region that stops before `end` sees the run only. `is_stored`: the tail may
    be read even if the region does not reach `end`.
    """

    body: ast.Node
    tail: ast.Node
    end: Expr | None = None
    is_stored: bool = False


@record(eq=False, slots=True)
class Phase(Looplet):
    """`body` on the coordinates start..stop; a None is the region's own start or end."""

    body: ast.Node
    start: Expr | None = None
    stop: Expr | None = None


@record(eq=False, slots=True)
class Sequence(Looplet):
    """Phases that cover the region. One without a start begins where the one before ends."""

    phases: tuple[Phase, ...]


@record(eq=False, slots=True)
class Switch(Looplet):
    """`head` if `condition` holds, else `tail`."""

    condition: Expr
    head: ast.Node
    tail: ast.Node


@record(eq=False, slots=True)
class Choice(Looplet):
    """`options[k][1]` where the k-th condition holds (at most one does), else `otherwise`. The derived rule
    Union treats several together, where the rule Choice would branch over all combinations."""

    options: tuple[tuple[Expr, ast.Node], ...]
    otherwise: ast.Node
    is_stored: bool = False  # all options may be read, whichever condition holds

    @property
    def nodes(self) -> list[ast.Node]:
        """All that it may be."""
        return [*(node for _, node in self.options), self.otherwise]


@record(eq=False, slots=True)
class Thunk(Looplet):
    """Work before and after a body: `preamble(host)` does the first part and gives the body and, if there
    is one, the epilogue, which does the last. Both run once, for all accesses with this looplet."""

    preamble: Callable[[Host], tuple[ast.Node, Callable[[Host], None] | None]]


def entering(enter: Callable[[Host, Expr], tuple[ast.Node, Any]]) -> Lookup:
    """A lookup whose payloads are thunks: `enter(host, i)` is the first part of that at coordinate i."""
    return Lookup(lambda host, i: Thunk(lambda host: enter(host, i)))


def delayed(make: Callable[[Host], ast.Node]) -> Thunk:
    """A thunk that does no more than to make its body."""
    return Thunk(lambda host: (make(host), None))


def amid(
    fill: ast.Node, first: Any, last: Any, inside: ast.Node, is_followed: bool = False
) -> ast.Node:
    """`inside` over the coordinates first..last (None: from or to the end), and runs of `fill` around it;
    if it `is_followed`, a comparison at each coordinate."""
    if is_followed:

        def at(host: Host, i: Expr) -> ast.Node:
            holds = op("and", compare("le", first, i), compare("le", i, last))
            return Switch(holds, at_point(host, inside, i), fill)

        return Lookup(at)
    before = () if first is None or first is ONE else (Phase(Run(fill), stop=sub(first, 1)),)
    after = () if last is None else (Phase(Run(fill)),)
    return Sequence((*before, Phase(inside, stop=last), *after))


@record(eq=False, slots=True)
class Steps(Looplet):
    """The base of steppers and jumpers: any number of looplets, one after the other.

    `body(host)` is the current looplet and `stride(host)` its last coordinate; `next(host)` moves on by
    one, and `seek(host, i)` to the looplet that holds coordinate i. `last` is the last coordinate of all;
    at `first` it stands without a seek. `seek` is None once it was done (rule StepperSeek). If it
    `ends_behind`, `stride` gives a coordinate behind the region once no looplet is left.
    """

    seek: Callable[[Host, Expr], None] | None
    stride: Callable[[Host], Expr]
    body: Callable[[Host], ast.Node]
    next: Callable[[Host], None]
    last: Expr | None = None
    stored: Stored | None = None
    first: Expr = ONE
    ends_behind: bool = False


@record(eq=False, slots=True)
class Stepper(Steps):
    """A stepper: takes the smallest stride of all steppers in the loop."""


@record(eq=False, slots=True)
class Jumper(Steps):
    """A jumper: the largest stride of all jumpers leads, the others follow as steppers."""


@record(eq=False, slots=True)
class Blocks(Jumper):
    """A jumper over blocks, each a looplet nest that is entered once: no other stride cuts a block, since
    this one stays a jumper where another leads. `lookup`, if any, gives the payload at any coordinate."""

    lookup: ast.Node | None = None


@record(eq=False, slots=True)
class Shift(Looplet):
    """`body` moved: coordinate i of the loop is coordinate i - delta in it (Looplets'23 section 8)."""

    body: ast.Node
    delta: Expr


@record(eq=False, slots=True)
class AcceptRun(Looplet):
    """On the left of an assignment: a writer of one value to a whole region. `body(host, start, stop)` is
    the payload that writes coordinates start..stop."""

    body: Callable[[Host, Expr, Expr], ast.Node]


#: the first and last coordinate of an entry, and a function that makes its payload (of a point) or looplet
Entry = tuple[Expr, Expr, Callable[[Host], ast.Node]]


@record(slots=True)
class Stored:
    """A stepper as a cursor over sorted storage, for the rule Meet: positions start..stop - 1 have an
    entry each, in order, and `fill` is the payload between them (None if there is no gap).

    `at` holds the stepper's position. `locate(host, q, i)` is the first position from q on whose entry
    ends at or after coordinate i. `entry(host, q)` is the entry at q. If `are_points` all entries are
    points, with different coordinates if `are_distinct`. `listed`: the buffer that has the coordinates of
    points, if one has, and the number to be added to them.
    """

    start: Expr
    stop: Expr
    fill: ast.Node | None
    at: Cell
    locate: Callable[[Host, Expr, Expr], Expr]
    entry: Callable[[Host, Expr], Entry]
    are_points: bool = False
    are_distinct: bool = True
    listed: tuple[Buffer, Expr] | None = None

    def here(self, host: Host) -> Expr:
        """The stepper's position."""
        return host.get(self.at, lower=self.start)

    def go(self, host: Host, q: Expr) -> None:
        """Move the stepper to a position."""
        host.set(self.at, q)

    def coordinate(self, host: Host, q: Expr) -> Expr:
        return self.entry(host, q)[1]


def _same(part: Any) -> Any:
    return part


def apart(steps: Steps) -> Steps:
    """A copy of steps whose functions are methods of one object, with an object of its own."""
    owner = getattr(steps.stride, "__self__", None)
    if owner is None:
        return steps
    other, own = copy(owner), {}
    for name in ("stride", "body", "next"):
        function = getattr(steps, name)
        if getattr(function, "__self__", None) is owner:
            own[name] = MethodType(function.__func__, other)
    changes: dict[str, Any] = own
    return replace(steps, **changes)


def rebuild(
    looplet: Any,
    inside: Callable[[ast.Node], ast.Node],
    payload: Callable[[ast.Node], ast.Node] = _same,
    up: Callable[[Expr], Expr] = _same,
    down: Callable[[Expr], Expr] = _same,
) -> Any:
    """`looplet` with `inside` applied to the looplets directly in it, and `payload` to its payloads. `up`
    maps coordinates of the parts to those of the result, `down` the other way."""

    def end(coordinate: Expr | None) -> Expr | None:
        return None if coordinate is None else up(coordinate)

    match looplet:
        case Lookup(at, may_miss):
            return Lookup(lambda host, i: payload(at(host, down(i))), may_miss)
        case Run(body):
            return Run(payload(body))
        case Spike(body, tail, last):
            return replace(looplet, body=payload(body), tail=payload(tail), end=end(last))
        case Phase(body, start, stop):
            return Phase(inside(body), end(start), end(stop))
        case Sequence(phases):
            return Sequence(tuple(rebuild(p, inside, payload, up, down) for p in phases))
        case Switch(condition, head, tail):
            return Switch(condition, inside(head), inside(tail))
        case Choice(options, otherwise):
            options = tuple((c, inside(body)) for c, body in options)
            return replace(looplet, options=options, otherwise=inside(otherwise))
        case Thunk(preamble):

            def enter(host: Host) -> tuple[ast.Node, Callable[[Host], None] | None]:
                body, epilogue = preamble(host)
                return inside(body), epilogue

            return Thunk(enter)
        case Shift(body, delta):
            return Shift(inside(body), delta)
        case AcceptRun(accept):
            return AcceptRun(lambda host, a, b: payload(accept(host, down(a), down(b))))
        case Steps(seek, stride, current, _, last, known, first):
            new = replace(
                looplet,
                seek=None if seek is None else lambda host, i: seek(host, down(i)),
                stride=lambda host: up(stride(host)),
                body=lambda host: inside(current(host)),
                last=end(last),
                stored=known and _stored(known, inside, payload, up, down),
                first=up(first),
            )
            if isinstance(new, Blocks) and new.lookup is not None:
                return replace(new, lookup=rebuild(new.lookup, inside, payload, up, down))
            return new
    return looplet


def _stored(known: Stored, inside: Any, payload: Any, up: Any, down: Any) -> Stored:
    """`rebuild` for a cursor."""
    entry, locate, change = known.entry, known.locate, payload if known.are_points else inside

    def moved(host: Host, q: Expr) -> Entry:
        first, last, make = entry(host, q)
        return up(first), up(last), lambda host: change(make(host))

    return replace(
        known,
        fill=known.fill and payload(known.fill),
        locate=lambda host, q, i: locate(host, q, down(i)),
        entry=moved,
        listed=known.listed and _moved(*known.listed, up),
    )


def _moved(idx: Buffer, delta: Expr, up: Callable[[Expr], Expr]) -> tuple[Buffer, Expr] | None:
    """Stored coordinates after `up`, if that only adds a number to each; else None."""
    i = Var("i", types.Int64)
    return (idx, up(delta)) if up is _same or up(i) is add(i, up(ZERO)) else None


def map_payloads(function: Callable[[ast.Node], ast.Node], node: ast.Node) -> ast.Node:
    """A looplet nest with `function` applied to the payloads at its leaves."""

    def inside(node: ast.Node) -> ast.Node:
        return map_payloads(function, node)

    return rebuild(node, inside, inside) if isinstance(node, Looplet) else function(node)


def shifted(node: ast.Node, delta: Expr) -> ast.Node:
    """A looplet with all its coordinates moved by `delta`; the looplets in it are put in Shifts."""
    if isinstance(node, Shift):
        return Shift(node.body, add(delta, node.delta))
    up, down = (lambda i: add(i, delta)), (lambda i: sub(i, delta))
    return rebuild(node, lambda body: Shift(body, delta), up=up, down=down)


def set_end(looplet: Any, end: Expr | None) -> Any:
    """`looplet` with the end set for those spikes in it that leave it to their surroundings."""
    match looplet:
        case Spike(end=None) if end is not None:
            return replace(looplet, end=end)
        case Switch() | Thunk():
            return rebuild(looplet, lambda body: set_end(body, end))
        case Shift(moved, delta):
            return Shift(set_end(moved, None if end is None else sub(end, delta)), delta)
        case Sequence((*phases, Phase(rest, start, None))):
            return Sequence((*phases, Phase(rest, start, end)))
        case Phase(body, start, None) if end is not None:
            return Phase(set_end(body, end), start)
        case Sequence((*before, last)):
            return Sequence((*before, set_end(last, end)))
    return looplet


def at_point(host: Host, node: Any, i: Expr) -> ast.Node:
    """The payload of a looplet nest at coordinate i, in switches and thunks that find it."""

    def inside(body: ast.Node) -> ast.Node:
        return at_point(host, body, i)

    match node:
        case Lookup(at):  # in a thunk: it may only be read if the phase holds i
            return delayed(lambda host: at(host, i))
        case AcceptRun(accept):
            return accept(host, i, i)
        case Run(body):
            return body
        case Spike(body, tail, end):
            assert end is not None
            return Switch(compare("eq", i, end), tail, body)
        case Phase(body, _, stop):
            return inside(set_end(body, stop))
        case Sequence((*phases, last)):
            rest = inside(last)
            for phase in reversed(phases):
                assert phase.stop is not None
                rest = Switch(compare("le", i, phase.stop), inside(phase), rest)
            return rest
        case Shift(body, delta):
            return inside(shifted(body, delta))
        case Blocks(lookup=Lookup() as found):
            return inside(found)
        case Steps(seek):

            def find(host: Host) -> ast.Node:
                assert seek is not None
                seek(host, i)
                return at_point(host, set_end(node.body(host), node.stride(host)), i)

            return delayed(find)
        case Switch() | Choice() | Thunk():
            return rebuild(node, inside)
    raise Bug(f"nothing is at a place of {node}")


def is_payload(node: ast.Node) -> bool:
    """Whether no looplet is left of `node`, or only choices among payloads."""
    match node:
        case Switch(_, head, tail):
            return is_payload(head) or is_payload(tail)
        case Choice():
            return any(map(is_payload, node.nodes))
    return not isinstance(node, Looplet)


def may_be_missing(looplet: ast.Node) -> bool:
    """Whether a payload in `looplet`, a nest over the last remaining dimension, may be `missing`.
    Wrappers put runs of it before and after a tensor, never between its entries; only a product (Blocks)
    has them in each block."""
    match looplet:
        case Run(body) | Phase(body) | Shift(body):
            return may_be_missing(body)
        case Spike(body, tail) | Switch(_, body, tail):
            return may_be_missing(body) or may_be_missing(tail)
        case Choice():
            return any([may_be_missing(node) for node in looplet.nodes])
        case Sequence(phases):
            return any([may_be_missing(phase) for phase in phases])
        case Lookup():
            return looplet.may_miss
        case Steps():
            return isinstance(looplet, Blocks)
        case Looplet():  # the body of a thunk or the payload of a writer is not known yet
            return True
    return ast.is_missing(looplet)
