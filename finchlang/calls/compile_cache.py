"""Compiled kernels on disk, found by all that determines their residual program, and then used without
normalising and staging them again.

The key is the program as parsed, with the span of each node, the formats, the choices, and (by `key_of`)
this package's sources. The entry says how to call the kernel and names its object code. That is stored
under its residual program: a kernel that only moved within its file is staged again, but not compiled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from finchlang.algebra.program_context import Format
from finchlang.base.disk_cache import DiskCache
from finchlang.base.errors import FinchError, Note, Source, Span
from finchlang.calls.workspace_exchange import Choice
from finchlang.host.noted import Log, UndoLog
from finchlang.levels.level import Level, level_of
from finchlang.levels.workspace import POLICIES
from finchlang.native.abi import Failure, Layout
from finchlang.native.target import key_of
from finchlang.syntax.nodes import Missing, Node, Nothing
from finchlang.syntax.types import TYPES, Pair, Type
from finchlang.tensors.bind import Bound, bind
from finchlang.tensors.formats import parse_format


@dataclass(frozen=True)
class Signature:
    """How a kernel is called. `tensors` and `workspaces` are as in `Normalized`, in the order the kernel
    takes them; `yields` are the script names it hands back, `numbers` those of the numbers it takes;
    `changed` are the tensors and workspaces it writes, `declared` those of them it declares, `renewed`
    those whose arrays may hold anything when it begins; `notes` as in `Normalized`; `spans` of the
    workspaces whose format is chosen by size at a call."""

    tensors: dict[str, str]
    workspaces: dict[str, Level]
    yields: tuple[str, ...]
    numbers: tuple[str, ...]
    changed: frozenset[str]
    declared: frozenset[str]
    renewed: frozenset[str]
    notes: tuple[Note, ...]
    spans: dict[str, Choice]

    def levels(self, formats: Mapping[str, Format]) -> dict[str, Level]:
        """The levels of tensors and workspaces, given the formats of the script's names."""
        return {n: level_of(formats[own]) for n, own in self.tensors.items()} | self.workspaces

    def bounds(self, formats: Mapping[str, Format]) -> list[Bound]:
        """Tensors and workspaces as bound to the kernel, given the formats of the script's names."""
        levels = self.levels(formats).items()
        return [bind(name, level, name in self.changed) for name, level in levels]


@dataclass(frozen=True)
class CacheEntry:
    """A kernel that was compiled before: `object_name` is the name of its object code."""

    signature: Signature
    layout: Layout
    object_name: str


class CacheKey:
    """The `name` of a kernel's entry in `cache`. `sources` are the texts that the program's nodes are in.
    Entries refer to them by number, so that a span read from disk is in the text of this run."""

    def __init__(self, cache: DiskCache, name: str, sources: list[Source]):
        self.cache, self.name, self.sources = cache, name, sources

    def recall(self) -> CacheEntry | None:
        """The entry; None if there is none or it cannot be decoded."""
        content = self.cache.get(self.name)
        try:
            return None if content is None else _decoded(json.loads(content), self.sources)
        except (ValueError, TypeError, LookupError, AttributeError, FinchError):
            return None

    def keep(self, entry: CacheEntry) -> None:
        """Store `entry`, unless it would not be decoded to an equal one."""
        try:
            content = json.dumps(_encoded(entry, self.sources))
            is_kept = _decoded(json.loads(content), self.sources) == entry
        except (ValueError, FinchError):  # a span in some other text, a format that is not written
            return
        if is_kept:
            self.cache.put(self.name, content.encode())


def cache_key(
    program: Node, formats: dict[str, Format], choices: tuple[Any, ...], cache: DiskCache | None
) -> CacheKey | None:
    """The key of a kernel, compiled as `choices` say; None without a cache, or if a part of it is of a
    class outside this package, whose source is not in the key."""
    if cache is None or not all(map(_is_ours, map(type, POLICIES.values()))):
        return None
    sources: list[Source] = []
    try:
        parts = (_plain(program, sources), _plain(tuple(formats.items()), sources), choices)
    except TypeError:
        return None
    return CacheKey(cache, key_of("entry", repr(parts)), sources)


# ------------------------------------------------------------------------------------------- the key

