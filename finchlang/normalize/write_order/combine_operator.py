"""The operators by which workspaces combine what was written to one place when they merge
(Workspaces'24 section 4.3)."""

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
    """Give the context's formats of workspaces their operators. Expects the life cycle.

    Raises FinchError "type" where the policy of a workspace has to merge and merging would change the
    meaning.
    """
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
        entering = {id(a) for a in own if name in in_place and _is_copy(a, in_place[name])}
        own = [a for a in own if id(a) not in entering] or own
        op = _operator(own, level.element_type)
        if entering and op is not None and not _keeps_first(op, level):
            op = None
        if op is None:
            _check(
                level,
                own[0],
                context.shown(_tensor(program, name, context)),
                name in context.workspaces,
            )
        context.formats[name] = level = level.combining(op)
        context.decide("workspaces", f"`{name}` has the {level.described}")


def _tensor(program: Node, name: str, context: ProgramContext) -> str:
    """The tensor that an inserted workspace is copied to; a workspace of the user's stands for itself."""
    copies = (
        root(n.target.tensor)
        for n in trees.walk(program)
        if isinstance(n, Assign) and isinstance(n.value, Access) and root(n.value.tensor) == name
    )
    return next(copies, None) or name if name in context.workspaces else name


def _is_copy(update: Assign, tensor: str) -> bool:
    """Whether this copies a tensor that is updated in place to its workspace, each entry once and before
    all updates."""
    return isinstance(update.value, Access) and root(update.value.tensor) == tensor


def _keeps_first(op: Node, level: Workspace) -> bool:
    """Whether the first value of a new entry, which begins with `beginning`, makes it `fill op value`, as
    it must be where nothing was stored."""
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


def _check(level: Workspace, update: Assign, name: str, is_inserted: bool) -> None:
    must_merge = bool(level.policy) and not POLICIES[level.policy].combines
    if not must_merge and not level.capacity:
        return
    what = f"the policy {level.policy}" if must_merge else f"a capacity of {level.capacity}"
    shown = "=" if update.op in PLAIN else f"{pretty(update.op)}="
    message = (
        f"`{name}` has {what} and would be merged, which would change what `{shown}` means: it is no "
        "associative operator with an identity (of updates in place, the fill), or not the only one"
    )
    by_hand = f"Workspace{{{level.number}, hash}}({level.lvl})"
    made = f"`@workspace {name} policy=hash`" if is_inserted else by_hand
    hint = f"the policy hash without a capacity: {made}"
    raise FinchError("type", message, update.span, hint)
