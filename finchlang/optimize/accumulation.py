"""Reductions: statements that do nothing but add to an entry or a cell (or multiply it, ...). A pass keeps
their sum in another place, or in several, and adds that to the original place when it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from finchlang.base.records import record
from finchlang.host import ir
from finchlang.host.construct import ZERO, add, compare, mul, op, sub
from finchlang.host.rewrite import arrays, changing, expressions, nested, variables, walk
from finchlang.syntax.types import Int64, Type

#: The neutral element of each operator whose reductions may be split; parts are combined in any order.
#: Products of floats are not among them: a part may overflow, or become 0, though the whole does not.
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0}


@record
class Reduction:
    """`v = y[i]; t = v + e; y[i] = t`, or the same with a cell: the first and the last of the statements,
    and the operator. Nothing else in the loop uses v or t."""

    before: ir.Load | ir.Get
    after: ir.Store | ir.Set
    operator: str

    @property
    def type(self) -> Type:
        return self.variable.type

    @property
    def variable(self) -> ir.Var:
        """The variable that the old value is read into."""
        return self.before.variable

    @property
    def place(self) -> Place:
        """Where the sum is kept."""
        if isinstance(self.before, ir.Get):
            return self.before.cell
        return self.before.buffer, self.before.index


class Uses:
    """The statements of a loop by the array or cell that they use, and its expressions by the variables in
    them."""

    def __init__(self, loop: ir.Stmt):
        self.loop = loop
        self.users: defaultdict[ir.Buffer | ir.Cell, list[ir.Stmt]] = defaultdict(list)
        self._code: dict[int, ir.Code] = {}
        self._uses: defaultdict[ir.Var, list[ir.Expr]] = defaultdict(list)
        for code in (code for s in walk(ir.Code((loop,))) for code in nested(s)):
            for statement in code.statements:
                self._code[id(statement)] = code
                for target in _targets(statement):
                    self.users[target].append(statement)
                for expr in expressions(statement):
                    for variable in variables(expr):
                        self._uses[variable].append(expr)

    def reductions(self, target: ir.Buffer | ir.Cell) -> list[Reduction] | None:
        """The reductions into `target`, or None if it is used in another way, too."""
        users = self.users[target]
        found = [self._reduction(*pair) for pair in zip(users[::2], users[1::2], strict=False)]
        known = [reduction for reduction in found if reduction is not None]
        return known if len(known) * 2 == len(users) else None

    def _reduction(self, before: ir.Stmt, after: ir.Stmt) -> Reduction | None:
        match before, after:
            case (ir.Load(variable, _, at), ir.Store(_, index, value)) if at is index:
                pass
            case ir.Get(variable), ir.Set(_, value):
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


def directly_in(loop: ir.ForLoop) -> Iterator[Reduction]:
    """The reductions directly in the body of `loop`, each the only use of its array or cell, and at the
    same place in all steps."""
    candidates = [s for s in loop.body.statements if isinstance(s, (ir.Load, ir.Get))]
    if candidates:
        uses, inside = Uses(loop), changing(loop)
        for before in candidates:
            match uses.reductions(_targets(before)[0]):
                case [reduction] if reduction.before is before:
                    if isinstance(before, ir.Get) or inside.isdisjoint(variables(before.index)):
                        yield reduction


def _targets(statement: ir.Stmt) -> tuple[ir.Buffer | ir.Cell, ...]:
    return (statement.cell,) if isinstance(statement, (ir.Get, ir.Set)) else arrays(statement)


# --------------------------------------------------------------------------- other places for sums

#: a cell, or an entry of an array
Place = ir.Cell | tuple[ir.Buffer, ir.Expr]
#: reductions, each with the cell that is to hold its sum
Moved = Sequence[tuple[Reduction, ir.Cell]]


def moved(statements: Sequence[ir.Stmt], sums: Moved) -> list[ir.Stmt]:
    """`statements`, reducing into these cells."""
    changes: dict[int, ir.Stmt] = {}
    for found, cell in sums:
        changes[id(found.before)] = ir.Get(found.variable, cell)
        changes[id(found.after)] = ir.Set(cell, found.after.value)
    return [changes.get(id(s), s) for s in statements]


def combined(operator: str, place: Place, parts: Sequence[Place]) -> list[ir.Stmt]:
    """Statements that add `parts` to the sum at `place`, in pairs, so that additions do not wait for each
    other in a chain."""
    reads = [read(p, name) for p, name in ((place, "total"), *((p, "part") for p in parts))]
    total, *values = (r.variable for r in reads)
    return [*reads, write(place, op(operator, total, _pairwise(operator, values)))]


def read(place: Place, name: str) -> ir.Get | ir.Load:
    """The statement that binds a variable of this name to the content of `place`."""
    if isinstance(place, ir.Cell):
        return ir.Get(ir.Var(name, place.type), place)
    return ir.Load(ir.Var(name, place[0].type), *place)


def write(place: Place, value: ir.Expr) -> ir.Stmt:
    """The statement that puts `value` at `place`."""
    return ir.Set(place, value) if isinstance(place, ir.Cell) else ir.Store(*place, value)


def _pairwise(operator: str, exprs: Sequence[ir.Expr]) -> ir.Expr:
    if len(exprs) == 1:
        return exprs[0]
    half = len(exprs) // 2
    return op(operator, _pairwise(operator, exprs[:half]), _pairwise(operator, exprs[half:]))


def in_groups(
    loop: ir.ForLoop,
    size: int,
    step: Callable[[int, ir.Expr], Sequence[ir.Stmt]],
    single: Sequence[ir.Stmt],
    begin: Sequence[ir.Stmt] = (),
    end: Sequence[ir.Stmt] = (),
) -> tuple[ir.Set, ir.Branch, ir.Get, ir.ForLoop]:
    """`loop` in groups of `size` steps (a power of 2): step(k, i) is the k-th of a group, at i, and `begin`
    and `end` come around the groups, if there are any. The remaining steps are `single` ones."""
    rest, first = ir.Cell("rest", Int64), ir.Var("first", Int64)
    groups, group = ir.Var("groups", Int64), ir.Var("group", Int64)
    count = sub(add(loop.stop, 1), loop.start)
    low = add(loop.start, mul(group, size))
    steps = ir.Code(tuple(s for k in range(size) for s in step(k, add(low, k))))
    whole = (
        *begin,
        ir.Bind(groups, op("shr", count, size.bit_length() - 1)),
        ir.ForLoop(group, ZERO, sub(groups, 1), steps, is_plain=True),
        *end,
        ir.Set(rest, add(loop.start, mul(groups, size))),
    )
    return (
        ir.Set(rest, loop.start),
        ir.Branch(compare("ge", count, size), ir.Code(whole)),
        ir.Get(first, rest),
        replace(loop, start=first, body=ir.Code(tuple(single)), is_plain=True),
    )
