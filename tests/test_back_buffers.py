"""Tensors that a kernel makes anew are written into a back buffer: what they were is never lost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from every_format import fits, nests
from hypothesis import example, given, settings
from hypothesis import strategies as st

from finchlang import FinchError, Session, Tensor
from finchlang.run.compile_cache import renewed
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

N = 8192

SCALE = "@finch begin\ny .= 0\nfor i = _\n y[i] += c * x[i]\nend\nend"
ADD = "@finch begin\nC .= 0\nfor j = _, i = _\n C[i, j] = A[i, j] + B[i, j]\nend\nend"


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def scaling(y) -> Session:
    session = Session()
    session["x"], session["y"], session["c"] = np.arange(float(N)), y, 1.0
    return session


def values(session: Session) -> np.ndarray:
    return session["y"].storage[-1]["val"]


@pytest.mark.parametrize("size", [N, 0])
def test_two_pieces_of_memory_take_turns(size: int) -> None:
    """Also of a tensor that is small at first."""
    session = scaling(Tensor("Dense(Element(0.0))", size))
    seen = []
    for c in range(8):
        session["c"] = float(c)
        session.run(SCALE)
        assert np.array_equal(session["y"].to_numpy(), c * np.arange(N))
        seen.append(session["y"].memory.arrays[0].ctypes.data)
    assert seen[-1] == seen[-3] == seen[-5] and seen[-2] == seen[-4] != seen[-1]


def test_what_was_handed_out_stays_as_it_was() -> None:
    session = scaling(Tensor("Dense(Element(0.0))", N))
    kept, x = [], session["x"]
    for c in range(12):
        x[1:3] = c, 2 * c
        session.run(SCALE)
        if c % 3 != 1:
            kept.append(values(session)[1:3])
    assert [k.tolist() for k in kept] == [[c, 2 * c] for c in range(12) if c % 3 != 1]


def test_arrays_of_numpy_are_written_in_place() -> None:
    y = np.zeros(N)
    session = scaling(y)
    for c in range(4):
        session["c"] = float(c)
        session.run(SCALE)
        assert session["y"] is y and np.array_equal(y, c * np.arange(N))


def test_a_failing_kernel_leaves_the_tensor_as_it_was() -> None:
    program = "@finch begin\ny .= 0\nfor i = _\n y[k[i]] += x[i]\nend\nend"
    session = scaling(Tensor("Dense(Element(0.0))", N))
    k = np.arange(1, N + 1)
    session["k"] = k
    for _ in range(4):
        session.run(program)
    k[N - 1] = N + 1
    before = values(session)
    with pytest.raises(FinchError, match="is not in 1"):
        session.run(program)
    assert values(session) is before and np.array_equal(before, np.arange(N))
    k[N - 1], k[0] = 1, N
    session.run(program)
    assert values(session)[0] == N - 1 and values(session)[N - 1] == 0


@pytest.mark.parametrize("format", ["SparseList", "SparseBlockList", "SparseRunList", "SparseCOO"])
def test_sparse_results_that_shrink_and_grow(format: str) -> None:
    outer = (
        "SparseCOO{2}(Element(0.0))" if format == "SparseCOO" else f"Dense({format}(Element(0.0)))"
    )
    session, n = Session(), 400
    session["C"] = Tensor(outer, n, n)
    full = sp.random(n, n, 0.1, format="csc", random_state=1)
    for density in (0.2, 0.2, 0.001, 0.3, 0.0, 0.2, 0.2, 0.2):
        session["A"] = full
        session["B"] = sp.random(n, n, density, format="csc", random_state=2)
        for _ in range(3):
            session.run(ADD)
            found, expected = session["C"].to_numpy(), (session["A"] + session["B"]).toarray()
            assert np.allclose(found, expected)
            session["A"].data *= 2


@pytest.mark.parametrize("format", nests("Element(0.0)", 2))
def test_every_format_in_memory_that_held_something_else(format: str) -> None:
    """A multiple of a diagonal matrix, or of one entry where the format has no place for more; there
    is nothing to store when it is multiplied by 0."""
    n, one = 17, np.zeros((17, 17))
    one[3, 3] = 1.0
    A = fits(format, np.diag(np.arange(1.0, n + 1)))
    A = fits(format, one) if A is None else A
    assert A is not None
    write = "C[i, j] = A[i, j] * c"
    if format.startswith("Symmetric"):  # of two mirrored places it has one
        write = f"if i <= j\n {write}\n end"
    program = f"@finch begin\nC .= 0\nfor j = _, i = _\n {write}\nend\nend"
    session = Session()
    session["A"], session["C"] = A, Tensor(format, n, n)
    for step in range(8):
        session["c"] = float(step % 3)
        session.run(program)
        assert np.array_equal(session["C"].to_numpy(), A.to_numpy() * (step % 3))


def test_two_tensors_that_are_swapped() -> None:
    program = "@finch begin\ny .= 0\nfor i = _\n y[i] += x[i] + 1\nend\nend"
    session = Session()
    session["x"], session["y"] = (Tensor("Dense(Element(0.0))", N) for _ in range(2))
    session.run("for k = 1:9\n" + program + "\nx, y = y, x\nend")
    assert np.array_equal(session["x"].to_numpy(), np.full(N, 9.0))
    assert np.array_equal(session["y"].to_numpy(), np.full(N, 8.0))


STEPS = [
    "@finch begin\ny .= 0\nfor i = _\n y[i] += c * x[i]\nend\nend",
    "@finch begin\nx .= 0\nfor i = _\n x[i] += y[i] + 1\nend\nend",
    "@finch for i = _\n x[i] += s[i]\nend",
    "@finch begin\ns .= 0\nfor i = _\n if x[i] > c\n s[i] = x[i]\n end\nend\nend",
    "@finch begin\nr .= 0\nfor i = _\n r[i] = min(x[i], c)\nend\nend",
    "@finch begin\nw .= 0\ny .= 1\nfor i = _\n w[i] += r[i]\n y[i] += s[i]\nend\nend",
    "@finch for i = _\n y[i] += w[i]\nend",
    "x, y = y, x",
    "kept = s",
    "c += 1",
    "c = 0",
    "@finch for i = _\n if s[i] != 0\n x[i] <<min>>= s[i]\n end\nend",
]
FORMATS = {
    "x": "Dense(Element(0.0))",
    "y": "Dense(Element(0.0))",
    "s": "SparseList(Element(0.0))",
    "r": "RunList(Element(0.0))",
    "w": "SparseByteMap(Element(0.0))",
}


@settings(max_examples=30, deadline=None)
@example([STEPS[0], STEPS[1]])
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
def test_any_sequence_of_kernels_does_what_the_interpreter_does(steps: list[str]) -> None:
    sessions = [Session(), Session(engine="interpret")]
    for session in sessions:
        for name, format in FORMATS.items():
            session[name] = Tensor(format, 16)  # as many as memory is allocated for
        session["c"] = 1.0
    for step in [STEPS[1], *steps * 3]:  # each piece of memory is written a second time
        for session in sessions:
            session.run(step)
        for name in FORMATS:
            native, interpreted = (s[name].to_numpy() for s in sessions)
            assert np.array_equal(native, interpreted), (step, name)


PROGRAMS = {
    "y .= 0; for i = _ y[i] += x[i] end": {"y"},
    "for i = _ x[i] += y[i] end; y .= 0; for i = _ y[i] += x[i] end": set(),
    "for k = 1:2; y .= 0; for i = _ y[i] += x[i] end end": set(),
    "for i = _ y[i] += x[i] end": set(),
    "w .= 0; for i = _ w[i] += x[i] end; y .= 0; for i = _ y[i] += w[i] end": {"y"},
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_which_tensors_are_made_anew(text: str) -> None:
    dense = parse_format("Dense(Element(0.0))")
    formats = {"y": dense, "x": dense}
    if "w" in text:
        formats["w"] = parse_format("SparseByteMap(Element(0.0))")
    kernel = Kernel(parse_kernel(f"begin\n{text}\nend"), formats)
    found = renewed(kernel.program, {b.name: b.level for b in kernel.bounds})
    assert found == PROGRAMS[text]
