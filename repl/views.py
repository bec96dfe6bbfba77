"""Observers that print a stage of each kernel, one for each command that looks at kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from finchlang.algebra import costs
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.calls.workspace_exchange import Sum
from finchlang.functions.unit import Unit
from finchlang.host.engine import Applied, EventKind
from finchlang.host.ir import Residual
from finchlang.host.listing import text as listing
from finchlang.host.recording import ResidualHost
from finchlang.host.rewrite import everything
from finchlang.native.jit import assembly_text, llvm_text
from finchlang.script.show import table
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty


class Passes(Observer):
    """Each kernel after each pass, with the workspaces that it has by then, as a script that runs on the
    same tensors (`finch normalize`)."""

    def kernel(self, event: KernelEvent) -> None:
        print(title(event))
        before = ""
        for name, program in event.passes:
            used = {n.name for n in trees.find_all(program, ast.Variable)}
            own = [(n, level) for n, level in event.workspaces.items() if n in used]
            lines = [f"{n} = Tensor({', '.join([str(v), *['0'] * v.order])})" for n, v in own]
            is_unit = isinstance(event.source, Unit)
            text = "\n".join([*lines, pretty(program if is_unit else ast.KernelNode(program))])
            print(f"# {name}" if text != before else f"# {name}: the same")
            if text != before:
                print(text)
            before = text
        print()


class Stages(Observer):
    """Observers that look at what is compiled: kernels, and loops and functions as wholes."""

    stages = True


class Explanations(Stages):
    """For each kernel, what passes decided and why, and the steps that decide how much is done, as the page
    of `--html` says them (`finch explain`). `reads_data` if its arguments are as they were given."""

    reads_data = True

    def kernel(self, event: KernelEvent) -> None:
        exchanged = "".join(f", another `{name}`" for name in sorted(event.compiled.exchanged))
        print(title(event) + exchanged)
        told = ""
        for name, what in self.told(event):
            if name != told:
                print(name)
            print(f"    {what}")
            told = name
        print()

    def told(self, event: KernelEvent) -> Iterator[tuple[str, str]]:
        kernel = event.compiled
        yield from (("formats", f"`{name}`: {format}") for name, format in kernel.formats.items())
        exchanging = getattr(event.source, "groups", ())
        yield from (("exchanged", ", ".join(f"`{name}`" for name in group)) for group in exchanging)
        yield from event.decisions
        yield from (("notes", str(note)) for note in kernel.notes)
        for name, (totals, updates) in kernel.signature.spans.items():
            places = " x ".join(map(_sum_text, totals))
            yield "call", f"`{name}` has {places} places: {_choice(totals, updates)}"
        from .recording import Recording

        yield from (("steps", said) for said in Recording(event, self.reads_data).key_sentences)


def _sum_text(total: Sum) -> str:
    text = ""
    for factor, name, mode in total:
        part = f"size({name}, {mode})" if mode else name or str(abs(factor))
        text += f" {'-' if factor < 0 else '+'} {part}"
    return text.removeprefix(" + ").strip()


def _choice(totals: tuple[Sum, ...], updates: tuple[Any, ...]) -> str:
    if len(totals) == 1 and updates:
        other = f"more than {costs.SHORT}, and than {costs.PER_UPDATE}"
        return f"a byte map; if {other} for each update that is expected, a list"
    if len(totals) == 1:
        other = f"more than {costs.PLACES}, and than {costs.PER_ENTRY}"
        return f"a byte map; if {other} for each entry of what is read, a list"
    most = f"{costs.LEAST} to {costs.MOST}, and at most {costs.FEW}"
    return f"a list; if {most} for each update that is expected, flags"


class Listings(Stages):
    """A text made of the residual program of each kernel and unit (`finch residual`, `llvm`, `asm`)."""

    def __init__(self, text: Callable[[Residual], str], comment: str = "#"):
        self.text, self.comment = text, comment

    def kernel(self, event: KernelEvent) -> None:
        print(title(event, self.comment))
        print(self.text(event.residual))


#: the observers of one stage, by the command that prints it
LOOKS: dict[str, Callable[[], Any]] = {
    "normalize": Passes,
    "explain": Explanations,
    "residual": partial(Listings, listing),
    "llvm": partial(Listings, llvm_text, ";"),
    "asm": partial(Listings, assembly_text),
}


class Counts(Stages):
    """How often each rule was applied, and each kind of step taken by the host (`finch trace --count`)."""

    traces = one_by_one = True
    engine, second = "interpret", "host step"

    def __init__(self, all: bool = False) -> None:
        self.all = all
        self.rules: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def rule(self, applied: Applied) -> None:
        if applied.kind == EventKind.STEP or (self.all and applied.kind == EventKind.EXPRESSION):
            self.rules[applied.name] += 1

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.steps.update(steps)

    def report(self) -> str:
        return "\n\n".join((_table("rule", self.rules), _table(self.second, self.steps)))


class StagedCounts(Counts):
    """How often each rule was applied in staging, and how many statements of each kind the residuals have
    (`finch trace --staged --count`)."""

    traces = one_by_one = False
    engine, second = "native", "statement"

    def kernel(self, event: KernelEvent) -> None:
        event.stage(ResidualHost(), self.rule)
        self.steps.update(type(s).__name__.lower() for s in everything(event.residual))


def title(event: KernelEvent, comment: str = "#", number: int | None = None) -> str:
    span = event.source.span
    place = f"at {span.source.name}:{span.line}" if span is not None else "of an array expression"
    what = "unit" if isinstance(event.source, Unit) else "kernel"
    return f"{comment} {what} {'' if number is None else f'{number} '}{place}"


def _table(heading: str, counts: Counter[str]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return table([(heading, "times"), *ordered, ("total", counts.total())])
