"""Programs of the host language, written once, and performed by all that can: the executing host, the
recording one with its evaluator, native code, and native code with checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from finchlang.base.errors import BUG, Bug, FinchError
from finchlang.calls.undo import Undoing
from finchlang.host.construct import op
from finchlang.host.executing import ExecutingHost, RememberingHost, run_residual
from finchlang.host.ir import Buffer, Cell, Expr, Procedure, Residual, Var
from finchlang.host.recording import ResidualHost
from finchlang.host.verify import check
from finchlang.native.compiled_kernel import NativeKernel
from finchlang.native.jit import compile_residual
from finchlang.syntax.types import Float64, Int64, Type


class Sample:
    """A program being written on a host, or performed there: what it takes is in the order in which it
    asks for it."""

    def __init__(
        self, host: Any = None, arrays: Sequence[np.ndarray] = (), inputs: Sequence[Any] = ()
    ):
        self.host = ResidualHost() if host is None else host
        self._arrays, self._inputs = iter(arrays), iter(inputs)
        self.buffers: list[Buffer] = []
        self.inputs: list[Var] = []
        self.outputs: list[Cell] = []
        self.procedures: tuple[Procedure, ...] = ()

    def buffer(self, name: str, type: Type = Float64) -> Buffer:
        self.buffers.append(Buffer(name, type))
        if isinstance(self.host, ExecutingHost):
            self.host.arrays[self.buffers[-1]] = next(self._arrays)
        return self.buffers[-1]

    def input(self, name: str, type: Type = Int64) -> Var:
        variable = self.host.variable(name, type)
        if isinstance(self.host, ExecutingHost):
            variable.held = next(self._inputs)
        self.inputs.append(variable)
        return variable

    def output(self, init: Expr, name: str = "out") -> Cell:
        self.outputs.append(self.host.cell(init, name))
        return self.outputs[-1]

    def residual(self, name: str = "sample") -> Residual:
        """What is recorded, which the checker accepts."""
        parts = tuple(self.buffers), tuple(self.inputs), tuple(self.outputs)
        procedures = self.host.procedures() + self.procedures
        residual = Residual(name, *parts, self.host.code(), procedures=procedures)
        check(residual)
        return residual

    def add_to(self, cell: Cell, amount: Expr | int) -> None:
        self.host.set(cell, op("add", self.host.get(cell), amount))

    def add_at(self, buffer: Buffer, index: Expr, amount: Expr) -> None:
        self.host.store(buffer, index, op("add", self.host.load(buffer, index), amount))


def up_to(size: Expr) -> Expr:
    """The last of so many that are counted from 0."""
    return op("sub", size, 1)


@dataclass(frozen=True)
class Program:
    """What `make` writes on a sample, given `args`."""

    make: Callable[..., None]
    args: tuple[Any, ...] = ()

    @property
    def residual(self) -> Residual:
        """As it is recorded; the checker accepts it."""
        return _recorded(self)

    def compiled(self, checked: bool = False) -> NativeKernel:
        return _compiled(self, checked)


@cache
def _recorded(program: Program) -> Residual:
    sample = Sample()
    program.make(sample, *program.args)
    return sample.residual(program.make.__name__)


@cache
def _compiled(program: Program, checked: bool) -> NativeKernel:
    return compile_residual(program.residual, checked=checked)


# ------------------------------------------------------------------------------------- performing

#: the name of an array that sorts leave undefined
SCRATCH = "scratch"


@dataclass
class Done:
    """What came of a program: arrays as far as they were written, outputs, the kind and message of an
    error, and the steps of a host that counts them."""

    arrays: list[np.ndarray]
    outputs: list[Any]
    error: tuple[str, str] | None = None
    steps: Any = None


def _done(host: ExecutingHost, buffers: Sequence[Buffer], outputs: Sequence[Cell]) -> Done:
    arrays = []
    for buffer in buffers:
        array = host.arrays[buffer][: host.sizes.get(buffer)]
        unwritten = host.unwritten.get(buffer, np.zeros(len(array), bool))
        mask = unwritten[: len(array)] | (buffer.name == SCRATCH)
        arrays.append(np.ma.array(array, mask=mask))
    return Done(arrays, [host.cells.get(cell) for cell in outputs], steps=host.steps)


def executed(
    program: Program,
    arrays: Sequence[np.ndarray],
    inputs: Sequence[Any],
    kind: type[ExecutingHost] = ExecutingHost,
) -> Done:
    host = kind()
    sample = Sample(host, [array.copy() for array in arrays], inputs)
    error = _error_of(lambda: program.make(sample, *program.args))
    done = _done(host, sample.buffers, sample.outputs)
    done.error = error
    return done


def evaluated(residual: Residual, arrays: Sequence[np.ndarray], inputs: Sequence[Any]) -> Done:
    host, given = ExecutingHost(), [array.copy() for array in arrays]
    error = _error_of(lambda: run_residual(residual, given, inputs, host))
    done = _done(host, residual.buffers, residual.outputs)
    done.error = error
    return done


def native(kernel: NativeKernel, arrays: Sequence[np.ndarray], inputs: Sequence[Any]) -> Done:
    given = [array.copy() for array in arrays]
    done = Done(given, [])

    def work() -> None:
        done.arrays, done.outputs = run(kernel, given, inputs)

    done.error = _error_of(work)
    return done


def _error_of(work: Callable[[], object]) -> tuple[str, str] | None:
    try:
        work()
    except FinchError as error:
        return error.kind, error.message
    except Bug as error:
        return BUG, str(error)
    return None


def run(
    kernel: NativeKernel, arrays: Sequence[np.ndarray], inputs: Sequence[Any] = ()
) -> tuple[list[np.ndarray], list[Any]]:
    """Call a compiled program: the arrays afterwards (the same object, changed in place, or a larger one
    if it had to grow), and the outputs. If it fails, all arrays are as they were."""
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
    for number, grown in kernel.grown().items():
        if number < len(arrays):
            after[number] = grown
    return after, outputs


def everywhere(
    program: Program, arrays: Sequence[np.ndarray], *inputs: Any, rtol: float = 0
) -> Done:
    """Perform a program everywhere on copies of `arrays`: the same arrays, outputs and errors, and on the
    hosts that count them the same steps. Where it fails, native code leaves arrays as they were. What is
    a Bug is found by all but unchecked native code, which is not run; `error` is that of checked code."""
    first = executed(program, arrays, inputs)
    remembered = executed(program, arrays, inputs, RememberingHost)
    for other in (evaluated(program.residual, arrays, inputs), remembered):
        assert first.error == other.error and first.steps == other.steps
        assert_same(other, first, rtol)
    is_bug = first.error is not None and first.error[0] == BUG
    for checked in (True,) if is_bug else (False, True):
        found = native(program.compiled(checked), arrays, inputs)
        if first.error is None:
            assert_same(found, first, rtol)
        else:
            assert found.error is not None and found.error[0] == first.error[0]
            assert is_bug or found.error == first.error
            for array, given in zip(found.arrays, arrays, strict=True):
                assert array.tobytes() == given.tobytes()
        first.error = found.error
    return first


def assert_same(found: Done, wanted: Done, rtol: float = 0) -> None:
    """The same arrays where `wanted` was written, and the same outputs; NaN is equal to itself."""
    assert wanted.error is not None or found.error is None, found.error
    for own, other in zip(found.arrays, wanted.arrays, strict=True):
        mask = np.ma.getmaskarray(other)
        own = np.ma.array(own[: len(other)], mask=mask).compressed()
        _assert_close(own, other.compressed(), rtol)
    _assert_close(found.outputs, wanted.outputs, rtol)


def _assert_close(found: Any, wanted: Any, rtol: float) -> None:
    if rtol and np.asarray(wanted).dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0)
    else:
        np.testing.assert_array_equal(found, wanted)
