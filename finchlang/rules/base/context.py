"""E[...], the context in which looplets stand (Finch'25 Fig 15), as a rule's argument: what a rule
puts in their place, over which region, and at which coordinate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from finchlang.algebra.bounds import as_node, bounds, greater, lesser
from finchlang.host.engine import Machine, Rule, Step
from finchlang.host.interface import Host
from finchlang.host.ir import Expr
from finchlang.levels.looplets import Looplet, may_be_missing
from finchlang.rules.base.state import State
from finchlang.syntax import traversal as trees
from finchlang.syntax.nodes import Access, Assign, Extent, Index, Literal, Loop, Node, Value
from finchlang.wrappers.wrappers import release


def find(term: Node, kind: type[Any]) -> Any:
    """The first looplet of `kind` that stands in an access of `term`, or None."""
    return next((x for x in find_looplets(term) if isinstance(x, kind)), None)


def find_all(term: Node, kind: type[Any]) -> list[Any]:
    """The looplets of `kind` in the accesses of `term`, each once, in order."""
    return [x for x in find_looplets(term) if isinstance(x, kind)]


@trees.remembered
def find_looplets(term: Node) -> tuple[Any, ...]:
    """The looplets in the accesses of a term, each once, in order; found from those of its parts, most of
    which a step leaves as they are."""
    if isinstance(term, trees.COMPOUND):
        parts = [found for child in trees.children(term) if (found := find_looplets(child))]
        if len(parts) < 2:
            return parts[0] if parts else ()
        looplets = [x for found in parts for x in found]
    else:
        looplets = [a.tensor for a in trees.accesses(term) if isinstance(a.tensor, Looplet)]
    return tuple({id(x): x for x in looplets}.values())


@trees.remembered
def accesses_in(term: Node) -> tuple[Access, ...]:
    """The accesses of a term, parents first."""
    return tuple(trees.accesses(term))


def rewrite_accesses(function: Callable[[Access], Node], term: Node) -> Any:
    """E[access] with `function` applied to each access, inner accesses first."""

    def visit(node: Node) -> Node:
        node = trees.map_children(visit, node)
        return function(node) if type(node) is Access else node

    return visit(term)


def put(term: Node, replacements: Mapping[int, Node], consume: bool = False) -> Any:
    """`term` with looplets (by id) replaced in every access in which they stand. With `consume` the
    replacement is a payload, and the access loses its last index."""

    def change(access: Access) -> Node:
        new = replacements.get(id(access.tensor))
        return access if new is None else put_in(access, new, consume)

    return rewrite_accesses(change, term)


def put_in(access: Access, new: Node, consume: bool) -> Node:
    """`access` with its looplet replaced by `new`, a looplet or a payload."""
    indices = access.indices[:-1] if consume else access.indices
    if isinstance(new, (Literal, Value)):
        return new  # the same everywhere
    captured = access.captured
    if captured and not isinstance(new, Looplet):
        new, captured = release(new, captured), ()
    may_miss = access.may_miss and (bool(indices) or may_be_missing(new))
    known: Any = {"type": access.type, "may_miss": may_miss, "fills": access.fills}
    return Access(new, indices, captured=captured, span=access.span, **known)


def is_at(access: Access, index: Index) -> bool:
    """Whether the last index of `access` is the loop index `index`."""
    return bool(access.indices) and access.indices[-1] == index


def take_turns(term: Loop) -> bool:
    """Whether statements of a loop write the same scalar in turn, and nothing else."""
    targets = [n.target for n, _ in trees.statements(term.body) if isinstance(n, Assign)]
    return not any(t.indices for t in targets) and len(set(targets)) < len(targets)


def with_bounds(loop: Loop, start: Expr, stop: Expr, body: Node | None = None) -> Loop:
    extent = Extent(as_node(start), as_node(stop))
    return Loop(loop.index, extent, loop.body if body is None else body, span=loop.span)


def bounded(term: Node) -> tuple[Expr, Expr] | None:
    """The evaluated extent of a term that is a loop, else None."""
    return bounds(term) if isinstance(term, Loop) else None


def point_of(term: Node) -> Expr | None:
    """The coordinate of a term that is a loop over one, else None."""
    region = bounded(term)
    return region[0] if region is not None and region[0] is region[1] else None


class Context:
    """A term E[x, ...] with the looplets x, ... in it as its `holes`. A looplet that stands in several
    accesses is one hole, and is replaced in all of them."""

    __slots__ = ("term", "holes")

    def __init__(self, term: Any, holes: tuple[Any, ...]):
        self.term, self.holes = term, holes

    @property
    def hole(self) -> Any:
        """The looplet in the first hole."""
        return self.holes[0]

    @property
    def region(self) -> tuple[Expr, Expr]:
        """a and b of loop(i, extent(a, b), E[x])."""
        found = bounded(self.term)
        assert found is not None
        return found

    def all(self, kind: type[Any]) -> Context:
        """The same term, with all looplets of `kind` in it as holes."""
        return Context(self.term, tuple(find_all(self.term, kind)))

    def over(self, start: Expr, stop: Expr) -> Context:
        """loop(i, extent(start, stop), E[x])."""
        return Context(with_bounds(self.term, start, stop), self.holes)

    def within(self, host: Host, start: Expr | None, stop: Expr | None) -> Context:
        """loop(i, extent(max(a, start), min(b, stop)), E[x]); None is the region's own end."""
        a, b = self.region
        if start is not None:
            a = host.let(greater(a, start), "start")
        if stop is not None:
            b = host.let(lesser(b, stop), "stop")
        return self.over(a, b)

    def __getitem__(self, looplet: Node) -> Any:
        """E[access(looplet, j..., i)], in the first hole."""
        return put(self.term, {id(self.hole): looplet})

    def fill(self, *looplets: Node) -> Any:
        """E[access(looplet, j..., i), ...], in all holes."""
        return put(self.term, dict(zip(map(id, self.holes), looplets, strict=True)))

    def payload(self, *values: Node) -> Any:
        """E[access(value, j...), ...], in all holes: payloads, which need no last index."""
        return put(self.term, dict(zip(map(id, self.holes), values, strict=True)), consume=True)

    def each(self, machine: Machine, name: str, new: Sequence[Node], consume: bool = False) -> Any:
        """All holes filled with `new`. The tracer is told of one step of the rule `name` for each hole, but
        the term is made once: staging a product of 128 sparse lists takes 0.19 s so, in place of 1.6."""
        given = list(zip(map(id, self.holes), new, strict=True))

        def after(k: int) -> Any:
            return put(self.term, dict(given[:k]), consume)

        for k in range(len(given)):
            machine.tell(name, lambda k=k: (after(k), after(k + 1)))  # type: ignore[misc]
        return after(len(given))


