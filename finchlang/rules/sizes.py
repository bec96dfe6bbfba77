"""A derived rule: of sizes that are found equal, the one that most tensors have stands for all."""

from __future__ import annotations

from collections import Counter

from finchlang.host.ir import Expr
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.expressions import resolve, size
from finchlang.rules.statements import with_extent
from finchlang.syntax import Call, Define, Extent, Literal, Node, Value, Variable


@rule("CommonSize", is_derived=True)
def common_size(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨define(i, meet(extent(a, b), ..., extent(c, d), ...), body), s⟩ →
    ⟨body[i ↦ extent(a, d)], s[b, ... ↦ d]⟩

    where d is the size of more tensors than b and the others are: Define takes b. Relies on: they
    are checked to be equal, as in Define. Loops before this one may run up to d, and what is known
    of that is then known here."""
    if not isinstance(term, Define) or not isinstance(term.value, Call):
        return None
    if term.value.op != Variable("meet") or term.variable.name in state.declared:
        return None
    sizes = Counter(d for tensor in state.tensors.values() for d in getattr(tensor, "dims", ()))
    counts = [sizes[_last(part, state)] for part in term.value.args]
    part = counts.index(max(counts))
    return with_extent(machine, term, state, part) if part else None


def _last(part: Node, state: State) -> Expr | None:
    """The last value of an extent if it is an expression already, or the size of a tensor."""
    match part:
        case Extent(_, Value(expr)):
            return expr
        case Extent(_, Call(Variable("size"), (Variable() as tensor, Literal(mode)))):
            return size(resolve(tensor, state), mode)
    return None
