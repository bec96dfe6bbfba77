"""Compiled kernels on disk, found by all that determines their residual program, and then used without
normalising and staging them again.

The key is the program as parsed, with the span of each node, the formats, the choices, and (by `key_of`)
this package's sources. The entry says how to call the kernel and names its object code. That is stored
under its residual program: a kernel that only moved within its file is staged again, but not compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from finchlang.algebra.program_context import Format
from finchlang.base.disk_cache import Coding, DiskCache, Others
from finchlang.base.errors import Note, Span
from finchlang.base.records import record
from finchlang.calls.workspace_exchange import Choice
from finchlang.host.noted import Log, UndoLog
from finchlang.levels.level import Level, level_of
from finchlang.levels.workspace import POLICIES
from finchlang.native.abi import Failure, Layout
from finchlang.native.target import key_of
from finchlang.syntax.nodes import Node
from finchlang.syntax.types import TYPES, Type
from finchlang.syntax.user_function import Operation
from finchlang.tensors.bind import Bound, bind
from finchlang.tensors.formats import parse_format
from finchlang.text.tree_cache import VALUES


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
        own = self.workspaces.keys() - {*self.handed, *self.exchanging}
        levels = self.levels(formats).items()
        return [bind(name, level, name in self.changed, name in own) for name, level in levels]


@record
class CacheEntry:
    """A kernel that was compiled before: `object_name` is the name of its object code."""

    signature: Signature
    layout: Layout
    object_name: str


#: the classes that an entry is made of
_PARTS = {c.__name__: c for c in (CacheEntry, Signature, Layout, Failure, UndoLog, Log, Note)}
_TEXTS: Others = {"Type": (Type, str, TYPES.__getitem__), "Level": (Level, str, parse_format)}


@record
class CacheKey:
    """The `name` of a kernel's entry in `cache`, and the `coding` of it, with the texts that the program's
    nodes are in."""

    cache: DiskCache
    name: str
    coding: Coding

    def recall(self) -> CacheEntry | None:
        """The entry; None if there is none or it cannot be decoded."""
        found = self.coding.recall(self.cache, self.name)
        return found if isinstance(found, CacheEntry) else None

    def keep(self, entry: CacheEntry) -> None:
        """Store `entry`, unless it would not be decoded to an equal one."""
        self.coding.keep(self.cache, self.name, entry)


def cache_key(
    program: Node, formats: dict[str, Format], choices: tuple[Any, ...], cache: DiskCache | None
) -> CacheKey | None:
    """The key of a kernel, compiled as `choices` say; None without a cache, or if a part of it is of a
    class outside this package, whose source is not in the key."""
    if cache is None:
        return None
    key = _Key()
    if not all(key.takes(type(policy)) for policy in POLICIES.values()):
        return None
    try:
        parts = key.plain(program), key.plain(tuple(formats.items())), choices
    except TypeError:
        return None
    return CacheKey(cache, key_of("entry", repr(parts)), Coding(_PARTS, _TEXTS, key.sources))


class _Key(Coding):
    """Writes what differs for different programs and formats, of any class of this package, whose sources
    are in the key; the body of a function once, and then its number."""

    def __init__(self) -> None:
        super().__init__({}, VALUES, [])
        self.known: dict[int, int] = {}

    def takes(self, kind: Any) -> bool:
        return kind.__module__.startswith("finchlang.")

    def plain(self, thing: Any) -> Any:
        if id(thing) in self.known:
            return {"again": self.known[id(thing)]}
        if isinstance(thing, Span) and thing.source not in self.sources:
            self.sources.append(thing.source)
        found = super().plain(thing)
        if isinstance(thing, Operation):
            self.known.setdefault(id(thing.body), len(self.known))
        return found
