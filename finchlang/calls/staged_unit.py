"""A unit (`functions/unit.py`) staged for formats: its kernels are normalised each for the formats of their
slots, and run by the rules in the memory of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from finchlang.base.locks import cached_property
from finchlang.base.records import record
from finchlang.calls.compile_cache import Signature
from finchlang.calls.staging import Staged
from finchlang.functions.unit import RunKernel, Unit
from finchlang.functions.unit_body import Kernels, UnitBody, fiber_now, operation_of, types_of
from finchlang.host import ir
from finchlang.host.construct import compare, const
from finchlang.host.engine import Machine, Rule, Tracer
from finchlang.host.interface import Host, fail_unless
from finchlang.host.recording import ResidualHost
from finchlang.levels.level import Level, level_of
from finchlang.operators.staged_body import BodyNames
from finchlang.rules.base.state import State
from finchlang.rules.table import rules
from finchlang.syntax.nodes import Node, Value, Variable
from finchlang.syntax.traversal import forget, substitute
from finchlang.syntax.types import Type
from finchlang.tensors.bind import Bound


@record(eq=False)
class _Kernel:
    """A kernel of a unit, staged for the formats of its slots and the types of its numbers; `prefix` begins
    the names of its workspaces."""

    node: RunKernel
    prefix: str
    staged: Staged

    @property
    def slots(self) -> dict[str, str]:
        """The slot of each tensor and workspace of the kernel."""
        of, own = dict(self.node.tensors), self.staged.signature
        slots = {name: of[script] for name, script in own.tensors.items()}
        return slots | {name: f"{self.prefix}{name}" for name in own.workspaces}


class StagedUnit(Staged):
    """A unit for formats, otherwise as `Staged`. Outputs of its residual are those of its tensors, then its
    results, then for each slot that exchanges the number of the tensor that it holds."""

    source: Unit

    @cached_property
    def types(self) -> tuple[dict[str, Type], Kernels]:
        """The types of the numbers that the unit assigns, and of those of its kernels."""
        return types_of(self.source, self._levels)

    @property
    def _levels(self) -> dict[str, Any]:
        return {n: level_of(f) for n, f in self.formats.items()}

    @cached_property
    def kernels(self) -> dict[RunKernel, _Kernel]:
        """The kernels of the unit; equal ones are one."""
        found: dict[RunKernel, _Kernel] = {}
        choices = self.which_rules, self.insert_workspaces, frozenset[str]()
        for node, types in self.types[1].items():
            formats = {own: self.formats[slot] for own, slot in node.tensors} | types
            staged = Staged(node.program, formats, choices)
            found[node] = _Kernel(node, f"kernel{len(found) + 1}_", staged)
        return found

    def signed(self) -> Signature:
        unit, formats = self.source, self.formats
        made: dict[str, Level] = {name: level_of(formats[name]) for name in unit.made}
        changed, declared, renewed = {*unit.made}, set[str](), set[str]()
        notes: list[Any] = []
        for kernel in self.kernels.values():
            own, slots = kernel.staged.signature, kernel.slots
            made |= {slots[name]: level for name, level in own.workspaces.items()}
            changed |= {slots[name] for name in own.changed}
            declared |= {slots[name] for name in own.declared}
            renewed |= {slots[name] for name in own.renewed if name in own.workspaces}
            notes += own.notes
        changed |= {name for group in unit.groups for name in group}
        return Signature(
            {name: name for name in unit.tensors},
            made,
            (),
            unit.numbers,
            *(frozenset(changed), frozenset(declared), frozenset(renewed)),
            notes=tuple(dict.fromkeys(notes)),
            spans={},
        )

    def run_rules(self, host: Host, tracer: Tracer | None, noted: Any = lambda rule: rule) -> None:
        for bound in self.bounds:
            bound.enter(host)
        slots = {bound.name: bound for bound in self.bounds}
        names, given = BodyNames(dict(self.types[0]), True), [*self._inputs.values()]
        table = [*map(noted, rules(self.which_rules))]
        homes = {name: host.cell(const(n), "home") for n, name in enumerate(slots)}
        body = UnitBody(
            *(operation_of(self.source), host, given, names),
            formats=self._levels,
            slots=slots,
            run_kernel=partial(self._run_kernel, host, table, tracer, slots),
            homes=homes,
            limit=given[0] if self.source.is_loop else None,
        )
        try:
            body.run_all()
        finally:
            forget()
        exchanging = [name for group in self.source.groups for name in group]
        results = [body.cell_of(name) for name in self.source.results]
        self.own_outputs = (*results, *(homes[name] for name in exchanging))

    def _run_kernel(
        self,
        host: Host,
        table: list[Rule],
        tracer: Tracer | None,
        slots: Mapping[str, Bound],
        node: RunKernel,
        numbers: Mapping[str, ir.Expr],
    ) -> None:
        kernel = self.kernels[node]
        staged, own = kernel.staged, kernel.staged.signature
        formats = staged.normalized.formats
        fibers = {
            name: fiber_now(host, slots[slot], formats[name], name in own.changed)
            for name, slot in kernel.slots.items()
        }
        values: dict[Node, Node] = {Variable(n): Value(v) for n, v in numbers.items()}

        def run() -> None:
            state = State.before(host, fibers, [*own.workspaces])
            Machine(table, tracer).run(substitute(staged.program, values), state)

        host.apart(run)
        message = "`{}` cannot take another size"
        for slot in {kernel.slots[name] for name in own.declared} & {*self.source.fixed}:
            bound = slots[slot]
            for cell, size in zip(bound.outputs, bound.inputs[: bound.level.order], strict=False):
                is_same = compare("eq", host.get(cell), size)
                fail_unless(host, is_same, "dimension", message.format(slot), (), node.span)

    def recorded(self, host: ResidualHost) -> ir.Residual:
        found = super().recorded(host)
        return replace(found, name="unit", outputs=(*found.outputs, *self.own_outputs))
