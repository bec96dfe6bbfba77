"""Dimensions for the denotational semantics: which integers each index and each declared tensor
runs over, found by solving equations between actual numbers (Finch'25 section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from finchlang.source import FinchError
from finchlang.syntax import (
    Access,
    Assign,
    Call,
    Declare,
    Define,
    Extent,
    Freeze,
    Index,
    Literal,
    Loop,
    Node,
    Variable,
)
from finchlang.walk import children


@dataclass(frozen=True)
class MaskMeaning:
    """What a mask says of its arguments and indices (Finch'25 Table 5), and its sizes for its
    arguments (None: a mode without bounds)."""

    holds: Callable[..., bool]
    shape: Callable[..., tuple[int | None, ...]] = lambda: (None, None)


MASKS = {
    "uptrimask": MaskMeaning(lambda i, j: i <= j),
    "lotrimask": MaskMeaning(lambda i, j: i >= j),
    "diagmask": MaskMeaning(lambda i, j: i == j),
    "bandmask": MaskMeaning(lambda i, j, k: j <= i <= k, lambda: (None, None, None)),
    "splitmask": MaskMeaning(
        lambda n, p, i, j: n * (j - 1) // p < i <= n * j // p, lambda n, p: (n, p)
    ),
    "chunkmask": MaskMeaning(
        lambda n, b, i, j: b * (j - 1) < i <= b * j, lambda n, b: (n, -(-n // b) if b else 0)
    ),
}
PROTOCOLS = ("walk", "gallop", "follow")

#: what names stand for: a number, `missing`, an extent (start, stop), or None while not known
Environment = dict[str, Any]


class Late(Exception):
    """An expression whose value is known only later, when the program has come to it."""


class Evaluator(Protocol):
    """What is asked of the semantics; all raise Late."""

    def bound(self, node: Node, env: Environment) -> Any: ...
    def whole(self, node: Node, env: Environment) -> int: ...
    def room(self, window: Extent, env: Environment) -> int: ...
    def extent(self, node: Node, env: Environment) -> tuple[int, int] | None: ...
    def size_now(self, tensor: Variable) -> tuple[int, ...]: ...
    def mask_shape(self, mask: Call, env: Environment) -> tuple[int | None, ...]: ...


def tensor_of(access: Access) -> Node:
    """The tensor within the wrappers of `access`, or the call that makes a mask."""
    tensor = access.tensor
    while isinstance(tensor, Call) and tensor.args and not is_mask(tensor):
        tensor = tensor.args[0]
    return tensor


def is_mask(tensor: Call) -> bool:
    return isinstance(tensor.op, Variable) and tensor.op.name.lower() in MASKS


@dataclass(frozen=True)
class Mode:
    """How one mode of a tensor is accessed within its wrappers: at `index`, which may be out of range
    if `permissive`; for each of its `windows` (index, extent, permissive, whether that is an index
    of the access) that index counts from 1."""

    index: Node
    permissive: bool
    windows: tuple[tuple[Node, Extent, bool, bool], ...] = ()

    def shifted(self, by: Node) -> Mode:
        return replace(self, index=Call(Variable("+"), (self.index, by), span=self.index.span))

    def within(self, window: Extent) -> Mode:
        windows = (*self.windows, (self.index, window, self.permissive, not self.windows))
        past = Call(Variable("-"), (self.index, Literal(1)), span=self.index.span)
        if window.step is not None:
            past = Call(Variable("*"), (past, window.step))
        index = Call(Variable("+"), (window.start, past), span=self.index.span)
        return Mode(index, False, windows)


def unwrap(access: Access) -> tuple[Any, list[Mode]]:
    """What is accessed within its wrappers (Finch'25 Table 5), and how each of its modes is."""
    modes = [_modifiers(index) for index in access.indices]
    tensor = access.tensor
    while isinstance(tensor, Call):
        name = tensor.op.name if isinstance(tensor.op, Variable) else ""
        if is_mask(tensor):
            return tensor, modes
        if name not in _WRAPPERS or not tensor.args:
            raise FinchError("unknown name", f"there is no wrapper {name}", tensor.span)
        settings = tensor.args[1:]
        if len(settings) != (1 if name == "toeplitz" else len(modes)):
            message = f"{name} has {len(settings)} settings for {len(modes)} indices"
            raise FinchError("dimension", message, access.span)
        modes = _WRAPPERS[name](modes, settings)
        tensor = tensor.args[0]
    return tensor, modes


def check_count(root: Any, sizes: Sequence[Any], modes: list[Mode], access: Access) -> None:
    """Raises FinchError "dimension" unless an access has an index for each dimension."""
    if len(modes) != len(sizes):
        name = root.op.name if isinstance(root, Call) else root.name  # type: ignore[attr-defined]
        message = f"{name} has {len(sizes)} dimensions, {len(modes)} indices given"
        raise FinchError("dimension", message, access.span)


def _modifiers(index: Node) -> Mode:
    """How an index without `~`, protocols and windows accesses its mode."""
    if isinstance(index, Call) and len(index.args) == 1:
        if isinstance(index.op, Extent):
            return _modifiers(index.args[0]).within(index.op)
        if index.op == Variable("~"):
            return replace(_modifiers(index.args[0]), permissive=True)
        if isinstance(index.op, Variable) and index.op.name in PROTOCOLS:
            return _modifiers(index.args[0])
    summands = {n.name for _, n in _summands(index) if isinstance(n, Index)}
    return Mode(index, len(summands) > 1)


def _swizzle(modes: list[Mode], settings: tuple[Any, ...]) -> list[Mode]:
    order: list[Any] = [getattr(s, "value", None) for s in settings]
    if sorted(map(str, order)) != sorted(str(k + 1) for k in range(len(modes))):
        raise FinchError("dimension", "swizzle takes a permutation", settings[0].span)
    return [modes[p - 1] for p in order]


def _toeplitz(modes: list[Mode], settings: tuple[Any, ...]) -> list[Mode]:
    k: Any = getattr(settings[0], "value", None)
    if k not in range(1, len(modes)):
        raise FinchError("dimension", "toeplitz takes the mode to divide", settings[0].span)
    first, second = modes[k - 1 : k + 1]
    windows = first.windows + second.windows
    both = Mode(first.shifted(second.index).index, True, windows)
    return [*modes[: k - 1], both, *modes[k + 1 :]]


def _each(
    change: Callable[[Mode, Any], Mode],
) -> Callable[[list[Mode], tuple[Any, ...]], list[Mode]]:
    """A wrapper that has a setting for each mode."""
    return lambda modes, settings: list(map(change, modes, settings))


_WRAPPERS = {
    "swizzle": _swizzle,
    "permissive": _each(lambda m, s: replace(m, permissive=m.permissive or s == Literal(True))),
    "protocolize": _each(lambda m, s: m),
    "offset": _each(lambda m, s: m if s == Literal(0) else m.shifted(s)),
    "window": _each(lambda m, s: m.within(s) if isinstance(s, Extent) else m),
    "toeplitz": _toeplitz,
}


def _is_single(extent: Node) -> bool:
    """Whether a loop visits one coordinate only, `for k = x:x` (Fig 12): its index is any expression,
    and says nothing about dimensions."""
    return isinstance(extent, Extent) and extent.start == extent.stop and extent.start != Literal(1)


def _summands(node: Node, sign: int = 1) -> Iterator[tuple[int, Node]]:
    """The terms of a sum, each with its sign."""
    match node:
        case Call(Variable("+"), args):
            for arg in args:
                yield from _summands(arg, sign)
        case Call(Variable("-"), (a, b)):
            yield from _summands(a, sign)
            yield from _summands(b, -sign)
        case _:
            yield sign, node


@dataclass(eq=False)
class Dimension:
    """A dimension to be found. `state` is 0 for `_`, 1 for one that is known only when the program
    comes there, 2 for start:stop. `origin` says where it came from. A `fixed` one was given by a
    loop's bounds and is not to be learnt from others."""

    state: int = 0
    start: int = 0
    stop: int = 0
    origin: str = ""
    fixed: bool = False

    @property
    def is_known(self) -> bool:
        return self.state == 2

    def take(self, other: Dimension, shift: int) -> bool:
        """Learn from `other`, moved by `shift`; whether there was something to learn."""
        if other.state <= self.state or self.fixed:
            return False
        self.state, self.origin = other.state, other.origin
        self.start, self.stop = other.start + shift, other.stop + shift
        return True


@dataclass(eq=False)
class Repeated(Dimension):
    """That of an index k in `for k = i:i`: where nothing else tells, i has the dimension k has."""

    other: Dimension = field(default_factory=Dimension)


@dataclass
class Equations:
    """The dimensions of the loops and declarations in `region`, by the identity of their nodes, and
    how they depend on each other.

    `same` holds (a, b, shift, access) for b = a + shift; `sized` (a, b) for a tensor that has been
    written with dimension a and is then read with b = 1:stop of a; `defaults` (a, b) for a tensor
    of dimension a, if no index tells, declared where it had dimension b.
    """

    semantics: Evaluator
    region: Node
    env: Environment
    loops: dict[int, Dimension] = field(default_factory=dict)
    declarations: dict[int, list[Dimension]] = field(default_factory=dict)
    same: list[tuple[Dimension, Dimension, int, Access]] = field(default_factory=list)
    sized: list[tuple[Dimension, Dimension]] = field(default_factory=list)
    defaults: list[tuple[Dimension, Dimension]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors: dict[str, list[Dimension]] = {}  # the modes of each, where the walk is
        #: the sizes, before, of what is declared and not read since
        self.written: dict[str, list[Dimension]] = {}
        self.visit(self.region, self.env, {})
        for name in list(self.written):
            self.finish(name)

    # ---------------------------------------------------------------- collecting

    def visit(self, node: Node, env: Environment, indices: dict[str, Dimension]) -> None:
        match node:
            case Loop(i, extent, body):
                self.visit(extent, env, indices)
                dimension = self.loops[id(node)] = self.given(extent, env)
                dimension.fixed = dimension.state > 0
                inside = {k: d for k, d in indices.items() if k != i.name}
                if not _is_single(extent):
                    inside[i.name] = dimension
                elif (other := indices.get(getattr(extent.start, "name", ""))) is not None:  # type: ignore[attr-defined]
                    inside[i.name] = other if isinstance(other, Repeated) else Repeated(other=other)
                self.visit(body, env | {i.name: None}, inside)
            case Define(variable, value, body):
                self.visit(value, env, indices)
                hidden = {k: d for k, d in indices.items() if k != variable.name}
                self.visit(body, env | {variable.name: self.maybe(value, env)}, hidden)
            case Assign(target, _, value):
                self.visit(value, env, indices)
                for index in target.indices:
                    self.visit(index, env, indices)
                self.access(target, env, indices)
            case Declare(tensor, init, dims):
                self.visit(init, env, indices)
                self.declaration(node, tensor, [self.given(d, env) for d in dims])
            case Access():
                for child in children(node):
                    self.visit(child, env, indices)
                root = tensor_of(node)
                if isinstance(root, Variable):
                    self.finish(root.name)
                self.access(node, env, indices)
            case Freeze(tensor):
                self.finish(tensor.name)
            case _:
                for child in children(node):
                    self.visit(child, env, indices)

    def given(self, node: Node, env: Environment) -> Dimension:
        """The dimension written down in the program."""
        try:
            found = self.semantics.extent(node, env)
        except Late:
            return Dimension(1)
        return Dimension() if found is None else Dimension(2, *found, "the bounds of the loop")

    def maybe(self, node: Node, env: Environment) -> Any:
        try:
            return self.semantics.bound(node, env)
        except Late:
            return None

    def modes(self, tensor: Variable) -> list[Dimension]:
        if tensor.name not in self.tensors:
            shape = self.semantics.size_now(tensor)
            self.tensors[tensor.name] = [
                Dimension(2, 1, size, f"mode {k + 1} of {tensor.name}", True)
                for k, size in enumerate(shape)
            ]
        return self.tensors[tensor.name]

    def declaration(self, node: Declare, tensor: Variable, dims: list[Dimension]) -> None:
        self.finish(tensor.name)
        before = self.modes(tensor)
        if dims and len(dims) != len(before):
            message = f"{tensor.name} has {len(before)} dimensions, {len(dims)} are given"
            raise FinchError("dimension", message, node.span)
        new = dims or [Dimension() for _ in before]
        self.declarations[id(node)] = self.tensors[tensor.name] = new
        self.written[tensor.name] = before

    def finish(self, name: str) -> None:
        """From here on the tensor has a size, and is no longer sized by its indices: it is sized
        before those that are written with what is read of it."""
        if name in self.written:
            self.defaults += zip(self.tensors[name], self.written.pop(name), strict=True)
            sizes = [Dimension() for _ in self.tensors[name]]
            self.sized += zip(self.tensors[name], sizes, strict=True)
            self.tensors[name] = sizes

    def access(self, node: Access, env: Environment, indices: dict[str, Dimension]) -> None:
        root, modes = unwrap(node)
        sizes = self.mask(root, env, len(modes)) if isinstance(root, Call) else self.modes(root)
        check_count(root, sizes, modes, node)
        for mode, own in zip(modes, sizes, strict=True):
            for index, window, permissive, is_first in mode.windows:
                if is_first and not permissive:
                    self.equate(index, self.window(window, env), node, env, indices)
            if not (mode.windows or mode.permissive):
                self.equate(mode.index, own, node, env, indices)

    def equate(
        self,
        index: Node,
        size: Dimension,
        access: Access,
        env: Environment,
        indices: dict[str, Dimension],
    ) -> None:
        """`index`, if it is an index of a loop but for a shift, runs over all of `size`."""
        found = [(s, n) for s, n in _summands(index) if isinstance(n, Index)]
        if len(found) != 1 or found[0][0] != 1:
            return
        (_, name), shift = found[0], 0
        dimension = indices.get(name.name)
        if dimension is None:
            return  # a loop around the region, which has been seen to
        try:
            for sign, term in _summands(index):
                if term is not name:
                    shift += sign * self.semantics.whole(term, env)
        except Late:
            return
        if not isinstance(dimension, Repeated):
            self.same.append((dimension, size, shift, access))
        elif shift == 0:
            self.defaults.append((dimension.other, size))

    def window(self, window: Extent, env: Environment) -> Dimension:
        """The dimension of an index that counts within a window."""
        try:
            room = self.semantics.room(window, env)
        except Late:
            return Dimension(1, fixed=True)
        return Dimension(2, 1, room, "a window", True)

    def mask(self, mask: Call, env: Environment, order: int) -> list[Dimension]:
        """The dimensions of a mask. (One without bounds tells its indices nothing.)"""
        try:
            shape = self.semantics.mask_shape(mask, env)
        except Late:
            return [Dimension(1, fixed=True) for _ in range(order)]
        origin = f"{mask.op.name}"  # type: ignore[attr-defined]
        return [
            Dimension(fixed=True) if size is None else Dimension(2, 1, size, origin, True)
            for size in shape
        ]

    # ---------------------------------------------------------------- solving

    def solve(self) -> None:
        """Find what can be found. Raises FinchError "dimension" where two do not match."""
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
        for written, read in self.sized:
            if written.is_known and read.is_known and written.stop != read.stop:
                message = f"what is written over 1:{written.stop} is read over 1:{read.stop}"
                raise FinchError("dimension", f"{message} (from {read.origin})", self.region.span)

    def kept(self, dimension: Dimension) -> list[tuple[Dimension, Dimension, int, Access]]:
        """All tensors written with an index that only they tell of keep theirs if one does."""
        before, met = dict(self.defaults), {dimension}
        told = {index for index, size, _, _ in self.same if not (size in before or size.fixed)}
        edges = [e for e in self.same if e[0] not in told and e[1] in before]
        while more := {d for edge in edges if met & {*edge[:2]} for d in edge[:2]} - met:
            met |= more
        kept = [(before[d], d, 0, access) for _, d, _, access in edges if d in met]
        return [edge for edge in kept if edge[0].is_known]

    def extent(self, loop: Loop) -> tuple[int, int] | None:
        """The dimension of a loop's index, or None where it is not found (yet)."""
        found = self.loops.get(id(loop))
        return (found.start, found.stop) if found and found.is_known else None

    def shape(self, declare: Declare) -> tuple[int, ...] | None:
        """The sizes of a declared tensor, or None where they are not found (yet)."""
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
