"""The steps of sequences that change what is bound: other values, and the same ones changed in place."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
from sequence_world import MATRICES, SIZES, VECTORS, Finding, World, root

from finchlang import FinchError, Tensor

Step = Callable[[World, Random], None]
STEPS: list[Step] = []
WEIGHTS: list[float] = []


def step(weight: float) -> Callable[[Step], Step]:
    def register(function: Step) -> Step:
        STEPS.append(function)
        WEIGHTS.append(weight)
        return function

    return register


def pick_session(world: World, rng: Random) -> int:
    return rng.choices(range(len(world.sessions)), (4, 1)[: len(world.sessions)])[0]


def numbers(rng: Random, *shape: int) -> np.ndarray:
    """Small whole numbers, many of them 0 or equal to their neighbours."""
    random = np.random.default_rng(rng.randrange(2**32))
    share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    dense = random.integers(0, 5, shape) * (random.random(shape) < share)
    return np.repeat(dense, 2, axis=0)[: shape[0]] * 1.0 if rng.random() < 0.3 else dense * 1.0


def bound(world: World, number: int, names: tuple[str, ...], rng: Random, kind: Any) -> Any:
    """The value of one of the names that is of a kind, or None; and the name."""
    names = tuple(n for n in names if isinstance(world.sessions[number][n], kind))
    name = rng.choice(names) if names else ""
    return (world.sessions[number][name], name) if names else (None, name)


# ----------------------------------------------------------------------------------------- binding


@step(4)
def bind_an_array(world: World, rng: Random) -> None:
    number, name, n = pick_session(world, rng), rng.choice(VECTORS), rng.choice(SIZES)
    dense = numbers(rng, n)
    layout = rng.choice(("plain", "plain", "strided", "reversed", "inner", "slack"))
    memory = np.zeros(2 * n + 3)
    views = {
        "plain": dense,
        "strided": memory[: 2 * n : 2],
        "reversed": memory[2 : n + 2][::-1],
        "inner": memory[1 : n + 1],
        "slack": memory[:n],
    }
    views[layout][...] = dense
    world.bind(number, name, views[layout], f"<{layout} array of {n}> {dense[:9].tolist()}")


@step(3)
def bind_a_tensor(world: World, rng: Random) -> None:
    number, name, n = pick_session(world, rng), rng.choice(VECTORS), rng.choice(SIZES)
    format, dense = rng.choice(world.formats), numbers(rng, n)
    try:
        tensor = Tensor.from_numpy(dense, format)
    except FinchError:
        return
    world.keep(tensor, dense)
    text = f"Tensor.from_numpy({dense[:9].tolist()}..{n}, '{format}')"
    world.bind(number, name, tensor, text)


@step(3)
def bind_a_matrix(world: World, rng: Random) -> None:
    number, name = pick_session(world, rng), rng.choice(MATRICES)
    m, n = rng.choice((0, 1, 2, 5, 5, 8, 40)), rng.choice((0, 1, 3, 5, 5, 8, 40))
    dense = numbers(rng, m, n) if m else np.zeros((m, n))
    kind = rng.choice(("C", "F", "strided", "csc", "csr", "csc", "csr", "tensor", "tensor"))
    value: Any = dense
    if kind == "tensor":
        kind = rng.choice(world.matrix_formats)
        value = Tensor.from_numpy(dense, kind)
        world.keep(value, dense)
    elif kind in ("csc", "csr"):
        value = sp.csc_array(dense) if kind == "csc" else sp.csr_array(dense)
    elif kind == "strided":
        value = np.zeros((2 * m, n))[::2]
        value[...] = dense
    else:
        value = np.array(dense, order=kind)  # type: ignore[call-overload]
    world.bind(number, name, value, f"<{kind} {m} x {n}> {dense.tolist() if m * n < 30 else ''}")


@step(1)
def bind_a_view(world: World, rng: Random) -> None:
    number, target = pick_session(world, rng), rng.choice(VECTORS)
    x, name = bound(world, number, VECTORS, rng, np.ndarray)
    if x is not None and x.ndim == 1:
        cut = rng.choice((slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1)))
        world.bind(number, target, x[cut], f"S[{number}]['{name}'][{cut}]")


@step(1)
def bind_an_alias(world: World, rng: Random) -> None:
    one, other = pick_session(world, rng), pick_session(world, rng)
    names = rng.choice((VECTORS, MATRICES))
    name, target = rng.choice(names), rng.choice(names)
    value = world.sessions[one][name]
    world.bind(other, target, value, f"S[{one}]['{name}']")


@step(2)
def bind_again(world: World, rng: Random) -> None:
    """What was bound before; most of all where a kernel outgrew it."""
    number = pick_session(world, rng)
    if world.past:
        at = rng.randrange(len(world.past))
        value = world.past[-1 - at]
        name = rng.choice(VECTORS if getattr(value, "ndim", 0) == 1 else MATRICES)
        if isinstance(value, Tensor):
            name = rng.choice(VECTORS if value.order == 1 else MATRICES)
        world.bind(number, name, value, f"past[{-1 - at}]")


@step(1)
def swap_names(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    one, other = rng.sample(rng.choice((VECTORS, MATRICES)), 2)
    session = world.sessions[number]
    if rng.random() < 0.5:
        session.run(f"{one}, {other} = {other}, {one}")
    else:
        session[one], session[other] = session[other], session[one]
    world.say(f"S[{number}]: {one}, {other} = {other}, {one}")


# ------------------------------------------------------------------------- arrays changed in place


@step(2)
def change_numbers(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    x, name = bound(world, number, (*VECTORS, *MATRICES), rng, (np.ndarray, sp.sparray))
    target = x.data if sp.issparse(x) else x
    if x is not None and target.flags.writeable:
        target[...] = numbers(rng, *target.shape) if target.size else 0
        world.say(f"S[{number}]['{name}'][...] = {target.ravel()[:9].tolist()}")


@step(2)
def change_an_array(world: World, rng: Random) -> None:
    """Its shape, strides, type, size or flags."""
    number = pick_session(world, rng)
    x, name = bound(world, number, VECTORS, rng, np.ndarray)
    if x is None or x.ndim != 1:
        return
    what = rng.choice(("strides", "type", "size", "size", "flags"))
    said = f"S[{number}]['{name}']"
    if what == "flags":
        x.flags.writeable = not x.flags.writeable and root(x).flags.writeable
        world.say(f"{said}.flags.writeable = {x.flags.writeable}")
    elif not x.flags.writeable:
        return
    elif what == "strides" and x.base is not None and x.strides == (8,) and x.size:
        slack = root(x).nbytes - (x.__array_interface__["data"][0] - _start(x))
        if slack >= 16 * x.size:
            x.strides = (16,)
            world.say(f"{said}.strides = (16,)")
    elif what == "type" and x.base is None and world.is_alone(x):
        x.dtype = np.int64 if x.dtype == np.float64 else np.float64
        x[:] = np.arange(x.size)
        world.say(f"{said}.dtype = {x.dtype}; [:] = arange")
    elif what == "size" and x.base is None and world.is_alone(x):
        world.forget(x)
        n = rng.choice(SIZES)
        x.resize(n, refcheck=False)
        x[:] = np.arange(n) % 7
        world.say(f"{said}.resize({n}, refcheck=False); [:] = arange % 7")


def _start(x: np.ndarray) -> int:
    return root(x).__array_interface__["data"][0]


@step(1)
def change_a_shape(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    A, name = bound(world, number, MATRICES, rng, np.ndarray)
    if A is not None and A.size and A.flags.c_contiguous:
        A.shape = rng.choice((A.shape[::-1], (1, A.size), (A.size, 1)))
        world.say(f"S[{number}]['{name}'].shape = {A.shape}")


# ------------------------------------------------------------------------ matrices changed in place


@step(1)
def resize_a_matrix(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    A, name = bound(world, number, MATRICES, rng, sp.sparray)
    if A is not None and all(p.flags.writeable for p in (A.data, A.indices, A.indptr)):
        A.resize(rng.choice((1, 5, 8, 40)), rng.choice((1, 5, 9)))
        world.say(f"S[{number}]['{name}'].resize{A.shape}")


@step(1)
def replace_parts(world: World, rng: Random) -> None:
    """Other arrays, which need not be contiguous or in native byte order."""
    number = pick_session(world, rng)
    A, name = bound(world, number, MATRICES, rng, sp.sparray)
    if A is None:
        return
    part = rng.choice(("data", "indices", "indptr"))
    old = getattr(A, part)
    layout = rng.choice(("copy", "longer", "strided", "reversed", "swapped", "wide"))
    new = old.copy()
    if layout == "strided":
        new = np.repeat(old, 2)[::2]
    elif layout == "reversed":
        new = old[::-1].copy()[::-1]
    elif layout == "swapped":
        new = old.astype(old.dtype.newbyteorder())
    elif layout == "longer" and part != "indptr":
        A.data, A.indices = (np.concatenate((a, a[:1], a[:1])) for a in (A.data, A.indices))
        new = getattr(A, part)
    elif layout == "wide" and part != "data":
        new = old.astype(np.int64)
    setattr(A, part, new)
    world.say(f"S[{number}]['{name}'].{part} = <{layout}>")


@step(1)
def sort_otherwise(world: World, rng: Random) -> None:
    """The entries of each fiber the other way round."""
    number = pick_session(world, rng)
    A, name = bound(world, number, MATRICES, rng, sp.sparray)
    if A is None or not len(A.indices):
        return
    before = A.toarray()
    try:
        for p, q in zip(A.indptr, A.indptr[1:], strict=False):
            A.indices[p:q] = A.indices[p:q][::-1].copy()
            A.data[p:q] = A.data[p:q][::-1].copy()
    except ValueError:  # they are held read-only
        return
    if rng.random() < 0.5:
        A.has_sorted_indices = False
    world.say(f"the entries of S[{number}]['{name}'] the other way round")
    if not np.array_equal(A.toarray(), before):
        raise Finding(f"{name} was changed half")
