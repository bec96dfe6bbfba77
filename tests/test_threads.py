"""Threads, signal handlers and forked processes that use sessions while others do."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from in_child import isolated

from finchlang import FinchError, Session, Tensor

SQUARES = "@finch begin\n{y} .= 0\nfor i = _\n if {x}[i] != 3\n  {y}[i] += {x}[i] * {x}[i]\n end\nend\nend"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", "")  # compiling takes its time


def program(number: int) -> str:
    """A kernel that no other number gives."""
    return f"@finch begin\nt .= 0\nfor i = _\n t[] += x[i] * {number}.5\nend\nend"


def fresh() -> Session:
    session = Session()
    session["x"] = np.arange(4.0)
    session.run("t = Scalar(0.0)")
    return session


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


@pytest.mark.parametrize("format", ["Dense(Element(0.0))", "SparseList(Element(0.0))"])
@isolated
def test_two_threads_on_one_session(format: str) -> None:
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


@pytest.mark.parametrize("format", ["Dense(Element(0.0))", "SparseList(Element(0.0))"])
@isolated
def test_two_threads_on_one_kernel_and_output(format: str) -> None:
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
def test_two_threads_with_a_session_each() -> None:
    def run() -> None:
        session = fresh()
        for k in range(12):
            session.run(program(k))
            assert session["t"].value == 6 * (k + 0.5)

    together([run, run])


@isolated
def test_a_signal_handler_that_compiles_while_the_main_thread_compiles() -> None:
    done = []

    def handler(*_: object) -> None:
        session = fresh()
        try:
            session.run(program(1000 + len(done)))
        except FinchError as error:  # the other kernel was not being compiled, but being run
            assert error.kind == "life cycle"
        else:
            done.append(session["t"].value)

    signal.signal(signal.SIGALRM, handler)
    session = fresh()
    for k in range(40):
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (k + 1))
        session.run(program(k))
        assert session["t"].value == 6 * (k + 0.5)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(done) > 10
    assert done == [6 * (1000 + k + 0.5) for k in range(len(done))]


@isolated
def test_children_that_are_forked_during_a_compilation() -> None:
    """A child compiles and runs kernels of its own."""
    stop = threading.Event()

    def compile_on() -> None:
        session, number = fresh(), 0
        while not stop.is_set():
            session.run(program(number))
            number += 1

    thread = threading.Thread(target=compile_on)
    thread.start()
    for k in range(12):
        time.sleep(0.003 * (k % 5))
        child = os.fork()
        if not child:
            signal.alarm(5)
            session = fresh()
            session.run(program(500 + k))
            os._exit(session["t"].value != 6 * (500 + k + 0.5))
        status = os.waitpid(child, 0)[1]
        assert not status, f"child {k} hung or failed: {status}"
    stop.set()
    thread.join()
