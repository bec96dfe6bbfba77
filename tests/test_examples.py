"""Every example runs on every engine, prints the same there, and all its variables agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from finchlang.agreement import compare
from finchlang.driver import Session

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.finch"))
PRINTED = {
    "spmv": ["column by column: y[1:4] = [ 0.15057588 -0.09279997 -0.3058652  -0.488803  ]"],
    "spgemm": ["members 1 and 34 share 4 friends"],
    "upper_triangle": ["sum of the upper triangle: 22.0"],
    "spmspv": ["x has 8 of 67 entries"],
    "pagerank": ["converged after "],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_prints(path):
    lines: list[str] = []
    Session(output=lines.append).run_file(path)
    printed = "".join(lines)
    assert all(expected in printed for expected in PRINTED[path.stem]), printed


@pytest.mark.parametrize("rules", ["all", "paper"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_engines_agree(path, rules):
    engines = ("denote", "interpret", "residual", "native")
    if rules == "paper":
        engines = ("residual", "native")  # the rest is as it was
    found = compare(path.read_text(encoding="utf-8"), str(path), engines=engines, rules=rules)
    assert not found.errors, found.errors
    assert found.agrees, found.report
