"""The derived rule Copy: a tensor that is empty takes the arrays of another one of the same layout."""

from __future__ import annotations

from collections.abc import Iterator

from finchlang.host.fold import ONE
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.expressions import evaluate_extent, is_ready, resolve
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
from finchlang.tensors.level import READ, Fiber
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
    """What is copied to, and what from, if a statement is loops that copy each element."""
    loops, body = [], statement
    while isinstance(body, Loop):
        loops.append(body.index)
        body = body.body
    if not isinstance(body, Assign) or not loops or not isinstance(body.value, Access):
        return None
    target, value = body.target, body.value
    names = target.tensor, value.tensor
    written = body.op.op if isinstance(body.op, Call) else body.op
    is_plain = written in (Variable("initwrite"), Variable("overwrite"))
    is_same = target.indices == value.indices == tuple(reversed(loops))
    is_bare = all(isinstance(name, Variable) for name in names) and names[0] != names[1]
    return names if is_plain and is_same and is_bare else None  # type: ignore[return-value]


def _take(statement: Node, state: State) -> bool:
    """Copy, if sizes agree."""
    parts = _parts(statement)
    assert parts is not None
    own, other = (resolve(name, state) for name in parts)
    assert isinstance(own, Fiber) and isinstance(other, Fiber)
    if other.mode != READ or own.dims != other.dims:
        return False
    for size in reversed(own.dims):
        assert isinstance(statement, Loop)
        extent = statement.extent
        if not isinstance(extent, Extent) or not is_ready(extent):
            return False
        if evaluate_extent(extent, state)[:2] != (ONE, size):
            return False
        statement = statement.body
    own.level.take(state.host, own.store, own.dims, other.store, ONE)
    return True
