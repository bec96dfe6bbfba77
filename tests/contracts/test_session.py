"""The contract of a Session: which names there are, what values become that are bound to them, what kernels
take, and what a session gives back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang
from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.calls.runner import KernelEvent, Observer

ENGINES = pytest.mark.parametrize("engine", ["native", "interpret", "residual", "denote"])
SUM = "s = Scalar(0.0); @finch for i = _ s[] += x[i] end; s[]"
SPMV = "@finch begin y .= 0; for j = _, i = _ y[i] += A[i, j] * x[j] end; return y end"
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


def refused(value: Any, name: Any = "x") -> FinchError:
    session = Session()
    with pytest.raises(FinchError) as caught:
        session[name] = value
    assert name not in session
    return caught.value


@pytest.mark.parametrize(
    "name",
    ["a b", "for", "end", "true", "nothing", "", "1x", "x.y", "+", "f(x)", "x\n", " x", "x ", "x #"]
    + ["x = y", "x, y", "x; y", "x[1]", "(x)"],
)
def test_what_is_no_name_is_not_bound(name: str) -> None:
    error = refused(1, name)
    assert error.kind == "syntax" and repr(name) in error.message


def test_names() -> None:
    for name in (3, None, b"x"):
        assert refused(1, name).kind == "type"
    session = Session()
    for name in ("x", "sum", "Dense", "a_1", "end_", "i"):
        session[name] = 1
        assert name in session and session[name] == 1 and session.run(name) == 1
    with pytest.raises(KeyError):
        session["w"]
    assert "w" not in session
    assert list(session) == session.names() and len(session) > 6


def test_what_was_bound_is_given_back() -> None:
    session = Session()
    for value in (
        np.zeros(2),
        sp.csc_array(DENSE),
        Scalar(1.0),
        3,
        2.5,
        True,
        {1: "b"},
        ["a", "b"],
    ):
        session["v"] = value
        assert session["v"] is value
    assert session.run("v[2]") == "b"
    session["x"] = None
    assert session.run("isnothing(x)") is session.run("x == nothing") is True


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


def _in_itself() -> list[Any]:
    found: list[Any] = []
    found += [found, found]
    return found


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ([[1, 2], [3]], "dimension", ""),
        ([2**64], "type", ""),
        ([1, -(2**63) - 1], "type", ""),
        ([2**63, -1], "type", ""),
        (_in_itself(), "resource", ""),
        (set(), "type", "a set"),
        ({1}, "type", "a set"),
        (object(), "type", "an object"),
        (range(3), "type", "a range"),
        (int, "type", "a type"),
        (np.float16(1), "type", "float16"),
        (1j, "type", "a complex"),
        (np.ones(2, np.float16), "type", "float16"),
        (np.ones(2, complex), "type", "complex128"),
        (np.array([1, "a"], object), "type", "object"),
        (np.array(["a"]), "type", "<U1"),
        (np.array(["2020"], "M8[Y]"), "type", "datetime64"),
        (2**64, "type", "more than 64 bits"),
        (-(2**63) - 1, "type", "more than 64 bits"),
        (-(10**5000), "type", "more than 64 bits"),  # of more digits than Python prints
    ],
    ids=lambda part: str(type(part).__name__),
)
def test_what_no_script_can_use_is_refused_when_it_is_bound(
    value: Any, kind: str, words: str
) -> None:
    error = refused(value)
    assert error.kind == kind and words in error.message
    assert error.hint or "64 bits" in words or not words


@ENGINES
@pytest.mark.parametrize("kind", ["csc_array", "csr_array", "coo_array", "csc_matrix", "list"])
def test_kernels_take_and_hand_back_what_is_bound(engine: str, kind: str) -> None:
    session = Session(engine)
    session["A"] = DENSE.tolist() if kind == "list" else getattr(sp, kind)(DENSE)
    session["x"] = [1.0, 2.0, 3.0]
    for y in (np.zeros(2), Tensor("Dense(Element(0.0))")):
        session["y"] = y
        assert session.run(SPMV) is session["y"] is y and np.asarray(y).tolist() == [7.0, 9.0]
    session["s"], session["n"] = Scalar(0.0), 3
    body = "s .= 0; for i = _ y[i] = x[i] * n; s[] += x[i] end; return (y, s)"
    y, s = session.run(f"@finch begin y .= 0; {body} end")
    assert y is session["y"] and s is session["s"] and s.value == 6.0
    assert y.to_numpy().tolist() == [3, 6, 9]
    with pytest.raises(FinchError) as caught:
        session.run("@finch begin s .= 0; return q end")
    assert caught.value.kind == "unknown name" and s.value == 6.0


def test_integers_of_64_bits() -> None:
    for value in (2**64, -(2**63) - 1, -(10**5000)):
        for make in (Scalar, lambda fill: Tensor("Scalar(0)", fill), lambda fill: Scalar(0, fill)):
            with pytest.raises(FinchError) as caught:
                make(value)
            assert caught.value.kind in ("type", "dimension")
    session = Session()
    session["x"] = 2**64 - 1
    assert session.run("x % UInt64(2)") == 1
    session["x"] = -(2**63)
    assert session.run("x + 1") == -(2**63) + 1


def test_the_session_goes_on_after_errors() -> None:
    session = Session()
    session["x"], session["y"] = np.ones(3), np.ones(2)
    for text in ("y[", "@finch for i = _; y[i] += x[i]; end", "@finch for i = _; y[i] = q[i]; end"):
        with pytest.raises(FinchError):
            session.run(text)
    assert session["y"].tolist() == [1.0, 1.0] and session["x"].tolist() == [1.0, 1.0, 1.0]
    session.run("@finch for i = _; y[i] += 1; end")
    assert session["y"].tolist() == [2.0, 2.0]
    again = Session(output=lambda text: again.run("println(1)"))
    with pytest.raises(FinchError, match="go on to run each other"):
        again.run("println(1)")
    with pytest.raises(FinchError, match="no engine"):
        Session(engine="warp")
    with pytest.raises(FinchError, match="no rule that can be left out"):
        Session(rules="all-Nothing")


def test_kernels_are_compiled_once_for_a_format() -> None:
    class Counting(Observer):
        compiled = 0

        def kernel(self, event: KernelEvent) -> None:
            self.compiled += 1

    observer = Counting()
    session = Session(observer=observer)
    session.run("function double(v)\n@finch for i = _; v[i] += v2[i]; end\nend")
    values: list[Any] = [np.ones(3), np.ones(5), np.ones(3, np.float32)]
    for value in values:
        session["v1"], session["v2"] = value, value.copy()
        session.run("double(v1)")
        assert np.all(value == 2)
    assert observer.compiled == 2


def test_kernels_are_staged_once_for_all_engines() -> None:
    """A script that is run again, in another session and by another engine, is not staged again; by other
    rules, or from another place, it is."""
    residuals: list[Any] = []

    class Keeping(Observer):
        def kernel(self, event: KernelEvent) -> None:
            residuals.append(event.residual)

    ways = [("native", "all"), ("residual", "all"), ("interpret", "all"), ("residual", "paper")]
    for text in ("@finch for i = _; y[i] += x[i] end", "\n@finch for i = _; y[i] += x[i] end"):
        for engine, rules in ways:
            session = Session(engine=engine, rules=rules, observer=Keeping())
            session["x"], session["y"] = np.ones(3), np.zeros(3)
            session.run(text)
            assert session["y"].tolist() == [1, 1, 1]
    assert len(residuals) == 8 and len(set(map(id, residuals))) == 4


PICKLED = """
n = [1]
f(a) = a + n[1]
function g(k)
    inner(z) = 2z
    return inner(k) + f(k)
