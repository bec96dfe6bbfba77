"""Concatenations that are stored before a loop in which their cases multiply: where the parts of several
meet, or where the index of a mode is computed, so that the loop cannot be cut where a part ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import prod
from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.algebra.index_map import in_mode
from finchlang.base.records import record
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.levels.workspace.workspace import Workspace
from finchlang.normalize.shapes.reader import Reader
from finchlang.normalize.shapes.shaped import Shaped
from finchlang.operators.operator_table import row_of
from finchlang.syntax import nodes as ast, traversal as trees, types

#: with more cases than this a loop takes longer to stage than it takes to store what has them
MANY = 16
#: by what computes an index, by how much each further part multiplies the cases of a loop
_COMPUTED = {"collapse": 3, "window": 3, "split": 6}
#: two extents that must be the same
Pair = tuple[ast.Node, ast.Node]


class Stores:
    """The part of the pass `shapes` that stores concatenations before a loop that reads them."""

    def __init__(self, context: ctx.ProgramContext) -> None:
        self.context = context
        self.types: dict[str, Level | types.Type | None] = {}
        self.dims: dict[str, tuple[ast.Node, ...]] = {}  # of declared tensors, as they are written
        self.checks: list[Pair] = []
        self.claims: dict[str, list[ast.Extent]] = {}  # of indices, with which they must agree
        self.stored: dict[ast.Node, ast.Variable] = {}
        self.is_inside = False  # of a loop
        self.over: dict[str, int] = {}  # of indices: how many times what they write is collapsed

    #: what `lower_shapes` does: nodes with their operators lowered, accesses with primitive ones, types,
    #: statements under the condition that pairs of extents are the same, the requirement of that, sizes,
    #: what names stand for
    lowered: Callable[[ast.Node, dict[str, Any]], Any]
    with_primitives: Callable[[ast.Access, dict[str, Any]], ast.Access]
    type: Callable[[ast.Node], types.Type | None]
    checked: Callable[[ast.Node, list[Pair]], ast.Node]
    agree: Callable[[ast.Node, ast.Node], None]
    size: Callable[[ast.Node, int], ast.Node]
    leaf: Callable[[ast.Variable], Shaped]

    def taken(self, is_here: Callable[[Pair], Any]) -> list[Pair]:
        """The checks that belong here; the others remain."""
        here = [pair for pair in self.checks if is_here(pair)]
        self.checks = [pair for pair in self.checks if pair not in here]
        return here

    def outermost(self, loop: ast.Loop, bound: dict[str, Any]) -> ast.Node:
        """An outermost loop, lowered, behind the statements that store what it reads."""
        self.is_inside = True
        made = [s for node in self.to_store(loop) for s in self.store(node, bound)]
        result = self.lowered(loop, bound)
        self.is_inside = False
        names = {variable.name for variable in self.stored.values()}
        here = self.taken(lambda pair: sized(pair) & names)
        self.stored.clear()
        return trees.block(*made, self.checked(result, here))

    def with_stored(self, node: ast.Node) -> Any:
        """A tensor with the names of stored concatenations in their places."""
        if not self.stored or node in self.stored:
            return self.stored.get(node, node)
        inner = trees.map_children(self.with_stored, node)
        return self.stored.get(inner, inner)

    def to_store(self, loop: ast.Loop) -> Iterator[ast.Call]:
        """The concatenations to store before a loop, in order, each by the names of those before it."""
        nodes = list(trees.walk(loop))
        if not self.context.insert_workspaces or any(isinstance(n, ast.Formula) for n in nodes):
            return
        bound = {name for n in nodes for name in trees.binds(n)}
        bound |= {n.tensor.name for n in nodes if isinstance(n, ast.Declare)}
        targets = [self.with_primitives(n.target, {}) for n in nodes if isinstance(n, ast.Assign)]
        written = (ctx.names_in(target.tensor) for target in targets)
        bound |= set().union(*written) & self.types.keys()
        self.over = {}
        for target in targets:
            times = sum(ctx.is_call(n, "collapse") for n in trees.walk(target.tensor))
            own = [i.name for i in target.indices if isinstance(i, ast.Index)]
            self.over |= dict.fromkeys(own, times) if times else {}
        for accesses in _statements(loop):
            yield from self.too_many(accesses, bound)

    def too_many(self, accesses: list[ast.Access], bound: set[str]) -> Iterator[ast.Call]:
        """Concatenations to store for a statement to have at most MANY cases, inner ones first."""
        while True:
            plain = dict.fromkeys(self.with_primitives(access, {}) for access in accesses)
            found = [j for access in plain for j in _joined(access, over=self.over)]
            joined = {j.access for j in found}
            others = (a for a in plain if a not in joined)
            reads = (a for a in others if bound.isdisjoint(ctx.names_in(a.tensor)))
            # a loop that becomes two cannot be cut at a part's end: a read beside doubles the cases
            beside = sum(any(i in self.over for i in ctx.names_in(a)) for a in reads)
            if prod(j.cases for j in found) * 2**beside <= MANY:
                return
            if len(found) == 1 and found[0].is_cut:  # one case for each part: no gain
                found = list(found[0].within())
            free = [j for j in found if bound.isdisjoint(ctx.names_in(j.node))]
            if not free:
                return
            most = max(free, key=lambda j: j.cases)
            order = self.order(most.node)
            indices = tuple(ast.Index(f"mode {k + 1}") for k in range(order))
            yield from self.too_many([ast.Access(most.node, indices)], bound)
            shown = f"the concatenation at {ctx.place(most.access.span)} is stored first"
            why = f"with what is around and beside it there are more than {MANY} cases"
            self.context.decide("shapes", f"{shown}: {why}")
            yield self.with_stored(most.node)

    def store(self, node: ast.Call, bound: dict[str, Any]) -> Iterator[ast.Node]:
        """The statements that store a concatenation in a workspace, which stands for it from here on."""
        context, span, order = self.context, node.span, self.order(node)
        variable = ast.Variable(context.fresh("joined"), span=span)
        type = self.element_type(node)
        assert type is not None
        known = map(self.types.get, ctx.names_in(node))
        fills = {level.fill.value for level in known if isinstance(level, Level)}
        fill = typed_literal(type.wrap(fills.pop() if len(fills) == 1 else 0), type)
        level = Workspace(Element(fill), number=order)
        name = variable.name
        context.formats[name] = context.workspaces[name] = self.types[name] = level
        self.dims[name] = tuple(self.extent(node, k) for k in range(order))
        yield ast.Declare(variable, fill, self.dims[name], span=span)
        context.stored.add(name)
        for part, target in self.placed(node, variable):
            indices = context.fresh_indices(order, span)
            target, value = (ast.Access(t, indices, span=span) for t in (target, part))
            body: ast.Node = ast.Assign(target, ast.Variable(ctx.INIT), value, span=span)
            for index in indices:
                body = ast.Loop(index, ast.Dimensionless(), body, span=span)
            yield self.lowered(body, bound)
        self.stored[node] = variable

    def order(self, node: ast.Node) -> int:
        return Reader(self.leaf).shaped(node).order

    def extent(self, tensor: ast.Node, mode: int) -> ast.Extent:
        return ast.Extent(ctx.ONE, self.size(tensor, mode), span=tensor.span)

    def element_type(self, node: ast.Node) -> types.Type | None:
        """The type of a tensor's elements."""
        indices = self.context.fresh_indices(self.order(node), node.span)
        element = ast.Access(node, indices, span=node.span)
        return self.asked(lambda: self.type(self.lowered(element, {})))

    def asked(self, question: Callable[[], Any]) -> Any:
        """The answer to a question; what is claimed and checked on the way to it is dropped."""
        claims, checks = {k: list(v) for k, v in self.claims.items()}, list(self.checks)
        answer = question()
        self.claims, self.checks = claims, checks
        return answer

    def placed(self, node: ast.Node, target: ast.Node) -> Iterator[tuple[ast.Node, ast.Node]]:
        """The parts of a concatenation, also within parts, each with the window of `target` it goes to."""
        assert isinstance(node, ast.Call)
        type = self.element_type(node)
        first, *parts = node.args
        p: int = first.value - 1  # type: ignore[attr-defined]
        before: ast.Node = affine.ZERO
        order = self.order(node)
        for part in parts:
            after = affine.plus(before, self.size(part, p))
            reach = ast.Extent(affine.plus(before, ctx.ONE), after, span=node.span)
            for mode in range(order):
                if mode != p:
                    self.agree(self.extent(parts[0], mode), self.extent(part, mode))
            into = in_mode("window", target, p, reach, order, node.span)
            if ctx.is_call(part, "concat") and self.element_type(part) == type:
                yield from self.placed(part, into)
            else:
                yield part, into
            before = after


