"""Accesses at sums of loop indices: in every format and every order of the loops they mean the same
under the four semantics."""

from __future__ import annotations

from itertools import permutations

import pytest

from finchlang.testing.compare_engines import SEMANTICS, compare, ways_of

#: formats that are written in any order come first
FORMATS = (
    "Dense(Dense(Element(0.0)))",
    "Dense(SparseByteMap(Element(0.0)))",
    "SparseHash(SparseHash(Element(0.0)))",
    "SparseHash{2}(Element(0.0))",
    "Dense(SparseList(Element(0.0)))",
    "SparseList(SparseList(Element(0.0)))",
    "SparseCOO{2}(Element(0.0))",
    "SparseList(Dense(Element(0.0)))",
    "Dense(SparseBlockList(Element(0.0)))",
    "Dense(RunList(Element(0.0)))",
)
ACCESSES = (
    *("i + j, k", "k, i + j", "~(i + j - 1), k", "i - j, k", "i + j, i + k"),
    *("i + j, i", "i, i + j", "i + j, j", "~(i + 1), ~(j - 1)"),
)
CASES = [
    pytest.param(number, access, loops, id=f"{access} in {''.join(loops)}")
    for access in ACCESSES
    for number, loops in enumerate(permutations(x for x in "ijk" if x in access))
]


def kernel(format: str, loops: tuple[str, ...], start: str, statement: str) -> str:
    return f"""
        A = Tensor({format}, [1.0 0.0 2.0; 0.0 0.0 4.0; 5.0 6.0 0.0])
        s = Scalar(0.0)
        @finch begin
            {start}
            for {", ".join(f"{x} = 1:3" for x in loops)}
                {statement}
            end
        end
        v = [s[], sum(A)]
    """


def check(loops: tuple[str, ...], formats: tuple[str, ...], first: int, *parts: str) -> None:
    """A kernel in which tensors of all `formats` mean the same: under two semantics, and for each
    third format, of which the `first` tells the first, under all four."""
    values = []
    for number, format in enumerate(formats, first):
        program = kernel(format, loops, *parts)
        found = compare(program, ways=ways_of(SEMANTICS if number % 3 == 0 else SEMANTICS[::2]))
        assert not found.errors and found.agrees, f"{program}\n{found.errors} {found.report}"
        values.append(list(found.results["denote"]["v"]))
    assert values.count(values[0]) == len(formats)


@pytest.mark.parametrize(("number", "access", "loops"), CASES)
def test_a_tensor_is_read(number: int, access: str, loops: tuple[str, ...]) -> None:
    """In every other format: each access in all, each order of loops in all."""
    statement = f"s[] += coalesce(A[{access}], 0.5) * 1.5 ^ i"
    at = ACCESSES.index(access) + number
    check(loops, FORMATS[at % 2 :: 2], at, "s .= 0", statement)


@pytest.mark.parametrize(("number", "access", "loops"), CASES)
def test_a_tensor_is_updated(number: int, access: str, loops: tuple[str, ...]) -> None:
    statement = f"A[{access}] += i + 10.0 * j"
    check(loops, FORMATS[:4], ACCESSES.index(access), "", statement)
