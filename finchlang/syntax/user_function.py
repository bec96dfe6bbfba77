"""Functions of the script as operators of kernels, as data, with laws (SparseArray'21 sections 4, 5)."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any, ClassVar

from finchlang.base.records import record
from finchlang.syntax.nodes import Call, Literal, Node, Variable

#: the comparisons that bound a range
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@record(slots=True)
class Case(Node):
    """What a function is for arguments that match `patterns`: a Literal matches this value, a name any
    value, but the same one wherever it stands. It is then `result`, an operator, of the named ones."""

    patterns: tuple[Node, ...]
    result: Node


@record(slots=True)
class Laws(Node):
    """What a script declares of a function (SparseArray'21 sections 4 and 5).

    `properties` are names of `Operator`'s fields. `identity` and `annihilators` (Literals), and
    `distributes` (operators), each have the argument that they are about, counted from 1 (None: each).
    `region` is the arguments' names and a set expression over them. `ranged` laws hold over a range only.
    """

    properties: tuple[str, ...] = ()
    identity: tuple[Literal, int | None] | None = None
    annihilators: tuple[tuple[Literal, int | None], ...] = ()
    distributes: tuple[tuple[Node, int | None], ...] = ()
    inverse: Node | None = None
    cases: tuple[Case, ...] = ()
    region: tuple[tuple[Node, ...], Node] | None = None
    ranged: tuple[Ranged, ...] = ()

    @property
    def known(self) -> Laws:
        """All laws that hold, with those of ranges that the operands are known to lie in."""
        found = self
        for more in (r.laws for r in self.ranged if r.known):
            found = replace(
                found,
                properties=found.properties + more.properties,
                identity=found.identity or more.identity,
                annihilators=found.annihilators + more.annihilators,
                distributes=found.distributes + more.distributes,
                inverse=found.inverse or more.inverse,
            )
        return found


@record(slots=True)
class Ranged(Node):
    """Laws that hold where all operands lie in a range, given by `bounds`: comparisons of a name with
    Literals, which must hold of each. `known` are the names of the kernel whose values lie there at this
    call of the kernel; they are left out of a call in it that has other operands."""

    bounds: tuple[Call, ...]
    laws: Laws
    known: tuple[str, ...] = ()

    def holds(self, value: Any) -> bool:
        bound: Any
        for bound in self.bounds:
            sides = (value if isinstance(arg, Variable) else arg.value for arg in bound.args)
            if not COMPARISONS[bound.op.name](*sides):
                return False
        return True

    @property
    def near(self) -> tuple[Any, ...]:
        """Some numbers in the range and near its ends, to try laws on."""
        ends = [arg.value for b in self.bounds for arg in b.args if isinstance(arg, Literal)]
        between = [min(ends) + (max(ends) - min(ends)) * k / 8 for k in range(9)]
        return *between, *(end + step for end in ends for step in (-30, -7.5, -3, 3, 7.5, 30))


@record(slots=True)
class Operation(Node):
    """A function of the script as an operator of kernels, whole: it stands where an operator does, as
    `op` of a Call or of an Assign.

    `body` is an expression of the parameters, or a Script whose ways all end in `return`. All other
    names in it are its own: numbers of the script around it are Literals there, and the functions it
    calls are Operations, as they were when the kernel was called. `script/as_operator.py` makes it.
    """

    name: str
    parameters: tuple[str, ...]
    body: Node
    laws: Laws = Laws()

    is_leaf: ClassVar[bool] = True  # walks do not enter the body, whose names are not the kernel's

    def __hash__(self) -> int:
        # equality compares the body; hashing it, too, would walk all of it each time
        return hash((self.name, self.parameters))


@record(slots=True)
class Itself(Node):
    """The function in whose body it stands, where that calls itself. Kernels have none: what runs a loop
    of a script as a whole has."""

    name: str

    is_leaf: ClassVar[bool] = True
