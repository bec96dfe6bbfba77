"""The shapes pass (Burrito'24 section 5): what `concat` and `let T[i, j] = e` put together is taken apart
again, and the operators around go to the tensors within.

An operator changes the index maps that stand for the indices of its tensor. Where they come to a single
tensor, the operators around it are rebuilt from the maps of its modes; an expression has maps put in the
places of its indices, and so each of its tensors gets its own. A loop over two modes of what is written,
`collapse(C, p, q)[k]`, becomes two loops, and k a map of both their indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from finchlang.algebra import index_arithmetic as affine, index_map, program_context as ctx
from finchlang.algebra.expression_types import annotate, type_of
from finchlang.base.errors import FinchError, Span
from finchlang.levels.element import typed_literal
from finchlang.levels.level import level_of
from finchlang.normalize.shapes.materialize import Pair, Stores, sized
from finchlang.normalize.shapes.reader import Reader, with_primitives
from finchlang.normalize.shapes.shape_table import OPERATORS
from finchlang.normalize.shapes.shaped import WHOLE, Shaped
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Type, promote
from finchlang.text.print import pretty
from finchlang.wrappers.wrappers import WRAPPERS


def shapes(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program`, as the scopes pass gives it, without names for expressions as tensors, and with operators
    on single tensors only. Raises FinchError "type" or "dimension"."""
    context.reserve(program)
    return _Shapes(context).program(program)


def has_shapes(program: ast.Node) -> bool:
    """Whether there is a formula or a shape operator for this pass to lower."""
    nodes = trees.walk(program)
    return any(isinstance(n, ast.Formula) or ctx.is_call(n, *OPERATORS) for n in nodes)


Bindings = dict[str, ast.Node]
Maps = list[ast.Node]
#: a tensor without wrappers, the maps for its modes, and the broadcast modes around: sizes and maps
Leaf = tuple[Any, list[ast.Node], list[tuple[ast.Node, ast.Node]]]


