"""Shifts: taking an index out of a sum, and what the modes of a wrapped tensor say of extents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finchlang.normalize.context import ONE, call, is_call, mask_name, mask_sizes
from finchlang.syntax import Call, Extent, Index, Literal, Node, Variable

ZERO = Literal(0)
#: where a mode's extent comes from: a tensor's mode (from 0), moved; an extent; or nothing
Source = tuple[str, int, Node] | Extent | None


def terms(node: Node, sign: int = 1) -> Iterator[tuple[int, Node]]:
    """The terms of a sum, each with its sign."""
    if isinstance(node, Call) and is_call(node, "+"):
        for arg in node.args:
            yield from terms(arg, sign)
    elif isinstance(node, Call) and is_call(node, "-"):
        *first, last = node.args
        for arg in first:
            yield from terms(arg, sign)
        yield from terms(last, -sign)
    else:
        yield sign, node


def total(parts: list[tuple[int, Node]]) -> Node:
    """The sum of signed terms, with the integers in it added up and opposite terms left away."""
    constant, rest = 0, list[tuple[int, Node]]()
    for sign, node in parts:
        if isinstance(node, Literal) and node.type is None and type(node.value) is int:
            constant += sign * node.value
        elif (-sign, node) in rest:
            rest.remove((-sign, node))
        else:
            rest.append((sign, node))
    rest.sort(key=lambda part: part[0] < 0)  # what is added first
    if not rest:
        return Literal(constant)
    (sign, result), *others = rest
    if sign < 0:
        result, constant = call("-", Literal(constant), result, span=result.span), 0
    for sign, node in others:
        result = call("+" if sign > 0 else "-", result, node, span=result.span)
    if constant:
        result = call(
            "+" if constant > 0 else "-", result, Literal(abs(constant)), span=result.span
        )
    return result


def plus(a: Node, b: Node, sign: int = 1) -> Node:
    """a + b, or a - b for the sign -1."""
    return total([*terms(a), *terms(b, sign)])


def summed_indices(node: Node) -> set[str]:
    """The indices that are terms of the sum `node`."""
    return {n.name for _, n in terms(node) if isinstance(n, Index)}


def shifted(extent: Extent, shift: Node) -> Extent:
    """`extent` moved by `shift`."""
    if shift == ZERO:
        return extent
    return Extent(plus(extent.start, shift), plus(extent.stop, shift), span=extent.span)


def length(window: Extent) -> Node:
    """The number of integers in a window or slice."""
    span = plus(window.stop, window.start, -1)
    if window.step is None:
        return plus(span, ONE)
    span = plus(span, window.step)
    whole, step = _whole(span), _whole(window.step)
    if whole is not None and step:
        return Literal(max(whole // step, 0))
    # a step of 0 is an error of its own, which is found where the slice is read
    is_none = call("==", window.step, ZERO)
    return call("ifelse", is_none, ZERO, call("max", call("div", span, window.step), ZERO))


def _whole(node: Node) -> int | None:
    is_whole = isinstance(node, Literal) and node.type is None and type(node.value) is int
    return node.value if is_whole else None  # type: ignore[attr-defined]


def source(tensor: Node, mode: int) -> Source:
    """Where the extent of a mode (from 0) of a wrapped tensor comes from (Finch'25 Table 5)."""
    if isinstance(tensor, Variable):
        return tensor.name, mode, ZERO
    if not isinstance(tensor, Call) or mask_name(tensor):
        size = mask_sizes(tensor)[mode]
        return None if size is None else Extent(ONE, size)
    if is_call(tensor, "toeplitz"):
        first: Any = tensor.args[1]
        if mode in (first.value - 1, first.value):
            return None
        return source(tensor.args[0], mode - (mode > first.value))
    setting, inner = tensor.args[1 + mode], source(tensor.args[0], mode)
    if is_call(tensor, "permissive") and setting == Literal(True):
        return None
    if is_call(tensor, "window") and isinstance(setting, Extent):
        return Extent(ONE, length(setting))
    if is_call(tensor, "offset"):
        if isinstance(inner, Extent):
            return shifted(inner, plus(ZERO, setting, -1))
        if inner is not None:
            name, at, shift = inner
            return name, at, plus(shift, setting, -1)
    return inner


def settings(tensor: Node, mode: int) -> Iterator[Node]:
    """The settings of wrappers that must have values where a mode (from 0) is iterated over."""
    while isinstance(tensor, Call) and tensor.args and not mask_name(tensor):
        if is_call(tensor, "toeplitz"):
            first: Any = tensor.args[1]
            mode -= mode >= first.value
        else:
            yield tensor.args[1 + mode]
        tensor = tensor.args[0]
