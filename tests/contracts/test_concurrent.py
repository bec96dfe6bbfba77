"""The contract of calls beside one another: threads, signal handlers, interrupts and forked processes; and
that what goes leaves no memory behind."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import scipy.sparse as sp
from alarms import Alarm, alarmed, ctrl_c, raise_alarm
from in_child import in_child, isolated
from llvmlite.binding import ffi

from finchlang import FinchError, Session, Tensor
from finchlang.text.parse import parse_script

FORMATS = pytest.mark.parametrize("format", ["Dense(Element(0.0))", "SparseList(Element(0.0))"])
SQUARES = "@finch begin\n{y} .= 0\nfor i = _\n if {x}[i] != 3\n  {y}[i] += {x}[i] * {x}[i]\n end\nend\nend"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")  # compiling takes its time


def check(number: int) -> None:
    """A kernel that no other number gives, in a session that goes."""
    session = Session()
    session["x"] = np.arange(4.0)
    session.run("t = Scalar(0.0)")
    session.run(f"@finch begin\nt .= 0\nfor i = _\n t[] += x[i] * {number}.5\nend\nend")
    assert session["t"].value == 6 * (number + 0.5)


def together(works: list[Callable[[], None]]) -> None:
    """Do each work in a thread of its own, with many changes of threads; raises what one raises."""
    raised: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


# ---------------------------------------------------------------------------------------- threads


@FORMATS
@isolated
def test_threads_on_one_session(format: str) -> None:
    """Each call is right, or refused because the session is another thread's; the session goes on."""
    session = Session()

    def work(x: str, y: str) -> Callable[[], None]:
        session[y] = Tensor(format, 1)
        text = SQUARES.format(x=x, y=y)

        def run() -> None:
            rng = np.random.default_rng(len(x))
            for _ in range(400):
                given = session[x] = np.round(rng.random(rng.integers(1, 60)) * 4)
                try:
                    session.run(text)
                except FinchError as error:
                    assert "thread" in error.message
                    continue
                assert np.array_equal(session[y].to_numpy(), np.where(given == 3, 0, given * given))

        return run

    works = [work("x", "y"), work("xx", "yy")]
    together(works)
    for run in works:
        run()


@FORMATS
@isolated
def test_threads_on_one_output(format: str) -> None:
    """Which thread's result is there is open; nothing is broken, and the session goes on."""
    session, text = Session(), SQUARES.format(x="x", y="y")
    session["y"] = Tensor(format, 1)

    def run() -> None:
        for k in range(600):
            session["x"] = np.full(1 + 37 * k % 61, float(k % 5))
            try:
                session.run(text)
            except FinchError as error:
                assert "thread" in error.message

    together([run, run, run])
    session["x"] = np.arange(5.0)
    session.run(text)
    assert session["y"].to_numpy().tolist() == [0, 1, 4, 0, 16]


@isolated
def test_threads_with_a_session_each() -> None:
    together([lambda: [check(k) for k in range(12)] and None] * 2)


@isolated
def test_a_signal_handler_that_compiles_while_the_main_thread_compiles() -> None:
    done = []

    def handler(*_: object) -> None:
        try:
            check(1000 + len(done))
        except FinchError as error:  # the other kernel was not being compiled, but being run
            assert error.kind == "life cycle"
        else:
            done.append(0)

    signal.signal(signal.SIGALRM, handler)
    number = 0
    while len(done) <= 10:  # whenever it comes
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (number % 40 + 1))
        check(number)
        number += 1
    signal.setitimer(signal.ITIMER_REAL, 0)


@isolated
def test_children_that_are_forked_during_a_compilation() -> None:
    """A child compiles and runs kernels of its own; also if it is forked while what another thread compiled
    is freed, for which llvmlite takes its own lock."""
    stop, compiled, is_freeing = threading.Event(), threading.Semaphore(0), threading.Event()

    def compile_on() -> None:
        number = 0
        while not stop.is_set():
            check(number)
            number += 1
            compiled.release()

    def free() -> None:
        with ffi.lib._lock:
            is_freeing.set()
            threading.Event().wait(0.5)

    def fork(number: int) -> None:
        child = os.fork()
        if not child:
            signal.alarm(60)
            check(number)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert not status, f"child {number} hung or failed: {status}"

    threads = [threading.Thread(target=free), threading.Thread(target=compile_on)]
    threads[0].start()
    is_freeing.wait()
    fork(500)
    threads[1].start()
    for k in range(12):
        if k % 3 == 0:
            compiled.acquire()
        fork(501 + k)
    stop.set()
    for thread in threads:
        thread.join()


# ------------------------------------------------------------------------------------- interrupts


ANSWERS = pytest.mark.parametrize("answer", [ctrl_c, raise_alarm])


@ANSWERS
@isolated
def test_an_interrupt_during_a_repeated_call(answer: Callable[[], None]) -> None:
    """A handler's exception comes through, Ctrl-C is an error, and what the kernel did is taken back."""
    session = Session()
    session["x"], session["y"] = np.zeros(1000), Tensor("Dense(Element(0.0))", 1000)
    session["n"] = np.array([10])
    loops = "for t = _, i = _; for k = 1:n[t]; y[i] += cos(x[i] * k) end end"
    program = f"@finch begin y .= 0; {loops} end"
    for _ in range(9):
        session.run(program)
    session["n"][:] = 10**12
    with pytest.raises((Alarm, FinchError)) as caught, alarmed(answer, 0.1):
        session.run(program)
    assert (caught.type is Alarm) == (answer is raise_alarm)
    assert session["y"].to_numpy().tolist() == [10.0] * 1000
    session["n"][:] = 3
    session.run(program)
    assert session["y"].to_numpy().tolist() == [3.0] * 1000


