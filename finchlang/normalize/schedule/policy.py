"""`@workspace C policy=... capacity=...`: how the workspace that is inserted for a tensor works."""

from __future__ import annotations

from finchlang.normalize.context import Context, did_you_mean, root
from finchlang.source import FinchError
from finchlang.syntax import Assign, Node, Policy
from finchlang.walk import walk

POLICIES = ("coord", "hash", "bucket")


def policy(program: Node, annotation: Policy, context: Context) -> None:
    """Note the policy of a workspace. Raises FinchError where there is nothing to insert one for, or
    for a policy that there is not."""
    if annotation.policy and annotation.policy not in POLICIES:
        hint = did_you_mean(annotation.policy, POLICIES) or f"there are {', '.join(POLICIES)}"
        message = f"there is no policy `{annotation.policy}`"
        raise FinchError("unknown name", message, annotation.span, hint)
    shown = annotation.tensor.name
    written = {root(n.target.tensor) for n in walk(program) if isinstance(n, Assign)}
    name = next((n for n in written if n is not None and context.shown(n) == shown), None)
    if name is None:
        message = f"`{shown}` is not written here: there is no workspace to insert"
        raise FinchError("type", message, annotation.tensor.span)
    if not any(level.is_sequential for level in context.level(name).levels()):
        message = f"`{shown}` can be written in any order: there is no workspace to insert"
        raise FinchError("type", message, annotation.tensor.span)
    context.policies[name] = annotation.policy, annotation.capacity