@record
class _Joined:
    """A concatenation in an access, not within another; how many `cases` a loop over it has, which `is_cut`
    if they are those of its parts."""

    node: ast.Call
    cases: int
    is_cut: bool
    access: ast.Access

    def within(self) -> Iterator[_Joined]:
        """The concatenations in its parts; for a part that is one itself, those in its parts."""
        for part in self.node.args[1:]:
            for found in _joined(self.access, part):
                yield from found.within() if found.node is part else [found]


def _joined(
    access: ast.Access,
    tensor: ast.Node | None = None,
    factor: int = 0,
    over: Mapping[str, int] = {},
) -> Iterator[_Joined]:
    """The concatenations in an access, or in `tensor` within it; `over` as in `Stores`."""
    if tensor is None:
        tensor, names = access.tensor, [i for i in access.indices if isinstance(i, ast.Index)]
        is_plain = len(set(names)) == len(names) and all(map(_is_shifted, access.indices))
        splits = max((over.get(i.name, 0) for i in names), default=0)
        factor = 0 if is_plain else _COMPUTED["window"]
        factor = _COMPUTED["split"] ** splits if splits else factor
    if isinstance(tensor, ast.Formula):
        for inner in affine.own_accesses(tensor.value):
            yield from _joined(inner, inner.tensor, factor)
    elif isinstance(tensor, ast.Call) and ctx.is_call(tensor, "concat"):
        parts = [(part, list(_joined(access, part))) for part in tensor.args[1:]]
        count = sum(prod(j.cases for j in found) for _, found in parts)
        is_nested = any(j.node is not part for part, found in parts for j in found)
        # with 9 further parts there are too many cases by any factor
        cases = factor ** min(count - 1, 9) if factor else count * (1 + is_nested)
        yield _Joined(tensor, cases, not factor, access)
    elif isinstance(tensor, ast.Call) and tensor.args and not ctx.mask_name(tensor):
        steps = {s.step for s in tensor.args[1:] if isinstance(s, ast.Extent)}
        is_plain = ctx.is_call(tensor, "window") and steps <= {None, ctx.ONE}
        name: str = tensor.op.name  # type: ignore[attr-defined]
        own = 0 if is_plain else _COMPUTED.get(name, 0)
        yield from _joined(access, tensor.args[0], max(own, factor))


