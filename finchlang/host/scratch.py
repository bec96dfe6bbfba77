"""A host for looking at the structure of a looplet alone: what it is told to do is never done."""

from __future__ import annotations

from finchlang.host.interface import Host
from finchlang.host.residual import ResidualHost


def scratch() -> Host:
    """A new one. A rule that asks which looplet a thunk leads to, for which every host has the same
    answer, enters it here, and the rule's own host has nothing to do for it."""
    return ResidualHost()
