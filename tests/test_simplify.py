"""Simplify goes by properties, never by names; it keeps types; and what it gives is equal."""

from __future__ import annotations

import ast
import cProfile
import inspect
from functools import reduce
from typing import Any

import numpy as np
import pytest
from both_hosts import Memory, run_both, vector
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import kernel, run_congruent

from finchlang.algebra import OPERATORS, Operator, law, literal_type
from finchlang.host.execute import ExecutingHost
from finchlang.host.fold import const, op
from finchlang.host.ir import Var
from finchlang.looplets import Run
from finchlang.normalize.types import type_of
from finchlang.rules import laws, loops
from finchlang.rules import simplify as simplify_module
from finchlang.rules.engine import State
from finchlang.rules.expressions import evaluate
from finchlang.rules.simplify import simplify
from finchlang.syntax import (
    EMPTY,
    MISSING,
    Access,
    Assign,
    Block,
    Call,
    Define,
    Extent,
    Index,
    Literal,
    Loop,
    Node,
    Sieve,
    Value,
    Variable,
)
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.types import Bool, Float32, Float64, Int8, Int64, Type

I = Index("i")  # noqa: E741
N = Value(Var("n", Int64))


ONE = Literal(1)


def call(name: str, *args: Node) -> Call:
    return Call(Variable(name), args)


def value(type: Type = Float64) -> Value:
    return Value(Var("x", type))


def target(type: Type = Float64, name: str = "s") -> Access:
    return Access(Variable(name), (), type=type)


def loop(body: Node, start: Node = ONE, stop: Node = N) -> Loop:
    return Loop(I, Extent(start, stop), body)


