"""Random array expressions beside NumPy and `array_api_strict`, many of them (a command of its own).

`python -m tests.array_campaign --cases 2000 --seed 0` computes the expressions of that many seeds,
prints each that differs, or fails, and says at the end how many there were, and how many of them stand
in the standard. Those of odd seeds have functions of shapes.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter

from tests.array_expressions import WithShapes, check, expression


def run_case(seed: int) -> tuple[str, bool]:
    """What came of the expression of a seed: what is wrong, or nothing if it agrees; and whether it
    stands in the standard."""
    rng = WithShapes(seed) if seed % 2 else random.Random(seed)
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
    try:
        return "", check(expression(rng, shape, rng.randint(1, 3)))
    except Exception as error:  # a difference, a refusal, or a crash of the tested code
        return f"{type(error).__name__}: {error}", False


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # NumPy's, of infinities and NaN
    outcomes = Counter[str]()
    for seed in range(options.seed, options.seed + options.cases):
        fault, is_standard = run_case(seed)
        outcomes["differ" if fault else "agree"] += 1
        outcomes["in the standard"] += is_standard
        if fault:
            print(f"seed {seed}: {fault}\n")
    print(dict(outcomes))
    return 1 if outcomes["differ"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
