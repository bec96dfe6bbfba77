"""SparseByteMap: what its list of places holds when several accesses write it at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from level_kernels import result, tensor

from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

MAP = parse_format("SparseByteMap(Pattern())")
FORMATS = dict.fromkeys("kua", parse_format("Dense(Element(Int64(0)))"))
WRITE = """
    C .= false
    for i = _
        C[k[i]] = true
    end
    for i = _
        C[u[i]] = false
    end
    for i = _
        C[a[i]] = true
    end
"""

A = np.array([1.0, 0.0, 2.0, 3.0])


@pytest.mark.parametrize("format", ["SparseByteMap(Element(0.0))", "SparseByteMap(Element(-0.0))"])
def test_two_accesses_list_a_place_once(format: str) -> None:
    text = "C .= 0; for i=_, k=_ begin C[i] += A[k]; C[k] += A[i] * 10 end end"
    tensors = {"A": tensor(A, "Dense(Element(0.0))"), "C": Tensor(format, 4)}
    if "-0.0" in format:
        text = text.replace("C .= 0;", "C .= -0.0;")
    np.testing.assert_array_equal(result(text, tensors), np.full(4, 11 * A.sum()))


def test_two_accesses_list_a_place_of_a_pattern_once() -> None:
    text = "C .= false; for i=_, k=_ begin C[i] |= A[k] != 0; C[k] |= A[i] != 0 end end"
    tensors = {
        "A": tensor(A, "Dense(Element(0.0))"),
        "C": Tensor("SparseByteMap(Pattern())", 4),
    }
    np.testing.assert_array_equal(result(text, tensors), np.full(4, True))


def test_two_accesses_of_a_nested_map_list_a_place_once() -> None:
    text = "C .= 0; for i=_, k=_ begin C[i, k] += A[k]; C[k, i] += A[i] * 10 end end"
    tensors = {
        "A": tensor(A, "SparseList(Element(0.0))"),
        "C": Tensor("SparseByteMap(SparseByteMap(Element(0.0)))", 4, 4),
    }
    ones = np.ones((4, 4))
    np.testing.assert_array_equal(result(text, tensors), 11 * ones * A[None, :])


@pytest.mark.parametrize(
    "order, unset, is_sorted",
    [([1, 3, 4, 6], [], True), ([6, 3, 4, 1], [], False), ([1, 3, 4, 6], [3, 6, 3], False)],
)
def test_a_pattern_written_in_order_is_not_sorted(order, unset, is_sorted: bool) -> None:
    """What is unset, and perhaps set again, must leave the list."""
    kernel, steps = Kernel(parse_kernel(WRITE), {**FORMATS, "C": MAP}), []
    again = np.array([3] if unset else [], np.int64)
    places = {"k": np.array(order), "u": np.array(unset, np.int64), "a": again}
    given = {name: Tensor.from_numpy(array) for name, array in places.items()}
    for run in (kernel.interpret, kernel.run_residual, kernel.run_native):
        C = Tensor(MAP, 300)
        steps.append(run([{**given, "C": C}[name] for name in kernel.tensors], []))
        expected = sorted({*order} - {*unset} | {*again.tolist()})
        assert C.storage[0]["idx"].tolist() == [i - 1 for i in expected]
        assert np.flatnonzero(C.storage[0]["tbl"]).tolist() == [i - 1 for i in expected]
    assert ("sort" not in steps[0]) == ("sort" not in steps[1]) == is_sorted


SIZE = 200
MARKED = """
    C .= {zero}
    for i = _
        C[k[i]] {one}
    end
    for i = _
        C[u[i]] {other}
    end
