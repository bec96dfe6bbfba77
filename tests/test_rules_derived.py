"""The derived rules Regions, Leapfrog and Together on real levels, by name, under both hosts and natively:
the same results as the base rules give, in fewer steps, and only where they apply."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from finchlang import Scalar, Session, Tensor
from finchlang.rules.engine import Kind
from finchlang.session import Observer

BLOCKS = np.array([0, 1, 2, 0, 0, 3, 0, 4, 5, 6, 0, 0], float)
RUNS = np.array([0, 2, 2, 0, 0, 3, 3, 3, 0, 0, 7, 7], float)
LEFT = np.array([0, 1, 0, 2, 3, 0, 0, 4, 0, 5, 0, 6, 7, 0], float)
RIGHT = np.array([1, 2, 0, 0, 3, 0, 4, 5, 0, 6, 0, 0, 7, 8], float)
THIRD = np.array([1, 0, 0, 2, 3, 0, 0, 5, 5, 5, 0, 1, 1, 0], float)
WINDOWS = [(1, 12), (3, 9), (2, 8), (5, 5), (4, 5), (12, 12), (7, 6), (2, 3)]
SUM = "@finch begin\ns .= 0\nfor i = _\ns[] += {}\nend\nend"


class Witness(Observer):
    """Counts the rules applied and the host's steps."""

    traces = True

    def __init__(self) -> None:
        self.rules: Counter[str] = Counter()
        self.steps = self.searching = 0

    def rule(self, applied: Any) -> None:
        self.rules[applied.name] += applied.kind == Kind.STEP

    def finished(self, event: Any, steps: Counter[str]) -> None:
        self.steps, self.searching = steps.total(), steps["search"]


def run(program: str, values: dict[str, Any], which: str = "all", engine: str = "interpret") -> Any:
    """The scalar s after a program, and who watched it."""
    witness = Witness()
    session = Session(engine=engine, rules=which, observer=witness)
    for name, value in {"s": Scalar(0.0), **values}.items():
        session[name] = value
    session.run(program)
    return session["s"].value, witness


def assert_derived(rule: str, program: str, values: dict[str, Any], expected: float) -> None:
    """That `rule` is used, and gives what is expected with fewer steps than the base rules."""
    base, paper = run(program, values, "paper")
    found, derived = run(program, values)
    assert base == found == expected
    assert derived.rules[rule] >= 1 and not paper.rules[rule]
    if values.get("lo", 1) == 1:  # to find the ends of a small window may take more steps
        assert derived.steps <= paper.steps
    for engine in ("residual", "native"):
        assert run(program, values, engine=engine)[0] == expected


def vector(format: str, values: np.ndarray) -> Tensor:
    return Tensor.from_numpy(values, format)


@pytest.mark.parametrize("lo, hi", WINDOWS)
@pytest.mark.parametrize(
    "format, values",
    [("SparseBlockList(Element(0.0))", BLOCKS), ("SparseRunList(Element(0.0))", RUNS)],
)
def test_regions(format: str, values: np.ndarray, lo: int, hi: int) -> None:
    x = np.arange(1.0, 13.0)
    given = {"A": vector(format, values), "x": x, "lo": lo, "hi": hi}
    expected = float((values * x)[lo - 1 : hi].sum())
    assert_derived("Regions", SUM.format("A[(lo:hi)(i)] * x[(lo:hi)(i)]"), given, expected)


@pytest.mark.parametrize("format", ["SparseBlockList(Element(0.0))", "SparseRunList(Element(0.0))"])
def test_regions_of_a_shifted_index(format: str) -> None:
    given = {"A": vector(format, RUNS), "x": np.arange(1.0, 11.0)}
    expected = float((RUNS[2:] * given["x"]).sum())
    assert_derived("Regions", SUM.format("A[~(i + 2)] * x[i]"), given, expected)


