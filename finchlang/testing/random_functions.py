"""Functions of random scripts, and their declared laws."""

from __future__ import annotations

import random
import re

from finchlang.testing.grammar import COMPUTED, FUNCTIONS, STEPS, TYPES, Known


class Functions:
    """Draws the kind of a script, literals, and functions; `before` are the lines that define these."""

    def __init__(self, seed: int, kind: str = ""):
        self.random = random.Random(seed)
        drawn = self.pick({"float": 5, "int": 5, "bool": 2, "minplus": 2})
        self.kind = kind or drawn
        self.before: list[str] = []
        self.functions: list[tuple[str, Known]] = []

    def pick(self, weights: dict[str, float]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def typed(self, value: float, type: str) -> str:
        if type == "Bool":
            return "true" if value else "false"
        if type.startswith("Float"):
            text = repr(float(value)).replace("inf", "Inf").replace("nan", "NaN")
            return text if type == "Float64" else f"Float32({text})"
        if value >= 2**63:
            return f"0x{int(value):x}"
        return str(int(value)) if type == "Int64" else f"{type}({int(value)})"

    def function(self) -> None:
        """A new function of the script: one of random steps, or one with known laws, but without a region
        that depends on fills."""
        if self.chance(0.4):
            name, type = f"f{len(self.before)}", TYPES[self.kind][0]
            found = [f"{x} = {type}({x}0)" for x in "pq"]
            found += [self.step() for _ in range(self.random.randint(1, 3))]
            text = "\n".join(
                [f"function {name}(p0, q0)", *found, f"return {self.computed()}", "end"]
            )
            self.before.append(text)
            self.functions.append((name, Known(self.kind[0], "p, q")))
            return
        fit = [k for k in FUNCTIONS if self.kind[0] in k.kinds]
        self.function_of(self.random.choice(fit), False)

    def step(self) -> str:
        made = {"p": lambda: self.random.choice("pq"), "e": self.computed}
        made["c"] = lambda: (
            f"p {self.random.choice(('==', '!=') if self.kind == 'bool' else ('<', '<=', '!='))} q"
        )
        return re.sub(r"\{(\w)\}", lambda m: made[m[1]](), self.random.choice(STEPS))

    def computed(self, depth: int = 2) -> str:
        if not depth or self.chance(0.25):
            zero = TYPES[self.kind][0]
            return self.random.choice(("p", "q", self.typed(self.random.randint(0, 2), zero)))
        form = self.random.choice(COMPUTED[self.kind[0]].split("; "))
        return re.sub(r"\b[ab]\b", lambda _: f"({self.computed(depth - 1)})", form)

    def function_of(self, known: Known, is_regional: bool = True) -> None:
        """A new function of the script, with some of its laws."""
        name, type = f"f{len(self.before)}", TYPES[self.kind][0]
        given = ("p", "q", "r")[: known.count]
        head = f"{name}({', '.join(given)})"

        def converted(text: str) -> str:
            return re.sub(r"\b[pqr]\b", lambda m: f"{type}({m[0]})", self.numbers(text))

        if "return" in known.body:
            own = [f"{a} = {type}({a}0)" for a in given]
            first = f"{name}({', '.join(f'{a}0' for a in given)})"
            self.before.append(
                "\n".join([f"function {first}", *own, self.numbers(known.body), "end"])
            )
        else:
            self.before.append(f"{head} = {converted(known.body)}")
        some, where, over = known.laws.partition(" where ")
        laws = [w for w in re.findall(r"\w+(?:\([^)]*\))?", some) if self.chance(0.6)]
        if not any(law.startswith("identity") for law in laws):
            laws = [law for law in laws if not law.startswith("inverse")]
        if laws:
            self.before.append(f"@properties {name} {' '.join(laws)}{where}{over}")
        for case in known.cases:
            pattern, result = case.split(" = ")
            if self.chance(0.5):
                self.before.append(f"@case {name}({self.numbers(pattern)}) = {converted(result)}")
        if known.region and (is_regional or (not known.fills and self.chance(0.5))):
            self.before.append(f"@iterate {head} = {known.region}")
        self.functions.append((name, known))

    def numbers(self, text: str) -> str:
        if TYPES[self.kind][0] != "Float64":
            return text
        return (
            re.sub(r"(?<![\w:.(])([012])(?![\w:.])(?! ?, ?[12]\))", r"\1.0", text)
            if "for" not in text
            else text
        )
