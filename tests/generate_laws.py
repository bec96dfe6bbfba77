"""Laws that are true of random functions: functions of which they are known, written otherwise than the
operators that have them, and what can be said of any function."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

#: the type that functions compute in, for each kind of program
TYPE = {"float": "Float64", "int": "Int64", "bool": "Bool", "minplus": "Float64"}


@dataclass(frozen=True)
class Known:
    """A function of a, b and c: ways to write it (an expression, or lines), and what is true of it.

    Its laws are `properties`, and `cases` as patterns with what the function is for them. Outside of the
    `region` it is what it is at the fills: at all fills, or at `fills` if there are some.
    """

    bodies: tuple[str, ...]
    properties: tuple[str, ...] = ()
    cases: tuple[tuple[str, str], ...] = ()
    region: str = "a | b"
    fills: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many arguments it takes."""
        return 3 if "c" in self.region else 2


_ALL = ("commutative", "associative", "idempotent", "right_idempotent")
_GCD = "while b != 0\na, b = b, a % b\nend\nreturn abs(a)"

ORDERED = (
    Known(
        ("a > b ? a : b", "-min(-a, -b)", "if a < b\na = b\nend\nreturn a"),
        (*_ALL, "identity(-Inf)", "annihilator(Inf)", "distributes(min)"),
        (("a, a", "a"),),
    ),
    Known(
        ("a < b ? a : b", "-max(-b, -a)", "s = a\nfor k = 1:2\ns = s > b ? b : s\nend\nreturn s"),
        (*_ALL, "identity(Inf)", "annihilator(-Inf)", "distributes(max)"),
        (("a, a", "a"),),
    ),
    Known(
        ("a", "return a"),
        ("associative", "idempotent", "right_idempotent", "identity(0, 2)"),
        (),
        "a",
    ),
    Known(
        ("b", "t = a\nt = b\nreturn t"),
        ("associative", "idempotent", "right_idempotent"),
        (("a, 0", "0"),),
        "b",
    ),
    Known(
        ("a != 0 ? a : b", "if a == 0\nreturn b\nend\nreturn a"),
        ("associative", "idempotent", "right_idempotent", "identity(0)"),
        (("a, 0", "a"), ("0, b", "b"), ("2, b", "2")),
    ),
    Known(
        ("max(min(a, b), min(max(a, b), c))",),
        ("idempotent",),
        (("a, a, b", "a"), ("a, b, a", "a"), ("a, b, b", "b")),
        "a | b | c",
    ),
)
NUMBERS = (
    Known(
        ("b + a", "a - (0 - b)", "t = b\nt += a\nreturn t"),
        ("commutative", "associative", 'identity(0) inverse("-")'),
        (("a, 0", "a"), ("0, b", "b")),
    ),
    Known(
        ("b * a", "-(a * (0 - b))", "if a == 1\nreturn b\nend\nreturn a * b"),
        ("commutative", "associative", "identity(1)", "annihilator(0)", 'distributes("+")'),
        (("a, 0", "0"), ("a, 1", "a"), ("2, b", "b + b")),
    ),
    Known(("abs(a - b)", "a > b ? a - b : b - a"), ("commutative",), (("a, a", "0"),)),
    Known(("a + 2 * b",), ("identity(0, 2)",), (("a, 0", "a"), ("0, b", "b + b"))),
    Known(
        ("b != 0 ? a : 0", "if b == 0\na = 0\nend\nreturn a"),
        (*_ALL[1:], "annihilator(0)", "identity(1, 2)", 'distributes("+", 1)'),
        (("a, 0", "0"), ("a, 1", "a")),
    ),
    Known(("c != 0 ? a : b",), (), (("a, b, 0", "b"), ("a, a, c", "a"), ("a, b, 1", "a")), "a | b | c"),
    Known(("b * (c * a)",), ("annihilator(0)",), (("a, 1, c", "a * c"),), "a | b | c"),
    Known(("c - c + 1",), (), (), "a & ~a & b & c"),
)  # fmt: skip
WHOLE = (
    Known(
        (_GCD,),
        ("commutative", "associative", "annihilator(1)"),
        (("a, 0", "abs(a)"), ("0, b", "abs(b)"), ("a, a", "abs(a)")),
    ),
    Known(
        ("(a | b) - xor(a, b)",),
        (*_ALL, "identity(-1)", "annihilator(0)", 'distributes("|")'),
        (("a, 0", "0"), ("a, a", "a"), ("a, -1", "a")),
    ),
    Known(
        ("(a & b) + xor(a, b)",),
        (*_ALL, "identity(0)", "annihilator(-1)", 'distributes("&")'),
        (("a, a", "a"),),
    ),
    Known(
        ("(a | b) - (a & b)",),
        ("commutative", "associative", "identity(0)"),
        (("a, a", "0"), ("a, 0", "a")),
    ),
)
BOOLS = (
    Known(
        ("a ? b : false", "!(!a || !b)", "if !a\nreturn false\nend\nreturn b"),
        (*_ALL, "identity(true)", "annihilator(false)", 'distributes("|")'),
        (("a, true", "a"), ("a, a", "a")),
    ),
    Known(
        ("a ? true : b", "!(!b && !a)"),
        (*_ALL, "identity(false)", "annihilator(true)", 'distributes("&")'),
        (("a, false", "a"), ("a, true", "true")),
    ),
    Known(
        ("(a || b) && !(a && b)", "a ? !b : b"),
        ("commutative", "associative", "identity(false)"),
        (("a, a", "false"), ("a, true", "!a")),
        "(a | b) & ~(a & b)",
    ),
    Known(("!a || b",), ("annihilator(true, 2)", "identity(true, 1)"), (("a, a", "true"),)),
    Known(
        ("a && !b", "b ? false : a"),
        ("right_idempotent", "annihilator(false, 1)", "identity(false, 2)"),
        (("a, a", "false"), ("a, true", "false")),
    ),
    Known(
        ("(a && b) || (c && (a || b))", "a == b ? a : c"),
        ("idempotent",),
        (("a, a, b", "a"), ("a, b, b", "b"), ("a, b, false", "a && b")),
        "a | b | c",
    ),
)
KNOWN = {
    "float": ORDERED + NUMBERS,
    "int": ORDERED + NUMBERS + WHOLE,
    "bool": BOOLS,
    "minplus": ORDERED,
}

