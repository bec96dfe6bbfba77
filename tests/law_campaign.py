"""Random laws declared of random functions (a command of its own): what the script finds operands against
must be an error of the kernel.

`python -m tests.law_campaign --cases 500 --seed 0` tries that many laws, prints each wrong one that is
not told, and says at the end how many were told, how many hold for all that the script tries, and how
many of these are told by other operands.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

if __package__:
    from tests.generate_functions import TYPE, FunctionGenerator
    from tests.generate_laws import KNOWN, LawGenerator
else:
    from generate_functions import TYPE, FunctionGenerator
    from generate_laws import KNOWN, LawGenerator

from finchlang import FinchError, Session

#: two sides of a law about x, y and z, by functions of two arguments
Sides = tuple[Callable[..., Any], Callable[..., Any]]
PLAIN = {"+": lambda a, b: a + b, "max": max, "min": min, "&": lambda a, b: a and b}


def function(rng: random.Random, seed: int, kind: str) -> str:
    """A random function `f` of two arguments, without laws."""
    if rng.random() < 0.5:
        known = rng.choice([k for k in KNOWN[kind] if k.count == 2])
        text = LawGenerator(rng, kind).definition("f", known)
    else:
        text = FunctionGenerator(seed, kind).function("f", 2).text
    return "\n".join(line for line in text.split("\n") if not line.startswith("@"))


def law(rng: random.Random, kind: str, f: Callable[..., Any]) -> tuple[str, Sides]:
    """A law as it is declared, and its sides."""
    value, k = rng.choice((True, False) if kind == "bool" else (0, 1, -1, 2)), rng.randint(1, 2)
    shown = str(value).lower()
    g = rng.choice(("&",) if kind == "bool" else ("+", "max", "min"))
    over = PLAIN[g]
    quoted = f'"{g}"' if g in "+&" else g

    def at(x: Any) -> Any:
        return f(value, x) if k == 1 else f(x, value)

    laws: list[tuple[str, Sides]] = [
        ("@properties f commutative", (lambda x, y, z: f(x, y), lambda x, y, z: f(y, x))),
        (
            "@properties f associative",
            (lambda x, y, z: f(f(x, y), z), lambda x, y, z: f(x, f(y, z))),
        ),
        ("@properties f idempotent", (lambda x, y, z: f(x, x), lambda x, y, z: x)),
        (
            "@properties f right_idempotent",
            (lambda x, y, z: f(f(x, y), y), lambda x, y, z: f(x, y)),
        ),
        (f"@properties f identity({shown}, {k})", (lambda x, y, z: at(x), lambda x, y, z: x)),
        (f"@properties f annihilator({shown}, {k})", (lambda x, y, z: at(x), lambda *_: value)),
        (
            f"@properties f distributes({quoted}, 2)",
            (lambda x, y, z: f(x, over(y, z)), lambda x, y, z: over(f(x, y), f(x, z))),
        ),
        (f"@case f({shown}, x) = x", (lambda x, y, z: f(value, x), lambda x, y, z: x)),
        ("@case f(x, x) = x", (lambda x, y, z: f(x, x), lambda x, y, z: x)),
    ]
    return rng.choice(laws)


def run_case(seed: int) -> tuple[str, str]:
    """What came of a law, and the text of it."""
    rng = random.Random(seed)
    kind = rng.choice(("int", "float", "bool"))
    dtype = np.dtype(TYPE[kind].lower())
    session = Session()
    text = function(rng, seed, kind)
    session.run(text)

    def f(*args: Any) -> Any:
        session["a"], session["b"] = (dtype.type(arg).item() for arg in args)
        return session.run("f(a, b)")

    declared, (one, other) = law(rng, kind, f)
    values = (False, True) if kind == "bool" else (0, 1, -1, 2, 3)
    pairs = ((one(*found), other(*found)) for found in itertools.product(values, repeat=3))
    is_wrong = any(abs(float(a) - float(b)) > 1e-3 * max(1, abs(a), abs(b)) for a, b in pairs)
    session["x"], session["r"] = np.ones(2, dtype), np.zeros(2, dtype)
    shown = f"{text}\n{declared}"
    try:
        session.run(f"{shown}\n@finch for i = _; r[i] = f(x[i], x[i]) end")
    except FinchError as error:
        if error.kind != "type" or "is not" not in error.message:
            return "other error", f"{shown}\n{error}"
        return ("told" if is_wrong else "told by other operands"), shown
    return ("missed" if is_wrong else "held"), shown


def main() -> int:
    """Run the command; 1 if a wrong law was not told."""
    parser = argparse.ArgumentParser(prog="law_campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = Counter[str]()
    for seed in range(options.seed, options.seed + options.cases):
        outcome, shown = run_case(seed)
        counts[outcome] += 1
        if outcome in ("missed", "other error"):
            print(f"seed {seed}: {outcome}\n{shown}\n", flush=True)
    print(dict(counts))
    return 1 if counts["missed"] + counts["other error"] else 0


if __name__ == "__main__":
    sys.exit(main())
