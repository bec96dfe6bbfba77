"""The Interleaved level: fibers written in turn; transposes go through it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from level_kernels import result, run, tensor

from finchlang.normalize import normalize
from finchlang.session import Session
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

LISTS = "Dense(SparseList(Element(0.0)))"
TURNS = "Dense(Interleaved{1}(Element(0.0)))"
TRANSPOSE = "C .= 0\nfor j = _, i = _\n C[j, i] = A[i, j]\nend"


def random(*shape: int, seed: int = 0, part: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.random(shape), 3) * (rng.random(shape) < part)


def test_storage_is_that_of_coordinates() -> None:
    array = random(5, 7)
    found, _ = run(TRANSPOSE, {"C": Tensor(TURNS, 0, 0), "A": tensor(array, LISTS)})
    packed = tensor(array.T, TURNS)
    expected = tensor(array.T, "Dense(SparseCOO{1}(Element(0.0)))")
    for other in (found["C"], packed):
        for name in ("ptr", "idx"):
            stored = other.storage[1][name][: len(expected.storage[1][name])]
            assert stored.tolist() == expected.storage[1][name].tolist()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (1, 700), (700, 1), (300, 9)])
def test_many_and_no_fibers(shape: tuple[int, int]) -> None:
    array = random(*shape)
    values = {"C": Tensor(LISTS, 0, 0), "A": tensor(array, LISTS)}
    np.testing.assert_array_equal(result(TRANSPOSE, values), array.T)


def test_fibers_of_more_than_a_chunk() -> None:
    array = random(1, 1300, part=0.9)
    values = {"C": Tensor(LISTS, 0, 0), "A": tensor(array, LISTS)}
    np.testing.assert_array_equal(result(TRANSPOSE, values), array.T)


def test_what_is_not_written_leaves_nothing() -> None:
    array = random(40, 30)
    text = "C .= 0\nfor j = _, i = _\n if A[i, j] > 0.5\n  C[j, i] += A[i, j]\n end\nend"
    values = {"C": Tensor(LISTS, 0, 0), "A": tensor(array, LISTS)}
    found, _ = run(text, values)
    assert found["C"].countstored() == np.count_nonzero(array > 0.5)
    np.testing.assert_array_equal(found["C"].to_numpy(), np.where(array > 0.5, array, 0).T)


def test_three_modes() -> None:
    array = random(4, 5, 6)
    text = "C .= 0\nfor k = _, j = _, i = _\n C[j, k, i] += A[i, j, k]\nend"
    lists = "Dense(SparseList(SparseList(Element(0.0))))"
    values = {"C": Tensor(lists, 0, 0, 0), "A": tensor(array, lists)}
    np.testing.assert_array_equal(result(text, values), array.transpose(1, 2, 0))


def work_of(text: str, **formats: str) -> str:
    """The format of the workspace that is inserted."""
    found = normalize(
        parse_kernel(f"begin\n{text}\nend"), {n: parse_format(f) for n, f in formats.items()}
    )
    (level,) = found.workspaces.values()
    return str(level)


@pytest.mark.parametrize(
    ("text", "C", "expected"),
    [
        (TRANSPOSE, LISTS, TURNS),
        (
            "C .= 0\nfor j = _, i = _\n C[j, i] += A[i, j]\n C[j, i] += 2 * A[i, j]\nend",
            LISTS,
            None,
        ),
        ("C .= 0\nfor k = 1:2, j = _, i = _\n C[j, i] += A[i, j]\nend", LISTS, None),
        ("C .= 0\nfor j = _, i = _\n C[j, ~x[i]] += A[i, j]\nend", LISTS, None),
        (TRANSPOSE, "SparseList(SparseList(Element(0.0)))", None),
    ],
)
def test_which_updates_go_through_it(text: str, C: str, expected: str | None) -> None:
    given = {"C": C, "A": LISTS} | ({"x": "Dense(Element(0))"} if "x[" in text else {})
    assert work_of(text, **given) == (expected or "Workspace{2}(Element(0.0))")


@pytest.mark.parametrize(
    "body",
    [
        "for i = _, k = 1:2, j = _\n C[j, i] += A[i, j]\nend",
        "for j = _, i = _\n C[j, i] = A[i, j]\nend\nfor j = _, i = _\n C[i, j] = A[i, j]\nend",
    ],
)
def test_orders_it_cannot_take(body: str) -> None:
    given: Any = {"C": parse_format(TURNS), "A": parse_format("Dense(Dense(Element(0.0)))")}
    with pytest.raises(FinchError, match="written in order, fiber by fiber") as error:
        normalize(parse_kernel(f"begin\nC .= 0\n{body}\nend"), given, False)
    assert error.value.kind == "access order"


def test_it_is_over_an_element() -> None:
    with pytest.raises(FinchError, match="Interleaved is over an Element"):
        parse_format("Dense(Interleaved(Pattern()))")


def test_what_stands_above_is_written_in_order() -> None:
    """A list was given each coordinate once for each step of the loop outside."""
    array = random(3, 4)
    given = {
        "A": Tensor("SparseList(Interleaved{1}(Element(0.0)))", 0, 0),
        "B": tensor(array, LISTS),
    }
    found, _ = run("A .= 0\nfor j = _, i = _\n A[j, i] = B[i, j]\nend", given)
    np.testing.assert_array_equal(found["A"].to_numpy(), array.T)


# ------------------------------------------------------------------------------------ the rule Copy

COPY = "C .= 0\nfor j = _, i = _\n C[i, j] = A[i, j]\nend"


@pytest.mark.parametrize(
    "C", [LISTS, "SparseCOO{2}(Element(0.0))", "SparseList(SparseList(Element(0.0)))"]
)
@pytest.mark.parametrize(
    "A", [LISTS, "Dense(SparseCOO{1}(Element(0.0)))", "SparseCOO{2, Int32}(Element(0.0))"]
)
def test_whole_copies_store_the_same(A: str, C: str) -> None:
    array = random(6, 9)
    given = tensor(array, A)
    given.storage[-1]["val"][0] = 0.0  # a value that is stored stays stored
    found = {
        which: run(COPY, {"C": Tensor(C, 0, 0), "A": given}, which)[0]["C"]
        for which in ("all", "paper")
    }
    assert found["all"].countstored() == found["paper"].countstored() == np.count_nonzero(array)
    for one, other in zip(found["all"].storage, found["paper"].storage, strict=True):
        for name in one.keys() & other.keys() & {"ptr", "idx", "idx1", "idx2", "val"}:
            np.testing.assert_array_equal(one[name], other[name])


def test_copies_of_cubes_below_dense_levels() -> None:
    cube = random(3, 4, 5)
    text = "C .= 0\nfor k = _, j = _, i = _\n C[i, j, k] = A[i, j, k]\nend"
    given = tensor(cube, "Dense(Dense(SparseList(Element(0.0))))")
    for format in ("Dense(Dense(SparseList(Element(0.0))))", "Dense(SparseCOO{2}(Element(0.0)))"):
        np.testing.assert_array_equal(
            result(text, {"C": Tensor(format, 0, 0, 0), "A": given}), cube
        )


def transpose_in_the_way(stop: Callable[[], None]) -> None:
    """`stop` ends a transpose in the midst: then all is as it was."""
    array, session = random(4000, 2000, seed=1), Session()
    session["A"], session["C"] = tensor(random(3, 4), LISTS), Tensor(LISTS, 0, 0)
    session.run(f"@finch begin\n{TRANSPOSE}\nend")  # so that it is compiled
    session["A"], session["C"] = tensor(array, LISTS), tensor(random(3, 4), LISTS)
    with pytest.raises((FinchError, KeyboardInterrupt)):
        stop()
        session.run(f"@finch begin\n{TRANSPOSE}\nend")
    signal.setitimer(signal.ITIMER_REAL, 0)
    session["C"].validate()
    np.testing.assert_array_equal(session["C"].to_numpy(), random(3, 4))


@pytest.mark.parametrize("after", [0.0005, 0.002, 0.005])
def test_an_interrupt_leaves_all_as_it_was(after: float) -> None:
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        transpose_in_the_way(lambda: signal.setitimer(signal.ITIMER_REAL, after))  # type: ignore
    finally:
        signal.signal(signal.SIGALRM, old)


def exhaust() -> None:
    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + 10_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    transpose_in_the_way(limit)


def test_exhausted_memory_leaves_all_as_it_was() -> None:
    """In a process of its own, where other tests have not left memory that is free."""
    code = "import test_level_interleaved; test_level_interleaved.exhaust()"
    folder = Path(__file__).parent
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
