"""The matrix of cases, as much of it as covers it: every level over every level, and any two values
of the other factors. `python -m tests.case_matrix` runs all of it."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import case_matrix
import pytest
from case_matrix import REASONS, cases, covering, reason, run_case
from case_matrix_kernels import (
    ACTIONS,
    ALONE,
    CONTEXTS,
    ONE_MODE,
    OPERATIONS,
    PACKED,
    TWO_MODES,
    MatrixCase,
)
from quick_native import compile_quickly

import finchlang.grammar
from finchlang.tensors.formats import LEVELS
from finchlang.tensors.level import Level

pytestmark = pytest.mark.optimised

REFERENCE = Path(finchlang.grammar.__path__[0]) / "REFERENCE.md"
NEEDED, REST = covering()


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")


def examine(case: MatrixCase) -> None:
    outcome = run_case(case, thorough=False)
    assert not outcome.difference, f"{case.name}\n{case.text}\n{outcome.difference}"


@pytest.mark.parametrize("case", NEEDED, ids=lambda case: case.name)
def test_any_two_factors(case: MatrixCase) -> None:
    examine(case)


@pytest.mark.parametrize("case", REST, ids=lambda case: case.name)
def test_every_level_over_every_level(case: MatrixCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """These are compiled without LLVM's passes, which are not ours."""
    compile_quickly(monkeypatch.setattr)
    examine(case)


# ------------------------------------------------------------------------------ what the matrix has


def test_the_matrix_has_every_level_and_protocol() -> None:
    def stem(level: str) -> str:
        return level.split("{")[0]

    kinds = {kind for kind in LEVELS.values() if issubclass(kind, Level) and not kind.is_leaf}
    assert {kind.__name__ for kind in kinds} == {
        stem(level) for level in ONE_MODE + TWO_MODES + ALONE
    }
    protocols = {p for kind in kinds for p in kind.protocols}
    assert {f"read {p}" for p in protocols} | {"write", "update"} == set(ACTIONS)


def test_what_is_run_here_covers_the_matrix() -> None:
    chosen = NEEDED + REST
    every = ONE_MODE + TWO_MODES
    assert {(level,) for level in every} | set(product(every, every)) <= {c.nest for c in chosen}

    def factors(case: MatrixCase) -> tuple[str, ...]:
        return case.action, case.operator, case.context, case.leaf

    def pairs(of: list[MatrixCase]) -> set[tuple[str, str]]:
        return {pair for case in of for pair in combinations(factors(case), 2)}

    assert pairs(NEEDED) == pairs(list(cases()))
    assert set(product(ACTIONS, OPERATIONS)) <= pairs(NEEDED)
    assert set(product(OPERATIONS, CONTEXTS[:5])) <= pairs(NEEDED)
    assert {reason(case) for case in NEEDED} == {None, *REASONS}


def test_names_are_different_and_say_what_is_run() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    assert names[0] == "Dense(Element(Float32(1))) read walk + one"


# ------------------------------------------------------------------------ it notices what is wrong


def chosen(reasons: tuple[case_matrix.Reason, ...]) -> list[MatrixCase]:
    return [next(c for c in NEEDED if reason(c) == why) for why in reasons]


def test_an_error_without_a_reason_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    found = chosen(REASONS)
    monkeypatch.setattr(case_matrix, "REASONS", ())
    for case in found:
        assert "an error of kind none is expected" in run_case(case).difference


def test_a_reason_without_an_error_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in NEEDED if reason(c) is None)
    always = case_matrix.Reason("always", lambda case: True, "type", "compiling", "")
    monkeypatch.setattr(case_matrix, "REASONS", (always,))
    assert "an error of kind type is expected" in run_case(case).difference


def test_a_wrong_meaning_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in NEEDED if reason(c) is None)
    monkeypatch.setattr(case_matrix, "denote", lambda *_: {"C": -77})
    assert "denote and interpret differ in C" in run_case(case).difference


# ---------------------------------------------------------------------------------- the reference

HEADING = "## What formats cannot take\n"
HEAD = "| When | Error | What |\n|---|---|---|\n"


def test_the_reference_has_the_reasons(request: pytest.FixtureRequest) -> None:
    text = REFERENCE.read_text("utf-8")
    before, after = text.split(HEADING, 1)
    section, rest = re.split(r"(?=^## )", after, maxsplit=1, flags=re.MULTILINE)
    rows = "".join(f"| {r.when} | {r.kind} | {r.sentence} |\n" for r in REASONS)
    prose = section.split(HEAD, 1)[0]
    if request.config.getoption("--update-golden"):
        REFERENCE.write_text(f"{before}{HEADING}{prose}{HEAD}{rows}\n{rest}", "utf-8")
        section = REFERENCE.read_text("utf-8").split(HEADING, 1)[1]
    assert f"{HEAD}{rows}\n" in section


def test_packed_levels_are_named_with_their_mask() -> None:
    """A mask over a packed level keeps to the half that is stored, whatever stands around it."""
    for level in PACKED:
        sign = ">=" if level == "LowerTriangular" else "<="
        nests = {("Dense", level): f"i {sign} j", (level, "Dense"): f"j {sign} k"}
        for nest, mask in nests.items():
            assert MatrixCase(0, nest, "Element(0.0)", "write", "+", "mask").mask == mask
