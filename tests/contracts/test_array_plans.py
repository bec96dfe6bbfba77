"""The contract of how arrays are computed: by how many kernels, in which formats, orders and memory. What
is pinned are texts of `plan`, which run, and what results store."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rows import rows as rows_of

import finchlang.array as xp
from finchlang import FinchError, Scalar, Session, SwizzledTensor, Tensor
from finchlang.calls.runner import Observer

CSC = "Dense(SparseList(Element(0.0)))"
RNG = np.random.default_rng(1)
A = RNG.integers(1, 9, (6, 5)) * (RNG.random((6, 5)) < 0.4) * 1.0
V = np.arange(1.0, 31)


def matrix(rows: int, columns: int, entries: int, format: str, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    where = random.integers(0, rows, entries), random.integers(0, columns, entries)
    made = sp.coo_array((random.random(entries), where), shape=(rows, columns))
    return xp.asarray(made.asformat(format))


def planned(*arrays: Any) -> str:
    """The text of a plan, which was run as a script."""
    text = xp.plan(*arrays)
    Session(output=lambda _: None).run(text)
    return text


def loops(text: str) -> list[str]:
    """The order of the loops around the last assignment of a program."""
    lines = [line.split() for line in text.splitlines()]
    last = start = max(k for k, words in enumerate(lines) if "+=" in words)
    while lines[start - 1][0] == "for":
        start -= 1
    return [words[1] for words in lines[start:last]]


TENSOR, CSR = Tensor(CSC, A), xp.asarray(sp.csr_array(A))
DIAGONAL = Tensor(CSC, np.diag(np.arange(5.0)))
# twice its entries need more bits than 8
SHORT = Tensor("Dense(SparseList{Int8}(Element(0.0)))", np.ones((8, 8)))
FEW, LARGE = matrix(3000, 3000, 20, "csc", 1), matrix(3000, 3000, 90_000, "csr")
TALL, LONG = xp.asarray(RNG.random((3000, 8))), xp.asarray(RNG.random(3000))
RING = matrix(600, 600, 20_000, "csr")


def repeated(times: int) -> Any:
    """A sum of a sparse matrix and a product of vectors, applied to a vector so many times."""
    found = ones = xp.asarray(np.ones(600))
    for _ in range(times):
        found = (RING + ones[:, None] * ones) @ found
    return found


def summed(count: int) -> Any:
    """The sum of so many matrices, applied to a vector."""
    return sum([RING[k : k + 30, :30] for k in range(1, count)], RING[:30, :30]) @ V


@pytest.mark.parametrize(("expression", "said", "unsaid"), rows_of("plan_rows.txt", "plans"))
def test_plans(expression: str, said: str, unsaid: str) -> None:
    text = planned(eval(expression))
    for parts, is_said in ((said, True), (unsaid, False)):
        for part in parts.split(" ; ") if parts != "-" else ():
            count, _, what = part.partition(" ")
            found = text.count(what) == int(count) if count.isdigit() else part in text
            assert found == is_said, text


def test_plans_tell_the_cheapest_order_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = planned(matrix(500, 400, 3000, "csr") @ matrix(400, 300, 3000, "csc", 1))
    assert capsys.readouterr().out == text
    (told,) = [line for line in text.splitlines() if line.startswith("#")]
    found = [part.rsplit(": ", 1) for part in told.split("steps: ")[1].split(", ")]
    costs = [float(cost) for _, cost in found]
    assert costs == sorted(costs) and len(costs) > 1 and found[0][0].split() == loops(text)


def test_plans_are_files_that_run(tmp_path: Path) -> None:
    path = tmp_path / "plan.finch"
    path.write_text(xp.std(CSR * 2 + np.ones(5), axis=0).plan())
    subprocess.run([sys.executable, "-m", "finchlang.repl", "run", str(path)], check=True)


def test_numbers_within_what_is_planned_anew_are_those_of_each_call() -> None:
    ring, tall = matrix(9, 9, 20, "csr"), xp.asarray(RNG.random((9, 2)))
    whole = np.asarray(ring.todense()) @ ring.todense() @ tall.todense()
    for start in (0, 1, 2):  # the second is a program that is known
        found = (ring @ ring @ tall)[start : start + 3].sum(axis=0)
        np.testing.assert_allclose(found.todense(), whole[start : start + 3].sum(axis=0))
    for at in (300, 300, 301):  # where both are joined at the same place, and where not
        found = xp.concat([RING[:, :300], RING], axis=1) @ xp.concat([RING[:at], RING[at - 300 :]])
        ring = np.asarray(RING.todense())
        both = np.hstack([ring[:, :300], ring]) @ np.vstack([ring[:at], ring[at - 300 :]])
        np.testing.assert_allclose(found.todense(), both)


def test_what_is_shared_is_computed_once() -> None:
    total = TENSOR.sum(axis=0)
    assert planned(total, TENSOR / total).count("+=") == 1
    shared, ratio = xp.compute(total, TENSOR / (total + 1))
    np.testing.assert_allclose(shared.to_numpy(), A.sum(axis=0))
    np.testing.assert_allclose(ratio.to_numpy(), A / (A.sum(axis=0) + 1))
    many = xp.asarray(TENSOR)
    for _ in range(30):
        many = many + many
    np.testing.assert_array_equal(many.todense(), A * 2**30)
    assert many.nbytes == TENSOR.nbytes  # of expressions, too, shared parts are walked once
    np.testing.assert_array_equal(xp.concat([many, many + 0.5]).todense()[6:], A * 2**30 + 0.5)
    turned = signs = xp.sign(RING)
    for _ in range(30):
        turned = turned.T * turned.T
    assert float(xp.sum(turned)) == float(xp.sum(signs))


@pytest.mark.parametrize(("made", "format", "stored"), rows_of("plan_rows.txt", "stored"))
def test_results_store_what_their_operands_do(made: str, format: str, stored: str) -> None:
    expression, count = eval(made), eval(stored)
    found = xp.compute(expression)
    body = found.body if isinstance(found, SwizzledTensor) else found
    assert "SparseList" in str(found.format) if format == "sparse" else str(body.format) == format
    assert count is None or body.countstored() == count
    assert found.fill == expression.fill and isinstance(xp.compute(xp.sum(found)), Scalar)


@pytest.mark.parametrize(
    "form", ["Dense(SparseList(%))", "SparseCOO{2}(%)", "SparseList(Dense(%))"]
)
@pytest.mark.parametrize("name, fill", [("cumulative_sum", 0.0), ("cumulative_prod", 1.0)])
def test_cumulative_sums_of_few_entries_are_runs(form: str, name: str, fill: float) -> None:
    dense, places = np.full((300, 2000), fill), RNG.integers((0, 0), (300, 4), (90, 2)).T
    dense[*places] = RNG.choice([1e30, -1, 2, 0, np.nan], 90)
    array = xp.asarray(Tensor(form.replace("%", f"Element({fill})"), dense))
    for axis, first in (0, False), (0, True), (1, False), (1, True):
        found = getattr(xp, name)(array, axis=axis, include_initial=first)
        wanted = getattr(np, name)(dense, axis=axis, include_initial=first)
        np.testing.assert_array_equal(xp.todense(found), wanted)
        doubled = xp.compute(found + found)
        np.testing.assert_array_equal(doubled.to_numpy(), wanted + wanted)
        assert "RunList" in str(doubled.format) and doubled.countstored() <= 90


def test_small_operands_keep_narrow_indices_after_large_ones() -> None:
    """A result of many coordinates has wide indices; its plan serves no small operands."""
    for size, format in (10**5, "SparseList(Element(0.0))"), (5, "SparseList{Int32}(Element(0.0))"):
        array = xp.asarray(sp.csr_matrix(([1.0], ([2], [3])), shape=(size, size)))
        found = xp.compute(xp.reshape(array, -1) * 7)
        assert str(found.format) == format


def test_places_in_a_huge_matrix_take_steps_for_its_entries() -> None:
    size, entries = 10**9, ([1.0, 2.0, -3.0], ([0, 5, 7], [3, 10**9 - 1, 3]))
    array = xp.asarray(sp.coo_array(entries, shape=(size, size)))
    assert int(xp.argmax(array)) == 6 * size - 1 and int(xp.argmin(array)) == 7 * size + 3


@pytest.mark.parametrize(("function", "numbers"), rows_of("plan_rows.txt", "numbers"))
def test_other_numbers_need_no_other_program(function: str, numbers: str) -> None:
    """Also where the fill depends on them, but for the result's format."""
    dense, texts, kernels = A - 4 * (A != 0), set(), set()
    fills, array = set(), xp.asarray(Tensor(CSC, dense))
    for n in map(float, numbers.split()):
        found = eval(function, {"f": xp, "x": array, "n": n})
        text = planned(found)
        texts.add("\n".join([line for line in text.split("\n") if not line.startswith("n")]))
        kernels.add(text.partition("@finch")[2])
        fills.add(found.fill)
        with np.errstate(all="ignore"):
            wanted = eval(function, {"f": np, "x": dense, "n": n})
        np.testing.assert_allclose(xp.todense(xp.compute(found)), wanted, rtol=1e-12)
        assert xp.compute(found).fill == found.fill
    assert len(kernels) == 1 and len(texts) == len(fills)


