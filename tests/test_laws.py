"""The laws of the design that a reader of the source can check: what rules, levels and normalisation
may know."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import finchlang

PACKAGE = Path(finchlang.__path__[0])
#: what is written once and runs under both hosts
SHARED = sorted(
    [
        *(PACKAGE / "rules").glob("*.py"),
        *(PACKAGE / "tensors").glob("*.py"),
        PACKAGE / "looplets.py",
    ]
)
HOSTS = {"ExecutingHost", "ResidualHost", "run_code", "run_residual"}
#: what only one of the hosts has
PRIVATE = {
    "arrays",
    "cells",
    "steps",
    "held",
    "evaluate",
    "perform_let",
    "code",
    "_blocks",
    "_emit",
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SHARED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_rules_and_levels_know_no_host(path: Path) -> None:
    """Law 1: a rule never asks which host it has, nor imports one."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Name):
            assert node.id not in HOSTS
        if isinstance(node, ast.ImportFrom):
            assert node.module not in ("finchlang.host.execute", "finchlang.host.residual")
            assert not HOSTS & {alias.name for alias in node.names}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in ("isinstance", "type", "hasattr", "getattr", "id") and node.args:
                assert not is_host(node.args[0]), f"{path}:{node.lineno}"
        if isinstance(node, ast.match_case):
            assert not any(isinstance(n, ast.Name) and n.id in HOSTS for n in ast.walk(node))


@pytest.mark.parametrize("path", SHARED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_rules_and_levels_use_what_every_host_has(path: Path) -> None:
    """No attribute of one host alone is touched; what a variable holds least of all (law 2)."""
    called = {id(n.func) for n in ast.walk(tree(path)) if isinstance(n, ast.Call)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute):
            is_method = id(node) in called
            assert is_method or node.attr != "held", f"{path}:{node.lineno}"
            if is_host(node.value):
                assert node.attr not in PRIVATE, f"{path}:{node.lineno}"


def is_host(node: ast.expr) -> bool:
    """Whether an expression is called like a host: `host`, `state.host`."""
    if isinstance(node, ast.Name):
        return node.id == "host"
    return isinstance(node, ast.Attribute) and node.attr == "host"


def test_the_hosts_have_the_same_operations() -> None:
    from finchlang.host.execute import ExecutingHost
    from finchlang.host.interface import Host
    from finchlang.host.residual import ResidualHost

    operations = [name for name in vars(Host) if not name.startswith("_")]
    assert len(operations) >= 12
    for host in (ExecutingHost, ResidualHost):
        for name in operations:
            ours, theirs = vars(host)[name].__code__, vars(Host)[name].__code__
            count = theirs.co_argcount
            assert ours.co_varnames[: ours.co_argcount] == theirs.co_varnames[:count], (host, name)


def test_folding_is_in_one_place() -> None:
    """Law 4: no rule applies a primitive operation to constants itself."""
    for path in SHARED:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "finchlang.host.evaluate", path
