"""Early break: loops that reduce into short-circuit scalars (Finch'25 3.3.3, Table 4).

Such a loop asks before each of its steps whether a scalar holds a value that the reduction's
operator no longer changes. From there on the loop is run without the reduction; usually this leaves
nothing to do and the loop ends. What the loop does besides goes on as before.

For more than two scalars there would be a loop for every order in which they may be decided. Their
reductions are guarded instead: each is left out from when its scalar is decided, and the loop ends
with the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from finchlang.algebra import operator
from finchlang.host.fold import add, compare, conjunction, const, op
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.normalize.types import type_of
from finchlang.rules.context import accesses_in, bounded, with_bounds
from finchlang.rules.engine import Machine, State, Step, drop, if_not_empty, rule
from finchlang.rules.leaving import asked_after
from finchlang.rules.prove import at_most
from finchlang.rules.simplify import simplify
from finchlang.syntax import (
    EMPTY,
    Access,
    Assign,
    Call,
    Declare,
    Loop,
    Node,
    Sieve,
    Value,
    Variable,
)
from finchlang.tensors.level import UPDATE, Fiber, Level, Storage
from finchlang.types import Bool
from finchlang.walk import names, replace, rewrite_bottom_up, walk

#: `region(start)` does a part of a loop and gives where that ends
Region = Callable[[Expr], Expr]
#: `rest(term, start)` does what is left of a loop, of which `term` is left, from `start` on
Rest = Callable[[Loop, Expr], None]


#: the name of the rule
BREAK = "Break"


@dataclass(frozen=True)
class Trigger:
    """A short-circuit scalar that a loop reduces into: `is_decided` is a condition on its value."""

    name: Variable
    fiber: Fiber
    is_decided: Callable[[Expr], Expr]

    def condition(self, host: Host) -> Expr:
        return self.is_decided(host.get(self.fiber.store.counters["value"]))

    def guard(self) -> Access:
        """Whether the scalar is not decided, as an expression of the program."""
        return Access(Fiber(Storage(_Undecided(self), {}, {}), ()), (), type=Bool)


@dataclass(frozen=True)
class _Undecided(Level):
    """What stands in a guard: it is read as whether its scalar is not decided now."""

    trigger: Trigger

    is_leaf: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"undecided({self.trigger.name.name})"

    def read(self, host: Host, fiber: Fiber) -> Node:
        return Value(op("not", self.trigger.condition(host)))


def triggers(machine: Machine, term: Loop, state: State) -> list[Trigger]:
    """The short-circuit scalars that one step of a loop may decide for all that follow."""
    if BREAK not in machine.names:
        return []
    scalars = {
        name: fiber
        for kind, name in names(term.body)
        if kind is Variable and isinstance(fiber := state.tensors.get(name), Fiber)
        if fiber.level.is_short_circuit and fiber.mode == UPDATE
    }
    if not scalars:
        return []
    reductions: dict[str, list[Assign]] = {}
    inner: set[str] = set()  # those that each step declares anew
    for node in walk(term.body):
        if isinstance(node, Declare):
            inner.add(node.tensor.name)
        elif isinstance(node, Assign) and isinstance(node.target.tensor, Variable):
            reductions.setdefault(node.target.tensor.name, []).append(node)
    found: list[Trigger] = []
    for name, assigns in reductions.items():
        if name in scalars and name not in inner:
            decided = _decided(assigns, scalars[name])
            if decided is not None:
                found.append(Trigger(Variable(name), scalars[name], decided))
    return found


def _decided(reductions: list[Assign], fiber: Fiber) -> Callable[[Expr], Expr] | None:
    """When none of the reductions changes the value any more, or None if that never is."""
    first = reductions[0]
    row = operator(first.op)
    if row is None or any(r.op != first.op for r in reductions):
        return None
    own = fiber.level.element_type
    if row.overrides and row.identity is not None:
        unit = own.wrap(row.identity.value(own))
        return lambda value: compare("ne", value, const(unit, own))
    # of the laws that there are of the value so far, one alone is asked at each step
    laws = [law for law in row.annihilators if law.is_about(1) and law.result is None]
    if len(laws) != 1:
        return None
    # where the operator works on a wider type, its annihilator may be no value of the scalar's
    types = [type_of(Call(r.op, (r.target, r.value))) or own for r in reductions]
    found = laws[0].value(own)
    if found is None or any(laws[0].value(type) != own.wrap(found) for type in types):
        return None
    zero = own.wrap(found)
    return lambda value: compare("eq", value, const(zero, own))


def without(body: Node, group: list[Trigger]) -> Node:
    """What is left of a loop's body without its assignments to some scalars."""
    names = {trigger.name for trigger in group}

    def cut(node: Node) -> Node:
        is_reduction = isinstance(node, Assign) and node.target.tensor in names
        return EMPTY if is_reduction else node

    return simplify(rewrite_bottom_up(cut, body))


