"""What Python binds to names: which names there are, what values become, and what kernels refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang import FinchError, Session
from finchlang.tensors.element import Element
from finchlang.tensors.tensor import Scalar, Tensor

SUM = "s = Scalar(0.0); @finch for i = _ s[] += x[i] end; s[]"
ENGINES = ("native", "interpret", "denote")


@pytest.mark.parametrize(
    "name", ["a b", "for", "end", "true", "nothing", "", "1x", "x.y", "+", "f(x)"]
)
def test_what_is_no_name_is_not_bound(name: str) -> None:
    session = Session()
    with pytest.raises(FinchError) as caught:
        session[name] = 1
    assert caught.value.kind == "syntax" and repr(name) in caught.value.message
    assert name not in session


@pytest.mark.parametrize("name", ["x\n", " x", "x ", "x #", "x = y", "x, y", "x; y", "x[1]", "(x)"])
def test_a_name_is_nothing_more(name: str) -> None:
    with pytest.raises(FinchError) as caught:
        Session()[name] = 1
    assert caught.value.kind == "syntax"


def test_names_are_strings() -> None:
    for name in (3, None, b"x"):
        with pytest.raises(FinchError) as caught:
            Session()[name] = 1  # type: ignore[index]
        assert caught.value.kind == "type"


def test_names_that_scripts_may_assign_to() -> None:
    session = Session()
    for name in ("x", "sum", "Dense", "a_1", "end_", "i"):
        session[name] = 1
        assert session[name] == 1 and session.run(name) == 1


def test_none_is_nothing() -> None:
    session = Session()
    session["x"] = None
    assert session.run("isnothing(x)") is True
    assert session.run("x == nothing") is True


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1.0, 2.0], np.float64),
        ([1, 2], np.int64),
        ([1, 2.5], np.float64),
        ([True, False], np.bool_),
        ([2**63, 1], np.uint64),
        ([], np.float64),
        ([[1, 2, 3], [4, 5, 6]], np.int64),
        ([[[1.0], [2]], [[3], [4]]], np.float64),
        ([[], []], np.float64),
        ([np.float32(1), np.float32(2)], np.float32),
    ],
)
def test_lists_of_numbers_are_arrays(value: list[Any], dtype: type) -> None:
    session = Session()
    session["x"] = value
    assert session["x"].dtype == dtype
    np.testing.assert_array_equal(session["x"], np.array(value, dtype))


def test_lists_in_kernels() -> None:
    for engine in ENGINES:
        session = Session(engine)
        session["x"] = [1.0, 2.0]
        assert session.run(SUM) == 3.0
        session["A"] = [[1, 2], [3, 4]]
        program = "s = Scalar(0); @finch for j = _, i = _ s[] += i * A[i, j] end; s[]"
        assert session.run(program) == 1 * 3 + 2 * 7


def test_lists_of_other_things_stay_as_they_are() -> None:
    session = Session()
    session["x"] = names = ["a", "b"]
    assert session["x"] is names and session.run("x[2]") == "b"


def _in_itself() -> list[Any]:
    found: list[Any] = []
    found += [found, found]
    return found


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([[1, 2], [3]], "dimension"),
        ([2**64], "type"),
        ([1, -(2**63) - 1], "type"),
        ([2**63, -1], "type"),
        (_in_itself(), "resource"),
    ],
)
def test_lists_that_are_no_arrays(value: list[Any], kind: str) -> None:
    with pytest.raises(FinchError) as caught:
        Session()["x"] = value
    assert caught.value.kind == kind


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "a string"),
        ((1.0, 2.0), "a tuple"),
        (["a"], "a vector"),
        (None, "nothing"),
    ],
)
def test_what_stands_for_no_tensor(engine: str, value: Any, words: str) -> None:
    session = Session(engine)
    session["x"] = value
    session.run("s = Scalar(0.0)")
    for program in ("@finch for i = _ s[] += x[i] end", "@finch s[] += x"):
        with pytest.raises(FinchError) as caught:
            session.run(program)
        assert caught.value.kind == "type" and words in caught.value.message
        assert caught.value.span is not None and "x" in program[caught.value.span.column - 1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "a dict"),
        ({1}, "a set"),
        (object(), "an object"),
        (range(3), "a range"),
        (int, "a type"),
        (np.float16(1), "float16"),
        (1j, "a complex"),
        (np.ones(2, np.float16), "float16"),
        (np.ones(2, complex), "complex128"),
        (np.array([1, "a"], object), "object"),
        (np.array(["a"]), "<U1"),
        (np.array(["2020"], "M8[Y]"), "datetime64"),
    ],
)
def test_what_no_script_can_use_is_refused_when_it_is_bound(value: Any, words: str) -> None:
    session = Session()
    with pytest.raises(FinchError) as caught:
        session["x"] = value
    assert caught.value.kind == "type" and words in caught.value.message and caught.value.hint
    assert "x" not in session


@pytest.mark.parametrize("engine", ENGINES)
def test_other_names_do_not_matter(engine: str) -> None:
    """What a kernel binds itself, and what it does not use."""
    session = Session(engine)
    session["i"], session["y"], session["z"] = "text", ("a", 1), None
    assert session.run("s = Scalar(0); @finch for i = 1:3 let y = i; s[] += y end end; s[]") == 6


def test_integers_of_more_than_64_bits() -> None:
    """They are not wrapped, nor printed: the last has more digits than Python does."""
    session = Session()
    for value in (2**64, -(2**63) - 1, -(10**5000)):
        with pytest.raises(FinchError) as caught:
            session["x"] = value
        assert caught.value.kind == "type" and "more than 64 bits" in caught.value.message
        for make in (Scalar, lambda fill: Tensor(Element(fill)), lambda fill: Scalar(0, fill)):
            with pytest.raises(FinchError) as caught:
                make(value)
            assert caught.value.kind == "type"
    session["x"] = 2**64 - 1
    assert session.run("x % UInt64(2)") == 1
    session["x"] = -(2**63)
    assert session.run("x + 1") == -(2**63) + 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mask_that_becomes_an_array(engine: str) -> None:
    session = Session(engine)
    session.run("m = UpTriMask(); s = Scalar(0.0); A = ones(3, 3)")
    program = "for j = _, i = _ if m[i, j] s[] += A[i, j] end end"
    session.run(f"function f() @finch begin s .= 0; {program} end; s[] end")
    assert session.run("f()") == 6
    session["m"] = np.eye(3, dtype=bool)
    assert session.run("f()") == 3
    session["m"] = np.ones((3, 3))
    with pytest.raises(FinchError) as caught:
        session.run("f()")
    assert caught.value.kind == "type"
    session.run("m = LoTriMask()")
    assert session.run("f()") == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_a_name_that_is_returned_is_known(engine: str) -> None:
    session = Session(engine)
    session.run("s = Scalar(7)")
    with pytest.raises(FinchError) as caught:
        session.run("@finch begin s .= 0; return q end")
    assert caught.value.kind == "unknown name" and session["s"].value == 7
