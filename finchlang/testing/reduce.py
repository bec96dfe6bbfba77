"""Reducing a text to the smallest for which a test still holds, by taking parts out of its syntax tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.syntax.nodes import Call, Group, Literal, Node, Rows, Variable
from finchlang.syntax.traversal import children, find_all, map_children, replace, walk
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: levels that replace others: most rules concern these two
_SIMPLE = ("Dense", "SparseList")
#: upper bounds for all integers, tried first
MOST = 2, 4, 8, 16


def reduce(text: str, differs: Callable[[str], bool], seconds: float = 60.0) -> str:
    """A text for which `differs` holds, and of which no part can be taken out any more; or as small as
    `seconds` allow. Use `Comparison.shows` to keep to the same fault.

    `differs` is called on texts that parse, whether they make sense or not; it is taken to hold for `text`.
    Comments and layout are lost. Raises FinchError of kind syntax if `text` does not parse.
    """
    deadline = time.monotonic() + seconds
    best = parse_script(text)
    tried = {pretty(best)}
    has_changed = True
    while has_changed:
        has_changed, passed = False, 0
        smaller = _smaller(best)
        while (less := next(smaller, None)) is not None:
            if time.monotonic() > deadline:
                return pretty(best)
            passed += 1
            shown = _shown(less)
            if shown is None or shown in tried or _measure(less) >= _measure(best):
                continue
            tried.add(shown)
            if differs(shown):  # go on at the same place in the smaller script
                best, has_changed = parse_script(shown), True
                passed -= 1
                smaller = islice(_smaller(best), passed, None)
    return pretty(best)


def _shown(node: Node) -> str | None:
    """The text of a script, or None: a tree with a part replaced may not be one that parses."""
    try:
        text = pretty(node)
        parse_script(text)
    except (FinchError, TypeError, AttributeError, ValueError, KeyError, AssertionError):
        return None
    return text


def _measure(node: Node) -> tuple[int, int, int]:
    values = [_value(n) for n in walk(node)]
    return len(values), sum(len(repr(v)) for v in values), sum(v for v in values if type(v) is int)


def _value(node: Node) -> Any:
    return getattr(node, "value", None) if type(node) is Literal else getattr(node, "name", None)


def _smaller(script: Node) -> Iterator[Node]:
    """Smaller scripts: with fewer statements, with smaller sizes, which take less time, without others."""
    yield from _shorter(script)
    literals = (n.value for n in find_all(script, Literal))
    sizes = sorted({value for value in literals if type(value) is int and value > 1}, reverse=True)
    for most in MOST:
        yield _with_values(script, {size: most for size in sizes if size > most})
    for size in sizes:
        for new in (1 if size > 2 else size - 1, size - 1):
            yield _with_values(script, {size: new})
    yield from _within(script)


def _with_values(node: Node, new: Mapping[int, int]) -> Node:
    """A node with integers replaced wherever they occur: sizes must change all at once."""
    if type(node) is Literal:
        is_old = type(node.value) is int and node.value in new
        return replace(node, value=new[node.value]) if is_old else node
    return map_children(lambda child: _with_values(child, new), node)


def _within(node: Node) -> Iterator[Node]:
    """A node made smaller, then with one of its children made smaller."""
    yield from _shorter(node)
    yield from _parts(node)
    for k, child in enumerate(children(node)):
        for less in _within(child):
            yield _with_child(node, k, less)


def _with_child(node: Node, number: int, new: Node) -> Node:
    places = iter(range(number + 1))
    return map_children(lambda child: new if next(places, None) == number else child, node)


def _shorter(node: Node) -> Iterator[Node]:
    """A node with fewer entries in one of its lists; first without half of them, at last without one."""
    lists = [f.name for f in fields(node) if isinstance(getattr(node, f.name), tuple)]
    for name in lists:
        entries = getattr(node, name)
        if type(node) is Rows and not node.is_matrix:
            for less in _cut(*entries or ((),)):
                yield replace(node, rows=(less,))
            continue
        for less in _cut(entries):
            yield replace(node, **{name: less})
    if type(node) is Call:
        yield from _fewer_entries(node)


def _cut(entries: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    length = len(entries)
    while length > 0:
        for start in reversed(range(0, len(entries), length)):  # later statements use earlier ones
            yield entries[:start] + entries[start + length :]
        length //= 2


def _fewer_entries(node: Call) -> Iterator[Node]:
    """A call on arrays of equal length, as `fsparse`, with the same entries removed from each."""
    rows = [k for k, a in enumerate(node.args) if type(a) is Rows and not a.is_matrix]
    lengths = {sum(map(len, node.args[k].rows)) for k in rows}  # type: ignore
    if len(rows) < 2 or len(lengths) != 1:
        return
    for kept in _cut(tuple(range(lengths.pop()))):
        args: list[Any] = list(node.args)
        for k in rows:
            args[k] = replace(args[k], rows=(tuple(args[k].rows[0][n] for n in kept),))
        yield replace(node, args=tuple(args))


def _parts(node: Node) -> Iterator[Node]:
    if type(node) is Literal:
        is_number = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        for value in (0, 1, 2) if is_number else ():
            yield replace(node, value=type(node.value)(value))
        return
    if type(node) is Call and type(node.op) is Variable and node.op.name not in _SIMPLE:
        for name in _SIMPLE if node.op.name[:1].isupper() else ():
            yield replace(node, op=Variable(name))
    for child in children(node):
        yield child
        yield from children(child)
    if type(node) not in (Group, Rows, Variable):
        yield Literal(1)
