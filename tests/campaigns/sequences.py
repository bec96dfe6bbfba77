"""Sequences of calls by the thousand: `python -m tests.campaigns.sequences --cases N --seed S`.

Sequences of `tests/properties/test_sequences.py` run in child processes, so that a crash or a hang is found
like a wrong number; what is found is made shorter, and printed as the steps that show it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "properties")]  # the tests import one another by bare names

from in_child import Ended, in_child  # noqa: E402
from test_sequences import play  # noqa: E402

from finchlang.native.compiler import compile_plainly  # noqa: E402

BATCH = 100  #: sequences that share a child


def batch(cases: int, seed: int, steps: int, isolated: bool, seconds: float) -> Ended:
    """Play sequences in one child or, `isolated`, each in a child of its own."""

    def work(report: Callable[[str], None]) -> None:
        warnings.simplefilter("ignore")
        compile_plainly(seed % 4 > 0)
        play(cases, seed, steps, isolated)

    return in_child(work, seconds)


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.sequences", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24, help="the most steps of a sequence")
    options = parser.parse_args()
    start, found = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FINCH_CACHE_DIR"] = folder
        for first in range(0, options.cases, BATCH):
            cases, seed = min(BATCH, options.cases - first), options.seed + first
            ended = batch(cases, seed, options.steps, False, 60 + 10 * cases)
            if not ended and ended.fault != "raised":  # again, each in a child, to make it shorter
                print(f"seed {seed}: {ended.fault}", flush=True)
                ended = batch(cases, seed, options.steps, True, 600 + 20 * cases)
            if not ended:
                found += 1
                print(f"seed {seed}: {ended.fault}\n{ended.said[-3000:]}", flush=True)
            took = time.monotonic() - start
            print(
                f"{first + cases} sequences, {found} batches with findings, {took:.0f} s",
                flush=True,
            )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
