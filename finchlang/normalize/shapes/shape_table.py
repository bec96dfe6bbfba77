"""The table of shape operators: how each is written, and of which primitives (`shaped.py`) it is made.

Signatures are Julia's and the array API's where these agree with a kernel's: dimensions are integer
literals and count from 1, sizes are integers known before the loops, and elements go column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

from finchlang.algebra.index_arithmetic import plus, times
from finchlang.algebra.program_context import ONE, is_call
from finchlang.base.errors import FinchError, Span
from finchlang.base.records import record
from finchlang.normalize.shapes.shaped import Arguments, Shaped
from finchlang.syntax.nodes import Access, Call, Extent, Formula, Index, Literal, Node, call


@record
class ShapeOperator:
    """A row: how a call of it is written, and what it makes of its arguments."""

    form: str
    make: Callable[[Arguments], Shaped]


# --------------------------------------------------------------------------- primitives


def _collapse(given: Arguments) -> Shaped:
    t, p = given.mode_of_tensor()
    return given.collapse(t, p, given.mode(t.order, p))


def _split(given: Arguments) -> Shaped:
    t, p = given.mode_of_tensor()
    names_both = len(given.left) > 1 and type(getattr(given.left[1], "value", None)) is not bool
    m = given.size(least=0 if names_both else 1)
    if not names_both:
        given.divide(t.size(p), m)
        return given.split(t, p, m, *[Literal(True)] * given.flag())
    n = given.size()
    given.agree(t.size(p), times(m, n))
    return given.split(t, p, m, n)


def _broadcast(given: Arguments) -> Shaped:
    t = given.tensor()
    return given.broadcast(t, given.mode(t.order + 1), given.size())


def _slice(given: Arguments) -> Shaped:
    (t, p), part = given.mode_of_tensor(), given.extent()
    if isinstance(part, Extent) and part.step is None:  # `5:0` has no elements, as `5:4`
        before = plus(part.start, ONE, -1)
        a, b = getattr(before, "value", None), getattr(part.stop, "value", None)
        if a is None or b is None:
            stop: Node = part.stop if part.start == ONE else call("max", part.stop, before)
        else:
            stop = Literal(max(a, b))
        part = Extent(part.start, stop, span=part.span)
    return given.window(t, p, part)


def _concat(given: Arguments) -> Shaped:
    p, parts = given.tensors_at()
    return given.concat(parts, p)


# --------------------------------------------------------------------------- other sizes


def _flat(t: Shaped, given: Arguments, first: int, last: int) -> Shaped:
    """`t` with modes from `first` to `last` as one, the first of them the fastest."""
    for _ in range(first, last):
        t = given.collapse(t, first, first + 1)
    return t


def _flatten(given: Arguments) -> Shaped:
    t = given.tensor()
    return _flat(t, given, 1, t.order)


def _reshape(given: Arguments) -> Shaped:
    """All elements in order, in other sizes; modes at an end that keep theirs, never 0, are not touched."""
    t, sizes = given.tensor(), list[Node]()
    while given.left:
        is_free = given.left[0] == Literal(-1)
        sizes.append(given.number() if is_free else given.size())
    free = [k for k, n in enumerate(sizes) if n == Literal(-1)]
    if len(free) > 1:
        message = "one size of `reshape` may be -1, no more"
        raise FinchError("dimension", message, sizes[free[1]].span)
    if not sizes or not t.order:
        raise given.wrong("`reshape` takes a tensor that has dimensions, and sizes", given.span)
    own = [t.size(k + 1) for k in range(t.order)]
    most = min(len(own), len(sizes)) - 1
    first = next((k for k in range(most) if own[k] != sizes[k]), most)
    last = next((k for k in range(most - first) if own[-1 - k] != sizes[-1 - k]), most - first)
    parts = own[first : len(own) - last], sizes[first : len(sizes) - last]
    kept = own[:first] + own[len(own) - last :]
    are_positive = all(isinstance(n, Literal) and n.value for n in kept)
    if are_positive or (not free and reduce(times, parts[0]) == reduce(times, parts[1])):
        sizes = parts[1]
    else:
        first = last = 0
    t = _flat(t, given, first + 1, t.order - last)
    whole = t.size(first + 1)
    others = [n for n in sizes if n != Literal(-1)]
    count = reduce(times, others) if others else ONE
    if len(others) < len(sizes) > 1:
        rest = call("div", whole, call("max", count, ONE))
        sizes = [rest if n == Literal(-1) else n for n in sizes]
        count = times(count, rest)
    if others:
        given.agree(whole, count)
    for k, n in enumerate(sizes[:-1]):
        left = reduce(times, sizes[k + 1 :])
        t = given.split(t, first + 1 + k, n, left)
    return t


def _expand_dims(given: Arguments) -> Shaped:
    t = given.tensor()
    return given.broadcast(t, given.mode(t.order + 1), ONE)


def _squeeze(given: Arguments) -> Shaped:
    t, p = given.mode_of_tensor()
    given.agree(t.size(p), ONE)
    indices = _indices(t.order - 1)
    inner = [*indices[: p - 1], ONE, *indices[p - 1 :]]
    return _formula(indices, _element(t, inner, t.node.span))


def _repeated(is_whole: bool) -> Callable[[Arguments], Shaped]:
    """Each element n times, or all elements n times if `is_whole`."""

    def make(given: Arguments) -> Shaped:
        t, p = given.mode_of_tensor()
        wide = given.broadcast(t, p + is_whole, given.size())
        return given.collapse(wide, p, p + 1)

    return make


# --------------------------------------------------------------------------- beside each other


def _vcat(given: Arguments) -> Shaped:
    return given.concat(_joined(given.tensors(), given), 1)


def _joined(parts: list[Shaped], given: Arguments) -> list[Shaped]:
    """Parts, checked to have dimensions."""
    if not all(t.order for t in parts):
        raise given.wrong(f"`{given.name}` takes tensors that have dimensions", given.span)
    return parts


def _hcat(given: Arguments) -> Shaped:
    """Tensors side by side; a vector is a column."""
    parts = _joined(given.tensors(), given)
    columns = [given.broadcast(t, 2, ONE) if t.order == 1 else t for t in parts]
    return given.concat(columns, 2)


def _stack(given: Arguments) -> Shaped:
    p, parts = given.tensors_at(more=1)
    return given.concat([given.broadcast(t, p, ONE) for t in parts], p)


def _block(given: Arguments) -> Shaped:
    """Rows of c tensors each, one row below the other."""
    c = given.whole("how many tensors are in a row")
    place = given.written[0]
    parts = [given.matrix()]
    while given.left:
        parts.append(given.matrix())
    if c < 1 or len(parts) % c:
        raise FinchError("dimension", f"{len(parts)} tensors are no rows of {c}", place.span)
    rows = [given.concat(parts[k : k + c], 2) for k in range(0, len(parts), c)]
    return given.concat(rows, 1)


def _kron(given: Arguments) -> Shaped:
    a, b = given.tensor(), given.tensor()
    while a.order < b.order:  # a vector is a column
        a = given.broadcast(a, a.order + 1, ONE)
    while b.order < a.order:
        b = given.broadcast(b, b.order + 1, ONE)
    m, n = ([t.size(k + 1) for k in range(t.order)] for t in (a, b))
    for k in range(1, a.order + 1):
        a = given.collapse(given.broadcast(a, k, n[k - 1]), k, k + 1)
        b = given.collapse(given.broadcast(b, k + 1, m[k - 1]), k, k + 1)
    indices = _indices(a.order)
    factors = (_element(t, indices, given.span) for t in (a, b))
    return _formula(indices, call("*", *factors, span=given.span))


# --------------------------------------------------------------------------- in another order


def _roll(given: Arguments) -> Shaped:
    """Each element s places further, around the end."""
    t, p = given.mode_of_tensor()
    n = t.size(p)
    by = call("mod", given.number(), call("max", n, ONE))
    kept = plus(n, by, -1)
    ends = (Extent(plus(kept, ONE), n), Extent(ONE, kept))
    return given.concat([given.window(t, p, part) for part in ends], p)


def _flip(given: Arguments) -> Shaped:
    t, p = given.mode_of_tensor()
    return given.window(t, p, Extent(t.size(p), ONE, Literal(-1)))


def _permute_dims(given: Arguments) -> Shaped:
    """Mode k is mode p_k of the tensor; without modes a matrix is transposed."""
    t, modes = given.tensor(), list[int]()
    if t.order == 2 and not given.left:
        modes = [2, 1]
    while len(modes) < t.order:
        modes.append(given.mode(t.order, *modes))
    settings = (Literal(modes.index(k + 1) + 1) for k in range(t.order))
    return given.made("swizzle", t.order, t.node, *settings)


def _diagonal(given: Arguments) -> Shaped:
    """The elements whose indices of two modes are equal, along a new last mode."""
    t = given.tensor()
    if t.order < 2:
        raise FinchError("dimension", "a diagonal is of two dimensions", given.span)
    p = given.mode(t.order) if given.left else 1
    q = given.mode(t.order, p) if len(given.written) > 1 else 2
    m, n = t.size(p), t.size(q)
    if m != n:
        end = Extent(ONE, call("min", m, n))
        t = given.window(given.window(t, p, end), q, end)
    indices = _indices(t.order - 1)
    inner = indices[:-1]
    for k in sorted((p, q)):
        inner.insert(k - 1, indices[-1])
    return _formula(indices, _element(t, inner, t.node.span))


def _triangle(sign: str) -> Callable[[Arguments], Shaped]:
    """The elements on one side of the k-th diagonal above the main one of a matrix, and on it."""

    def make(given: Arguments) -> Shaped:
        t = given.matrix()
        k = given.number() if given.left else Literal(0)
        if not isinstance(k, Literal) or abs(k.value) > 1 << 32:  # or the sum would wrap around
            k = call("max", call("min", k, t.size(2)), call("-", t.size(1)))
        indices = _indices(2)
        element = _element(t, indices, given.span)
        holds = call(sign, indices[1], plus(indices[0], k))
        zero = call("zero", element)
        return _formula(indices, call("ifelse", holds, element, zero, span=given.span))

    return make


def _indices(count: int) -> list[Index]:
    """Indices of a formula, which are renamed before it is printed."""
    return [Index(f"mode {k + 1}") for k in range(count)]


def _formula(indices: list[Index], value: Node) -> Shaped:
    return Shaped(Formula(tuple(indices), value, span=value.span), len(indices))


def _element(t: Shaped, indices: list, span: Span | None) -> Node:
    return Access(t.node, tuple(indices), span=span)


OPERATORS: dict[str, ShapeOperator] = {
    "collapse": ShapeOperator("collapse(A, 1, 2)", _collapse),
    "split": ShapeOperator("split(A, 1, m)", _split),
    "concat": ShapeOperator("concat(1, A, B)", _concat),
    "cat": ShapeOperator("cat(1, A, B)", _concat),
    "vcat": ShapeOperator("vcat(A, B)", _vcat),
    "hcat": ShapeOperator("hcat(A, B)", _hcat),
    "stack": ShapeOperator("stack(1, A, B)", _stack),
    "block": ShapeOperator("block(2, A, B, C, D)", _block),
    "slice": ShapeOperator("slice(A, 1, a:b)", _slice),
    "broadcast": ShapeOperator("broadcast(A, 1, n)", _broadcast),
    "reshape": ShapeOperator("reshape(A, m, -1)", _reshape),
    "flatten": ShapeOperator("flatten(A)", _flatten),
    "vec": ShapeOperator("flatten(A)", _flatten),
    "repeat": ShapeOperator("repeat(A, 1, n)", _repeated(False)),
    "tile": ShapeOperator("tile(A, 1, n)", _repeated(True)),
    "roll": ShapeOperator("roll(A, 1, n)", _roll),
    "flip": ShapeOperator("flip(A, 1)", _flip),
    "expand_dims": ShapeOperator("expand_dims(A, 1)", _expand_dims),
    "squeeze": ShapeOperator("squeeze(A, 1)", _squeeze),
    "permute_dims": ShapeOperator("permute_dims(A, 2, 1)", _permute_dims),
    "permutedims": ShapeOperator("permute_dims(A, 2, 1)", _permute_dims),
    "diagonal": ShapeOperator("diagonal(A)", _diagonal),
    "kron": ShapeOperator("kron(A, B)", _kron),
    "tril": ShapeOperator("tril(A)", _triangle("<=")),
    "triu": ShapeOperator("triu(A)", _triangle(">=")),
}


def operators_in(node: Node) -> Iterator[Node]:
    """The names of shape operators around the tensor that an access or `size` is of."""
    left = [node.tensor] if isinstance(node, Access) else []
    if is_call(node, "size"):
        left += node.args[:1]
    while left:
        tensor = left.pop()
        if is_call(tensor, *OPERATORS):
            yield tensor.op
        left += reversed(tensor.args) if isinstance(tensor, Call) else ()
