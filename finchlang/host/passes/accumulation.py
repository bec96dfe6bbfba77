"""Accumulations: loops that do nothing but add up, or multiply, in one entry or one cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finchlang.host.ir import (
    Buffer,
    Cell,
    Code,
    Expr,
    For,
    Get,
    Let,
    Load,
    Op,
    Search,
    Set,
    Stmt,
    Store,
    Var,
    While,
)
from finchlang.host.walk import mentions, walk
from finchlang.types import Type

#: what an accumulation by each operator may begin with; its parts may be combined in any order
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0}


@dataclass(frozen=True)
class Accumulation:
    """The statements of a loop that read and write what is accumulated, and the operator."""

    before: Load | Get
    after: Store | Set
    operator: str

    @property
    def is_quick(self) -> bool:
        """Whether one step waits hardly at all for the one before."""
        return not self.type.is_float and self.operator != "mul"

    @property
    def type(self) -> Type:
        """The type of what is accumulated."""
        return self.before.variable.type

    @property
    def variable(self) -> Var:
        """The variable that what is accumulated is read into."""
        return self.before.variable


def accumulations(loop: For) -> Iterator[Accumulation]:
    """The accumulations that stand directly in `loop`: `v = y[i]; t = v + e; y[i] = t`, or the like
    with a cell, where nothing else in the loop uses y, v and t, and i stays the same."""
    for before in loop.body.statements:
        if isinstance(before, (Load, Get)):
            found = _accumulation(loop, before)
            if found is not None:
                yield found


def _accumulation(loop: For, before: Load | Get) -> Accumulation | None:
    target = _target(before)
    users = [s for s in walk(loop.body) if _target(s) is target]
    if len(users) != 2 or users[0] is not before or users[1] not in loop.body.statements:
        return None
    after = users[1]
    if isinstance(before, Load):
        if not isinstance(after, Store) or after.index is not before.index:
            return None
        if any(mentions(after.index, variable) for variable in changing(loop)):
            return None
    elif not isinstance(after, Set):
        return None
    value = after.value
    sum = value.definition or value if isinstance(value, Var) else value
    if not isinstance(sum, Op) or sum.name not in NEUTRAL or before.variable not in sum.args:
        return None
    if uses(loop.body, before.variable) != [sum]:
        return None
    if isinstance(value, Var) and uses(loop.body, value) != [value]:
        return None
    return Accumulation(before, after, sum.name)


def changing(loop: For | While) -> set[Var]:
    """The variables that may have another value at each step of `loop`."""
    statements = walk(Code((loop,)))
    return {s.variable for s in statements if isinstance(s, (Let, Load, Get, Search, For))}


def _target(statement: Stmt) -> Buffer | Cell | None:
    """What `statement` reads or writes."""
    return getattr(statement, "buffer", None) or getattr(statement, "cell", None)


def uses(code: Code, variable: Var) -> list[Expr]:
    """The expressions in `code` in which `variable` is used, as often as they stand there."""
    names = ("expr", "index", "value", "condition", "start", "stop", "key", "size")
    parts = [getattr(s, name, None) for s in walk(code) for name in names]
    parts += [value for s in walk(code) for value in getattr(s, "values", ())]
    return [e for e in parts if isinstance(e, Expr) and mentions(e, variable)]
