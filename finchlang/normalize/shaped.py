"""Shape operators as calls around tensors (Burrito'24 section 4): what they take, how many modes they
have, and the few that all others are made of: collapse, split, broadcast, concat and windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from finchlang.normalize.context import call
from finchlang.normalize.shifts import size
from finchlang.source import FinchError, Span
from finchlang.syntax import NOTHING, Call, Dimensionless, Extent, Literal, Node
from finchlang.text.print import pretty

WHOLE = Literal(NOTHING)  # the setting of a mode that has no window


@dataclass(frozen=True)
class Shaped:
    """A tensor in a program, with the number of its modes, which count from 1 here."""

    node: Node
    order: int

    def size(self, mode: int) -> Node:
        """The size of a mode. Raises FinchError "dimension" where it has none, or counts from another
        number than 1."""
        if (found := size(self.node, mode - 1)) is not None:
            return found
        message = f"dimension {mode} of `{pretty(self.node)}` does not count from 1 to an end"
        hint = "a shape operator takes dimensions that do: without `~` and `offset`, or in a window"
        raise FinchError("dimension", message, self.node.span, hint)


class Arguments:
    """The arguments of a shape operator, taken and checked one after the other. `tensor`, `value` and
    `extent` do that for what may stand there."""

    def __init__(
        self,
        node: Call,
        tensor: Callable[[Node], Shaped],
        value: Callable[[Node], Node],
        extent: Callable[[Node], Node],
    ):
        self.node, self.left = node, list(node.args)
        self._tensor, self._value, self._extent = tensor, value, extent

    @property
    def name(self) -> str:
        return self.node.op.name  # type: ignore[attr-defined]

    @property
    def span(self) -> Span | None:
        return self.node.span

    def next(self, what: str) -> Node:
        if not self.left:
            message = f"`{self.name}` takes {what} here"
            raise FinchError("type", message, self.span, f"write `{OPERATORS[self.name].form}`")
        return self.left.pop(0)

    def tensor(self) -> Shaped:
        return self._tensor(self.next("a tensor"))

    def mode(self, order: int, *others: int) -> int:
        """A literal mode from 1 to `order`, none of the `others`."""
        node = self.next("a dimension")
        if not isinstance(node, Literal) or type(node.value) is not int:
            message = f"the dimensions that `{self.name}` takes are integer literals"
            raise FinchError("type", message, node.span)
        if not 1 <= node.value <= order:
            message = f"`{self.name}` takes a dimension from 1 to {order} here, not {node.value}"
            raise FinchError("dimension", message, node.span)
        if node.value in others:
            message = f"dimension {node.value} is given twice"
            raise FinchError("dimension", message, node.span)
        return node.value

    def number(self) -> Node:
        """An integer that is known before the loops."""
        return self._value(self.next("an integer"))

    def extent(self) -> Node:
        node = self.next("a range")
        found = WHOLE if node == WHOLE else self._extent(node)
        return WHOLE if isinstance(found, Dimensionless) else found

    def flag(self) -> bool:
        """`true` or `false`, if that is given."""
        if not self.left:
            return False
        node = self.next("true or false")
        if not isinstance(node, Literal) or type(node.value) is not bool:
            message = f"`{self.name}` takes true or false here"
            raise FinchError("type", message, node.span, f"write `{OPERATORS[self.name].form}`")
        return node.value

    def end(self) -> None:
        if self.left:
            message = f"`{self.name}` takes no more arguments"
            hint = f"write `{OPERATORS[self.name].form}`"
            raise FinchError("type", message, self.left[0].span, hint)


# --------------------------------------------------------------------------- what all are made of


def collapse(t: Shaped, p: int, q: int, span: Span | None) -> Shaped:
    """Modes p (fast) and q as one, which stands where the first of them stood."""
    for mode in (p, q):
        t.size(mode)  # it has one
    return Shaped(call("collapse", t.node, _literal(p), _literal(q), span=span), t.order - 1)


def split(t: Shaped, p: int, m: Node, is_slow_first: bool, span: Span | None) -> Shaped:
    """Mode p as two, one of size m, which is fast, and the other way round."""
    t.size(p)
    _check_positive(m, "a split is by")
    flag = (Literal(True),) if is_slow_first else ()
    return Shaped(call("split", t.node, _literal(p), m, *flag, span=span), t.order + 1)


def broadcast(t: Shaped, p: int, n: Node, span: Span | None) -> Shaped:
    """A new mode p of size n, along which nothing changes."""
    return Shaped(call("broadcast", t.node, _literal(p), n, span=span), t.order + 1)


def window(t: Shaped, p: int, part: Node, span: Span | None) -> Shaped:
    """A range of mode p."""
    if part == WHOLE:
        return t
    t.size(p)
    settings: list[Node] = [WHOLE] * t.order
    settings[p - 1] = part
    if isinstance(part, Extent):
        settings[p - 1] = Extent(part.start, part.stop, part.step, span=part.span or span)
    return Shaped(call("window", t.node, *settings, span=span), t.order)


def _literal(value: int) -> Literal:
    return Literal(value)


def _check_positive(m: Node, what: str) -> None:
    if isinstance(m, Literal) and (type(m.value) is not int or m.value <= 0):
        raise FinchError("dimension", f"{what} 1 or more, not {m.value}", m.span)


# --------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class ShapeOperator:
    """A row: how a call of it is written, and what it makes of its arguments."""

    form: str
    make: Callable[[Arguments], Shaped]


def _collapse(given: Arguments) -> Shaped:
    t = given.tensor()
    p = given.mode(t.order)
    return collapse(t, p, given.mode(t.order, p), given.span)


def _split(given: Arguments) -> Shaped:
    t = given.tensor()
    p, m = given.mode(t.order), given.number()
    return split(t, p, m, given.flag(), given.span)


def _broadcast(given: Arguments) -> Shaped:
    t = given.tensor()
    return broadcast(t, given.mode(t.order + 1), given.number(), given.span)


def _slice(given: Arguments) -> Shaped:
    t = given.tensor()
    return window(t, given.mode(t.order), given.extent(), given.span)


OPERATORS: dict[str, ShapeOperator] = {
    "collapse": ShapeOperator("collapse(A, 1, 2)", _collapse),
    "split": ShapeOperator("split(A, 1, m)", _split),
    "broadcast": ShapeOperator("broadcast(A, 1, n)", _broadcast),
    "slice": ShapeOperator("slice(A, 1, a:b)", _slice),
}


def made(given: Arguments) -> Shaped:
    """What a call of a shape operator stands for."""
    result = OPERATORS[given.name].make(given)
    given.end()
    return result
