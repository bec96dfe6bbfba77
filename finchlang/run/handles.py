"""Script values as kernels see them: NumPy arrays and SciPy matrices in place, tensors and scalars."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter, is_
from typing import Any

import numpy as np

from finchlang.native.runtime import address_of_array
from finchlang.normalize import Format
from finchlang.run.seat import located
from finchlang.script.environment import Environment
from finchlang.source import FinchError
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

#: the arrays that a SciPy matrix in place may get others for
_PARTS = ("data", "indices", "indptr")
_get_parts = attrgetter(*_PARTS)


class Handle:
    """The tensor a script value stands for. `stored` is what a kernel takes; `format` what
    normalisation asks for."""

    __slots__ = ("_own", "_parts", "_shape", "format", "in_place", "stored", "tensor", "value")

    def __init__(self, value: Any, tensor: Tensor | SwizzledTensor | Scalar):
        self.value, self.tensor = value, tensor
        self.format: Format = tensor.format
        self.stored = tensor.body if isinstance(tensor, SwizzledTensor) else tensor
        self._shape = tensor.shape
        self._parts = _parts(value)
        self._own = _leaf_array(self.stored) if isinstance(value, np.ndarray) else None
        self.in_place = _is_in_place(value, self)

    def arrays(self) -> list[np.ndarray]:
        """The arrays the value is kept in."""
        if isinstance(self.value, np.ndarray):
            return [self.value]
        if self._parts:
            return list(self._parts)
        if not isinstance(self.stored, Tensor):
            return []
        return [
            a for part in self.stored.storage for a in part.values() if isinstance(a, np.ndarray)
        ]

    @property
    def is_owned(self) -> bool:
        """Whether the memory is a tensor's, and not an array's or a matrix's."""
        return isinstance(self.value, (Tensor, SwizzledTensor))

    @property
    def has_parts(self) -> bool:
        """Whether the value may get other memory without becoming another object."""
        return bool(self._parts)

    def is_current(self) -> bool:
        """Whether the value's memory still is what this handle was made for."""
        return not self._parts or all(map(is_, _get_parts(self.value), self._parts))

    def parts(self) -> list[tuple[Any, str, Any]]:
        """The value's parts that may be replaced, each as the object that has it, its name, and what
        it is now."""
        return [(self.value, name, part) for name, part in zip(_PARTS, self._parts, strict=False)]

    def publish(self) -> Any:
        """The script value after a kernel wrote the tensor: the same object, changed, unless the
        tensor's size or storage can no longer be its own."""
        value, tensor = self.value, self.tensor
        if value is tensor:
            return value
        if isinstance(value, np.ndarray):
            if tensor.shape != value.shape:
                return tensor.to_numpy()
            assert isinstance(self.stored, Tensor)
            *levels, leaf = self.stored.storage
            if not self.in_place or leaf["val"] is not self._own:
                value[...] = tensor.to_numpy()
                self.stored.storage = [*levels, {**leaf, "val": self._own}]
            return value
        return self._publish_scipy()

    def _publish_scipy(self) -> Any:
        assert isinstance(self.stored, Tensor)
        matrix = self.value
        if self.tensor.shape != self._shape or matrix.format not in ("csc", "csr"):
            assert not isinstance(self.tensor, Scalar)
            return type(matrix)(self.tensor.to_scipy())
        storage = self.stored.storage
        for name, array in zip(
            ("indptr", "indices", "data"),
            (storage[1]["ptr"], storage[1]["idx"], storage[2]["val"]),
            strict=True,
        ):
            if getattr(matrix, name) is not array:
                setattr(matrix, name, array)
        self._parts = _parts(matrix)
        return matrix


def _leaf_array(stored: Tensor | Scalar) -> np.ndarray | None:
    return stored.storage[-1].get("val") if isinstance(stored, Tensor) else None


def _parts(value: Any) -> tuple[Any, ...]:
    """The arrays of a SciPy matrix in place, whose replacement means that it has other memory now;
    nothing for values that keep their memory."""
    if getattr(value, "format", "") in ("csc", "csr") and hasattr(value, "indptr"):
        return _get_parts(value)
    return ()


def check_memory(handles: dict[str, Handle], written: Iterable[str]) -> None:
    """Check that what a kernel writes may be written, and is nothing that it has by another name too.

    Raises FinchError of kind "type" for a read-only array, "life cycle" for shared memory.
    """
    are_apart = _are_apart(list(handles.values()))
    for name in written:
        arrays = handles[name].arrays()
        if not all([array.flags.writeable for array in arrays]):
            hint = f"{name} = copy({name}) makes one of its own"
            raise FinchError(
                "type", f"{name} is a read-only array, and the kernel writes it", None, hint
            )
        for other, handle in () if are_apart else handles.items():
            same = handle.stored is handles[name].stored
            if other == name or not (same or _share(arrays, handle.arrays())):
                continue
            what = "the same tensor" if same else "views of the same memory"
            message = f"{name} and {other} are {what}, and the kernel writes it"
            raise FinchError("life cycle", message, None, "copy(...) makes a tensor of its own")


def _are_apart(handles: list[Handle]) -> bool:
    """Whether it is seen at once that no two have memory in the same region."""
    if len({id(handle.stored) for handle in handles}) < len(handles):
        return False
    places: list[tuple[int, int]] = []
    for handle in handles:
        if handle.is_owned:
            places += located(handle.stored).regions  # type: ignore[arg-type]
            continue
        for array in handle.arrays():
            if not array.flags.c_contiguous:
                return False
            places.append((address_of_array(array), array.nbytes))
    places.sort()
    return all([a + size <= b for (a, size), (b, _) in pairwise(places)])


def _share(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return any(np.may_share_memory(a, b) and np.shares_memory(a, b) for a in some for b in others)


class Handles:
    """The handles of the values kernels were last called with, by the value's identity."""

    def __init__(self, size: int = 256):
        self._size = size
        self._known: OrderedDict[int, Handle] = OrderedDict()

    def of(self, value: Any) -> Handle | None:
        """The handle of a value; None if it stands for no tensor."""
        found = self._known.get(id(value))
        if found is not None and found.value is value and found.is_current():
            return found
        tensor = as_tensor(value)
        if tensor is None:
            return None
        handle = Handle(value, tensor)
        if handle.in_place:
            self._known[id(value)] = handle
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return handle

    def publish(self, name: str, handle: Handle, environment: Environment) -> None:
        """Bind `name` to what a kernel made of its value."""
        value = handle.publish()
        if value is not handle.value:
            self._known.pop(id(handle.value), None)
            environment.set(name, value)


def _is_in_place(value: Any, handle: Handle) -> bool:
    """Whether the tensor is over the value's own memory, so that it may be used again."""
    if isinstance(value, (Tensor, SwizzledTensor, Scalar)):
        return True
    if isinstance(value, np.ndarray):
        assert isinstance(handle.stored, Tensor)
        return np.shares_memory(value, handle.stored.storage[-1]["val"])
    return getattr(value, "format", "") in ("csc", "csr")
