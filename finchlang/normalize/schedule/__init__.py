"""The schedule pass: what the annotations before a kernel ask for (Workspaces'24 section 6.1).

Each schedule is a rewriting of the program that keeps its meaning. They stand
after the dimensions, so that errors about these speak of the program as it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from finchlang.algebra.program_context import ProgramContext, root
from finchlang.base.errors import FinchError, did_you_mean
from finchlang.levels.workspace import POLICIES, check_capacity
from finchlang.normalize.schedule.loop_schedules import fuse, pos, reorder, split
from finchlang.normalize.schedule.precompute import FORM, precompute
from finchlang.syntax.nodes import Assign, Node, Policy, Schedule
from finchlang.syntax.traversal import find_all
from finchlang.text.print import pretty

#: the schedules by name, each with how it is written, and how many arguments it takes (0: any number)
SCHEDULES: dict[str, tuple[Callable[[Node, Schedule, ProgramContext], Node], str, int]] = {
    "reorder": (reorder, "reorder(k, i, j)", 0),
    "split": (split, "split(i, i0, i1, 4)", 4),
    "fuse": (fuse, "fuse(i, k, f)", 3),
    "pos": (pos, "pos(f, p, B[i, k])", 3),
    "precompute": (precompute, FORM, 3),
}


def schedule(program: Node, context: ProgramContext) -> Node:
    """`program` with its schedules applied, in their order, and the policies noted.

    Raises FinchError, at the annotation, for one that is unknown or does not apply here.
    """
    context.reserve(program)
    policies = [a for a in context.annotations if isinstance(a, Policy)]
    for policy in policies:
        note_policy(program, policy, context)
    for command in context.annotations:
        if isinstance(command, Schedule):
            program = _applied(program, command, context)
    for policy in policies:
        check_policy(program, policy, context)
    return program


def _applied(program: Node, command: Schedule, context: ProgramContext) -> Node:
    if command.name not in SCHEDULES:
        forms = ", ".join(f"`{form}`" for _, form, _ in SCHEDULES.values())
        hint = did_you_mean(command.name, SCHEDULES) or f"there are {forms}"
        message = f"there is no schedule `{command.name}`"
        raise FinchError("unknown name", message, command.span, hint)
    context.decide("schedule", f"as asked for: {pretty(command).removeprefix('@schedule ')}")
    function, form, count = SCHEDULES[command.name]
    if len(command.args) != (count or len(command.args)):
        message = f"this schedule takes {count} arguments, not {len(command.args)}"
        raise FinchError("type", message, command.span, f"write `{form}`")
    return function(program, command, context)


def note_policy(program: Node, annotation: Policy, context: ProgramContext) -> None:
    """Note the policy of a workspace, by the name that its tensor has in `program`, or will have. Raises
    FinchError "unknown name" for an unknown policy, "type" for a capacity that it does not take, and for
    two annotations of one tensor."""
    if annotation.policy and annotation.policy not in POLICIES:
        hint = did_you_mean(annotation.policy, POLICIES) or f"there are {', '.join(POLICIES)}"
        message = f"there is no policy `{annotation.policy}`"
        raise FinchError("unknown name", message, annotation.span, hint)
    try:
        check_capacity(annotation.policy, annotation.capacity)
    except FinchError as error:
        raise error.at(annotation.span) from None
    shown = annotation.tensor.name
    names = {root(n.target.tensor) for n in find_all(program, Assign)}
    name = next((n for n in names if n is not None and context.written(n) == shown), shown)
    if name in context.policies:
        message = f"`{shown}` has two `@workspace` annotations"
        raise FinchError("type", message, annotation.span, "give both settings in one")
    context.policies[name] = annotation.policy, annotation.capacity


def check_policy(program: Node, annotation: Policy, context: ProgramContext) -> None:
    """Raises FinchError "type" for a policy left over whose tensor is not written, or in any order."""
    left = {context.written(name): name for name in context.policies}
    shown = annotation.tensor.name
    if shown not in left:
        return
    name = left[shown]
    if not any(root(n.target.tensor) == name for n in find_all(program, Assign)):
        why = "is not written here"
    elif not any(level.is_sequential for level in context.level(name).levels()):
        why = "can be written in any order"
    else:
        return
    message = f"`{shown}` {why}: there is no workspace to insert"
    raise FinchError("type", message, annotation.tensor.span)
