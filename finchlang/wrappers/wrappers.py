"""Wrappers: tensors that change how the tensor within them is accessed (Finch'25 Table 5).

Each kind is a row of WRAPPERS. In a program a wrapper is the call that makes it, since an argument may
have its value only inside the loops over other modes. It is made for one loop, over its last mode; the
payloads of its looplets are calls again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.host.construct import ONE, ZERO, add, compare, conjunction, const, sub
from finchlang.host.interface import Host, fail_unless
from finchlang.host.ir import Const, Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import UPDATE, TensorLike
from finchlang.operators.build import LARGEST
from finchlang.syntax.nodes import MISSING, Call, Extent, Literal, Node, Value, Variable
from finchlang.syntax.traversal import substitute
from finchlang.syntax.types import Int64
from finchlang.wrappers import strided_slice
from finchlang.wrappers.broadcast import AddedMode, Around, Evaluate, Resolve, Toeplitz
from finchlang.wrappers.collapse import Collapse
from finchlang.wrappers.split import PLACEHOLDER, NestCall, Split

_MISSING = Literal(MISSING)
_TRUE, _FALSE = Literal(True), Literal(False)


# ------------------------------------------------------------------------------------- closures
#
# Rules that search and substitute in terms cannot see into looplets. So the settings that payloads depend
# on are kept in the access beside the looplet, and payloads have placeholders for them.


def capture(tensor: Node, is_known: Callable[[Node], bool]) -> tuple[Node, tuple[Node, ...]]:
    """A tensor with placeholders for the settings that are not known yet, and these settings."""
    captured: list[Node] = []

    def closed(node: Node) -> Node:
        if not isinstance(node, Call) or _name(node) not in WRAPPERS:
            return node
        body, *settings = node.args
        return Call(node.op, (closed(body), *map(hide, settings)), span=node.span)

    def hide(setting: Node) -> Node:
        if setting in _PROTOCOLS or is_known(setting):
            return setting
        captured.append(setting)
        return _placeholder(len(captured) - 1)

    return closed(tensor), tuple(captured)


def release(payload: Node, captured: tuple[Node, ...]) -> Any:
    """A payload with the settings put back in place of their placeholders."""
    return substitute(payload, {_placeholder(n): setting for n, setting in enumerate(captured)})


def _placeholder(number: int) -> Variable:
    return Variable(f"{PLACEHOLDER}{number}")


_PROTOCOLS = tuple(map(Variable, ("walk", "gallop", "follow")))


@record(slots=True)
class Wrapper(Around):
    """The base of wrappers with a setting for each mode; `last` is that of the last, None if neutral."""

    last: Any

    @classmethod
    def made(cls, call: Call, resolve: Resolve, evaluate: Evaluate) -> TensorLike:
        setting = call.args[-1]
        last = None if setting == cls.neutral else cls.read(setting, evaluate)
        return cls(resolve(call.args[0]), call, resolve, evaluate, last)

    @staticmethod
    def read(setting: Node, evaluate: Evaluate) -> Any:
        """A setting that is not neutral."""
        return evaluate(setting)

    @property
    def order(self) -> int:
        return len(self.call.args) - 1

    @property
    def is_own(self) -> bool:
        return self.last is not None

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        return self.body.extent(back)

    def setting(self, back: int) -> Any:
        """The setting of the mode `back` before the last; None if it is neutral."""
        if back == 0:
            return self.last
        setting = self.call.args[-1 - back]
        return None if setting == self.neutral else self.read(setting, self.evaluate)

    def located(self, in_a_row: bool) -> int:
        within = self.body.located(in_a_row)
        if not (in_a_row or isinstance(self, Permissive)):
            return within
        neutral = takewhile(self.neutral.__eq__, reversed(self.call.args[1:]))
        return min(within, len(list(neutral)))

    def around(self, inner: Node) -> Node:
        """`inner` in the wrapper of all modes but the last."""
        settings = self.call.args[1:-1]
        if all(s == self.neutral for s in settings):
            return inner
        return Call(self.call.op, (inner, *settings), span=self.call.span)

    def rest(self, payload: Node) -> Node:
        return payload if isinstance(payload, (Literal, Value)) else self.around(payload)

    def uniform(self, value: Node) -> Node:
        return self.around(self.body.uniform(value))

    def within(self, host: Host, protocol: str | None) -> Node:
        """The looplet nest of the tensor within, over all of its extent."""
        looplet = lp.map_payloads(self.rest, self.body.unfurl(host, None, protocol))
        extent = self.body.extent()
        return looplet if extent is None else lp.set_end(looplet, extent[1])


@record(slots=True)
class Protocolized(Wrapper):
    """`protocolize(A, p...)`: read mode k by protocol p[k] (walk, gallop, follow) if that is given."""

    @staticmethod
    def read(setting: Node, evaluate: Evaluate) -> str:
        if setting in _PROTOCOLS:
            return setting.name
        raise FinchError("type", "a protocol is walk, gallop, follow or nothing", setting.span)

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        return lp.map_payloads(self.rest, self.body.unfurl(host, stop, protocol or self.last))


@record(slots=True)
class Permissive(Wrapper):
    """`permissive(A, b...)`: if b[k], mode k reads `missing` out of range, and takes no writes there."""

    neutral = _FALSE

    @staticmethod
    def read(setting: Node, evaluate: Evaluate) -> bool:
        if setting == _TRUE:
            return True
        raise FinchError("type", "permissive(A, ...) takes true or false a mode", setting.span)

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        return None if self.setting(back) else self.body.extent(back)

    def rest(self, payload: Node) -> Node:
        # also where an outer level stores nothing, inner modes must read `missing` out of range
        if isinstance(payload, (Literal, Value)) and payload != _MISSING:
            whole = self.uniform(payload) if self.order > 1 else payload
            return whole if _TRUE in self.call.args[1:-1] else payload
        return Wrapper.rest(self, payload)

    @property
    def is_own(self) -> bool:
        return bool(self.last) and self.body.extent() is not None

    def nest(self, host: Host, protocol: str | None) -> Node:
        first, last = self.body.extent()
        before = lp.Phase(lp.Run(_MISSING), stop=sub(first, ONE))
        inside = lp.Phase(self.within(host, protocol), first, last)
        return lp.Sequence((before, inside, lp.Phase(lp.Run(_MISSING))))


@record(slots=True)
class Offset(Wrapper):
    """`offset(A, d...)[i...]` is `A[i + d...]`."""

    neutral = Literal(0)

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        extent, delta = self.body.extent(back), self.setting(back)
        if extent is None or delta is None:
            return extent
        return sub(extent[0], delta), sub(extent[1], delta)

    def nest(self, host: Host, protocol: str | None) -> Node:
        delta = host.let(sub(ZERO, self.last), "shift")
        return lp.Shift(self.within(host, protocol), delta)


@record(slots=True)
class Window(Wrapper):
    """`window(A, a:b, ...)[i, ...]` is `A[i + a - 1, ...]` with i in 1:(b - a + 1), and
    `window(A, a:s:b, ...)[i, ...]` is `A[a + (i - 1) * s, ...]`; s may be negative where a level can
    be read, or written, in any order."""

    @staticmethod
    def read(setting: Node, evaluate: Evaluate) -> Limits:
        if not isinstance(setting, Extent):
            raise FinchError("type", "a window is a range, or nothing", setting.span)
        is_plain = setting.step in (None, Literal(1))
        limits = evaluate(setting.start), evaluate(setting.stop)
        return Limits(*limits, None if is_plain else evaluate(setting.step))  # type: ignore[arg-type]

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        limits = self.setting(back)
        return self.body.extent(back) if limits is None else (ONE, limits.length())

    def nest(self, host: Host, protocol: str | None) -> Node:
        if self.last.step is not None:
            return self._strided(host, protocol)
        first, last, _ = self.last
        if (extent := self.body.extent()) is not None:
            _check_window(host, self, extent, ONE)
        delta = host.let(sub(ONE, first), "shift")
        return lp.set_end(lp.Shift(self.within(host, protocol), delta), add(last, delta))

    def _strided(self, host: Host, protocol: str | None) -> Node:
        start, _, step = self.last
        message = "the step of a slice is not 0"
        fail_unless(host, compare("ne", step, 0), "dimension", message, (), self.call.span)
        fits = conjunction(compare("lt", step, LARGEST), compare("gt", step, -LARGEST))
        message = "the step of a slice, {}, is beyond 2^62"
        fail_unless(host, fits, "dimension", message, (step,), self.call.span)
        if (extent := self.body.extent()) is not None:
            _check_window(host, self, extent, step)
        if self.mode == UPDATE:
            self._check_order(host)
        rises = compare("gt", step, ZERO)

        def part(host: Host, is_rising: bool) -> Node:
            asked = protocol if is_rising else "follow"
            return strided_slice.Slice(start, step, is_rising).of(self.within(host, asked))

        if isinstance(rises, Const):
            return part(host, rises.value)
        risen = part(host, True)
        if isinstance(risen, lp.Lookup):  # a lookup does not depend on the direction
            return risen
        return lp.Switch(rises, risen, lp.delayed(lambda host: part(host, False)))

    def _check_order(self, host: Host) -> None:
        """Fail (kind access order) if the step is negative and a level must be written in order."""
        step = self.last.step
        ordered = next((lv for lv in self.level.levels() if lv.is_sequential), None)
        if ordered is None:
            return
        rises, kind = compare("gt", step, ZERO), type(ordered).__name__
        message = f"{kind} is written in order, and this slice goes down"
        if isinstance(rises, Const) and not rises.value:
            hint = f"use a format that takes any order: {self.level.random_access()}"
            raise FinchError("access order", message, self.call.span, hint)
        fail_unless(host, rises, "access order", message, (), self.call.span)


def _check_window(host: Host, window: Window, extent: tuple[Expr, Expr], step: Expr) -> None:
    """Fail (kind bounds) unless a window or slice is within `extent`."""
    start, stop, given = window.last
    shown, values = "slice {}:{}:{}", [start, step, stop]
    if given is None:
        shown, values = "window {}:{}", [start, stop]
    message = f"the {shown} is not within dimension {window.order}, which is {{}}:{{}}"
    fits = strided_slice.is_within(start, step, stop, extent)
    fail_unless(host, fits, "bounds", message, (*values, *extent), window.call.span)


class Limits(NamedTuple):
    """The elements start, start + step, ..., stop of a window or slice."""

    start: Expr
    stop: Expr
    step: Expr | None

    def length(self) -> Expr:
        if self.step is None:
            return add(sub(self.stop, self.start), ONE)
        return strided_slice.length(self.start, self.step, self.stop)


@record(slots=True)
class Swizzle(Around):
    """`swizzle(A, p..., x...)`: mode m of A takes index p[m]. The coordinates x of the last indices are
    known, the very last one first. A is looked up in any order: the pass wrapperize resolves all others."""

    @property
    def _permutation(self) -> tuple[int, ...]:
        modes = self.call.args[1 : self.body.order + 1]
        return tuple(p.value for p in modes if isinstance(p, Literal))

    @property
    def _known(self) -> list[Expr]:
        known: Any = self.call.args[self.body.order + 1 :]
        return [const(x.value, Int64) if isinstance(x, Literal) else x.expr for x in known]

    @property
    def order(self) -> int:
        return self.body.order - len(self._known)

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        mode = self._permutation.index(self.order - back)
        return self.body.extent(self.body.order - 1 - mode)

    def located(self, in_a_row: bool) -> int:
        return 0 if in_a_row else self.order

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        def at(host: Host, i: Expr) -> Node:
            call = Call(self.call.op, (*self.call.args, Value(i)), span=self.call.span)
            if self.order > 1:
                return call
            given = i, *reversed(self._known)
            return self._at(host, self.call.args[0], [given[p - 1] for p in self._permutation])

        return lp.Lookup(at, may_miss=True)

    def _at(self, host: Host, node: Node, given: list[Expr]) -> Node:
        """The value of a tensor at coordinates, first mode first."""
        if not given or isinstance(node, Literal):
            return node
        *others, last = given
        tensor = self.resolve(node, host=host)
        nest, extent = tensor.unfurl(host, None, "follow"), tensor.extent()
        if extent is not None:
            nest = lp.set_end(nest, extent[1])

        def inside(payload: Node) -> Node:
            return lp.delayed(lambda host: self._at(host, payload, others))

        found = lp.at_point(host, nest, host.let(last, "n"))
        return lp.map_payloads(inside, found) if others else found


def _name(call: Call) -> str:
    assert isinstance(call.op, Variable)
    return call.op.name


#: the rows of Table 5, by their names in programs
WRAPPERS: dict[str, type[Around]] = {
    "protocolize": Protocolized,
    "permissive": Permissive,
    "offset": Offset,
    "window": Window,
    "toeplitz": Toeplitz,
    "collapse": Collapse,
    "split": Split,
    "broadcast": AddedMode,
    "swizzle": Swizzle,
    "nest": NestCall,
}