#: functions with a region that goes by the fills of their arguments
_OF_NUMBERS = (
    Known(("a * b",), ("annihilator(0)",), (), "a & b", ("0", "0")),
    Known(("b + a",), ("identity(0)",), (), "a | b", ("0", "0")),
    Known(("b != 0 ? a : 0",), (), (("a, 0", "0"),), "a & b", ("0", "0")),
    Known(("b == 0 ? a : 0",), (), (("a, 0", "a"),), "a & ~b", ("0", "0")),
    Known(("a == 0 ? b : b == 0 ? a : 0",), (), (), "(a | b) & ~(a & b)", ("0", "0")),
    Known(("a * b",), ("identity(1)",), (), "a | b", ("1", "1")),
    Known(("a * b",), (), (("0, b", "0"),), "a", ("0", "1")),
    Known(("max(a, b) - 1",), (), (), "a | b", ("1", "0")),
    Known(("a * b + c",), (), (), "(a & b) | c", ("0", "0", "0")),
    Known(("a * (b - c)",), ("annihilator(0, 1)",), (), "a & (b | c)", ("0", "1", "1")),
)
REGIONAL = {
    "float": _OF_NUMBERS,
    "int": (*_OF_NUMBERS, Known((_GCD,), (), (("a, 0", "abs(a)"),), "a | b", ("0", "0"))),
    "bool": (
        Known(("a ? b : false",), (), (), "a & b", ("false", "false")),
        Known(("a ? b : false",), (), (), "a | b", ("true", "true")),
        Known(("!(!a && !b)",), (), (), "a & b", ("true", "true")),
        Known(("a && !b",), ("annihilator(false, 1)",), (), "a & ~b", ("false", "false")),
        Known(("a && !b",), (), (), "a & b", ("false", "true")),
        Known(("a == b",), ("commutative",), (), "(a | b) & ~(a & b)", ("true", "true")),
        Known(
            ("a == b ? a : c",), (), (("a, a, c", "a"),), "(a & b) | (b & c) | (a & c)",
            ("false", "false", "false"),
        ),
    ),
    "minplus": (
        Known(("a < b ? a : b",), ("identity(Inf)",), (), "a | b", ("Inf", "Inf")),
        Known(("a + b",), ("annihilator(Inf)",), (), "a & b", ("Inf", "Inf")),
        Known(("b == Inf ? a : Inf",), (), (("a, Inf", "a"),), "a & ~b", ("Inf", "Inf")),
        Known(("max(a, b)",), (), (), "a | b", ("Inf", "0")),
    ),
}  # fmt: skip


