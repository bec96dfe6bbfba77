"""The contract of levels in kernels: each operation, on every stack of up to three of them (`stacks.py`).

Copies, parts side by side, slices, transposes and other formats take, assemble, freeze and truncate;
levels that merge equal neighbours compare and move what is below them; updates in place thaw; reads go by
each protocol; what goes in and out is packed, unpacked and adopted; counters tell how long arrays are.
Some triples are tried here, by a seed (`LEVELS=N/SEED pytest tests/contracts/test_level.py`), and all of
them by `python -m tests.campaigns.levels`. The first contents are interpreted as well. Residuals are
evaluated with each access checked; what native code does with one depends on no level, so that it is
compiled for these triples and one pair in four, among which each level stands above and below others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pytest
from every_format import TEXTS, fits
from level_kernels import run
from stacks import LEVELS, PACKED, Stack, pairs, triples

from finchlang import FinchError
from finchlang.levels.sparse_hash import SparseHash
from finchlang.native.compiler import compile_plainly
from finchlang.tensors.tensor import Tensor, mirrored_modes
from finchlang.testing.grammar import LEVELS as GENERATED

pytestmark = pytest.mark.checked

PROTOCOLS = ("walk", "gallop", "follow")
#: what the order of writing decides: tables, marks, room that was taken, values behind the last one
LOOSE = {"tbl", "cleared", "width", "covered", "fibers", "key", "slots", "pos", "val"}
LOOSE |= {"taken", "buckets", "limit"}
#: what native code is compiled for; four is prime to the number of leaves, which are taken in turn
NATIVE = {*triples(), *islice(pairs(), 0, None, 1 if LEVELS == "all" else 4)}


@pytest.fixture(autouse=True)
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")
    compile_plainly()


def check(
    stack: Stack,
    text: str,
    given: dict[str, Tensor],
    expected: np.ndarray,
    name: str = "C",
    interpreted: bool = False,
) -> Tensor | None:
    """A kernel ends alike on every engine, with `expected` in C, or with an error if C's format cannot
    hold that."""
    try:
        found, _ = run(text, given, native=stack.text in NATIVE, interpreted=interpreted)
    except FinchError as error:
        assert error.kind == "access order", f"{text}\n{error}"
        can = fits(given[name].format, expected)
        assert can is None or _is_built(stack, error), f"{text}\n{given}\n{error}"
        return None
    np.testing.assert_array_equal(found[name].to_numpy(), expected, f"{text}\n{given}")
    return found[name]


def _is_built(stack: Stack, error: FinchError) -> bool:
    """Whether runs of equal fibers are too many for an interval while it is written: what stands below
    it cannot be compared yet."""
    return "SparseInterval" in stack.text and "SparseInterval" in error.message


@dataclass
class Lengths:
    """How long the arrays of a format are for each state of its counters: calls compare nothing else to
    know what is in use."""

    known: dict[Any, Any] = field(default_factory=dict)

    def see(self, tensor: Tensor) -> None:
        if not all(level.counts_lengths for level in tensor.format.levels()):
            return
        parts = [part for level in tensor.storage for part in level.items()]
        counters = tuple(part for part in parts if not isinstance(part[1], np.ndarray))
        lengths = [(name, len(part)) for name, part in parts if isinstance(part, np.ndarray)]
        assert self.known.setdefault((tensor.shape, counters), lengths) == lengths


def same_storage(found: Tensor, packed: Tensor) -> None:
    """What is written is stored as what is packed."""
    for level, own, wanted in zip(
        found.format.levels(), found.storage, packed.storage, strict=True
    ):
        taken_out = {"stored"} if isinstance(level, SparseHash) else set()  # counted all the same
        for name in wanted.keys() - LOOSE - taken_out:
            np.testing.assert_array_equal(own[name], wanted[name], f"{name} of {level}")


def operations(
    stack: Stack, array: np.ndarray, before: np.ndarray, interpreted: bool, lengths: Lengths
) -> None:
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
        text = f"{name} .= {stack.fill}\n{stack.loops(value, target=name)}"
        found = check(stack, text, given, expected, name, interpreted)
        if found is not None and name == "C":
            lengths.see(found)
            if value.startswith("B"):
                same_storage(found, A)

    place = stack.place
    gives(f"A{place}", array)
    gives(f"B{place}", array)
    ways = [f"{PROTOCOLS[(k + len(stack.text)) % 3]}({i})" for k, i in enumerate(stack.letters)]
    gives(f"A[{', '.join(ways)}]" if interpreted else f"A{place}", array, "D")
    if order > 1 and not interpreted:
        gives(f"A[{', '.join(reversed(stack.letters))}]", array.T, "D")
    if not is_packed:
        gives(f"concat({order}, A, A){place}", np.concatenate([array, array], order - 1))
    if not is_packed and last > 1:
        gives(f"slice(A, {order}, 2:{last}){place}", array[..., 1:])
    if str(stack.level.leaf) != "Pattern()":
        zero = "0.0" if isinstance(fill, float) else "Int8(0)"
        more = np.where(array == fill, 0, 1).astype(array.dtype)
        given = {"B": Tensor.from_numpy(more, f"SparseCOO{{{order}}}(Element({zero}))"), "C": A}
        update = stack.loops(f"B{place}", "+=")
        check(stack, update, given, array + more, "C", interpreted)
    if interpreted:
        scattered(stack, array)


def scattered(stack: Stack, array: np.ndarray) -> None:
    """Each entry is written once and once more with nothing, in an order that is none."""
    fill, stored = stack.level.fill.value, fits(stack.text, array)
    assert stored is not None
    coordinates, values = stored.entries()
    for a, b in mirrored_modes(stored):
        half = coordinates[a] <= coordinates[b]
        coordinates, values = coordinates[:, half], values[half]
    order = np.random.default_rng(len(stack.text)).permutation(np.arange(2 * len(values)))
    coordinates, values = np.tile(coordinates, 2)[:, order], np.tile(values, 2)[order]
    is_pattern = stack.fill == "false"
    if not is_pattern:
        values = (values - fill) * (order < len(values) / 2)
    places = [f"P{k}" for k in range(stack.order)]
    given = {
        name: Tensor.from_numpy(row + 1) for name, row in zip(places, coordinates, strict=True)
    }
    given |= {"V": Tensor.from_numpy(values), "C": Tensor(stack.text, *array.shape)}
    place = ", ".join(f"{name}[p]" for name in places)
    sizes = ", ".join(f"1:{size}" for size in array.shape)
    update = "|=" if is_pattern else "+="
    text = f"@declare(C, {stack.fill}, {sizes})\nfor p = _\nC[{place}] {update} V[p]\nend"
    check(stack, text, given, array, "C", True)


def examine(text: str) -> None:
    stack, lengths = Stack(text), Lengths()
    before = next(stack.arrays())
    for k, array in enumerate(stack.arrays()):
        operations(stack, array, before, k == 0, lengths)


@pytest.mark.parametrize("format", [*pairs()])
def test_every_pair(format: str) -> None:
    examine(format)


@pytest.mark.parametrize("format", [*triples()])
def test_triples(format: str) -> None:
    examine(format)


def test_generated_scripts_have_every_level() -> None:
    """But workspaces, which are told apart by their policies."""
    assert {t.split("(")[0].split("{")[0] for t in TEXTS} == {*GENERATED}
