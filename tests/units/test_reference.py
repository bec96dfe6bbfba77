"""The reference's tables say what the code has."""

from __future__ import annotations

import itertools
import re
from inspect import cleandoc
from math import inf, nan
from pathlib import Path
from typing import Any

import finchlang.grammar
from finchlang.algebra.simplify import LAWS, name_of, simplify
from finchlang.operators.operator_table import operator
from finchlang.rules.table import ALL
from finchlang.script.builtins import BUILTINS
from finchlang.syntax.nodes import Access, Call, Literal, Variable
from finchlang.syntax.types import Bool, Float64, Int64, Type

REFERENCE = Path(finchlang.grammar.__path__[0]) / "REFERENCE.md"


def table(heading: str) -> list[tuple[str, ...]]:
    """The rows of the first table under a heading, without its head."""
    text = REFERENCE.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(c.strip() for c in re.split(r"(?<!\\)\|", r)[1:-1]) for r in rows[2:]]


def expected() -> list[tuple[str, ...]]:
    """The built-in functions in the order of the table, as the reference writes them."""
    return [(f"`{b.usage}`", b.doc.replace("|", "\\|")) for b in BUILTINS.values()]


def test_built_in_functions(request):
    if request.config.getoption("--update-golden"):
        text = REFERENCE.read_text(encoding="utf-8")
        rows = "\n".join(f"| {usage} | {doc} |" for usage, doc in expected())
        head = "## Built-in functions\n\n| Function | Meaning |\n|---|---|\n"
        before, after = text.split(head)
        REFERENCE.write_text(f"{before}{head}{rows}\n\n{after[after.index('## ') :]}", "utf-8")
    assert table("Built-in functions") == expected()


# ---------------------------------------------------------------------------------- rules and laws


def written(head: str, rows: list[tuple[str, ...]]) -> None:
    """Write a table of the reference, below its head."""
    before, after = REFERENCE.read_text("utf-8").split(head)
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    REFERENCE.write_text(f"{before}{head}{lines}\n\n{after.split(chr(10) * 2, 1)[1]}", "utf-8")


def said(statement: str) -> str:
    """The first paragraph of a docstring in one line, as a table has it."""
    return " ".join(cleandoc(statement).split("\n\n")[0].split()).replace("|", "\\|")


def test_rules_of_the_papers(request):
    """Each base rule has its row, with what the rule says of itself here."""
    rules = {rule.name: f"`{said(rule.statement)}`" for rule in ALL if not rule.is_derived}
    rows = [(*row[:3], rules.get(row[0], ""), row[4]) for row in table("Rules")]
    if request.config.getoption("--update-golden"):
        head = "| Rule | Where | As printed | Here | Why it deviates |\n|---|---|---|---|---|\n"
        written(head, rows)
    assert table("Rules") == rows
    assert sorted(row[0] for row in rows) == sorted(rules)


def test_laws_of_simplify(request):
    rows = [
        (name_of(law), f"`{kind.__name__}`", said(law.__doc__ or ""))
        for kind, laws in LAWS.items()
        for law in laws
    ]
    if request.config.getoption("--update-golden"):
        written("| Law | Of | What it says |\n|---|---|---|\n", rows)
    assert table("Laws of Simplify") == rows
    assert all(law and text.endswith(".") for law, _, text in rows)


# ------------------------------------------------------------------------------ spaces of operators

C = 7  # any fill but those that are named
FLOATS = (Float64, (0.0, 1.0, -inf, inf, nan))
INTEGERS, TRUTHS = (Int64, (0, 1, -1)), (Bool, (False, True))
BINARY = (
    *((op, *FLOATS) for op in ("+", "-", "*", "/", "÷", "%", "^", "min", "max", "<", "<=", "==")),
    *((op, *INTEGERS) for op in ("÷", "%", "<<", ">>", "&", "|", "⊻")),
    *((op, *TRUTHS) for op in ("&&", "||", "xor", "==", "!=", "<", "<=")),
)
REGIONS = {
    (False, False, False): "nowhere",
    (True, True, True): "`x \\| y`",
    (True, False, True): "`x`",
    (False, True, True): "`y`",
    (False, False, True): "`x & y`",
    (True, True, False): "`(x \\| y) & ~(x & y)`",
}


def space(sign: str, type: Type, fills: tuple[Any, Any]) -> str:
    """Where something is stored: where one operand has an entry, where the other has, where both have,
    as Simplify and the space that the row states leave it."""
    op = Variable({"÷": "div", "⊻": "xor"}.get(sign, sign))
    literals = [Literal(type.wrap(f), type.name) for f in fills]
    data = [Access(Variable(name), (), type=type) for name in "xy"]
    whole = simplify(Call(op, tuple(literals)))
    row = operator(op)
    assert row is not None
    cells = [
        repr(simplify(Call(op, args))) != repr(whole)
        for args in ((data[0], literals[1]), (literals[0], data[1]), (data[0], data[1]))
    ]
    if row.space is not None and row.space.holds((type, type)):
        cells = [
            c and _is_in(row.space.region, at)
            for c, at in zip(cells, ("x", "y", "xy"), strict=True)
        ]
    return REGIONS[tuple(cells)]


def _is_in(region: Any, stored: str) -> bool:
    """Whether what is stored in the operands `stored` is in a region."""
    if isinstance(region, Variable):
        return region.name in stored
    parts = [_is_in(arg, stored) for arg in region.args]
    return {"&": all(parts), "|": any(parts), "~": not parts[0]}[region.op.name]


def spaces() -> list[tuple[str, ...]]:
    """The table: the combinations of fills for which an operator needs not all that is stored."""
    rows = []
    for sign, type, values in BINARY:
        first, second = (_special(sign, type, values, k) for k in (0, 1))
        found: dict[str, list[str]] = {}
        for x, y in itertools.product(first, second):
            found.setdefault(space(sign, type, (x, y)), []).append(f"{_fill(x)}, {_fill(y)}")
        for where, combinations in found.items():
            if where != REGIONS[True, True, True] or type == Bool:
                shown = sign.replace("|", "\\|")
                rows.append((f"`{shown}` of {type}", "; ".join(combinations), where))
    return rows


def _special(sign: str, type: Type, values: tuple[Any, ...], k: int) -> list[Any]:
    """The fills of argument k that make another space than any other does, and that."""
    if type == Bool:
        return [*values]

    def is_special(v: Any) -> bool:
        pairs = [((v, w), (C, w)) if k == 0 else ((w, v), (w, C)) for w in (*values, C)]
        return any(space(sign, type, one) != space(sign, type, other) for one, other in pairs)

    return [*filter(is_special, values), C]


def _fill(value: Any) -> str:
    words = {"True": "true", "False": "false", "inf": "Inf", "-inf": "-Inf", "nan": "NaN"}
    return "c" if value is C else words.get(str(value), str(value))


def test_spaces_of_operators(request):
    head = "#### Spaces\n\n| Operator on `x`, `y` | Fills | Space |\n|---|---|---|\n"
    if request.config.getoption("--update-golden"):
        text = REFERENCE.read_text(encoding="utf-8")
        rows = "\n".join(f"| {' | '.join(row)} |" for row in spaces())
        before, after = text.split(head)
        REFERENCE.write_text(
            f"{before}{head}{rows}\n\n{after.split(chr(10) + chr(10), 1)[1]}", "utf-8"
        )
    assert table("Spaces") == spaces()
