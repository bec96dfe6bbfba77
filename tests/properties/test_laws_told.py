"""Wrong laws of functions are told by the first call of a kernel, and right ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from finchlang import FinchError, Session
from finchlang.text.formatter import formatted
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: functions of x, y and k, what is declared of them, and for which k that is wrong
WRONG = """
x + y : @properties f identity(k) : 2 5
x * y : @properties f identity(k) : 2 5
x + y : @properties f annihilator(k) : 1 6
x * y : @properties f annihilator(k, 1) : 1 6
x - k * y : @properties f commutative : 2 11
x - k * y : @properties f associative : 2 11
x - k * y : @properties f idempotent : 2 11
x - k * y : @properties f right_idempotent : 2 11
x - k * y : @properties f distributes("+") : 1 10
x + y + k * x * y : @properties f identity(0) inverse("-") : 1 10
x + k * y : @case f(x, 0) = x + k : 1 10
x + k * y : @case f(x, x) = k * x : 1 10
max(x, y) + k : @properties f idempotent : 1 8
""".strip().splitlines()
RIGHT = (
    *("x + y : commutative associative identity(0)", "x - y : identity(0, 2)"),
    'x * y : commutative associative identity(1) annihilator(0) distributes("+")',
    "max(x, y) : commutative associative idempotent distributes(min)",
    *(
        'x + y : identity(0) inverse("-") commutative associative',
        "min(x, y) : idempotent associative",
    ),
)


def call(text: str, type: str) -> np.ndarray:
    """What `f` gives for two pairs of arguments in a kernel."""
    session = Session()
    for name, values in (("x", [3, 5]), ("y", [2, 0])):
        session[name] = np.array(values, type.lower())
    session["r"] = np.zeros(2)
    session.run(f"{text}\n@finch for i = _; r[i] = f(x[i], y[i]); end")
    return session["r"]


@pytest.mark.parametrize("type", ("Int64", "Float64"))
@pytest.mark.parametrize("row", WRONG)
def test_wrong_laws_are_told(row: str, type: str) -> None:
    body, law, numbers = row.split(" : ")
    for k in map(int, numbers.split()):
        text = f"f(x, y) = {body}\n{law}".replace("k", str(k))
        with pytest.raises(FinchError, match=r"`f` is not .* with ") as found:
            call(text, type)
        assert found.value.kind == "type"


@pytest.mark.parametrize("type", ("Int64", "Float64", "Int8", "Int32"))
@pytest.mark.parametrize("row", RIGHT)
def test_right_laws_are_not(row: str, type: str) -> None:
    body, laws = row.split(" : ")
    plain = call(f"f(x, y) = {body}", type)
    assert np.array_equal(call(f"f(x, y) = {body}\n@properties f {laws}", type), plain)


def test_a_range_is_written_as_it_is_read() -> None:
    text = '@properties where annihilator = 0 distributes("+", 2) where 0 <= x && x < 3'
    script = parse_script(f"{text}\nwhere = 3")
    assert pretty(script) == text.replace(" = 0", "(0)") + "\nwhere = 3"
    assert parse_script(pretty(script)) == script
    assert formatted(text.replace(" = ", "=").replace(" && ", "&&")) == text + "\n"
