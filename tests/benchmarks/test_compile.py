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

from finchlang import Session, Tensor
from finchlang.calls.kernel import SpecializedKernel
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.syntax.nodes import KernelNode
from finchlang.syntax.traversal import walk
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_script

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
    assert SpecializedKernel(node.program, formats).native
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


@pytest.mark.long
def test_largest_example(meter, monkeypatch):
    """Every kernel of every example, compiled once more; the slowest counts."""
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    worst, where = 0.0, ""
    for path in sorted(EXAMPLES.glob("*.finch")):
        observer = Kernels()
        Session(output=lambda _: None, observer=observer).run_file(path)
        for event in observer.events:
            start = process_time()
            kernel = SpecializedKernel(event.source.program, dict(event.compiled.formats))
            assert kernel.native
            if process_time() - start > worst:
                worst, where = process_time() - start, f"{path.stem}, line {event.source.span.line}"
    assert where
    meter.median("compile, cold", "the largest example", [worst])
    meter.note(f"The example's kernel that takes longest to compile: {where}.")


A10 = sp.random(10, 10, 0.3, format="csc", random_state=0)
FIXED = np.ones(10)
#: the name of the output, and what is bound to which name before each call
CALLS = {
    "the same arrays": ("y", "x", lambda: FIXED),
    "an array not seen before": ("y", "x", lambda: np.ones(10)),
    "a SciPy matrix not seen before": ("y", "A", lambda: A10.copy()),
    "a tensor made anew": ("s", "x", lambda: FIXED),
}


@pytest.mark.parametrize("kind", CALLS)
def test_call(meter, kind):
    """A whole call of SpMV of 10 x 10, of which native code takes some 0.05 us. Making what is bound
    is not in it; binding it is."""
    output, name, make = CALLS[kind]
    program, session = PROGRAMS["CSC"].replace("y", output), Session()
    session["A"], session["x"], session["y"] = A10, FIXED, np.zeros(10)
    session["s"] = Tensor("Dense(Element(0.0))", 10)
    session.run(program)
    samples = []
    for _ in range(60):
        made = [make() for _ in range(100)]
        start = process_time()
        for value in made:
            session[name] = value
            session.run(program)
        samples.append((process_time() - start) / len(made))
    meter.median("call, SpMV of 10 x 10", kind, samples)


FIRST = """
from time import process_time
import numpy as np
import scipy.sparse as sp
from finchlang import Session, Tensor
imported = process_time()
session = Session()
A = sp.random(10, 10, 0.3, format="csc", random_state=0)
session["A"], session["B"], session["x"], session["y"] = A, A.copy(), np.ones(10), np.zeros(10)
session["C"] = Tensor("Dense(SparseList{Int32}(Element(0.0)))", 10, 10)
session["w"] = Tensor("SparseByteMap{Int32}(Element(0.0))", 10)
start = process_time()
session.run(PROGRAM)
print(process_time() - start, imported)
"""


@pytest.mark.parametrize("name", KERNELS)
def test_first_call_of_a_process(meter, name, tmp_path):
    """From the text to the result in a process of its own, which nothing was compiled in: with the
    grammar's tables from the disk cache, the kernel not."""
    code = f"PROGRAM = {KERNELS[name][0]!r}\n{FIRST}"
    samples = []
    for number in range(6):
        environment = os.environ | {"FINCH_CACHE_DIR": str(tmp_path)}
        text = code.replace("* x[j]", f"* x[j] * 1.{number}").replace("* B", f"* 1.{number} * B")
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        samples.append([float(word) for word in done.stdout.split()])
    meter.median("first call of a process", name, [sample[0] for sample in samples[1:]])
    if name == "SpMV":
        meter.median("import", "finchlang and SciPy", [sample[1] for sample in samples[1:]])


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
