"""Random tensors for random programs: every format, element type and fill, NumPy arrays in any layout
and SciPy matrices, with small whole numbers and some sizes of 0."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from finchlang.script.tensors import copy_of
from finchlang.source import FinchError
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.pattern import Pattern
from finchlang.tensors.scalars import SCALARS
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import TYPES, Type

INTEGERS = tuple(t for t in TYPES.values() if t.is_integer)
#: how often a level is chosen
LEVELS = {
    **{"Dense": 6, "SparseList": 6, "SparseByteMap": 3, "SparseHash": 1.5, "SparseCOO": 1.5},
    **{"RunList": 1, "SparseRunList": 1, "PackBits": 1, "SparseBlockList": 1, "SparseBand": 1},
    **{"SparsePinpoint": 0.6, "SparseInterval": 0.6, "Ragged": 0.6, "Interleaved": 0.6},
    **{"UpperTriangular": 1.5, "LowerTriangular": 1.5, "Symmetric": 1.5, "Workspace": 2},
}
OF_TWO_MODES = ("UpperTriangular", "LowerTriangular", "Symmetric")
OF_ANY_MODES = ("SparseHash", "SparseCOO", "Interleaved")


@dataclass(frozen=True)
class Case:
    """One kernel, statement by statement, and what its free names are bound to. Workspaces that are
    inserted have the `policy`, with its capacity, if there is one. `functions` are those it calls."""

    statements: tuple[str, ...]
    data: dict[str, Any]
    policy: tuple[str, int] | None = None
    functions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "begin\n" + "\n".join(self.statements) + "\nend"

    def bindings(self) -> dict[str, Any]:
        """A copy of the data, for one engine to change."""
        return {name: _copy(value) for name, value in self.data.items()}

    def __str__(self) -> str:
        lines = [*self.functions, self.text, ""]
        if self.policy is not None:
            lines.append(f"workspaces that can have it: policy {self.policy}")
        for name, value in self.data.items():
            kind = getattr(value, "format", None) or type(value).__name__
            shown = value
            if isinstance(value, (Tensor, SwizzledTensor, Scalar)):
                shown = value.to_numpy()
            elif not isinstance(value, (int, float, bool, np.ndarray)):
                shown, kind = value.toarray(), f"{type(value).__name__}, {value.dtype}"
            if isinstance(shown, np.ndarray):
                shown = f"{shown.shape} {shown.dtype} {shown.tolist()}"
            lines.append(f"{name}: {kind} = {shown}")
        return "\n".join(lines)


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.base is not None:
        steps = [slice(None)] + [slice(None)] * (value.ndim - 1)
        wide = np.zeros((2 * value.shape[0], *value.shape[1:]), value.dtype)
        steps[0] = slice(None, None, 2)
        view = wide[tuple(steps)]  # strided, as the original
        view[...] = value
        return view
    return value.copy() if scipy.sparse.issparse(value) else copy_of(value)


class DataGenerator:
    """Random data of one kind: "float", "int", "bool", or "minplus" with fills of Inf."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.kind = self.random.choices(("float", "int", "bool", "minplus"), (5, 4, 2, 2))[0]
        self.often_zero = 0.8  # how often a fill is
        self.only_fill: Any = None  # what all fills are, if not None

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick_type(self, output: bool) -> Type:
        pick = self.random.choice
        if self.kind == "bool":
            return TYPES["Bool"]
        if self.kind == "int":
            return TYPES["Int64"] if self.chance(0.5) else pick(INTEGERS)
        floats = TYPES["Float64"] if self.chance(0.8) else TYPES["Float32"]
        if output or self.kind == "minplus" or self.chance(0.8):
            return floats
        return pick((*INTEGERS, TYPES["Bool"]))

    def value(self, type: Type) -> Any:
        if type.kind == "bool":
            return self.chance(0.7)
        if type.kind == "uint":
            return self.random.randint(0, 4)
        whole = self.random.randint(-3, 3)
        return float(whole) if type.is_float else whole

    def fill(self, type: Type) -> Any:
        if self.only_fill is not None:
            return type.wrap(self.only_fill)
        if self.kind == "minplus" and type.is_float and self.chance(0.7):
            return float("inf")
        return 0 if self.chance(self.often_zero) else self.value(type)

    def format(self, dims: tuple[str, ...], type: Type) -> Level:
        """A random nest of levels over dimensions by name; a Pattern for Bool now and then, where
        the level above it may have one. Levels of square matrices stand over equal dimensions."""
        level: Level = Element(typed_literal(self.fill(type), type))
        if type.kind == "bool" and dims and self.only_fill is not True and self.chance(0.5):
            level = Pattern()
        done = 0
        while done < len(dims):
            is_square = len(set(dims[done : done + 2])) == 1 and len(dims) >= done + 2
            kinds = [k for k in LEVELS if k not in OF_TWO_MODES or is_square]
            if done:
                kinds.remove("Workspace")
            kind = self.random.choices(kinds, [LEVELS[k] for k in kinds])[0]
            modes = 2 if kind in OF_TWO_MODES else 1
            parameters = []
            if kind in OF_ANY_MODES:
                modes = self.random.randint(1, len(dims) - done)
                parameters.append(str(modes))
            if (
                kind == "Workspace"
            ):  # of all modes; if batches cannot be merged, a capacity is refused
                modes = len(dims)
                parameters += [str(modes), self.random.choice(("coord", "hash", "bucket"))]
                parameters += self.random.choice(([], ["1"], ["2"], ["3"]))
            if kind.startswith("Sparse") and self.chance(0.3):
                parameters.append(self.random.choice(("Int32", "Int64")))
            text = f"{kind}{{{', '.join(parameters)}}}" if parameters else kind
            try:
                level = parse_format(f"{text}({level})")
            except FinchError:  # it stores what is not written, and cannot stand above a Pattern
                continue
            done += modes
        return level

    def places(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Random places, or runs along the first mode, or one triangle."""
        density = self.random.choice((0.0, 0.2, 0.4, 0.7, 1.0))
        everywhere = list(itertools.product(*map(range, shape)))
        form = self.random.random()
        if form < 0.2 and shape:
            low, high = sorted(self.random.randint(0, shape[0]) for _ in range(2))
            return [p for p in everywhere if low <= p[0] < high]
        if form < 0.3 and len(shape) > 1:
            return [p for p in everywhere if p[0] <= p[1]]
        return [p for p in everywhere if self.chance(density)]

    def tensor(self, level: Level, shape: tuple[int, ...], type: Type) -> Tensor:
        """Random entries, among them some that are stored though they are the fill; as many as the
        format can hold."""
        places = self.places(shape)
        same = self.value(type) if self.chance(0.3) else None
        values = [self.value(type) if same is None else same for _ in places]
        if isinstance(level.leaf, Pattern):
            values = [True] * len(places)
        while True:
            coordinates = np.array(places, np.int64).reshape(len(places), len(shape)).T
            try:
                return Tensor.from_coo(level, shape, coordinates, np.array(values, type.dtype))
            except FinchError:
                if not places:
                    raise
                keep = sorted(self.random.sample(range(len(places)), len(places) * 2 // 3))
                places, values = [places[k] for k in keep], [values[k] for k in keep]

    def scalar(self, type: Type) -> Scalar:
        """A scalar of any kind."""
        kind = "Scalar" if self.chance(0.5) else self.random.choice(sorted(SCALARS))
        return Scalar(SCALARS[kind](typed_literal(self.fill(type), type)), self.value(type))

    def foreign(self, shape: tuple[int, ...], type: Type) -> tuple[Any, Level]:
        """A NumPy array (C or Fortran order, or strided) or a SciPy matrix (CSC or CSR)."""
        dense = self.tensor(Dense(Element(typed_literal(0, type))), (int(np.prod(shape)),), type)
        array = dense.to_numpy().reshape(shape)
        level: Level = Element(typed_literal(0, type))
        if len(shape) == 2 and type.kind != "bool" and self.chance(0.5):
            make = self.random.choice((scipy.sparse.csc_array, scipy.sparse.csr_array))
            return make(array), Dense(SparseList(level))
        for _ in shape:
            level = Dense(level)
        layout = self.random.choice(("C", "F", "strided"))
        if layout == "strided":
            wide = np.zeros((2 * shape[0], *shape[1:]), array.dtype)
            wide[::2] = array
            return wide[::2], level
        return np.array(array, order=layout), level  # type: ignore[call-overload]


def typed_text(value: Any) -> str:
    """A value as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).replace("inf", "Inf")
