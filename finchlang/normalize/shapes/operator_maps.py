"""From the operators around a tensor to index maps, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from finchlang.algebra.index_arithmetic import (
    MAPS,
    ZERO,
    below,
    divided,
    fast_mode,
    length,
    plus,
    shifted,
    size,
    times,
)
from finchlang.algebra.index_map import (
    HalfIndex,
    Joined,
    Wrapped,
    around,
    half,
    made,
    permissive,
    value,
)
from finchlang.algebra.program_context import ONE, PERMISSIVE, call, is_call
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import replace
from finchlang.wrappers.wrappers import WRAPPERS

#: a tensor without wrappers, the maps for its modes, and the broadcast modes around: sizes and maps
Leaf = tuple[Any, list[Node], list[tuple[Node, Node]]]


class OperatorMaps(ABC):
    """From operators to maps, and back. `claims` are further extents that indices must agree with."""

    def __init__(self) -> None:
        self.claims: dict[str, list[Extent]] = {}

    @abstractmethod
    def agree(self, a: Node, b: Node) -> None:
        """Require two extents to be the same."""

    @abstractmethod
    def size(self, tensor: Node, mode: int) -> Node:
        """The size of a mode, from 0."""

    def through(self, tensor: Call, ts: list[Node]) -> tuple[Node, list[Node], list]:
        """The tensor within an operator or wrapper, the maps for its modes, and the broadcast modes that
        it does not have: sizes and maps."""
        body, settings = tensor.args[0], tensor.args[1:]
        if not is_call(tensor, *MAPS):
            name: str = tensor.op.name  # type: ignore[attr-defined]
            neutral, is_sized = WRAPPERS[name].neutral, name in ("window", "permissive")
            wrapped = [
                t if s == neutral else Wrapped(name, s, t, size(body, mode) if is_sized else None)
                for mode, (s, t) in enumerate(zip(settings, ts, strict=True))
            ]
            return body, wrapped, []
        new: dict[int, Node] = {}
        dropped: list[tuple[Node, Node]] = []
        for mode, t in enumerate(ts):
            within = below(tensor, mode)
            if len(within) == 2:
                fast, slow = (self.size(body, m) for m in within)
                new[within[0]] = half(t, fast, slow, True)
                new[within[1]] = half(t, fast, slow, False)
            elif not within:
                dropped.append((settings[1], t))
            elif within[0] not in new:
                new[within[0]] = t
            elif is_call(tensor, "toeplitz"):
                new[within[0]] = Joined(new[within[0]], t, None)
            else:
                pair = new[within[0]], t
                first, second = pair if fast_mode(tensor) == mode - 1 else pair[::-1]
                rest = settings[2] if len(settings) > 2 and settings[2] != Literal(True) else None
                whole = self.size(body, within[0])
                new[within[0]] = Joined(first, second, settings[1], rest, whole)
        inner = [new[m] for m in sorted(new)]
        return body, inner, [d for d in dropped if not self.is_free(*d, inner)]

    def is_free(self, n: Node, m: Node, others: list[Node]) -> bool:
        """Whether a broadcast mode of size n at the map m needs no operator: the index of a loop, which
        claims its extent, or a half beside its other half."""
        if isinstance(m, Index):
            self.claim(m, Extent(ONE, n))
            return True
        return isinstance(m, HalfIndex) and m.other in others

    def claim(self, m: Node, extent: Extent | None) -> None:
        """Claim for the indices in a map the extents by which it has this one (None: not known)."""
        match m:
            case Index() if extent is not None:
                self.claims.setdefault(m.name, []).append(replace(extent, span=m.span))
            case HalfIndex(inner, fast, slow):
                self.claim(inner, Extent(ONE, times(fast, slow)))
            case Joined(first, second, Node() as size, rest, whole):
                self.claim(first, Extent(ONE, size))
                rest = rest or (None if whole is None else divided(whole, size))
                self.claim(second, None if rest is None else Extent(ONE, rest))
            case Wrapped("window", Extent() as part, inner):
                self.claim(inner, Extent(ONE, length(part)))
            case Wrapped("offset", by, inner):
                self.claim(inner, extent and shifted(extent, plus(ZERO, by, -1)))
            case Wrapped(wrapper, _, inner):
                self.claim(inner, None if wrapper == "permissive" else extent)

    def around(self, leaf: Leaf, access: Access, is_update: bool = False) -> Access:
        """The access of a tensor at maps, with operators rebuilt around it. In an update halves of an
        index are computed as numbers."""
        tensor, maps, dropped = leaf[0], list(leaf[1]), leaf[2]
        for n, m in dropped:
            tensor = made("broadcast", tensor, Literal(len(maps) + 1), n)
            maps.append(m)
        whole = replace(access, tensor=tensor)
        return around(whole, maps, self.agree, self.computed if is_update else None)

    def computed(self, m: HalfIndex) -> Node:
        self.claim(m, None)
        return call(PERMISSIVE, value(m)) if any(permissive(m)) else value(m)
