"""Notes that an editor shows in a kernel: ranges and order of its loops, types of its variables, and the
modes in which an access visits stored entries only. And faults of sizes that are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from finchlang.algebra.expression_types import type_of
from finchlang.base.errors import FinchError, Span
from finchlang.calls.runner import KernelEvent
from finchlang.host import ir
from finchlang.host.executing import ExecutingHost
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty

#: line, column, what is shown there, and more about it
Hint = tuple[int, int, str, str]
#: the passes that tell why a nest is not run as it is written
_OF_ORDER = ("schedule", "concordize", "workspaces", "transposes")


def hints(event: KernelEvent) -> Iterator[Hint]:
    program = event.source.program
    final = event.passes[-1][1]
    written = [*trees.find_all(program, ast.Loop)]
    yield from _ranges(written, final)
    yield from _orders(program, final, event)
    types = {n.variable.span: type_of(n.value) for n in trees.find_all(final, ast.Define)}
    for node in trees.walk(program):
        if isinstance(node, ast.Define) and types.get(node.variable.span):
            yield _after(node.variable.span, f"::{types[node.variable.span]}")
        elif isinstance(node, ast.Access) and isinstance(node.tensor, ast.Variable):
            format = event.compiled.staged.formats.get(node.tensor.name)
            if isinstance(format, (Level, Swizzled)) and (sparse := _sparse(node, format)):
                yield _after(node.span, f"sparse {', '.join(sparse)}", str(format))


def _after(span: Span | None, label: str, tip: str = "") -> Hint:
    assert span is not None
    return (*span.end, label, tip)


def _name(loop: ast.Loop) -> str:
    """The name of a loop's index as it is written: passes number equal ones."""
    return re.sub(r"_\d+$", "", loop.index.name)


def _ranges(written: list[ast.Loop], final: ast.Node) -> Iterator[Hint]:
    defined = {n.variable: n.value for n in trees.find_all(final, ast.Define)}
    loops = [n for n in trees.find_all(final, ast.Loop) if n.span is not None]
    for loop in written:
        name, here = loop.index.name, [n for n in loops if n.span == loop.span]
        own = [n for n in here if name in (n.index.name, _name(n))]
        if isinstance(loop.extent, ast.Dimensionless) and loop.extent.span and own:
            extent: Any = own[0].extent
            extent = defined.get(extent, extent)
            extent = extent.args[0] if ast.is_meet(extent) else extent
            yield _after(loop.extent.span, pretty(extent).strip())


def _orders(program: ast.Node, final: ast.Node, event: KernelEvent) -> Iterator[Hint]:
    """The order of the loops of each nest, as it is run."""
    for outer in _outermost(program):
        nest = [*trees.find_all(outer, ast.Loop)]
        spans = {n.span for n in nest}
        run = [n for n in trees.find_all(final, ast.Loop) if n.span in spans]
        head = [n.extent.span or n.index.span for n in nest if n.span == outer.span]
        if len(nest) > 1 and head[-1] is not None:
            own = {n.index.name for n in nest}
            names = [n.index.name if n.index.name in own else _name(n) for n in run]
            why = "\n".join(said for name, said in event.decisions if name in _OF_ORDER)
            yield _after(head[-1], f"order {' → '.join(dict.fromkeys(names))}", why)


def _outermost(node: ast.Node) -> Iterator[ast.Loop]:
    if isinstance(node, ast.Loop):
        yield node
        return
    for child in trees.children(node):
        yield from _outermost(child)


def _sparse(access: ast.Access, format: Level | Swizzled) -> list[str]:
    """The indices of an access in whose modes not all entries are stored, the innermost first."""
    indices = list(access.indices)
    if isinstance(format, Swizzled):
        indices = [indices[p - 1] for p in format.permutation if p <= len(indices)]
    found: list[str] = []
    for level in level_of(format).levels():
        own, indices = indices[len(indices) - level.modes :], indices[: len(indices) - level.modes]
        if not level.is_dense and not level.is_leaf:
            found += [pretty(index).strip() for index in own]
    return found[::-1]


class _Begun(Exception):
    """Raised where a kernel begins to work on its data."""


class _Beginning(ExecutingHost):
    """Performs a kernel up to where it begins to work: until then it compares sizes."""

    def do(self, statement: ir.Stmt) -> None:
        if isinstance(statement, (ir.Store, ir.Fill, ir.Grow)):
            raise _Begun
        super().do(statement)

    def loop(self, *_: Any, **__: Any) -> None:
        raise _Begun

    def count(self, *_: Any, **__: Any) -> None:
        raise _Begun


def check_sizes(event: KernelEvent) -> None:
    """Raises the FinchError of a kernel whose tensors have sizes that do not fit; it is not run."""
    try:
        event.run("interpret", host=_Beginning())
    except _Begun:
        pass
    except FinchError as error:
        if error.kind == "dimension":
            raise
