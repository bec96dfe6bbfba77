"""The checker accepts what staging makes and says what is wrong with the rest; the listing, also of
arms derived late."""

from __future__ import annotations

from contextlib import suppress

import host_programs as programs
import pytest
from hosts import Program, Sample
from late import LateHost

from finchlang.base.errors import Bug, FinchError
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host import ir
from finchlang.host.construct import FALSE, ONE, TRUE, ZERO, cast, const, op
from finchlang.host.listing import text
from finchlang.host.verify import check
from finchlang.native import library
from finchlang.syntax.types import TYPES, Bool, Float64, Int32, Int64, Type
from finchlang.testing.compare_engines import Way
from finchlang.testing.scripts import generate
from tests.programs.program import PROGRAMS

SPMV, UNION, GATHER = (
    Program(*made).residual
    for made in ((programs.spmv, (False,)), (programs.union,), (programs.gather,))
)
GOOD = [
    *(SPMV, UNION, GATHER, Program(programs.intersection).residual),
    *(library.search(Int32), library.sort(Int32)),
    *(library.sort_bits(Int64), library.power(Int64)),
]


@pytest.mark.parametrize("residual", GOOD, ids=lambda r: r.name)
def test_good_residuals_are_accepted(residual: ir.Residual) -> None:
    check(residual)


x, y, c = ir.Var("x", Int64), ir.Var("y", Int64), ir.Cell("c", Int64)
data, floats = ir.Buffer("data", Int32), ir.Buffer("floats", Float64)
more = ir.Buffer("more", Int32)
wide, wider = ir.Buffer("wide", Int64), ir.Buffer("wider", Int64)
condition = ir.Var("b", Bool)
set_c, get_c = ir.Set(c, ONE), ir.Get(x, c)
EMPTY = ir.Code(())


def code(*statements: ir.Stmt) -> ir.Code:
    return ir.Code(statements)