#: up to this many scalars leave a loop one by one, in any order
_FEW = 2


@rule(BREAK, steps=(BREAK,))
def early_break(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨decided(op, e(s)), t⟩⟩ ⇒ true  ⟹
    ⟨loop(i, extent(a, b), E[assign(access(s), op, rhs)]), s⟩ → ⟨loop(i, extent(a, b), E[block()]), s⟩

    s being a short-circuit scalar whose value no `op` changes any more. It is asked before each step
    of a loop, by the rules that take the steps (`run_regions`). For more than two scalars, once:
    loop(i, ext, E[assign(access(s), op, rhs)]) →
    loop(i, ext, E[sieve(!decided(op, e(s)), assign(access(s), op, rhs))])"""
    if bounded(term) is None:
        return None
    assert isinstance(term, Loop)
    found = triggers(machine, term, state)
    if len(found) <= _FEW:
        return None
    guards = {trigger.name: trigger.guard() for trigger in found}
    known = [a.tensor.level for a in accesses_in(term.body) if isinstance(a.tensor, Fiber)]
    for level in known:
        if isinstance(level, _Undecided):
            guards.pop(level.trigger.name, None)
    if not guards:
        return None

    def guard(node: Node) -> Node:
        if isinstance(node, Assign) and node.target.tensor in guards:
            return Sieve(guards[node.target.tensor], node, span=node.span)
        return node

    rest = replace(term, body=rewrite_bottom_up(guard, term.body))
    machine.tell(BREAK, lambda: (term, rest))
    return rest, state


def _grouped(found: list[Trigger]) -> list[list[Trigger]]:
    """What leaves a loop together: each of a few scalars for itself, many when the last is decided."""
    return [[trigger] for trigger in found] if len(found) <= _FEW else [found]


def run_regions(
    machine: Machine,
    term: Loop,
    state: State,
    first: Expr,
    last: Expr,
    region: Region,
    rest: Rest | None = None,
) -> Node:
    """Run a loop as one `region` after the other, from `first` to `last`, until scalars are decided;
    then `rest`, which runs what is left of the loop over start..last if it is not given. Gives what is
    left to run: where steps are taken one by one, that is the loop after its first region."""
    host = state.host
    if at_most(last, first):  # at most one coordinate
        if_not_empty(state.host, first, last, lambda: drop(region(first)))
        return EMPTY
    waiting = _grouped(triggers(machine, term, state))
    cell = host.cell(first, "at")
    is_left = asked_after(machine, term, state)

    def again(left: Loop, start: Expr) -> None:
        machine.run(with_bounds(left, start, last), state)

    def leave(group: list[Trigger], start: Expr) -> None:
        body = without(term.body, group)
        left = Loop(term.index, term.extent, body, span=term.span)
        after = EMPTY if body == EMPTY else with_bounds(left, start, last)
        machine.tell(BREAK, lambda: (with_bounds(term, start, last), after), start)
        if body != EMPTY:
            (rest or again)(left, start)
        host.set(cell, add(last, 1))

    def attempt(k: int, start: Expr) -> None:
        if k < len(waiting):
            decided = conjunction(*(trigger.condition(host) for trigger in waiting[k]))
            host.branch(decided, lambda: leave(waiting[k], start), lambda: attempt(k + 1, start))
        else:
            host.set(cell, add(region(start), 1))
            is_left.ask()

    def goes_on() -> Expr:
        return conjunction(compare("le", host.get(cell), last), is_left.holds())

    def step() -> None:  # where the condition holds
        attempt(0, host.get(cell, lower=first, upper=last))

    if not machine.one_by_one or rest is not None:
        host.loop(goes_on, step)
        return EMPTY
    left = term
    if machine.holds(goes_on()):
        step()
        left = with_bounds(term, host.get(cell, lower=first), last)
        if machine.holds(goes_on()):
            return left
    is_done = machine.holds(compare("lt", last, host.get(cell)))
    name, law = ("Simplify", "empty extent") if is_done else (BREAK, "")
    machine.tell(name, lambda: (left, EMPTY), law=law)
    return EMPTY
