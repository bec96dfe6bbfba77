"""The contract of levels in steps: structure is used: steps go with what is stored, not with sizes.

Each case is a program, tensors for a number n, and by how many times its steps may grow from one n to
another; also of wrappers, masks, scalars, shape operators, workspaces and transposes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel, run_staged

from finchlang import Scalar, Tensor
from finchlang.syntax.types import Pair
from finchlang.tensors.formats import construct

LIST, LISTS = "SparseList(Element(0.0))", "SparseList(SparseList(Element(0.0)))"
CSC = f"Dense({LIST})"
SUM = "for i = _\n s[] += {}\nend"


def vector(n: int, entries: int, level: str = "SparseList") -> Tensor:
    """Entries that lie in equal distances."""
    places = np.linspace(0, n - 1, entries).astype(int)
    return Tensor.from_coo(f"{level}(Element(0.0))", (n,), [places], np.ones(entries))


def block(n: int, level: str, length: int = 5) -> Tensor:
    """Equal entries side by side in the middle."""
    places = np.arange(n // 2, n // 2 + length)
    return Tensor.from_coo(f"{level}(Element(0.0))", (n,), [places], np.full(length, 2.0))


def runs(n: int, level: str) -> Tensor:
    values = np.repeat([3.0, 1, 2], [n, 1, n])
    return Tensor.from_numpy(values, f"{level}(Element(0.0))")


def matrix(n: int, columns: int, each: int, format: str = LISTS) -> Tensor:
    """n x n, with entries in some columns, each as many."""
    rng = np.random.default_rng(n + columns)
    j = np.repeat(rng.choice(n, columns, replace=False), each)
    i = np.concatenate([rng.choice(n, each, replace=False) for _ in range(columns)])
    return Tensor.from_coo(format, (n, n), [i, j], np.ones(columns * each))


def diagonal(n: int, entries: int, format: str = LISTS) -> Tensor:
    places = np.linspace(0, n - 1, entries).astype(int)
    return Tensor.from_coo(format, (n, n), [places[::-1], places], np.ones(entries))


def ones(*shape: int, format: str = "Dense(Dense(Element(0.0)))") -> Tensor:
    return Tensor.from_numpy(np.ones(shape), format)


def sums(**given: Any) -> dict[str, Any]:
    return given | {"s": Scalar(0.0)}


def erosion(n: int) -> dict[str, Any]:
    image, format = np.zeros((n, n), bool), "SparseRunList(SparseRunList(Pattern()))"
    image[3 : n - 2, 2 : n - 3] = True
    work = Tensor("SparseRunList(Pattern())", n)
    return {"A": Tensor.from_numpy(image, format), "O": Tensor(format, n, n), "T": work}


def scattered(n: int, policy: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    places = {name: 1 + rng.integers(0, 99, 50) * (n // 100) for name in "IJ"}
    return places | {"W": Tensor(f"Workspace{{2, {policy}, 16}}(Element(0))", n, n)}


EROSION = """O .= false
for y = _
    T .= false
    for x = _
        T[x] = coalesce(A[x, ~(y - 1)], true) & A[x, y] & coalesce(A[x, ~(y + 1)], true)
    end
    for x = _
        O[x, y] = coalesce(T[~(x - 1)], true) & T[x] & coalesce(T[~(x + 1)], true)
    end
end"""
MASKED = "for j = _, i = _\nif {}\ns[] += A[i, j]\nend\nend"
SPLIT = "C .= 0\nfor j = _, i = _\nC[i, j] = split(b, 1, 10)[i, j]\nend"
WORK = """for j = _
    w .= 0
    for i = _; w[i] += A[i, j] end
    for i = _; s[] += w[i] end
