"""What the normalisation passes know besides the program: formats, and names that are free."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from finchlang.base.errors import Note, Span
from finchlang.levels.level import Level, Swizzled, level_of
from finchlang.operators.operator_table import FAMILIES, OPERATORS
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.syntax.user_function import Operation
from finchlang.wrappers.masks import MASKS
from finchlang.wrappers.wrappers import WRAPPERS

#: What a free name of a kernel may stand for: a tensor, or a script number.
Format = Level | Swizzled | types.Type

PROTOCOLS = ("walk", "gallop", "follow")
#: the modifier of an index that reads `missing` out of range
PERMISSIVE = "~"
INIT, OVERWRITE = "initwrite", "overwrite"
#: the operators of `=` and `:=`, which are no reductions
PLAIN = (ast.Variable(INIT), ast.Variable(OVERWRITE))
ONE = ast.Literal(1)
_MORE = (INIT, OVERWRITE, "swizzle", "collapse", "split", "broadcast", "entry")
#: names that mean the same in every kernel where they are called, whatever the script has bound to them
WORDS = frozenset((*FAMILIES, *MASKS, *WRAPPERS, *PROTOCOLS, *ast.OF_TENSORS, ast.MEET, *_MORE))
RESERVED = WORDS | frozenset(OPERATORS)


@dataclass
class ProgramContext:
    """State shared by the passes over one program; each pass may extend it.

    Names: `formats` has the format of every free name; `yields` the script names that `return` hands back;
    `originals` the user's name of each binder and tensor that was renamed; `taken` the names that `fresh`
    must not make, `last` the number that it gave last to each stem; `open` the names that are bound to what
    may be missing.

    Workspaces: `insert_workspaces` says whether updates across the order of their loops go through
    workspaces, or are errors; `workspaces` has their formats, `workspace_of` that of each tensor which is
    updated in place; `choices` are those that may have either of two formats, and `exchanged` those that
    take the second, because of sizes; `stored` are those that concatenations are stored in, each part by
    a loop of its own; `policies` are those that `@workspace` asks for, by tensor: name and capacity, "" or
    0 where the choice is free.

    Output: `notes` tell the user of what may surprise, `decisions` what each pass decided, by its name.

    Shapes: `checks` are the names of extents that shape operators need to be the same; they come before
    all other dimensions.

    Schedules: `annotations` stand before the kernel, and `parsed` is the kernel as written; `derived` has
    for each schedule that took loops away the indices it made and those they stand for, `ranges` the
    extents of the latter, `renewed` the user's names of the indices of a statement that `precompute` made.
    """

    formats: dict[str, Format]
    insert_workspaces: bool = True
    exchanged: frozenset[str] = frozenset()
    workspaces: dict[str, Level] = field(default_factory=dict)
    workspace_of: dict[str, str] = field(default_factory=dict)
    choices: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    yields: tuple[str, ...] = ()
    originals: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    decisions: list[tuple[str, str]] = field(default_factory=list)
    annotations: tuple[ast.Node, ...] = ()
    parsed: ast.Node = ast.EMPTY
    policies: dict[str, tuple[str, int]] = field(default_factory=dict)
    derived: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)
    ranges: dict[str, ast.Extent] = field(default_factory=dict)
    renewed: dict[str, str] = field(default_factory=dict)

    def reserve(self, program: ast.Node) -> None:
        """Keep the names that occur in `program` from being made again by `fresh`."""
        named = (ast.Index, ast.Variable, Operation)
        self.taken.update(n.name for n in trees.find_all(program, *named))

    def fresh(self, base: str) -> str:
        """`base`, or `base_2`, `base_3` ...: a name that stands for nothing else."""
        name, stem = base, re.sub(r"_\d+$", "", base)
        while name in self.taken or name in RESERVED or name in self.formats:
            # counted for each stem: trying every number from 2 on took quadratic time
            self.last[stem] = self.last.get(stem, 1) + 1
            name = f"{stem}_{self.last[stem]}"
        self.taken.add(name)
        return name

    def fresh_indices(self, count: int, span: Span | None) -> tuple[ast.Index, ...]:
        """So many new indices."""
        names = [self.fresh("ijklmnpq"[k % 8]) for k in range(count)]
        return tuple(ast.Index(name, span=span) for name in names)

    def decide(self, name: str, what: str) -> None:
        """Note a decision of the pass `name`; the same decision at several places is noted once."""
        if (name, what) not in self.decisions:
            self.decisions.append((name, what))

    def level(self, name: str) -> Level:
        """The format of the tensor `name`, as it is stored."""
        found = self.formats[name]
        assert not isinstance(found, types.Type)
        return level_of(found)

    def written(self, name: str) -> str:
        """The user's name for the index, variable or tensor `name`."""
        return self.originals.get(name, name)

    def original(self, loops: Iterable[str]) -> list[str]:
        """The indices of the program as written, in the order in which loops over `loops`, outermost
        first, go through them (Workspaces'24 section 6.2). Indices that a schedule made stay where their
        order is not that of the indices they stand for."""
        names = list(loops)
        for made, given in reversed(self.derived):
            for at in range(len(names) - len(made) + 1):
                if tuple(names[at : at + len(made)]) == made:
                    names[at : at + len(made)] = given
        return names


