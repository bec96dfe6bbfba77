"""Races our kernel against its peers, in turn, and keeps the least times.

Times are the processor's for the whole process: all compute in one thread, so that this is what the
clock would say on a machine with nothing else to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import process_time
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One comparison: least times in seconds; `peer` and `theirs` are missing if there is none."""

    workload: str
    data: str
    ours: float
    peer: str = ""
    theirs: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.ours / self.theirs


class Meter:
    """Measures; `rows` is what was found, `notes` what the reader should know besides."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def race(
        self,
        workload: str,
        data: str,
        ours: Call,
        peers: dict[str, Call | None],
        best: tuple[str, Iterable[str]] | None = None,
    ) -> None:
        """Time `ours` and each peer (None: it is not installed) in turn, for about
        `self.seconds` in all, at least three times each if that is possible in four times as much;
        the least time of each counts.

        `best` is a name for the fastest of some peers, which is entered as one more peer.
        """
        runners = {"": ours} | {name: call for name, call in peers.items() if call is not None}
        least = dict.fromkeys(runners, float("inf"))
        repeats = {name: _repeats(call) for name, call in runners.items()}
        share, runs = self.seconds / len(runners), Counter[str]()
        spent = dict.fromkeys(runners, 0.0)
        running = list(runners)
        while running:
            for name in running:
                found = _time(runners[name], repeats[name])
                least[name] = min(least[name], found)
                spent[name] += found * repeats[name]
                runs[name] += 1
            running = [
                name for name in running if spent[name] < (share if runs[name] >= 3 else 4 * share)
            ]
        if best is not None:
            name, among = best
            least[name] = min(least[one] for one in among if one in least)
        mine = least.pop("")
        if not least:
            self.rows.append(Row(workload, data, mine))
        self.rows += [Row(workload, data, mine, peer, theirs) for peer, theirs in least.items()]

    def median(self, workload: str, data: str, samples: list[float]) -> None:
        """The median of durations measured elsewhere, in seconds."""
        self.rows.append(Row(workload, data, sorted(samples)[len(samples) // 2]))

    def note(self, text: str) -> None:
        """Something that the results should say, once."""
        if text not in self.notes:
            self.notes.append(text)


def _time(call: Call, repeats: int) -> float:
    """The time of one call, in seconds, as the mean of some that follow each other."""
    start = process_time()
    for _ in range(repeats):
        call()
    return (process_time() - start) / repeats


def _repeats(call: Call) -> int:
    """How many calls take so long that what reading the clock takes does not matter."""
    call()
    repeats, enough = 1, 2e-4
    while repeats < 1000 and _time(call, repeats) * repeats < enough:
        repeats *= 2
    return repeats
