"""Laws that scripts declare of functions: wrong ones are told, right ones are not, and rules use them."""

from __future__ import annotations

import numpy as np
import pytest
from law_campaign import GOOD, run_case, run_declaration

from finchlang import FinchError, Session
from finchlang.text.format import formatted
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

TYPES = ("Int64", "Float64", "Int8", "Int32")


def call(text: str, type: str = "Int64") -> np.ndarray:
    """What the last function that is defined, `f`, gives for two arguments in a kernel."""
    session = Session()
    for name, values in (("x", [3, 5]), ("y", [2, 0])):
        session[name] = np.array(values, type.lower())
    session["r"] = np.zeros(2)
    session.run(f"{text}\n@finch for i = _; r[i] = f(x[i], y[i]); end")
    return session["r"]


WRONG = [
    *(("x + y", f"@properties f identity({k})") for k in range(2, 8)),
    *(("x * y", f"@properties f identity({k})") for k in range(2, 8)),
    *(("x + y", f"@properties f annihilator({k})") for k in range(1, 7)),
    *(("x * y", f"@properties f annihilator({k}, 1)") for k in range(1, 7)),
    *((f"x - {k} * y", "@properties f commutative") for k in range(2, 12)),
    *((f"x - {k} * y", "@properties f associative") for k in range(2, 12)),
    *((f"x - {k} * y", "@properties f idempotent") for k in range(2, 12)),
    *((f"x - {k} * y", '@properties f distributes("+")') for k in range(1, 11)),
    *((f"x + y + {k} * x * y", '@properties f identity(0) inverse("-")') for k in range(1, 11)),
    *((f"x + {k} * y", f"@case f(x, 0) = x + {k}") for k in range(1, 11)),
    *((f"x + {k} * y", f"@case f(x, x) = {k} * x") for k in range(1, 11)),
    *((f"max(x, y) + {k}", "@properties f idempotent") for k in range(1, 9)),
    *((f"x - {k} * y", "@properties f right_idempotent") for k in range(2, 12)),
]  # fmt: skip


@pytest.mark.parametrize("type", ("Int64", "Float64"))
@pytest.mark.parametrize("body, law", WRONG)
def test_wrong_laws_are_told(body: str, law: str, type: str) -> None:
    with pytest.raises(FinchError, match=r"`f` is not .* with ") as found:
        call(f"f(x, y) = {body}\n{law}", type)
    assert found.value.kind == "type"


RIGHT = (
    ("x + y", "commutative associative identity(0)"),
    ("x * y", 'commutative associative identity(1) annihilator(0) distributes("+")'),
    ("x - y", "identity(0, 2)"),
    ("max(x, y)", "commutative associative idempotent distributes(min)"),
    ("x + y", 'identity(0) inverse("-") commutative associative'),
    ("min(x, y)", "idempotent associative"),
)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("body, laws", RIGHT)
def test_right_laws_are_not(body: str, laws: str, type: str) -> None:
    plain = call(f"f(x, y) = {body}", type)
    assert np.array_equal(call(f"f(x, y) = {body}\n@properties f {laws}", type), plain)


def test_a_law_of_all_values_of_8_bits() -> None:
    body = "x == Int8(77) && y == Int8(-3) ? x : y == Int8(77) && x == Int8(-3) ? y : Int8(0)"
    assert call(f"f(x, y) = {body}\n@properties f commutative", "Int8") is not None
    body = body.replace("? y :", "? x :")
    with pytest.raises(FinchError, match="commutative"):
        call(f"f(x, y) = {body}\n@properties f commutative", "Int8")


def test_a_function_that_does_not_end_for_all() -> None:
    text = "function f(x, y)\nwhile x != 77\nx = x + 1\nend\nreturn x + y\nend\n"
    assert call(f"{text}@case f(77, y) = 77 + y").tolist() == [79, 77]


def steps(laws: str) -> int:
    """The steps of g over two lists without an entry in common."""
    taken: list[int] = []
    session = Session("interpret")
    session.observer.finished = lambda event, steps: taken.append(sum(steps.values()))
    body = "while y != 0\nx, y = y, x % y\nend\nreturn abs(x)"
    session.run(f"function g(x, y)\n{body}\nend\n{laws}")
    values = np.zeros((2, 60), int)
    values[0, ::3], values[1, 1::3] = 6765, 4181
    session["A"], session["B"] = values
    session["r"] = np.zeros(60, int)
    session.run(
        "a = Tensor(SparseList(Element(0)), A)\nb = Tensor(SparseList(Element(0)), B)\n"
        "@finch for i = _; r[i] = g(a[i], b[i]); end"
    )
    assert np.array_equal(session["r"], values[0] + values[1])
    return taken[-1]


def test_a_case_is_computed_in_place_of_the_function() -> None:
    cases = "@case g(x, 0) = abs(x)\n@case g(0, y) = abs(y)"
    assert steps(cases) < 0.9 * steps("")


