"""Shape operators (Burrito'24) beside libraries that copy to change a shape: each alone, materialised,
and fused into the loop that uses it, beside our own of two kernels; memory of what is fused, compiling."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import REAL, available, enlarged, erdos_renyi_exact
from meter import Row
from test_functions import kernel, peak

from finchlang import Session, Tensor
from finchlang.tensors.tensor import SwizzledTensor

sparse = peers.pydata_sparse
LIST = "SparseList{Int32}(Element(0.0))"
#: matrices are stored by rows: these are of their transposes
CSR = f"Dense({LIST})"
COO = "SparseCOO{2, Int32}(Element(0.0))"
DENSE = "Dense(Element(0.0))"
UNIFORM = "10,000 of 1,000,000"


@dataclass(frozen=True)
class Operation:
    """What is assigned to the result, and its format; SciPy's and PyData/Sparse's of the same operands.
    `steps` is the same by two kernels, the first into a temporary of a format."""

    value: str
    format: str
    scipy: Any
    pydata: Any = None
    coordinates: bool = False  # A and B are given as COO
    steps: tuple[str, str, str] | None = None

    @property
    def target(self) -> str:
        """The access on the left, in the loops of `text`."""
        return "C[i]" if self.format in (LIST, DENSE) else "C[i, j]"


def text(target: str, value: str) -> str:
    """The kernel that assigns a value; results by rows are made by rows."""
    reduces = "[i, j]" in value and "j" not in target
    loops = "for i = _, j = _" if reduces or "j" in target else "for i = _"
    return kernel(f"{target[0]} .= 0\n{loops}\n{target} {'+=' if reduces else '='} {value}\nend")


HALVES = "slice(A, 1, 1:m)[i, j]"
ROWS = "concat(1, A, B)[i, j]"
COLUMNS = "concat(2, A, B)[i, j]"
OPERATIONS = {
    "flatten": Operation(
        *("collapse(A, 2, 1)[i]", LIST, lambda o: o["A"].reshape(-1)), lambda o: o["A"].reshape(-1)
    ),
    "split to CSR": Operation(
        *("split(v, 1, n)[j, i]", CSR, lambda o: o["v"].reshape(o["A"].shape).tocsr()),
        lambda o: o["v"].reshape(o["A"].shape),
    ),
    "split to COO": Operation(
        *("split(v, 1, n)[j, i]", COO, lambda o: o["v"].reshape(o["A"].shape)),
        lambda o: o["v"].reshape(o["A"].shape),
    ),
    "stack rows, CSR": Operation(
        *(ROWS, CSR, lambda o: sp.vstack([o["A"], o["B"]], format="csr")),
        lambda o: sparse.concatenate([o["A"], o["B"]], axis=0),
    ),
    "stack rows, CSR to COO": Operation(
        *(ROWS, COO, lambda o: sp.vstack([o["A"], o["B"]], format="coo"))
    ),
    "stack rows, COO to CSR": Operation(
        *(ROWS, CSR, lambda o: sp.vstack([o["A"], o["B"]], format="csr")), coordinates=True
    ),
    "stack columns, CSR": Operation(
        *(COLUMNS, CSR, lambda o: sp.hstack([o["A"], o["B"]], format="csr")),
        lambda o: sparse.concatenate([o["A"], o["B"]], axis=1),
    ),
    "stack columns, COO to CSR": Operation(
        *(COLUMNS, CSR, lambda o: sp.hstack([o["A"], o["B"]], format="csr")), coordinates=True
    ),
    "rows [:n/2]": Operation(
        *(HALVES, CSR, lambda o: o["A"][: o["m"]]), lambda o: o["A"][: o["m"]]
    ),
    "rows [:n/2:2]": Operation(
        *("slice(A, 1, 1:2:m)[i, j]", CSR, lambda o: o["A"][: o["m"] : 2]),
        lambda o: o["A"][: o["m"] : 2],
    ),
    "rows [:n/2] to COO": Operation(*(HALVES, COO, lambda o: o["A"][: o["m"]].tocoo())),
    "rows [:n/2:2] to COO": Operation(
        *("slice(A, 1, 1:2:m)[i, j]", COO, lambda o: o["A"][: o["m"] : 2].tocoo())
    ),
    "columns [:, :n/2]": Operation(
        *("slice(A, 2, 1:k)[i, j]", CSR, lambda o: o["A"][:, : o["k"]]),
        lambda o: o["A"][:, : o["k"]],
    ),
    "fused flatten(A) .* v": Operation(
        *("collapse(A, 2, 1)[i] * w[i]", LIST),
        lambda o: o["A"].reshape((1, -1)).multiply(o["w"].reshape((1, -1))),
        lambda o: o["A"].reshape(-1) * o["w"],
        steps=("T[i]", "collapse(A, 2, 1)[i]", "T[i] * w[i]"),
    ),
    "fused vcat(A, B) * x": Operation(
        *("concat(1, A, B)[i, j] * x[j]", DENSE),
        lambda o: sp.vstack([o["A"], o["B"]]) @ o["x"],
        steps=("T[i, j]", ROWS, "T[i, j] * x[j]"),
    ),
    "fused A[:n/2, :] .* B[:n/2, :]": Operation(
        *(f"{HALVES} * {HALVES.replace('A', 'B')}", CSR),
        lambda o: o["A"][: o["m"]].multiply(o["B"][: o["m"]]),
        steps=("T[i, j]", HALVES, f"T[i, j] * {HALVES.replace('A', 'B')}"),
    ),
}
KRON = Operation("kron(A, B)[i, j]", CSR, lambda o: sp.kron(o["A"], o["B"], format="csr"))
FUSED = [name for name in OPERATIONS if name.startswith("fused")]
DATA = [UNIFORM, *available(*REAL)]


@cache
def operands(name: str, size: int = 10_000) -> dict[str, Any]:
    """A and B are CSR; v and w are vectors of their entries by rows; others are numbers, and x."""
    if name == UNIFORM:
        A, B = (erdos_renyi_exact(size, size * size // 100, seed) for seed in (1, 2))
    else:
        A = enlarged(name, 1_000_000)
        B = sp.csr_array((A.data, A.indices[::-1].copy(), A.indptr), A.shape)
        B.indices = B.shape[1] - 1 - A.indices
        B.has_sorted_indices = False
        B.sort_indices()
    rows, columns = A.shape
    vectors = {"v": A.reshape(-1), "w": B.reshape(-1), "x": np.linspace(1, 2, columns)}
    return {"A": A, "B": B, "n": columns, "m": rows // 2, "k": columns // 2} | vectors


def result_of(theirs: Any, operation: Operation) -> Any:
    """A tensor for what an operation makes, with the shape of the peer's."""
    return made(operation.format, theirs.shape if "j" in operation.target else [max(theirs.shape)])


