"""Whether two values are equal, and whether two ways of running a script stored the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.layout import ChildPositions, arrays
from finchlang.levels.numpy_layout import counted
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.memory import fibers
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of

_SPARSE = (Tensor, SwizzledTensor)
_TENSORS = (*_SPARSE, Scalar)
#: tensors with more elements are compared by their entries
DENSE = 10**8


def stored_differences(
    found: Any, ways: dict[str, Any], tolerance: float
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Differences in storage, beyond values: tensors that two ways with the same rules store differently,
    or of which ways with other rules have other entries; and unequal host steps. Of each a line for
    people, and the fault: its kind, and the ways that differ. `found` is a Comparison, `ways` are its Ways
    by label.
    """
    ran = (n for n in found.engines if "the error" not in found.results[n])
    for one, other in pairwise(n for n in ran if ways[n].engine != "denote"):
        first, second = ways[one], ways[other]
        is_alike = (first.rules, first.workspaces) == (second.rules, second.workspaces)
        what, part = ("stores", _storage) if is_alike else ("has entries in", entries_of)
        for name, value in found.results[one].items():
            own = found.results[other].get(name)
            is_stored = isinstance(value, _TENSORS) and type(value) is type(own)
            if not is_stored or same(_storage(value), _storage(own), tolerance):
                continue  # runs may be too long to list their entries
            if part is _storage or not same(part(value), part(own), tolerance):
                yield f"{other} {what} {name} otherwise than {one}", (what, one, other)
        is_alike = is_alike and first.staging == second.staging  # or other things are run
        steps = [found.steps.get(n, ()) if is_alike else () for n in (one, other)]
        for number, (a, b) in enumerate(zip(*steps, strict=False), 1):
            if a != b:
                line = f"{one} and {other} take other steps in kernel {number}: {a - b}, {b - a}"
                yield line, ("steps", one, other)
                break


def unsound(values: dict[str, Any]) -> list[str]:
    """A line for each tensor with arrays that say no tensor, or with counters that they do not say."""
    lines = []
    for name, value in values.items():
        tensor = body_of(value)
        if isinstance(tensor, Tensor):
            tensor.checked = False
            try:
                tensor.validate()
                for level, own, sizes, count in fibers(tensor._parts()):
                    known = counted(level.layout, own, count, sizes)
                    found = {n: own[n] for n in known}
                    # entries that say where their positions are may leave some out
                    has_own = any(isinstance(p, ChildPositions) for p in arrays(level.layout))
                    if found != known and not has_own:
                        lines.append(f"{level} of {name} has the counters {found}, not {known}")
            except FinchError as error:
                lines.append(f"the storage of {name} is corrupt: {error.message}")
    return lines


def _storage(tensor: Any) -> list[Any]:
    tensor = body_of(tensor)
    if isinstance(tensor, Scalar):
        return [tensor.value]
    return [tensor.shape, *(v for level in tensor.storage for v in level.values())]


def entries_of(tensor: Any) -> list[Any]:
    """The entries of a tensor, in the order of coordinates."""
    if isinstance(tensor, Scalar):
        return [tensor.value]
    coordinates, values = tensor.entries()
    order = np.lexsort(coordinates) if len(coordinates) else slice(None)
    return [tensor.shape, coordinates[:, order], values[order]]


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two values of scripts, or lists of such, are equal, floats within a relative tolerance, since
    sums may be reordered. Values that no kernel can make (functions, formats) are not compared."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        a, b = a.value, b.value
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in pairs)
    if isinstance(a, _SPARSE) and isinstance(b, _SPARSE) and prod(a.shape) > DENSE:
        alike = type(a) is type(b) and same(_storage(a), _storage(b), tolerance)
        return alike or same(_unlike_fill(a), _unlike_fill(b), tolerance)
    first, second = as_array(a), as_array(b)
    if first is None or second is None:
        if isinstance(a, float) and isinstance(b, float) and not math.isnan(a):
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        if isinstance(a, (int, float, bool, str)) or isinstance(b, (int, float, bool, str)):
            return a == b or (a != a and b != b)
        return (a is None) == (b is None)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind == "f":
        loose = max(tolerance, 1e-4) if first.dtype == np.float32 else tolerance
        scale = float(np.max(np.abs(first[np.isfinite(first)]), initial=0.0))
        return np.allclose(first, second, rtol=loose, atol=loose * scale, equal_nan=True)
    return bool(np.array_equal(first, second))


def _unlike_fill(tensor: Any) -> list[Any]:
    _, coordinates, values = entries_of(tensor)
    keep = ~((values == tensor.fill) | ((values != values) & (tensor.fill != tensor.fill)))
    return [tensor.shape, tensor.fill, coordinates[:, keep], values[keep]]


def as_array(value: Any) -> np.ndarray | None:
    """A value as a dense array, or None if it is no array or tensor."""
    if isinstance(value, np.ndarray):
        return value
    try:
        tensor = as_tensor(value)
    except FinchError:
        return None
    return None if tensor is None else tensor.to_numpy()
