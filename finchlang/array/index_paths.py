"""Index expressions that go through changes of shape, on their way to an operand, and the shape operators
that they become around it. Indices count from 1, and shapes are row-major."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from finchlang.algebra.program_context import call
from finchlang.syntax.nodes import NOTHING, Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import walk

ONE = Literal(1)


@dataclass(frozen=True, slots=True)
class MergedIndex(Node):
    """(slow - 1) * size + fast: one mode of the operand is two here."""

    slow: Node
    fast: Node
    size: Node


@dataclass(frozen=True, slots=True)
class Slow(Node):
    """(index - 1) ÷ size + 1: this mode of the operand and a fast one of `size` are one here, of which
    the index has `count` blocks."""

    index: Node
    size: Node
    count: Node


@dataclass(frozen=True, slots=True)
class Fast(Node):
    """(index - 1) % size + 1, as Slow."""

    index: Node
    size: Node
    count: Node


@dataclass(frozen=True, slots=True)
class Beyond(Node):
    """index - shift, of an index that goes up to `size`: where the operand has no such place it is
    `missing`."""

    index: Node
    shift: Node
    size: Node


def joined(indices: Sequence[Node], sizes: Sequence[Node]) -> Node:
    """The index of modes of these sizes as one."""
    found, *rest = indices
    for index, size in zip(rest, sizes[1:], strict=True):
        found = MergedIndex(found, index, size)
    return found


def divided(index: Node, sizes: Sequence[Node]) -> list[Node]:
    """The indices of modes of these sizes, which are one here."""
    found: list[Node] = []
    for k in range(len(sizes) - 1, 0, -1):
        parts = sizes[k], sizes[0] if k == 1 else call("*", *sizes[:k])
        found.append(Fast(index, *parts))
        index = Slow(index, *parts)
    return [index, *reversed(found)]


def loops_of(node: Node) -> list[Node]:
    """The loops' indices that an index goes through, the outer one first; a number is itself."""
    if isinstance(node, MergedIndex):
        return [*loops_of(node.slow), *loops_of(node.fast)]
    if isinstance(node, (Slow, Fast, Beyond)):
        return loops_of(node.index)
    return loops_of(node.args[0]) if _is_slice(node) else [node]  # type: ignore[attr-defined]


def is_path(node: Node) -> bool:
    """Whether an index is another than a loop's, or a slice of it."""
    return any([isinstance(part, (MergedIndex, Slow, Fast, Beyond)) for part in walk(node)])


def goes_beyond(node: Node) -> bool:
    """Whether an index may be out of the operand's range."""
    return any([isinstance(part, Beyond) for part in walk(node)])


def _depth(node: Node) -> int:
    if isinstance(node, MergedIndex):
        return 1 + max(_depth(node.slow), _depth(node.fast))
    if isinstance(node, (Slow, Fast)):
        return 1 + _depth(node.index)
    if isinstance(node, Beyond):
        return 0 if isinstance(node.index, Index) else 1 + _depth(node.index)
    if _is_slice(node):
        inner: Node = node.args[0]  # type: ignore[attr-defined]
        return 0 if isinstance(inner, Index) else 1 + _depth(inner)
    return 0


def _is_slice(node: Node) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Extent)


def accessed(tensor: Node, indices: Sequence[Node]) -> Access:
    """The element of an operand at these indices. Of those that go through changes of shape the longest
    way is taken off first: two that are halves of one have then the same left."""
    own = list(indices)
    while own:
        p = max(range(len(own)), key=lambda k: _depth(own[k]))
        if not _depth(own[p]):
            break
        tensor, own = _taken_off(tensor, own, p)
    return Access(tensor, tuple(map(_plain, own)))


def _taken_off(tensor: Node, own: list[Node], p: int) -> tuple[Node, list[Node]]:
    """An operand in the shape operator of its index p, from 0, and the indices of what that gives."""
    index = own[p]
    if isinstance(index, MergedIndex):
        found = call("split", tensor, Literal(p + 1), index.size, Literal(True))
        return found, [*own[:p], index.slow, index.fast, *own[p + 1 :]]
    if isinstance(index, (Slow, Fast)):
        return _halves(tensor, own, p, index)
    settings: list[Node] = [Literal(NOTHING)] * len(own)
    if isinstance(index, Beyond):
        flags = [Literal(k == p) for k in range(len(own))]
        settings[p] = Extent(call("-", ONE, index.shift), call("-", index.size, index.shift))
        tensor, inner = call("permissive", tensor, *flags), index.index
    else:
        settings[p], inner = index.op, index.args[0]  # type: ignore[attr-defined]
    return call("window", tensor, *settings), [*own[:p], inner, *own[p + 1 :]]


def _halves(tensor: Node, own: list[Node], p: int, index: Slow | Fast) -> tuple[Node, list[Node]]:
    """The two halves of one index as that; an operand that has one half alone is broadcast."""
    other = Fast if isinstance(index, Slow) else Slow
    wanted: Node = other(index.index, index.size, index.count)
    if wanted in own:
        q = own.index(wanted)
    elif isinstance(index, Slow):
        q = p + 1
        tensor = call("broadcast", tensor, Literal(q + 1), index.size)
        own = [*own[:q], wanted, *own[q:]]
    else:
        q, p = p, p + 1
        tensor = call("broadcast", tensor, Literal(q + 1), index.count)
        own = [*own[:q], wanted, *own[q:]]
    fast, slow = (q, p) if isinstance(index, Slow) else (p, q)
    first, gone = min(p, q), max(p, q)
    tensor = call("collapse", tensor, Literal(fast + 1), Literal(slow + 1))
    return tensor, [*own[:first], index.index, *own[first + 1 : gone], *own[gone + 1 :]]


def _plain(index: Node) -> Node:
    """An index as it is written in an access."""
    if not isinstance(index, Beyond):
        return index
    is_first = index.shift == Literal(0)
    return call("~", index.index if is_first else call("-", index.index, index.shift))


def value_of(index: Node) -> Node:
    """An index as a number."""
    if isinstance(index, MergedIndex):
        return call("+", call("*", _less_one(index.slow), index.size), value_of(index.fast))
    if isinstance(index, Slow):
        return call("+", call("div", _less_one(index.index), index.size), ONE)
    if isinstance(index, Fast):
        return call("+", call("%", _less_one(index.index), index.size), ONE)
    if isinstance(index, Beyond):
        return call("-", value_of(index.index), index.shift)
    if _is_slice(index):
        part: Extent = index.op  # type: ignore[attr-defined]
        steps = _less_one(index.args[0])  # type: ignore[attr-defined]
        return call("+", part.start, steps if part.step is None else call("*", steps, part.step))
    return index


def _less_one(index: Node) -> Node:
    return call("-", value_of(index), ONE)
