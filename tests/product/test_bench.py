"""`finch bench`: its table, rounds of loops by lines, the comparison with a reference, and `--watch`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from finchlang.repl.__main__ import main

PROGRAM = """\
A = fsparse([1, 3, 2, 3], [1, 1, 2, 4], [1.0, 2.0, 3.0, 4.0], (3, 4))
x = [1.0, 2.0, 3.0, 4.0]
y = Tensor(Dense(Element(0.0)))
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
@finch for i = _
    x[i] += i
end
"""
REFERENCE = """\
def right(A, x):
    return {"y": A @ x, "x": x + [1, 2, 3, 4]}
def wrong(A, x):
    return {"y": A @ x + 1}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.finch"
    path.write_text(PROGRAM)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return path


def bench(script: Path, *options: str) -> int:
    return main(["bench", str(script), "--seconds", "0.001", *options])


def test_kernels_are_timed_and_their_rounds_counted(script: Path, capsys) -> None:
    assert bench(script, "--profile") == 0
    heading, first, second, _, *profile = capsys.readouterr().out.splitlines()
    assert heading.split() == ["kernel", "median", "spread", "calls", "rounds", "bytes"]
    time = r"\d[\d.e+]* [mnu]?s +\d+%"
    # four columns, and four stored entries in them; then four elements
    assert re.fullmatch(rf"1, line 4 +{time} +\d+ +8 +\d+", first)
    assert re.fullmatch(rf"2, line 10 +{time} +\d+ +4 +32", second)
    rows = [re.fullmatch(r"(\d+) +(for .) +(\d+)% +[\d.e+]+ [mnu]?s +(\d+)", n) for n in profile]
    assert [(row[1], row[2], row[4]) for row in rows if row] == [
        ("6", "for i", "4"),
        ("6", "for j", "4"),
        ("10", "for i", "4"),
    ]


def test_a_reference_is_timed_and_compared(script: Path, capsys) -> None:
    reference = script.parent / "reference.py"
    assert bench(script, "--against", f"{reference}:right") == 0
    said = capsys.readouterr().out
    assert re.search(r"^reference +\d", said, re.MULTILINE)
    assert re.search(r"^all kernels: [\d.e-]+ times the reference's time$", said, re.MULTILINE)
    assert bench(script, "--against", f"{reference}:wrong") == 1
    assert "y is [" in capsys.readouterr().out
    assert bench(script, "--against", f"{reference}:none") == 1
    assert "unknown name error" in (said := capsys.readouterr().err) and "right, wrong" in said


def test_a_saved_file_is_run_again_until_an_interrupt(script: Path, capsys, monkeypatch) -> None:
    script.write_text("println(1)")
    texts = ["println(1)", 'println("two")', "println(1"]

    def save(_: float) -> None:
        if not texts:
            raise KeyboardInterrupt
        script.write_text(texts.pop(0))

    monkeypatch.setattr("time.sleep", save)
    assert main(["run", str(script), "--watch"]) == 1
    shown = capsys.readouterr()
    assert shown.out.split()[0] == "1" and shown.out.split()[-1] == "two"
    assert "has changed" in shown.err and "syntax error" in shown.err


def test_rounds_are_those_of_the_first_run(tmp_path: Path, capsys) -> None:
    """After it the arrays hold what the kernel wrote: counting then ended the process."""
    path = tmp_path / "grown.finch"
    path.write_text(
        "x = Tensor(SparseList(Element(0.0)), 500)\n"
        "@finch for i = _; if i < 400; x[i] += 1.0 end end\n"
        "@finch for i = _; x[i] += 1.0 end\n"
    )
    assert bench(path, "--profile") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    rounds = [(row[0], *row[2:3], row[-1]) for row in rows if "for" in row]
    assert ("2", "i", "399") in rounds and ("3", "i", "500") in rounds


def test_what_passes_insert_has_names(tmp_path: Path, capsys) -> None:
    path = tmp_path / "turned.finch"
    path.write_text(
        "A = fsprand(20, 20, 0.5); C = Tensor(SparseHash{2}(Element(0.0)))\n"
        "@finch begin C .= 0; for j = _, i = _; C[j, i] += A[i, j] end end\n"
    )
    assert bench(path, "--profile") == 0
    assert re.search(r"^ +@freeze\(C\) +\d+% .*\d$", capsys.readouterr().out, re.M)


def test_time_is_told_where_it_is_spent(tmp_path: Path, capsys) -> None:
    """The inner loop of 200,000 rounds takes more than the other one of 2."""
    path = tmp_path / "two.finch"
    path.write_text(
        "x = rand(200000); y = zeros(200000); s = Scalar(0.0)\n"
        "@finch begin\n"
        "    for j = 1:2\n"
        "        for i = _; y[i] += sqrt(x[i]) * j end\n"
        "    end\n"
        "    for k = 1:2; s[] += k end\n"
        "end\n"
    )
    assert bench(path, "--profile") == 0
    said = capsys.readouterr().out
    shares = {line: int(s) for line, s in re.findall(r"^(\d) +for \w +(\d+)% .*\d$", said, re.M)}
    assert shares["4"] == max(shares.values()) and {*shares} >= {"3", "4", "6"}


def test_a_reference_gets_the_data_that_kernels_make(tmp_path: Path, capsys) -> None:
    """A function fills A, a kernel fills x; the reference does what the third kernel does."""
    path = tmp_path / "made.finch"
    path.write_text(
        "function fill(M)\n"
        "    @finch for j = _, i = _; M[i, j] = i == j ? 2.0 : 0.0 end\n"
        "end\n"
        "A = Tensor(Dense(SparseList(Element(0.0))), 4, 4)\n"
        "x = zeros(4)\n"
        "fill(A)\n"
        "@finch for i = _; x[i] = i end\n"
        "y = Tensor(Dense(Element(0.0)), 4)\n"
        "@finch begin y .= 0; for j = _, i = _; y[i] += A[i, j] * x[j] end end\n"
        "@finch for i = _; x[i] += 1 end\n"
    )
    (tmp_path / "made.py").write_text(
        'def right(A, x):\n    assert x[3] == 4\n    return {"y": A @ x, "x": x + 1}\n'
        'def wrong(A, x):\n    return {"y": A @ x + 1}\n'
    )
    assert bench(path, "--against", f"{tmp_path}/made.py:right") == 0
    assert "\nkernels 3 to 4: " in capsys.readouterr().out
    assert bench(path, "--against", f"{tmp_path}/made.py:wrong") == 1
    assert "by " in capsys.readouterr().out
