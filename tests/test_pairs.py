"""Pairs `value => place`: their operators on both sides, structure, storage, and what takes none."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_staged
from test_operators import build, same

from finchlang.algebra import OPERATORS
from finchlang.denote.operators import apply
from finchlang.denote.values import number
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.syntax import Variable
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty
from finchlang.types import TYPES, Float32, Float64, Int64, Pair, Type, pair_of

pytestmark = pytest.mark.checked

TYPES_OF_PAIRS = (pair_of(Float64, Int64), pair_of(Float32, TYPES["Int8"]))


def samples(type: Type) -> list[Any]:
    values = (-1.5, 0.0, float("nan"), float("inf"))
    return [(type.wrap(pair), type) for pair in itertools.product(values, (1, 2))]


@pytest.mark.parametrize("name, worse", [("minby", "__gt__"), ("maxby", "__lt__")])
def test_the_better_of_two(name: str, worse: str) -> None:
    """The second only if it is better; in the table and in the denotation."""
    row, pairs = OPERATORS[name], [s for t in TYPES_OF_PAIRS for s in samples(t)]
    for a, b in itertools.product(pairs, repeat=2):
        found = build(row, a, b)
        chosen = b[0] if getattr(a[0].first, worse)(b[0].first) else a[0]
        assert all(map(same, found.value, found.type.wrap(chosen)))
        denoted = apply(Variable(name), [number(*a), number(*b)], Variable(name)).value
        assert denoted.dtype == found.type.dtype
        assert all(map(same, denoted.item(), found.value))


@pytest.mark.parametrize("name", ["minby", "maxby"])
def test_laws(name: str) -> None:
    row = OPERATORS[name]
    assert row.identity is not None and row.first_counts and row.right_idempotent
    for type in TYPES_OF_PAIRS:
        unit = row.identity.value(type).first
        for (a, _), (b, _), place in itertools.product(samples(type), samples(type), (1, 7)):
            kept = build(row, (a, type), (Pair(unit, place), type)).value
            assert all(map(same, kept, a))
            once = build(row, (a, type), (b, type)).value
            again = build(row, (once, type), (Pair(b.first, place), type)).value
            assert all(map(same, again, once))


@pytest.mark.parametrize("which", ["all", "paper"])
@pytest.mark.parametrize("fill", [0.0, np.inf])
def test_a_run_counts_once(which: str, fill: float) -> None:
    """The steps are those of the entries, however long the vector is."""

    def steps(size: int) -> int:
        x = Tensor.from_coo(
            f"SparseList(Element({str(fill).replace('inf', 'Inf')}))",
            (size,),
            [np.array([3, size // 2, size - 4])],
            np.array([4.0, -2.0, 1.0]),
        )
        text = kernel("s .= Inf => 0\nfor i = _; s[] <<minby>>= x[i] => i end")
        ran = run_staged(text, {"x": x, "s": Scalar(Pair(np.inf, 0))}, which)
        assert ran["s"] == (-2.0, size // 2 + 1)
        return ran.total

    assert steps(30) == steps(3000)


def test_storage_grows_and_is_put_back() -> None:
    session = Session()
    session.run("n = 10000; x = fsprand(n, 0.5); y = Tensor(SparseList(Element(0.0 => 0)), n)")
    session.run(kernel("y .= 0.0 => 0\nfor i = _; y[i] = x[i] => 2 * i end"))
    x, y = session["x"].to_numpy(), session["y"].to_numpy()
    assert y.dtype == pair_of(Float64, Int64).dtype
    assert np.array_equal(y["first"], x)
    session.run("w = Tensor(Dense(Element(Inf => 0)), 3); I = [1, 2, 9]")
    with pytest.raises(FinchError, match="index 9"):
        session.run(kernel("for k = _; w[I[k]] <<minby>>= 1.0 => k end"))
    assert session["w"].to_numpy().tolist() == [(np.inf, 0)] * 3


def test_arrays_of_pairs() -> None:
    """A structured array of NumPy's, if its fields lie as C has them."""
    session = Session()
    session.run("s = Scalar(Inf => 0)")
    session["x"] = np.array([(2.0, 1), (1.0, 5)], pair_of(Float64, Int64).dtype)
    session.run("@finch for i = _; s[] <<minby>>= x[i] end")
    assert session["s"].value == Pair(1.0, 5)
    assert session.run("s[]") == (1.0, 5)


@pytest.mark.parametrize("text", ["s = Scalar(-1.5f0 => 0x01)\n", "x = (a => b) == (1 => true)\n"])
def test_as_text(text: str) -> None:
    script = parse_script(text, "<test>")
    assert parse_script(pretty(script), "<test>") == script


@pytest.mark.parametrize("engine", ["native", "denote"])
@pytest.mark.parametrize(
    "program",
    [
        "@finch s[] += 1.0",
        "@finch s[] <<minby>>= 1.0",
        "@finch s[] = 1.0",
        "@finch s[] <<minby>>= 1.0 => 2.5",
        "@finch s[] <<minby>>= abs(s[])",
        "@finch n[] <<minby>>= 1.0 => 2",
        "@finch n[] += first(2.0)",
        "@finch n[] = round(1.0 => 2)",
        "p = 1.0 => 2\n@finch s[] <<minby>>= p",
        "t = Scalar((1 => 2) => 3)",
        "t = Scalar(1 => 2, 5)",
        "t = (1 => 2) < (1 => 3)",
        "t = (1 => 2) + 1",
        "t = Tensor(Dense(Element(1.0 => 2)), [1.0, 2.0])",
    ],
)
def test_pairs_are_no_numbers(engine: str, program: str) -> None:
    session = Session(engine, output=lambda _: None)
    with pytest.raises(FinchError) as caught:
        session.run(f"s = Scalar(Inf => 0)\nn = Scalar(0.0)\n{program}")
    assert caught.value.kind == "type"


def test_symmetric_pairs_and_pictures() -> None:
    lines: list[str] = []
    session = Session(output=lines.append)
    session.run("A = Tensor(Symmetric(Element(0.0 => 0)), 40, 40)")
    session.run(
        kernel("A .= 0.0 => 0\nfor j = _, i = _\nif i <= j\nA[i, j] = 1.0 * i => j\nend\nend")
    )
    session.run("B = Tensor(Dense(SparseList(Element(0.0 => 0))), A); C = Tensor(typeof(A), B)")
    assert session.run("B == A && C == A")
    session.run("display(B)")
    assert "a dot is an entry" in "".join(lines)
