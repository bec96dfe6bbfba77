"""The operators by which workspaces combine what was written to one place (Workspaces'24 section 4.3)."""

from __future__ import annotations

from typing import Any

from finchlang.algebra.expression_types import type_of
from finchlang.algebra.program_context import PLAIN, ProgramContext, root
from finchlang.base.errors import FinchError
from finchlang.levels.workspace import POLICIES
from finchlang.levels.workspace.workspace import Workspace, identity, merging
from finchlang.operators.operator_table import operator
from finchlang.syntax import traversal as trees, types
from finchlang.syntax.nodes import Access, Assign, Node
from finchlang.text.print import pretty


def combine(program: Node, context: ProgramContext) -> None:
    """Give workspaces their operators. Raises FinchError "type" where merging would change the meaning."""
    updates: dict[str, list[Assign]] = {}
    for node in trees.walk(program):
        if isinstance(node, Assign):
            name = root(node.target.tensor)
            assert name is not None
            if context.level(name).combines:
                updates.setdefault(name, []).append(node)
    in_place = {work: tensor for tensor, work in context.workspace_of.items()}
    for name, own in updates.items():
        level: Any = context.formats[name]
        # the copies of a tensor that is updated in place, each entry once and before all updates
        copies = {id(a) for a in own if name in in_place and _copied(a) == in_place[name]}
        own = [a for a in own if id(a) not in copies] or own
        op = _operator(own, level.element_type)
        if copies and op is not None and not _keeps_first(op, level):
            op = None
        if op is None:
            _check(program, name, own[0], context)
        context.formats[name] = level = level.combining(op)
        context.decide("workspaces", f"`{name}` has the {level.described}")


def _copied(update: Assign) -> str | None:
    return root(update.value.tensor) if isinstance(update.value, Access) else None


def _keeps_first(op: Node, level: Workspace) -> bool:
    """Whether the first value of a new entry makes it `fill op value`, as where nothing was stored."""
    row = operator(op)
    assert row is not None
    return not row.keeps_old or level.combining(op).beginning == level.fill


def _operator(updates: list[Assign], type: types.Type) -> Node | None:
    """The operator by which values made by any of `updates` are combined; None if there is none."""
    found = {merging(assign.op) for assign in updates}
    op = found.pop()
    row = operator(op) if op is not None else None
    if found or op is None or row is None:
        return None
    if len(updates) > 1 and not row.commutative:
        return None  # they may write to entries that are not made in this order
    if row.keeps_old and identity(row, type) is None:
        return None
    if type.is_integer and not row.is_modular:  # the low bits of wider values would not do
        values = [type_of(assign.value) for assign in updates]
        if any(value is not None and types.promote(type, value) != type for value in values):
            return None
    return op


def _check(program: Node, name: str, update: Assign, context: ProgramContext) -> None:
    level: Any = context.formats[name]
    must_merge = bool(level.policy) and not POLICIES[level.policy].combines
    if not must_merge and not level.capacity:
        return
    made = f"Workspace{{{level.number}, hash}}({level.lvl})"
    if name in context.workspaces:  # an inserted one is called by the tensor that it is copied to
        updates = trees.find_all(program, Assign)
        copies = (root(n.target.tensor) for n in updates if _copied(n) == name)
        name = next(copies, None) or name
        made = f"`@workspace {context.written(name)} policy=hash`"
    what = f"the policy {level.policy}" if must_merge else f"a capacity of {level.capacity}"
    shown = "=" if update.op in PLAIN else f"{pretty(update.op)}="
    message = f"`{context.written(name)}` has {what} and would be merged, which would change what "
    message += f"`{shown}` means: it is no associative operator with an identity (of updates in "
    message += "place, the fill), or not the only one"
    raise FinchError("type", message, update.span, f"the policy hash without a capacity: {made}")
