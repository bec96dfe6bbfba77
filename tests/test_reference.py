"""The reference's tables say what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import finchlang.grammar
from finchlang.script.builtins import BUILTINS

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
