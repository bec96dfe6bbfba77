"""Kernels over tensors of given formats, run by every engine: the same results, the same host steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from finchlang import FinchError
from finchlang.calls.arguments import KIND, describe
from finchlang.calls.kernel import SpecializedKernel
from finchlang.tensors.convert import copy_of
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel


@lru_cache(maxsize=256)
def compiled(
    text: str, formats: tuple[tuple[str, Any], ...], which: str, workspaces: bool = True
) -> SpecializedKernel:
    return SpecializedKernel(parse_kernel(f"begin\n{text}\nend"), dict(formats), which, workspaces)


def run_on(engine: str, kernel: SpecializedKernel, tensors: dict[str, Any]) -> Counter[str]:
    """Run a kernel by an engine on tensors by their names; gives the host steps."""
    arguments = [describe(tensors[name]) for name in kernel.tensors]
    made, steps = kernel.run(engine, arguments, [])
    for at, memory in made:
        arguments[at][KIND].commit(arguments[at], memory)
    return steps


def run(
    text: str,
    tensors: dict[str, Any],
    which: str = "all",
    native: bool = True,
    interpreted: bool = True,
) -> tuple[dict[str, Any], Counter[str]]:
    """Run a kernel under the interpreter, as a residual and natively, on copies of `tensors`. Gives
    the tensors after it, by name, and the host steps that the first of these took.

    Checks that results and errors are the same everywhere, that the residual is well formed and
    takes the interpreter's steps, and that what was written is sound. Raises what the engines raise.
    """
    formats = tuple((name, tensor.format) for name, tensor in tensors.items())
    kernel = compiled(text, formats, which)
    runs: list[dict[str, Any]] = []
    steps: list[Any] = []
    errors: list[FinchError | None] = []
    engines = ["interpret"] * interpreted + ["residual"] + ["native"] * native
    for engine in engines:
        kernel.own.reset()
        copies = {name: copy_of(tensor) for name, tensor in tensors.items()}
        error = None
        try:
            steps.append(run_on(engine, kernel, copies))
        except FinchError as fault:
            error = fault
        runs.append(copies)
        errors.append(error)
    assert len({(e.kind, e.message) if e else None for e in errors}) == 1, errors
    for name, before in tensors.items():
        expected = (before if errors[0] else runs[0][name]).to_numpy()
        for found in runs:
            _check_sound(found[name])
            if errors[0] or found is not runs[0]:
                np.testing.assert_array_equal(found[name].to_numpy(), expected)
    if errors[0] is not None:
        raise errors[0]
    assert not interpreted or steps[0] == steps[1]
    return runs[0], steps[0]


def _check_sound(tensor: Tensor | Scalar) -> None:
    if isinstance(tensor, Tensor):
        tensor.checked = False
        tensor.validate()


def tensor(array: Any, format: str) -> Tensor:
    return Tensor.from_numpy(np.asarray(array), format)


def changed(tensor: Tensor, level: int, change: Callable[[dict[str, Any]], object]) -> Tensor:
    """The same with the arrays of a level changed, and not checked."""
    storage = copy_of(tensor).memory.storage(tensor.format)
    change(storage[level])
    return Tensor.from_storage(tensor.format, tensor.shape, storage, checked=False)


def result(
    text: str, tensors: dict[str, Any], name: str = "C", which: str = "all", native: bool = True
) -> Any:
    """What `run` leaves in `name`, dense; of a Scalar, its value."""
    found = run(text, tensors, which, native)[0][name]
    return found.value if isinstance(found, Scalar) else found.to_numpy()
