"""Tensors as the denotation has them: functions from indices to values, which know where they have
structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from finchlang.denote.dimensions import Environment
from finchlang.denote.values import Number, number
from finchlang.syntax import Node, Variable
from finchlang.tensors.adopted import as_tensor
from finchlang.tensors.tensor import Scalar, SwizzledTensor, mirrored_modes
from finchlang.types import Type, type_of_dtype, type_of_value
from finchlang.walk import walk


@dataclass
class DenseArray:
    """A tensor: dense `data` of `type`, of which what is not `stored` is structure. An element is the
    same as that with the coordinates of a pair of `mirrored` modes exchanged.

    What is stored is known of every tensor that the program does not write. Of one that it writes: a
    written element is, and with it all of the `whole` modes, which store what is not written; those
    are None if every element is stored."""

    data: np.ndarray
    stored: np.ndarray
    type: Type
    whole: tuple[int, ...] | None = None
    mirrored: tuple[tuple[int, int], ...] = ()

    def read(self, at: tuple[int, ...]) -> Number:
        return Number(self.data[at].copy(), not self.stored[at])  # a pair would be a view

    def declare(self, shape: tuple[int, ...], value: Any) -> None:
        self.data = np.full(shape, value, self.type.dtype, order="F")
        self.stored = np.full(shape, self.whole is None)

    def write(self, at: tuple[int, ...], value: Any, stores: bool = True) -> None:
        """Set an element; `stores`: whether it is stored from now on."""
        mirrored = [at]
        for a, b in self.mirrored:
            for known in list(mirrored):
                other = list(known)
                other[a], other[b] = known[b], known[a]
                mirrored.append(tuple(other))
        for each in mirrored:
            self.data[each] = value
            if stores:
                modes = enumerate(each)
                around = tuple(slice(None) if k in (self.whole or ()) else i for k, i in modes)
                self.stored[around] = True


def bind(program: Node, bindings: dict[str, Any]) -> tuple[dict[str, DenseArray], Environment]:
    """The tensors and the numbers and ranges among the free names of a program."""
    arrays: dict[str, DenseArray] = {}
    environment: Environment = {}
    same: dict[int, DenseArray] = {}  # two names of one tensor see each other's updates
    used = {n.name for n in walk(program) if isinstance(n, Variable)}
    for name in used & bindings.keys():
        value = bindings[name]
        if type_of_value(value) is not None:
            environment[name] = number(value)
        elif hasattr(value, "stop") and getattr(value, "step", 0) == 1:
            environment[name] = (int(value.start), int(value.stop))
        elif (tensor := as_tensor(value)) is not None:
            if id(value) not in same:
                same[id(value)] = _dense(tensor)
            arrays[name] = same[id(value)]
    return arrays, environment


def _dense(tensor: Any) -> DenseArray:
    data = np.array(tensor.to_numpy(), order="F")
    element = type_of_dtype(data.dtype)
    assert element is not None
    stored = np.zeros(data.shape, bool)
    if isinstance(tensor, Scalar):
        stored[()] = not tensor.format.is_structured or tensor.value != tensor.fill
    else:
        stored[tuple(tensor.entries()[0])] = True
    return DenseArray(data, stored, element, _whole_modes(tensor), mirrored_modes(tensor))


def _whole_modes(tensor: Any) -> tuple[int, ...] | None:
    """The modes, from 0, of the levels at the bottom that store what is not written; None if all
    levels do."""
    if isinstance(tensor, Scalar):
        return () if tensor.format.is_structured else None
    level = tensor.format.level if isinstance(tensor, SwizzledTensor) else tensor.format
    swizzle = (
        tensor.permutation if isinstance(tensor, SwizzledTensor) else range(1, tensor.order + 1)
    )
    mode = 0
    whole: list[int] = []
    for part in [p for p in level.levels() if not p.is_leaf][::-1]:
        if not part.stores_fill:
            return tuple(whole)
        whole += [swizzle[mode + k] - 1 for k in range(part.modes)]
        mode += part.modes
    return None