end
function adder(c)
    add(z) = z + c + f(0)
    return add
end
add = adder(5)
function double(A)
    y = Tensor(Dense(Element(0.0)))
    @finch begin
        y .= 0
        for i = _
            y[i] = 2 * A[i]
        end
    end
    return y
end
fs, t, sine, evaluator = [f, g], (1, "a", nothing, 1:3), sin, "evaluator"
m(a, b = n[1]) = a < b ? a : b
@properties m associative commutative
"""
ASKED = "n[1] += 1; (f(1), g(2), add(1), fs[2](2), sine(0.0), m(9), t[3] == nothing, evaluator)"


@pytest.mark.parametrize(
    "how",
    [copy.copy, copy.deepcopy, *(lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in (2, 5))],
)
def test_sessions_are_copied_by_names_and_values(how: Any) -> None:
    session = Session(staging=False)
    session["x"], session["h"] = np.arange(3.0), np.sin
    session["y"] = session["x"]
    session.run(PICKLED)
    copied = how(session)
    assert copied.names() == session.names()
    assert copied.run(ASKED) == (3, 8, 8, 8, 0.0, 2, True, "evaluator")
    assert session["n"].tolist() == [1] and copied["n"].tolist() == [2]
    copied["x"][0] = 7
    assert copied["y"][0] == 7 and session["x"][0] == 0
    assert copied.run("double(x)").to_numpy().tolist() == [14, 2, 4]
    assert copied["m"].laws == session["m"].laws and copied.run("h(0.0)") == 0
    assert copied["f"] is not session["f"]


def test_functions_are_pickled_with_what_they_use() -> None:
    session = Session()
    session.run(PICKLED + "\n\nlate(a) = a[5]")
    session["unused"] = lambda a: a
    args = {"f": (1,), "g": (2,), "add": (1,), "m": (9,)}
    for name, given in args.items():
        function = session[name]
        assert pickle.loads(pickle.dumps(function))(*given) == function(*given)
        assert copy.deepcopy(function) is function
    found = pickle.loads(pickle.dumps(session["double"]))(np.ones(2))
    assert found.to_numpy().tolist() == [2, 2]
    with pytest.raises(FinchError, match="28:11: bounds error: index 5"):
        pickle.loads(pickle.dumps(session["late"]))(np.ones(3))
    kernel = finchlang.kernel("function k(a)\nreturn f(a)\nend", session=session)
    assert pickle.loads(pickle.dumps(kernel))(3) == 4


def test_what_cannot_be_pickled_is_named() -> None:
    session = Session()
    session["h"] = lambda a: a + 1
    session.run("f(a) = h(a)")
    for value in (session, session["f"]):
        with pytest.raises(FinchError, match="`h` cannot be pickled") as caught:
            pickle.dumps(value)
        assert caught.value.kind == "type"
    with pytest.raises(FinchError, match="`output` cannot be pickled"):
        copy.deepcopy(Session(output=lambda text: None))
