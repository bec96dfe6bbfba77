"""The concordise pass (Finch'25 section 5.4, Fig 12): accesses get bare indices, in the order of
the loops around them (column-major: the last index's loop outermost).

An index that is an expression x, or whose loop is not inside of the loop of the mode to its right,
becomes an index k of its own with a single-iteration loop `for k = x:x`. That loop stands inside of
all that binds x and of the loops of the outer modes, outside of those of the inner modes, and
beyond that around whole loop nests, so that x is not evaluated more often than need be; but it does
not leave a sieve, let or block that it need not leave. Before that, statements that read an element only
under a condition within them, or within a loop that such a loop would stand around, are put under it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.algebra.expression_types import annotate, apart, is_there, optional, type_of
from finchlang.algebra.laws import by_structure, in_type, is_value
from finchlang.base.errors import FinchError
from finchlang.levels.element import typed_literal
from finchlang.levels.scalars import KeptScalar, Scalar
from finchlang.operators.operator_table import NOT, row_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Pair, Type
from finchlang.text.print import pretty

#: Where a name is bound: (frame, 1, 0) by the statement of that frame, (frame, 0, n) by the n-th
#: loop inserted around it. Greater is deeper.
Depth = tuple[int, int, int]
_OUTSIDE: Depth = (-1, 1, 0)


def concordize(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` with concordant accesses. Raises FinchError "type" where a declaration reads an element at
    an index: no loop can stand around it."""
    context.reserve(program)
    for node in trees.find_all(program, ast.Define, ast.Loop):
        head = trees.head(node)
        inside = any(getattr(n, "may_miss", ast.is_missing(n)) for n in trees.walk(head))
        if inside or not context.open.isdisjoint(ctx.names_in(head)):
            context.open.update(trees.binds(node))
    return _Concordize(context).statement(_read_ahead(program, context))


def _read_ahead(node: Any, context: ctx.ProgramContext) -> Any:
    """A scope that is all in a `let` of an element, as one that has the element in a scalar: a loop around
    the `let` would be a scope of its own, in which no tensor of this one may change its mode."""
    if not isinstance(node, ast.Define):
        return node
    node, value = trees.replace(node, body=_read_ahead(node.body, context)), node.value
    if not _gathers(value) or (type := type_of(value)) is None:
        return node
    fills = [fill for access in trees.accesses(value) for fill in access.fills]
    zero = typed_literal(Pair(0, 0) if type.kind == "pair" else 0, type)
    fill = fills[0] if isinstance(value, ast.Access) and fills else zero
    statements, entry = _in_scalars(value, KeptScalar(fill) if fills else Scalar(fill), context)
    return ast.Block((*statements, trees.replace(node, value=entry)), span=node.span)


def _in_scalars(
    value: ast.Node, level: Scalar, context: ctx.ProgramContext
) -> tuple[tuple[ast.Node, ...], ast.Node]:
    """As `_in_scalar`, of what may be missing: another scalar has whether it is there."""
    statements, entry = _in_scalar(value, level, context)
    if is_there(value):
        return statements, entry
    same = ast.call("==", value, value)
    known = ast.call("|", same, ast.call("!", same))
    found, there = _in_scalar(known, Scalar(ast.Literal(False)), context)
    return (*found, *statements), optional(there, entry, value)


def _in_scalar(
    value: ast.Node, level: Scalar, context: ctx.ProgramContext
) -> tuple[tuple[ast.Node, ...], ast.Node]:
    """Statements that keep a value in a scalar of the program, and what reads it there."""
    name = context.fresh("t")
    context.formats[name] = context.workspaces[name] = level
    entry: Any = annotate(ast.Access(ast.Variable(name), (), span=value.span), {name: level})
    found = guarded(ast.Assign(entry, ctx.PLAIN[0], value, span=value.span), context, False)
    return (ast.Declare(entry.tensor, level.fill), found, ast.Freeze(entry.tensor)), entry


