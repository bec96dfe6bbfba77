"""The contract of policies of workspaces: insert, sort, merge and compress, in batches of any size, hold
what a hash table holds; what fails or is interrupted on the way leaves all as it was."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alarms import Alarm, alarmed, arm, raise_alarm
from in_child import limited
from level_kernels import compiled, result, run, run_on, tensor
from policies_of_libraries import TABLE2

from finchlang import FinchError, Session
from finchlang.levels.workspace import POLICIES as KNOWN
from finchlang.syntax.types import type_of_dtype
from finchlang.tensors.convert import copy_of
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor

pytestmark = pytest.mark.checked

POLICIES = ["coord", "hash", "bucket", "flags"]
LIST = "Dense(SparseList(Element(0.0)))"
SPGEMM = "C .= 0\nfor k = _, i = _, j = _\n C[i, j] += A[i, k] * B[k, j]\nend"


def matrix(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 5, shape) * (rng.random(shape) < 0.5).astype(float)


def scatter(update: str, modes: int, leaf: str, format: str, seed: int, **more: Any) -> Any:
    """What scattered updates, many of which meet, leave in a tensor of `format`."""
    rng = np.random.default_rng(seed)
    sizes, count = (5, 4, 3)[:modes], 40
    indices = {f"I{k}": rng.integers(1, size + 1, count) for k, size in enumerate(sizes)}
    values = rng.integers(1, 4, count)
    given = {name: tensor(array, "Dense(Element(0))") for name, array in indices.items()}
    given["X"] = tensor(values.astype(float) if "." in leaf else values, f"Dense({leaf})")
    place = ", ".join(f"{name}[p]" for name in indices)
    text = f"W .= {leaf[8:-1]}\nfor p = _\n W[{place}] {update} X[p]\nend"
    found, _ = run(text, {"W": Tensor(f"{format}({leaf})", *sizes), **given}, **more)
    coordinates, entries = found["W"].entries()
    order = np.lexsort(coordinates)
    return [row[order].tolist() for row in (*coordinates, entries)]


def test_formats_are_read_as_they_are_written() -> None:
    for text in ("{2}", "{3, coord}", "{2, hash, 4096}", "{2, Int32, bucket}", "{1, 7}"):
        assert str(parse_format(f"Workspace{text}(Element(0))")) == f"Workspace{text}(Element(0))"
    assert parse_format("Workspace(Element(0))") == parse_format("Workspace{1}(Element(0))")


@pytest.mark.parametrize(
    ("policy", "capacity"), [*product(POLICIES[:3], ("", ", 1", ", 2", ", 3")), ("flags", "")]
)
def test_products_in_any_order(policy: str, capacity: str) -> None:
    for shape in ((5, 6, 7), (3, 0, 2)):
        a, b = matrix(shape[:2]), matrix(shape[1:], 1)
        format = f"Workspace{{2, {policy}{capacity}}}(Element(0.0))"
        given = {"C": Tensor(format, 0, 0), "A": tensor(a, LIST), "B": tensor(b, LIST)}
        for which in ("all", "paper") if capacity == ", 2" else ("all",):
            native = which == "all" and shape[0] == 5
            np.testing.assert_array_equal(result(SPGEMM, given, which=which, native=native), a @ b)


MERGED = ["+=", "-=", "*=", "<<min>>=", "<<max>>=", "=", "<<choose(0)>>=", "|="]


@pytest.mark.parametrize("update", MERGED)
@pytest.mark.parametrize("policy", POLICIES)
def test_scattered_updates(policy: str, update: str) -> None:
    """Each operator of one mode, of two or of three with each policy."""
    modes = 1 + (POLICIES.index(policy) + MERGED.index(update)) % 3
    leaves = {
        1: "Element(3)",
        2: "Element(0.0)" if update != "|=" else "Element(0)",
        3: "Element(0)",
    }
    expected = scatter(update, modes, leaves[modes], f"SparseHash{{{modes}}}", modes, native=False)
    for capacity in ("", f", {modes}", ", 17") if policy != "flags" else ("",):  # which has none
        format = f"Workspace{{{modes}, {policy}{capacity}}}"
        native = modes == 2 and capacity in (", 2", "")
        assert scatter(update, modes, leaves[modes], format, modes, native=native) == expected


@pytest.mark.parametrize("policy", ["coord", "hash", "bucket"])
@pytest.mark.parametrize("sizes", [(300, 400), (2**40, 2**21)], ids=["words", "numbers"])
@pytest.mark.parametrize("new, again", [(6000, 0), (5000, 9000), (0, 9000), (70_000, 9000)])
def test_batches_of_any_capacity(
    policy: str, sizes: tuple[int, int], new: int, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that are not merged at first, as all places are new; then they are."""
    monkeypatch.setattr("finchlang.levels.workspace.workspace.MANY", 2**14)
    rng = np.random.default_rng(new)
    places = np.concatenate([rng.permutation(300 * 400)[:new], rng.integers(0, 500, again)])
    first, second = places % 300 + 1, places // 300 + 1
    values = rng.integers(1, 9, len(places))
    s = Session()
    s["I"], s["J"], s["X"] = first, second, values
    s.run(f"W = Tensor(Workspace{{2, {policy}}}(Element(0)), {sizes[0]}, {sizes[1]})")
    s.run("@finch begin\nW .= 0\nfor p = _\nW[I[p], J[p]] += X[p]\nend\nend")
    (i, j), entries = s["W"].entries()
    sums = np.zeros(300 * 400, np.int64)
    np.add.at(sums, places, values)
    expected = np.flatnonzero(sums)
    np.testing.assert_array_equal(j * 300 + i, expected)
    np.testing.assert_array_equal(entries, sums[expected])


