"""The stage of the logical planner: which nodes of an expression are replaced, and by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol

from finchlang.array.expression import Expression, Map, Reduce, View
from finchlang.array.inferred_values import result_of
from finchlang.array.logical.divide import Division, PlannedNest
from finchlang.array.logical.form import Labels, Place, SumProduct, form_of
from finchlang.array.logical.stats import Statistics
from finchlang.operators.operator_table import referred

#: a division is taken where it is expected to take at most this part of the steps of what was written:
#: costs are estimates
GAIN = 0.8


class Graph(Protocol):
    """Numbered nodes, arguments first; `add` gives the number of a node, new if there is no equal one."""

    nodes: list[Expression]

    def add(self, node: Expression) -> int: ...


class LogicalPlanner:
    """Plans the expressions of a graph. `origins` has for each new node, by its number, the Place that each
    of its sizes comes from; `is_choice` is whether entries of operands decided anything."""

    def __init__(self, graph: Graph):
        self.graph, self.count = graph, len(graph.nodes)
        self.origins: dict[int, tuple[Place, ...]] = {}
        self.uses = Counter[int]()
        for node in graph.nodes:
            self.uses.update(map(graph.add, node.args))
        self.planned: dict[int, Expression] = {}
        self.is_choice = False
        self.alive: list[Expression] = []
        self.decisions: list[str] = []

    def place(self, node: Expression, mode: int) -> Place:
        """Where the size of a node's mode comes from."""
        number = self.graph.add(node)
        return (number, mode) if number < self.count else self.origins[number][mode]

    def made(self, node: Expression, places: Sequence[Place]) -> Expression:
        """A new node, or the one equal to it that there is."""
        number = self.graph.add(node)
        self.alive.append(node)  # so that no other node gets its id
        if number >= self.count:
            self.origins.setdefault(number, tuple(places))
        return self.graph.nodes[number]

    def is_whole(self, node: Expression) -> bool:
        """Whether a node is made once for several uses, and so is no part of the product around it."""
        return self.uses[self.graph.add(node)] > 1 and type(node) is not View

    def plan(self, node: Expression) -> Expression:
        """An equal expression that takes fewer steps, as is expected; or the same."""
        number = self.graph.add(node)
        found = self.planned.get(number)
        if found is None:
            form = form_of(node, self.is_whole, self.place)
            found = self.divided(node, form) if form is not None else None
            if found is None:
                found = self.with_args(node, [self.plan(arg) for arg in node.args])
            self.planned[number] = found
        return found

    def with_args(self, node: Expression, args: list[Expression]) -> Expression:
        if all([one is other for one, other in zip(args, node.args, strict=True)]):
            return node
        new = copy(node)
        new.args = tuple(args)
        return self.made(new, [self.place(node, mode) for mode in range(len(node.shape))])

    # ------------------------------------------------------------------------------------- divisions

    def divided(self, node: Expression, form: SumProduct) -> Expression | None:
        """The expression of the best division of a form; None if what is written is about as good."""
        own = [self.plan(self.own(factor.expr)) for factor in form.factors]
        form.factors = [f._replace(expr=e) for f, e in zip(form.factors, own, strict=True)]
        numbers = [self.graph.add(factor.expr) for factor in form.factors]
        statistics = Statistics(form.sizes)
        stored = [statistics.of_factor(expr, labels, form.times) for expr, labels in form.factors]
        division = Division(form, stored, numbers)
        written, best = division.as_written(), division.best()
        self.is_choice = True
        if best.cost > GAIN * written.cost:
            return None
        found = self.built(best, form, form.scalars)
        if found.values is not node.values:
            if found.values.type is not node.values.type or found.values.fill != node.values.fill:
                return None
            found = copy(found)
            found.values = node.values
            self.alive.append(found)
        return found

    def own(self, expr: Expression) -> Expression:
        """A factor, which may be a new node: of a conversion, with the sizes of its argument."""
        if self.graph.add(expr) < self.count:
            return expr
        return self.made(expr, [self.place(expr.args[0], k) for k in range(len(expr.shape))])

    def built(
        self, nest: PlannedNest, form: SumProduct, scalars: Sequence[tuple[Expression, bool]]
    ) -> Expression:
        """The node of a nest, with scalars beside its smallest part."""
        read: list[tuple[Expression, Labels]] = []
        for part in nest.parts:
            if isinstance(part, int):
                read.append(form.factors[part])
            else:
                read.append((self.built(part, form, ()), part.kept))
        own = {label for _, labels in read for label in labels if label is not None}
        reduced = sorted(own - {*nest.made})
        order = (*nest.made, *reduced)
        read.sort(key=lambda part: len(part[1]))
        found: Expression | None = None
        for expr, labels in read:
            view = self.viewed(expr, labels, order, form)
            found = view if found is None else self.product(form.times, found, view, order, form)
            if scalars:
                for scalar, divides in scalars:
                    found = self.product(
                        self.inverse(form.times) if divides else form.times,
                        found,
                        scalar,
                        order,
                        form,
                    )
                scalars = ()
        assert found is not None
        if not reduced:
            return found
        axes = tuple(range(len(nest.made), len(order)))
        return self.made(Reduce(form.total, found, axes), [form.places[k] for k in nest.made])

    def inverse(self, times: Any) -> Any:
        row = referred(times)
        assert row is not None
        return row.undone_by

    def product(
        self, op: Any, a: Expression, b: Expression, order: tuple[int, ...], form: SumProduct
    ) -> Expression:
        values = result_of(op, a.values, b.values)
        return self.made(Map(op, (a, b), values), [form.places[k] for k in order if a.shape])

    def viewed(
        self, expr: Expression, labels: Labels, order: tuple[int, ...], form: SumProduct
    ) -> Expression:
        if labels == order or not expr.shape and not order:
            return expr
        places = tuple([None if label is None else order.index(label) for label in labels])
        shape = tuple([form.sizes[k] for k in order])
        return self.made(View(expr, places, shape), [form.places[k] for k in order])