# ---------------------------------------------------------------------------- properties, not names


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a row to the operator table."""

    def add(name: str, build: Any = lambda a, b: a, **properties: Any) -> str:
        monkeypatch.setitem(OPERATORS, name, Operator(name, (2, 2), build, **properties))
        return name

    simplify_module._simple.clear()
    return add


def test_a_made_up_identity(made_up: Any) -> None:
    blend, x = made_up("blend", identity=law(7)), value()
    assert simplify(call(blend, x, Literal(7.0))) == x
    assert simplify(call(blend, Literal(7.0), x)) == x
    assert simplify(call(blend, Literal(6.0), x)) == call(blend, Literal(6.0), x)
    assert simplify(Assign(target(), Variable(blend), Literal(7.0))) == EMPTY


def test_a_made_up_right_identity(made_up: Any) -> None:
    drop, x = made_up("drop", identity=law(7, at=2)), value()
    assert simplify(call(drop, x, Literal(7.0))) == x
    assert simplify(call(drop, Literal(7.0), x)) == call(drop, Literal(7.0), x)


def test_a_made_up_annihilator(made_up: Any) -> None:
    eat, x = made_up("eat", annihilators=(law(9),)), value()
    assert simplify(call(eat, x, Literal(9.0))) == Literal(9.0, "Float64")
    assert simplify(call(eat, call("+", x, x), Literal(9.0))) == Literal(9.0, "Float64")
    assert simplify(call(eat, x, Literal(0.0))) == call(eat, x, Literal(0.0))


def test_a_made_up_idempotent_operator_collapses_loops(made_up: Any) -> None:
    settle, x = made_up("settle", right_idempotent=True), value()
    assert simplify(call(settle, x, x)) == call(settle, x, x)  # it may be x without x
    assert simplify(call(made_up("mean", idempotent=True), x, x)) == x
    assign = Assign(target(), Variable(settle), x)
    assert simplify(loop(assign, Literal(1), Literal(5))) == assign
    assert simplify(loop(assign)) == Sieve(Value(op("le", const(1), N.expr)), assign)


def test_a_made_up_repetition_collapses_loops(made_up: Any) -> None:
    times = made_up("times", lambda a, b: op("mul", a, op("cast", b, type=a.type)))
    again, five = made_up("again", repeated=times, stepped="add_times"), Literal(5, "Int64")

    def collapsed(type: Type) -> Any:
        assign = Assign(target(type), Variable(again), value(type))
        return simplify(loop(assign, Literal(1), Literal(5)))

    assert collapsed(Int64).op == Variable(again) and collapsed(Int64).value.args[1] == five
    # of floats a product may overflow where the steps do not
    assert collapsed(Float64).op == call("add_times", five)


def test_without_properties_nothing_happens(made_up: Any) -> None:
    plain, x = made_up("plain"), value()
    for args in ((x, x), (x, Literal(0.0)), (x, Literal(1.0))):
        term = call(plain, *args)
        assert simplify(term) is term
    whole = loop(Assign(target(), Variable(plain), x))
    assert simplify(whole) is whole


def test_a_made_up_inverse_and_override(made_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Operator("flip", (1, 1), lambda a: a, involution=True)
    monkeypatch.setitem(OPERATORS, "flip", row)
    x = value()
    assert simplify(call("flip", call("flip", x))) == x
    first = made_up("first", annihilators=(law(3, at=1),))
    assert simplify(call(first, Literal(3.0), x)) == Literal(3.0, "Float64")
    assert simplify(call(first, x, Literal(3.0))) == call(first, x, Literal(3.0))
    assert simplify(call(first, Literal(4.0), x)) == call(first, Literal(4.0), x)


def test_a_made_up_operator_in_a_kernel(made_up: Any) -> None:
    """A kernel over a run collapses by the property, and gets the same as without it."""
    memory = Memory()
    made_up("most", lambda a, b: op("max", a, b), right_idempotent=True)
    run = memory.array([4.0], np.float64)
    tensor = vector("a", 1000, lambda host: Run(Value(host.load(run, const(0)))))
    text = "begin\ns .= 0.0\nfor i = 1:1000\ns[] <<most>>= a[i]\nend\nend"
    found = run_both(text, [tensor], {"s": "Scalar(0.0)"}, memory)
    assert found["s"] == 4.0 and found.steps.total() < 20
    made_up("most", lambda a, b: op("max", a, b))
    again = run_both(text, [tensor], {"s": "Scalar(0.0)"}, memory)
    assert again["s"] == 4.0 and again.steps.total() > 1000


@pytest.mark.parametrize("module", [simplify_module, laws, loops])
def test_no_operator_is_known_by_name(module: Any) -> None:
    """No string in these modules is an operator of the table."""
    tree = ast.parse(inspect.getsource(module))
    compared = {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
    patterns = {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchValue)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant)
    }
    assert not (compared | patterns) & set(OPERATORS)


# ------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "name, zero, other, expected",
    [
        ("*", Literal(0), Float64, ("Float64", 0.0)),
        ("*", Literal(False), Int64, ("Int64", 0)),
        ("*", Literal(0, "Int8"), Float32, ("Float32", 0.0)),
        ("*", Literal(0, "Int8"), Int64, ("Int64", 0)),
        ("&&", Literal(False), Bool, ("Bool", False)),
        ("min", Literal(float("-inf")), Float64, ("Float64", float("-inf"))),
        ("max", Literal(127, "Int8"), Int8, ("Int8", 127)),
    ],
)
def test_annihilation_keeps_the_type_of_the_call(
    name: str, zero: Literal, other: Type, expected: tuple[str, Any]
) -> None:
    for args in ((zero, value(other)), (value(other), zero)):
        found = simplify(call(name, *args))
        assert isinstance(found, Literal)
        assert (found.type, found.value) == expected
        assert type_of(call(name, *args)) == literal_type(found)


def test_identity_keeps_the_type_of_the_call() -> None:
    x = value(Int8)
    assert simplify(call("+", x, Literal(0.0))) == call("Float64", x)
    assert simplify(call("+", x, Literal(0, "Int8"))) == x
    assert type_of(simplify(call("+", value(Bool), Literal(0)))) == Int64


def test_zeros_that_do_not_look_alike() -> None:
    """-0.0, 0 and false are zeros; the minimum of a type is its own."""
    for zero in (Literal(-0.0), Literal(0), Literal(False)):
        assert simplify(call("*", value(), zero)) == Literal(0.0, "Float64")
    assert simplify(call("max", value(Int8), Literal(-128, "Int8"))) != Literal(-128, "Int8")
    kept = call("max", value(Int64), Literal(-128))
    assert simplify(kept) == kept


def test_constants_fold_with_their_types() -> None:
    assert simplify(call("+", Literal(100, "Int8"), Literal(100, "Int8"))) == Literal(-56, "Int8")
    assert simplify(call("/", Literal(1), Literal(2))) == Literal(0.5, "Float64")
    assert simplify(call("<", Literal(1), Literal(2))) == Literal(True, "Bool")


# --------------------------------------------------------------------------------- missing, ifelse

MISS = Literal(MISSING)


def test_missing_is_contagious() -> None:
    assert simplify(call("+", value(), MISS)) == MISS
    assert simplify(call("*", Literal(0.0), MISS)) == MISS
    assert simplify(call("sqrt", MISS)) == MISS


def test_coalesce_takes_the_first_that_is_there() -> None:
    x, y = value(), value()
    assert simplify(call("coalesce", MISS, x)) == x
    assert simplify(call("coalesce", MISS, MISS, x, y)) == call("coalesce", x, y)
    assert simplify(call("coalesce", Literal(2.0), x)) == Literal(2.0)
    assert simplify(call("coalesce", MISS, MISS)) == MISS
    assert simplify(call("+", Literal(1.0), call("coalesce", MISS, Literal(2.0)))) == Literal(
        3.0, "Float64"
    )


def test_ifelse_on_a_constant() -> None:
    x, y = value(), value()
    assert simplify(call("ifelse", Literal(True), x, y)) == x
    assert simplify(call("ifelse", Literal(False), x, MISS)) == MISS
    assert simplify(call("ifelse", Literal(False), x, Literal(2))) == Literal(2.0, "Float64")


def test_missing_is_not_assigned() -> None:
    assert simplify(Assign(target(), Variable("+"), MISS)) == EMPTY
    assert simplify(Assign(target(), Variable("overwrite"), call("*", value(), MISS))) == EMPTY


# -------------------------------------------------------------------------------------- statements


def test_statements_that_do_nothing() -> None:
    nothing = Assign(target(), Variable("+"), call("*", value(), Literal(0.0)))
    assert simplify(nothing) == EMPTY
    assert simplify(Sieve(value(Bool), nothing)) == EMPTY
    assert simplify(loop(nothing)) == EMPTY
    assert simplify(Block((nothing, Block((nothing,))))) == EMPTY
    assert simplify(Define(Variable("v"), value(), nothing)) == EMPTY


def test_sieves_on_constants() -> None:
    assign = Assign(target(), Variable("+"), value())
    assert simplify(Sieve(Literal(True), assign)) == assign
    assert simplify(Sieve(Literal(False), assign)) == EMPTY
    condition = call("&&", value(Bool), Literal(False))
    assert simplify(Sieve(condition, assign)) == EMPTY


def test_empty_loops_vanish() -> None:
    assign = Assign(target(), Variable("+"), call("Float64", I))
    assert simplify(loop(assign, Literal(5), Literal(4))) == EMPTY
    term = loop(assign, Literal(5), Literal(5))
    assert simplify(term) is term
    start = Value(op("add", N.expr, const(1)))
    assert simplify(loop(assign, start, N)) == EMPTY


def test_overwriting_a_repeated_value_is_done_once() -> None:
    assign = Assign(target(), Variable("overwrite"), value())
    assert simplify(loop(assign, Literal(1), Literal(3))) == assign


def test_what_depends_on_the_index_is_not_collapsed() -> None:
    for body in (
        Assign(target(), Variable("+"), call("Float64", I)),
        Assign(Access(Variable("y"), (I,), type=Float64), Variable("+"), value()),
    ):
        term = loop(body)
        assert simplify(term) is term


def test_blocks_of_different_tensors_are_collapsed() -> None:
    one = Assign(target(name="s"), Variable("max"), value())
    other = Assign(target(name="t"), Variable("min"), value())
    assert simplify(loop(Block((one, other)), Literal(1), Literal(9))) == Block((one, other))
    same = Assign(target(name="s"), Variable("overwrite"), value())
    term = loop(Block((one, same)), Literal(1), Literal(9))
    assert simplify(term) is term  # order matters


@pytest.mark.parametrize(
    "op, fill, v", [("+", 0, 3), ("*", 1, 3), ("-", 0, 3), ("max", 0, 3), ("*", 1.0, 2.0)]
)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_collapsed_loops_do_what_loops_do(op: str, fill: Any, v: Any, n: int) -> None:
    memory = Memory()
    number = memory.number(v, Int64 if isinstance(v, int) else Float64)
    text = f"begin\ns .= {fill}\nfor i = 1:n\ns[] <<{op}>>= v\nend\nend"
    numbers = {"n": memory.number(n), "v": number}
    found = run_both(text, [], {"s": f"Scalar({fill})"}, memory, numbers)
    expected = fill
    for _ in range(n):
        expected = {"+": expected + v, "-": expected - v, "*": expected * v}.get(
            op, max(expected, v)
        )
    assert found["s"] == expected and found.steps["count"] == 0


@pytest.mark.parametrize("v", [True, False])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_repeated_product_of_bools_is_a_bool(v: bool, n: int) -> None:
    memory = Memory()
    numbers = {"n": memory.number(n), "v": memory.number(v, Bool)}
    text = "begin\ns .= true\nfor i = 1:n\ns[] *= v\nend\nend"
    found = run_both(text, [], {"s": "Scalar(true)"}, memory, numbers)
    assert found.error is None and found["s"] is (v or n == 0)


def test_repeated_bools_are_counted() -> None:
    memory = Memory()
    numbers = {"n": memory.number(5), "v": memory.number(True, Bool)}
    text = "begin\ns .= 0\nfor i = 1:n\ns[] += v\nend\nend"
    assert run_both(text, [], {"s": "Scalar(0)"}, memory, numbers)["s"] == 5


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (("+", float("inf"), "x"), float("inf")),
        (("+", "x", float("-inf")), float("-inf")),
        (("<", float("inf"), "x"), False),
        (("<", "x", float("-inf")), False),
        ((">", float("-inf"), "x"), False),
        ((">", "x", float("inf")), False),
        (("<", "x", float("inf")), None),
        (("<=", float("inf"), "x"), None),
        (("-", "x", float("inf")), float("-inf")),
        (("-", float("inf"), "x"), float("inf")),
    ],
)
def test_infinities_settle(term: tuple[Any, ...], expected: Any) -> None:
    """`expected` None: it is left as it is."""
    name, *args = term
    node = call(name, *(value() if a == "x" else Literal(a) for a in args))
    simple = simplify(node)
    assert simple == node if expected is None else simple.value == expected


# ------------------------------------------------------------------- Looplets'23 Fig 5, per argument


X, Y, K = Value(Var("x", Float64)), Value(Var("y", Float64)), Value(Var("k", Int64))


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("/", (0.0, X), 0.0),
        ("/", (X, 0.0), None),
        ("/", (X, float("inf")), 0.0),
        ("/", (0.0, 0.0), 0.0),
        ("*", (0.0, float("inf")), 0.0),
        ("*", (float("nan"), 0), 0.0),
        ("div", (0, K), 0),
        ("div", (K, 0), None),
        ("%", (0, K), 0),
        ("%", (K, 1), 0),
        ("%", (X, 1.0), None),
        ("<<", (0, K), 0),
        (">>", (0, K), 0),
        (">>", (K, 1), None),
        ("^", (1, K), 1),
        ("^", (X, 0), 1.0),
        ("^", (0, K), None),
    ],
)
def test_one_argument_decides(name: str, args: Any, expected: Any) -> None:
    """`expected` None: it is left as it is."""
    node = call(name, *(a if isinstance(a, Value) else Literal(a) for a in args))
    found = simplify(node)
    assert (
        found == node
        if expected is None
        else (found.value, found.type)
        == (
            expected,
            type_of(node).name,
        )
    )


def test_infinities_of_both_signs_decide_nothing() -> None:
    found = simplify(call("+", Literal(float("inf")), Literal(float("-inf"))))
    assert isinstance(found, Literal) and np.isnan(found.value)


def minus(*args: Node) -> Call:
    return call("-", *args)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (minus(minus(X)), X),
        (call("*", X, minus(Y)), minus(call("*", X, Y))),
        (call("*", minus(X), minus(Y)), call("*", X, Y)),
        (call("/", minus(X), Y), minus(call("/", X, Y))),
        (call("+", X, minus(Y)), minus(X, Y)),
        (call("+", minus(X), Y), minus(Y, X)),
        (minus(X, minus(Y)), call("+", X, Y)),
        (minus(Literal(0.0), X), minus(X)),
        (minus(minus(X, Y)), minus(Y, X)),
        (minus(K, K), Literal(0, "Int64")),
        (minus(X, X), None),  # NaN and Inf are not nothing
        (call("*", X, call("inv", Y)), call("/", X, Y)),
        (call("*", X, call("/", Literal(1), Y)), call("/", X, Y)),
        (call("inv", call("inv", X)), X),
        (call("/", X, call("/", X, Y)), None),
        (call("*", call("*", X, Literal(2.0)), Literal(3)), call("*", X, Literal(6.0, "Float64"))),
        (call("+", Literal(2), call("+", K, Literal(3))), call("+", K, Literal(5, "Int64"))),
        (minus(call("+", K, Literal(3)), Literal(3)), K),
        (call("max", call("max", X, Y), X), call("max", X, Y)),
        (
            call("min", Literal(3.0), call("min", X, Literal(5.0))),
            call("min", X, Literal(3.0, "Float64")),
        ),
        (call("*", call("*", X, Literal(1e-300)), Literal(1e-300)), None),  # no zero of ours
        (call("*", call("*", X, Literal(1e300)), Literal(1e300)), None),
    ],
)
def test_nests_of_calls(node: Call, expected: Node | None) -> None:
    assert simplify(node) == (node if expected is None else expected)


def test_integers_wrap_around_at_their_own_width() -> None:
    """Of narrow operands in a wider sum nothing is taken apart."""
    a, b = value(Int8), value(Int8)
    for node in (
        call("+", K, minus(a)),
        call("+", call("+", call("+", a, b), Literal(100, "Int8")), K),
        call("*", K, minus(a)),
        minus(K, minus(a)),
    ):
        assert simplify(node) == node


def test_made_up_inverses(made_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of three rows: no rule knows which operators are one."""
    made_up(
        "join", commutative=True, associative=True, group="join", inverse="turn", undone_by="part"
    )
    made_up("part", group="join")
    turn = Operator("turn", (1, 1), lambda a: a, involution=True, group="join")
    monkeypatch.setitem(OPERATORS, "turn", turn)
    made_up("spread", distributes_over={"join": 1})
    assert simplify(call("join", X, call("turn", Y))) == call("part", X, Y)
    assert simplify(call("turn", call("part", X, Y))) == call("part", Y, X)
    assert simplify(call("spread", call("turn", X), Y)) == call("turn", call("spread", X, Y))
    kept = call("spread", X, call("turn", Y))
    assert simplify(kept) == kept


