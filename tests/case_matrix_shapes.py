"""The shape operators of the matrix of cases: each as a context in which a tensor is read or written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """An operator around a tensor of `order` modes, in the `number`-th case: how many modes it adds,
    as the kernel has it (in order, where it `is_written`), the array that an array becomes in it,
    and the numbers that the kernel takes for a shape."""

    added: int
    text: Callable[[str, int, int, bool], str]
    array: Callable[[np.ndarray, int], np.ndarray]
    numbers: Callable[[Shape, int], dict[str, int]] = lambda shape, number: {}


def _mode(order: int, number: int) -> int:
    """The mode that is changed, from 0."""
    return number // 3 % order


def _collapse(name: str, order: int, number: int, is_written: bool) -> str:
    first = _mode(order - 1, number) + 1
    pair = (first, first + 1) if is_written or number % 3 else (first + 1, first)
    return f"collapse({name}, {pair[0]}, {pair[1]})"


def _collapsed(array: np.ndarray, number: int) -> np.ndarray:
    k, shape = _mode(array.ndim - 1, number), array.shape
    return array.reshape((*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]), order="F")


def _part(size: int) -> int:
    """A size that divides another."""
    return next((m for m in (2, 3) if size % m == 0), 1)


def _split(name: str, order: int, number: int, is_written: bool) -> str:
    last = "" if is_written or number % 3 else ", true"
    return f"split({name}, {_mode(order, number) + 1}, m{last})"


def _in_two(array: np.ndarray, number: int) -> np.ndarray:
    k, shape = _mode(array.ndim, number), array.shape
    m = _part(shape[k])
    return array.reshape((*shape[:k], m, shape[k] // m, *shape[k + 1 :]), order="F")


def _before(array: np.ndarray, number: int) -> np.ndarray:
    """With a part before it that is as large, whose elements are all as the last one is."""
    if not array.size:
        return np.concatenate([array, array], _mode(array.ndim, number))
    return np.concatenate([np.full_like(array, array.flat[-1]), array], _mode(array.ndim, number))


def _slice(name: str, order: int, number: int, is_written: bool) -> str:
    part = "1:2:n" if not is_written and number % 2 else "2:after"
    return f"slice({name}, {_mode(order, number) + 1}, {part})"


def _from_second(array: np.ndarray, number: int) -> np.ndarray:
    k = _mode(array.ndim, number)
    return np.delete(array, slice(0, 1), k)


def _own_size(shape: Shape, number: int) -> dict[str, int]:
    n = shape[_mode(len(shape), number)]
    return {"n": n, "after": max(n, 1)}


FORMS = {
    "collapse": Form(-1, _collapse, _collapsed),
    "split": Form(1, _split, _in_two, lambda s, k: {"m": _part(s[_mode(len(s), k)])}),
    "concat": Form(
        0,
        lambda name, order, number, _: f"concat({_mode(order, number) + 1}, D, {name})",
        _before,
    ),
    "slice": Form(0, _slice, _from_second, _own_size),
    "broadcast": Form(
        1,
        lambda name, order, number, _: f"broadcast({name}, {_mode(order + 1, number) + 1}, 2)",
        lambda array, number: array,
    ),
}
