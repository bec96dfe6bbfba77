"""Equal rests of a loop nest are staged once. Where sparse operands meet, each combination of operands that
have something at a coordinate goes on with a nest of its own, in each mode again; but in each mode only as
many nests differ as there are combinations. The xor of two tensors of five modes compiles in 270 ms in
place of 430, of three in 730 ms in place of 2,530."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from finchlang.host.ir import Cell, Const, Expr, Var
from finchlang.levels.level import Fiber
from finchlang.rules.base import context
from finchlang.rules.base.state import State
from finchlang.syntax import nodes as ast, traversal as trees, types


def shared(term: ast.Loop, state: State, run: Callable[[ast.Loop], object]) -> bool:
    """Run a nest with variables in place of the positions of its fibers, and of the cells that say whether
    fibers were written to. Nothing is known of these variables, so that what is recorded is right for all
    nests that differ in them alone (`Host.share`). False if there is nothing to share.

    Innermost loops are not shared: a sum of two tensors would take 1.1 times as long."""
    tensors = [access.tensor for access in context.accesses_in(term)]
    is_nest = any(isinstance(node, ast.Loop) for node in trees.walk(term.body))
    if not is_nest or not all(isinstance(tensor, (Fiber, ast.Variable)) for tensor in tensors):
        return False
    fibers = [tensor for tensor in tensors if isinstance(tensor, Fiber)]
    positions = dict.fromkeys(f.position for f in fibers if not isinstance(f.position, Const))
    if not positions:
        return False
    cells = dict.fromkeys(c for f in fibers for c in (f.dirty, f.written) if c is not None)
    stands_in: dict[Any, Any] = {p: _position(k) for k, p in enumerate(positions)}
    stands_in |= {c: _cell(k) for k, c in enumerate(cells)}
    around = frozenset((name, state.tensors.get(name)) for _, name in trees.names(term))
    key = _with(term, stands_in), around, state.declared, state.own, state.sizes

    def body(own_positions: tuple[Expr, ...], own_cells: tuple[Cell, ...]) -> None:
        own = dict(zip((*positions, *cells), (*own_positions, *own_cells), strict=True))
        run(_with(term, own))

    state.host.share(key, tuple(positions), tuple(cells), body)
    return True


@cache
def _position(number: int) -> Var:
    """The placeholder for a position where nests are compared."""
    return Var(f"p{number}", types.Int64)


@cache
def _cell(number: int) -> Cell:
    return Cell(f"c{number}", types.Bool)


def _with(term: ast.Node, own: dict[Any, Any]) -> Any:
    def visit(node: ast.Node) -> ast.Node:
        if type(node) is not ast.Access or not isinstance(fiber := node.tensor, Fiber):
            return trees.map_children(visit, node)
        position, dirty = own.get(fiber.position, fiber.position), own.get(fiber.dirty)
        written = own.get(fiber.written)
        moved = replace(fiber, position=position, dirty=dirty, written=written)
        return trees.replace(node, tensor=moved)

    return visit(term)
