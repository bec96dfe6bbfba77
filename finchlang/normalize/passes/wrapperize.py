"""The wrapperise pass (Finch'25 section 5.2, Table 5): swizzles are resolved, comparisons of
indices become masks, and index modifiers become wrapper tensors."""

from __future__ import annotations

from typing import Any

from finchlang.algebra import index_arithmetic as affine, index_map, program_context as ctx
from finchlang.algebra.expression_types import OF_MASKS, type_of
from finchlang.algebra.simplify import simplify
from finchlang.base.errors import FinchError
from finchlang.levels.level import Swizzled
from finchlang.operators.operator_table import referred, row_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Int64, Type
from finchlang.wrappers.masks import MASKS
from finchlang.wrappers.wrappers import WRAPPERS


def wrapperize(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` without swizzles and index modifiers, and with masks for comparisons.

    A tensor of Swizzled format is from here on its stored tensor, under a new name. Expects what
    the scopes pass gives. Raises FinchError of kind "type" for a protocol on the left-hand side.
    """
    context.reserve(program)
    return _Wrapperize(context).statement(program, 0)


#: the wrappers that index modifiers stand for, from the outside in
MODIFIERS = ("permissive", "protocolize", "window", "offset")


def _modifier(program: _Wrapperize, index: ast.Node) -> tuple[str, ast.Node, ast.Node] | None:
    """A row of Table 5: the wrapper that an index expression stands for, the setting for its mode, and
    the index that is left. An offset `i + c` is one where c is constant in the loop of i."""
    if written := index_map.modifier(index):
        return written
    found = [
        (s, n if type_of(n) == Int64 else ast.call("Int64", n)) for s, n in affine.terms(index)
    ]
    has_elements = any(trees.find_all(index, ast.Access))
    if len(found) < 2 or type_of(index) != Int64 or has_elements:
        return None
    for n, (sign, i) in enumerate(found):
        shift = affine.total(found[:n] + found[n + 1 :])
        if sign > 0 and program.is_outer(shift, i):
            return "offset", shift, i
    return None


def wrap(program: _Wrapperize, access: ast.Access, updating: bool) -> ast.Access:
    """`access` with its index modifiers turned into wrappers, from the outside in."""
    tensor = access.tensor
    indices = tuple(_guarded(tensor, mode, i) for mode, i in enumerate(access.indices))
    # a mask has no bounds: it is looked up at any index, so that an offset is just part of that
    names = MODIFIERS if ctx.root(tensor) else MODIFIERS[:-1]
    while True:
        found = [_modifier(program, i) for i in indices]
        wrapper = next((name for name in names if any(f and f[0] == name for f in found)), None)
        if wrapper is None:
            may_miss = ctx.may_be_missing(tensor)
            return trees.replace(access, tensor=tensor, indices=indices, may_miss=may_miss)
        own = [f[1:] if f and f[0] == wrapper else None for f in found]
        if updating and wrapper == "protocolize":
            place: Any = next(f[0] for f in own if f)
            hint = "leave it away where a tensor is updated"
            raise FinchError("type", f"`{place.name}` says how to read a tensor", place.span, hint)
        settings = (f[0] if f else WRAPPERS[wrapper].neutral for f in own)
        tensor = ast.call(wrapper, tensor, *settings, span=access.span)
        indices = tuple(f[1] if f else i for f, i in zip(own, indices, strict=True))


def _guarded(tensor: ast.Node, mode: int, index: Any) -> ast.Node:
    """An index of two or more loop variables, as permissive (unless its mode has no extent)."""
    if ctx.is_call(index, ctx.PERMISSIVE) or affine.source(tensor, mode) is None:
        return index
    is_window = isinstance(index, ast.Call) and isinstance(index.op, ast.Extent)
    if is_window or ctx.is_call(index, *ctx.PROTOCOLS):
        return trees.replace(index, args=(_guarded(tensor, mode, index.args[0]),))
    own = {n for _, n in affine.terms(index) if isinstance(n, ast.Index)}
    if own and not any(trees.find_all(index, ast.Access)):
        own.update(trees.find_all(index, ast.Index))  # also of `i + 2 * j`
    return ast.call(ctx.PERMISSIVE, index, span=index.span) if len(own) > 1 else index


class _Wrapperize:
    """`depth` counts the binders around a place; `depths` has it for binders and declarations."""

    def __init__(self, context: ctx.ProgramContext):
        self.context = context
        self.depths: dict[str, int] = {}
        self.missing: set[str] = set()  # names that are bound to what may be missing
        self.stored: dict[str, str] = {}  # of swizzled tensors

    def statement(self, node: ast.Node, depth: int) -> Any:
        match node:
            case ast.Block(statements):
                for s in statements:
                    if isinstance(s, ast.Declare):
                        self.depths[s.tensor.name] = depth
                return trees.map_children(lambda s: self.statement(s, depth), node)
            case ast.Loop() | ast.Define() | ast.Sieve():
                head = self.expression(trees.head(node), masks=not isinstance(node, ast.Loop))
                if self.may_be_missing(head):
                    self.missing.update(trees.binds(node))
                depth += len(trees.binds(node))
                self.depths.update(dict.fromkeys(trees.binds(node), depth))
                return trees.headed(node, head, self.statement(node.body, depth))
            case ast.Assign(target, _, value):
                target = self.access(target, updating=True)
                return trees.replace(node, target=target, value=self.expression(value))
            case ast.Declare(tensor, init, dims):
                name, order = self.store(tensor)
                ordered = tuple(self.expression(dims[m], masks=False) for m in order if dims)
                return trees.replace(node, tensor=name, init=self.expression(init), dims=ordered)
            case ast.Freeze(tensor) | ast.Thaw(tensor):
                return trees.replace(node, tensor=self.store(tensor)[0])
        return node

    def expression(self, node: ast.Node, masks: bool = True) -> Any:
        """`masks`: whether comparisons become masks; within indices and extents they do not."""
        if isinstance(node, ast.Access):
            return self.access(node)
        if isinstance(node, ast.Mode):
            return trees.replace(node, tensor=self.store(node.tensor)[0])
        if isinstance(node, ast.Call) and ctx.is_call(node, "size"):
            return self.size(node)
        node = trees.map_children(lambda c: self.expression(c, masks), node)
        if masks and isinstance(node, ast.Call) and isinstance(node.op, ast.Variable):
            return self.mask(node)
        return node

    def access(self, node: ast.Access, updating: bool = False) -> ast.Access:
        tensor, order = self.store(node.tensor)
        indices = tuple(self.expression(node.indices[m], masks=False) for m in order)
        return wrap(self, trees.replace(node, tensor=tensor, indices=indices), updating)

    def store(self, tensor: Any) -> tuple[Any, tuple[int, ...]]:
        """The stored tensor that `tensor` stands for, and for each of its modes which mode of
        `tensor` it is, from 0: tensor[i...] == stored[i[order]...]."""
        if isinstance(tensor, ast.Variable):
            known = self.context.formats.get(tensor.name)
            if not isinstance(known, Swizzled):
                assert known is not None and not isinstance(known, Type)
                return tensor, tuple(range(known.order))
            if (name := self.stored.get(tensor.name)) is None:
                name = self.stored[tensor.name] = self.context.fresh(f"{tensor.name}_stored")
                self.context.formats[name] = known.level
                self.context.originals[name] = self.context.written(tensor.name)
            return ast.Variable(name, span=tensor.span), tuple(p - 1 for p in known.permutation)
        if mask := ctx.mask_name(tensor):
            canonical = ast.Variable(MASKS[mask].name, span=tensor.op.span)
            args = tuple(self.expression(a, masks=False) for a in tensor.args)
            return trees.replace(tensor, op=canonical, args=args), tuple(range(MASKS[mask].order))
        inner, order = self.store(tensor.args[0])
        if ctx.is_call(tensor, "swizzle"):
            permutation = [p.value - 1 for p in tensor.args[1:]]
            return inner, tuple(permutation[m] for m in order)
        if ctx.is_call(tensor, *affine.MAPS):
            return self.mapped(tensor, inner, list(order))
        settings = (self.expression(tensor.args[1 + m], masks=False) for m in order)
        return trees.replace(tensor, args=(inner, *settings)), order

    def mapped(
        self, tensor: ast.Call, inner: ast.Node, order: list[int]
    ) -> tuple[ast.Node, tuple[int, ...]]:
        """As `store`, for a wrapper in MAPS around the stored tensor `inner`, whose modes are the modes
        `order` of the tensor within."""
        p = tensor.args[1].value - 1  # type: ignore[attr-defined]
        rest = [self.expression(n, masks=False) for n in tensor.args[2:] if n != ast.Literal(True)]
        if ctx.is_call(tensor, "collapse"):
            inner, order = _as_neighbours(inner, order, p, tensor.args[2].value - 1)
        above = affine.above(tensor, len(order) + affine.MAPS[tensor.op.name])  # type: ignore[attr-defined]
        new = list(dict.fromkeys(outer for mode in order for outer in above[mode]))
        if ctx.is_call(tensor, "broadcast"):
            at = order.index(p) if p in order else len(order)
            new.insert(at, p)
        else:
            at = order.index(p)
        if ctx.is_call(tensor, "collapse"):
            rest = [ast.Literal(at + 2)]
        return trees.replace(tensor, args=(inner, ast.Literal(at + 1), *rest)), tuple(new)

    def size(self, node: ast.Call) -> ast.Call:
        tensor, order = self.store(node.args[0])
        mode: Any = node.args[1]
        stored_mode = ast.Literal(order.index(mode.value - 1) + 1, span=mode.span)
        return trees.replace(node, args=(tensor, stored_mode))

    def mask(self, node: ast.Call) -> ast.Node:
        """A comparison as a mask, its first index the one of the deeper loop (column-major), as what it is
        if both sides are one index, or as it is where neither side is an index, perhaps moved, whose loop
        the other side is constant in."""
        row: Any = row_of(node)
        if row.mask is None:
            return node
        left, right = node.args
        distance = affine.plus(left, right, -1)
        is_exact = _is_exact(left) and _is_exact(right) and not self.may_be_missing(node)
        if isinstance(distance, ast.Literal) and is_exact:
            known = simplify(ast.Call(node.op, (distance, affine.ZERO), span=node.span))
            return trees.replace(known, type=None)
        deep, outer = _alone(left, right)
        if not self.is_outer(outer, deep):
            deep, outer = _alone(right, left)
            row = referred(row.converse)
            if not self.is_outer(outer, deep):
                return node
        name, negated = row.mask
        type, fills = OF_MASKS
        tensor = ast.call(name, span=node.span)
        mask = ast.Access(tensor, (deep, outer), span=node.span, type=type, fills=fills)
        return ast.call("!", mask, span=node.span) if negated else mask

    def is_outer(self, outer: ast.Node, deep: ast.Node) -> bool:
        """Whether `deep` is an index, and `outer` an integer that is constant in its loop."""
        if not isinstance(deep, ast.Index):
            return False
        depth = self.depths[deep.name]
        if any(self.depths.get(name, 0) >= depth for name in ctx.names_in(outer)):
            return False
        type = type_of(outer)
        return type is not None and type.kind == "int" and not self.may_be_missing(outer)

    def may_be_missing(self, node: ast.Node) -> bool:
        """Whether something that an expression reads may be `missing`."""
        return any(
            ctx.may_be_missing(n.tensor) if isinstance(n, ast.Access) else n.name in self.missing
            for n in trees.find_all(node, ast.Access, ast.Variable, ast.Index)
        )


def _alone(one: ast.Node, other: ast.Node) -> tuple[ast.Node, ast.Node]:
    """i and b - c for the sides i + c and b of a comparison, where no sum can wrap around."""
    own = [n for sign, n in affine.terms(one) if sign > 0 and isinstance(n, ast.Index)]
    if len(own) != 1 or own[0] == one or not (_is_exact(one) and _is_exact(other)):
        return one, other
    return own[0], affine.plus(other, affine.plus(one, own[0], -1), -1)


def _is_exact(node: ast.Node) -> bool:
    """Whether an expression is a number, an index or their sum, and cannot wrap around."""
    found = [n for _, n in affine.terms(node)]
    indices = [n for n in found if isinstance(n, ast.Index)]
    return len(indices) < 2 and all(n in indices or _is_near(n) for n in found)


def _is_near(node: ast.Node) -> bool:
    """Whether a number is a literal or a size, or the negation of one, or is bounded by two of these."""
    match node:
        case ast.Literal(value):
            return type(value) is int and abs(value) < affine.LARGEST
        case ast.Call(_, (ast.Call(ast.Variable(inner), (_, one)), other)):
            is_between = row_of(node).idempotent and inner in row_of(node).distributes_over
            return is_between and _is_near(one) and _is_near(other)
        case ast.Call(_, (one,)):
            return row_of(node).involution and _is_near(one)
    return ctx.is_call(node, "size")


def _as_neighbours(inner: ast.Node, order: list[int], p: int, q: int) -> tuple[ast.Node, list[int]]:
    """`inner`, with its modes `order`, by a swizzle if need be, with mode p right before mode q."""
    added = inner.args[1].value - 1 if ctx.is_call(inner, "broadcast") else None
    if added is not None and order[added] in (p, q):
        rest = [*order[:added], *order[added + 1 :]]
        at = rest.index(q) if order[added] == p else rest.index(p) + 1
        rest.insert(at, order[added])
        body, _, size = inner.args  # type: ignore[attr-defined]
        return trees.replace(inner, args=(body, ast.Literal(at + 1), size)), rest
    places = list(range(len(order)))
    places.remove(order.index(p))
    places.insert(places.index(order.index(q)), order.index(p))
    if places == sorted(places):
        return inner, order
    settings = (ast.Literal(places.index(k) + 1) for k in range(len(order)))
    return ast.call("swizzle", inner, *settings, span=inner.span), [order[k] for k in places]
