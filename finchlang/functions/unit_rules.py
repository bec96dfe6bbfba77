"""The rules for the statements of a unit, in one ordered table, with those for statements on numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from finchlang.base.errors import Bug
from finchlang.base.records import record
from finchlang.functions import unit as loop_ir
from finchlang.host import ir
from finchlang.host.construct import ZERO, compare, op
from finchlang.host.engine import Machine, Rule, Step, Tracer, rule
from finchlang.host.interface import Host, fail_unless
from finchlang.host.recording import ResidualHost
from finchlang.levels.level import Fiber, Level, Storage
from finchlang.levels.positions import positions
from finchlang.operators import body_rules
from finchlang.operators.operator_table import operator
from finchlang.operators.staged_body import StagedOperator, may_be_unset
from finchlang.rules import table
from finchlang.rules.base.state import State
from finchlang.syntax import nodes as ast
from finchlang.syntax.control_flow import check_values
from finchlang.syntax.traversal import substitute
from finchlang.syntax.types import Int64, Type
from finchlang.syntax.user_function import Operation
from finchlang.tensors.array_base import MAX_DIMENSION
from finchlang.tensors.bind import Bound

#: the types of the numbers of each kernel of a unit
Kernels = dict[loop_ir.RunKernel, dict[str, Type]]


@record(eq=False)
class KernelToRun:
    """A kernel of a unit in the form that its rules run: its program, the slot and the level of each of its
    tensors, those that it changes, and those that it declares and makes for itself."""

    program: ast.Node
    slots: Mapping[str, str]
    levels: Mapping[str, Any]
    changed: frozenset[str]
    declared: frozenset[str]
    own: tuple[str, ...]


@dataclass(eq=False)
class UnitBody(body_rules.FunctionBody):
    """What is static of a unit while it runs: the `formats` of its slots and their memory (`slots`), the
    slots of arrays that cannot take another size (`fixed`), its `kernels` and the rules that run these, and
    a cell for each slot with the number of the tensor that it holds (`homes`). Where types are found there
    are no slots, and the types of the kernels' numbers are noted in `found`."""

    formats: Mapping[str, Any] = field(kw_only=True)
    found: Kernels = field(default_factory=Kernels)
    slots: Mapping[str, Bound] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    kernels: Mapping[loop_ir.RunKernel, KernelToRun] = field(default_factory=dict)
    kernel_rules: tuple[Rule, ...] = ()
    homes: dict[str, ir.Cell] = field(default_factory=dict)

    @property
    def expressions(self) -> Mapping[type, Rule]:
        return UNIT_EXPRESSIONS


def body_of(
    unit: loop_ir.Unit, names: body_rules.BodyNames, formats: Mapping[str, Any], **more: Any
) -> UnitBody:
    """What is static of a unit; what it hands back is in cells."""
    row = operator(Operation("loop", unit.numbers, ast.Script((unit.body,))))
    assert isinstance(row, StagedOperator)
    changing = row.changing | {*unit.results}
    return UnitBody("loop", unit.numbers, changing, row.lookup, names, formats=formats, **more)


def run_unit(
    unit: loop_ir.Unit,
    body: UnitBody,
    host: Host,
    args: list[ir.Expr],
    rules: tuple[Rule, ...],
    tracer: Tracer | None = None,
) -> None:
    """Run a unit on these numbers, by the rules of UNIT_RULES; its numbers are in cells afterwards."""
    host.is_exact = True
    values = dict(zip(unit.numbers, args, strict=True))
    body.make_cells(host, values)
    mark, limit = host.cell(ZERO, "mark"), args[0] if unit.is_loop else None
    Machine(rules, tracer).run(unit.body, body_rules.BodyState(host, body, values, mark, limit))


def types_of(
    unit: loop_ir.Unit, formats: Mapping[str, Any], names: body_rules.BodyNames | None = None
) -> tuple[dict[str, Type], Kernels]:
    """The types of all numbers that a unit assigns, which `names` has also if it fails, and of those of its
    kernels, given the types of its arguments and the levels of its slots. Raises FinchError "type"
    for a name that has two types, or may have no value where it is used."""
    check_values(unit.body, unit.numbers, may_be_unset)
    args: list[ir.Expr] = [ir.Var(name, formats[name]) for name in unit.numbers]
    body = body_of(unit, names or body_rules.BodyNames(), formats)
    run_unit(unit, body, ResidualHost(), args, UNIT_RULES)
    return body.names.types, body.found


