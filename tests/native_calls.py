"""Calling a compiled residual program on plain arrays, one for each of its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finchlang.native.kernel import NativeKernel
from finchlang.run.undo import Undoing


def run(
    kernel: NativeKernel, arrays: Sequence[np.ndarray], inputs: Sequence[Any] = ()
) -> tuple[list[np.ndarray], list[Any]]:
    """The arrays afterwards (the same object, changed in place, or a larger one if it had to grow),
    and the outputs. If the kernel fails, all arrays are as they were."""
    undoing, layout = Undoing(kernel.layout.undo_log), kernel.layout
    for number, array in enumerate(arrays):
        if number in layout.written:
            undoing.keep(number, array)
    buffers, given = list(arrays), list(inputs)
    if undoing.has_logs:
        undoing.add(buffers, given)
    buffers += [np.empty(0, np.uint8) for _ in layout.buffers[len(buffers) :]]  # of its checks
    try:
        outputs = kernel.call(buffers, given)
    except BaseException:
        undoing.undo()
        raise
    after = list(arrays)
    for number in layout.grown:
        if number < len(arrays):
            grown = kernel.grown(number, arrays[number].dtype)
            after[number] = arrays[number] if grown is None else grown
    kernel.release()
    return after, outputs
