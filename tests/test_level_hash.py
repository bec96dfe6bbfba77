"""The SparseHash level: its table, writing in any order, any number of times, and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from level_kernels import changed, result, run, tensor

from finchlang.host.execute import ExecutingHost
from finchlang.host.fold import const
from finchlang.run.kernel import Kernel
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors import hash_table
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

HASH, TWO = "SparseHash(Element(0.0))", "SparseHash{2}(Element(0.0))"
NESTED = f"SparseHash({HASH})"
MATRICES = [NESTED, TWO, f"Dense({HASH})"]
LIST = "SparseList(Element(0.0))"
LISTS = f"SparseList({LIST})"
VECTOR = "Dense(Element(0.0))"


def entries_of(tensor: Tensor, level: int = 0) -> dict[int, int]:
    """The places in the table of a level that are set, with their positions."""
    storage = tensor.storage[level]
    table = storage["tbl"][: 2 * storage["slots"][0]].reshape(-1, 2)
    return {int(key): int(e) for key, e in table if key >= 0 and e >= 0}


def test_storage_is_that_of_table_4() -> None:
    array = np.array([[0, 0, 5, 0], [8, 0, 0, 0], [6, 0, 0, 9.0]])
    found = tensor(array, f"Dense({HASH})")
    storage = found.storage[1]
    assert storage["ptr"].tolist() == [0, 2, 2, 3, 4]
    assert storage["idx"].tolist() == [1, 2, 0, 2]
    assert found.storage[2]["val"][storage["pos"]].tolist() == [8, 6, 5, 9]
    # column 1 (of 0..3) has nothing; place 3 p + i
    assert entries_of(found, 1) == {1: 0, 2: 1, 6: 2, 11: 3}


def test_storage_of_two_modes() -> None:
    array = np.array([[0, 0, 5, 0], [8, 0, 0, 0], [6, 0, 0, 9.0]])
    storage = tensor(array, TWO).storage[0]
    assert storage["ptr"].tolist() == [0, 4]
    assert storage["idx1"].tolist() == [1, 2, 0, 2]
    assert storage["idx2"].tolist() == [0, 0, 2, 3]


def test_positions_are_in_the_order_of_insertion() -> None:
    values = {"C": Tensor(HASH, 5), "I": tensor([5, 2, 4, 2], "Dense(Element(0))")}
    found, _ = run("C .= 0\nfor k = _\n C[I[k]] += k\nend", values)
    storage = found["C"].storage
    assert storage[0]["idx"].tolist() == [1, 3, 4]
    assert storage[0]["pos"].tolist() == [1, 2, 0]
    assert storage[1]["val"].tolist() == [1, 6, 3]


@pytest.mark.parametrize("format", MATRICES)
def test_any_order_any_number_of_times(format: str) -> None:
    rng = np.random.default_rng(2)
    i, j = rng.integers(1, 8, 25), rng.integers(1, 6, 25)
    expected = np.zeros((7, 5))
    np.add.at(expected, (i - 1, j - 1), np.arange(1, 26))
    values = {
        "C": tensor(np.ones((7, 5)), format),
        "I": tensor(i, "Dense(Element(0))"),
        "J": tensor(j, "Dense(Element(0))"),
    }
    text = "for k = _\n C[I[k], J[k]] += k\nend"
    np.testing.assert_array_equal(result(text, values), expected + 1)
    text = "C .= 0\nfor c = 1:5, r = 1:7, k = _\n if I[k] == r && J[k] == c\n C[I[k], J[k]] += k\n end\nend"
    np.testing.assert_array_equal(result(text, values), expected)


def sparse(rows: int, columns: int, entries: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    places = rng.choice(rows * columns, entries, replace=False)
    dense = np.zeros(rows * columns)
    dense[places] = rng.integers(1, 9, entries)
    return dense.reshape(rows, columns)


@pytest.mark.parametrize("format", MATRICES)
def test_outer_products(format: str) -> None:
    """Finch'25 Fig 21, the third."""
    a, b = sparse(30, 20, 60, 0), sparse(20, 25, 60, 1)
    values = {
        "w": Tensor(format, 0, 0),
        "C": Tensor("Dense(SparseList(Element(0.0)))", 0, 0),
        "A": tensor(a, "Dense(SparseList(Element(0.0)))"),
        "BT": tensor(b.T, "Dense(SparseList(Element(0.0)))"),
    }
    text = """w .= 0
    for k = _, j = _, i = _
      w[i, j] += A[i, k] * BT[j, k]
    end
    C .= 0
    for j = _, i = _
      C[i, j] = w[i, j]
    end"""
    found, _ = run(text, values)
    np.testing.assert_array_equal(found["C"].to_numpy(), a @ b)
    np.testing.assert_array_equal(found["w"].to_numpy(), a @ b)
    assert found["C"].countstored() == (a @ b != 0).sum()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 16, 17, 300])