# ------------------------------------------------------------------------------------- statements


@rule("Kernel", says="The kernel runs.")
def kernel(machine: Machine, term: ast.Node, state: body_rules.BodyState) -> Step | None:
    """⟨numbers, s⟩ ⇒ n..., ⟨program[n...], kernel(s)⟩ → kernel(s')  ⟹  ⟨@finch program, s⟩ → s'

    The kernel's rules run it, in the memory of its slots."""
    if not isinstance(term, loop_ir.RunKernel):
        return None
    host, unit = state.host, state.body
    value = partial(body_rules.evaluate, machine, state=state)
    numbers = {own: host.let(value(expr), own) for own, expr in term.numbers}
    if not term.is_own:  # numbers of the script are data, also where they are known
        known = {own: expr for own, expr in numbers.items() if isinstance(expr, ir.Const)}
        numbers |= {own: host.get(host.cell(expr, own)) for own, expr in known.items()}
    unit.found[term] = {own: expr.type for own, expr in numbers.items()}
    own = unit.kernels.get(term)
    if own is None:  # types are being found
        return ast.EMPTY, state
    fibers = {
        name: fiber_now(host, unit.slots[slot], own.levels[name], name in own.changed)
        for name, slot in own.slots.items()
    }
    values: dict[ast.Node, ast.Node] = {ast.Variable(n): ast.Value(v) for n, v in numbers.items()}
    program, within = substitute(own.program, values), machine.by(unit.kernel_rules)
    before = State.before(host, fibers, own.own)
    host.is_exact = False
    host.apart(lambda: drop(within.premise("Kernel", term, program, before)))
    host.is_exact = True
    message = "`{}` cannot take another size"
    for slot in {own.slots[name] for name in own.declared} & unit.fixed:
        bound = unit.slots[slot]
        for cell, size in zip(bound.outputs, bound.inputs[: bound.level.order], strict=False):
            is_same = compare("eq", host.get(cell), size)
            fail_unless(host, is_same, "dimension", message.format(slot), (), term.span)
    return ast.EMPTY, state


def drop(_: State) -> None:
    """Discard the state of a kernel, which is of no use outside."""


@rule("Make", says="A new tensor is made.")
def make(machine: Machine, term: ast.Node, state: body_rules.BodyState) -> Step | None:
    """⟨sizes, s⟩ ⇒ n..., 0 ≤ n, ⟨declare, s⟩ → s'  ⟹  ⟨slot = Tensor(format, sizes...), s⟩ → s'

    A tensor that was given to the unit, and is in the slot, goes to where it rests before."""
    if not isinstance(term, loop_ir.Make):
        return None
    host, unit = state.host, state.body
    message = f"a size must be in 0..{MAX_DIMENSION}, not {{}}"
    for size in term.sizes:
        found = body_rules.evaluate(machine, size, state)
        fits = op("and", compare("le", ZERO, found), compare("le", found, MAX_DIMENSION))
        fail_unless(host, fits, "dimension", message, (found,), term.span)
    numbers = {name: number for number, name in enumerate(unit.slots)}
    for given, rest in term.rests if unit.slots else ():
        is_here = compare("eq", host.get(unit.homes[term.slot]), numbers[given])
        move = loop_ir.ExchangeSlots(term.slot, rest, span=term.span)
        host.branch(is_here, partial(body_rules.perform, machine, move, state))
    return term.declare, state


