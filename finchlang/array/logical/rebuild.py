"""The stage of the logical planner: which nodes of an expression are replaced, and by what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import partial, reduce
from math import inf, prod
from typing import Any, Protocol

from finchlang.algebra import costs
from finchlang.algebra.laws import identity_of
from finchlang.array import expression as lazy
from finchlang.array.inferred_values import op_node, result_of
from finchlang.array.logical.describe import Described
from finchlang.array.logical.divide import MOST, Division, PlannedNest
from finchlang.array.logical.fills import WORTH, is_other, reduced_apart
from finchlang.array.logical.form import Factor, Labels, Place, SumProduct, form_of, product_of
from finchlang.array.logical.stats import Statistics, annihilates
from finchlang.operators.operator import Operator
from finchlang.operators.operator_table import SELECT, operator, referred

#: so many sums are tried multiplied out in a form: terms may have sums again
EXPANSIONS = 16
#: told of a difference that is not multiplied out
REFUSED = "a difference is not multiplied out, since great terms may cancel: reorder='any' does"

#: factors without modes, each with whether it divides
Scalars = list[tuple[lazy.Expression, bool]]


class Graph(Protocol):
    """Numbered nodes, arguments first, and the numbers of the `roots`; `add` gives the number of a node,
    new if there is no equal one."""

    nodes: list[lazy.Expression]
    roots: tuple[int, ...]

    def add(self, node: lazy.Expression) -> int: ...


class LogicalPlanner:
    """Plans the expressions of a graph. `sources` has for a new node, by its number, that of what it is a
    copy of; `is_choice` is whether entries of operands decided anything."""

    def __init__(self, graph: Graph, reorder: str):
        self.reorder = reorder
        self.costs: dict[int, float] = {}
        self.statistics = Statistics()
        self.part = self.statistics.part
        self.graph, self.count = graph, len(graph.nodes)
        self.sources: dict[int, int] = {}
        self.number = graph.add
        self.uses = self.uses_in(graph.roots)
        self.expansions, self.depth = EXPANSIONS, 0
        self.parts: set[int] = set()  # what is made by nests inside of others
        self.sums: dict[lazy.Expression, bool] = {}
        self.planned: dict[int, lazy.Expression] = {}
        self.parted: dict[int, lazy.Expression] = {}
        self.is_choice = False
        self.told: dict[int, Described] = {}  # by the number of the node that was made

    def uses_in(self, roots: Sequence[int]) -> Counter[int]:
        """How often each node is used, of results and of what they are made of; what a view shows, as often
        as that is."""
        uses = Counter(roots)
        for number in reversed(range(len(self.graph.nodes))):
            node, times = self.graph.nodes[number], uses[number]
            for arg in node.args if times else ():
                uses[self.number(arg)] += times if type(node) is lazy.View else 1
        return uses

    def shared(self, results: Sequence[int]) -> set[int]:
        """The nodes of planned results that are stored because their elements are used more than once:
        those that would take more than SHARED nodes again, where a stored node counts as one, and one that
        has cases as many more."""
        uses, sizes, shared = self.uses_in(results), dict[int, int](), set[int]()
        repeated = self.repeats(uses)
        for number in sorted(uses):
            node = self.graph.nodes[number]
            size = 1 + sum([sizes[self.number(arg)] for arg in node.args])
            size += costs.SHARED * (node.joined is not None)
            if max(uses[number] > 1, repeated.get(number, 0.0)) * size > costs.SHARED:
                shared.add(number)
            sizes[number] = 1 if number in shared or isinstance(node, lazy.Reduce) else size
        return shared

    def repeats(self, uses: Counter[int]) -> dict[int, float]:
        """How often each element of the nodes that views repeat is expected to be computed again. Not of
        nodes with few elements, or with a mode of size 1: they would be stored as lists, and are mostly
        repeated by an inner loop, before which they are computed."""
        steps, found = dict[int, float](), dict[int, float]()
        for number in sorted(uses, reverse=True):
            node = self.graph.nodes[number]
            here = steps.get(number, self.entries(node))
            for arg in node.args:
                own, k = self.entries(arg), self.number(arg)
                steps[k] = max(steps.get(k, 0.0), own if isinstance(node, lazy.Reduce) else here)
                if type(node) is not lazy.View or not isinstance(arg, lazy.Map) or not arg.shape:
                    continue
                self.is_choice = True
                if self.part(arg) > WORTH and 1 not in arg.shape:
                    found[k] = max(found.get(k, 0.0), here / max(own, 1.0) - 1)
        return found

    def entries(self, node: lazy.Expression) -> float:
        """How many elements of a node are expected to differ from its fill."""
        return self.part(node) * prod(map(float, node.shape))

    def told_of(self, results: Sequence[int]) -> list[Described]:
        """What was decided for the forms of planned results."""
        used = sorted(self.uses_in(results))
        return [self.told[number] for number in used if number in self.told]

    def place(self, node: lazy.Expression, mode: int) -> Place:
        """Where the size of a node's mode comes from."""
        if node.origins:
            return node.origins[mode]
        number = self.source(node)
        if number < self.count:
            return number, mode
        arg = next(arg for arg in node.args if arg.shape)
        if isinstance(node, lazy.Reduce):
            mode = [k for k in range(len(arg.shape)) if k not in node.axes][mode]
        return self.place(arg, mode)

    def is_whole(self, node: lazy.Expression) -> bool:
        """Whether a node is made once for several uses, and so is no part of the product around it."""
        number = self.number(node)
        return number in self.parts or self.uses[number] > 1 and type(node) is not lazy.View

    def plan(self, node: lazy.Expression) -> lazy.Expression:
        """An equal expression that takes fewer steps, as is expected; or the same."""
        number = self.number(node)
        found = self.planned.get(number)
        if found is None and not self.has_sum(node):
            found = self.planned[number] = node
        if found is None:
            is_planned = self.reorder != "none"
            inner = node.inwards(self) if is_planned else node
            if inner is not node:
                self.planned[number] = found = self.plan(inner)
                return found
            form = form_of(node, self.is_whole, self.place) if is_planned else None
            found, told = (None, None) if form is None else self.divided(node, form)
            if found is None:
                found = self.with_args(node, [self.plan(arg) for arg in node.args])
            if told is not None and told.is_choice:
                self.told.setdefault(self.number(found), told)
            self.planned[number] = found
        return found

    def with_fills_apart(self, node: lazy.Expression) -> lazy.Expression:
        """A planned expression whose reductions visit what is stored, as far as that is worth while."""
        number = self.number(node)
        found = self.parted.get(number)
        if found is None:
            found = self.with_args(node, [self.with_fills_apart(arg) for arg in node.args])
            found = reduced_apart(self, found) if isinstance(found, lazy.Reduce) else found
            self.parted[number] = found
            if number in self.told:
                self.told.setdefault(self.number(found), self.told[number])
        return found

    def with_args(self, node: lazy.Expression, args: list[lazy.Expression]) -> lazy.Expression:
        if all([one is other for one, other in zip(args, node.args, strict=True)]):
            return node
        new = copy(node)
        new.args = tuple(args)
        number = self.number(new)
        self.sources.setdefault(number, self.source(node))
        return self.graph.nodes[number]

    def source(self, node: lazy.Expression) -> int:
        """The number of a node, or of that which it is a copy of with other arguments: its numbers are the
        same, and only nodes that were given are there when the program is called again."""
        number = self.number(node)
        return number if number < self.count else self.sources.get(number, number)

    # ------------------------------------------------------------------------------------- divisions

    def divided(
        self, node: lazy.Expression, form: SumProduct
    ) -> tuple[lazy.Expression | None, Described | None]:
        """The expression that is best for a form, None if what is written is about as good; and what was
        weighed."""
        given = [*[f.expr for f in form.factors], *[scalar for scalar, _ in form.scalars]]
        is_masked = self.masked(form)
        form.factors = [f._replace(expr=self.plan(f.expr)) for f in form.factors]
        form.scalars = [(self.plan(scalar), divides) for scalar, divides in form.scalars]
        new = [*[f.expr for f in form.factors], *[scalar for scalar, _ in form.scalars]]
        is_same = list(map(self.number, new)) == list(map(self.number, given))
        is_same = is_same and type(node) is not lazy.View  # which would be read of all that is made
        if form.total is None:
            found = self.assembled(form.factors, form.kept, form, form.scalars)
            return node if is_same else self.like(found, node), None
        is_repeated = form.repeated()
        if is_repeated is None:
            return None, None
        numbers = [self.number(factor.expr) for factor in form.factors]
        stored = [self.statistics.of_factor(*factor, form) for factor in form.factors]
        division = Division(form, stored, numbers)
        written, best = division.as_written(form.written), division.best()
        self.is_choice = self.is_choice or len(form.factors) > 1
        chosen = best if best.cost <= costs.GAIN * written.cost or is_masked else written
        others = [nest for nest in division.complete if best.cost < nest.cost != written.cost]
        other = min(others, key=lambda nest: nest.cost, default=None)
        told = Described(form, best, written, other)
        if division.choices > MOST:
            told.notes.append(f"after {MOST} choices no more divisions are weighed")
        self.expansions = self.expansions if self.depth else EXPANSIONS
        found, cost = self.built(chosen, told, form.scalars)
        if self.expansions < 0 and not self.depth:
            told.notes.append(f"after {EXPANSIONS} sums no more are weighed multiplied out")
        self.costs[self.number(node)] = cost
        told.multiplied = cost if cost < chosen.cost else 0.0
        if chosen is written and is_same and not is_repeated and not told.multiplied:
            return node, told
        return self.like(found, node), told

    def like(self, found: lazy.Expression, node: lazy.Expression) -> lazy.Expression | None:
        """A node in place of another, with a fill as that has; None if it has another type or fill."""
        if found.values is node.values:
            return found
        if found.values.type is not node.values.type or found.values.fill != node.values.fill:
            return None
        found = copy(found)
        found.values = node.values
        return found

    # ----------------------------------------------------------------------------------------- masks

    def masked(self, form: SumProduct) -> bool:
        """Restricts reductions inside a factor to where another factor, which annihilates all else, stores
        something; whether that was worth while for any."""
        sums = [k for k, f in enumerate(form.factors) if self.has_sum(f.expr)]
        others = [f for f in form.factors if sums and not self.has_sum(f.expr)]
        masks = [f for f in others if annihilates(form.times, f.expr.values)]
        is_any = False
        for k in sums:
            factor = form.factors[k]
            for mask in masks:
                if None not in mask.labels:
                    new = self.within(factor.expr, factor.labels, mask)
                    if new is not factor.expr:
                        is_any, new = True, self.chosen(new, factor.labels, mask, form)
                        factor = form.factors[k] = factor._replace(expr=new)
        return is_any

    def chosen(
        self, node: lazy.Expression, labels: Labels, mask: Factor, form: SumProduct
    ) -> lazy.Expression:
        """A masked factor, with the identity where the mask stores its fill: that times what the factor is
        without its sums, as 1 / 0, might not be the fill."""
        row, places = operator(op_node(form.times)), self.places_of(node)
        assert row is not None and row.identity is not None
        one = lazy.constant(row.identity.value(form.type), form.type)
        own = tuple([labels.index(label) for label in mask.labels])
        view = lazy.View(is_other(mask.expr), own, node.shape, places)
        return lazy.apply(SELECT.name, view, node, one)

    def has_sum(self, node: lazy.Expression) -> bool:
        """Whether there is a reduction in a node."""
        if node not in self.sums:
            self.sums[node] = isinstance(node, lazy.Reduce) or any(map(self.has_sum, node.args))
        return self.sums[node]

    def within(self, node: lazy.Expression, labels: Labels, mask: Factor) -> lazy.Expression:
        """A node with the reductions in it taken only where a mask stores something."""
        if self.is_whole(node) or not isinstance(node, (lazy.View, lazy.Map, lazy.Reduce)):
            return node
        if isinstance(node, lazy.Reduce):
            return self.sum_within(node, labels, mask)
        labels = node.read_at(labels, None) if isinstance(node, lazy.View) else labels
        args = [self.within(arg, labels, mask) if arg.shape else arg for arg in node.args]
        return self.with_args(node, args)

    def sum_within(self, node: lazy.Reduce, labels: Labels, mask: Factor) -> lazy.Expression:
        (arg,), op = node.args, None
        if isinstance(arg, lazy.Map) and {*mask.labels} <= {*labels}:
            op, _ = product_of(arg)
        type, row = arg.values.type, None if op is None else operator(op_node(op))
        zeros = [] if row is None else [law.value(type) for law in row.annihilators]
        unit = identity_of(node.op, type).value
        if row is None or row.identity is None or unit not in zeros or not row.commutative:
            return node
        ends = (lazy.constant(value, type) for value in (row.identity.value(type), unit))
        own = lazy.apply(SELECT.name, is_other(mask.expr), *ends)
        rest = iter(range(len(labels)))
        modes = [None if k in node.axes else next(rest) for k in range(len(arg.shape))]
        places = [modes.index(labels.index(label)) for label in mask.labels]
        view = lazy.View(own, tuple(places), arg.shape, self.places_of(arg))
        new = lazy.Reduce(node.op, lazy.apply(op, arg, view), node.axes)
        self.plan(node), self.plan(new)
        least, whole = (self.costs.get(self.number(n), 0.0) for n in (new, node))
        return new if least < costs.GAIN * whole else node

    def places_of(self, node: lazy.Expression) -> list[Place]:
        return [self.place(node, k) for k in range(len(node.shape))]

    # -------------------------------------------------------------------------------- multiplying out

    def multiplied_out(
        self, read: list[Factor], kept: tuple[int, ...], told: Described, scalars: Scalars
    ) -> tuple[float, lazy.Expression | None]:
        """The cost of the terms, and the expression, if the best factor of a nest that is a sum is
        multiplied out. What other nests make is no such factor."""
        best, found = inf, None
        for k in range(len(read)):
            op, terms = self.terms_of(k, read, kept, told)
            if not terms:
                continue
            self.expansions -= 1
            if self.expansions < 0:
                break
            self.is_choice = True
            self.depth += 1
            made = [self.assembled(term, kept, told.form, scalars) for term in terms]
            parts = list(map(self.plan, made))
            self.depth -= 1
            cost = sum([self.costs.get(self.number(t), inf) + self.entries(t) for t in made])
            if cost < best:
                best, found = cost, reduce(partial(product, op), parts)
        return best, found

    def terms_of(
        self, k: int, read: list[Factor], kept: tuple[int, ...], told: Described
    ) -> tuple[Any, list[list[Factor]]]:
        """The factors of each term if the k-th one is multiplied out, and the operator between terms: of a
        sum, and of arrays one after the other along a mode that is reduced."""
        (expr, labels), form = read[k], told.form
        if self.number(expr) in self.parts:
            return None, []
        if isinstance(expr, lazy.Map) and self.is_sum(expr, form, "any"):
            if not self.is_sum(expr, form):
                told.notes.append(REFUSED)
                return None, []
            rest = {n for f in read if f.expr is not expr for n in f.labels} | {*kept, None}
            if not all([term.shape for term in expr.args]) and not rest.issuperset(labels):
                return None, []  # a number would lose the label that it is summed over
            ones = [Factor(term, labels if term.shape else ()) for term in expr.args]
            return expr.op, [[*read[:k], one, *read[k + 1 :]] for one in ones]
        row = operator(op_node(form.total))
        if expr.joined is None or self.is_whole(expr) or row is None:
            return None, []
        label = labels[expr.joined]
        if label is None or label in kept or not (row.associative and row.commutative):
            return None, []
        own = [form.label(part, expr.joined) for part in expr.args]
        pieces: Any = expr.piece  # type: ignore[attr-defined]
        terms = [[pieces(n, f, label, one, self) for f in read] for n, one in enumerate(own)]
        return form.total, terms

    def is_sum(self, expr: lazy.Map, form: SumProduct, reorder: str = "") -> bool:
        """Whether a factor is a sum or a difference that may be multiplied out: of floats only sums without
        a minus, in which errors stay of the same size, unless any order may be taken."""
        group, row = operator(op_node(form.total)), operator(op_node(expr.op))
        is_alike = all([arg.values.type is form.type for arg in expr.args])
        if row is None or group is None or len(expr.args) != 2 or not is_alike:
            return False
        if row is not group and row is not referred(group.undone_by):
            return False
        is_plain = row is group and not any([is_negated(arg, group) for arg in expr.args])
        return is_plain or not form.type.is_float or (reorder or self.reorder) == "any"

    def built(
        self, nest: PlannedNest, told: Described, scalars: Scalars
    ) -> tuple[lazy.Expression, float]:
        """The node of a nest, multiplied out if that costs less, and its cost."""
        read, made, own, spent = list[Factor](), set[int](), nest.cost, 0.0
        form = told.form
        for part in nest.parts:
            if isinstance(part, int):
                read.append(form.factors[part])
                continue
            expr, cost = self.built(part, told, [])
            number = self.number(expr)
            self.parts.add(number)
            self.planned[number] = expr
            read.append(Factor(expr, part.kept))
            if number not in made:
                own, spent = own - part.cost, spent + cost
                made.add(number)
        if read:
            least, terms = self.multiplied_out(read, nest.made, told, scalars)
            if terms is not None and least < costs.GAIN * own:
                return terms, spent + least
        return self.assembled(read, nest.made, form, scalars), spent + own

    def assembled(
        self, factors: list[Factor], kept: tuple[int, ...], form: SumProduct, scalars: Scalars
    ) -> lazy.Expression:
        """The node of factors reduced to labels, with scalars beside the smallest factor."""
        own = {label for _, labels in factors for label in labels if label is not None}
        order = (*kept, *sorted(own - {*kept}))
        for factor in factors:  # in the order of one that has all, so that equal reductions are one
            known = tuple([label for label in factor.labels if label is not None])
            is_whole = len(known) == len(order) and {*known} == {*order}
            if is_whole and [label for label in known if label in kept] == [*kept]:
                order = known
                break
        found: lazy.Expression | None = None
        for expr, labels in sorted(factors, key=lambda part: (part.labels != (), len(part.labels))):
            view = expr
            if labels != order and (expr.shape or found is None and order):
                places = tuple([None if label is None else order.index(label) for label in labels])
                shape = tuple([form.sizes[k] for k in order])
                view = lazy.View(expr, places, shape, [form.places[k] for k in order])
            found = view if found is None else product(form.times, found, view)
            for scalar, divides in scalars:
                times = referred(form.times)
                assert times is not None
                found = product(times.undone_by if divides else form.times, found, scalar)
            scalars = []
        assert found is not None
        axes = tuple([k for k, label in enumerate(order) if label not in kept])
        return lazy.Reduce(form.total, found, axes) if axes else found


def product(op: Any, *args: lazy.Expression) -> lazy.Expression:
    return lazy.Map(op, args, result_of(op, *[arg.values for arg in args]))


def is_negated(node: lazy.Expression, group: Operator) -> bool:
    """Whether a term is the inverse of another, of a group."""
    row = operator(op_node(node.op)) if isinstance(node, lazy.Map) else None
    return row is not None and row in (referred(group.inverse), referred(group.undone_by))