end"""
Case = tuple[str, Callable[[int], dict[str, Any]], int, int, float]
CASES: dict[str, Case] = {
    **{
        f"a block of {level}": (
            SUM.format("A[i]"),
            lambda n, level=level: sums(A=block(n, level)),
            100,
            10_000,
            1,
        )
        for level in ("SparseBand", "SparseBlockList", "SparseInterval")
    },
    **{
        f"long runs of {level}": (
            SUM.format("A[i]"),
            lambda n, level=level: sums(A=runs(n, level)),
            10,
            100_000,
            1,
        )
        for level in ("RunList", "SparseRunList", "PackBits")
    },
    **{
        f"few columns of {level}": (
            "for j = _, i = _\ns[] += A[i, j]\nend",
            lambda n, level=level: sums(A=diagonal(n, 10, f"{level}{{2}}(Element(0.0))")),
            100,
            10_000,
            1,
        )
        for level in ("SparseHash", "SparseCOO")
    },
    **{
        f"following {level}": (
            "for k = _\ns[] += A[follow(I[k])]\nend",
            lambda n, level=level: sums(A=vector(n, n, level), I=np.array([2, 51, 99])),
            100,
            10_000,
            1.3,
        )
        for level in ("SparseHash", "SparseByteMap")
    },
    **{
        f"slices of {level}": (
            SUM.format("a[(1:3:m)(gallop(i))] * a[(2:3:m + 1)(gallop(i))]"),
            lambda n, level=level: sums(a=vector(n, 30, level), m=n - 2),
            6_000,
            60_000,
            1.3,
        )
        for level in ("SparseList", "SparseByteMap", "SparseHash", "SparseBlockList")
    },
    **{
        f"a workspace by {policy}": (
            "W .= 0\nfor p = _\nW[I[p], J[p]] += 1\nend",
            lambda n, policy=policy: scattered(n, policy),
            10_000,
            10**9,
            1,
        )
        for policy in ("coord", "hash")
    },
    "a point beside a list": (
        SUM.format("A[i] * B[i]"),
        lambda n: sums(A=block(n, "SparsePinpoint", 1), B=vector(n, n)),
        100,
        10_000,
        1.5,
    ),
    "a band beside a list": (
        SUM.format("A[i] * B[i]"),
        lambda n: sums(A=block(n, "SparseBand"), B=vector(n, n)),
        100,
        10_000,
        1.2,
    ),
    "blocks that leap": (
        SUM.format("A[gallop(i)] * B[gallop(i)]"),
        lambda n: sums(A=vector(n, n // 4, "SparseBlockList"), B=block(n, "SparseBlockList")),
        1_000,
        20_000,
        1.3,
    ),
    "entries of a block": (
        SUM.format("A[i]"),
        lambda n: sums(A=block(1_000, "SparseBlockList", n)),
        100,
        200,
        2,
    ),
    "an erosion": (EROSION, erosion, 10, 200, 1),
    "columns that are passed over": (
        "for j = _, i = _\ns[] += A[i, gallop(j)] * B[i, gallop(j)]\nend",
        lambda n: sums(A=diagonal(n, 2), B=diagonal(n, n)),
        200,
        2_000,
        1.5,
    ),
    "a hash table that is emptied": (
        WORK,
        lambda n: sums(
            w=Tensor("SparseHash(Element(0.0))", 200),
            A=Tensor.from_numpy(np.eye(200)[:, :1] + np.eye(200)[:, :n], CSC),
        ),
        50,
        100,
        2.1,
    ),
    "half a matrix": (
        "for j = _, i = _\ns[] += A[i, j]\nend",
        lambda n: sums(
            A=Tensor.from_numpy(np.triu(np.ones((n, n))), "UpperTriangular(Element(0.0))")
        ),
        20,
        40,
        4,
    ),
    **{
        f"parts of {mask}": (
            MASKED.format(f"{mask}(64, n)[i, j]"),
            lambda n: sums(A=ones(64, n), n=n),
            2,
            8,
            2,
        )
        for mask in ("splitmask",)
    },
    "the diagonal": (
        MASKED.format("diagmask()[i, j]"),
        lambda n: sums(A=ones(n, 8)),
        64,
        6_400,
        1,
    ),
    "a list below a mask": (
        MASKED.format("!(uptrimask()[i, j + m])"),
        lambda n: sums(A=ones(n, 2, format=CSC), m=n - 6),
        100,
        1_000,
        1.4,
    ),
    "a clean scalar": (
        SUM.format("z[] * A[i]"),
        lambda n: sums(z=Scalar(construct("SparseScalar", (), (0.0,))), A=np.ones(n)),
        10,
        1_000,
        1,
    ),
    "a shifted list": (
        "for i = _\ns[] += a[i] * coalesce(b[~(i + 5)], 0)\nend",
        lambda n: sums(a=vector(n, 3), b=vector(n, 3)),
        1_000,
        200_000,
        1,
    ),
    "flattening": (
        SUM.format("collapse(A, 1, 2)[i]"),
        lambda n: sums(A=matrix(n, 5, 8)),
        100,
        1_000,
        1,
    ),
    "twice as many in a flattened one": (
        SUM.format("collapse(A, 1, 2)[i]"),
        lambda n: sums(A=matrix(100, n, 8)),
        5,
        10,
        2.05,
    ),
    "splitting": (
        SPLIT,
        lambda n: {"b": vector(n, 20), "C": Tensor(LISTS, 0, 0)},
        1_000,
        10_000,
        1.3,
    ),
    "a short one leads": (
        SUM.format("collapse(A, 1, 2)[gallop(i)] * v[gallop(i)]"),
        lambda n: sums(A=matrix(200, n, n // 2), v=vector(40_000, 5)),
        50,
        200,
        1.7,
    ),
    "a part of a product": (
        "let T[i, j] = A[i, j] * B[i, j]\nfor j = _, i = _\ns[] += slice(T, 2, 1:10)[i, j]\nend\nend",
        lambda n: sums(A=matrix(n, 9, 3), B=diagonal(n, n)),
        100,
        1_000,
        1.7,
    ),
    "a transposed copy": (
        "for i = _, j = _\ny[i] += A[i, j]\nend",
        lambda n: {"A": diagonal(n, n, CSC), "y": np.zeros(n)},
        500,
        4_000,
        8 * 1.5,
    ),
    "minimum by place": (
        "s .= Inf => 0\nfor i = _; s[] <<minby>>= x[i] => i end",
        lambda n: {"x": vector(n, 3), "s": Scalar(Pair(np.inf, 0))},
        30,
        3_000,
        1,
    ),
}


def steps(text: str, values: dict[str, Any], which: str) -> int:
    ran = run_staged(kernel(text), values, which)
    assert ran.error is None, ran.error
    return ran.total


@pytest.mark.parametrize("which", ["all", "paper"])
@pytest.mark.parametrize("name", CASES)
def test_steps(name: str, which: str) -> None:
    text, make, small, large, most = CASES[name]
    first, second = (steps(text, make(n), which) for n in (small, large))
    assert 0 < second <= most * first, (first, second)


MET = [
    "SparseList",
    "SparseByteMap",
    "SparseBand",
    "SparseBlockList",
    "SparseRunList",
    "RunList",
    "PackBits",
    "Dense",
]


def met(level: str, seed: int) -> Tensor:
    """Runs of equal entries; of a band, one block."""
    rng, values, n = np.random.default_rng(seed), np.zeros(300), 300
    for start in rng.choice(n // 10, 12, replace=False) * 10:
        values[start : start + rng.integers(1, 7)] = rng.integers(1, 3)
    if level == "SparseBand":
        values[:] = 0
        values[60 + 20 * seed : 180 + 20 * seed] = rng.integers(1, 4, 120)
    return Tensor.from_numpy(values, f"{level}(Element(0.0))")


@pytest.mark.parametrize("one", MET)
def test_where_two_meet_no_more_steps_than_by_the_rules_of_the_paper(one: str) -> None:
    """At most 5 % more."""
    for other in MET[MET.index(one) :]:
        for text in (SUM.format("A[i] + B[i]"), SUM.format("A[i] * B[i]")):
            values = sums(A=met(one, 1), B=met(other, 2))
            ours, theirs = (steps(text, values, which) for which in ("all", "paper"))
            assert ours <= 1.05 * theirs, (text, other, ours, theirs)


PACKED = ("A[i] * B[i] * C[i]", "PackBits", "Dense"), ("A[i] + B[i] + C[i]", "PackBits", "Dense")


@pytest.mark.parametrize(
    "what, one, other",
    [
        *PACKED,
        *(
            (what, one, other)
            for what in ("A[i] * B[i] + C[i]", "A[i] * B[i] + C[i] * D[i]")
            for one, other in zip(MET[:5], MET[2:5] + MET[:2], strict=True)
        ),
    ],
)
def test_sums_of_products_take_no_more_steps_either(what: str, one: str, other: str) -> None:
    formats = zip("ABCD", (one, other) * 2, range(1, 5), strict=True)
    values = sums(**{name: met(level, seed) for name, level, seed in formats if name in what})
    ours, theirs = (steps(SUM.format(what), values, which) for which in ("all", "paper"))
    assert ours <= 1.06 * theirs, (ours, theirs)
