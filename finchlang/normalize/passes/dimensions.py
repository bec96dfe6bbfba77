"""Where dimensions come from: the extents that meet in each index and each declared mode
(Finch'25 section 4); the dimensionalise pass writes them into the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from finchlang.algebra import index_arithmetic as affine, program_context as ctx
from finchlang.base.errors import FinchError, Span
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty

_FIRST = ast.Extent(ctx.ONE, ctx.ONE)
Parts = tuple[ast.Extent, ...]
#: a mode of a declared tensor, moved by a shift, as a source of extents; the span is the access's
Link = tuple["DeclaredTensor", int, ast.Node, Span | None]


@dataclass(eq=False)
class Dimension:
    """Where the extents of an index or of a declared mode come from."""

    parts: list[ast.Extent] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    #: extents made of sizes of declared tensors, with the declarations that these sizes mean
    sums: list[tuple[ast.Extent, dict[str, DeclaredTensor]]] = field(default_factory=list)


@dataclass(eq=False)
class LoopFacts:
    """An index: its sources, and the names that its loop can see. If there are no sources, `repeated` are
    those of indices k of loops `for k = i:i` over it, and last come the declared modes it `writes`."""

    name: str
    dimension: Dimension
    visible: frozenset[str]
    repeated: Dimension = field(default_factory=Dimension)
    writes: list[tuple[Link, ast.Node]] = field(default_factory=list)


@dataclass(eq=False)
class DeclaredTensor:
    """One declaration. `user` are the dimensions written with it; `writers` the indices that write
    each mode before the first freeze, with how far their extents are moved and, in a split, by
    which number they are multiplied; `previous` is the declaration before it, `time` its place
    among all that changes tensors."""

    name: str
    visible: frozenset[str]
    user: list[Dimension | None]
    writers: list[list[tuple[LoopFacts, ast.Node, ast.Node]]]
    previous: DeclaredTensor | None
    span: Span | None
    time: int
    is_frozen: bool = False


class Facts:
    """Walks the program once, in order, and collects the sources of each dimension."""

    def __init__(self, context: ctx.ProgramContext):
        self.context = context
        self.loops: dict[str, LoopFacts] = {}
        self.declared: dict[int, DeclaredTensor] = {}  # by the id of the Declare
        self.current: dict[str, DeclaredTensor] = {}
        self.lets: dict[str, Dimension] = {}  # extents that the user bound
        self.depths: dict[str, int] = {}  # of every binder, from 1
        self.single: dict[str, ast.Node] = {}  # the x of the k that `for k = x:x` binds (Fig 12)
        self.last_changed: dict[str, int] = {}  # when a tensor is last declared, updated, frozen
        self.time = 0

    def program(self, program: ast.Node) -> None:
        for node, around in trees.statements(program):
            visible = frozenset(name for header in around for name in trees.binds(header))
            self.statement(node, visible)
            self.depths.update(dict.fromkeys(trees.binds(node), len(visible) + 1))

    def statement(self, node: ast.Node, visible: frozenset[str]) -> None:
        for expression in ctx.evaluated(node) if not isinstance(node, ast.Declare) else ():
            self.expression(expression)
        match node:
            case ast.Loop(index, extent):
                self.loops[index.name] = LoopFacts(index.name, self.source(extent), visible)
                if ctx.is_single(extent) and extent != _FIRST:
                    self.single[index.name] = extent.start
            case ast.Define(variable, value) if isinstance(value, ast.Extent) or ast.is_meet(value):
                self.lets[variable.name] = self.source(value)
            case ast.Assign(target):
                self.update(target)
            case ast.Declare():
                self.declare(node, visible)
            case ast.Freeze(tensor):
                self.change(tensor.name)
                if tensor.name in self.current:
                    self.current[tensor.name].is_frozen = True

    def change(self, name: str) -> None:
        self.time += 1
        self.last_changed[name] = self.time

    def expression(self, node: ast.Node) -> None:
        for n in trees.walk(node):
            if isinstance(n, ast.Access):
                for index, found in self.bare_modes(n):
                    self.meet(index, found)
                self.repeat(n)

    def repeat(self, access: ast.Access) -> None:
        """Note for each index k of a loop `for k = i:i` that i accesses the tensor, too."""
        for mode, index in enumerate(access.indices):
            other: ast.Node = index
            while isinstance(other, ast.Index) and other.name in self.single:
                other = self.single[other.name]
            found = affine.source(access.tensor, mode)
            if other is not index and isinstance(other, ast.Index) and found is not None:
                self.meet(index, found, self.loops[other.name].repeated)

    def bare_modes(self, access: ast.Access) -> list[tuple[ast.Index, affine.Source]]:
        """The indices of `access` that share the dimension of a mode, with the source of that."""
        found = [
            (index, affine.source(access.tensor, mode))
            for mode, index in enumerate(access.indices)
            if isinstance(index, ast.Index) and index.name not in self.single
        ]
        return [(index, where) for index, where in found if where is not None]

    def meet(self, index: Any, found: affine.Source, dimension: Dimension | None = None) -> None:
        """Add a mode whose size is known to the sources of an index, or to others."""
        dimension = dimension or self.loops[index.name].dimension
        assert found is not None
        if isinstance(found, ast.Extent):
            part = trees.replace(ctx.with_sizes(found, self.declared_size), span=index.span)
            sizes = self.current.keys() & set(ctx.sized(part))
            if known := {name: self.current[name] for name in sizes}:
                dimension.sums.append((part, known))
            else:
                dimension.parts.append(part)
            return
        name, mode, shift = found
        if declared := self.current.get(name):
            dimension.links.append((declared, mode, shift, index.span))
        else:
            whole = ctx.size_extent(name, mode + 1, index.span)
            dimension.parts.append(affine.shifted(whole, shift))

    def declared_size(self, name: str, mode: int) -> ast.Node | None:
        """The size of a workspace as it is declared, which can stand before that."""
        known = self.current[name].user[mode] if name in self.context.workspaces else None
        return known.parts[0].stop if known else None

    def update(self, target: ast.Access) -> None:
        name = ctx.root(target.tensor)
        assert name is not None
        self.change(name)
        self.repeat(target)
        declared = self.current.get(name)
        if declared is not None and self.halves(target, declared):
            return
        for index, found in self.bare_modes(target):
            if declared is not None and not declared.is_frozen and isinstance(found, tuple):
                _, mode, shift = found
                if declared.user[mode] is None:
                    self.write(declared, mode, shift, index, ctx.ONE)
                    continue
            self.meet(index, found)

    def write(
        self, declared: DeclaredTensor, mode: int, shift: ast.Node, index: Any, count: ast.Node
    ) -> None:
        """Note that an index writes a mode, moved by a shift, with `count` places for each value."""
        loop = self.loops[index.name]
        declared.writers[mode].append((loop, affine.plus(affine.ZERO, shift, -1), count))
        loop.writes.append(((declared, mode, shift, index.span), count))

    def halves(self, target: ast.Access, declared: DeclaredTensor) -> bool:
        """Note what the indices of `split(C, k, m)`, perhaps split again, say of the size of a declared
        tensor C that is written so: m times the extent of the slow index. Whether this is such a write."""
        splits, _ = ctx.wrapped(target.tensor)
        is_split = splits and all(ctx.is_call(each, "split") for each in splits)
        if not is_split or declared.is_frozen:
            return False
        # for each index the mode of C it gives a size, with what its extent is multiplied by; None for
        # one of the fast indices, whose extents are their own
        modes: list[tuple[int, ast.Node] | None] = [(k, ctx.ONE) for k in range(len(declared.user))]
        for _, k, m, *rest in (each.args for each in reversed(splits)):
            own = modes[k.value - 1]
            if rest or own is not None and declared.user[own[0]] is not None:
                return False
            modes[k.value - 1 : k.value] = [None, own and (own[0], affine.times(own[1], m))]
        if not all(isinstance(i, ast.Index) and i.name not in self.single for i in target.indices):
            return False
        for mode, (index, own) in enumerate(zip(target.indices, modes, strict=True)):
            if own is None:
                self.meet(index, affine.source(target.tensor, mode))
            else:
                self.write(declared, own[0], affine.ZERO, index, own[1])
        return True

    def declare(self, node: ast.Declare, visible: frozenset[str]) -> None:
        name, order = node.tensor.name, self.context.level(node.tensor.name).order
        self.expression(node.init)
        user = [None if isinstance(d, ast.Dimensionless) else self.source(d) for d in node.dims]
        writers: list[list[tuple[LoopFacts, ast.Node, ast.Node]]] = [[] for _ in range(order)]
        self.change(name)
        previous, user = self.current.get(name), user or [None] * order
        declared = DeclaredTensor(name, visible, user, writers, previous, node.span, self.time)
        self.declared[id(node)] = self.current[name] = declared

    def source(self, extent: ast.Node) -> Dimension:
        found, met = Dimension(), list[Dimension]()
        if ast.is_meet(extent):
            met = [self.source(part) for part in extent.args]
        elif isinstance(extent, ast.Variable) and extent.name in self.lets:
            met = [self.lets[extent.name]]
        elif isinstance(extent, ast.Extent):
            size: Any = extent.stop if ctx.is_call(extent.stop, "size") else None
            # the size of a declared tensor is what its declaration says
            declared = size and self.current.get(size.args[0].name)
            if declared and extent.start == ctx.ONE:
                found.links.append((declared, size.args[1].value - 1, affine.ZERO, extent.span))
            else:
                found.parts.append(extent)
        elif not isinstance(extent, ast.Dimensionless):
            message = f"`{pretty(extent)}` is not an extent"
            raise FinchError("type", message, extent.span, "write `1:n`, or `_`")
        for known in met:
            found.parts += known.parts
            found.links += known.links
            found.sums += known.sums
        return found


class Resolve:
    """The extents that meet in an index or a declared mode, from what was collected."""

    def __init__(self) -> None:
        self.found: dict[LoopFacts, Parts] = {}
        self.open: set[Any] = set()  # what is being resolved: a cycle adds nothing to it

    def loop(self, loop: LoopFacts) -> Parts:
        if loop in self.found:
            return self.found[loop]
        if loop in self.open:
            return ()
        self.open.add(loop)
        parts = self.own(loop) or self.written(loop, {loop})
        if not parts and len(self.open) == 1:  # else it is asked by what may yet find others
            parts = _distinct(
                _divided(affine.shifted(p, shift), count)
                for (d, mode, shift, span), count in loop.writes
                for p in self.kept(d, mode, span)
            )
        self.open.discard(loop)
        if not self.open:
            self.found[loop] = parts
        return parts

    def own(self, loop: LoopFacts) -> Parts:
        return self.dimension(loop.dimension) or self.dimension(loop.repeated)

    def written(self, loop: LoopFacts, seen: set[Any]) -> Parts:
        """Section 5.3: the dimension of the declared tensors that an index writes, if there is no other, by
        what others find that write them. `seen` has the tensors and loops that were asked."""
        found: list[ast.Extent] = []
        for (declared, mode, shift, _), count in loop.writes:
            if (declared, mode) in seen | self.open:
                continue
            seen.add((declared, mode))
            for other, by, times in declared.writers[mode]:
                if other not in seen | self.open:
                    seen.add(other)
                    sizes = self.own(other) or self.written(other, seen)
                    whole = (_sized(affine.shifted(p, by), times) for p in sizes)
                    found += (_divided(affine.shifted(p, shift), count) for p in whole)
        return _distinct(found)

    def dimension(self, dimension: Dimension) -> Parts:
        # a tensor read several times is asked once, or chains of tensors would take time exponentially
        links = {(id(d), mode, shift): (d, span) for d, mode, shift, span in dimension.links[::-1]}
        linked = (
            affine.shifted(p, shift)
            for (_, mode, shift), (d, span) in reversed(links.items())
            for p in self.declared(d, mode, span)
        )
        sums = [self.with_sizes(part, known) for part, known in dimension.sums]
        return _distinct((*dimension.parts, *sums, *linked))

    def with_sizes(self, part: ast.Extent, known: dict[str, DeclaredTensor]) -> Any:
        """An extent with the sizes of declared tensors as resolved, by the first extent of each."""

        def size(name: str, mode: int) -> ast.Node | None:
            found = self.declared(known[name], mode, part.span) if name in known else ()
            return found[0].stop if found else None

        return ctx.with_sizes(part, size)

    def declared(self, declared: DeclaredTensor, mode: int, span: Span | None) -> Parts:
        user = declared.user[mode]
        if (declared, mode) in self.open:
            return ()
        self.open.add((declared, mode))
        writers = declared.writers[mode]
        is_begun = any(w in self.open for w, _, _ in writers)  # it is declared in that loop
        if user is not None:
            parts = self.dimension(user)
        else:
            found = ((p, by, count) for w, by, count in writers for p in self.loop(w))
            parts = _distinct(_sized(affine.shifted(p, by), count) for p, by, count in found)
        self.open.discard((declared, mode))
        return parts if parts or is_begun else self.kept(declared, mode, span)

    def kept(self, declared: DeclaredTensor, mode: int, span: Span | None) -> Parts:
        """The size a tensor had before its declaration."""
        previous = declared.previous
        if previous is not None and previous.visible <= declared.visible:
            return self.declared(previous, mode, span)
        return (ctx.size_extent(declared.name, mode + 1, span),)


def _distinct(parts: Iterable[ast.Extent]) -> Parts:
    found: dict[Any, ast.Extent] = {}
    for part in parts:
        found.setdefault(affine.summands(part), part)
    return tuple(found.values())


def _sized(extent: ast.Extent, count: ast.Node) -> ast.Extent:
    """The dimension, always from 1, of a tensor with `count` places for each index of `extent`."""
    if count == extent.start == ctx.ONE:
        return extent
    return ast.Extent(ctx.ONE, affine.times(count, extent.stop), span=extent.span)


def _divided(extent: ast.Extent, number: ast.Node) -> ast.Extent:
    if number == ctx.ONE:
        return extent
    return ast.Extent(ctx.ONE, affine.divided(extent.stop, number), span=extent.span)
