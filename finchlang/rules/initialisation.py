"""A derived rule, initialisation fusion: a dense tensor each entry of which a loop visits once is
initialised there, where an entry stays in a register, and LLVM drops what is overwritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import is_
from typing import Any

from finchlang.host.fold import ONE
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.expressions import UNDEFINED, evaluate, is_ready, resolve
from finchlang.rules.statements import is_refill
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Extent,
    Index,
    Loop,
    Node,
    Variable,
)
from finchlang.tensors.level import Fiber, Level
from finchlang.walk import accesses, mentions, names, replace, walk

#: what the indices of loops stand for: the loop's extent, or another index that is the same
Loops = Mapping[Node, Node]


@rule("Initialisation", is_derived=True)
def initialisation(machine: Machine, term: Node, state: State) -> Step | None:
    """block(..., declare(tns, init, dims...), op..., E[body], tail...) →
    block(..., declare(tns, undefined, dims...), op...,
    E[block(assign(access(tns, i...), :=, init), body)], tail...)

    Relies on: E is loops over each of `dims`, which are from 1 on, the last outermost, and
    definitions; it mentions tns as access(tns, i...) only, and reads at i... what is dense, so that
    it goes from one coordinate to the next anyway; `op...` do not mention tns; tns is dense and
    `init` its fill."""
    if not isinstance(term, Block):
        return None
    statements = list(term.statements)
    waiting: dict[tuple[type, str], int] = {}  # the places of declarations, by their tensors' names
    for place, statement in enumerate(term.statements):
        for name in sorted(names(statement) & waiting.keys(), key=waiting.__getitem__):
            head: Any = statements[at := waiting.pop(name)]
            loop = _with_initialisation(statements[place], head, state)
            if loop is not None:
                statements[at], statements[place] = replace(head, init=UNDEFINED), loop
        if isinstance(statement, Declare) and _is_filled(statement, state):
            waiting[Variable, statement.tensor.name] = place
    if all(map(is_, statements, term.statements)):
        return None
    return Block(tuple(statements)), state


def _is_filled(head: Declare, state: State) -> bool:
    """Whether a declaration fills a dense tensor with its fill."""
    fiber = resolve(head.tensor, state)
    if not isinstance(fiber, Fiber) or head.init == UNDEFINED or is_refill(head, fiber):
        return False
    return bool(head.dims) and all(map(_is_dense, fiber.level.levels()))


def _with_initialisation(node: Node, head: Declare, state: State) -> Node | None:
    """The first statement that mentions what `head` declares, with its initialisation."""
    fiber = resolve(head.tensor, state)
    own = [access for access in accesses(node) if access.tensor == head.tensor]
    if not own or any(access.indices != own[0].indices for access in own):
        return None
    assert isinstance(fiber, Fiber)
    first = Assign(Access(head.tensor, own[0].indices), Variable("overwrite"), fiber.level.fill)
    return _initialised(node, first, {}, head, state)


def _initialised(
    node: Node, first: Assign, loops: Loops, head: Declare, state: State
) -> Node | None:
    """`node` with `first` before what is done at each of its places, if all are visited once."""
    indices = first.target.indices
    if all(index in loops for index in indices):
        mentioned = [n for n in walk(node) if n == head.tensor]
        is_apart = len(mentioned) == sum(access.tensor == head.tensor for access in accesses(node))
        is_visited = is_apart and _visits_each(indices, loops, head, state)
        return Block((first, node)) if is_visited and _is_even(node, loops, state) else None
    match node:
        case Loop(index, Extent(start, stop, None) as extent, body):
            loops = {**loops, index: start if start == stop else extent}
        case Define(_, value, body) if not mentions(value, head.tensor):
            if not _is_even(value, loops, state):
                return None
        case _:
            return None
    inner = _initialised(body, first, loops, head, state)
    return None if inner is None else replace(node, body=inner)


def _visits_each(indices: tuple[Node, ...], loops: Loops, head: Declare, state: State) -> bool:
    """Whether the loops go over each dimension, in the order of storage, and over nothing else."""
    found = [_same(index, loops) for index in reversed(indices)]
    own = [name for name, what in loops.items() if isinstance(what, Extent)]
    is_whole = [loops.get(name) for name in found] == [*reversed(head.dims)]
    return found == own and is_whole and all(_is_from_one(extent, state) for extent in head.dims)


def _same(index: Node, loops: Loops) -> Node:
    """The index of the outermost loop that `index` is the same as."""
    while isinstance(own := loops.get(index), Index):
        index = own
    return index


def _is_from_one(extent: Node, state: State) -> bool:
    """Whether an extent leaves no coordinates out before it."""
    start = extent.start if isinstance(extent, Extent) else None
    return start is not None and is_ready(start) and evaluate(start, state) is ONE


def _is_even(node: Node, loops: Loops, state: State) -> bool:
    """Whether what `node` accesses has the same structure at each coordinate of the loops."""
    return all(
        level is not None and _is_dense(level)
        for access in accesses(node)
        for level, indices in _levels(access, state)
        if not indices or any(i in loops for index in indices for i in walk(index))
    )


def _levels(access: Access, state: State) -> Iterator[tuple[Level | None, tuple[Node, ...]]]:
    """The levels of a tensor with the indices of each, or in a wrapper with all; None for a mask."""
    tensor, rest = access.tensor, access.indices
    while isinstance(tensor, Call) and tensor.args:
        tensor = tensor.args[0]
    fiber = resolve(tensor, state) if isinstance(tensor, Variable) else tensor
    for level in fiber.level.levels() if isinstance(fiber, Fiber) else ():
        own = len(rest) - level.modes
        yield level, rest[own:] if tensor is access.tensor else access.indices
        rest = rest[:own]
    if not isinstance(fiber, Fiber):
        yield None, access.indices


def _is_dense(level: Level) -> bool:
    return level.is_dense or (level.is_leaf and not level.is_structured)
