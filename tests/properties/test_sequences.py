"""Sequences of calls against plain NumPy: names are bound, bound again and swapped, values are resized,
viewed, changed in place, copied and pickled, kernels are called, fail and are interrupted. After each call
all memory is compared with what NumPy says."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sequence_world
from alarms import Alarm, alarmed, ctrl_c, raise_alarm
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import run_state_machine_as_test
from in_child import in_child
from sequence_binding import Binding, seeds, sessions, step
from sequence_world import (
    DUPLICATES,
    FORMATS,
    GATHER,
    PROGRAMS,
    SCATTER,
    TOO_LARGE,
    Finding,
    Snapshot,
    call,
    overlap,
    run,
)

from finchlang import FinchError, Session, Tensor


class Sequences(Binding):
    """Calls of kernels on what is bound, and errors and interrupts."""

    @step(8, s=sessions, program=st.sampled_from(PROGRAMS), times=st.sampled_from((1, 1, 1, 2, 4)))
    def call_a_kernel(self, s: int, program: Any, times: int) -> None:
        for _ in range(times):
            call(self.world, s, program)

    @step(2, s=sessions, how=st.sampled_from(("function", "kernel", *sorted(DUPLICATES))))
    def call_a_function(self, s: int, how: str) -> None:
        """A function of the script, a kernel of Python, and one that was copied or pickled."""
        call(self.world, s, PROGRAMS[2], how)

    @step(s=sessions)
    def ask_for_too_much_memory(self, s: int) -> None:
        if self.world.sessions[s]["x"].shape != (0,) and isinstance(
            self.world.sessions[s]["y"], np.ndarray
        ):
            call(self.world, s, TOO_LARGE)

    @step(
        3,
        s=sessions,
        program=st.sampled_from((SCATTER, GATHER)),
        seed=seeds,
        bad=st.sampled_from((None, None, 0, -5, 1, 10**12)),
        dtype=st.sampled_from(("i8", "i8", "i4", ">i4", "i2", "u2", "i1")),
    )
    def call_through_indices(
        self, s: int, program: Any, seed: int, bad: int | None, dtype: str
    ) -> None:
        """That are all right, or one of which fails in the midst of the kernel."""
        session = self.world.sessions[s]
        shapes = [session[name].shape for name in "xy"]
        if len(shapes[0]) != 1 or len(shapes[1]) != 1:
            return
        through = shapes[1][0] if program is SCATTER else shapes[0][0]
        rng = np.random.default_rng(seed)
        k = (
            rng.integers(1, through + 1, shapes[0] if program is SCATTER else shapes[1])
            if through
            else 0
        )
        k = np.atleast_1d(k)
        if not through and program is SCATTER:
            return
        stored = np.flatnonzero(self.world.dense(session["x"]))  # where x is 0 it may go unnoticed
        if bad is not None and program is GATHER:
            stored = np.arange(len(k))
        if bad is not None and stored.size:
            k[rng.choice(stored)] = through + 1 if bad == 1 else bad
        if (
            np.abs(k).max(initial=0) <= np.iinfo(dtype).max
            and k.min(initial=0) >= np.iinfo(dtype).min
        ):
            k = k.astype(dtype)
        session["k"] = k
        call(self.world, s, program)

    @step(
        *(),
        s=sessions,
        where=st.sampled_from(
            (
                *(("indices", -1, 45), ("indices", 0, -7), ("indices", 0, 10**8)),
                *(("indptr", -1, 10**8), ("indptr", 0, -1000), ("indptr", 1, 10**6)),
            )
        ),
    )
    def break_a_matrix(self, s: int, where: tuple[str, int, int]) -> None:
        """Indices that lead out of it are refused at the next call, and harmless."""
        session, (part, at, by) = self.world.sessions[s], where
        A = session["A"]
        if not sp.issparse(A) or A.nnz != len(A.indices) or not A.nnz:
            return
        array, before = getattr(A, part), Snapshot(self.world)
        try:
            array[at] += by
        except ValueError:  # it is held read-only
            return
        error = run(session, PROGRAMS[-1 if A.format == "csr" else -2].text)
        array[at] -= by
        if error is None:
            raise Finding("no error, where a matrix is broken")
        before.compare()

    # ----------------------------------------------------------------------- interrupts and threads

    @step(
        *(),
        s=sessions,
        is_declared=st.booleans(),
        kind=st.sampled_from(("handler", "Ctrl-C")),
        after=st.sampled_from((0.004, 0.03)),
    )
    def interrupt(self, s: int, is_declared: bool, kind: str, after: float) -> None:
        """A kernel that would run for years is stopped, and leaves all as it was."""
        session = self.world.sessions[s]
        x, y = session["x"], session["y"]
        if not isinstance(y, np.ndarray) or y.dtype.kind != "f" or not y.flags.writeable:
            return
        if x.shape != y.shape or not y.size or y.ndim != 1 or overlap(self.world.base(x), y):
            return
        session["endless"] = 10**15
        before = Snapshot(self.world)
        first = "y .= 0\n" if is_declared else ""
        text = f"@finch begin\n{first}for r = 1:endless, i = _\n y[i] += cos(x[i] * r)\nend\nend"
        if _interrupted(lambda: run(session, text), kind == "Ctrl-C", after) is None:
            raise Finding("a kernel that never ends has ended")
        before.compare()

    @step(is_one=st.booleans(), format=st.sampled_from(FORMATS[:-2]))
    def two_threads(self, is_one: bool, format: str) -> None:
        """Each works on names of its own in one session, or in one of its own."""
        raised: list[Any] = []

        def work(session: Session, name: str) -> None:
            text = f"@finch begin\n{name}2 .= 0\nfor i = _\n {name}2[i] = {name}[i] * 3\nend\nend"
            session[f"{name}2"] = Tensor(format, 1)
            for n in (3, 9, 2, 30):
                session[name] = np.arange(float(n))
                for _ in range(5):
                    error = run(session, text)
                    if error is not None:
                        raised.append(error)
                    elif session[f"{name}2"].to_numpy().tolist() != [3.0 * k for k in range(n)]:
                        raised.append(f"{name}2 is not 3 {name}")

        ran = self.world.sessions[0], self.world.sessions[not is_one]
        threads = [
            threading.Thread(target=work, args=(r, n)) for r, n in zip(ran, "pq", strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong = [r for r in raised if not (isinstance(r, FinchError) and "thread" in r.message)]
        if wrong:
            raise Finding(f"two threads: {wrong[0]}")


for _name, _rule in list(vars(Sequences).items()):  # a rule is drawn as often as it has names
    for _k in range(1, getattr(_rule, "weight", 1)):
        setattr(Sequences, f"{_name}_{_k}", _rule)


def _interrupted(work: Callable[[], Any], is_ctrl_c: bool, after: float) -> Any:
    """What `work` gives or raises, which a signal interrupts after so many seconds."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with alarmed(ctrl_c if is_ctrl_c else raise_alarm, after):
            return work()
    except (Alarm, KeyboardInterrupt) as raised:
        return raised
    finally:
        signal.signal(signal.SIGINT, old)


