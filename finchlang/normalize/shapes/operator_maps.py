"""From the operators around a tensor to index maps, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finchlang.algebra import index_arithmetic as affine, index_map, program_context as ctx
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import replace
from finchlang.wrappers.wrappers import WRAPPERS

#: a tensor without wrappers, the maps for its modes, and the broadcast modes around: sizes and maps
Leaf = tuple[Any, list[Node], list[tuple[Node, Node]]]


class OperatorMaps:
    """From operators to maps, and back. `claims` are further extents that indices must agree with; `agree`
    requires two extents to be the same, `size` gives that of a mode, from 0."""

    agree: Callable[[Node, Node], None]
    size: Callable[[Node, int], Node]

    def __init__(self) -> None:
        self.claims: dict[str, list[Extent]] = {}

    def through(self, tensor: Call, ts: list[Node]) -> tuple[Node, list[Node], list]:
        """The tensor within an operator, the maps of its modes, and the broadcast modes it lacks."""
        body, settings = tensor.args[0], tensor.args[1:]
        if not ctx.is_call(tensor, *affine.MAPS):
            name: str = tensor.op.name  # type: ignore[attr-defined]
            wrapped = list(ts)
            for mode, setting in enumerate(settings):
                if setting != WRAPPERS[name].neutral:
                    whole = affine.size(body, mode) if name in ("window", "permissive") else None
                    wrapped[mode] = index_map.Wrapped(name, setting, ts[mode], whole)
            return body, wrapped, []
        dropped = [(settings[1], t) for mode, t in enumerate(ts) if not affine.below(tensor, mode)]
        above = sorted(affine.above(tensor, len(ts)).items())
        inner = [self.within(tensor, mode, [ts[k] for k in outer]) for mode, outer in above]
        return body, inner, [d for d in dropped if not self.is_free(*d, inner)]

    def within(self, tensor: Call, mode: int, maps: list[Node]) -> Node:
        """The map for a mode of the tensor within a wrapper in MAPS, by those that go through it."""
        body, *settings = tensor.args
        outer, *others = maps
        if ctx.is_call(tensor, "collapse"):
            pair = [setting.value - 1 for setting in settings]  # type: ignore[attr-defined]
            fast, slow = (self.size(body, m) for m in pair)
            return index_map.half(outer, fast, slow, mode == pair[0]) if mode in pair else outer
        if not others:
            return outer
        if ctx.is_call(tensor, "toeplitz"):
            return index_map.Joined(outer, others[0], None)
        rest = settings[2] if settings[2:] and settings[2] != Literal(True) else None
        return index_map.Joined(outer, others[0], settings[1], rest, self.size(body, mode))

    def is_free(self, n: Node, m: Node, others: list[Node]) -> bool:
        """Whether a broadcast mode needs no operator: a loop claims it, or its other half is there."""
        if isinstance(m, Index):
            self.claim(m, Extent(ctx.ONE, n))
            return True
        return isinstance(m, index_map.HalfIndex) and m.other in others

    def claim(self, m: Node, extent: Extent | None) -> None:
        """Claim for the indices in a map the extents by which it has this one (None: not known)."""
        match m:
            case Index() if extent is not None:
                self.claims.setdefault(m.name, []).append(replace(extent, span=m.span))
            case index_map.HalfIndex(inner, fast, slow):
                self.claim(inner, Extent(ctx.ONE, affine.times(fast, slow)))
            case index_map.Joined(first, second, Node() as size, rest, whole):
                self.claim(first, Extent(ctx.ONE, size))
                rest = rest or (None if whole is None else affine.divided(whole, size))
                self.claim(second, None if rest is None else Extent(ctx.ONE, rest))
            case index_map.Wrapped("window", Extent() as part, inner):
                self.claim(inner, Extent(ctx.ONE, affine.length(part)))
            case index_map.Wrapped("offset", by, inner):
                back = affine.plus(affine.ZERO, by, -1)
                self.claim(inner, extent and affine.shifted(extent, back))
            case index_map.Wrapped(wrapper, _, inner):
                self.claim(inner, None if wrapper == "permissive" else extent)

    def around(self, leaf: Leaf, access: Access, is_update: bool = False) -> Access:
        """The access of a tensor at maps, by operators; in an update halves of an index are computed."""
        tensor, maps, dropped = leaf[0], list(leaf[1]), leaf[2]
        for n, m in dropped:
            tensor = index_map.made("broadcast", tensor, Literal(len(maps) + 1), n)
            maps.append(m)
        whole = replace(access, tensor=tensor)
        return index_map.around(whole, maps, self.agree, self.computed if is_update else None)

    def computed(self, m: index_map.HalfIndex) -> Node:
        self.claim(m, None)
        value = index_map.value(m)
        return ctx.call(ctx.PERMISSIVE, value) if any(index_map.permissive(m)) else value
