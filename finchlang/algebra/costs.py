"""What things cost in steps, a step being a coordinate that a loop comes to. The constants are measured,
but for those of a nest, which are taken over from a trial."""

from __future__ import annotations

from math import expm1, log2

#: steps to copy an entry of an operand into another order, and more to sort one into a workspace of several
#: modes than of one
COPY, SORT = 4.0, 6.0
#: steps to store a place of a dense result
PLACE = 0.1
#: steps of a search beside its halvings: a fiber of twice the length is walked in the same time
SEARCH = 1.5
#: a level of a result is dense where at least this part of its places is expected to be stored; the
#: innermost, which would store zeros, this part
FULL, FULL_OF_VALUES = 0.2, 0.5
#: clearing or storing a table of so many places takes no time that counts: with no more, a result of one
#: mode may be dense, and a workspace of one mode that is declared once may be a table
SHORT = 1 << 20
#: but a dense result has at most FEW_PLACES, or TIMES the positions of its operands
FEW_PLACES, TIMES = 1 << 13, 5
#: a larger workspace may be a table of at most so many places for each expected update: going to places
#: far apart takes longer than sorting (with 4 for each of 10^6 updates 1.5 times as long)
PER_UPDATE = 3
#: where a workspace of one mode is declared again and again, a table may have so many places, or so many
#: for each entry that the kernel reads: only the places in its list are cleared
PLACES, PER_ENTRY = 1 << 22, 16
#: a table of several modes has at least so many places, or nothing is gained, at most so many, and at most
#: so many for each expected update. (With 5 a transpose takes as long either way.)
LEAST, MOST, FEW = 1 << 10, 1 << 27, 4
#: a nest of an array program: entering it, a step of an innermost loop over dense memory in its order, and
#: to update a result that is dense, or sparse, out of its order
NEST, STEP_INSIDE = 2000.0, 0.25
UPDATE_OUT_OF_ORDER, UPDATE_OF_SPARSE = 1.0, 16.0
#: a step of a loop that an operand splits into cases takes so many times, and with each other one again
CASES = 3.0
#: another plan is taken where it is expected to take at most this part of the steps: costs are estimates
GAIN = 0.8
#: an array expression of more nodes that is used twice is stored: storing a dense one and reading it again
#: takes as long as a product of 20 numbers, or 2 square roots, or one exponential
SHARED = 16


def searched(times: float, length: float) -> float:
    """Steps to search a fiber of this length for so many coordinates in increasing order."""
    return times * (SEARCH + log2(max(length / max(times, 1e-9), 1.0)))


def distinct(places: float, entries: float) -> float:
    """How many of so many places are expected to be hit by so many entries spread at random."""
    if not places:
        return 0.0
    return places * -expm1(-entries / places)


def is_full(places: float, entries: float) -> bool:
    """Whether the outermost level of a copy of so many entries is dense, rather than a list."""
    return places <= SHORT or distinct(places, entries) >= FULL * places