"""
WRITES = {
    "Element(0)": {"zero": "0", "one": "+= 1", "other": "= 5"},
    "Pattern()": {"zero": "false", "one": "= true", "other": "= false"},
    "SparseByteMap(Element(0))": {"zero": "0", "one": "+= 1", "other": "= 5"},
}


@pytest.mark.parametrize("child", WRITES)
@pytest.mark.parametrize("count", [0, 1, SIZE // 32 - 1, SIZE // 32, SIZE // 32 + 1, 40, 3 * SIZE])
def test_few_places_and_many_are_listed_in_order(child: str, count: int) -> None:
    """Many are found by looking at all; they may be written, and unset, again."""
    rng = np.random.default_rng(count)
    k, u = rng.integers(0, SIZE, count), rng.integers(0, SIZE, count // 3)
    is_nested = child.startswith("Sparse")
    text = MARKED.format(**WRITES[child])
    if is_nested:
        text = text.replace("C[", "C[1 + k[1] % 2, ") if count else text.replace("C[", "C[1, ")
    format = parse_format(f"SparseByteMap({child})")
    kernel = Kernel(parse_kernel(f"begin\n{text}\nend"), {**FORMATS, "C": format})
    given = {"k": Tensor.from_numpy(k + 1), "u": Tensor.from_numpy(u + 1)}
    wanted = np.zeros(SIZE, np.int64)
    if child.startswith("Pattern"):
        wanted[k], wanted[u] = 1, 0
    else:
        np.add.at(wanted, k, 1)
        wanted[u] = 5
    C = Tensor(format, *([2] if is_nested else []), SIZE)
    for run in (kernel.interpret, kernel.run_residual, kernel.run_native):
        run([{**given, "C": C}[name] for name in kernel.tensors], [])
        found = C.to_numpy().max(axis=0) if is_nested else C.to_numpy()
        np.testing.assert_array_equal(found, wanted)
        outer = C.storage[0]
        assert outer["idx"][: outer["stored"]].tolist() == np.flatnonzero(wanted).tolist()


@pytest.mark.parametrize("child", ["Element(0)", "Pattern()"])
@pytest.mark.parametrize("count", [0, 36, 37, 200])
def test_fibers_that_are_all_there_list_few_places_and_many(child: str, count: int) -> None:
    """They are written in any order, unset, updated in place, and declared again."""
    rng = np.random.default_rng(count)
    format = parse_format(f"Dense(SparseByteMap({child}))")
    text = MARKED.format(**WRITES[child]).replace("[k[i]]", "[k[i], m[i]]")
    text = text.replace("[u[i]]", "[u[i], v[i]]")
    formats = dict.fromkeys("kmuv", FORMATS["k"]) | {"C": format}
    anew = Kernel(parse_kernel(f"begin\n{text}\nend"), formats)
    in_place = Kernel(parse_kernel(f"begin\n{text[text.index('for') :]}\nend"), formats)
    for run in ("interpret", "run_residual", "run_native"):
        C, wanted = Tensor(format, 40, 30), np.zeros((40, 30), np.int64)
        for kernel in (anew, in_place, anew):
            k, u = rng.integers(0, 40, count), rng.integers(0, 40, count // 3)
            m, v = rng.integers(0, 30, count), rng.integers(0, 30, count // 3)
            wanted *= kernel is in_place
            np.add.at(wanted, (k, m), 1)
            wanted[u, v] = 5
            if child == "Pattern()":
                wanted[k, m], wanted[u, v] = 1, 0
            given = {
                name: Tensor.from_numpy(a + 1) for name, a in zip("kmuv", (k, m, u, v), strict=True)
            }
            getattr(kernel, run)([(given | {"C": C})[name] for name in kernel.tensors], [])
            np.testing.assert_array_equal(C.to_numpy(), wanted)
            ptr, idx = (C.storage[1][name].tolist() for name in ("ptr", "idx"))
            lists = [idx[start:stop] for start, stop in pairwise(ptr)]
            assert lists == [np.flatnonzero(column).tolist() for column in wanted.T]


def test_one_fiber_of_several_lists_its_places() -> None:
    """That its position is known does not make it the only one."""
    k = np.arange(SIZE)[::-1]
    kernel = Kernel(
        parse_kernel("begin\n C .= 0\n for i = _\n C[k[i], 1] += 1\n end\n end"),
        {"k": FORMATS["k"], "C": parse_format("Dense(SparseByteMap(Element(0)))")},
    )
    C = Tensor("Dense(SparseByteMap(Element(0)))", SIZE, 3)
    given = {"k": Tensor.from_numpy(k + 1), "C": C}
    for run in (kernel.interpret, kernel.run_residual, kernel.run_native):
        run([given[name] for name in kernel.tensors], [])
        np.testing.assert_array_equal(C.to_numpy()[:, 0], np.ones(SIZE))