@pytest.mark.parametrize("number", [-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan])
@pytest.mark.parametrize("name", ["<", "max", "^", "/", "copysign"])
def test_numbers_on_either_side_of_the_fill(name: str, number: float) -> None:
    """Also where a zero, or a zero with a minus, is stored."""
    own = {
        "<": lambda f, a: a < number,
        "max": lambda f, a: f.maximum(a, number),
        "^": lambda f, a: a**number,
        "/": lambda f, a: (number or 1.0) / a,  # 0 / a is 0 by structure
        "copysign": lambda f, a: f.copysign(number, a),
    }[name]
    dense = np.array([[-0.0, 2.0, 0.0, -3.0, 0.0, 0.0]])
    values = sp.csr_array((dense[0, :4], [0, 1, 2, 3], [0, 4]), shape=(1, 6))
    with np.errstate(all="ignore"):
        for other in (number, 2.5):  # what was compiled for one number serves the other
            wanted = own(np, dense)
            np.testing.assert_allclose(xp.todense(own(xp, xp.asarray(values))), wanted)
            number = other


def test_dense_results_of_sparse_operands_are_asked_for() -> None:
    tensor = Tensor(CSC, 2000, 2000)
    for wide in (lambda: xp.compute(tensor + np.ones(2000)), lambda: np.asarray(tensor)):
        with pytest.raises(TypeError, match="todense"):
            wide()
    assert (tensor + np.ones(2000)).todense().sum() == 4e6
    # and what they are made of is not
    v = Tensor.from_coo("SparseList(Element(0.0))", (1 << 40,), ([4, 9],), [1.0, 2.0])
    assert float((xp.outer(v, v) @ v)[4]) == 5


