"""Journals of scattered stores: which arrays have one, and that a failed call is put right by it."""

from __future__ import annotations

import numpy as np
import pytest

from finchlang import FinchError, Session, Tensor
from finchlang.native import undo
from finchlang.native.journal import scattered
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel

N = 20_000
FORMATS = {
    "x": "Dense(Element(0.0))",
    "y": "Dense(Element(0.0))",
    "k": "Dense(Element(0))",
    "s": "SparseList(Element(0.0))",
    "t": "SparseList(Element(0.0))",
    "F": "SparseByteMap(Pattern())",
    "A": "Dense(SparseList(Element(0.0)))",
}
SCATTER = "for i = _\n y[k[i]] += s[i]\nend"


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (SCATTER, ["y_val"]),
        ("for i = _\n y[k[i]] += x[i]\nend", []),  # over a whole dimension
        ("for i = 1:3\n y[k[i]] += x[i]\nend", []),
        ("y .= 0; for i = _\n y[k[i]] += s[i]\nend", []),  # all of y is written anyhow
        ("for j = _, i = _\n y[i] += A[i, j] * x[j]\nend", []),
        ("for j = _, i = _\n y[i] += A[i, j] * s[j]\nend", ["y_val"]),
        ("t .= 0; for i = _\n t[i] = 2 * s[i]\nend", []),  # appended to
        (SCATTER + "; for i = _\n x[i] += 1\nend", []),  # there is as much to do elsewhere
        ("F .= false; for i = _\n F[k[i]] |= s[i] > 0\nend", ["F_tbl1"]),
        ("y[1] += x[1]", []),
    ],
)
def test_what_few_stores_go_to_has_a_journal(program: str, names: list[str]) -> None:
    formats = {name: parse_format(text) for name, text in FORMATS.items()}
    residual = Kernel(parse_kernel(f"begin\n{program}\nend"), formats).residual
    assert [buffer.name for buffer in scattered(residual)] == names


def scattering(count: int, seed: int = 0) -> Session:
    """A session where SCATTER adds `count` entries to y, at places of which some are the same."""
    rng = np.random.default_rng(seed)
    session = Session()
    entries = np.sort(rng.choice(N, count, replace=False))
    session["s"] = Tensor.from_coo(FORMATS["s"], (N,), (entries,), rng.random(count) + 1)
    session["k"] = rng.integers(1, max(N // 20, 2), N)
    session["y"] = rng.random(N)
    return session


def expected(session: Session) -> np.ndarray:
    y = session["y"].copy()
    np.add.at(y, session["k"] - 1, session["s"].to_numpy())
    return y


@pytest.mark.parametrize("count", [1, 100, N // undo.SHARE, N // undo.SHARE + 1, N // 2])
def test_a_full_journal_does_no_harm(count: int) -> None:
    session = scattering(count)
    for _ in range(6):
        wanted = expected(session)
        session.run(f"@finch {SCATTER}")
        assert np.allclose(session["y"], wanted)


@pytest.mark.parametrize("count", [2, 100, N // undo.SHARE, N // 2])
def test_a_failed_call_leaves_the_array_as_it_was(count: int) -> None:
    session = scattering(count)
    k, last = session["k"], int(session["s"].storage[0]["idx"][-1])
    for _ in range(5):
        session.run(f"@finch {SCATTER}")
        right, k[last] = k[last], N + 1
        before = session["y"].copy()
        with pytest.raises(FinchError, match="is not in 1"):
            session.run(f"@finch {SCATTER}")
        assert np.array_equal(session["y"], before)
        k[last] = right


def test_a_failed_call_leaves_what_grew_as_it_was() -> None:
    """The journal of F begins before F moves to larger memory, which the failed call gives back."""
    program = "@finch begin\nF .= false\nfor i = _\n F[k[i]] |= s[i] > 0\nend\nend"
    session = scattering(50)
    session["F"] = Tensor(FORMATS["F"], N)
    k, last = session["k"], int(session["s"].storage[0]["idx"][-1])
    found = []
    for _ in range(4):
        session.run(program)
        found.append(session["F"].to_numpy())
        right, k[last] = k[last], -1
        with pytest.raises(FinchError, match="is not in 1"):
            session.run(program)
        assert np.array_equal(session["F"].to_numpy(), found[0])
        k[last] = right
    assert found[0].sum() == len(np.unique(k[session["s"].storage[0]["idx"]]))


def test_an_array_is_copied_for_a_while_after_its_journal_was_full() -> None:
    journal = undo.Journal(np.zeros(N))
    rooms = []
    for _ in range(12):
        journal.begin()
        rooms.append(int(journal.at[0]))
        if rooms[-1] >= 0:
            journal.was_full()
    assert [k for k, room in enumerate(rooms) if room >= 0] == [0, 2, 5, 10]
