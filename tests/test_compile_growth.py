"""Staging takes time that grows near to linearly with a program: counted in calls of functions, since
seconds say little on a machine that has other things to do."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

LIST, DENSE = (parse_format(f"{level}(Element(0.0))") for level in ("SparseList", "Dense"))


def calls(text: str, **formats: object) -> int:
    """How many calls staging a kernel takes."""
    kernel = Kernel(parse_kernel(f"begin\n{text}\nend"), formats)  # type: ignore[arg-type]
    assert kernel.program is not None
    profile = cProfile.Profile()
    profile.enable()
    assert kernel.residual is not None
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("join", [" * ", " + "])
def test_many_operands(join: str) -> None:
    """Twice as many take less than four times as long, where eight would be cubic."""

    def of(count: int) -> int:
        names = [f"A{k}" for k in range(count)]
        text = f"C .= 0; for i = _; C[i] = {join.join(f'{n}[i]' for n in names)} end"
        return calls(text, C=LIST, **dict.fromkeys(names, LIST))

    of(4)  # what is kept is there
    assert of(48) <= 3.8 * of(24)


def test_many_loops() -> None:
    def of(count: int) -> int:
        return calls("for i = _; y[i] += A[i] end\n" * count, A=LIST, y=DENSE)

    of(4)
    assert of(120) <= 2.5 * of(60)


def test_many_branches() -> None:
    def of(count: int) -> int:
        arms = [f"if x[i] == {k}\ny[i] = {2 * k}\n" for k in range(count)]
        return calls(f"for i = _\n{'else'.join(arms)}end\nend", x=DENSE, y=DENSE)

    of(4)
    assert of(80) <= 3 * of(40)
