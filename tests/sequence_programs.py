"""The kernels that sequences of calls run, each with what it comes to in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sequence_world import Finding, Snapshot, World, overlap, parts

from finchlang import FinchError, Tensor

Dense = dict[str, np.ndarray]


class Refused(Exception):
    """The call must end in an error of one of these kinds."""

    def __init__(self, *kinds: str):
        self.kinds = kinds


@dataclass(frozen=True)
class Program:
    """A kernel: `compute` takes what its names hold, dense, and gives what those it writes must hold
    afterwards; `declared` are those of them that take a new size."""

    text: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    compute: Callable[[Dense], Dense]
    declared: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def alike(*arrays: np.ndarray) -> None:
    if len({array.shape for array in arrays}) > 1:
        raise Refused("dimension")


def vector(
    target: str, value: str, reads: str, compute: Callable[..., Any], sign: str = "="
) -> Program:
    """`target[i] = value` for all i, where `target` is declared."""
    text = f"@finch begin\n{target} .= 0\nfor i = _\n {target}[i] {sign} {value}\nend\nend"

    def work(given: Dense) -> Dense:
        alike(*(given[name] for name in reads))
        return {target: compute(*(given[name] for name in reads))}

    return Program(text, tuple(reads), (target,), work)


def in_place(
    target: str, sign: str, value: str, reads: str, compute: Callable[..., Any]
) -> Program:
    """The same, where `target` keeps its size and what it holds."""
    text = f"@finch for i = _\n {target}[i] {sign} {value}\nend"

    def work(given: Dense) -> Dense:
        alike(given[target], *(given[name] for name in reads))
        return {target: compute(given[target], *(given[name] for name in reads))}

    return Program(text, tuple(reads), (target,), work, declared=False)


def matrix(target: str, value: str, reads: str, compute: Callable[..., Any], order: str) -> Program:
    text = f"@finch begin\n{target} .= 0\nfor {order}\n {target}[i, j] = {value}\nend\nend"

    def work(given: Dense) -> Dense:
        alike(*(given[name] for name in reads))
        return {target: compute(*(given[name] for name in reads))}

    return Program(text, tuple(reads), (target,), work)


def multiply(given: Dense) -> Dense:
    A, x = given["A"], given["x"]
    if A.shape[1:] != x.shape:
        raise Refused("dimension")
    return {"y": A @ x}


def two(given: Dense) -> Dense:
    return {"y": given["x"] * 2.0, "z": np.where(given["x"] > 2, given["x"], 0.0)}


def scatter(given: Dense) -> Dense:
    """`y[k[i]] += x[i]`: `k` may lead out of `y`."""
    x, y, k = given["x"], given["y"], given["k"]
    if x.shape != k.shape:
        raise Refused("dimension")
    if k.size and (k.min() < 1 or k.max() > y.size):
        raise Refused("bounds")
    np.add.at(y, k - 1, x)
    return {"y": y}


BY_COLUMNS, BY_ROWS = "j = _, i = _", "i = _, j = _"
VECTOR_PROGRAMS = (
    vector("y", "x[i]", "x", lambda x: x),
    vector("x", "y[i]", "y", lambda y: y),
    vector("y", "2.5 * x[i]", "x", lambda x: 2.5 * x, "+="),
    vector("z", "x[i] + y[i]", "xy", lambda x, y: x + y),
    vector("x", "y[i] * z[i]", "yz", lambda y, z: y * z),
    in_place("y", "+=", "x[i]", "x", lambda y, x: y + x),
    in_place("x", "+=", "y[i]", "y", lambda x, y: x + y),
    in_place("z", "*=", "0.5", "", lambda z: z * 0.5),
    Program(
        "@finch begin\ny .= 0\nz .= 0\nfor i = _\n y[i] = x[i] * 2.0\n"
        " if x[i] > 2\n  z[i] = x[i]\n end\nend\nend",
        ("x",),
        ("y", "z"),
        two,
    ),
)
SCATTER = Program("@finch for i = _\n y[k[i]] += x[i]\nend", ("x", "k"), ("y",), scatter, False)
MULTIPLY = tuple(
    Program(
        f"@finch begin\ny .= 0\nfor {order}\n y[i] += A[i, j] * x[j]\nend\nend",
        ("A", "x"),
        ("y",),
        multiply,
    )
    for order in (BY_COLUMNS, BY_ROWS)
)
MATRIX_PROGRAMS = {
    order: (
        matrix("C", "A[i, j]", "A", lambda A: A, order),
        matrix("C", "A[i, j] + B[i, j]", "AB", lambda A, B: A + B, order),
        matrix("B", "3.0 * C[i, j]", "C", lambda C: 3.0 * C, order),
    )
    for order in (BY_COLUMNS, BY_ROWS)
}


# ---------------------------------------------------------------------------------------- calling


def call(world: World, number: int, program: Program, kinds: tuple[str, ...] = ()) -> None:
    """Run a program, and compare all memory with what NumPy makes of it; `kinds` are errors that it
    must end in. Raises Finding."""
    session = world.sessions[number]
    values = {name: session[name] for name in program.names}
    before = Snapshot(world)
    given = {name: world.dense(value) for name, value in values.items()}
    expected: Dense = {}
    try:
        expected = program.compute(given)
    except Refused as refused:
        kinds = (*kinds, *refused.kinds)
    kinds = (*kinds, *_refusals(program, values))
    world.say(f"S[{number}].run({program.text!r})")
    error = run(session, program.text)
    if error is not None and error.kind not in kinds:
        raise Finding(f"an error that none expects: {error}")
    if error is None and kinds:
        raise Finding(f"no error, where one of {kinds} is due")
    if error is None:
        for name, dense in expected.items():
            _take_over(world, number, name, values[name], dense, before)
    before.compare()


def run(session: Any, text: str) -> FinchError | None:
    """The error that a script ends in."""
    try:
        session.run(text)
    except FinchError as error:
        return error
    return None


def _refusals(program: Program, values: dict[str, Any]) -> list[str]:
    """The errors that are due to memory that is shared, or may not be written."""
    kinds = []
    for name in program.writes:
        mine = list(parts(values[name]))
        if not all(array.flags.writeable for array in mine):
            kinds.append("type")
        for other, value in values.items():
            shares = any(overlap(a, b) for a in mine for b in parts(value))
            if other != name and (value is values[name] or shares):
                kinds.append("life cycle")
    return kinds


def _take_over(
    world: World, number: int, name: str, value: Any, dense: np.ndarray, before: Snapshot
) -> None:
    """What `name` is bound to after a call: the same object, or another if the size is another."""
    now = world.sessions[number][name]
    if isinstance(value, Tensor):
        if now is not value:
            raise Finding(f"{name} is bound to another object than before")
        before.expect(value, dense.astype(float))
        return
    if dense.shape == value.shape:
        if now is not value:
            raise Finding(f"{name} is bound to another object than before")
        before.expect(value, dense)
        return
    before.give_up(value)
    if now is not value:
        world.past = [*world.past[-11:], value]
    found = now.toarray() if sp.issparse(now) else np.asarray(now)
    if found.shape != dense.shape or not np.allclose(found, dense):
        raise Finding(f"{name} is {found.tolist()}, not {dense.tolist()}")
