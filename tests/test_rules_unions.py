"""The rules derived for sums of sparse operands, by name: what they give, that they keep code linear,
and where they do not apply."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from both_hosts import Memory, loop_sum
from every_format import nests
from level_kernels import result, run, tensor
from looplet_nests import spikes

from finchlang import Session
from finchlang.host.print import text
from finchlang.host.residual import ResidualHost
from finchlang.looplets import Stepper
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

NAMES = "ABDEFG"
VECTORS = [
    np.array(v, float)
    for v in (
        [0, 1, 0, 0, 2, 0, 3],
        [0, 4, 5, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [6, 0, 0, 0, 7, 0, 8],
        [0, 0, 9, 0, 1, 2, 0],
        [1, 1, 1, 1, 1, 1, 1],
    )
]


@pytest.fixture
def memory() -> Memory:
    return Memory()


def kernel(count: int, which: str = "all", join: str = " + ") -> str:
    return f"C .= 0; for i=_ C[i] = {join.join(f'{n}[i]' for n in NAMES[:count])} end"


def applied(program: str, tensors: dict[str, Any], which: str = "all") -> Counter[str]:
    """How often each rule is applied while the program is staged."""
    found: Counter[str] = Counter()
    formats = {name: t.format for name, t in tensors.items()}
    staged = Kernel(parse_kernel(f"begin\n{program}\nend"), formats, which)
    staged.run_rules(ResidualHost(), lambda step: found.update([step.name]))
    return found


def vectors(count: int, format: str = "SparseList(Element(0.0))") -> dict[str, Any]:
    tensors = {n: tensor(v, format) for n, v in zip(NAMES[:count], VECTORS, strict=False)}
    return tensors | {"C": Tensor("SparseList(Element(0.0))", 7)}


def test_spikes(memory: Memory) -> None:
    """Whether each spike ends is asked once, not in every combination."""
    nests = [
        spikes(memory, [2, 4, 9], [1.0, 2.0, 3.0], Stepper),
        spikes(memory, [2, 5, 9], [4.0, 5.0, 6.0], Stepper),
    ]
    tensors = [nest.tensor(name) for nest, name in zip(nests, "ab", strict=True)]
    for start, stop in ((1, 9), (2, 8), (3, 4), (5, 5), (6, 5)):
        found, base = (
            loop_sum(tensors, memory, start, stop, "a[i] + b[i]", 9, which)
            for which in ("all", "paper")
        )
        dense = nests[0].dense(0) + nests[1].dense(0)
        assert found["s"] == base["s"] == dense[start - 1 : stop].sum()
        if start < stop:
            assert found.staged["Union"] >= 1 and base.staged["Union"] == 0


#: of six operands the base rules would take all combinations apart
@pytest.mark.parametrize(
    ("count", "which"), [(2, "all"), (3, "all"), (4, "all"), (6, "all"), (2, "paper"), (4, "paper")]
)
@pytest.mark.parametrize("format", ["SparseList(Element(0.0))", "SparseByteMap(Element(0.0))"])
def test_sums(count: int, format: str, which: str) -> None:
    found = result(kernel(count), vectors(count, format), which=which, native=which == "all")
    np.testing.assert_array_equal(found, sum(VECTORS[:count]))


def test_pieces_are_for_four_and_more() -> None:
    assert applied(kernel(3), vectors(3))["Pieces"] == 0
    assert applied(kernel(4), vectors(4))["Pieces"] == 1
    assert applied(kernel(4, join=" * "), vectors(4))["Pieces"] == 0


def test_overlap_is_for_long_products() -> None:
    """The sequences of eight operands are cut together, and it is asked once whether all end."""
    names = "ABDEFGHJ"
    tensors = {
        n: tensor(VECTORS[k % 2 * 5], "SparseList(Element(0.0))") for k, n in enumerate(names)
    }
    tensors["C"] = Tensor("SparseList(Element(0.0))", 7)
    program = f"C .= 0; for i=_ C[i] = {' * '.join(f'{n}[i]' for n in names)} end"
    found = applied(program, tensors)
    assert found["Overlap"] == 1 and found["Sequence"] == 0 and found["Union"] == 1
    np.testing.assert_array_equal(result(program, tensors), VECTORS[0] ** 4)


EVERY = (
    *("SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparsePinpoint", "SparseBand"),
    *("SparseBlockList", "RunList", "PackBits", "SparseRunList", "SparseInterval"),
)


def length(levels: list[str], join: str) -> int:
    """The lines of the residual program of a kernel over vectors of these levels."""
    formats = {n: parse_format(f"{v}(Element(0.0))") for n, v in zip(NAMES, levels, strict=False)}
    program = parse_kernel(f"begin\n{kernel(len(levels), join=join)}\nend")
    formats["C"] = parse_format("SparseList(Element(0.0))")
    return len(text(Kernel(program, formats).residual).splitlines())


@pytest.mark.parametrize("join", [" + ", " * ", " - "])
@pytest.mark.parametrize("level", EVERY)
def test_code_grows_linearly(level: str, join: str) -> None:
    """Law 6 of the design: each operand more adds as much code as the one before."""
    lengths = [length([level] * count, join) for count in (4, 5, 6)]
    assert lengths[2] - lengths[1] <= 1.1 * (lengths[1] - lengths[0])


@pytest.mark.parametrize("first", range(len(EVERY)))
def test_code_of_mixed_formats_is_linear(first: int) -> None:
    """Whatever meets: a few dozen lines for each operand, where combinations would be thousands."""
    levels = [EVERY[(first + 2 * k) % len(EVERY)] for k in range(6)]
    assert length(levels, " + ") <= 75 * len(levels)
    dense = ["Dense", *levels[:5]]
    assert length(dense, " + ") <= 75 * len(levels)


@pytest.mark.parametrize("first", range(len(EVERY)))
def test_sums_of_mixed_formats(first: int) -> None:
    levels = [EVERY[(first + 3 * k) % len(EVERY)] for k in range(6)]
    fitting = {
        "SparsePinpoint": [0, 0, 4.0, 0, 0, 0, 0],
        "SparseInterval": [0, 2.0, 2.0, 2.0, 0, 0, 0],
    }
    arrays = [fitting.get(v, VECTORS[k]) for k, v in enumerate(levels)]
    tensors = {
        n: tensor(a, f"{v}(Element(0.0))") for n, a, v in zip(NAMES, arrays, levels, strict=True)
    } | {"C": Tensor("SparseList(Element(0.0))", 7)}
    np.testing.assert_array_equal(result(kernel(6), tensors), np.sum(arrays, axis=0))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("min(A[i], B[i])", np.minimum),
        ("max(A[i], B[i])", np.maximum),
        ("A[i] - B[i]", np.subtract),
        ("A[i] * B[i] + B[i]", lambda a, b: a * b + b),
        ("(A[i] + B[i]) * A[i]", lambda a, b: (a + b) * a),
        ("(A[i] + B[i]) * (B[i] - A[i])", lambda a, b: (a + b) * (b - a)),
        ("ifelse(A[i] > B[i], A[i], B[i])", np.maximum),
    ],
)
def test_other_operators(value: str, expected: Any) -> None:
    found = result(f"C .= 0; for i=_ C[i] = {value} end", vectors(2))
    np.testing.assert_array_equal(found, expected(*VECTORS[:2]))


def test_a_fill_that_decides_is_structure() -> None:
    """`0 * x` is 0 for an infinite x; where both are summed first, there is no product with 0."""
    infinite = vectors(2) | {"D": tensor([np.inf] * 7, "Dense(Element(0.0))")}
    found, _ = run("C .= 0; for i=_ C[i] = (A[i] + B[i]) * D[i] end", infinite)
    stored = (VECTORS[0] + VECTORS[1]) != 0
    np.testing.assert_array_equal(found["C"].to_numpy(), np.where(stored, np.inf, 0))


def test_patterns() -> None:
    tensors = {
        n: tensor(v != 0, "SparseList(Pattern())") for n, v in zip("ABDE", VECTORS, strict=False)
    } | {"C": Tensor("SparseList(Pattern())", 7)}
    found = result("C .= false; for i=_ C[i] = A[i] | B[i] | D[i] | E[i] end", tensors)
    np.testing.assert_array_equal(found, sum(VECTORS[:4]) != 0)


NESTED = [f for f in nests("Element(0.0)", 2) if f.endswith("(SparseList(Element(0.0)))")]


@pytest.mark.parametrize("format", [*NESTED, "PackBits(Dense(Element(0.0)))"])
def test_sums_of_nested_formats(format: str) -> None:
    """Operands without an entry in a column go on as fill, whose memory nobody looks at."""
    random = np.random.default_rng(1)
    values = [random.integers(1, 9, (5, 4)) * (random.random((5, 4)) < 0.3) for _ in range(5)]
    values[2][:, 2] = values[3][:] = 0
    if "Pinpoint" in format or "Interval" in format:  # one column at most, or a few in a row
        for value in values:
            value[:, [0, 1, 3]] = 0
    session = Session()
    for name, value in zip("ABDEF", values, strict=True):
        session[name] = Tensor.from_numpy(value.astype(float), format)
    session["C"] = Tensor("Dense(SparseList(Element(0.0)))", 5, 4)
    value = "A[i, j] + B[i, j] * D[i, j] + E[i, j] - F[i, j]"
    a, b, d, e, f = values
    expected = a + b * d + e - f
    session.run(f"@finch begin C .= 0; for j = _, i = _; C[i, j] = {value} end end")
    np.testing.assert_array_equal(session["C"].to_numpy(), expected)
    if "Sparse" in format[:6]:
        stored = (a != 0) | (e != 0) | (f != 0) | ((b != 0) & (d != 0))
        assert session["C"].countstored() == stored.sum()
