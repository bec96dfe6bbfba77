"""The trees of scripts, kept on disk as data, from which only nodes can be made. A script that is run again
needs neither the grammar nor its parser, which took a third of the time of `finch run` with compiled
kernels."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import lru_cache
from typing import Any

from finchlang.base.disk_cache import default_cache, package_digest
from finchlang.base.errors import Source, Span, source_of
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.text.terminals import grammar

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.Node)
}
#: errors that mean a miss
_DAMAGED = ValueError, TypeError, LookupError, AttributeError, RecursionError
_ATOMS = frozenset((bool, int, float, str, type(None)))
#: the first item of lists that are no nodes
_TUPLE, _PAIR, _MISSING, _NOTHING = range(4)


@lru_cache(maxsize=256)
def script_of(text: str, name: str = "<input>") -> ast.Script:
    """The tree of a script that is to be run, as `parse_whole` gives it."""
    disk, source = default_cache(), source_of(text, name)
    key = None if disk is None else _key(text)
    if disk is not None and key is not None and (content := disk.get(key)) is not None:
        with suppress(*_DAMAGED):
            return _script(content, source)
    from finchlang.text.parse import parse_whole

    script = parse_whole(text, name)
    if disk is not None and key is not None:
        with suppress(*_DAMAGED):
            content = _content(script, source)
            found = _script(content, source)
            if found == script and _content(found, source) == content:
                disk.put(key, content)
    return script


def _key(text: str) -> str | None:
    try:
        whole = repr((text, grammar(), package_digest())).encode()
    except UnicodeEncodeError:
        return None
    return f"script-{hashlib.sha256(whole).hexdigest()}"


def _content(script: ast.Script, source: Source) -> bytes:
    """A script as JSON. Raises TypeError for a tree that no parser makes."""
    with trees.EnoughFrames():
        return json.dumps(_plain(script, source), separators=(",", ":")).encode()


def _script(content: bytes, source: Source) -> ast.Script:
    """The script of some JSON. Raises one of many errors for other content."""
    with trees.EnoughFrames():
        return _whole(json.loads(content), source)


def _plain(thing: Any, source: Source) -> Any:
    """A node as a list: its kind, its span, and its other fields."""
    kind = type(thing)
    if kind in _ATOMS:
        return thing
    if isinstance(thing, str):  # a token of Lark's
        return str(thing)
    if kind is tuple or kind is types.Pair:
        return [_TUPLE if kind is tuple else _PAIR, *[_plain(item, source) for item in thing]]
    if thing is ast.MISSING or thing is ast.NOTHING:
        return [_MISSING if thing is ast.MISSING else _NOTHING]
    span = thing.span
    place = None
    if KINDS.get(kind.__name__) is not kind or span is not None and span.source != source:
        raise TypeError(f"a {kind.__name__} is not kept")
    if span is not None:
        place = [span.line, span.column, span.end_line, span.end_column]
    values = [_plain(getattr(thing, n), source) for n in trees.field_names(kind)]
    return [kind.__name__, place, *values]


def _whole(thing: Any, source: Source) -> Any:
    """The inverse of `_plain`."""
    if type(thing) is not list:
        return thing
    first = thing[0]
    if first in (_TUPLE, _PAIR):
        items = [_whole(item, source) for item in thing[1:]]
        return tuple(items) if first == _TUPLE else types.Pair(*items)
    if first in (_MISSING, _NOTHING):
        return ast.MISSING if first == _MISSING else ast.NOTHING
    kind, place = KINDS[first], thing[1]
    values = [_whole(item, source) for item in thing[2:]]
    span = None if place is None else Span(source, *place)
    return kind(**dict(zip(trees.field_names(kind), values, strict=True)), span=span)
