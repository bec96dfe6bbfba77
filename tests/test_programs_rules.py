"""Every program by every set of rules that lacks one: no program needs a derived rule.

`pytest` runs each program natively without one rule, so that each is left out of many; `python
tests/test_programs_rules.py` runs them all, `python tests/test_programs_rules.py Union Pieces` without
these rules alone.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import cycle
from pathlib import Path

import pytest
from quick_native import compile_quickly
from test_programs import PROGRAMS, check_program, expected

from finchlang.rules.table import OPTIONAL

pytestmark = pytest.mark.optimised

RULES = sorted(OPTIONAL)
NATIVE = [path for path in PROGRAMS if "native" in expected(path.read_text("utf-8")).engines]


@pytest.mark.parametrize(
    "path, rule",
    [
        pytest.param(path, rule, id=f"{path.stem}-{rule}")
        for path, rule in zip(NATIVE, cycle(RULES))
    ],
)
def test_a_program_needs_no_derived_rule(path: Path, rule: str, tmp_path: Path) -> None:
    check_program(path, "native", tmp_path, rules=f"all-{rule}")


def main(chosen: list[str]) -> int:
    compile_quickly()
    wrong = 0
    for rule in chosen or RULES:
        for path in NATIVE:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check_program(path, "native", Path(folder), rules=f"all-{rule}")
                except Exception as error:
                    wrong += 1
                    first = (str(error).splitlines() or [""])[0]
                    print(f"all-{rule} {path.name}: {type(error).__name__} {first}", flush=True)
    print(f"{len(chosen or RULES)} rules left out of {len(NATIVE)} programs: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
