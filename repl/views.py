"""What the looking commands print: observers of a run, one for each command."""

from __future__ import annotations

from collections import Counter

from finchlang.host.print import text as listing
from finchlang.session import KernelEvent, Observer
from finchlang.syntax import Node
from finchlang.text.print import pretty


class Passes(Observer):
    """Each kernel after each pass (`finch normalize`)."""

    def kernel(self, event: KernelEvent) -> None:
        print(_title(event))
        for name, program in event.passes:
            print(f"# {name}")
            print(pretty(program))
        print()


class Residuals(Observer):
    """The residual program of each kernel (`finch residual`)."""

    def kernel(self, event: KernelEvent) -> None:
        print(_title(event))
        print(listing(event.residual))


class Llvm(Observer):
    """The LLVM IR of each kernel (`finch llvm`)."""

    def kernel(self, event: KernelEvent) -> None:
        print(_title(event, comment=";"))
        print(event.llvm())


class Assembly(Observer):
    """The machine code of each kernel (`finch asm`)."""

    def kernel(self, event: KernelEvent) -> None:
        print(_title(event))
        print(event.asm())


class Trace(Observer):
    """Each rule applied, with the term before (`-`) and after (`+`) it (`finch trace`); what an arm
    of a branch or the body of a loop begins with is shown once (`=`)."""

    traces = True

    def __init__(self) -> None:
        self.number = 0

    def kernel(self, event: KernelEvent) -> None:
        self.number = 0
        print(_title(event))

    def rule(self, name: str, before: Node, after: Node | None, depth: int) -> None:
        self.number += 1
        pad = "  " * (depth - 1)
        print(f"{pad}{self.number} {name}")
        terms = (("=", before),) if before is after else (("-", before), ("+", after))
        for sign, term in terms:
            for line in pretty(term).splitlines() if term is not None else ():
                print(f"{pad}  {sign} {line}".rstrip())


class Counts(Observer):
    """How often each rule was applied, and each step taken by the host (`finch trace --count`)."""

    traces = True

    def __init__(self) -> None:
        self.rules: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def rule(self, name: str, before: Node, after: Node | None, depth: int) -> None:
        self.rules[name] += 1

    def finished(self, event: KernelEvent, steps: Counter[str]) -> None:
        self.steps.update(steps)

    def report(self) -> str:
        return "\n\n".join((_table("rule", self.rules), _table("host step", self.steps)))


def _title(event: KernelEvent, comment: str = "#") -> str:
    """A line naming the place a kernel was read from."""
    span = event.source.span
    place = f"{span.source.name}:{span.line}" if span is not None else "unknown place"
    return f"{comment} kernel at {place}"


def _table(heading: str, counts: Counter[str]) -> str:
    """Names and numbers in two columns, the most frequent first, with their total."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = [(heading, "times"), *((name, str(n)) for name, n in ordered)]
    rows.append(("total", str(counts.total())))
    left, right = (max(len(row[k]) for row in rows) for k in (0, 1))
    return "\n".join(f"{name:<{left}}  {number:>{right}}" for name, number in rows)
