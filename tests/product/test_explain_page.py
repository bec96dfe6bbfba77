"""The page of `finch explain --html`: whole in itself, its steps consistent forwards and back, its places
and rules right; its script runs under node, where that is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from html_page import Page

from finchlang.repl.__main__ import main

PROGRAM = """\
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0.0 2.0; 0.0 3.0 0.0; 4.0 0.0 0.0])
B = Tensor(Dense(SparseList(Element(0.0))), [0.0 5.0 0.0; 6.0 0.0 0.0; 0.0 0.0 7.0])
C = Tensor(Dense(SparseList(Element(0.0))), 3, 3)
w = Tensor(SparseByteMap(Element(0.0)), 3)
@finch begin
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
end
s = Scalar(0.0)
# neither "</script>" nor "<!--<script>" ends what stands in the page
@finch for i = _; s[] += A[gallop(i), 1] * B[gallop(i), 2] end
"""

#: steps of nothing in the source
UNLIT = ("Thaw", "Freeze", "Result", "Overview")
AROUND = ("pass", "overview", "end")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("page")
    program, page = folder / "product.finch", folder / "page.html"
    program.write_text(PROGRAM)
    assert main(["explain", str(program), "--rules", "paper", "--html", str(page)]) == 0
    return page, page.read_text("utf-8")


@pytest.fixture(scope="module")
def data(written: tuple[Path, str]) -> Any:
    return json.loads(Page(written[1]).scripts[0][1])


def term(kernel: Any, number: int) -> list[str]:
    return [kernel["lines"][n] for n in kernel["terms"][number][0]]


def test_the_page_is_whole_and_needs_nothing_else(written: tuple[Path, str]) -> None:
    page = Page(written[1])
    assert page.open == [] and len(page.ids) == len(set(page.ids))
    assert not re.search(r"https?://|@import|url\(", written[1].partition("<script")[0])
    assert "http" not in page.scripts[1][1]
    assert len(page.scripts) == 2 and page.scripts[0][0]["type"] == "application/json"
    used = set(re.findall(r'\$\("([\w-]+)"\)', page.scripts[1][1]))
    assert used <= set(page.ids) and len(used) > 8
    assert len(written[1]) < 1_000_000  # a product of matrices of 3 x 3


def test_each_step_begins_where_the_one_before_has_ended(data: Any) -> None:
    for kernel in data["kernels"]:
        left: dict[int, int] = {}
        for step in kernel["steps"]:
            if step["kind"] == "step":
                before = left.get(step["depth"])
                if before is not None and term(kernel, before) and "at" not in step:
                    assert term(kernel, step["before"]) == term(kernel, before), step
                left[step["depth"]] = step["after"]
            elif step["kind"] == "premise":
                assert step["before"] == step["after"]
            left = {depth: t for depth, t in left.items() if depth <= step["depth"]}
            if "at" in step:  # the loop in hand goes on at its own depth
                left.pop(step["depth"], None)
        assert term(kernel, kernel["steps"][-1]["after"]) == []
        assert all(a["grown"] <= b["grown"] for a, b in pairwise(kernel["steps"]))
        assert kernel["steps"][-1]["grown"] == len(kernel["residual"]) > 20
        assert kernel["leftOut"] == 0


def test_steps_and_lines_have_rules_and_places(data: Any) -> None:
    lines = PROGRAM.splitlines()
    for kernel in data["kernels"]:
        first, last = kernel["place"]
        for line, column, end_line, end_column in kernel["places"]:
            assert first <= line <= end_line <= last
            assert (line, column) < (end_line, end_column) and lines[line - 1][column - 1 :].strip()
        for step in kernel["steps"]:
            assert step["say"].rstrip(".") and step["chapter"] and "{" not in step["say"], step
            assert step["lit"] or step["rule"] in UNLIT, step
            assert step["kind"] in AROUND or data["rules"][step["rule"]]["law"]
        for text, by, number, *_ in kernel["residual"][1:]:
            assert by == "" or 0 <= number < len(kernel["steps"]), text
        assert len(kernel["notes"]) == len(kernel["residual"])
    product = data["kernels"][0]
    lit = {step["rule"]: step["lit"] for step in product["steps"]}
    places = [product["places"][n] for n in lit["Assign"]]
    assert places and places[0][0] in (10, 13)


def test_looplets_have_their_parts_and_lines_their_values(data: Any) -> None:
    product, dot = data["kernels"]
    kinds = {part[0] for kernel in data["kernels"] for part in kernel["parts"]}
    assert {"lookup", "thunk", "sequence", "phase", "stepper", "jumper", "spike", "run"} <= kinds
    for kernel in data["kernels"]:
        for number, (_, _, inner, *_) in enumerate(kernel["parts"]):
            assert all(n < number for n in inner)
        told = " ".join(line for line in kernel["lines"])
        assert "..." not in told and "value=" not in told
    arrays = {name: first for name, _, first, *_ in product["arrays"]}
    assert arrays["A_val"] == ["1.0", "4.0", "3.0", "2.0"]
    assert arrays["C_val"][:4] == ["18.0", "5.0", "20.0", "14.0"]
    j = next(line for line in product["residual"] if line[0].startswith("for j"))
    assert j[3:] == [["1", "2", "3"], 3]
    assert any(line[3:] == [["5.0"], 1] for line in dot["residual"])


def test_few_steps_are_key_and_the_last_one_says_what_is_read(data: Any) -> None:
    for kernel in data["kernels"]:
        steps = kernel["steps"]
        keys = [step["say"] for step in steps if step.get("key")]
        assert len({*keys}) == len(keys) < len(steps) / 3
        assert steps[0]["kind"] == "overview" and steps[-1]["kind"] == "end"
        assert [part[1:3] for part in steps[0]["parts"]][2] == [len(steps) - 1] * 2
    said = data["kernels"][1]["steps"][-1]["say"]
    assert "It reads 1 of the 9 places of `A`, of which 4 are stored." in said
    A, B = (next(t for t in data["kernels"][1]["tensors"] if t["name"] == n) for n in "AB")
    assert A["svg"].count('data-at="3"') == 3 and (A["reads"], B["reads"]) == ([0], [1])
    notes = dict(
        zip(
            (r[0].strip() for r in data["kernels"][1]["residual"]),
            data["kernels"][1]["notes"],
            strict=True,
        )
    )
    assert "while there are entries left" in notes.values()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_steps_forwards_and_back(written: tuple[Path, str], data: Any) -> None:
    folder = written[0].parent
    (folder / "page.js").write_text(Page(written[1]).scripts[1][1], "utf-8")
    (folder / "data.json").write_text(json.dumps(data), "utf-8")
    steps = Path(__file__).with_name("explain_page_steps.js")
    command = ["node", str(steps), *(str(folder / name) for name in ("page.js", "data.json"))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.stdout == "stepped\n", ran.stderr


def test_a_file_without_kernels_has_no_page(tmp_path: Path, capsys) -> None:
    (tmp_path / "none.finch").write_text("x = 1\n")
    page = tmp_path / "none.html"
    assert main(["explain", str(tmp_path / "none.finch"), "--html", str(page)]) == 1
    assert "no kernel" in capsys.readouterr().err and not page.exists()


def test_a_kernel_of_an_array_expression_shows_its_program(tmp_path: Path) -> None:
    program, page = tmp_path / "sum.finch", tmp_path / "sum.html"
    program.write_text("x = Tensor(SparseList(Element(0.0)), [0.0, 2.0])\ny = x .* x\n")
    assert main(["explain", str(program), "--html", str(page)]) == 0
    data = json.loads(Page(page.read_text("utf-8")).scripts[0][1])
    assert any("= x0[i] * x0[i]" in line for line in data["kernels"][0]["source"])
