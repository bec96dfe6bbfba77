"""The contract of loops and functions that native code has whole: which are, why others are not, what is
left after a failure, what their names are bound to, and what is kept of them."""

from __future__ import annotations

import os
import signal
import sys
from inspect import signature
from typing import Any

import numpy as np
import pytest
from alarms import alarmed, ctrl_c
from in_child import isolated
from scipy.sparse import csr_matrix

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.host.rewrite import everything

LIST = "Tensor(SparseList(Element(0)), [0, 2, 0, 4])"
ADD = "@finch for i = _; s[] += x[i]; end"


def test_a_value_that_is_not_sound_is_told_where_it_is_used() -> None:
    matrix = csr_matrix(np.eye(3))
    matrix.indices[0] = 99
    session = Session()
    session["x"] = matrix
    for first in 1, 1500:
        with pytest.raises(FinchError, match="corrupt SciPy matrix"):
            session.run(
                f"n = 0\nfor k = 1:2000\n    n = k\n    if k > {first}\n        n += x[1, 1]\n    end\nend"
            )
        assert session["n"] == first + 1


def test_objects_that_are_exchanged_keep_their_names() -> None:
    x, y = Tensor("SparseList(Element(0))", [1, 2]), Tensor("SparseList(Element(0))", [0, 4])
    session = Session()
    session["x"], session["y"] = x, y
    loop = "for k = 1:n\n    x, y = y, x\n    @finch for i = _; x[i] += k; end\nend"
    session.run(f"n = 3\n{loop}")
    assert session["x"] is y and session["y"] is x
    assert y.to_numpy().tolist() == [4, 8] and x.to_numpy().tolist() == [3, 4]
    session.run(f"n = 2\n{loop}")
    assert session["x"] is y and session["y"] is x


def test_arrays_that_were_handed_out_keep_their_content() -> None:
    x = Tensor("Dense(Element(0))", [1, 2])
    values = x.storage[-1]["val"]
    session = Session()
    session["x"] = x
    session.run("for k = 1:3\n    @finch begin; x .= 0; for i = 1:2; x[i] += k; end; end\nend")
    assert values.tolist() == [1, 2] and x.to_numpy().tolist() == [3, 3]


def test_ctrl_c_ends_calls_that_call_themselves() -> None:
    session = Session()
    session.run("fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2); s = Scalar(6); n = 0")
    with pytest.raises(FinchError) as caught, alarmed(ctrl_c, 0.5):
        session.run("for k = 80:90\n    @finch s[] += k\n    n += fib(k)\nend")
    assert caught.value.kind == "interrupted"
    assert session["n"] == 0 and session["s"].value == 6


def test_code_of_functions_grows_with_the_text() -> None:
    """Each function calls the one before three times."""
    sizes = []
    for count in (4, 8, 12):
        lines = ["f0(x) = x * 3 % 1000 + 1", "y = 0"]
        for k in range(1, count + 1):
            f = f"f{k - 1}"
            lines += [f"function f{k}(x)", f"y = {f}(x)", f"if y > 5; y = {f}(y + 1) % 99; end"]
            lines += [f"return y + {f}(x) - x", "end"]
        session = Session()
        session.run("\n".join(lines))
        loops = session._evaluator.loops
        assert loops is not None
        session.run(f"s = Scalar(0)\nfor k = 2:3; k == 0 && f{count}(k); @finch s[] += k; end")
        [variant] = [v for loop in loops.known.values() for v in loop.variants if v.kernel]
        kernel: Any = variant.kernel
        sizes.append(sum(1 for _ in everything(kernel.staged.residual)))
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0]) < 600, sizes


def test_the_rounds_before_a_failure_are_not_run_step_by_step() -> None:
    text = "k = 0\nx = 0\nwhile true\n    k += 1\n    x = div(k, 20000 - k)\nend"
    session, runs = Session(), list[int]()
    run_unit = session.run_unit

    def counted(*given: Any) -> None:
        runs.append(given[2][0])
        run_unit(*given)

    session.run_unit = counted  # type: ignore[method-assign]
    with pytest.raises(FinchError):
        session.run(text)
    assert session["k"] == 20_000 and runs[1] > 18_900


