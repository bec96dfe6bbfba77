"""A state machine whose steps bind names, bind them again and swap them, and resize, view, copy, pickle and
change in place what is bound."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from in_child import in_child
from sequence_world import (
    DUPLICATES,
    FORMATS,
    MATRICES,
    MATRIX_FORMATS,
    VECTORS,
    Finding,
    Snapshot,
    World,
    address,
    parts,
    root,
)

from finchlang import FinchError, Tensor

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


CONTIGUOUS, VIEWED = ("C", "C", "F"), ("strided", "reversed", "inner", "slack", "read-only")
layouts = st.sampled_from((*CONTIGUOUS, *VIEWED, ">f8", "f4", "i1", ">i4", "u2"))


def step(weight: int = 1, **drawn: Any) -> Callable[[Any], Any]:
    """A rule of the machine, which is played when it is drawn or, if the machine keeps them, later."""

    def register(body: Any) -> Any:
        def play(self: Binding, **given: Any) -> None:
            self.later.append((body, given)) if self.is_isolated else body(self, **given)

        play.__name__ = body.__name__
        made = rule(**drawn)(play)
        made.weight = weight
        return made

    return register


class Binding(RuleBasedStateMachine):
    """Steps that change what is bound. `is_isolated` plays each sequence in a
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

    @step(3, s=sessions, name=names, how=st.sampled_from(sorted(DUPLICATES)))
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
            self.world.handed = [*self.world.handed, *((tensor, a, a.copy()) for a in arrays)][-8:]

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
