"""Spaces and fills of results: steps, notes of fills that store everything, and the reference's table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_staged

from finchlang.algebra import OPERATORS
from finchlang.properties import Operator, Space
from finchlang.session import Session
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_script

BOOLS = "SparseList(Element(false))"


def bools(places: Any, size: int) -> Tensor:
    places = np.array(places)
    return Tensor.from_coo(BOOLS, (size,), [places], np.ones(len(places), bool))


@pytest.mark.parametrize("which", ["all", "paper"])
def test_where_entries_cancel_nothing_is_stored(which: str) -> None:
    given = {"A": bools([1, 2, 3, 50], 100), "B": bools([2, 3, 60], 100)}
    body = kernel("C .= false; for i = _; C[i] = xor(A[i], B[i]) end")
    found = run_staged(f"C = Tensor({BOOLS}, 100)\n{body}", given, which)
    assert found.session["C"].countstored() == 3
    body = body.replace("xor(A[i], B[i])", "xor(A[i], A[i])")
    found = run_staged(f"C = Tensor({BOOLS}, 100)\n{body}", given, which)
    assert found.session["C"].countstored() == 0


def names(text: str) -> Space:
    """A space of x and y."""
    return Space(("x", "y"), parse_script(text).statements[0])


@pytest.mark.parametrize("which", ["all", "paper"])
@pytest.mark.parametrize(
    "region, value, stored",
    [
        ("x & y", "f(A[i], B[i])", {2}),
        ("x | y", "f(A[i], B[i])", {1, 2, 5, 7}),
        ("x", "f(A[i], B[i])", {1, 2}),
        ("~x & y", "f(A[i], B[i])", {5, 7}),
        ("~(x & y) & (x | y)", "f(A[i], B[i])", {1, 5, 7}),
        ("x & y", "f(A[i], B[i]) * C[i]", {2}),
        ("x & y", "f(A[i], B[i]) + C[i]", {2, 3}),
        ("~x & y", "f(f(A[i], B[i]), C[i])", {3}),
        ("x | y", "f(A[i] * B[i], C[i])", {2, 3}),
    ],
)
def test_a_row_states_its_space(
    region: str, value: str, stored: set[int], which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any shape; at places 4 and 6 a stored value is the fill, which counts as none."""
    row = Operator("xor", (2, 2), OPERATORS["+"].build, space=names(region))
    monkeypatch.setitem(OPERATORS, "xor", row)
    entries = {"A": {1: 3, 2: 4, 4: 0}, "B": {2: 1, 5: 2, 6: 0, 7: 9}, "C": {2: 1, 3: 2}}
    given: dict[str, Any] = {
        name: Tensor.from_coo(
            "SparseList(Element(0))", (9,), [np.array([*own])], np.array([*own.values()])
        )
        for name, own in entries.items()
    }
    body = kernel(f"R .= 0; for i = _; R[i] = {value.replace('f(', 'xor(')} end")
    found = run_staged(f"R = Tensor(SparseList(Element(0)), 9)\n{body}", given, which)
    assert found.error is None
    assert set(found.session["R"].storage[0]["idx"].tolist()) == stored


def notes(value: str, declared: str = "0", target: str = "SparseList(Element(0.0))") -> list[str]:
    session = Session("residual")
    session["A"] = Tensor.from_numpy(np.array([0.0, 6.0, 0.0]), "SparseList(Element(0.0))")
    session["d"] = np.array([1.0, 2.0, 3.0])
    session.run(f"C = Tensor({target}, 3)")
    session.run(f"@finch begin C .= {declared}; for i = _; C[i] = {value} end end")
    return [note.message for note in session.notes]


@pytest.mark.parametrize(
    "value, right", [("A[i] + 1", "1.0"), ("2 ^ A[i]", "1.0"), ("A[i] == 0", "1.0")]
)
def test_a_wrong_fill_is_told(value: str, right: str) -> None:
    (message,) = notes(value)
    assert "`C` has the fill 0.0" in message and f"`C .= _` gives it the fill {right}" in message
    assert notes(value, "_") == []


@pytest.mark.parametrize("value", ["A[i] * 2", "d[i] + 1", "A[i] + d[i]", "1.0", "A[i] * d[i]"])
def test_nothing_is_told_of_what_is_meant(value: str) -> None:
    assert notes(value) == []
    assert notes("A[i] + 1", target="Dense(Element(0.0))") == []


def test_what_fails_leaves_fill_and_content() -> None:
    session = Session("native")
    session["A"] = Tensor.from_numpy(np.array([0, 6]), "SparseList(Element(0))")
    session["n"] = 0
    session["C"] = Tensor.from_numpy(np.array([5, 6]), "SparseList(Element(5))")
    text = "@finch begin C .= _; for i = _; C[i] = A[i] + 1 + 0 * div(A[i], n) end end"
    with pytest.raises(Exception, match="divided by 0"):
        session.run(text.replace("0 * div", "div"))
    assert session["C"].fill == 5 and session["C"].to_numpy().tolist() == [5, 6]
    session["n"] = 2
    session.run(text.replace("0 * div", "div"))
    assert session["C"].fill == 1 and session["C"].to_numpy().tolist() == [1, 10]
