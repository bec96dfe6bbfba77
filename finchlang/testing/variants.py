"""Metamorphic checks (TenSure, arXiv 2603.18372): an `@einsum`, and others that must give the same: other
formats, operands permuted, indices renamed, a result transposed, a factor taken out, the call repeated."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.testing.compare import Way
from finchlang.testing.generate import Maker
from finchlang.testing.grammar import LEVELS

LETTERS = "ijkl"


@dataclass(frozen=True)
class Einsum:
    """`C[indices] += factor * A[i, j] * B[j, k] ...`: operands as pairs of a name and its indices."""

    made: tuple[str, ...]
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    result: tuple[str, ...]
    factor: int = 1
    outside: int = 1
    times: int = 1
    format: str = ""

    @property
    def text(self) -> str:
        parts = [f"{name}[{', '.join(at)}]" for name, at in self.operands]
        if self.factor != 1:
            parts.insert(0, str(self.factor))
        line = f"@einsum R[{', '.join(self.result)}] += {' * '.join(parts)}"
        kept = f"R = Tensor({self.format}, R)" if self.format else ""
        return "\n".join([*self.made, *[line] * self.times, kept, ""])


def _data(
    maker: Maker, names: dict[str, tuple[str, ...]], dense: dict[str, Any]
) -> tuple[str, ...]:
    """Definitions of tensors of new formats with the same values."""
    lines = []
    for name, at in names.items():
        levels = maker.levels(at)
        fit = all(LEVELS[level].takes in ("any", "runs") for level, _ in levels)
        text = "Element(0)"
        for level, modes in reversed(levels if fit else (("SparseList", 1),) * len(at)):
            given = f"{{{modes}}}" if modes > 1 or level == "SparseCOO" else ""
            text = f"{level}{given}({text})"
        flat = ", ".join(map(str, dense[name].ravel(order="F")))
        sizes = ", ".join(map(str, dense[name].shape))
        lines.append(f"{name} = Tensor({text}, reshape([{flat}], {sizes}))")
    return tuple(lines)


def einsum_of(seed: int) -> tuple[Einsum, list[tuple[str, Einsum, Callable[[Any], Any]]]]:
    """An einsum, and its variants: what was done, the einsum, and what takes its result to the first's."""
    rng, maker = random.Random(seed), Maker(seed)
    maker.kind = "int"
    sizes = {i: rng.randint(1, 4) for i in LETTERS}
    count = rng.choice((1, 2, 2, 3))
    names = {n: tuple(rng.sample(LETTERS, rng.choice((1, 2, 2, 3)))) for n in "ABD"[:count]}
    used = sorted(set().union(*names.values()))
    result = tuple(rng.sample(used, rng.randint(0, min(3, len(used)))))
    numbers = np.random.default_rng(seed)
    dense = {
        n: numbers.integers(-3, 4, [sizes[i] for i in at])
        * (numbers.random([sizes[i] for i in at]) < rng.random())
        for n, at in names.items()
    }
    first = Einsum(_data(maker, names, dense), tuple(names.items()), result)
    renamed = dict(zip(LETTERS, "wxyz", strict=True))

    def with_names(at: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renamed[i] for i in at)

    def same(found: Any) -> Any:
        return found

    shuffled = tuple(rng.sample(first.operands, count))
    back = tuple(reversed(result))
    variants: list[tuple[str, Einsum, Callable[[Any], Any]]] = [
        ("operands permuted", replace(first, operands=shuffled), same),
        ("formats changed", replace(first, made=_data(maker, names, dense)), same),
        (
            "indices renamed",
            replace(
                first,
                operands=tuple((n, with_names(at)) for n, at in shuffled),
                result=with_names(result),
            ),
            same,
        ),
        ("result transposed", replace(first, result=back), np.transpose),
        ("a factor inside", replace(first, factor=3), lambda found: found // 3),
        ("called twice", replace(first, times=2), same),
    ]
    if result:
        stored = "Element(0)"
        for _ in result:
            stored = f"{rng.choice(('SparseList', 'Dense', 'SparseByteMap', 'RunList'))}({stored})"
        variants.append(("into another format", replace(first, format=stored), same))
    name, at = first.operands[0]
    cut = max(1, sizes[at[0]] // 2)
    split = (
        *first.made,
        f"{name} = vcat(slice({name}, 1, 1:{cut}), slice({name}, 1, {cut + 1}:{sizes[at[0]]}))",
    )
    variants.append(("a mode cut and joined", replace(first, made=split), same))
    return first, variants


def _run(einsum: Einsum, engine: str) -> Any:
    session = Way(engine).session()
    session.run(einsum.text)
    found = session["R"]
    tensor = as_tensor(found)
    return np.asarray(found if tensor is None else tensor.to_numpy())


def differences(seed: int, engines: tuple[str, ...] = ("interpret", "native")) -> str:
    """What variants of the einsum of a seed give otherwise, or fail at; nothing if there is none."""
    first, variants = einsum_of(seed)
    said = []
    for engine in engines:
        expected = _run(first, engine)
        for what, variant, back in variants:
            try:
                found = back(_run(variant, engine))
            except FinchError as error:
                said.append(f"{engine}, {what}: {error}\n{variant.text}")
                continue
            if not np.array_equal(found, expected):
                said.append(
                    f"{engine}, {what}: {found} for {expected}\n{first.text}\n{variant.text}"
                )
    return "\n".join(said)
