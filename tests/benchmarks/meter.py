"""Races our kernel against its peers, in turn, and keeps the least times.

Times are the processor's for the whole process: all compute in one thread, so that this is what the
clock would say on a machine with nothing else to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Protocol

Call = Callable[[], Any]


class Prepared(Protocol):
    """A call that wants objects made for it: `prepare(count)` gives `count` calls, ready to go, and is
    not part of what is timed."""

    def prepare(self, count: int) -> list[Call]: ...


#: the kinds of call, of which all may be raced at once (see `calls.py`)
KINDS = ("same", "rotating", "fresh")


@dataclass(frozen=True)
class Row:
    """One comparison: least times in seconds; `ours` is that of calls on the same objects, `kinds` has
    those of other kinds of call; `peer` and `theirs` are missing if there is none."""

    workload: str
    data: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    kinds: dict[str, float] = field(default_factory=dict)
    unit: str = "s"  # "B" where bytes are compared

    @property
    def ratio(self) -> float | None:
        """That of the slowest kind of call."""
        return None if self.theirs is None else max(self.times.values()) / self.theirs

    @property
    def times(self) -> dict[str, float]:
        return {"same": self.ours} | self.kinds


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
        ours: Call | dict[str, Call | Prepared],
        peers: dict[str, Call | None],
        best: tuple[str, Iterable[str]] | None = None,
    ) -> None:
        """Time `ours` (or each kind of call of ours) and each peer (None: it is not installed) in
        turn, for about `self.seconds` in all, at least three times each if that is possible in four
        times as much; the least time of each counts.

        `best` is a name for the fastest of some peers, which is entered as one more peer.
        """
        mine = ours if isinstance(ours, dict) else {"same": ours}
        runners: dict[str, Call | Prepared] = {f"{OURS}{kind}": call for kind, call in mine.items()}
        runners |= {name: call for name, call in peers.items() if call is not None}
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
        times = {kind: least.pop(f"{OURS}{kind}") for kind in mine}
        same = times.pop("same")
        if not least:
            self.rows.append(Row(workload, data, same, kinds=times))
        self.rows += [Row(workload, data, same, peer, t, times) for peer, t in least.items()]

    def median(self, workload: str, data: str, samples: list[float]) -> None:
        """The median of durations measured elsewhere, in seconds."""
        self.rows.append(Row(workload, data, sorted(samples)[len(samples) // 2]))

    def note(self, text: str) -> None:
        """Something that the results should say, once."""
        if text not in self.notes:
            self.notes.append(text)


#: what stands before the kind of a call of ours, among the names of those that are raced
OURS = "ours: "


def _time(call: Call | Prepared, repeats: int) -> float:
    """The time of one call, in seconds, as the mean of some that follow each other."""
    prepare = getattr(call, "prepare", None)
    if prepare is not None:
        calls = prepare(repeats)
        start = process_time()
        for one in calls:
            one()
        return (process_time() - start) / repeats
    start = process_time()
    for _ in range(repeats):
        call()  # type: ignore[operator]
    return (process_time() - start) / repeats


def _repeats(call: Call | Prepared) -> int:
    """How many calls take so long that it does not matter what reading the clock takes, nor that a peer has
    just used the branch predictor: that learns a search of 10,000 vertices by heart."""
    _time(call, 1)
    repeats, enough = 1, 2e-3
    while repeats < 1000 and _time(call, repeats) * repeats < enough:
        repeats *= 2
    return repeats
