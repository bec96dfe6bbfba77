"""Copies of whole tensors: a tensor that is declared and next assigned all of one of the same layout is
declared to be that one, and takes its arrays. Without that CSC to COO takes twice as long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from finchlang.algebra.program_context import is_plain, size_extent
from finchlang.levels.level import Level
from finchlang.normalize.schedule.nest_headers import nest_of
from finchlang.syntax import traversal as trees, types
from finchlang.syntax.nodes import Access, Assign, Block, Call, Declare, Loop, Node, Variable


def with_copies(program: Node, formats: Mapping[str, Level | types.Type]) -> Node:
    """A program in normal form with `declare(C, A, dims...)` in the place of

        declare(C, init, dims...); op...; loop(j, dims2, loop(i, dims1, assign(C[i, j], :=, A[i, j])))

    where `op...` do not mention C, the loops go over all of A and so of C, the last mode outermost, and
    the levels of C can take those of A as they are stored, fill and all."""
    if isinstance(program, (Assign, Access, Call)):
        return program
    program = trees.map_children(lambda child: with_copies(child, formats), program)
    return _in_block(program, formats) if isinstance(program, Block) else program


def _in_block(node: Block, formats: Mapping[str, Level | types.Type]) -> Node:
    left: list[Node] = []
    for statement in node.statements:
        found = copied(statement)
        names = found and [a.tensor.name for a in found if isinstance(a.tensor, Variable)]
        users = [k for k, s in enumerate(left) if names and trees.mentions(s, Variable(names[0]))]
        head = left[users[-1]] if users else None
        if names and len(names) == 2 and names[0] != names[1] and isinstance(head, Declare):
            own, other = (formats.get(name) for name in names)
            is_same = isinstance(own, Level) and isinstance(other, Level) and own.takes(other)
            is_own = head.tensor.name == names[0]
            if is_same and is_own and _is_whole(statement, head, names[1], left):
                del left[users[-1]]
                statement = trees.replace(head, init=Variable(names[1]))
        left.append(statement)
    return node if len(left) == len(node.statements) else trees.block(*left)


def _is_whole(statement: Node, head: Declare, source: str, before: Sequence[Node]) -> bool:
    """Whether loops go over each dimension of what is declared, which are those of `source`."""
    made = [s for s in before if isinstance(s, Declare) and s.tensor.name == source]
    sizes = made[-1].dims if made else [size_extent(source, k + 1) for k in range(len(head.dims))]
    extents = [trees.head(loop) for loop in nest_of(statement).headers[::-1]]
    return extents == [*head.dims] == [*sizes]


def copied(statement: Node) -> tuple[Access, Access] | None:
    """Both sides of an assignment of a tensor's elements as they are, in loops over all indices."""
    nest = nest_of(statement)
    body, loops = nest.body, [h for h in nest.headers[::-1] if isinstance(h, Loop)]
    if not isinstance(body, Assign) or not loops or not isinstance(body.value, Access):
        return None
    if len(loops) < len(nest.headers):
        return None
    indices = tuple(loop.index for loop in loops)
    is_same = body.target.indices == body.value.indices == indices
    return (body.target, body.value) if is_plain(body.op) and is_same else None
