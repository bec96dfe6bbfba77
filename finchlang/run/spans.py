"""How many places the byte maps among a kernel's workspaces span, as far as a call knows it, and whether
that is too much for what the kernel is called on: then it is compiled with other workspaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from finchlang.normalize.context import is_call
from finchlang.normalize.shifts import length, terms
from finchlang.syntax import Declare, Define, Extent, Literal, Node, Variable
from finchlang.tensors.level import Level
from finchlang.tensors.sparse_bytemap import SparseByteMap
from finchlang.walk import walk

#: up to so many places a byte map is never too much
PLACES = 1 << 22

#: above, it may have so many for each entry of the arrays of the tensors that the kernel reads
PER_ENTRY = 16

#: A sum of multiples of: the size of a tensor in a mode, counted from 1; a number, of mode 0; and 1,
#: which has no name.
Sum = tuple[tuple[int, str, int], ...]


def spans(program: Node, workspaces: Mapping[str, Level]) -> dict[str, Sum]:
    """For the workspaces of `program`, in normal form, that are byte maps of one mode, how many places
    they have, if that is known before it begins."""
    maps = {n for n, level in workspaces.items() if isinstance(level, SparseByteMap)}
    sizes, found = _Sizes(), {}
    for node in walk(program) if maps else ():
        if isinstance(node, Define):
            sizes.known[node.variable.name] = node.value
        elif isinstance(node, Declare):
            name, dims = node.tensor.name, tuple(map(sizes.extent, node.dims))
            sizes.declared[name] = dims
            if name in maps and len(dims) == 1 and dims[0] is not None:
                found[name] = dims[0]
    return found


class _Sizes:
    """What is known of a program up to some place: the values of `let`, and the dimensions of what is
    declared."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}
        self.declared: dict[str, tuple[Sum | None, ...]] = {}

    def extent(self, node: Any) -> Sum | None:
        """How many coordinates an extent has."""
        if isinstance(node, Variable) and node.name in self.known:
            return self.extent(self.known[node.name])
        if is_call(node, "meet"):  # all that meet agree
            return next((s for s in map(self.extent, node.args) if s is not None), None)
        return self.sum(length(node)) if isinstance(node, Extent) else None

    def sum(self, node: Node) -> Sum | None:
        total: list[tuple[int, str, int]] = []
        for sign, term in terms(node):
            part = self.term(term)
            if part is None:
                return None
            total += [(sign * factor, name, mode) for factor, name, mode in part]
        return tuple(total)

    def term(self, node: Any) -> Sum | None:
        if isinstance(node, Literal) and isinstance(node.value, int):
            return ((node.value, "", 0),)
        if isinstance(node, Variable):
            known = self.known.get(node.name)
            return ((1, node.name, 0),) if known is None else self.sum(known)
        if not is_call(node, "size"):
            return None
        name, mode = node.args[0].name, node.args[1].value
        dims = self.declared.get(name)
        return ((1, name, mode),) if dims is None else dims[mode - 1]


def sum_text(total: Sum) -> str:
    """`total` for people: `size(A, 1) + n - 1`."""
    text = ""
    for factor, name, mode in total:
        part = f"size({name}, {mode})" if mode else name or str(abs(factor))
        text += f" {'-' if factor < 0 else '+'} {part}"
    return text.removeprefix(" + ").strip()


def are_too_large(
    spans: Iterable[Sum],
    shapes: Mapping[str, Sequence[int]],
    numbers: Mapping[str, int],
    stored: Iterable[np.ndarray],
) -> bool:
    """Whether one of `spans` is too much where the tensors have these shapes, the numbers these values,
    and `stored` are the arrays of what is read."""

    def value(factor: int, name: str, mode: int) -> int:
        return factor * (shapes[name][mode - 1] if mode else numbers[name] if name else 1)

    most = max(sum(value(*part) for part in total) for total in spans)
    return most > PLACES and most > PER_ENTRY * sum(array.size for array in stored)
