"""Binsparse files (`.bsp.h5`, Binsparse 0.1): tensors level by level in an HDF5 container.

The standard's levels are dense and sparse ones of any rank over elements. Its outermost level has
the first dimension, ours the last; the descriptor's `transpose` says so.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from finchlang.script.binsparse_descriptor import (
    DENSE,
    SPARSE,
    TYPE_NAMES,
    TYPES,
    Descriptor,
    parse_descriptor,
    write_descriptor,
)
from finchlang.script.paths import check_memory, failure
from finchlang.script.tensors import convert
from finchlang.source import FinchError
from finchlang.tensors.contents import mirrored, summed
from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.level import Level
from finchlang.tensors.pattern import Pattern
from finchlang.tensors.sparse_coo import SparseCOO
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import Int64, Type, type_of_dtype


def read_binsparse(file: Path) -> Tensor | SwizzledTensor | Scalar:
    """The tensor in a file: Dense, SparseList and SparseCOO levels as the file names them, swizzled if
    its outermost level does not have the last dimension (CSR is a swizzled CSC). Values that are all
    the same are `iso`: true ones become a Pattern. One triangle of a symmetric or skew-symmetric
    matrix stands for both.

    Raises FinchError "I/O" where h5py is missing, "type" for complex numbers, "resource"; ValueError
    for a damaged file.
    """
    h5py = _h5py("read", file)
    try:
        with h5py.File(file, "r") as container:
            return _Reader(file, container).tensor()
    except (KeyError, RuntimeError) as error:  # what HDF5 says of objects that are not sound
        raise ValueError(str(error)) from None


def write_binsparse(out: BinaryIO, tensor: Tensor | SwizzledTensor | Scalar) -> None:
    """Write a tensor; levels that the standard cannot name become the sparse or dense level that
    holds the same entries. Raises FinchError "I/O" where h5py is missing."""
    h5py = _h5py("write", "a Binsparse file")
    arrays, descriptor = _arrays(tensor)
    # headers of HDF5 1.8 have checksums, and a text of fixed length stands in them: damage is found,
    # where the library would else read for ever
    with h5py.File(out, "w", libver=("v108", "v108")) as container:
        for name, array in arrays.items():
            kept = array.view(np.uint8) if array.dtype == np.bool_ else array
            container.create_dataset(name, data=kept)
        container.attrs["binsparse"] = np.bytes_(write_descriptor(descriptor))


def _h5py(what: str, path: Any) -> Any:
    try:
        import h5py
    except ImportError:
        why = "it takes h5py, which is not installed"
        raise failure(what, path, why, hint="pip install finchlang[hdf5]") from None
    return h5py


# ---------------------------------------------------------------------------------------- writing


def _arrays(
    tensor: Tensor | SwizzledTensor | Scalar,
) -> tuple[dict[str, np.ndarray], Descriptor]:
    """The arrays of a file by their names, and its descriptor."""
    nest: list[tuple[str, int]] = []
    arrays: dict[str, np.ndarray] = {}
    types: dict[str, str] = {}
    fill, count = tensor.fill, 1
    transpose: tuple[int, ...] = ()
    if isinstance(tensor, Scalar):
        arrays["values"] = tensor.to_numpy().reshape(1)
    else:
        body = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
        names = (
            tensor.permutation if isinstance(tensor, SwizzledTensor) else range(1, body.order + 1)
        )
        transpose = tuple(name - 1 for name in reversed(names))
        body = _nameable(body)
        for level, storage, size in zip(
            body.format.levels(), body.storage, body.format.sizes(body.shape), strict=True
        ):
            depth = sum(rank for _, rank in nest)
            if isinstance(level, Dense):
                nest.append((DENSE, 1))
                count *= size
            elif not level.is_leaf:
                stored = int(storage["ptr"][count])
                if depth:
                    arrays[f"pointers_to_{depth}"] = storage["ptr"][: count + 1]
                names_here = level.names() if isinstance(level, SparseCOO) else ("idx",)
                for k, name in enumerate(reversed(names_here)):
                    arrays[f"indices_{depth + k}"] = storage[name][:stored]
                nest.append((SPARSE, level.modes))
                count = stored
            elif isinstance(level, Pattern):
                arrays["values"], types["values"] = np.ones(1, bool), "iso[bint8]"
            else:
                arrays["values"] = storage["val"][:count]
    if fill != 0:
        arrays["fill_value"] = np.full(1, fill, arrays["values"].dtype)
    types = {name: TYPE_NAMES[array.dtype] for name, array in arrays.items()} | types
    descriptor = Descriptor(
        tensor.shape, tuple(nest), transpose, count, types, fill="fill_value" in arrays
    )
    return arrays, descriptor


def _nameable(tensor: Tensor) -> Tensor:
    """The same tensor in levels that the standard has: itself if it is so already."""
    levels = list(tensor.format.levels())
    named = levels[-1]
    for level in reversed(levels[:-1]):
        if isinstance(level, (Dense, SparseList, SparseCOO)):
            named = level.with_child(named)
        elif level.modes > 1:
            named = SparseCOO(named, Int64, level.modes)
        elif level.stores_fill and level.has_all_places:
            named = Dense(named)
        else:
            named = SparseList(named)
    return tensor if named == tensor.format else convert(named, tensor)


# ---------------------------------------------------------------------------------------- reading


class _Reader:
    """Reads one file."""

    def __init__(self, file: Path, container: Any):
        self.file, self.container = file, container
        text = container.attrs.get("binsparse")
        if text is None:
            raise ValueError("it is no Binsparse file: it has no attribute `binsparse`")
        self.descriptor = parse_descriptor(text if isinstance(text, str) else bytes(text).decode())
        self.count = 1

    def tensor(self) -> Tensor | SwizzledTensor | Scalar:
        descriptor = self.descriptor
        parts: list[tuple[type[Level], Type, dict[str, Any]]] = []
        depth = 0
        for (kind, rank), sizes in zip(descriptor.nest, descriptor.sizes(), strict=True):
            if kind == DENSE:
                parts += [(Dense, Int64, {})] * rank
                self.count *= math.prod(sizes)
            else:
                parts.append(self._sparse(depth, rank, max(sizes)))
            depth += rank
        over_dense = bool(parts) and parts[-1][0] is Dense
        level, leaf_storage = self._leaf(may_be_pattern=bool(parts) and not over_dense)
        if not parts:
            return Scalar(level.fill.value, leaf_storage["val"][0])
        ranks = [
            rank for kind, rank in descriptor.nest for _ in range(rank if kind == DENSE else 1)
        ]
        for (kind, index, _), rank in reversed(list(zip(parts, ranks, strict=True))):
            if kind is SparseCOO:
                level = SparseCOO(level, index, rank)
            else:
                level = Dense(level) if kind is Dense else SparseList(level, index)
        storage = [storage for _, _, storage in parts] + [leaf_storage]
        return self._finished(level, storage)

    def _finished(self, level: Level, storage: list[dict[str, Any]]) -> Tensor | SwizzledTensor:
        shape = [self.descriptor.shape[k] for k in reversed(self.descriptor.transpose)]
        body = Tensor.from_storage(level, shape, storage, checked=False)
        try:
            body.validate()
        except FinchError as error:
            raise ValueError(error.message) from None
        permutation = tuple(k + 1 for k in reversed(self.descriptor.transpose))
        if self.descriptor.structure is not None:
            body = _expanded(body, self.descriptor.structure, permutation == (2, 1))
        return (
            body
            if permutation == (*range(1, body.order + 1),)
            else SwizzledTensor(body, permutation)
        )

    def _sparse(self, depth: int, rank: int, size: int) -> tuple[type[Level], Type, dict[str, Any]]:
        """A sparse level whose first dimension is `depth`."""
        base = self.descriptor.index_base
        rows = [self._array(f"indices_{depth + k}") for k in range(rank)]
        stored = len(rows[0])
        if any(len(row) != stored for row in rows):
            raise ValueError(f"it has different numbers of indices for dimensions from {depth}")
        if depth:
            ptr = self._array(f"pointers_to_{depth}")
            if len(ptr) != self.count + 1:
                raise ValueError(
                    f"pointers_to_{depth} has {len(ptr)} entries, not {self.count + 1}"
                )
        else:
            ptr = np.array([base, stored + base], rows[0].dtype if stored < 100 else np.int64)
        if any(array.dtype.kind not in "iu" for array in (ptr, *rows)):
            raise ValueError("its indices are no integers")
        index = _index_type([*rows] if rank > 1 else [ptr, *rows], max(size, stored))
        ptr = (ptr - base).astype(Int64.dtype if rank > 1 else index.dtype)
        if len(ptr) and int(ptr[-1]) != stored:
            raise ValueError(f"pointers_to_{depth} ends at {ptr[-1]}, not at {stored}")
        rows = [(row - base).astype(index.dtype) for row in rows]
        self.count = stored
        if rank == 1:
            return SparseList, index, {"ptr": ptr, "idx": rows[0], "stored": stored}
        named = {f"idx{k + 1}": row for k, row in enumerate(reversed(rows))}
        return SparseCOO, index, {"ptr": ptr, **named, "stored": stored}

    def _leaf(self, may_be_pattern: bool) -> tuple[Level, dict[str, Any]]:
        """The elements of all positions."""
        text = self._type("values")
        is_iso = text.startswith("iso[")
        values = self._array("values", text[4:-1] if is_iso else text)
        needed = 1 if is_iso else self.count
        if len(values) != needed or self.count != self.descriptor.number_of_stored_values:
            told = self.descriptor.number_of_stored_values
            raise ValueError(
                f"it has {len(values)} values, {told} told, for {self.count} positions"
            )
        fill: Any = 0
        if self.descriptor.fill:
            fill = self._array("fill_value", self._type("fill_value"))[:1].tolist()
            if not fill:
                raise ValueError("its fill_value is empty")
            fill = fill[0]
        if is_iso and may_be_pattern and values.dtype == np.bool_ and values[0] and not fill:
            return Pattern(), {}
        if is_iso:
            check_memory(self.file, self.count * values.dtype.itemsize)
            values = np.full(self.count, values[0])
        return Element(typed_literal(fill, type_of_dtype(values.dtype))), {"val": values}

    def _type(self, name: str) -> str:
        text = self.descriptor.data_types.get(name)
        if not isinstance(text, str):
            raise ValueError(f"its descriptor does not tell the type of `{name}`")
        if text.removeprefix("iso[").startswith("complex["):
            message = f"{self.file} holds complex numbers, which are no element type"
            raise FinchError("type", message)
        return text

    def _array(self, name: str, text: str | None = None) -> np.ndarray:
        """A dataset, in the type the descriptor tells."""
        text = self._type(name) if text is None else text
        if text not in TYPES:
            raise ValueError(f"the type `{text}` of `{name}` is not known")
        if name not in self.container:
            raise ValueError(f"it has no array `{name}`")
        stored = self.container[name]
        dtype = np.dtype(TYPES[text])
        if getattr(stored, "shape", None) is None or stored.dtype.kind not in "biuf":
            raise ValueError(f"`{name}` is no array of numbers")
        if stored.dtype.kind == "f" and dtype.kind != "f":
            raise ValueError(f"`{name}` holds {stored.dtype}, not {text}")
        check_memory(self.file, stored.size * max(dtype.itemsize, stored.dtype.itemsize))
        return np.ascontiguousarray(stored[()], dtype).reshape(-1)


def _index_type(arrays: list[np.ndarray], greatest: int) -> Type:
    """The type of a level's stored indices: that of the arrays if it is signed and the same for all,
    and can count all the level counts."""
    dtypes = {array.dtype for array in arrays}
    found = type_of_dtype(dtypes.pop())
    if dtypes or found is None or found.kind != "int" or greatest > found.highest:
        return Int64
    return found


def _expanded(body: Tensor, structure: str, is_transposed: bool) -> Tensor:
    """A square matrix of which the file holds one triangle, as `structure` says."""
    coordinates, values = body.entries()
    is_lower = structure.endswith("lower") != is_transposed
    first, second = coordinates if is_lower else coordinates[::-1]
    coordinates, values = coordinates[:, first >= second], values[first >= second]
    places, found = summed(*mirrored(coordinates, values, structure.startswith("skew")))
    return Tensor.from_coo(body.format, body.shape, list(places), found)
