"""What things cost: in steps, a step being a coordinate that a loop comes to, and in code. Planner,
workspaces and rules ask here; all constants are measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, log2, prod

#: steps that it takes to copy an entry of an operand into another order, to add to a workspace of one
#: mode, and to sort an entry into one of several
COPY, SCATTER, SORT = 4.0, 0.5, 6.0
#: what storing a place of a dense result takes
PLACE = 0.1
#: steps of a search beside its halvings: a fiber of twice the length is walked in the same time
SEARCH = 1.5
#: a level of a result is dense where at least this part of its places is expected to be stored; the
#: innermost, which would store zeros, this part
FULL, FULL_OF_VALUES = 0.2, 0.5
#: a table of so many places is cleared, or stored, in no time that counts: a result of one mode may be
#: dense, and a workspace of one mode that is declared once, if there are no more
SHORT = 1 << 20
#: a larger one may be a table if it has so many places for each update that is expected: to go to places
#: far apart takes longer than to sort (with 4 for each of 10^6 updates 1.5 times as long)
PER_UPDATE = 3
#: a table of one mode may have so many places, or so many for each entry that the kernel reads, where
#: it is declared again and again: it is cleared by its list
PLACES, PER_ENTRY = 1 << 22, 16
#: a table of several modes must have so many places, or nothing is gained, and at most so many, and so
#: many for each update that is expected. (With 5 a transpose takes as long either way.)
LEAST, MOST, FEW = 1 << 10, 1 << 27, 4
#: one option of an operand that is looked at one at a time takes so many times the code that it has in one
#: case of operands told apart
UNDECIDED = 6
#: so many times the code are worth it if cases are told apart, which takes 0.7 to 0.8 of the time
CODE = 2


def searched(times: float, length: float) -> float:
    """The steps that it takes to search a fiber for so many coordinates in order."""
    return times * (SEARCH + log2(max(length / max(times, 1e-9), 1.0)))


def distinct(places: float, entries: float) -> float:
    """How many places are expected to have one of so many entries or more."""
    if not places:
        return 0.0
    return places * -expm1(-entries / places)


def is_much_code(options: Sequence[int]) -> bool:
    """Whether too much code comes of it if operands with so many options each, or none, are told apart.

    In each case the options that are there meet in loops of their own, in which an operand has no
    entry, leads or follows. The sum of 2, 3, 4 and 5 sparse matrices has 146, 361, 982 and 2529
    statements if columns are told apart, else 149, 227, 297 and 367, which take 1.0, 1.3, 1.3 and
    1.45 times as long."""
    apart = prod([1 + 2 * count for count in options])
    return apart > CODE * max(UNDECIDED * sum(options), 1)
