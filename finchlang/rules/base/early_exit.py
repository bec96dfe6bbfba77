"""Early exit: a loop is left where no step of it changes what it reduces into (Finch'25 3.3.3, Table 4;
SparseArray'21 section 7.2). Finch'25 Fig 14 has no exit.

A short-circuit scalar is tested before each step of a loop that reduces into it; the rest of the loop goes
on without the reduction. With several such scalars the loop is left when the last is decided; until then
each reduction is guarded. Any other place is tested after steps, and only in loops that do nothing but
reduce into it, so that the first step always runs with all its checks. Counted loops test after blocks of
steps that grow in length, and so are vectorised as without a test: if none ends the loop, one over
4,000,000 Bools takes 1.01 times as long, 2,000 loops over 2,000 Bools 1.13 times.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, ClassVar

from finchlang.algebra.bounds import at_most
from finchlang.algebra.expression_types import may_fail, type_of
from finchlang.algebra.simplify import empty_extent, name_of, simplify
from finchlang.host import construct as code
from finchlang.host.engine import Machine, Step, rule
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.level import UPDATE, Fiber, Level, Storage
from finchlang.operators.build import LARGEST
from finchlang.operators.operator_table import operator
from finchlang.rules.base.context import Context, accesses_in, bounded, with_bounds
from finchlang.rules.base.state import State, drop, if_not_empty
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool
from finchlang.text.print import pretty

BREAK = "Break"
#: how many steps come before the first test, and the factor by which each next block is longer
_FIRST, _TIMES = 64, 64
#: for types of more bits only the annihilator 0 is tested for: any other value is unlikely to come up
_NARROW = 16


@dataclass(frozen=True)
class Place(Level):
    """What a loop reduces into: a scalar or an element. It is decided, that is, no update changes it any
    more, once it holds one of `values`; if `are_units`, once it holds anything else. Read as a level, in
    the condition of a guard, it gives whether it may still change."""

    tensor: ast.Node
    fiber: Fiber
    values: tuple[Any, ...]
    are_units: bool

    is_leaf: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"undecided({pretty(self.tensor)})"

    def holds_it(self, host: Host) -> Expr:
        """Whether the place is decided now. A fill that would decide it counts only after an update has
        stored it."""
        level, dirty, how = self.fiber.level, self.fiber.dirty, "ne" if self.are_units else "eq"

        def is_decided(value: Expr) -> Expr:
            values = [code.const(v, level.element_type) for v in self.values]
            return code.disjunction(*(code.compare(how, value, v) for v in values))

        found: Any = level.read(host, self.fiber)
        kind = level.element_type
        value = found.expr if isinstance(found, ast.Value) else code.const(found.value, kind)
        if dirty is None or is_decided(code.const(level.fill.value, kind)) == code.FALSE:
            return is_decided(value)
        return code.conjunction(host.get(dirty), is_decided(value))

    def keep_undecided(self, host: Host) -> None:
        """Set a scalar that is not decided to the only value that it can have, so that this is known from
        here on; a float may be -0.0, too."""
        counters, type = self.fiber.store.counters, self.fiber.level.element_type
        if self.are_units and "value" in counters and not type.is_float:
            host.set(counters["value"], code.const(self.values[0], type))

    def read(self, host: Host, fiber: Fiber) -> ast.Node:
        return ast.Value(code.op("not", self.holds_it(host)))


# --------------------------------------------------------------------------- what a loop is left by


@trees.remembered
def _reductions(body: ast.Node) -> dict[ast.Node, list[ast.Assign]]:
    """The updates in a loop's body, by tensor; without tensors that the body declares, since these start
    anew in each step."""
    found: dict[ast.Node, list[ast.Assign]] = {}
    inside = [node for node, _ in trees.statements(body)]
    for node in inside:
        if isinstance(node, ast.Assign):
            found.setdefault(node.target.tensor, []).append(node)
    declared = [node.tensor for node in inside if isinstance(node, ast.Declare)]
    return {tensor: updates for tensor, updates in found.items() if tensor not in declared}


def places(machine: Machine, term: ast.Loop, state: State) -> list[Place]:
    """The places that end the loop once all of them are decided: the short-circuit scalars that it reduces
    into, or else the only place that it reduces into. Without the rule Break only scalars that take no
    NaN any more: elsewhere an update of what is decided changes nothing."""
    reductions = _reductions(term.body)
    found = [_place(tensor, state, updates) for tensor, updates in reductions.items()]
    decided = [place for place in found if place is not None]
    scalars = [place for place in decided if place.fiber.level.is_short_circuit]
    if BREAK not in machine.names:
        return [place for place in scalars if place.fiber.level.element_type.is_float]
    is_all = len(reductions) == 1 and decided and not scalars
    return decided if is_all and _is_pure(term.body, decided[0].tensor) else scalars


def _place(tensor: ast.Node, state: State, updates: list[ast.Assign]) -> Place | None:
    """The place that all these updates reduce into; None if no value of it decides them."""
    fiber: Any = state.tensors.get(tensor.name) if isinstance(tensor, ast.Variable) else tensor
    row = operator(updates[0].op)
    if row is None or any((a.target, a.op) != (updates[0].target, updates[0].op) for a in updates):
        return None
    if not isinstance(fiber, Fiber) or fiber.mode != UPDATE or not fiber.level.is_leaf:
        return None
    level, type = fiber.level, fiber.level.element_type
    if updates[0].target.indices or (level.is_structured and not level.is_short_circuit):
        return None
    if row.overrides and row.identity is not None and not row.lazy_missing:
        return Place(tensor, fiber, (type.wrap(row.identity.value(type)),), True)
    # For floats the laws of the table are about structure only, and do not hold beside NaN. Laws declared
    # by a function of the script are taken at their word, and so is a short-circuit scalar.
    is_meant = level.is_short_circuit or row.is_staged
    if type.kind == "pair" or (type.is_float and not is_meant):
        return None
    types = {type_of(ast.Call(a.op, (a.target, a.value))) or type for a in updates}
    zeros = []
    for law in row.annihilators:
        zero = law.value(type)
        if zero is None or not law.is_about(1) or law.result is not None:
            continue
        is_likely = is_meant or type.bits <= _NARROW or type.wrap(zero) == 0
        # where the operator computes in a wider type, its annihilator may not be a value of this one
        if is_likely and all(law.value(wide) == type.wrap(zero) for wide in types):
            zeros.append(type.wrap(zero))
    return Place(tensor, fiber, tuple(zeros), False) if zeros else None


def _is_pure(body: ast.Node, tensor: ast.Node) -> bool:
    """Whether steps can be left out unnoticed: none after the first can fail, and none reads `tensor`."""
    updates = 0
    for node in trees.walk(body):
        if isinstance(node, (ast.Declare, ast.Freeze, ast.Thaw)):
            return False
        if isinstance(node, ast.Loop) and (
            any(trees.accesses(node.extent)) or ast.Index in dict(trees.names(node.extent))
        ):
            return False
        if isinstance(node, ast.Access) and any(any(trees.accesses(i)) for i in node.indices):
            return False
        updates += isinstance(node, ast.Assign)
    return sum(a.tensor == tensor for a in trees.accesses(body)) == updates and not may_fail(body)


# -------------------------------------------------------------------------------------- the rule


@rule(
    BREAK,
    steps=(BREAK,),
    says="The loop over {index} stops as soon as its result cannot change any more.",
)
def early_exit(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨⟨decided(op, e(s)), t⟩⟩ ⇒ true  ⟹
    ⟨loop(i, extent(a, b), E[assign(access(s), op, rhs)]), s⟩ → ⟨loop(i, extent(a, b), E[block()]), s⟩

    where no `op` changes the value of s any more. The rules that take the steps of a loop ask before each
    of them if s is a short-circuit scalar, else after (`Exit`). Of several scalars, once:
    loop(i, ext, E[assign(access(s), op, rhs), ...]) →
    loop(i, ext, E[sieve(!decided(op, e(s)), assign(access(s), op, rhs)), ...])"""
    if not isinstance(term, ast.Loop) or bounded(term) is None or len(_reductions(term.body)) < 2:
        return None  # one alone needs no guard
    found = places(machine, term, state)
    fibers = [a.tensor for a in accesses_in(term.body) if isinstance(a.tensor, Fiber)]
    guarded = {fiber.level.tensor for fiber in fibers if isinstance(fiber.level, Place)}
    apart = [p for p in found if len(found) > 1 and p.tensor not in guarded]
    guards = {p.tensor: ast.Access(Fiber(Storage(p, {}, {})), (), type=Bool) for p in apart}
    if not guards:
        return None

    def guard(node: ast.Assign) -> ast.Node:
        return ast.Sieve(guards[node.target.tensor], node, span=node.span)

    rest = trees.replace(term, body=_changed(term.body, guards, guard))
    machine.tell(BREAK, lambda: (term, rest))
    return rest, state