@dataclass(eq=False)
class _Frame:
    """A statement around the current one, and the single-iteration loops to insert around it."""

    node: ast.Node
    inserted: list[tuple[ast.Node, ast.Index]] = field(default_factory=list)


def guarded(node: ast.Node, context: ctx.ProgramContext, keeps: bool = True) -> ast.Node:
    """A statement as others under conditions, if it reads an element at an expression in an arm of `?:`, or
    right of the operand that decides `&&` or `||`: a loop around it would come there in any case. If it
    `keeps`, the value may be kept in a scalar before."""
    match node:
        case ast.Sieve(condition) if (cut := _cut(condition, False)) is not None:
            inner = trees.replace(node, condition=cut[1])
            return guarded(trees.replace(node, condition=cut[0], body=inner), context)
        case ast.Define(variable, value, body) if _selected(value) is not None:
            settings = trees.find_all(body, ast.Declare, ast.Extent)
            if any(trees.mentions(n, variable) for n in settings):  # these read no element
                return _known_ahead(node, context)
            return guarded(trees.substitute(body, {variable: value}), context)
        case ast.Assign() | ast.Sieve():
            held = node.condition if isinstance(node, ast.Sieve) else node
            found = _selected(held)
            if found is None or (type := type_of(call := found[0])) is None:
                return node
            if keeps and (kept := _kept(node, found, type, context)) is not None:
                return kept

            def under(test: ast.Node, arm: ast.Node, rest: ast.Node | None) -> ast.Sieve:
                # as `?:` converts its arms: a number that the common type cannot hold is cut
                name = f"cut_{type.name}" if type.kind in ("int", "uint") else type.name
                arm = arm if type_of(arm) in (type, None) else ast.call(name, arm)
                own = trees.replace_equal(held, call, arm)
                own = own if rest is None else ast.Sieve(own, rest, span=node.span)
                return ast.Sieve(test, own, span=node.span)

            _, test, then, otherwise = found
            no = ast.Call(NOT, (test,))
            rest: Any = getattr(node, "body", None)
            again = rest and _renamed(rest, context)
            both = under(test, then, rest), under(no, otherwise, again)
            return ast.Block(both, span=node.span)
        case ast.Loop(_, extent) if _selected(extent) is not None and is_there(extent):
            return _known_ahead(node, context)
        case ast.Loop(index, _, body):
            inner = trees.replace(node, body=guarded(body, context))
            return _chosen_outside(inner, index, context) or inner
    return node


def _known_ahead(node: ast.Define | ast.Loop, context: ctx.ProgramContext) -> ast.Node:
    """A loop or `let` behind scalars that keep the values in its head that need conditions."""
    before = list[ast.Node]()

    def known(part: ast.Node) -> ast.Node:
        if isinstance(part, ast.Extent) or ast.is_meet(part):
            return trees.map_children(known, part)
        if _selected(part) is None or (type := type_of(part)) is None or not is_there(part):
            return part
        statements, entry = _in_scalar(part, Scalar(typed_literal(0, type)), context)
        before.extend(statements)
        return entry

    rest = trees.headed(node, known(trees.head(node)), node.body)
    return ast.Block((*before, rest), span=node.span) if before else node