def test_regions_in_every_fiber() -> None:
    """The second column begins where the first one ends."""
    matrix = np.stack([BLOCKS, 0 * BLOCKS, BLOCKS[::-1]], axis=1)
    given = {"A": Tensor.from_numpy(matrix, "Dense(SparseBlockList(Element(0.0)))")}
    given["x"] = np.arange(1.0, 13.0)
    program = "@finch begin\ns .= 0\nfor j = _, i = _\ns[] += A[i, j] * x[i] * j\nend\nend"
    expected = float((matrix * given["x"][:, None] * [1, 2, 3]).sum())
    assert_derived("Regions", program, given, expected)


def test_regions_needs_gaps_that_annihilate() -> None:
    given = {"A": vector("SparseBlockList(Element(0.0))", BLOCKS)}
    found, witness = run(SUM.format("max(A[i], 1)"), given)
    assert found == np.maximum(BLOCKS, 1).sum() and not witness.rules["Regions"]


def test_regions_end_with_a_short_circuit_scalar() -> None:
    """Nothing behind the first entry that is found is looked at."""
    given = {"A": vector("SparseRunList(Element(0.0))", RUNS), "x": np.ones(12)}
    program = """
p = ShortCircuitScalar{0}()
@finch begin
    p .= 0
    for i = _
        if A[i] * x[i] > 0
            p[] <<choose(0)>>= i
        end
    end
end
s[] = p[]
"""
    for which in ("all", "paper"):
        assert run(program, given, which)[0] == 2


@pytest.mark.parametrize("lo, hi", [*WINDOWS, (1, 14), (8, 14)])
@pytest.mark.parametrize(
    "product",
    ["A[(lo:hi)(gallop(i))] * B[(lo:hi)(gallop(i))]", "A[(lo:hi)(gallop(i))] * B[(lo:hi)(i)]"],
)
def test_leapfrog_of_two(product: str, lo: int, hi: int) -> None:
    given = {"A": vector("SparseList(Element(0.0))", LEFT), "lo": lo, "hi": hi}
    given["B"] = vector("SparseList(Element(0.0))", RIGHT)
    expected = float((LEFT * RIGHT)[lo - 1 : hi].sum())
    assert_derived("Leapfrog", SUM.format(product), given, expected)


@pytest.mark.parametrize("format", ["SparseByteMap", "SparseHash", "SparseCOO{1}"])
def test_leapfrog_of_three(format: str) -> None:
    given = {"A": vector("SparseList(Element(0.0))", LEFT)}
    given["B"] = vector(f"{format}(Element(0.0))", RIGHT)
    given["C"] = vector("SparseList{Int32}(Element(0.0))", THIRD)
    program = SUM.format("A[gallop(i)] * B[gallop(i)] * C[gallop(i)] * i")
    expected = float((LEFT * RIGHT * THIRD * np.arange(1, 15)).sum())
    assert_derived("Leapfrog", program, given, expected)


def test_leapfrog_passes_over_what_it_does_not_meet() -> None:
    """One search for each leap: a list of three entries and one of a thousand."""
    few, many = np.zeros(1000), np.ones(1000)
    few[[10, 500, 900]] = 1
    given = {"A": vector("SparseList(Element(0.0))", few)}
    given["B"] = vector("SparseList(Element(0.0))", many)
    program = SUM.format("A[gallop(i)] * B[gallop(i)]")
    assert run(program, given)[1].steps < 150 < run(program, given, "paper")[1].steps


@pytest.mark.parametrize(
    "value", ["A[gallop(i)] + B[gallop(i)]", "max(A[gallop(i)], 2.5) * B[gallop(i)]"]
)
def test_leapfrog_needs_gaps_that_annihilate(value: str) -> None:
    given = {"A": vector("SparseList(Element(0.0))", LEFT)}
    given["B"] = vector("SparseList(Element(0.0))", RIGHT)
    expected = (LEFT + RIGHT if "+" in value else np.maximum(LEFT, 2.5) * RIGHT).sum()
    found, witness = run(SUM.format(value), given)
    assert found == expected and not witness.rules["Leapfrog"]


def test_leapfrog_leaves_slices_alone() -> None:
    """Several positions of a strided slice stand for one coordinate."""
    given = {"A": vector("SparseList(Element(0.0))", LEFT)}
    given["B"] = vector("SparseList(Element(0.0))", RIGHT)
    value = "A[(1:2:14)(gallop(i))] * B[(2:2:14)(gallop(i))]"
    found, witness = run(SUM.format(value), given)
    assert found == (LEFT[::2] * RIGHT[1::2]).sum() and not witness.rules["Leapfrog"]


