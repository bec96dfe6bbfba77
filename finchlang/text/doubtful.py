"""Notes about what is legal and hardly meant: values that are lost, `=+`, and `&` between comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from finchlang.base.errors import Note, Span
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty

_COMPARES = frozenset(map(ast.Variable, ("<", "<=", ">", ">=", "==", "!=")))
#: what a text has that any of these notes is about, besides kernels
SIGNS = re.compile(r"=\+|[&|]|:-|\]\s*\*|\brepeat\b|\bfor\b.*=.*=")


def doubtful(tree: ast.Node) -> Iterator[Note]:
    # the middle of `a < b & c < d` is in two comparisons
    return iter(dict.fromkeys(note for node in trees.walk(tree) for note in _of(node)))


def _of(node: Any) -> Iterator[Note]:
    match node:
        case ast.Assign(target) | ast.Let((target, *_)) if re.match(
            r"\s*=\+\s*$", _between(target, node.value)
        ):
            yield Note("`=+` assigns a value with its sign; an update is written `+=`", node.span)
        case ast.For(iterable=extent, body=ast.Script((ast.Let(value=ast.Extent()) as first, *_))):
            if re.fullmatch("[ \t]+", _between(extent, first)):
                said = "is the first statement of this loop: loops have a comma between them"
                yield Note(f"`{pretty(first)}` {said}", first.span)
        case ast.Call(ast.Variable("*"), (ast.Rows(((value,),), False) as row, count)):
            if isinstance(count, (ast.Literal, ast.Variable)):
                ours = f"`fill({pretty(value)}, {pretty(count)})` has it so many times"
                yield Note(f"`{pretty(row)} * {pretty(count)}` is a product; {ours}", node.span)
        case ast.Call(ast.Variable("repeat"), (_, ast.Literal(int(n)), ast.Literal(1))):
            ours = f"`tile(A, 1, {n})` has all of it {n} times along dimension 1"
            yield Note(f"each part along dimension {n} is there once: {ours}", node.span)
        case ast.Access(_, indices):
            for index in indices:
                match index:
                    case ast.Extent(ast.Literal(int(a)), ast.Literal(int(b)), None) if b < 0 < a:
                        last = "end" if b == -1 else f"end - {-b - 1}"
                        said = f"`{a}:{b}` is empty; counted from the end it is `{a}:{last}`"
                        yield Note(said, index.span)
        case ast.Call(op, args) if op in _COMPARES:
            for arg in args:
                match arg:
                    case ast.Call(ast.Variable("&" | "|" as sign), (_, _), span=Span(text=code)):
                        if code[0] != "(":
                            said = f"`{sign}` goes before comparisons, so that"
                            said = f"{said} this compares `{code}`"
                            yield Note(f"{said}; between conditions write `{sign * 2}`", arg.span)


def _between(first: ast.Node, second: ast.Node) -> str:
    """The text between two nodes; empty if they have no places in it."""
    if first.span is None or second.span is None:
        return ""
    return first.span.source.text[first.span.offsets[1] : second.span.offsets[0]]


def lost(program: ast.Node) -> Iterator[Note]:
    """Assignments of a kernel by `=` in a loop whose index is not among those of the target, with values
    that depend on it: all but the last are lost. Products and least values that begin at 0."""
    yield from _lost(program, (), {}, frozenset())
    yield from _begun(program)


#: where these updates begin if they are to have another result than 0, or less
_FIRST = {"*": "1", "min": "Inf"}


def _begun(program: ast.Node) -> Iterator[Note]:
    declared = trees.find_all(program, ast.Declare)
    zeros: set[ast.Node] = {n.tensor for n in declared if getattr(n.init, "value", None) == 0}
    for node in trees.walk(program):
        match node:
            case ast.Assign(ast.Access(tensor), ast.Variable(name)) if tensor in zeros:
                zeros.remove(tensor)  # its first update
                if name in _FIRST and node.span is not None:
                    what = "stays 0" if name == "*" else "is never more than 0"
                    way = f"it is to begin, and to be filled, by {_FIRST[name]}"
                    yield Note(f"`{pretty(tensor)}` begins at 0 and {what}: {way}", node.span)


def _lost(
    node: Any, loops: tuple[ast.Loop, ...], known: dict[str, frozenset[str]], guards: frozenset[str]
) -> Iterator[Note]:
    match node:
        case ast.Annotated(_, inner):
            yield from _lost(inner, loops, known, guards)
        case ast.Loop(index, _, body):
            own = {index.name: frozenset((index.name,))}
            yield from _lost(body, (*loops, node), known | own, guards)
        case ast.Define(variable, value, body):
            yield from _lost(body, loops, known | {variable.name: _indices(value, known)}, guards)
        case ast.Sieve(condition, body):
            yield from _lost(body, loops, known, guards | _indices(condition, known))
        case ast.Block(statements):
            for statement in statements:
                yield from _lost(statement, loops, known, guards)
        case ast.Assign(target, ast.Variable("initwrite"), value) if target.span is not None:
            kept = guards | frozenset().union(*(_indices(i, known) for i in target.indices))
            used = _indices(value, known)
            for loop in loops:
                name = loop.index.name
                if name in used and name not in kept and _stays(loop, node):
                    what = f"`{target.span.text}` is written once for each `{name}`"
                    yield Note(f"{what}, and only the last value stays; `+=` sums up", node.span)
                    return


def _indices(node: ast.Node, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """The indices of loops on which an expression depends, also by the names of `let`."""
    names = (n.name for n in trees.find_all(node, ast.Index, ast.Variable))
    return frozenset().union(*(known.get(name, frozenset()) for name in names))


def _stays(loop: ast.Loop, assign: ast.Assign) -> bool:
    """Whether what a statement writes is neither read nor declared within a loop around it."""
    tensor = assign.target.tensor
    for node in trees.walk(loop.body):
        if isinstance(node, ast.Access) and node is not assign.target and node.tensor == tensor:
            return False
        if isinstance(node, (ast.Declare, ast.Freeze)) and node.tensor == tensor:
            return False
    return True
