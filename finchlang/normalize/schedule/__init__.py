"""The schedule pass: what the annotations before a kernel ask for (Workspaces'24 section 6.1).

Each schedule is a rewriting of the program that keeps its meaning, in a file of its own. They stand
after the dimensions, so that errors about these speak of the program as it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from finchlang.algebra.program_context import ProgramContext
from finchlang.base.errors import FinchError, did_you_mean
from finchlang.normalize.schedule.fuse_split import fuse, split
from finchlang.normalize.schedule.pos import pos
from finchlang.normalize.schedule.precompute import precompute
from finchlang.normalize.schedule.reorder import reorder
from finchlang.normalize.schedule.workspace_policy import check_policy, note_policy
from finchlang.syntax.nodes import Node, Policy, Schedule
from finchlang.text.print import pretty

#: the schedules by name, each with how it is written
SCHEDULES: dict[str, tuple[Callable[[Node, Schedule, ProgramContext], Node], str]] = {
    "reorder": (reorder, "reorder(k, i, j)"),
    "split": (split, "split(i, i0, i1, 4)"),
    "fuse": (fuse, "fuse(i, k, f)"),
    "pos": (pos, "pos(f, p, B[i, k])"),
    "precompute": (precompute, "precompute(B[i, k] * C[k, j], (i, j), W)"),
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
        forms = ", ".join(f"`{form}`" for _, form in SCHEDULES.values())
        hint = did_you_mean(command.name, SCHEDULES) or f"there are {forms}"
        message = f"there is no schedule `{command.name}`"
        raise FinchError("unknown name", message, command.span, hint)
    context.decide("schedule", f"as asked for: {pretty(command).removeprefix('@schedule ')}")
    return SCHEDULES[command.name][0](program, command, context)