def test_growing_and_emptying(size: int) -> None:
    """The table grows with its entries, and is small again once it is declared anew."""
    text = "C .= 0\nfor i = _\n C[i] = A[i]\nend"
    full = {"C": Tensor(HASH, 0), "A": tensor(np.arange(1.0, size + 1), VECTOR)}
    found, _ = run(text, full)
    storage = found["C"].storage[0]
    assert storage["stored"] == size
    assert 2 * size <= storage["slots"][0] <= max(8, 8 * size)
    again, _ = run(
        text, {"C": found["C"], "A": tensor(2 * np.eye(1, 400)[0], "SparseList(Element(0.0))")}
    )
    assert again["C"].storage[0]["slots"].tolist() == [8]
    assert again["C"].storage[0]["stored"] == 1
    assert again["C"].to_numpy().sum() == 2


def test_a_workspace_costs_what_is_in_it() -> None:
    """Declared in a loop, after one large column, it is emptied in a few steps each time."""
    text = """for j = _
      w .= 0
      for i = _
        w[i] += A[i, j]
      end
      for i = _
        s[] += w[i]
      end
    end"""
    totals = []
    for columns in (50, 100):
        array = np.zeros((200, columns))
        array[:, 0], array[3] = 1, 1
        values = {"w": Tensor(HASH, 200), "A": tensor(array, "Dense(SparseList(Element(0.0)))")}
        found, taken = run(text, values | {"s": Scalar(0.0)})
        assert found["s"].value == array.sum()
        totals.append(taken.total())
    assert totals[1] - totals[0] < 50 * 160


def test_following_takes_the_same_time_in_any_table() -> None:
    steps = []
    for n in (100, 10_000):
        values = {"s": Scalar(0.0), "I": tensor([2, 51, 99], "Dense(Element(0))")}
        values["A"] = tensor(np.arange(float(n)), HASH)
        found, taken = run("s .= 0\nfor k = _\n s[] += A[I[k]]\nend", values)
        assert found["s"].value == 1 + 50 + 98
        text = "s .= 0\nfor k = _\n s[] += A[follow(I[k])]\nend"
        found, taken = run(text, values)
        assert found["s"].value == 1 + 50 + 98
        steps.append(taken.total())
    assert steps[1] <= steps[0] + 40


@pytest.mark.parametrize("format", [HASH, f"Dense({HASH})", TWO, NESTED])
def test_updates_in_place(format: str) -> None:
    vector = format == HASH
    a, b = (sparse(9, 4, entries, entries) for entries in (12, 18))
    if vector:
        a, b = a[:, 0], b[:, 0]
    index, loops = ("i", "i = _") if vector else ("i, j", "j = _, i = _")
    values = {"C": tensor(a, format), "B": tensor(b, VECTOR if vector else f"Dense({VECTOR})")}
    for text, expected in (
        (f"for {loops}\n C[{index}] += B[{index}]\nend", a + b),
        (f"for {loops}\n C[{index}] = B[{index}]\nend", b),
        (
            f"for {loops}\n if B[{index}] > 0\n C[{index}] *= 2\n end\nend",
            np.where(b > 0, 2 * a, a),
        ),
        (
            f"for {loops}\n C[{index}] += B[{index}]\nend\nfor {loops}\n C[{index}] *= 3\nend",
            3 * (a + b),
        ),
    ):
        np.testing.assert_array_equal(result(text, values), expected)


