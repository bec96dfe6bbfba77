"""Compiled kernels on disk, found by all that determines their residual program, and then used without
normalising and staging them again.

The key is the program as parsed, with the span of each node, the formats, the choices, and (by `key_of`)
this package's sources. The entry says how to call the kernel and names its object code. That is stored
under its residual program: a kernel that only moved within its file is staged again, but not compiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from typing import Any

from finchlang.algebra.program_context import Format
from finchlang.base.disk_cache import DiskCache
from finchlang.base.errors import FinchError, Note, Source, Span
from finchlang.base.records import record
from finchlang.calls.workspace_exchange import Choice
from finchlang.host.noted import Log, UndoLog
from finchlang.levels.level import Level, level_of
from finchlang.levels.workspace import POLICIES
from finchlang.native.abi import Failure, Layout
from finchlang.native.target import key_of
from finchlang.syntax.nodes import Missing, Node, Nothing
from finchlang.syntax.types import TYPES, Pair, Type
from finchlang.syntax.user_function import Operation
from finchlang.tensors.bind import Bound, bind
from finchlang.tensors.formats import parse_format


@record
class Signature:
    """How a kernel is called. `tensors` and `workspaces` are as in `Normalized`, in the order the kernel
    takes them; `yields` are the script names it hands back, `numbers` those of the numbers it takes;
    `changed` are the tensors and workspaces it writes, `declared` those of them it declares, `renewed`
    those whose arrays may hold anything when it begins; `notes` as in `Normalized`; `spans` of the
    workspaces whose format is chosen by size at a call. A unit has `results`, the numbers that it hands
    back, slots that are `exchanging` their tensors, and slots whose tensors are `handed` to its caller."""

    tensors: dict[str, str]
    workspaces: dict[str, Level]
    yields: tuple[str, ...]
    numbers: tuple[str, ...]
    changed: frozenset[str]
    declared: frozenset[str]
    renewed: frozenset[str]
    notes: tuple[Note, ...]
    spans: dict[str, Choice]
    results: tuple[str, ...] = ()
    exchanging: tuple[str, ...] = ()
    handed: frozenset[str] = frozenset()

    def levels(self, formats: Mapping[str, Format]) -> dict[str, Level]:
        """The levels of tensors and workspaces, given the formats of the script's names."""
        return {n: level_of(formats[own]) for n, own in self.tensors.items()} | self.workspaces

    def bounds(self, formats: Mapping[str, Format]) -> list[Bound]:
        """Tensors and workspaces as bound to the kernel, given the formats of the script's names."""
        levels = self.levels(formats).items()
        return [bind(name, level, name in self.changed) for name, level in levels]


@record
class CacheEntry:
    """A kernel that was compiled before: `object_name` is the name of its object code."""

    signature: Signature
    layout: Layout
    object_name: str


@record
class CacheKey:
    """The `name` of a kernel's entry in `cache`. `sources` are the texts that the program's nodes are in.
    Entries refer to them by number, so that a span read from disk is in the text of this run."""

    cache: DiskCache
    name: str
    sources: list[Source]

    def recall(self) -> CacheEntry | None:
        """The entry; None if there is none or it cannot be decoded."""
        content = self.cache.get(self.name)
        try:
            found = None if content is None else _decoded(json.loads(content), self.sources)
            return found if isinstance(found, CacheEntry) else None
        except (ValueError, TypeError, LookupError, AttributeError, FinchError):
            return None

    def keep(self, entry: CacheEntry) -> None:
        """Store `entry`, unless it would not be decoded to an equal one."""
        with suppress(ValueError, FinchError):  # for a span elsewhere, a format that is not written
            content = json.dumps(_encoded(entry, self.sources))
            if _decoded(json.loads(content), self.sources) == entry:
                self.cache.put(self.name, content.encode())


def cache_key(
    program: Node, formats: dict[str, Format], choices: tuple[Any, ...], cache: DiskCache | None
) -> CacheKey | None:
    """The key of a kernel, compiled as `choices` say; None without a cache, or if a part of it is of a
    class outside this package, whose source is not in the key."""
    if cache is None:
        return None
    sources: list[Source] = []
    try:
        all(map(_label, map(type, POLICIES.values())))  # raises for policies of others
        parts = (_plain(program, sources), _plain(tuple(formats.items()), sources), choices)
    except TypeError:
        return None
    return CacheKey(cache, key_of("entry", repr(parts)), sources)


# ------------------------------------------------------------------------------------------- the key

_ATOMS = frozenset((int, float, bool, str, type(None), Missing, Nothing))


def _plain(thing: Any, sources: list[Source], known: dict[int, int] | None = None) -> Any:
    """`thing` as nested tuples of names and numbers, different for different programs and formats; the body
    of a function is written once, and then by its number (`known`). Raises TypeError for a part of a class
    that is not ours."""
    kind: Any = type(thing)
    if kind in _ATOMS:
        return thing
    known = {} if known is None else known
    if kind is tuple or kind is Pair:
        return tuple([_plain(item, sources, known) for item in thing])
    if kind is Span:
        if thing.source not in sources:
            sources.append(thing.source)
        return (sources.index(thing.source), *_place(thing))
    parts = [getattr(thing, name) for name in _names(kind)]
    if kind is Operation:
        body = id(thing.body)
        if body in known:
            parts[_names(kind).index("body")] = known[body]
        known.setdefault(body, len(known))
    return (_label(kind), *[_plain(part, sources, known) for part in parts])


def _place(span: Span) -> tuple[int, ...]:
    return span.line, span.column, span.end_line, span.end_column


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _label(kind: Any) -> str:
    if not kind.__module__.startswith("finchlang."):
        raise TypeError(f"{kind} is none of ours")  # its source is not in the key
    return f"{kind.__module__}.{kind.__qualname__}"


# ----------------------------------------------------------------------------------------- the entry

#: the classes that an entry is made of
_PARTS = {c.__name__: c for c in (CacheEntry, Signature, Layout, Failure, UndoLog, Log, Note)}


def _encoded(thing: Any, sources: list[Source]) -> Any:
    """`thing` for JSON: what is no list and no atom is a dict from the name of its kind to its parts.
    Raises ValueError for a span that is in none of `sources`."""

    def each(parts: Iterable[Any]) -> list[Any]:
        return [_encoded(part, sources) for part in parts]

    match thing:
        case tuple() | list():
            return each(thing)
        case dict():
            return {"dict": {name: _encoded(part, sources) for name, part in thing.items()}}
        case frozenset():
            return {"set": sorted(thing)}
        case Type():
            return {"Type": thing.name}
        case Level():
            return {"Level": str(thing)}
        case Span(source):
            return {"Span": [sources.index(source), *_place(thing)]}
    if type(thing) in _ATOMS:
        return thing
    kind: Any = type(thing)
    return {kind.__name__: each(getattr(thing, name) for name in _names(kind))}


def _decoded(given: Any, sources: list[Source]) -> Any:
    """The inverse of `_encoded`. Raises one of the errors that `recall` catches for other input."""
    if isinstance(given, list):
        return tuple([_decoded(part, sources) for part in given])
    if not isinstance(given, dict):
        return given
    [(kind, parts)] = given.items()
    match kind:
        case "dict":
            return {name: _decoded(part, sources) for name, part in parts.items()}
        case "set":
            return frozenset(parts)
        case "Type":
            return TYPES[parts]
        case "Level":
            return parse_format(parts)
        case "Span":
            return Span(sources[parts[0]], *parts[1:])
    return _PARTS[kind](*[_decoded(part, sources) for part in parts])
