"""What is known in an arm of a branch: that its condition holds, or does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from finchlang.host.construct import FALSE, TRUE, op
from finchlang.host.ir import Const, Expr, Op

#: conditions, and whether they hold
Facts = Mapping[Expr, bool]

_COMPLEMENTS = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def facts_of(condition: Expr, holds: bool) -> Iterator[tuple[Expr, bool]]:
    """What follows from a condition that holds, or that does not."""
    yield condition, holds
    match condition:
        case Op(name="not", args=(inner,)):
            yield from facts_of(inner, not holds)
        case Op(name="and" | "or" as name, args=parts) if (name == "and") is holds:
            for part in parts:
                yield from facts_of(part, holds)
        case Op(name=name, args=(one, other)) if name in _COMPLEMENTS and not one.type.is_float:
            yield op(_COMPLEMENTS[name], one, other), not holds


def reduced(condition: Expr, facts: Facts) -> Expr:
    """A condition as it is where the facts are known."""
    if isinstance(condition, Const) or not facts:
        return condition
    if condition in facts:
        return TRUE if facts[condition] else FALSE
    if isinstance(condition, Op) and condition.name in ("and", "or", "not"):
        return op(condition.name, *(reduced(part, facts) for part in condition.args))
    return condition
