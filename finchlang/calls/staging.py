"""A program normalised, bound and staged for formats, and run by the rules or by the evaluator of
residuals. Kernels found on disk are not staged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from finchlang.algebra.program_context import Format, ProgramContext
from finchlang.algebra.simplify import with_fills
from finchlang.algebra.sparsity_pattern import with_spaces, wrong_fills
from finchlang.base.disk_cache import DiskCache
from finchlang.base.locks import cached_property, keep
from finchlang.calls.arguments import ARRAYS, COUNTERS, SHAPE, Argument, in_use
from finchlang.calls.call import Made, Outcome, Values
from finchlang.calls.compile_cache import Signature
from finchlang.calls.workspace_choice import spans
from finchlang.host import interrupts, ir
from finchlang.host.engine import Machine, OneByOne, Rule, Tracer
from finchlang.host.executing import ExecutingHost, RememberingHost, run_residual
from finchlang.host.inspecting import Shielded
from finchlang.host.interface import Host
from finchlang.host.recording import ResidualHost
from finchlang.host.verify import verified
from finchlang.levels.level import Level
from finchlang.levels.workspace import POLICIES
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.jit import compile_residual
from finchlang.normalize.pass_list import Normalized, normalize, stages
from finchlang.rules.base.state import State
from finchlang.rules.table import rules
from finchlang.syntax.nodes import Declare, Define, Node, Thaw, Value, Variable
from finchlang.syntax.traversal import find_all, forget, statements, substitute, walk
from finchlang.syntax.types import Type, number
from finchlang.tensors import bind
from finchlang.tensors.memory import Memory

#: a residual of all rules may have so many statements, and so many for each node of its program
LEAST, EACH = 15_000, 100


class Staged:
    """A program for formats. `choices` are the rules, whether workspaces are inserted, and which of them
    have their second format. `signature` may be given if it is known. Raises as SpecializedKernel."""

    #: what its residual is called
    kind = "kernel"
    #: the types of results that are not among the formats
    result_types: Mapping[str, Type] = MappingProxyType({})

    def __init__(
        self,
        program: Node,
        formats: dict[str, Format],
        choices: tuple[str, bool, frozenset[str]],
        signature: Signature | None = None,
    ):
        self.source, self.formats = program, formats
        self.which_rules, self.insert_workspaces, self.exchanged = choices
        self._inputs: dict[str, ir.Var] = {}
        signature = signature or self.signed()
        self.signature, self.bounds = signature, signature.bounds(formats)
        for name in signature.numbers:
            self._inputs[name] = ir.Var(name, formats[name])  # type: ignore[arg-type]

    def signed(self) -> Signature:
        """The signature of the program."""
        return signature_of(self.normalized, self.program, self.formats)

    @property
    def decisions(self) -> tuple[tuple[str, str], ...]:
        """What passes decided and why, with the pass's name first."""
        return self.normalized.decisions

    @cached_property
    def normalized(self) -> Normalized:
        found = normalize(self.source, self.formats, self.insert_workspaces, self.exchanged)
        notes = wrong_fills(found.program, found.formats, found.tensors)
        return replace(found, notes=(*found.notes, *notes))

    @cached_property
    def program(self) -> Node:
        """The program that the rules run: the normal form with fills and spaces."""
        formats = self.normalized.formats
        return with_spaces(with_fills(self.normalized.program, formats), formats)

    def passes(self) -> list[tuple[str, Node]]:
        """The program after each pass of normalisation."""
        context = ProgramContext(dict(self.formats), self.insert_workspaces, self.exchanged)
        return list(stages(self.source, context))

    def run_rules(
        self, host: Host, tracer: Tracer | None, noted: Callable[[Rule], Rule] = lambda rule: rule
    ) -> tuple[ir.Cell, ...]:
        """Run the rules on the program, each wrapped by `noted`, over the memory of its tensors. Gives
        outputs that are not of tensors."""
        seen: Any = host if tracer is None else Shielded(host)
        for bound in self.bounds:
            bound.enter(seen)
        numbers: dict[Node, Node] = {Variable(n): Value(v) for n, v in self._inputs.items()}
        own, formats = self.bounds[len(self.signature.tensors) :], self.normalized.formats
        fibers = {b.name: b.fiber_of(formats[b.name]) for b in self.bounds}
        state = State.before(seen, fibers, [bound.name for bound in own])
        try:
            table = map(noted, rules(self.which_rules))
            Machine(table, tracer).run(substitute(self.program, numbers), state)
        finally:
            forget()
        return ()

    @property
    def most(self) -> int:
        """How many statements the residual may have."""
        return max(LEAST, EACH * sum(1 for _ in walk(self.source)))

    @cached_property
    def residual(self) -> ir.Residual:
        """The residual program: what is left to do once formats are known."""
        host = ResidualHost(self.most if self.which_rules == "all" else None)
        return verified(self.recorded(host, self.run_rules(host, None)))

    def recorded(self, host: ResidualHost, own: tuple[ir.Cell, ...] = ()) -> ir.Residual:
        """The residual program recorded by a host, with outputs of its own."""
        return ir.Residual(
            self.kind,
            tuple(buffer for bound in self.bounds for buffer in bound.buffers),
            tuple(v for bound in self.bounds for v in bound.inputs) + tuple(self._inputs.values()),
            tuple(cell for bound in self.bounds for cell in bound.outputs) + own,
            host.code(),
            procedures=host.procedures(),
        )

    def compile(self, cache: DiskCache | None, checked: bool) -> NativeKernel:
        return compile_residual(self.residual, cache, checked)

    def run(
        self, engine: str, arguments: Values, numbers: Values, tracer: Tracer | None, host: Any
    ) -> Outcome:
        """Run by the rules (`interpret`) or by the evaluator of residuals, on `host` if given."""
        arrays, inputs = self.copied(arguments, numbers)
        if engine == "residual":
            given = self.residual, arrays, inputs, host
            host, *made = interrupts.interruptible(lambda: run_residual(*given))
            return self._made(arguments, *made), host.steps
        # a tracer is told of every step, so nothing may be repeated from notes
        host = host or (RememberingHost() if tracer is None else ExecutingHost())
        frame = self.recorded(ResidualHost())  # the residual without code
        host.arrays |= dict(zip(frame.buffers, arrays, strict=True))
        for variable, value in zip(frame.inputs, inputs, strict=True):
            variable.held = value
        own = interrupts.interruptible(lambda: host.whole(lambda: self.run_rules(host, tracer)))
        cells = *frame.outputs, *own
        made = [host.arrays[b] for b in frame.buffers], [host.cells[c] for c in cells]
        return self._made(arguments, *made), host.steps

    def one_by_one(self, tracer: Tracer) -> Tracer:
        """The tracer, with loops that step one by one for it."""
        return OneByOne(tracer, ExecutingHost().evaluate)

    def copied(self, arguments: Values, numbers: Values) -> tuple[list[np.ndarray], list[Any]]:
        """The arrays in use and the inputs; the arrays of tensors that are written are copies."""
        arrays: list[np.ndarray] = []
        inputs: list[Any] = []
        for bound, argument in zip(self.bounds, arguments, strict=True):
            own = in_use(argument, bound.level, bound.name in self.signature.renewed)
            arrays += [a.copy() for a in own] if bound.written else own
            inputs += bound.given(argument[SHAPE], argument[COUNTERS])
        return arrays, [*inputs, *numbers]

    def _made(
        self, arguments: Sequence[Argument], arrays: list[np.ndarray], outputs: list[Any]
    ) -> Made:
        """The tensors that are written, by number, each with its new memory; of a unit its results, too."""
        made, signature = Made(), self.signature
        first = len(outputs) - len(signature.results) - len(signature.exchanging)
        types: dict[str, Any] = {**self.formats, **self.result_types}
        numbers = zip(signature.results, outputs[first:], strict=False)
        made.results = [number(value, types[name]) for name, value in numbers]
        slots, held = [bound.name for bound in self.bounds], outputs[first + len(made.results) :]
        made.homes = dict(zip(map(slots.index, signature.exchanging), held, strict=True))
        places = zip(self.bounds, bind.spans(self.bounds), arguments, strict=True)
        for at, (bound, (buffers, _, outs), argument) in enumerate(places):
            if bound.written:
                values, order = outputs[outs], bound.level.order
                both = zip(arrays[buffers], argument[ARRAYS], strict=True)
                # a dead workspace got no arrays
                own = [new if new.size or at in made.homes else old for new, old in both]
                memory = Memory(tuple(values[:order]), own, tuple(values[order:]))
                made.append((made.homes.get(at, at), memory))
        return made


