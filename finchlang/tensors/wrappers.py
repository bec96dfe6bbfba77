"""Wrappers: tensors that change how the tensor they wrap is accessed (Finch'25 Table 5).

Each is a row of WRAPPERS. A wrapper travels through a program as the call that makes it, since an
argument may have its value only inside of the loops over other modes; it is made for one loop, over
its last mode, and its looplet's payloads are calls again. A swizzle is not here: the wrapperise
pass resolves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from finchlang.host.fold import ONE, ZERO, add, compare, sub
from finchlang.host.interface import Host
from finchlang.host.ir import Const, Expr
from finchlang.looplets import (
    Lookup,
    Phase,
    Run,
    Sequence,
    Shift,
    Switch,
    Thunk,
    map_payloads,
    set_end,
)
from finchlang.source import FinchError
from finchlang.syntax import MISSING, NOTHING, Call, Extent, Index, Literal, Node, Value, Variable
from finchlang.tensors import slices
from finchlang.tensors.level import UPDATE, Fiber, TensorLike
from finchlang.walk import substitute, walk

_MISSING = Literal(MISSING)


# ------------------------------------------------------------------------------------- closures
#
# A looplet is opaque: what its payloads depend on stands in the access beside it, where terms are
# searched and substituted, and a placeholder in the payload.


def capture(tensor: Node) -> tuple[Node, tuple[Node, ...]]:
    """A tensor with placeholders for the settings of its outer modes that are no constants, and
    these settings."""
    captured: list[Node] = []

    def closed(node: Node) -> Node:
        if not isinstance(node, Call) or _name(node) not in WRAPPERS:
            return node
        body, *settings = node.args
        return Call(
            node.op, (closed(body), *map(hide, settings[:-1]), settings[-1]), span=node.span
        )

    def hide(setting: Node) -> Node:
        if not any(isinstance(n, (Index, Variable)) for n in walk(setting)):
            return setting
        captured.append(setting)
        return _placeholder(len(captured) - 1)

    return closed(tensor), tuple(captured)


def release(payload: Node, captured: tuple[Node, ...]) -> Any:
    """A payload with the settings in the place of their placeholders."""
    return substitute(payload, {_placeholder(n): setting for n, setting in enumerate(captured)})


def _placeholder(number: int) -> Variable:
    return Variable(f"setting {number}")


#: evaluates an integer argument
Evaluate = Callable[[Node], Expr]


@dataclass(frozen=True, slots=True)
class Wrapper(TensorLike):
    """What wrappers have in common: the `call` that makes it, with a setting for each mode, the
    tensor `body` within, and the last mode's setting (None if it is neutral)."""

    call: Call
    body: TensorLike
    last: Any

    @property
    def mode(self) -> str:
        return self.body.mode

    @property
    def order(self) -> int:
        return len(self.call.args) - 1

    def extent(self) -> tuple[Expr, Expr] | None:
        return self.body.extent()

    def fill_value(self) -> Literal | None:
        return self.body.fill_value()

    def around(self, inner: Node) -> Node:
        """The wrapper of the modes but the last, around `inner`."""
        settings, neutral = self.call.args[1:-1], WRAPPERS[_name(self.call)].neutral
        if all(s == neutral for s in settings):
            return inner
        return Call(self.call.op, (inner, *settings), span=self.call.span)

    def rest(self, payload: Node) -> Node:
        """The wrapper around what is left of the tensor once its last mode has been looked up."""
        return payload if isinstance(payload, (Literal, Value)) else self.around(payload)

    def uniform(self, value: Node) -> Node:
        return self.around(self.body.uniform(value))

    def within(self, host: Host, mode: str, protocol: str | None) -> Node:
        """The looplet of the tensor within, over all of its extent."""
        looplet = map_payloads(self.rest, self.body.unfurl(host, None, mode, protocol))
        extent = self.body.extent()
        return looplet if extent is None else set_end(looplet, extent[1])


@dataclass(frozen=True, slots=True)
class Protocolized(Wrapper):
    """`protocolize(A, p...)`: read mode k by protocol p[k] (walk, gallop, follow) if that is given."""

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        looplet = self.body.unfurl(host, stop, mode, protocol or self.last)
        return map_payloads(self.rest, looplet)


