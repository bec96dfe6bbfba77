"""The nodes of a unit: besides statements and expressions on numbers, as in functions of the script, those
that run a kernel, make or exchange tensors, and read an entry or a size. What each would be in a script
(`as_script`) is what is shown of it."""

from __future__ import annotations

from typing import Any

from finchlang.base.records import record
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import Called
from finchlang.syntax.nodes import Node


@record(slots=True)
class RunKernel(Node):
    """A kernel: `tensors` and `numbers` pair the names that its program has with slots and expressions. The
    unit has some of its own (`is_own`), which read or set an entry, or make a tensor."""

    program: Node
    tensors: tuple[tuple[str, str], ...]
    numbers: tuple[tuple[str, Node], ...]
    is_own: bool = True

    @property
    def uses(self) -> list[Node]:
        return [number for _, number in self.numbers]

    def renamed(self, node: Node) -> Node:
        """A part of the program with the names of slots and the expressions of the unit."""
        slots = {own: ast.Variable(slot) for own, slot in self.tensors}
        names: dict[str, Node] = {**slots, **dict(self.numbers)}

        def rename(part: Node) -> Node:
            return names.get(part.name, part) if isinstance(part, ast.Variable) else part

        return trees.rewrite_bottom_up(rename, node)


@record(slots=True)
class Make(Node):
    """A new tensor in a slot, of these sizes, which the kernel `declare` gives its content. What the slot
    holds, if it was given to the unit, goes to a resting slot before: `rests` pairs the slots of tensors
    that may be there with those where they rest."""

    slot: str
    format: Any
    sizes: tuple[Node, ...]
    declare: Node
    rests: tuple[tuple[str, str], ...] = ()

    @property
    def uses(self) -> list[Node]:
        return [*self.sizes, self.declare]


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

    @property
    def uses(self) -> list[Node]:
        return [self.before] if self.before else []


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
class Unit(Node):
    """A loop of the script, or the body of a function that is called. `tensors` are slots of tensors that
    it is given, `made` those of its own, `numbers` the numbers that it is given, `results` those that it
    hands back. Slots in one of `groups` may exchange their tensors. `returned` are slots of tensors that a
    `return` gives, `fixed` those of arrays that cannot take another size, `arrays` those of its own whose
    tensors are arrays outside. Of a loop (`is_loop`) the first number is how many rounds it takes at most;
    what fails in it notes how many were done."""

    body: Node
    tensors: tuple[str, ...]
    made: tuple[str, ...]
    numbers: tuple[str, ...]
    results: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    returned: tuple[str, ...]
    fixed: tuple[str, ...]
    arrays: tuple[str, ...]
    is_loop: bool

    @property
    def exchanging(self) -> tuple[str, ...]:
        """The slots that exchange, in the order of groups."""
        return tuple([name for group in self.groups for name in group])


def as_script(node: Any) -> Any:
    """What a node of a unit would be in a script, with its parts as they are; another node itself."""
    name = ast.Variable(getattr(node, "slot", ""))
    match node:
        case RunKernel():
            return ast.KernelNode(node.renamed(node.program))
        case Make(_, format, sizes):
            level = ast.Variable(str(format))
            made = ast.call("Tensor", level, *sizes) if sizes else level
            return ast.Let((name,), None, made)
        case ExchangeSlots(_, other):
            both = ast.Variable(other), name
            return ast.Let(both[::-1], None, ast.Group(both))
        case ScalarValue(_, RunKernel() as before):
            parts = [*trees.walk(before.program)]
            [value] = [before.renamed(n.value) for n in parts if isinstance(n, ast.Assign)]
            is_sum = any(isinstance(n, ast.Loop) for n in parts)
            return ast.call("sum", value) if is_sum else value
        case ScalarValue():
            return ast.Access(name, ())
        case SlotSize(_, mode):
            return ast.call("size", name, ast.Literal(mode + 1))
        case StoredCount():
            return ast.call("countstored", name)
        case RaiseError(message):
            return ast.call("error", ast.Text((message,)))
        case Called(body):
            return body
    return node


def in_script(node: Any) -> Any:
    """A part of a unit as it would be in a script."""
    own = as_script(node)
    return trees.map_children(in_script, node) if own is node else in_script(own)
