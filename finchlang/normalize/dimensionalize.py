"""The dimensionalise pass (Finch'25 section 4 and 5.3): every loop gets an extent and every
declaration its dimensions.

An index is found the extents that meet in it: its loop's own, and those of the modes it stands in.
A declared mode is found the extents of the indices that write it. Sizes are known only when the
program runs, so where several extents meet, `let dim = meet(a, b)` checks that they agree, as far
outside as all of them can be evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from finchlang.normalize.context import (
    ONE,
    Context,
    call,
    is_call,
    is_single,
    permissive_modes,
    place,
    reads,
    root,
    size_extent,
)
from finchlang.pretty import pretty
from finchlang.rewrite import map_children, replace, walk
from finchlang.source import FinchError, Span
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Dimensionless,
    Extent,
    Freeze,
    Index,
    Literal,
    Loop,
    Node,
    Sieve,
    Variable,
)

_FIRST = Extent(ONE, ONE)
Parts = tuple[Extent, ...]
#: a mode of a declared tensor, as a source of extents; the span is that of the access
Link = tuple["_Declared", int, Span | None]


def dimensionalize(program: Node, context: Context) -> Node:
    """`program` with all its dimensions.

    Expects what the life cycle pass gives. Raises FinchError of kind "dimension" for an index
    without a dimension, for literal extents that differ, and for a declared tensor whose dimensions
    cannot be known where it is declared.
    """
    context.reserve(program)
    facts = _Collect(context)
    facts.statement(program, frozenset())
    return _Rebuild(context, facts).program(program)


# --------------------------------------------------------------------------- what is known


@dataclass(eq=False)
class _Dimension:
    """Where the extents of an index or of a declared mode come from."""

    parts: list[Extent] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


@dataclass(eq=False)
class _Loop:
    """An index: its sources, what it writes (the last resort), and the names its loop can see."""

    name: str
    dimension: _Dimension
    visible: frozenset[str]
    writes: list[Link] = field(default_factory=list)


@dataclass(eq=False)
class _Declared:
    """One declaration. `user` are the dimensions written with it; `writers` the indices that write
    each mode before the first freeze; `previous` is the declaration before it, `time` its place
    among all that changes tensors."""

    name: str
    visible: frozenset[str]
    user: list[_Dimension | None]
    writers: list[list[_Loop]]
    previous: _Declared | None
    span: Span | None
    time: int
    is_frozen: bool = False


class _Collect:
    """Walks the program once, in order, and keeps what each dimension is to be found from."""

    def __init__(self, context: Context):
        self.context = context
        self.loops: dict[str, _Loop] = {}
        self.declared: dict[int, _Declared] = {}  # by the id of the Declare
        self.current: dict[str, _Declared] = {}
        self.lets: dict[str, _Dimension] = {}  # extents that the user bound
        self.depths: dict[str, int] = {}  # of every binder, from 1
        self.single: set[str] = set()  # indices that stand for one place, `for k = x:x` (Fig 12)
        self.last_changed: dict[str, int] = {}  # when a tensor is last declared, updated, frozen
        self.time = 0

    def statement(self, node: Node, visible: frozenset[str]) -> None:
        match node:
            case Block(statements):
                for s in statements:
                    self.statement(s, visible)
            case Loop(index, extent, body):
                self.expression(extent)
                self.loops[index.name] = _Loop(index.name, self.source(extent), visible)
                self.depths[index.name] = len(visible) + 1
                if is_single(extent) and extent != _FIRST:
                    self.single.add(index.name)
                self.statement(body, visible | {index.name})
            case Define(variable, value, body):
                self.expression(value)
                if isinstance(value, Extent) or is_call(value, "meet"):
                    self.lets[variable.name] = self.source(value)
                self.depths[variable.name] = len(visible) + 1
                self.statement(body, visible | {variable.name})
            case Sieve(condition, body):
                self.expression(condition)
                self.statement(body, visible)
            case Assign(target, _, value):
                for expression in (*target.indices, value):
                    self.expression(expression)
                self.update(target)
            case Declare():
                self.declare(node, visible)
            case Freeze(tensor):
                self.change(tensor.name)
                if tensor.name in self.current:
                    self.current[tensor.name].is_frozen = True

    def change(self, name: str) -> None:
        self.time += 1
        self.last_changed[name] = self.time

    def expression(self, node: Node) -> None:
        for n in walk(node):
            if isinstance(n, Access):
                for index, name, mode in self.bare_modes(n):
                    self.meet(index, name, mode)

    def bare_modes(self, access: Access) -> list[tuple[Index, str, int]]:
        """The modes of `access` that give their index a dimension, or take one from it."""
        name = root(access.tensor)
        if name is None:
            return []  # masks are dimensionless
        free = permissive_modes(access.tensor)
        return [
            (index, name, mode)
            for mode, index in enumerate(access.indices)
            if isinstance(index, Index) and mode not in free and index.name not in self.single
        ]

    def meet(self, index: Index, name: str, mode: int) -> None:
        """The index takes part in a dimension of a tensor that has its size already."""
        dimension = self.loops[index.name].dimension
        if declared := self.current.get(name):
            dimension.links.append((declared, mode, index.span))
        else:
            dimension.parts.append(size_extent(name, mode + 1, index.span))

    def update(self, target: Access) -> None:
        name = root(target.tensor)
        assert name is not None
        self.change(name)
        declared = self.current.get(name)
        for index, _, mode in self.bare_modes(target):
            if declared is None or declared.is_frozen or declared.user[mode] is not None:
                self.meet(index, name, mode)
            else:
                loop = self.loops[index.name]
                declared.writers[mode].append(loop)
                loop.writes.append((declared, mode, index.span))

    def declare(self, node: Declare, visible: frozenset[str]) -> None:
        name, order = node.tensor.name, self.context.level(node.tensor.name).order
        self.expression(node.init)
        user = [None if isinstance(d, Dimensionless) else self.source(d) for d in node.dims]
        writers: list[list[_Loop]] = [[] for _ in range(order)]
        self.change(name)
        previous, user = self.current.get(name), user or [None] * order
        declared = _Declared(name, visible, user, writers, previous, node.span, self.time)
        self.declared[id(node)] = self.current[name] = declared

    def source(self, extent: Node) -> _Dimension:
        """What an extent written in the program stands for."""
        dimension = _Dimension()
        self.add_source(dimension, extent)
        return dimension

    def add_source(self, dimension: _Dimension, extent: Node) -> None:
        if isinstance(extent, Dimensionless):
            return
        if isinstance(extent, Call) and is_call(extent, "meet"):
            for arg in extent.args:
                self.add_source(dimension, arg)
        elif isinstance(extent, Variable) and extent.name in self.lets:
            known = self.lets[extent.name]
            dimension.parts += known.parts
            dimension.links += known.links
        elif isinstance(extent, Extent):
            stop: Any = extent.stop
            if extent.start == ONE and is_call(stop, "size") and stop.args[0].name in self.current:
                # the size of a declared tensor is what its declaration says
                declared = self.current[stop.args[0].name]
                dimension.links.append((declared, stop.args[1].value - 1, extent.span))
            else:
                dimension.parts.append(extent)
        else:
            hint = "write `1:n`, or `_`"
            raise FinchError("type", f"`{pretty(extent)}` is not an extent", extent.span, hint)


class _Resolve:
    """The extents that meet in an index or a declared mode, from what was collected."""

    def __init__(self) -> None:
        self.found: dict[_Loop, Parts] = {}
        self.open: set[Any] = set()  # what is being resolved: a cycle adds nothing to it

    def loop(self, loop: _Loop) -> Parts:
        if loop in self.found:
            return self.found[loop]
        if loop in self.open:
            return ()
        self.open.add(loop)
        parts = self.dimension(loop.dimension)
        if not parts:  # section 5.3: the dimension of the declared tensor, if there is no other
            parts = _distinct(p for d, mode, span in loop.writes for p in self.kept(d, mode, span))
        self.open.discard(loop)
        if not self.open:
            self.found[loop] = parts
        return parts

    def dimension(self, dimension: _Dimension) -> Parts:
        linked = (p for d, mode, span in dimension.links for p in self.declared(d, mode, span))
        return _distinct((*dimension.parts, *linked))

    def declared(self, declared: _Declared, mode: int, span: Span | None) -> Parts:
        user = declared.user[mode]
        if (declared, mode) in self.open:
            return ()
        self.open.add((declared, mode))
        if user is not None:
            parts = self.dimension(user)
        else:
            parts = _distinct(_sized(p) for w in declared.writers[mode] for p in self.loop(w))
        self.open.discard((declared, mode))
        return parts or self.kept(declared, mode, span)

    def kept(self, declared: _Declared, mode: int, span: Span | None) -> Parts:
        """The size a tensor had before its declaration."""
        previous = declared.previous
        if previous is not None and previous.visible <= declared.visible:
            return self.declared(previous, mode, span)
        return (size_extent(declared.name, mode + 1, span),)


def _distinct(parts: Any) -> Parts:
    return tuple(dict.fromkeys(parts))


def _sized(extent: Extent) -> Extent:
    """The dimension of a tensor that is written over `extent`: always from 1."""
    return extent if extent.start == ONE else Extent(ONE, extent.stop, span=extent.span)


# --------------------------------------------------------------------------- the new program


class _Rebuild:
    def __init__(self, context: Context, facts: _Collect):
        self.context = context
        self.facts = facts
        self.resolve = _Resolve()
        #: dimensions to bind, by the binder within which (None: around the whole program)
        self.pending: dict[str | None, list[tuple[Variable, Call]]] = {}
        self.meets: dict[tuple[str | None, frozenset[Extent]], Variable] = {}
        self.resized = {
            d.name
            for d in facts.declared.values()
            for mode in range(len(d.user))
            if self.resolve.declared(d, mode, None) != (size_extent(d.name, mode + 1),)
        }

    def program(self, program: Node) -> Node:
        return self.with_dimensions(None, self.statement(program))

    def statement(self, node: Node) -> Any:
        match node:
            case Loop(index):
                return self.loop(node, index)
            case Define(variable, _, body):
                inner = self.with_dimensions(variable.name, self.statement(body))
                return replace(node, body=inner)
            case Declare():
                return self.declare(node)
            case Assign():
                return node
        return map_children(self.statement, node) if isinstance(node, (Block, Sieve)) else node

    def with_dimensions(self, name: str | None, body: Node) -> Node:
        for variable, meet in reversed(self.pending.pop(name, [])):
            body = Define(variable, meet, body, span=meet.span)
        return body

    def loop(self, node: Loop, index: Index) -> Node:
        facts = self.facts.loops[index.name]
        parts, shown = self.resolve.loop(facts), self.context.written(index.name)
        if not parts:
            message = f"could not resolve the dimension of index `{shown}`"
            raise FinchError("dimension", message, index.span, f"write `for {shown} = 1:n`")
        self.check_agreement(f"index `{shown}`", parts)
        for part in parts:
            for name in sorted(self.unseen(part, facts.visible)):
                message = (
                    f"the dimension {pretty(part)} of index `{shown}` ({place(part.span)}) "
                    f"depends on `{self.context.written(name)}`, which is bound inside of its loop"
                )
                raise FinchError("dimension", message, index.span)
        around: Variable | None = None
        extent: Node = parts[0]
        if all(self.is_stable(p) for p in parts):
            extent = self.meet(parts, facts.visible, f"dim_{index.name}")
        elif len(parts) > 1:
            extent = around = Variable(self.context.fresh(f"dim_{index.name}"), span=index.span)
        body = self.with_dimensions(index.name, self.statement(node.body))
        loop = replace(node, extent=extent, body=body)
        if around is None:
            return loop
        return Define(around, call("meet", *parts, span=index.span), loop, span=node.span)

    def declare(self, node: Declare) -> Node:
        facts = self.facts.declared[id(node)]
        dims: list[Node] = []
        for mode in range(self.context.level(node.tensor.name).order):
            parts = self.resolve.declared(facts, mode, node.tensor.span)
            what = f"dimension {mode + 1} of `{self.context.shown(facts.name)}`"
            self.check_agreement(what, parts)
            usable = tuple(
                p for p in parts if self.is_stable(p) and not self.unseen(p, facts.visible)
            )
            writers = facts.writers[mode]
            name = f"dim_{writers[0].name if writers else facts.name}"
            if usable:
                dims.append(self.meet(usable, facts.visible, name))
            else:
                dims.append(self.late_dimension(what, parts, facts))
        return replace(node, dims=tuple(dims))

    def late_dimension(self, what: str, parts: Parts, facts: _Declared) -> Extent:
        """One of `parts` that has its value where the tensor is declared, if not before: it reads
        scalars that are frozen before and not changed after. (The loop checks that all agree.)"""
        for part in parts:
            known = all(self.facts.last_changed.get(n, 0) < facts.time for n in reads(part))
            elements = any(isinstance(n, Access) and n.indices for n in walk(part))
            sizes = any(is_call(n, "size") for n in walk(part))
            if known and not elements and not sizes and not self.unseen(part, facts.visible):
                return part
        message = (
            f"{what} would be {pretty(parts[0])} ({place(parts[0].span)}), which is not known "
            "where the tensor is declared"
        )
        hint = (
            "loop over `_` with a condition, or declare the size, `@declare(C, 0, 1:n)`, and keep "
            "the index out of it, `C[~i]`"
        )
        raise FinchError("dimension", message, facts.span, hint)

    # ------------------------------------------------------------------ meets

    def meet(self, parts: Parts, visible: frozenset[str], base: str) -> Node:
        """The meet of `parts`: a variable bound as far outside as they can be evaluated, the same
        one for the same parts; or the only part, if it has the same value everywhere."""
        if len(parts) == 1 and not self.is_resized(parts[0]):
            return parts[0]
        for name, source in self.facts.lets.items():
            if name in visible and set(self.resolve.dimension(source)) == set(parts):
                return Variable(name)
        names = {n for p in parts for n in self.names(p)}
        binder = max(names, key=self.facts.depths.__getitem__, default=None)
        key = binder, frozenset(parts)
        if key not in self.meets:
            variable = Variable(self.context.fresh(base), span=parts[0].span)
            self.meets[key] = variable
            meet = call("meet", *parts, span=parts[0].span)
            self.pending.setdefault(binder, []).append((variable, meet))
        return self.meets[key]

    def names(self, part: Extent) -> set[str]:
        """The names in `part` that the program binds."""
        found = {n.name for n in walk(part) if isinstance(n, (Index, Variable))}
        return found & self.facts.depths.keys()

    def unseen(self, part: Extent, visible: frozenset[str]) -> set[str]:
        return self.names(part) - visible

    def is_stable(self, part: Extent) -> bool:
        """Whether `part` has one value wherever its names are bound: it reads nothing but scalars
        that the program does not write, and no size that the program may change."""
        for node in walk(part):
            if isinstance(node, Access) and node.indices:
                return False
            if isinstance(node, Call) and is_call(node, "size"):
                name = node.args[0].name  # type: ignore[attr-defined]
                if name in self.facts.current and part != size_extent(name, node.args[1].value):  # type: ignore[attr-defined]
                    return False
        return not any(name in self.facts.last_changed for name in reads(part))

    def is_resized(self, part: Extent) -> bool:
        """Whether `part` is the size of a tensor that is declared with another size later on."""
        return any(is_call(n, "size") and n.args[0].name in self.resized for n in walk(part))  # type: ignore[attr-defined]

    def check_agreement(self, what: str, parts: Parts) -> None:
        for a, b in combinations(parts, 2):
            for x, y in ((a.start, b.start), (a.stop, b.stop)):
                if isinstance(x, Literal) and isinstance(y, Literal) and x.value != y.value:
                    message = (
                        f"{what} is {pretty(a)} ({place(a.span)}) and also {pretty(b)} "
                        f"({place(b.span)})"
                    )
                    raise FinchError("dimension", message, b.span)
