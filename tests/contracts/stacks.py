"""Stacks of up to three levels: each level on each other, over leaves of each kind, with contents.

All single levels and pairs, over one leaf each, and some triples; `LEVELS=all` in the environment: pairs
over all leaves and all triples; `LEVELS=N/SEED`: N triples for each pair of outer levels.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from every_format import TEXTS, fits, is_format
from samples import Sampler, mirrored

from finchlang.base.locks import cached_property
from finchlang.levels.level import Level
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor

LEAVES = {"Element(0.0)": "0.0", "Element(Int8(1))": "1", "Pattern()": "false"}
#: levels that store half of a matrix, and how its coordinates compare there
PACKED = {"UpperTriangular": "<=", "LowerTriangular": ">=", "Symmetric": "<="}
LEVELS = os.environ.get("LEVELS", "0.2/0")


def stack(leaf: str, *texts: str) -> Iterator[str]:
    """The format of these levels, the outermost first, if there is one."""
    format = leaf
    for text in reversed(texts):
        format = text.format(format)
        if not is_format(format):
            return
    yield format


def singles() -> Iterator[str]:
    """Each level over each leaf."""
    for text, leaf in product(TEXTS, LEAVES):
        yield from stack(leaf, text)


def pairs() -> Iterator[str]:
    """Single levels and pairs, over each leaf or the next."""
    leaves = deque(LEAVES)
    for texts in [*product(TEXTS), *product(TEXTS, TEXTS)]:
        if LEVELS == "all":
            yield from (f for leaf in LEAVES for f in stack(leaf, *texts))
            continue
        wanted = dict.fromkeys((leaves[0], *LEAVES))
        legal = (f for leaf in wanted for f in stack(leaf, *texts))
        if (format := next(legal, None)) is not None:
            leaves.rotate(-1)
            yield format


def triples() -> Iterator[str]:
    """All, or so many for each pair of the outer levels."""
    if LEVELS == "all":
        for texts in product(TEXTS, TEXTS, TEXTS):
            yield from stack("Element(0.0)", *texts)
        return
    count, seed = LEVELS.split("/")
    chosen = random.Random(int(seed))
    for outer, middle in product(TEXTS, TEXTS):
        wanted = int(float(count) + chosen.random())
        inner = chosen.sample(TEXTS, len(TEXTS)) if wanted else []
        legal = (f for text in inner for f in stack("Element(0.0)", outer, middle, text))
        yield from islice(legal, wanted)


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

    @property
    def is_packed(self) -> bool:
        """Whether it has a level that is square."""
        return any(type(level).__name__ in PACKED for level in self.level.levels())

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
        shapes = [(most,) * self.order, (most,) * self.order, (0,) * self.order, (1,) * self.order]
        if not any(level.modes > 1 for level in self.level.levels()):
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