#: functions of numbers, a range, and what is true of them over that
RANGED = (
    ("a < b ? a : b", "x >= 0", ("annihilator = 0", "idempotent", "associative")),
    ("a > b ? a : b", "x >= 0", ("identity = 0", "right_idempotent")),
    ("a > b ? a : b", "0 >= x", ("annihilator(0)", "commutative")),
    ("a < b ? a : b", "x <= 2", ("identity(2)",)),
    ("abs(a) + abs(b)", "x >= 0", ("identity(0)", "commutative", "associative")),
    ("a < 0 ? b : a", "x >= 0", ("idempotent", "right_idempotent", "associative")),
    ("a * b < 0 ? 2 : a * b", "0 <= x <= 4", ("annihilator(0)", "identity(1)", "commutative")),
    ("a > 2 ? a - b : a * b", "x < 2 && x > -2", ("annihilator(0)", 'distributes("+", 2)')),
    ("b > 0 ? a : 0 - b", "x > 0", ("idempotent", "associative")),
)


class LawGenerator:
    """Definitions with laws, for programs of a kind."""

    def __init__(self, source: random.Random, kind: str):
        self.random, self.kind, self.type = source, kind, TYPE[kind]

    def definition(self, name: str, known: Known) -> str:
        """A function with some of its laws; with its region, if that goes by fills."""
        head = f"{name}({', '.join(f'p{k + 1}' for k in range(known.count))})"
        body = self.random.choice(known.bodies)
        if "\n" in body or body.startswith("return"):
            given = [f"{n} = {self.type}(p{k + 1})" for k, n in enumerate("abc"[: known.count])]
            text = "\n".join([f"function {head}", *given, self.numbers(body), "end"])
        else:
            text = f"{head} = {self.inside(body)}"
        cases = [
            f"@case {name}({self.named(pattern)}) = {self.inside(result)}"
            for pattern, result in known.cases
            if self.chance(0.5)
        ]
        lines = [*self.properties(name, known), *cases]
        if known.fills or self.chance(0.5):
            lines.append(f"@iterate {head} = {self.named(self.region(known.region))}")
        self.random.shuffle(lines)
        return "\n".join([text, *lines])

    def properties(self, name: str, known: Known) -> list[str]:
        some = [law for law in known.properties if self.chance(0.6)]
        self.random.shuffle(some)
        return [f"@properties {name} {' '.join(some)}"] if some else []

    def of_any(self, name: str, count: int, body: str) -> list[str]:
        """What can be said of a function that is the expression `body`: where arguments are known it
        is that of these, and it is what it is at the fills outside of all arguments."""
        names = [f"p{k + 1}" for k in range(count)]
        lines = []
        if count > 1 and self.chance(0.4):
            known = names[: self.random.randint(1, count - 1)]
            values = ("true", "false") if self.kind == "bool" else ("0", "1", "2")
            given = {p: self.random.choice((*values, names[-1])) for p in known}
            pattern = ", ".join(given.get(p, p) for p in names)
            result = re.sub(r"\bp\d\b", lambda m: given.get(m[0], m[0]), body)
            lines.append(f"@case {name}({pattern}) = {result}")
        if self.chance(0.4):
            region = self.region(" | ".join("abc"[:count]))
            lines.append(f"@iterate {name}({', '.join(names)}) = {self.named(region)}")
        return lines

    def region(self, text: str) -> str:
        """A region, or the same one otherwise."""
        forms = ("{0}", "{0}", "({0}) & ({0} | b)", "({0}) & a | ({0}) & ~a", "~~({0})")
        if text == "a | b":
            forms += ("a | (b & ~a)", "(a & b) | (a & ~b) | (b & ~a)", "~(~a & ~b)")
        form = self.random.choice(forms if "b" in text else forms[:2])
        return form.format(text)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def numbers(self, text: str) -> str:
        """Numbers of the type that functions compute in."""
        is_float = self.type == "Float64"
        return re.sub(r"\b(?<!:)([012])\b(?!:)", r"\1.0", text) if is_float else text

    def inside(self, text: str) -> str:
        """An expression of a, b, c as one of the parameters, converted."""
        found = re.sub(r"\b[abc]\b", lambda m: f"{self.type}({self.named(m[0])})", text)
        return self.numbers(found)

    def named(self, text: str) -> str:
        return re.sub(r"\b[abc]\b", lambda m: f"p{'abc'.index(m[0]) + 1}", text)
