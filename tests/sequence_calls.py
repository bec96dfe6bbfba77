"""The steps of sequences that call kernels: on what is sound and what is not, with signals and threads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
from sequence_programs import (
    BY_COLUMNS,
    BY_ROWS,
    MATRIX_PROGRAMS,
    MULTIPLY,
    SCATTER,
    VECTOR_PROGRAMS,
    Program,
    call,
    run,
)
from sequence_steps import pick_session, step
from sequence_world import VECTORS, Finding, Snapshot, World, overlap, parts

from finchlang import FinchError, Tensor


@step(2)
def break_a_matrix(world: World, rng: Random) -> None:
    """Indices that lead out of it are refused at the next call, and harmless."""
    number = pick_session(world, rng)
    session = world.sessions[number]
    A = session["A"]
    if not sp.issparse(A) or not A.nnz or session["x"] is session["y"]:
        return
    part, at, by = rng.choice(
        (
            ("indices", -1, max(A.shape) + 5),
            ("indices", 0, -7),
            ("indices", A.nnz // 2, 10**8),
            ("indptr", -1, 10**8),
            ("indptr", -1, 1 + len(A.data)),
            ("indptr", 0, -1000),
            ("indptr", len(A.indptr) // 2, 10**6),
        )
    )
    if part == "indices" and at == -1 and A.nnz != len(A.indices):
        return
    array = getattr(A, part)
    program = _order(MULTIPLY, A)
    before, was = Snapshot(world), array[at]
    try:
        array[at] += by
    except ValueError:  # it is held read-only
        return
    world.say(f"S[{number}]['A'].{part}[{at}] += {by}; S[{number}].run({program.text!r})")
    error = run(session, program.text)
    array[at] = was
    world.say(f"S[{number}]['A'].{part}[{at}] = {was}")
    if error is None:
        raise Finding("no error, where a matrix is broken")
    before.compare()


def _is_dense(value: Any) -> bool:
    return isinstance(value, np.ndarray) or str(value.format).startswith("Dense")


def _order(programs: Any, value: Any) -> Program:
    """Of two programs that which goes through a value as it is stored."""
    return programs[sp.issparse(value) and value.format == "csr"]


# ------------------------------------------------------------------------------------------- calls


@step(14)
def call_on_vectors(world: World, rng: Random) -> None:
    number, program = pick_session(world, rng), rng.choice(VECTOR_PROGRAMS)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _call(world, number, program)


@step(6)
def call_on_matrices(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    C = world.sessions[number]["C"]
    order = BY_ROWS if sp.issparse(C) and C.format == "csr" else BY_COLUMNS
    program = rng.choice(MATRIX_PROGRAMS[order])
    target = world.sessions[number][program.writes[0]]
    if sp.issparse(target) and (target.format == "csr") != (order == BY_ROWS):
        return  # it would be refused: out of order
    if isinstance(target, Tensor) and order == BY_ROWS:
        return
    for _ in range(rng.choice((1, 1, 2, 3))):
        _call(world, number, program)


@step(5)
def multiply(world: World, rng: Random) -> None:
    number = pick_session(world, rng)
    y, A = (world.sessions[number][name] for name in ("y", "A"))
    if _is_dense(y):  # others are not written in this order
        for _ in range(rng.choice((1, 1, 3))):
            _call(world, number, _order(MULTIPLY, A))


@step(4)
def scatter(world: World, rng: Random) -> None:
    """Through indices that are all right, or one of which fails in the midst of the kernel."""
    number = pick_session(world, rng)
    session = world.sessions[number]
    sizes = [world.dense(session[name]).shape for name in "xy"]
    if len(sizes[0]) != 1 or len(sizes[1]) != 1 or not sizes[1][0]:
        return
    random = np.random.default_rng(rng.randrange(2**32))
    k = random.integers(1, sizes[1][0] + 1, sizes[0])
    stored = np.flatnonzero(world.dense(session["x"]))  # where x is 0 it may go unnoticed
    if stored.size and rng.random() < 0.5:
        k[rng.choice(stored.tolist())] = rng.choice((0, -5, sizes[1][0] + 1, 10**12))
    session["k"] = k
    world.say(f"S[{number}]['k'] = np.array({k[:9].tolist()})")
    _call(world, number, SCATTER)


def _call(world: World, number: int, program: Program) -> None:
    """Call where all kinds of values are ones that the program takes."""
    session = world.sessions[number]
    for name in program.names:
        order = 1 if name in (*VECTORS, "k") else 2
        value = session[name]
        if (value.order if isinstance(value, Tensor) else value.ndim) != order:
            return
        if name in program.writes and getattr(value, "dtype", None) != np.float64:
            return  # floats do not fit into it
    call(world, number, program)


# ------------------------------------------------------------------------------- signals, threads


class Alarm(Exception):
    """What a signal's handler raises."""


LONG = """@finch begin
    {declare}
    for r = 1:endless, i = _
        y[i] += cos(x[i] * r)
    end
end"""


@step(0.5)
def interrupt(world: World, rng: Random) -> None:
    """A kernel that would run for years is stopped, and leaves all as it was."""
    number = pick_session(world, rng)
    session = world.sessions[number]
    x, y = (world.dense(session[name]) for name in "xy")
    if x.ndim != 1 or not x.size or x.shape != y.shape or y.dtype != np.float64:
        return
    if not _is_dense(session["y"]):
        return
    if not all(part.flags.writeable for part in parts(session["y"])):
        return
    if any(overlap(a, b) for a in parts(session["x"]) for b in parts(session["y"])):
        return
    session["endless"] = 10**15
    before = Snapshot(world)
    text = LONG.format(declare=rng.choice(("y .= 0", "")))
    kind = rng.choice((Alarm, KeyboardInterrupt))
    world.say(f"interrupt S[{number}].run({text!r}) by {kind.__name__}")
    if _interrupted(lambda: run(session, text), kind) is None:
        raise Finding("a kernel that never ends has ended")
    before.compare()


def _interrupted(work: Callable[[], Any], kind: type[BaseException]) -> Any:
    """What `work` gives or raises, which a signal interrupts."""
    running = True

    def handler(*_: Any) -> None:
        if running:
            raise kind

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004, 0.2)
        return work()
    except (Alarm, KeyboardInterrupt) as raised:
        return raised
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@step(0.3)
def two_threads(world: World, rng: Random) -> None:
    """Each works on names of its own in one session."""
    session = world.sessions[0]
    raised: list[Any] = []

    def work(name: str) -> None:
        text = f"@finch begin\n{name}{name} .= 0\nfor i = _\n {name}{name}[i] = {name}[i] * 3\nend\nend"
        session[f"{name}{name}"] = Tensor(world.formats[0], 1)
        for n in (3, 9, 2, 30):
            session[name] = np.arange(float(n))
            for _ in range(5):
                error = run(session, text)
                if error is not None:
                    raised.append(error)
                elif session[f"{name}{name}"].to_numpy().tolist() != [3.0 * k for k in range(n)]:
                    raised.append(f"{name}{name} is not 3 {name}")

    world.say("two threads run kernels on S[0]")
    threads = [threading.Thread(target=work, args=(name,)) for name in "pq"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [r for r in raised if not (isinstance(r, FinchError) and "thread" in r.message)]
    if wrong:
        raise Finding(f"two threads: {wrong[0]}")
