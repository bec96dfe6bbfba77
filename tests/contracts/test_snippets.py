"""Everyday code of people who come from Julia, Finch.jl and NumPy: what each snippet of
`tests/contracts/snippets` gives, or the way that it is told.

Snippets are separated by blank lines. `#> e` is what the last statement gives (an expression in script
syntax), `#| line` a line that is printed, `#= a = b` that two expressions are equal afterwards, and
`#! kind: part` the kind of the error with a part of its message or hint."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from finchlang import FinchError, Session
from tests.programs.program import Watch, equal, plain

FOLDER = Path(__file__).parent / "snippets"
SNIPPETS = {
    f"{path.stem}-{number}": text
    for path in sorted(FOLDER.glob("*.txt"))
    for number, text in enumerate(path.read_text("utf-8").strip().split("\n\n"), 1)
}
ENGINES = ("native", "interpret", "native", "denote")


def same(session: Session, got: object, meant: str) -> bool:
    wanted = session.run(meant)
    if isinstance(wanted, (tuple, list)) and isinstance(got, (tuple, list)):
        return len(got) == len(wanted) and all(map(equal, got, wanted))
    return equal(got, wanted)


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_give_what_they_say(name: str) -> None:
    check(SNIPPETS[name], ENGINES[zlib.crc32(name.encode()) % len(ENGINES)])


def check(text: str, engine: str) -> None:
    lines = text.split("\n")
    code = "\n".join(line for line in lines if line[:2] not in ("#>", "#|", "#=", "#!"))
    claims = [(line[:2], line[2:].strip()) for line in lines if line[:2] in ("#>", "#|", "#=")]
    errors = [line[2:].strip() for line in lines if line[:2] == "#!"]
    printed: list[str] = []
    session = Session(engine, output=printed.append)
    assert claims or errors
    if errors:
        kind, _, part = errors[0].partition(":")
        with pytest.raises(FinchError) as found:
            session.run(code)
        error = found.value
        told = f"{error.message} | {error.hint or ''}"
        assert error.kind == kind and part.strip() in told, told
        assert error.span is not None
        return
    got = session.run(code)
    wanted = [rest for sign, rest in claims if sign == "#|"]
    assert "".join(printed).splitlines() == wanted
    for sign, rest in claims:
        if sign == "#>":
            assert same(session, got, rest), f"{plain(got)}, not {rest}"
        elif sign == "#=" and engine != "denote":  # whose tensors are dense
            left, right = rest.split(" = ")
            assert same(session, session.run(left), right), rest


TWO = """
A = Tensor(Dense(SparseList(Element(0.0))), [0.0 2.0; 1.0 5.0])
B = Tensor(Dense(SparseList(Element(0.0))), [3.0 1.0; 0.0 1.0])
x = Tensor(Dense(Element(0.0)), [1.0, 2.0])
"""
BUMP = """
function bump!(x)
    @finch for i = _; x[i] += 1 end
    x
end
"""


@pytest.mark.parametrize(
    ("code", "kernels"),
    [
        ("sum(A .* B .+ A, dims = 1) .+ 1", 1),
        ("norm(A * x - x)", 1),
        ("C = A .* B; C .+ A", 2),
        ("C = lazy(A) .* B; compute(C .+ A)", 1),
        ("C = lazy(A); compute(sum(C), maximum(C .* B))", 1),
        ("x' * A * x", 1),
        ("reduce(max, map(abs, A - B))", 1),
    ],
)
def test_an_expression_is_one_kernel(code: str, kernels: int) -> None:
    watch = Watch()
    session = Session("interpret", observer=watch)
    session.run(TWO + code)
    assert len(watch.runs) == kernels


def test_what_a_call_changes_is_read_before_it() -> None:
    session = Session("interpret")
    assert session.run(TWO + BUMP + "sum(x .* 2 .+ bump!(x))") == 11.0


def test_loops_with_array_code_are_as_without_staging() -> None:
    loop = (
        TWO
        + "y = [1.0, 1.0]\nfor k = 1:6\n    y = A * y\n    y = y / norm(y) .+ sum(B) / k\nend\ny"
    )
    assert equal(Session("native").run(loop), Session("native", staging=False).run(loop))
