"""Loop nests as schedules rewrite them: headers over one body, found by the names of their indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import binds, children, find_all, head, map_children, replace, walk
from finchlang.text.print import pretty


@record
class NestHeaders:
    """Statements directly in one another, outermost first, without bodies, over the innermost `body`."""

    headers: tuple[ast.Node, ...]
    body: ast.Node

    @property
    def loops(self) -> tuple[ast.Loop, ...]:
        """The loops, without those that bind an index to a value."""
        return tuple(h for h in self.headers if isinstance(h, ast.Loop) and not _is_binding(h))

    def built(self, loops: Sequence[ast.Loop], *more: ast.Node) -> ast.Node:
        """The nest with the loops `loops`, in this order, in place of its own, and with the headers
        `more`. All other headers stand as far outside as the names they use allow.

        Raises FinchError "dimension" where an extent uses what is bound within its loop."""
        others = [*more, *(h for h in self.headers if h not in self.loops)]
        names = {name for h in (*loops, *others) for name in binds(h)}
        placed: list[ast.Node] = []
        bound: set[str] = set()
        for loop in (*loops, None):
            guarded = False
            for other in list(others):
                # what reads does not move out of a sieve before it: it may be out of bounds there
                reads = any(find_all(head(other), ast.Access))
                if ctx.names_in(head(other)) & names <= bound and not (guarded and reads):
                    others.remove(other)
                    placed.append(other)
                    bound.update(binds(other))
                else:
                    guarded = guarded or isinstance(other, ast.Sieve)
            if loop is None:
                break
            if missing := ctx.names_in(loop.extent) & names - bound:
                name = min(missing)
                message = f"the extent of `{loop.index.name}` depends on `{name}`"
                message += ", which would be bound inside of its loop"
                raise FinchError("dimension", message, loop.extent.span)
            placed.append(loop)
            bound.update(binds(loop))
        return within(placed, self.body)


def within(headers: Sequence[ast.Node], body: ast.Node) -> ast.Node:
    """A body within headers, the first of them the outermost."""
    for header in reversed(headers):
        body = replace(header, body=body)
    return body


def nest_of(node: ast.Node) -> NestHeaders:
    headers: list[ast.Node] = []
    while isinstance(node, (ast.Loop, ast.Sieve, ast.Define)):
        headers.append(replace(node, body=ast.EMPTY))
        node = node.body
    return NestHeaders(tuple(headers), node)


def rewrite_nest(
    program: ast.Node,
    names: Sequence[ast.Node],
    context: ctx.ProgramContext,
    rewrite: Callable[[NestHeaders, tuple[ast.Loop, ...]], ast.Node],
) -> ast.Node:
    """`program` with `rewrite` applied to the nest that has loops over the indices `names`, given
    these loops. It begins with the outermost of them.

    Raises FinchError for a name that is no loop's, or several loops', or if the loops do not stand
    directly in one another."""
    wanted = [index_name(n) for n in names]
    for name, node in zip(wanted, names, strict=True):
        if wanted.count(name) > 1:
            raise FinchError("type", f"`{name}` is there twice", node.span)
    found: list[tuple[ast.Node, NestHeaders, tuple[ast.Loop, ...]]] = []

    def search(node: ast.Node) -> None:
        if isinstance(node, ast.Loop) and context.written(node.index.name) in wanted:
            nest = nest_of(node)
            loops = [loop for loop in nest.loops if context.written(loop.index.name) in wanted]
            by_name = {context.written(loop.index.name): loop for loop in loops}
            if len(by_name) == len(wanted) == len(loops):
                found.append((node, nest, tuple(by_name[name] for name in wanted)))
                return
        for child in children(node):
            search(child)

    search(program)
    if len(found) == 1:
        ((old, nest, loops),) = found
        return exchanged(program, old, rewrite(nest, loops))
    known = [context.written(loop.index.name) for loop in all_loops(program)]
    for name, node in zip(wanted, names, strict=True):
        if name not in known:
            message = f"there is no loop over `{name}`"
            raise FinchError("unknown name", message, node.span, _there(known))
        if known.count(name) > 1:
            message = f"there are several loops over `{name}`"
            raise FinchError("type", message, node.span, "give their indices different names")
    listed = " and ".join(f"`{name}`" for name in wanted)
    message = f"the loops over {listed} do not stand directly in one another"
    raise FinchError("type", message, names[0].span)


def exchanged(node: ast.Node, old: ast.Node, new: ast.Node) -> Any:
    """A node with `new` in the place of the very node `old`."""
    return new if node is old else map_children(lambda child: exchanged(child, old, new), node)


def all_loops(program: ast.Node) -> Iterator[ast.Loop]:
    """The loops of `program`, without those that bind an index to a value."""
    return (n for n in find_all(program, ast.Loop) if not _is_binding(n))


def _is_binding(loop: ast.Loop) -> bool:
    return ctx.is_single(loop.extent) and not isinstance(loop.extent.start, ast.Literal)


def _there(known: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(known))
    return f"there are {listed or 'no loops'}"


def index_name(node: ast.Node) -> str:
    """The name of an index in a schedule's arguments. Raises FinchError "type" for another node."""
    if not isinstance(node, ast.Index):
        raise FinchError("type", "the name of an index is expected here", node.span)
    return node.name


