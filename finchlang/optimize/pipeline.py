"""The passes that residual programs take before they become machine code, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from finchlang.host.ir import Procedure, Residual
from finchlang.host.verify import verified
from finchlang.optimize.append_loops import make_room
from finchlang.optimize.joined_branches import join_branches
from finchlang.optimize.memory_checks import check_memory
from finchlang.optimize.partial_sums import take_lanes
from finchlang.optimize.place_fills import place_fills
from finchlang.optimize.privatisation import privatise
from finchlang.optimize.scalar_expansion import expand_scalars
from finchlang.optimize.undo_log import UndoLog, with_undo_log

Pass = Callable[[Residual], Residual]

#: Passes before the undo log, and those after it, which leave alone the arrays that have a log. Each can be
#: left out, and each may be used alone.
EARLY: tuple[Pass, ...] = (make_room, place_fills, expand_scalars, take_lanes)
LATE: tuple[Pass, ...] = (privatise, join_branches)
PASSES = (*EARLY, *LATE)


def transform(residual: Residual, passes: Sequence[Pass] = PASSES) -> Residual:
    """The program after these passes. With FINCH_CHECK=1 in the environment it is checked before the first,
    and after each that changes it; raises Bug as `check`."""
    verified(residual)
    for change in passes:
        procedures = residual.procedures
        if change in EARLY:
            procedures = tuple(_changed(p, change, residual) for p in procedures)
        changed = replace(change(residual), procedures=procedures)
        residual = residual if _is_same(changed, residual) else verified(changed)
    return residual


def _is_same(one: Residual | Procedure, other: Residual | Procedure) -> bool:
    """Whether they have equal parts; what a pass leaves alone stays the same object."""
    return all(getattr(one, f.name) == getattr(other, f.name) for f in fields(one))


def _changed(procedure: Procedure, change: Pass, residual: Residual) -> Procedure:
    """A procedure after a pass, which sees it as a program of its own."""
    own = Residual(
        procedure.name, residual.buffers, procedure.inputs, procedure.cells, procedure.body
    )
    changed = replace(procedure, body=change(own).body)
    return procedure if _is_same(changed, procedure) else changed


def lower(residual: Residual, checked: bool = False) -> tuple[Residual, UndoLog]:
    """The program that machine code is made of, and its undo log. With `checked`, memory checks are added
    last: the passes would not recognise most loops with checks in them."""
    logging, undo_log = with_undo_log(transform(residual, EARLY))
    lowered = transform(logging, LATE)
    return verified(check_memory(lowered)) if checked else lowered, undo_log
