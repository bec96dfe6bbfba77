"""Reads across the order of storage, which go to transposed copies where that pays: the semantics agree,
with workspaces, without, and by the paper's rules."""

from __future__ import annotations

from itertools import permutations

import pytest

from finchlang.testing.compare_engines import Way, compare
from finchlang.testing.generate import Maker, typed
from finchlang.testing.grammar import LEVELS, UPPER

#: what is computed of A[{0}], whose loops may stand in any order
BODIES = (
    "y[i] += A[{0}]",
    "y[j] <<min>>= A[{0}] + x[i]",
    "y[i] += A[{0}] * x[j]",
    "if A[{0}] != {1}\n y[j] += x[i]\nend",
    "let t = A[{0}]\n y[i] += t\nend",
    "D[i, j] = A[{0}]",
    "C[i, j] += A[{0}] * 2",
    "s[] += A[{0}] * A[{0}]",
)
WAYS = (
    *(Way("denote"), Way("residual"), Way("residual", workspaces=False)),
    *(Way("interpret", "paper"), Way("native")),
)
ONE_MODE = [name for name in UPPER if LEVELS[name].modes < 2]
#: those of which each level stands with others below it and above
UP, DOWN = (ONE_MODE[k:] + ONE_MODE[:k] for k in (4, 9))
STACKS = [((outer, 1), (inner, 1)) for outer in ONE_MODE for inner in ONE_MODE]
STACKS += [((name, 2),) for name in UPPER if LEVELS[name].modes != 1]


def script(seed: int) -> str:
    """A kernel that reads a tensor of the stack of that number."""
    maker = Maker(seed, kind=("float", "int")[seed % 3 == 0])
    n = maker.sizes["m"] = maker.random.randint(0, 4)
    tensor = maker.new(("m", "m"), True, STACKS[seed % len(STACKS)])
    body = maker.random.choice(BODIES).replace("A[", f"{tensor.name}[")
    at, loops = (maker.random.choice(("{0}, {1}", "{1}, {0}")) for _ in range(2))
    zero = typed(0, tensor.type)
    numbers = ", ".join(typed(k, tensor.type) for k in range(1, n + 1))
    x = (
        f"Tensor(Dense(Element({zero})), [{numbers}])"
        if n
        else f"Tensor(Dense(Element({zero})), 0)"
    )
    return "\n".join(
        [
            *maker.before,
            f"x = {x}; y = Tensor(Dense(Element({zero})), {n}); s = Scalar({zero})",
            f"D = Tensor(Dense(Dense(Element({zero}))), {n}, {n})",
            f"C = Tensor(SparseHash{{2}}(Element({zero})), {n}, {n})",
            "@finch begin",
            f"for {loops.format('i = _', 'j = _')}",
            body.format(at.format("i", "j"), tensor.fill),
            "end\nend\n",
        ]
    )


@pytest.mark.parametrize("first", range(0, len(STACKS), 20))
def test_values_are_what_they_were(first: int) -> None:
    for seed in range(first, min(first + 20, len(STACKS))):
        found = compare(script(seed), ways=WAYS)
        assert found.agrees and not found.errors, f"{script(seed)}\n{found.report}"


@pytest.mark.parametrize("order", [*permutations("ijk")], ids="".join)
def test_three_modes_in_each_order_of_loops(order: tuple[str, ...]) -> None:
    """Each level once, outermost, in the middle or innermost, and what there is of two modes and three."""
    number = [*permutations("ijk")].index(order)
    stacks = [((a, 1), (b, 1), (c, 1)) for a, b, c in zip(ONE_MODE, UP, DOWN, strict=True)]
    stacks += [(("SparseCOO", 3),), (("SparseHash", 2), ("SparseList", 1))]
    for seed, stack in list(enumerate(stacks))[number % 3 :: 3]:
        maker = Maker(seed, kind="int")
        n = maker.sizes["m"] = maker.random.randint(1, 3)
        name = maker.new(("m", "m", "m"), True, stack).name
        numbers = ", ".join(map(str, range(1, n + 1)))
        loops = ", ".join(f"{index} = _" for index in order)
        read = f"{name}[i, j, k]"
        body = f"s[] += {read} * (i + 4 * j + 16 * k); y[{order[-1]}] += {read} * x[{order[0]}]"
        head = f"x = [{numbers}]; y = zeros(Int64, {n}); s = Scalar(0)"
        text = "\n".join([*maker.before, head, f"@finch for {loops}; {body} end", ""])
        found = compare(text, ways=WAYS)
        assert found.agrees and not found.errors, f"{text}\n{found.report}"
