"""Which of their two formats workspaces have in a call, by how many places they span (Workspaces'24
section 7 compares them): a table of all places, or what takes memory for what is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from finchlang.calls.arguments import ARRAYS, SHAPE, Argument

#: A sum of multiples of: the size of a tensor in a mode, counted from 1; a number, of mode 0; and 1,
#: which has no name.
Sum = tuple[tuple[int, str, int], ...]
#: the places in each mode of a workspace; and of its updates the sizes of the loops around, and what is
#: read there; none where that is not known
Choice = tuple[tuple[Sum, ...], tuple[tuple[tuple[Sum, ...], tuple[str, ...]], ...]]


def sum_text(total: Sum) -> str:
    """`total` for people: `size(A, 1) + n - 1`."""
    text = ""
    for factor, name, mode in total:
        part = f"size({name}, {mode})" if mode else name or str(abs(factor))
        text += f" {'-' if factor < 0 else '+'} {part}"
    return text.removeprefix(" + ").strip()


def choice(totals: tuple[Sum, ...], updates: tuple[Any, ...]) -> str:
    """Between what formats their product decides, for people."""
    from finchlang.algebra import costs

    if len(totals) == 1 and updates:
        other = (
            f"more than {costs.SHORT}, and than {costs.PER_UPDATE} for each update that is expected"
        )
        return f"a byte map; if {other}, a list"
    if len(totals) == 1:
        other = f"more than {costs.PLACES}, and than {costs.PER_ENTRY}"
        return f"a byte map; if {other} for each entry of what is read, a list"
    most = f"{costs.LEAST} to {costs.MOST}, and at most {costs.FEW}"
    return f"a list; if {most} for each update that is expected, flags"


def to_exchange(
    spans: Mapping[str, Choice],
    given: Mapping[str, Argument],
    numbers: Mapping[str, int],
    stored: Iterable[np.ndarray],
) -> frozenset[str]:
    """Which of the workspaces in `spans` had better have their second format, where these tensors are
    given, the numbers have these values, and `stored` are the arrays of what is read."""
    from finchlang.algebra import costs  # of no use to a call whose kernel has no workspace

    def value(factor: int, name: str, mode: int) -> int:
        return factor * (given[name][SHAPE][mode - 1] if mode else numbers[name] if name else 1)

    def product(totals: tuple[Sum, ...]) -> int:
        return prod([sum([value(*part) for part in total]) for total in totals])

    def density(name: str) -> float:
        """The part of its places that a tensor stores; values are its last array."""
        arrays, places = given[name][ARRAYS], prod(given[name][SHAPE])
        return min(1.0, arrays[-1].size / places) if arrays and places else 1.0

    entries, found = sum([array.size for array in stored]), set()
    for name, (totals, updates) in spans.items():
        places = product(totals)
        expected = [product(loops) * prod(map(density, read)) for loops, read in updates]
        if len(totals) == 1 and expected:
            is_other = places > max(costs.SHORT, costs.PER_UPDATE * sum(expected))
        elif len(totals) == 1:
            is_other = places > max(costs.PLACES, costs.PER_ENTRY * entries)
        else:
            is_other = (
                costs.LEAST
                <= places
                <= min(costs.MOST, costs.FEW * sum(expected or [entries // 2]))
            )
        if is_other:
            found.add(name)
    return frozenset(found)
