"""A unit over a host: the rules of its statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from finchlang.base.errors import Bug
from finchlang.functions.unit import (
    Called,
    ExchangeSlots,
    Make,
    RaiseError,
    RunKernel,
    ScalarValue,
    SlotSize,
    StoredCount,
    Unit,
)
from finchlang.host.construct import FALSE, TRUE, ZERO, add, compare, op
from finchlang.host.interface import Host, fail_unless
from finchlang.host.ir import Cell, Expr, Var
from finchlang.host.recording import ResidualHost
from finchlang.levels.level import Fiber, Level, Storage
from finchlang.levels.positions import positions
from finchlang.operators.operator_table import operator
from finchlang.operators.staged_body import BodyNames, StagedBody, StagedOperator
from finchlang.syntax import nodes as ast
from finchlang.syntax.control_flow import RETURN, ways
from finchlang.syntax.types import Int64, Type
from finchlang.syntax.user_function import Operation
from finchlang.tensors.array_base import MAX_DIMENSION
from finchlang.tensors.bind import Bound

#: runs a kernel of a unit with these values of its numbers
RunsKernel = Callable[[RunKernel, Mapping[str, Expr]], None]


def operation_of(unit: Unit) -> StagedOperator:
    """The unit as a function of its numbers, as the rules for statements on numbers take it."""
    row = operator(Operation("loop", unit.numbers, ast.Script((unit.body,))))
    assert isinstance(row, StagedOperator)
    return row


#: the types of the numbers of each kernel of a unit
Kernels = dict[RunKernel, dict[str, Type]]


def types_of(unit: Unit, formats: Mapping[str, Any]) -> tuple[dict[str, Type], Kernels]:
    """The types of all numbers that a unit assigns, and of the numbers of its kernels, given the types of
    its arguments and the levels of its slots. Raises FinchError "type" for a name that has two types, or
    may have no value where it is used."""
    names, kernels = BodyNames(), Kernels()
    args = [Var(name, formats[name]) for name in unit.numbers]

    def note(node: RunKernel, numbers: Mapping[str, Expr]) -> None:
        kernels[node] = {own: expr.type for own, expr in numbers.items()}

    row, host, limit = operation_of(unit), ResidualHost(), args[0] if unit.is_loop else None
    found = UnitBody(row, host, args, names, True, formats=formats, run_kernel=note, limit=limit)
    found.run_all()
    return names.types, kernels


@dataclass(eq=False)
class UnitBody(StagedBody):
    """One run of a unit over a host. `slots` has the memory of each slot, `homes` a cell for each slot that
    exchanges: the number of the tensor that it holds. Without slots, as where types are found, kernels and
    exchanges do nothing."""

    formats: Mapping[str, Any] = field(kw_only=True)
    slots: Mapping[str, Bound] = field(default_factory=dict)
    run_kernel: RunsKernel | None = None
    homes: dict[str, Cell] = field(default_factory=dict)
    #: of the unit's own loop, until it begins, how many rounds it takes at most
    limit: Expr | None = None

    def run_all(self) -> None:
        """Run the unit; its numbers are in `cells` afterwards."""
        self.host.is_exact = True
        self.make_cells()
        self.mark = self.host.cell(ZERO, "mark")
        self.statements(self.operation.body.statements)  # type: ignore[attr-defined]

    def cell_of(self, name: str) -> Cell:
        """The cell of a number after the unit was run."""
        if name not in self.cells:  # it is assigned once
            self.cells[name] = self.host.cell(self.values[name], name)
        return self.cells[name]

    # ---------------------------------------------------------------- statements

    def loop(
        self,
        condition: Callable[[], Expr],
        body: ast.Node,
        is_endless: bool,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """The unit's own loop counts its rounds, of which it takes so many at most."""
        limit, self.limit = self.limit, None
        if limit is None:
            super().loop(condition, body, is_endless, begin)
            return
        host, count = self.host, self.host.cell(ZERO, "round")

        def holds() -> Expr:
            host.note = (host.get(count),)
            found = host.cell(FALSE, "goes_on")
            is_left = compare("lt", host.note[0], limit)
            host.branch(is_left, lambda: host.set(found, condition()))
            return host.get(found)

        def round() -> None:
            host.note = (host.get(count),)
            host.set(count, add(host.note[0], 1))
            begin()

        super().loop(holds, body, False, round)
        host.note = ()

    def statement(self, node: ast.Node) -> None:
        match node:
            case RunKernel():
                self.kernel(node)
            case ExchangeSlots(slot, other):
                self.exchange(slot, other)
            case Make():
                self.make(node)
            case RaiseError(message):
                message = message.replace("{", "{{").replace("}", "}}")
                self.host.fail("type", message, (), node.span)
            case ast.Return():
                self.leave(RETURN)
            case Called():
                self.inlined(node)
            case _:
                super().statement(node)

    def kernel(self, node: RunKernel) -> None:
        """A kernel is run by the kernel's rules on the memory of its slots and the present numbers."""
        numbers = {own: self.host.let(self.expression(expr), own) for own, expr in node.numbers}
        if self.run_kernel is not None:
            self.host.is_exact = False
            self.run_kernel(node, numbers)
            self.host.is_exact = True

    def exchange(self, slot: str, other: str) -> None:
        """The memory, counters, sizes and home of two slots change places."""
        if not self.slots:
            return
        host, (a, b) = self.host, (self.slots[slot], self.slots[other])
        for one, two in zip(a.buffers, b.buffers, strict=True):
            host.exchange(one, two)
        cells = [*zip(a.outputs, b.outputs, strict=True), (self.homes[slot], self.homes[other])]
        for first, second in cells:
            content, more = host.get(first), host.get(second)
            host.set(first, more)
            host.set(second, content)

    def make(self, node: Make) -> None:
        """⟨sizes, s⟩ ⇒ n..., 0 ≤ n  ⟹  make(slot, n...): a tensor of fill in the slot."""
        message = f"a size must be in 0..{MAX_DIMENSION}, not {{}}"
        for size in node.sizes:
            found = self.expression(size)
            fits = op("and", compare("le", ZERO, found), compare("le", found, MAX_DIMENSION))
            fail_unless(self.host, fits, "dimension", message, (found,), node.span)
        numbers = {name: number for number, name in enumerate(self.slots)}
        for given, rest in node.rests if self.slots else ():
            is_here = compare("eq", self.host.get(self.homes[node.slot]), numbers[given])
            move = partial(self.exchange, node.slot, rest)
            self.host.branch(is_here, move)
        self.kernel(node.declare)  # type: ignore[arg-type]

    def inlined(self, node: Called) -> None:
        """A function's body runs in its place; a `return` in it goes on behind it."""
        mark = self.mark
        if RETURN in ways(node.body):
            self.mark = self.host.cell(ZERO, "mark")
        self.statements((node.body,))
        self.mark = mark

    # ---------------------------------------------------------------- expressions

    def expression(self, node: ast.Node, given: Expr = TRUE) -> Expr:
        match node:
            case ScalarValue(slot, before):
                return self.entry(slot, before, given)
            case SlotSize(slot, mode):
                return self.size(slot, mode)
            case StoredCount(slot):
                return self.stored(slot)
        return super().expression(node, given)

    def entry(self, slot: str, before: ast.Node | None, given: Expr) -> Expr:
        level: Level = self.formats[slot]
        if before is not None:
            self.host.branch(given, lambda: self.kernel(before))  # type: ignore[arg-type]
        if not self.slots:
            return Var(slot, level.element_type)
        found: Any = level.read(self.host, self.slots[slot].fiber)
        if not isinstance(found, ast.Value):
            raise Bug(f"{slot} is no scalar")
        return found.expr

    def size(self, slot: str, mode: int) -> Expr:
        if not self.slots:
            return Var(slot, Int64)
        bound = self.slots[slot]
        cells = bound.outputs
        return self.host.get(cells[mode], lower=ZERO) if cells else bound.inputs[mode]

    def stored(self, slot: str) -> Expr:
        if not self.slots:
            return Var(slot, Int64)
        bound = self.slots[slot]
        return positions(self.host, fiber_now(self.host, bound, bound.level, False))


def fiber_now(host: Host, bound: Bound, level: Any, is_written: bool) -> Fiber:
    """The fiber of a slot's memory as it is now, for a kernel that reads or writes it."""
    fiber = bound.fiber_of(level)
    if not bound.written:
        return fiber
    sizes = bound.outputs[: bound.level.order]
    dims = tuple(host.get(cell, lower=ZERO) for cell in sizes)
    store = fiber.store if is_written else _as_read(fiber.store)
    return replace(fiber, store=store, dims=dims)


def _as_read(store: Storage) -> Storage:
    """The store as of a tensor that is only read, without the counters that follow from its arrays."""
    counters = store.counters if store.level.is_leaf else {}
    child = store.child_store and _as_read(store.child_store)
    return replace(store, counters=counters, child_store=child, size_cells=(), is_whole=False)
