"""The way in is short: what a program imports whose kernels are on disk. The modules are counted, since
seconds depend on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: what makes a kernel, and what only some programs need
LEFT_OUT = (
    *("lark", "scipy", "prompt_toolkit", "pygments", "IPython"),
    *("finchlang.text.parse", "finchlang.normalize.pass_list", "finchlang.rules"),
    *("finchlang.denote", "finchlang.optimize", "finchlang.testing"),
    *("finchlang.native.compiler", "finchlang.native.emit"),
    *("finchlang.array", "finchlang.calls.staging"),
)
#: how many of our own modules are needed at most
IMPORT, RUN = 146, 162

PROGRAMS = {
    "import": "from finchlang import Session",
    "run": """
from finchlang.repl.__main__ import main
assert main(["run", "examples/spmv.finch"]) == 0""",
    "call": """
import numpy as np
from finchlang import Session, Tensor
session = Session(output=print)
session["A"] = Tensor("Dense(SparseList(Element(0.0)))", np.array([[1.0, 0, 2], [0, 0, 3]]))
session["x"], session["y"] = np.ones(3), np.zeros(2)
session.run("@finch for j=_, i=_; y[i] += A[i, j] * x[j] end")
session["T"] = Tensor("Dense(SparseList(Element(0.0)))")
session.run("@finch begin T .= 0; for i=_, j=_; T[j, i] = A[i, j] end end")
assert session["y"].tolist() == [3, 3] and session["T"].shape == (3, 2)""",
    "kernel": """
import numpy as np
import finchlang
add = finchlang.kernel("function add(y, x) @finch for i=_; y[i] += x[i] end end")
y = np.ones(3)
add(y, np.ones(3))
assert y.tolist() == [2, 2, 2]""",
}
TOLD = "\nimport sys; print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kernel_on_disk_needs_no_compiler(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAMS[program] + TOLD]
    environment = {**os.environ, "FINCH_CACHE_DIR": str(tmp_path)}
    for _ in "first", "again":
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    modules = done.stderr.split()
    left_out = LEFT_OUT + (("llvmlite",) if program == "import" else ())
    found = [m for m in modules if m.startswith(tuple(f"{name}." for name in left_out))]
    assert not found + [m for m in modules if m in left_out]
    ours = [m for m in modules if m.startswith("finchlang")]
    assert len(ours) <= (IMPORT if program == "import" else RUN), len(ours)