def new_index(node: ast.Node, program: ast.Node, context: ctx.ProgramContext) -> ast.Index:
    """The index that a schedule makes, under a name that is free. Raises FinchError "unknown name"."""
    name = index_name(node)
    if name in context.taken or name in ctx.RESERVED or name in context.formats:
        known = [context.written(loop.index.name) for loop in all_loops(program)]
        hint = f"give it another name; {_there(known)}"
        raise FinchError("unknown name", f"`{name}` is already bound", node.span, hint)
    context.taken.add(name)
    return ast.Index(name, span=node.span)


def bounds(extent: ast.Node, program: ast.Node) -> ast.Extent:
    """An extent with its start and stop: itself, what `program` binds its name to, or one of a `meet`."""
    if isinstance(extent, ast.Extent):
        return extent
    if isinstance(extent, ast.Variable):
        lets = (n for n in find_all(program, ast.Define) if n.variable == extent)
        return bounds(next(lets).value, program)
    assert isinstance(extent, ast.Call)  # a meet of extents that agree
    # not the size of a tensor that is declared here, which is another before its declaration
    changed = {n.tensor for n in find_all(program, ast.Declare)}
    stable = [e for e in extent.args if changed.isdisjoint(walk(e))]
    return bounds((stable or extent.args)[0], program)


def length(extent: ast.Extent) -> ast.Node:
    if extent.start == ctx.ONE:
        count = extent.stop
        is_least = isinstance(count, ast.Literal) and count.value >= 0
        if is_least or ctx.is_call(count, *ast.OF_TENSORS):
            return count
    else:
        count = ast.call("-", extent.stop, ast.call("-", extent.start, ctx.ONE))
    return ast.call("max", count, ast.Literal(0))


def nth(extent: ast.Extent, n: ast.Node) -> ast.Node:
    """The n-th integer of an extent, counted from 1."""
    return n if extent.start == ctx.ONE else ast.call("+", ast.call("-", extent.start, ctx.ONE), n)


def single(index: ast.Index, value: ast.Node) -> ast.Loop:
    """`for index = value:value`, a header."""
    return ast.Loop(index, ast.Extent(value, value, span=index.span), ast.EMPTY, span=index.span)


def occurrences(
    expression: ast.Node, program: ast.Node, context: ctx.ProgramContext
) -> list[ast.Node]:
    """The nodes of `program` that `expression`, an argument of a schedule, has become, found by the spans
    of its occurrences in the text, which passes keep. Raises FinchError "type" if there are none."""
    places = [n.span for n in walk(context.parsed) if n == expression and n.span is not None]
    nodes = find_all(program, ast.Access, ast.Call)
    found: list[ast.Node] = [n for n in nodes if n.span in places]
    if not found:
        message = f"`{pretty(expression)}` does not occur in the kernel"
        raise FinchError("type", message, expression.span)
    return found
