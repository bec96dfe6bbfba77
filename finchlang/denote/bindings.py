"""Tensors as the denotation has them: dense arrays that also know which of their elements are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from finchlang.base.aligned_memory import full_aligned
from finchlang.base.errors import FinchError
from finchlang.denote.extents import Environment
from finchlang.denote.numpy_operators import choice
from finchlang.denote.typed_values import Failed, Number, number, type_error
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Type, type_of_dtype, type_of_value
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.tensor import Scalar, SwizzledTensor, mirrored_modes

#: Which places of a fiber a level stores: given which fibers there are, and which places of them were
#: written. The last axes are those of the level, its outer mode first; other levels store what was written.
Storing = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _all(fibers: np.ndarray, written: np.ndarray) -> np.ndarray:
    fibers = fibers.reshape(fibers.shape + (1,) * (written.ndim - fibers.ndim))
    return np.broadcast_to(fibers, written.shape)


def _up_to_last(fibers: np.ndarray, written: np.ndarray) -> np.ndarray:
    return np.logical_or.accumulate(written[..., ::-1], axis=-1)[..., ::-1]


def _from_first_to_last(fibers: np.ndarray, written: np.ndarray) -> np.ndarray:
    return _up_to_last(fibers, written) & np.logical_or.accumulate(written, axis=-1)


STORED: dict[str, Storing] = {
    **dict.fromkeys(("Dense", "RunList", "PackBits", "Symmetric"), _all),
    **{"Ragged": _up_to_last, "SparseBand": _from_first_to_last},
    # columns are the outer mode
    "UpperTriangular": lambda fibers, written: np.tril(_all(fibers, written)),
    "LowerTriangular": lambda fibers, written: np.triu(_all(fibers, written)),
}


@dataclass
class DenseArray:
    """A tensor: dense `data` of `type`; elements that are not `stored` are structural. An element is the
    same as the one with the coordinates of a pair of `mirrored` modes exchanged.

    What is stored follows from what was `written`: `levels`, outermost first, says of each what it stores
    and its modes, from 0, the outer one first."""

    data: np.ndarray
    written: np.ndarray
    type: Type
    fill: Any
    levels: tuple[tuple[Storing | None, tuple[int, ...]], ...] = ()
    mirrored: tuple[tuple[int, int], ...] = ()
    #: whether reductions into it end where no update changes it (Finch'25 Table 4)
    is_short_circuit: bool = False
    _stored: np.ndarray | None = None

    @property
    def stored(self) -> np.ndarray:
        if self._stored is None:
            axes = [mode for _, modes in self.levels for mode in modes]
            written, done = self.written.transpose(axes), 0
            fibers: Any = np.array(True)
            for stores, modes in self.levels:
                done += len(modes)
                own: Any = written.any(axis=tuple(range(done, written.ndim)))
                fibers = own if stores is None else stores(fibers, own)
            self._stored = fibers.transpose(np.argsort(axes))
        return self._stored

    @property
    def has_gaps(self) -> bool:
        """Whether a tensor of this format may have elements that are not stored."""
        return any(stores is not _all for stores, _ in self.levels)

    def read(self, at: tuple[int, ...]) -> Number:
        return Number(self.data[at].copy(), not self.stored[at])  # a pair would be a view

    def declare(self, shape: tuple[int, ...], value: Any) -> None:
        self.data, self.fill = full_aligned(shape, value, self.type.dtype), value
        self.written, self._stored = np.zeros(shape, bool), None

    def write(self, at: tuple[int, ...], value: Any, stores: bool = True) -> None:
        """Set an element (from 0) and its mirror images, which are then stored if it `stores`."""
        mirrored = [at]
        for a, b in self.mirrored:
            exchanged = {a: b, b: a}
            mirrored += [tuple(c[exchanged.get(k, k)] for k in range(len(c))) for c in mirrored]
        for each in mirrored:
            self.data[each] = value
            if stores and not self.written[each]:
                self.written[each], self._stored = True, None


def bind(program: ast.Node, bindings: dict[str, Any]) -> tuple[dict[str, DenseArray], Environment]:
    """The tensors among the free names of a program, and the numbers and ranges."""
    arrays: dict[str, DenseArray] = {}
    environment: Environment = {}
    same: dict[int, DenseArray] = {}  # two names of one tensor see each other's updates
    used = {n.name for n in trees.find_all(program, ast.Variable)}
    for name in used & bindings.keys():
        value = bindings[name]
        if type_of_value(value) is not None:
            environment[name] = number(value)
        elif hasattr(value, "stop") and getattr(value, "step", 0) == 1:
            environment[name] = (int(value.start), int(value.stop))
        elif (tensor := value if isinstance(value, DenseArray) else as_tensor(value)) is not None:
            if id(value) not in same:
                same[id(value)] = dense(tensor)
            arrays[name] = same[id(value)]
    return arrays, environment


def dense(tensor: Any) -> DenseArray:
    """A tensor, or one that is dense already, as a dense array of its own."""
    if isinstance(tensor, DenseArray):
        return replace(tensor, data=tensor.data.copy("F"), written=tensor.written.copy())
    data = np.array(tensor.to_numpy(), order="F")
    element = type_of_dtype(data.dtype)
    assert element is not None
    fill = np.asarray(tensor.fill).astype(data.dtype)[()]
    if isinstance(tensor, Scalar):
        stores = None if tensor.format.is_structured else _all
        stored = np.array(tensor.value != tensor.fill)
        is_short = tensor.format.is_short_circuit
        return DenseArray(data, stored, element, fill, ((stores, ()),), is_short_circuit=is_short)
    written = np.zeros(data.shape, bool)
    written[tuple(tensor.places())] = True
    return DenseArray(data, written, element, fill, _levels(tensor), mirrored_modes(tensor))


def _levels(tensor: Any) -> tuple[tuple[Storing | None, tuple[int, ...]], ...]:
    """What each level stores, and its modes (see DenseArray)."""
    is_turned = isinstance(tensor, SwizzledTensor)
    modes = [k - 1 for k in (tensor.permutation if is_turned else range(1, tensor.order + 1))][::-1]
    found = []
    for part in (tensor.format.level if is_turned else tensor.format).levels():
        if not part.is_leaf:
            own, modes = modes[: part.modes], modes[part.modes :]
            stores = STORED.get(type(part).__name__, _all if part.stores_fill else None)
            found.append((stores, tuple(own)))
    return tuple(found)


class ScriptFunction(Protocol):
    """A function of the script, run by the script's own evaluator."""

    def __call__(self, values: Sequence[Any]) -> Any:
        """The result for numbers. Raises FinchError."""

    def type(self, types: Sequence[Type]) -> Type:
        """The type of the result for numbers of these types. Raises FinchError of kind type."""


