"""The types pass: the type that every expression evaluates to.

Types are inferred here and nowhere else: accesses and variables carry theirs from here on, and
`type_of` gives that of any expression of them. `is_there` tells whether an expression may be `missing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from finchlang.algebra.program_context import Format, mask_sizes, root
from finchlang.base.errors import FinchError
from finchlang.levels.level import Level, level_of
from finchlang.levels.looplets import Sequence, is_payload, may_be_missing
from finchlang.operators.operator_table import SELECT, literal_type, operator, row_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Int64, Type, UInt8, can_store
from finchlang.syntax.user_function import Operation

Names = Mapping[str, Format | None]


def annotate(node: ast.Node, names: Names) -> ast.Node:
    """`node` with the types and `fills` of its accesses and variables; `names` has the free names' formats.
    Raises FinchError "type" where an operator or a store does not take its operands."""
    if isinstance(node, ast.Define):
        value = annotate(node.value, names)
        type = _checked_type(value)
        body = annotate(node.body, {**names, node.variable.name: type})
        return ast.Define(node.variable, value, body, span=node.span)
    if isinstance(node, ast.Variable):
        known = names.get(node.name)
        return trees.replace(node, type=known) if isinstance(known, Type) else node
    if isinstance(node, ast.Access):
        indices = tuple(annotate(i, names) for i in node.indices)
        tensor = annotate(node.tensor, names)
        for index in (*indices, *_settings(tensor)):
            _check_integer(index)
        type, fills = OF_MASKS if mask_sizes(tensor) else (None, ())
        if (found := level_in(tensor, names)) is not None:
            type, fills = found.element_type, (found.fill,) if has_gaps(found) else ()
        return ast.Access(tensor, indices, span=node.span, type=type, fills=fills)
    node = trees.map_children(lambda child: annotate(child, names), node)
    if isinstance(node, ast.Assign):
        return _assign(node, names)
    if isinstance(node, ast.Extent):
        _check_integer(node.start)
        _check_integer(node.stop)
    if isinstance(node, ast.Sieve):
        _condition(node.condition)
    return node


#: the type of masks, and what they may be by structure
OF_MASKS: tuple[Type, tuple[ast.Literal, ...]] = Bool, (ast.Literal(False), ast.Literal(True))


def has_gaps(level: Level) -> bool:
    """Whether a tensor of this format may have places without an entry."""
    return level.is_structured or any(part.has_gaps for part in level.levels() if not part.is_leaf)


def level_in(tensor: ast.Node, names: Names) -> Level | None:
    """The format of the tensor inside any wrappers, by the formats `names`; None for a mask."""
    found = level_of(names.get(root(tensor) or ""))
    return found if isinstance(found, Level) else None


def _assign(node: ast.Assign, names: Names) -> ast.Assign:
    level = level_in(node.target.tensor, names)
    assert level is not None
    value = _checked_type(node.value)
    row = operator(node.op)
    if row is None:
        raise FinchError("unknown name", "this is no operator", node.op.span or node.span)
    if value is None:
        return node
    target = level.element_type
    results = (type_of(ast.Call(node.op, (node.target, v))) for v in _choices(node.value))
    result = next((r for r in results if r is not None and not can_store(r, target)), None)
    if result is not None:
        message = f"a value of type {result} cannot be kept as {target}"
        hint = None if target.kind == "pair" else f"convert it, as in {target}(...)"
        if target.kind == "bool":
            hint = "a comparison gives a Bool, as `x != 0`"
        if target.is_integer and result.is_float:
            name = getattr(node.target.tensor, "name", "it")
            hint = (
                f"`{name}` with the fill 0.0 keeps fractions, as in `Scalar(0.0)`, `zeros(3)` or "
            )
            hint += f"`Element(0.0)`; `trunc({target}, x)` cuts them off"
        raise FinchError("type", message, node.span, hint)
    return node


def _choices(value: ast.Node) -> list[ast.Node]:
    """`value` with the first operand of calls like `coalesce` in their place, with the second ..."""

    def operands(node: ast.Node) -> tuple[ast.Node, ...]:
        return node.args if row_of(node).overrides else ()  # type: ignore[attr-defined]

    def chosen(k: int, node: ast.Node) -> ast.Node:
        found = operands(node)
        return found[min(k, len(found) - 1)] if found else node

    most = max((len(operands(n)) for n in trees.walk(value)), default=0)
    return [trees.rewrite_bottom_up(partial(chosen, k), value) for k in range(most)] or [value]


def _condition(node: ast.Node) -> None:
    type = _checked_type(node)
    if type is not None and type != Bool:
        raise FinchError("type", f"a condition must be a Bool, not {type}", node.span)
    if isinstance(node, ast.Literal) and not isinstance(node.value, bool):
        raise FinchError("type", "a condition must be a Bool", node.span)


def _check_integer(node: ast.Node) -> None:
    type = _checked_type(node)
    if type is not None and not type.is_integer:
        message = f"an index must be an integer, as bounds are, not {type}"
        raise FinchError("type", message, node.span)


def _settings(node: ast.Node) -> Iterator[ast.Node]:
    """The numbers that the wrappers of a tensor are set by, but those within ranges."""
    if isinstance(node, ast.Call) and operator(node.op) is None:
        for arg in node.args:
            yield from _settings(arg)
    elif isinstance(getattr(node, "value", 0.0), float):  # no word, as `true` and `nothing`
        yield node


def _checked_type(node: ast.Node) -> Type | None:
    """The type of an expression; errors have the place of the innermost call that they are about."""
    if isinstance(node, ast.Call):
        for arg in node.args:
            _checked_type(arg)
    try:
        return type_of(node)
    except FinchError as error:
        raise error.at(node.span) from None


def type_of(node: ast.Node) -> Type | None:
    """The element type of an expression whose accesses and variables have theirs; None for `missing`."""
    match node:
        case ast.Literal():
            return literal_type(node)
        case ast.Value(expr):
            return expr.type
        case ast.Index():
            return Int64
        case ast.Mode():
            return UInt8
        case ast.Access() | ast.Variable():
            return node.type
        case ast.Call(ast.Variable("size" | "positions" | "coordinate"), _):
            return Int64
        case ast.Call():
            return _type_of_call(node)
    return None


@trees.remembered
def _type_of_call(node: ast.Call) -> Type | None:
    row = operator(node.op)
    types = [t for t in map(type_of, node.args) if t is not None]
    if row is not None and types:
        if len(types) == len(node.args):
            return row.result_type(tuple(types))
        if row.lazy_missing:  # `missing` among them
            return types[-1]
    return None


@trees.remembered
def is_there(node: ast.Node) -> bool:
    """Whether an expression cannot turn out missing; while it can, no other argument decides a call of it.
    A sequence whose beginning a loop has left behind counts as one that can."""
    if isinstance(node, ast.Access):
        is_open = len(node.indices) > 1 or is_payload(node.tensor)
        may_miss = node.may_miss and (is_open or may_be_missing(node.tensor))
        places = (*node.indices, *node.captured, node.tensor)
        return not may_miss and not _is_begun(node) and all(map(is_there, places))
    if isinstance(node, ast.Call):
        there = [is_there(arg) for arg in node.args]
        row = operator(node.op)
        if all(there) or row is None or row.selects or not row.lazy_missing:
            return all(there)
        return any(there) and not any(map(_is_begun, trees.walk(node)))
    if isinstance(node, (ast.Variable, ast.Index)):
        return not node.may_miss
    return not ast.is_missing(node)


def _is_begun(node: ast.Node) -> bool:
    nest = node.tensor if isinstance(node, ast.Access) else None
    return isinstance(nest, Sequence) and nest.phases[0].start is not None


def may_fail(node: ast.Node) -> bool:
    """Whether there may be an error where a typed node is evaluated, as of an integer divided by 0."""

    def fails(call: ast.Call) -> bool:
        if isinstance(call.op, Operation):
            return may_fail(call.op.body)
        return ast.is_meet(call) or row_of(call).may_fail([type_of(arg) for arg in call.args])

    return any(map(fails, trees.find_all(node, ast.Call)))


def optional(there: ast.Node, value: ast.Node, whole: ast.Node) -> ast.Call:
    """`ifelse(there, value, missing)`: the normal form of an expression `whole` that may be missing."""
    return ast.Call(SELECT, (there, value, ast.Literal(ast.MISSING)), span=whole.span)


def apart(node: ast.Node) -> tuple[ast.Node, ast.Node] | None:
    """Condition and value of an expression in the normal form of `optional`; None of all others."""
    is_open = isinstance(node, ast.Call) and len(node.args) == 3 and ast.is_missing(node.args[2])
    return node.args[:2] if is_open and row_of(node).selects else None  # type: ignore
