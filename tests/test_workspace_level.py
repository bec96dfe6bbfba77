"""The Workspace level: each policy, with batches of any size, holds what a hash table holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from level_kernels import result, run, tensor

from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Tensor

POLICIES = ["coord", "hash", "bucket"]
LIST = "Dense(SparseList(Element(0.0)))"
SPGEMM = "C .= 0\nfor k = _, i = _, j = _\n C[i, j] += A[i, k] * B[k, j]\nend"


def matrix(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 5, shape) * (rng.random(shape) < 0.5).astype(float)


def scatter(update: str, modes: int, leaf: str, format: str, seed: int, **more: Any) -> Any:
    """What scattered updates, many of which meet, leave in a tensor of `format`."""
    rng = np.random.default_rng(seed)
    sizes, count = (5, 4, 3)[:modes], 60
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


WRONG = {
    "Workspace{2, quick}(Element(0))": ("there is no policy quick", "coord, hash, bucket"),
    "Workspace{2, coord, 0}(Element(0))": ("a capacity is at least 1, not 0", ""),
    "Workspace{2, coord, hash}(Element(0))": ("the parameters of Workspace", ""),
    "Workspace{0}(Element(0))": ("1 to 64 modes", ""),
    "Workspace{1}(SparseList(Element(0)))": ("over an Element", "Workspace{2}"),
    "Workspace{1}(Pattern())": ("over an Element", "Element(false)"),
    "SparseHash{2, coord}(Element(0))": ("the parameters of SparseHash", ""),
}


@pytest.mark.parametrize("text", WRONG)
def test_formats_that_cannot_be(text: str) -> None:
    with pytest.raises(FinchError) as error:
        parse_format(text)
    message, hint = WRONG[text]
    assert message in error.value.message and hint in (error.value.hint or "")


def test_workspaces_are_outermost() -> None:
    text = "W .= 0\nfor j = _, i = _\n W[i, j] = A[i, j]\nend"
    given = {"W": Tensor("Dense(Workspace(Element(0.0)))", 2, 2), "A": tensor(matrix((2, 2)), LIST)}
    with pytest.raises(FinchError, match="outermost"):
        run(text, given)


@pytest.mark.parametrize("capacity", ["", ", 1", ", 2", ", 3"])
@pytest.mark.parametrize("policy", POLICIES)
def test_products_in_any_order(policy: str, capacity: str) -> None:
    for shape in ((5, 6, 7), (3, 0, 2)):
        a, b = matrix(shape[:2]), matrix(shape[1:], 1)
        format = f"Workspace{{2, {policy}{capacity}}}(Element(0.0))"
        given = {"C": Tensor(format, 0, 0), "A": tensor(a, LIST), "B": tensor(b, LIST)}
        for which in ("all", "paper") if capacity == ", 2" else ("all",):
            native = which == "all" and shape[0] == 5
            np.testing.assert_array_equal(result(SPGEMM, given, which=which, native=native), a @ b)


MERGED = ["+=", "-=", "*=", "<<min>>=", "<<max>>=", "=", "<<choose(0)>>=", "|="]


@pytest.mark.parametrize("modes", [1, 2, 3])
@pytest.mark.parametrize("update", MERGED)
@pytest.mark.parametrize("policy", POLICIES)
def test_scattered_updates(policy: str, update: str, modes: int) -> None:
    leaves = {
        1: "Element(3)",
        2: "Element(0.0)" if update != "|=" else "Element(0)",
        3: "Element(0)",
    }
    expected = scatter(update, modes, leaves[modes], f"SparseHash{{{modes}}}", modes, native=False)
    for capacity in ("", f", {modes}", ", 17"):
        format = f"Workspace{{{modes}, {policy}{capacity}}}"
        native = modes == 2 and capacity == ", 2"
        assert scatter(update, modes, leaves[modes], format, modes, native=native) == expected


def test_what_cannot_be_merged_grows() -> None:
    for policy in ("", ", hash", ", bucket"):
        for leaf in ("Element(2)", "Element(2.0)"):
            expected = scatter("<<^>>=", 2, leaf, "SparseHash{2}", 0)
            assert scatter("<<^>>=", 2, leaf, f"Workspace{{2{policy}}}", 0) == expected
    for policy in ("coord", "hash, 4"):
        with pytest.raises(FinchError, match="would change what `\\^=` means") as error:
            scatter("<<^>>=", 2, "Element(2)", f"Workspace{{2, {policy}}}", 0)
        assert "Workspace{2, hash}" in (error.value.hint or "")
