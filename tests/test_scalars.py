"""Scalars with structure: how they are made, what they hold, and that a clean sparse scalar is its
fill to the loops that read it (Finch'25 3.3.3, Table 4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel
from level_kernels import run

from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.formats import construct, parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.testing.compare import compare, ways_of

KINDS = ("Scalar", "SparseScalar", "ShortCircuitScalar", "SparseShortCircuitScalar")
SPARSE = ("SparseScalar", "SparseShortCircuitScalar")
TABLES = pytest.mark.parametrize("which", ["all", "paper"])


@pytest.mark.parametrize("kind", KINDS)
def test_ways_to_write_a_scalar(kind: str) -> None:
    session = Session("interpret", output=lambda _: None)
    text = "a = {0}{{2}}()\nb = {0}(2)\nc = {0}{{2, Int8}}()\nd = {0}(2, 5)\ne = {0}{{2}}(5)"
    session.run(text.format(kind))
    assert [session[n].value for n in "abcde"] == [2, 2, 2, 5, 5]
    assert [session[n].fill for n in "abcde"] == [2] * 5
    assert {str(session[n].format) for n in "abde"} == {f"{kind}(2)"}
    assert str(session["c"].format) == f"{kind}(Int8(2))"
    assert repr(session["d"]) == f"{kind}(5)"
    assert parse_format(f"{kind}(2)") == session["a"].format


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("braces", [True, False])
@pytest.mark.parametrize(
    "fill, operator, given, expected",
    [
        ("-1", "+=", "[2, 0, 5]", 6),
        ("2.5", "*=", "[2, 0.5, 2.0]", 5.0),
        ("Inf", "<<min>>=", "[3.0, -Inf, 5.0]", -np.inf),
        ("false", "|=", "[false, true, false]", True),
        ("Int8(3)", "<<max>>=", "[Int8(1), Int8(7), Int8(2)]", 7),
        ("z", "<<choose(4)>>=", "[4, 9, 2]", 9),
    ],
)
def test_scalars_with_any_fill_in_kernels(
    kind: str, braces: bool, fill: str, operator: str, given: str, expected: Any
) -> None:
    """`Name{fill}()` and `Name(fill)` are the same, with fills of any type, literals or not."""
    made = f"{kind}{{{fill}}}()" if braces else f"{kind}({fill})"
    text = (
        f"z = 4\nx = {given}\nA = Tensor(SparseList(Element({fill})), x)\ns = {made}\nt = {made}\n"
    )
    text += kernel(f"s .= {fill}\nfor i = _\ns[] {operator} A[i]\nt[] {operator} x[i]\nend")
    found = compare(text)
    assert found.agrees and not found.errors, found.report
    for name in "st":
        assert found.results["native"][name].value == expected


@pytest.mark.parametrize(
    "text", ["{0}{{0}}(2.5)", "{0}(0, 2.5)", "{0}{{2.5, Int8}}()", "{0}(false, 2)", "{0}(0, NaN)"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_scalar_holds_what_its_type_can(kind: str, text: str) -> None:
    with pytest.raises(FinchError) as caught:
        Session("interpret", output=lambda _: None).run(f"s = {text.format(kind)}")
    assert caught.value.kind == "type"


def test_kinds_are_different_formats() -> None:
    assert len({parse_format(f"{kind}(0)") for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(
    "text", ["SparseScalar()", "SparseScalar{1, 2}()", "SparseList(SparseScalar(0))"]
)
def test_faults(text: str) -> None:
    with pytest.raises(FinchError) as caught:
        parse_format(text)
    assert caught.value.kind == "type"


@TABLES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0, 3])
def test_every_kind_is_a_scalar(kind: str, value: int, which: str) -> None:
    """Read in loops, conditions and lets, written, updated, and read after."""
    text = f"""
    s = {kind}(0, {value})
    t = {kind}{{0}}()
    u = {kind}{{0}}()
    c = Scalar(0)
    x = [1, 0, 2]
    A = Tensor(SparseList(Element(0)), x)
    y = [0, 0, 0]
    z = Tensor(SparseList(Element(0)), 3)
    @finch begin
        z .= 0
        for i = _
            y[i] = s[] * A[i] + x[i]
            z[i] = s[] * x[i]
        end
        if s[] > 1
            c[] += 10
        end
        let v = s[] + 1
            c[] += v
        end
        t .= 0
        for i = _
            t[] += s[] * A[i]
        end
        c[] += t[]
        u .= 0
        u[] += 2 * t[]
        for i = _
            y[i] += u[] * A[i]
        end
        s[] += 4
    end
    """
    found = compare(text, ways=ways_of(rules=which))
    assert found.agrees and not found.errors, found.report
    results, x = found.results["native"], np.array([1, 0, 2])
    assert results["s"].value == value + 4 and results["t"].value == 3 * value
    assert results["c"].value == value + 1 + 3 * value + 10 * (value > 1)
    np.testing.assert_array_equal(results["y"], value * x + x + 6 * value * x)
    assert results["z"].to_numpy().tolist() == (value * x).tolist()


@pytest.mark.parametrize("kind", SPARSE)
def test_a_clean_scalar_is_clean_at_the_next_kernel(kind: str) -> None:
    """Written with its fill it is dirty in that kernel; what it holds is what the next one is told."""
    session = Session("native", output=lambda _: None)
    session.run(f"s = {kind}{{0}}()\nt = Scalar(1)\nx = [1, 2, 3]")
    session.run("@finch begin s .= 0; for i = _; s[] += x[i] end end")
    assert session["s"].value == 6
    session.run("@finch begin t .= 0; for i = _; t[] += s[] * x[i] end end")
    assert session["t"].value == 36
    session.run("@finch begin s .= 0 end")
    session.run("@finch begin t .= 0; for i = _; t[] += s[] * x[i] end end")
    assert session["t"].value == 0
    session["s"].value = 2
    session.run("@finch begin t .= 0; for i = _; t[] += s[] * x[i] end end")
    assert session["t"].value == 12


def steps(text: str, values: dict[str, Any], which: str) -> int:
    return run(text, values, which)[1].total()


@TABLES
@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("A", [np.ones(200), np.arange(200) % 2], ids=["dense", "half"])
def test_what_reads_a_clean_scalar_is_run_with_its_fill(kind: str, A: Any, which: str) -> None:
    text = "for i = _\nt[] += s[] * A[i]\nend"
    format = "Dense(Element(0.0))" if A.all() else "SparseList(Element(0.0))"
    totals = []
    for value in (0.0, 2.0):
        s = Scalar(construct(kind, (), (0.0,)), value)  # type: ignore[arg-type]
        values = {"s": s, "t": Scalar(0.0), "A": Tensor.from_numpy(A.astype(float), format)}
        found, counted = run(text, values, which)
        assert found["t"].value == value * A.sum()
        totals.append(counted.total())
    assert totals[0] < 20 < 200 < totals[1]


def test_a_scalar_that_changes_in_the_loop_is_read_each_time() -> None:
    text = """
    s = SparseScalar{0}()
    y = [0, 0, 0]
    A = [0 1 0; 0 2 0; 0 0 3]
    """ + kernel(
        "for j = _\ns .= 0\nfor i = _\ns[] += A[i, j]\nend\nfor i = _\ny[i] += s[] * i\nend\nend"
    )
    found = compare(text)
    assert found.agrees and not found.errors, found.report
    assert found.results["native"]["y"].tolist() == [6, 12, 18]