def _changed(
    body: ast.Node, tensors: Container[ast.Node], change: Callable[[ast.Assign], ast.Node]
) -> ast.Node:
    """`body` with `change` applied to each reduction into one of `tensors`."""

    def visit(node: ast.Node) -> ast.Node:
        return (
            change(node) if isinstance(node, ast.Assign) and node.target.tensor in tensors else node
        )

    return trees.rewrite_bottom_up(visit, body)


class Exit:
    """How a loop from `first` on is left early: its steps call `ask`, and `finish` does what remains. Where
    the host takes all steps in a loop, the cell `going` says whether the loop goes on, and the cell `at`,
    made only if something remains to be done without the reductions, from where."""

    def __init__(self, machine: Machine, term: ast.Loop, state: State, first: Expr | None = None):
        self.machine, self.term, self.state, self.host = machine, term, state, state.host
        self.places = places(machine, term, state)
        self.asks_first = any(place.fiber.level.is_short_circuit for place in self.places)
        gone = {place.tensor for place in self.places}
        #: the loop's body without the reductions
        self.body = simplify(_changed(term.body, gone, lambda _: ast.EMPTY)) if gone else term.body
        self.going = self.at = None
        if self.places and first is not None:
            self.going = self.host.cell(self._goes_on() if self.asks_first else code.TRUE, "going")
            self.at = None if self.body == ast.EMPTY else self.host.cell(first, "left")

    def _goes_on(self) -> Expr:
        held = [place.holds_it(self.host) for place in self.places]
        return code.op("not", code.conjunction(*held))

    def holds(self) -> Expr:
        """Whether the loop goes on, as the last `ask` found."""
        return code.TRUE if self.going is None else self.host.get(self.going)

    def ask(self, stop: Expr) -> None:
        """Test the places, after a step up to the coordinate `stop`."""
        if self.going is not None:
            self.host.set(self.going, self._goes_on())
        if self.at is not None:
            self.host.set(self.at, code.add(stop, 1))

    def loop(self, first: Expr, last: Expr, step: Callable[[Expr], tuple[Expr, Expr]]) -> None:
        """Take steps from `first` to `last`, until the loop is left. A step returns where the next one
        begins, and the last coordinate it has done."""
        host, at = self.host, self.host.cell(first, "at")

        def taken() -> None:
            if self.asks_first and len(self.places) == 1:
                self.places[0].keep_undecided(host)
            after, stop = step(host.get(at, lower=first, upper=last))
            host.set(at, after)
            self.ask(stop)

        is_near = at_most(last, code.const(LARGEST))  # else the least may come behind the greatest

        def is_left() -> Expr:
            i = host.get(at)
            begun = code.TRUE if is_near else code.compare("le", first, i)
            return code.conjunction(begun, code.compare("le", i, last), self.holds())

        host.loop(is_left, taken)

    def finish(self, last: Expr) -> None:
        """Do what remains of a loop up to `last`, without the reductions, if it was left."""
        if self.at is not None:
            start = self.host.get(self.at)
            has_more = code.compare("le", start, last)
            was_left = code.conjunction(code.op("not", self.holds()), has_more)
            left = with_bounds(self.term, start, last)
            self.host.branch(was_left, lambda: drop(self.machine.run(self.rest(left), self.state)))
        elif self.places and not (self.machine.one_by_one and self.machine.holds(self.holds())):
            self.rest(self.term)

    def leaves(self, left: ast.Node, has_begun: bool) -> bool:
        """Whether the loop is left before or (`has_begun`) after its first step, where steps are taken one
        by one."""
        if not self.places or has_begun == self.asks_first or not isinstance(left, ast.Loop):
            return False
        start, stop = Context(left, ()).region
        is_left = code.conjunction(code.compare("le", start, stop), code.op("not", self._goes_on()))
        return not at_most(stop, start) and self.machine.holds(is_left)

    def rest(self, left: ast.Node) -> ast.Node:
        """What the step Break leaves of a loop: the same loop without the reductions."""
        rest = ast.EMPTY if self.body == ast.EMPTY else trees.replace(left, body=self.body)
        self.machine.tell(BREAK, lambda: (left, rest))
        return rest


