"""Checks of a program that is running."""

from __future__ import annotations

from finchlang.host.interface import Host
from finchlang.host.ir import Const, Expr
from finchlang.source import Span


def fail_unless(
    host: Host, holds: Expr, kind: str, message: str, values: tuple[Expr, ...], span: Span | None
) -> None:
    """Stop with a FinchError unless a condition holds."""
    if not (isinstance(holds, Const) and holds.value):
        host.branch(holds, lambda: None, lambda: host.fail(kind, message, values, span))
