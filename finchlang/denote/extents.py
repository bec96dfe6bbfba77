"""Dimensions for the denotational semantics: which integers each index and each declared tensor runs over,
found by solving equations between actual numbers (Finch'25 section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.denote.index_modifiers import check_count, summands, unwrap
from finchlang.denote.shape_arithmetic import Bounds, infer, tensors_of
from finchlang.denote.typed_values import number
from finchlang.syntax import nodes as ast, traversal as trees

#: by name: a number, `missing`, an extent (start, stop), or None while that is not known
Environment = dict[str, Any]


class Late(Exception):
    """Raised for an expression whose value is known only when the program reaches it."""


def _is_single(extent: Any) -> bool:
    """Whether a loop visits one coordinate only, as `for k = x:x` (Fig 12), and tells no dimension."""
    is_range = isinstance(extent, ast.Extent)
    return is_range and extent.start == extent.stop != ast.Literal(1)


@dataclass(eq=False)
class UnknownDimension:
    """A dimension to be found. `state` is 0 if nothing is known (`_`), 1 if it is known only when the
    program reaches it, 2 for start:stop. `origin` says where that came from. A `fixed` one is not to be
    learnt from others, and an `endless` one has no bounds."""

    state: int = 0
    start: int = 0
    stop: int = 0
    origin: str = ""
    fixed: bool = False
    endless: bool = False

    @property
    def is_known(self) -> bool:
        return self.state == 2

    def take(self, other: UnknownDimension, shift: int) -> bool:
        if other.state <= self.state or self.fixed:
            return False
        self.state, self.origin = other.state, other.origin
        self.start, self.stop = other.start + shift, other.stop + shift
        return True

    def follow(self, parts: Sequence[UnknownDimension], function: Any, access: ast.Access) -> bool:
        """Learn from the dimensions that it is made of, by a function on their bounds."""
        if self.state == 2 or self.endless or any(d.state == 0 and not d.endless for d in parts):
            return False
        if any(d.state == 1 for d in parts):
            learnt, self.state = self.state == 0, 1
            return learnt
        bounds = _computed(parts, function, access)
        if bounds is None:
            self.endless = True
            return True
        self.state, self.origin = 2, "a shape operator"
        self.start, self.stop = bounds
        return True


def _computed(parts: Sequence[UnknownDimension], function: Any, access: ast.Access) -> Bounds:
    try:
        return function(*(None if d.endless else (d.start, d.stop) for d in parts))
    except FinchError as error:
        raise error.at(access.span) from None


def _of_bounds(bounds: Bounds, origin: str) -> UnknownDimension:
    """The dimension of a mode with known bounds; without bounds it tells nothing."""
    if bounds is None:
        return UnknownDimension(fixed=True, endless=True)
    return UnknownDimension(2, *bounds, f"a mode of {origin}", True)


@dataclass(eq=False)
class Repeated(UnknownDimension):
    """The dimension of an index k in `for k = i:i`: if nothing else determines i, it has that of k."""

    other: UnknownDimension = field(default_factory=UnknownDimension)


Indices = dict[str, UnknownDimension]
Modes = list[UnknownDimension]
Equal = tuple[UnknownDimension, UnknownDimension, int, ast.Access]


@dataclass
class Equations:
    """The dimensions of the loops and declarations in `region`, by the identity of their nodes, and the
    equations between them. `semantics` is the Denotation; where a value is not known yet it raises Late.

    `same` holds (a, b, shift, access) for b = a + shift. `sized` holds (a, b) for a tensor that has been
    written with dimension a, and is read with b = 1:stop of a. `defaults` holds (a, b): a dimension a that
    no index determines is b, which it had before the declaration. `made` holds (a, b, f, access) for a
    dimension b that follows from those in a by f, a function on bounds.
    """

    semantics: Any
    region: ast.Node
    env: Environment

    def __post_init__(self) -> None:
        self.loops: dict[int, UnknownDimension] = {}
        self.declarations: dict[int, list[UnknownDimension]] = {}
        self.same: list[Equal] = []
        self.sized: list[tuple[UnknownDimension, UnknownDimension]] = []
        self.defaults: list[tuple[UnknownDimension, UnknownDimension]] = []
        self.made: list[tuple[Sequence[UnknownDimension], UnknownDimension, Any, ast.Access]] = []
        self.tensors: dict[str, list[UnknownDimension]] = {}  # the modes of each, where the walk is
        #: the previous modes of tensors that have been declared, and not read since
        self.written: dict[str, list[UnknownDimension]] = {}
        self.visit(self.region, self.env, {})
        for name in list(self.written):
            self.finish(name)

    # ---------------------------------------------------------------- collecting

    def visit(self, node: ast.Node, env: Environment, indices: Indices) -> None:
        match node:
            case ast.Loop(i, extent, body):
                self.visit(extent, env, indices)
                dimension = self.loops[id(node)] = self.given(extent, env)
                dimension.fixed = dimension.state > 0
                inside = {k: d for k, d in indices.items() if k != i.name}
                if not _is_single(extent):
                    inside[i.name] = dimension
                elif (other := indices.get(getattr(extent.start, "name", ""))) is not None:  # type: ignore[attr-defined]
                    inside[i.name] = other if isinstance(other, Repeated) else Repeated(other=other)
                self.visit(body, env | {i.name: None}, inside)
            case ast.Define(variable, value, body):
                if isinstance(value, ast.Formula) and not trees.mentions(body, variable):
                    pass  # nothing of it is computed
                elif isinstance(value, ast.Formula):  # its modes follow from the accesses in it
                    own = {index.name: UnknownDimension() for index in value.indices}
                    self.visit(value.value, env | dict.fromkeys(own), indices | own)
                    self.tensors[variable.name] = list(own.values())
                else:
                    self.visit(value, env, indices)
                try:
                    bound = self.semantics.bound(value, env)
                except Late:
                    bound = None
                hidden = {k: d for k, d in indices.items() if k != variable.name}
                self.visit(body, env | {variable.name: bound}, hidden)
            case ast.Assign(target, _, value):
                for part in (value, *target.indices):
                    self.visit(part, env, indices)
                self.access(target, env, indices)
            case ast.Declare(tensor, init, dims):
                self.visit(init, env, indices)
                self.finish(tensor.name)
                before = self.modes(tensor, env)
                if dims and len(dims) != len(before):
                    message = f"{tensor.name} has {len(before)} dimensions, {len(dims)} are given"
                    raise FinchError("dimension", message, node.span)
                new = [self.given(d, env) for d in dims] or [UnknownDimension() for _ in before]
                self.declarations[id(node)] = self.tensors[tensor.name] = new
                self.written[tensor.name] = before
            case ast.Access():
                for child in trees.children(node):
                    self.visit(child, env, indices)
                for tensor in tensors_of(node.tensor):
                    self.finish(tensor.name)
                self.access(node, env, indices)
            case ast.Freeze(tensor):
                self.finish(tensor.name)
            case _:
                for child in trees.children(node):
                    self.visit(child, env, indices)

    def given(self, node: ast.Node, env: Environment) -> UnknownDimension:
        """The dimension that the program states."""
        try:
            found: tuple[int, int] | None = self.semantics.extent(node, env)
        except Late:
            return UnknownDimension(1)
        if found is None:
            return UnknownDimension()
        return UnknownDimension(2, *found, "the bounds of the loop")

    def modes(self, tensor: ast.Variable, env: Environment) -> Modes:
        if tensor.name not in self.tensors and tensor.name in env:  # a formula bound around
            return [_of_bounds(b, tensor.name) for b in self.semantics.bounds(tensor, env)]
        if tensor.name not in self.tensors:
            named = enumerate(self.semantics.array(tensor).data.shape, 1)
            self.tensors[tensor.name] = [
                UnknownDimension(2, 1, n, f"mode {k} of {tensor.name}", True) for k, n in named
            ]
        return self.tensors[tensor.name]

    def finish(self, name: str) -> None:
        """From here on a tensor has a size: later accesses are equated with that, not with the writes."""
        if name in self.written:
            self.defaults += zip(self.tensors[name], self.written.pop(name), strict=True)
            sizes = [UnknownDimension() for _ in self.tensors[name]]
            self.sized += zip(self.tensors[name], sizes, strict=True)
            self.tensors[name] = sizes

    def access(self, node: ast.Access, env: Environment, indices: Indices) -> None:
        root, modes = unwrap(node)
        sizes = self.sizes(root, env, node)
        check_count(root, sizes, modes, node)
        for mode, own in zip(modes, sizes, strict=True):
            for index, window, permissive, is_first in mode.windows:
                if is_first and not permissive:
                    self.equate(index, self.window(window, env), node, env, indices)
            if not (mode.windows or mode.permissive):
                self.equate(mode.index, own, node, env, indices)

    def equate(
        self,
        index: ast.Node,
        size: UnknownDimension,
        access: ast.Access,
        env: Environment,
        indices: Indices,
    ) -> None:
        """If `index` is an index of a loop, up to a shift, it runs over all of `size`."""
        if trees.accesses(index):
            return  # what an element moves is looked up
        found = [(s, n) for s, n in summands(index) if isinstance(n, ast.Index)]
        if len(found) != 1 or found[0][0] != 1:
            return
        name = found[0][1]
        dimension = indices.get(name.name)
        if dimension is None:
            return  # the index of a loop around the region, whose dimension is known
        try:
            first = env | {name.name: number(0)}
            if self.semantics.value(index, first).value.dtype.kind == "u":
                return  # the sum is no shift: it is unsigned, and wraps around
            for _, term in summands(index):
                self.semantics.whole(term, first)
            shift = self.semantics.whole(index, first)
        except Late:
            dimension.state = max(dimension.state, 1)
            return
        if not isinstance(dimension, Repeated):
            self.same.append((dimension, size, shift, access))
        elif shift == 0:
            self.defaults.append((dimension.other, size))

    def window(self, window: ast.Extent, env: Environment) -> UnknownDimension:
        """The dimension of an index into a window, which counts from 1."""
        try:
            room = self.semantics.room(window, env)
        except Late:
            return UnknownDimension(1, fixed=True)
        return UnknownDimension(2, 1, room, "a window", True)

    def sizes(self, tensor: ast.Node, env: Environment, access: ast.Access) -> Modes:
        """The modes of the tensor accessed, through wrappers and shape operators (Burrito'24 Fig 9)."""

        def leaf(tensor: Any) -> list[UnknownDimension]:
            if isinstance(tensor, ast.Variable):
                return self.modes(tensor, env)
            shape, name = self.semantics.mask_shape(tensor, env), tensor.op.name
            return [_of_bounds(None if size is None else (1, size), name) for size in shape]

        def of(function: Any, *parts: UnknownDimension, back: Any = None) -> UnknownDimension:
            made = UnknownDimension(fixed=back is None)
            self.made.append((parts, made, function, access))
            if back is not None:
                self.made.append(((made,), parts[0], back, access))
            return made

        try:
            return infer(tensor, leaf, lambda node: self.semantics.setting(node, env), of)
        except Late:
            return [UnknownDimension(1, fixed=True) for _ in access.indices]

    # ---------------------------------------------------------------- solving

    def solve(self) -> None:
        """Find all dimensions that can be found. Raises FinchError of kind dimension for a mismatch."""
        self.propagate()
        for dimension, before in self.defaults:
            if dimension.state == 0 and dimension.take(before, 0):
                if dimension not in self.loops.values():
                    self.same += self.kept(dimension)
                self.propagate()
        for index, size, shift, access in self.same:
            if not (index.is_known and size.is_known):
                continue
            if (index.start + shift, index.stop + shift) != (size.start, size.stop):
                one = f"{index.start + shift}:{index.stop + shift} (from {index.origin})"
                other = f"{size.start}:{size.stop} (from {size.origin})"
                raise FinchError("dimension", f"{one} does not match {other}", access.span)
        for parts, made, function, access in self.made:
            if made.is_known and all(d.is_known for d in parts):
                bounds = _computed(parts, function, access)
                if bounds != (made.start, made.stop):
                    both = f"{bounds} does not match {made.start}:{made.stop} (from {made.origin})"
                    raise FinchError("dimension", both, access.span)
        for written, read in self.sized:
            if written.is_known and read.is_known and written.stop != read.stop:
                message = f"what is written over 1:{written.stop} is read over 1:{read.stop}"
                raise FinchError("dimension", f"{message} (from {read.origin})", self.region.span)

    def kept(self, dimension: UnknownDimension) -> list[Equal]:
        """If one of several tensors that are written with the same otherwise undetermined index keeps its
        dimension, so do the others: the equations for that."""
        before, met = dict(self.defaults), {dimension}
        told = {index for index, size, _, _ in self.same if not (size in before or size.fixed)}
        edges = [e for e in self.same if e[0] not in told and e[1] in before]
        while more := {d for edge in edges if met & {*edge[:2]} for d in edge[:2]} - met:
            met |= more
        kept = [(before[d], d, 0, access) for _, d, _, access in edges if d in met]
        return [edge for edge in kept if edge[0].is_known]

    def extent(self, loop: ast.Loop) -> tuple[int, int] | None:
        """The dimension of a loop's index, or None where it is not known (yet)."""
        found = self.loops.get(id(loop))
        return (found.start, found.stop) if found and found.is_known else None

    def check_all_known(self) -> None:
        """Raises FinchError for an index that nothing gives a dimension, also in a loop over nothing."""
        for loop in trees.find_all(self.region, ast.Loop):
            if self.loops[id(loop)].state == 0:
                name = loop.index.name
                message = f"nothing gives the index {name} a dimension"
                raise FinchError("dimension", message, loop.span, f"write `for {name} = 1:n`")

    def shape(self, declare: ast.Declare) -> tuple[int, ...] | None:
        """The sizes of a declared tensor, or None where they are not known (yet)."""
        found = self.declarations.get(id(declare))
        if found is None or not all(d.is_known for d in found):
            return None
        return tuple(max(d.stop, 0) for d in found)

    def propagate(self) -> None:
        changed = True
        while changed:
            changed = False
            for index, size, shift, _ in self.same:
                changed |= size.take(index, shift)
                changed |= index.take(size, -shift)
            for written, read in self.sized:
                if read.take(written, 0):
                    read.start, changed = 1, True
            for parts, made, function, access in self.made:
                changed |= made.follow(parts, function, access)
