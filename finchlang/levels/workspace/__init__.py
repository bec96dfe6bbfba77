"""The policies of workspaces (Workspaces'24 section 5), by name. A new policy is a subclass of
`policy.WorkspacePolicy` and an entry here."""

from __future__ import annotations

from finchlang.base.errors import FinchError
from finchlang.levels.workspace.bucket_policy import Bucket
from finchlang.levels.workspace.flags_policy import Flags
from finchlang.levels.workspace.hash_policy import Hash
from finchlang.levels.workspace.policy import Batch, Coord, Order, WorkspacePolicy

__all__ = ["DEFAULTS", "POLICIES", "Batch", "Order", "WorkspacePolicy", "check_capacity"]

POLICIES: dict[str, WorkspacePolicy] = {p.name: p for p in (Coord(), Hash(), Bucket(), Flags())}
#: the policy where none is named: if batches can be merged, and if not
DEFAULTS = ("coord", "hash")


def check_capacity(policy: str, capacity: int) -> None:
    """Raises FinchError "type" for a negative capacity, or one for a policy that takes none."""
    if capacity < 0:
        raise FinchError("type", f"a capacity is at least 1, not {capacity}")
    if capacity and policy and POLICIES[policy].has_all_places:
        message = f"the policy {policy} takes no capacity: it has an entry for every place"
        raise FinchError("type", message, hint="leave the capacity out")
