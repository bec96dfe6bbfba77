"""Where accesses lead: to an element of a tensor, a formula, a mask, or a shape operator's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.denote import bindings, shape_arithmetic
from finchlang.denote.extents import Environment, Late
from finchlang.denote.index_modifiers import MASKS, AccessedMode, check_count, is_mask, unwrap
from finchlang.denote.numpy_operators import apply, common
from finchlang.denote.shape_arithmetic import Bounds, is_operator
from finchlang.denote.typed_values import Failed, Number, convert, integer, number
from finchlang.syntax import nodes as ast

_TIMES = ast.Variable("*")
Arrays = dict[str, bindings.DenseArray]


@record
class Named:
    """What `let T[i, j] = e` binds: a formula, which is read like a tensor, and its environment."""

    formula: ast.Formula
    env: Environment
    #: the bounds of its modes, empty until they are asked for
    modes: list[Bounds] = field(default_factory=list, compare=False)


class OutOfRange(FinchError):
    """An access out of range: its tensor, and the coordinates that are in range, None for others."""

    def __init__(self, error: FinchError, root: Any, at_most: list[int | None]):
        super().__init__(error.kind, error.message, error.span, error.hint)
        self.root, self.at_most = root, at_most

    def __reduce__(self) -> Any:  # another process is told what a user is
        return FinchError, (self.kind, self.message, self.span, self.hint)


class Places:
    """The meaning of accesses, with tensors in `arrays`. Denotation adds the values of expressions and of
    integers, and the bounds of the modes of a formula."""

    value: Callable[[ast.Node, Environment], Any]
    whole: Callable[[ast.Node, Environment], int]
    modes_of: Callable[[Named], list[Bounds]]

    def __init__(self, arrays: Arrays):
        self.arrays = arrays
        self.is_ahead = False  # whether dimensions are being found, ahead of the program
        self.changing: set[str] = set()  # tensors whose contents must not be looked at now
        self.resizing: set[str] = set()  # tensors whose sizes must not be looked at now
        self.unwrapped: dict[int, Any] = {}  # what `unwrap` gives for each access met so far

    # ---------------------------------------------------------------- elements

    def read(self, access: ast.Access, env: Environment) -> Any:
        """The value read. Out of range it is Failed: the error is raised only if the value is needed. It is
        the fill where the tensor has no entry at the coordinates that are in range."""
        try:
            root, at = self.locate(access, env)
        except OutOfRange as error:
            root = error.root
            if isinstance(root, ast.Variable) and (array := self.arrays.get(root.name)) is not None:
                known = tuple(slice(None) if i is None else i - 1 for i in error.at_most)
                if not array.stored[known].any():
                    return Number(array.fill, True)
            return Failed(error.at(access.span), np.zeros((), self.dtype(root, env))[()])
        return ast.MISSING if at is None else self.element(root, at, env)

    def element(self, root: Any, at: tuple[int, ...], env: Environment) -> Any:
        """The element at coordinates `at`, from 1, of a name or of a call."""
        if isinstance(root, ast.Variable):
            named = env.get(root.name)
            if isinstance(named, Named):
                names = [index.name for index in named.formula.indices]
                bound = dict(zip(names, map(number, at), strict=True))
                return self.value(named.formula.value, named.env | bound)
            if root.name in self.changing:
                raise Late
            return self.array(root).read(tuple(i - 1 for i in at))
        if is_mask(root):
            args = [self.whole(a, env) for a in root.args]
            return number(MASKS[root.op.name.lower()].holds(*args, *at), is_structural=True)
        factors = [self.read(access, env) for access in self.inside(root, at, env)]
        if ast.MISSING in factors:
            return ast.MISSING
        if len(factors) == 1 and not shape_arithmetic.operator(root).takes_all:
            return factors[0]
        dtype = self.dtype(root, env)
        if not factors:
            return Number(np.zeros((), dtype)[()], True)
        found = reduce(lambda a, b: apply(_TIMES, [a, b], root), factors)
        return replace(found, value=convert(found.value, dtype))

    def inside(self, root: ast.Call, at: tuple[int, ...], env: Environment) -> list[ast.Access]:
        """The accesses whose product is an element of a shape operator's result; most have one."""
        row = shape_arithmetic.operator(root)
        parts = row.parts(root)
        settings = [self.setting(s, env) for s in row.settings(root)]
        bounds = [self.bounds(part, env) for part in parts]
        places = row.result(_of_bounds, settings, *bounds)[1]
        found = [(parts[k], tuple(map(ast.Literal, inner))) for k, inner in places(at)]
        return [ast.Access(part, indices, span=root.span) for part, indices in found]

    def place(
        self, access: ast.Access, env: Environment
    ) -> tuple[ast.Variable, tuple[int, ...] | None]:
        """The tensor that an assignment to `access` writes, and the coordinates, from 0."""
        root, at = self.locate(access, env)
        while is_operator(root) and shape_arithmetic.operator(root).is_written:
            if at is None:
                return next(shape_arithmetic.tensors_of(root)), None
            (inner,) = self.inside(root, at, env)
            root, at = self.locate(inner, env)
        if not isinstance(root, ast.Variable) or isinstance(env.get(root.name), Named):
            what = "a formula" if isinstance(root, ast.Variable) else root.op.name
            what = "a mask" if is_mask(root) else what
            raise FinchError("type", f"{what} cannot be assigned to", access.span)
        return root, None if at is None else tuple(i - 1 for i in at)

    def locate(self, access: ast.Access, env: Environment) -> tuple[Any, tuple[int, ...] | None]:
        """The tensor accessed (its name, or the call of a mask or an operator) and the coordinates, from 1;
        None for coordinates out of range that read `missing`. Raises OutOfRange for others."""
        root, modes = self.within_wrappers(access)
        bounds = self.bounds(root, env)
        check_count(root, bounds, modes, access)
        coordinates: list[Any] = []
        outside, wrong = False, None
        name = root.name if isinstance(root, ast.Variable) else root.op.name
        for mode, limits in zip(modes, bounds, strict=True):
            try:
                i = self.coordinate(mode, limits, name, env)
            except FinchError as error:
                if error.kind != "bounds":
                    raise
                i, wrong = None, wrong or error
            else:
                outside |= i is None
            coordinates.append(i)
        if wrong is not None:
            raise OutOfRange(wrong, root, coordinates)
        return root, None if outside else tuple(coordinates)

    def coordinate(self, mode: AccessedMode, limits: Bounds, name: str, env: Environment) -> Any:
        """The coordinate in a mode of a tensor, or None if it is out of range and reads `missing`."""
        i = needed(self.value(mode.index, env), mode.index)
        if i is ast.MISSING:
            return None
        integer(i, mode.index, "an index")
        for index, window, permissive, _ in mode.windows:
            room, at = (1, self.room(window, env)), self.value(index, env)
            if not self.is_inside(at, room, permissive, f"in a window of {name}", index):
                return None
        inside = self.is_inside(i, limits, mode.permissive, f"of {name}", mode.index)
        return int(i.value) if inside else None

    def within_wrappers(self, access: ast.Access) -> Any:
        if all(isinstance(i, ast.Literal) for i in access.indices):
            return unwrap(access)  # made for one element: its id may be used again
        if id(access) not in self.unwrapped:
            self.unwrapped[id(access)] = unwrap(access)
        return self.unwrapped[id(access)]

    def is_inside(
        self, i: Number, limits: Bounds, permissive: bool, where: str, index: ast.Node
    ) -> bool:
        """Whether an index is within its limits; an error if it is neither that nor permissive."""
        if limits is None or limits[0] <= i.value <= limits[1]:
            return True
        if permissive:
            return False
        if self.is_ahead:
            raise Late  # the program may never reach this access
        shown = f"{limits[0]}:{limits[1]} {where}"
        raise FinchError("bounds", f"index {i.value} is not in {shown}", index.span)

    # ---------------------------------------------------------------- shapes and types

    def bounds(self, tensor: ast.Node, env: Environment) -> list[Bounds]:
        """The bounds of a tensor's modes, through wrappers and operators (Burrito'24 Fig 9)."""

        def leaf(tensor: Any) -> list[Bounds]:
            if not isinstance(tensor, ast.Variable):
                sizes = self.mask_shape(tensor, env)
                return [None if n is None else (1, n) for n in sizes]
            named = env.get(tensor.name)
            if isinstance(named, Named):
                return self.modes_of(named)
            self.check_is_tensor(tensor, env)
            if tensor.name in self.resizing:
                raise Late
            return [(1, n) for n in self.array(tensor).data.shape]

        setting = partial(self.setting, env=env)
        return shape_arithmetic.infer(tensor, leaf, setting, _of_bounds)

    def setting(self, node: ast.Node, env: Environment) -> Any:
        """An argument of an operator or wrapper: a range as (start, stop, step), a Bool, or a number."""
        if isinstance(node, ast.Extent):
            step = 1 if node.step is None else self.whole(node.step, env)
            return self.whole(node.start, env), self.whole(node.stop, env), step
        if isinstance(node, ast.Literal) and isinstance(node.value, bool):
            return node.value
        return self.whole(node, env)

    def dtype(self, tensor: Any, env: Environment) -> np.dtype:
        """The type of a tensor's elements; for a concatenation the common type of its parts."""
        if is_operator(tensor):
            within = shape_arithmetic.operator(tensor).parts(tensor)
            parts = [self.dtype(part, env) for part in within]
            if tensor.op == ast.Variable("kron"):
                zeros = [Number(np.zeros((), t)[()]) for t in parts]
                return apply(_TIMES, zeros, tensor).value.dtype
            return common(*parts)
        if isinstance(tensor, ast.Call):
            return np.dtype(bool) if is_mask(tensor) else self.dtype(tensor.args[0], env)
        if not isinstance(tensor, ast.Variable):
            raise FinchError("unknown name", "this is no tensor", tensor.span)
        named = env.get(tensor.name)
        if not isinstance(named, Named):
            return self.array(tensor).type.dtype
        modes = self.modes_of(named)
        if any(b is not None and b[1] < b[0] for b in modes):
            return np.dtype(bool)  # no element is ever read
        found = self.element(tensor, tuple(1 if b is None else b[0] for b in modes), env)
        return np.dtype(bool) if found is ast.MISSING else found.value.dtype

    def array(self, name: ast.Variable) -> bindings.DenseArray:
        if name.name not in self.arrays:
            raise self.unknown(name)
        return self.arrays[name.name]

    def mask_shape(self, mask: Any, env: Environment) -> tuple[int | None, ...]:
        if not is_mask(mask):
            raise FinchError("unknown name", f"there is no wrapper {mask.op.name}", mask.span)
        shape = MASKS[mask.op.name.lower()].shape
        if (count := shape.__code__.co_argcount) != len(mask.args):
            raise FinchError("type", f"{mask.op.name} takes {count} arguments", mask.span)
        return shape(*(self.whole(a, env) for a in mask.args))

    def check_is_tensor(self, name: ast.Variable, env: Environment) -> None:
        if name.name in env and name.name not in self.arrays:
            raise FinchError("type", f"{name.name} is a number, not a tensor", name.span)

    def unknown(self, node: ast.Index | ast.Variable) -> FinchError:
        if node.name in self.arrays:
            hint = f"a tensor is read by {node.name}[...]"
            return FinchError("type", f"{node.name} is a tensor, not a number", node.span, hint)
        return FinchError("unknown name", f"{node.name} is not defined", node.span)

    def room(self, window: ast.Extent, env: Environment) -> int:
        start, stop = self.whole(window.start, env), self.whole(window.stop, env)
        if window.step is None:
            return stop - start + 1
        step = self.whole(window.step, env)
        if step == 0:
            raise FinchError("dimension", "the step of a slice is not 0", window.step.span)
        return len(range(start, stop + step // abs(step), step))


def _of_bounds(function: Any, *modes: Bounds, back: Any = None) -> Bounds:
    return function(*modes)


def needed(value: Any, node: ast.Node) -> Any:
    """A value that is needed. Raises the error of a Failed one."""
    if isinstance(value, Failed):
        raise value.error.at(node.span)
    return value
