"""Random scripts of loops around kernels, and of functions that are called in these: `script(seed)`.

Every loop has a few rounds at most, so that all of them end. Some fail on the way, some hold what cannot
be compiled as a unit. Values are small integers, or these divided by 2, so that sums of floats are exact
in any order; integers may wrap. What scripts are made of are the tables of `function_tables.toml`.
"""

from __future__ import annotations

import random
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

TABLES = tomllib.loads(Path(__file__).with_name("function_tables.toml").read_text("utf-8"))
VECTORS, MATRICES, NUMBERS = (TABLES[name].split() for name in ("vectors", "matrices", "numbers"))
KINDS = TABLES["kinds"]

Rows = list[tuple[float, list[str]]]


def rows(text: str) -> Rows:
    """The rows of a table, one a line."""
    parts = (line.strip().partition(" ") for line in text.strip().splitlines())
    return [(float(weight), rest.strip().split(" // ")) for weight, _, rest in parts]


KERNELS, STATEMENTS, TROUBLE = (rows(TABLES[n]) for n in ("kernels", "statements", "trouble"))
PRINTED, RECURSIVE = rows(TABLES["printed"]), rows(TABLES["recursive"])
EXPRESSIONS = {kind: rows(text) for kind, text in TABLES["expressions"].items()}
TOKEN = re.compile(r"\{(\+?\w+\+?)\}")
#: what functions are made of, with other statements between
BODIES = ("<kernel>", "<kernel> <loop>", "<loop> <kernel>", "<if> <loop>")


class NoName(Exception):
    """A scope has no name of a kind that a row asks for."""


@dataclass
class Scope:
    """The names of a function or of the script by kind, what it returns, and how many loops are around."""

    names: dict[str, list[str]]
    returns: str = ""
    is_function: bool = False
    loops: int = 0


@dataclass
class Called:
    """A function, the kinds of its parameters and of what it returns."""

    name: str
    takes: str
    returns: str


