"""Sequences of calls against plain NumPy: names are bound, bound again and swapped, values are resized,
viewed, changed in place, copied and pickled, kernels are called, fail and are interrupted. After each call
all memory is compared with what NumPy says."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sequence_world
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from in_child import in_child
from sequence_world import (
    DUPLICATES,
    FORMATS,
    GATHER,
    MATRICES,
    MATRIX_FORMATS,
    PROGRAMS,
    SCATTER,
    TOO_LARGE,
    VECTORS,
    Finding,
    Snapshot,
    World,
    address,
    call,
    overlap,
    parts,
    root,
    run,
)

from finchlang import FinchError, Session, Tensor

sizes = st.sampled_from((0, 1, 2, 3, 5, 5, 5, 8, 17, 70, 9000))
#: the first session is used most
sessions = st.sampled_from((0, 0, 0, 1))
vectors, matrices = st.sampled_from(VECTORS), st.sampled_from(MATRICES)
names = st.sampled_from((*VECTORS, *MATRICES))
seeds = st.integers(0, 2**32 - 1)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers, many of them 0 or equal to their neighbours."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 5, shape) * (rng.random(shape) < rng.choice((0, 0.1, 0.5, 0.9, 1)))
    return np.repeat(dense, 2, axis=0)[: shape[0]] * 1.0 if seed % 3 == 2 else dense * 1.0


def laid_out(dense: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers in an array of another layout or type."""
    n = len(dense)
    if layout in ("C", "F"):
        return np.array(dense, order=layout)  # type: ignore[call-overload]
    if layout == "read-only":
        dense = dense.copy()
        dense.flags.writeable = False
    if layout in (">f8", "f4", "i1", ">i4", "u2"):
        return dense.astype(layout)
    memory = np.zeros((2 * n + 3, *dense.shape[1:]))
    views = {"strided": memory[: 2 * n : 2], "reversed": memory[2 : n + 2][::-1]}
    views |= {"inner": memory[1 : n + 1], "slack": memory[:n]}
    if layout not in views:
        return dense
    views[layout][...] = dense
    return views[layout]


layouts = st.sampled_from(
    (
        "C",
        "C",
        "F",
        "strided",
        "reversed",
        "inner",
        "slack",
        "read-only",
        ">f8",
        "f4",
        "i1",
        ">i4",
        "u2",
    )
)


def step(weight: int = 1, **drawn: Any) -> Callable[[Any], Any]:
    """A rule of the machine, which is played when it is drawn or, if the machine keeps them, later."""

    def register(body: Any) -> Any:
        def play(self: Sequences, **given: Any) -> None:
            self.later.append((body, given)) if self.is_isolated else body(self, **given)

        play.__name__ = body.__name__
        made = rule(**drawn)(play)
        made.weight = weight
        return made

    return register


