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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 + 2 * 3", "7"),
        ("(7 / 2, div(7, 2), 7 % 3, -7 % 3, 2^10, -2^2)", "(3.5, 3, 1, -1, 1024, -4)"),
        ('1 < 2 <= 2 ? "yes" : "no"', '"yes"'),
        ("Int8(100) + Int8(100)", "-56"),
        ("eltype(Float32(1) + 1)", "Float32"),
        ("9223372036854775807 + 1", "-9223372036854775808"),
        ("(1e300 * 1e10, -1 / 0, 0 / 0)", "(Inf, -Inf, NaN)"),
        ("(missing + 1, coalesce(missing, 3), ismissing(missing))", "(missing, 3, true)"),
        ("(min(3, 1, 2), max(1, 2.5), abs(-3), sqrt(4))", "(1, 2.5, 3, 2.0)"),
        (
            "(round(2.6), round(Int64, 2.6), floor(-2.5), round(3.14159; digits = 2))",
            "(3.0, 3, -3.0, 3.14)",
        ),
        ('"a = $(1 + 1), $(true)" * "!"', '"a = 2, true!"'),
        ('("a" == "a", "a" < "b", "a" == 1)', "(true, true, false)"),
        ('(parse(Int64, "12"), parse(Float64, "1.5"))', "(12, 1.5)"),
        ('string("x", 1, [1 2])', '"x1[[1 2]]"'),
        ("(length(1:10), collect(1:2:7), sum(1:10), 0:0.1:0.3)", "(10, [1 3 5 7], 55, 0:0.1:0.3)"),
        ("length(collect(0:0.1:0.3))", "4"),
        ("(5:1, length(5:1), collect(3:-1:1))", "(5:1, 0, [3 2 1])"),
        ("(isapprox(1.0, 1.0 + 1e-12), isapprox([1.0, 2], [1.0, 3]))", "(true, false)"),
        ("isapprox([1.0, 2], [1.0, 2.1]; atol = 0.2)", "true"),
        ("(any([true, false]), all([true, false]), maximum([1, 3, 2]))", "(true, false, 3)"),
        ("zeros(2, 2)", "[[0. 0.]\n [0. 0.]]"),
        (
            "(eltype(ones(Int64, 2)), size(fill(7, 3, 1)), rand(2; seed = 1) == rand(2; seed = 1))",
            "(Int64, (3, 1), true)",
        ),
        ("[1, 2.5]", "[1.  2.5]"),
        ("[true false; false true]", "[[true false]\n [false true]]"),
        ("(1,)", "(1,)"),
        (
            "Dense(SparseList{Int32}(Element(Float32(0))))",
            "Dense(SparseList{Int32}(Element(Float32(0.0))))",
        ),
        ("Element{0.0, Float32}()", "Element(Float32(0.0))"),
        (CSC, "2x2 Tensor(Dense(SparseList(Element(0.0))))\n[[1. 0.]\n [0. 2.]]"),
        ("Scalar(0.0, 3)", "Scalar(3.0)"),
        ("Scalar{Float32(0)}()", "Scalar(0.0)"),
    ],
)
def test_expressions(text: str, shown: str) -> None:
    assert show(value(text)) == shown


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
        ("x = 3; x += 1.5; x", 4.5),
        ("a, b = (1, 2); a, b = b, a; (a, b)", (2, 1)),
        ("s = 0; for i in 1:3, j in 1:2; s += i * j end; s", 18),
        ("s = 0; for i in 1:9; if i == 3; continue end; if i > 5; break end; s += i end; s", 12),
        ("i = 10; for i in 1:3; end; i", 10),
        ("n = 0; while n < 5; n += 2 end; n", 6),
        ("s = 0; for x in [1 2; 3 4]; s = 10 * s + x end; s", 1324),
        ("x = 5; if x < 3; 1 elseif x < 6; 2 else 3 end", 2),
        ("x = 5; if x < 3; 1 end", None),
        ("f(x) = x + 1; f(f(1))", 3),
        ("function f(n) if n < 2; return n end; f(n - 1) + f(n - 2) end; f(15)", 610),
        ("x = 5; function f(y) x = y; x end; (f(1), x)", (1, 5)),
        ("x = 5; function f() x end; x = 6; f()", 6),
        ("function f() c = 0; function g() c += 1 end; g(); g(); c end; f()", 2),
        ("function f() c = 1; function g() c = 10; 5 end; c += g(); c end; f()", 6),
        ("function f() for i in 1:9; if i == 4; return i end end end; f()", 4),
        ("function f(n) g() = n; n += 1; g() end; (f(1), f(2))", (2, 3)),
        ("function f() for i in 1:2; for j in 1:2; s = i * j end end; s end; f()", 4),
        ("x = 1; function f() x == 1 ? g() : 0 end; g() = 7; f()", 7),
        ('f(a) = a == "both" ? 1 : 2; (f("both"), f("pull"), f(3), "a" != "b")', (1, 2, 2, True)),
        ("min = 3; min + 1", 4),
        ("f() = 1; g() = f(); f() = 2; g()", 2),
        ("function f() return end; f()", NOTHING),
        ("function f() for i in 1:2 end end; f()", NOTHING),
        ("function g(n) n == 0 ? 0 : 1 + g(n - 1) end; g(3000)", 3000),
        ("f = sqrt; f(9)", 3.0),
        ("h(f, x) = f(x); h(abs, -2)", 2),
        ('n = 0; false && error("no"); true || error("no"); true && 3', 3),
        ("max = 1; max", 1),
        ("@assert 1 < 2", None),
        ("@__DIR__", "."),
        ("isnothing(nothing) && ismissing(missing)", True),
        ("begin x = 1; x + 1 end", 2),
    ],
)
def test_statements(text: str, expected: Any) -> None:
    found = value(text)
    assert found is expected or found == expected


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