class _Shapes(Stores):
    def __init__(self, context: ctx.ProgramContext):
        Stores.__init__(self, context)
        self.formulas: dict[str, ast.Formula] = {}
        self.types |= {name: level_of(known) for name, known in context.formats.items()}
        self.dropped: list[tuple[ast.Node, ast.Node]] = []  # what is broadcast around an expression

    def leaf(self, node: ast.Variable) -> Shaped:
        if node.name in self.formulas:
            formula = self.formulas[node.name]
            return Shaped(formula, len(formula.indices), node)
        return Shaped(node, self.context.level(node.name).order)

    def program(self, program: ast.Node) -> ast.Node:
        program = self.lowered(program, {})
        return self.checked(program, self.checks)

    def lowered(self, node: ast.Node, bound: Bindings) -> Any:
        match node:
            case ast.Block():
                return self.block(node, bound)
            case ast.Loop() if not self.is_inside:
                return self.outermost(node, bound)
            case ast.Loop(index, extent, body):
                if found := self.collapsed(node, bound):
                    return self.lowered(self.two_loops(node, found, bound), bound)
                extent = self.lowered(extent, bound)
                body = self.inside(self.lowered(body, bound), index)
                return trees.replace(node, extent=self.claimed(index, extent), body=body)
            case ast.Define(variable, ast.Formula() as formula, body):
                self.formulas[variable.name] = with_primitives(formula, self.reader({}))
                return self.lowered(body, bound)
            case ast.Define(variable, value, body):
                value = self.lowered(value, bound)
                self.types[variable.name] = self.type(value)
                body = self.inside(self.lowered(body, bound), variable)
                return trees.replace(node, value=value, body=body)
            case ast.Assign():
                return self.assign(node, bound)
            case ast.Declare(tensor, _, dims):
                self.dims[tensor.name] = dims
            case ast.Index(name) if name in bound:
                return index_map.value(bound[name])
            case ast.Access():
                return self.access(node, bound)
            case ast.Call(ast.Variable("zero"), (element,)):
                type = self.type(self.lowered(element, bound))
                return ast.Literal(0) if type is None else typed_literal(0, type)
        return trees.map_children(lambda child: self.lowered(child, bound), node)

    def block(self, node: ast.Block, bound: Bindings) -> ast.Node:
        statements = node.statements
        declared = {s.tensor.name for s in statements if isinstance(s, ast.Declare)}
        done = list[ast.Node]()
        for s in statements:
            outer, self.checks = self.checks, []
            new = self.lowered(s, bound)
            here = self.taken(lambda pair: declared & sized(pair))
            self.checks = outer + self.checks
            done.append(self.checked(new, here))
        whole = trees.block(*done)
        return trees.replace(whole, span=node.span) if isinstance(whole, ast.Block) else whole

    def assign(self, node: ast.Assign, bound: Bindings) -> ast.Node:
        new = self.lowered(node.value, bound)
        target = self.with_primitives(node.target, bound)
        if self.is_plain(target, bound, is_update=True):
            return trees.replace(node, target=self.with_indices(target, bound), value=new)
        found = list[ast.Node]()
        for leaf in self.places(target.tensor, self.maps(target, bound), []):
            place = self.around(leaf, target, is_update=True)
            written: ast.Node = trees.replace(node, target=place, value=new)
            for condition in dict.fromkeys(index_map.ranges(leaf[1])):
                written = ast.Sieve(condition, written, span=node.span)
            found.append(written)
        return trees.block(*found)

    def claimed(self, index: ast.Index, extent: ast.Node) -> ast.Node:
        """The extent of a loop, with those that were claimed for its index."""
        written = [] if isinstance(extent, ast.Dimensionless) else [extent]
        found = list(dict.fromkeys([*written, *self.claims.pop(index.name, [])])) or [extent]
        return found[0] if len(found) == 1 else ast.call(ast.MEET, *found, span=extent.span)

    def collapsed(self, loop: ast.Loop, bound: Bindings) -> index_map.HalfIndex | None:
        """The half that the loop's index is in a tensor it writes, if it goes through two modes of one."""
        return self.asked(lambda: next(self.parts_written(loop, bound), None))

    def parts_written(self, loop: ast.Loop, bound: Bindings) -> Iterator[index_map.HalfIndex]:
        for node in trees.find_all(loop.body, ast.Assign):
            target = self.with_primitives(node.target, bound)
            if self.is_plain(target, {}, is_update=True):
                continue
            for _, own, dropped in self.places(target.tensor, self.maps(target, bound), []):
                for m in (*own, *(m for _, m in dropped)):
                    yield from (h for h in index_map.halves(m) if h.index == loop.index)

    def two_loops(self, loop: ast.Loop, found: index_map.HalfIndex, bound: Bindings) -> ast.Node:
        index, extent, span = loop.index, self.lowered(loop.extent, bound), loop.span
        shown, whole = self.context.written(index.name), affine.times(found.fast, found.slow)
        names = [self.context.fresh(index.name + s) for s in ("_i", "_j")]
        self.context.originals |= dict.fromkeys(names, shown)
        i, j = (ast.Index(name, span=index.span) for name in names)
        sizes = found.fast, found.slow, whole
        inner, outer, flat = (ast.Extent(ctx.ONE, n, span=index.span) for n in sizes)
        if not isinstance(extent, ast.Dimensionless):
            self.agree(extent, flat)
        what = f"`{shown}` goes over two dimensions: `{j.name}` and, inside, `{i.name}`"
        self.context.decide("shapes", what)
        both = ast.Loop(j, outer, ast.Loop(i, inner, loop.body, span=span), span=span)
        new = index_map.Joined(i, j, found.fast, found.slow, whole)
        known = {name: trees.substitute(m, {index: new}) for name, m in bound.items()}
        return self.lowered(both, {**known, index.name: new})

    def inside(self, body: ast.Node, name: ast.Index | ast.Variable) -> ast.Node:
        """The body of what binds a name, within the checks that mention it."""
        here = self.taken(lambda pair: any(trees.mentions(e, name) for e in pair))
        return self.checked(body, here)

    def checked(self, node: ast.Node, pairs: list[Pair]) -> ast.Node:
        for pair in reversed(pairs):
            name = ast.Variable(self.context.fresh("shape"), span=pair[1].span)
            self.context.checks.add(name.name)
            meet = ast.call(ast.MEET, *pair, span=pair[1].span)
            node = ast.Define(name, meet, node, span=node.span)
        return node

    def agree(self, a: ast.Node, b: ast.Node) -> None:
        """Require two extents to be the same: literals at once, others by a check around the statement."""
        if isinstance(a, ast.Extent) and isinstance(b, ast.Extent):
            for x, y in ((a.start, b.start), (a.stop, b.stop)):
                if isinstance(x, ast.Literal) and isinstance(y, ast.Literal) and x.value != y.value:
                    message = f"{pretty(a)} ({ctx.place(a.span)}) does not match {pretty(b)}"
                    raise FinchError("dimension", message, b.span or a.span)
        pair = {affine.summands(a), affine.summands(b)}
        if len(pair) > 1 and all(pair != set(map(affine.summands, p)) for p in self.checks):
            self.checks.append((a, b))

    def type(self, node: ast.Node) -> Type | None:
        return type_of(annotate(node, self.types))

    def access(self, node: ast.Access, bound: Bindings) -> ast.Node:
        node = self.with_primitives(node, bound)
        if self.is_plain(node, bound):
            return self.with_indices(node, bound)
        return self.read(node.tensor, self.maps(node, bound), [], node, bound)

    def with_primitives(self, node: ast.Access, bound: Bindings) -> ast.Access:
        primitive = self.reader(bound).shaped(node.tensor).node
        return trees.replace(node, tensor=self.with_stored(primitive))

    def reader(self, bound: Bindings) -> Reader:
        def settled(setting: ast.Node) -> ast.Node:
            found = self.lowered(setting, bound) if bound else setting
            for n in trees.children(found) if isinstance(found, ast.Extent) else (found,):
                kind = None if n == WHOLE else self.type(n)
                if kind is not None and not kind.is_integer:
                    message = f"a size or a bound is an integer, and `{pretty(n)}` is {kind}"
                    raise FinchError("type", message, n.span or setting.span)
            return found

        return Reader(self.leaf, settled, settled, self.agree)

    def maps(self, access: ast.Access, bound: Bindings) -> Maps:
        sizes = [affine.size(access.tensor, mode) for mode in range(len(access.indices))]
        pairs = zip(access.indices, sizes, strict=True)
        return [self.map_of(index, bound, whole) for index, whole in pairs]

    def is_plain(self, access: ast.Access, bound: Bindings, is_update: bool = False) -> bool:
        """Whether the operators of an access need not be lowered."""
        lowered = ("concat", "broadcast", *(["collapse"] if is_update else []))
        nodes = [*trees.walk(access)]
        is_bound = any(isinstance(n, ast.Index) and n.name in bound for n in nodes)
        is_left = any(isinstance(n, ast.Formula) or ctx.is_call(n, *lowered) for n in nodes)
        return not (is_bound or is_left)

    def with_indices(self, access: ast.Access, bound: Bindings) -> ast.Access:
        indices = tuple(self.lowered(index, bound) for index in access.indices)
        return trees.replace(access, indices=indices)

    def map_of(self, index: ast.Node, bound: Bindings, whole: ast.Node | None = None) -> ast.Node:
        """The map of an index in an access, of a mode of size `whole`, if that is known."""
        if isinstance(index, ast.Index):
            return bound.get(index.name, index)
        if written := index_map.modifier(index):
            wrapper, setting, left = written
            m = self.map_of(left, bound, whole if wrapper == "protocolize" else None)
            own_size = whole if wrapper == "permissive" else None
            return index_map.Wrapped(wrapper, self.lowered(setting, bound), m, own_size)
        found = list(affine.terms(index))
        own = [n for _, n in found if isinstance(n, ast.Index)]
        inner = bound.get(own[0].name) if len(own) == 1 and (1, own[0]) in found else None
        by = affine.total([(sign, n) for sign, n in found if n not in own])
        is_number = not any(trees.find_all(by, ast.Index, ast.Access))
        if is_number and isinstance(inner, index_map.IndexMap):
            return index_map.Wrapped("offset", by, inner)
        return self.lowered(index, bound)

    def read(
        self, tensor: Any, ts: Maps, dropped: list, access: ast.Access, bound: Bindings
    ) -> ast.Node:
        """The element of a tensor at the maps `ts`; `dropped` are broadcast modes: sizes and maps."""
        if isinstance(tensor, ast.Formula):
            self.agree_within(tensor, ts)
            present = self.presence(tensor, ts, access)
            own = dict(zip((i.name for i in tensor.indices), ts, strict=True))
            outer, self.dropped = self.dropped, self.dropped + dropped
            found = self.lowered(tensor.value, {**bound, **own})
            self.dropped = outer
            op = "&" if present and self.type(found) == Bool else "*"
            return reduce(lambda e, p: ast.call(op, p, e, span=access.span), present, found)
        if ctx.is_call(tensor, "concat"):
            parts = self.parts(tensor, ts)
            elements = [(self.read(t, m, dropped, access, bound), end) for t, m, end in parts]
            return self.chosen(elements, access.span)
        if isinstance(tensor, ast.Variable) or ctx.mask_name(tensor):
            return self.around((tensor, ts, self.dropped + dropped), access)
        body, ts, more = self.through(tensor, ts)
        return self.read(body, ts, dropped + more, access, bound)

    def places(self, tensor: Any, ts: Maps, dropped: list) -> Iterator[Leaf]:
        """The single tensors that are written at the maps `ts`, each with the maps of its modes."""
        if ctx.is_call(tensor, "concat"):
            for part, own, _ in self.parts(tensor, ts):
                yield from self.places(part, own, dropped)
        elif isinstance(tensor, ast.Variable):
            yield tensor, ts, dropped
        elif isinstance(tensor, ast.Formula) or ctx.mask_name(tensor):
            hint = "assign to the tensors that it reads"
            raise FinchError("type", "an expression cannot be assigned to", tensor.span, hint)
        else:
            body, ts, more = self.through(tensor, ts)
            yield from self.places(body, ts, dropped + more)

    def presence(self, formula: ast.Formula, ts: Maps, access: ast.Access) -> list:
        """Masks that are missing out of range, for indices that do not make the expression missing."""
        found = list[ast.Node]()
        own = affine.needed(formula.value)
        modes = list(enumerate(zip(formula.indices, ts, strict=True)))
        known = {f for _, (index, t) in modes if index.name in own for f in index_map.permissive(t)}
        for mode, (_, t) in modes:
            unknown = {f for f in index_map.permissive(t) if not f.is_chosen} - known
            if unknown:
                known |= unknown
                mask = ast.call("splitmask", self.size(formula, mode), ctx.ONE, span=access.span)
                found.append(self.around((mask, [t, ctx.ONE], []), access))
        return found

    def chosen(self, elements: list[Any], span: Span | None) -> ast.Node:
        """The one of the elements of several parts that is there, in their common type. Each has the
        condition that the index is not past its part, or None: then it is the first that is not missing."""
        types = [self.type(e) for e, _ in elements]
        common = reduce(promote, [t for t in types if t is not None])
        result: ast.Node = ast.EMPTY
        for (e, is_up_to), t in reversed(list(zip(elements, types, strict=True))):
            e = e if t in (None, common) else ast.call(common.cut, e, span=span)
            if result is ast.EMPTY:
                result = e
            elif is_up_to is None:
                result = ast.call("coalesce", e, result, span=span)
            else:
                result = ast.call("ifelse", is_up_to, e, result, span=span)
        return result

    def parts(self, tensor: Any, ts: Maps) -> Iterator[tuple[ast.Node, Maps, ast.Node | None]]:
        """The parts of `concat(p, A, B)`, each with its maps, which are missing outside of it, and the
        condition that the index is not past its end, if there is a loop's index to compare."""
        first, *tensors = tensor.args
        p = first.value - 1
        sizes = [self.size(part, p) for part in tensors]
        before: ast.Node = affine.ZERO
        whole, at = reduce(affine.plus, sizes), index_map.moved(ts[p])
        is_chosen = at is not None and not any(index_map.permissive(ts[p]))
        for part, n in zip(tensors, sizes, strict=True):
            for mode, t in enumerate(ts):
                if mode != p and not isinstance(t, ast.Index):
                    first = ast.Extent(ctx.ONE, self.size(tensors[0], mode), span=tensor.span)
                    self.agree(first, self.extent(part, mode))
            end = affine.plus(whole, before, -1)
            if before != affine.ZERO and not isinstance(end, ast.Literal):
                end = ast.call("-", whole, before, span=tensor.span)  # `sums` names both
            reach = ast.Extent(affine.plus(ctx.ONE, before, -1), end, span=tensor.span)
            inner = index_map.Wrapped("window", reach, ts[p])
            shown = index_map.Wrapped("permissive", ast.Literal(True), inner, n, is_chosen)
            before = affine.plus(before, n)
            last = at and affine.plus(before, at[1], -1)
            is_up_to = at and last and ast.call("<=", at[0], last, span=tensor.span)
            yield part, [*ts[:p], shown, *ts[p + 1 :]], is_up_to

    def size(self, tensor: ast.Node, mode: int) -> ast.Node:
        """The size of a mode, from 0; that of a declared tensor by its declaration."""

        def known(name: str, k: int) -> ast.Node | None:
            dim = self.dims[name][k] if self.dims.get(name) else None
            return dim.stop if isinstance(dim, ast.Extent) and dim.start == ctx.ONE else None

        return ctx.with_sizes(Shaped(tensor, 0).size(mode + 1), known)

    def agree_within(self, formula: ast.Formula, ts: Maps) -> None:
        """Require the tensors of an expression to have the same sizes, where the index is no loop's own."""
        for index, t in zip(formula.indices, ts, strict=True):
            found = [
                ast.Extent(ctx.ONE, n, span=access.span)
                for access in affine.own_accesses(formula.value)
                for mode, i in enumerate(access.indices)
                if i == index and (n := affine.size(access.tensor, mode)) is not None
            ]
            for other in found[1:] if not isinstance(t, ast.Index) else ():
                self.agree(found[0], other)

    def through(self, tensor: ast.Call, ts: Maps) -> tuple[ast.Node, Maps, list]:
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

    def within(self, tensor: ast.Call, mode: int, maps: list[ast.Node]) -> ast.Node:
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
        rest = settings[2] if settings[2:] and settings[2] != ast.Literal(True) else None
        return index_map.Joined(outer, others[0], settings[1], rest, self.size(body, mode))

    def is_free(self, n: ast.Node, m: ast.Node, others: list[ast.Node]) -> bool:
        """Whether a broadcast mode needs no operator: a loop claims it, or its other half is there."""
        if isinstance(m, ast.Index):
            self.claim(m, ast.Extent(ctx.ONE, n))
            return True
        return isinstance(m, index_map.HalfIndex) and m.other in others

    def claim(self, m: ast.Node, extent: ast.Extent | None) -> None:
        """Claim for the indices in a map the extents by which it has this one (None: not known)."""
        match m:
            case ast.Index() if extent is not None:
                self.claims.setdefault(m.name, []).append(trees.replace(extent, span=m.span))
            case index_map.HalfIndex(inner, fast, slow):
                self.claim(inner, ast.Extent(ctx.ONE, affine.times(fast, slow)))
            case index_map.Joined(first, second, ast.Node() as size, rest, whole):
                self.claim(first, ast.Extent(ctx.ONE, size))
                rest = rest or (None if whole is None else affine.divided(whole, size))
                self.claim(second, None if rest is None else ast.Extent(ctx.ONE, rest))
            case index_map.Wrapped("window", ast.Extent() as part, inner):
                self.claim(inner, ast.Extent(ctx.ONE, affine.length(part)))
            case index_map.Wrapped("offset", by, inner):
                back = affine.plus(affine.ZERO, by, -1)
                self.claim(inner, extent and affine.shifted(extent, back))
            case index_map.Wrapped(wrapper, _, inner):
                self.claim(inner, None if wrapper == "permissive" else extent)

    def around(self, leaf: Leaf, access: ast.Access, is_update: bool = False) -> ast.Access:
        """The access of a tensor at maps, by operators; in an update halves of an index are computed."""
        tensor, maps, dropped = leaf[0], list(leaf[1]), leaf[2]
        for n, m in dropped:
            at = ast.Literal(len(maps) + 1)
            tensor = ast.call("broadcast", tensor, at, n, span=tensor.span)
            maps.append(m)
        whole = trees.replace(access, tensor=tensor)
        return index_map.around(whole, maps, self.agree, self.computed if is_update else None)

    def computed(self, m: index_map.HalfIndex) -> ast.Node:
        self.claim(m, None)
        value = index_map.value(m)
        return ast.call(ctx.PERMISSIVE, value) if any(index_map.permissive(m)) else value
