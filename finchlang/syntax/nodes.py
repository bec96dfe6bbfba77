"""The nodes of both strata: Finch programs (Finch'25 Fig 8a) and the script language around them.

Every node is immutable and compares by structure; `span` (where it stands in its source) takes
no part in comparison. Children are nodes or tuples of nodes, so one generic walk serves all
(`traversal.py`).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeGuard

from finchlang.base.errors import Span
from finchlang.base.records import record


def _known(default: Any = None) -> Any:
    """What a pass finds of an expression: its element type, whether it may be `missing`, and the literals
    that it may be by structure, where nothing is stored (`fills`)."""
    return field(default=default, compare=False, repr=False, kw_only=True)


@record(slots=True)
class Node:
    """What every node has: the span of source it came from, or None."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


class Nothing:
    """The value `nothing`; one object."""

    def __reduce__(self) -> str:
        return repr(self).upper()

    def __repr__(self) -> str:
        return type(self).__name__.lower()


class Missing(Nothing):
    """The value `missing` of a read out of range; one object."""


MISSING = Missing()
NOTHING = Nothing()


#: operators on a tensor as a whole, their first argument: `size(A, mode)`, and two that only schedules
#: make: `positions(A)`, the number of positions of its storage, and `coordinate(A, mode, p)` of position p.
#: (`entry(A, p)[]`, which they make, too, is the element there.)
OF_TENSORS = ("size", "positions", "coordinate")

#: what gives the extent that its arguments, extents, all are: where they differ is an error
MEET = "meet"


# --------------------------------------------------------------------------- expressions (Fig 8a)


