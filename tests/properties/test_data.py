"""`finch diff` on data that it makes (`--cases`), in other formats (`--formats any`), and against a
function of the user (`--against`)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from finchlang import FinchError, Session
from finchlang.repl.__main__ import main
from finchlang.testing.compare_engines import compare, ways_of
from finchlang.testing.data import Data, reference

PROGRAM = """n = 3
A = Tensor(Dense(SparseList{Int32}(Element(0.0))), [1.0 0 2 4; 0 3 0 0; 0 0 0 5])
x = [1.0, 2.0, 3.0, 4.0]
y = Tensor(SparseByteMap(Element(0.0)), n)
k = Scalar(Int8(2))
B = swizzle(Tensor(Dense(SparseRunList(Element(Int8(3)))), 4, 3), 2, 1)
P = Tensor(SparseList(Pattern()), [j != 2 for j in 1:3])
C = A * 2
@finch begin
  y .= 0
  for j = _, i = 1:3
    if P[i]
      y[i] += A[i, j] * x[j] + B[i, j] * k[]
    end
  end
end
@assert y[1] == 1 + 6 + 16 + 60
"""


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")


def test_what_is_made_of_nothing_else_is_data() -> None:
    data = Data(PROGRAM)
    assert list(data.tensors) == ["A", "x", "y", "k", "B", "P"]


@pytest.mark.parametrize("seed", range(8))
def test_a_script_runs_on_other_data(seed: int) -> None:
    """Its sizes stay tied, so that it is in order, and formats and types are its own."""
    case, data = Data(PROGRAM).case(seed), Data(PROGRAM)
    assert case == data.case(seed) and case.text != PROGRAM
    found = compare(
        case.text, ways=ways_of(("denote", "interpret") if case.is_small else ("residual",))
    )
    assert found.agrees and not found.errors, found.report
    session = Session("check")
    session.run(case.text)
    for name, value in data.tensors.items():
        assert str(getattr(session[name], "format", "array")) == str(
            getattr(value, "format", "array")
        )
        assert session[name].dtype == value.dtype


def test_data_are_of_all_kinds() -> None:
    cases = [Data(PROGRAM).case(seed) for seed in range(60)]
    texts = "\n".join(case.text for case in cases)
    for special in ("NaN", "-Inf", "-0.0", "Int8(127)", "Int8(-127)"):
        assert special in texts
    sizes = {int(n) for case in cases for n in re.findall(r"x (\d+)", case.what)}
    assert sizes > {0, 1, 2, 3, 4, 5, 6, 7, 8} and max(sizes) >= 500
    assert not any(case.is_small for case in cases if re.search(r"x \d{3}", case.what))
    coordinates = re.findall(r"fsparse\(\[([\d, ]+)\], \[([\d, ]+)\]", texts)
    places = [[*zip(*(map(int, r.split(", ")) for r in rows), strict=True)] for rows in coordinates]
    assert any(len(set(at)) < len(at) for at in places)
    assert any(at != sorted(at) for at in places)


def test_fills_are_stored_too() -> None:
    text = "A = Tensor(SparseList(Element(0.0)), [0.0, 1.0, 2.0])\nt = countstored(A)\n"
    counts = []
    for seed in range(40):
        session = Session("interpret")
        session.run(Data(text).case(seed).text)
        counts.append(session["t"] > sum(session["A"].to_numpy() != 0))
    assert any(counts) and not all(counts)


def test_each_level_takes_the_place_of_each() -> None:
    cases = {case.what: case.text for case in Data(PROGRAM).formats()}
    for what in (
        "A as SparseList(SparseList{Int32}(Element(0.0)))",
        "A as Dense(SparseBand(Element(0.0)))",
        "x as SparseHash(Element(0.0))",
        "B as RunList(SparseRunList(Element(Int8(3))))",
        "P as SparseCOO{1}(Pattern())",
    ):
        name, format = what.split(" as ")
        assert f"{name} = Tensor({format}, {name})" in cases[what]
    assert not any("P as Dense" in what or "k as" in what for what in cases)


SUM = """A = Tensor(Dense(SparseList(Element(0.0))), [1.0 0; 0 3])
y = Tensor(SparseList(Element(0.0)), 2)
@finch begin y .= 0; for j = _, i = _; y[j] += A[i, j] end end
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    script, functions = tmp_path / "sum.finch", tmp_path / "sums.py"
    script.write_text(SUM, "utf-8")
    functions.write_text(
        "def right(A):\n    return A.sum(0)\n"
        "def wrong(A, **others):\n    return {'y': A.sum(0) + (A.sum() > 4)}\n"
        "def other(B):\n    return B\n",
        "utf-8",
    )
    return str(script), str(functions)


def test_any_format_is_tried_and_refusals_are_named(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finchlang.testing.cases.FORMATS", 100)
    assert main(["diff", files[0], "--formats", "any", "--cases", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cases"] == len([*Data(SUM).formats()]) + 3 and "differs" not in told["counts"]
    named = "y as SparsePinpoint(Element(0.0)): access order error"
    assert told["counts"]["agree"] > 20 and any(line.startswith(named) for line in told["told"])


def test_of_many_formats_some_are_tried(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finchlang.testing.cases.FORMATS", 4)
    command = ["diff", files[0], "--formats", "any", "--cases", "3", "--engines", "interpret"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    every = len([*Data(SUM).formats()])
    assert told["cases"] == 4 + 3
    said = f"4 of {every} formats are tried; `--cases {every}` tries all of them"
    assert told["told"][0] == said


FIXED = """x = [1, 2, 3, 4]; y = zeros(Int, 0); C = [1 2; 3 4]
@finch begin y .= 0; for j = _, i = _; y[j] += split(x, 1, 2)[i, j] end end
@finch for j = _, i = _; C[i, j] += split(x, 1, 2)[i, j] end
println(y[2])
"""


def test_sizes_that_a_script_fixes_are_kept_and_time_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A result may be read: it is of size 0 while only the data are made."""
    script = tmp_path / "fixed.finch"
    script.write_text(FIXED, "utf-8")
    command = ["diff", str(script), "--cases", "6", "--engines", "interpret"]
    assert main(command) == 0
    assert capsys.readouterr().out == "6 cases: 6 agree\n"
    assert main([*command[:3], "900", *command[4:], "--minutes", "0.001"]) == 0
    assert "of 900 cases were compared within 0.001 minutes\n" in capsys.readouterr().out


def test_the_users_own_function_says_what_is_right(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, functions = files
    command = ["diff", script, "--engines", "residual", "--against"]
    assert main([*command, f"{functions}:right", "--cases", "3"]) == 0
    assert main([*command, f"{functions}:wrong"]) == 0
    saved = tmp_path / "saved.finch"
    given = ["--cases", "20", "--seconds", "5", "--save", str(saved)]
    assert main([*command, f"{functions}:wrong", *given]) == 1
    text = saved.read_text("utf-8")
    assert f"# against: {functions}:wrong\n" in text and "@finch" in text  # what writes y is left
    assert main(["replay", str(saved)]) == 1
    assert "residual: y is [" in capsys.readouterr().out


def test_a_function_that_cannot_be_called_is_an_error(files: tuple[str, str]) -> None:
    with pytest.raises(FinchError, match="other: TypeError"):
        reference(f"{files[1]}:other", SUM, "sum.finch")
    with pytest.raises(FinchError, match="no function `absent`"):
        reference(f"{files[1]}:absent", SUM, "sum.finch")
