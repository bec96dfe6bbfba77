"""The levels by name, and formats read from text."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from finchlang.base.errors import FinchError, write
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.interleaved import Interleaved
from finchlang.levels.level import PARAMETERS, Level, Swizzled
from finchlang.levels.pack_bits import PackBits
from finchlang.levels.packed import LowerTriangular, Symmetric, UpperTriangular
from finchlang.levels.pattern import Pattern
from finchlang.levels.ragged import Ragged
from finchlang.levels.run_list import RunList
from finchlang.levels.scalars import SCALARS, Scalar
from finchlang.levels.sparse_band import SparseBand
from finchlang.levels.sparse_block_list import SparseBlockList
from finchlang.levels.sparse_bytemap import SparseByteMap
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.levels.sparse_hash import SparseHash
from finchlang.levels.sparse_interval import SparseInterval
from finchlang.levels.sparse_list import SparseList
from finchlang.levels.sparse_pinpoint import SparsePinpoint
from finchlang.levels.sparse_run_list import SparseRunList
from finchlang.levels.workspace.workspace import Workspace
from finchlang.operators.operator_table import literal_type
from finchlang.syntax.nodes import Call, Literal, Node, Parametric, Variable
from finchlang.syntax.types import Int64, Type, named_type
from finchlang.text.tree_cache import script_of

_KINDS: tuple[type[Level], ...] = (
    *(Dense, RunList, PackBits),
    *(SparseList, SparsePinpoint, SparseRunList, SparseInterval, SparseBlockList, SparseBand),
    *(SparseByteMap, SparseHash, SparseCOO, Interleaved, Workspace),
    *(Ragged, LowerTriangular, UpperTriangular, Symmetric),
    *(Element, Pattern, *SCALARS.values()),
)
#: levels by the names used in formats: those of the papers, and of Finch.jl
LEVELS: dict[str, type[Level]] = {
    **{level.__name__: level for level in _KINDS},
    "SparsePoint": SparsePinpoint,
    "SparseDict": SparseHash,
    "Sparse": SparseHash,
    "SparseVBL": SparseBlockList,
    "DenseRLE": RunList,
    "SparseRLE": SparseRunList,
}

#: the format of a tensor, with the order of its modes if that is not the stored one
Format = Level | Swizzled
#: the largest number of modes of a tensor, as of NumPy's arrays
MODES = 64


def construct(name: str, parameters: tuple[Any, ...], args: tuple[Any, ...]) -> Level:
    """The level `name{parameters...}(args...)`; arguments are levels, literals or numbers. Raises
    FinchError of kind "unknown name" or "type", "resource" for too many modes."""
    level = _construct(name, parameters, args)
    if level.order > MODES:
        raise FinchError("resource", f"a tensor has at most {MODES} modes")
    return level


def _construct(name: str, parameters: tuple[Any, ...], args: tuple[Any, ...]) -> Level:
    kind = LEVELS.get(name)
    if kind is None:
        hint = f"levels: {', '.join(LEVELS)}"
        raise FinchError("unknown name", f"there is no level {name}", hint=hint)
    if kind is Pattern:
        if args or parameters:
            raise FinchError("type", "Pattern takes no arguments")
        return Pattern()
    if kind is Element or issubclass(kind, Scalar):
        return _leaf(kind, parameters, args)
    if len(args) != 1 or not isinstance(args[0], Level) or isinstance(args[0], Scalar):
        hint = "the innermost is `Element(0.0)`, and sizes are given to Tensor: "
        hint += "`Tensor(Dense(SparseList(Element(0.0))), 3, 3)`"
        if not args or (len(args) == 1 and isinstance(args[0], (bool, int, float))):
            hint = write(f"{name}(Element({args[0] if args else 0.0}))")
        raise FinchError("type", f"{name} takes one argument, the level below it", hint=hint)
    if any(isinstance(level, Workspace) for level in args[0].levels()):
        raise FinchError("type", Workspace.OUTERMOST, hint=f"one of more modes over {args[0].leaf}")
    own = {field.name for field in fields(kind)}
    given = [p.value if isinstance(p, Literal) else p for p in parameters]
    numbers = [p for p in given if type(p) is int]
    types = [p for p in given if isinstance(p, Type) and p.is_integer]
    policies = [p for p in given if isinstance(p, str)]
    found: dict[str, Any] = dict(zip(("number", "capacity"), numbers, strict=False))
    found |= dict(zip(["index"], types, strict=False))
    found |= dict(zip(["policy"], policies, strict=False))
    if len(found) < len(parameters) or not own.issuperset(found):
        known = ", ".join(text for field, text in PARAMETERS.items() if field in own)
        if known:
            raise FinchError("type", f"{name} takes in braces {known}")
        message = f"{name} stores no indices and has no parameters"
        raise FinchError("type", message, hint="take the braces out")
    if kind is SparseCOO and "number" not in found:
        raise FinchError("type", "SparseCOO needs its number of modes", hint="SparseCOO{2}(...)")
    if found.get("capacity", 1) < 1:
        raise FinchError("type", f"a capacity is at least 1, not {found['capacity']}")
    return kind(args[0], **found)  # type: ignore[call-arg]


def _leaf(kind: type[Level], parameters: tuple[Any, ...], args: tuple[Any, ...]) -> Level:
    """`Element(fill)`, `Element{fill}()`, `Element{fill, Type}()`, the same for scalars."""
    values = [*(p for p in parameters if not isinstance(p, Type)), *args]
    types = [p for p in parameters if isinstance(p, Type)]
    if len(values) != 1 or len(types) > 1 or isinstance(values[0], Level):
        hint = f"write `{kind.__name__}(0.0)`"
        raise FinchError("type", f"{kind.__name__} takes one fill value", hint=hint)
    return kind(typed_literal(values[0], types[0] if types else None))  # type: ignore[call-arg]


@lru_cache(maxsize=256)
def parse_format(text: str) -> Level:
    """The format that a text like `Dense(SparseList(Element(0.0)))` describes. Raises FinchError of kind
    syntax, unknown name or type, with its place in the text."""
    statements = script_of(text, "<format>").statements
    if len(statements) != 1:
        raise FinchError("syntax", "a format is one expression like Dense(Element(0.0))")
    try:
        found = _evaluate(statements[0])
    except RecursionError:  # a text nested too deeply
        raise FinchError("resource", f"a tensor has at most {MODES} modes") from None
    if not isinstance(found, Level):
        raise FinchError("type", f"{text} is not a format", statements[0].span)
    return found


def _parameter(node: Node) -> Any:
    """The value of a parameter: a literal, a type, or the name of a policy."""
    is_name = isinstance(node, Variable) and named_type(node.name) is None
    return node.name if is_name else _evaluate(node)  # type: ignore[attr-defined]


def nest_of(are_dense: list[bool], leaf: Level, index: Type = Int64) -> Level:
    """A format of Dense and SparseList levels over a leaf, the outermost first."""
    for is_dense in reversed(are_dense):
        leaf = Dense(leaf) if is_dense else SparseList(leaf, index)
    return leaf


def permuted(level: Level, permutation: tuple[int, ...]) -> Format:
    """The format of a tensor whose modes `permutation` (from 1) are stored in this order by `level`."""
    is_straight = permutation == tuple(range(1, len(permutation) + 1))
    return level if is_straight else Swizzled(level, permutation)


def modes_of(format: Format) -> tuple[int, ...]:
    """The modes of a tensor, from 1, in the order in which they are stored, the innermost first."""
    if isinstance(format, Swizzled):
        return format.permutation
    return tuple(range(1, format.order + 1))


def _evaluate(node: Node) -> Any:
    if isinstance(node, Literal):
        return typed_literal(node.value, literal_type(node))
    if isinstance(node, Variable) and (known := named_type(node.name)):
        return known
    if isinstance(node, Call):
        args = tuple(_evaluate(a) for a in node.args)
        try:
            if isinstance(node.op, Variable):
                return construct(node.op.name, (), args)
            if isinstance(node.op, Parametric):
                parameters = tuple(_parameter(p) for p in node.op.parameters)
                return construct(node.op.name, parameters, args)
        except FinchError as error:
            raise error.at(node.span) from None
    hint = "columns are `Dense(SparseList(Element(0.0)))`, coordinates `SparseCOO{2}(Element(0.0))`"
    raise FinchError("type", "this is no part of a format", node.span, hint)