def _kept(
    node: ast.Node, found: tuple[Any, ...], type: Type, context: ctx.ProgramContext
) -> ast.Block | None:
    """A statement with the value of a call found before, under conditions, and kept in a scalar, if other
    parts of it need conditions, too: the statement under those of all parts would be there 2^k times; or
    if its arms may be several values by structure, of which the first stays one: a fill, if any is read.
    None otherwise, or if a loop over another index may have to stand inside of one around an element."""
    call, _, *arms = found
    if type.kind == "pair" or any(map(_crosses, trees.accesses(call))):
        return None
    if not context.open.isdisjoint(ctx.names_in(call)):
        return None
    fills = [fill for arm in arms for access in trees.accesses(arm) for fill in access.fills]
    literals = (*fills, *(n for arm in arms for n in by_structure(arm)))
    known = [in_type(n, type) for n in literals if not ast.is_missing(n)]
    fill = typed_literal(known[0].value if known else 0, type)  # type: ignore[attr-defined]
    is_one = all(is_value(n, fill.value, type) for n in known)
    level = KeptScalar(fill)
    with_value = partial(trees.replace_equal, node, call)
    if is_one and _selected(with_value(fill)) is None:
        return None
    statements, entry = _in_scalars(call, level, context)
    if (parts := apart(entry)) is None:
        return ast.Block((*statements, with_value(entry)), span=node.span)
    there, entry = parts
    missing = ast.Sieve(ast.Call(NOT, (there,)), with_value(ast.Literal(ast.MISSING)))
    both = ast.Sieve(there, with_value(entry)), _renamed(missing, context)
    return ast.Block((*statements, *both), span=node.span)


def _crosses(access: ast.Access) -> bool:
    """Whether an access has an expression behind an index."""
    kinds = [isinstance(index, ast.Index) for index in access.indices]
    return kinds != sorted(kinds)


def _chosen_outside(
    node: ast.Loop, index: ast.Index, context: ctx.ProgramContext
) -> ast.Node | None:
    """A loop as one where a condition in it holds and one where not, if that is the same in all steps and
    elements are read under it alone in an order that needs a loop around this one; else None."""
    body = node.body
    statements = ctx.statements_of(body)
    tests = [s.condition for s in statements if isinstance(s, ast.Sieve) and _leaves(s.body, index)]
    if not tests or any(trees.find_all(body, ast.Declare)):
        return None
    conditions = [s.condition for s in statements if isinstance(s, ast.Sieve)]
    negations: dict[ast.Node, ast.Node] = {ast.Call(NOT, (c,)): c for c in conditions}
    no = negations.get(tests[0]) or ast.Call(NOT, (tests[0],))
    changed = {ctx.root(n.target.tensor) for n in trees.find_all(body, ast.Assign)}
    read, ours = trees.accesses(no), {tests[0], no}
    is_same = not trees.mentions(no, index) and changed.isdisjoint(ctx.root(a.tensor) for a in read)
    #: without others, nothing is left to do where the condition is missing
    is_all = all(getattr(s, "condition", None) in ours for s in statements)
    is_known = is_all or not any(a.may_miss for a in read)
    if not (is_same and is_known and ours.issuperset(tests)):
        return None
    found = list[ast.Node]()
    for holds, fails in ((tests[0], no), (no, tests[0])):
        meant: list[Any] = [s for s in statements if getattr(s, "condition", None) != fails]
        left = [s.body if getattr(s, "condition", None) == holds else s for s in meant]
        if left:
            loop = trees.replace(node, body=trees.block(*left))
            found.append(ast.Sieve(holds, _renamed(loop, context) if found else loop))
    return trees.block(*found)


def _leaves(node: ast.Node, index: ast.Index) -> bool:
    """Whether an element is read at an expression behind a mode that the loop of `index` goes through: of
    a mask, at an element."""
    found = (a for a in trees.accesses(node) if index in a.indices)
    behind = ((ctx.root(a.tensor), a.indices[a.indices.index(index) :]) for a in found)
    each = ((root, x) for root, indices in behind for x in indices)
    return any(_gathers(x) if root is None else not isinstance(x, ast.Index) for root, x in each)


def _selected(node: ast.Node) -> tuple[Any, ast.Node, ast.Node, ast.Node] | None:
    """A call of `?:`, `&&` or `||` that reads an element at an expression in an arm, or right of its first
    operand: the call, its test, and its value where that holds and where not."""
    for call in trees.find_all(node, ast.Call):
        if row_of(call).selects and _gathers(*call.args[1:]):
            return call, *call.args  # type: ignore[return-value]
        for end in (False, True):
            if (cut := _cut(call, end)) is not None:
                known = ast.Literal(end)
                return call, cut[0], *((known, cut[1]) if end else (cut[1], known))
    return None