@dataclass(frozen=True, slots=True)
class Permissive(Wrapper):
    """`permissive(A, b...)`: out of range, mode k reads `missing` if b[k] (and takes no writes)."""

    def extent(self) -> tuple[Expr, Expr] | None:
        return None if self.last else self.body.extent()

    def rest(self, payload: Node) -> Node:
        # where an outer level stores nothing, inner modes still end somewhere
        if isinstance(payload, (Literal, Value)) and payload != _MISSING:
            whole = self.uniform(payload) if self.order > 1 else payload
            return whole if _TRUE in self.call.args[1:-1] else payload
        return Wrapper.rest(self, payload)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        extent = self.body.extent()
        if not self.last or extent is None:
            return map_payloads(self.rest, self.body.unfurl(host, stop, mode, protocol))
        first, last = extent
        return Sequence(
            (
                Phase(Run(_MISSING), stop=sub(first, ONE)),
                Phase(self.within(host, mode, protocol), start=first, stop=last),
                Phase(Run(_MISSING)),
            )
        )


@dataclass(frozen=True, slots=True)
class Offset(Wrapper):
    """`offset(A, d...)[i...]` is `A[i + d...]`."""

    def extent(self) -> tuple[Expr, Expr] | None:
        extent = self.body.extent()
        if extent is None or self.last is None:
            return extent
        return sub(extent[0], self.last), sub(extent[1], self.last)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        if self.last is None:
            return map_payloads(self.rest, self.body.unfurl(host, stop, mode, protocol))
        delta = host.let(sub(ZERO, self.last), "shift")
        return Shift(self.within(host, mode, protocol), delta)


@dataclass(frozen=True, slots=True)
class Window(Wrapper):
    """`window(A, a:b, ...)[i, ...]` is `A[i + a - 1, ...]` with i in 1:(b - a + 1)."""

    def extent(self) -> tuple[Expr, Expr] | None:
        if self.last is None:
            return self.body.extent()
        start, stop = self.last
        return ONE, add(sub(stop, start), ONE)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        if self.last is None:
            return map_payloads(self.rest, self.body.unfurl(host, stop, mode, protocol))
        first, last = self.last
        if (extent := self.body.extent()) is not None:
            _check_window(host, self, extent, ONE)
        delta = host.let(sub(ONE, first), "shift")
        return set_end(Shift(self.within(host, mode, protocol), delta), add(last, delta))


@dataclass(frozen=True, slots=True)
class Strided(Wrapper):
    """`window(A, a:s:b, ...)[i, ...]` is `A[a + (i - 1) * s, ...]`; s may be negative where a level
    can be read, or written, in any order."""

    step: Expr

    def extent(self) -> tuple[Expr, Expr] | None:
        start, stop = self.last
        return ONE, slices.length(start, self.step, stop)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        start, step = self.last[0], self.step
        _fail_unless(
            host, compare("ne", step, 0), "dimension", "the step of a slice is not 0", (), self.call
        )
        if (extent := self.body.extent()) is not None:
            _check_window(host, self, extent, step)
        if mode == UPDATE:
            self._check_order(host)
        rises = compare("gt", step, ZERO)

        def part(is_rising: bool) -> Node:
            asked = protocol if is_rising else "follow"
            return slices.Slice(start, step, is_rising).of(self.within(host, mode, asked))

        if isinstance(rises, Const):
            return part(rises.value)
        risen = part(True)
        if isinstance(risen, Lookup):  # it is the same either way
            return risen
        return Switch(rises, risen, Thunk(lambda host: (part(False), None)))

    def _check_order(self, host: Host) -> None:
        """Fail if the step is negative and coordinates must come in order."""
        inner: Any = self
        while not isinstance(inner, Fiber):
            inner = inner.body if hasattr(inner, "body") else inner.fiber
        ordered = next((lv for lv in inner.level.levels() if lv.is_sequential), None)
        if ordered is None:
            return
        rises, kind = compare("gt", self.step, ZERO), type(ordered).__name__
        message = f"{kind} is written in order, and this slice goes down"
        if isinstance(rises, Const) and not rises.value:
            hint = f"use a format that takes any order: {inner.level.random_access()}"
            raise FinchError("access order", message, self.call.span, hint)
        _fail_unless(host, rises, "access order", message, (), self.call)


def _check_window(
    host: Host, window: Window | Strided, extent: tuple[Expr, Expr], step: Expr
) -> None:
    """Fail unless a window or slice is within `extent`."""
    start, stop = window.last
    is_plain = isinstance(window, Window)
    shown = "window {}:{}" if is_plain else "slice {}:{}:{}"
    values = (start, stop, *extent) if is_plain else (start, step, stop, *extent)
    dimension = len(window.call.args) - 1
    message = f"the {shown} is not within dimension {dimension}, which is {{}}:{{}}"
    fits = slices.is_within(start, step, stop, extent)
    _fail_unless(host, fits, "bounds", message, values, window.call)


