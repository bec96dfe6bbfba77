"""The passes that residual programs take before they become machine code, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from finchlang.host.ir import Residual
from finchlang.host.verify import verified
from finchlang.optimize.append_loops import make_room
from finchlang.optimize.fills_in_loops import put_fills_in_loops
from finchlang.optimize.joined_branches import join_branches
from finchlang.optimize.memory_checks import check_memory
from finchlang.optimize.privatisation import privatise
from finchlang.optimize.scalar_expansion import expand_scalars
from finchlang.optimize.undo_log import UndoLog, with_undo_log

Pass = Callable[[Residual], Residual]

#: Passes before the undo log, and those after it, which leave alone the arrays that have a log. Each can be
#: left out, and each may be used alone. They leave procedures as they are.
EARLY: tuple[Pass, ...] = (make_room, expand_scalars)
LATE: tuple[Pass, ...] = (privatise, join_branches, put_fills_in_loops)
PASSES = (*EARLY, *LATE)


def transform(residual: Residual, passes: Sequence[Pass] = PASSES) -> Residual:
    """The program after these passes. With FINCH_CHECK=1 in the environment it is checked before the first,
    and after each that changes it; raises Bug as `check`."""
    verified(residual)
    for change in passes:
        changed = change(residual)
        residual = residual if _is_same(changed, residual) else verified(changed)
    return residual


def _is_same(one: Residual, other: Residual) -> bool:
    """Whether they have equal parts; what a pass leaves alone stays the same object."""
    return all(getattr(one, f.name) == getattr(other, f.name) for f in fields(one))


def lower(residual: Residual, checked: bool = False) -> tuple[Residual, UndoLog]:
    """The program that machine code is made of, and its undo log. With `checked`, memory checks are added
    last: the passes would not recognise most loops with checks in them."""
    logging, undo_log = with_undo_log(transform(residual, EARLY))
    lowered = transform(logging, LATE)
    return verified(check_memory(lowered)) if checked else lowered, undo_log