BAD: list[tuple[str, list[ir.Stmt]]] = [
    ("uses x where it is not bound", [ir.Bind(y, op("add", x, 1))]),
    ("x is bound twice", [ir.Bind(x, ONE), ir.Bind(x, ONE)]),
    ("x is bound twice", [ir.Branch(condition, code(ir.Bind(x, ONE)), code(ir.Bind(x, ONE)))]),
    ("uses x", [ir.Branch(condition, code(ir.Bind(x, ONE)), EMPTY), ir.Bind(y, x)]),
    ("uses x", [ir.ForLoop(x, ONE, ONE, EMPTY), ir.Bind(y, x)]),
    ("uses x", [ir.ForLoop(x, x, ONE, EMPTY)]),
    ("uses x", [ir.WhileLoop(code(ir.Bind(x, ONE)), TRUE, code(ir.Bind(y, x)))]),
    ("x is Int64 but bound to Bool", [ir.Bind(x, TRUE)]),
    ("x is Int64 but bound to Float64", [ir.Load(x, floats, ZERO)]),
    ("the index of Load is Bool", [ir.Load(ir.Var("v", Int32), data, TRUE)]),
    ("the value of Store is Int64, not Int32", [ir.Store(data, ZERO, ONE)]),
    ("unknown buffer other", [ir.Grow(ir.Buffer("other", Int32), ONE)]),
    ("the size of Grow is Bool", [ir.Grow(data, TRUE)]),
    ("the value of Set is Bool", [ir.Set(c, TRUE)]),
    ("reads c, which may not be set", [get_c]),
    ("which may not be set", [ir.Branch(condition, code(set_c), EMPTY), get_c]),
    ("which may not be set", [ir.ForLoop(y, ONE, ONE, code(set_c)), get_c]),
    ("which may not be set", [ir.WhileLoop(EMPTY, condition, code(set_c)), get_c]),
    ("the condition of Branch is Int64", [ir.Branch(ONE, EMPTY, EMPTY)]),
    ("an arm does not give x", [ir.Branch(condition, code(ir.Give(x, ONE)), EMPTY, False, x)]),
    ("the value of Give is Bool", [ir.Give(x, TRUE)]),
    ("the condition of WhileLoop is Int64", [ir.WhileLoop(EMPTY, ONE, EMPTY)]),
    ("the start of ForLoop is Bool", [ir.ForLoop(x, TRUE, ONE, EMPTY)]),
    ("x32 is Int32 but bound to Int64", [ir.ForLoop(ir.Var("x32", Int32), ONE, ONE, EMPTY)]),
    ("the stop of Fill is Bool", [ir.Fill(data, ZERO, FALSE, const(1, Int32))]),
    ("the value of Fill is Int64", [ir.Fill(data, ZERO, ONE, ONE)]),
    ("the key of Search is Int64", [ir.Search(x, data, ZERO, ONE, ONE)]),
    ("not of integers", [ir.Search(x, floats, ZERO, ONE, const(1.0))]),
    ("not of integers", [ir.Disjoint(condition, data, ONE, ZERO, floats, ONE)]),
    ("the index of Disjoint is Bool", [ir.Disjoint(condition, data, TRUE, ZERO, wide, ONE)]),
    ("not of integers", [ir.Sort(floats, ZERO, ONE)]),
    ("floats is searched or sorted", [ir.SortBits(data, floats, ZERO, ONE, ZERO, ONE)]),
    ("data is no scratch to sort data", [ir.SortBits(data, data, ZERO, ONE, ZERO, ONE)]),
    ("data is sorted by bits, but not Int64", [ir.SortBits(data, more, ZERO, ONE, ZERO, ONE)]),
    ("data is no scratch to sort wide", [ir.SortBits(wide, data, ZERO, ONE, ZERO, ONE)]),
    ("the high of SortBits is Bool", [ir.SortBits(wide, wider, ZERO, ONE, ZERO, TRUE)]),
    ("the stop of SortBits is Bool", [ir.SortBits(wide, wider, ZERO, TRUE, ZERO, ONE)]),
    ("unknown buffer other", [ir.SortBits(data, ir.Buffer("other", Int32), ZERO, ONE, ZERO, ONE)]),
    ("unknown kind of error: sad", [ir.Fail("sad", "", ())]),
    ("1 values for the message '{} {}'", [ir.Fail("type", "{} {}", (ONE,))]),
    ("uses x", [ir.Fail("type", "{}", (x,))]),
    ("add takes Int64, Bool to Int64", [ir.Bind(x, ir.Op("add", (ONE, TRUE), Int64))]),
    ("add takes Int64 to Int64", [ir.Bind(x, ir.Op("add", (ONE,), Int64))]),
    ("eq takes Int64, Int64 to Int64", [ir.Bind(x, ir.Op("eq", (ONE, ONE), Int64))]),
    ("fdiv takes Int64, Int64", [ir.Bind(x, ir.Op("fdiv", (ONE, ONE), Int64))]),
    ("add takes Bool, Bool", [ir.Bind(condition, ir.Op("add", (TRUE, TRUE), Bool))]),
    ("unknown operation frobnicate", [ir.Bind(x, ir.Op("frobnicate", (ONE,), Int64))]),
    ("unknown statement", [ir.Stmt()]),
]


@pytest.mark.parametrize("message, statements", BAD, ids=[f"{k}" for k in range(len(BAD))])
def test_bad_residuals_are_refused(message: str, statements: list[ir.Stmt]) -> None:
    inputs = () if ir.Bind(condition, TRUE).variable in _bound(statements) else (condition,)
    residual = ir.Residual(
        "bad", (data, floats, more, wide, wider), inputs, (), ir.Code(tuple(statements))
    )
    with pytest.raises(Bug) as caught:
        check(residual)
    assert message in str(caught.value) and "residual bad" in str(caught.value)


@pytest.mark.parametrize(("values", "cells"), [((), (c,)), ((ONE, ONE), (c,)), ((ONE,), ())])
def test_calls_with_other_arguments_are_refused(
    values: tuple[ir.Expr, ...], cells: tuple[ir.Cell, ...]
) -> None:
    own = ir.Procedure("own", (x,), (c,), EMPTY)
    call = ir.CallProcedure("own", values, cells, (), ())
    residual = ir.Residual("bad", (), (), (), code(set_c, call), procedures=(own,))
    with pytest.raises(Bug, match="are no arguments of own"):
        check(residual)


def test_shared_parts_are_checked_once() -> None:
    deep: ir.Expr = x
    for k in range(200):
        deep = op("add", op("mul", deep, deep), op("sub", deep, k))
    check(ir.Residual("deep", (), (x,), (), code(ir.Bind(y, deep))))


def _bound(statements: list[ir.Stmt]) -> list[ir.Var]:
    return [s.variable for s in statements if isinstance(s, ir.Bind)]