def type_of_result(function: ScriptFunction, args: list[Any], node: ast.Node) -> Type:
    """The type of the result for these values. Raises FinchError of kind type."""
    if not all(isinstance(a, (Number, Failed)) for a in args):
        raise type_error("a function takes numbers").at(node.span)
    try:
        return function.type([type_of_dtype(a.value.dtype) for a in args])  # type: ignore[misc]
    except FinchError as error:
        raise error.at(node.span) from None


def of_function(
    function: ScriptFunction, type: Type, args: list[Any], node: ast.Node, is_idle: bool
) -> Number | Failed:
    """A script's function on values, with a result of `type`. It is not called if the value is not needed
    (`is_idle`), since it might not return or might fail."""
    any_value = number(type.wrap((0, 0) if type.kind == "pair" else 0), type)
    failed = next((a for a in args if isinstance(a, Failed)), None)
    if failed is not None:
        return Failed(failed.error, any_value.value)
    if is_idle:
        return any_value
    try:
        result = number(function([a.value for a in args]))
    except FinchError as error:
        if error.kind != "bounds":
            raise error.at(node.span) from None
        return Failed(error.at(node.span), any_value.value)
    return Number(result.value, all(a.is_structural for a in args))


def is_needed(op: ast.Node, before: list[Any]) -> bool:
    """Whether the next operand of `op` is needed, given the values of those before."""
    name = choice(op)
    if not before or not name:
        return True
    is_known = isinstance(before[0], Number) and before[0].is_bool
    return is_known and before[0].value == (name == "&&" or (name, len(before)) == ("ifelse", 1))