def test_the_rest_of_a_list_is_found_from_where_the_stepper_is() -> None:
    """Not from the list's beginning: behind the last entry of the other one, it is near."""
    long, last = np.ones(1000), np.zeros(1000)
    last[989] = 1
    given = {"A": vector("SparseList(Element(0.0))", long)}
    given["B"] = vector("SparseList(Element(0.0))", last)
    found, witness = run(SUM.format("A[i] + B[i]"), given)
    assert found == 1001 and witness.searching <= 2


UPDATES = ["+= S[i, i] + 2.0", "+= 2.0 * (S[i, i] - x[i])", "<<max>>= max(S[i, i], 2.0)"]
LEVELS = ("SparseRunList", "RunList", "PackBits", "SparseBlockList", "SparseBand", "SparseList")


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("level", LEVELS)
def test_an_entry_of_a_level_in_order_is_updated_once(level: str, update: str) -> None:
    """The terms of a sum are apart only where the place they are added to has been found."""
    program = f"@finch begin\nA .= 0\nfor i = _\nA[i] {update}\nend\nend"
    stored = set()
    for rules in ("all", "paper"):
        for engine in ("interpret", "residual", "native"):
            session = Session(engine=engine, rules=rules)
            session["S"] = Tensor.from_numpy(np.diag(RUNS), "Dense(SparseList(Element(0.0)))")
            session["x"], session["A"] = LEFT[:12].copy(), Tensor(f"{level}(Element(0.0))", 12)
            session.run(program)
            stored.add(
                str(
                    [
                        {k: np.asarray(v).tolist() for k, v in s.items()}
                        for s in session["A"].storage
                    ]
                )
            )
    assert len(stored) == 1


@pytest.mark.parametrize(
    "summand, expected",
    [
        ("(A[i] + r) * 2", 2 * BLOCKS.sum() + 12 * 6.0),
        ("A[~(i - 3)] + r", BLOCKS[:9].sum() + 9 * 3.0),  # once it is known that nothing is missing
        ("coalesce(A[~(i - 3)], 1) + r", BLOCKS[:9].sum() + 3 * 1.0 + 12 * 3.0),
    ],
)
def test_terms(summand: str, expected: float) -> None:
    """Terms of integers are taken apart, for a loop over what is stored; not where one of them may be
    missing. Those of floats are not: their sums may overflow in another order."""
    program = SUM.format(summand).replace("= _", "= 1:12")
    A = vector("SparseList(Element(0))", BLOCKS.astype(int))
    assert_derived("Terms", program, {"A": A, "r": 3, "s": Scalar(0)}, expected)
    A = vector("SparseList(Element(0.0))", BLOCKS)
    assert not run(program, {"A": A, "r": 3.0})[1].rules["Terms"]


NESTED_SUM = "@finch begin\ns .= 0\nfor j = _, i = _\ns[] += {}\nend\nend"


def matrices(level: str) -> dict[str, Any]:
    """Of which each ends before or after the others, in columns and in rows; one has nothing."""
    arrays = [np.outer(LEFT, RIGHT), np.outer(RIGHT, LEFT), np.outer(THIRD[::-1], LEFT), 0 * LEFT]
    arrays[0][:, -2:] = arrays[1][-2:] = 0
    formatted = f"{level}(SparseList(Element(0.0)))"
    tensors = [Tensor.from_numpy(np.broadcast_to(a, (14, 14)).copy(), formatted) for a in arrays]
    return dict(zip("ABCZ", tensors, strict=True))


@pytest.mark.parametrize("level", ["SparseList", "SparseList{Int32}", "SparseHash", "SparseCOO{1}"])
@pytest.mark.parametrize("names", ["AB", "ZA", "ABC", "AZB"])
def test_together_to_the_last_end(level: str, names: str) -> None:
    given = {name: tensor for name, tensor in matrices(level).items() if name in names}
    expected = sum(float(tensor.to_numpy().sum()) for tensor in given.values())
    program = NESTED_SUM.format(" + ".join(f"{name}[i, j]" for name in names))
    (base, _), (found, witness) = run(program, given, "paper"), run(program, given)
    assert base == found == expected and witness.rules["Together"]
    for engine in ("residual", "native"):
        assert run(program, given, engine=engine)[0] == expected