def test_outputs_are_written_in_place() -> None:
    tensor, out, given = TENSOR.copy(), np.empty((6, 5)), Tensor(CSC, 6, 5)
    assert np.add(tensor, A, out=out) is out and np.array_equal(out, 2 * A)
    assert xp.compute(tensor + tensor, out=given) is given
    assert np.array_equal(given.to_numpy(), 2 * A)
    np.multiply(tensor, 2, out=tensor)
    assert np.array_equal(tensor.to_numpy(), 2 * A)
    for lazy, wrong, error, said in (
        (xp.exp(tensor), given, TypeError, "fill"),
        (tensor * 2, np.empty((6, 5), np.int64), TypeError, "int64"),
        (tensor * 2, np.empty((5, 6)), ValueError, "shape"),
    ):
        with pytest.raises(error, match=said):
            xp.compute(lazy, out=wrong)


def test_expressions_may_be_deep() -> None:
    deep = xp.asarray(TENSOR)
    for _ in range(180):
        deep = deep + TENSOR
    np.testing.assert_array_equal(deep.todense(), A * 181)
    for _ in range(6000):
        deep = deep + TENSOR
    with pytest.raises(FinchError, match="deep"):
        xp.compute(deep)


def test_memory_of_numpy_is_viewed_and_results_go_with_their_last_reference() -> None:
    array = np.arange(12.0)
    lazy, copied = xp.reshape(array, (3, 4)), xp.reshape(array, (3, 4), copy=True)
    array[0] = 7
    assert (float(lazy[0, 0]), float(copied[0, 0])) == (7, 0)
    xp.compute(TENSOR + TENSOR)
    gc.collect()
    gc.disable()
    try:
        result: Any = xp.compute(TENSOR + TENSOR)
        memory = weakref.ref(result.storage[-1]["val"].base)
        del result
        assert memory() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("operand", "change"),
    [
        (lambda: np.arange(6.0).reshape(2, 3), lambda x: setattr(x, "shape", (3, 2))),
        (lambda: np.arange(6.0), lambda x: x.resize((4,), refcheck=False)),
        (lambda: sp.csr_array(np.eye(3)), lambda x: x.resize((2, 2))),
        (lambda: sp.csr_array(np.eye(3)), lambda x: setattr(x, "data", x.data.astype(np.int32))),
        (lambda: Tensor("SparseList(Element(0.0))", 2), lambda x: _copied(np.ones(3), x)),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_operands_that_change_under_an_expression_are_refused(operand: Any, change: Any) -> None:
    given = operand()
    doubled = xp.asarray(given) * 2
    expressions = doubled, xp.sum(doubled), xp.asarray(given)
    for expression in expressions:
        xp.compute(expression)
    change(given)
    for expression in expressions:
        with pytest.raises(ValueError, match=r"an operand was an array of .* now"):
            xp.compute(expression)
    xp.compute(xp.asarray(given) * 2)


def _copied(source: Any, target: Any) -> None:
    session = Session()
    session["x"], session["y"] = source, target
    session.run("@finch begin y .= 0; for i = _ y[i] = x[i] end end")


def test_a_statement_is_one_kernel_and_known_again() -> None:
    class Count(Observer):
        kernels = 0

        def kernel(self, event: Any) -> None:
            self.kernels += 1

    found = Session(observer=Count())
    found["A"], found["B"] = A, A.T
    for _ in range(3):
        found.run("@array C = (A .+ 1) * B")
    assert found.observer.kernels == 1
    found["S"], found["v"] = DIAGONAL, V[:5]
    found.run("y = S * (S * (S * (S * (S * v))))")  # equal nests are one kernel, compiled once
    assert found.observer.kernels == 2
    np.testing.assert_array_equal(found["y"], np.arange(5) ** 5 * V[:5])


def test_engine_check_makes_nothing() -> None:
    found = Session(engine="check")
    found["A"], found["B"] = A, A.T
    found.run("@einsum C[i, j] += A[i, k] * B[k, j]\n@array D = C .* 2")
    wrong = Session(engine="check")
    wrong["A"] = A
    with pytest.raises(FinchError, match="`k` has size 5"):
        wrong.run("@einsum C[i, j] += A[i, k] * A[k, j]")


def test_arrays_are_not_imported_with_the_package() -> None:
    program = "import sys, finchlang; assert 'finchlang.array' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("sizes", [(60, 100, 60), (100, 60)])
def test_formats_have_room_for_other_sizes(sizes: tuple[int, ...]) -> None:
    """The program for small operands keeps their index type, which does not hold twice 100."""
    for size in sizes:
        x, y = (Tensor("SparseList{Int8}(Element(0.0))", np.full(size, v)) for v in (1.0, 2.0))
        assert xp.concat([x, y]).compute().to_numpy().tolist() == [1.0] * size + [2.0] * size


def test_a_store_may_have_more_room_than_there_are_places() -> None:
    """Which counts as one entry for each place."""
    dense = np.arange(9.0).reshape(3, 3)
    lists = xp.compute(xp.asarray(dense, format="SparseList(SparseList(Element(2.0)))") * 1)
    found = xp.sum(lists[..., None] + lists[:, :2], axis=1)
    np.testing.assert_array_equal(found.todense(), (dense[..., None] + dense[:, :2]).sum(axis=1))


def test_masks_that_store_zeros_give_zeros() -> None:
    stored = sp.random_array((300, 300), density=0.01, rng=1, format="csr")
    stored.data[::2] = 0.0
    left, right = xp.asarray(np.ones((300, 40))), xp.asarray(np.ones((40, 300)))
    found = xp.compute(xp.asarray(stored) * (1 / (left @ right)))
    np.testing.assert_allclose(found.to_numpy(), stored.toarray() / 40)


def test_a_sum_that_is_subtracted_or_divides_stays_so() -> None:
    """Beside other factors of the product that addition, or multiplication, is."""
    x, v = xp.asarray(sp.csr_array(A)), np.arange(5.0)
    total = (A @ v).sum()
    for found, wanted in (
        (v - xp.sum(x @ v), v - total),
        (4 - xp.sum(x @ v), 4 - total),
        (xp.sum(x) / xp.sum(x @ v), A.sum() / total),
        (xp.sum(x) * (2 * xp.sum(x @ v)), A.sum() * 2 * total),
    ):
        np.testing.assert_allclose(xp.todense(xp.compute(found)), wanted)


def test_differences_are_multiplied_out_by_the_users_word() -> None:
    array = np.zeros((400, 60))
    array[::40, :] = RNG.random((10, 60))
    array[:, 3] = 1e8 + RNG.standard_normal(400)
    rest = array - array.mean(axis=0)
    x = xp.asarray(sp.csc_array(array))
    covariance = (x - xp.mean(x, axis=0)).T @ (x - xp.mean(x, axis=0))
    exact, quick = (xp.todense(xp.compute(covariance, reorder=r)) for r in ("exact", "any"))
    np.testing.assert_allclose(exact, rest.T @ rest, rtol=1e-9, atol=1e-6)
    others = np.delete(np.arange(60), 3)
    wanted = (rest.T @ rest)[np.ix_(others, others)]
    np.testing.assert_allclose(quick[np.ix_(others, others)], wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="reorder"):
        xp.compute(covariance, reorder="some")


def test_a_stored_zero_meets_infinity_beside_a_number() -> None:
    """0 * Inf is NaN where the 0 is stored, also below `clip` and others that take numbers as arguments."""
    entries = np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])
    zero, dense = sp.csr_array(entries, shape=(2, 2)), np.full((2, 2), np.inf)
    product = xp.asarray(zero) * xp.asarray(dense)
    for found in (xp.clip(product, -1, 1), xp.maximum(product, 0), product**3):
        assert np.isnan(xp.compute(found).to_numpy()[0, 0])
        assert xp.compute(found).to_numpy()[0, 1] == 0