@record(eq=False, slots=True)
class Literal(Node):
    """A static value: a number of a known type, a Bool, `missing` or `nothing`.

    `type` is the element type's name ("Float32") where a literal is typed explicitly, as in
    `Float32(0)` or `0x00` (UInt8); None means the type of the Python value (Int64, Float64, Bool).
    """

    value: Any
    type: str | None = None

    def _key(self) -> tuple:
        # 0, 0.0, -0.0 and false are different literals, and NaN equals itself
        return (type(self.value), repr(self.value), self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@record(slots=True)
class Index(Node):
    """A name bound by a `for`."""

    name: str
    may_miss: bool = _known(False)


@record(slots=True)
class Variable(Node):
    """A name bound by `let` or free in the kernel: a tensor, a number, an operator of the table.

    The operators written with signs are variables too: `+`, `<=`, `&&`, `!`, `ifelse` ...
    """

    name: str
    type: Any = _known()
    may_miss: bool = _known(False)
    fills: Any = _known(())


@record(slots=True)
class Value(Node):
    """An expression of the host language (`host.ir.Expr`), known only when the program runs.

    Never parsed: rules put it where a static name has been evaluated.
    """

    expr: Any


@record(slots=True)
class Typed(Node):
    """`name::kind`, a number of the script and its type. The scopes pass checks it and leaves the name."""

    name: Variable
    kind: str


#: the modes of a tensor (Fig 14), which are numbered from 0
MODES = ("read", "update")


@record(slots=True)
class Mode(Node):
    """`@mode(tensor)`: whether the tensor can be read or updated here, as its number in MODES."""

    tensor: Variable


@record(slots=True)
class Extent(Node):
    """The integers from `start` to `stop`, both included: `a:b`. A slice, and a range of the script, may
    have a `step`, `a:s:b`: each step-th of them, from `start` on."""

    start: Node
    stop: Node
    step: Node | None = None


@record(slots=True)
class Dimensionless(Node):
    """The extent `_`, found from the tensors that use the index; in `A .= _` the fill, from its values."""


@record(slots=True)
class Call(Node):
    """`op(args...)`, infix and prefix too. `op` is a Variable, or a Call of one: `choose(0)`."""

    op: Node
    args: tuple[Node, ...]


@record(slots=True)
class Access(Node):
    """`tensor[indices...]`. `tensor` is a Variable or a Call that wraps a tensor
    (`swizzle(A, 2, 1)`, `UpTriMask()`), in the script any value; while rules run, also a fiber or a
    looplet.

    Index modifiers are Calls: `~i` is Call(~), `walk(i)` is Call(walk), `(a:b)(i)` is a Call whose
    op is an Extent. `captured` are the expressions that the payloads of a looplet depend on. An
    access that `may_miss` reads `missing` out of range; wrapperize sets that.
    """

    tensor: Node
    indices: tuple[Node, ...]
    type: Any = _known()
    captured: tuple[Node, ...] = ()
    may_miss: bool = _known(False)
    fills: Any = _known(())


def call(name: str, *args: Node, span: Span | None = None) -> Call:
    """A call of what has this name."""
    return Call(Variable(name, span=span), args, span=span)


def is_missing(node: Node) -> bool:
    return type(node) is Literal and node.value is MISSING


# ---------------------------------------------------------------------------- statements (Fig 8a)


@record(slots=True)
class Assign(Node):
    """`target <<op>>= value`.

    Plain `=` has op Variable("initwrite"), `:=` has Variable("overwrite"), `+=` Variable("+"),
    `&&=`-like logic is written `<<&&>>=`; `<<choose(0)>>=` has a Call.
    """

    target: Access
    op: Node
    value: Node


@record(slots=True)
class Loop(Node):
    """`for index = extent ... end`; `extent` is an Extent, Dimensionless or any expression."""

    index: Index
    extent: Node
    body: Node


@record(slots=True)
class Define(Node):
    """`let variable = value ... end`; with indices, `let T[i, j] = e`, the value is a Formula."""

    variable: Variable
    value: Node
    body: Node


@record(slots=True)
class Formula(Node):
    """An expression as a tensor of its indices, the value of `let T[i, j] = e`."""

    indices: tuple[Index, ...]
    value: Node


@record(slots=True)
class Sieve(Node):
    """`if condition ... end`. `else` parses to a second Sieve on `!condition`."""

    condition: Node
    body: Node


@record(slots=True)
class Block(Node):
    """Statements one after the other; the empty Block does nothing."""

    statements: tuple[Node, ...]


@record(slots=True)
class Declare(Node):
    """`tensor .= init`, or with dimensions `@declare(tensor, init, dims...)` (normal form)."""

    tensor: Variable
    init: Node
    dims: tuple[Node, ...] = ()


@record(slots=True)
class Freeze(Node):
    """`@freeze(tensor)`: from update to read mode."""

    tensor: Variable


@record(slots=True)
class Thaw(Node):
    """`@thaw(tensor)`: from read to update mode."""

    tensor: Variable


@record(slots=True)
class Yield(Node):
    """`return x` or `return (x, y)` at the end of a kernel: what it hands back, by name."""

    names: tuple[Variable, ...]


EMPTY = Block(())


def is_empty(node: Node) -> bool:
    return type(node) is Block and not node.statements


def is_meet(node: Node) -> TypeGuard[Call]:
    """Whether a node is the extent that several extents are."""
    return isinstance(node, Call) and isinstance(node.op, Variable) and node.op.name == MEET


# --------------------------------------------------------------------------------- script stratum
# Expressions reuse Literal, Variable, Call (positional arguments only), Access and Extent.


@record(slots=True)
class Text(Node):
    """A string; `parts` are str and expression nodes (`"n = $n"`, `"$(a + b)"`)."""

    parts: tuple[Any, ...]


@record(slots=True)
class Rows(Node):
    """An array literal: `[1, 2]` has one entry in `rows` and is_matrix False; `[1 2; 3 4]` two, and so has
    `[1; 2]`, whose entries may be arrays."""

    rows: tuple[tuple[Node, ...], ...]
    is_matrix: bool


@record(slots=True)
class Numbers(Node):
    """An array literal of many numbers, as Rows of literals would be: `is_matrix` False has one row."""

    rows: tuple[tuple[int | float, ...], ...]
    is_matrix: bool


@record(slots=True)
class Group(Node):
    """A tuple: `(a, b)`."""

    items: tuple[Node, ...]


@record(slots=True)
class Splat(Node):
    """`v...`: the entries of a value in the place of one argument or element."""

    value: Node


@record(slots=True)
class Colon(Node):
    """`:` alone as an index: all of a dimension."""


@record(slots=True)
class KeywordCall(Node):
    """A call with keyword arguments `f(a; k = v)` / `f(a, k = v)`; names and values in `keywords`."""

    op: Node
    args: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...]


