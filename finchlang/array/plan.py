"""What a program's loops and results are like: the order of loops, and the format of each result, for
each statement by what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from finchlang.array.cost import MOST, Counts, candidates, dense_levels, intersections
from finchlang.array.loop_nest import LoopNest, Read
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.levels.scalars import Scalar
from finchlang.levels.sparse_list import SparseList
from finchlang.syntax.nodes import Index, Literal, Node

#: how many candidates are told of
SHOWN = 4


@dataclass(frozen=True)
class Plan:
    """The loops of a nest, the outermost first, the format of the result, the reads that are looked up,
    those that are searched at an index, and what was chosen from; whether counts decided."""

    order: tuple[Index, ...]
    format: Level | Swizzled
    followed: tuple[Read, ...]
    galloped: tuple[tuple[Read, Index], ...]
    told: str
    is_counted: bool


def planned(nest: LoopNest, is_dense: bool) -> Plan:
    """The plan of a nest: as the operands are stored where all are stored alike, else the cheapest order
    of loops."""
    usual = order = tuple(loop_order(nest))
    followed: tuple[Read, ...] = ()
    sparse = [read for read in nest.reads if read.is_sparse]
    is_alike = all([read.follows(usual) for read in sparse])
    is_choice = not is_alike or bool(nest.reduced) and len(nest.reads) > 1
    told = f"{' '.join(i.name for i in usual)}, as operands are stored"
    if is_choice and len(nest.extents) <= MOST:
        found = candidates(nest)
        told = "by steps: " + ", ".join(map(str, found[:SHOWN]))
        # of orders that cost the same the one that operands are stored in
        near = [c for c in found if c.cost <= 1.05 * found[0].cost]
        best = next((c for c in near if c.order == usual), near[0])
        order, followed = best.order, best.followed
    meets = any(intersections(nest.space))
    counts = Counts(nest, order, followed)
    galloped = tuple(counts.galloped(order)) if meets else ()
    told += "".join([f"; {read.name} is searched by {i.name}" for read, i in galloped])
    format = result_format(nest, counts, order, is_dense)
    is_counted = is_choice or meets or bool(nest.reduced and nest.kept)
    return Plan(order, format, followed, galloped, told, is_counted)


def loop_order(nest: LoopNest) -> list[Index]:
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


def result_format(
    nest: LoopNest, counts: Counts, order: Sequence[Index], is_dense: bool
) -> Level | Swizzled:
    """The format of the result, whose modes are stored in the order of the loops. Where values are not
    known to be the fill it is dense; a reduction's is as full as is expected; else it is as that of the
    operands if they have the same, or dense where all of them are, and lists elsewhere."""
    leaf = Element(nest.values.fill)
    stored = [index for index in order if index in nest.kept]
    if not stored:
        return Scalar(nest.values.fill)
    level: Level
    if is_dense or not nest.values.is_fill:
        level = nest_of([True] * len(stored), leaf)
    elif nest.reduced:
        level = nest_of(dense_levels(nest, stored), leaf)
    else:
        same = _same_format(nest, stored)
        are_dense = [_is_dense(nest, counts, index) for index in stored]
        level = nest_of(are_dense, leaf) if same is None else same.with_leaf(leaf)
    permutation = tuple([nest.kept.index(index) + 1 for index in reversed(stored)])
    is_swizzled = permutation != tuple(range(1, len(stored) + 1))
    return Swizzled(level, permutation) if is_swizzled else level


def joining(
    nest: LoopNest, plan: Plan, groups: Sequence[tuple[Index, ...]], fill: Literal
) -> Plan | None:
    """The plan of a result in which the indices of each group are one mode, so that loops over those of
    a group are in a row; None where operands are stored in another order."""
    format = level_of(plan.format)
    levels = [level.is_dense for level in format.levels() for _ in range(level.modes)]
    are_dense = dict(zip(plan.order, levels, strict=True))
    sparse = [read for read in nest.reads if read.is_sparse]
    for order in permutations(groups):
        loops = tuple([index for group in order for index in group])
        if not plan.followed and all([read.follows(loops) for read in sparse]):
            level = nest_of([all([are_dense[i] for i in group]) for group in order], Element(fill))
            permutation = tuple([groups.index(group) + 1 for group in reversed(order)])
            is_plain = permutation == tuple(range(1, len(groups) + 1))
            new = level if is_plain else Swizzled(level, permutation)
            told = f"{' '.join([i.name for i in loops])}, as modes become one"
            return replace(plan, order=loops, format=new, told=told)
    return None


def nest_of(are_dense: list[bool], leaf: Level) -> Level:
    """Dense levels and lists, the outermost first."""
    for is_dense in reversed(are_dense):
        leaf = Dense(leaf) if is_dense else SparseList(leaf)
    return leaf


def _is_dense(nest: LoopNest, counts: Counts, index: Index) -> bool:
    """Whether all that has a mode has it dense, of copies those."""
    found = [
        counts.are_dense[id(read)][index] if read.is_sparse else read.is_dense_at(index)
        for read in nest.reads
        if index in read.own and id(read) not in counts.followed
    ]
    return bool(found) and all(found)


def _same_format(nest: LoopNest, stored: list[Index]) -> Level | None:
    """The format that all operands with sparse modes have, if they are read in the order of the loops and
    its indices have room for the extents of these."""
    formats: list[Level] = []
    for read in nest.reads:
        levels = read.levels()
        if any(not level.is_dense for _, level in levels):
            if [index for index, _ in levels] != stored or len(levels) != len(read.indices):
                return None
            formats.append(level_of(read.format))
    plain = [format.with_leaf(Element(Literal(0.0))) for format in formats]
    if not plain or any(format != plain[0] for format in plain):
        return None
    *parts, _ = plain[0].levels()
    if max(nest.extents.get(index, 0) for index in stored) > min(
        part.index_type.highest for part in parts
    ):
        return None
    return plain[0] if all(level.is_dense or level.lists_entries for level in parts) else None