def test_the_work_for_a_sum_grows_with_its_length() -> None:
    calls = []
    for count in (50, 200):
        parts = [Value(Var("x", Float64)) for _ in range(count)]
        node = reduce(lambda a, b: call("+", a, b), parts, Literal(1.0))
        profile = cProfile.Profile()
        profile.runcall(simplify, call("+", node, Literal(2.0)))
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 6 * calls[0], calls


# ---------------------------------------------------------------------------- simplified is equal

VARIABLES = tuple(Var(name, Float64) for name in "xyz")
BINARY = ("+", "-", "*", "min", "max")
NUMBERS = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 0, 1])


def terms(depth: int) -> st.SearchStrategy[Node]:
    leaves = st.one_of(NUMBERS.map(Literal), st.sampled_from([Value(v) for v in VARIABLES]))
    if depth == 0:
        return leaves
    inner = terms(depth - 1)
    choice = st.tuples(inner, inner, inner).map(
        lambda t: call("ifelse", call("<", t[0], t[1]), t[1], t[2])
    )
    binary = st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda t: call(*t))
    return st.one_of(leaves, binary, choice, st.tuples(inner).map(lambda t: call("coalesce", *t)))


@settings(max_examples=200, deadline=None)
@given(terms(3), st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_a_simplified_term_is_equal(term: Node, values: tuple[float, float, float]) -> None:
    for variable, number in zip(VARIABLES, values, strict=True):
        variable.held = float(number)
    simple = simplify(term)
    host = ExecutingHost()
    before, after = (evaluate(t, State(host, {})) for t in (term, simple))
    assert before.type == after.type
    assert host.evaluate(before) == host.evaluate(after)
    assert simplify(simple) is simple


def test_stored_zeros_are_not_annihilated() -> None:
    """In the middle of a list a stored 0.0 is data: Inf times it is NaN under every host."""
    x = Tensor.from_coo("SparseList(Element(0.0))", (4,), [np.array([1, 2])], np.array([0.0, 1.0]))
    y = np.array([np.inf, np.inf, 2.0, np.inf])
    found = run_congruent(
        kernel("s .= 0.0\nfor i = _\ns[] += x[i] * y[i]\nend"), {"x": x, "y": y, "s": Scalar(0.0)}
    )
    assert np.isnan(found["s"])


def test_a_repeated_identity_is_one() -> None:
    """A product over loops of a static 1 is no product: nothing is written, nor refused."""
    tensors = {
        "A": Tensor("Dense(Dense(SparseList(Dense(Element(1.0)))))", 2, 2, 2, 2),
        "C": Tensor("UpperTriangular(Dense(Dense(Element(0.0))))", 2, 2, 2, 2),
    }
    text = "for l=_, k=_, j=_, i=1:5\nC[~(i-2), j, k, l] *= A[~(i-2), j, k, l]\nend"
    found = run_congruent(kernel(text), tensors)
    assert not np.asarray(found["C"]).any()
