"""Binsparse files (`.bsp.h5`, `.bsp.npz`, `.bsp.zarr`): tensors level by level, read and written by
the standard's reference library.

The standard's levels are dense or sparse, of any rank, over elements. Its outermost level has the first
dimension, ours the last; the descriptor's `transpose` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.paths import check_memory, failure
from finchlang.levels.dense import Dense
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Level
from finchlang.levels.pattern import Pattern
from finchlang.levels.sparse_coo import SparseCOO
from finchlang.levels.sparse_list import SparseList
from finchlang.syntax.types import Int64, Type, type_of_dtype
from finchlang.tensors.convert import convert
from finchlang.tensors.entries import mirrored
from finchlang.tensors.formats import modes_of, nest_of
from finchlang.tensors.tensor import AnyTensor, Scalar, SwizzledTensor, Tensor, body_of

#: the structures of matrices of which a file holds one triangle
STRUCTURES = tuple(
    f"{kind}_{half}" for kind in ("symmetric", "skew_symmetric") for half in ("lower", "upper")
)

#: levels, outermost first, and the storage of each
Stored = tuple[Level, list[dict[str, Any]]]


def read_binsparse(file: Path) -> AnyTensor:
    """The tensor in a file: Dense, SparseList and SparseCOO levels as in the file, swizzled if the order of
    modes is another (CSR is a swizzled CSC). Values stored once for all (`iso`) become a Pattern if they
    are true. A symmetric or skew-symmetric matrix stored as a triangle is completed. Raises FinchError
    "I/O" if the library is missing, "type" for complex numbers, "resource" for a file larger than the
    memory; ValueError for a damaged file."""
    library, containers = _library("read", file)
    with containers.opened(file) as container:
        parsed = library.BinsparseTensor.parse(container, alias=False)
        return _Reader(file, library, parsed, container.read_header()).tensor()


def write_binsparse(out: BinaryIO | Path, tensor: AnyTensor, suffix: str) -> None:
    """Write a tensor to a file or an empty folder; levels that the standard does not have become dense or
    sparse ones. Raises FinchError "I/O" if the library is missing, "type" for pairs."""
    library, containers = _library("write", "a Binsparse file")
    if tensor.dtype.names:
        raise FinchError("type", "a Binsparse file holds numbers, not pairs")
    with containers.created(out, suffix) as container:
        _custom(library, tensor).serialize(container, alias=True)


def _library(what: str, path: Any) -> tuple[Any, Any]:
    """The reference library, and our module of its containers. Raises FinchError "I/O"."""
    try:
        import binsparse

        from finchlang.files import binsparse_containers
    except ImportError:
        why = "it takes the library binsparse, which is not installed"
        raise failure(what, path, why, hint="pip install finchlang[hdf5]") from None
    return binsparse, binsparse_containers


# ---------------------------------------------------------------------------------------- writing


def _custom(library: Any, tensor: AnyTensor) -> Any:
    transpose = tuple(name - 1 for name in reversed(modes_of(tensor.format)))
    if isinstance(tensor, Scalar):
        level, count = library.ElementLevel(tensor.to_numpy().reshape(1)), 1
    else:
        body = _nameable(body_of(tensor))
        level, count = _described(library, iter(body._parts()), 1, False)
    has_fill = bool(tensor.fill != 0)
    return library.CustomTensor(
        shape=tensor.shape,
        number_of_stored_values=count,
        fill=True if has_fill else None,
        fill_value=tensor.dtype.type(tensor.fill) if has_fill else None,
        level=level,
        transpose=None if transpose == (*range(tensor.order),) else transpose,
    )


def _described(library: Any, parts: Iterator[Any], count: int, is_inner: bool) -> tuple[Any, int]:
    """The remaining levels of `parts`, of `count` fibers, as the library's, and the number of values."""
    level, storage, sizes = next(parts)
    if isinstance(level, Dense):
        child, values = _described(library, parts, count * sizes[0], True)
        return library.DenseLevel(1, child), values
    if isinstance(level, Pattern):  # `iso`: one value for all, by an array of stride 0
        true = np.lib.stride_tricks.as_strided(np.ones(1, bool), (max(count, 1),), (0,))
        return library.ElementLevel(true), count
    if level.is_leaf:
        return library.ElementLevel(storage["val"][:count]), count
    stored = int(storage["ptr"][count])
    child, values = _described(library, parts, stored, True)
    names = level.names() if isinstance(level, SparseCOO) else ("idx",)
    rows = tuple(storage[name][:stored] for name in reversed(names))
    pointers = storage["ptr"][: count + 1] if is_inner else None
    return library.SparseLevel(level.modes, child, rows, pointers), values


def _nameable(tensor: Tensor) -> Tensor:
    """The tensor in levels that the standard has; itself if all of its levels are such."""
    levels = list(tensor.format.levels())
    named = levels[-1]
    for level in reversed(levels[:-1]):
        if isinstance(level, (Dense, SparseList, SparseCOO)):
            named = level.with_child(named)
        elif level.modes > 1:
            named = SparseCOO(named, Int64, level.modes)
        elif level.stores_fill and level.has_all_positions:
            named = Dense(named)
        else:
            named = SparseList(named)
    return tensor if named == tensor.format else convert(named, tensor)


# ---------------------------------------------------------------------------------------- reading


