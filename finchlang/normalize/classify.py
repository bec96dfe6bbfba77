"""What kind of update an assignment is (Workspaces'24 section 2.2): appending or scattering, dense or
sparse, and how many modes a workspace for it needs at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from finchlang.normalize.context import Context
from finchlang.normalize.order import follows, is_repeated
from finchlang.syntax import Index, Loop, Node

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True)
class Class:
    """The class of an update of a tensor of `modes` modes.

    `p1`: the first mode, counted from the outermost, where the order of the loops is not the
    tensor's (`modes + 1` if it is); `p2`: how many modes are written anew each time round the
    outermost loop that is none of the tensor's. `is_appending`: the entries of the result are those
    of one operand, each once.
    """

    modes: int
    p1: int
    p2: int
    is_appending: bool

    @property
    def order(self) -> int:
        """How many modes a workspace has at least."""
        return max(self.modes + 1 - self.p1, self.p2)

    @property
    def is_dense(self) -> bool:
        """Whether a dense workspace of the size of one dimension does."""
        return self.order <= 1

    def __str__(self) -> str:
        order = _ORDINALS[self.order] if self.order < len(_ORDINALS) else f"{self.order}th"
        kind = "dense" if self.is_dense else "sparse"
        action = "appending" if self.is_appending else "scattering"
        return f"{order}-order {kind} {action} (p1 = {self.p1}, p2 = {self.p2})"


def classify(
    loops: Sequence[Loop], indices: Sequence[Index], sparse_operands: int, context: Context
) -> Class:
    """The class of an update at `indices` (bare, the last mode outermost) inside of `loops`, whose
    value reads so many tensors that are not dense."""
    by_index: dict[Node, Loop] = {loop.index: loop for loop in loops}
    order = context.original(loop.index.name for loop in loops if is_repeated(loop, context))
    modes: dict[str, None] = {}
    for index in reversed(indices):
        followed = follows(by_index[index], context)
        same = followed is not None and followed.name in order
        modes[followed.name if same else index.name] = None  # type: ignore[union-attr]
    access = list(modes)
    shared = [name for name in order if name in access]
    count = len(access)
    p1 = next((n for n in range(count) if access[n : n + 1] != shared[n : n + 1]), count) + 1
    first = next((n for n, name in enumerate(order) if name not in access), len(order))
    p2 = 0 if first == len(order) else count - len(set(order[:first]) & set(access))
    return Class(count, p1, p2, first == len(order) and sparse_operands <= 1)
