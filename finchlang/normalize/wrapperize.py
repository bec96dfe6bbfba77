"""The wrapperise pass (Finch'25 section 5.2, Table 5): swizzles are resolved, comparisons of
indices become masks, and index modifiers become wrapper tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from finchlang.algebra import operator, referred
from finchlang.normalize.context import (
    ONE,
    PERMISSIVE,
    PROTOCOLS,
    Context,
    call,
    is_call,
    mask_name,
    may_be_missing,
    root,
)
from finchlang.normalize.shifts import MAPS, fast_mode, plus, source, summed_indices, terms, total
from finchlang.normalize.types import type_of
from finchlang.source import FinchError
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Extent,
    Freeze,
    Index,
    Literal,
    Loop,
    Node,
    Sieve,
    Thaw,
    Variable,
)
from finchlang.tensors.level import Swizzled
from finchlang.tensors.masks import MASKS
from finchlang.tensors.wrappers import WRAPPERS
from finchlang.types import Bool, Type
from finchlang.walk import map_children, replace, walk


def wrapperize(program: Node, context: Context) -> Node:
    """`program` without swizzles and index modifiers, and with masks for comparisons.

    A tensor of Swizzled format is from here on its stored tensor, under a new name. Expects what
    the scopes pass gives. Raises FinchError of kind "type" for a protocol on the left-hand side.
    """
    context.reserve(program)
    return _Wrapperize(context).statement(program, 0)


# --------------------------------------------------------------------------- index modifiers


@dataclass(frozen=True)
class Modifier:
    """One row of Table 5: `match` splits an index expression into the wrapper's setting for its
    mode and the index that is left; other modes get the neutral setting."""

    wrapper: str
    match: Callable[[_Wrapperize, Node], tuple[Node, Node] | None]
    read_only: bool = False


def _permissive(program: _Wrapperize, index: Node) -> tuple[Node, Node] | None:
    if isinstance(index, Call) and is_call(index, PERMISSIVE):
        return Literal(True, span=index.op.span), index.args[0]
    return None


def _protocol(program: _Wrapperize, index: Node) -> tuple[Node, Node] | None:
    if isinstance(index, Call) and is_call(index, *PROTOCOLS):
        return index.op, index.args[0]
    return None


def _window(program: _Wrapperize, index: Node) -> tuple[Node, Node] | None:
    if isinstance(index, Call) and isinstance(index.op, Extent):
        return index.op, index.args[0]
    return None


def _offset(program: _Wrapperize, index: Node) -> tuple[Node, Node] | None:
    """`i + c` where c is constant in the loop of i."""
    found = list(terms(index))
    if len(found) < 2 or any(isinstance(n, Access) for n in walk(index)):
        return None
    for n, (sign, i) in enumerate(found):
        shift = total(found[:n] + found[n + 1 :])
        if sign > 0 and program.is_outer(shift, i):
            return shift, i
    return None


MODIFIERS = (
    Modifier("permissive", _permissive),
    Modifier("protocolize", _protocol, read_only=True),
    Modifier("window", _window),
    Modifier("offset", _offset),
)


def wrap(program: _Wrapperize, access: Access, updating: bool) -> Access:
    """`access` with its index modifiers turned into wrappers, from the outside in."""
    tensor = access.tensor
    indices = tuple(_guarded(tensor, mode, i) for mode, i in enumerate(access.indices))
    # a mask without bounds is looked up wherever its index points
    modifiers = [m for m in MODIFIERS if root(tensor) or m.wrapper != "offset"]
    while True:
        for modifier in modifiers:
            found = [modifier.match(program, i) for i in indices]
            if any(found):
                break
        else:
            may_miss = may_be_missing(tensor)
            return replace(access, tensor=tensor, indices=indices, may_miss=may_miss)
        if updating and modifier.read_only:
            place = next(f[0] for f in found if f)
            message = f"`{getattr(place, 'name', modifier.wrapper)}` says how to read a tensor"
            raise FinchError("type", message, place.span, "leave it away where a tensor is updated")
        neutral = WRAPPERS[modifier.wrapper].neutral
        settings = (f[0] if f else neutral for f in found)
        tensor = call(modifier.wrapper, tensor, *settings, span=access.span)
        indices = tuple(f[1] if f else i for f, i in zip(found, indices, strict=True))


def _guarded(tensor: Node, mode: int, index: Any) -> Node:
    """An index of two loop variables is permissive (unless its mode is already)."""
    if is_call(index, PERMISSIVE) or source(tensor, mode) is None:
        return index
    if is_call(index, *PROTOCOLS) or (isinstance(index, Call) and isinstance(index.op, Extent)):
        return replace(index, args=(_guarded(tensor, mode, index.args[0]),))
    return call(PERMISSIVE, index, span=index.span) if len(summed_indices(index)) > 1 else index


# --------------------------------------------------------------------------- the walk


class _Wrapperize:
    """`depth` counts the binders around a place; `depths` has it for binders and declarations."""

    def __init__(self, context: Context):
        self.context = context
        self.depths: dict[str, int] = {}
        self.missing: set[Node] = set()  # what `let` binds to what may be missing
        self.stored: dict[str, str] = {}  # of swizzled tensors

    def statement(self, node: Node, depth: int) -> Any:
        match node:
            case Block(statements):
                for s in statements:
                    if isinstance(s, Declare):
                        self.depths[s.tensor.name] = depth
                return map_children(lambda s: self.statement(s, depth), node)
            case Loop(index, extent, body):
                extent = self.expression(extent, masks=False)
                self.depths[index.name] = depth + 1
                return replace(node, extent=extent, body=self.statement(body, depth + 1))
            case Define(variable, value, body):
                value = self.expression(value)
                if self.may_be_missing(value):
                    self.missing.add(variable)
                self.depths[variable.name] = depth + 1
                return replace(node, value=value, body=self.statement(body, depth + 1))
            case Sieve(condition, body):
                condition = self.expression(condition)
                return replace(node, condition=condition, body=self.statement(body, depth))
            case Assign(target, _, value):
                target = self.access(target, updating=True)
                return replace(node, target=target, value=self.expression(value))
            case Declare(tensor, init, dims):
                name, order = self.store(tensor)
                ordered = tuple(self.expression(dims[m], masks=False) for m in order if dims)
                return replace(node, tensor=name, init=self.expression(init), dims=ordered)
            case Freeze(tensor) | Thaw(tensor):
                return replace(node, tensor=self.store(tensor)[0])
        return node

    def expression(self, node: Node, masks: bool = True) -> Any:
        """`masks`: whether comparisons become masks; within indices and extents they do not."""
        if isinstance(node, Access):
            return self.access(node)
        if isinstance(node, Call) and is_call(node, "size"):
            return self.size(node)
        node = map_children(lambda c: self.expression(c, masks), node)
        if masks and isinstance(node, Call) and isinstance(node.op, Variable):
            return self.mask(node)
        return node

    def access(self, node: Access, updating: bool = False) -> Access:
        tensor, order = self.store(node.tensor)
        indices = tuple(self.expression(node.indices[m], masks=False) for m in order)
        return wrap(self, replace(node, tensor=tensor, indices=indices), updating)

    # ------------------------------------------------------------------ swizzles

    def store(self, tensor: Any) -> tuple[Any, tuple[int, ...]]:
        """The stored tensor that `tensor` stands for, and for each of its modes which mode of
        `tensor` it is, from 0: tensor[i...] == stored[i[order]...]."""
        if isinstance(tensor, Variable):
            known = self.context.formats.get(tensor.name)
            if not isinstance(known, Swizzled):
                assert known is not None and not isinstance(known, Type)
                return tensor, tuple(range(known.order))
            name = self.stored_name(tensor.name, known)
            return Variable(name, span=tensor.span), tuple(p - 1 for p in known.permutation)
        if mask := mask_name(tensor):
            canonical = Variable(MASKS[mask].name, span=tensor.op.span)
            args = tuple(self.expression(a, masks=False) for a in tensor.args)
            return replace(tensor, op=canonical, args=args), tuple(range(MASKS[mask].order))
        inner, order = self.store(tensor.args[0])
        if is_call(tensor, "swizzle"):
            permutation = [p.value - 1 for p in tensor.args[1:]]
            return inner, tuple(permutation[m] for m in order)
        if is_call(tensor, *MAPS):
            return self.mapped(tensor, inner, list(order))
        settings = (self.expression(tensor.args[1 + m], masks=False) for m in order)
        return replace(tensor, args=(inner, *settings)), order

    def mapped(self, tensor: Call, inner: Node, order: list[int]) -> tuple[Node, tuple[int, ...]]:
        """As `store`, for wrappers whose modes are not those of the tensor within, `inner`, which has the
        modes `order`: each of what is stored, in its order."""
        numbers: list[Any] = [n.value - 1 for n in tensor.args[1:3] if isinstance(n, Literal)]
        p = numbers[0]
        if is_call(tensor, "collapse"):
            q = numbers[1]
            inner, order = _as_neighbours(inner, order, p, q)
            at = order.index(p)
            new = [m - (m > max(p, q)) for m in order]
            new[at : at + 2] = [min(p, q)]
            rest: tuple[Node, ...] = (Literal(at + 2),)
        elif is_call(tensor, "broadcast"):
            at = order.index(p) if p in order else len(order)
            new = [m + (m >= p) for m in order]
            new.insert(at, p)
            rest = (self.expression(tensor.args[2], masks=False),)
        else:
            at, new = order.index(p), [m + (m > p) for m in order]
            pair = [p, p + 1]
            rest = ()
            if is_call(tensor, "split"):
                pair.sort(key=lambda mode: mode != fast_mode(tensor))
                sizes = [n for n in tensor.args[2:] if n != Literal(True)]
                rest = tuple(self.expression(n, masks=False) for n in sizes)
            new[at : at + 1] = pair
        return replace(tensor, args=(inner, Literal(at + 1), *rest)), tuple(new)

    def stored_name(self, name: str, swizzled: Swizzled) -> str:
        if name not in self.stored:
            stored = self.context.fresh(f"{name}_stored")
            self.stored[name] = stored
            self.context.formats[stored] = swizzled.level
            self.context.tensors[stored] = self.context.shown(name)
        return self.stored[name]

    def size(self, node: Call) -> Call:
        tensor, order = self.store(node.args[0])
        mode: Any = node.args[1]
        stored_mode = Literal(order.index(mode.value - 1) + 1, span=mode.span)
        return replace(node, args=(tensor, stored_mode))

    # ------------------------------------------------------------------ masks

    def mask(self, node: Call) -> Node:
        """A comparison as a mask, its first index the one of the deeper loop (column-major), or as
        it is where neither side is an index whose loop the other side is constant in."""
        row = operator(node.op)
        if row is None or row.mask is None:
            return node
        left, right = node.args
        if self.is_outer(right, left):
            deep, outer = left, right
        elif self.is_outer(left, right):
            deep, outer, row = right, left, referred(row.converse)
        else:
            return node
        assert row is not None and row.mask is not None
        name, shifted, negated = row.mask
        if shifted:
            outer = plus(outer, ONE, -1)
        mask = Access(call(name, span=node.span), (deep, outer), span=node.span, type=Bool)
        return call("!", mask, span=node.span) if negated else mask

    def is_outer(self, outer: Node, deep: Node) -> bool:
        """Whether `deep` is an index, and `outer` an integer that is constant in its loop."""
        if not isinstance(deep, Index):
            return False
        depth = self.depths[deep.name]
        for node in walk(outer):
            if isinstance(node, (Index, Variable)) and self.depths.get(node.name, 0) >= depth:
                return False
        type = type_of(outer)
        return type is not None and type.kind == "int" and not self.may_be_missing(outer)

    def may_be_missing(self, node: Node) -> bool:
        """Whether something that an expression reads may be `missing`."""
        return any(
            may_be_missing(n.tensor) if isinstance(n, Access) else n in self.missing
            for n in walk(node)
            if isinstance(n, (Access, Variable))
        )


def _as_neighbours(inner: Node, order: list[int], p: int, q: int) -> tuple[Node, list[int]]:
    """`inner`, with the modes `order`, such that mode p stands right before mode q: a mode that is
    broadcast is put there; all others by a swizzle if need be."""
    if is_call(inner, "broadcast") and order[added := _added(inner)] in (p, q):
        rest = [*order[:added], *order[added + 1 :]]
        at = rest.index(q) if order[added] == p else rest.index(p) + 1
        rest.insert(at, order[added])
        body, _, size = inner.args  # type: ignore[attr-defined]
        return replace(inner, args=(body, Literal(at + 1), size)), rest
    places = list(range(len(order)))
    places.remove(order.index(p))
    places.insert(places.index(order.index(q)), order.index(p))
    if places == sorted(places):
        return inner, order
    settings = (Literal(places.index(k) + 1) for k in range(len(order)))
    return call("swizzle", inner, *settings, span=inner.span), [order[k] for k in places]


def _added(broadcast: Any) -> int:
    """The mode that is broadcast, from 0."""
    return int(broadcast.args[1].value) - 1
