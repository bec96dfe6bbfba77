"""Residuals that are changed by some passes when they are run, and whose undo log is tried before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

from finchlang import FinchError
from finchlang.host.executing import ExecutingHost, run_residual
from finchlang.host.ir import Residual
from finchlang.host.noted import undo
from finchlang.optimize.pipeline import EARLY, PASSES, Pass, transform
from finchlang.optimize.privatisation import privatise
from finchlang.optimize.undo_log import with_undo_log


def undone(residual: Residual, arrays: Sequence[np.ndarray], inputs: Sequence[Any]) -> None:
    """The undo log puts back what was there, whatever comes of the program."""
    logging, undo_log = with_undo_log(transform(residual, EARLY))
    for change in (lambda r: r, privatise) if undo_log.logs else ():
        given, numbers = [array.copy() for array in arrays], [*inputs, 1]
        for log in undo_log.logs:
            size = len(given[log.array])
            given += np.zeros(size, np.uint8), np.zeros(size + 1, np.int64)
            given.append(np.zeros(size, given[log.array].dtype))
            numbers += [size] * (log.size is not None)
        with suppress(FinchError):
            run_residual(change(logging), given, numbers, ExecutingHost())
        for log in undo_log.logs:
            undo(given[log.array], given[log.at], given[log.was])
            np.testing.assert_array_equal(given[log.array], arrays[log.array])


class Changed:
    """The residuals that are run from now on are changed by `passes`; `by` are the passes that change
    any of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("finchlang.calls.staging.run_residual", self.run)
        self.passes: tuple[Pass, ...] = ()
        self.by: set[Pass] = set()
        self.transform = cache(transform)  # kernels are run many times

    def run(self, residual: Residual, arrays: Any, inputs: Any, host: Any = None) -> Any:
        if not self.passes:
            undone(residual, arrays, inputs)
            body = residual.body
            self.by |= {p for p in PASSES if self.transform(residual, (p,)).body != body}
        return run_residual(self.transform(residual, self.passes), arrays, inputs, host)

    def alone(self) -> list[tuple[Pass, ...]]:
        """All passes, and each of those that change something by itself; nothing if none does."""
        return [PASSES, *((p,) for p in PASSES if p in self.by)] if self.by else []
