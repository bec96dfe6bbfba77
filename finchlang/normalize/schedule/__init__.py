"""The schedule pass: what the annotations before a kernel ask for (Workspaces'24 section 6.1).

Each schedule is a rewriting of the program that keeps its meaning, in a file of its own. They stand
after the dimensions, so that errors about these speak of the program as it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from finchlang.normalize.context import Context, did_you_mean
from finchlang.normalize.schedule.fuse import fuse
from finchlang.normalize.schedule.policy import policy
from finchlang.normalize.schedule.pos import pos
from finchlang.normalize.schedule.precompute import precompute
from finchlang.normalize.schedule.reorder import reorder
from finchlang.normalize.schedule.split import split
from finchlang.source import FinchError
from finchlang.syntax import Node, Policy, Schedule
from finchlang.text.print import pretty

#: the schedules by name, each with how it is written
SCHEDULES: dict[str, tuple[Callable[[Node, Schedule, Context], Node], str]] = {
    "reorder": (reorder, "reorder(k, i, j)"),
    "split": (split, "split(i, i0, i1, 4)"),
    "fuse": (fuse, "fuse(i, k, f)"),
    "pos": (pos, "pos(f, p, B[i, k])"),
    "precompute": (precompute, "precompute(B[i, k] * C[k, j], (i, j), W)"),
}


def schedule(program: Node, context: Context) -> Node:
    """`program` with its schedules applied, in their order, and the policies noted.

    Raises FinchError, at the annotation, for one that is unknown or does not apply here.
    """
    context.reserve(program)
    for annotation in context.annotations:
        if isinstance(annotation, Policy):
            policy(program, annotation, context)
        elif isinstance(annotation, Schedule):
            if annotation.name not in SCHEDULES:
                forms = ", ".join(f"`{form}`" for _, form in SCHEDULES.values())
                hint = did_you_mean(annotation.name, SCHEDULES) or f"there are {forms}"
                message = f"there is no schedule `{annotation.name}`"
                raise FinchError("unknown name", message, annotation.span, hint)
            program = SCHEDULES[annotation.name][0](program, annotation, context)
            context.decide(
                "schedule", f"as asked for: {pretty(annotation).removeprefix('@schedule ')}"
            )
    return program