def test_outputs_are_set_on_every_way_to_the_end() -> None:
    def make(*statements: ir.Stmt) -> ir.Residual:
        return ir.Residual("r", (), (condition,), (c,), ir.Code(statements))

    fail = ir.Fail("type", "no", ())
    check(make(set_c))
    check(make(ir.Branch(condition, code(set_c), code(fail))))
    check(make(ir.Branch(condition, code(set_c), code(set_c))))
    check(make(ir.WhileLoop(code(set_c), condition, EMPTY)))
    for statements in ([], [ir.Branch(condition, code(set_c), EMPTY)]):
        with pytest.raises(Bug, match="an output reads c"):
            check(make(*statements))


def test_a_buffer_listed_twice_is_refused() -> None:
    with pytest.raises(Bug, match="twice"):
        check(ir.Residual("r", (data, data), (), (), EMPTY))


# -------------------------------------------------------------------------------------- the listing

LISTING = """\
kernel spmv(y: Float64[], ptr: Int32[], idx: Int32[], val: Float64[], x: Float64[]; \
m: Int64, n: Int64)
    fill(y, 0, m, 0.0)
    for j = 1:n
        p0: Int32 = ptr[j - 1]
        p0_2: Int64 = Int64(p0)
        p1: Int32 = ptr[j]
        p1_2: Int64 = Int64(p1)
        xj: Float64 = x[j - 1]
        for p = p0_2:(p1_2 - 1)
            i: Int32 = idx[p]
            i_2: Int64 = Int64(i)
            v: Float64 = val[p]
            v_2: Float64 = y[i_2]
            y[i_2] = v_2 + (v * xj)
        end
    end
end
"""


def test_the_listing_reads_well() -> None:
    assert text(SPMV) == LISTING
    assert "fail('bounds', '{} is not in 1:{}', at_2, m)" in text(GATHER)
    listing = text(UNION)
    assert "    cell r: Int64 := 0\n" in listing and "grow(ci, r_2 + 1)\n" in listing
    assert listing.endswith("    return r: Int64\nend\n")


def test_the_listing_is_the_same_for_the_same_program() -> None:
    for make in (programs.union, programs.intersection, programs.gather):
        listings = []
        for _ in range(2):
            make(sample := Sample())
            listings.append(text(sample.residual()))
        assert listings[0] == listings[1]


def filled(type: Type, value: float) -> ir.Residual:
    s = Sample()
    s.host.fill(s.buffer("data", type), ZERO, ONE, cast(const(value), type))
    return s.residual()


def test_the_listing_tells_programs_apart() -> None:
    listings = [text(r) for r in GOOD]
    listings += [text(filled(t, v)) for t in TYPES.values() for v in (0, 1)]
    listings += [text(filled(Float64, v)) for v in (-0.0, float("nan"), 1e-300)]
    listings += [text(Program(programs.appended, (k,)).residual) for k in (1, 2)]
    for kind, power in ((Int64, "fpow"), (Float64, "ipow")):  # both are listed as pow
        a, b, r = (ir.Var(name, kind) for name in "abr")
        for name in ir.OPS.keys() - {power, "select"}:
            let = ir.Bind(r, ir.Op(name, (a, b)[: ir.OPS[name][0]], kind))
            listings.append(text(ir.Residual("r", (), (a, b), (), code(let))))
    assert len(set(listings)) == len(listings)


class StagedLate(Observer):
    """Has each kernel staged with its arms in their order, and late."""

    def __init__(self) -> None:
        self.staged: list[tuple[str, str]] = []

    def kernel(self, event: KernelEvent) -> None:
        def listed(host: LateHost) -> str:
            event.compiled.staged.run_rules(host, None)
            check(residual := event.compiled.staged.recorded(host))
            return text(residual)

        self.staged.append((listed(LateHost(False)), listed(LateHost())))


LATE = ("function_leaves_loops", "function_reached_late", "rest_begins_where_it_is")


def test_what_arms_do_does_not_depend_on_when_they_are_derived() -> None:
    staged: list[tuple[str, str]] = []
    for script in [*(p.text for p in PROGRAMS if p.name in LATE), *map(generate, range(12))]:
        observer = StagedLate()
        with suppress(FinchError):  # some end so
            Way("interpret").session((), observer).run(script)
        staged += observer.staged
    assert len(staged) > 12
    for in_order, late in staged:
        assert late == in_order