class Sequences(RuleBasedStateMachine):
    """Steps that change what is bound, or call a kernel on it. `is_isolated` plays each sequence in a
    child process, so that one that crashes or hangs is made shorter like others."""

    is_isolated = False
    SECONDS = 30.0

    def __init__(self) -> None:
        super().__init__()
        self.later: list[tuple[Any, dict[str, Any]]] = []
        self.world = World()

    def teardown(self) -> None:
        def play(report: Callable[[str], None]) -> None:
            for body, given in self.later:
                body(self, **given)
            Snapshot(self.world).compare()

        if self.is_isolated:
            ended = in_child(play, self.SECONDS)
            if not ended:
                raise Finding(f"{ended.fault}\n{ended.said}")
        else:
            Snapshot(self.world).compare()

    def bound(self, number: int, name: str, kind: Any) -> Any:
        """The value of a name, if it is of a kind."""
        value = self.world.sessions[number][name]
        return value if isinstance(value, kind) else None

    # -------------------------------------------------------------------------------------- binding

    @step(s=sessions, name=vectors, n=sizes, seed=seeds, layout=layouts)
    def bind_an_array(self, s: int, name: str, n: int, seed: int, layout: str) -> None:
        self.world.bind(s, name, laid_out(numbers(seed, n), layout))

    @step(s=sessions, name=vectors, n=sizes, seed=seeds, format=st.sampled_from(FORMATS))
    def bind_a_tensor(self, s: int, name: str, n: int, seed: int, format: str) -> None:
        dense = numbers(seed, n)
        try:
            tensor = Tensor.from_numpy(dense, format)
        except FinchError as error:
            assert error.kind == "dimension" and (n > 127 or "Band" in format)
        else:
            self.world.bind(s, name, self.world.keep(tensor, dense))

    @step(
        *(),
        s=sessions,
        name=matrices,
        m=st.sampled_from((0, 1, 2, 5, 5, 8, 40)),
        n=st.sampled_from((0, 1, 3, 5, 5, 8, 40)),
        seed=seeds,
        kind=st.one_of(layouts, st.sampled_from(("csc", "csr")), st.sampled_from(MATRIX_FORMATS)),
    )
    def bind_a_matrix(self, s: int, name: str, m: int, n: int, seed: int, kind: str) -> None:
        dense = numbers(seed, m, n) if m else np.zeros((m, n))
        value: Any
        if kind in ("csc", "csr"):
            value = sp.csc_array(dense) if kind == "csc" else sp.csr_array(dense)
        elif kind in MATRIX_FORMATS:
            value = self.world.keep(Tensor.from_numpy(dense, kind), dense)
        else:
            value = laid_out(dense, kind)
        self.world.bind(s, name, value)

    @step(
        s=sessions,
        name=vectors,
        into=vectors,
        cut=st.sampled_from(
            (slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1))
        ),
    )
    def bind_a_view(self, s: int, name: str, into: str, cut: slice) -> None:
        x = self.bound(s, name, np.ndarray)
        if x is not None and x.ndim == 1:
            self.world.bind(s, into, x[cut])

    @step(s=sessions, name=vectors, matrix=matrices)
    def bind_a_view_of_the_scripts(self, s: int, name: str, matrix: str) -> None:
        """Of what the names hold whenever it is used."""
        session = self.world.sessions[s]
        for target, source, text, part in (
            ("v", name, f"v = slice({name}, 1, 2:size({name})[1])", lambda x: x[1:]),
            ("V", matrix, f"V = permutedims({matrix})", lambda A: A.T),
        ):
            value = session[source]
            if len(value.shape) != 1 + (target == "V") or 0 in value.shape:
                continue
            session.run(text)
            if not isinstance(session[target], np.ndarray):
                self.world.views[id(session[target])] = session[target], value, part

    @step(one=sessions, other=sessions, name=names, to=st.integers(0, 2))
    def bind_an_alias(self, one: int, other: int, name: str, to: int) -> None:
        target = (VECTORS if name in VECTORS else MATRICES)[to]
        self.world.bind(other, target, self.world.sessions[one][name])

    @step(2, s=sessions, ago=st.integers(1, 12), to=st.integers(0, 2))
    def bind_again(self, s: int, ago: int, to: int) -> None:
        """What was bound before; most of all where a kernel outgrew it."""
        if ago <= len(self.world.past):
            value = self.world.past[-ago]
            self.world.bind(s, (VECTORS if len(value.shape) == 1 else MATRICES)[to], value)

    @step(s=sessions, name=names, by=st.integers(1, 2), is_script=st.booleans())
    def swap_names(self, s: int, name: str, by: int, is_script: bool) -> None:
        session, group = self.world.sessions[s], VECTORS if name in VECTORS else MATRICES
        other = group[(group.index(name) + by) % 3]
        if is_script:
            session.run(f"{name}, {other} = {other}, {name}")
        else:
            session[name], session[other] = session[other], session[name]

    @step(s=sessions, name=names, how=st.sampled_from(sorted(DUPLICATES)))
    def bind_a_copy(self, s: int, name: str, how: str) -> None:
        """Of a tensor or whatever else, with memory of its own."""
        value = self.world.sessions[s][name]
        if id(value) not in self.world.views:
            made = DUPLICATES[how](value)
            if isinstance(value, Tensor):
                self.world.keep(made, self.world.dense(value))
            self.world.bind(s, name, made)

    @step(s=sessions, name=names)
    def keep_a_part(self, s: int, name: str) -> None:
        """What a tensor handed out stays as it was, whatever becomes of the tensor."""
        tensor = self.bound(s, name, Tensor)
        if tensor is not None:
            arrays = [a for level in tensor.storage for a in level.values() if hasattr(a, "copy")]
            self.world.handed = [*self.world.handed, *((a, a.copy()) for a in arrays)][-8:]

    @step()
    def forget(self) -> None:
        """Memory is freed under views, and used for something else."""
        self.world.past.clear()
        bound = {id(value) for value in self.world.values()}
        needed = bound | {id(self.world.base(v)) for v in self.world.values()}
        self.world.views = {n: v for n, v in self.world.views.items() if n in bound}
        self.world.tensors = {n: t for n, t in self.world.tensors.items() if n in needed}
        gc.collect()
        np.full(9000, -7.0), np.full(5, -7.0), np.full(40, -7, np.int32)

    # ------------------------------------------------------------------------------ changes in place

    @step(2, s=sessions, name=names, seed=seeds)
    def change_numbers(self, s: int, name: str, seed: int) -> None:
        x = self.bound(s, name, (np.ndarray, sp.sparray))
        if x is not None:
            target = x.data if sp.issparse(x) else x
            if target.flags.writeable and target.size:
                target[...] = numbers(seed, *target.shape)

    @step(
        *(),
        s=sessions,
        name=vectors,
        what=st.sampled_from(("strides", "type", "size", "size", "flags")),
        n=sizes,
    )
    def change_an_array(self, s: int, name: str, what: str, n: int) -> None:
        """Its strides, type, size or flags."""
        x = self.bound(s, name, np.ndarray)
        if x is None or x.ndim != 1:
            return
        if what == "flags":
            x.flags.writeable = not x.flags.writeable and root(x).flags.writeable
        elif not x.flags.writeable:
            return
        elif what == "strides" and x.base is not None and x.strides == (8,) and x.size:
            if root(x).nbytes - (address(x) - address(root(x))) >= 16 * x.size:
                x.strides = (16,)
        elif x.base is None and self.world.is_alone(x):
            if what == "type" and x.itemsize == 8:
                x.dtype = np.int64 if x.dtype == np.float64 else np.float64
                x[:] = np.arange(x.size)
            elif what == "size":
                self.world.forget(x)
                x.resize(n, refcheck=False)
                x[:] = np.arange(n) % 7

    @step(s=sessions, name=matrices, kind=st.integers(0, 2))
    def change_a_shape(self, s: int, name: str, kind: int) -> None:
        A = self.bound(s, name, np.ndarray)
        if A is not None and A.size and A.flags.c_contiguous and A.ndim == 2:
            A.shape = (A.shape[::-1], (1, A.size), (A.size, 1))[kind]

    @step(s=sessions, name=matrices, m=st.sampled_from((1, 5, 8, 40)), n=st.sampled_from((1, 5, 9)))
    def resize_a_matrix(self, s: int, name: str, m: int, n: int) -> None:
        A = self.bound(s, name, sp.sparray)
        if A is not None and all(part.flags.writeable for part in parts(A)):
            A.resize(m, n)

    @step(
        *(),
        s=sessions,
        name=matrices,
        part=st.sampled_from(("data", "indices", "indptr")),
        layout=st.sampled_from(("copy", "longer", "strided", "reversed", "swapped", "wide")),
    )
    def replace_parts(self, s: int, name: str, part: str, layout: str) -> None:
        """Other arrays, which need not be contiguous or in native byte order."""
        A = self.bound(s, name, sp.sparray)
        if A is None:
            return
        old = getattr(A, part)
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

    @step(s=sessions, name=matrices, is_told=st.booleans())
    def sort_otherwise(self, s: int, name: str, is_told: bool) -> None:
        """The entries of each fiber the other way round."""
        A = self.bound(s, name, sp.sparray)
        if A is None or not all(part.flags.writeable for part in parts(A)):
            return
        for p, q in zip(A.indptr, A.indptr[1:], strict=False):
            A.indices[p:q] = A.indices[p:q][::-1].copy()
            A.data[p:q] = A.data[p:q][::-1].copy()
        if is_told:
            A.has_sorted_indices = False

    # ----------------------------------------------------------------------------------------- calls

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


