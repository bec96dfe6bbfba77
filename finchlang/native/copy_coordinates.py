"""Copies of lists of coordinates that come from outside, and whether these are in order."""

from __future__ import annotations

from functools import cache

import numpy as np

from finchlang.base.aligned_memory import aligned_copy
from finchlang.base.disk_cache import default_cache, kept
from finchlang.native.abi import Layout
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.link import kernel_of, linking
from finchlang.native.target import key_of
from finchlang.syntax.types import Bool, Int64, Type, type_of_dtype

#: below so many bytes aligning a copy costs more than it gains
SMALL = 4096


def ordered_copies(
    ptr: np.ndarray, idx: np.ndarray, fibers: int, size: int, room: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Copies of the lists of `fibers` fibers in a dimension of `size`, with `room` entries; None if they
    are not in order."""
    own = _copy(ptr), _copy(idx)
    return own if _order_check(idx.dtype).call([*own], [fibers, size, room])[0] else None


def _copy(array: np.ndarray) -> np.ndarray:
    return array.copy() if array.nbytes < SMALL else aligned_copy(array)


@cache
def _order_check(index: np.dtype) -> NativeKernel:
    """The program of `coordinate_order.py` for indices of a type. Its key on disk is the type's name, since
    the sources are part of every key."""
    type = type_of_dtype(index)
    assert type is not None
    layout = Layout("order", (type, type), (Int64,) * 3, (Bool,), (), (), (), ())
    name, disk = key_of("order", type.name), default_cache()
    with linking:
        return kernel_of(layout, kept(disk, name, lambda: _compiled(type)), name, disk)


def _compiled(index: Type) -> bytes:
    from finchlang.native.coordinate_order import code_for

    return code_for(index)
