"""Generated scripts mean the same in all ways (`finch fuzz` runs any number), and so do variants."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.calls.runner import Observer
from finchlang.testing import grammar
from finchlang.testing.compare_engines import compare
from finchlang.testing.compare_stored import as_array, entries_of, same
from finchlang.testing.coverage import REASONS, Coverage, expected
from finchlang.testing.fuzz import Options, fuzz, run_case, ways
from finchlang.testing.grammar import KERNELS, LEVELS, LOWER, PAIRS, SCRIPTS, stack_of
from finchlang.testing.scripts import generate, operands
from finchlang.testing.variants import VARIANTS, differences
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

FIRST = int(os.environ.get("AGREEMENT_SEED", "0"))
CASES = int(os.environ.get("AGREEMENT_CASES", "80"))
STEP = 10
#: levels that have no place for some entries
NARROW = [name for name, row in LEVELS.items() if row.takes not in ("any", "runs")]
#: vectors of places, up to the last one
PLACES = re.compile(r"^(I\d+ = .*\W)\d+(\)?\]\))$", re.MULTILINE)


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, STEP))
def test_all_semantics_agree(first: int) -> None:
    """Of ten scripts one declares laws of functions, that are true or are told."""
    outcomes = []
    for seed in range(first, first + STEP):
        kind, said = run_case(seed, Options())
        assert kind in ("run", "refused"), f"seed {seed}: {said}\n{generate(seed)}"
        if (kind, said) == ("refused", "access order"):  # elsewhere there are workspaces
            assert any(level in generate(seed) for level in NARROW), seed
        outcomes.append(kind)
    assert outcomes.count("run") > 0.3 * STEP


@pytest.mark.parametrize("outer", LOWER[:-1])
def test_levels_over_each_other(outer: str) -> None:
    """Each pair in a short script, which reads, writes or updates it in some context."""
    seeds = {stack_of(seed)[0]: seed for seed in range(0, 8 * len(PAIRS), 2) if seed % 3}
    for pair in (pair for pair in PAIRS if pair[0] == outer):
        text = generate(seeds[pair], True)
        found = compare(text, ways=ways(Options(), seeds[pair]))
        assert found.agrees, f"seed {seeds[pair]}: {found.report}\n{text}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES, STEP))
def test_variants_of_scripts_agree(seed: int) -> None:
    """In turn natively and on the interpreter."""
    for each in (seed, seed + 5):
        kind, said = run_case(each, Options(metamorphic=True))
        assert kind in ("run", "refused"), said


def test_what_fails_changes_nothing() -> None:
    """Scripts of which a place to scatter to is out of bounds leave what they had before, as all say."""
    failed = 0
    for seed in range(FIRST, FIRST + max(CASES, 40)):
        text, count = re.subn(PLACES, r"\g<1>99\2", script := generate(seed))
        if count and not compare(script).errors:  # which might come first for some
            found = compare(text)
            assert found.agrees, f"seed {seed}: {found.report}"
            failed += any(error.kind == "bounds" for error in found.errors.values())
    assert failed


class Steps(Observer):
    """How often which statement's rule was applied, its steps taken at once or one by one."""

    traces = True

    def __init__(self, one_by_one: bool):
        self.one_by_one, self.counts = one_by_one, Counter[str]()

    def rule(self, applied: Any) -> None:
        self.counts[applied.name] += applied.kind.name == "STEP"


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, 4 * STEP))
@pytest.mark.parametrize("rules", ["paper", "all"])
def test_steps_one_by_one_are_those_taken_at_once(first: int, rules: str) -> None:
    """Loops that take them at once leave the same entries, values and errors, and take as many steps."""
    done = 0
    for seed in range(first, first + STEP):
        found = []
        for one_by_one in (False, True):
            steps, error = Steps(one_by_one), None
            session = Session("interpret", rules, lambda _: None, observer=steps)
            try:
                session.run(generate(seed))
            except FinchError as fault:
                error = str(fault)
            values = {name: session[name] for name in session.names()}
            counts = {n: steps.counts[n] for n in ("Loop", "Jumper", "StepperNext", "Assign")}
            found.append((error, values, counts))
        (error, values, counts), (other_error, others, other_counts) = found
        assert error == other_error, seed
        assert counts == other_counts, seed
        for name, value in values.items():
            if isinstance(value, (Tensor, Scalar, np.ndarray)):
                assert same(as_array(others[name]), as_array(value), 0.0), (seed, name)
            if isinstance(value, (Tensor, Scalar)):
                assert repr(entries_of(others[name])) == repr(entries_of(value)), (seed, name)
        done += counts["Loop"] + counts["StepperNext"] > 0
    assert done > STEP / 2


