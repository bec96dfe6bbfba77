"""The shape operators for the denotation: the sizes of their results (Burrito'24 Fig 9), and where elements
of these are in the arguments (section 4.1), each by index arithmetic of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.denote.index_modifiers import called, is_mask, is_wrapper
from finchlang.syntax.nodes import Call, Extent, Literal, Node, Variable

#: the integers that an index of a mode may be; None where there are no bounds
Bounds = tuple[int, int] | None
#: a mode: its bounds, or, while dimensions are solved for, an unknown
Mode = Any
#: makes a mode from others, given how its bounds follow from theirs, and, by `back`, how those of the first
#: follow from its own
Of = Callable[..., Mode]
#: the coordinates of an element of a result, and its elements in the tensors: the number of each, and where
At = Sequence[int]
Places = Callable[[At], list[tuple[int, At]]]
Made = tuple[list[Mode], Places]


@record
class TensorOperator:
    """An operator on tensors. Its tensors are the arguments from number `first` on: one, or all that
    follow; of others, settings, it takes as many as `counts` has, the last a range if it `takes_range`.
    From the settings and the modes of the tensors, `result` gives the modes of the result and, where modes
    are bounds, the elements whose product is the one at given coordinates. If it `is_written`, that is one
    element, which can be assigned to."""

    result: Callable[..., Made]
    counts: range = range(1)
    first: int = 0
    takes_all: bool = False
    is_written: bool = True
    takes_range: bool = False

    def check(self, call: Call) -> None:
        """Raises FinchError of kind type for settings of kinds, or in a number, that it never takes."""
        settings = self.settings(call)
        *most, last = False, *(isinstance(s, Extent) for s in settings)
        is_one = last == self.takes_range and not any(most)
        if not (self.parts(call) and is_one and len(settings) in self.counts):
            raise FinchError("type", f"{called(call)} does not take these")

    def parts(self, call: Call) -> tuple[Node, ...]:
        return call.args[self.first : None if self.takes_all else self.first + 1]

    def settings(self, call: Call) -> list[Node]:
        return [*call.args[: self.first], *call.args[self.first + len(self.parts(call)) :]]


def is_operator(tensor: Node) -> bool:
    return called(tensor) in OPERATORS


def operator(call: Call) -> TensorOperator:
    return OPERATORS[called(call)]


def tensors_of(tensor: Node) -> Iterator[Variable]:
    """The names of tensors and formulas within wrappers and operators."""
    if isinstance(tensor, Variable):
        yield tensor
    elif isinstance(tensor, Call) and is_operator(tensor):
        for part in operator(tensor).parts(tensor):
            yield from tensors_of(part)
    elif isinstance(tensor, Call) and tensor.args and not is_mask(tensor):
        yield from tensors_of(tensor.args[0])


def infer(
    tensor: Any, leaf: Callable[[Node], list[Mode]], value: Callable[[Node], Any], of: Of
) -> list[Mode]:
    """The modes of a tensor, through wrappers and operators: `leaf` gives those of a name or a mask,
    `value` the values of arguments. Raises FinchError of kind dimension or type."""
    try:
        if isinstance(tensor, (Literal, Extent)):
            raise FinchError("type", "this is no tensor")
        if is_operator(tensor):
            row = operator(tensor)
            row.check(tensor)
            parts = [infer(part, leaf, value, of) for part in row.parts(tensor)]
            return row.result(of, [value(s) for s in row.settings(tensor)], *parts)[0]
        if not is_wrapper(tensor):
            return leaf(tensor)
        if not tensor.args:
            raise FinchError("type", f"{called(tensor)} wraps a tensor")
        return _of_wrapper(tensor, infer(tensor.args[0], leaf, value, of), value, of)
    except FinchError as error:
        raise error.at(tensor.span) from None


def _of_wrapper(call: Call, modes: list[Mode], value: Callable[[Node], Any], of: Of) -> list[Mode]:
    name, settings = called(call), call.args[1:]
    if name == "swizzle":
        order = [value(s) for s in settings]
        return [modes[order.index(k + 1)] for k in range(len(modes))]
    if name == "toeplitz":
        k = value(settings[0])
        return [*modes[: k - 1], of(lambda: None), of(lambda: None), *modes[k:]]

    def changed(mode: Mode, setting: Node) -> Mode:
        if name == "window" and isinstance(setting, Extent):
            length = _length(*value(setting))
            return of(lambda: (1, length))
        if name == "offset" and setting != Literal(0):
            by = value(setting)
            return of(lambda bounds: bounds and (bounds[0] - by, bounds[1] - by), mode)
        return of(lambda: None) if name == "permissive" and setting == Literal(True) else mode

    return list(map(changed, modes, settings))


# ---------------------------------------------------------------------------------- sizes and modes


def _refused(message: str) -> FinchError:
    return FinchError("dimension", message)


def size(bounds: Bounds) -> int:
    """The size of a mode. Raises FinchError of kind dimension unless it has bounds and begins at 1."""
    if bounds is None or bounds[0] != 1:
        raise _refused("the shape of a tensor changes only where a mode counts from 1 and ends")
    return max(bounds[1], 0)


def _sized(function: Callable[..., int]) -> Callable[..., Bounds]:
    """A function on sizes as a function on bounds."""

    def on_bounds(*bounds: Bounds) -> Bounds:
        result = function(*map(size, bounds))
        if not 0 <= result <= 1 << 62:
            raise _refused(f"a mode cannot have the size {result}")
        return 1, result

    return on_bounds


def _equal(*sizes: int, mode: int) -> int:
    if any(s != sizes[0] for s in sizes):
        given = " and ".join(map(str, sizes))
        raise _refused(f"tensors of sizes {given} in dimension {mode} are not put together")
    return sizes[0]


def _index(p: Any, order: int) -> int:
    """The mode p, which counts from 1, as a position in a list."""
    if type(p) is not int or not 1 <= p <= order:
        raise _refused(f"there is no mode {p} of {order}")
    return p - 1


def _two(p: int, q: int, order: int) -> tuple[int, int]:
    if p == q:
        raise _refused(f"mode {p} is named twice")
    return _index(p, order), _index(q, order)


def _length(start: int, stop: int, step: int) -> int:
    if step == 0 or abs(step) >= 1 << 62:
        raise _refused(f"the step of a slice is not 0 and within 2^62, and not {step}")
    return max((stop - start) // step + 1, 0)


def _with(items: Sequence[Any], k: int, *new: Any) -> list[Any]:
    return [*items[:k], *new, *items[k + 1 :]]


def _constant(of: Of, n: int) -> Mode:
    return of(_sized(lambda: n))


# ------------------------------------------------------------------------------------ the primitives


def _collapse(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    p, q = _two(s[0], s[1], len(modes))
    both = of(_sized(lambda m, n: m * n), modes[p], modes[q])

    def places(at: At) -> Any:
        inner = [*at]
        inner.insert(max(p, q), 0)
        past, n = at[min(p, q)] - 1, size(modes[p])
        inner[p], inner[q] = past % n + 1, past // n + 1
        return [(0, inner)]

    return [both if k == min(p, q) else m for k, m in enumerate(modes) if k != max(p, q)], places


def _split(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    p, m, *last = s
    p, given = _index(p, len(modes)), [n for n in last if not isinstance(n, bool)]
    if m < 1 - len(given):
        raise _refused(f"a mode is not split by {m}")

    def count(n: int) -> int:
        rest = given[0] if given else n // m
        if m * rest != n:
            parts = " x ".join(map(str, (m, *given)))
            raise _refused(f"a mode of size {n} is not split into parts of size {parts}")
        return rest

    turn = slice(None, None, -1 if last and last[0] is True else 1)

    def places(at: At) -> Any:
        fast, slow = at[p : p + 2][turn]
        return [(0, [*at[:p], (slow - 1) * m + fast, *at[p + 2 :]])]

    slow = of(_sized(count), modes[p], back=_sized(lambda n: n * m))
    return _with(modes, p, *[_constant(of, m), slow][turn]), places


def _concat(of: Of, s: list[Any], *parts: list[Mode]) -> Made:
    if len({len(modes) for modes in parts}) != 1:
        orders = " and ".join(str(len(modes)) for modes in parts)
        raise _refused(f"tensors of order {orders} are not put together")
    p = _index(s[0], len(parts[0]))

    def places(at: At) -> Any:
        i, k = at[p], 0
        while i > (n := size(parts[k][p])):
            i, k = i - n, k + 1
        return [(k, _with(at, p, i))]

    both = enumerate(zip(*parts, strict=True))
    joint = [_total if k == p else partial(_equal, mode=k + 1) for k in range(len(parts[0]))]
    return [of(_sized(joint[k]), *each) for k, each in both], places


def _total(*sizes: int) -> int:
    return sum(sizes)


def _broadcast(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    p, *n = s
    p = _index(p, len(modes) + 1)
    new = _constant(of, *(n or [1]))
    return [*modes[:p], new, *modes[p:]], lambda at: [(0, _with(at, p))]


# -------------------------------------------------------------------------------- those made of them


def _reshape(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    known = prod(n for n in s if n != -1)
    if s.count(-1) > 1 or any(n < -1 for n in s):
        raise _refused(f"these are no sizes: {s}")

    def shaped(*sizes: int) -> list[int]:
        count = prod(sizes)
        rest = count // (known or 1) if -1 in s else 1
        if known * rest != count:
            raise _refused(f"{count} elements are not reshaped to {' x '.join(map(str, s))}")
        return [rest if n == -1 else n for n in s]

    def places(at: At) -> Any:
        inner = [size(b) for b in modes]
        outer = shaped(*inner)
        past = sum((i - 1) * prod(outer[:k]) for k, i in enumerate(at))
        return [(0, [past // prod(inner[:k]) % n + 1 for k, n in enumerate(inner)])]

    def mode(k: int) -> Mode:
        return of(_sized(lambda *sizes: shaped(*sizes)[k]), *modes)

    return [mode(k) for k in range(len(s))], places


def _hcat(of: Of, s: list[Any], *parts: list[Mode]) -> Made:
    columns = [[*modes, _constant(of, 1)] if len(modes) == 1 else modes for modes in parts]
    made, places = _concat(of, [2], *columns)
    return made, lambda at: [(k, inner[: len(parts[k])]) for k, inner in places(at)]


def _stack(of: Of, s: list[Any], *parts: list[Mode]) -> Made:
    p = _index(s[0], len(parts[0]) + 1)
    made, _ = _concat(of, s, *([*m[:p], _constant(of, 1), *m[p:]] for m in parts))
    return made, lambda at: [(at[p] - 1, _with(at, p))]


class _Block(TensorOperator):
    """Rows of tensors side by side, one row below the other."""

    def parts(self, call: Call) -> tuple[Node, ...]:
        c, *tensors = call.args or (None,)
        if not isinstance(c, Literal) or type(c.value) is not int:
            raise FinchError("type", "`block` takes an integer literal and tensors", call.span)
        if c.value < 1 or len(tensors) % c.value:
            message = f"{len(tensors)} blocks are no rows of {c.value}"
            raise FinchError("dimension", message, call.span)
        rows = [tensors[k : k + c.value] for k in range(0, len(tensors), c.value)]
        return tuple(Call(Variable("concat"), (Literal(2), *row), span=call.span) for row in rows)

    def settings(self, call: Call) -> list[Node]:
        return []


def _blocks(of: Of, s: list[Any], *rows: list[Mode]) -> Made:
    if any(len(modes) != 2 for modes in rows):
        raise _refused("blocks are matrices")
    return _concat(of, [1], *rows)


def _on_mode(
    resized: Callable[[int, Any], int],
    back: Callable[[int, int, Any], int],
    count: int = 2,
    takes_range: bool = False,
) -> TensorOperator:
    """An operator on one mode, by its other setting if `count` is 2: `resized` gives the size of the mode
    in the result, `back` the coordinate in the argument, from that in the result, and the size there."""

    def result(of: Of, s: list[Any], modes: list[Mode]) -> Made:
        p = _index(s[0], len(modes))
        new = of(_sized(lambda n: resized(n, s[-1])), modes[p])
        return _with(modes, p, new), lambda at: [
            (0, _with(at, p, back(at[p], size(modes[p]), s[-1])))
        ]

    return TensorOperator(result, range(count, count + 1), takes_range=takes_range)


def _squeeze(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    def one(n: int) -> int:
        if n != 1:
            raise _refused(f"a mode of size {n} is not squeezed")
        return n

    p = _index(s[0], len(modes))
    of(_sized(one), modes[p])
    return _with(modes, p), lambda at: [(0, [*at[:p], 1, *at[p:]])]


def _permuted(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    s = s or [2, 1]
    if sorted(s) != list(range(1, len(modes) + 1)):
        raise _refused(f"{s} is no permutation of {len(modes)} modes")
    return [modes[p - 1] for p in s], lambda at: [(0, [at[s.index(p)] for p in sorted(s)])]


def _diagonal(of: Of, s: list[Any], modes: list[Mode]) -> Made:
    first, second = s or (1, 2)
    p, q = sorted(_two(first, second, len(modes)))
    rest = [m for k, m in enumerate(modes) if k not in (p, q)]

    def places(at: At) -> Any:
        *inner, last = at
        inner.insert(p, last)
        inner.insert(q, last)
        return [(0, inner)]

    return [*rest, of(_sized(min), modes[p], modes[q])], places


def _kron(of: Of, s: list[Any], *parts: list[Mode]) -> Made:
    if len(parts) != 2:
        raise FinchError("type", "kron takes two tensors")
    both = [of(_sized(lambda m, n: m * n), *each) for each in zip(*parts, strict=False)]
    rest = max(parts, key=len)[len(both) :]  # what only one of them has

    def places(at: At) -> Any:
        sizes = [*map(size, parts[1]), *[1] * len(at)]
        at_both = [divmod(i - 1, n) for i, n in zip(at, sizes, strict=False)]
        return [(k, [i[k] + 1 for i in at_both[: len(parts[k])]]) for k in (0, 1)]

    return [*both, *rest], places


def _triangle(holds: Callable[[int, int, int], bool]) -> TensorOperator:
    """Outside of the triangle there is no element, so that the value is 0."""

    def result(of: Of, s: list[Any], modes: list[Mode]) -> Made:
        if len(modes) != 2:
            raise _refused("a triangle has two modes")
        return modes, lambda at: [(0, at)] if holds(*at, *(s or [0])) else []

    return TensorOperator(result, range(2), is_written=False)


_ONE, _ANY = range(1, 2), range(1 << 62)
_CONCAT = TensorOperator(_concat, _ONE, first=1, takes_all=True)
_FLATTEN = TensorOperator(lambda of, s, modes: _reshape(of, [-1], modes))
_PERMUTE = TensorOperator(_permuted, _ANY)
_BROADCAST = TensorOperator(_broadcast, range(1, 3))

OPERATORS = {
    "collapse": TensorOperator(_collapse, range(2, 3)),
    "split": TensorOperator(_split, range(2, 4)),
    "concat": _CONCAT,
    # (that a slice is within the mode is checked where an element is read)
    "slice": _on_mode(
        lambda _, ends: _length(*ends), lambda i, _, s: s[0] + (i - 1) * s[2], takes_range=True
    ),
    "broadcast": _BROADCAST,
    "reshape": TensorOperator(_reshape, _ANY[1:]),
    **dict.fromkeys(("flatten", "vec"), _FLATTEN),
    "cat": _CONCAT,
    "vcat": TensorOperator(lambda of, s, *parts: _concat(of, [1], *parts), takes_all=True),
    "hcat": TensorOperator(_hcat, takes_all=True),
    "stack": TensorOperator(_stack, _ONE, first=1, takes_all=True),
    "block": _Block(_blocks, takes_all=True),
    "repeat": _on_mode(lambda n, r: n * r, lambda i, n, r: (i - 1) // r + 1),
    "tile": _on_mode(lambda n, r: n * r, lambda i, n, r: (i - 1) % n + 1),
    "roll": _on_mode(lambda n, _: n, lambda i, n, s: (i - 1 - s) % n + 1),
    "flip": _on_mode(lambda n, _: n, lambda i, n, _: n + 1 - i, count=1),
    "expand_dims": _BROADCAST,
    "squeeze": TensorOperator(_squeeze, _ONE),
    **dict.fromkeys(("permute_dims", "permutedims"), _PERMUTE),
    "diagonal": TensorOperator(_diagonal, range(0, 3, 2)),
    "kron": TensorOperator(_kron, takes_all=True, is_written=False),
    "tril": _triangle(lambda i, j, k: j - i <= k),
    "triu": _triangle(lambda i, j, k: j - i >= k),
}
