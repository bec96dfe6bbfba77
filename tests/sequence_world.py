"""What sequences of calls happen in: sessions, the values bound in them, and what plain NumPy says that
all memory holds after a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

from finchlang import FinchError, Session, Tensor

FORMATS = (
    *("Dense(Element(0.0))", "SparseList(Element(0.0))", "SparseByteMap(Element(0.0))"),
    *("SparseCOO{1}(Element(0.0))", "RunList(Element(0.0))", "SparseRunList(Element(0.0))"),
    *("SparseBlockList(Element(0.0))", "SparseHash{1}(Element(0.0))", "PackBits(Element(0.0))"),
    "SparseBand(Element(0.0))",
)
MATRIX_FORMATS = (
    *("Dense(Dense(Element(0.0)))", "Dense(SparseList(Element(0.0)))"),
    *("SparseCOO{2}(Element(0.0))", "SparseList(SparseByteMap(Element(0.0)))"),
    *("SparseHash{2}(Element(0.0))", "Dense(SparseRunList(Element(0.0)))"),
)
SIZES = (0, 1, 2, 3, 5, 5, 5, 8, 17, 70, 9000)
VECTORS, MATRICES = ("x", "y", "z"), ("A", "B", "C")


class Finding(Exception):
    """Something is not as NumPy says."""


class World:
    """Sessions and what is bound in them. `palette` chooses the few formats of this world, so that
    kernels are met again; `say` is told each step as a line for people."""

    def __init__(self, palette: int, say: Callable[[str], None], sessions: list[Session]):
        rng = Random(palette)
        self.formats = rng.sample(FORMATS, 3)
        self.matrix_formats = rng.sample(MATRIX_FORMATS, 2)
        self.sessions, self.say = sessions, say
        self.tensors: dict[int, tuple[Tensor, np.ndarray]] = {}  # with what they must hold
        self.past: list[Any] = []
        numbers = np.arange(1.0, 6.0)
        for session in sessions:
            for name in VECTORS:
                session[name] = numbers.copy()
            for name in MATRICES:
                session[name] = sp.csc_array(np.diag(numbers))
        say("S[0], S[1]: x, y, z = np.arange(1.0, 6.0); A, B, C = csc_array(np.diag(x))")

    # ------------------------------------------------------------------------------------ bindings

    def bind(self, number: int, name: str, value: Any, text: str) -> None:
        self.past = [*self.past[-11:], self.sessions[number][name]]
        self.sessions[number][name] = value
        self.say(f"S[{number}]['{name}'] = {text}")

    def keep(self, tensor: Tensor, dense: np.ndarray) -> None:
        """Note what a tensor holds."""
        self.tensors[id(tensor)] = tensor, dense

    def values(self) -> list[Any]:
        """All that is or was bound, each once."""
        bound = [s[n] for s in self.sessions for n in (*VECTORS, *MATRICES)]
        return list({id(v): v for v in (*bound, *self.past)}.values())

    def dense(self, value: Any) -> np.ndarray:
        """What a value holds, in memory of its own."""
        if isinstance(value, Tensor):
            return self.tensors[id(value)][1].copy()
        if isinstance(value, np.ndarray):
            return value.astype(value.dtype.newbyteorder("="))
        return value.toarray()

    def forget(self, array: np.ndarray) -> None:
        """Drop old values that share memory with an array."""
        self.past = [v for v in self.past if not any(overlap(p, array) for p in parts(v))]

    def is_alone(self, array: np.ndarray) -> bool:
        """Whether nothing else that is bound shares its memory."""
        return not any(
            part is not array and overlap(part, array)
            for value in self.values()
            for part in parts(value)
        )


def parts(value: Any) -> Iterator[np.ndarray]:
    """The user's arrays that a value consists of."""
    if isinstance(value, np.ndarray):
        yield value
    elif sp.issparse(value):
        yield from (value.data, value.indices, value.indptr)


def root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def overlap(one: np.ndarray, other: np.ndarray) -> bool:
    return np.may_share_memory(one, other) and np.shares_memory(one, other)


# ------------------------------------------------------------------------------- before and after


class Snapshot:
    """What all memory of a world holds, and what it must hold after a call."""

    def __init__(self, world: World):
        self.world = world
        self.roots: dict[int, tuple[np.ndarray, bytearray]] = {}
        self.matrices: dict[int, tuple[Any, np.ndarray]] = {}
        self.tensors = {n: (t, a.copy()) for n, (t, a) in world.tensors.items()}
        for value in world.values():
            if isinstance(value, np.ndarray):
                owner = root(value)
                self.roots[id(owner)] = owner, bytearray(_bytes(owner))
            elif sp.issparse(value):
                self.matrices[id(value)] = value, value.toarray()

    def expect(self, value: Any, dense: np.ndarray) -> None:
        """`value` will hold `dense`."""
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value, dense
        elif isinstance(value, np.ndarray):
            owner = root(value)
            memory = self.roots[id(owner)][1]
            offset = address(value) - address(owner)
            view = np.ndarray(value.shape, value.dtype, memory, offset, value.strides)  # type: ignore
            view[...] = dense
        else:
            self.matrices[id(value)] = value, dense

    def give_up(self, value: Any) -> None:
        """`value` is bound no more, and may hold anything that is whole."""
        if isinstance(value, np.ndarray):
            self.roots.pop(id(root(value)), None)
        elif sp.issparse(value):
            self.matrices.pop(id(value), None)
            check_matrix(value)

    def compare(self) -> None:
        """Raises Finding if something differs."""
        for owner, memory in self.roots.values():
            now = _bytes(owner)
            if now != memory:
                found, wanted = (np.frombuffer(b, owner.dtype) for b in (now, bytes(memory)))
                _same("an array", found, wanted)
        for matrix, wanted in self.matrices.values():
            check_matrix(matrix)
            _same("a matrix", matrix.toarray(), wanted)
        for tensor, wanted in self.tensors.values():
            check_tensor(tensor)
            _same(f"a {tensor.format}", tensor.to_numpy(), wanted)
        self.world.tensors = self.tensors


def _bytes(owner: np.ndarray) -> bytes:
    return ctypes.string_at(address(owner), owner.nbytes) if owner.nbytes else b""


def _same(what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    if found.shape != wanted.shape:
        raise Finding(f"{what} is of shape {found.shape}, not {wanted.shape}")
    if not np.allclose(found, wanted, equal_nan=True):
        at = tuple(np.argwhere(~np.isclose(found, wanted, equal_nan=True))[0])
        raise Finding(f"{what} holds {found[at]} at {at}, not {wanted[at]}")


def check_matrix(matrix: Any) -> None:
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise Finding(f"a matrix is broken: {error}") from None


def check_tensor(tensor: Tensor) -> None:
    with suppress(AttributeError):
        tensor.checked = False
    try:
        tensor.validate()
        entries = tensor.entries()[0]
    except (FinchError, IndexError) as error:
        raise Finding(f"a {tensor.format} is broken: {error}") from None
    if entries.size and not (entries.max(axis=1) < tensor.shape).all():
        raise Finding(f"a {tensor.format} has coordinates out of range")