def _fail_unless(
    host: Host, holds: Expr, kind: str, message: str, values: tuple[Expr, ...], call: Call
) -> None:
    if not (isinstance(holds, Const) and holds.value):
        host.branch(holds, lambda: None, lambda: host.fail(kind, message, values, call.span))


@dataclass(frozen=True, slots=True)
class Toeplitz(TensorLike):
    """`toeplitz(A, k)[..., i, j, ...]`, with i and j at k and k + 1, is `A[..., i + j, ...]`, and
    `missing` out of range."""

    call: Call
    body: TensorLike
    divided: int

    @property
    def mode(self) -> str:
        return self.body.mode

    @property
    def order(self) -> int:
        return self.body.order + 1

    def extent(self) -> tuple[Expr, Expr] | None:
        return None if self.divided == self.body.order else self.body.extent()

    def fill_value(self) -> Literal | None:
        return self.body.fill_value()

    def rest(self, payload: Node) -> Node:
        if payload == _MISSING:
            return payload
        if isinstance(payload, (Literal, Value)):
            payload = self.body.uniform(payload)
        return Call(self.call.op, (payload, *self.call.args[1:]), span=self.call.span)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        if self.divided < self.body.order:
            return map_payloads(self.rest, self.body.unfurl(host, stop, mode, protocol))
        outer, tensor = self.divided - 1, self.call.args[0]
        inner = Call(_PERMISSIVE, (tensor, *(_FALSE,) * outer, _TRUE), span=self.call.span)
        zeros = (Literal(0),) * outer
        return Lookup(lambda host, j: Call(_OFFSET, (inner, *zeros, Value(j)), span=self.call.span))


# --------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class WrapperKind:
    """A row of Table 5: how a wrapper is made from its call, the tensor within and the last
    argument; `neutral` is the setting of a mode that is left as it is."""

    neutral: Node
    make: Callable[[Call, TensorLike, Node, Evaluate], TensorLike]


_TRUE, _FALSE = Literal(True), Literal(False)
_PERMISSIVE, _OFFSET = Variable("permissive"), Variable("offset")
_NEUTRAL = Literal(NOTHING)


def _name(call: Call) -> str:
    assert isinstance(call.op, Variable)
    return call.op.name


def _protocolized(call: Call, body: TensorLike, last: Node, evaluate: Evaluate) -> TensorLike:
    if isinstance(last, Variable) and last.name in ("walk", "gallop", "follow"):
        return Protocolized(call, body, last.name)
    if last == _NEUTRAL:
        return Protocolized(call, body, None)
    raise FinchError("type", "a protocol is walk, gallop, follow or nothing", last.span)


def _permissive(call: Call, body: TensorLike, last: Node, evaluate: Evaluate) -> TensorLike:
    for arg in call.args[1:]:
        if arg not in (_TRUE, _FALSE):
            raise FinchError("type", "permissive(A, ...) takes true or false a mode", arg.span)
    return Permissive(call, body, True if last == _TRUE else None)


def _offset(call: Call, body: TensorLike, last: Node, evaluate: Evaluate) -> TensorLike:
    return Offset(call, body, None if last == Literal(0) else evaluate(last))


def _window(call: Call, body: TensorLike, last: Node, evaluate: Evaluate) -> TensorLike:
    if last == _NEUTRAL:
        return Window(call, body, None)
    if not isinstance(last, Extent):
        raise FinchError("type", "a window is a range, or nothing", last.span)
    limits = evaluate(last.start), evaluate(last.stop)
    if last.step in (None, Literal(1)):
        return Window(call, body, limits)
    return Strided(call, body, limits, evaluate(last.step))


def _toeplitz(call: Call, body: TensorLike, last: Node, evaluate: Evaluate) -> TensorLike:
    assert isinstance(last, Literal)
    return Toeplitz(call, body, last.value)


WRAPPERS: dict[str, WrapperKind] = {
    "protocolize": WrapperKind(_NEUTRAL, _protocolized),
    "permissive": WrapperKind(_FALSE, _permissive),
    "offset": WrapperKind(Literal(0), _offset),
    "window": WrapperKind(_NEUTRAL, _window),
    "toeplitz": WrapperKind(_NEUTRAL, _toeplitz),
}
