"""What random scripts are run on: numbers, levels, and tensors as exact literals.

Data of generated programs are small integers, so that sums are exact in any order. What a tensor stores is
drawn level by level (`grammar.LEVELS`), so that its format takes it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from finchlang.syntax import types
from finchlang.syntax.nodes import Literal
from finchlang.testing.grammar import KINDS, LEVELS, TYPES
from finchlang.text.print import pretty

SCALARS = ("Scalar", "SparseScalar", "ShortCircuitScalar", "SparseShortCircuitScalar")
LETTERS = "ijklabcd"
Levels = tuple[tuple[str, int], ...]
#: the large one is small enough for sums to stay exact
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 2.0**20)
#: about the most entries of a large fiber
ENTRIES = 300


def typed(value: Any, type: str) -> str:
    is_usual = type in ("Bool", "Int64", "Float64")
    value = types.TYPES[type].wrap(value) if type in types.TYPES else value
    return pretty(Literal(value, type=None if is_usual else type)).strip()


def array(found: Mapping[tuple[int, ...], str], rest: str, shape: Sequence[int]) -> str:
    every = itertools.product(*(range(n) for n in reversed(shape)))
    values = [found.get(at[::-1], rest) for at in every]
    if len(shape) == 2 and shape[1] > 1 and values:
        rows = (" ".join(values[i :: shape[0]]) for i in range(shape[0]))
        return f"[{'; '.join(rows)}]"
    row, sizes = f"[{', '.join(values)}]", ", ".join(map(str, shape))
    return row if len(shape) == 1 else f"reshape({row}, {sizes})"


@dataclass
class DrawnTensor:
    """A tensor of the script: its dimensions by name, element type, fill, and levels, outermost first."""

    name: str
    dims: tuple[str, ...]
    type: str
    fill: str
    levels: Levels = ()

    @property
    def half(self) -> str:
        """The comparison of indices under which a tensor with packed levels is written."""
        at, found = len(self.dims), []
        for name, modes in self.levels:
            at -= modes
            if LEVELS[name].takes in ("<=", ">="):
                found.append(f"{{{at}}} {LEVELS[name].takes} {{{at + 1}}}")
        return " && ".join(found)


class Maker:
    """Makes the data of a script: `before` are the lines that define it. Floats are `special`, integers
    at an end of their type and sizes a `misfit`, one too large, with these probabilities."""

    def __init__(self, seed: int, is_special: bool = False, kind: str = ""):
        self.random = random.Random(seed)
        self.kind = kind or ("float" if is_special else self.pick(KINDS))
        self.special = 0.2 if is_special else 0.0
        self.extreme = 0.04 if self.kind == "int" else 0.0
        self.misfit = 0.0
        self.before: list[str] = []
        sizes = self.random.choices((0, 1, 2, 3, 4, 5, 8), (0.5, 1, 2, 3, 3, 3, 1.5), k=3)
        self.sizes = dict(zip("mnp", sizes, strict=True))
        self.names: Iterator[str] = (
            f"{c}{n}" if n else c for n in itertools.count() for c in "ABCDEFGH"
        )
        self.tensors: list[DrawnTensor] = []
        self.is_target = False

    def pick(self, weights: dict[str, Any]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    @property
    def zero(self) -> str:
        return typed(0, TYPES[self.kind][0])

    # ------------------------------------------------------------------------------------ numbers

    def value(self, type: str) -> str:
        own = types.TYPES[type]
        if own is types.Bool:
            return typed(self.chance(0.7), type)
        if own.is_float and self.chance(self.special):
            return typed(self.random.choice(SPECIAL), type)
        if own.is_integer and self.chance(self.extreme):
            return typed(self.random.choice((own.highest, max(own.lowest, -own.highest))), type)
        return typed(self.random.randint(0 if own.kind == "uint" else -3, 4), type)

    def far_value(self, type: str) -> str:
        own = types.TYPES[type]
        if own is types.Bool or self.chance(0.5):
            return self.value(type)
        if own.is_float:
            return typed(self.random.choice((0.5, -2.5, 1e30, 1e-30, 127.0, 255.5, *SPECIAL)), type)
        ends = max(own.lowest, -own.highest), own.highest, own.highest - 1, 1
        return typed(self.random.choice(ends), type)

    def small_value(self, type: str) -> str:
        return typed(self.random.randint(0, 4), type)

    def divisor(self, type: str) -> str:
        return next(v for v in iter(lambda: self.far_value(type), "") if v != typed(0, type))

    def element(self, output: bool) -> tuple[str, str]:
        type = self.random.choice(TYPES[self.kind])
        if self.kind == "float" and not (output or self.is_target) and self.chance(0.15):
            type = self.random.choice((*TYPES["int"], "Bool"))
        if self.kind == "minplus" and self.chance(0.7):
            return type, "Inf"
        return type, typed(0, type) if self.chance(0.75) else self.value(type)

    # ------------------------------------------------------------------------------------ formats

    def levels(self, dims: Sequence[Any], output: bool = False) -> Levels:
        """Random levels for dimensions; outputs seldom get levels that cannot store all entries."""
        made: list[tuple[str, int]] = []
        left = len(dims)
        while left:
            square = left > 1 and dims[left - 1] == dims[left - 2]
            fit = {n: r.weight for n, r in LEVELS.items() if r.modes < 2 or square}
            if output and self.chance(0.9):
                fit = {n: w for n, w in fit.items() if LEVELS[n].takes not in ("one", "run")}
            if left > 2 or (left == 2 and self.chance(0.6)):
                fit.pop("Interleaved")  # it can only be above a leaf
            name = self.pick(fit)
            modes = LEVELS[name].modes or self.random.randint(1, left)
            modes = left if name == "Interleaved" else modes
            made.append((name, modes))
            left -= modes
        return tuple(made)

    def format(self, tensor: DrawnTensor) -> str:
        last = tensor.levels[-1][0] if tensor.levels else ""
        is_false = tensor.type == "Bool" and tensor.fill == "false"
        if is_false and last not in ("", "Interleaved", "Workspace") and not LEVELS[last].complete:
            text = "Pattern()" if self.chance(0.5) else "Element(false)"
        else:
            text = f"Element({tensor.fill})"
        for name, modes in reversed(tensor.levels):
            given = [str(modes)] if not LEVELS[name].modes and (modes > 1 or "COO" in name) else []
            if name == "Workspace":
                policy = self.random.choice(("", "", ", coord", ", hash", ", bucket", ", hash, 2"))
                given = [f"{modes}{policy}"]
            if name in ("SparseList", "SparseCOO", "SparseHash") and self.chance(0.15):
                given.append(self.random.choice(("Int32", "Int16")))
            text = f"{name}{{{', '.join(given)}}}({text})" if given else f"{name}({text})"
        return text

    # ------------------------------------------------------------------------------------ tensors

    def places(self, takes: str, shape: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        """Coordinates of a fiber, in groups that share what is below them."""
        density = self.random.choice((0.0, 0.3, 0.5, 0.5, 0.8, 1.0))
        if (count := prod(shape)) > ENTRIES and takes == "any":
            density *= ENTRIES / count
        all_of = list(itertools.product(*map(range, shape)))
        low, high = sorted(self.random.randint(0, len(all_of)) for _ in range(2))
        if takes in ("run", "first", "block", "one"):
            low = 0 if takes == "first" else low
            chosen = all_of[low : min(high, low + 1) if takes == "one" else high]
            return [chosen] if takes == "run" and chosen else [[c] for c in chosen]
        if takes == "runs":
            cuts = sorted({0, len(all_of), *(self.random.randint(0, len(all_of)) for _ in "ab")})
            runs = [all_of[a:b] for a, b in itertools.pairwise(cuts)]
            return [run for run in runs if self.chance(density)]
        if takes in ("<=", ">="):
            all_of = [c for c in all_of if (c[0] <= c[1]) == (takes == "<=") or c[0] == c[1]]
        return [[c] for c in all_of if self.chance(density)]

    def entries(
        self, levels: Levels, shape: tuple[int, ...], type: str
    ) -> dict[tuple[int, ...], str]:
        if not levels:
            return {(): "true" if type == "Bool" else self.value(type)}
        (name, modes), *rest = levels
        found: dict[tuple[int, ...], str] = {}
        for group in self.places(LEVELS[name].takes, shape[-modes:]):
            below = self.entries(tuple(rest), shape[:-modes], type)
            for own in group:
                found |= {at + own: value for at, value in below.items()}
                if name == "Symmetric":
                    found |= {at + own[::-1]: value for at, value in below.items()}
        return found

    def literal_of(
        self, tensor: DrawnTensor, shape: tuple[int, ...], format: str | None = None
    ) -> str:
        """An expression for a tensor of random entries, in this format; "" stands for an array."""
        found = self.entries(tensor.levels, shape, tensor.type)
        format = self.format(tensor) if format is None else format
        sizes, is_zero = ", ".join(map(str, shape)), tensor.fill == typed(0, tensor.type)
        if format and (not found or 0 in shape):
            return f"Tensor({format}, {sizes})"
        if format and is_zero and (len(shape) > 2 or prod(shape) > ENTRIES or self.chance(0.1)):
            rows = [(*(str(n + 1) for n in at), value) for at, value in found.items()]
            if self.chance(0.3):  # in any order, with some twice
                rows += [(*row[:-1], tensor.fill) for row in rows[:2]]
                self.random.shuffle(rows)
            lists = ", ".join(f"[{', '.join(row)}]" for row in zip(*rows, strict=True))
            return f"Tensor({format}, fsparse({lists}, ({sizes},)))"
        text = array(found, tensor.fill, shape)
        return f"Tensor({format}, {text})" if format else text

    def new(
        self,
        dims: tuple[str, ...],
        output: bool = False,
        levels: Levels | None = None,
        fill: str = "",
        is_kept: bool = True,
    ) -> DrawnTensor:
        """A new tensor, to be read again if it `is_kept`. With a given fill it has the kind's main type."""
        type, drawn = self.element(output)
        type, fill = (TYPES[self.kind][0], fill) if fill else (type, drawn)
        tensor = DrawnTensor(next(self.names), dims, type, fill)
        shape = tuple(self.sizes[d] + self.chance(self.misfit) for d in dims)
        if not dims:
            kind = self.random.choice(SCALARS) if self.chance(0.4) else "Scalar"
            text = f"{kind}({fill}, {self.value(type)})"
        elif levels is None and self.chance(0.12) and len(dims) < 3 and 0 not in shape:
            tensor.levels, tensor.fill = (("Dense", 1),) * len(dims), typed(0, type)
            text = self.literal_of(tensor, shape, "")
        else:
            tensor.levels = self.levels(dims, output) if levels is None else levels
            text = self.literal_of(tensor, shape)
        self.before.append(f"{tensor.name} = {text}")
        self.tensors += [tensor] if is_kept else []
        return tensor
