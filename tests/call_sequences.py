"""Random sequences of calls against plain NumPy (a command of its own).

`python -m tests.call_sequences --cases 20000 --seed 0` runs that many sequences: names are bound, bound
again and swapped, arrays and matrices are resized, viewed and changed in place, kernels are called, fail
and are interrupted. After each call all memory is compared with what NumPy says. Sequences run in child
processes, so that a crash is found like a wrong number; each finding is printed as the shortest
sequence that still shows it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))  # the tests import one another by their bare names

import sequence_calls  # noqa: F401  (its steps enter the list)
from in_child import Ended, in_child
from sequence_steps import STEPS, WEIGHTS
from sequence_world import Finding, World

from finchlang import Session

LENGTH = 24
#: sequences that share a child, its sessions and so its kernels
BATCH = 400
#: what a child says for each sequence that found nothing
DONE = "."
#: the most seconds that a sequence may take by itself
PATIENCE = 20.0


@dataclass(frozen=True)
class Case:
    """A sequence: steps by number, each with the seed of its choices, in the world of a palette."""

    seed: int
    steps: tuple[tuple[int, int], ...]

    @property
    def palette(self) -> int:
        return self.seed // BATCH


def generate(seed: int) -> Case:
    rng = Random(seed)
    chosen = rng.choices(range(len(STEPS)), WEIGHTS, k=rng.randint(4, LENGTH))
    return Case(seed, tuple((number, rng.randrange(2**32)) for number in chosen))


def play(case: Case, sessions: list[Session], say: Callable[[str], None]) -> None:
    """Run a sequence; raises Finding, or whatever the tested code raises."""
    world = World(case.palette, say, sessions)
    for number, seed in case.steps:
        STEPS[number](world, Random(seed))


def play_all(cases: Sequence[Case], seconds: float, told: bool = False) -> Ended:
    """Run sequences one after another in one child with two sessions, up to the first that finds
    something. Says "." for each that does not, and each step of the last one if it is to be `told`."""

    def work(report: Callable[[str], None]) -> None:
        warnings.simplefilter("ignore")
        sessions = [Session(), Session()]
        for case in cases:
            is_last = told and case is cases[-1]
            say = (lambda line: report(f"  {line}\n")) if is_last else (lambda line: None)
            try:
                play(case, sessions, say)
            except BaseException as error:
                report(_shown(error))
                os._exit(1)
            report(DONE)

    return in_child(work, seconds)


def _shown(error: BaseException) -> str:
    """What was found, with the places that an error that is no Finding came through."""
    if isinstance(error, Finding):
        return f"{error}\n"
    return "".join(traceback.format_exception(error, limit=-5))


def kind(ended: Ended) -> str:
    """What has to stay the same while a sequence is made shorter: nothing if all went well."""
    if ended or ended.fault not in ("", "raised"):
        return ended.fault
    return "".join(c for c in ended.said.lstrip(DONE).splitlines()[-1] if not c.isdigit())[:40]


def shrink(case: Case, seconds: float = 40.0) -> Case:
    """The shortest sequence found that shows the same by itself."""
    deadline, wanted = time.monotonic() + seconds, kind(play_all([case], PATIENCE))
    width = len(case.steps) // 2
    while width:
        at = 0
        while at < len(case.steps) and time.monotonic() < deadline:
            fewer = replace(case, steps=case.steps[:at] + case.steps[at + width :])
            if kind(play_all([fewer], PATIENCE)) == wanted:
                case = fewer
            else:
                at += width
        width //= 2
    return case


def report(cases: Sequence[Case], found: Ended) -> str:
    """What was `found`, for people: of the sequences that a child ran, the last one is what found it. It
    may take some of those before, of which then no more than needed are run; what depends on time
    may not be found again."""
    count = 1
    while count < len(cases) and play_all(cases[-count:], PATIENCE):
        count = min(4 * count, len(cases))
    last = [shrink(cases[-1])] if count == 1 else cases[-count:]
    ended = play_all(last, PATIENCE, told=True)
    after = f" after the {count - 1} before it" if count > 1 else ""
    told = f"seed {cases[-1].seed}{after}: {ended.fault or 'not found again'}\n{ended.said.lstrip(DONE)}"
    return f"{told}\nat first: {found.fault}\n{found.said.lstrip(DONE)}" if ended else told


def findings(seeds: range) -> Iterator[tuple[int, str]]:
    """Run the sequences of `seeds`; for each child, how many it ran and what it found."""
    first = seeds.start
    while first < seeds.stop:
        last = min(first - first % BATCH + BATCH, seeds.stop)
        cases = [generate(seed) for seed in range(first, last)]
        ended = play_all(cases, PATIENCE + len(cases))
        done = len(ended.said) - len(ended.said.lstrip(DONE))
        if ended:
            yield done, ""
        else:
            yield done + 1, report(cases[: done + 1], ended)
            done += 1
        first += done


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="call_sequences", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=10, help="findings to stop after")
    options = parser.parse_args()
    start, count, found = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FINCH_CACHE_DIR"] = folder
        for ran, finding in findings(range(options.seed, options.seed + options.cases)):
            count += ran
            if finding:
                found += 1
                print(finding, flush=True)
            if found == options.stop_after:
                break
    print(f"{count} sequences, {found} findings in {time.monotonic() - start:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
