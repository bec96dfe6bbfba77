"""The script stratum: what small scripts give, and the errors of wrong ones with their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang.script.builtins import BUILTINS
from finchlang.script.environment import Environment
from finchlang.script.evaluate import Evaluator
from finchlang.script.show import show
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import MISSING, NOTHING, KernelNode
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.text.parse import parse_script

CSC = "Tensor(Dense(SparseList(Element(0.0))), [1.0 0; 0 2])"


def no_kernels(kernel: KernelNode, environment: Environment) -> Any:
    raise AssertionError("this script has no kernels")


def run(text: str, run_kernel=no_kernels, **names: Any) -> tuple[Any, str, Environment]:
    """The value of a script, what it printed, and what it left bound."""
    environment, printed = Environment(), []
    for name, value in names.items():
        environment.set(name, value)
    evaluator = Evaluator(run_kernel, printed.append)
    value = evaluator.evaluate(parse_script(text), environment)
    return value, "".join(printed), environment


def value(text: str, **names: Any) -> Any:
    return run(text, **names)[0]


def error(text: str, **names: Any) -> FinchError:
    with pytest.raises(FinchError) as caught:
        run(text, **names)
    return caught.value


def test_large_tensors_show_a_summary() -> None:
    A = value("fsprand(1000, 1000, 0.01; seed = 1)")
    assert 9_000 < A.countstored() < 11_000
    assert show(A) == (
        f"1000x1000 Tensor(Dense(SparseList(Element(0.0)))) with {A.countstored()} stored entries"
    )
    huge = value("fsprand(1000000000, 1000, 0.0000000001; seed = 1)")
    assert 50 < huge.countstored() < 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 5; if x < 3; 1 end", None),
        ("min = 3; min + 1", 4),
        ("max = 1; max", 1),
        ("@assert 1 < 2", None),
        ("@__DIR__", "."),
    ],
)
def test_values_of_statements(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_top_level_loops_assign_global_names() -> None:
    _, _, environment = run("for i in 1:3; last = i end")
    assert environment.get("last") == 3 and not environment.has("i")


def test_arrays_are_numpys_in_column_major_order() -> None:
    A = value("[1 2; 3 4.5]")
    assert A.flags.f_contiguous and A.dtype == np.float64 and A.tolist() == [[1, 2], [3, 4.5]]
    for text, expected in (
        ("A[2, 1]", 3),
        ("A[:, 2]", [2, 4.5]),
        ("A[1, :]", [1, 2]),
        ("A[2:2, 1:2]", [[3, 4.5]]),
        ("A + A", [[2, 4], [6, 9]]),
        ("2 * A - A / 1", [[1, 2], [3, 4.5]]),
        ("-A[:, 1]", [-1, -3]),
        ("A[2:-1:1, 1]", [3, 1]),
        ("A[2:1, 1]", []),
    ):
        np.testing.assert_array_equal(value(text, A=A), expected)
    assert isinstance(value("A[2, 1]", A=A), float)


def test_arrays_are_set_in_place() -> None:
    A = np.zeros((2, 3))
    run("A[1, 2] = 5; A[2, :] = [7, 8, 9]; A[1, 1] += 1; A[1, 3:3] = 4", A=A)
    np.testing.assert_array_equal(A, [[1, 5, 4], [7, 8, 9]])
    run("B = A[:, 1]; B[1] = 100", A=A)
    assert A[0, 0] == 1


def test_entries_of_tensors() -> None:
    T = value(CSC)
    assert value("(T[1, 1], T[1, 2], size(T), countstored(T))", T=T) == (1.0, 0.0, (2, 2), 2)
    np.testing.assert_array_equal(value("T[:, 2]", T=T), [0, 2])
    assert value("swizzle(T, 2, 1)[2, 2]", T=T) == 2.0
    caught = error("T[1, 1] = 3", T=T)
    assert caught.kind == "access order" and caught.hint is not None
    D = value("Tensor(Dense(Dense(Element(0.0))), 2, 3)")
    run("D[1, 3] = 4; E = swizzle(D, 2, 1); E[2, 1] = 5", D=D)
    np.testing.assert_array_equal(D.to_numpy(), [[0, 5, 4], [0, 0, 0]])
    s = value("s = Scalar(0.0); s[] = 3; s[] += 1; s")
    assert isinstance(s, Scalar) and s.value == 4.0 and value("s[]", s=s) == 4.0


def test_tensors_are_made_from_formats_arrays_and_tensors() -> None:
    T = value("Tensor(Dense(SparseList(Element(0.0))), 2, 3)")
    assert T.shape == (2, 3) and T.countstored() == 0
    assert value("Tensor(Dense(SparseList(Element(0.0))))").shape == (0, 0)
    A = value("A = [0 2; 3 0]; T = Tensor(A); A[1, 1] = 9; T")
    assert A.to_numpy().tolist() == [[0, 2], [3, 0]]
    dense = value(f"Tensor(Dense(Dense(Element(0.0))), {CSC})")
    assert str(dense.format) == "Dense(Dense(Element(0.0)))" and dense.to_numpy().tolist() == [
        [1, 0],
        [0, 2],
    ]
    infinite = value(f"Tensor(Dense(SparseList(Element(Inf))), {CSC})")
    assert infinite.fill == np.inf and infinite.countstored() == 4
    pattern = value(f"Tensor(Dense(SparseList(Pattern())), {CSC})")
    assert pattern.to_numpy().tolist() == [[True, False], [False, True]]
    assert error(f"Tensor(Dense(SparseList(Element(0))), {CSC})").kind == "type"
    assert error(f"Tensor(Dense(Element(0.0)), {CSC})").kind == "dimension"
    assert error("Tensor(3)").kind == "type" and error("Tensor()").kind == "type"


def test_copies_patterns_and_fills() -> None:
    stored = Tensor.from_coo(
        "Dense(SparseList(Element(0.0)))", (2, 2), [np.array([0, 1])] * 2, np.array([0.0, 3.0])
    )
    assert value("countstored(dropfills(A))", A=stored) == 1
    assert value("pattern(A)", A=stored).to_numpy().tolist() == [[True, False], [False, True]]
    assert value("fill_value(A)", A=stored) == 0.0 and value("nnz(A)", A=stored) == 2
    other = value("copy(A)", A=stored)
    other.storage[-1]["val"][:] = 7
    assert stored.to_numpy()[1, 1] == 3
    swizzled = value("swizzle(swizzle(B, 3, 1, 2), 2, 1, 3)", B=np.arange(24).reshape(2, 3, 4))
    assert isinstance(swizzled, SwizzledTensor)
    B = np.arange(24).reshape(2, 3, 4)
    once = value("swizzle(B, 3, 1, 2)", B=B).to_numpy()
    # swizzle(S, 2, 1, 3)[i, j, k] is S[j, i, k]
    np.testing.assert_array_equal(swizzled.to_numpy(), once.transpose(1, 0, 2))
    assert error("swizzle(B, 1, 1, 2)", B=B).kind == "dimension"


def test_equality_of_arrays_and_tensors() -> None:
    assert value(f"{CSC} == [1 0; 0 2]") is True
    assert value(f"{CSC} != [1 0; 0 3]") is True
    assert value("[1, 2] == [1, 2, 3]") is False and value("[1] == 1") is False


def test_printing() -> None:
    _, printed, _ = run('println("a", 1, 2.5, true, (1, "b"), missing); print([1, 2]); @time 1')
    lines = printed.splitlines()
    assert lines[0] == 'a12.5true(1, "b")missing'
    assert lines[1].startswith("[1 2]") and lines[1].endswith(" seconds")


def test_kernels_are_handed_over_with_the_scope_they_stand_in() -> None:
    seen = []

    def run_kernel(kernel: KernelNode, environment: Environment) -> Any:
        seen.append(environment.get("n"))
        environment.get("y")[:] = environment.get("n")
        return environment.get("y") if len(seen) == 2 else None

    y = np.zeros(2)
    text = """
    function f(n)
        @finch for i = _; y[i] = n end
    end
    f(3)
    n = 4
    z = @finch begin y .= 0; return y end
    z
    """
    assert run(text, run_kernel, y=y)[0] is y
    assert seen == [3, 4] and y.tolist() == [4, 4]
    with pytest.raises(FinchError) as caught:
        run("z = @finch for i = _; y[i] = 1 end", lambda k, e: None, y=y)
    assert caught.value.kind == "type"


def test_loops_can_be_interrupted() -> None:
    def stop(kernel: KernelNode, environment: Environment) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(FinchError) as caught:
        run("x = 1\nwhile true\n@finch y[1] = 1\nend", stop)
    assert caught.value.kind == "interrupted" and caught.value.span.line == 2
    with pytest.raises(FinchError) as caught:
        run("@finch y[1] = 1", stop)
    assert caught.value.kind == "interrupted"


def test_files_are_read_and_written(tmp_path) -> None:
    path = str(tmp_path / "a.mtx")
    back = value(f"fwrite(path, {CSC}); fread(path)", path=path)
    assert back.to_numpy().tolist() == [[1, 0], [0, 2]]


def test_missing_is_one_object() -> None:
    assert value("missing") is MISSING and value("nothing") is NOTHING


def test_every_builtin_says_what_it_does() -> None:
    for name, builtin in BUILTINS.items():
        assert builtin.usage.startswith(f"{name}(") and builtin.doc


@pytest.mark.parametrize(
    "extent, count",
    [("UInt8(5):UInt8(3)", 0), ("UInt8(250):UInt8(255)", 6), ("UInt8(2):-1:UInt8(0)", 3)],
)
def test_ranges_do_not_wrap_around(extent: str, count: int) -> None:
    session = Session()
    session.run(f"n = 0\nfor k = {extent}\nn += 1\nend")
    assert session["n"] == count
