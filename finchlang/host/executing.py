"""The executing host: each operation is performed at once on NumPy arrays; and the plain evaluator
of residual programs, which performs recorded operations on the same host.

What is stored stays an expression here too (DESIGN, law 2): a load gives a variable, and only this
host knows what the variable holds. One *host step* is one operation performed; a loop takes a step
for each time its condition is looked at or its body entered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError, failure
from finchlang.base.memory_limit import check_available
from finchlang.base.records import record
from finchlang.host import interrupts, ir
from finchlang.host.interface import Body, Cells, Exprs, Host, Shared
from finchlang.host.primitives import function_of
from finchlang.host.rewrite import walk


class ExecutingHost(Host):
    """Performs statements. `arrays` maps each Buffer to its NumPy array; a variable keeps its value itself;
    `steps` counts what was done, by operation. `sizes` has the number of entries of arrays that have grown:
    as many as there were or as were asked for, whatever the capacity. `unwritten` marks, for those arrays
    and for scratch memory, the entries never written.

    Raises Bug for an access out of bounds, and for a read of an entry that was never written."""

    def __init__(self, arrays: dict[ir.Buffer, np.ndarray] | None = None):
        super().__init__()
        self.arrays = arrays if arrays is not None else {}
        self.cells: dict[ir.Cell, Any] = {}
        self.procedures: dict[str, ir.Procedure] = {}
        self.sizes: dict[ir.Buffer, int] = {}
        self.unwritten: dict[ir.Buffer, np.ndarray] = {}
        self.steps: Counter[str] = Counter()
        #: the variables that each procedure sets
        self._frames: dict[ir.Procedure, list[ir.Var]] = {}

    def evaluate(self, expr: ir.Expr) -> Any:
        """The value of a pure expression; of a `select` only the part chosen is evaluated."""
        if isinstance(expr, ir.Const):
            return expr.value
        if isinstance(expr, ir.Var):
            return expr.held
        assert isinstance(expr, ir.Op)
        if expr.name == "select":
            chosen = expr.args[1] if self.evaluate(expr.args[0]) else expr.args[2]
            return self.evaluate(chosen)
        return self.compute(expr, [self.evaluate(a) for a in expr.args])

    def compute(self, operation: ir.Op, args: list[Any]) -> Any:
        return function_of(operation.name, operation.type, operation.args[0].type)(*args)

    def do(self, statement: Any) -> None:
        self.performer(statement)(statement)

    def performer(self, statement: ir.Stmt) -> Callable[[Any], None]:
        found: Callable[[Any], None] = getattr(self, f"do_{type(statement).__name__}")
        return found

    def whole(self, program: Callable[[], Any]) -> Any:
        """Perform a program."""
        return program()

    # ------------------------------------------------------------------------- memory and cells

    def do_Bind(self, s: ir.Bind) -> None:
        self.steps["let"] += 1
        s.variable.held = self.evaluate(s.expr)

    def do_Load(self, s: ir.Load) -> None:
        self.steps["load"] += 1
        position = self.evaluate(s.index)
        s.variable.held = self._entries(s.buffer, position, position + 1)[0].item()

    def _entries(self, buffer: ir.Buffer, low: int, high: int, is_read: bool = True) -> np.ndarray:
        """buffer[low .. high - 1]; checks that they exist and, if they are read, were written."""
        array, unwritten = self.arrays[buffer], self.unwritten.get(buffer)
        if high <= low:
            return array[:0]
        size = self.sizes.get(buffer, len(array))
        if low < 0 or high > size:
            raise Bug(f"{buffer.name}[{low}:{high - 1}] of {size}")
        if unwritten is not None:
            if not is_read:
                unwritten[low:high] = False
            elif unwritten[low:high].any():
                raise Bug(f"{buffer.name}[{low}:{high - 1}] was never written")
        return array[low:high]

    def do_Store(self, s: ir.Store) -> None:
        self.steps["store"] += 1
        position = self.evaluate(s.index)
        self._entries(s.buffer, position, position + 1, False)[0] = self.evaluate(s.value)

    def do_Get(self, s: ir.Get) -> None:
        self.steps["get"] += 1
        s.variable.held = self.cells[s.cell]

    def do_Set(self, s: ir.Set) -> None:
        self.steps["set"] += 1
        self.cells[s.cell] = self.evaluate(s.value)

    def do_Room(self, s: ir.Room) -> None:
        s.variable.held = self.sizes.get(s.buffer, len(self.arrays[s.buffer]))

    def do_Clock(self, s: ir.Clock) -> None:
        s.variable.held = perf_counter_ns()

    def do_Grow(self, s: ir.Grow) -> None:
        self.steps["grow"] += 1
        buffer, wanted, array = s.buffer, self.evaluate(s.size), self.arrays[s.buffer]
        self.sizes[buffer] = max(wanted, self.sizes.get(buffer, len(array)))
        if wanted > len(array):
            try:
                check_available(wanted * (array.itemsize + 1))
                new = np.zeros(max(wanted, 2 * len(array), 4), array.dtype)
            except (MemoryError, ValueError, OverflowError):
                raise FinchError("resource", f"no memory for {wanted} entries") from None
            new[: len(array)] = array
            self.arrays[buffer] = new
            unwritten = np.ones(len(new), bool)
            unwritten[: len(array)] = self.unwritten.get(buffer, False)
            self.unwritten[buffer] = unwritten

    def do_Exchange(self, s: ir.Exchange) -> None:
        self.steps["exchange"] += 1
        for of in (self.arrays, self.unwritten, self.sizes):
            own: dict[ir.Buffer, Any] = of
            both = own.pop(s.buffer, None), own.pop(s.other, None)
            for buffer, content in zip((s.other, s.buffer), both, strict=True):
                if content is not None:
                    own[buffer] = content

    def do_Fill(self, s: ir.Fill) -> None:
        self.steps["fill"] += 1
        entries = self._entries(s.buffer, self.evaluate(s.start), self.evaluate(s.stop), False)
        entries[:] = self.evaluate(s.value)

    # --------------------------------------------------------------------- searching and sorting

    def do_Search(self, s: ir.Search) -> None:
        low, high = self.evaluate(s.start), self.evaluate(s.stop)
        part = self._entries(s.buffer, low, high)
        found = int(np.searchsorted(part, self.evaluate(s.key), "left"))
        self.steps["search"] += 1 + found.bit_length()  # as an exponential search takes
        s.variable.held = low + found

    def do_Disjoint(self, s: ir.Disjoint) -> None:
        self.steps["disjoint"] += 1
        modulus = 1 << min(s.buffer.type.bits, s.other.type.bits)

        def block(buffer: ir.Buffer, first: ir.Expr, shift: int) -> set[int]:
            start = self.evaluate(first)
            entries = self._entries(buffer, start, start + ir.BLOCK)
            return {(i + shift) % modulus for i in entries.tolist()}

        first = block(s.buffer, s.index, self.evaluate(s.shift))
        s.variable.held = first.isdisjoint(block(s.other, s.place, 0))

    def do_Sort(self, s: ir.Sort) -> None:
        low, high = self.evaluate(s.start), self.evaluate(s.stop)
        self.steps["sort"] += 1 + max(0, high - low)
        self._entries(s.buffer, low, high).sort()

    def do_SortBits(self, s: ir.SortBits) -> None:
        low, high = self.evaluate(s.start), self.evaluate(s.stop)
        first, behind = self.evaluate(s.low), self.evaluate(s.high)
        self.steps["sort_bits"] += 1 + max(0, high - low)
        if low >= high:
            return
        if not 0 <= first <= behind <= 63:
            raise Bug(f"a sort by the bits {first} to {behind}")
        entries = self._entries(s.buffer, low, high)
        keys = (entries >> first) & ((1 << (behind - first)) - 1)
        entries[:] = entries[np.argsort(keys, kind="stable")]
        self._entries(s.scratch, low, high, False)[:] = 0  # undefined after a sort
        if s.scratch in self.unwritten:
            self.unwritten[s.scratch][low:high] = True

    # ----------------------------------------------------------------------------------- control

    def block(self, body: Body, *variables: ir.Var) -> ir.Code:
        return Deferred((), body)

    def loop(self, condition: Callable[[], ir.Expr], body: Body, is_endless: bool = False) -> None:
        while True:
            interrupts.check()
            test = condition()
            if isinstance(test, ir.Const) and not test.value:
                return
            self.steps["loop"] += 1
            if not self.evaluate(test):
                return
            body()

    def share(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool = False
    ) -> None:
        interrupts.check()
        inputs = tuple([ir.Var("p", value.type) for value in values])
        for variable, value in zip(inputs, values, strict=True):
            self.hold(variable, value)
        self.knowing({}, partial(body, inputs, cells))

    def hold(self, variable: ir.Var, value: ir.Expr) -> None:
        """Give an input of shared code its value."""
        variable.held = self.evaluate(value)

    def do_Branch(self, s: ir.Branch) -> None:
        self.steps["branch"] += 1
        run_code(s.then if self.evaluate(s.condition) else s.otherwise, self)

    def do_Give(self, s: ir.Give) -> None:
        s.target.held = self.evaluate(s.value)

    def do_WhileLoop(self, s: ir.WhileLoop) -> None:
        def look() -> ir.Expr:
            run_code(s.test, self)
            return s.condition

        self.loop(look, partial(run_code, s.body, self))

    def do_ForLoop(self, s: ir.ForLoop) -> None:
        for i in range(self.evaluate(s.start), self.evaluate(s.stop) + 1):
            interrupts.check()
            self.steps["count"] += 1
            self.turn(s.variable, i)
            run_code(s.body, self)

    def turn(self, variable: ir.Var, i: int) -> None:
        """Begin a turn of a counted loop."""
        variable.held = i

    def do_CallProcedure(self, s: ir.CallProcedure) -> None:
        """The contents of the procedure's variables and cells are restored afterwards, since the code of
        the caller, which may be the procedure itself, may use them, too."""
        interrupts.check()
        procedure = self.procedures[s.name]
        values = [self.evaluate(value) for value in s.values]
        contents = [self.cells.get(cell) for cell in s.cells]
        if procedure not in self._frames:
            bound = (getattr(s, "variable", None) for s in walk(procedure.body))
            self._frames[procedure] = [*procedure.inputs, *filter(None, bound)]
        variables, around = self._frames[procedure], dict(self.cells)
        before = [getattr(variable, "held", None) for variable in variables]
        for variable, value in zip(procedure.inputs, values, strict=True):
            variable.held = value
        self.cells.update(zip(procedure.cells, contents, strict=True))
        run_code(procedure.body, self)
        contents = [self.cells[cell] for cell in procedure.cells]
        for variable, value in zip(variables, before, strict=True):
            variable.held = value
        self.cells = around | dict(zip(s.cells, contents, strict=True))

    def do_Fail(self, s: ir.Fail) -> None:
        note = tuple(map(self.evaluate, s.note))
        raise failure(s.kind, s.message.format(*map(self.evaluate, s.values)), s.span, note)


@record(slots=True)
class Deferred(ir.Code):
    """Code of a statement that is performed at once: a function that performs it."""

    run: Body


class RememberingHost(ExecutingHost):
    """Takes the same steps as an ExecutingHost, but derives each piece of code once: what rules do for the
    body of a loop or an arm of a branch is noted when it is first performed, and performed from the notes
    afterwards. Rules see no values (law 2), so that they would do the same again, with other names for
    variables: a product of 13 x 11 x 12 in CSC takes 0.02 s in place of 0.76. What it notes is bounded by
    the size of the program, as a residual is: an arm that is never reached is never derived."""

    def __init__(self, arrays: dict[ir.Buffer, np.ndarray] | None = None):
        super().__init__(arrays)
        self._noted: list[Body] = []
        self._whole: Callable[[], Any] | None = None

    def whole(self, program: Callable[[], Any]) -> Any:
        """Perform the one program of this host; from the second time on it is not derived again."""
        self._whole = self._whole or self._once(program)
        return self._whole()

    def do(self, statement: Any) -> None:
        self._do(partial(self.performer(statement), statement))

    def _do(self, action: Body) -> None:
        self._noted.append(action)
        action()

    def _once(self, derive: Callable[[], Any]) -> Callable[[], Any]:
        """A function that does and returns what `derive` does, but calls it the first time only; failures,
        floats and facts are then as they are where this is asked for, which may be rounds before."""
        noted: list[Body] | None = None
        answer: Any = None
        here = self._known()

        def run() -> Any:
            nonlocal noted, answer
            if noted is not None:
                for action in noted:
                    action()
                return answer
            around, self._noted, now = self._noted, [], self._known()
            vars(self).update(here)
            answer = derive()
            vars(self).update(now)
            noted, self._noted = self._noted, around
            return answer

        return run

    def _known(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("note", "is_exact", "depth", "facts")}

    def block(self, body: Body, *variables: ir.Var) -> ir.Code:
        return Deferred((), self._once(body))

    def loop(self, condition: Callable[[], ir.Expr], body: Body, is_endless: bool = False) -> None:
        self._do(partial(super().loop, self._once(condition), self._once(body)))

    def hold(self, variable: ir.Var, value: ir.Expr) -> None:
        self._do(partial(super().hold, variable, value))


def run_code(code: ir.Code, host: ExecutingHost) -> None:
    if isinstance(code, Deferred):
        code.run()
    for statement in code.statements:
        host.do(statement)


def run_residual(
    residual: ir.Residual,
    arrays: Sequence[np.ndarray],
    inputs: Sequence[Any],
    host: ExecutingHost | None = None,
) -> tuple[ExecutingHost, list[np.ndarray], list[Any]]:
    """Run a residual program; returns the host (for its steps), the arrays and the outputs."""
    host = host or ExecutingHost()
    host.arrays |= dict(zip(residual.buffers, arrays, strict=True))
    host.arrays |= {b: np.empty(size, b.type.dtype) for b, size in residual.scratch}
    host.unwritten |= {b: np.ones(size, bool) for b, size in residual.scratch}
    for variable, value in zip(residual.inputs, inputs, strict=True):
        variable.held = value
    host.procedures = {procedure.name: procedure for procedure in residual.procedures}
    run_code(residual.body, host)
    outputs = [host.cells[cell] for cell in residual.outputs]
    return host, [host.arrays[b] for b in residual.buffers], outputs