def test_a_number_keeps_the_label_over_which_it_is_summed() -> None:
    """Each term of a sum in a product is summed as often as the sum, also one that is a number alone."""
    for rows in (3, 30):
        a, b = np.arange(rows * 30).reshape(rows, 30), np.arange(40).reshape(1, 40) - 7
        for reorder in ("exact", "any", "none"):
            summed = xp.sum(xp.asarray(a) + 1, axis=0, keepdims=True)
            found = xp.compute(xp.permute_dims(summed, (1, 0)) @ xp.asarray(b), reorder=reorder)
            np.testing.assert_array_equal(found.to_numpy(), (a + 1).sum(0)[:, None] @ b)


def test_fills_are_reduced_apart_where_all_else_is_the_same() -> None:
    """Along the axes: also beside what is broadcast over them, and where no fill is left, or infinite."""
    x = xp.asarray(sp.csr_array(np.where(RNG.random((40, 30)) < 0.1, 1.5, 0) + np.eye(40, 30)))
    dense, row, column = x.toarray(), np.arange(30.0), np.linspace(-1, 1, 40)[:, None]
    dense[:, 3] = 2
    x = xp.asarray(sp.csr_array(dense))
    for make in (
        lambda x, np: np.sum((x - row) ** 2, axis=0),
        lambda x, np: np.sum((x - column) ** 2, axis=1),
        lambda x, np: np.max(x - row, axis=0),
        lambda x, np: np.log(np.sum(np.exp(x - np.max(x, axis=0)), axis=0)),
        lambda x, np: np.sum(np.where(x > 1, 0.5, np.inf), axis=0),
    ):
        text = xp.plan(make(x, xp))
        assert "x0[i, j] != 0.0" in text or "x0[j, i] != 0.0" in text
        np.testing.assert_allclose(xp.todense(make(x, xp)), make(dense, np), rtol=1e-12, atol=1e-20)
    # what is sparse in one part, and beside a dense array in another
    full = np.where(dense > 0, 0.0, 7.0)
    found = xp.todense(xp.max(xp.exp(x * xp.asarray(full) - row) - (x - row), axis=0))
    np.testing.assert_allclose(found, np.max(np.exp(-row) - (dense - row), axis=0), rtol=1e-12)
    # both signs of a stored zero are one fill, but where a function tells them apart
    zeros = sp.csr_array((np.array([-0.0]), np.array([0]), np.array([0, 1, 1])), shape=(2, 2))
    signs = xp.max(xp.copysign(column[:2], xp.asarray(zeros)), axis=1)
    np.testing.assert_array_equal(xp.todense(signs), np.abs(column[:2, 0]))


