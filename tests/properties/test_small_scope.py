"""Small scope: a slice of the rule table on all patterns of operands, and that faults are found there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from finchlang.host.construct import add
from finchlang.levels.sorted_coordinates import Listed
from finchlang.repl.__main__ import main
from finchlang.rules.derived import meet
from finchlang.testing import symbols
from finchlang.testing.compare_engines import compare
from finchlang.testing.exhaustive import exhaustive
from finchlang.testing.replay import ways_in
from tests.campaigns.small_scope import DERIVED, NESTS, SETS, Meeting, Nest, run

MATRIX = """
A = Tensor(Dense(SparseList(Element(0.0))), 2, 2)
x = Tensor(SparseList(Element(0.0)), 2)
y = Tensor(Dense(Element(0.0)), 2)
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
"""
SPLIT = """
x = Tensor(SparseList(Element(0.0)), 2)
s = Scalar(0.0)
@finch begin
    s .= 0
    for i = _
        if x[i] > 0
            s[] <<max>>= x[i]
        end
    end
end
"""


@pytest.mark.parametrize(
    "meeting",
    [
        Meeting(("stepper", "stepper"), "+", "sparse"),
        Meeting(("stepper", "jumper"), "*", "scalar"),
        Meeting(("band", "sequence"), "free", "sparse"),
    ],
    ids=lambda meeting: meeting.name,
)
def test_derived_rules_give_what_base_rules_give(meeting: Meeting) -> None:
    small, changed = run(meeting, 2, 60)
    assert set(changed) <= set(SETS[1:])
    assert small.covered.patterns == small.covered.of > 0
    assert not small.covered.wrong and not small.covered.numbers and not small.covered.unproven


def test_each_derived_rule_is_reached() -> None:
    reached = set()
    for name in NESTS:
        small, changed = run(Nest(name), 1, 2)
        assert small.covered.cases and not small.covered.wrong and not small.covered.unproven, name
        reached |= {*changed}
    assert reached == {"paper", *(f"all-{rule}" for rule in DERIVED)}


def test_all_patterns_of_a_matrix_are_counted() -> None:
    (found,) = exhaustive(MATRIX, "matrix", 1, 60)
    # the matrix is n x m, the vector m long: 1 pattern but for m = 1, of 2 states a place, then of 3
    assert (found.patterns, found.of) == (14, 14)
    assert not found.wrong and not found.numbers


def test_a_comparison_of_values_splits_into_its_cases() -> None:
    (found,) = exhaustive(SPLIT, "split", 2, 60)
    assert found.cases > found.patterns == found.of and not found.wrong


def test_a_fault_in_a_level_is_found(monkeypatch: pytest.MonkeyPatch, nothing_staged: None) -> None:
    def locate(self: Any, host: Any, q: Any, i: Any) -> Any:
        return host.search(self.idx, q, self.stop, i)  # not i - 1

    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    monkeypatch.setattr(Listed, "locate", locate)
    found = run(Meeting(("stepper", "jumper"), "*", "scalar"), 2, 60)[0].covered
    assert found.wrong


@pytest.fixture
def wrong_meet(monkeypatch: pytest.MonkeyPatch, nothing_staged: None) -> None:
    """What meets begins one coordinate too late."""
    right = meet._Meeting._over

    def over(self: Any, term: Any, leader: Any, first: Any, *others: Any) -> None:
        right(self, term, leader, add(first, 1), *others)

    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    monkeypatch.setattr(meet._Meeting, "_over", over)


def test_a_fault_in_a_derived_rule_is_found(wrong_meet: None) -> None:
    found = run(Meeting(("lookup", "stepper"), "*", "scalar"), 2, 60)[0].covered
    assert found.wrong and not any("paper" in line for line in found.wrong)
    assert not compare(found.text, ways=found.ways).agrees


def test_what_differs_with_symbols_is_reduced_as_a_script_with_numbers(
    wrong_meet: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dot.finch"
    file.write_text(Meeting(("lookup", "stepper"), "*", "scalar").text)
    assert main(["diff", str(file), "--exhaustive", "1", "--seconds", "5"]) == 1
    said = capsys.readouterr().out
    replayed = said[said.index("# replay") :]
    assert "look at the derived rule Meet" in replayed and len(replayed.splitlines()) < 25
    assert not compare(replayed, ways=ways_in(replayed)).agrees


def test_the_command_says_what_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "matrix.finch"
    file.write_text(MATRIX)
    assert main(["diff", str(file), "--exhaustive", "1"]) == 0
    said = "kernel at line 5: 14 of 14 patterns, 14 cases, 0 refused alike, all values of A, x\n"
    assert capsys.readouterr().out == said
    assert main(["diff", str(file), "--exhaustive", "1", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["patterns"], told["values"], told["wrong"]) == (14, "A, x", [])


def test_a_place_out_of_range_that_is_not_needed_is_let_through() -> None:
    of_lists = "Tensor(Dense(SparseList(Element(0.0))), 1, 1)"
    text = f"W, H = Tensor(zeros(1, 1, 1)), {of_lists}; T = W[:, :, 1] .* H"
    (found,) = exhaustive(text, "layers", 1, 60)  # without layers the loops are over nothing, too
    assert found.patterns == found.of and not found.wrong


def test_truth_values_are_both_tried() -> None:
    text = """
A = Tensor(Dense(Element(false)), 1)
B = Tensor(SparseList(Element(false)), 1)
s = Scalar(false, true)
C = Tensor(Dense(Element(false)), 1)
@finch begin C .= false; for i = _; C[i] = A[i] && (B[i] || s[]); end; end
"""
    (found,) = exhaustive(text, "truth", 1, 60)
    # A is true or false, B empty or either, s either: of no elements s alone
    assert (found.patterns, found.of) == (14, 14) and not found.wrong and not found.numbers


def test_integers_are_symbols_where_they_are_no_places() -> None:
    made = "\n".join(f"{n} = Tensor(SparseList(Element(0)), 2)" for n in "ABC")
    loops = "@finch begin C .= 0; for i = _; C[i] = {}; end; end\n"
    texts = (
        "A[i] * (B[i] + 3) - i",
        "max(A[i], 2 * B[i])",
        "A[i] > B[i] ? A[i] : 1",
        "B[A[i] + 1]",
    )
    found = [*exhaustive("\n".join([made, *map(loops.format, texts)]), "integers", 1, 60)]
    assert [row.values for row in found if not row.numbers] == ["A, B"] * 3
    assert found[2].cases > found[2].patterns and not any(row.wrong for row in found)
    assert not any(row.unproven for row in found)


def test_a_function_that_updates_is_computed_with_symbols() -> None:
    text = """
widest(a, b) = a > b ? a : b
x = Tensor(SparseList(Element(0.0)), 2); s = Scalar(0.0)
@finch begin s .= 0; for i = _; s[] <<widest>>= x[i]; end; end
"""
    (found,) = exhaustive(text, "widest", 2, 60)
    assert found.values == "x" and not (found.wrong or found.numbers or found.unproven)


def test_a_fault_in_integers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = symbols.SymbolicHost.compute

    def compute(self: Any, operation: Any, args: list[Any]) -> Any:
        is_product = operation.name == "mul" and any(map(symbols.is_symbolic, args))
        return 6 if is_product else right(self, operation, args)

    monkeypatch.setattr(symbols.SymbolicHost, "compute", compute)
    found = run(Nest("terms"), 1, 60)[0].covered
    assert not found.wrong and found.values == "a"
    text = Nest("terms").text.replace("a[i] + 2", "a[i] * 3")
    (found,) = exhaustive(text, "terms", 1, 60)
    assert found.wrong
