"""The derived rules Copy and CopyFibers: a tensor that is empty, or fibers in a row of one, take the arrays
of another one of the same layout."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.host.fold import ONE, ZERO, add, sub
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup
from finchlang.normalize.context import PLAIN
from finchlang.rules.context import bounded
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.expressions import evaluate_extent, is_ready, resolve
from finchlang.rules.prove import at_most
from finchlang.syntax import (
    EMPTY,
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Extent,
    Loop,
    Node,
    Variable,
)
from finchlang.tensors.compare import Frozen
from finchlang.tensors.level import READ, Fiber
from finchlang.tensors.stored import is_whole
from finchlang.walk import block, mentions


@rule("Copy", is_derived=True)
def copy(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨op..., s⟩ → (e, t, d), e(tns) = tns', e(tns2) = tns2', ⟨⟨take(tns', tns2'), t⟩⟩ → t'  ⟹
    ⟨block(op..., loop(j, dim, loop(i, dim2, assign(access(tns, i, j), :=, access(tns2, i, j)))),
    tail...), s⟩ → ⟨block(tail...), (e, t', d)⟩

    Relies on: `op...` declare tns and mention it no more, but for its sizes, so that it is empty; the
    loops go over all of each dimension, the last outermost, the sizes of both are the same, and so
    is their fill; the levels of tns can take those of tns2 as they are stored."""
    if not isinstance(term, Block):
        return None
    found = next(_copies(term, state), None)
    if found is None:
        return None
    before, after = term.statements[:found], term.statements[found + 1 :]
    state = machine.run(block(*before), state)
    if not _take(term.statements[found], state):
        return Block(term.statements[found:]), state
    return block(*after) if after else EMPTY, state


def _copies(term: Block, state: State) -> Iterator[int]:
    """Which statements copy all of a tensor to one that is declared before and not mentioned since."""
    declared: dict[str, int] = {}
    for at, statement in enumerate(term.statements):
        if isinstance(statement, Declare):
            declared[statement.tensor.name] = at
        parts = _parts(statement)
        if parts is None or (start := declared.get(parts[0].name)) is None:
            continue
        between = [s for s in term.statements[start + 1 : at] if not isinstance(s, Declare)]
        own, other = (resolve(name, state) for name in parts)
        if not isinstance(own, Fiber) or not isinstance(other, Fiber):
            continue
        if own.level.takes(other.level) and not any(mentions(s, parts[0]) for s in between):
            yield at


def _parts(statement: Node) -> tuple[Variable, Variable] | None:
    """What is copied to, and what from, if a statement is loops that copy each element of a tensor."""
    found = _copied(statement)
    names = found and tuple(access.tensor for access in found)
    is_bare = names and all(isinstance(name, Variable) for name in names) and names[0] != names[1]
    return names if is_bare else None  # type: ignore[return-value]


def _copied(statement: Node) -> tuple[Access, Access] | None:
    """The accesses on both sides, if a statement is loops over all of their indices and assigns what is
    on the right as it is."""
    loops, body = [], statement
    while isinstance(body, Loop):
        loops.append(body.index)
        body = body.body
    if not isinstance(body, Assign) or not loops or not isinstance(body.value, Access):
        return None
    target, value = body.target, body.value
    written = body.op.op if isinstance(body.op, Call) else body.op
    is_plain = written in PLAIN
    is_same = target.indices == value.indices == tuple(reversed(loops))
    return (target, value) if is_plain and is_same else None


def _take(statement: Node, state: State) -> bool:
    """Copy, if sizes agree."""
    parts = _parts(statement)
    assert parts is not None
    own, other = (resolve(name, state) for name in parts)
    assert isinstance(own, Fiber) and isinstance(other, Fiber)
    if other.mode != READ or not _are_whole(statement, own, other, state):
        return False
    own.level.take(state.host, own.store, own.dims, ZERO, Frozen(other.store, ZERO, ONE))
    return True


def _are_whole(statement: Node, own: Fiber, other: Fiber, state: State) -> bool:
    """Whether loops go over all of each dimension of two fibers, whose sizes are the same."""
    for size, same in zip(reversed(own.dims), reversed(other.dims), strict=True):
        assert isinstance(statement, Loop)
        extent = statement.extent
        if not isinstance(extent, Extent) or not is_ready(extent):
            return False
        start, stop, _ = evaluate_extent(extent, state)
        if start != ONE or not all(_are_equal(stop, x) for x in (size, same)):
            return False
        statement = statement.body
    return True


def _are_equal(a: Expr, b: Expr) -> bool:
    return at_most(a, b) and at_most(b, a)


@rule("CopyFibers", is_derived=True)
def copy_fibers(machine: Machine, term: Node, state: State) -> Step | None:
    """⟨⟨take(body(a)..body(b), body2(a)..body2(b)), t⟩⟩ → t'  ⟹
    ⟨loop(i, extent(a, b), loop(j, dim, assign(access(lookup(body), j, i), :=, access(lookup(body2),
    j, i)))), (e, t, d)⟩ → (e, t', d)

    Relies on what Copy does, of fibers in a row in place of a tensor: none of those that are written,
    nor any behind them, has anything yet, as this loop and those around it go by their order. Fibers
    of dense levels alone are copied by their loops in fewer steps."""
    region, found = bounded(term), _copied(term)
    if region is None or found is None:
        return None
    assert isinstance(term, Loop)
    lookups = [access.tensor for access in found]
    if not all(isinstance(x, Lookup) and x.in_a_row for x in lookups):
        return None
    start, stop = region
    own, other = (x.body(state.host, start) for x in lookups)  # type: ignore[attr-defined]
    if not isinstance(own, Fiber) or not isinstance(other, Fiber) or own.dirty is not None:
        return None
    if other.mode != READ or own.mode == READ or not own.level.takes(other.level):
        return None
    if is_whole(own.level) or not _are_whole(term.body, own, other, state):
        return None

    def take() -> None:
        source = Frozen(other.store, other.position, add(sub(stop, start), 1))
        own.level.take(state.host, own.store, own.dims, own.position, source)

    if_not_empty(state.host, start, stop, take)
    return EMPTY, state
