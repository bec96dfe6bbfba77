"""Wrappers: tensors that change how the tensor they wrap is accessed (Finch'25 Table 5).

Each is a row of WRAPPERS: how it is made from the arguments of its call. A swizzle is not here: the
wrapperise pass resolves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from finchlang.host.build import ONE, ZERO
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup, Looplet, Phase, Run, Sequence, Spike, Switch, Thunk, set_end
from finchlang.source import FinchError
from finchlang.syntax import MISSING, NOTHING, Literal, Node, Variable
from finchlang.tensors.level import TensorLike

_MISSING = Literal(MISSING)


def map_payloads(function: Callable[[Node], Node], looplet: Node) -> Node:
    """A looplet nest with `function` applied to the payloads at its leaves."""

    def inside(node: Node) -> Node:
        return map_payloads(function, node)

    found: Any = looplet
    match found:
        case Lookup(at):
            return Lookup(lambda host, i: inside(at(host, i)))
        case Run(body):
            return Run(function(body))
        case Spike(body, tail, end):
            return Spike(function(body), inside(tail), end)
        case Phase(body, start, stop):
            return Phase(inside(body), start, stop)
        case Sequence(phases):
            return Sequence(tuple(Phase(inside(p.body), p.start, p.stop) for p in phases))
        case Switch(condition, head, tail):
            return Switch(condition, inside(head), inside(tail))
        case Thunk(preamble):

            def enter(host: Host) -> tuple[Node, Any]:
                body, epilogue = preamble(host)
                return inside(body), epilogue

            return Thunk(enter)
        case Looplet():
            return _map_others(function, looplet)
    return function(looplet)


def _map_others(function: Callable[[Node], Node], looplet: Any) -> Node:
    """`map_payloads` for the looplets whose bodies are made step by step."""
    from dataclasses import replace

    from finchlang.looplets import AcceptRun, Positions, Shift

    def inside(node: Node) -> Node:
        return map_payloads(function, node)

    if isinstance(looplet, Shift):
        return Shift(inside(looplet.body), looplet.delta)
    if isinstance(looplet, AcceptRun):
        accept = looplet.body
        return AcceptRun(lambda host, start, stop: inside(accept(host, start, stop)))
    body, positions = looplet.body, looplet.positions
    if positions is not None:
        tail = positions.tail
        positions = Positions(
            positions.start,
            positions.stop,
            positions.coordinate,
            lambda host, q, i: inside(tail(host, q, i)),
            function(positions.fill),
            positions.locate,
        )
    return replace(looplet, body=lambda host: inside(body(host)), positions=positions)


@dataclass(frozen=True, slots=True)
class Wrapper(TensorLike):
    """What wrappers have in common: the tensor below, and a setting for each mode."""

    body: TensorLike
    settings: tuple[Any, ...]

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.body.sizes()

    def fill_value(self) -> Literal | None:
        return self.body.fill_value()

    def rest(self, payload: Node) -> Node:
        """The wrapper around what is left of the tensor once its last mode has been looked up."""
        settings = self.settings[:-1]
        if isinstance(payload, TensorLike) and any(s is not None for s in settings):
            return type(self)(payload, settings)
        return payload


@dataclass(frozen=True, slots=True)
class Protocolized(Wrapper):
    """`protocolize(A, p...)`: read mode k by protocol p[k] (walk, gallop, follow) if that is given."""

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        looplet = self.body.unfurl(host, stop, mode, self.settings[-1] or protocol)
        return map_payloads(self.rest, looplet)


@dataclass(frozen=True, slots=True)
class Permissive(Wrapper):
    """`permissive(A, b...)`: out of range, mode k reads `missing` if b[k] (and takes no writes)."""

    def sizes(self) -> tuple[Expr | None, ...]:
        pairs = zip(self.body.sizes(), self.settings, strict=True)
        return tuple(None if permissive else size for size, permissive in pairs)

    def rest(self, payload: Node) -> Node:
        # where an outer level stores nothing, inner modes still end somewhere
        if payload != _MISSING and not isinstance(payload, TensorLike) and any(self.settings[:-1]):
            below = Uniform(payload, self.body.sizes()[:-1])
            return Permissive(below, self.settings[:-1])
        return Wrapper.rest(self, payload)

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        size = self.body.sizes()[-1]
        looplet = map_payloads(self.rest, self.body.unfurl(host, stop, mode, protocol))
        if not self.settings[-1] or size is None:
            return looplet
        return Sequence(
            (
                Phase(Run(_MISSING), stop=ZERO),
                Phase(set_end(looplet, size), start=ONE, stop=size),
                Phase(Run(_MISSING)),
            )
        )


@dataclass(frozen=True, slots=True)
class Uniform(TensorLike):
    """The same `value` in every place of a tensor of these sizes."""

    value: Node
    dims: tuple[Expr | None, ...]

    def sizes(self) -> tuple[Expr | None, ...]:
        return self.dims

    def unfurl(self, host: Host, stop: Expr | None, mode: str, protocol: str | None) -> Node:
        return Run(Uniform(self.value, self.dims[:-1]) if len(self.dims) > 1 else self.value)


def _protocols(body: TensorLike, args: tuple[Node, ...]) -> TensorLike:
    names: list[str | None] = []
    for arg in args:
        if isinstance(arg, Variable) and arg.name in ("walk", "gallop", "follow"):
            names.append(arg.name)
        elif isinstance(arg, Literal) and arg.value is NOTHING:
            names.append(None)
        else:
            raise FinchError("type", "a protocol is walk, gallop, follow or nothing", arg.span)
    return Protocolized(body, tuple(names))


def _permissions(body: TensorLike, args: tuple[Node, ...]) -> TensorLike:
    for arg in args:
        if not (isinstance(arg, Literal) and isinstance(arg.value, bool)):
            raise FinchError("type", "permissive(A, ...) takes true or false a mode", arg.span)
    return Permissive(body, tuple(arg.value or None for arg in args))  # type: ignore[attr-defined]


WRAPPERS: dict[str, Callable[[TensorLike, tuple[Node, ...]], TensorLike]] = {
    "protocolize": _protocols,
    "permissive": _permissions,
}
