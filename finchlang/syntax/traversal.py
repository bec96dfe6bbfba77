"""Generic walks over nodes: children, rebuild, substitute, and what is known of a node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, wraps
from operator import is_
from typing import Any, TypeVar, overload

from finchlang.base.errors import FinchError
from finchlang.syntax.nodes import Access, Block, Define, Index, Loop, Node, Sieve, Variable

_Answer = TypeVar("_Answer")
_Kind = TypeVar("_Kind", bound=Node)

#: how the children in a field are read, and how they are mapped
_ONE = "node.{0}", "function(node.{0})"
_MAYBE = "*([node.{0}] if node.{0} else ())", "node.{0} and function(node.{0})"
_MANY = "*node.{0}", "tuple([function(x) for x in node.{0}])"
_NAMED = "*[x for _, x in node.{0}]", "tuple([(name, function(x)) for name, x in node.{0}])"
_ROWS = (
    "*[x for xs in node.{0} for x in xs]",
    "tuple([tuple([function(x) for x in xs]) for xs in node.{0}])",
)
_MIXED = (
    "*[x for x in node.{0} if isinstance(x, Node)]",
    "tuple([function(x) if isinstance(x, Node) else x for x in node.{0}])",
)
#: by the field's annotation; in a Text there are strings, too
_FORMS = {
    **dict.fromkeys(("Node", "Access", "Index", "Variable"), _ONE),
    **dict.fromkeys(("tuple[Node, ...]", "tuple[Variable, ...]", "tuple[Index, ...]"), _MANY),
    **dict.fromkeys(("tuple[tuple[Node, Node], ...]", "tuple[tuple[Node, ...], ...]"), _ROWS),
    **{"Node | None": _MAYBE, "tuple[tuple[str, Node], ...]": _NAMED, "tuple[Any, ...]": _MIXED},
}


@cache
def _reader(kind: Any) -> Callable[[Node], list[Node]] | None:
    """`children` for one kind of node, written out field by field like a dataclass's methods (walks
    by getattr take 1.6 times as long); None if it has no children."""
    if not _child_fields(kind):
        return None
    parts = [_FORMS[f.type][0].format(f.name) for f in _child_fields(kind)]
    return eval(f"lambda node: [{', '.join(parts)}]", {"Node": Node})


@cache
def _mapper(kind: Any) -> Callable[[Callable[[Node], Node], Node], Any] | None:
    """`map_children` for one kind of node, likewise; None if it has no children."""
    if not _child_fields(kind):
        return None
    new = {f.name: _FORMS[f.type][1].format(f.name) for f in _child_fields(kind)}
    lines = ["def map_children(function, node):"]
    lines += [f"    new_{name} = {mapped}" for name, mapped in new.items()]
    is_same = [
        f"all(map(is_, new_{f.name}, node.{f.name}))"
        if f.type.startswith("tuple")
        else f"new_{f.name} is node.{f.name}"
        for f in _child_fields(kind)
    ]
    values = [f"{n}={'new_' if n in new else 'node.'}{n}" for n in (*field_names(kind), "span")]
    lines += [
        f"    if {' and '.join(is_same)}: return node",
        f"    return kind({', '.join(values)})",
    ]
    names: dict[str, Any] = {"Node": Node, "is_": is_, "kind": kind}
    exec("\n".join(lines), names)
    return names["map_children"]


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name != "span")


@cache
def _child_fields(kind: Any) -> tuple[Any, ...]:
    if getattr(kind, "is_leaf", False):
        return ()
    return tuple(f for f in fields(kind) if f.type in _FORMS)


def children(node: Node) -> list[Node]:
    """The nodes directly below `node`, left to right."""
    kind: Any = type(node)
    reader = _reader(kind)
    return [] if reader is None else reader(node)


def map_children(function: Callable[[Node], Node], node: Node) -> Any:
    """`node` with `function` applied to each child; the very same object if no child changed."""
    kind: Any = type(node)
    mapper = _mapper(kind)
    return node if mapper is None else mapper(function, node)


def replace(node: Node, **changes: Any) -> Any:
    """A copy of `node` with some fields changed (and its span kept)."""
    kind: Any = type(node)
    values = {name: getattr(node, name) for name in field_names(kind)}
    values["span"] = node.span
    values.update(changes)
    return kind(**values)


def walk(node: Node) -> Iterator[Node]:
    """`node` and every node below it, parents first."""
    stack, reader_of = [node], _reader  # `children`, written out: staging takes .96 of the time
    while stack:
        top = stack.pop()
        yield top
        kind: Any = type(top)
        if (reader := reader_of(kind)) is not None:
            stack += reader(top)[::-1]


@overload
def find_all(node: Node, kind: type[_Kind], /) -> Iterator[_Kind]: ...


@overload
def find_all(node: Node, *kinds: type) -> Iterator[Any]: ...


def find_all(node: Node, *kinds: type) -> Iterator[Any]:
    """The nodes of some kinds in `node`, parents first."""
    return (n for n in walk(node) if isinstance(n, kinds))


#: how deep the nodes of a text may nest, and how many Python frames suffice for recursion over them
DEPTH, FRAMES = 5_000, 200_000


class EnoughFrames:
    """Within its `with`, recursive walks may go as deep as nodes may nest (DEPTH)."""

    __slots__ = ("limit",)  # not a contextmanager, which costs a script's run 2 microseconds

    def __enter__(self) -> None:
        self.limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.limit, FRAMES))

    def __exit__(self, *_: object) -> None:
        sys.setrecursionlimit(self.limit)


def check_depth(node: Node) -> None:
    """Raises FinchError "resource", at the first of them, if nodes nest more than DEPTH deep: with
    eight megabytes of stack the passes, and LLVM, reach about twice that."""
    level, depth = [node], 1
    while level:
        if depth > DEPTH:
            span = next((node.span for node in level if node.span), None)
            raise FinchError("resource", f"this is nested more than {DEPTH} deep", span)
        level, depth = [below for node in level for below in children(node)], depth + 1


def rewrite_bottom_up(function: Callable[[Node], Node], node: Node) -> Any:
    """`function` applied to every node, children before parents."""
    return function(map_children(lambda child: rewrite_bottom_up(function, child), node))


#: functions that empty the tables of answers
FORGETTING: list[Callable[[], None]] = []
_REMEMBERED = 100_000


def memo() -> dict[Any, Any]:
    """A table of answers about nodes by their `id`, which `forget` empties. Each answer is kept with its
    node, so that the `id` is not given to another one."""
    known: dict[Any, Any] = {}
    FORGETTING.append(known.clear)
    return known


def remember(known: dict[int, Any], node: Node, answer: Any) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[id(node)] = node, answer


def remembered(function: Callable[[Any], _Answer]) -> Callable[[Any], _Answer]:
    """`function`, called once for each node (by identity), since terms share parts."""
    known = memo()

    @wraps(function)
    def ask(node: Any) -> _Answer:
        found = known.get(id(node))
        if found is not None:
            return found[1]
        answer = function(node)
        remember(known, node, answer)
        return answer

    return ask


def forget() -> None:
    """Forget all answers about nodes and expressions, when a program is done."""
    for clear in FORGETTING:
        clear()


#: the statements that contain statements
COMPOUND = (Block, Loop, Define, Sieve)


@remembered
def names(node: Node) -> frozenset[tuple[type, str]]:
    """The names that occur in `node`, each with whether it is an Index or a Variable."""
    if isinstance(node, COMPOUND):
        return frozenset().union(*map(names, children(node)))
    return frozenset([(type(n), n.name) for n in walk(node) if isinstance(n, (Index, Variable))])


def substitute(node: Node, bindings: dict[Node, Node]) -> Any:
    """`node` with every free occurrence of a key of `bindings` (an Index or Variable) replaced.

    Names are unique after the scopes pass, so nothing can be captured; a binder of the same name
    nevertheless shadows it.
    """
    keys = {(type(name), name.name) for name in bindings}  # type: ignore[attr-defined]

    def visit(node: Any) -> Any:
        if isinstance(node, (Index, Variable)):
            return bindings.get(node, node)
        if isinstance(node, COMPOUND) and keys.isdisjoint(names(node)):
            return node
        if not isinstance(node, (Loop, Define)):
            return map_children(visit, node)
        # the binder itself is not an occurrence
        binder: Any = node.index if isinstance(node, Loop) else node.variable
        rest = {k: v for k, v in bindings.items() if k != binder}
        old, new = head(node), visit(head(node))
        body = substitute(node.body, rest) if len(rest) < len(bindings) else visit(node.body)
        if new is old and body is node.body:
            return node
        return type(node)(binder, new, body, span=node.span)

    return visit(node)


def replace_equal(node: Node, old: Node, new: Node) -> Any:
    """`node` with `new` in the place of each node that equals `old`."""
    return rewrite_bottom_up(lambda n: new if n == old else n, node)


def mentions(node: Node, name: Index | Variable) -> bool:
    """Whether the Index or Variable `name` occurs in `node`."""
    return (type(name), name.name) in names(node)


def accesses(node: Node) -> list[Access]:
    """Every Access in `node`, parents first."""
    return [n for n in walk(node) if type(n) is Access]


#: a statement that stands around another one
Header = Loop | Define | Sieve


def statements(
    node: Node, around: tuple[Header, ...] = ()
) -> Iterator[tuple[Node, tuple[Header, ...]]]:
    """The statements in `node` in their order, outer ones first and without blocks, each with the headers
    it stands in, whose names it can see."""
    left = [(node, around)]
    while left:  # no recursion: each would pass on what all within it yield
        node, around = left.pop()
        if isinstance(node, Block):
            left += [(part, around) for part in reversed(node.statements)]
            continue
        yield node, around
        if isinstance(node, (Loop, Define, Sieve)):
            left.append((node.body, (*around, node)))


_HEADS: dict[type, str] = {Loop: "extent", Define: "value", Sieve: "condition"}


def head(header: Any) -> Any:
    """What a loop, `let` or sieve evaluates before its body."""
    return getattr(header, _HEADS[type(header)])


def headed(header: Header, head: Node, body: Node) -> Any:
    """A loop, `let` or sieve with another `head` and body."""
    return replace(header, **{_HEADS[type(header)]: head, "body": body})


def binds(header: Node) -> tuple[str, ...]:
    """The name that a loop or `let` binds, as a tuple; empty for other nodes."""
    if isinstance(header, Loop):
        return (header.index.name,)
    return (header.variable.name,) if isinstance(header, Define) else ()


def behind_lets(program: Node, change: Callable[[Node], Node]) -> Node:
    """`program` with `change` applied to what is behind its leading `let`s, which remain around it."""
    if isinstance(program, Define):
        return replace(program, body=behind_lets(program.body, change))
    return change(program)


def block(*statements: Node) -> Node:
    """The statements as one: nested blocks are flattened, a single statement stands for itself."""
    flat: list[Node] = []
    for statement in statements:
        if isinstance(statement, Block):
            flat.extend(statement.statements)
        else:
            flat.append(statement)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
