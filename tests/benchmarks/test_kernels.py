"""The first performance goals: SpMV and Gustavson's SpGEMM against SciPy, compile times, the cost of
a call, and the command on a script. `python -m pytest tests/benchmarks` prints the table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import Session, Tensor
from finchlang.kernel import Kernel
from finchlang.parse import parse_kernel
from finchlang.tensors.formats import parse_format

ROOT = Path(__file__).parent.parent.parent
SPMV = {
    "csc": "y .= 0\nfor j = _, i = _\n y[i] += A[i, j] * x[j]\nend",
    "csr": "y .= 0\nfor i = _, j = _\n y[i] += A[i, j] * x[j]\nend",
}
GUSTAVSON = """
C .= 0
for j = _
    w .= 0
    for k = _, i = _
        w[i] += A[i, k] * B[k, j]
    end
    for i = _
        C[i, j] = w[i]
    end
end
"""
N = 10_000


def kernel(text: str) -> str:
    return f"@finch begin\n{text}\nend"


@pytest.mark.parametrize("layout", ["csc", "csr"])
@pytest.mark.parametrize("density", [1e-3, 1e-2])
@pytest.mark.parametrize("seed", [0, 1])
def test_spmv(meter, layout, density, seed):
    A = sp.random(N, N, density, format=layout, random_state=seed)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    x, y = np.random.default_rng(seed).random(N), np.zeros(N)
    session = Session()
    session["A"], session["x"], session["y"] = A, x, y
    text = kernel(SPMV[layout])
    session.run(text)
    assert np.allclose(y, A @ x)
    meter.race(
        f"SpMV {layout} {density:g} seed {seed} / SciPy",
        lambda: session.run(text),
        lambda: A @ x,
        200,
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_spgemm(meter, seed):
    A = sp.random(N, N, 4 / N, format="csc", random_state=seed)
    B = sp.random(N, N, 4 / N, format="csc", random_state=seed + 10)
    session = Session()
    session["A"], session["B"] = A, B
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))", N, N)
    session["w"] = Tensor("SparseByteMap(Element(0.0))", N)
    text = kernel(GUSTAVSON)
    session.run(text)

    def peer():
        C = A @ B
        C.sort_indices()
        return C

    assert abs(session["C"].to_scipy() - peer()).max() < 1e-12
    meter.race(
        f"SpGEMM Gustavson seed {seed} / SciPy and sort", lambda: session.run(text), peer, 40
    )


CSC = parse_format("Dense(SparseList{Int32}(Element(0.0)))")
VECTOR = parse_format("Dense(Element(0.0))")
COMPILED = {
    "SpMV": (SPMV["csc"], {"A": CSC, "x": VECTOR, "y": VECTOR}),
    "Gustavson": (
        GUSTAVSON,
        {
            "A": CSC,
            "B": CSC,
            "C": parse_format("Dense(SparseList(Element(0.0)))"),
            "w": parse_format("SparseByteMap(Element(0.0))"),
        },
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_cold_compile(meter, name, monkeypatch):
    """From text to callable, with nothing cached; the grammar's tables and LLVM are loaded."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    text, formats = COMPILED[name]
    samples = []
    for _ in range(11):
        start = perf_counter()
        assert Kernel(parse_kernel.__wrapped__(text), formats).native
        samples.append(perf_counter() - start)
    meter.once(f"cold compile {name}", samples)


def test_call(meter):
    """What a cached call costs over the bare native call."""
    session = Session()
    A = sp.random(10, 10, 0.3, format="csc", random_state=0)
    session["A"], session["x"], session["y"] = A, np.ones(10), np.zeros(10)
    text = kernel(SPMV["csc"])
    session.run(text)
    [(_, compiled)] = session._kernels.values()
    address, entry = compiled._caller.frame.address, compiled.native.entry
    samples = []
    for _ in range(2000):
        start = perf_counter()
        session.run(text)
        middle = perf_counter()
        entry(address)
        samples.append(2 * middle - start - perf_counter())
    meter.once("cached call, over the bare native call", samples)


def test_command(meter):
    """`finch run examples/spmv.finch`, as a process of its own."""
    code = "import sys; from finchlang.repl.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", str(ROOT / "examples" / "spmv.finch")]
    samples = []
    for _ in range(7):
        start = perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))
        samples.append(perf_counter() - start)
    meter.once("finch run examples/spmv.finch", samples)
