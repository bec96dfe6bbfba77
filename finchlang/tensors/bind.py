"""Binding tensors to a kernel: the buffers, variables and cells that stand for one tensor's storage,
and the way from a tensor's arrays to them and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from finchlang.host.fold import ZERO
from finchlang.host.interface import Host
from finchlang.host.ir import Buffer, Cell, Var
from finchlang.locks import cached_property
from finchlang.tensors.level import Fiber, Level, Store
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.types import Int64


@dataclass(frozen=True, eq=False)
class Bound:
    """One tensor of a kernel. `buffers` and `inputs` are in the order of `gather`; a tensor that is
    written also has `outputs`, one for each input, in the same order: the sizes, then the counters
    of each level."""

    name: str
    level: Level
    fiber: Fiber
    buffers: tuple[Buffer, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Cell, ...]
    counters: tuple[tuple[Cell, Var], ...]
    written: bool

    @cached_property
    def parts(self) -> tuple[tuple[Level, tuple[str, ...], tuple[str, ...]], ...]:
        """Each level, with the names of its arrays and its counters."""
        return tuple(
            (part, tuple(n for n, _ in part.arrays), tuple(n for n, _ in part.counters))
            for part in self.level.levels()
        )

    @cached_property
    def _modes(self) -> list[slice]:
        """Which of the tensor's modes each level has."""
        end, found = self.level.order, []
        for part, _, _ in self.parts:
            found.append(slice(end - part.modes, end))
            end -= part.modes
        return found

    def sizes(self, shape: tuple[int, ...]) -> list[Any]:
        """As `Level.sizes`, quickly."""
        own = [shape[modes] for modes in self._modes]
        return [one[0] if len(one) == 1 else one or 1 for one in own]

    def enter(self, host: Host) -> None:
        """Put what is given from outside into the cells."""
        if self.written:
            for cell, variable in zip(self.outputs[: self.level.order], self.inputs, strict=False):
                host.set(cell, variable)
        for cell, variable in self.counters:
            host.set(cell, variable)


def bind(name: str, level: Level, written: bool) -> Bound:
    """Make buffers, variables and cells for a tensor of format `level` called `name`."""
    order = level.order
    inputs = [Var(f"{name}_size{k + 1}", Int64, lower=ZERO) for k in range(order)]
    outputs = [Cell(f"{name}_size{k + 1}", Int64) for k in range(order)]
    buffers: list[Buffer] = []
    counters: list[tuple[Cell, Var]] = []
    stores: list[tuple[Level, dict[str, Buffer], dict[str, Cell]]] = []
    mode = order
    for part in level.levels():
        suffix = "" if part.is_leaf else str(mode)
        mode -= part.modes
        own = {n: Buffer(f"{name}_{n}{suffix}", t or part.own_type) for n, t in part.arrays}
        cells: dict[str, Cell] = {}
        for counter, type in part.counters:
            # what a tensor that is only read has counted is seen in its arrays
            if written or part.is_leaf:
                label = f"{name}_{counter}{suffix}"
                cells[counter] = Cell(label, type or part.own_type)
                counters.append((cells[counter], Var(label, type or part.own_type)))
        buffers.extend(own.values())
        stores.append((part, own, cells))
    store: Store | None = None
    for part, own, cells in reversed(stores):
        store = Store(part, own, cells, store)
    if written:
        store = replace(store, size_cells=tuple(outputs))  # type: ignore[type-var]
    assert store is not None
    inputs_all = (*inputs, *(v for _, v in counters))
    outputs_all = (*outputs, *(c for c, _ in counters)) if written else ()
    fiber = Fiber(store, tuple(inputs), ZERO)
    return Bound(
        name, level, fiber, tuple(buffers), inputs_all, outputs_all, tuple(counters), written
    )


def gather(bound: Bound, tensor: Tensor | Scalar) -> tuple[list[np.ndarray], list[Any]]:
    """The arrays and the input values of a tensor, in the order of `bound`."""
    if isinstance(tensor, Scalar):
        return [], tensor.format.held(tensor.value)
    arrays: list[np.ndarray] = []
    inputs: list[Any] = list(tensor.shape)
    for (part, names, counters), storage in zip(bound.parts, tensor.storage, strict=True):
        arrays += [storage[name] for name in names]
        if bound.written or part.is_leaf:
            inputs += [storage[name] for name in counters]
    return arrays, inputs


def scatter(
    bound: Bound,
    tensor: Tensor | Scalar,
    arrays: list[np.ndarray],
    outputs: list[Any],
    is_same_memory: bool = False,
) -> None:
    """Take over the arrays and output values of a kernel that wrote `tensor`; `is_same_memory` if
    every array begins where it did."""
    if isinstance(tensor, Scalar):
        tensor.value = outputs[0]
        return
    shape = tuple(outputs[: bound.level.order])
    is_same_place = is_same_memory and shape == tensor.shape
    tensor.shape = shape
    storage = stored(bound, shape, arrays, outputs)
    if is_same_place:
        tensor.set_in_place(storage)
    else:
        tensor.storage = storage


def stored(
    bound: Bound, shape: tuple[int, ...], arrays: list[np.ndarray], outputs: list[Any]
) -> list[dict[str, Any]]:
    """The storage of a tensor with these arrays, as far as they are in use, and output values."""
    values, given = iter(outputs[bound.level.order :]), iter(arrays)
    count = 1
    storage: list[dict[str, Any]] = []
    for (part, names, counters), size in zip(bound.parts, bound.sizes(shape), strict=True):
        own: dict[str, Any] = {name: next(given) for name in names}
        for name in counters:
            own[name] = next(values)
        for name, used in part.used(own, count, size).items():
            if len(own[name]) != used:
                own[name] = own[name][:used]
        storage.append(own)
        if not part.is_leaf:
            count = part.child_count(own, count, size)
    return storage


def has_changed_lengths(bound: Bound, tensor: Tensor, sizes: list[Any]) -> bool:
    """Whether other parts of the arrays are in use than before, though no counter says so; `sizes`
    are those of the levels."""
    count = 1
    for (part, _, _), own, size in zip(bound.parts, tensor.storage, sizes, strict=True):
        for name, used in part.used(own, count, size).items():
            if len(own[name]) != used:
                return True
        if not part.is_leaf:
            count = part.child_count(own, count, size)
    return False


def keep_memory(bound: Bound, tensor: Tensor, before: list[np.ndarray]) -> None:
    """Put results into the arrays a tensor had, where the sizes are the same as before."""
    old = iter(before)
    for (_, names, _), storage in zip(bound.parts, tensor.storage, strict=True):
        for name in names:
            array, new = next(old), storage[name]
            if new is not array and new.shape == array.shape:
                np.copyto(array, new)
                storage[name] = array
