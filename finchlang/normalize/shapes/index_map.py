"""Terms: what stands for the index of a mode of a tensor within operators, from which the operators are
made again around another tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_in
from typing import Any

from finchlang.algebra.index_arithmetic import (
    MAPS,
    ZERO,
    at_least_one,
    below,
    divided,
    fast_mode,
    length,
    plus,
    shifted,
    size,
    times,
)
from finchlang.algebra.program_context import ONE, PERMISSIVE, call, is_call
from finchlang.normalize.shapes.shaped import WHOLE
from finchlang.syntax.nodes import Access, Call, Extent, Index, Literal, Node
from finchlang.syntax.traversal import replace
from finchlang.wrappers.wrappers import WRAPPERS


@dataclass(frozen=True)
class Wrapped:
    """The index of a mode of a tensor that a wrapper with a setting for each mode is around. `whole` is
    the size that the mode must have, and for a permissive one the size that it has, if it is known; one
    that `is_chosen` is read where it is in range."""

    wrapper: str
    setting: Node
    term: Term
    whole: Node | None = None
    is_chosen: bool = False


@dataclass(frozen=True)
class HalfIndex:
    """The index of the fast or the slow one of two modes that `term` goes through as one."""

    term: Term
    fast: Node
    slow: Node
    is_fast: bool

    @property
    def whole(self) -> Node:
        return self.fast if self.is_fast else self.slow


@dataclass(frozen=True)
class Joined:
    """The index of a mode that is two, of which `first` is the fast one; `size` is its size, or None for
    the sum of the two (`toeplitz`), and `rest` the size of the other one, if it is given."""

    first: Term
    second: Term
    size: Node | None
    rest: Node | None = None
    whole: Node | None = None


Term = Node | Wrapped | HalfIndex | Joined


def part(term: Term, fast: Node, slow: Node, is_fast: bool) -> Term:
    if isinstance(term, Joined) and term.size == fast != ZERO:  # with that any slow one would do
        return term.first if is_fast else term.second
    return HalfIndex(term, fast, slow, is_fast)


def value(term: Term) -> Node:
    """The number that an index is."""
    match term:
        case Wrapped("window", Extent(start, _, step), inner):
            past = plus(value(inner), ONE, -1)
            return plus(start, past if step is None else times(past, step))
        case Wrapped("offset", by, inner):
            return plus(value(inner), by)
        case Wrapped(_, _, inner):
            return value(inner)
        case HalfIndex(inner, fast, _, is_fast):
            past = plus(value(inner), ONE, -1)
            return plus(call("mod" if is_fast else "fld", past, at_least_one(fast)), ONE)
        case Joined(first, second, None):
            return plus(value(first), value(second))
        case Joined(first, second, size):
            assert size is not None
            return plus(times(plus(value(second), ONE, -1), size), value(first))
    return term


def moved(term: Term) -> tuple[Index, Node] | None:
    """The index i and the number c such that a term is i + c, if there are such."""
    if isinstance(term, Index):
        return term, ZERO
    found = moved(term.term) if isinstance(term, Wrapped) else None
    match term:
        case Wrapped("window", Extent(start, _, None)) if found:
            return found[0], plus(found[1], plus(start, ONE, -1))
        case Wrapped("offset", by) if found:
            return found[0], plus(found[1], by)
        case Wrapped("permissive" | "protocolize"):
            return found
    return None


def with_index(term: Term, index: Index, new: Term) -> Term:
    """A term with another in the place of an index."""
    match term:
        case Wrapped(term=inner) | HalfIndex(term=inner):
            return replace_in(term, term=with_index(inner, index, new))
        case Joined(first, second):
            first, second = (with_index(t, index, new) for t in (first, second))
            return replace_in(term, first=first, second=second)
    return new if term == index else term


def inner_terms(term: Term) -> Iterator[Term]:
    """A term and all that it is made of."""
    yield term
    match term:
        case Wrapped(_, _, inner) | HalfIndex(inner):
            yield from inner_terms(inner)
        case Joined(first, second):
            yield from inner_terms(first)
            yield from inner_terms(second)


def permissive(term: Term) -> Iterator[Wrapped]:
    """What a term is missing for where that is out of range."""
    for t in inner_terms(term):
        if isinstance(t, Wrapped) and t.wrapper == "permissive":
            yield t


def _other(t: HalfIndex) -> HalfIndex:
    """The other one of two parts."""
    return HalfIndex(t.term, t.fast, t.slow, not t.is_fast)


def ranges(ts: list[Term]) -> Iterator[Node]:
    """The conditions under which no part is of a number out of range, where parts are computed."""
    for part in (t for term in ts for t in inner_terms(term) if isinstance(t, HalfIndex)):
        for t in permissive(part):
            if t.whole is not None:
                yield call("<=", ONE, value(t.term))
                yield call("<=", value(t.term), t.whole)


#: a tensor without wrappers, the terms for its modes, and what is broadcast: sizes and terms
Leaf = tuple[Any, list[Term], list[tuple[Node, Term]]]


class Terms(ABC):
    """From operators to terms, and back. `claims` are the further extents that indices have to have."""

    def __init__(self) -> None:
        self.claims: dict[str, list[Extent]] = {}

    @abstractmethod
    def agree(self, a: Node, b: Node) -> None:
        """Two extents must be the same."""

    @abstractmethod
    def size(self, tensor: Node, mode: int) -> Node:
        """The size of a mode, from 0."""

    def through(self, tensor: Call, ts: list[Term]) -> tuple[Node, list[Term], list]:
        """The tensor within an operator or wrapper, the terms for its modes, and what has no mode
        there: sizes and terms."""
        body, settings = tensor.args[0], tensor.args[1:]
        if not is_call(tensor, *MAPS):
            name: str = tensor.op.name  # type: ignore[attr-defined]
            neutral, is_sized = WRAPPERS[name].neutral, name in ("window", "permissive")
            wrapped = [
                t if s == neutral else Wrapped(name, s, t, size(body, mode) if is_sized else None)
                for mode, (s, t) in enumerate(zip(settings, ts, strict=True))
            ]
            return body, wrapped, []
        new: dict[int, Term] = {}
        dropped: list[tuple[Node, Term]] = []
        for mode, t in enumerate(ts):
            within = below(tensor, mode)
            if len(within) == 2:
                fast, slow = (self.size(body, m) for m in within)
                new[within[0]] = part(t, fast, slow, True)
                new[within[1]] = part(t, fast, slow, False)
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

    def is_free(self, n: Node, term: Term, others: list[Term]) -> bool:
        """Whether nothing more need be said of the index of a mode along which nothing changes."""
        if isinstance(term, Index):
            self.claim(term, Extent(ONE, n))
            return True
        return isinstance(term, HalfIndex) and _other(term) in others

    def claim(self, term: Term, extent: Extent | None) -> None:
        """Have the indices in a term run over what it goes through, which is `extent` if that is known."""
        match term:
            case Index() if extent is not None:
                self.claims.setdefault(term.name, []).append(replace(extent, span=term.span))
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

    # ------------------------------------------------------------------ the operators around a tensor

    def around(self, leaf: Leaf, access: Access, is_update: bool = False) -> Access:
        """The access of a tensor at terms: with the operators around it that these say."""
        tensor, ts, dropped = leaf[0], list(leaf[1]), leaf[2]
        for n, t in dropped:
            tensor = self.made("broadcast", tensor, Literal(len(ts) + 1), n)
            ts.append(t)
        while others := [t for t in ts if not isinstance(t, Node)]:
            t = next((t for t in others if not isinstance(t, HalfIndex)), others[0])
            k = ts.index(t)
            if not (isinstance(t, Wrapped) and t.wrapper == "permissive"):
                tensor = self.sized(tensor, k, t.whole, len(ts))
            if isinstance(t, Wrapped):
                settings: list[Node] = [WRAPPERS[t.wrapper].neutral] * len(ts)
                settings[k], ts[k] = t.setting, t.term
                tensor = self.made(t.wrapper, tensor, *settings)
            elif isinstance(t, Joined):
                ts[k : k + 1] = [t.first, t.second]
                sizes = [n for n in (t.size, t.rest) if n is not None]
                name = "split" if sizes else "toeplitz"
                tensor = self.made(name, tensor, Literal(k + 1), *sizes)
            elif is_update:
                self.claim(t, None)
                ts[k] = call(PERMISSIVE, value(t)) if any(permissive(t)) else value(t)
            else:
                tensor = self.collapse(tensor, ts, t, k)
        return replace(access, tensor=tensor, indices=tuple(ts))

    def collapse(self, tensor: Node, ts: list[Any], t: HalfIndex, k: int) -> Node:
        """The tensor with its mode of the term `t`, the k-th, and that of the other part made one."""
        other = _other(t)
        if other not in ts:
            at = k + t.is_fast
            tensor = self.made("broadcast", tensor, Literal(at + 1), other.whole)
            ts.insert(at, other)
        p, q = ts.index(t), ts.index(other)
        tensor = self.sized(tensor, q, other.whole, len(ts))
        ts[min(p, q)] = t.term
        del ts[max(p, q)]
        fast, slow = (p, q) if t.is_fast else (q, p)
        return self.made("collapse", tensor, Literal(fast + 1), Literal(slow + 1))

    def sized(self, tensor: Node, mode: int, whole: Node | None, order: int) -> Node:
        """The tensor, of so many modes, with one of them, from 0, of this size."""
        if whole is None:
            return tensor
        own, wanted = size(tensor, mode), Extent(ONE, whole, span=tensor.span)
        if own is not None:
            self.agree(Extent(ONE, own, span=tensor.span), wanted)
            return tensor
        settings: list[Node] = [WHOLE] * order
        settings[mode] = wanted
        return self.made("window", tensor, *settings)

    def made(self, name: str, tensor: Node, *settings: Node) -> Call:
        return call(name, tensor, *settings, span=tensor.span)
