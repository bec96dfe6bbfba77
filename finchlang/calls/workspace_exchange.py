"""The choice between the two formats of a workspace at a call, by the places it spans (compared in
Workspaces'24 section 7): a table of all places, or a format whose memory is in proportion to what is
written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np

from finchlang.calls.arguments import ARRAYS, SHAPE, Argument

#: A sum of terms (factor, name, mode): a multiple of a tensor's size in a mode (from 1), of a number (mode
#: 0), or of 1 (no name, mode 0).
Sum = tuple[tuple[int, str, int], ...]
#: the places of a workspace in each mode; and for each of its updates the sizes of the loops around it and
#: the tensors read there (no updates if that is not known)
Choice = tuple[tuple[Sum, ...], tuple[tuple[tuple[Sum, ...], tuple[str, ...]], ...]]


def to_exchange(
    spans: Mapping[str, Choice],
    given: Mapping[str, Argument],
    numbers: Mapping[str, int],
    stored: Iterable[np.ndarray],
) -> frozenset[str]:
    """The workspaces in `spans` that are better in their second format, for these arguments and numbers;
    `stored` are the arrays of the tensors that are read."""
    from finchlang.algebra import costs  # imported late: calls without workspaces do not need it

    def value(factor: int, name: str, mode: int) -> int:
        return factor * (given[name][SHAPE][mode - 1] if mode else numbers[name] if name else 1)

    def product(totals: tuple[Sum, ...]) -> int:
        return prod([sum([value(*part) for part in total]) for total in totals])

    def density(name: str) -> float:
        """The fraction of its places that a tensor stores, by the size of its last array, the values."""
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
            most = min(costs.MOST, costs.FEW * sum(expected or [entries // 2]))
            is_other = costs.LEAST <= places <= most
        if is_other:
            found.add(name)
    return frozenset(found)