def at_values(term: Node, kind: type[Any]) -> tuple[Context, list[Node]]:
    """E[access(x, j..., i), ...] with the looplets of `kind` whose i has a value for x, and each i."""
    found: dict[Looplet, Node] = {}
    for access in accesses_in(term) if find(term, kind) is not None else ():
        if isinstance(access.tensor, kind) and isinstance(access.indices[-1], (Literal, Value)):
            found.setdefault(access.tensor, access.indices[-1])
    return Context(term, tuple(found)), list(found.values())


#: a rule for looplets: applied to E it gives a Step, or None if it does not apply
LoopletRule = Callable[[Machine, Context, State], Step | None]


def looplet_rule(
    name: str,
    kind: type[Any],
    in_loop: bool = False,
    every: bool = False,
    steps: tuple[str, ...] = (),
    says: str = "",
) -> Callable[[LoopletRule], Rule]:
    """Decorator: makes a function the rule `name`, applied to E[x] with x the first looplet of `kind`, or
    with `every` to E[x, ...] with all of them. With `in_loop` the rule applies only to a loop whose extent
    has been evaluated."""

    def make(function: LoopletRule) -> Rule:
        def apply(machine: Machine, term: Node, state: State) -> Step | None:
            found = find(term, kind)
            if found is None or (in_loop and bounded(term) is None):
                return None
            E = Context(term, tuple(find_all(term, kind)) if every else (found,))
            return function(machine, E, state)

        apply.__doc__ = function.__doc__
        return Rule(name, apply, steps=steps, says=says)

    return make
