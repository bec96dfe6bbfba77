"""Any function over tensors of any fill (SparseArray'21 section 8.2): operators of NumPy over tensors of
three to five modes, one at a time and fused, broadcasts, reductions, their memory, and compiling."""

from __future__ import annotations

import ctypes
import os
from functools import reduce
from time import process_time

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import FROSTT, erdos_renyi, frostt
from experts import expert
from meter import Row

from finchlang import Scalar, Session, Tensor

NAMES = "ijklm"
CSC = "Dense(SparseList{Int32}(Element(0.0)))"
sparse = peers.pydata_sparse


def csf(order, leaf):
    return "SparseList{Int32}(" * order + leaf + ")" * order


def program(value, order, fill):
    """`C` made by elements of a value in which `@` stands for the indices."""
    modes, nest = ", ".join(NAMES[:order]), ", ".join(f"{i} = _" for i in NAMES[:order][::-1])
    value = value.replace("@", f"[{modes}]")
    return f"@finch begin\nC .= {fill}\nfor {nest}\nC[{modes}] = {value}\nend\nend"


def kernel(body):
    return f"@finch begin\n{body}\nend"


def bound(coordinates, values, shape, leaf):
    """A tensor whose outermost mode is the first, as in the order of NumPy."""
    return Tensor.from_coo(csf(len(shape), leaf), shape[::-1], tuple(coordinates[::-1]), values)


def same_as(ours, theirs):
    """Entries that are the fill may be stored, or not."""
    coordinates, values = ours.entries()
    kept = values != theirs.fill_value
    assert np.array_equal(np.array(coordinates)[::-1, kept], theirs.coords)
    assert np.allclose(values[kept], theirs.data, rtol=1e-12)


def operands(name, count, types):
    """`count` tensors, the second moved by one in the last mode, the third as the first: ours and
    PyData's. Values are random in the first, and 2 in the others."""
    tensor, _, kind = name.partition(", ")
    shape, (places, moved) = FROSTT[tensor][0], frostt(tensor, kind == "uniform")
    rng = np.random.default_rng(2)
    found = []
    for number, type in zip(range(count), types, strict=True):
        where = (places, moved, places[:, rng.random(places.shape[1]) < 0.5])[number]
        values = np.full(where.shape[1], 2).astype(type)
        if number == 0 and type is not bool:
            values = (rng.random(where.shape[1]) * 1000 + 1).astype(type)
        leaf = {bool: "Element(false)", np.int64: "Element(0)"}.get(type, "Element(0.0)")
        theirs = None if sparse is None else sparse.COO(where, values, shape)
        found.append((bound(where, values, shape, leaf), theirs))
    return shape, found


def race(meter, workload, data, shape, tensors, value, leaf, theirs):
    fill = leaf.removeprefix("Element(").removesuffix(")")
    session, text = Session(), program(value, len(shape), fill)
    for letter, (tensor, _) in zip("ABD", tensors, strict=False):
        session[letter] = tensor
    session["C"] = Tensor(csf(len(shape), leaf), *shape[::-1])
    session.run(text)
    others = [other for _, other in tensors]
    call = None if sparse is None else lambda: theirs(*others)
    if call is not None:
        same_as(session["C"], call())
    meter.race(workload, data, calls(session, text), {"PyData/Sparse": call})


DATA = [name + kind for name in FROSTT for kind in ("", ", uniform")]


UFUNCS = {
    "xor": ("xor(A@, B@)", "Element(0)", np.bitwise_xor, (np.int64, np.int64)),
    ">>": ("A@ >> B@", "Element(0)", np.right_shift, (np.int64, np.int64)),
    "ldexp": ("A@ * 2.0 ^ B@", "Element(0.0)", np.ldexp, (np.float64, np.int64)),
    "power": ("A@ ^ B@", "Element(1.0)", np.power, (np.float64, np.float64)),
}


@pytest.mark.parametrize("operation", UFUNCS)
@pytest.mark.parametrize("name", DATA)
def test_ufunc(meter, name, operation):
    value, leaf, function, types = UFUNCS[operation]
    shape, tensors = operands(name, 2, types)
    race(meter, operation, name, shape, tensors, value, leaf, function)