def play(
    cases: int,
    seed: int | None = None,
    steps: int = 24,
    isolated: bool = False,
    phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink),
) -> None:
    """Play so many sequences, always the same without a seed. Raises what the shortest one found shows."""
    machine = type("Sequences", (Sequences,), {"is_isolated": isolated})
    if seed is not None:
        machine._hypothesis_internal_use_seed = seed  # type: ignore[attr-defined]
    gc.freeze()  # what is there now stays: it is not looked through for garbage again and again
    own = settings(
        *(),
        max_examples=cases,
        stateful_step_count=steps,
        print_blob=False,
        deadline=None,
        derandomize=seed is None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=own)


#: sequences that the suite plays
CASES = int(os.environ.get("SEQUENCES", "100"))


def test_sequences_of_calls_do_what_numpy_does(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path))
    ended = in_child(lambda report: play(CASES), seconds=600)
    assert ended, f"{ended.fault}\n{ended.said[-4000:]}"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_call_that_does_nothing_is_found(isolated: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(sequence_world, "run", lambda session, text: None)
    with pytest.raises(Finding):
        play(20, seed=1, steps=8, isolated=isolated, phases=(Phase.generate,))


def test_a_hundred_thousand_calls_of_one_kernel() -> None:
    """An entry is changed, then not for as many calls as there are marks to tell calls apart and more,
    then in a call that fails: all is as before it. Any counter of fewer than nine bits wraps around."""
    session, y, s = Session(), np.zeros(4), np.array([1.0, 2.0])
    stored = Tensor.from_numpy(
        s, "SparseList(Element(0.0))"
    )  # a dense one is looked through before
    k = np.array([2, 3])
    session["y"], session["k"], session["s"] = y, k, stored
    wanted, calls = np.zeros(4), 0
    for gap in range(1, 445):
        for at in range(gap):
            k[:] = (1, 4) if at == 0 else (2 + at % 2, 3)
            np.add.at(wanted, k - 1, s)
            session.run(SCATTERED)
        k[:] = 1, 99
        with pytest.raises(FinchError):
            session.run(SCATTERED)
        assert y.tolist() == wanted.tolist() and session["y"] is y, gap
        calls += gap + 1
    assert calls > 99_000


SCATTERED = "@finch for p = _; y[k[p]] += s[p]; end"
