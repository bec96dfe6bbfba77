"""Reductions: statements that do nothing but add to an entry of an array (or multiply it, ...). A pass
keeps their sum in another place, or in several, and adds that to the entry when it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial, reduce

from finchlang.base.records import record
from finchlang.host import ir
from finchlang.host.construct import op
from finchlang.host.rewrite import arrays, expressions, nested, variables, walk

#: The neutral element of each operator whose reductions may be split; parts are combined in any order.
#: Products of floats are not among them: a part may overflow, or become 0, though the whole does not.
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0}


@record
class Reduction:
    """`v = y[i]; t = v + e; y[i] = t`: the first and the last of the statements, and the operator. Nothing
    else in the loop uses v or t."""

    before: ir.Load
    after: ir.Store
    operator: str

    @property
    def variable(self) -> ir.Var:
        """The variable that the old value is read into."""
        return self.before.variable

    @property
    def place(self) -> tuple[ir.Buffer, ir.Expr]:
        """Where the sum is kept."""
        return self.before.buffer, self.before.index


class Uses:
    """The statements of a loop by the array that they use, and its expressions by the variables in them."""

    def __init__(self, loop: ir.Stmt):
        self.loop = loop
        self.users: defaultdict[ir.Buffer, list[ir.Stmt]] = defaultdict(list)
        self._code: dict[int, ir.Code] = {}
        self._uses: defaultdict[ir.Var, list[ir.Expr]] = defaultdict(list)
        for code in (code for s in walk(ir.Code((loop,))) for code in nested(s)):
            for statement in code.statements:
                self._code[id(statement)] = code
                for target in arrays(statement):
                    self.users[target].append(statement)
                for expr in expressions(statement):
                    for variable in variables(expr):
                        self._uses[variable].append(expr)

    def reductions(self, target: ir.Buffer) -> list[Reduction] | None:
        """The reductions into `target`, or None if it is used in another way, too."""
        users = self.users[target]
        found = [self._reduction(*pair) for pair in zip(users[::2], users[1::2], strict=False)]
        known = [reduction for reduction in found if reduction is not None]
        return known if len(known) * 2 == len(users) else None

    def _reduction(self, before: ir.Stmt, after: ir.Stmt) -> Reduction | None:
        match before, after:
            case (ir.Load(variable, _, at), ir.Store(_, index, value)) if at is index:
                pass
            case _:
                return None
        sum = value.definition if isinstance(value, ir.Var) else value
        if not isinstance(sum, ir.Op) or sum.name not in NEUTRAL or variable not in sum.args:
            return None
        if (sum.name == "mul" and sum.type.is_float) or self._uses[variable] != [sum]:
            return None
        if isinstance(value, ir.Var) and self._uses[value] != [value]:
            return None
        if self._code[id(before)] is not self._code[id(after)]:
            return None
        return Reduction(before, after, sum.name)


def combined(
    operator: str, place: tuple[ir.Buffer, ir.Expr], parts: Sequence[ir.Get | ir.Load]
) -> list[ir.Stmt]:
    """Statements that read `parts` and add them to the entry at `place`."""
    reads = [ir.Load(ir.Var("total", place[0].type), *place), *parts]
    values: list[ir.Expr] = [read.variable for read in reads]
    return [*reads, ir.Store(*place, reduce(partial(op, operator), values))]
