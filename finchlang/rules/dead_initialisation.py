"""A derived rule, dead-initialisation elimination: a dense tensor each entry of which a kernel assigns
anyway needs no fill before."""

from __future__ import annotations

from collections.abc import Mapping

from finchlang.host.fold import ONE
from finchlang.rules.engine import Machine, State, Step, rule
from finchlang.rules.expressions import evaluate, is_ready, resolve
from finchlang.rules.statements import UNDEFINED
from finchlang.syntax import (
    MISSING,
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Extent,
    Index,
    Literal,
    Loop,
    Node,
    Variable,
)
from finchlang.tensors.level import Fiber
from finchlang.walk import children, replace, walk

#: what the indices of loops stand for: the loop's extent, or another index that is the same
Loops = Mapping[Node, Node]


@rule("DeadInitialisation", is_derived=True)
def dead_initialisation(machine: Machine, term: Node, state: State) -> Step | None:
    """block(declare(tns, init, dims...), op..., E[assign(access(tns, i...), =, rhs)], tail...) →
    block(declare(tns, undefined, dims...), op..., E[assign(access(tns, i...), :=, rhs)], tail...)

    Relies on: E is loops over each of `dims`, which are from 1 on, and definitions, with nothing else
    that mentions tns, so that every entry is assigned; `rhs` is not missing; `op...` do not mention
    tns; tns is dense. What `rhs` reads is dense, too: where it is known to be the fill, to write
    nothing would be better."""
    if not isinstance(term, Block) or not isinstance(term.statements[0], Declare):
        return None
    head, *rest = term.statements
    assert isinstance(head, Declare)
    if head.init == UNDEFINED or not head.dims or not _is_dense(head.tensor, state):
        return None
    for number, statement in enumerate(rest):
        if _mentions(statement, head.tensor):
            loop = _Nest(head, state).assigned(statement, {}, frozenset())
            if loop is None:
                return None
            rest[number] = loop
            return Block((replace(head, init=UNDEFINED), *rest)), state
    return None


class _Nest:
    """The loops that assign what `head` declares."""

    def __init__(self, head: Declare, state: State):
        self.head, self.state = head, state

    def assigned(self, node: Node, loops: Loops, missing: frozenset[str]) -> Node | None:
        """`node` with `:=` in place of `=`, if it assigns every entry. The names in `missing` may
        stand for a value that is."""
        match node:
            case Loop(index, Extent(start, stop, None) as extent, body):
                own = start if start == stop else extent
                inner = self.assigned(body, {**loops, index: own}, missing)
            case Define(variable, value, body) if self.reads_dense(value):
                if _may_be_missing(value, missing):
                    missing |= {variable.name}
                inner = self.assigned(body, loops, missing)
            case Block(statements):
                return self.in_block(statements, loops, missing)
            case Assign(Access(tensor, indices), Call(Variable("initwrite")), value):
                is_whole = tensor == self.head.tensor and self.is_covered(indices, loops)
                if not is_whole or not self.reads_dense(value) or _may_be_missing(value, missing):
                    return None
                return replace(node, op=Variable("overwrite"))
            case _:
                return None
        return None if inner is None else replace(node, body=inner)

    def in_block(
        self, statements: tuple[Node, ...], loops: Loops, missing: frozenset[str]
    ) -> Node | None:
        places = [k for k, s in enumerate(statements) if _mentions(s, self.head.tensor)]
        if len(places) != 1:
            return None
        [place] = places
        inner = self.assigned(statements[place], loops, missing)
        if inner is None:
            return None
        return Block((*statements[:place], inner, *statements[place + 1 :]))

    def is_covered(self, indices: tuple[Node, ...], loops: Loops) -> bool:
        """Whether the loops go over each dimension, and over nothing else that may be empty."""
        names = [_same(index, loops) for index in indices]
        extents = [loops.get(name) for name in names]
        others = [n for n, own in loops.items() if isinstance(own, Extent) and n not in names]
        is_apart = len(set(names)) == len(names) and extents == [*self.head.dims]
        return is_apart and not others and all(map(self.is_from_one, self.head.dims))

    def is_from_one(self, extent: Node) -> bool:
        """Whether an extent leaves no coordinates out before it."""
        start = extent.start if isinstance(extent, Extent) else None
        return start is not None and is_ready(start) and evaluate(start, self.state) is ONE

    def reads_dense(self, value: Node) -> bool:
        accesses = [node for node in walk(value) if isinstance(node, Access)]
        is_apart = not _mentions(value, self.head.tensor)
        return is_apart and all([_is_dense(a.tensor, self.state) for a in accesses])


def _same(index: Node, loops: Loops) -> Node:
    """The index of the outermost loop that `index` is the same as."""
    while isinstance(own := loops.get(index), Index):
        index = own
    return index


def _is_dense(tensor: Node, state: State) -> bool:
    """Whether every coordinate of a tensor, perhaps in wrappers, has a place in memory."""
    while isinstance(tensor, Call) and tensor.args:
        tensor = tensor.args[0]
    found = resolve(tensor, state) if isinstance(tensor, Variable) else None
    parts = list(found.level.levels()) if isinstance(found, Fiber) else []
    return bool(parts) and all(
        [part.is_dense or (part.is_leaf and not part.is_structured) for part in parts]
    )


def _may_be_missing(value: Node, missing: frozenset[str]) -> bool:
    """Whether a value may be missing: what is not there is, unless something else is coalesced."""
    match value:
        case Literal(found):
            return found is MISSING
        case Variable(name):
            return name in missing
        case Access(tensor):
            return any([node == Variable("permissive") for node in walk(tensor)])
        case Call(Variable("coalesce"), args):
            return all([_may_be_missing(arg, missing) for arg in args])
    return any([_may_be_missing(child, missing) for child in children(value)])


def _mentions(node: Node, tensor: Variable) -> bool:
    return any([isinstance(n, Variable) and n.name == tensor.name for n in walk(node)])