@rule("Exchange", says="Two tensors change places.")
def exchange(machine: Machine, term: ast.Node, state: body_rules.BodyState) -> Step | None:
    """⟨a, b = b, a, s⟩ → s[a ↦ s(b), b ↦ s(a)]: memory, counters, sizes and homes of two slots"""
    if not isinstance(term, loop_ir.ExchangeSlots):
        return None
    host, unit = state.host, state.body
    if not unit.slots:
        return ast.EMPTY, state
    a, b = unit.slots[term.slot], unit.slots[term.other]
    for one, two in zip(a.buffers, b.buffers, strict=True):
        host.exchange(one, two)
    homes = unit.homes[term.slot], unit.homes[term.other]
    for first, second in (*zip(a.outputs, b.outputs, strict=True), homes):
        content, more = host.get(first), host.get(second)
        host.set(first, more)
        host.set(second, content)
    return ast.EMPTY, state


@rule("Fail", says="The program stops with an error.")
def fail(machine: Machine, term: ast.Node, state: body_rules.BodyState) -> Step | None:
    """⟨error(message), s⟩ → error"""
    if not isinstance(term, loop_ir.RaiseError):
        return None
    message = term.message.replace("{", "{{").replace("}", "}}")
    state.host.fail("type", message, (), term.span)
    return ast.EMPTY, state


#: no two apply to the same term; what is on numbers comes last, with what is an expression alone
UNIT_RULES: tuple[Rule, ...] = (kernel, make, exchange, fail, *body_rules.STATEMENTS)
#: all rules, of units and of kernels; those for expressions on numbers are called as the kernels' are
ALL = (*UNIT_RULES, *table.ALL)


# ------------------------------------------------------------------------------------ expressions


@rule("Entry", says="The entry is read.")
def entry(
    machine: Machine, term: loop_ir.ScalarValue, state: body_rules.BodyState, given: ir.Expr
) -> ir.Expr:
    """⟨x[], s⟩ → s(x); an entry that a kernel reads is in a scalar of its own"""
    unit, before = state.body, term.before
    level: Level = unit.formats[term.slot]
    if before is not None:
        state.host.branch(given, partial(body_rules.perform, machine, before, state))
    if not unit.slots:
        return ir.Var(term.slot, level.element_type)
    found: Any = level.read(state.host, unit.slots[term.slot].fiber)
    if not isinstance(found, ast.Value):
        raise Bug(f"{term.slot} is no scalar")
    return found.expr


@rule("Size", says="The size of the tensor is read.")
def size(
    machine: Machine, term: loop_ir.SlotSize, state: body_rules.BodyState, given: ir.Expr
) -> ir.Expr:
    """⟨size(x, mode), s⟩ → n of s(x)"""
    if not state.body.slots:
        return ir.Var(term.slot, Int64)
    bound = state.body.slots[term.slot]
    cells = bound.outputs
    found: ir.Expr = bound.inputs[term.mode]
    return state.host.get(cells[term.mode], lower=ZERO) if cells else found


@rule("Stored", says="The stored positions are counted.")
def stored(
    machine: Machine, term: loop_ir.StoredCount, state: body_rules.BodyState, given: ir.Expr
) -> ir.Expr:
    """⟨countstored(x), s⟩ → how many positions s(x) has"""
    if not state.body.slots:
        return ir.Var(term.slot, Int64)
    bound = state.body.slots[term.slot]
    return positions(state.host, fiber_now(state.host, bound, bound.level, False))


UNIT_EXPRESSIONS: dict[type, Rule] = {
    **body_rules.EXPRESSIONS,
    loop_ir.ScalarValue: entry,
    loop_ir.SlotSize: size,
    loop_ir.StoredCount: stored,
}


def fiber_now(host: Host, bound: Bound, level: Any, is_written: bool) -> Fiber:
    """The fiber of a slot's memory as it is now, for a kernel that reads or writes it."""
    fiber = bound.fiber_of(level)
    if not bound.written:
        return fiber
    sizes = bound.outputs[: bound.level.order]
    dims = tuple(host.get(cell, lower=ZERO) for cell in sizes)
    store = fiber.store if is_written else _as_read(fiber.store)
    return replace(fiber, store=replace(store, dims=dims))


def _as_read(store: Storage) -> Storage:
    """The store as of a tensor that is only read, without the counters that follow from its arrays."""
    counters = store.counters if store.level.is_leaf else {}
    child = store.child_store and _as_read(store.child_store)
    return replace(store, counters=counters, child_store=child, size_cells=(), is_whole=False)