FUSED = {
    "xor-and": ("xor(A@, B@) && D@", lambda a, b, d: np.logical_and(np.logical_xor(a, b), d)),
    "three-way xor": ("xor(xor(A@, B@), D@)", lambda *all: reduce(np.logical_xor, all)),
    "and-or": ("(A@ && B@) || D@", lambda a, b, d: np.logical_or(np.logical_and(a, b), d)),
}


@pytest.mark.parametrize("operation", FUSED)
@pytest.mark.parametrize("name", DATA)
def test_fused(meter, name, operation):
    value, function = FUSED[operation]
    shape, tensors = operands(name, 3, (bool,) * 3)
    race(meter, operation, name, shape, tensors, value, "Element(false)", function)


@pytest.mark.long
@pytest.mark.parametrize("size", [1_000, 2_000, 4_000, 8_000])
def test_growth(meter, size):
    """xor-and of matrices of which a hundredth is true: ours should grow more slowly."""
    if sparse is None:
        pytest.skip("needs PyData/Sparse")
    rng, tensors, shape = np.random.default_rng(1), [], (size, size)
    for _ in range(3):
        places = np.unique(rng.integers(0, size * size, size * size // 100))
        where, values = np.array(np.unravel_index(places, shape)), np.ones(len(places), bool)
        other = sparse.COO(where, values, shape)
        tensors.append((bound(where, values, shape, "Element(false)"), other))
    value, function = FUSED["xor-and"]
    data = f"{size:,} x {size:,}, 1 %"
    race(meter, "xor-and, growing", data, shape, tensors, value, "Element(false)", function)


def test_memory(meter):
    """What a process takes at the most beyond what it had before the call, its result included."""
    if sparse is None or not os.path.exists("/proc/self/clear_refs"):
        pytest.skip("needs PyData/Sparse, and Linux")
    for operation, (value, leaf, function, types) in UFUNCS.items():
        shape, tensors = operands("nips", 2, types)
        session, text = Session(), program(value, len(shape), leaf[8:-1])
        session["A"], session["B"] = (tensor for tensor, _ in tensors)
        small = [
            bound(np.zeros((4, 1), int), np.ones(1, t), shape, f"Element({t(0)})") for t in types
        ]
        given = session["A"], session["B"]
        session["A"], session["B"] = small
        session["C"] = Tensor(csf(len(shape), leaf), *shape[::-1])
        session.run(text)  # compiled, with little memory
        session["A"], session["B"] = given
        ours = peak(lambda s=session, t=text: s.run(t))
        theirs = peak(lambda f=function, b=tensors: f(*(other for _, other in b)))
        row = Row("peak memory", f"{operation}, nips", ours, "PyData/Sparse", theirs, unit="B")
        meter.rows.append(row)


def peak(call):
    """The bytes that a call in a process of its own adds at its peak."""
    libc = ctypes.CDLL(None)
    libc.mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: large arrays have pages of their own
    libc.malloc_trim(0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        before = _resident("VmRSS")
        with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
            refs.write("5")
        result = call()
        os.write(write, str(_resident("VmHWM") - before).encode())
        os._exit(result is not None and 0)
    os.close(write)
    with os.fdopen(read) as told:
        found = told.read()
    os.waitpid(child, 0)
    return int(found)


def _resident(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


# -------------------------------------------------------------------------------- broadcasts, axes


def matrices(name):
    degree = int(name.split()[0])
    return tuple(erdos_renyi(1_000_000 // degree, degree, seed).tocsc() for seed in (1, 2))


MATRICES = ["10 in a column", "100 in a column"]


@pytest.mark.parametrize("name", MATRICES)
def test_broadcast_and_sum(meter, name):
    """(A * v + A).sum(axis=0), in one pass."""
    A, _ = matrices(name)
    v, session = np.random.default_rng(1).random(A.shape[0]), Session()
    session["A"], session["v"] = A, v
    session["r"] = Tensor("SparseList{Int32}(Element(0.0))", A.shape[1])
    text = kernel("r .= 0\nfor j = _, i = _\nr[j] += A[i, j] * v[i] + A[i, j]\nend")
    session.run(text)
    expected = np.asarray(A.T @ v + A.sum(axis=0)).ravel()
    assert np.allclose(session["r"].to_numpy(), expected)
    others = {}
    if sparse is not None:
        theirs, column = sparse.COO(A.tocoo()), v[:, None]
        others["PyData/Sparse"] = lambda: (theirs * column + theirs).sum(axis=0)
    meter.race("(A * v + A).sum(axis=0)", name, calls(session, text), others)


@pytest.mark.parametrize("name", MATRICES)
def test_where(meter, name):
    A = matrices(name)[0].copy()
    A.data -= 0.5  # of which half is above 0.5
    session = Session()
    session["A"], session["C"] = A, Tensor(CSC, *A.shape)
    text = kernel("C .= 0\nfor j = _, i = _\nif A[i, j] > 0.5\nC[i, j] = A[i, j]\nend\nend")
    session.run(text)
    kept = session["C"].to_scipy()
    assert abs(kept - A.multiply(A > 0.5)).max() == 0 and kept.nnz < 0.6 * A.nnz
    others = {}
    if sparse is not None:
        theirs = sparse.COO(A.tocoo())
        others["PyData/Sparse"] = lambda: sparse.where(theirs > 0.5, theirs, 0)
    meter.race("where(A > .5, A, 0)", name, calls(session, text), others)


MAXIMUM = """s .= 0
for j = _
    t .= -Inf
    for i = _
        t[] <<max>>= A[i, j]
    end
    s[j] = t[]
end"""
#: the most of what is stored, and of the fill where there is some
MAXIMUM_OVER_COLUMNS = """w .= -Inf
c .= 0
for j = _, i = _
    if A[i, j] != 0
        w[i] <<max>>= A[i, j]
        c[i] += 1
    end
end
s .= 0
for i = _
    s[i] = c[i] < n ? max(w[i], 0.0) : w[i]
end"""
BY_AXIS = {
    "A * v": (
        "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j] * v[i]\nend",
        *("C", lambda A, B, v: A.multiply(v[:, None]).tocsc()),
    ),
    "A + B": (
        "C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j] + B[i, j]\nend",
        *("C", lambda A, B, v: A + B),
    ),
    "sums of columns": (
        *("r .= 0\nfor j = _, i = _\nr[j] += A[i, j]\nend", "r"),
        lambda A, B, v: A.sum(axis=0),
    ),
    "sums of rows": (
        *("r .= 0\nfor j = _, i = _\nr[i] += A[i, j]\nend", "r"),
        lambda A, B, v: A.sum(axis=1),
    ),
    "maxima of columns": (MAXIMUM, "s", lambda A, B, v: A.max(axis=0)),
    "maxima of rows": (MAXIMUM_OVER_COLUMNS, "s", lambda A, B, v: A.max(axis=1)),
}


def finch_tensor_operand(A):
    """In finch-tensor, which wants indices as wide as positions; None where it is not installed."""
    if peers.finch_tensor is None:
        return None
    wide = A.tocsr().copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return peers.finch_tensor.asarray(wide)


#: for finch-tensor, which plans each call anew. What it makes of two sparse matrices, or of one and a
#: column, is dense, 800 MB here, and of maxima it makes an error (0.7.0)
PLANNED = {"sums of columns, 100 in a column": 0, "sums of rows, 100 in a column": 1}


@pytest.mark.parametrize("operation", BY_AXIS)
@pytest.mark.parametrize("name", MATRICES)
def test_by_axis(meter, name, operation):
    A, B = matrices(name)
    v, session, n = np.random.default_rng(1).random(A.shape[0]), Session(), A.shape[0]
    body, result, theirs = BY_AXIS[operation]
    session["A"], session["B"], session["v"], session["n"] = A, B, v, n
    session["C"], session["t"] = Tensor(CSC, n, n), Scalar(-np.inf)
    session["r"], session["w"] = (Tensor("Dense(Element(0.0))", n) for _ in range(2))
    session["s"] = Tensor("SparseList{Int32}(Element(0.0))", n)
    session["c"] = Tensor("Dense(Element(0))", n)
    text = kernel(body)
    session.run(text)
    found, expected = session[result], theirs(A, B, v)
    if result == "C":
        assert abs(found.to_scipy() - expected).max() < 1e-12
    else:
        expected = expected.toarray() if sp.issparse(expected) else np.asarray(expected)
        assert np.allclose(found.to_numpy(), expected.ravel())
    others = {"SciPy": lambda: theirs(A, B, v)}
    axis, planned = PLANNED.get(f"{operation}, {name}"), peers.finch_tensor
    if axis is not None and planned is not None:
        operand = finch_tensor_operand(A)
        others["finch-tensor"] = lambda: planned.sum(operand, axis=axis)
    meter.race("A * v, A + B, by axis", f"{operation}, {name}", calls(session, text), others)


def test_small_sum(meter):
    """Of 50 x 50, and what SciPy takes."""
    A = sp.random_array((50, 50), density=0.1, rng=1, format="csc")
    session = Session()
    session["A"], session["C"] = A, Tensor(CSC, 50, 50)
    text = kernel("C .= 0\nfor j = _, i = _\nC[i, j] = A[i, j] + A[i, j]\nend")
    session.run(text)
    assert abs(session["C"].to_scipy() - 2 * A).max() == 0
    others, operand = {"SciPy": lambda: A + A}, finch_tensor_operand(A)
    if operand is not None:
        others["finch-tensor"] = lambda: peers.finch_tensor.add(operand, operand)
    meter.race("A + A of 50 x 50", "density 0.1", calls(session, text), others)


# --------------------------------------------------------------------------------- a user's function

GCD = """function mygcd(a, b)
    while b != 0
        a, b = b, a % b
    end
    return abs(a)
end
@case mygcd(x, 0) = abs(x)
@case mygcd(0, y) = abs(y)
@iterate mygcd(x, y) = x | y
"""


@pytest.mark.parametrize("name", ["entries at random", "entries in the same places"])
def test_gcd(meter, name):
    """Of two lists of a million entries, by a function of the script, and by C written for it."""
    rng, size, lists = np.random.default_rng(1), 10_000_000, []
    for _ in range(2):
        where = np.unique(rng.integers(0, size, 1_000_000))
        if lists and name == "entries in the same places":
            where = lists[0][0]
        lists.append((where, rng.integers(1, 1_000_000, len(where))))
    session = Session()
    for letter, (where, values) in zip("AB", lists, strict=True):
        session[letter] = Tensor.from_coo("SparseList(Element(0))", (size,), (where,), values)
    session["C"] = Tensor("SparseList(Element(0))", size)
    session.run(GCD)
    text = kernel("C .= 0\nfor i = _\nC[i] = mygcd(A[i], B[i])\nend")
    session.run(text)
    given = [x for where, values in lists for x in (len(where), where, values)]
    idx, val = np.empty((2, 2_000_000), np.int64)
    call = expert("functions", "gcd_lists", *given, idx, val)
    if call is not None:
        count, (found, values) = call(), session["C"].entries()
        assert np.array_equal(found[0], idx[:count]) and np.array_equal(values, val[:count])
    meter.race("gcd by a user's function", name, calls(session, text), {"expert C": call})


# ---------------------------------------------------------------------------------------- compiling


@pytest.mark.parametrize("count", [2, 3])
def test_compile(meter, count):
    """xor of tensors of five modes, cold: from the text to the result of a few entries."""
    value = "xor(A@, B@)" if count == 2 else "xor(xor(A@, B@), D@)"
    shape, places, samples = (5,) * 5, np.array([[1, 3]] * 5), []
    for _ in range(3):
        session = Session()
        for name in "ABD"[:count]:
            session[name] = bound(places, np.array([1, 2]), shape, "Element(0)")
        session["C"] = Tensor(csf(5, "Element(0)"), *shape)
        text = program(value, 5, "0")
        start = process_time()
        session.run(text)
        samples.append(process_time() - start)
    meter.median("compile, cold", f"xor of {count}, five modes", samples)
