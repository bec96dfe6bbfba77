"""The workspaces pass (Workspaces'24 section 6.2): what is written out of order goes through a
workspace that takes any order, and from there, in order, to where it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from finchlang.algebra.program_context import ProgramContext, place, reads, statements_of
from finchlang.base.errors import FinchError, Note, number_of
from finchlang.levels.level import Level
from finchlang.normalize.write_order import check_order
from finchlang.normalize.write_order.detour import Detour, workspace_levels
from finchlang.syntax.nodes import Block, Define, Index, Loop, Node, Policy, Sieve, Variable
from finchlang.syntax.traversal import block, replace

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def classified(
    loops: Sequence[Loop], indices: Sequence[Index], sparse_operands: int, context: ProgramContext
) -> str:
    """How updates at bare `indices` inside `loops`, of a value with so many sparse operands, stand to the
    order of storage, and their class in Workspaces'24.

    `p1`: the first mode, from the outermost, where the order of the loops is not that of the tensor; `p2`:
    how many modes are written anew in each step of the outermost loop that is over none of the tensor's
    modes. Appending: the entries of the result are those of one operand, each once."""
    by_index: dict[Node, Loop] = {loop.index: loop for loop in loops}
    repeated = (loop for loop in loops if check_order.is_repeated(loop, context))
    order = context.original(loop.index.name for loop in repeated)
    modes: dict[str, None] = {}
    for index in reversed(indices):
        followed = check_order.follows(by_index[index], context)
        same = followed is not None and followed.name in order
        modes[followed.name if same else index.name] = None  # type: ignore[union-attr]
    access = list(modes)
    shared = [name for name in order if name in access]
    count = len(access)
    p1 = next((n for n in range(count) if access[n : n + 1] != shared[n : n + 1]), count) + 1
    first = next((n for n, name in enumerate(order) if name not in access), len(order))
    p2 = 0 if first == len(order) else count - len(set(order[:first]) & set(access))
    least = max(count + 1 - p1, p2)  # modes of a workspace; with one, a dense one of that size does
    needs = f"which needs a workspace of {number_of(least, 'dimension')}"
    said = f"out of its order of storage, {needs}" if least else "in its order of storage"
    ordinal = _ORDINALS[least] if least < len(_ORDINALS) else f"{least}th"
    kind = "dense" if least <= 1 else "sparse"
    action = "appending" if first == len(order) and sparse_operands <= 1 else "scattering"
    name = f"{ordinal}-order {kind} {action}, p1 = {p1}, p2 = {p2}"
    return f"{said} (Workspaces'24: {name})"


def insert_workspaces(program: Node, context: ProgramContext) -> Node:
    """`program` with a workspace for each update phase that is out of order.

    It spans the modes from the first mismatch inwards, and stands inside of all loops over the modes
    before that. Raises FinchError "access order" where a workspace does not mend a phase, or is not
    wanted, and where `@workspace` asks for a policy and no workspace is inserted that has one.
    """
    context.reserve(program)
    insertion = _Insertion(context)
    asked = context.policies.keys() if context.insert_workspaces else set[str]()
    for name in sorted(asked & context.workspace_of.keys()):
        insertion.update_in_place(Detour.in_place(context, name))
    program = insertion.scope(program)
    for name in sorted(asked - insertion.with_policy):
        why = "is written in order here" if name not in insertion.mended else "is stored by halves"
        shown = context.written(name)
        given = (a for a in context.annotations if isinstance(a, Policy))
        spans = (a.span for a in given if a.tensor.name == shown)
        message = f"`{shown}` {why}: there is no workspace to insert that has a policy"
        raise FinchError("access order", message, next(spans, None))
    return program


#: where a workspace may stand: the statements of each body on the way in, with the number of the first that
#: updates the tensor, and the indices of those loops on the way that are over its outermost modes
_Place = tuple[list[tuple[tuple[Node, ...], int]], tuple[Node, ...]]


class _Insertion:
    def __init__(self, context: ProgramContext):
        self.context = context
        self.mended: set[str] = set()  # tensors
        self.with_policy: set[str] = set()
        self.made: set[str] = set()  # workspaces

    def scope(self, node: Node) -> Any:
        statements = statements_of(node)
        for n, _ in enumerate(self.phases(statements)):
            # asked again, since mending one phase moves the statements of those after it
            name, start, stop = self.phases(statements)[n]
            phase, is_wanted = statements[start:stop], self.context.insert_workspaces
            self.classify(name, phase if is_wanted else ())
            if found := check_order.fault(name, phase, self.context):
                mended = self.mend(name, phase, found) if is_wanted else None
                if mended is None:
                    raise found.error(self.context)
                statements = (*statements[:start], *mended, *statements[stop:])
        inside = [
            replace(s, body=self.scope(s.body)) if isinstance(s, (Loop, Sieve, Define)) else s
            for s in statements
        ]
        return replace(node, statements=tuple(inside)) if isinstance(node, Block) else inside[0]

    def phases(self, statements: tuple[Node, ...]) -> list[tuple[str, int, int]]:
        """The update phases of tensors that are no inserted workspaces."""
        found = check_order.phases(statements, self.context)
        return [phase for phase in found if phase[0] not in self.made]

    def mend(
        self, name: str, phase: tuple[Node, ...], found: check_order.OrderFault
    ) -> tuple[Node, ...] | None:
        """`phase` with a workspace for the tensor `name`, as far inside as can be, if one mends it."""
        context, span = self.context, found.access.span
        ordered = check_order.ordered_modes(found.level)
        for path, outer in reversed(list(self.places(name, phase, ordered))):
            for levels in workspace_levels(context, name, len(outer), _are_bare(name, phase)):
                names = {*context.taken}, {**context.last}
                made = Detour.of(context, name, levels, *outer)
                statements, first = path[-1]
                stop = _updating(name, statements)[1]
                inner = made.around(statements[first:stop], span)
                mended = *statements[:first], *inner, *statements[stop:]
                for around, n in reversed(path[:-1]):
                    whole = replace(around[n], body=block(*mended))
                    mended = *around[:n], whole, *around[n + 1 :]
                written = ((name, mended), (made.name, inner))
                if not any(check_order.fault(each, own, context) for each, own in written):
                    self.tell(made, found)
                    self.mended.add(name)
                    self.made.add(made.name)
                    return mended
                # not mended: the workspace is forgotten, and its name with it
                context.taken, context.last = names
                context.choices.discard(made.name)
                del context.formats[made.name], context.workspaces[made.name]
        return None

    def places(self, name: str, statements: tuple[Node, ...], ordered: int) -> Iterator[_Place]:
        """Where a workspace for a tensor, of which `ordered` modes need an order, may stand, from the
        outside in: as long as one statement holds all updates, and loops are over its outermost modes."""
        path, outer = list[tuple[tuple[Node, ...], int]](), tuple[Node, ...]()
        writes = list(check_order.updates(name, statements))
        is_bare = _are_bare(name, statements)
        while True:
            first, stop = _updating(name, statements)
            path = [*path, (statements, first)]
            yield path, outer
            node = statements[first]
            if stop - first > 1 or not isinstance(node, (Loop, Sieve, Define)):
                return
            if isinstance(node, Loop):
                modes = {assign.target.indices[-1 - len(outer)] for assign, _ in writes}
                own = (loop for _, loops in writes for loop in loops if loop.index in modes)
                is_own = is_bare and self.is_loop_of(node, own)
                if check_order.is_repeated(node, self.context) and not is_own:
                    return
                if is_bare and modes == {node.index}:
                    outer = (node.index, *outer)
                    if len(outer) == ordered:
                        return
                elif any(node.index in assign.target.indices for assign, _ in writes):
                    return  # the workspace has this mode
            statements = statements_of(node.body)

    def is_loop_of(self, loop: Loop, own: Iterable[Loop]) -> bool:
        """Whether `loop`, or one made of it, is of the single index that all in `own` follow."""
        modes = {check_order.follows(each, self.context) for each in own}
        names = {mode.name for mode in modes if mode is not None}
        parts = {name for made, given in self.context.derived if names & {*given} for name in made}
        return len(modes) == 1 and loop.index.name in names | parts

    def tell(self, made: Detour, found: check_order.OrderFault) -> None:
        modes = number_of(made.order, "mode")
        message = f"{found.message}: it goes through a workspace of {modes}"
        self.context.notes.append(Note(message, found.access.span))
        self.decide(made)

    def update_in_place(self, made: Detour) -> None:
        """Give the workspace of updates in place the policy that is asked for."""
        [[level]] = workspace_levels(self.context, made.tensor)
        self.context.formats[made.name] = self.context.workspaces[made.name] = level
        self.context.choices.discard(made.name)
        self.mended.add(made.tensor)
        self.decide(made)

    def decide(self, made: Detour) -> None:
        shown, level = self.context.written(made.tensor), self.context.workspaces[made.name]
        if made.tensor in self.context.policies and level.combines:
            self.with_policy.add(made.tensor)
        text = f"`{shown}` is written by way of `{made.name}`, {level}: {self.reason(made, level)}"
        self.context.decide("workspaces", text)

    def reason(self, made: Detour, level: Level) -> str:
        """The reason for the format of the workspace, for the decision."""
        if made.tensor in self.context.policies:
            return "as `@workspace` says"
        if any(part.takes_any_fiber for part in level.levels()):
            return "each of its fibers is written in order"
        if made.name not in self.context.choices:
            return "what is below its sequential levels takes any order"
        if made.name in self.context.exchanged:
            return "its places are few" if made.order > 1 else "its places are too many"
        return "it has several modes" if made.order > 1 else "it has one mode"

    def classify(self, name: str, phase: Sequence[Node]) -> None:
        """Note the class of each update of the tensor `name`."""
        context, shown = self.context, self.context.written(name)
        for assign, loops in check_order.updates(name, phase):
            if assign.span is None:  # a copy from a workspace
                continue
            read = [context.level(name).levels() for name in reads(assign.value)]
            sparse = sum(any(part.modes and not part.is_dense for part in level) for level in read)
            kind = classified(loops, assign.target.indices, sparse, context)  # type: ignore[arg-type]
            context.decide("workspaces", f"`{shown}` is updated at {place(assign.span)} {kind}")


def _updating(name: str, statements: Sequence[Node]) -> tuple[int, int]:
    """From which to before which of `statements` the tensor `name` is updated."""
    found = [n for n, s in enumerate(statements) if next(check_order.updates(name, (s,)), None)]
    return found[0], found[-1] + 1


def _are_bare(name: str, statements: Sequence[Node]) -> bool:
    """Whether the tensor `name` is updated as it is, through no wrapper."""
    found = check_order.updates(name, statements)
    return all(isinstance(assign.target.tensor, Variable) for assign, _ in found)