@pytest.mark.parametrize(
    "loop",
    [
        "while x > 0\n    x += 1.0\nend",
        "while x > 0\n    @finch for i = _; t[i] += 1; end\nend",
        "while x > 0\n    @finch for i = _; t[i] += 1; end\n    t, u = u, t\n    x += 1\nend",
    ],
)
def test_ctrl_c_leaves_all_as_it_was(loop: str) -> None:
    session = Session()
    session.run("x = 1.0\nt = Tensor(Dense(Element(0)), 3)\nu = Tensor(Dense(Element(0)), 3)")
    tensors = session["t"], session["u"]
    with pytest.raises(FinchError) as caught, alarmed(ctrl_c, 0.5):
        session.run(loop)
    assert caught.value.kind == "interrupted"
    if "finch" in loop:
        assert session["x"] == 1.0 and (session["t"], session["u"]) == tensors
        assert not any(t.to_numpy().any() for t in tensors)


class Alarm(Exception):
    """What a signal's handler raises."""


@isolated
def test_what_a_handler_raises_ends_the_loop() -> None:
    """Also while the loop is compiled, where a fault of ours would leave it to be run kernel by kernel."""
    os.environ["FINCH_CHECK"] = "0"

    def handler(number: int, frame: Any) -> None:
        raise Alarm

    def again(lost: Any) -> None:
        """Python ignores what is raised in a callback of a weak reference or of the garbage collector."""
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    sys.unraisablehook = again
    signal.signal(signal.SIGALRM, handler)
    for number in range(-1, 16):
        session = Session()
        session["x"], session["t"] = 1.0, np.ones(3)
        if number < 0:  # Python loses what is raised while it folds the constants of a module
            session.run("for k = 1:2000\n    @finch for i = _; t[i] += k + 0.25; end\nend")
            continue
        with pytest.raises(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.004 * (1 + number))
            session.run(f"while x > 0\n    @finch for i = _; t[i] += {number}.5; end\nend")


def test_a_function_that_changes_is_staged_anew() -> None:
    session = Session()
    session.run("f(k) = k + 1\ntotal = 0")
    loop = "for k = 1:2000\n    total += f(k)\nend"
    session.run(loop)
    session.run("f(k) = 0")
    total = session["total"]
    session.run(loop)
    assert session["total"] == total == 2000 * 2001 // 2 + 2000


@pytest.mark.parametrize("work", ["n += k", "@finch s[] += 1"])
def test_new_values_in_each_short_run_are_not_compiled_each_time(work: str) -> None:
    """Each run takes a text of its own, so that no unit is for two of them; a long run is whole still."""
    session = Session()
    session.run(
        "s = Scalar(0)\nfunction f(name, rounds)\n    n = 0\n    for k = 1:rounds\n"
        f'        {work}\n        n += name == "7" ? 1 : 0\n    end\n    n\nend\n'
        'm = f("-", 1200)\nfor r = 1:60\n    m += f("$r", 3)\nend'
    )
    loops = session._evaluator.loops
    assert loops is not None
    made = sum(loop.made for loop in loops.known.values())
    assert (1 if work == "n += k" else 8) <= made < 20, made
    session.run('m += f("long", 1200)')
    assert sum(loop.made for loop in loops.known.values()) > made
    entries = 1200 * 1201 + 60 * 6 if work == "n += k" else 0
    assert session["m"] == entries + 3
    assert session["s"].value == (0 if entries else 2 * 1200 + 60 * 3)


def test_a_unit_is_found_on_disk(tmp_path: Any, monkeypatch: Any) -> None:
    from finchlang.calls import staged_unit

    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    text = (
        f"x = {LIST}\ny = {LIST}\ns = Scalar(0)\nfor k = 1:3\n    {ADD}\n    x, y = y, x\nend\ns[]"
    )
    expected = Session().run(text, "script")

    def refuse(*args: Any) -> None:
        raise AssertionError("it is staged")

    monkeypatch.setattr(staged_unit.StagedUnit, "run_rules", refuse)
    session = Session()
    assert session.run(text, "script") == expected == 18
    assert session.staged[0].endswith("is staged")


