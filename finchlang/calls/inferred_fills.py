"""The fills of declarations `A .= _`, inferred from what is assigned."""

from __future__ import annotations

from finchlang.algebra.program_context import Format, ProgramContext
from finchlang.algebra.sparsity_pattern import inferred_fill
from finchlang.calls.substitute import inferring, with_fills
from finchlang.levels.level import Level, level_of
from finchlang.normalize.pass_list import stages
from finchlang.syntax.nodes import Literal, Node, Variable


def inferred_fills(program: Node, formats: dict[str, Format]) -> dict[Variable, Literal]:
    """The fill of each tensor that `program` declares by `_`. Raises FinchError "type" if there is none."""
    declared = {n.tensor: n for n in inferring(program)}
    levels = {n: level_of(f) for n, f in formats.items()}
    known = {n: levels.get(n.name) for n in declared}
    fills = {n: f.fill if isinstance(f, Level) else Literal(0) for n, f in known.items()}
    named, context = with_fills(program, fills), ProgramContext(dict(formats))
    typed = next(stage for name, stage in stages(named, context) if name == "types")
    return {name: inferred_fill(typed, levels, node) for name, node in declared.items()}