def made(format: str, shape: Any) -> Any:
    """An empty tensor; a matrix is stored by rows."""
    return Tensor(format, *shape) if len(shape) == 1 else by_rows(Tensor(format, *shape[::-1]))


def by_rows(transposed: Tensor) -> SwizzledTensor:
    return SwizzledTensor(transposed, (2, 1))


def bound(session: Session, given: dict[str, Any], operation: Operation) -> None:
    """Each operand as the operation takes it: vectors as lists, matrices as SciPy has them."""
    for name, value in given.items():
        if name in "vw":
            where = (value.coords[0],)
            session[name] = Tensor.from_coo(LIST, value.shape, where, value.data)
        elif name in "AB" and operation.coordinates:
            found = value.tocoo()
            where, shape = (found.col, found.row), value.shape[::-1]
            session[name] = by_rows(Tensor.from_coo(COO, shape, where, found.data))
        else:
            session[name] = value


def taken(given: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """Each operand as SciPy takes it."""
    change = {"A", "B"} if operation.coordinates else set()
    return {name: value.tocoo() if name in change else value for name, value in given.items()}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        error = np.abs(found.to_numpy() - expected).max()
        assert error <= 1e-12 * np.abs(expected).max()
        return
    if found.ndim == 1:
        (where,), values = found.entries()
        theirs = sp.coo_array(expected).reshape(-1)
        theirs.eliminate_zeros()
        order = np.argsort(theirs.coords[0])
        kept = values != 0
        assert np.array_equal(where[kept], theirs.coords[0][order])
        assert np.allclose(values[kept], theirs.data[order])
        return
    assert found.shape == expected.shape
    assert abs(sp.csr_array(found.to_scipy()) - sp.csr_array(expected)).max() < 1e-12


def run(given: dict[str, Any], operation: Operation, expected: Any) -> tuple[Session, str]:
    """A session that has run the operation once, rightly, and its text."""
    session = Session()
    bound(session, {name: given[name] for name in names(operation)}, operation)
    session["C"] = result_of(expected, operation)
    program = text(operation.target, operation.value)
    session.run(program)
    same(session["C"], expected)
    return session, program


def names(operation: Operation) -> list[str]:
    """Those of the operands that a value names."""
    letters = "".join(c if c.isalnum() else " " for c in operation.value).split()
    return [name for name in ("A", "B", "n", "m", "k", "v", "w", "x") if name in letters]


def pydata(given: dict[str, Any], operation: Operation) -> Any:
    """PyData/Sparse's call: on its CSR where the result is one, else on its COO."""
    if sparse is None or operation.pydata is None:
        return None
    kind = sparse.GCXS if operation.format == CSR else sparse.COO
    theirs = {name: v for name, v in given.items() if not sp.issparse(v)}
    for name in ("A", "B", "v", "w"):
        found = given[name].tocoo()
        theirs[name] = kind(sparse.COO(np.array(found.coords), found.data, found.shape))
    return lambda: operation.pydata(theirs)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", DATA)
def test_shapes(meter, name, operation):
    what = OPERATIONS[operation]
    given = operands(name)
    theirs = taken(given, what)
    session, program = run(given, what, what.scipy(theirs))
    others: dict[str, Any] = {"SciPy": lambda: what.scipy(theirs)}
    if name == UNIFORM:
        others["PyData/Sparse"] = pydata(given, what)
    workload = operation if name == UNIFORM else f"{operation}, real matrices"
    meter.race(workload, name, calls(session, program), others)
    if what.steps is not None:  # both on the same objects
        others = {"ours, unfused": unfused(session, what, what.scipy(theirs))}
        meter.race(workload, name, lambda: session.run(program), others)


def unfused(session: Session, operation: Operation, expected: Any) -> Any:
    """The same by two kernels, in a session of its own."""
    assert operation.steps is not None
    other = Session()
    for name in session.names():
        other[name] = session[name]
    target, value, then = operation.steps
    shape = session["A"].shape
    rows = {"concat": 2 * shape[0], "slice(": shape[0] // 2}.get(value[:6], shape[0])
    flat = "j" not in target
    other["T"] = made(LIST, [shape[0] * shape[1]]) if flat else made(CSR, (rows, shape[1]))
    other["C"] = result_of(expected, operation)
    first, second = text(target, value), text(operation.target, then)

    def call() -> None:
        other.run(first)
        other.run(second)

    call()
    same(other["C"], expected)
    return call


def test_kron(meter):
    A, B = (erdos_renyi_exact(100, 1_000, seed) for seed in (3, 4))
    given = {"A": A, "B": B}
    session, program = run(given, KRON, KRON.scipy(given))
    others = {"SciPy": lambda: KRON.scipy(given), "SciPy, to COO": lambda: sp.kron(A, B)}
    meter.race("kron", "1,000 entries each", calls(session, program), others)


@pytest.mark.parametrize("operation", FUSED)
def test_memory(meter, operation):
    """What a fused row takes beyond its operands at its peak, and beyond what the same call takes on
    few entries, by the bytes of its result."""
    if not os.path.exists("/proc/self/clear_refs"):
        pytest.skip("needs Linux")
    what, found = OPERATIONS[operation], []
    for given in (operands(UNIFORM), operands(UNIFORM, 20)):
        expected = what.scipy(given)
        session, program = run(given, what, expected)
        stored = getattr(session["C"], "body", session["C"]).storage
        size = sum(np.asarray(array).nbytes for level in stored for array in level.values())
        session["C"] = result_of(expected, what)
        found.append((peak(lambda s=session, p=program: s.run(p)), size))
    (ours, size), (few, _) = found
    row = Row("memory of what is fused", operation, ours - few, "its result", size, unit="B")
    meter.rows.append(row)


NESTED = "flip(kron(vcat(slice(A, 1, 1:m), B), E), 2)[i, j]"


@pytest.mark.parametrize("operation", [*OPERATIONS, "kron", "four nested operators"])
def test_compile(meter, operation):
    """Cold: from the text to the result of a few entries."""
    nested = Operation(NESTED, CSR, None)
    what = OPERATIONS | {"kron": KRON, "four nested operators": nested}
    operation, what = operation, what[operation]
    given = operands(UNIFORM, 20)
    if what is nested:
        E = sp.csr_array(np.eye(2))
        expected = sp.kron(sp.vstack([given["A"][:10], given["B"]]), E, format="csr")[:, ::-1]
        given = given | {"E": E}
    else:
        expected = what.scipy(given)
    samples = []
    for _ in range(3):
        session = Session()
        bound(session, given, what)
        session["C"] = result_of(expected, what)
        start = process_time()
        session.run(text(what.target, what.value))
        samples.append(process_time() - start)
        same(session["C"], expected)
    meter.median("compile a shape, cold", operation, samples)