def test_what_cannot_be_merged_grows() -> None:
    for policy in ("", ", hash", ", bucket", ", flags"):
        for leaf in ("Element(2)", "Element(2.0)"):
            expected = scatter("<<^>>=", 2, leaf, "SparseHash{2}", 0)
            assert scatter("<<^>>=", 2, leaf, f"Workspace{{2{policy}}}", 0) == expected
    for policy in ("coord", "hash, 4"):
        with pytest.raises(FinchError, match="would change what `\\^=` means") as error:
            scatter("<<^>>=", 2, "Element(2)", f"Workspace{{2, {policy}}}", 0)
        assert "Workspace{2, hash}" in (error.value.hint or "")


@pytest.mark.parametrize("policy", TABLE2, ids=lambda policy: policy.name)
def test_policies_of_libraries(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, policy.name, policy)
    for modes in (1, 2):
        for update in ("+=", "<<choose(0)>>=", "="):
            expected = scatter(
                update, modes, "Element(0)", f"SparseHash{{{modes}}}", 1, native=False
            )
            for capacity in ("", ", 7"):
                format = f"Workspace{{{modes}, {policy.name}{capacity}}}"
                native = update == "=" and capacity == ", 7"
                assert scatter(update, modes, "Element(0)", format, 1, native=native) == expected