# ------------------------------------------------------------------------------ the steps of a loop


def first_step(
    machine: Machine,
    term: ast.Loop,
    state: State,
    at: str,
    step: Callable[[Expr, ast.Loop], ast.Node],
) -> ast.Node:
    """What is left of a loop after its first step, where steps are taken one by one; if the loop is left
    before or after that step, its rest without the reductions."""
    (first, last), host = Context(term, ()).region, state.host
    if not machine.holds(code.compare("le", first, last)):
        machine.tell("Simplify", lambda: (term, ast.EMPTY), law=name_of(empty_extent))
        return ast.EMPTY
    exit = Exit(machine, term, state)
    if exit.leaves(term, False):
        return exit.rest(term)
    left = step(host.get(host.cell(first, at), lower=first, upper=last), term)
    loop = left.body if isinstance(left, ast.Sieve) else left
    if not exit.leaves(loop, True):
        return left
    if loop is not left:
        machine.tell("SieveTrue", lambda: (left, loop))
    return exit.rest(loop)


def in_regions(
    machine: Machine, name: str, term: ast.Loop, state: State, region: Callable[[Expr], Expr]
) -> ast.Node:
    """Take the steps `name` of a loop, until it is left: `region(start)` takes one, and returns the last
    coordinate of its region. Where steps are taken one by one only the first is, and the result is the loop
    over what follows."""
    first, last = Context(term, ()).region

    def step(start: Expr, before: ast.Node | None = None) -> tuple[ast.Node, Expr]:
        stop = region(start)
        left = ast.EMPTY if at_most(last, stop) else with_bounds(term, code.add(stop, 1), last)
        machine.tell(name, lambda: (before or with_bounds(term, start, last), left), start)
        return left, stop

    def taken(start: Expr) -> tuple[Expr, Expr]:
        stop = step(start)[1]
        return code.add(stop, 1), stop

    if at_most(last, first):  # at most one coordinate
        if_not_empty(state.host, first, last, lambda: drop(step(first)))
    elif machine.one_by_one:
        return first_step(machine, term, state, "at", lambda start, before: step(start, before)[0])
    else:
        exit = Exit(machine, term, state, first)
        exit.loop(first, last, taken)
        exit.finish(last)
    return ast.EMPTY


def count(exit: Exit, first: Expr, last: Expr, step: Callable[[Expr], Expr], name: str) -> None:
    """Take the steps of a loop at first..last, until it is left; a step returns the coordinate it has done.
    A test after steps is made after blocks of them, or after each step if the body has loops."""
    host = exit.host
    if exit.going is None:
        host.count(first, last, lambda q: drop(step(q)), name)
    elif exit.asks_first or any(trees.find_all(exit.term.body, ast.Loop)):
        exit.loop(first, last, lambda q: (code.add(q, 1), step(q)))
    else:
        more = host.cell(code.const(_FIRST - 1), "more")

        def block(start: Expr) -> tuple[Expr, Expr]:
            length = host.get(more)
            stop = code.add(start, length)
            has_some = code.compare("lt", start, stop)
            is_within = code.op("and", has_some, code.compare("le", stop, last))
            stop = host.let(code.op("select", is_within, stop, last), "stop", upper=last)
            host.count(start, stop, lambda q: drop(step(q)), name)
            host.set(more, code.op("mul", length, _TIMES))
            return code.add(stop, 1), stop

        exit.loop(first, last, block)