def test_a_pattern_can_be_unset_and_set_again() -> None:
    a = np.array([1, 0, 1, 1, 0], bool)
    b = np.array([0, 0, 1, 0, 1], bool)
    for format in ("SparseHash(Pattern())", "Dense(SparseHash(Pattern()))"):
        index, loops = ("i", "i = _") if format[0] == "S" else ("i, j", "j = 1:2, i = _")
        first = a if format[0] == "S" else np.array([a, b]).T
        values = {"C": tensor(first, format), "B": tensor(b, "Dense(Element(false))")}
        text = f"for {loops}\n C[{index}] = B[i]\nend"
        found, _ = run(text, values)
        expected = b if first.ndim == 1 else np.array([b, b]).T
        np.testing.assert_array_equal(found["C"].to_numpy(), expected)
        assert found["C"].countstored() == expected.sum()
        values["C"], values["B"] = found["C"], tensor(a, "Dense(Element(false))")
        found, _ = run(text, values)
        np.testing.assert_array_equal(found["C"].to_numpy()[..., :5].T, expected.T * 0 + a)


def test_two_accesses_at_once() -> None:
    """Entries that are made while another is open, at other places and at the same one."""
    array = np.arange(1.0, 7)
    values = {"C": Tensor(HASH, 6), "A": tensor(array, VECTOR)}
    text = "C .= 0\nfor i = _, k = _\n C[i] += A[k]\n C[k] += A[i] * 10\nend"
    expected = np.full(6, array.sum() * 11)
    expected = array.sum() * np.ones(6) + 10 * array.sum()
    np.testing.assert_array_equal(result(text, values), expected)
    for format in MATRICES:
        values = {"C": Tensor(format, 0, 0), "A": tensor(sparse(5, 5, 9, 6), LISTS)}
        text = "C .= 0\nfor j = _, i = _\n C[i, j] += A[i, j]\n C[j, i] += A[i, j]\nend"
        a = sparse(5, 5, 9, 6)
        np.testing.assert_array_equal(result(text, values), a + a.T)
        # the outer one is left unwritten
        text = "C .= 0\nfor j = _, i = _\n if i > j\n C[i, j] += A[i, j]\n end\n C[j, i] += A[i, j]\nend"
        values["A"] = tensor(sparse(5, 5, 9, 6), "Dense(Dense(Element(0.0)))")
        np.testing.assert_array_equal(result(text, values), np.tril(a, -1) + a.T)


def test_many_failed_attempts_leave_nothing_behind() -> None:
    values = {"C": Tensor(HASH, 0), "A": tensor(np.arange(500.0), VECTOR)}
    found, _ = run("C .= 0\nfor i = _\n if A[i] > 497\n C[i] = A[i]\n end\nend", values)
    assert found["C"].storage[0]["slots"].tolist() == [8]
    assert found["C"].storage[0]["stored"] == 2


def test_places_that_are_no_numbers() -> None:
    huge = Tensor(HASH, 2**61)
    assert huge.shape == (2**61,)
    with pytest.raises(FinchError, match="cannot number") as error:
        Tensor(TWO, 2**32, 2**32)
    assert error.value.kind == "dimension"
    assert Tensor(NESTED, 2**61, 2**61).countstored() == 0
    values = {"C": Tensor(TWO, 0, 0), "A": Tensor(LISTS, 2**32, 2**32)}
    text = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"

    formats = {name: t.format for name, t in values.items()}
    kernel = Kernel(parse_kernel(f"begin\n{text}\nend"), formats)
    for engine in (kernel.interpret, kernel.run_residual, kernel.run_native):
        with pytest.raises(FinchError, match="4294967296 x 4294967296") as error:
            engine([values[name] for name in kernel.tensors], [])
        assert error.value.kind == "dimension"
    values = {"C": Tensor(NESTED, 0, 0), "A": values["A"]}
    values["A"] = Tensor.from_coo(
        LISTS, (2**40, 2**40), [[7, 2**39], [2**39, 9]], np.array([1.0, 2])
    )
    kernel = Kernel(parse_kernel(f"begin\n{text}\nend"), {n: t.format for n, t in values.items()})
    for engine in (kernel.interpret, kernel.run_residual, kernel.run_native):
        values["C"] = Tensor(NESTED, 0, 0)
        engine([values[name] for name in kernel.tensors], [])
        coordinates, found = values["C"].entries()
        assert coordinates.tolist() == [[2**39, 7], [9, 2**39]] and found.tolist() == [2, 1]