@record(slots=True)
class Parametric(Node):
    """`Name{p, q}`: what a parametrised constructor is called by."""

    name: str
    parameters: tuple[Node, ...]


@record(slots=True)
class Let(Node):
    """A script assignment `target = value`; targets are Variables or Accesses; more than one is a
    tuple assignment. `op` is the operator of `x += 1`, or None."""

    targets: tuple[Node, ...]
    op: str | None
    value: Node


@record(slots=True)
class Function(Node):
    """`function name(parameters...) ... end` or `name(parameters...) = body`; `types` are the declared
    types of parameters, and `defaults` the values of those that may be left out, by their names."""

    name: str
    parameters: tuple[str, ...]
    body: Node
    defaults: tuple[tuple[str, Node], ...] = ()
    types: tuple[tuple[str, str], ...] = ()


@record(slots=True)
class Return(Node):
    """`return value` in a function; value is None for a bare `return`."""

    value: Node | None


@record(slots=True)
class While(Node):
    """`while condition ... end`."""

    condition: Node
    body: Node


@record(slots=True)
class For(Node):
    """`for variable in iterable ... end` in the script stratum; with `names` each entry, which is
    `variable` as a whole, is unpacked into them. `break` in one that is `joined` leaves the loop around
    it, too, with which it is written: `for i in a, j in b`."""

    variable: str
    iterable: Node
    body: Node
    names: tuple[str, ...] = ()
    joined: bool = False


@record(slots=True)
class If(Node):
    """`if/elseif/else`: (condition, body) pairs; the `else` part has the Literal `true`."""

    branches: tuple[tuple[Node, Node], ...]


@record(slots=True)
class Break(Node):
    """`break`."""


@record(slots=True)
class Continue(Node):
    """`continue`."""


@record(slots=True)
class Macro(Node):
    """`@time e`, `@assert e`, `@__DIR__`: name without the `@`, and its operands."""

    name: str
    args: tuple[Node, ...]


@record(slots=True)
class Schedule(Node):
    """`@schedule name(args...)` before a kernel: a rewriting of its program. Arguments that are indices
    are Index nodes (also new ones), lists of them Groups."""

    name: str
    args: tuple[Node, ...]


@record(slots=True)
class Policy(Node):
    """`@workspace tensor policy=... capacity=...` before a kernel; "" or 0 where it is not given."""

    tensor: Variable
    policy: str = ""
    capacity: int = 0


@record(slots=True)
class Annotated(Node):
    """The program of a kernel with the annotations before it, which do not change what it means."""

    annotations: tuple[Node, ...]
    program: Node


@record(slots=True)
class KernelNode(Node):
    """`@finch stmt`: a Finch program inside a script, `Annotated` where there are annotations.
    `decisions` of a planned program: (name of the planner, what it decided)."""

    program: Node
    decisions: tuple[tuple[str, str], ...] = field(default=(), compare=False, kw_only=True)


@record(slots=True)
class Script(Node):
    """A whole file, or what stands between `begin` and `end` in the script stratum."""

    statements: tuple[Node, ...]


@record(slots=True)
class Lambda(Node):
    """`x -> body`, `(x, y) -> body`; what follows a call's `do` is one with a Script."""

    parameters: tuple[str, ...]
    body: Node


@record(slots=True)
class Broadcast(Node):
    """`op.(args...)`: a function of the elements."""

    op: Node
    args: tuple[Node, ...]


@record(slots=True)
class Comprehension(Node):
    """`[value for names in iterables if condition]`, a loop for each iterable, whose entries are
    unpacked if it has several names; `is_grid` if each loop is a dimension."""

    value: Node
    names: tuple[tuple[str, ...], ...]
    iterables: tuple[Node, ...]
    condition: Node | None
    is_grid: bool


@record(slots=True)
class Local(Node):
    """`let name = value, ... end`: the names are the body's own."""

    values: tuple[tuple[str, Node], ...]
    body: Node


@record(slots=True)
class Try(Node):
    """`try body catch name handler finally last end`; the name may be "", the others None."""

    body: Node
    name: str
    handler: Node | None
    last: Node | None
