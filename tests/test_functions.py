"""Functions of the script as operators of kernels: when they are looked at, how they are printed and kept,
and what they cost. What they mean is in `programs/function_*.finch`."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import numpy as np
import pytest
from generate_functions import TYPE, FunctionGenerator
from kernels import Watch, kernel, run_congruent, run_staged

from finchlang.algebra import operator
from finchlang.host.fold import const
from finchlang.host.print import text
from finchlang.script.closing import operation
from finchlang.session import ENGINES, Session
from finchlang.source import FinchError
from finchlang.syntax import KernelNode, Literal
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.print import pretty
from finchlang.types import TYPES, type_of_value

GCD = """
function mygcd(a, b)
    while b != 0
        a, b = b, a % b
    end
    return abs(a)
end
"""
PAIRWISE = "@finch for i = _; y[i] = f(x[i]); end"
RUNNING = [engine for engine in ENGINES if engine != "check"]


def session_with(engine: str = "native", **values: Any) -> Session:
    session = Session(engine, output=lambda _: None)
    for name, value in {"x": np.arange(1.0, 4.0), "y": np.zeros(3), **values}.items():
        session[name] = value
    return session


# ------------------------------------------------------------------------------ when they are looked at


@pytest.mark.parametrize("engine", RUNNING)
def test_a_function_defined_anew_is_seen_by_the_same_kernel(engine: str) -> None:
    session = session_with(engine)
    for body, expected in (("x + 1", [2, 3, 4]), ("2x", [2, 4, 6]), ("x + 1", [2, 3, 4])):
        session.run(f"f(x) = {body.replace('2x', '2 * x')}")
        session.run(PAIRWISE)
        assert session["y"].tolist() == expected


def test_what_is_the_same_again_is_not_compiled_again() -> None:
    watch = Watch()
    watch.traces = False
    session = Session(observer=watch)
    session["x"], session["y"] = np.arange(3.0), np.zeros(3)
    for t in (1.0, 2.0, 1.0, 2.0):
        session["t"] = t
        session.run("g(x) = x * t\nf(x) = g(x) + 1.0")
        session.run(PAIRWISE)
        assert session["y"].tolist() == [1, 1 + t, 1 + 2 * t]
    assert len(watch.events) == 2


@pytest.mark.parametrize("engine", RUNNING)
def test_a_function_bound_in_a_session(engine: str) -> None:
    other = Session(engine)
    other["t"] = 10.0
    other.run("f(x) = x + t")
    session = session_with(engine, f=other["f"], t=0.0)
    session.run(PAIRWISE)
    assert session["y"].tolist() == [11, 12, 13]
    other["t"] = 20.0
    session.run(PAIRWISE)
    assert session["y"].tolist() == [21, 22, 23]


def test_functions_of_one_name_from_several_places() -> None:
    """Each is called by its own name where it is printed."""
    session = session_with()
    session.run("""
function with_own(k)
    function g(x)
        while x > 2.0
            x -= 1.0
        end
        x * k
    end
    h(x) = g(x)
    return h