def test_sequential_levels_are_updated_through_a_hash_table() -> None:
    """A vector of 2^40 coordinates, updated in place."""
    assert parse_format("Dense(SparseList(Element(0.0)))").random_access() == parse_format(
        f"Dense({HASH})"
    )
    assert parse_format("SparseCOO{2, Int32}(Pattern())").random_access() == parse_format(
        "SparseHash{2, Int32}(Pattern())"
    )

    for engine in ("interpret", "residual", "native"):
        session = Session(engine)
        for name, places, given in (("A", [5, 2**39], [3.0, 4]), ("B", [5, 70], [1.0, 2])):
            session[name] = Tensor.from_coo(LIST, (2**40,), [places], np.array(given))
        session.run("@finch for i = _\n A[i] += B[i]\nend")
        coordinates, found = session["A"].entries()
        assert coordinates.tolist() == [[5, 70, 2**39]] and found.tolist() == [4, 2, 4]


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(1000),
        np.arange(1000) * 2**40,
        np.arange(1000) * 2**52,
        np.arange(1000) * 4096,
        np.random.default_rng(0).permutation(2**20)[:3000] * 977,
    ],
    ids=["dense", "high", "highest", "aligned", "random"],
)
def test_keys_are_found_soon(keys: np.ndarray) -> None:
    storage: dict[str, Any] = hash_table.build(keys.astype(np.int64))
    assert hash_table.problem(storage) is None
    slots = int(storage["slots"][0])
    table = storage["tbl"].reshape(-1, 2)
    home = hash_table._hashed(keys.astype(np.int64)) & (slots - 1)
    where = np.empty(len(keys), np.int64)
    where[table[table[:, 0] >= 0, 1]] = np.flatnonzero(table[:, 0] >= 0)
    distance = (where - home) % slots
    assert distance.mean() < 2 and distance.max() < 60


def test_host_and_numpy_hash_alike() -> None:

    for key in (0, 1, 12345, 2**31, 2**40 + 17, 2**62 - 1):
        expected = hash_table._hashed(np.array([key]))[0]
        assert ExecutingHost().evaluate(hash_table.hashed(const(key))) == expected


BREAKS = {
    "ptr": lambda s: s.update(ptr=np.array([0, 9, 3])),
    "idx": lambda s: s["idx"].__setitem__(0, 7),
    "order": lambda s: s.update(idx=s["idx"][::-1].copy()),
    "pos": lambda s: s["pos"].__setitem__(0, 99),
    "swapped": lambda s: s.update(pos=s["pos"][::-1].copy()),
    "short": lambda s: s.update(pos=s["pos"][:1]),
    "slots": lambda s: s["slots"].__setitem__(0, 6),
    "no slots": lambda s: s.update(slots=s["slots"][:0]),
    "tbl": lambda s: s.update(tbl=s["tbl"][:4]),
    "lost": lambda s: s["tbl"].__setitem__(slice(None), -1),
    "full": lambda s: s["tbl"].__setitem__(slice(0, None, 2), 1),
    "number": lambda s: s["tbl"].__setitem__(s["tbl"].reshape(-1, 2)[:, 1].argmax() * 2 + 1, 50),
    "key": lambda s: s["key"].__setitem__(0, 5),
    "unset": lambda s: s["key"].__setitem__(0, ~s["key"][0]),
    "stored": lambda s: s.update(stored=77),
}


@pytest.mark.parametrize("what", BREAKS)
def test_validate(what: str) -> None:
    sound = tensor(np.array([[0, 4, 0, 3], [1, 0, 0, 0.0]]).T, f"Dense({HASH})")
    changed(sound, 1, dict).validate()
    broken = changed(sound, 1, BREAKS[what])
    with pytest.raises(FinchError, match="corrupt SparseHash"):
        broken.validate()


def test_scipy() -> None:
    matrix = scipy.sparse.random_array((20, 30), density=0.1, rng=np.random.default_rng(0))
    found = Tensor.from_coo(TWO, matrix.shape, matrix.coords, matrix.data)
    np.testing.assert_array_equal(found.to_scipy().toarray(), matrix.toarray())
