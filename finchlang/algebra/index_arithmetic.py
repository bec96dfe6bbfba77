"""Shifts: taking an index out of a sum, and what the modes of a wrapped tensor say of extents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from functools import reduce
from typing import Any

from finchlang.algebra.expression_types import type_of
from finchlang.algebra.program_context import ONE, is_call, mask_name, mask_sizes, size_extent
from finchlang.base.errors import FinchError
from finchlang.host.construct import const
from finchlang.operators.build import LARGEST
from finchlang.operators.operator_table import OPERATORS, row_of
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Int64

ZERO = ast.Literal(0)
#: where a mode's extent comes from: (tensor, its mode from 0, shift); an extent; None if that is not known
Source = tuple[str, int, ast.Node] | ast.Extent | None


def terms(node: ast.Node, sign: int = 1) -> Iterator[tuple[int, ast.Node]]:
    """The terms of a sum, each with its sign. A sum of small integers wraps around, and is a term."""
    row = row_of(node)
    if row.translates and (type_of(node) or Int64).bits == Int64.bits:
        assert isinstance(node, ast.Call)
        *first, last = node.args
        for arg in first:
            yield from terms(arg, sign)
        yield from terms(last, sign if row.commutative else -sign)
    else:
        yield sign, node


def total(parts: list[tuple[int, ast.Node]]) -> ast.Node:
    """The sum of signed terms, with integers folded and opposite terms cancelled: the sum of the positive
    ones, minus the sum of the negative ones, plus the constant."""
    constant, rest = 0, list[tuple[int, ast.Node]]()
    for sign, node in parts:
        if (own := _whole(node)) is not None:
            constant = folded("+" if sign > 0 else "-", constant, own)
        elif (-sign, node) in rest:
            rest.remove((-sign, node))
        else:
            rest.append((sign, node))
    added = [node for sign, node in rest if sign > 0]
    taken = [node for sign, node in rest if sign < 0]
    result = reduce(_sum, added) if added else ast.Literal(constant)
    if taken:
        result = ast.call("-", result, reduce(_sum, taken), span=(added or taken)[0].span)
    if constant and added:
        op = "+" if constant > 0 else "-"
        result = ast.call(op, result, ast.Literal(abs(constant)), span=result.span)
    return result


def _sum(a: ast.Node, b: ast.Node) -> ast.Node:
    return ast.call("+", a, b, span=a.span)


def plus(a: ast.Node, b: ast.Node, sign: int = 1) -> ast.Node:
    """a + b, or a - b for the sign -1."""
    return total([*terms(a), *terms(b, sign)])


def times(a: ast.Node, b: ast.Node) -> ast.Node:
    """a * b, folded. Raises FinchError "dimension" for a product of integers beyond 2^62."""
    m, n = _whole(a), _whole(b)
    if m is not None and n is not None:
        if n and m > LARGEST // n:
            message = f"a mode of {m} x {n} places is more than 2^62"
            raise FinchError("dimension", message, a.span or b.span)
        return ast.Literal(folded("*", m, n))
    return b if m == 1 else a if n == 1 else ast.call("*", a, b, span=a.span)


def folded(name: str, a: int, b: int) -> int:
    """An operator of the table on two integers, folded as the host does: there is no second arithmetic."""
    result = OPERATORS[name].folded((const(a), const(b)))
    assert result is not None
    return result.value


def summands(node: ast.Node) -> Hashable:
    """A key that equal extents, or expressions that are the same as sums, share."""
    if isinstance(node, ast.Extent):
        return summands(node.start), summands(node.stop), node.step
    return frozenset(Counter(terms(node)).items())


def shifted(extent: ast.Extent, shift: ast.Node) -> ast.Extent:
    if shift == ZERO:
        return extent
    return ast.Extent(plus(extent.start, shift), plus(extent.stop, shift), span=extent.span)


def length(window: ast.Extent) -> ast.Node:
    """The number of integers in a window or slice."""
    span = plus(window.stop, window.start, -1)
    if window.step is None:
        return plus(span, ONE)
    span = plus(span, window.step)
    whole, step = _whole(span), _whole(window.step)
    if whole is not None and step:
        return ast.Literal(max(folded("div", whole, step), 0))
    if step == -1:
        count = plus(plus(window.start, window.stop, -1), ONE)
        # all of a mode, backwards: never less than 0
        return count if is_call(count, "size") else ast.call("max", count, ZERO)
    count = ast.call("max", ast.call("div", span, window.step), ZERO)
    # a step of 0 is an error of its own, which is found where the slice is read
    return count if step else ast.call("ifelse", ast.call("==", window.step, ZERO), ZERO, count)


def _whole(node: ast.Node) -> int | None:
    is_whole = isinstance(node, ast.Literal) and node.type is None and type(node.value) is int
    return node.value if is_whole else None  # type: ignore[attr-defined]


def source(tensor: ast.Node, mode: int) -> Source:
    """Where the extent of a mode (from 0) of a wrapped tensor comes from (Finch'25 Table 5)."""
    if isinstance(tensor, ast.Variable):
        return tensor.name, mode, ZERO
    if isinstance(tensor, ast.Formula):
        return _of_formula(tensor, mode)
    if is_call(tensor, "concat"):
        p, *parts = tensor.args
        if mode != p.value - 1:
            return source(parts[0], mode)
        sizes: list[Any] = [size(part, mode) for part in parts]
        return ast.Extent(ONE, reduce(plus, sizes)) if all(sizes) else None
    if not isinstance(tensor, ast.Call) or mask_name(tensor):
        known = mask_sizes(tensor)[mode]
        return None if known is None else ast.Extent(ONE, known)
    if is_call(tensor, *MAPS):
        body, within = tensor.args[0], below(tensor, mode)
        if is_call(tensor, "collapse") and len(within) == 2:
            pair: list[Any] = [size(body, m) for m in within]
            return ast.Extent(ONE, times(*pair)) if all(pair) else None
        if mode in new_modes(tensor):
            return _new_extent(tensor, mode)
        return source(body, *within)
    setting, inner = tensor.args[1 + mode], source(tensor.args[0], mode)
    if is_call(tensor, "permissive") and setting == ast.Literal(True):
        return None
    if is_call(tensor, "window") and isinstance(setting, ast.Extent):
        return ast.Extent(ONE, length(setting))
    if not is_call(tensor, "offset") or inner is None:
        return inner
    if isinstance(inner, ast.Extent):
        return shifted(inner, plus(ZERO, setting, -1))
    name, at, shift = inner
    return name, at, plus(shift, setting, -1)


def size(tensor: ast.Node, mode: int) -> ast.Node | None:
    """The size of a mode (from 0) of a wrapped tensor that counts from 1 to an end."""
    match source(tensor, mode):
        case (name, at, shift) if shift == ZERO:
            return size_extent(name, at + 1, tensor.span).stop
        case ast.Extent(start, stop) if start == ONE:
            return stop
    return None


def own_accesses(node: ast.Node) -> Iterator[ast.Access]:
    """The accesses in an expression, without those of expressions that stand as tensors within it."""
    if isinstance(node, ast.Access):
        yield node
    for child in node.indices if isinstance(node, ast.Access) else trees.children(node):
        yield from own_accesses(child)


def needed(node: ast.Node) -> set[str]:
    """The indices that an expression is missing for where they are out of range."""
    if isinstance(node, ast.Access):
        return {i.name for i in node.indices if isinstance(i, ast.Index)}
    if not isinstance(node, ast.Call) or row_of(node).lazy_missing:
        return set()
    return {name for arg in node.args for name in needed(arg)}


def _of_formula(formula: ast.Formula, mode: int) -> Source:
    """The extent by the first tensor that has a size where this index stands, else by the first at all."""
    found: Source = None
    for access in own_accesses(formula.value):
        for at, index in enumerate(access.indices):
            if index == formula.indices[mode]:
                if (whole := size(access.tensor, at)) is not None:
                    return ast.Extent(ONE, whole)
                found = found or source(access.tensor, at)
    return found


def _new_extent(tensor: ast.Call, mode: int) -> ast.Extent | None:
    """The extent of a mode (from 0) that a wrapper makes."""
    if is_call(tensor, "toeplitz"):
        return None
    body, p, number = tensor.args[:3]
    if is_call(tensor, "broadcast") or mode == fast_mode(tensor):
        return ast.Extent(ONE, number)
    if len(tensor.args) > 3 and tensor.args[3] != ast.Literal(True):
        return ast.Extent(ONE, tensor.args[3])
    whole = size(body, p.value - 1)  # type: ignore[attr-defined]
    return None if whole is None else ast.Extent(ONE, divided(whole, number))


def divided(whole: ast.Node, number: ast.Node) -> ast.Node:
    """whole ÷ number, for a number that divides it: a factor of `whole` is cancelled."""
    for part in whole.args if isinstance(whole, ast.Call) and number in whole.args else ():
        if whole in (times(part, number), times(number, part)):
            return part
    a, b = _whole(whole), _whole(number)
    if a is not None and b:
        return ast.Literal(folded("div", a, b))
    return ast.call("div", whole, at_least_one(number))


def at_least_one(number: ast.Node) -> ast.Node:
    """`number`, or 1 if it is less: a divisor that is not 0."""
    n = _whole(number)
    return ast.call("max", number, ONE) if n is None or n < 1 else number


#: wrappers whose modes are not those of the tensor within, with how many more they have
MAPS = {"toeplitz": 1, "collapse": -1, "split": 1, "broadcast": 1, "swizzle": 0}


def below(tensor: ast.Call, mode: int) -> tuple[int, ...]:
    """The modes of the tensor within that a mode of a wrapper in MAPS goes through, all from 0."""
    numbers: list[Any] = [n.value - 1 for n in tensor.args[1:] if isinstance(n, ast.Literal)]
    if is_call(tensor, "swizzle"):
        return (numbers.index(mode),)
    p = numbers[0]
    if is_call(tensor, "collapse"):
        q = numbers[1]
        return (p, q) if mode == min(p, q) else (mode + (mode >= max(p, q)),)
    if is_call(tensor, "broadcast"):
        return () if mode == p else (mode - (mode > p),)
    return (mode - (mode > p),)


def above(tensor: ast.Call, order: int) -> dict[int, list[int]]:
    """For each mode of the tensor within a wrapper in MAPS its modes, of so many, the fast one first."""
    found: dict[int, list[int]] = defaultdict(list)
    for mode in sorted(range(order), key=lambda mode: mode != fast_mode(tensor)):
        for within in below(tensor, mode):
            found[within].append(mode)
    return found


def new_modes(tensor: ast.Call) -> tuple[int, ...]:
    """The modes, from 0, of a wrapper in MAPS that the tensor within does not have."""
    p: Any = tensor.args[1]
    if is_call(tensor, "toeplitz", "split"):
        return p.value - 1, p.value
    return (p.value - 1,) if is_call(tensor, "broadcast") else ()


def fast_mode(tensor: ast.Call) -> int:
    """The fast one of the two modes, from 0, that `split(A, p, m)` or `split(A, p, m, true)` makes."""
    p: Any = tensor.args[1]
    return p.value - 1 + (tensor.args[3:] == (ast.Literal(True),))


def settings(tensor: ast.Node, mode: int) -> Iterator[ast.Node]:
    """The settings of wrappers that must be known where a loop over a mode (from 0) begins."""
    if not isinstance(tensor, ast.Call) or mask_name(tensor):
        yield from getattr(tensor, "args", ())
        return
    if not is_call(tensor, *MAPS):
        yield tensor.args[1 + mode]
        yield from settings(tensor.args[0], mode)
        return
    if is_call(tensor, "split", "broadcast") and mode in new_modes(tensor):
        yield from tensor.args[2:]
    for within in below(tensor, mode):
        yield from settings(tensor.args[0], within)
