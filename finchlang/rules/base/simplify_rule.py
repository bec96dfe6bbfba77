"""The Simplify rule: the algebra of `algebra/simplify.py`, and rewritings that need the bound tensors: a
workspace that nothing is added to reads as its fill, and is not made."""

from __future__ import annotations

from operator import is_
from typing import Any

from finchlang.algebra.bounds import bounds
from finchlang.algebra.program_context import statements_of
from finchlang.algebra.simplify import first_rewriting, simplify
from finchlang.host.construct import compare
from finchlang.host.engine import Machine, Step, rule
from finchlang.levels.level import Fiber
from finchlang.rules.base import context, expressions
from finchlang.rules.base.state import State
from finchlang.rules.base.statements import is_refill
from finchlang.syntax import nodes as ast, traversal as trees


@rule("Simplify", steps=("Simplify",), says="{change} ({law}).")
def simplify_rule(machine: Machine, term: ast.Node, state: State) -> Step | None:
    """⟨node, algebra⟩ → node'  ⟹  ⟨E[node], s⟩ → ⟨E[node'], s⟩

    These steps are taken until none is left, the innermost first."""
    if machine.tracer is None:
        simple = _simpler(term, state)
        return None if simple is term else (simple, state)
    first = term
    while (found := first_rewriting(term)) is not None:
        (law, simple), before = found, term
        machine.tell("Simplify", lambda before=before, after=simple: (before, after), law=law)  # type: ignore
        term = simple
    if term is first and (term := without_dead(first, state)) is not first:
        machine.tell("Simplify", lambda: (first, term), law="dead workspace")
    return None if term is first else (term, state)


def is_nothing(term: ast.Node, state: State) -> bool:
    """Whether Simplify leaves nothing of a term."""
    while (left := _simpler(term, state)) is not term:
        term = left
    return ast.is_empty(term)


def _simpler(term: ast.Node, state: State) -> Any:
    """A term that is equal in this state; the very same object if there is nothing to do."""
    simple = simplify(term)
    return without_dead(simple, state) if simple is term else simple


def without_dead(node: ast.Node, state: State) -> Any:
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
    node = trees.map_children(lambda child: without_dead(child, state), node)
    if isinstance(node, ast.Block):
        return _without_dead(node, state)
    return _once(node) if isinstance(node, ast.Loop) else node


@trees.remembered
def _declares(node: ast.Node) -> bool:
    if isinstance(node, trees.COMPOUND):
        return any([_declares(child) for child in trees.children(node)])
    return isinstance(node, ast.Declare)


def _without_dead(node: ast.Block, state: State) -> ast.Node:
    statements = list(node.statements)
    for head in [s for s in statements if isinstance(s, ast.Declare) and _is_run(s, state)]:
        start = next(k for k, s in enumerate(statements) if s is head)
        rest = range(start, len(statements))
        own = [k for k in rest if trees.mentions(statements[k], head.tensor)]
        if len(own) < 2 or not isinstance(statements[own[1]], ast.Freeze):
            continue
        kinds = ast.Declare, ast.Freeze, ast.Thaw
        found = ((k, n) for k in own[2:] for n in trees.find_all(statements[k], *kinds))
        changes = (k for k, n in found if n.tensor == head.tensor)
        again = next(changes, None)
        for k in own[2:]:
            if again is None or k < again:
                statements[k] = _filled(statements[k], head.tensor, state)
        is_left = any(trees.mentions(s, head.tensor) for s in statements[own[1] + 1 : again])
        is_seen = again is not None and not isinstance(statements[again], ast.Declare)
        compares_sizes = any(map(ast.is_meet, trees.walk(head)))
        if head.tensor.name in state.own and not (is_left or is_seen or compares_sizes):
            del statements[own[1]], statements[start]
    is_same = len(statements) == len(node.statements) and all(map(is_, statements, node.statements))
    return node if is_same else trees.block(*statements)


def _is_run(head: ast.Declare, state: State) -> bool:
    """Whether a declared tensor reads as a run of its fill while nothing is stored."""
    fiber = expressions.resolve(head.tensor, state)
    assert isinstance(fiber, Fiber)
    # a level of runs over all coordinates stores its fill, too, as the level in its place here says
    parts = fiber.level.random_access().levels()
    has_runs = any(p.is_structured if p.is_leaf else not p.stores_fill for p in parts)
    return has_runs and isinstance(head.init, ast.Literal) and not is_refill(head, fiber)


def _filled(statement: ast.Node, tensor: ast.Variable, state: State) -> ast.Node:
    fill = expressions.resolve(tensor, state).fill_value()
    assert fill is not None

    def read(access: ast.Access) -> ast.Node:
        return fill if access.tensor == tensor else access

    return context.rewrite_accesses(read, statement)


def _once(loop: ast.Loop) -> ast.Node:
    """A loop that only declares and freezes tensors, made to do so once."""
    body, region = loop.body, bounds(loop)
    statements = statements_of(body)
    if region is None or not all(isinstance(s, (ast.Declare, ast.Freeze)) for s in statements):
        return loop
    heads = [s for s in statements if isinstance(s, ast.Declare)]
    given = frozenset().union(*(trees.names(n) for head in heads for n in (head.init, *head.dims)))
    declared = {(ast.Variable, h.tensor.name) for h in heads}
    if trees.mentions(body, loop.index) or not declared.isdisjoint(given):
        return loop
    return ast.Sieve(ast.Value(compare("le", *region)), body, span=loop.span)
