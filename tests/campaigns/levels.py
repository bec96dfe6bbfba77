"""The contract of levels on every stack: `python -m tests.campaigns.levels [--minutes M] [--seed S]`.

Each operation of `tests/contracts/test_level.py` is done on every pair of levels over every leaf and on
every triple that is legal, in an order by the seed, in child processes, so that a crash is found like a
wrong number. `--from N` goes on where a campaign of the same seed ended.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "contracts")]  # the tests import one another by bare names
os.environ |= {"LEVELS": "all", "FINCH_CACHE_DIR": "", "FINCH_CHECKED": "1", "FINCH_CHECK": "1"}

from in_child import Ended, in_child  # noqa: E402
from stacks import pairs, triples  # noqa: E402
from test_level import examine  # noqa: E402

from finchlang.native.compiler import compile_plainly  # noqa: E402

BATCH = 20  #: stacks that share a child


def formats(seed: int) -> list[str]:
    """All stacks, in an order by the seed."""
    found = [*pairs(), *triples()]
    random.Random(seed).shuffle(found)
    return found


def batch(texts: list[str], seconds: float) -> Ended:
    """Do all that is done with a level on stacks, in one child; it says which it begins."""

    def work(report: Callable[[str], None]) -> None:
        compile_plainly()
        for text in texts:
            report(f"{text}\n")
            examine(text)

    return in_child(work, seconds)


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.levels", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="how long (until all are done)")
    parser.add_argument(
        "--from", dest="first", type=int, default=0, help="so many were done before"
    )
    options = parser.parse_args()
    todo, start, found = formats(options.seed), time.monotonic(), 0
    total, todo = len(todo), todo[options.first :]
    while todo and not 0 < 60 * options.minutes < time.monotonic() - start:
        ended = batch(todo[:BATCH], 120.0 * BATCH)
        done = min(BATCH, len(todo))
        if not ended:
            lines = ended.said.splitlines()
            done = max(k for k, text in enumerate(todo[:BATCH]) if text in lines) + 1
            found += 1
            print(f"{todo[done - 1]}: {ended.fault}\n{ended.said[-3000:]}", flush=True)
        todo = todo[done:]
        took = time.monotonic() - start
        print(f"{total - len(todo)} of {total}, {found} findings, {took:.0f} s", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
