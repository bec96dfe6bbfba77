"""The planner: for each loop nest, the order of loops, the format of the result, and how operands are
read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from finchlang.array.cost import MOST, Counts, candidates, dense_levels, intersections
from finchlang.array.loop_nest import LoopNest, Read
from finchlang.base.records import record
from finchlang.levels.element import Element
from finchlang.levels.level import Level, level_of
from finchlang.levels.scalars import Scalar
from finchlang.syntax.nodes import Index, Literal, Node
from finchlang.tensors.formats import Format, nest_of, permuted

#: so many candidates are listed in a plan's text
SHOWN = 4


@record
class Plan:
    """The loops of a nest, outermost first; the result's format; reads that are looked up (`followed`) or
    `galloped` at an index; candidates as text; whether entries of operands count (`is_counted`)."""

    order: tuple[Index, ...]
    format: Format
    followed: tuple[Read, ...]
    galloped: tuple[tuple[Read, Index], ...]
    told: str
    is_counted: bool


def planned(nest: LoopNest, is_dense: bool) -> Plan:
    """The plan of a nest: loops as operands are stored, if that is one order for all and nothing is reduced
    over several reads, or if there are too many loops; else in the cheapest order."""
    usual = order = tuple(loop_order(nest))
    followed: tuple[Read, ...] = ()
    sparse = [read for read in nest.reads if read.is_sparse]
    is_alike = all([read.follows(usual) for read in sparse])
    is_choice = not is_alike or bool(nest.reduced) and len(nest.reads) > 1
    told = f"{' '.join(i.name for i in usual)}, as operands are stored"
    if is_choice and len(nest.extents) <= MOST:
        found = candidates(nest)
        told = "by steps: " + ", ".join(map(str, found[:SHOWN]))
        # costs are estimates: within 5 % the order in which operands are stored is preferred
        near = [c for c in found if c.cost <= 1.05 * found[0].cost]
        best = next((c for c in near if c.order == usual), near[0])
        order, followed = best.order, best.followed
    meets = any(intersections(nest.absent))
    counts = Counts(nest, order, followed)
    galloped = tuple(counts.galloped(order)) if meets else ()
    told += "".join([f"; {read.name} is searched by {i.name}" for read, i in galloped])
    format = result_format(nest, counts, order, is_dense)
    is_counted = is_choice or meets or bool(nest.reduced and nest.kept)
    return Plan(order, format, followed, galloped, told, is_counted)


def loop_order(nest: LoopNest) -> list[Index]:
    """The loops, outermost first, in the order in which operands are stored. Where these contradict each
    other the one with the most sparse modes decides; what they leave open is column-major."""
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
    """Whether `other` comes before `index`, directly or transitively."""
    return other in before[index] or any(_reaches(before, i, other) for i in before[index])


def result_format(nest: LoopNest, counts: Counts, order: Sequence[Index], is_dense: bool) -> Format:
    """The format of the result, whose modes are stored in the order of the loops, swizzled if that is
    another than its own. It is dense if values are not known to have a fill. For a reduction a level is
    dense if it is expected to be full enough. Otherwise the result has the operands' format if that is one
    for all, or else a mode is dense where all operands have it dense, and a list where not."""
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
    return permuted(level, permutation)


def joining(
    nest: LoopNest, plan: Plan, groups: Sequence[tuple[Index, ...]], fill: Literal
) -> Plan | None:
    """The plan of a result in which each group of indices is joined into one mode, so that the loops of a
    group must be consecutive; None if an operand is stored in another order, or is looked up."""
    format = level_of(plan.format)
    levels = [level.is_dense for level in format.levels() for _ in range(level.modes)]
    are_dense = dict(zip(plan.order, levels, strict=True))
    sparse = [read for read in nest.reads if read.is_sparse]
    for order in permutations(groups):
        loops = tuple([index for group in order for index in group])
        if not plan.followed and all([read.follows(loops) for read in sparse]):
            level = nest_of([all([are_dense[i] for i in group]) for group in order], Element(fill))
            permutation = tuple([groups.index(group) + 1 for group in reversed(order)])
            told = f"{' '.join([i.name for i in loops])}, as modes become one"
            return replace(plan, order=loops, format=permuted(level, permutation), told=told)
    return None


def _is_dense(nest: LoopNest, counts: Counts, index: Index) -> bool:
    """Whether every read with this mode, but those that are looked up, has it dense, or its copy has."""
    found = [
        counts.are_dense[id(read)][index] if read.is_sparse else read.is_dense_at(index)
        for read in nest.reads
        if index in read.own and id(read) not in counts.followed
    ]
    return bool(found) and all(found)


def _same_format(nest: LoopNest, stored: list[Index]) -> Level | None:
    """The format, but for the fill, that all operands with sparse modes have; None if they differ, are not
    read in the order of the loops, or if the index type does not hold the extents."""
    formats: set[Level] = set()
    for read in nest.reads:
        levels = read.levels()
        if any(not level.is_dense for _, level in levels):
            if [index for index, _ in levels] != stored or len(levels) != len(read.indices):
                return None
            formats.add(level_of(read.format).with_leaf(Element(Literal(0.0))))
    if len(formats) != 1:
        return None
    (found,) = formats
    *parts, _ = found.levels()
    most = min(part.index_type.highest for part in parts)
    is_listed = all(level.is_dense or level.lists_entries for level in parts)
    return found if is_listed and all(nest.extents[index] <= most for index in stored) else None
