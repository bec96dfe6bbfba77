"""The fills that `A .= _` leaves to be found, by what is assigned."""

from __future__ import annotations

from finchlang.normalize.context import Context, Format
from finchlang.normalize.pipeline import stages
from finchlang.rules.spaces import inferred_fill
from finchlang.run.resolved import inferring, with_fills
from finchlang.syntax import Literal, Node, Variable
from finchlang.tensors.level import Level, Swizzled


def inferred_fills(program: Node, formats: dict[str, Format]) -> dict[Variable, Literal]:
    """The fills of the tensors that `program` declares by `_`. Raises FinchError "type"."""
    declared = {n.tensor: n for n in inferring(program)}
    levels = {n: f.level if isinstance(f, Swizzled) else f for n, f in formats.items()}
    known = {n: levels.get(n.name) for n in declared}
    fills = {n: f.fill if isinstance(f, Level) else Literal(0) for n, f in known.items()}
    named, context = with_fills(program, fills), Context(dict(formats))
    typed = next(stage for name, stage in stages(named, context) if name == "types")
    return {name: inferred_fill(typed, levels, node) for name, node in declared.items()}