def is_interrupted(work: Callable[[], object], after: int) -> bool:
    """Do the work, with an alarm at so many of the places where Python may raise one: as a function begins,
    and after one of C or an object is made. Whether it came so far."""

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal after
        is_made = event == "return" and frame.f_code.co_name == "__init__"
        if (is_made or event in ("call", "c_return")) and "finchlang" in frame.f_code.co_filename:
            after -= 1
            if not after:
                raise Alarm

    sys.setprofile(count)
    with contextlib.suppress(Alarm):
        work()
    sys.setprofile(None)
    return after <= 0


#: results that are taken over in ways of their own
START = np.arange(4.0)
RESULTS: list[Callable[[], Any]] = [START.copy, lambda: np.repeat(START, 2)[::2]]
RESULTS += [lambda: Tensor("SparseList(Element(0.0))", START), lambda: sp.coo_array(START)]


@pytest.mark.filterwarnings("ignore:Exception ignored")
@pytest.mark.parametrize("one, swaps", [(0, 0), (1, 0), (2, 0), (3, 0), (2, 3), (2, -3)])
@isolated
def test_an_interrupt_between_two_results(one: int, swaps: int) -> None:
    """Either both are written, with their names swapped, or none is; names alone lose none."""
    session, text = Session(staging=swaps > 0), "@finch for i = _; y[i] += x[i]; z[i] += x[i]; end"
    text = f"for k = 1:{abs(swaps)}; {text}; y, z = z, y; n += 1 end" if swaps else text
    for after in range(10**4):  # at first it compiles
        session["y"], session["z"], session["x"] = (
            RESULTS[one](),
            RESULTS[one - (not swaps)](),
            np.ones(4),
        )
        session["n"] = 0
        is_last = not is_interrupted(partial(session.run, text), after or 10**9) and after > 0
        y, z = (Tensor(session[name]).to_numpy().tolist() for name in "yz")
        assert y == z and session["y"] is not session["z"], (after, y, z)
        assert swaps < 0 or (y[0], session["n"]) in [(0, 0), (swaps or 1, swaps)][not after :]
        if is_last:
            break
    assert 50 < after < 9999


#: operands of which many loops are staged for minutes
SLOWLY = [
    "SparseBlockList(SparseRunList({}))",
    "SparseBand(RunList({}))",
    "RunList(SparseList({}))",
]


@pytest.mark.parametrize("engine", ["native", "interpret", "residual"])
@ANSWERS
@isolated
def test_a_kernel_that_takes_long_to_stage_is_stopped(
    engine: str, answer: Callable[[], None]
) -> None:
    """By Ctrl-C, and by a limit of the user's; the session is as before."""
    session, n = Session(engine=engine), 60
    for name, format in zip("ABC", SLOWLY, strict=True):
        session[name] = Tensor(format.format("Element(0.0)"), np.eye(n))
    session["y"] = y = np.full(n, 7.0)
    slow = "for j = _, i = _ y[i] += A[i, j] + B[i, j] + C[i, j] end;" * 300
    script = parse_script(f"@finch begin y .= 0; {slow} end")
    with pytest.raises((FinchError, Alarm)) as caught, alarmed(answer, 0.3):
        session.execute(script)
    assert getattr(caught.value, "kind", Alarm) == ("interrupted" if answer is ctrl_c else Alarm)
    assert session["y"] is y and y.tolist() == [7] * n
    session.run("@finch begin y .= 0; for j = _, i = _ y[i] += A[i, j] + B[i, j] end end")
    assert y.tolist() == [2] * n


# ----------------------------------------------------------------------------------------- memory


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it is Linux that says so there")
def test_kernels_of_sessions_that_are_gone() -> None:
    """Once what is kept on purpose (of the last few hundred texts) is there, nothing more stays."""

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def work(report: Callable[[str], None]) -> None:
        for number in range(400):
            if number == 300:
                before = resident()
            check(number)
        assert resident() < 1.01 * before, f"{before:,} bytes became {resident():,}"

    ended = in_child(work, seconds=600)
    assert ended, f"{ended.fault}\n{ended.said}"


def test_a_call_keeps_nothing_that_it_was_given() -> None:
    """Neither arrays nor a matrix's parts: their owner may have them resized, and let them go."""
    session, A, x = Session(), sp.csc_array(np.eye(5)), np.ones(5)
    session["A"], session["x"], session["y"] = A, x, np.zeros(5)
    for _ in range(2):
        session.run("@finch begin y .= 0; for j = _, i = _; y[i] += A[i, j] * x[j] end end")
    given = [ref(x), *map(ref, (A, A.data, A.indices, A.indptr))]
    session["A"] = session["x"] = 0
    del A, x
    gc.collect()
    assert not any(one() is not None for one in given)
