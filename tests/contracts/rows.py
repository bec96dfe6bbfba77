"""Tables of texts that stand beside the tests: rows of parts with ` :: ` between them."""

from __future__ import annotations

from pathlib import Path


def rows(name: str, section: str) -> list[list[str]]:
    """The rows of a file, below `[section]` up to the next blank line but for comments; each has as many
    parts as the first."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    lines = text.partition(f"\n[{section}]\n")[2].partition("\n\n")[0].splitlines()
    found = [line.split(" :: ") for line in lines if not line.startswith("# ")]
    assert found and all(len(row) == len(found[0]) for row in found), section
    return found