#: programs staged for the last so many formats are kept: each engine and session runs the same ones
STAGED = 64

_staged: dict[Any, Staged] = {}


def staged(
    program: Node,
    formats: dict[str, Format],
    choices: tuple[str, bool, frozenset[str]],
    signature: Signature | None = None,
    kind: type[Staged] = Staged,
) -> Staged:
    """The program staged for these formats and choices, as in `Staged`: once for its place in a text."""
    if program.span is None:  # nodes compare without the places that errors tell
        return kind(program, formats, choices, signature)
    key = program, program.span, tuple(formats.items()), choices, tuple(POLICIES.items())
    found = _staged.get(key) or kind(program, formats, choices, signature)
    return keep(_staged, key, found, STAGED)


def signature_of(normalized: Normalized, program: Node, formats: dict[str, Format]) -> Signature:
    """The signature of `program`, the program of `normalized` with its types noted."""
    used = {n.name for n in find_all(program, Variable)}
    known = normalized.formats
    signature = Signature(
        dict(normalized.tensors),
        dict(normalized.workspaces),
        normalized.yields,
        tuple(n for n, t in known.items() if isinstance(t, Type) and n in used),
        frozenset(n.tensor.name for n in find_all(program, Declare, Thaw)),
        frozenset(n.tensor.name for n in find_all(program, Declare)),
        frozenset(),
        normalized.notes,
        spans(program, normalized),
    )
    anew = renewed(program, signature.levels(formats))
    return replace(signature, renewed=frozenset(anew))


def renewed(program: Node, formats: Mapping[str, Level]) -> set[str]:
    """The tensors that `program`, in normal form, always declares before it does anything else with them:
    their arrays may hold anything when it begins."""
    mentioned: set[str] = set()
    found: set[str] = set()
    for node, around in statements(program):
        if not all(isinstance(header, Define) for header in around):
            continue  # it may not be run
        step = node.value if isinstance(node, Define) else node
        if isinstance(step, Declare):
            name = step.tensor.name
            # whether declaring reads the arrays, to clear only the entries that were set
            looks_back = any(level.clears_entries for level in formats[name].levels())
            if name not in mentioned and not looks_back:
                found.add(name)
        mentioned.update(node.name for node in find_all(step, Variable))
    return found
