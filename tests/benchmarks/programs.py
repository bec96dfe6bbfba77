"""The functions of the example programs, for benchmarks to call."""

from __future__ import annotations

from pathlib import Path

from finchlang import Session
from finchlang.syntax.nodes import Function
from finchlang.text.parse import parse_script

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def session_with(*examples: str) -> Session:
    """A session that knows the functions of examples, but has not run what the examples do."""
    session = Session()
    for example in examples:
        path = EXAMPLES / f"{example}.finch"
        for statement in parse_script(path.read_text(encoding="utf-8"), str(path)).statements:
            if isinstance(statement, Function):
                session.execute(statement)
    return session


def lines_of(example: str, *names: str) -> int:
    """How many lines the functions `names` of an example take, without blank lines and comments."""
    text = (EXAMPLES / f"{example}.finch").read_text(encoding="utf-8")
    lines = text.splitlines()
    count = 0
    for statement in parse_script(text, example).statements:
        if isinstance(statement, Function) and statement.name in names:
            assert statement.span is not None
            first, last = statement.span.line - 1, statement.span.end_line
            body = [line.strip() for line in lines[first:last]]
            count += sum(bool(line) and not line.startswith("#") for line in body)
    return count
