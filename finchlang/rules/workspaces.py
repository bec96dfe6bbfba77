"""What Simplify does of workspaces: one that nothing is added to is its fill, and is not made."""

from __future__ import annotations

from operator import is_
from typing import Any

from finchlang.host.fold import compare
from finchlang.rules.context import bounds, rewrite_accesses
from finchlang.rules.engine import State
from finchlang.rules.expressions import resolve
from finchlang.rules.statements import is_refill
from finchlang.syntax import (
    Access,
    Block,
    Call,
    Declare,
    Freeze,
    Literal,
    Loop,
    Node,
    Sieve,
    Thaw,
    Value,
    Variable,
)
from finchlang.tensors.level import Fiber
from finchlang.walk import (
    COMPOUND,
    block,
    children,
    map_children,
    mentions,
    names,
    remembered,
    walk,
)


def without_dead(node: Node, state: State) -> Any:
    """`node` with these rewritings wherever they can be made; the very same object if there are none.

    E[block(..., declare(w, init, dims...), op..., freeze(w), E'[access(w, i...)], ...)] →
    E[block(..., declare(w, init, dims...), op..., freeze(w), E'[fill(w)], ...)]

    E[block(..., declare(w, init, dims...), op..., freeze(w), op'..., ...)] →
    E[block(..., op..., op'..., ...)]

    loop(i, extent(a, b), block(declare(w, ...), freeze(w), ...)) →
    sieve(a <= b, block(declare(w, ...), freeze(w), ...))

    Relies on: `op...` do not mention w; `init` is w's fill, and where nothing is stored w is a run of
    it. The second: w is the kernel's own, so that after this block nobody sees what it holds; `op'...`
    go up to where w is declared again, and do not mention it; `dims` compare no sizes. The third: the
    body mentions i nowhere, and no declaration mentions what it declares."""
    if not _declares(node):
        return node
    node = map_children(lambda child: without_dead(child, state), node)
    if isinstance(node, Block):
        return _without_dead(node, state)
    return _once(node) if isinstance(node, Loop) else node


@remembered
def _declares(node: Node) -> bool:
    if isinstance(node, COMPOUND):
        return any([_declares(child) for child in children(node)])
    return isinstance(node, Declare)


def _without_dead(node: Block, state: State) -> Node:
    statements = list(node.statements)
    for head in [s for s in statements if isinstance(s, Declare) and _is_run(s, state)]:
        start = next(k for k, s in enumerate(statements) if s is head)
        own = [k for k in range(start, len(statements)) if mentions(statements[k], head.tensor)]
        if len(own) < 2 or not isinstance(statements[own[1]], Freeze):
            continue
        again = next((k for k in own[2:] if _changes_mode(statements[k], head.tensor)), None)
        for k in own[2:]:
            if again is None or k < again:
                statements[k] = _filled(statements[k], head.tensor, state)
        is_left = any(mentions(s, head.tensor) for s in statements[own[1] + 1 : again])
        is_seen = again is not None and not isinstance(statements[again], Declare)
        if head.tensor.name in state.own and not (is_left or is_seen or _compares_sizes(head)):
            del statements[own[1]], statements[start]
    is_same = len(statements) == len(node.statements) and all(map(is_, statements, node.statements))
    return node if is_same else block(*statements)


def _is_run(head: Declare, state: State) -> bool:
    """Whether a tensor that is declared is a run of its fill as long as nothing is stored."""
    fiber = resolve(head.tensor, state)
    assert isinstance(fiber, Fiber)
    # (levels of runs over all coordinates store them too: what takes their place tells)
    parts = fiber.level.random_access().levels()
    has_runs = any(p.is_structured if p.is_leaf else not p.stores_fill for p in parts)
    return has_runs and isinstance(head.init, Literal) and not is_refill(head, fiber)


def _changes_mode(statement: Node, tensor: Variable) -> bool:
    return any(
        isinstance(n, (Declare, Freeze, Thaw)) and n.tensor == tensor for n in walk(statement)
    )


def _filled(statement: Node, tensor: Variable, state: State) -> Node:
    """A statement that reads the fill in place of a tensor's entries."""
    fill = resolve(tensor, state).fill_value()
    assert fill is not None

    def read(access: Access) -> Node:
        return fill if access.tensor == tensor else access

    return rewrite_accesses(read, statement)


def _compares_sizes(head: Declare) -> bool:
    return any(isinstance(n, Call) and n.op == Variable("meet") for n in walk(head))


def _once(loop: Loop) -> Node:
    """A loop that declares tensors and does nothing else declares them once."""
    body, region = loop.body, bounds(loop)
    statements = body.statements if isinstance(body, Block) else (body,)
    if region is None or not all(isinstance(s, (Declare, Freeze)) for s in statements):
        return loop
    heads = [s for s in statements if isinstance(s, Declare)]
    given = frozenset().union(*(names(n) for head in heads for n in (head.init, *head.dims)))
    if mentions(body, loop.index) or any((Variable, h.tensor.name) in given for h in heads):
        return loop
    return Sieve(Value(compare("le", *region)), body, span=loop.span)
