"""A unit (`functions/unit.py`) staged for formats: its kernels are normalised each for the formats of their
slots, and run by the rules in the memory of these."""

from __future__ import annotations

from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.locks import cached_property
from finchlang.calls.compile_cache import Signature
from finchlang.calls.staging import LEAST, Staged
from finchlang.functions import unit_rules
from finchlang.functions.unit import RunKernel, Unit, in_script
from finchlang.host import ir
from finchlang.host.construct import const
from finchlang.host.engine import Tracer
from finchlang.host.inspecting import Shielded
from finchlang.host.interface import Host
from finchlang.levels.level import Level, level_of
from finchlang.operators.body_rules import BodyNames
from finchlang.rules.table import rules
from finchlang.syntax.nodes import Node
from finchlang.syntax.traversal import forget
from finchlang.syntax.types import Bool, Type


class StagedUnit(Staged):
    """A unit for formats, otherwise as `Staged`. Outputs of its residual are those of its tensors, then its
    results, then for each slot that exchanges the number of the tensor that it holds."""

    source: Unit
    kind = "unit"

    @cached_property
    def types(self) -> tuple[dict[str, Type], unit_rules.Kernels]:
        """The types of the numbers that the unit assigns, and of those of its kernels. Results that are
        assigned only in arms that are never run have no type of their own, and get Bool."""
        found, kernels = unit_rules.types_of(self.source, self._levels)
        unset = {*self.source.results} - found.keys() - self.formats.keys()
        return found | dict.fromkeys(unset, Bool), kernels

    @property
    def result_types(self) -> dict[str, Type]:  # type: ignore[override]
        return self.types[0]

    @property
    def _levels(self) -> dict[str, Any]:
        return {n: level_of(f) for n, f in self.formats.items()}

    @property
    def most(self) -> int:
        """A kernel may stand in several arms and rounds."""
        return 8 * sum(part.most for part in self.parts.values()) + LEAST

    @cached_property
    def parts(self) -> dict[RunKernel, Staged]:
        """The kernels of the unit, each for the formats of its slots and the types of its numbers; equal
        ones are one."""
        found: dict[RunKernel, Staged] = {}
        choices = self.which_rules, self.insert_workspaces, frozenset[str]()
        for node, types in self.types[1].items():
            formats = {own: self.formats[slot] for own, slot in node.tensors} | types
            found[node] = Staged(node.program, formats, choices)
        return found

    @cached_property
    def kernels(self) -> dict[RunKernel, unit_rules.KernelToRun]:
        """The kernels as the rules of the unit run them. Raises FinchError "life cycle" for one that writes
        a tensor which it has by two names."""
        found: dict[RunKernel, unit_rules.KernelToRun] = {}
        for number, (node, staged) in enumerate(self.parts.items(), 1):
            of, own = dict(node.tensors), staged.signature
            slots = {name: of[script] for name, script in own.tensors.items()}
            slots |= {name: f"kernel{number}_{name}" for name in own.workspaces}
            held, written = [*slots.values()], [slots[name] for name in own.changed]
            if shared := [slot for slot in written if held.count(slot) > 1]:
                message = f"a kernel writes `{shared[0]}`, which it has by two names"
                raise FinchError("life cycle", message, node.span)
            levels, sets = staged.normalized.formats, (own.changed, own.declared)
            parts = staged.program, slots, levels, *sets, (*own.workspaces,)
            found[node] = unit_rules.KernelToRun(*parts)
        return found

    def signed(self) -> Signature:
        unit, formats = self.source, self.formats
        made: dict[str, Level] = {name: level_of(formats[name]) for name in unit.made}
        changed, declared, renewed = {*unit.made}, set[str](), set[str]()
        notes: list[Any] = []
        for node, kernel in self.kernels.items():
            own, slots = self.parts[node].signature, kernel.slots
            made |= {slots[name]: level for name, level in own.workspaces.items()}
            changed |= {slots[name] for name in own.changed}
            declared |= {slots[name] for name in own.declared}
            renewed |= {slots[name] for name in own.renewed if name in own.workspaces}
            notes += own.notes
        changed |= {name for group in unit.groups for name in group}
        told = {*unit.tensors, *unit.returned}
        exchanged = {name for group in unit.groups if told & {*group} for name in group}
        return Signature(
            {name: name for name in unit.tensors},
            made,
            (),
            unit.numbers,
            *(frozenset(changed), frozenset(declared), frozenset(renewed)),
            notes=tuple(dict.fromkeys(notes)),
            spans={},
            results=unit.results,
            exchanging=unit.exchanging,
            handed=frozenset({*unit.returned, *exchanged}),
        )

    def passes(self) -> list[tuple[str, Node]]:
        return [("unit", in_script(self.source.body))]

    @property
    def decisions(self) -> tuple[tuple[str, str], ...]:
        """Those of its kernels, each with its line."""
        found = []
        for node, staged in self.parts.items():
            where = f", line {node.span.line}" if node.span else ""
            found += [(name + where, what) for name, what in staged.decisions]
        return tuple(found)

    def run_rules(
        self, host: Host, tracer: Tracer | None, noted: Any = lambda rule: rule
    ) -> tuple[ir.Cell, ...]:
        seen: Any = host if tracer is None else Shielded(host)
        for bound in self.bounds:
            bound.enter(seen)
        unit, slots = self.source, {bound.name: bound for bound in self.bounds}
        body = unit_rules.body_of(
            *(unit, BodyNames(dict(self.types[0]), True), self._levels),
            slots=slots,
            fixed=frozenset(unit.fixed),
            kernels=self.kernels,
            kernel_rules=tuple(map(noted, rules(self.which_rules))),
            homes={name: seen.cell(const(n), "home") for n, name in enumerate(slots)},
        )
        try:
            table = tuple(map(noted, unit_rules.UNIT_RULES))
            unit_rules.run_unit(unit, body, seen, [*self._inputs.values()], table, tracer)
        finally:
            forget()
        results = [body.cells[name] for name in unit.results]
        return (*results, *(body.homes[n] for n in unit.exchanging))