def test_a_function_that_another_calls_has_its_laws() -> None:
    text = "g(x, y) = x - y\n@properties g annihilator(0)\nf(x, y) = g(x, y) + 0 * y"
    with pytest.raises(FinchError, match="`g` is not .* the annihilator 0 as argument 1"):
        call(text)
    right = "g(x, y) = y * x\n@properties g annihilator(0)\nf(x, y) = g(x, y) + 0 * y"
    assert call(right).tolist() == [6, 0]
    session = Session("denote")
    session["x"], session["r"] = np.array([3, 5]), np.zeros(2, int)
    session.run(f"{right}\n@finch for i = _; r[i] = f(x[i], 2); end")
    assert session["r"].tolist() == [6, 10]


def test_a_right_idempotent_function_of_equal_arguments() -> None:
    """f(f(x, y), y) = f(x, y) says nothing of f(x, x)."""
    session = Session()
    session["x"], session["r"] = np.array([True, False]), np.ones(2, bool)
    body = "f(x, y) = x && !y\n@properties f right_idempotent"
    session.run(f"{body}\n@finch for i = _; r[i] = f(x[i], x[i]); end")
    assert session["r"].tolist() == [False, False]


def test_a_region_outside_of_what_has_a_value_everywhere() -> None:
    session = Session()
    session["d"] = np.array([False, True, False])
    session.run("f(x, y) = x && !y\n@properties f annihilator(false, 1)\n@iterate f(x, y) = x & ~y")
    session.run("a = Tensor(SparseList(Element(false)), [true, true, false])\nr = copy(a)")
    session.run("@finch begin r .= _; for i = _; r[i] = f(a[i], d[i]) end end")
    assert session["r"].to_numpy().tolist() == [True, False, False]


@pytest.mark.parametrize("value, type, fill", [("-1", "UInt8", 255), ("0.5", "Int64", 0)])
def test_a_case_is_of_no_other_number(value: str, type: str, fill: int) -> None:
    """As an argument of its type a case's number may be another one."""
    session = Session()
    session["x"], session["r"] = np.array([7], type.lower()), np.zeros(1)
    session.run(f"f(x, y) = Float64(x) + Float64(y)\n@case f(x, {value}) = Float64(x) + {value}")
    session.run(f"a = Tensor(SparseList(Element({type}({fill}))), 1)")
    session.run("@finch for i = _; r[i] = f(x[i], a[i]) end")
    assert session["r"].tolist() == [7 + fill]


def test_a_law_is_told_by_the_name_that_is_written() -> None:
    session = Session()
    session["x"], session["r"] = np.array([1, 2]), np.zeros(2)
    text = "max(a, b) = a - b\n@properties max commutative"
    with pytest.raises(FinchError, match="`max` is not commutative .* max\\(x, y\\) is"):
        session.run(f"{text}\n@finch for i = _; r[i] = max(x[i], 2) end")


@pytest.mark.parametrize("seed", range(20))
def test_random_laws_are_told_where_the_script_finds_them_wrong(seed: int) -> None:
    outcome, shown = run_case(seed)
    assert outcome in ("told", "held", "told by other operands"), f"{outcome}\n{shown}"


@pytest.mark.parametrize("is_lie", (False, True))
@pytest.mark.parametrize("seed", range(15))
def test_random_declarations_change_no_result_unsaid(seed: int, is_lie: bool) -> None:
    outcome, shown = run_declaration(seed, is_lie)
    assert outcome in GOOD, f"{outcome}\n{shown}"


def test_a_range_is_written_as_it_is_read() -> None:
    text = '@properties where annihilator = 0 distributes("+", 2) where 0 <= x && x < 3'
    script = parse_script(f"{text}\nwhere = 3")
    assert pretty(script) == text.replace(" = 0", "(0)") + "\nwhere = 3"
    assert parse_script(pretty(script)) == script
    assert formatted(text.replace(" = ", "=").replace(" && ", "&&")) == text + "\n"


@pytest.mark.parametrize("values, stored", [([3.0, 0.0], 0), ([np.nan, 0.0], 1), ([-1.0, 0.0], 1)])
def test_what_is_not_in_a_range_is_not_relied_on(values: list[float], stored: int) -> None:
    """Nor is NaN."""
    session = Session()
    session.run("@properties min annihilator(0) where x >= 0")
    session["b"] = np.array(values)
    session.run(
        "A = Tensor(SparseList(Element(0.0)), [0.0, 0.0])\nB = Tensor(SparseList(Element(0.0)), b)"
    )
    session.run("r = Tensor(SparseList(Element(0.0)), 2)")
    session.run("@finch begin r .= 0; for i = _; r[i] = min(A[i], B[i]) end end")
    assert session["r"].countstored() == stored
    assert np.array_equal(session["r"].to_numpy(), np.minimum(0, values), equal_nan=True)
