"""Divisions as text: sums of products with named modes, what they are expected to cost, and what was not
taken."""

from __future__ import annotations

from collections.abc import Callable

from finchlang.array.expression import Constant, Expression
from finchlang.array.inferred_values import op_node
from finchlang.array.logical.divide import PlannedNest
from finchlang.array.logical.form import Labels, SumProduct
from finchlang.text.print import pretty

#: the name of an operand in the program, or None
NameOf = Callable[[Expression], str | None]


class Described:
    """What was decided for one form, as text once operands have names: the division `best`, as written,
    the next best, and `notes` of what was not allowed, or not weighed."""

    def __init__(
        self, form: SumProduct, best: PlannedNest, written: PlannedNest, other: PlannedNest | None
    ):
        self.form, self.best, self.written, self.other = form, best, written, other
        self.notes, self.letters = list[str](), dict[int, str]()
        #: what it costs multiplied out, if it was
        self.multiplied = 0.0

    @property
    def is_choice(self) -> bool:
        """Whether there is something to tell."""
        is_other = self.best.cost < self.written.cost or self.other is not None
        return is_other or bool(self.notes) or self.multiplied > 0

    def text(self, name_of: NameOf) -> str:
        whole = f"{self.nest(self.best, name_of, 't')}: {self.best.cost:.2g} steps"
        whole += f", {self.best.entries:.2g} entries"
        if self.best.cost < self.written.cost:
            whole += f"; as written {self.written.cost:.2g}"
        if self.other is not None:
            whole += f"; next {self.nest(self.other, name_of, 't')}: {self.other.cost:.2g}"
        if self.multiplied:
            whole = f"multiplied out, {self.multiplied:.2g} steps, not {whole}"
        return "; ".join(dict.fromkeys([whole, *self.notes]))

    def nest(self, nest: PlannedNest, name_of: NameOf, name: str) -> str:
        parts = []
        for part in nest.parts:
            if isinstance(part, int):
                expr, labels = self.form.factors[part]
                parts.append(self.named(_shown(expr, name_of), labels))
            else:
                parts.append(f"({self.nest(part, name_of, 't')})")
        parts += [_shown(scalar, name_of) for scalar, _ in self.form.scalars if nest is self.best]
        times = f" {pretty(op_node(self.form.times))} " if self.form.times else " "
        total = f"{pretty(op_node(self.form.total))} " if self.form.total else ""
        return f"{self.named(name, nest.kept)} = {total}{times.join(parts)}"

    def named(self, name: str, labels: Labels) -> str:
        """A name at labels, which get letters in the order in which they are met."""
        known = self.letters
        for k in labels:
            if k is not None and k not in known:
                letter, round = "ijklmnopqrstuvwxyz"[len(known) % 18], len(known) // 18
                known[k] = f"{letter}{round or ''}"
        names = ["1" if k is None else known[k] for k in labels]
        return f"{name}[{', '.join(names)}]"


def _shown(expr: Expression, name_of: NameOf, depth: int = 4) -> str:
    """A factor as text: an operand's name, or its operator and operands, so many deep."""
    name = name_of(expr)
    if name is not None:
        return name
    if isinstance(expr, Constant):
        return pretty(expr.values.fill)
    op = getattr(expr, "op", None)
    what = type(expr).__name__.lower() if op is None else pretty(op_node(op))
    args = [_shown(arg, name_of, depth - 1) for arg in expr.args] if depth else ["..."]
    return f"{what}({', '.join(args)})"
