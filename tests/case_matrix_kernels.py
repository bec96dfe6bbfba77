"""The factors of the matrix of cases, and what a case is: its kernel, and the data to run it on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

if __package__:
    from tests.case_matrix_data import Sampler, mapped, mirrored, tensor
    from tests.case_matrix_shapes import FORMS
else:
    from case_matrix_data import Sampler, mapped, mirrored, tensor
    from case_matrix_shapes import FORMS

from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.types import Type, type_of_value

ONE_MODE = (
    *("Dense", "RunList", "PackBits", "Ragged", "SparseList", "SparseByteMap", "SparseHash"),
    *("SparseCOO{1}", "SparsePinpoint", "SparseBand", "SparseBlockList", "SparseRunList"),
    "SparseInterval",
)
PACKED = ("LowerTriangular", "UpperTriangular", "Symmetric")
TWO_MODES = ("SparseHash{2}", "SparseCOO{2}", *PACKED)
#: levels over a leaf alone; each is alone in a nest
ALONE = (
    "Workspace",
    "Interleaved",
    *(f"Workspace{{2{p}}}" for p in ("", ", coord, 3", ", hash, 2", ", bucket")),
)
#: levels that cannot hold everything
LIMITED = ("SparsePinpoint", "SparseInterval", *PACKED)
#: reads with each protocol; modes whose level does not have it are left to their own
ACTIONS = (*(f"read {protocol}" for protocol in ("walk", "gallop", "follow")), "write", "update")
CONTEXTS = ("one", "two", "mask", "offset", "permissive", "transposed", "overfull", *FORMS)


@dataclass(frozen=True)
class Operation:
    """An operator: as an update and as an expression, its identity for a type, and the leaves it is
    tried on."""

    sign: str
    expression: str
    identity: Callable[[Type], Any]
    leaves: tuple[str, ...]


OPERATIONS = {
    "+": Operation(
        "+=", "{} + {}", lambda t: 0, ("Element(0.0)", "Element(Float32(1))", "Element(Int8(0))")
    ),
    "*": Operation(
        "*=", "{} * {}", lambda t: 1, ("Element(0.0)", "Element(1.0)", "Element(Int32(0))")
    ),
    "min": Operation(
        "<<min>>=",
        "min({}, {})",
        lambda t: t.highest,
        ("Element(Inf)", "Element(0.0)", "Element(Int64(9))"),
    ),
    "|": Operation(
        "|=",
        "{} | {}",
        lambda t: 0,
        ("Pattern()", "Element(0)", "Element(UInt8(0))", "Element(false)"),
    ),
    "&&": Operation(
        "<<&&>>=", "{} && {}", lambda t: True, ("Pattern()", "Element(true)", "Element(false)")
    ),
    "choose": Operation(
        "<<choose(0)>>=",
        "choose(0)({}, {})",
        lambda t: 0,
        ("Element(0)", "Element(0.0)", "Element(Float32(2))"),
    ),
}
#: levels that hold everything, and those that store nothing but what they are given
UNLIMITED = tuple(level for level in ONE_MODE + TWO_MODES if level not in LIMITED)
EXACT = (
    *("SparseList", "SparseByteMap", "SparseCOO{1}", "SparseHash", "SparseBlockList"),
    *("SparseCOO{2}", "SparseHash{2}"),
)


def modes(level: str) -> int:
    return 2 if level in TWO_MODES or "{2" in level else 1


def order(nest: tuple[str, ...]) -> int:
    return sum(map(modes, nest))


@dataclass(frozen=True)
class MatrixCase:
    """One kernel: a tensor of `nest` (outermost first) over `leaf` is read, written or updated, in
    some context, with an operator. `number`, its place in the matrix, settles what else there is to
    choose: the formats of the other tensors, and the data."""

    number: int
    nest: tuple[str, ...]
    leaf: str
    action: str
    operator: str
    context: str

    @property
    def format(self) -> str:
        return "(".join((*self.nest, self.leaf)) + ")" * len(self.nest)

    @property
    def name(self) -> str:
        return f"{self.format} {self.action} {self.operator} {self.context}"

    @property
    def level(self) -> Level:
        """Raises FinchError if there can be no such format."""
        return parse_format(self.format)

    @property
    def type(self) -> Type:
        return self.level.element_type

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.operator]

    @property
    def is_read(self) -> bool:
        return self.action.startswith("read")

    @property
    def operands(self) -> int:
        return 2 if self.context == "two" else 1

    @property
    def workspaces(self) -> bool:
        """Whether what is written across its order may go through a workspace."""
        return bool(self.number // 2 % 2)

    @property
    def letters(self) -> str:
        """The indices, first mode first."""
        added = FORMS[self.context].added if self.context in FORMS else 0
        return "ijklp"[: order(self.nest) + added]

    def within(self, name: str) -> str:
        """A tensor of the nest as it is accessed: within an operator, where that is the context."""
        if self.context not in FORMS:
            return name
        form = FORMS[self.context]
        return form.text(name, order(self.nest), self.number, not self.is_read)

    # ------------------------------------------------------------------ the kernel

    @property
    def text(self) -> str:
        """The statements of the kernel, which updates C, a tensor or, in some reads, a scalar."""
        if not self.is_read:
            sign = "=" if self.start and self.operands == 2 else self.operation.sign
            target = f"{self.within('C')}[{self.place}]"
            return self.start + self.nested(f"{target} {sign} {self.combined(self.place)}")
        value = self.combined(self.with_protocol())
        start = f"C .= {shown(self.result_fill)}\n"
        if self.operands == 2:
            return start + self.nested(f"C[{self.place}] = {value}")
        target = "" if self.number % 2 else "i + 1" if self.context == "offset" else "i"
        return start + self.nested(f"C[{target}] {self.operation.sign} {value}")

    @property
    def start(self) -> str:
        if self.action == "update":
            return ""
        fill = shown(self.level.fill.value)
        if self.context in FORMS:
            sizes = (f"1:n{k + 1}" for k in range(order(self.nest)))
            return f"@declare(C, {fill}, {', '.join(sizes)})\n"
        if self.context != "permissive":
            return f"C .= {fill}\n"
        return f"@declare(C, {fill}, {', '.join(f'1:n{x}' for x in self.letters)})\n"

    def index(self, letter: str) -> str:
        """How a tensor is accessed by an index: plainly, or offset, or beyond its ends."""
        shifted = {"offset": f"{letter} + 1", "permissive": f"~({letter} - 2)"}
        return shifted.get(self.context, letter)

    @property
    def place(self) -> str:
        return ", ".join(map(self.index, self.letters))

    def with_protocol(self) -> str:
        protocol = self.action.removeprefix("read ")
        levels = [level for level in self.level.levels() for _ in range(level.modes)]
        if self.context in FORMS:
            has_all = all(protocol in level.protocols for level in levels if not level.is_leaf)
            return ", ".join(f"{protocol}({x})" if has_all else x for x in self.letters)
        indices = []
        for letter, level in zip(self.letters, reversed(levels), strict=True):
            index = self.index(letter)
            indices.append(f"{protocol}({index})" if protocol in level.protocols else index)
        return ", ".join(indices)

    def combined(self, place: str) -> str:
        value = f"{self.within('A') if self.is_read else 'A'}[{place}]"
        if self.is_read and self.context == "permissive":
            value = f"coalesce({value}, {'true' if self.type.kind == 'bool' else '2'})"
        if self.operands == 1:
            return value
        return self.operation.expression.format(value, f"B[{self.place}]")

    def nested(self, statement: str) -> str:
        beyond = ("1:9", "1:7", "1:5", "1:5")[order(self.nest) - 1]  # all there is, and more
        extent = beyond if self.context == "permissive" else "_"
        letters = self.letters if self.context == "transposed" else reversed(self.letters)
        if self.context == "mask":
            statement = f"if {self.mask}\n {statement}\n end"
        return f"for {', '.join(f'{x} = {extent}' for x in letters)}\n {statement}\nend"

    @property
    def mask(self) -> str:
        """A condition on the first and the last index; for packed levels the one that holds in the
        half they store."""
        if len(self.letters) == 1:
            return "2 <= i <= 3"
        first, last, sign = self.letters[0], self.letters[-1], "<="
        for k, level in enumerate(self.nest):
            if level in PACKED:
                below = order(self.nest[k + 1 :])
                first, last = self.letters[below], self.letters[below + 1]
                sign = ">=" if level == "LowerTriangular" else "<="
        return f"{first} {sign} {last}"

    # ------------------------------------------------------------------ the data

    @property
    def result_fill(self) -> Any:
        """What reads start from: the operator's identity, of a type with room for the results."""
        kind = self.type.kind
        if kind == "bool" and self.operator in ("|", "&&"):
            return self.operator == "&&" and self.operands == 1
        if self.operands == 2:
            return 0.0 if kind == "float" else 0
        value = 99 if self.operator == "min" else self.operation.identity(self.type)
        return float(value) if kind == "float" else int(value)

    def other(self, which: int, levels: tuple[str, ...], fill: Any, type: Type) -> Level:
        """The format of another tensor, number `which` of this case, of the same order, made of
        some of `levels`."""
        pick = random.Random(10 * self.number + which)
        names: list[str] = []
        while left := len(self.letters) - order(tuple(names)):
            pool = (*levels, "Dense") if left > 1 else levels
            names.append(pick.choice([level for level in pool if modes(level) <= left]))
        leaf = Element(typed_literal(fill, type))
        return parse_format("(".join((*names, str(leaf))) + ")" * len(names))

    @property
    def partner(self) -> Level:
        """The format of what is read together with A."""
        return self.other(0, ONE_MODE + TWO_MODES, self.number % 2, self.type)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Two small ones, of which the second may be empty."""
        count, is_empty = order(self.nest), self.number % 3 == 0
        is_paired = self.is_read and self.operands == 2
        levels = [*self.level.levels(), *(self.partner.levels() if is_paired else ())]
        if any(type(level).__name__ in PACKED for level in levels):
            return [((0, 4, 3, 2)[count - 1],) * count, (0 if is_empty else 2,) * count]
        some = ((6,), (4, 3), (3, 2, 3), (2, 2, 2, 3))[count - 1]
        other = list(some[::-1])
        if is_empty:
            other[self.number % count] = 0
        return [some, tuple(other)]

    def data(self) -> Iterator[dict[str, Any]]:
        """What the kernel is run on, one after the other: some data, much or none."""
        shapes = self.shapes[:1] if self.context == "overfull" else self.shapes
        for k, shape in enumerate(shapes):
            seed, density = 2 * self.number + k, (0.5, 0.9)[k]
            make = self.read_data if self.is_read else self.write_data
            yield make(seed, density, shape)

    def read_data(self, seed: int, density: float, shape: tuple[int, ...]) -> dict[str, Any]:
        may_store_fill = density > 0.8 and not any(level in LIMITED for level in self.nest)
        array = mirrored(Sampler(seed, density).array(self.level, shape), self.level)
        given: dict[str, Any] = {"A": tensor(array, self.level, may_store_fill)}
        fill = self.result_fill
        if self.context in FORMS:
            given |= self.around(shape)
        if self.operands == 2:
            partner = self.partner
            array = mirrored(Sampler(seed + 1, 0.6).array(partner, shape), partner)
            given["B"] = tensor(array, partner)
            result = self.other(1, UNLIMITED, fill, type_of_value(fill))
            return given | {"C": Tensor(result, *(0,) * len(shape))}
        vector = f"Dense(Element({shown(fill)}))"
        return given | {"C": Scalar(fill) if self.number % 2 else Tensor(vector, 0)}

    def write_data(self, seed: int, density: float, shape: tuple[int, ...]) -> dict[str, Any]:
        """Operands that differ from their fills where C may be written: in the same places as
        another tensor of C's format, and with equal values where that has equal values."""
        level = self.level
        if self.context == "overfull":
            nest = tuple(f"SparseHash{{{modes(lv)}}}" for lv in self.nest)
            level = MatrixCase(0, nest, self.leaf, "", "", "").level
            density = 1.0
        array = Sampler(seed, density, True, self.context == "mask").array(level, shape)
        identity = self.operation.identity(self.type)
        is_plain_write = self.action == "write" and self.operands == 2
        fills = (level.fill.value if is_plain_write else identity, identity)
        levels = EXACT if any(name in LIMITED for name in self.nest) else UNLIMITED
        given: dict[str, Any] = {}
        outer = FORMS[self.context].array(array, self.number) if self.context in FORMS else array
        for which, name in enumerate("AB"[: self.operands]):
            other = self.other(which, levels, fills[which], self.type)
            given[name] = tensor(mapped(outer, level, other), other)
        if self.context in FORMS:
            given |= self.around(shape) | {f"n{k + 1}": n for k, n in enumerate(shape)}
        if self.action == "update":
            own = array if level is self.level else np.full_like(array, level.fill.value)
            return given | {"C": Tensor.from_numpy(mirrored(own, self.level), self.level)}
        size = 2 if self.number % 2 else 0  # of what it held before, which is forgotten
        given["C"] = Tensor(self.level, *(size,) * len(shape))
        if self.context == "permissive":
            given |= {f"n{x}": n for x, n in zip(self.letters, shape, strict=True)}
        return given

    def around(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What an operator takes besides the tensor of the nest."""
        given: dict[str, Any] = dict(FORMS[self.context].numbers(shape, self.number))
        if self.context == "concat":
            other = self.other(2, UNLIMITED if self.is_read else ("Dense",), 0, self.type)
            given["D"] = Tensor.from_numpy(np.full(shape, 0, self.type.dtype), other)
            if not self.is_read:
                return given
            array = Sampler(self.number, 0.5).array(other, shape)
            given["D"] = tensor(mirrored(array, other), other)
        return given


def shown(value: Any) -> str:
    """A value as a program writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "Inf" if value == float("inf") else repr(value)
