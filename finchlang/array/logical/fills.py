"""Fills apart from what is stored: loops visit what sparse operands store, and all else, where it is the
same, is reduced at once (maxima by rows of 10^6 entries take 7 ms, not 98)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import isfinite, prod
from typing import Protocol

from finchlang.algebra.laws import identity_of
from finchlang.array import expression as lazy
from finchlang.array.inferred_values import is_even, op_node
from finchlang.array.logical.form import Place
from finchlang.operators.operator_table import DIFFERS, SELECT, operator
from finchlang.syntax.types import Float64, Int64
from finchlang.tensors.formats import modes_of

#: fills are reduced apart where at most this part of the places has something else
WORTH = 0.5
#: for each mode of a node, which of the whole array it is; None where it has size 1
Modes = tuple[int | None, ...]
#: the rest and the body of a node (see `FillsApart`), and what is sparse in it, with its modes
Split = tuple[lazy.Expression | None, lazy.Expression, dict[tuple[lazy.Expression, Modes], None]]


class Planner(Protocol):
    """`place` finds where the size of a node's mode comes from, `places_of` those of all modes; `part` is
    the expected part of the places where a node is not its fill."""

    is_choice: bool

    def part(self, node: lazy.Expression) -> float: ...
    def place(self, node: lazy.Expression, mode: int) -> Place: ...
    def places_of(self, node: lazy.Expression) -> list[Place]: ...


def is_other(node: lazy.Expression) -> lazy.Expression:
    """Where a node is not its fill."""
    fill = node.values.fill.value
    if fill != fill:  # NaN
        return lazy.apply("!", lazy.apply("isnan", node))
    return lazy.apply(DIFFERS.name, node, lazy.Constant(node.values.fill))


def is_inside(node: lazy.Expression, axes: set[int]) -> bool:
    """Whether these axes are the innermost modes of the first operand with a fill, as it is stored: then
    the rules reduce each run of fills at once, and one nest is enough (maxima of the columns of a CSC
    matrix take 0.27 ms, not 2.4)."""
    while not isinstance(node, lazy.Leaf):
        if type(node) is lazy.View:
            axes = {k for k, place in enumerate(node.places) if place in axes}
        elif type(node) is not lazy.Map:
            return False
        parts = [part for part in node.args if part.values.is_fill and part.shape]
        if not parts or len(parts[0].shape) != len(node.shape):
            return False
        node = parts[0]
    return axes == {mode - 1 for mode in modes_of(node.static.format)[: len(axes)]}


class FillsApart:
    """An array, what it is where all that is sparse is at its fill (`rest`, over all modes but the `axes`;
    None if it differs along these), and the array with its numbers as arguments of the program (`body`)."""

    def __init__(self, planner: Planner, arg: lazy.Expression, axes: Sequence[int]):
        self.planner, self.arg, self.axes = planner, arg, {*axes}
        self.kept = [k for k in range(len(arg.shape)) if k not in self.axes]
        self._known: dict[tuple[lazy.Expression, Modes], Split] = {}
        self.rest, self.body, self.sparse = self.split(arg, tuple(range(len(arg.shape))))

    @property
    def is_inside(self) -> bool:
        """Whether the axes are the innermost modes of all that is sparse."""
        own = [(node, {k for k, m in enumerate(at) if m in self.axes}) for node, at in self.sparse]
        return bool(own) and all([len(k) == len(self.axes) and is_inside(n, k) for n, k in own])

    @property
    def is_other(self) -> lazy.Expression | None:
        """Where something is not at its fill; None if nothing is sparse."""
        places = self.planner.places_of(self.arg)
        found: list[lazy.Expression] = [
            lazy.View(is_other(node), modes, self.arg.shape, places) for node, modes in self.sparse
        ]
        return reduce(lambda a, b: lazy.apply("||", a, b), found) if found else None

    def split(self, node: lazy.Expression, modes: Modes) -> Split:
        """The rest and the body of a node with these modes, and what is sparse in it."""
        if (node, modes) not in self._known:
            self._known[node, modes] = self._split(node, modes)
        return self._known[node, modes]

    def _split(self, node: lazy.Expression, modes: Modes) -> Split:
        if not node.shape:
            return node, node, {}
        if not self.axes.intersection(modes):
            shape = tuple([self.arg.shape[k] for k in self.kept])
            own = tuple([None if k is None else self.kept.index(k) for k in modes])
            places = [self.planner.place(self.arg, k) for k in self.kept]
            return lazy.View(node, own, shape, places), node, {}
        if isinstance(node, lazy.View):
            (arg,) = node.args
            rest, body, sparse = self.split(arg, node.read_at(modes, None))
            if body is not arg:
                node = lazy.View(body, node.places, node.shape, self.planner.places_of(node))
            return rest, node, sparse
        if isinstance(node, lazy.Map):
            args = [freed(node, arg) for arg in node.args]
            rests, bodies, found = zip(*[self.split(arg, modes) for arg in args], strict=True)
            is_new = any([new is not arg for new, arg in zip(bodies, node.args, strict=True)])
            is_full = not node.values.is_fill or self.planner.part(node) > WORTH
            values = tuple([arg.values for arg in node.args])
            if (is_new or is_full) and None not in rests and is_even(node.op, values):
                rest = lazy.apply(node.op, *rests, is_dense=True)
                body = lazy.apply(node.op, *bodies, is_dense=True) if is_new else node
                return rest, body, dict.fromkeys(place for sparse in found for place in sparse)
        if node.values.is_fill:
            return lazy.Constant(node.values.fill), node, {(node, modes): None}
        return None, node, {}


def freed(node: lazy.Map, arg: lazy.Expression) -> lazy.Expression:
    """A number that was made a literal for the sake of a fill, unless it is the fill of another argument,
    or knowing it makes `node` quicker."""
    row, value = operator(op_node(node.op)), arg.values.fill.value
    if type(arg) is not lazy.Constant or not arg.args or row is None or value in row.quick:
        return arg
    others = [other.values for other in node.args if other is not arg]
    return arg if any([v.is_fill and v.fill.value == value for v in others]) else arg.args[0]


# -------------------------------------------------------------------------------- reductions


def reduced_apart(planner: Planner, node: lazy.Reduce) -> lazy.Expression:
    """What differs from fills reduced, and then as many fills as there are, if that is worth while; else
    the node."""
    (arg,), row, op = node.args, operator(op_node(node.op)), node.op
    unit = identity_of(op, arg.values.type)
    is_plain = arg.values.is_fill and arg.values.fill == unit and planner.part(arg) <= WORTH
    if is_plain or row is None or not (row.commutative and row.associative):
        return node
    if not row.right_idempotent and row.repeated is None:
        return node
    is_dense = not node.values.is_fill or node.values.fill == unit
    # places that may be more than an Int64 holds (sums of integers wrap); plans know magnitudes of sizes
    bits = sum([arg.shape[k].bit_length() for k in node.axes])
    wraps = arg.values.type.is_integer and not row.right_idempotent
    kind = Int64 if bits < Int64.bits or wraps else Float64
    if is_dense:
        planner.is_choice = True
        apart = FillsApart(planner, arg, node.axes)
        rest, body, where = apart.rest, apart.body, apart.is_other
        # floats would be added one after the other
        if apart.is_inside and (row.right_idempotent or arg.values.type.is_integer):
            return lazy.Reduce(op, body, node.axes)
        if rest is None or where is None or planner.part(where) > WORTH:
            return node
        sizes = [lazy.converted(lazy.Size(planner.place(arg, k)), kind) for k in node.axes]
        count = reduce(lambda a, b: lazy.apply("*", a, b), sizes)
    else:
        rest, body, where = lazy.Constant(arg.values.fill), arg, is_other(arg)
        count = lazy.constant(prod([arg.shape[k] for k in node.axes]), kind)
    some = lazy.apply(SELECT.name, where, body, lazy.Constant(unit))
    others = lazy.Reduce(op, some, node.axes)
    counted = lazy.converted(lazy.Reduce("+", lazy.converted(where, Int64), node.axes), kind)

    of = partial(lazy.apply, is_dense=is_dense)
    if row.right_idempotent:
        return of(SELECT.name, of("==", counted, count), others, of(op, others, rest))
    fills = of("-", count, counted)
    times = lazy.converted(fills, Float64) if rest.values.type.is_float else fills
    many = lazy.converted(of(row.repeated, rest, times), arg.values.type)
    found = of(op, others, many)
    is_finite = type(rest) is lazy.Constant and isfinite(rest.values.fill.value)
    if is_finite or not rest.values.type.is_float:
        return found
    return of(SELECT.name, of(">", fills, lazy.constant(0, kind)), found, others)


# -------------------------------------------------------------------------------- results

#: in place of fills that are numbers, by the kind of a type of 64 bits: what no program has as a literal
STANDS_IN = {"float": -1.0737418240000001e-97, "int": -(2**61) - 12345, "uint": 2**61 + 12345}


def _is_of_numbers(node: lazy.Expression | None) -> bool:
    """Whether a rest is the fill that is known for it: the sum of another array is not."""
    kinds = lazy.Map, lazy.View, lazy.NumberOperand, lazy.Constant
    return node is not None and all(isinstance(n, kinds) for n in lazy.nodes_of(node))


def with_numbers(planner: Planner, node: lazy.Map, is_dense: bool) -> tuple[lazy.Expression, bool]:
    """A result with its numbers as arguments of the program, and whether it thereby has another fill, which
    stands for its own and is nowhere that operands store something."""
    type, fill = node.values.type, node.values.fill.value
    apart = FillsApart(planner, node, range(len(node.shape)))
    if apart.body is node or is_dense or apart.body.values is node.values:
        return apart.body, False
    where = apart.is_other
    if not _is_of_numbers(apart.rest) or where is None:
        return node, False
    if type.bits < 64 or type.kind not in STANDS_IN:
        return node, False
    other = lazy.constant(STANDS_IN[type.kind], type)
    row = operator(op_node(node.op))
    is_filled = [freed(node, a) is not a and a.values.fill.value == fill for a in node.args]
    arms = [other if held else a for a, held in zip(node.args, is_filled, strict=True)]
    if row is not None and row.selects and other in arms:
        return lazy.apply(node.op, *arms), True
    return lazy.apply(SELECT.name, where, apart.body, other), True
