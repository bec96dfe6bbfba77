"""Sum-product form: an expression as `total` over labels of `times` of factors, found by declared laws."""

from __future__ import annotations

from typing import Any, NamedTuple

from finchlang.array import expression as lazy
from finchlang.array.inferred_values import op_node
from finchlang.operators.operator_table import operator, referred
from finchlang.syntax.types import Type

#: where a size comes from: a node of the expression as it was given, by its number, and a mode of it
Place = tuple[int, int]
#: the label of each mode of a factor; None where it has size 1
Labels = tuple[int | None, ...]


class Factor(NamedTuple):
    expr: lazy.Expression
    labels: Labels


class WrittenNest(NamedTuple):
    """What is computed by one nest: factors by their numbers and other blocks, reduced to `kept`."""

    kept: tuple[int, ...]
    parts: list[Any]


def distributes(times: Any, total: Any, type: Type) -> bool:
    """Whether `times` distributes over `total`, for values of a type, on both sides."""
    row, other = operator(op_node(times)), operator(op_node(total))
    if row is None or other is None or row.distributes_over.get(other.reference, 0) is not None:
        return False
    # of integers that wrap around, both keep the low bits or none does: a + max(b, c) may wrap, b alone not
    return not type.is_integer or row.is_modular == other.is_modular


def product_of(node: lazy.Map) -> tuple[Any, bool]:
    """The operator of which an expression is a product, and whether its last argument divides."""
    row = operator(op_node(node.op))
    group = row if row is None or row.commutative else referred(row.group)
    if group is None or not (group.associative and group.commutative) or len(node.args) != 2:
        return None, False
    divides = group is not row
    if divides and (referred(group.undone_by) is not row or node.args[1].shape):
        return None, False  # what is divided by an array stays whole: 0 / 0 is no structural 0
    return (node.op if not divides else group.reference), divides


class SumProduct:
    """An expression as `total` over all labels but those `kept` of the `times` of `factors`, and of
    `scalars`, each with whether it divides. Labels are numbers; each has one of `sizes` and a Place.
    `written` is the division into nests as the expression has it. `is_whole(node)` says which nodes stay
    factors, `place(node, mode)` where a size comes from."""

    def __init__(self, root: lazy.Expression, is_whole: Any, place: Any):
        self.root, self.is_whole, self.place, self.type = root, is_whole, place, root.values.type
        self.total: Any = None
        self.times: Any = None
        self.factors: list[Factor] = []
        self.scalars: list[tuple[lazy.Expression, bool]] = []
        self.sizes: list[int] = []
        self.places: list[Place] = []
        self.kept = tuple([self.label(root, k) for k in range(len(root.shape))])
        self.written = WrittenNest(self.kept, [])
        self.visit(root, self.kept, self.written, None)

    def label(self, node: lazy.Expression, mode: int) -> int:
        self.sizes.append(node.shape[mode])
        self.places.append(self.place(node, mode))
        return len(self.sizes) - 1

    def visit(self, node: lazy.Expression, labels: Labels, block: WrittenNest, to: Any) -> None:
        """Adds the factors of a node at labels, converted by the operator `to`, if any."""
        type = self.type if to is None else to[1]
        if node is not self.root and self.is_whole(node):
            self.add(node, labels, block, to)
        elif isinstance(node, lazy.View):
            self.visit(node.args[0], node.read_at(labels, None), block, to)
        elif (
            isinstance(node, lazy.Reduce)
            and self.total in (None, node.op)
            and node.args[0].values.type is type
            and (self.times is None or distributes(self.times, node.op, self.type))
        ):
            self.total = node.op
            self._reduce(node, labels, block, to)
        elif not isinstance(node, lazy.Map) or not self._product(node, labels, block, to, type):
            self.add(node, labels, block, to)

    def _reduce(self, node: Any, labels: Labels, block: WrittenNest, to: Any) -> None:
        (arg,), rest = node.args, iter(labels)
        own = tuple(
            [self.label(arg, k) if k in node.axes else next(rest) for k in range(len(arg.shape))]
        )
        inner = WrittenNest(tuple(dict.fromkeys([k for k in labels if k is not None])), [])
        # a reduction at the root, or of what is only viewed, is the same nest
        if block.parts or self.written is not block or block.kept != inner.kept:
            block.parts.append(inner)
            block = inner
        self.visit(arg, own, block, to)

    def _product(
        self, node: lazy.Map, labels: Labels, block: WrittenNest, to: Any, type: Type
    ) -> bool:
        """Adds the factors of a product, or of one that is converted; False if the node is none."""
        args, row = node.args, operator(op_node(node.op))
        keeps = None if row is None or to is not None else row.homomorphic
        if keeps is not None and keeps(args[0].values.type) and args[0].args:
            self.visit(args[0], labels, block, (node.op, args[0].values.type))
            return True
        op, divides = product_of(node)
        if op is None or self.times not in (None, op):
            return False
        if any([part.values.type is not type for part in (node, *args)]):
            return False
        if self.times is None and self.total is not None and not distributes(op, self.total, type):
            return False
        self.times = op
        for k, arg in enumerate(args):
            is_inverse = divides and k == 1
            if not arg.shape and (is_inverse or not isinstance(arg, lazy.Reduce)):
                self.scalars.append((self._converted(arg, to), is_inverse))
            else:
                self.visit(arg, labels if arg.shape else (), block, to)
        return True

    def _converted(self, node: lazy.Expression, to: Any) -> lazy.Expression:
        if to is None:
            return node
        return lazy.apply(to[0], node)

    def add(self, node: lazy.Expression, labels: Labels, block: WrittenNest, to: Any) -> None:
        if not node.shape and not isinstance(node, lazy.Reduce):
            self.scalars.append((self._converted(node, to), False))
            return
        block.parts.append(len(self.factors))
        self.factors.append(Factor(self._converted(node, to), labels))

    def repeated(self) -> bool | None:
        """Reduces over labels that no factor has; whether there are any, None if by no known law."""
        used = {label for factor in self.factors for label in factor.labels}
        free = [k for k in range(len(self.sizes)) if k not in used and k not in self.kept]
        row = operator(op_node(self.total))
        if row is None or row.right_idempotent or not free:
            return None if row is None else bool(free)
        if self.times is None and distributes(row.repeated, self.total, self.type):
            self.times = row.repeated
        if row.repeated != self.times:
            return None
        steps = [lazy.converted(lazy.Size(self.places[k]), self.type) for k in free]
        self.scalars += [(count, False) for count in steps]
        return True


def form_of(root: lazy.Expression, is_whole: Any, place: Any) -> SumProduct | None:
    """The SumProduct of an expression; None if it is neither reduced, nor a product, nor a diagonal of
    such."""
    own = [place for place in getattr(root, "places", ()) if place is not None]
    if type(root) not in (lazy.Reduce, lazy.Map) and len({*own}) == len(own):
        return None
    form = SumProduct(root, is_whole, place)
    return form if form.factors and (form.total is not None or form.times is not None) else None