_ATOMS = frozenset((int, float, bool, str, type(None), Missing, Nothing))


def _plain(thing: Any, sources: list[Source]) -> Any:
    """`thing` as nested tuples of names and numbers, different for different programs and formats. Raises
    TypeError for a part of a class that is not ours."""
    kind: Any = type(thing)
    if kind in _ATOMS:
        return thing
    if kind is tuple or kind is Pair:
        return tuple([_plain(item, sources) for item in thing])
    if kind is Span:
        return _plain_span(thing, sources)
    return (_label(kind), *[_plain(getattr(thing, name), sources) for name in _names(kind)])


def _plain_span(span: Span, sources: list[Source]) -> tuple[int, ...]:
    if span.source not in sources:
        sources.append(span.source)
    number = sources.index(span.source)
    return (number, span.line, span.column, span.end_line, span.end_column)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _is_ours(kind: Any) -> bool:
    return kind.__module__.startswith("finchlang.")


@cache
def _label(kind: Any) -> str:
    if not _is_ours(kind):
        raise TypeError(f"{kind} is none of ours")  # its source is not in the key
    return f"{kind.__module__}.{kind.__qualname__}"


# ----------------------------------------------------------------------------------------- the entry


def _encoded(entry: CacheEntry, sources: list[Source]) -> dict[str, Any]:
    """Raises ValueError for a span that is in none of `sources`."""
    signature, layout = entry.signature, entry.layout

    def types(given: tuple[Type, ...]) -> list[str]:
        return [type.name for type in given]

    def numbers(span: Span | None) -> list[int] | None:
        if span is None:
            return None
        number = sources.index(span.source)
        return [number, span.line, span.column, span.end_line, span.end_column]

    return {
        "object": entry.object_name,
        "tensors": signature.tensors,
        "workspaces": {name: str(level) for name, level in signature.workspaces.items()},
        **{name: list(getattr(signature, name)) for name in ("yields", "numbers")},
        **{name: sorted(getattr(signature, name)) for name in ("changed", "declared", "renewed")},
        "notes": [[note.message, numbers(note.span)] for note in signature.notes],
        "spans": signature.spans,
        "name": layout.name,
        **{name: types(getattr(layout, name)) for name in ("buffers", "inputs", "outputs")},
        **{name: list(getattr(layout, name)) for name in ("written", "grown", "procedures")},
        "undo_log": [
            [list(vars(log).values()) for log in layout.undo_log.logs],
            layout.undo_log.epoch,
        ],
        "failures": [
            [f.kind, f.message, types(f.values), numbers(f.span)] for f in layout.failures
        ],
    }


def _decoded(given: dict[str, Any], sources: list[Source]) -> CacheEntry:
    """The inverse of `_encoded`. Raises one of the errors that `recall` catches for other input."""

    def types(names: list[str]) -> tuple[Type, ...]:
        return tuple([TYPES[name] for name in names])

    def tuples(thing: Any) -> Any:
        return tuple(map(tuples, thing)) if isinstance(thing, list) else thing

    def span(numbers: list[int] | None) -> Span | None:
        if numbers is None:
            return None
        source, line, column, end_line, end_column = numbers
        return Span(sources[source], line, column, end_line, end_column)

    def failure(kind: str, message: str, values: list[str], place: list[int] | None) -> Failure:
        return Failure(kind, message, types(values), span(place))

    signature = Signature(
        dict(given["tensors"]),
        {name: parse_format(text) for name, text in given["workspaces"].items()},
        tuple(given["yields"]),
        tuple(given["numbers"]),
        frozenset(given["changed"]),
        frozenset(given["declared"]),
        frozenset(given["renewed"]),
        tuple([Note(message, span(place)) for message, place in given["notes"]]),
        {name: tuples(choice) for name, choice in given["spans"].items()},
    )
    layout = Layout(
        given["name"],
        types(given["buffers"]),
        types(given["inputs"]),
        types(given["outputs"]),
        tuple(given["written"]),
        tuple(given["grown"]),
        tuple([failure(*parts) for parts in given["failures"]]),
        tuple(given["procedures"]),
        UndoLog(tuple([Log(*numbers) for numbers in given["undo_log"][0]]), given["undo_log"][1]),
    )
    return CacheEntry(signature, layout, given["object"])
