"""Loop nests as schedules rewrite them: headers over one body, found by the names of their indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from finchlang.normalize.context import ONE, RESERVED, Context, call, is_call, is_single
from finchlang.source import FinchError, Span
from finchlang.syntax import (
    EMPTY,
    OF_TENSORS,
    Access,
    Call,
    Declare,
    Define,
    Extent,
    Index,
    Literal,
    Loop,
    Node,
    Sieve,
    Variable,
)
from finchlang.text.print import pretty
from finchlang.walk import children, map_children, replace, walk

_HEADERS = (Loop, Sieve, Define)


@dataclass(frozen=True)
class Nest:
    """Statements that stand directly in one another, outermost first, over the `body` of the last;
    their own bodies do not count."""

    headers: tuple[Node, ...]
    body: Node

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, without those that bind an index to a value."""
        return tuple(h for h in self.headers if isinstance(h, Loop) and not _is_binding(h))

    def built(self, loops: Sequence[Loop], *more: Node) -> Node:
        """The nest with the loops `loops`, in this order, in place of its own, and with the headers
        `more`. What else is around the body stands as far outside as what it uses allows.

        Raises FinchError "dimension" where an extent uses what is bound within its loop."""
        others = [*more, *(h for h in self.headers if h not in self.loops)]
        names = {name for h in (*loops, *others) for name in binds(h)}
        placed: list[Node] = []
        bound: set[str] = set()

        def place(header: Node) -> None:
            placed.append(header)
            bound.update(binds(header))

        for loop in (*loops, None):
            guarded = False
            for other in list(others):
                if uses(other) & names <= bound and not (guarded and _reads(other)):
                    others.remove(other)
                    place(other)
                else:
                    guarded = guarded or isinstance(other, Sieve)
            if loop is None:
                break
            if missing := uses(loop) & names - bound:
                name = min(missing)
                message = f"the extent of `{loop.index.name}` depends on `{name}`"
                message += ", which would be bound inside of its loop"
                raise FinchError("dimension", message, loop.extent.span)
            place(loop)
        body = self.body
        for header in reversed(placed):
            body = replace(header, body=body)
        return body


def binds(header: Node) -> tuple[str, ...]:
    """The names that a header binds."""
    if isinstance(header, Loop):
        return (header.index.name,)
    return (header.variable.name,) if isinstance(header, Define) else ()


def _head(header: Node) -> Node:
    """What a header evaluates."""
    if isinstance(header, Loop):
        return header.extent
    return header.value if isinstance(header, Define) else header.condition  # type: ignore[attr-defined]


def uses(header: Node) -> set[str]:
    """The names that a header needs."""
    return {n.name for n in walk(_head(header)) if isinstance(n, (Index, Variable))}


def _reads(header: Node) -> bool:
    return any(isinstance(n, Access) for n in walk(_head(header)))


def nest_of(node: Node) -> Nest:
    """The nest that begins with the statement `node`."""
    headers: list[Node] = []
    while isinstance(node, _HEADERS):
        headers.append(replace(node, body=EMPTY))
        node = node.body
    return Nest(tuple(headers), node)


def rewrite_nest(
    program: Node,
    names: Sequence[Node],
    context: Context,
    rewrite: Callable[[Nest, tuple[Loop, ...]], Node],
) -> Node:
    """`program` with `rewrite` applied to the nest that has loops over the indices `names`, given
    these loops. It begins with the outermost of them.

    Raises FinchError for a name that is no loop's, or several loops', or if the loops do not stand
    directly in one another."""
    wanted = [index_name(n) for n in names]
    for name, node in zip(wanted, names, strict=True):
        if wanted.count(name) > 1:
            raise FinchError("type", f"`{name}` is there twice", node.span)
    found: list[tuple[Node, Nest, tuple[Loop, ...]]] = []

    def search(node: Node) -> None:
        if isinstance(node, Loop) and context.written(node.index.name) in wanted:
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
        new = rewrite(nest, loops)

        def visit(node: Node) -> Node:
            return new if node is old else map_children(visit, node)

        return visit(program)
    known = [context.written(loop.index.name) for loop in all_loops(program)]
    for name, node in zip(wanted, names, strict=True):
        if name not in known:
            raise FinchError(
                "unknown name", f"there is no loop over `{name}`", node.span, _there(known)
            )
        if known.count(name) > 1:
            message = f"there are several loops over `{name}`"
            raise FinchError("type", message, node.span, "give their indices different names")
    listed = " and ".join(f"`{name}`" for name in wanted)
    message = f"the loops over {listed} do not stand directly in one another"
    raise FinchError("type", message, names[0].span)