def _renamed(node: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`node` with other names for what it binds."""
    headers = trees.find_all(node, ast.Loop, ast.Define)
    new = {name: context.fresh(name) for n in headers for name in trees.binds(n)}

    def renamed(n: Any) -> ast.Node:
        is_bound = isinstance(n, (ast.Index, ast.Variable)) and n.name in new
        return trees.replace(n, name=new[n.name]) if is_bound else n

    return trees.rewrite_bottom_up(renamed, node)


def _cut(node: ast.Node, end: bool) -> tuple[ast.Node, ast.Node] | None:
    """The operands of `&&`, or of `||`, which need no other after one that is `end`, before the first
    that reads an element at an expression, and the rest; None if that is none but the first."""
    parts = _operands(node, end)
    k = next((k for k, part in enumerate(parts) if k > 0 and _gathers(part)), None)
    if k is None or not isinstance(node, ast.Call):
        return None

    def joined(some: list[ast.Node]) -> ast.Node:
        return reduce(lambda one, other: trees.replace(node, args=(one, other)), some)

    return joined(parts[:k]), joined(parts[k:])


def _operands(node: ast.Node, end: bool) -> list[ast.Node]:
    """The conditions joined by an operator that needs no other after one that is `end`."""
    row = row_of(node)
    if not row.short_circuits or bool(row.annihilators[0].value(Bool)) != end:
        return [node]
    return [part for operand in node.args for part in _operands(operand, end)]  # type: ignore


def _gathers(*nodes: ast.Node) -> bool:
    """Whether an element of a tensor at an expression is read."""
    found = (access for node in nodes for access in trees.accesses(node))
    accesses = (access for access in found if ctx.root(access.tensor) is not None)  # no mask
    return any(not isinstance(index, ast.Index) for access in accesses for index in access.indices)


class _Concordize:
    def __init__(self, context: ctx.ProgramContext):
        self.context = context
        self.frames: list[_Frame] = []
        self.depths: dict[str, Depth] = {}  # of binders
        self.scopes: dict[str, Depth] = {}  # of declared tensors: the scope they belong to

    def statement(self, node: ast.Node) -> Any:
        node = guarded(node, self.context)
        frame, here = _Frame(node), len(self.frames)
        self.frames.append(frame)
        for s in node.statements if isinstance(node, ast.Block) else ():
            if isinstance(s, ast.Declare):
                self.scopes[s.tensor.name] = (here, 1, 0)
        node = self.parts(node, here)
        self.frames.pop()
        for x, index in reversed(frame.inserted):
            node = ast.Loop(index, ast.Extent(x, x, span=x.span), node, span=frame.node.span)
        return node

    def parts(self, node: ast.Node, here: int) -> ast.Node:
        match node:
            case ast.Block():
                return trees.map_children(self.statement, node)
            case ast.Loop() | ast.Define() | ast.Sieve():
                head = self.expression(trees.head(node), here)
                self.depths.update(dict.fromkeys(trees.binds(node), (here, 1, 0)))
                return trees.headed(node, head, self.statement(node.body))
            case ast.Assign(target, _, value):
                target = self.access(target, here)
                return trees.replace(node, target=target, value=self.expression(value, here))
            case ast.Declare():
                for n in filter(lambda n: n.indices, trees.accesses(node)):
                    message = f"a declaration cannot read an element, as in `{pretty(n)}`"
                    hint = "bind it by `let` around the declaration"
                    raise FinchError("type", message, n.span, hint)
        return node

    def expression(self, node: ast.Node, innermost: int) -> Any:
        """`node` with its accesses concordant, by loops around the frames up to `innermost`."""
        if isinstance(node, ast.Access):
            return self.access(node, innermost)
        return trees.map_children(lambda c: self.expression(c, innermost), node)

    def access(self, node: ast.Access, innermost: int) -> ast.Access:
        indices = list(node.indices)
        node = trees.replace(node, tensor=self.settled(node.tensor, indices, innermost))
        # a tensor that is declared in a loop cannot be unfurled by that loop
        outer = self.scopes.get(ctx.root(node.tensor) or "", _OUTSIDE)
        for mode in reversed(range(len(indices))):
            index: Any = indices[mode]
            # `outer` twice: the maximum of one tuple would be one of its numbers
            outer = max(outer, *map(self.depth, affine.settings(node.tensor, mode)), outer)
            if not isinstance(index, ast.Index) or self.depths[index.name] <= outer:
                x, index = index, self.bind(index, outer, indices[:mode], innermost)
                indices[mode] = index
                is_across, shown = isinstance(x, ast.Index), pretty(x)
                why = "across the order of its loops" if is_across else "at an expression"
                loop = f"`for {index.name} = {shown}:{shown}` is inserted"
                self.context.decide("concordize", f"`{pretty(node)}` is {why} in `{shown}`: {loop}")
            outer = self.depths[index.name]
        if all(new is old for new, old in zip(indices, node.indices, strict=True)):
            return node
        return trees.replace(node, indices=tuple(indices))

    def settled(
        self, node: Any, inner: list[ast.Node], innermost: int, is_tensor: bool = True
    ) -> Any:
        """A tensor whose settings read no element: these stand as indices outside of loops of `inner`."""
        if is_tensor and isinstance(node, ast.Call):
            count = 0 if ctx.mask_name(node) else 1
            parts = (self.settled(n, inner, innermost, k < count) for k, n in enumerate(node.args))
            return trees.replace(node, args=tuple(parts))
        if isinstance(node, ast.Extent):
            return trees.map_children(lambda n: self.settled(n, inner, innermost, False), node)
        return self.bind(node, _OUTSIDE, inner, innermost) if trees.accesses(node) else node

    def bind(self, x: ast.Node, outer: Depth, inner: list[ast.Node], innermost: int) -> ast.Index:
        """An index with a loop over `x:x`, inside of `outer`, if possible outside of loops of `inner`."""
        least = max(outer, self.depth(x))
        for index in inner:
            if isinstance(index, ast.Index) and self.depths[index.name] > least:
                innermost = min(innermost, self.depths[index.name][0])
        x = self.expression(x, innermost)
        least = max(outer, self.depth(x))
        frame = self.frame(least, innermost)
        inserted = self.frames[frame].inserted
        for n, (known, index) in enumerate(inserted):
            if known == x and (frame, 0, n) > least:
                return trees.replace(index, span=x.span)
        base = x.name if isinstance(x, ast.Index) else "k"
        index = ast.Index(self.context.fresh(base), span=x.span)
        self.depths[index.name] = (frame, 0, len(inserted))
        inserted.append((x, index))
        return index

    def frame(self, least: Depth, innermost: int) -> int:
        """The frame to insert a loop around: deeper than `least`, no deeper than `innermost`."""
        frame = innermost
        lowest = least[0] + 1 if least[1] else least[0]
        while frame > lowest and isinstance(self.frames[frame - 1].node, ast.Loop):
            frame -= 1
        return max(frame, lowest)

    def depth(self, x: ast.Node) -> Depth:
        """How deep a frame must be for `x` to be evaluated there."""
        deepest = _OUTSIDE
        for node in trees.walk(x):
            if isinstance(node, (ast.Index, ast.Variable)):
                deepest = max(deepest, self.depths.get(node.name, _OUTSIDE))
            if isinstance(node, ast.Access) and (name := ctx.root(node.tensor)):
                deepest = max(deepest, self.scopes.get(name, _OUTSIDE))
            if ctx.is_call(node, *ast.OF_TENSORS):
                deepest = max(deepest, self.scopes.get(node.args[0].name, _OUTSIDE))
        return deepest