def wrapped(tensor: ast.Node) -> tuple[list[Any], ast.Node]:
    """The wrappers around a tensor or mask, from the outside in, and what they are around."""
    wrappers = list[Any]()
    while isinstance(tensor, ast.Call) and tensor.args and not mask_name(tensor):
        wrappers.append(tensor)
        tensor = tensor.args[0]
    return wrappers, tensor


def root(tensor: ast.Node) -> str | None:
    """The name of the tensor inside any wrappers; None for a mask."""
    inner = wrapped(tensor)[1] if isinstance(tensor, ast.Call) else tensor
    return inner.name if isinstance(inner, ast.Variable) else None


def may_be_missing(tensor: ast.Node) -> bool:
    """Whether a wrapper around `tensor` reads `missing` out of range."""
    return any(
        is_call(w, "toeplitz") or (is_call(w, "permissive") and ast.Literal(True) in w.args)
        for w in wrapped(tensor)[0]
    )


def mask_name(tensor: ast.Node) -> str | None:
    """The mask that `tensor` calls for (`UpTriMask()`, `splitmask(n, 2)`), or None."""
    op = tensor.op if isinstance(tensor, ast.Call) else None
    return op.name if isinstance(op, ast.Variable) and op.name in MASKS else None


def mask_sizes(tensor: ast.Node) -> tuple[ast.Node | None, ...]:
    """The sizes of the modes of the mask inside any wrappers; nothing for another tensor."""
    inner = wrapped(tensor)[1] if isinstance(tensor, ast.Call) else tensor
    name = mask_name(inner)
    return MASKS[name].shape(inner.args) if name is not None else ()  # type: ignore[attr-defined]


def is_call(node: ast.Node, *names: str) -> TypeGuard[Any]:
    """Whether `node` calls one of the operators `names`."""
    op = node.op if isinstance(node, ast.Call) else None
    return isinstance(op, ast.Variable) and op.name in names


def size_extent(name: str, mode: int, span: Span | None = None) -> ast.Extent:
    """`1:size(name, mode)`; modes count from 1."""
    size = ast.call("size", ast.Variable(name, span=span), ast.Literal(mode, span=span), span=span)
    return ast.Extent(ast.Literal(1, span=span), size, span=span)


def sized(node: ast.Node) -> list[str]:
    """The tensors whose sizes are in an expression, by name."""
    return [n.args[0].name for n in trees.walk(node) if is_call(n, "size")]


def with_sizes(node: ast.Node, known: Callable[[str, int], ast.Node | None]) -> Any:
    """An expression with what `known` gives for a tensor and its mode, from 0, in place of its size."""
    if is_call(node, "size"):
        tensor, mode = node.args
        return known(tensor.name, mode.value - 1) or node
    return trees.map_children(lambda child: with_sizes(child, known), node)


def names_in(node: ast.Node) -> set[str]:
    """The names of indices and variables in an expression."""
    return {n.name for n in trees.find_all(node, ast.Index, ast.Variable)}


def statements_of(scope: ast.Node) -> tuple[ast.Node, ...]:
    """The statements of a block, or a single one."""
    return scope.statements if isinstance(scope, ast.Block) else (scope,)


def evaluated(statement: ast.Node) -> tuple[ast.Node, ...]:
    """The expressions that a statement evaluates before or without a body, no element that it writes."""
    match statement:
        case ast.Loop() | ast.Define() | ast.Sieve():
            return (trees.head(statement),)
        case ast.Assign(target, _, value):
            return *target.indices, value
        case ast.Declare(_, init, dims):
            return init, *dims
    return ()


def is_plain(op: ast.Node) -> bool:
    """Whether an assignment's operator is no reduction, also with its fill."""
    return (op.op if isinstance(op, ast.Call) else op) in PLAIN


def is_single(extent: ast.Node) -> TypeGuard[ast.Extent]:
    """Whether a loop over `extent` runs exactly once: `x:x`."""
    return isinstance(extent, ast.Extent) and extent.start == extent.stop


def reads(expression: ast.Node) -> Iterable[str]:
    """The tensors an expression reads, by name."""
    names = (root(access.tensor) for access in trees.accesses(expression))
    return [name for name in names if name is not None]


def place(span: Span | None) -> str:
    """`line:column` of a span, for messages."""
    return f"{span.line}:{span.column}" if span is not None else "an inserted statement"