@pytest.mark.parametrize(
    ("text", "kind", "place", "part"),
    [
        ("1 + x", "unknown name", (1, 5), "x is not defined"),
        ("lenght([1])", "unknown name", (1, 1), "lenght"),
        ("Dense(Elemnt(0))", "unknown name", (1, 7), "Elemnt"),
        ("Foo{1}(2)", "unknown name", (1, 1), "no level Foo"),
        ("x = 5\nfunction f()\n  x += 1\nend\nf()", "unknown name", (3, 3), "local"),
        ('1 + "a"', "type", (1, 1), "a string"),
        ("if 1\n2 end", "type", (1, 4), "a condition must be a Bool"),
        ("while 0.5\n end", "type", (1, 7), "a condition must be a Bool"),
        ("true && 1 && 2", "type", None, "Bool"),
        ("v = [1, 2]\nv[3]", "bounds", (2, 1), "3 is not in 1:2"),
        ("v = [1, 2]\nv[0] = 1", "bounds", (2, 1), "0 is not in 1:2"),
        ("v = [1, 2]\nv[1:3]", "bounds", (2, 1), "3 is not in 1:2"),
        ("v = [1, 2]\nv[1, 1]", "dimension", (2, 1), "2 indices"),
        ("v = [1, 2]\nv[1.5]", "type", (2, 1), "an index must be an integer"),
        ("v = [1, 2]\nv[true]", "type", (2, 1), "an index must be an integer"),
        ("v = [1, 2]\nv[1] = 2.5", "type", (2, 1), "cannot be stored as Int64"),
        ("v = [1, 2]\nv[1:2] = [1, 2, 3]", "type", (2, 1), "broadcast"),
        ("[1, 2] + [1, 2, 3]", "dimension", (1, 1), "2 and 3"),
        ("[1, 2] * [1, 2]", "type", (1, 1), "`*`"),
        ('[1 "a"; 2 3]', "type", (1, 1), "array literal"),
        ("x = 3\nx[1]", "type", (2, 1), "cannot be indexed"),
        ("x = (1, 2)\nx[1] = 2", "type", (2, 1), "a tuple"),
        ("a, b = (1,)", "type", (1, 1), "1 values"),
        ("f(x, y) = x\nf(1)", "type", (2, 1), "2 arguments"),
        ("f(x) = x\nf(1; k = 2)", "type", (2, 1), "no parameter `k`"),
        ("x = 3\nx(4)", "type", (2, 1), "no function"),
        ("size()", "type", (1, 1), "size"),
        ("rand(2; sed = 1)", "type", (1, 1), "rand"),
        ("min(1)", "type", (1, 1), "2 arguments"),
        ("zeros(-1)", "dimension", (1, 1), "negative"),
        ("zeros(100000000, 100000000)", "resource", (1, 1), "zeros"),
        ("size([1 2 3], 3)", "dimension", (1, 1), "no dimension 3"),
        ("round(Int64, 1e300)", "type", (1, 1), "cannot hold"),
        ('parse(Int64, "x")', "type", (1, 1), "`x`"),
        ("maximum(())", "type", (1, 1), "maximum of nothing"),
        ("1:0:3", "type", (1, 1), "step"),
        ("for i in 3\n end", "type", (1, 1), "no entries"),
        ('error("stop ", 1)', "type", (1, 1), "stop 1"),
        ("@assert 1 + 1 == 3", "type", (1, 1), "assertion failed: 1 + 1 == 3"),
        ('@assert(false, "never")', "type", (1, 1), "assertion failed: never"),
        ("break", "syntax", (1, 1), "`break` stands outside of a loop"),
        ("return 1", "syntax", (1, 1), "`return` stands outside of a function"),
        ("f() = begin continue end\nfor i in 1:2; f() end", "syntax", (1, 13), "`continue`"),
        ("f(x) = f(x + 1)\nf(0)", "resource", (1, 8), "5000 deep"),
        ('fread("/nowhere/a.mtx")', "I/O", (1, 1), "/nowhere/a.mtx"),
        ('fwrite("/nowhere/a.mtx", [1 2])', "I/O", (1, 1), "/nowhere/a.mtx"),
    ],
)
def test_errors(text: str, kind: str, place: tuple[int, int] | None, part: str) -> None:
    caught = error(text)
    assert caught.kind == kind, caught.render()
    assert part in caught.message
    assert caught.span is not None
    if place is not None:
        assert (caught.span.line, caught.span.column) == place, caught.render()


def test_hints_for_misspelt_names() -> None:
    assert error("lenght([1])").hint == "did you mean length?"
    assert error("total = 1; totl").hint == "did you mean total?"


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
