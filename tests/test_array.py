"""Lazy arrays: what is computed and how, results and their formats, protocols of Python and NumPy."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import finchlang.array as xp
from finchlang import FinchError, Scalar, Session, SwizzledTensor, Tensor

CSC = "Dense(SparseList(Element(0.0)))"


def matrix(seed: int = 0, shape: tuple[int, int] = (6, 5)) -> np.ndarray:
    return sp.random(*shape, density=0.3, random_state=seed).toarray()


def test_operators_of_tensors_are_lazy_and_computed_by_one_kernel() -> None:
    array = matrix()
    tensor, vector = Tensor.from_numpy(array, CSC), np.arange(6.0)[:, None]
    lazy = (tensor * vector + tensor).sum(axis=0)
    assert isinstance(lazy, xp.Array)
    assert np.allclose(np.asarray(lazy), (array * vector + array).sum(axis=0))
    assert lazy.plan().count("@finch") == 1


def test_results_have_the_format_and_fill_of_what_they_are_made_of() -> None:
    tensor = Tensor.from_numpy(matrix(), CSC)
    assert str(xp.compute(tensor + tensor).format) == CSC
    assert str(xp.compute(tensor * np.ones((6, 1))).format) == CSC
    assert str(xp.compute(xp.exp(tensor)).format) == "Dense(SparseList(Element(1.0)))"
    assert xp.compute(xp.exp(tensor)).countstored() == tensor.countstored()
    assert str(xp.compute(tensor > 0.5).format) == "Dense(SparseList(Element(false)))"
    assert str(xp.compute(tensor.sum(axis=1)).format) == "Dense(Element(0.0))"
    assert isinstance(xp.compute(tensor.sum()), Scalar)
    assert isinstance(xp.compute(sp.csr_array(matrix()) * 2), SwizzledTensor)


def test_one_kernel_for_all_values_of_a_number_that_decides_nothing() -> None:
    tensor = Tensor.from_numpy(matrix(), CSC)
    text = (tensor * 2.5).plan()
    assert "2.5\n" in text and "* 2.5" not in text
    assert "> 0.5" in (tensor > 0.5).plan()  # here it decides the fill


def test_what_is_shared_is_computed_once() -> None:
    tensor = Tensor.from_numpy(matrix(), CSC)
    total = tensor.sum(axis=0)
    shared, ratio = xp.compute(total, tensor / total)
    assert np.allclose(shared.to_numpy(), matrix().sum(axis=0))
    sums = matrix().sum(axis=0)
    assert np.allclose(ratio.to_numpy(), matrix() / np.where(sums == 0, 1, sums))
    assert xp.plan(total, tensor / total).count("+=") == 1


def test_plans_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = sp.csr_array(matrix())
    lazy = xp.std(xp.asarray(tensor) * 2 + np.ones(5), axis=0)
    text = lazy.plan()
    assert capsys.readouterr().out == text
    path = tmp_path / "plan.finch"
    path.write_text(text)
    command = [sys.executable, "-m", "finchlang.repl", "run", str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    Session(output=lambda _: None).run(text)


def test_numpy_functions_take_tensors() -> None:
    array = matrix()
    tensor = Tensor.from_numpy(array, CSC)
    assert np.allclose(np.asarray(tensor), array)
    assert float(np.sum(tensor)) == pytest.approx(array.sum())
    assert np.allclose(np.asarray(np.where(tensor, 1, 2)), np.where(array, 1, 2))
    assert np.allclose(np.asarray(np.add(array, tensor)), 2 * array)
    assert np.allclose(np.asarray(array + tensor), 2 * array)
    assert np.allclose(np.asarray(np.add.reduce(tensor)), array.sum(axis=0))
    assert np.allclose(np.asarray(np.mean(tensor, 1)), array.mean(1))
    assert tensor.__array_namespace__() is xp
    with pytest.raises(TypeError):
        np.partition(tensor, 1)
    with pytest.raises(TypeError):
        np.frexp(tensor)


def test_outputs_are_written_in_place() -> None:
    array = matrix()
    tensor, out = Tensor.from_numpy(array, CSC), np.empty((6, 5))
    assert np.add(tensor, array, out=out) is out
    assert np.allclose(out, 2 * array)
    given = Tensor(CSC, 6, 5)
    assert xp.compute(tensor + tensor, out=given) is given
    assert np.allclose(given.to_numpy(), 2 * array)
    np.multiply(tensor, 2, out=tensor)
    assert np.allclose(tensor.to_numpy(), 2 * array)
    with pytest.raises(TypeError, match="fill"):
        xp.compute(xp.exp(tensor), out=given)
    with pytest.raises(TypeError, match="int64"):
        xp.compute(tensor * 2, out=np.empty((6, 5), np.int64))
    with pytest.raises(ValueError, match="shape"):
        xp.compute(tensor * 2, out=np.empty((5, 6)))


def test_dense_results_of_sparse_operands_are_asked_for() -> None:
    tensor = Tensor(CSC, 2000, 2000)
    with pytest.raises(TypeError, match="todense"):
        xp.compute(tensor + np.ones(2000))
    with pytest.raises(TypeError, match="todense"):
        np.asarray(tensor)
    assert (tensor + np.ones(2000)).todense().sum() == 4e6
    assert xp.compute(tensor + 1).countstored() == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda t: t + np.ones(4), ValueError),
        (lambda t: t.sum(axis=2), ValueError),
        (lambda t: t.sum(axis=(0, 0)), ValueError),
        (lambda t: t + "x", TypeError),
        (lambda t: t + 1j, TypeError),
        (lambda t: xp.asarray(np.ones(3, complex)), TypeError),
        (lambda t: xp.astype(t, np.float16), TypeError),
        (lambda t: t & t, TypeError),
        (lambda t: bool(t), ValueError),
        (lambda t: xp.asarray(np.ones(3, np.int8)) + 300, OverflowError),
        (lambda t: Tensor(CSC, 0, 2).max(), ValueError),
    ],
)
def test_what_is_wrong_is_told_at_once(wrong, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong(Tensor.from_numpy(matrix(), CSC))


def test_expressions_may_be_deep() -> None:
    array = matrix()
    tensor = Tensor.from_numpy(array, CSC)
    deep = xp.asarray(tensor)
    for _ in range(180):
        deep = deep + tensor
    assert np.allclose(np.asarray(deep), array * 181)
    for _ in range(6000):
        deep = deep + tensor
    with pytest.raises(FinchError, match="deep"):
        xp.compute(deep)


def test_what_is_used_twice_again_and_again_is_not_written_out() -> None:
    array = matrix()
    many = xp.asarray(Tensor.from_numpy(array, CSC))
    for _ in range(30):
        many = many + many
    assert np.allclose(np.asarray(many), array * 2**30)


def test_numbers_keep_their_types() -> None:
    assert xp.asarray(np.int8(3)).dtype == np.int8
    assert xp.compute(xp.asarray(np.float32(2)) + 1).dtype == np.float32


def test_products_of_a_row_and_a_column_major_matrix_are_sparse() -> None:
    a = sp.csr_array(matrix())
    assert "SparseList" in str(xp.compute(xp.matmul(a, sp.csc_array(matrix().T))).format)


def test_arrays_are_not_imported_with_the_package() -> None:
    program = "import sys, finchlang; assert 'finchlang.array' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_result_goes_with_the_last_reference_to_it() -> None:
    """Its memory is then there for the next, without Python looking for cycles."""
    tensor = Tensor.from_numpy(matrix(), CSC)
    xp.compute(tensor + tensor)
    gc.collect()
    gc.disable()
    try:
        result = xp.compute(tensor + tensor)
        assert isinstance(result, Tensor)
        memory = weakref.ref(result.memory.arrays[-1])
        del result
        assert memory() is None
    finally:
        gc.enable()


def test_quotients_by_zero_depend_on_structure() -> None:
    """A fill of 0 on the left decides; elsewhere floats are as NumPy's. Of integers they are 0."""
    of, zeros = np.array([0, 3]), np.array([0.0, 3.0])
    assert (Tensor("SparseList(Element(0))", of) // of).todense().tolist() == [0, 1]
    assert (Tensor("SparseList(Element(0.0))", zeros) / 0).todense().tolist() == [0, np.inf]
    with np.errstate(all="raise"):
        assert np.array_equal((xp.asarray(of) / of).todense(), [np.nan, 1], equal_nan=True)
    for fill in (0, 1, 3):
        by = Tensor(f"SparseList(Element({fill}))", of)
        for left, right in ((by, of), (of, by), (by, by), (by, 0), (3, by), (by, 2)):
            with np.errstate(all="ignore"):
                wanted = [np.asarray(x.todense() if x is by else x) for x in (left, right)]
                wanted = [wanted[0] // wanted[1], wanted[0] % wanted[1]]
            found = [xp.floor_divide(left, right), xp.remainder(left, right)]
            assert [x.todense().tolist() for x in found] == [x.tolist() for x in wanted]


@pytest.mark.parametrize("fill", ["0.0", "1.0", "Inf"])
def test_quotients_of_infinities_are_those_of_the_standard(fill: str) -> None:
    values = np.array([np.inf, -np.inf, 1.0, -1.0, np.nan, 7.5])
    for format in (f"Dense(Element({fill}))", f"SparseList(Element({fill}))"):
        x = Tensor(format, values)
        for by in (2.0, -2.0, np.inf, -np.inf, 0.1):
            by_infinity = [np.nan, np.nan, *((0.0, -1.0) if by > 0 else (-1.0, 0.0)), np.nan]
            finite = [by * np.inf, -by * np.inf, *np.floor_divide([1.0, -1.0], by), np.nan]
            wanted = by_infinity if np.isinf(by) else finite
            assert np.array_equal(xp.floor_divide(x, by).todense()[:5], wanted, equal_nan=True)