end
g = with_own(1.0)
h = with_own(10.0)
@finch for i = _; y[i] = g(x[i]) + h(x[i]); end
""")
    assert session["y"].tolist() == [11, 22, 22]


# -------------------------------------------------------------------------------- how they are printed


PRINTED = {
    "loops": (GCD, "y[i] = mygcd(x[i], z[i])"),
    "reduction": (GCD, "y[i] <<mygcd>>= z[i]"),
    "calls": (
        GCD + "t = 6\ng(a) = a > t ? mygcd(a, t) : t\nfunction k(a)\n"
        "    s = 0\n    for i = 3:-1:a\n        s += g(a)\n    end\n    s\nend",
        "y[i] = k(x[i]) + g(z[i])",
    ),
    "names": (
        "max(a, b) = a < b ? b * 2 : a * 2\nfunction x_2(a)\n"
        "    if a > 1\n        a -= 1\n    end\n    max(a, a)\nend",
        "y[i] = max(x_2(x[i]), z[i])",
    ),
}


@pytest.mark.parametrize("case", PRINTED)
def test_the_program_after_each_pass_is_one(case: str) -> None:
    functions, statement = PRINTED[case]
    body = kernel(f"for i = _\n    {statement}\nend")
    watch = Watch()
    watch.traces = False
    values = {"x": np.array([4, 6, 9]), "z": np.array([6, 9, 30])}
    session = Session(observer=watch)
    for name, value in values.items():
        session[name] = value
    session["y"] = np.zeros(3, int)
    session.run(functions)
    session.run(body)
    (event,) = watch.events
    assert "inline" in [name for name, _ in event.passes]
    for name, program in event.passes:
        again = Session()
        for given, value in values.items():
            again[given] = value
        again["y"] = np.zeros(3, int)
        again.run(pretty(KernelNode(program)))
        assert again["y"].tolist() == session["y"].tolist(), name


def test_residual_of_a_loop(golden: Any) -> None:
    body = "for i = _\n    y[i] = mygcd(x[i], 6)\nend"
    values = {"x": Tensor.from_numpy(np.array([0, 4, 9])), "y": np.zeros(3, int)}
    found = run_congruent(GCD + kernel(body), values)
    assert found["y"].tolist() == [6, 2, 3]
    golden("residual/function.txt", f"{GCD.strip()}\n{body}\n\n{text(found.residual)}")


# ---------------------------------------------------------------------------------------- what they cost


def test_where_nothing_is_stored_nothing_is_done() -> None:
    """A function without a loop, or with one that ends soon, is known at the fills."""
    steps: dict[tuple[str, int], int] = {}
    for name, functions in {
        "expression": "f(a, b) = a > b ? a - b : 0.0",
        "loop": "function f(a, b)\n  while a > b + 0.5\n    a -= 1.0\n  end\n  return a\nend",
    }.items():
        for size in (100, 1000):
            at = [[3, 50, 90]]
            x = Tensor.from_coo("SparseList(Element(0.0))", (size,), at, np.array([3.0, 1.0, 2.0]))
            values = {
                "x": x,
                "z": x,
                "y": Tensor.from_numpy(np.zeros(1), "SparseList(Element(0.0))"),
            }
            body = "y .= 0\nfor i = _\n    y[i] = f(x[i], z[i])\nend"
            steps[name, size] = run_staged(f"{functions}\n{kernel(body)}", values).total
        assert steps[name, 100] == steps[name, 1000]


@pytest.mark.parametrize("engine", RUNNING)
@pytest.mark.parametrize("loops", ["for i = 1:3", "for i = 1:3, j = 1:3"])
def test_an_interrupt_ends_a_loop_in_a_function(engine: str, loops: str) -> None:
    """At any depth: nothing bounds the loop."""
    session = session_with(engine, s=Scalar(1.0))
    session.run("function f(x)\n    while x > 0.0\n        x += 1.0\n    end\n    x\nend")
    old = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.7)
        with pytest.raises(FinchError) as found:
            session.run(f"@finch begin; s .= 0; {loops}; s[] += f(x[i]); end; end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert found.value.kind == "interrupted"
    assert session["s"].value == 1.0


@pytest.mark.parametrize("engine", RUNNING)
def test_a_literal_does_not_make_staging_endless(engine: str) -> None:
    """A call that is never made need not end."""
    session = session_with(engine)
    session.run("function f(x)\n    while x > 0.0\n        x += 1.0\n    end\n    x\nend")
    session.run("@finch for i = _; if x[i] > 5.0; y[i] = f(1.0); end; end")
    assert session["y"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("engine", RUNNING)
def test_a_failure_leaves_everything_as_it_was(engine: str) -> None:
    session = session_with(engine, x=np.array([1, 2, 0]), y=np.array([7, 8, 9]))
    session.run(
        "function f(n)\n    s = 0\n    for k = 1:2\n        s += div(6, n)\n    end\n    s\nend"
    )
    with pytest.raises(FinchError, match="divided by 0") as found:
        session.run(PAIRWISE)
    assert found.value.kind == "bounds" and found.value.span is not None
    assert found.value.span.text == "div(6, n)"
    assert session["y"].tolist() == [7, 8, 9]


# ------------------------------------------------------------------------------------- what they compute


@pytest.mark.parametrize("seed", range(60))
def test_a_function_computes_what_the_script_does(seed: int) -> None:
    """On numbers, by the row that kernels have, and by the script's own evaluator."""
    kind = ("float", "int", "bool", "minplus")[seed % 4]
    made = FunctionGenerator(seed, kind).functions()
    session = Session()
    session.run("\n".join(f.text for f in made))
    type, some = TYPES[TYPE[kind]], random.Random(seed)
    for function in made:
        row = operator(operation(session[function.name]) or Literal(0))
        assert row is not None
        for _ in range(5):
            values = [some.choice((-2, -1, 0, 1, 2, 3)) for _ in range(function.count)]
            found = row.folded([const(type.wrap(v), type) for v in values])
            arguments = ", ".join(pretty(Literal(type.wrap(v), type.name)) for v in values)
            expected = session.run(f"{function.name}({arguments})")
            assert found is not None and found.type == type_of_value(expected), function.text
            assert found.value == expected, function.text


def test_a_script_is_checked_without_the_numbers_of_its_kernels() -> None:
    session = session_with("check", B=Tensor("Dense(Element(0.0))", 0))
    session.run("""
@finch begin; B .= 0; for i = _; B[i] = x[i]; end; end
t = B[3]
g(x) = x - t
f(x) = g(x) * 2.0
@finch for i = _; y[i] = f(x[i]); end
h(x) = x + 1.0
@finch for i = _; y[i] = h(x[i]); end
""")
    assert [span and span.line for span in session.unchecked] == [6]
    with pytest.raises(FinchError, match="takes 1 argument"):
        session.run("@finch for i = _; y[i] = h(x[i], 1.0); end")


def test_errors_are_where_the_function_is_written() -> None:
    function = "function f(x)\n    z = 7 ÷ x\n    z\nend\n"
    call = "y = [1, 0]\nr = [0, 0]\n@finch for i = _; r[i] = f(y[i]); end"
    for name, before in (("first", ""), ("second", "\n\n")):
        with pytest.raises(FinchError) as error:
            Session().run(before + function + call, name)
        assert error.value.span is not None
        assert (error.value.span.source.name, error.value.span.line) == (name, len(before) + 2)


def test_an_extent_that_is_found_late_leaves_functions_to_be_called() -> None:
    """By the denotation: the arm that is not taken is where the loop's extent comes from."""
    session = Session("denote")
    session["C"], session["b"] = np.zeros((2, 2), int), np.zeros(1, int)
    session.run("function f(x, y)\nt = x\nreturn t + y\nend")
    session.run(
        "@finch begin\nb .= 0\nfor j = _, i = 1:1\nlet u = ifelse(1 == 0, C[j, j], 2)\n"
        "b[i] = f(u, 1)\nend\nend\nend"
    )
    assert session["b"].tolist() == [3]
