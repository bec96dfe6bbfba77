"""Accumulations: loops that do nothing but add up, or multiply, in one entry or one cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from finchlang.host import ir
from finchlang.host.rewrite import arrays, variables, walk
from finchlang.syntax.types import Type

#: what an accumulation by each operator may begin with; its parts may be combined in any order. Not so
#: products of floats, of which a part may overflow, or become 0, though the whole does not
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0}


@dataclass(frozen=True)
class Accumulation:
    """The statements of a loop that read and write what is accumulated, and the operator."""

    before: ir.Load | ir.Get
    after: ir.Store | ir.Set
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
    def variable(self) -> ir.Var:
        """The variable that what is accumulated is read into."""
        return self.before.variable


def accumulations(loop: ir.ForLoop) -> Iterator[Accumulation]:
    """The accumulations that stand directly in `loop`: `v = y[i]; t = v + e; y[i] = t`, or the like
    with a cell, where nothing else in the loop uses y, v and t, and i stays the same."""
    candidates = [s for s in loop.body.statements if isinstance(s, (ir.Load, ir.Get))]
    if candidates:
        facts = _Facts(loop)
        for before in candidates:
            found = facts.accumulation(before)
            if found is not None:
                yield found


class _Facts:
    """What stands in a loop: the statements by what they read or write, and the expressions by the
    variables in them."""

    def __init__(self, loop: ir.ForLoop):
        self.direct = {id(s) for s in loop.body.statements}
        self.changing = changing(loop)
        self.users: defaultdict[ir.Buffer | ir.Cell, list[ir.Stmt]] = defaultdict(list)
        self.uses: defaultdict[ir.Var, list[ir.Expr]] = defaultdict(list)
        for statement in walk(loop.body):
            for target in _targets(statement):
                self.users[target].append(statement)
            for expr in _expressions(statement):
                for variable in variables(expr):
                    self.uses[variable].append(expr)

    def accumulation(self, before: ir.Load | ir.Get) -> Accumulation | None:
        users = self.users[_targets(before)[0]]
        if len(users) != 2 or users[0] is not before or id(users[1]) not in self.direct:
            return None
        after = users[1]
        if isinstance(before, ir.Load):
            if not isinstance(after, ir.Store) or after.index is not before.index:
                return None
            if not self.changing.isdisjoint(variables(after.index)):
                return None
        elif not isinstance(after, ir.Set):
            return None
        value = after.value
        sum = value.definition or value if isinstance(value, ir.Var) else value
        if not isinstance(sum, ir.Op) or sum.name not in NEUTRAL or before.variable not in sum.args:
            return None
        if sum.name == "mul" and sum.type.is_float:
            return None
        if self.uses[before.variable] != [sum]:
            return None
        if isinstance(value, ir.Var) and self.uses[value] != [value]:
            return None
        return Accumulation(before, after, sum.name)


def changing(loop: ir.ForLoop | ir.WhileLoop) -> set[ir.Var]:
    """The variables that may have another value at each step of `loop`."""
    statements = walk(ir.Code((loop,)))
    return {
        s.variable
        for s in statements
        if isinstance(s, (ir.Bind, ir.Load, ir.Get, ir.Search, ir.ForLoop))
    }


def _targets(statement: ir.Stmt) -> tuple[ir.Buffer | ir.Cell, ...]:
    """What `statement` reads or writes."""
    return (statement.cell,) if isinstance(statement, (ir.Get, ir.Set)) else arrays(statement)


def uses(code: ir.Code, variable: ir.Var) -> list[ir.Expr]:
    """The expressions in `code` in which `variable` is used, as often as they stand there."""
    expressions = (e for statement in walk(code) for e in _expressions(statement))
    return [e for e in expressions if variable in variables(e)]


def _expressions(statement: ir.Stmt) -> Iterator[ir.Expr]:
    """The expressions that stand in `statement`, not those in the code nested in it."""
    for name in (
        "expr",
        "index",
        "value",
        "condition",
        "start",
        "stop",
        "key",
        "size",
        "bound",
        "low",
        "high",
    ):
        if isinstance(expr := getattr(statement, name, None), ir.Expr):
            yield expr
    yield from getattr(statement, "values", ())