def all_loops(program: Node) -> Iterator[Loop]:
    """The loops of `program`, without those that bind an index to a value."""
    return (n for n in walk(program) if isinstance(n, Loop) and not _is_binding(n))


def _is_binding(loop: Loop) -> bool:
    return is_single(loop.extent) and not isinstance(loop.extent.start, Literal)  # type: ignore[attr-defined]


def _there(known: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(known))
    return f"there are {listed}" if known else "there are no loops"


def index_name(node: Node) -> str:
    """The name that an argument of a schedule is. Raises FinchError "type" for anything else."""
    if not isinstance(node, Index):
        raise FinchError("type", "the name of an index is expected here", node.span)
    return node.name


def new_index(node: Node, program: Node, context: Context) -> Index:
    """The index that a schedule makes, under a name that is free. Raises FinchError "unknown name"."""
    name = index_name(node)
    if name in context.taken or name in RESERVED or name in context.formats:
        known = [context.written(loop.index.name) for loop in all_loops(program)]
        hint = f"give it another name; {_there(known)}"
        raise FinchError("unknown name", f"`{name}` is already bound", node.span, hint)
    context.taken.add(name)
    return Index(name, span=node.span)


def bounds(extent: Node, program: Node) -> Extent:
    """An extent with its start and stop, where it may be a name that `program` binds to one."""
    if isinstance(extent, Extent):
        return extent
    if isinstance(extent, Variable):
        lets = (n.value for n in walk(program) if isinstance(n, Define) and n.variable == extent)
        return bounds(next(lets), program)
    assert isinstance(extent, Call)  # a meet: extents that agree, some of what is changed here
    changed = {n.tensor for n in walk(program) if isinstance(n, Declare)}
    stable = [e for e in extent.args if changed.isdisjoint(walk(e))]
    return bounds((stable or extent.args)[0], program)


def length(extent: Extent) -> Node:
    """How many integers an extent has."""
    if extent.start == ONE:
        is_size = is_call(extent.stop, *OF_TENSORS) or isinstance(extent.stop, Literal)
        return extent.stop if is_size else call("max", extent.stop, Literal(0))
    return call("max", call("-", extent.stop, call("-", extent.start, ONE)), Literal(0))


def nth(extent: Extent, n: Node) -> Node:
    """The n-th integer of an extent, counted from 1."""
    return n if extent.start == ONE else call("+", call("-", extent.start, ONE), n)


def single(index: Index, value: Node) -> Loop:
    """`for index = value:value`, a header."""
    return Loop(index, Extent(value, value, span=index.span), EMPTY, span=index.span)


def occurrences(expression: Node, program: Node, context: Context) -> list[Node]:
    """The nodes of `program` that `expression`, an argument of a schedule, has become: passes keep the
    places of what was parsed. Raises FinchError "type" if it does not occur, or not as a whole."""
    places = [n.span for n in walk(context.parsed) if n == expression and n.span is not None]
    found: list[Node] = [
        n for n in walk(program) if n.span in places and isinstance(n, (Access, Call))
    ]
    if not found:
        message = f"`{pretty(expression)}` does not occur in the kernel"
        raise FinchError("type", message, expression.span)
    return found


def check_count(args: Sequence[Node], count: int, form: str, span: Span | None) -> None:
    """Check that a schedule has as many arguments as it takes."""
    if len(args) != count:
        message = f"this schedule takes {count} arguments, not {len(args)}"
        raise FinchError("type", message, span, f"write `{form}`")
