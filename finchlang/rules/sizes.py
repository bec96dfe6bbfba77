"""A derived rule: of sizes that are found equal, the one that most tensors have stands for all."""

from __future__ import annotations

from collections import Counter

from finchlang.host.fold import const
from finchlang.host.ir import Const, Expr
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
    of that is then known here. Not where b or d is a number: an index that is known may decide
    what is stored."""
    if not isinstance(term, Define) or not isinstance(term.value, Call):
        return None
    if term.value.op != Variable("meet") or term.variable.name in state.declared:
        return None
    sizes = Counter(d for tensor in state.tensors.values() for d in getattr(tensor, "dims", ()))
    lasts = [_last(part, state) for part in term.value.args]
    counts = [sizes[last] for last in lasts]
    part = counts.index(max(counts))
    if not part or any(isinstance(lasts[k], Const) for k in (0, part)):
        return None
    return with_extent(machine, term, state, part)


def _last(part: Node, state: State) -> Expr | None:
    """The last value of an extent if it is an expression already or a number, or a tensor's size."""
    match part:
        case Extent(_, Literal(last)):
            return const(last)
        case Extent(_, Value(expr)):
            return expr
        case Extent(_, Call(Variable("size"), (Variable() as tensor, Literal(mode)))):
            return size(resolve(tensor, state), mode)
    return None
