"""Compile times, cold and from the disk cache; what a call costs; the command on a script."""

from __future__ import annotations

import os
import subprocess
import sys
from time import process_time

import numpy as np
import pytest
import scipy.sparse as sp
from programs import EXAMPLES
from test_spgemm import GUSTAVSON
from test_spmv import PROGRAMS

from finchlang import Session
from finchlang.run.kernel import Kernel
from finchlang.session import KernelEvent, Observer
from finchlang.syntax import Kernel as KernelNode
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_script
from finchlang.walk import walk

CSC = parse_format("Dense(SparseList{Int32}(Element(0.0)))")
VECTOR = parse_format("Dense(Element(0.0))")
OUTPUT = parse_format("Dense(SparseList(Element(0.0)))")
WORKSPACE = parse_format("SparseByteMap(Element(0.0))")
KERNELS = {
    "SpMV": (PROGRAMS["CSC"], {"A": CSC, "x": VECTOR, "y": VECTOR}),
    "Gustavson": (GUSTAVSON, {"A": CSC, "B": CSC, "C": OUTPUT, "w": WORKSPACE}),
}


def compile_seconds(text, formats):
    """From text to callable; the grammar's tables and LLVM are loaded already."""
    start = process_time()
    [node] = [n for n in walk(parse_script.__wrapped__(text)) if isinstance(n, KernelNode)]
    assert Kernel(node.program, formats).native
    return process_time() - start


@pytest.mark.parametrize("name", KERNELS)
def test_cold_compile(meter, name, monkeypatch):
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    meter.median("compile, cold", name, [compile_seconds(*KERNELS[name]) for _ in range(11)])


@pytest.mark.parametrize("name", KERNELS)
def test_cached_compile(meter, name, monkeypatch, tmp_path):
    """The cache is asked for the program, before it is normalised and staged."""
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    compile_seconds(*KERNELS[name])
    assert any(path.is_file() for path in tmp_path.rglob("*"))
    samples = [compile_seconds(*KERNELS[name]) for _ in range(11)]
    meter.median("compile, from the disk cache", name, samples)


class Kernels(Observer):
    """Remembers the kernels of a session, for their program and formats."""

    def __init__(self):
        self.events = []

    def kernel(self, event: KernelEvent) -> None:
        self.events.append(event)


def test_largest_example(meter, monkeypatch):
    """Every kernel of every example, compiled once more; the slowest counts."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    worst, where = 0.0, ""
    for path in sorted(EXAMPLES.glob("*.finch")):
        observer = Kernels()
        Session(output=lambda _: None, observer=observer).run_file(path)
        for event in observer.events:
            start = process_time()
            kernel = Kernel(event.source.program, dict(event.compiled.formats))
            assert kernel.native
            if process_time() - start > worst:
                worst, where = process_time() - start, f"{path.stem}, line {event.source.span.line}"
    assert where
    meter.median("compile, cold", "the largest example", [worst])
    meter.note(f"The example's kernel that takes longest to compile: {where}.")


def test_call(meter):
    """What a call of a compiled kernel costs over the bare native call."""
    session = Session()
    A = sp.random(10, 10, 0.3, format="csc", random_state=0)
    session["A"], session["x"], session["y"] = A, np.ones(10), np.zeros(10)
    text = PROGRAMS["CSC"]
    session.run(text)
    assert np.allclose(session["y"], A @ np.ones(10))
    [site] = session._sites.values()
    [plan] = site._plans.values()
    address, entry = plan.caller.frame.address, plan.kernel.native.entry
    samples, count = [], 200
    for _ in range(50):
        start = process_time()
        for _ in range(count):
            session.run(text)
        middle = process_time()
        for _ in range(count):
            entry(address)
        samples.append((2 * middle - start - process_time()) / count)
    meter.median("call, over the bare native call", "SpMV of 10 x 10", samples)


def test_command(meter):
    """`finch run examples/spmv.finch`, as a process of its own."""
    code = "import sys; from finchlang.repl.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", str(EXAMPLES / "spmv.finch")]
    samples = []
    for _ in range(5):
        start = os.times().children_user + os.times().children_system
        subprocess.run(command, check=True, capture_output=True)
        samples.append(os.times().children_user + os.times().children_system - start)
    meter.median("the command, no cache", "finch run examples/spmv.finch", samples)