def test_scalars_and_arrays_of_numpy_take_their_results() -> None:
    session, total, array = Session(), Scalar(0), np.zeros(3)
    session["s"], session["a"] = total, array
    session.run("for k = 1:3\n    @finch begin; s[] += k; for i = _; a[i] += k; end; end\nend")
    assert session["s"] is total and total.value == 6
    assert session["a"] is array and array.tolist() == [6.0, 6.0, 6.0]
    array.flags.writeable = False
    with pytest.raises(FinchError):
        session.run("for k = 1:3\n    @finch for i = _; a[i] += k; end\nend")


def test_a_function_is_called_from_python() -> None:
    session = Session()
    session.run(
        f"function f(x, n = 2)\n    s = Scalar(0)\n    for k = 1:n\n    {ADD}\n    end\n    s[]\nend"
    )
    f = session["f"]
    assert list(signature(f).parameters) == ["x", "n"]
    assert f(np.array([1, 2])) == 6 and f(np.array([1, 2]), n=3) == 9
    assert session.staged == ["<input>:1:1: function f is staged"]
    with pytest.raises(FinchError, match="without `x`"):
        f()
    session.run("g() = nothing")
    assert session["g"]() is None


def test_functions_within_functions_may_change() -> None:
    session = Session()
    session.run("g(a) = 2a; f(a) = g(a) + 1; s = Scalar(0)")
    loop = "for k = 1:3\n    @finch begin; s .= 0; for i = 1:2; s[] += f(i); end; end\nend\ns[]"
    assert session.run(loop) == 8
    session.run("g(a) = 10a")
    assert session.run(loop) == 32
    assert session.staged[-1].endswith("is staged")


def test_what_a_function_has_given_stays_when_it_is_called_again() -> None:
    """Also after calls for other sizes, and one that fails when it has made its tensors."""
    session = Session()
    session.run(
        f"""function f(x, n)
    y, z = Tensor(Dense(Element(0)), size(x, 1)), Tensor(SparseList(Element(0)), size(x, 1))
    w = Tensor(SparseByteMap(Element(0)), size(x, 1))
    for k = 1:n
        @finch (y .= 0; for i = _; y[i] = k + x[i] end)
        @finch (w .= 0; for i = _; w[i] += y[i] end)
        @finch (z .= 0; for i = _; z[i] = w[i] * x[i] end)
    end
    if n > 3
        error("too many")
    end
    return y, z, w
end
x, few = {LIST}, Tensor(SparseList(Element(0)), [3])"""
    )
    f, found = session["f"], []
    for name, n in (("x", 1), ("x", 2), ("x", 3), ("few", 1), ("x", 4), ("x", 2), ("few", 3)):
        x = session[name].to_numpy()
        if n > 3:
            with pytest.raises(FinchError, match="too many"):
                f(session[name], n)
        else:
            found.append((x, n, f(session[name], n)))
    for x, n, (y, z, w) in found:
        for tensor, expected in ((y, x + n), (z, x * (x + n)), (w, x + n)):
            assert tensor.to_numpy().tolist() == expected.tolist()
    assert "function f is staged" in session.staged[0]
    few, entered = session["few"], list[str]()  # functions of Python, without comprehensions
    sys.setprofile(lambda frame, event, _: entered.append(event + frame.f_code.co_name))
    f(few, 3)
    sys.setprofile(None)
    assert sum(event.startswith("call") and "<" not in event for event in entered) <= 48


@pytest.mark.parametrize("name", ["f", "g"])
def test_a_function_that_is_called_often_is_whole_without_a_loop(name: str) -> None:
    session = Session()
    session.run(
        """function f(x, k)
    y = Tensor(Dense(Element(0)), size(x, 1))
    y[1] = k
    @finch for i = _; y[i] += x[i] end
    return y
end
function g(x, k); y = f(x, k); return f(y, 0); end"""
    )
    x, f = Tensor("SparseList(Element(0))", [0, 2, 5]), session[name]
    found = [f(x, k).to_numpy().tolist() for k in range(12)]
    assert found == [[k, 2, 5] for k in range(12)]
    assert any(f"function {name} is staged" in told for told in session.staged)
    with pytest.raises(FinchError, match="index 1 "):
        f(Tensor("SparseList(Element(0))", 0), 1)
