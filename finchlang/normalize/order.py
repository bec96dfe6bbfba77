"""The order check: a format that is written in order is written in order, or it is an error here
(DESIGN section 4), naming a format that is written in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finchlang.normalize.context import Context, is_call, is_single, root
from finchlang.source import FinchError
from finchlang.syntax import (
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Freeze,
    Index,
    Literal,
    Loop,
    Node,
    Sieve,
)
from finchlang.tensors.level import Level


def check_order(program: Node, context: Context) -> None:
    """Check every update phase of every tensor with a sequential level.

    Let L be the innermost such level. Between the scope of the tensor and the loop over L stand the
    loops of the modes from the outermost to L, in that order, and no others, so that coordinates
    come in order and each fiber is written once. Expects a concordant program with its life cycle.
    Raises FinchError of kind "access order".
    """
    _Order(context).scope(program)


@dataclass
class _Phase:
    """A tensor being updated: how many modes, from the outermost, are written in order, and the
    first update, with its indices in these modes."""

    level: Level
    modes: int
    first: Access | None = None


class _Order:
    def __init__(self, context: Context):
        self.context = context

    def scope(self, node: Node) -> None:
        """Check the phases that begin in the statements of `node`, and in the scopes inside."""
        statements = node.statements if isinstance(node, Block) else (node,)
        phases: dict[str, _Phase] = {}
        for s in statements:
            if isinstance(s, Declare):
                level = self.context.level(s.tensor.name)
                modes = _ordered_modes(level)
                if modes:
                    phases[s.tensor.name] = _Phase(level, modes)
            elif isinstance(s, Freeze):
                phases.pop(s.tensor.name, None)
            else:
                if phases:
                    self.updates(s, (), phases)
                if isinstance(s, (Loop, Sieve, Define)):
                    self.scope(s.body)

    def updates(self, node: Node, loops: tuple[Loop, ...], phases: dict[str, _Phase]) -> None:
        """Check the updates in `node` that are of `phases`; `loops` are around it."""
        match node:
            case Assign(target) if (name := root(target.tensor)) in phases:
                self.check(target, loops, phases[name])
            case Block(statements):
                for s in statements:
                    self.updates(s, loops, phases)
            case Loop(_, _, body):
                self.updates(body, (*loops, node), phases)
            case Sieve(_, body) | Define(_, _, body):
                self.updates(body, loops, phases)

    def check(self, access: Access, loops: tuple[Loop, ...], phase: _Phase) -> None:
        outermost_first = _own_indices(access)[::-1][: phase.modes]
        if phase.first is None:
            phase.first = access
        elif _own_indices(phase.first)[::-1][: phase.modes] != outermost_first:
            message = f"a second pass over `{self.shown(access)}`"
            first = phase.first.span
            if first is not None:
                message += f", which is written at {first.line}:{first.column} already"
            raise self.error(message, access, phase)
        by_index: dict[Node, int] = {loop.index: n for n, loop in enumerate(loops)}
        last = by_index[outermost_first[-1]]
        followed = [self.follows(loops[by_index[i]]) for i in outermost_first]
        wanted = list(dict.fromkeys(i.name for i in followed if i in by_index))
        repeated = self.context.original(
            loop.index.name for loop in loops[: last + 1] if self.is_repeated(loop)
        )
        if wanted == repeated and self.is_nested(outermost_first, followed, by_index):
            return
        extra = [name for name in repeated if name not in wanted]
        if extra:
            name = self.context.written(extra[0])
            message = f"`{self.shown(access)}` is written once for each `{name}`"
        else:
            message = f"`{self.shown(access)}` is written across the order of its loops"
        raise self.error(message, access, phase)

    def is_repeated(self, loop: Loop) -> bool:
        """Whether a loop counts as one that runs more than once: also one over blocks of length 1."""
        name, derived = loop.index.name, self.context.derived
        is_made = any(name in made for made, _ in derived)
        is_taken_apart = any(name in given for _, given in derived)
        return not is_single(loop.extent) or (is_made and not is_taken_apart)

    def follows(self, loop: Loop) -> Index | None:
        """The index whose order the loop's index follows: its own, or i for a loop over `i + c`; None
        if it takes a single value that follows no index."""
        is_derived = any(loop.index.name in given for _, given in self.context.derived)
        if is_derived or not is_single(loop.extent):
            return loop.index
        x: Any = loop.extent.start  # type: ignore[attr-defined]
        if isinstance(x, Call) and is_call(x, "+", "-") and len(x.args) == 2:
            first, second = x.args
            if isinstance(second, Literal):
                x = first
            elif isinstance(first, Literal) and is_call(x, "+"):
                x = second
        return x if isinstance(x, Index) else None

    def is_nested(
        self, indices: tuple[Node, ...], followed: list[Index | None], by_index: dict[Node, int]
    ) -> bool:
        """Whether no mode's loop stands in the loop that an inner mode's index follows: each time
        round that, the same fiber would be begun anew."""
        for mode, index in enumerate(indices):
            inner = [by_index[i] for i in followed[mode + 1 :] if i in by_index]
            if any(n < by_index[index] for n in inner):
                return False
        return True

    def shown(self, access: Access) -> str:
        name = root(access.tensor)
        assert name is not None
        return self.context.shown(name)

    def error(self, message: str, access: Access, phase: _Phase) -> FinchError:
        sequential = next(lv for lv in phase.level.levels() if lv.is_sequential)
        kind = type(sequential).__name__
        message += f": {kind} is written in order, fiber by fiber, each once"
        hint = f"use a format that takes any order: {phase.level.random_access()}"
        return FinchError("access order", message, access.span, hint)


def _ordered_modes(level: Level) -> int:
    """How many modes, counted from the outermost, end in the innermost sequential level."""
    modes = ordered = 0
    for part in level.levels():
        modes += part.modes
        if part.is_sequential:
            ordered = modes
    return ordered


def _own_indices(access: Access) -> tuple[Node, ...]:
    """The indices of the stored tensor's own modes: without the outer ones of modes that `toeplitz`
    divides, whose loops repeat it as any other would."""
    indices, tensor = list(access.indices), access.tensor
    while isinstance(tensor, Call):
        if is_call(tensor, "toeplitz"):
            del indices[tensor.args[1].value]  # type: ignore[attr-defined]
        tensor = tensor.args[0]
    return tuple(indices)
