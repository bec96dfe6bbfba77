"""Bad input of shape operators: what is said, and that nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Tensor

CSC = "Dense(SparseList(Element(0.0)))"
GIVEN = {
    "A": Tensor.from_numpy(np.eye(3, 4), CSC),
    "B": Tensor.from_numpy(np.eye(4, 3), CSC),
    "v": Tensor.from_numpy(np.arange(12.0), "SparseList(Element(0.0))"),
    "w": np.arange(5.0),
    "S": Tensor("SparseList(Element(0.0))", 4611686018427387904),
    "n": 5,
    "zero": 0,
}
VECTOR = "c .= 0; for k=_; c[k] = {}[k] end"
MATRIX = "C .= 0; for j=_, i=_; C[i, j] = {}[i, j] end"

#: kernel → kind of error, what its message and hint have
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "c .= 0; for k=_; c[k] = collapse(A, 1, 2)[k] * w[k] end": ("dimension", ("12", "5", "w")),
    VECTOR.format("collapse(A, 1, 1)"): ("dimension", ("collapse",)),
    VECTOR.format("collapse(A, 1, 3)"): ("dimension", ("3", "2")),
    MATRIX.format("split(v, 1, 5)"): ("dimension", ("12", "5")),
    MATRIX.format("split(v, 1, n)"): ("dimension", ("12", "5")),
    MATRIX.format("split(v, 1, 0)"): ("dimension", ("0",)),
    MATRIX.format("reshape(v, -1, -1)"): ("dimension", ("-1",)),
    MATRIX.format("reshape(v, 5, -1)"): ("dimension", ("12",)),
    MATRIX.format("reshape(v, 3, 5)"): ("dimension", ("12",)),
    MATRIX.format("concat(1, A, B)"): ("dimension", ("4", "3", "A", "B")),
    MATRIX.format("concat(2, concat(1, A, B), concat(1, B, A))"): ("dimension", ("4", "3")),
    MATRIX.format("concat(1, A, v)"): ("dimension", ("2", "1")),
    VECTOR.format("slice(v, 1, 3:20)"): ("bounds", ("3", "20", "12")),
    VECTOR.format("slice(v, 1, 1:0:3)"): ("dimension", ("step",)),
    VECTOR.format("slice(v, 2, 1:3)"): ("dimension", ("2", "1")),
    VECTOR.format("collapse(broadcast(S, 1, 2), 1, 2)"): ("dimension", ("2^62",)),
    VECTOR.format("splitt(v, 1, 5)"): ("unknown name", ("split",)),
    "for k=_; flatten(tril(C))[k] = 1 end": ("type", ("cannot be assigned to",)),
    "let T[i] = v[i]; for k=_; T[k] = 1 end end": ("type", ()),
}


def failing(text: str, engine: str, given: dict[str, Any]) -> FinchError:
    session = Session(engine)
    for name, value in given.items():
        session[name] = value
    with pytest.raises(FinchError) as caught:
        session.run(f"@finch begin {text} end")
    return caught.value


@pytest.mark.parametrize("engine", ["interpret", "native"])
@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str, engine: str) -> None:
    kind, parts = REFUSED[text]
    c, C = np.ones(7), np.ones((2, 2))
    error = failing(text, engine, GIVEN | {"c": c, "C": C})
    assert error.kind == kind, error
    said = f"{error.message} {error.hint}"
    assert all(part in said for part in parts), said
    assert error.span is not None
    np.testing.assert_array_equal(c, np.ones(7))
    np.testing.assert_array_equal(C, np.ones((2, 2)))


def test_parts_are_chosen_in_conditions() -> None:
    """A part that is out of range where another is read is no missing number."""
    session = Session("interpret")
    session["A"], session["w"], session["c"] = np.ones((2, 2)), np.full(2, 3.0), np.zeros(4)
    session.run("@finch for i=_; c[i] = ifelse(i < 3, concat(1, w, w)[i], flatten(A)[i]) end")
    np.testing.assert_array_equal(session["c"], [3, 3, 1, 1])