class Alarm(Exception):
    """What a signal's handler raises."""


def _interrupted(work: Callable[[], Any], is_ctrl_c: bool, after: float) -> Any:
    """What `work` gives or raises, which signals interrupt, the first after so many seconds."""
    running = True

    def handler(*_: Any) -> None:
        if running and is_ctrl_c:
            os.kill(os.getpid(), signal.SIGINT)
        elif running:
            raise Alarm

    old = (
        signal.signal(signal.SIGALRM, handler),
        signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        signal.setitimer(signal.ITIMER_REAL, after, 0.2)
        return work()
    except (Alarm, KeyboardInterrupt) as raised:
        return raised
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old[0])
        signal.signal(signal.SIGINT, old[1])


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
    k = np.array([2, 3])
    session["y"], session["k"], session["s"] = y, k, s
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


@pytest.mark.parametrize("how", sorted(DUPLICATES))
def test_what_cannot_be_copied_says_so(how: str) -> None:
    session = Session()
    session.run("f(a) = a + 1")
    with pytest.raises(FinchError, match="cannot be") as caught:
        DUPLICATES[how](session)
    assert caught.value.kind == "type" and caught.value.hint
    with pytest.raises(FinchError, match="cannot be pickled"):
        pickle.dumps(session["f"])
    assert copy.deepcopy(session["f"]) is session["f"]
