"""Loops of scripts by the thousand: `python -m tests.campaigns.functions --cases N --seed S`.

Scripts of `tests/properties/random_functions.py` run as units, step by step, on the interpreter and by the
denotation, in child processes, so that a crash or a hang is found like a wrong number. What differs is
printed with its script; `--show` prints the script of the seed alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable

from finchlang.native.compiler import compile_plainly
from tests.in_child import in_child
from tests.properties.random_functions import script
from tests.properties.test_functions import differences

#: scripts that share a child, and the seconds that each may take of a processor's time
BATCH, SECONDS = 25, 10


def tried(seeds: range) -> list[tuple[int, str]]:
    """The seeds that differ, break or hang, each with what is told of it. After one that its child did not
    outlive the others go on in another child."""

    def work(report: Callable[[str], None]) -> None:
        warnings.simplefilter("ignore")
        for seed in seeds:
            compile_plainly(seed % 4 > 0)
            report(f"\0{seed}\n")
            report("\n".join(differences(script(seed))))

    ended = in_child(work, SECONDS * len(seeds))
    parts = [part.partition("\n") for part in ended.said.split("\0")[1:]]
    found = [(int(seed), said) for seed, _, said in parts]
    if ended or not found:
        return [each for each in found if each[1]]
    last, said = found.pop()
    found = [each for each in found if each[1]]
    return [*found, (last, f"{ended.fault}\n{said[-2000:]}"), *tried(range(last + 1, seeds.stop))]


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.functions", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print the script of the seed")
    options = parser.parse_args()
    if options.show:
        print(script(options.seed))
        return 0
    os.environ["FINCH_CHECK"] = "1"
    start, count, end = time.monotonic(), 0, options.seed + options.cases
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FINCH_CACHE_DIR"] = folder
        for first in range(options.seed, end, BATCH):
            seeds = range(first, min(first + BATCH, end))
            for seed, said in tried(seeds):
                count += 1
                print(f"seed {seed}: {said}\n{script(seed)}", flush=True)
            took = time.monotonic() - start
            print(
                f"{seeds.stop - options.seed} scripts, {count} findings, {took:.0f} s", flush=True
            )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
