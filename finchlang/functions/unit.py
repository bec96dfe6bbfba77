"""The nodes of a unit: besides statements and expressions on numbers, as in functions of the script, those
that run a kernel, make or exchange tensors, read an entry or a size, and stand for a function's call."""

from __future__ import annotations

from finchlang.base.records import record
from finchlang.syntax.nodes import Node


@record(slots=True)
class RunKernel(Node):
    """A kernel: `tensors` and `numbers` pair the names that its program has with slots and expressions."""

    program: Node
    tensors: tuple[tuple[str, str], ...]
    numbers: tuple[tuple[str, Node], ...]


@record(slots=True)
class Make(Node):
    """A new tensor in a slot, of these sizes, which the kernel `declare` gives its content. What the slot
    holds, if it was given to the unit, goes to a resting slot before: `rests` pairs the slots of tensors
    that may be there with those where they rest."""

    slot: str
    sizes: tuple[Node, ...]
    declare: Node
    rests: tuple[tuple[str, str], ...] = ()


@record(slots=True)
class ExchangeSlots(Node):
    """The tensors in two slots change places."""

    slot: str
    other: str


@record(slots=True)
class ScalarValue(Node):
    """The value of the scalar in a slot; `before`, if there is one, is a kernel that sets it."""

    slot: str
    before: Node | None = None


@record(slots=True)
class SlotSize(Node):
    """The size of a mode, counted from 0, of the tensor in a slot."""

    slot: str
    mode: int


@record(slots=True)
class StoredCount(Node):
    """How many entries the tensor in a slot stores."""

    slot: str


@record(slots=True)
class RaiseError(Node):
    """Stop with an error of kind type."""

    message: str


@record(slots=True)
class Called(Node):
    """The body of a function of the script where it is called; `return` leaves it."""

    body: Node


@record(slots=True)
class Unit(Node):
    """A loop of the script, or the body of a function that is called. `tensors` are slots of tensors that
    it is given, `made` those of its own, `numbers` the numbers that it is given, `results` those that it
    hands back. Slots in one of `groups` may exchange their tensors. `returned` are slots of tensors that a
    `return` gives, `fixed` those of arrays that cannot take another size. Of a loop (`is_loop`) the first
    number is how many rounds it takes at most; what fails in it notes how many were done."""

    body: Node
    tensors: tuple[str, ...]
    made: tuple[str, ...]
    numbers: tuple[str, ...]
    results: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    returned: tuple[str, ...]
    fixed: tuple[str, ...]
    is_loop: bool
