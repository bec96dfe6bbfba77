"""The recording host: each operation is appended to the code being built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from finchlang.base.errors import FinchError
from finchlang.host import ir, rewrite as rewriting
from finchlang.host.interface import Body, Cells, Exprs, Host, Shared

#: Procedures of fewer statements are recorded in place rather than called.
SHORT = 20
#: In a longer program also procedures that are called once are kept: LLVM takes more than twice the time
#: for a function that is twice as long.
LONG = 2_500


class ResidualHost(Host):
    """Appends statements to the code being built; `code()` is all that was recorded at the outermost
    level. More than `most` statements are a FinchError of kind resource."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most, self._count = most, 0
        self._blocks: list[list[ir.Stmt]] = [[]]
        self._passing: set[ir.Expr] = set()  # variables of loops and procedures
        self._own: list[set[ir.Cell]] = [set()]  # the cells made in each procedure being recorded
        self._base = 1  # so many blocks, the first, are visible wherever code is shared
        self._shared: dict[Hashable, ir.CallProcedure] = {}
        self._procedures: dict[str, ir.Procedure] = {}  # each before those that call it
        self._calls: Counter[str] = Counter()
        self._lengths: dict[str, int] = {}  # of procedures
        self._recursive: set[str] = set()  # those that call themselves
        self._placed_once: set[str] = set()  # those that no other call can use

    def code(self) -> ir.Code:
        """The code recorded; procedures that are not to be called stand in place of their calls."""
        return self._placed(ir.Code(tuple(self._blocks[0])))

    def procedures(self) -> tuple[ir.Procedure, ...]:
        """The procedures to be called: those that are called several times or by themselves, or, in a long
        program that has such, once."""
        kept = (p for p in self._procedures.values() if self._is_called(p.name))
        return tuple([replace(p, body=self._placed(p.body)) for p in kept])

    def _is_called(self, name: str) -> bool:
        if self._lengths[name] < SHORT or name in self._recursive:
            return name in self._recursive
        is_long = sum(self._lengths.values()) > LONG
        return self._calls[name] > 1 or (is_long and max(self._calls.values()) > 1)

    def _placed(self, code: ir.Code) -> ir.Code:
        """`code` with procedures in place of their calls, except those that are to be called."""

        def place(statement: ir.Stmt) -> tuple[ir.Stmt, ...]:
            if not isinstance(statement, ir.CallProcedure) or self._is_called(statement.name):
                return (statement,)
            procedure = self._procedures[statement.name]
            values = dict(zip(procedure.inputs, statement.values, strict=True))
            cells = dict(zip(procedure.cells, statement.cells, strict=True))
            body = rewriting.substituted(procedure.body, {**values, **cells})
            return self._placed(body).statements

        return rewriting.rewrite(code, place) if self._calls else code

    def do(self, statement: ir.Stmt) -> None:
        self._blocks[-1].append(statement)
        self._count += 1
        if self._most is not None and self._count > self._most:
            message = f"the code of this kernel would have more than {self._most:,} statements"
            hint = "store an inner shape operator or a term in a tensor first, in a loop of its own"
            raise FinchError("resource", message, hint=hint)

    @contextmanager
    def _recorded(self) -> Iterator[list[ir.Stmt]]:
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    def _record(self, body: Callable[[], object]) -> ir.Code:
        with self._recorded() as statements:
            body()
        return ir.Code(tuple(statements))

    def block(self, body: Body, *variables: ir.Var) -> ir.Code:
        self._passing.update(variables)
        return self._record(body)

    def cell(self, init: ir.Expr, name: str = "c") -> ir.Cell:
        cell = super().cell(init, name)
        self._own[-1].add(cell)
        return cell

    def loop(self, condition: Callable[[], ir.Expr], body: Body, is_endless: bool = False) -> None:
        with self._recorded() as test:
            holds = condition()
        if not isinstance(holds, ir.Const) or holds.value:
            test = [ir.WhileLoop(ir.Code(tuple(test)), holds, self._record(body), is_endless)]
        for statement in test:
            self.do(statement)

    def apart(self, body: Body) -> None:
        around = self._shared, self._base
        self._shared, self._base = {}, len(self._blocks)
        body()
        self._shared, self._base = around

    def share(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool = False
    ) -> None:
        found = self._shared.get(key)
        if found is None:
            found = self._procedure(key, values, cells, body, is_closed)
        self._calls[found.name] += 1
        values += found.values[len(values) :]
        cells += found.cells[len(cells) :]
        self.do(replace(found, values=values, cells=cells))

    def _procedure(
        self, key: Hashable, values: Exprs, cells: Cells, body: Shared, is_closed: bool
    ) -> ir.CallProcedure:
        """Record a procedure; returns its call in the procedure's own terms. Its inputs and cells are those
        that a caller gives, then the variables and cells that it uses of the code around. If these are not
        visible wherever the procedure may be called, it is not shared: then each call records it anew."""
        inputs = tuple([ir.Var(self.fresh("p"), value.type) for value in values])
        self._passing.update(inputs)
        names = [self.fresh(cell.name.rsplit("_", 1)[0]) for cell in cells]
        places = tuple([ir.Cell(n, c.type) for n, c in zip(names, cells, strict=True)])
        self._own.append(set(places))
        name = self.fresh("function") if is_closed else ""
        if is_closed:  # calls of itself find it
            self._shared[key] = ir.CallProcedure(name, inputs, places, (), ())
        code = self._record(lambda: self.knowing({}, lambda: body(inputs, places)))
        own = self._own.pop()
        free = tuple(v for v in rewriting.free_variables(code) if v not in inputs)
        outer = tuple(c for c in rewriting.cells_of(code) if c not in own)
        name = name or self.fresh("rest")
        # what a variable of the code around was bound to is not visible in the procedure
        own_free = {v: ir.Var(v.name, v.type) for v in free if v.definition is not None}
        code = rewriting.substituted(code, dict(own_free)) if own_free else code
        given = inputs + tuple([own_free.get(v, v) for v in free])
        procedure = ir.Procedure(name, given, places + outer, code)
        self._procedures[name] = procedure
        used = rewriting.buffers_of(code)
        written = [buffer for s in rewriting.walk(code) for buffer in rewriting.changes(s)]
        changed = tuple(dict.fromkeys(written))
        found = ir.CallProcedure(name, inputs + free, procedure.cells, used, changed)
        around, inner = self._blocks[: self._base], self._blocks[self._base :]
        passing = {getattr(s, "variable", None) for block in inner for s in block} | self._passing
        known = {s.cell for block in around for s in block if isinstance(s, ir.Set)}
        self._recursive |= {name} if self._calls[name] else set()
        self._lengths[name] = sum(map(self._length, rewriting.walk(code)))
        self._shared.pop(key, None)
        is_kept = self._lengths[name] >= SHORT or name in self._recursive
        if is_kept and passing.isdisjoint(free) and known.issuperset(outer):
            self._shared[key] = found
        else:
            self._placed_once.add(name)
        return found

    def _length(self, statement: ir.Stmt) -> int:
        """How many statements one is: a call of a procedure that is short, or called once, is those that
        will stand in its place."""
        if not isinstance(statement, ir.CallProcedure) or statement.name in self._recursive:
            return 1
        length = self._lengths.get(statement.name, 1)
        return length if length < SHORT or statement.name in self._placed_once else 1
