"""The Python API: a Session, what is bound in it, and what kernels do to the user's own objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from finchlang.session import ENGINES, Session
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

pytestmark = pytest.mark.optimised

RUNNING = tuple(engine for engine in ENGINES if engine != "check")
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "transposed": lambda a: a.T.copy().T,
}
SPMV = """
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
"""
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


@pytest.fixture(params=RUNNING)
def session(request: pytest.FixtureRequest) -> Session:
    return Session(engine=request.param)


def test_the_first_example(session: Session) -> None:
    session["A"] = Tensor.from_numpy(DENSE, "Dense(SparseList(Element(0.0)))")
    session["x"] = np.array([1.0, 2.0, 3.0])
    session["y"] = Tensor("Dense(Element(0.0))")
    session.run(SPMV)
    assert session["y"].to_numpy().tolist() == [7.0, 9.0]


@pytest.mark.parametrize(
    "kind", ["csc_array", "csr_array", "coo_array", "csc_matrix", "csr_matrix"]
)
def test_scipy_matrices_are_read(session: Session, kind: str) -> None:
    session["A"] = getattr(scipy.sparse, kind)(DENSE)
    session["x"] = np.array([1.0, 2.0, 3.0])
    session["y"] = np.zeros(2)
    session.run(SPMV)
    assert session["y"].tolist() == [7.0, 9.0]


def test_what_was_bound_is_given_back(session: Session) -> None:
    for value in (np.zeros(2), scipy.sparse.csc_array(DENSE), Scalar(1.0), 3, 2.5, True):
        session["v"] = value
        assert session["v"] is value
    assert "v" in session and "w" not in session
    with pytest.raises(KeyError):
        session["w"]


def test_a_scalar_has_its_value(session: Session) -> None:
    session["s"], session["A"] = Scalar(0.0), DENSE
    session.run("@finch begin s .= 0; for j = _, i = _; s[] += A[i, j]; end; end")
    assert session["s"].value == 6.0


def test_a_python_number_is_a_script_value(session: Session) -> None:
    session["n"], session["y"] = 3, Tensor("Dense(Element(0))")
    session.run("m = n + 1\n@finch begin y .= 0; for i = 1:m; y[i] = n * i; end; end")
    assert session["y"].to_numpy().tolist() == [3, 6, 9, 12]


def test_return_hands_back_tensors(session: Session) -> None:
    session["x"], session["y"], session["s"] = np.arange(3.0), np.zeros(3), Scalar(0.0)
    body = "y .= 0; s .= 0; for i = _; y[i] = 2 * x[i]; s[] += x[i]; end"
    y = session.run(f"@finch begin {body}; return y; end")
    assert y is session["y"] and y.tolist() == [0.0, 2.0, 4.0]
    y, s = session.run(f"@finch begin {body}; return (y, s); end")
    assert y is session["y"] and s is session["s"] and s.value == 3.0


# ------------------------------------------------------------------------- the user's own memory


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_write_to_the_users_array(session: Session, layout: str) -> None:
    mine = LAYOUTS[layout](DENSE.copy())
    session["A"] = mine
    session.run("@finch for j = _, i = _; A[i, j] += 10 * i + j; end")
    expected = DENSE + np.array([[11.0, 12.0, 13.0], [21.0, 22.0, 23.0]])
    assert session["A"] is mine
    assert np.array_equal(mine, expected)
    session.run("@finch for j = _, i = _; A[i, j] += 10 * i + j; end")
    assert np.array_equal(mine, 2 * expected - DENSE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_made_in_python_are_seen(session: Session, layout: str) -> None:
    mine = LAYOUTS[layout](DENSE.copy())
    session["A"], session["s"] = mine, Scalar(0.0)
    total = "@finch begin s .= 0; for j = _, i = _; s[] += A[i, j]; end; end"
    session.run(total)
    assert session["s"].value == 6.0
    mine[1, 2] = 100.0
    session.run(total)
    assert session["s"].value == 103.0


def test_a_declaration_of_the_same_size_keeps_the_array(session: Session) -> None:
    session["A"], session["x"] = DENSE, np.array([1.0, 1.0, 1.0])
    y = session["y"] = np.array([5.0, 5.0])
    session.run(SPMV)
    assert session["y"] is y and y.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_declaration_of_another_size_leaves_the_users_array(
    session: Session, layout: str
) -> None:
    mine = LAYOUTS[layout](DENSE.copy())
    session["B"], session["x"] = mine, np.arange(4.0)
    session.run("@finch begin B .= 0; for j = _, i = _; B[i, j] = x[i] * x[j]; end; end")
    assert session["B"] is not mine and np.array_equal(mine, DENSE)
    assert np.array_equal(session["B"], np.outer(np.arange(4.0), np.arange(4.0)))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_arrays_without_entries(session: Session, shape: tuple[int, ...]) -> None:
    mine = session["A"] = np.zeros(shape)
    session["s"] = Scalar(0.0)
    indices = "ijk"[: len(shape)]
    loops = ", ".join(f"{i} = _" for i in reversed(indices))
    access = f"A[{', '.join(indices)}]"
    session.run(f"@finch begin s .= 1; for {loops}; {access} += 1; s[] += 1; end; end")
    assert session["A"] is mine and mine.shape == shape and session["s"].value == 1.0


@pytest.mark.parametrize("kind", ["csc_array", "csr_array"])
def test_a_scipy_matrix_is_updated_in_place(session: Session, kind: str) -> None:
    mine = getattr(scipy.sparse, kind)(DENSE)
    session["A"] = mine
    session.run("@finch for j = _, i = _; A[i, j] *= 2; end")
    assert session["A"] is mine and np.array_equal(mine.toarray(), 2 * DENSE)


@pytest.mark.parametrize("kind", ["csc_array", "csr_array"])
def test_a_scipy_matrix_takes_new_entries(session: Session, kind: str) -> None:
    mine = session["A"] = getattr(scipy.sparse, kind)(DENSE)
    session.run("@finch for j = _, i = _; A[i, j] += 1; end")
    assert session["A"] is mine and np.array_equal(mine.toarray(), DENSE + 1)


def test_a_readonly_input_may_be_read(session: Session) -> None:
    x = np.array([1.0, 2.0, 3.0])
    x.setflags(write=False)
    session["A"], session["x"], session["y"] = DENSE, x, np.zeros(2)
    session.run(SPMV)
    assert session["y"].tolist() == [7.0, 9.0]


def test_a_readonly_array_is_not_written(session: Session) -> None:
    y = np.array([1.0, 2.0])
    y.setflags(write=False)
    session["A"], session["x"], session["y"] = DENSE, np.ones(3), y
    with pytest.raises(FinchError) as found:
        session.run(SPMV)
    assert y.tolist() == [1.0, 2.0] and found.value.kind == "type"


# --------------------------------------------------------------------------------- tensors, SciPy


@pytest.mark.parametrize(
    "format",
    [
        "Dense(Dense(Element(0.0)))",
        "Dense(SparseList(Element(0.0)))",
        "SparseList(SparseList(Element(0.0)))",
        "SparseByteMap(SparseByteMap(Element(0.0)))",
        "SparseList(Dense(Element(0.0)))",
        "Dense(SparseList{Int32}(Element(0.0)))",
    ],
)
def test_tensors_to_and_from_numpy_and_scipy(format: str) -> None:
    tensor = Tensor.from_numpy(DENSE, format)
    assert tensor.shape == (2, 3) and np.array_equal(tensor.to_numpy(), DENSE)
    matrix = tensor.to_scipy()
    assert scipy.sparse.issparse(matrix) and np.array_equal(matrix.toarray(), DENSE)


def test_a_tensor_copies_the_array_it_is_made_from() -> None:
    array = DENSE.copy()
    tensor = Tensor.from_numpy(array, "Dense(SparseList(Element(0.0)))")
    array[0, 0] = 9.0
    assert tensor.to_numpy()[0, 0] == 1.0


def test_results_of_kernels_to_scipy(session: Session) -> None:
    session["A"] = scipy.sparse.csc_array(DENSE)
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))", 0, 0)
    session.run("@finch begin C .= 0; for j = _, i = _; C[i, j] = 3 * A[i, j]; end; end")
    assert np.array_equal(session["C"].to_scipy().toarray(), 3 * DENSE)
    assert session["C"].countstored() == 3


# ------------------------------------------------------------------------------------- the session


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(FinchError, match="no engine"):
        Session(engine="warp")


def test_the_session_goes_on_after_errors(session: Session) -> None:
    session["x"], session["y"] = np.ones(3), np.ones(2)
    for text in ("y[", "@finch for i = _; y[i] += x[i]; end", "@finch for i = _; y[i] = q[i]; end"):
        with pytest.raises(FinchError):
            session.run(text)
    assert session["y"].tolist() == [1.0, 1.0] and session["x"].tolist() == [1.0, 1.0, 1.0]
    session.run("@finch for i = _; y[i] += 1; end")
    assert session["y"].tolist() == [2.0, 2.0]


def test_one_tensor_under_two_names(session: Session) -> None:
    shared = session["a"] = session["b"] = np.ones(3)
    session["s"] = Scalar(0.0)
    session.run("@finch for i = _; s[] += a[i] * b[i]; end")
    assert session["s"].value == 3.0
    with pytest.raises(FinchError) as found:
        session.run("@finch for i = _; a[i] += b[i]; end")
    assert found.value.kind == "life cycle" and found.value.span is not None
    assert shared.tolist() == [1.0, 1.0, 1.0]


def test_views_of_one_array_under_two_names(session: Session) -> None:
    """What is written must not be seen through the other name while the kernel runs."""
    shared = np.arange(4.0)
    session["a"], session["b"] = shared[:3], shared[1:]
    with pytest.raises(FinchError) as found:
        session.run("@finch for i = _; a[i] += b[i]; end")
    assert found.value.kind == "life cycle"
    assert shared.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_kernels_are_compiled_once_for_a_format() -> None:
    from finchlang.session import KernelEvent, Observer

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


def test_a_loop_that_swaps_its_tensors() -> None:
    """Each way a kernel is called keeps its own frame; what one writes the other reads."""
    session = Session()
    session.run("F = Tensor(SparseList(Element(0.0)), 6); G = Tensor(SparseList(Element(0.0)), 6)")
    session["x"] = np.arange(6.0)
    session.run("@finch begin F .= 0; for i=_ F[i] = x[i] end end")
    for k in range(1, 6):
        session.run(
            "@finch begin G .= 0; for i=_ if i > 1 G[i] = F[i] + 1 end end end; F, G = G, F",
            "swap",
        )
        expected = np.where(np.arange(6) > 0, np.arange(6.0) + k, 0)
        np.testing.assert_array_equal(session["F"].to_numpy(), expected)
        session["F"].checked = False
        session["F"].validate()


def test_memory_that_a_kernel_got_is_used_again() -> None:
    """An output that shrinks keeps its room: growing again within it takes no new memory."""
    session = Session()
    session.run("C = Tensor(SparseList(Element(0.0)), 0)")
    text = "@finch begin C .= 0; for i=_ C[i] = x[i] end end"
    addresses, sizes = set(), (50, 3, 40, 0, 50)
    for size in sizes:
        session["x"] = np.ones(size)
        session.run(text)
        memory = session["C"].memory
        assert memory.arrays[0][1] == size and memory.arrays[2][:size].tolist() == [1.0] * size
        addresses.add(memory.arrays[2].ctypes.data)
    assert len(addresses) == 2  # the two that take turns


def test_memory_that_a_failed_call_got_is_not_used_by_the_next() -> None:
    session, n = Session(), 2000
    mask, k = np.arange(n) < 3, np.arange(1, n + 1)
    session["m"], session["k"], session["x"] = mask, k, np.arange(1.0, n + 1)
    session["s"] = Tensor("SparseList(Element(0.0))", n)
    program = """
    @finch begin
        s .= 0
        for i = _
            if m[i]
                s[i] = x[k[i]]
            end
        end
    end
    """
    for _ in range(3):
        session.run(program)
    mask[:], k[-1] = True, n + 1
    for _ in range(3):
        with pytest.raises(FinchError, match="is not in 1:2000"):
            session.run(program)
        assert session["s"].countstored() == 3
    k[-1] = n
    session.run(program)
    assert np.array_equal(session["s"].to_numpy(), np.arange(1.0, n + 1))


@pytest.mark.parametrize("format", ["SparseHash(Pattern())", "SparseByteMap(Pattern())"])
def test_what_grows_within_its_memory_is_not_cut_off(format: str) -> None:
    """Entries that are unset and set again: the table keeps their number, the list does not."""
    session, n = Session(), np.arange(40)
    session["C"] = Tensor(format, 40)
    for chosen in (n < 20, (n < 20) | (n == 25), n < 26, (n < 5) | (n == 30), (n < 26) | (n == 30)):
        session["x"] = chosen.copy()
        session.run("@finch for i=_ C[i] = x[i] end")
        session["C"].checked = False
        session["C"].validate()
        np.testing.assert_array_equal(session["C"].to_numpy(), chosen)
        assert len(session["C"].storage[0]["idx"]) == chosen.sum()


def test_a_plan_takes_other_scalars_but_not_the_same_one_twice() -> None:
    session = Session()
    session["x"] = np.arange(1.0, 4.0)
    session.run(
        "function total()\n s = Scalar(0.0)\n @finch begin\n s .= 0\n for i = _\n s[] += x[i]\n end\n"
        " end\n s\nend"
    )
    found = [session.run("total()") for _ in range(3)]
    assert [s.value for s in found] == [6.0] * 3 and len({id(s) for s in found}) == 3
    session.run("a = Scalar(0.0); b = Scalar(1.0)")
    add = "@finch a[] += b[] + x[1]"
    session.run(add)
    session.run("a = Scalar(5.0); b = Scalar(2.0)")
    session.run(add)
    assert session["a"].value == 8.0
    session.run("b = a")
    with pytest.raises(FinchError, match="the same tensor"):
        session.run(add)
    session.run("b = Scalar(1)")  # of another type
    session.run(add)
    assert session["a"].value == 10.0


def test_lengths_are_right_whenever_they_are_asked_for() -> None:
    """Two tensors that take turns, of which kernels change lengths that nobody asks for at once."""
    session, n = Session(), 50
    session["F"], session["G"] = (Tensor("SparseByteMap(Pattern())", n) for _ in range(2))
    step = "@finch begin\nG .= false\nfor i = lo:hi\n if i % c == 0\n G[i] |= true\n end\nend\nend"
    for lo, hi, c in [(1, n, 1), (3, 9, 2), (1, n, 7), (5, 4, 1), (1, n, 1)] * 3:
        session["lo"], session["hi"], session["c"] = lo, hi, c
        for _ in range(3):
            session.run(step)
        kept, session["kept"] = session["G"], session["G"]
        session.run("F, G = G, F")
        session.run(step)
        wanted = [i - 1 for i in range(lo, hi + 1) if i % c == 0]
        for tensor in (session["G"], kept):
            assert tensor.storage[0]["idx"].tolist() == wanted
            assert tensor.storage[0]["stored"] == tensor.countstored() == len(wanted)


def test_a_failed_kernel_leaves_lengths_that_were_not_asked_for() -> None:
    session = Session()
    session["G"], session["k"] = Tensor("SparseByteMap(Pattern())", 9), np.array([3, 5, 7])
    step = "@finch begin\nG .= false\nfor i = _\n G[k[i]] |= true\nend\nend"
    for bad in range(3):
        session["k"][:] = [2 + bad, 5, 7 + bad % 2]
        session.run(step)
        wanted = sorted(set(session["k"] - 1))
        session["k"][bad] = 10
        with pytest.raises(FinchError, match="is not in 1:9"):
            session.run(step)
        assert session["G"].storage[0]["idx"].tolist() == wanted


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
def test_arithmetic_of_scipys_matrices_gives_sparse_tensors(form: str) -> None:
    session = Session()
    one, other = (scipy.sparse.random_array((30, 20), density=0.1, rng=k) for k in (1, 2))
    A, B = one.asformat(form), other.tocsr()
    session["A"], session["B"] = A, B
    for text, expected in (
        ("A + B", A + B),
        ("B - A / 2", B - A / 2),
        ("2 * A", 2 * A),
        ("-B", -B),
    ):
        found = session.run(text)
        assert isinstance(found, (Tensor, SwizzledTensor)) and found.countstored() == expected.nnz
        np.testing.assert_allclose(found.to_numpy(), expected.toarray())
