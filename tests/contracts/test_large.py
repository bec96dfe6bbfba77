"""What begins at some size: groups of steps, private arrays, chunks, batches and growth, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import Session, Tensor

CSC = "Dense(SparseList(Element(0.0)))"
RANDOM = np.random.default_rng(28)


def run(text: str, **values: Any) -> Session:
    session = Session()
    for name, value in values.items():
        session[name] = value
    session.run(text)
    return session


def rows(lengths: Any, columns: int) -> sp.csr_array:
    """A matrix whose rows have so many entries."""
    ptr = np.concatenate(([0], np.cumsum(lengths)))
    idx = [np.sort(RANDOM.choice(columns, n, replace=False)) for n in lengths]
    values = RANDOM.integers(1, 9, ptr[-1]).astype(float)
    return sp.csr_array((values, np.concatenate(idx), ptr), (len(lengths), columns))


def vector(size: int, share: float) -> np.ndarray:
    return np.where(RANDOM.random(size) < share, RANDOM.integers(1, 9, size), 0).astype(float)


@pytest.mark.parametrize("places", [1, 4, 300])
def test_histogram(places: int) -> None:
    k = RANDOM.integers(0, places, 203)
    y = run("@finch for i = _; y[k[i]] += 1; end", k=k + 1, y=np.ones(places, np.int64))["y"]
    assert np.array_equal(y, 1 + np.bincount(k, minlength=places))


def test_rows_of_any_length() -> None:
    """So many, each of another length than the one before, that short ones are padded."""
    A, x = rows(np.arange(12_000) % 13, 20), RANDOM.random(20)
    y = run("@finch for i = _, j = _; y[i] += A[i, j] * x[j]; end", A=A, x=x, y=np.zeros(12_000))[
        "y"
    ]
    assert np.allclose(y, A @ x)


@pytest.mark.parametrize("operator", ["+", "*"])
def test_blocks_and_columns_in_place(operator: str) -> None:
    """Columns of one entry and of none, with a gather and without, into what is there already."""
    dense = np.array([[0, 2.0, 0, 3, 0, 1], [1, 5, 0, 2, 0, 0], [0, 3, 0, 0, 0, 2]])
    x = np.array([2.0, 3, 5])
    for format in (CSC, "Dense(SparseBlockList(Element(0.0)))", "Dense(SparseBand(Element(0.0)))"):
        for value in ("A[i, j]", "A[i, j] * x[i]"):
            text = f"@finch for j = _, i = _; if A[i, j] != 0; y[j] {operator}= {value}; end; end"
            A = Tensor.from_numpy(dense, format)
            y = run(text, A=A, x=x, y=np.full(6, 7.0))["y"]
            given = dense * x[:, None] if "x" in value else dense
            expected = (
                given.sum(axis=0) if operator == "+" else np.where(dense, given, 1).prod(axis=0)
            )
            assert np.allclose(y, 7 + expected if operator == "+" else 7 * expected), (
                format,
                value,
            )


@pytest.mark.parametrize("format", ["SparseList", "SparseBlockList", "SparseBand"])
def test_products_of_what_is_there(format: str) -> None:
    """Of entries, in place, and of what is gathered where there are any."""
    dense = np.where(RANDOM.random((40, 5)) < 0.4, RANDOM.integers(2, 4, (40, 5)), 1).astype(float)
    A, x = Tensor.from_numpy(dense, f"Dense({format}(Element(1.0)))"), 1 + RANDOM.random(40)
    y = run("@finch for j = _, i = _; y[j] *= A[i, j]; end", A=A, y=np.full(5, 3.0))["y"]
    assert np.allclose(y, 3 * dense.prod(axis=0))
    M = Tensor.from_numpy(dense > 1, "Dense(SparseList(Pattern()))")
    y = run("@finch for j = _, i = _; if M[i, j]; y[j] *= x[i]; end; end", M=M, x=x, y=np.ones(5))[
        "y"
    ]
    assert np.allclose(y, np.where(dense > 1, x[:, None], 1).prod(axis=0))


@pytest.mark.parametrize("blocks", ["SparseBlockList", "SparseBand", "SparseRunList"])
def test_sums_of_sums(blocks: str) -> None:
    dense = np.repeat(np.repeat(RANDOM.integers(0, 3, (5, 4)), 7, axis=0), 3, axis=1).astype(float)
    A = Tensor.from_numpy(dense, f"Dense({blocks}(Element(0.0)))")
    y = run("@finch for j = _, i = _; y[1] += A[i, j]; end", A=A, y=np.ones(2))["y"]
    assert y.tolist() == [1 + dense.sum(), 1]


@pytest.mark.parametrize(("one", "other"), [(0.3, 0.3), (0.9, 0.02), (0.02, 0.9), (0.1, 0.1)])
@pytest.mark.parametrize("protocol", ["", "gallop"])
def test_two_lists_that_meet(one: float, other: float, protocol: str) -> None:
    a, b = vector(400, one), vector(400, other)
    given = {"a": a, "b": b}
    tensors = {n: Tensor.from_numpy(x, "SparseList(Element(0.0))") for n, x in given.items()}
    index = f"{protocol}(i)" if protocol else "i"
    for first, last in ((1, 400), (3, 311), (200, 200)):
        text = f"@finch for i = {first}:{last}; s[1] += a[~{index}] * b[~{index}]; end"
        text = text.replace("~gallop(i)", "gallop(~i)")
        s = run(text, s=np.zeros(1), **tensors)["s"]
        assert np.isclose(s[0], a[first - 1 : last] @ b[first - 1 : last])


@pytest.mark.parametrize("format", ["SparseList", "SparseHash", "SparseByteMap", "SparseRunList"])
@pytest.mark.parametrize("size", [5, 17, 33, 1500])
def test_what_grows(format: str, size: int) -> None:
    """Under a condition and without, by one entry at a time and by many at once."""
    x = vector(size, 0.5)
    for statement in ("y[i] = x[i]", "if x[i] > 3; y[i] = x[i]; end"):
        text = f"@finch begin\ny .= 0\nfor i = _; {statement}; end\nend"
        y = run(text, x=x, y=Tensor(f"{format}(Element(0.0))", 0))["y"]
        assert np.array_equal(y.to_numpy(), x if "if" not in statement else np.where(x > 3, x, 0))
        y.validate()
    text = "@finch begin\nC .= 0\nfor j = _, i = _; C[i, j] = A[i, j]; end\nend"
    dense = np.outer(np.ones(3), x)
    A = Tensor.from_numpy(dense, "Dense(SparseList(Element(0.0)))")
    C = run(text, A=A, C=Tensor(f"Dense({format}(Element(0.0)))", 0, 0))["C"]
    assert np.array_equal(C.to_numpy(), dense)
    C.validate()


@pytest.mark.parametrize(
    "format", [CSC, "SparseCOO{2}(Element(0.0))", "Interleaved{1}(Element(0.0))"]
)
def test_fibers_that_are_written_in_turn(format: str) -> None:
    """A transpose, and a matrix whose columns have thousands of entries."""
    format = f"Dense({format})" if format.startswith("Inter") else format
    for shape in ((40, 7), (3, 4100)):
        A = sp.random_array(shape, density=0.6, rng=RANDOM, format="csc")
        text = "@finch begin\nC .= 0\nfor j = _, i = _; C[j, i] = A[i, j]; end\nend"
        C = run(text, A=A, C=Tensor(format, 0, 0))["C"]
        assert np.array_equal(C.to_numpy(), A.toarray().T)
        C.validate()


@pytest.mark.parametrize("policy", ["coord", "hash", "bucket", "flags"])
@pytest.mark.parametrize("capacity", ["", " capacity=3"])
def test_batches_of_a_workspace(policy: str, capacity: str) -> None:
    """Entries that are met again in a later batch, differences among them."""
    A = sp.random_array((30, 23), density=0.4, rng=RANDOM, format="csc")
    B = sp.random_array((23, 11), density=0.4, rng=RANDOM, format="csc")
    capacity = "" if policy == "flags" else capacity
    for sign in "+-":
        text = f"@workspace C policy={policy}{capacity}\n@finch begin\nC .= 0\n"
        text += f"for k = _, j = _, i = _; C[i, j] {sign}= A[i, k] * B[k, j]; end\nend"
        C = run(text, A=A, B=B, C=Tensor("SparseList(SparseList(Element(0.0)))", 0, 0))["C"]
        assert np.allclose(C.to_numpy(), (A @ B).toarray() * (1 if sign == "+" else -1))
        C.validate()


@pytest.mark.parametrize("sizes", [(3, 5, 4), (2**21, 2**20, 2**21), (2**30, 2, 2**31)])
def test_places_of_a_workspace_of_any_size(sizes: tuple[int, int, int]) -> None:
    """In a word, and where they need more bits than it has."""
    given = [RANDOM.integers(1, n + 1, 60) for n in sizes]
    given = [np.concatenate((k, k[:20])) for k in given]
    C = Tensor("SparseCOO{3}(Element(0.0))", *sizes)
    text = "@workspace C policy=coord\n@finch for p = _; C[i[p], j[p], k[p]] += 1; end"
    session = run(text, C=C, **dict(zip("ijk", given, strict=True)))
    coordinates, values = session["C"].entries()
    places, counts = np.unique(np.array(given), axis=1, return_counts=True)
    order = np.lexsort(places)
    assert np.array_equal(coordinates + 1, places[:, order])
    assert np.array_equal(values, counts[order])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 5, 9])
def test_sums_of_many(count: int, order: int) -> None:
    """Into lists that grow, in code that is shared, of what ends at different places."""
    size, total = 70 * count, 0
    tensors = {"y": Tensor(_lists(order), *(0,) * order)}
    for k in range(count):
        x = vector(size, 0.3) * (np.arange(size) < 70 * (k + 1))
        for _ in range(order - 1):
            x = np.multiply.outer(x, RANDOM.integers(0, 2, 4))
        tensors[f"a{k}"], total = Tensor.from_numpy(x, _lists(order)), total + x
    index, loops = "ijk"[:order], [f"{i} = _" for i in "ijk"[:order]]
    place = f"[{', '.join(index)}]"
    value = " + ".join(f"a{k}{place}" for k in range(count))
    text = f"@finch begin\ny .= 0\nfor {', '.join(loops[::-1])}; y{place} = {value}; end\nend"
    y = run(text, **tensors)["y"]
    assert np.array_equal(y.to_numpy(), total)


def _lists(order: int) -> str:
    return "SparseList(" * order + "Element(0.0)" + ")" * order


STACKS = (
    *("Dense(SparseList({}))", "SparseList(SparseList({}))", "Dense(SparseBlockList({}))"),
    *(
        "Dense(SparseBand({}))",
        "Dense(RunList({}))",
        "Dense(SparseRunList({}))",
        "Dense(PackBits({}))",
    ),
    *("RunList(Dense({}))", "RunList(SparseList({}))", "SparseRunList(SparseList({}))"),
    *("RunList(SparseBlockList({}))", "RunList(SparseBand({}))", "RunList(SparseByteMap({}))"),
    *(
        "PackBits(SparseList({}))",
        "RunList(SparseRunList({}))",
        "SparseRunList(SparseCOO{{1}}({}))",
    ),
)


@pytest.mark.parametrize("stack", STACKS)
def test_what_is_written_is_stored_as_what_is_packed(stack: str) -> None:
    """Columns that are the same side by side, and apart; runs; counters, too."""
    columns = np.array([[0, 2, 2, 0], [0, 2, 2, 0], [1, 1, 0, 3], [0, 0, 0, 0], [0, 2, 2, 0]]).T
    dense = columns[:, [0, 1, 3, 0, 2, 2, 4]].astype(float)
    format = stack.format("Element(0.0)")
    A, C = Tensor.from_numpy(dense, "SparseCOO{2}(Element(0.0))"), Tensor(format, 0, 0)
    text = "@finch begin\nC .= 0\nfor j = _, i = _; C[i, j] = A[i, j]; end\nend"
    for _ in range(2):
        run(text, A=A, C=C)
        packed = Tensor.from_numpy(dense, format)
        for found, wanted in zip(C.storage, packed.storage, strict=True):
            for name in {*found} - {"tbl", "cleared", "width", "covered", "fibers"}:
                own = found[name][: len(wanted[name])] if name == "val" else found[name]
                assert np.array_equal(own, wanted[name]), name
