"""What `finch explain` says of kernels, and that what `finch normalize` prints is a script."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from finchlang.repl.__main__ import main
from finchlang.session import Session
from finchlang.tensors.adopted import as_tensor

DEFINITIONS = """\
A = fsparse([1, 2, 3], [1, 2, 2], [1.0, 2.0, 3.0], (3, 4))
C = fsparse([2, 3], [1, 4], [5.0, 7.0], (3, 4))
B = fsparse([1, 2, 4], [1, 2, 2], [1.0, 2.0, 3.0], (4, 2))
D = Tensor(Dense(SparseList(Element(0.0))))
x = Tensor(Dense(Element(0.0)), [1.0, 2.0, 0.0, 4.0])
y = Tensor(Dense(Element(0.0)), 3)
s = Scalar(0.0)
"""

KERNELS = {
    "spmv": "begin; y .= 0; for j = _, i = _; y[i] += A[i, j] * x[j] end end",
    "in_place": "for j = _, i = _; C[i, j] += 2 * A[i, j] end",
    "thawed": "for j = _, i = _; y[i] += A[i, j] end",
    "across": "begin; s .= 0; for i = _, j = _; s[] += A[i, j] * x[~(j + 1)] end end",
    "read_and_again": "begin; s .= 0; for i = _; s[] += y[i] end; y .= s[]; s .= 1 end",
    "gustavson": "begin; D .= 0; for j = _, k = _, i = _; D[i, j] += A[i, k] * B[k, j] end end",
    "outer_product": "begin; D .= 0; for k = _, j = _, i = _; D[i, j] += A[i, k] * B[k, j] end end",
    "transpose": "begin; D .= 0; for j = _, i = _; D[j, i] = A[i, j] end end",
    "any_order": "begin; s .= 0; for i = _, j = _; s[] += A[i, j] end end",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(kernel: str) -> str:
    Path("script.finch").write_text(f"{DEFINITIONS}@finch {kernel}\n")
    return "script.finch"


@pytest.mark.parametrize("name", KERNELS)
def test_what_passes_decided_and_why(name: str, golden, capsys) -> None:
    assert main(["explain", script(KERNELS[name])]) == 0
    golden(f"explain/{name}.txt", f"{KERNELS[name]}\n\n{capsys.readouterr().out}")


@pytest.mark.parametrize("name", KERNELS)
def test_what_normalize_prints_runs_after_the_definitions(name: str, capsys) -> None:
    path = script(KERNELS[name])
    assert main(["normalize", path]) == 0
    passes = re.split(r"^# .*\n", capsys.readouterr().out, flags=re.MULTILINE)
    normal = [text for text in passes if text.strip()][-1]
    written, rewritten = Session(), Session()
    written.run_file(path)
    rewritten.run(DEFINITIONS + normal)
    for tensor in ("C", "D", "y", "s"):
        one, other = as_tensor(written[tensor]), as_tensor(rewritten[tensor])
        assert one is not None and other is not None
        np.testing.assert_array_equal(one.to_numpy(), other.to_numpy())


def test_what_the_planner_chose_from(capsys: pytest.CaptureFixture[str]) -> None:
    statements = "@einsum E[i, j] += A[i, k] * B[k, j]\n@array F = A .+ C\n"
    Path("script.finch").write_text(DEFINITIONS + statements)
    assert main(["explain", "script.finch"]) == 0
    product, total = capsys.readouterr().out.split("# kernel")[1:]
    told = re.search(r"plan\n    loops of t0: by steps: (.*)\n", product)
    assert told is not None
    costs = [float(part.rsplit(": ", 1)[1]) for part in told[1].split(", ") if ": " in part]
    assert len(costs) > 1 and costs == sorted(costs)
    assert "plan\n    loops of t0: j i, as operands are stored\n" in total
