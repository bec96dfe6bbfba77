"""The contract of levels: each of their operations, on every stack of up to three of them.

Copies, parts side by side, slices and other formats take, assemble, freeze and truncate; levels that
merge equal neighbours compare and move what is below them; updates in place thaw; what goes in and out
is packed, unpacked and adopted. All pairs are tried, over one leaf each, and some triples.
`LEVELS=all pytest tests/contracts/test_level.py` tries pairs over all leaves and all triples;
`LEVELS=N/SEED` N triples for each pair of outer levels. The first contents are interpreted as well.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, cycle, product

import numpy as np
import pytest
from case_matrix_data import Sampler, mirrored, tensor
from every_format import TEXTS, fits
from level_kernels import run
from quick_native import compile_quickly

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import Tensor

pytestmark = pytest.mark.checked

LEAVES = {"Element(0.0)": "0.0", "Element(Int8(1))": "1", "Pattern()": "false"}
#: levels that store half of a matrix, and how its coordinates compare there
PACKED = {"UpperTriangular": "<=", "LowerTriangular": ">=", "Symmetric": "<="}
LEVELS = os.environ.get("LEVELS", "0.2/0")


def stack(leaf: str, *texts: str) -> Iterator[str]:
    """The format of these levels, the outermost first, if there is one."""
    format = leaf
    try:
        for text in reversed(texts):
            format = text.format(format)
            parse_format(format)
    except FinchError:
        return
    yield format


def pairs() -> Iterator[str]:
    """Single levels and pairs, over each leaf or the next."""
    leaves = cycle(LEAVES)
    for texts in [*product(TEXTS), *product(TEXTS, TEXTS)]:
        legal = [f for leaf in LEAVES for f in stack(leaf, *texts)]
        if LEVELS != "all" and legal:
            wanted = next(leaves)
            legal = [f for f in legal if wanted in f][:1] or legal[:1]
        yield from legal


def triples() -> Iterator[str]:
    """All, or so many for each pair of the outer levels."""
    if LEVELS == "all":
        for texts in product(TEXTS, TEXTS, TEXTS):
            yield from stack("Element(0.0)", *texts)
        return
    count, seed = LEVELS.split("/")
    chosen = random.Random(int(seed))
    for outer, middle in product(TEXTS, TEXTS):
        legal = [f for inner in TEXTS for f in stack("Element(0.0)", outer, middle, inner)]
        wanted = int(float(count) + chosen.random())
        yield from chosen.sample(legal, min(wanted, len(legal)))


@pytest.fixture(autouse=True)
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    compile_quickly(monkeypatch.setattr)


@dataclass(frozen=True)
class Stack:
    """A format, the loops over its modes, and contents for it."""

    text: str

    @cached_property
    def level(self) -> Level:
        return parse_format(self.text)

    @property
    def fill(self) -> str:
        return LEAVES[str(self.level.leaf)]

    @property
    def order(self) -> int:
        return self.level.order

    @property
    def letters(self) -> list[str]:
        return [f"i{k + 1}" for k in range(self.order)]

    @property
    def place(self) -> str:
        return f"[{', '.join(self.letters)}]"

    def loops(self, value: str, op: str = "=", target: str = "C") -> str:
        """The loops that give `target` a value in each place, or in the half that a packed level has."""
        statement = f"{target}{self.place} {op} {value}"
        masks, at = [], self.order
        for level in self.level.levels():
            at -= level.modes
            if type(level).__name__ in PACKED:
                sign = PACKED[type(level).__name__]
                masks.append(f"{self.letters[at]} {sign} {self.letters[at + 1]}")
        if masks and target == "C":
            statement = f"if {' && '.join(masks)}\n {statement}\nend"
        heads = ", ".join(f"{x} = _" for x in reversed(self.letters))
        return f"for {heads}\n{statement}\nend"

    def arrays(self) -> Iterator[np.ndarray]:
        """Contents of sizes from 0 to 3: empty, all different, sparse, with fibers that are empty and
        neighbours that are the same."""
        most = 3 if self.order < 4 else 2
        picked = random.Random(self.text)
        is_packed = any(level.modes > 1 for level in self.level.levels())
        shapes = [(most,) * self.order, (most,) * self.order, (0,) * self.order, (1,) * self.order]
        if not is_packed:
            shapes += [tuple(picked.randint(0, most) for _ in range(self.order)) for _ in range(2)]
            shapes += [(*(most,) * (self.order - 1), 1), (1, *(most,) * (self.order - 1))]
        for k, shape in enumerate(shapes):
            sampler = Sampler(picked.randrange(1 << 30), (0.5, 1.0, 0.7)[k % 3])
            yield mirrored(sampler.array(self.level, shape), self.level)

    def empty(self, like: np.ndarray | None = None) -> Tensor:
        """A tensor of this format; what it held before is forgotten."""
        if like is not None and (held := fits(self.text, like)) is not None:
            return held
        return Tensor(self.text, *(0,) * self.order)


def check(
    stack: Stack,
    text: str,
    given: dict[str, Tensor],
    expected: np.ndarray,
    name: str = "C",
    interpreted: bool = False,
) -> None:
    """A kernel ends alike on every engine, with `expected` in C, or with an error if C's format cannot
    hold that."""
    try:
        found, _ = run(text, given, interpreted=interpreted)
    except FinchError as error:
        assert error.kind == "access order", f"{text}\n{error}"
        can = fits(given[name].format, expected)
        assert can is None or _is_built(stack, error), f"{text}\n{given}\n{error}"
        return
    np.testing.assert_array_equal(found[name].to_numpy(), expected, f"{text}\n{given}")


def _is_built(stack: Stack, error: FinchError) -> bool:
    """Whether runs of equal fibers are too many for an interval while it is written: what stands below
    it cannot be compared yet."""
    return "SparseInterval" in stack.text and "SparseInterval" in error.message


def operations(stack: Stack, array: np.ndarray, before: np.ndarray, interpreted: bool) -> None:
    """All that is done with a tensor of the stack."""
    A = Tensor.from_numpy(array, stack.text)
    order, fill = stack.order, stack.level.fill.value
    last, is_packed = array.shape[-1], type(stack.level).__name__ in PACKED
    np.testing.assert_array_equal(A.to_numpy(), array)
    coordinates, values = A.entries()
    rebuilt = Tensor.from_coo(stack.text, array.shape, coordinates, values)
    np.testing.assert_array_equal(rebuilt.to_numpy(), array)
    adopted = Tensor.from_storage(A.format, A.shape, A.storage, checked=False)
    adopted.validate()
    loose = f"SparseCOO{{{order}}}({stack.level.leaf})"
    B = Tensor.from_numpy(array, loose)

    def gives(value: str, expected: np.ndarray, name: str = "C") -> None:
        outputs = {"C": stack.empty(before), "D": Tensor(loose, *(0,) * order)}
        given = {"A": adopted, "B": B, name: outputs[name]}
        text = f"{name} .= {stack.fill}\n{stack.loops(value + stack.place, target=name)}"
        check(stack, text, given, expected, name, interpreted)

    gives("A", array)
    gives("B", array)
    gives("A", array, "D")
    if not is_packed:
        gives(f"concat({order}, A, A)", np.concatenate([array, array], order - 1))
    if not is_packed and last > 1:
        gives(f"slice(A, {order}, 2:{last})", array[..., 1:])
    if str(stack.level.leaf) != "Pattern()":
        zero = "0.0" if isinstance(fill, float) else "Int8(0)"
        more = np.where(array == fill, 0, 1).astype(array.dtype)
        given = {"B": Tensor.from_numpy(more, f"SparseCOO{{{order}}}(Element({zero}))"), "C": A}
        update = stack.loops(f"B{stack.place}", "+=")
        check(stack, update, given, array + more, "C", interpreted)


def examine(text: str) -> None:
    stack = Stack(text)
    before = next(stack.arrays())
    for k, array in enumerate(stack.arrays()):
        operations(stack, array, before, k == 0)


@pytest.mark.parametrize("format", [*pairs()])
def test_every_pair(format: str) -> None:
    examine(format)


@pytest.mark.parametrize("format", [*triples()])
def test_triples(format: str) -> None:
    examine(format)


def taken() -> Iterator[tuple[str, str]]:
    """Formats of equal order of which the first takes the stored fibers of the second as they are."""
    able = [t for t in TEXTS for f in stack("Element(0.0)", t) if (x := parse_format(f)).takes(x)]
    depths = (1, 2, 3) if LEVELS == "all" else (1, 2)
    texts = chain.from_iterable(product(able, repeat=depth) for depth in depths)
    levels = [parse_format(f) for each in texts for f in stack("Element(0.0)", *each)]
    for own, other in product(levels, levels):
        if own != other and own.order == other.order and own.takes(other):
            yield str(own), str(other)


@pytest.mark.parametrize(("format", "source"), [*taken()])
def test_fibers_of_other_formats(format: str, source: str) -> None:
    """Copies from another format store the entries that copies one by one do, stored fills among them."""
    stack = Stack(format)
    for array in Stack(source).arrays():
        A = tensor(array, parse_format(source), stores_fill=True)
        twice = np.concatenate([array, array], stack.order - 1)
        for value, expected in (("A", array), (f"concat({stack.order}, A, A)", twice)):
            text = f"C .= 0\n{stack.loops(value + stack.place)}"
            entries = []
            for which in ("all", "paper"):
                given = {"A": A, "C": stack.empty()}
                found, _ = run(text, given, which, interpreted=False)
                np.testing.assert_array_equal(found["C"].to_numpy(), expected)
                entries.append(found["C"].entries())
            for one, other in zip(*entries, strict=True):
                np.testing.assert_array_equal(one, other)
