"""The rule table: one ordered list, Fig 15's, with the statements of Fig 14 after it."""

from __future__ import annotations

from finchlang.base.errors import FinchError
from finchlang.host.engine import Rule
from finchlang.rules.base import (
    early_exit,
    expressions,
    loops,
    regions,
    simplify_rule,
    statements,
    steppers,
)
from finchlang.rules.derived import meet, union

#: Finch'25 Fig 15: Thunk > Phase > Switch > Simplify > Run > Spike > Sequence > StepperSeek >
#: StepperNext > Lookup > AcceptRun > Unfurl > Loop > Access. Not in the figure: Extent comes first, since
#: no other rule looks at a loop before its extent is known; Shift comes before the rules for the looplet
#: in it; Break comes before the rules that take the steps of a loop; Jumper comes before the rules for
#: steppers (Looplets'23 section 6); a derived rule comes just before the base rule that it replaces.
RULES: tuple[Rule, ...] = (
    loops.extent,
    loops.thunk,
    regions.shift,
    regions.phase,
    loops.switch,
    simplify_rule.simplify_rule,
    regions.run,
    union.union,
    regions.spike,
    early_exit.early_exit,
    meet.meet,
    regions.sequence,
    steppers.jumper,
    steppers.stepper_seek,
    steppers.stepper_next,
    loops.lookup,
    loops.choice,
    loops.accept_run,
    loops.unfurl,
    loops.loop,
    expressions.access,
    statements.block,
    statements.define,
    statements.sieve,
    statements.assign,
    statements.declare,
    statements.freeze,
    statements.thaw,
    expressions.variable,
    expressions.index,
)

#: all rules, with those for expressions, which are premises of the others
ALL = (*RULES, *expressions.EXPRESSIONS.values())


#: names of rules that may be left out: no program needs them
OPTIONAL = frozenset(r.name for r in RULES if r.is_derived) | {early_exit.BREAK}


def rules(which: str = "all") -> tuple[Rule, ...]:
    """The table, with (`all`) or without (`paper`) the derived rules, minus the rules named after it, as in
    `all-Meet-Break`.

    Raises FinchError of kind unknown name for any other text.
    """
    kind, *without = which.split("-")
    if kind not in ("all", "paper"):
        raise FinchError("unknown name", f"there are the rules `all` and `paper`, but no `{kind}`")
    for name in without:
        if name not in OPTIONAL:
            message = f"{name} is no rule that can be left out"
            raise FinchError(
                "unknown name", message, None, f"there are {', '.join(sorted(OPTIONAL))}"
            )
    chosen = [r for r in RULES if kind == "all" or not r.is_derived]
    return tuple(r for r in chosen if r.name not in without)
