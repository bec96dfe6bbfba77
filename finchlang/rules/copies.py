"""The derived rule CopyFibers: empty fibers in a row take the arrays of others of the same layout."""

from __future__ import annotations

from finchlang.host.fold import ONE, add, sub
from finchlang.host.ir import Expr
from finchlang.looplets import Lookup
from finchlang.normalize.copies import copied
from finchlang.rules.context import bounded
from finchlang.rules.engine import Machine, State, Step, if_not_empty, rule
from finchlang.rules.expressions import evaluate_extent, is_ready
from finchlang.rules.prove import at_most
from finchlang.syntax import (
    EMPTY,
    Extent,
    Loop,
    Node,
)
from finchlang.tensors.compare import Frozen
from finchlang.tensors.level import READ, Fiber
from finchlang.tensors.stored import is_whole


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

    Relies on: the loops go over all of each dimension of the fibers, the last outermost, whose sizes are
    the same, and so is their fill; the levels can take those of the others as they are stored. None of
    those that are written, nor any behind them, has anything yet, as this loop and those around it go
    by their order. Fibers of dense levels alone are copied by their loops in fewer steps."""
    region, found = bounded(term), copied(term)
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