SPMV = """
A = Tensor(Dense(SparseList(Element(0.0))), [1.0 2.0 0.0; 0.0 3.0 4.0])
x = Tensor(SparseList(Element(0.0)), [2.0, 0.0, 1.0])
y = Tensor(Dense(Element(0.0)), 2)
@finch begin
y .= 0.0
for i = _, j = _
y[i] += A[i, j] * x[j]
end
end
"""


def test_each_variant_is_another_script_and_a_wrong_one_is_found(monkeypatch: Any) -> None:
    session = Session("interpret")
    session.run(SPMV)
    values = {name: session[name] for name in "Axy"}
    script = parse_script(SPMV)
    texts = {pretty(variant(script, Random(1), values)) for variant in VARIANTS.values()}
    assert len(texts) == len(VARIANTS) and pretty(script) not in texts
    assert not differences(SPMV)
    wrong = parse_script(SPMV.replace("x[j]", "2.0"))
    monkeypatch.setitem(VARIANTS, "another matter", lambda *_: wrong)
    assert "another matter: y differs" in differences(SPMV)


def test_a_seed_gives_the_same_script_again() -> None:
    assert generate(7) == generate(7)
    assert len({generate(seed) for seed in range(20)}) == 20


def test_what_cannot_be_reduced_in_time_is_found_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless(*_: Any) -> Any:
        raise FinchError("resource", "no end")

    def differs(seed: int, options: Options, cover: Coverage) -> tuple[str, str]:
        cover.counts["rule", "Loop"] += 1
        return "differs", "y"

    monkeypatch.setattr("finchlang.testing.fuzz.run_case", differs)
    monkeypatch.setattr("finchlang.testing.fuzz.small_text", endless)
    summary = fuzz(Options(cases=1, coverage=True))
    assert summary.findings == {0: "differs: y"}
    told = json.loads(summary.json)
    assert told["findings"] == {"0": "differs: y"} and told["reached"] == {"rule Loop": 1}


def test_an_interrupted_campaign_gives_what_it_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(seed: int, options: Options, cover: Coverage) -> tuple[str, str]:
        return ("differs", "y") if seed == 1 else ("run", "")

    def interrupt(told: str) -> None:
        if told == "2 cases, 1 findings":
            raise KeyboardInterrupt

    monkeypatch.setattr("finchlang.testing.fuzz.run_case", differs)
    monkeypatch.setattr("finchlang.testing.fuzz.small_text", lambda text, *_: (text, ""))
    summary = fuzz(Options(cases=1000), interrupt)
    assert summary.is_interrupted and summary.counts == {"run": 1, "differs": 1}
    assert summary.findings == {1: "differs: y"}


def test_what_no_script_has_is_named_with_its_reason() -> None:
    """Each operator stands in a table that scripts are made of, and each reason is of what there is."""
    tables = KERNELS, SCRIPTS, grammar.VALUES, grammar.CONDITIONS, grammar.SIGNS, grammar.ROUNDED
    made = {word for t in tables for form in t for word in re.findall(r"\w+|=>", form.text)}
    made |= {"initwrite", "overwrite"}  # which `=` and `:=` are to passes
    names = expected()
    assert not [name for name in {*names["operator"]} - made if not operands(name)]
    assert all(name in names[kind] for kind, name in REASONS)