def _is_shifted(index: ast.Node) -> bool:
    """Whether an index is a name or number, perhaps moved: the loop can be cut where a part ends."""
    if isinstance(index, ast.Call):
        is_moved = row_of(index).translates or isinstance(index.op, ast.Extent)
        is_moved = is_moved or ctx.is_call(index, ctx.PERMISSIVE, *ctx.PROTOCOLS)
        return is_moved and all(map(_is_shifted, index.args))
    return isinstance(index, (ast.Index, ast.Literal, ast.Variable))


def _statements(node: ast.Node) -> list[list[ast.Access]]:
    """Lists of accesses, each of the statements that are in one loop together."""
    match node:
        case ast.Assign(target, _, value):
            return [[target, *affine.own_accesses(value)]]
        case ast.Loop(_, _, body):
            return _statements(body)
        case ast.Sieve(head, body) | ast.Define(_, head, body):
            return [[*affine.own_accesses(head), *accesses] for accesses in _statements(body)]
        case ast.Block(statements):
            loops = [s for s in statements if isinstance(s, ast.Loop)]
            others = [a for s in statements if s not in loops for a in _statements(s)]
            return [list(chain(*others)), *(a for loop in loops for a in _statements(loop))]
    return []


def sized(pair: Pair) -> set[str]:
    """The tensors whose sizes are in two extents."""
    return {name for extent in pair for name in ctx.sized(extent)}
