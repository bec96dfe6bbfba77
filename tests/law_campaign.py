"""Random laws declared of random functions (a command of its own): what the script finds operands against
must be an error of the kernel.

`python -m tests.law_campaign --cases 500 --seed 0` tries that many laws, prints each wrong one that is
not told, and says at the end how many were told, how many hold for all that the script tries, and how
many of these are told by other operands. `--declarations 500` makes so many true declarations and so many
lies (laws, laws over a range, regions), and runs programs by each: no true one may be refused, and none
may change what the function gives without an error.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

if __package__:
    from tests.generate_functions import TYPE, FunctionGenerator
    from tests.generate_laws import KNOWN, RANGED, REGIONAL, LawGenerator
else:
    from generate_functions import TYPE, FunctionGenerator
    from generate_laws import KNOWN, RANGED, REGIONAL, LawGenerator

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


# ----------------------------------------------------------------------- true declarations, and lies

VALUES = {
    "int": (0, 1, 2, -1, 3, -2, 5),
    "float": (0.0, 1.0, 2.0, -1.0, 0.5, -2.5, 5.0),
    "bool": (False, True),
}
FORMATS = (
    "SparseList(Element({}))",
    "SparseByteMap(Element({}))",
    "Dense(Element({}))",
    "RunList(Element({}))",
)
#: what is done with a function of two operands, and of three
STATEMENTS = {
    2: ("C[i] = f(A[i], B[i])", "C[i] = f(A[i], A[i])", "C[i] = f(f(A[i], B[i]), B[i])",
        "s[] += f(A[i], B[i])", "C[i] = f(f(A[i], B[i]), D[i])", "s[] <<f>>= A[i]",
        "C[i] = f(A[i], d[i])", "C[i] = f(A[i], k)"),
    3: ("C[i] = f(A[i], B[i], D[i])", "s[] += f(A[i], A[i], B[i])", "C[i] = f(A[i], B[i], A[i])"),
}  # fmt: skip
REGIONS = (
    "p1 & p2",
    "p1 | p2",
    "p1",
    "p2",
    "p1 & ~p2",
    "~p1 & p2",
    "(p1 | p2) & ~(p1 & p2)",
    "~p1",
)
RANGES: dict[str, Callable[[Any], bool]] = {
    "x >= 0": lambda x: x >= 0, "x > 1": lambda x: x > 1, "-1 <= x <= 1": lambda x: -1 <= x <= 1
}  # fmt: skip


@dataclass
class Declaration:
    """A function of `count` arguments, `f`, what is declared of it, and fills that this is about."""

    function: str
    laws: str
    count: int
    fills: tuple[Any, ...]
    is_lie: bool


def declaration(rng: random.Random, seed: int, kind: str, is_lie: bool) -> Declaration:
    """A declaration that is true, or one that is a lie if the script finds operands against it."""
    generator, values = LawGenerator(rng, kind), VALUES[kind]
    form = rng.random()
    if not is_lie and kind != "bool" and form < 0.3:
        body, over, laws = rng.choice(RANGED)
        some = [law for law in laws if rng.random() < 0.7] or laws
        text = f"f(p1, p2) = {generator.inside(body)}"
        return Declaration(
            text, f"@properties f {' '.join(some)} where {over}", 2, (0, 0, 0), False
        )
    if not is_lie:
        known = rng.choice(REGIONAL[kind] if form < 0.6 else KNOWN[kind])
        lines = generator.definition("f", known).split("\n")
        fills = tuple(values[1] if f == "1" or f == "true" else values[0] for f in known.fills)
        fills = fills or tuple(rng.choices(values, k=known.count))
        laws = "\n".join(line for line in lines if line.startswith("@"))
        text = "\n".join(line for line in lines if not line.startswith("@"))
        return Declaration(text, laws, known.count, (*fills, *fills)[:3], False)
    text, fills = function(rng, seed, kind), tuple(rng.choices(values[:3], k=3))
    session = Session()
    session.run(text)

    def f(*args: Any) -> Any:
        session["a"], session["b"] = args
        return session.run("f(a, b)")

    if form < 0.4:
        region = rng.choice(REGIONS)
        outside = [
            f(x, y)
            for x, y in itertools.product(values, repeat=2)
            if not _is_in(region, x != fills[0], y != fills[1])
        ]
        is_wrong = any(_differ(found, f(*fills[:2])) for found in outside)
        return Declaration(text, f"@iterate f(p1, p2) = {region}", 2, fills, is_wrong)
    laws, (one, other) = law(rng, kind, f)
    if form < 0.6 and kind != "bool" and laws.startswith("@properties"):
        over = rng.choice([*RANGES])
        laws, values = f"{laws} where {over}", tuple(filter(RANGES[over], values))
    pairs = ((one(*found), other(*found)) for found in itertools.product(values, repeat=3))
    return Declaration(text, laws, 2, fills, any(_differ(a, b) for a, b in pairs))


def _is_in(region: str, p1: bool, p2: bool) -> bool:
    return bool(eval(region, {"p1": np.bool_(p1), "p2": np.bool_(p2)}))


def _differ(a: Any, b: Any) -> bool:
    return abs(float(a) - float(b)) > 1e-3 * max(1, abs(a), abs(b))


def run_declaration(seed: int, is_lie: bool) -> tuple[str, str]:
    """What came of a declaration on random data, and the text of it."""
    rng = random.Random(f"{seed} {is_lie}")
    kind = rng.choice(("int", "float", "bool"))
    declared = declaration(rng, seed, kind, is_lie)
    if declared.is_lie != is_lie:
        return "no lie", declared.laws
    dtype, values = np.dtype(TYPE[kind].lower()), VALUES[kind]
    every = STATEMENTS[declared.count]
    # a region is about the fills of its arguments, in their order
    is_any = is_lie or "@iterate" not in declared.laws
    in_order = f"f({', '.join(f'{name}[i]' for name in 'ABD'[: declared.count])})"
    statement = rng.choice([s for s in every if is_any or in_order in s and "f(f" not in s])
    fill = str(values[0]).lower()
    if kind == "bool":
        statement = statement.replace("+=", "<<or>>=")
    made = f"C = Tensor(SparseByteMap(Element({fill})), 6)\ns = Scalar({fill})"
    text = f"{made}\n@finch for i = _; {statement} end"
    if statement.startswith("C"):
        text = text.replace("@finch", f"@finch begin C .= {fill};") + " end"
    is_said = False
    for which in (("interpret", "all"), ("interpret", "paper"), ("native", "all")):
        session, plain = Session(*which), Session("denote")
        for _ in range(2):  # the second data are met by compiled kernels
            shown = [f"{which}\n{declared.function}\n{declared.laws}\n{text}"]
            for name, own in zip("ABDd", (*declared.fills, declared.fills[1]), strict=True):
                found = np.array([rng.choice((own, rng.choice(values))) for _ in range(6)], dtype)
                shown.append(f"{name} = {found.tolist()} over {own}")
                format = rng.choice(FORMATS).format(str(dtype.type(own).item()).lower())
                for each in (session, plain):
                    each[name] = found.copy()
                    if name != "d":
                        each.run(f"{name} = Tensor({format}, {name})")
            k = dtype.type(rng.choice(values)).item()
            session["k"] = plain["k"] = k
            try:
                plain.run(f"{declared.function}\n{text}")
            except FinchError as error:
                if error.kind != "bounds":  # as where an integer is divided by 0
                    raise
                continue
            try:
                session.run(f"{declared.function}\n{declared.laws}\n{text}")
            except FinchError as error:
                if error.kind != "type" or " is not " not in error.message:
                    return "other error", "\n".join((*shown, str(error)))
                if not is_lie:
                    return "refused", "\n".join((*shown, str(error)))
                is_said = True
                continue
            same_c = np.allclose(
                session["C"].to_numpy(), plain["C"].to_numpy(), 1e-3, equal_nan=True
            )
            if not same_c or not np.isclose(
                session["s"].value, plain["s"].value, 1e-3, equal_nan=True
            ):
                return "unsaid" if is_lie else "wrong", "\n".join(shown)
    return ("said" if is_said else "harmless") if is_lie else "accepted", "\n".join(shown)


def declarations(count: int, seed: int) -> int:
    """Make so many true declarations and lies; 1 if one of them went wrong."""
    counts = Counter[str]()
    for is_lie in (False, True):
        tried, at = 0, seed
        while tried < count:
            outcome, shown = run_declaration(at, is_lie)
            counts[outcome] += 1
            tried += outcome != "no lie"
            if outcome not in GOOD:
                print(f"seed {at}, {is_lie}: {outcome}\n{shown}\n", flush=True)
            at += 1
    print(dict(counts))
    return 0 if counts.keys() <= GOOD else 1


#: what may come of a declaration
GOOD = {"accepted", "said", "harmless", "no lie"}


def main() -> int:
    """Run the command; 1 if a wrong law was not told."""
    parser = argparse.ArgumentParser(prog="law_campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--declarations", type=int, default=0)
    options = parser.parse_args()
    if options.declarations:
        return declarations(options.declarations, options.seed)
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
