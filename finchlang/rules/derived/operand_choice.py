"""One of several tensors, or a fill: an operand that may or may not have an entry at a coordinate, and goes
undecided into the loops within."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeGuard

from finchlang.algebra.bounds import at_most
from finchlang.base.records import record
from finchlang.host.construct import FALSE, disjunction, minimum, op, sub
from finchlang.host.guarding import guarded
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels import looplets as lp
from finchlang.levels.level import READ, TensorLike, Uniform
from finchlang.syntax.nodes import Call, Literal, Node
from finchlang.text.print import pretty


@record(slots=True)
class OneOf(TensorLike):
    """The tensor whose condition holds (no two do), or `fill` everywhere."""

    options: tuple[tuple[Expr, TensorLike], ...]
    fill: Literal

    def __str__(self) -> str:
        options = [f"{when} => {tensor}" for when, tensor in self.options]
        return f"one_of({', '.join([*options, pretty(self.fill)])})"

    @property
    def order(self) -> int:
        return self.options[0][1].order

    def extent(self, back: int = 0) -> tuple[Expr, Expr] | None:
        return self.options[0][1].extent(back)

    def uniform(self, value: Node) -> Node:
        return self.options[0][1].uniform(value)

    def fill_value(self) -> Literal:
        return self.fill

    def unfurl(self, host: Host, stop: Expr | None, protocol: str | None) -> Node:
        """The phases of each tensor if its condition holds, else empty ones; then the fill. A phase ends
        where the one before ends, or later."""
        phases: list[lp.Phase] = []
        is_past: Expr = FALSE
        for when, tensor in self.options:
            inside, extent = guarded(host, when), tensor.extent()
            assert extent is not None
            first, last = extent
            nest = _entered(inside, when, tensor.unfurl(inside, stop, protocol))
            is_past = op("or", is_past, when)
            own = [lp.Phase(nest)]
            if len(self.options) == 1 and isinstance(nest, lp.Sequence):
                *before, rest = nest.phases
                is_fill = isinstance(rest.body, lp.Run) and rest.body.body == self.fill
                own = before if is_fill else [*before, rest]
            for phase in own:
                body, end = phase.body, phase.stop or (last if stop is None else stop)
                upper = last if at_most(end, last) else None
                end = host.let(op("select", is_past, end, sub(first, 1)), "end", upper=upper)
                if isinstance(body, lp.Steps) and len(own) == 1:
                    body = replace(body, last=end)
                phases.append(lp.Phase(body, phase.start, end))
        return lp.Sequence((*phases, lp.Phase(lp.Run(self.fill))))


def one_of(
    host: Host, given: list[tuple[Expr, Node]], otherwise: Node, at: Expr | None
) -> tuple[Node, Node] | None:
    """The one of `given` whose condition holds, else `otherwise`, within the wrappers that all of these
    have; and the same where it is at its fill. Lookups and thunks are replaced by their payloads at a
    coordinate. None if these are no tensors with bounds and one fill."""
    around, rest = _unwrapped(otherwise)
    if isinstance(rest, Uniform):
        rest = rest.value
    fill = rest if isinstance(rest, Literal) else None
    if fill is None:
        given = [*given, (op("not", disjunction(*(when for when, _ in given))), otherwise)]
    tensors: list[tuple[Expr, TensorLike]] = []
    literals: list[tuple[Expr, Literal]] = []
    for when, node in given:
        when = host.let(when, "is")
        if isinstance(node, lp.Lookup) and at is not None:
            node = node.body(guarded(host, when), at)
        if isinstance(node, lp.Thunk):
            node, _ = node.preamble(guarded(host, when))
        own, node = _unwrapped(node)
        if own == around and _is_bounded(node):
            tensors.append((when, node))
            fill = fill or node.fill_value()
        elif own != around or not isinstance(node, Literal):
            return None
        elif node != fill:
            literals.append((when, node))
    if not tensors or fill is None:
        return None
    first = tensors[0][1]
    sizes = [first.extent(back) for back in reversed(range(first.order))]
    dims = tuple(size and size[1] for size in sizes)
    tensors += [(when, Uniform(literal, dims)) for when, literal in literals if literal != fill]
    found = OneOf(tuple(tensors), fill)
    return _wrapped(around, found), _wrapped(around, found.uniform(fill) if around else fill)


def _unwrapped(node: Node) -> tuple[tuple[Any, ...], Node]:
    """The wrappers around a tensor, outermost first, each with its settings; and the tensor."""
    around: list[Any] = []
    while isinstance(node, Call):
        around.append((node.op, node.args[1:], node.span))
        node = node.args[0]
    return tuple(around), node


def _wrapped(around: tuple[Any, ...], node: Node) -> Node:
    for name, settings, span in reversed(around):
        node = Call(name, (node, *settings), span=span)
    return node


def _is_bounded(node: Node) -> TypeGuard[TensorLike]:
    return isinstance(node, TensorLike) and node.mode == READ and node.extent() is not None


def gives_tensors(node: Node) -> bool:
    """Whether a choice is among tensors (or wrappers of them), not among the looplets of a loop."""
    if isinstance(node, lp.Choice):
        return any(map(gives_tensors, node.nodes))
    return isinstance(node, (TensorLike, Call))


def _entered(host: Any, when: Expr, nest: Any) -> Any:
    """A nest with its thunks entered, which seeks only where `when` holds: elsewhere there is no entry, and
    its positions point to no memory."""
    enter: Callable[[Any], Any] = partial(_entered, host, when)
    match nest:
        case lp.Thunk(preamble):
            return enter(preamble(host)[0])
        case lp.Shift(body, delta):
            return lp.shifted(enter(body), delta)
        case lp.Phase() | lp.Sequence():
            return lp.rebuild(nest, enter)
        case lp.Switch(condition, head, tail):
            yes, no = op("and", when, condition), op("and", when, op("not", condition))
            then = _entered(guarded(host, yes), yes, head)
            other = _entered(guarded(host, no), no, tail)
            return lp.Switch(condition, then, other)
        case lp.Steps(seek) if seek is not None:

            def seek_there(host: Host, i: Expr) -> None:
                host.branch(when, partial(seek, host, i))

            known = nest.stored
            if known is not None:
                stop, inner = host.let(op("select", when, known.stop, known.start), "stop"), known

                def locate(host: Host, q: Expr, i: Expr) -> Expr:
                    return minimum(inner.locate(host, q, i), stop)

                known = replace(known, stop=stop, locate=locate)
            return replace(nest, seek=seek_there, stored=known)
    return nest
