"""Compiling takes time that grows near to linearly with a program, from its tree to LLVM's text: counted
in calls of functions, since seconds say little on a machine that has other things to do."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from typing import Any

import pytest
from every_format import nests

from finchlang.host.passes.pipeline import transform
from finchlang.host.passes.undo_log import with_undo_log
from finchlang.host.walk import everything
from finchlang.native.emit import emit
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

MATRIX = parse_format("Dense(SparseList(Element(0.0)))")
#: every level over lists, and a list over some
NESTED = [
    *(f for f in nests("Element(0.0)", 2) if f.endswith("(SparseList(Element(0.0)))")),
    *(f"SparseList({level}(Element(0.0)))" for level in ("Dense", "RunList", "SparseBlockList")),
]
LIST, DENSE = (parse_format(f"{level}(Element(0.0))") for level in ("SparseList", "Dense"))


@pytest.fixture(autouse=True)
def as_scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No checks between passes, and room for nests and chains as deep as they are long."""
    monkeypatch.delenv("FINCH_CHECK", raising=False)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(limit)


def calls(text: str, formats: dict[str, Any]) -> int:
    """How many calls it takes to compile a kernel, LLVM's part apart."""
    program = parse_kernel(f"begin\n{text}\nend")
    profile = cProfile.Profile()
    profile.enable()
    kernel = Kernel(program, formats)
    emit(with_undo_log(transform(kernel.residual))[0])
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def over(join: str) -> Callable[[int], tuple[str, dict[str, Any]]]:
    """A kernel with many sparse operands."""

    def make(count: int) -> tuple[str, dict[str, Any]]:
        names = [f"A{k}" for k in range(count)]
        text = f"C .= 0; for i = _; C[i] = {join.join(f'{n}[i]' for n in names)} end"
        return text, {"C": LIST, **dict.fromkeys(names, LIST)}

    return make


def of(part: str, around: str = "{}", ends: int = 0) -> Callable[[int], tuple[str, dict[str, Any]]]:
    """A kernel with many times `part`, each with its number for `@`, and as many `end`s for each."""

    def make(count: int) -> tuple[str, dict[str, Any]]:
        parts = "\n".join(part.replace("@", str(k)) for k in range(count)) + "\nend" * ends * count
        tensors = {f"Y{k}": DENSE for k in range(count)} if "Y@" in part else {}
        return around.replace("{}", parts), {"A": LIST, "x": DENSE, "y": DENSE, **tensors}

    return make


IN_LOOP = "for i = _\n{}\nend"
KERNELS: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
    "operands of a product": over(" * "),
    "operands of a sum": over(" + "),
    "loops": of("for i = _; y[i] += A[i] end"),
    "loops with a tensor each": of("Y@ .= 0; for i = _; Y@[i] += A[i] end"),
    "statements": of("y[i] += A[i] * @.5", IN_LOOP),
    "sieves": of("if x[i] != @\ny[i] += 1 end", IN_LOOP),
    "nested sieves": of("if x[i] != @\ny[i] += @\n", IN_LOOP, 1),
    "nested definitions": of("let t@ = x[i] + @\ny[i] += t@", IN_LOOP, 1),
    "elseif": of("elseif x[i] == @\ny[i] = @", "for i = _\nif x[i] > 9\ny[i] = 1\n{}\nend\nend"),
}


@pytest.mark.parametrize("what", KERNELS)
def test_twice_as_many_take_twice_as_long(what: str) -> None:
    make = KERNELS[what]
    calls(*make(4))  # what is kept is there
    assert calls(*make(120)) <= 2.1 * calls(*make(60))


@pytest.mark.parametrize("count, orders", [(2, (4, 5, 6)), (3, (3, 4, 5))])
def test_unions_of_many_modes_grow_linearly(count: int, orders: tuple[int, int, int]) -> None:
    """Whatever operands are left over at some coordinate, the rest of their nest is staged once."""

    def size(order: int) -> int:
        indices = "ijklmn"[:order]
        loops = ", ".join(f"{i} = _" for i in reversed(indices))
        at = ", ".join(indices)
        format = parse_format("SparseList(" * order + "Element(0)" + ")" * order)
        names = [f"A{k}" for k in range(count)]
        value = " + ".join(f"{name}[{at}]" for name in names)
        program = parse_kernel(f"begin\nR .= 0; for {loops}; R[{at}] = {value} end\nend")
        return len(list(everything(Kernel(program, dict.fromkeys(["R", *names], format)).residual)))

    first, second, third = map(size, orders)
    assert third - second <= 1.05 * (second - first)


@pytest.mark.parametrize("format", NESTED)
def test_many_nested_operands(format: str) -> None:
    """What is a fiber or nothing at a coordinate goes on into the loop within, undecided."""

    def of(count: int) -> int:
        names = [f"A{k}" for k in range(count)]
        value = " + ".join(f"{n}[i, j]" for n in names)
        operands = dict.fromkeys(names, parse_format(format))
        return calls(f"C .= 0; for j = _, i = _; C[i, j] = {value} end", {"C": MATRIX, **operands})

    of(4)
    assert of(8) <= 3 * of(4)


def test_many_parts_that_are_stored_first() -> None:
    """Each part is stored by a loop of its own, whatever the others are."""

    def of(count: int) -> int:
        names = [f"A{k}" for k in range(count)]
        text = f"for i = _; s[] += vcat({', '.join(names)})[i, i] end"
        operands = dict.fromkeys(names, parse_format("SparseCOO{2}(Element(0.0))"))
        return calls(text, {"s": parse_format("Scalar(0.0)"), **operands})

    of(6)
    assert of(24) <= 3 * of(12)
