"""Tensors bound to a kernel: buffers, variables and cells for the memory of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import add
from typing import Any

from finchlang.base.records import record
from finchlang.host import construct as code, ir
from finchlang.host.interface import Host
from finchlang.levels.level import Fiber, Level, Storage
from finchlang.operators.build import LARGEST
from finchlang.syntax.types import Int64


@record(eq=False)
class Bound:
    """A tensor of a kernel. `buffers` are in the order of a Memory's arrays; `inputs` are its sizes, then
    its counters. A tensor that is written also has `outputs`, one for each input, in the same order."""

    name: str
    level: Level
    fiber: Fiber
    buffers: tuple[ir.Buffer, ...]
    inputs: tuple[ir.Var, ...]
    outputs: tuple[ir.Cell, ...]
    counters: tuple[tuple[ir.Cell, ir.Expr], ...]
    written: bool

    @property
    def given_counters(self) -> int:
        """How many of a Memory's counters, from the last on, are inputs."""
        return len(self.inputs) - self.level.order

    def given(self, shape: tuple[int, ...], counters: tuple[Any, ...]) -> list[Any]:
        return [*shape, *counters[len(counters) - self.given_counters :]]

    def fiber_of(self, level: Any) -> Fiber:
        """The fiber with another level: it may depend on the program as well as on the format."""
        return replace(self.fiber, store=replace(self.fiber.store, level=level))

    def enter(self, host: Host) -> None:
        """Set the cells to the inputs, or to what they begin with."""
        if self.written:
            for cell, variable in zip(self.outputs[: self.level.order], self.inputs, strict=False):
                host.set(cell, variable)
        for cell, value in self.counters:
            host.set(cell, value)


def spans(bounds: Sequence[Bound]) -> list[tuple[slice, slice, slice]]:
    """The slices of each tensor in the buffers, inputs and outputs of a kernel."""
    found, ends = [], (0, 0, 0)
    for bound in bounds:
        counts = len(bound.buffers), len(bound.inputs), len(bound.outputs)
        starts, ends = ends, tuple(map(add, ends, counts))
        buffers, inputs, outputs = map(slice, starts, ends)
        found.append((buffers, inputs, outputs))
    return found


def bind(name: str, level: Level, written: bool, is_own: bool = False) -> Bound:
    """A scalar of a kernel's own (`is_own`) is neither given to it nor handed back."""
    order = level.order
    known: Any = {"lower": code.ZERO, "upper": code.const(LARGEST)}
    inputs = [ir.Var(f"{name}_size{k + 1}", Int64, **known) for k in range(order)]
    outputs = [ir.Cell(f"{name}_size{k + 1}", Int64) for k in range(order)]
    buffers: list[ir.Buffer] = []
    counters: list[tuple[ir.Cell, ir.Var]] = []
    stores: list[Storage] = []
    mode, is_whole = order, written
    for part in level.levels():
        suffix = "" if part.is_leaf else str(mode)
        mode -= part.modes
        own = {n: ir.Buffer(f"{name}_{n}{suffix}", t or part.own_type) for n, t in part.arrays}
        # of a tensor that is only read, the counters follow from its arrays; those of leaves are the
        # values of scalars
        held = part.counters if written or part.is_leaf else ()
        cells = {n: ir.Cell(f"{name}_{n}{suffix}", t or part.own_type) for n, t in held}
        counters += [(cell, ir.Var(cell.name, cell.type)) for cell in cells.values()]
        buffers.extend(own.values())
        stores.append(Storage(part, own, cells, is_whole=is_whole))
        is_whole = is_whole and part.is_dense
    store = stores.pop()
    for outer in reversed(stores):
        store = replace(outer, child_store=store)
    if written:
        store = replace(store, size_cells=tuple(outputs))
    fiber = Fiber(replace(store, dims=tuple(inputs)), code.ZERO)
    given = (*inputs, *(variable for _, variable in counters))
    kept = (*outputs, *(cell for cell, _ in counters)) if written else ()
    begun: list[tuple[ir.Cell, ir.Expr]] = [*counters]
    if is_own and not order:
        first = level.empty().values()
        begun = [(c, code.const(v, c.type)) for (c, _), v in zip(counters, first, strict=True)]
        given = kept = ()
    return Bound(name, level, fiber, tuple(buffers), given, kept, tuple(begun), written)
