"""What generated scripts reach: rules, pairs and triples of levels, operators (also of shapes), statements
of the host and passes; and what they do not reach, with the reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.host import ir
from finchlang.host.engine import Applied
from finchlang.host.rewrite import walk
from finchlang.levels.level import Level, level_of
from finchlang.normalize.pass_list import PASSES
from finchlang.operators.operator_table import OPERATORS
from finchlang.optimize.pipeline import lower
from finchlang.python.session import Session
from finchlang.rules import table
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.testing import random_shapes
from finchlang.testing.grammar import PAIRS, TRIPLES

#: shape operators, and wrappers that scripts have besides
SHAPES = (*random_shapes.OPERATORS, "offset", "permissive", "toeplitz", "protocolize")


class Coverage(Observer):
    """Counts what kernels reach, by kind and name."""

    traces = True

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()

    def rule(self, applied: Applied) -> None:
        for ends in ("", "True", "False"):  # SwitchTrue and SwitchFalse are one rule of the table
            if applied.name.endswith(ends):
                self.counts["rule", applied.name.removesuffix(ends)] += 1

    def kernel(self, event: KernelEvent) -> None:
        before: Any = event.source.program
        for name, program in event.passes:
            if program != before:
                self.counts["pass", name] += 1
            before = program
        for node in trees.walk(event.source.program):
            for kind, known in (("operator", OPERATORS), ("shape", SHAPES)):
                if isinstance(node, ast.Variable) and node.name in known:
                    self.counts[kind, node.name] += 1
        for format in event.compiled.staged.normalized.formats.values():
            level = level_of(format)
            if isinstance(level, Level):
                names = [type(part).__name__ for part in level.levels()][:-1]
                for kind, count in (("pair", 2), ("triple", 3)):
                    stacks = zip(*(names[k:] for k in range(count)), strict=False)
                    self.counts.update((kind, " / ".join(stack)) for stack in stacks)
        for residual in (event.residual, lower(event.residual)[0]):
            for code in (residual.body, *(procedure.body for procedure in residual.procedures)):
                self.counts.update(("host", type(part).__name__) for part in walk(code))

    def run(self, text: str, rules: str = "all") -> None:
        session = Session("interpret", rules, lambda _: None, (), self)
        try:
            session.run(text)
        except FinchError:
            self.counts["script", "refused"] += 1


#: why generated scripts cannot reach something
REASONS = {
    ("rule", "Choice"): "Union takes its place, but by --rules=all-Union",
    ("rule", "Variable"): "a name that stands for nothing is told before rules meet it",
    ("rule", "Index"): "an index that no loop binds is told before rules meet it",
    ("host", "Clock"): "`finch bench --profile` alone reads one",
    ("host", "Exchange"): "loops that are compiled whole exchange; these are interpreted",
    ("pass", "types"): "it adds types, which make no difference between programs",
}


def expected() -> dict[str, tuple[str, ...]]:
    return {
        "rule": tuple(rule.name for rule in table.RULES),
        "pair": tuple(" / ".join(pair) for pair in PAIRS),
        "triple": tuple(" / ".join(triple) for triple in TRIPLES),
        "operator": tuple(name for name, row in OPERATORS.items() if row.name == name),
        "shape": SHAPES,
        "host": tuple(part.__name__ for part in ir.Stmt.__subclasses__()),
        "pass": tuple(name for name, *_ in PASSES),
    }


def report(counts: Counter[tuple[str, str]]) -> str:
    """A table for people: of each kind how many were reached, how often, and which were not."""
    lines = []
    for kind, names in expected().items():
        names = tuple(dict.fromkeys(names))
        missed = [n for n in names if not counts[kind, n]]
        found = sorted((n, c) for (k, n), c in counts.items() if k == kind)
        told = "" if kind in ("pair", "triple") else ", ".join(f"{n} {c}" for n, c in found)
        lines.append(f"{kind}: {len(names) - len(missed)} of {len(names)} {told}".rstrip())
        for name in missed if kind != "triple" else ():
            lines.append(f"  {name}: not reached: {REASONS.get((kind, name), 'by no seed so far')}")
    return "\n".join(lines)