def test_fills_are_as_many_as_there_are_places() -> None:
    """In a program that is known from another size, too, and beyond 2^63 of them."""
    lists = "SparseList(SparseList(Element(1.0)))"
    for rows in (8, 15, 6):
        column = np.arange(rows), np.full(rows, 5)
        x = Tensor.from_coo(lists, (rows, 1 << 30), column, np.full(rows, 0.5))
        assert xp.max(x, axis=0)[5].item() == 0.5 and xp.min(x[:6], axis=0)[6].item() == 1
    huge = Tensor.from_coo(lists, (1 << 40, 1 << 40), ([3, 9], [2, 1 << 30]), [2.0, 0.5])
    for found, wanted in ((xp.mean(huge), 1), (xp.sum(huge), 2.0**80), (xp.prod(huge / 2), 0)):
        assert float(found) == wanted
    assert xp.max(xp.full(huge.shape, 3)).item() == 3


def test_elements_between_those_that_are_stored_have_the_fill() -> None:
    """Of dense levels within sparse ones, where it is a number that the kernel does not know."""
    found = xp.compute(xp.asarray(A, format="SparseList(Dense(Element(0.0)))") + 0.3)
    np.testing.assert_array_equal(found.to_numpy(), A + 0.3)
    # a value that stands for the fill of a result that stores only what is written
    stood_in = -(2**61) - 12345
    whole = np.array([[stood_in - 7, 0], [0, 4]])
    found = xp.compute(xp.asarray(whole, format="SparseList(Dense(Element(0)))") + 7)
    np.testing.assert_array_equal(found.to_numpy(), whole + 7)
    for _ in range(2):  # the second program is known
        found = xp.compute(xp.reshape(TENSOR.T @ TENSOR, -1)[:, None] + 3)
        np.testing.assert_array_equal(found.to_numpy(), (A.T @ A).reshape(-1, 1) + 3)


def test_an_index_that_masks_alone_have_is_a_loop() -> None:
    """No operand has the index that the product of two triangles is summed over."""
    triangle = xp.triu(xp.broadcast_to(xp.asarray(np.asarray(3)), (4, 4)))
    wanted = np.triu(np.full((4, 4), 3))
    np.testing.assert_array_equal(xp.todense(triangle @ triangle.T), wanted @ wanted.T)