def test_together_needs_each_to_have_something_to_do() -> None:
    """Where one of two ends, a product does."""
    given = matrices("SparseList")
    found, witness = run(NESTED_SUM.format("A[i, j] * B[i, j] + C[i, j]"), given)
    arrays = {name: tensor.to_numpy() for name, tensor in given.items()}
    assert found == (arrays["A"] * arrays["B"] + arrays["C"]).sum()
    assert not witness.rules["Together"]


NUMBERS = np.random.default_rng(7)


def listed(size: int, few: float) -> np.ndarray:
    return np.where(NUMBERS.random(size) < few, NUMBERS.integers(1, 9, size), 0).astype(float)


@pytest.mark.parametrize(
    "few, fewer, index, other",
    [
        (0.1, 0.1, "Int64", "Int64"),
        (0.9, 0.1, "Int32", "Int64"),
        (0.05, 0.9, "Int16", "UInt8"),
        (0.6, 0.6, "Int32", "Int32"),
        (1, 1, "Int64", "UInt8"),
    ],
)
def test_blocks_that_have_nothing_in_common(
    few: float, fewer: float, index: str, other: str
) -> None:
    """Two lists of several blocks, of whatever types the indices are, with and without what is not
    in their ranges."""
    left, right = listed(200, few), listed(200, fewer)
    given = {"A": vector(f"SparseList{{{index}}}(Element(0.0))", left)}
    given["B"] = vector(f"SparseList{{{other}}}(Element(0.0))", right)
    assert_derived(
        "Leapfrog", SUM.format("A[i] * B[i] * i"), given, (left * right) @ np.arange(1, 201)
    )
    part = "A[(20:180)(i)] * B[(20:180)(i)]"
    assert_derived("Leapfrog", SUM.format(part), given, (left * right)[19:180].sum())
    moved = "A[~(i + 11)] * B[i]"
    assert_derived("Leapfrog", SUM.format(moved), given, (left[11:] * right[:-11]).sum())


def test_blocks_are_passed_over_in_fewer_steps() -> None:
    """A step for each block, not for each entry, where the entries of one lie far apart."""
    left, right = np.zeros(2000), np.zeros(2000)
    left[0:1000:2], right[1:2000:2] = 1, 1
    given = {"A": vector("SparseList(Element(0.0))", left)}
    given["B"] = vector("SparseList(Element(0.0))", right)
    program = SUM.format("A[i] * B[i]")
    found, witness = run(program, given)
    assert found == 0 and witness.steps < 3000 < run(program, given, "paper")[1].steps


def test_coordinates_that_differ_by_the_range_of_the_narrower_type_are_not_equal() -> None:
    far = 300 + np.arange(16)
    given = {
        "A": Tensor.from_coo("SparseList{UInt8}(Element(0.0))", (255,), (far - 256,), np.ones(16))
    }
    given["B"] = Tensor.from_coo("SparseList(Element(0.0))", (600,), (far,), np.ones(16))
    assert_derived("Leapfrog", SUM.format("A[i] * B[(1:255)(i)]"), given, 0)


def test_entries_of_the_next_fiber_are_not_in_a_block() -> None:
    left = np.stack([listed(60, few) for few in (0.1, 0.5, 0.9, 0.0, 0.3, 0.2)], axis=1)
    right = np.stack([listed(60, few) for few in (0.3, 0.9, 0.2, 0.5, 0.0, 0.2)], axis=1)
    given = {
        name: Tensor.from_numpy(values, "Dense(SparseList(Element(0.0)))")
        for name, values in (("A", left), ("B", right))
    }
    program = "@finch begin\ns .= 0\nfor j = _, i = _\ns[] += A[i, j] * B[i, j] * j\nend\nend"
    assert_derived("Leapfrog", program, given, ((left * right) @ np.arange(1, 7)).sum())