UNWRITTEN = {
    "the last": "for p = _\n if X[p] > 1\n W[I[p], J[p]] += X[p]\n end\nend",
    "two at once": "for j = _, i = _\n W[i, j] += A[i, j]\n if i < j\n W[j, i] += A[i, j]\n end\nend",
    "one inside": "for j = _, i = _\n if A[i, j] > 2\n W[j, j] += 1\n end\n W[i, j] += A[i, j]\nend",
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_entries_that_nothing_is_written_to_are_not_stored(name: str) -> None:
    rng = np.random.default_rng(0)
    given = {n: tensor(rng.integers(1, 6, 30), "Dense(Element(0))") for n in ("I", "J")}
    given["X"] = tensor(rng.integers(0, 4, 30), "Dense(Element(0))")
    given["A"] = tensor(matrix((5, 5)).astype(int), "Dense(SparseList(Element(0)))")
    found = []
    for format in (
        "SparseHash{2}",
        *(f"Workspace{{2, {p}{c}}}" for p in POLICIES for c in ("", ", 3")[: 1 + (p != "flags")]),
    ):
        text = f"W .= 0\n{UNWRITTEN[name]}"
        result, _ = run(text, {"W": Tensor(f"{format}(Element(0))", 5, 5), **given}, native=False)
        coordinates, values = result["W"].entries()
        found.append((coordinates.tolist(), values.tolist()))
    assert all(entries == found[0] for entries in found)


@pytest.mark.parametrize("format", ["", ", coord, 2", ", hash, 3", ", bucket", ", flags"])
def test_updating_in_place(format: str) -> None:
    a, b = matrix((4, 5)), matrix((4, 5), 1)
    for update, meaning in (("+=", a + b), ("<<max>>=", np.maximum(a, b))):
        text = f"for i = _, j = _\n W[i, j] {update} B[i, j]\nend"
        given = {"W": tensor(a, f"Workspace{{2{format}}}(Element(0.0))"), "B": tensor(b, LIST)}
        np.testing.assert_array_equal(result(text, given, "W"), meaning)
    twice = "W .= 0\nfor i = _, j = _\n W[i, j] += A[i, j]\nend\ns .= 0\n"
    twice += "for j = _, i = _\n s[] += W[i, j]\nend\nfor i = _, j = _\n W[i, j] += B[i, j]\nend"
    given = {"W": Tensor(f"Workspace{{2{format}}}(Element(0.0))", 4, 5), "s": Scalar(0.0)}
    found, _ = run(twice, given | {"A": tensor(a, LIST), "B": tensor(b, LIST)})
    np.testing.assert_array_equal(found["W"].to_numpy(), a + b)
    assert found["s"].value == a.sum()


def test_updating_in_place_what_is_not_merged() -> None:
    a, b = matrix((4, 5)).astype(int), matrix((4, 5), 1).astype(int)
    text = "for i = _, j = _\n W[i, j] <<^>>= B[i, j]\nend"
    given = {"W": tensor(a, "Workspace{2}(Element(0))"), "B": tensor(b, "Dense(Dense(Element(0)))")}
    np.testing.assert_array_equal(result(text, given, "W"), a**b)


SCATTERED = "W .= 0\nfor p = _\n W[I[p], J[p]] += 1\nend"


def scattered(format: str, sizes: tuple[int, int], places: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    rows = [
        rng.integers(1, min(size, 2**40), places)[rng.integers(0, places, 50)] for size in sizes
    ]
    rows[0][0] = sizes[0]
    indices = {n: tensor(row, "Dense(Element(0))") for n, row in zip("IJ", rows, strict=True)}
    return {"W": Tensor(format, *sizes), **indices}


def entries(text: str, given: dict[str, Any]) -> tuple[list[Any], int]:
    """What every engine stores in W, which may be too large to be dense, and the steps it takes."""
    kernel = compiled(text, tuple((name, tensor.format) for name, tensor in given.items()), "all")
    found, steps = [], []
    for engine in ("interpret", "residual", "native"):
        own = {name: copy_of(tensor) for name, tensor in given.items()}
        steps.append(run_on(engine, kernel, own))
        found.append([part.tolist() for part in own["W"].entries()])
    assert found[0] == found[1] == found[2] and steps[0] == steps[1]
    return found[0], sum(steps[0].values())


def test_places_beyond_numbers() -> None:
    sizes = (2**40, 2**40)
    ((first, _), values), _ = entries(
        SCATTERED, scattered("Workspace{2, coord}(Element(0))", sizes)
    )
    assert sum(values) == 50 and max(first) == 2**40 - 1
    given = scattered("Workspace{2, hash}(Element(0))", sizes)
    with pytest.raises(FinchError, match="cannot number the places .* coord takes any") as error:
        entries(SCATTERED, given)
    assert error.value.kind == "dimension"


def test_declaring_anew_takes_no_time() -> None:
    """Of a workspace in which much was, or which is large."""
    text = "W .= 0\nfor p = _\n W[I[p], J[p]] += 1\nend\nW .= 0\nW[1, 1] += 1"
    for policy in ("coord", "hash"):
        format = f"Workspace{{2, {policy}}}(Element(0))"
        steps = []
        for body in (text.replace("\nW .= 0\nW[1, 1] += 1", ""), text):
            given = scattered(format, (1000, 1000), 40)
            steps.append(sum(run(body, given, native=False)[1].values()))
        assert steps[1] - steps[0] < 250


def test_storage_is_packed_and_checked() -> None:
    a = matrix((4, 5))
    found = tensor(a, "Workspace{2, hash, 7}(Element(0.0))")
    np.testing.assert_array_equal(found.to_numpy(), a)
    storage = found.storage
    again = Tensor.from_storage(found.format, (4, 5), storage, checked=False)
    again.validate()
    np.testing.assert_array_equal(again.to_numpy(), a)
    storage[0]["idx1"] = storage[0]["idx1"][::-1]
    with pytest.raises(FinchError, match="corrupt Workspace"):
        Tensor.from_storage(found.format, (4, 5), storage, checked=False).validate()


def size(policy: str) -> int:
    return 3000 if KNOWN[policy].has_all_places else 10**5


def filled(policy: str) -> Tensor:
    n = size(policy)
    places = np.sort(np.random.default_rng(1).choice(n * n // 10, 1000, replace=False))
    format = f"Workspace{{2, {policy}}}(Element(0))"
    return Tensor.from_coo(format, (n, n), (places % n, places // n), np.arange(1000))


def stored(tensor: Tensor) -> list[Any]:
    tensor.checked = False
    tensor.validate()
    return [part.tolist() for part in tensor.entries()]


def updates(policy: str, count: int) -> Session:
    """A session with a workspace and updates for it, compiled already: a few were done before, so that
    there is no memory that many have left behind."""
    rng, session = np.random.default_rng(0), Session()
    for some in (10, count):
        session["I"], session["J"] = (rng.integers(1, size(policy), some) for _ in "IJ")
        session["W"] = filled(policy)
        if some < count:
            session.run(IN_PLACE)
    return session


IN_PLACE = "@finch for p = _\n W[I[p], J[p]] += p\nend"


@pytest.mark.parametrize("policy", POLICIES)
def test_an_interrupt_in_sorting_or_merging_leaves_all_as_it_was(policy: str) -> None:
    """Or it comes as soon as all is done."""
    session, before, interrupted = updates(policy, 400_000), stored(filled(policy)), 0
    session.run(IN_PLACE)
    done = stored(session["W"])
    with alarmed(raise_alarm):
        for after in (0.003, 0.01, 0.02, 0.03, 0.05):
            session["W"] = filled(policy)
            try:
                arm(after)
                session.run(IN_PLACE)
                arm(0)
            except Alarm:
                arm(0)
            found = stored(session["W"])
            assert found in (before, done)
            interrupted += found == before
    assert interrupted


def exhaust(policy: str) -> None:
    session = updates(policy, 2_000_000)
    with pytest.raises(FinchError) as error, limited(20_000_000):
        session.run(IN_PLACE)
    assert error.value.kind == "resource"
    assert stored(session["W"]) == stored(filled(policy))


@pytest.mark.parametrize("update", ["<<max>>=", "<<min>>=", "<<choose(0)>>="])
@pytest.mark.parametrize(("leaf", "dtype"), [("0", np.uint64), ("Int8(0)", np.int64)])
def test_values_wider_than_elements_are_not_merged(update: str, leaf: str, dtype: Any) -> None:
    """The identity of the elements' type is none of theirs, and what is kept has their low bits."""
    name = type_of_dtype(np.dtype(dtype))
    values = Tensor.from_numpy(np.array([6, 300, 1, 256], dtype), f"Dense(Element({name}(0)))")
    given = {"A": values, "I": tensor(np.array([1, 2, 1, 2]), "Dense(Element(0))")}
    text = f"@declare(C, {leaf}, 1:3)\nfor p = _\nC[I[p]] {update} A[p]\nend"
    found = [
        result(text, given | {"C": Tensor(f"{level}(Element({leaf}))", 3)}).tolist()
        for level in ("SparseHash", "Workspace{1}", "SparseList")
    ]
    assert found[0] == found[1] == found[2]
    with pytest.raises(FinchError, match="would change what"):
        run(text, given | {"C": Tensor(f"Workspace{{1, coord, 2}}(Element({leaf}))", 3)})


# ------------------------------------------------------------------- transposes, in buckets of chunks

LISTS = "Dense(SparseList(Element(0.0)))"
TRANSPOSE = "@finch begin\nC .= 0\nfor j = _, i = _\n C[j, i] = A[i, j]\nend\nend"


def transpose_in_the_way(stop: AbstractContextManager[None], error: type[Exception]) -> None:
    """`stop` ends a transpose in the midst: then all is as it was."""
    rng, session, held = np.random.default_rng(1), Session(), tensor(matrix((3, 4)), LISTS)
    large = np.round(rng.random((4000, 2000)), 3) * (rng.random((4000, 2000)) < 0.3)
    session["A"], session["C"] = held, Tensor(LISTS, 0, 0)
    session.run(TRANSPOSE)  # so that it is compiled
    session["A"], session["C"] = tensor(large, LISTS), copy_of(held)
    with pytest.raises(error), stop:
        session.run(TRANSPOSE)
    session["C"].validate()
    np.testing.assert_array_equal(session["C"].to_numpy(), held.to_numpy())


@pytest.mark.parametrize("after", [0.0005, 0.002, 0.005])
def test_an_interrupt_of_a_transpose(after: float) -> None:
    transpose_in_the_way(alarmed(raise_alarm, after), Alarm)


def exhaust_transpose() -> None:
    transpose_in_the_way(limited(10_000_000), FinchError)


@pytest.mark.parametrize("call", [*(f"exhaust({p!r})" for p in POLICIES), "exhaust_transpose()"])
def test_exhausted_memory_leaves_all_as_it_was(call: str) -> None:
    """In a process of its own, where other tests have not left memory that is free."""
    code = f"import sys; sys.path.append('..'); import test_policy; test_policy.{call}"
    folder = Path(__file__).parent
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
