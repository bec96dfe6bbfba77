"""Random functions of a script, which random kernels call as operators: expressions, bodies with
names, branches and loops that end, and what is known of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

if __package__:
    from tests.generate_laws import KNOWN, REGIONAL, TYPE, Known, LawGenerator
else:
    from generate_laws import KNOWN, REGIONAL, TYPE, Known, LawGenerator

#: what functions compute, in each kind of program
FORMS = {
    "float": ("{a} + {b}", "{a} - {b}", "{a} * {b}", "min({a}, {b})", "max({a}, {b})", "abs({a})"),
    "int": (
        "{a} + {b}",
        "{a} - {b}",
        "{a} * {b}",
        "{a} & {b}",
        "div({a}, abs({b}) + 1)",
        "max({a}, {b})",
    ),
    "bool": ("{a} && {b}", "{a} || {b}", "!{a}", "xor({a}, {b})", "{a} == {b}"),
    "minplus": ("{a} + {b}", "min({a}, {b})", "max({a}, {b})"),
}
#: what takes its arguments as they are
PLAIN = {
    "float": ("{a} + {b}", "{a} * {b}", "max({a}, {b})", "{a} * {a} + {b}"),
    "int": ("{a} + {b}", "{a} * {b}", "xor({a}, {b})", "{a} - {b} * {b}"),
    "bool": ("{a} && {b}", "{a} | !{b}"),
    "minplus": ("{a} + {b}", "min({a}, {b})"),
}


@dataclass(frozen=True)
class Function:
    """A function: its name, how many arguments it takes, and its definition, with its laws."""

    name: str
    count: int
    text: str


class FunctionGenerator:
    """Functions for programs of a kind; each may call those before it."""

    def __init__(self, seed: int, kind: str):
        self.random, self.kind = random.Random(seed), kind
        self.laws = LawGenerator(self.random, kind)
        self.made: list[Function] = []

    def functions(self) -> tuple[Function, ...]:
        for k in range(self.random.choice((1, 1, 2))):
            name = f"f{k + 1}"
            if self.chance(0.5):
                known = self.random.choice(KNOWN[self.kind])
                made = Function(name, known.count, self.laws.definition(name, known))
            else:
                made = self.function(name, self.random.choice((1, 2, 2, 2, 3)))
            self.made.append(made)
        return tuple(self.made)

    def regional(self, name: str) -> tuple[Function, Known]:
        """A function that is for operands of certain fills, and what is known of it."""
        known = self.random.choice(REGIONAL[self.kind])
        return Function(name, known.count, self.laws.definition(name, known)), known

    def function(self, name: str, count: int) -> Function:
        parameters = [f"p{k + 1}" for k in range(count)]
        head = f"{name}({', '.join(parameters)})"
        type = TYPE[self.kind]
        if self.chance(0.25):
            form = self.random.choice(PLAIN[self.kind])
            body = form.format(a=parameters[0], b=parameters[-1])
            rest = "".join(f" {'&&' if self.kind == 'bool' else '+'} {p}" for p in parameters[1:-1])
            return Function(name, count, f"{head} = {body}{rest}")
        if self.chance(0.4):
            values = [f"{type}({p})" for p in parameters]
            body = self.expression(values, 2)
            lines = [f"{head} = {body}", *self.laws.of_any(name, count, body)]
            return Function(name, count, "\n".join(lines))
        names = [f"a{k + 1}" for k in range(count)]
        given = [f"{n} = {type}({p})" for n, p in zip(names, parameters, strict=True)]
        lines = [*given, *self.statements(names, 2, False), f"return {self.expression(names, 1)}"]
        return Function(name, count, "\n".join([f"function {head}", *lines, "end"]))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def literal(self) -> str:
        if self.kind == "bool":
            return self.random.choice(("true", "false"))
        number = self.random.randint(0, 2)
        return str(number) if self.kind == "int" else f"{number}.0"

    def expression(self, names: list[str], depth: int) -> str:
        if not depth or self.chance(0.2):
            return self.random.choice([*names, *names, self.literal()])
        a, b = (f"({self.expression(names, depth - 1)})" for _ in range(2))
        if self.made and self.chance(0.2):
            called = self.random.choice(self.made)
            args = ", ".join(self.expression(names, 0) for _ in range(called.count))
            return f"{TYPE[self.kind]}({called.name}({args}))"
        if self.chance(0.2):
            return f"({self.condition(names)}) ? {a} : {b}"
        return self.random.choice(FORMS[self.kind]).format(a=a, b=b)

    def condition(self, names: list[str]) -> str:
        a, b = self.random.choice(names), self.random.choice([*names, self.literal()])
        if self.kind == "bool":
            return self.random.choice((a, f"!{a}", f"{a} == {b}"))
        return f"{a} {self.random.choice(('<', '<=', '>', '==', '!='))} {b}"

    def statements(self, names: list[str], depth: int, in_loop: bool) -> list[str]:
        found: list[str] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            found += self.statement(names, depth, in_loop)
        return found

    def statement(self, names: list[str], depth: int, in_loop: bool) -> list[str]:
        form = self.random.random()
        if not depth or form < 0.3:
            return self.simple(names, in_loop)
        if form < 0.6:
            lines = [f"if {self.condition(names)}", *self.statements(names, depth - 1, in_loop)]
            if self.chance(0.3):
                lines += [f"elseif {self.condition(names)}", *self.simple(names, in_loop)]
            if self.chance(0.5):
                lines += ["else", *self.statements(names, depth - 1, in_loop)]
            return [*lines, "end"]
        counter = f"k{depth}{self.random.randint(0, 99)}"
        body = self.statements(names, depth - 1, True)
        if form < 0.8:
            extent = self.random.choice(("1:2", "2:-1:1", "1:2:4", "0:0", "2:1"))
            return [f"for {counter} = {extent}", *body, "end"]
        condition = f"{counter} < 2 && {self.condition(names)}"
        if self.chance(0.3):
            condition, body = "true", [f"if {counter} > 1", "break", "end", *body]
        return [f"{counter} = 0", f"while {condition}", f"{counter} += 1", *body, "end"]

    def simple(self, names: list[str], in_loop: bool) -> list[str]:
        if self.chance(0.15):
            return [f"return {self.expression(names, 1)}"]
        if in_loop and self.chance(0.25):
            return [self.random.choice(("break", "continue"))]
        if len(names) > 1 and self.chance(0.15):
            a, b = self.random.sample(names, 2)
            return [f"{a}, {b} = {b}, {self.expression(names, 1)}"]
        name = self.random.choice(names)
        return [f"{name} = {self.expression(names, 1)}"]