class Writer:
    """Writes the script of a seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.size = self.random.choice((1, 2, 3, 3, 4, 5))
        self.trouble = self.random.choice((0.0, 0.0, 1.0, 3.0))
        self.is_printed = self.random.random() < 0.15
        self.functions: list[Called] = []
        self.number = self.kernels = 0
        self.scope = Scope({})
        self.chosen: dict[str, str] = {}
        self.vector = "I"

    def script(self) -> str:
        """The text: functions, what they work on, and loops."""
        lines = [self.text(line) for line in self.pick(RECURSIVE)]
        lines += [line for _ in range(self.random.randint(1, 3)) for line in self.function()]
        self.kernels = 0
        self.scope = Scope({kind: names.split() for kind, (names, _) in KINDS.items()})
        for kind, names in self.scope.names.items():
            lines += [f"{name} = {self.value(kind)}" for name in names]
        for _ in range(self.random.choice((1, 2, 2, 3))):
            lines += self.lines_of("<loop>", 0)
            lines += self.statement(2) if self.random.random() < 0.5 else []
        return "\n".join([*indented(lines), ""])

    def function(self) -> list[str]:
        """A function, which has a loop or is called in one."""
        is_float = self.random.random() < 0.4
        takes = ("FFI" if is_float else "II") + "".join(
            kind for kind in "BBMDSixb" if self.random.random() < 0.6
        )
        names = {kind: [f"{kind}{k}" for k in range(takes.count(kind))] for kind in KINDS}
        given = [names[kind][takes[:k].count(kind)] for k, kind in enumerate(takes)]
        returns = self.random.choice(("I", "i", "x", "Ii", "b", "F" if is_float else "I", ""))
        self.kernels, self.scope = 0, Scope(names, returns, True)
        lines = []
        for kind in ("i", "x", "b", *"IS"):
            if not names[kind] or self.random.random() < 0.3:
                names[kind].append(f"{kind}own")
                lines.append(f"{kind}own = {self.value(kind)}")
        for what in self.random.choice(BODIES).split():
            lines += self.statement(1, what)
            lines += self.statement(1) if self.random.random() < 0.5 else []
        lines.append(f"return {self.result()}".strip())
        name = f"f{len(self.functions)}"
        self.functions.append(Called(name, takes, returns))
        return [f"function {name}({', '.join(given)})", *lines, "end"]

    def value(self, kind: str) -> str:
        """What a name of this kind is made."""
        draw = self.random
        if kind in "ixb":
            choices = {"i": ("0", "1", "2", "3", "-1"), "x": NUMBERS, "b": ("true", "false")}
            return draw.choice(choices[kind])
        if kind == "S":
            return f"Scalar(0, {draw.randint(0, 3)})"
        if self.scope.is_function:
            return f"Tensor({self.format(kind)}, {self.size})"
        make = {
            "F": lambda: f"{draw.randint(0, 3) / 2}",
            "B": lambda: draw.choice(("true", "false")),
        }
        element = make.get(kind, lambda: str(draw.choice((0, 0, 1, 2, 3))))
        row = [element() for _ in range(self.size)]
        if kind == "M":
            columns = [" ".join(element() for _ in row) for _ in row]
            array = f"[{'; '.join(columns)}]" if self.size > 1 else "zeros(Int64, 1, 1)"
        else:
            array = f"[{', '.join(row)}]"
        if kind == "D" and draw.random() < 0.4:
            return array
        return f"Tensor({self.format(kind)}, {array})"

    def format(self, kind: str) -> str:
        leaf = KINDS[kind][1]
        levels = {"M": MATRICES, "D": ("Dense(%)",)}.get(kind, VECTORS)
        return self.random.choice(levels).replace("%", leaf)

    # ------------------------------------------------------------------------------- statements

    def statement(self, depth: int, what: str = "") -> list[str]:
        """Lines of a statement, within so many others; of `what`, if that can be."""
        table = [(1.0, [what])] if what else STATEMENTS
        if not what and self.random.random() < 0.15 * self.trouble:
            table = TROUBLE
        elif not what and self.is_printed and self.random.random() < 0.1:
            table = PRINTED
        for _ in range(40):
            row = self.pick(table)
            is_deep = depth >= 3 and row[0] in ("<if>", "<loop>")
            is_much = self.kernels >= 5 + 6 * (not self.scope.is_function) and row[0] == "<kernel>"
            if is_deep or is_much or (row[0] in ("<f>", "<loop>") and self.scope.loops > 1):
                table = STATEMENTS
                continue
            try:
                return self.filled(row, depth)
            except NoName:
                table = STATEMENTS
        return [f"i$ = {depth}".replace("$", str(self.number))]

    def filled(self, row: list[str], depth: int) -> list[str]:
        """The lines of a row, whose names are chosen anew."""
        self.chosen, self.vector = {}, self.random.choice("IIFFD")
        self.number += 1
        made: list[str] = []
        for line in row:
            made += self.lines_of(line, depth)
        return made

    def lines_of(self, line: str, depth: int) -> list[str]:
        """The lines that stand for one of a row."""
        match line:
            case "<kernel>":
                self.kernels += 1
                row = self.pick(KERNELS)
                body = self.filled(row, depth)
                return [f"@finch {body[0]}"] if len(body) == 1 else ["@finch begin", *body, "end"]
            case "<if>":
                return self.condition(depth)
            case "<loop>":
                return self.loop(depth)
            case "<f>":
                return self.call()
            case "<trouble>":
                return self.filled(self.pick(TROUBLE), depth)
        return [
            self.text(line.replace("$(", "\0").replace("$", str(self.number)).replace("\0", "$("))
        ]

    def block(self, depth: int, most: int) -> list[str]:
        """Some statements, mostly with a kernel or a call."""
        lines = self.statement(depth + 1, self.random.choice(("<kernel>", "<kernel>", "<f>")))
        return lines + [
            s for _ in range(self.random.randrange(most)) for s in self.statement(depth + 1)
        ]

    def condition(self, depth: int) -> list[str]:
        lines = [f"if {self.fresh('{b}')}", *self.block(depth, 2)]
        if self.random.random() < 0.25:
            lines += [f"elseif {self.fresh('{b}')}", *self.block(depth, 1)]
        if self.random.random() < 0.4:
            lines += ["else", *self.block(depth, 2)]
        return [*lines, "end"]

    def loop(self, depth: int) -> list[str]:
        """A loop of a few rounds, which may be left or go on early."""
        self.number += 1
        counter = f"k{self.number}"
        head, rounds = [], self.random.choice((2, 3, 3, 1, 0, 4, 5)[: 7 - 2 * min(depth, 2)])
        if self.random.random() < 0.5:
            more = self.fresh(self.random.choice(("", "", " && {b}", " && {S1}[] < 9")))
            head = [f"{counter} = 0", f"while {counter} < {rounds}{more}", f"{counter} += 1"]
        else:
            extents = *[f"1:{rounds}"] * 4, "{m}:3", "{m}:-1:1", "7:-2:{m}", "{m}:{m}", "1:{l+}:4"
            head = [f"for {counter} = {self.fresh(self.random.choice(extents))}"]
        self.scope.loops += 1
        counters = self.scope.names.setdefault(
            "k", []
        )  # which are read only, so that the loop ends
        counters.append(counter)
        head += self.block(depth, 3)
        if self.random.random() < 0.3:
            result = [f"return {self.result()}"] if self.scope.is_function else []
            leave = self.random.choice(("break", "continue", *result)).strip()
            head += [f"if {self.fresh('{b}')}", leave, "end", *self.block(depth, 2)]
        counters.remove(counter)
        self.scope.loops -= 1
        return [*head, "end"]

    def call(self) -> list[str]:
        """A call of an earlier function, whose results get names that there are."""
        if not self.functions:
            raise NoName
        function, self.chosen = self.random.choice(self.functions), {}
        to = ", ".join(self.name(kind, f"r{k}") for k, kind in enumerate(function.returns))
        if self.random.random() < 0.9:
            self.chosen = {}
        given = []
        for k, kind in enumerate(function.takes):
            is_name = kind not in "ixb" or self.random.random() < 0.5
            given.append(self.name(kind, f"g{k}") if is_name else self.text(f"{{{kind}}}"))
            if is_name and self.random.random() < 0.1:  # a tensor may be given twice
                given[-1] = self.random.choice(self.scope.names[kind])
        return [
            f"{to} = {function.name}({', '.join(given)})"
            if to
            else f"{function.name}({', '.join(given)})"
        ]

    def result(self) -> str:
        self.chosen = {}
        return ", ".join(self.name(kind, f"r{k}") for k, kind in enumerate(self.scope.returns))

    # ------------------------------------------------------------------------------- expressions

    def fresh(self, text: str) -> str:
        self.chosen = {}
        try:
            return self.text(text)
        except NoName:
            return self.text("true") if "b" in text else "1:2"

    def text(self, line: str, depth: int = 0) -> str:
        return TOKEN.sub(lambda found: self.token(found[1], depth), line)

    def token(self, token: str, depth: int) -> str:
        if token in ("l", "l+"):
            return str(self.random.randint(len(token) - 1, 3))
        if token == "n":
            return str(self.size)
        if token == "+V":
            return self.format(self.vector)
        if token[-1].isdigit():
            kind = self.vector if token[0] == "V" else token[0]
            return self.name(kind, token if depth == 0 else f"{token} {self.random.random()}")
        token = ("f" if self.vector == "F" else "w") if token == "v" else token
        for _ in range(20):
            row = self.pick(EXPRESSIONS[token])[0]
            if depth > 1 and row.count("{") > 1:
                continue
            try:
                return self.text(row, depth + 1)
            except NoName:
                continue
        return "true" if token in "bc" else "1"

    def name(self, kind: str, key: str) -> str:
        """The name that stands for a key in this statement: another one for each at the outermost level."""
        if key not in self.chosen:
            used = set(self.chosen.values()) if " " not in key else self.targets()
            own = self.scope.names
            more = own.get("k", []) if kind == "i" and " " in key else []
            names = [name for name in (*own.get(kind, ()), *more) if name not in used]
            if not names:
                raise NoName
            self.chosen[key] = self.random.choice(names)
        return self.chosen[key]

    def targets(self) -> set[str]:
        """Tensors that a statement names itself, which its expressions leave alone."""
        return {name for key, name in self.chosen.items() if " " not in key and key[0] not in "ixb"}

    def pick(self, table: Rows) -> list[str]:
        return self.random.choices([row for _, row in table], [weight for weight, _ in table])[0]


def indented(lines: list[str]) -> list[str]:
    """Lines with blanks before them as their blocks are nested."""
    made, depth = [], 0
    for line in lines:
        if re.match(r"(end|else|elseif)\b", line):
            depth -= 1
        made.append("    " * depth + line)
        if re.match(r"(@finch )?(for|while|if|let|function|begin|else|elseif)\b", line):
            depth += 1
    return made


def script(seed: int) -> str:
    """The script of a seed."""
    return Writer(seed).script()