class _Reader:
    """Makes a tensor of the library's object. Raises ValueError for a damaged file."""

    def __init__(self, file: Path, library: Any, parsed: Any, header: dict[str, Any]):
        self.file, self.library, self.parsed = file, library, parsed
        order = len(parsed.shape)
        self.transpose = parsed.transpose or tuple(range(order))
        self.structure, self.base = header.get("structure", "general"), header.get("index_base", 0)
        if self.base not in (0, 1):
            raise ValueError(f"its indices count from {self.base}")
        if self.structure not in ("general", *STRUCTURES):
            raise ValueError(f"its structure `{self.structure}` is not known for real numbers")
        if self.structure != "general" and (order != 2 or len(set(parsed.shape)) > 1):
            raise ValueError(f"a {self.structure} tensor is a square matrix")

    def tensor(self) -> AnyTensor:
        shape = [self.parsed.shape[k] for k in reversed(self.transpose)]
        level, storage = self._levels(self.parsed.level, 0, 1, False)
        if not shape:
            return Scalar(level.fill.value, storage[0]["val"][0])
        body = Tensor.from_storage(level, shape, storage, checked=False)
        try:
            body.validate()
        except FinchError as error:
            raise ValueError(error.message) from None
        permutation = tuple(k + 1 for k in reversed(self.transpose))
        if self.structure != "general":
            body = _expanded(body, self.structure, permutation == (2, 1))
        is_straight = permutation == modes_of(body.format)
        return body if is_straight else SwizzledTensor(body, permutation)

    def _levels(self, found: Any, depth: int, count: int, is_sparse: bool) -> Stored:
        """The format and the storage of the levels from `found` on, the first of them for the dimension
        `depth` of the file, with `count` fibers; `is_sparse` tells of the level above."""
        if isinstance(found, self.library.ElementLevel):
            return self._leaf(found.values, count, is_sparse)
        sizes = [self.parsed.shape[k] for k in self.transpose[depth : depth + found.rank]]
        inner = depth + found.rank
        if isinstance(found, self.library.DenseLevel):
            level, storage = self._levels(found.level, inner, count * math.prod(sizes), False)
            return nest_of([True] * found.rank, level), [*({} for _ in sizes), *storage]
        index, own = self._sparse(found, depth, count, max(sizes))
        level, storage = self._levels(found.level, inner, own["stored"], True)
        if found.rank > 1:
            return SparseCOO(level, index, found.rank), [own, *storage]
        return SparseList(level, index), [own, *storage]

    def _sparse(self, found: Any, depth: int, count: int, size: int) -> tuple[Type, dict[str, Any]]:
        """The index type and the storage of a sparse level of `count` fibers, the largest of whose
        dimensions is `size`. Pointers and indices are made to count from 0."""
        rows, ptr = found.indices, found.pointers_to_next
        stored = len(rows[0])
        if any(len(row) != stored for row in rows):
            raise ValueError(f"it has different numbers of indices for dimensions from {depth}")
        if ptr is None:
            first = self.base
            ptr = np.array([first, stored + first], rows[0].dtype if stored < 100 else np.int64)
        elif len(ptr) != count + 1:
            raise ValueError(f"pointers_to_{depth} has {len(ptr)} entries, not {count + 1}")
        if any(array.dtype.kind not in "iu" for array in (ptr, *rows)):
            raise ValueError("its indices are no integers")
        is_list = found.rank == 1
        index = _index_type([ptr, *rows] if is_list else [*rows], max(size, stored))
        ptr = (ptr - self.base).astype(index.dtype if is_list else Int64.dtype)
        if int(ptr[-1]) != stored:
            raise ValueError(f"pointers_to_{depth} ends at {ptr[-1]}, not at {stored}")
        rows = [(row - self.base).astype(index.dtype) for row in rows]
        names = ["idx"] if is_list else [f"idx{k + 1}" for k in range(found.rank)]
        own = dict(zip(names, reversed(rows), strict=True))
        return index, {"ptr": ptr, **own, "stored": stored}

    def _leaf(self, values: np.ndarray, count: int, is_sparse: bool) -> Stored:
        if len(values) != count:
            raise ValueError(f"it has {len(values)} values for {count} positions")
        fill = self.parsed.fill_value if self.parsed.fill else 0
        if values.strides == (0,):  # `iso`: an element level has to store each
            if is_sparse and values.dtype == np.bool_ and not fill and values[:1].all():
                return Pattern(), [{}]
            check_memory(f"what {self.file} holds", values.nbytes)
        literal = typed_literal(np.asarray(fill).item(), type_of_dtype(values.dtype))
        return Element(literal), [{"val": np.ascontiguousarray(values)}]


def _index_type(arrays: list[np.ndarray], greatest: int) -> Type:
    """The type of the arrays if it is one signed integer type that holds `greatest`, else Int64."""
    dtypes = {array.dtype for array in arrays}
    found = type_of_dtype(dtypes.pop())
    if dtypes or found is None or found.kind != "int" or greatest > found.highest:
        return Int64
    return found


def _expanded(body: Tensor, structure: str, is_transposed: bool) -> Tensor:
    """A square matrix of which one triangle is stored, completed; entries outside of that are ignored."""
    coordinates, values = body.entries()
    is_lower = structure.endswith("lower") != is_transposed
    first, second = coordinates if is_lower else coordinates[::-1]
    coordinates, values = coordinates[:, first >= second], values[first >= second]
    coordinates, found = mirrored(coordinates, values, structure.startswith("skew"))
    return Tensor.from_coo(body.format, body.shape, list(coordinates), found)
