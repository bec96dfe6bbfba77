"""What a program's loops and results are like: the order of loops, and the format of each result, for
each statement by what it reads."""

from __future__ import annotations

from collections.abc import Sequence

from finchlang.array.cost import MOST, dense_levels, orders_by_cost
from finchlang.array.nest import Nest, Read
from finchlang.syntax import Index, Literal, Node
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element
from finchlang.tensors.level import Level, Swizzled
from finchlang.tensors.scalars import Scalar
from finchlang.tensors.sparse_coo import SparseCOO
from finchlang.tensors.sparse_list import SparseList

#: how many candidates are told of
SHOWN = 4


def planned(nest: Nest) -> tuple[list[Index], str]:
    """The loops from the outermost to the innermost, and what was chosen from; of a product that is
    reduced the cheapest order."""
    if not nest.is_product or not nest.reduced or len(nest.extents) > MOST:
        return loop_order(nest), ""
    candidates = orders_by_cost(nest)
    told = ", ".join(f"{' '.join(i.name for i in o)}: {cost:.2g}" for cost, o in candidates[:SHOWN])
    # of orders that cost the same the one that operands are stored in
    least, usual = candidates[0][0], tuple(loop_order(nest))
    if any(order == usual and cost <= 1.05 * least for cost, order in candidates):
        return [*usual], told
    return [*candidates[0][1]], told


def loop_order(nest: Nest) -> list[Index]:
    """The loops from the outermost to the innermost: as the operands are stored, the one with the most
    sparse modes first; what they leave open is as in a column-major array."""
    own = {*nest.kept, *nest.reduced}
    wanted = [[i for i, _ in read.levels() if i in own] for read in sorted(nest.reads, key=_weight)]
    wanted.append([*nest.reduced, *nest.kept[::-1]])
    before: dict[Node, set[Node]] = {index: set() for index in own}
    for chain in wanted:
        for k, index in enumerate(chain):
            for other in chain[:k]:
                if other != index and not _reaches(before, other, index):
                    before[index].add(other)
    order: list[Index] = []
    rest = list(dict.fromkeys(i for chain in wanted for i in chain))
    while rest:
        found = next(i for i in rest if before[i] <= set(order))
        order.append(found)
        rest.remove(found)
    return order


def _weight(read: Read) -> tuple[int, int]:
    sparse = [not level.is_dense for _, level in read.levels()]
    return -sum(sparse), -len(sparse)


def _reaches(before: dict[Node, set[Node]], index: Node, other: Node) -> bool:
    """Whether `other` comes before `index`, perhaps by way of others."""
    return other in before[index] or any(_reaches(before, i, other) for i in before[index])


def result_format(nest: Nest, order: Sequence[Index], is_dense: bool) -> Level | Swizzled:
    """The format of the result, whose modes are stored in the order of the loops: as that of the
    operands if they have the same, else dense where all of them are, and lists elsewhere. Where values
    are not known to be the fill, and of a reduction to one mode, it is dense."""
    leaf = Element(nest.values.fill)
    stored = [index for index in order if index in nest.kept]
    if not stored:
        return Scalar(nest.values.fill)
    level: Level
    same = None if nest.reduced else _same_format(nest, stored)
    if is_dense or not nest.values.is_fill or _is_reduced_to_one(nest, stored):
        level = nest_of([True] * len(stored), leaf)
    elif nest.is_product and nest.reduced:
        level = nest_of(dense_levels(nest, stored), leaf)
    elif same is not None:
        level = _over(same, leaf)
    else:
        are_dense = [_is_dense(nest, index) for index in stored]
        if all(are_dense):  # of different operands, each with sparse modes that are reduced
            are_dense[-1] = False
        level = nest_of(are_dense, leaf)
    permutation = tuple([nest.kept.index(index) + 1 for index in reversed(stored)])
    is_swizzled = permutation != tuple(range(1, len(stored) + 1))
    return Swizzled(level, permutation) if is_swizzled else level


def _is_reduced_to_one(nest: Nest, stored: list[Index]) -> bool:
    return bool(nest.reduced) and len(stored) == 1 and not nest.is_product


def nest_of(are_dense: list[bool], leaf: Level) -> Level:
    """Dense levels and lists, the outermost first."""
    for is_dense in reversed(are_dense):
        leaf = Dense(leaf) if is_dense else SparseList(leaf)
    return leaf


def _over(format: Level, leaf: Level) -> Level:
    return leaf if format.is_leaf else format.with_child(_over(format.child, leaf))


def _is_dense(nest: Nest, index: Index) -> bool:
    found = [level.is_dense for read in nest.reads for i, level in read.levels() if i == index]
    return bool(found) and all(found)


def _same_format(nest: Nest, stored: list[Index]) -> Level | None:
    """The format that all operands with sparse modes have, if they are read in the order of the loops."""
    formats: list[Level] = []
    for read in nest.reads:
        levels = read.levels()
        if any(not level.is_dense for _, level in levels):
            if [index for index, _ in levels] != stored:
                return None
            formats.append(read.format.level if isinstance(read.format, Swizzled) else read.format)
    plain = [_over(format, Element(Literal(0.0))) for format in formats]
    if not plain or any(format != plain[0] for format in plain):
        return None
    *parts, _ = plain[0].levels()
    return (
        plain[0]
        if all(isinstance(level, (Dense, SparseList, SparseCOO)) for level in parts)
        else None
    )
