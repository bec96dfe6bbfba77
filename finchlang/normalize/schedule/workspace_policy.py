"""`@workspace C policy=... capacity=...`: how a workspace works that is inserted for C, or that a schedule
makes under this name."""

from __future__ import annotations

from finchlang.algebra.program_context import ProgramContext, root
from finchlang.base.errors import FinchError, did_you_mean
from finchlang.levels.workspace import POLICIES, check_capacity
from finchlang.syntax.nodes import Assign, Node, Policy
from finchlang.syntax.traversal import walk


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
    names = {root(n.target.tensor) for n in walk(program) if isinstance(n, Assign)}
    name = next((n for n in names if n is not None and context.shown(n) == shown), shown)
    if name in context.policies:
        message = f"`{shown}` has two `@workspace` annotations"
        raise FinchError("type", message, annotation.span, "give both settings in one")
    context.policies[name] = annotation.policy, annotation.capacity


def check_policy(program: Node, annotation: Policy, context: ProgramContext) -> None:
    """Check, for a policy that no schedule has used, that its tensor is written and has a level which may
    need a workspace. Raises FinchError "type"."""
    left = {context.shown(name): name for name in context.policies}
    shown = annotation.tensor.name
    if shown not in left:
        return
    name = left[shown]
    if not any(isinstance(n, Assign) and root(n.target.tensor) == name for n in walk(program)):
        message = f"`{shown}` is not written here: there is no workspace to insert"
        raise FinchError("type", message, annotation.tensor.span)
    if not any(level.is_sequential for level in context.level(name).levels()):
        message = f"`{shown}` can be written in any order: there is no workspace to insert"
        raise FinchError("type", message, annotation.tensor.span)
