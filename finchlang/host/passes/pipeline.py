"""The passes that residual programs take before they become machine code, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from finchlang.host.ir import Residual
from finchlang.host.passes.lanes import take_lanes
from finchlang.host.passes.scalar_expansion import expand_scalars
from finchlang.host.verify import verified

Pass = Callable[[Residual], Residual]

#: Each can be left out, and each may come alone.
PASSES: tuple[Pass, ...] = (expand_scalars, take_lanes)


def transform(residual: Residual, passes: Sequence[Pass] = PASSES) -> Residual:
    """What the passes, one after the other, make of the program. With FINCH_CHECK=1 in the
    environment the program is checked before the first and after each; raises Bug as `check`."""
    verified(residual)
    for change in passes:
        residual = verified(change(residual))
    return residual
