"""Workspaces that are inserted (Workspaces'24): which, where, and what comes of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from level_kernels import run, tensor

from finchlang.normalize import Context, stages
from finchlang.run.kernel import Kernel
from finchlang.script.tensors import copy_of
from finchlang.source import FinchError
from finchlang.tensors.formats import parse_format
from finchlang.tensors.level import Level
from finchlang.tensors.tensor import SwizzledTensor, Tensor
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

DENSE = "Dense(Dense(Element(0.0)))"
CSC = "Dense(SparseList(Element(0.0)))"
DCSC = "SparseList(SparseList(Element(0.0)))"
CSF = "Dense(SparseList(SparseList(Element(0.0))))"
LIST = "SparseList(Element(0.0))"
INTS = "Dense(Element(0))"

#: Workspaces'24 Fig 5 and its like: the loops, the update, and the formats. All have C declared.
FIGURE_5: dict[str, tuple[str, dict[str, str]]] = {
    "a: elementwise product of sparse and dense": (
        "for j=_, i=_\nC[i, j] = A[i, j] * B[i, j]\nend",
        {"C": CSC, "A": CSC, "B": DENSE},
    ),
    "b: inner modes of a tensor transposed": (
        "for k=_, j=_, i=_\nC[j, i, k] = A[i, j, k]\nend",
        {"C": CSF, "A": CSF},
    ),
    "c: transposition": ("for j=_, i=_\nC[j, i] = A[i, j]\nend", {"C": CSC, "A": CSC}),
    "d: sum of sparse matrices": (
        "for j=_, i=_\nC[i, j] = A[i, j] + B[i, j]\nend",
        {"C": CSC, "A": CSC, "B": CSC},
    ),
    "e: inner product": (
        "for j=_, i=_, k=_\nC[i, j] += A[k, i] * B[k, j]\nend",
        {"C": CSC, "A": CSC, "B": CSC},
    ),
    "f: Gustavson's product": (
        "for j=_, k=_, i=_\nC[i, j] += A[i, k] * B[k, j]\nend",
        {"C": CSC, "A": CSC, "B": CSC},
    ),
    "g: outer product": (
        "for k=_, j=_, i=_\nC[i, j] += A[i, k] * B[k, j]\nend",
        {"C": CSC, "A": CSC, "B": CSC},
    ),
    "h: product, transposed": (
        "for j=_, k=_, i=_\nC[j, i] += A[i, k] * B[k, j]\nend",
        {"C": CSC, "A": CSC, "B": CSC},
    ),
    "i: tensor times matrix over its middle mode": (
        "for l=_, k=_, i=_, j=_\nC[i, j, l] += A[i, k, l] * B[j, k]\nend",
        {"C": CSF, "A": CSF, "B": CSC},
    ),
    "j: MTTKRP": (
        "for l=_, k=_, i=_, j=_\nC[j, i] += A[i, k, l] * B[j, k] * D[j, l]\nend",
        {"C": DCSC, "A": CSF, "B": CSC, "D": CSC},
    ),
}


def formats(names: dict[str, str]) -> dict[str, Level]:
    return {n: parse_format(f) for n, f in names.items()}


def arrays(names: dict[str, str], seed: int = 0) -> dict[str, Tensor]:
    """Small random tensors of the formats, C empty."""
    random = np.random.default_rng(seed)
    found = {}
    for name, format in names.items():
        order = parse_format(format).order
        shape = (4,) * order
        array = random.integers(1, 5, shape) * (random.random(shape) < 0.4)
        found[name] = tensor(array.astype(float) * (name != "C"), format)
    return found


@pytest.mark.parametrize("name", FIGURE_5)
def test_figure_5(name: str) -> None:
    """The same as with a result that takes any order, under every engine."""
    text, names = FIGURE_5[name]
    text = f"C .= 0\n{text}"
    given = arrays(names)
    found = run(text, given)[0]["C"].to_numpy()
    dense = "Dense(" * found.ndim + "Element(0.0)" + ")" * found.ndim
    wanted = run(text, {**given, "C": Tensor(dense, *found.shape)})[0]["C"].to_numpy()
    assert found.any()
    np.testing.assert_array_equal(found, wanted)


def test_figure_5_in_classes(golden: Any) -> None:
    parts = []
    for name, (text, names) in FIGURE_5.items():
        context = Context(formats(names))  # type: ignore[arg-type]
        for _, last in stages(parse_kernel(f"C .= 0\n{text}"), context):
            program = last
        told = [what for stage, what in context.decisions if stage == "workspaces"]
        notes = [note.message for note in context.notes]
        parts.append("\n".join([f"# {name}", *told, *notes, pretty(program)]))
    golden("insertion/fig5.txt", "\n\n".join(parts) + "\n")


# ------------------------------------------------------------------------------- every format

TWELVE = {
    **{"CSC": CSC, "DCSC": DCSC, "COO": "SparseCOO{2}(Element(0.0))"},
    **{"dense": DENSE, "hash": "SparseHash{2}(Element(0.0))"},
    **{"byte map": "Dense(SparseByteMap(Element(0.0)))", "runs": "Dense(RunList(Element(0.0)))"},
    **{"sparse runs": "Dense(SparseRunList(Element(0.0)))"},
    **{"blocks": "SparseList(SparseBlockList(Element(0.0)))"},
    **{"bands": "Dense(SparseBand(Element(0.0)))", "PackBits": "Dense(PackBits(Element(0.0)))"},
    **{"ragged": "Dense(Ragged(Element(0.0)))"},
}
MATRIX = np.array([[0.0, 1, 1, 0, 0], [2, 0, 0, 0, 0], [3, 0, 4, 0, 0], [3, 0, 0, 0, 5]])


@pytest.mark.parametrize(("source", "target"), [*product(TWELVE, TWELVE)])
def test_conversion_and_transposition(source: str, target: str) -> None:
    """Of matrices of any format to any other; transposed, lists and their like are written across
    the order of their loops."""
    given = {"A": tensor(MATRIX, TWELVE[source]), "C": Tensor(TWELVE[target], 0, 0)}
    given["T"] = Tensor(TWELVE[target], 0, 0)
    text = "C .= 0\nT .= 0\nfor j=_, i=_\nC[i, j] = A[i, j]\nT[j, i] = A[i, j]\nend"
    found, _ = run(text, given, native=source in ("CSC", "runs") or target == "CSC")
    np.testing.assert_array_equal(found["C"].to_numpy(), MATRIX)
    np.testing.assert_array_equal(found["T"].to_numpy(), MATRIX.T)


def outputs(fill: str) -> list[str]:
    formats = (f.replace("0.0", fill) for f in TWELVE.values())
    return [f for f in formats if "Dense(Dense" not in f]


UPDATES = ("+=", "-=", "*=", "<<min>>=", "<<max>>=", "=", ":=")


@pytest.mark.parametrize("fill", ["0.0", "1.5", "Inf"])
@pytest.mark.parametrize("update", UPDATES)
def test_operators_and_fills(update: str, fill: str) -> None:
    """Values are combined in the order of the loops, with the fill where nothing was."""
    given: dict[str, Any] = {"A": tensor(MATRIX, CSC)}
    for n, format in enumerate(outputs(fill)):
        given[f"C{n}"] = Tensor(format, 0, 0)
    given["D"] = Tensor(DENSE.replace("0.0", fill), 0, 0)
    names = [n for n in given if n != "A"]
    lines = [f"{n} .= {fill}" for n in names]
    updates = [f"{n}[i, j] {update} A[i, k] + j" for n in names]
    text = "\n".join([*lines, "for k=_, j=1:2, i=_\nif A[i, k] != 0", *updates, "end\nend"])
    found, _ = run(text, given, native=False)
    for name in names:
        np.testing.assert_array_equal(found[name].to_numpy(), found["D"].to_numpy())


def test_patterns_and_booleans() -> None:
    names = ["SparseList(Pattern())", "SparseList(Element(false))", "SparseCOO{1}(Pattern())"]
    given: dict[str, Any] = {"A": tensor(MATRIX, CSC)}
    given |= {f"C{n}": Tensor(format, 0) for n, format in enumerate(names)}
    given["D"] = Tensor("Dense(SparseList(Pattern()))", 0, 0)
    declared = "\n".join(f"{name} .= false" for name in given if name != "A")
    updates = "\n".join(f"C{n}[i] <<||>>= A[i, j] != 0" for n in range(3))
    text = f"{declared}\nfor j=_, i=_\n{updates}\nD[j, i] <<||>>= A[i, j] > 1\nend"
    found, _ = run(text, given)
    for n in range(3):
        assert found[f"C{n}"].to_numpy().tolist() == (MATRIX != 0).any(1).tolist()
    np.testing.assert_array_equal(found["D"].to_numpy(), (MATRIX > 1).T)


HALVES = ("UpperTriangular", "Symmetric", "LowerTriangular")


@pytest.mark.parametrize("half", HALVES)
def test_packed_halves_are_written_where_they_are(half: str) -> None:
    """Through a workspace that is packed too: what is stored is written, what is not is an error."""
    format = f"{half}(SparseList(Element(0.0)))"
    array = np.arange(1.0, 28.0).reshape(3, 3, 3)
    sign = ">=" if half == "LowerTriangular" else "<="
    given = {"A": tensor(array, CSF), "C": Tensor(format, 0, 0, 0)}
    update = "C[k, i, j] += A[k, i, j]"
    found, _ = run(f"C .= 0\nfor k=_, i=_, j=_\nif i {sign} j\n{update}\nend\nend", given)
    kept = np.tril(np.ones((3, 3))) if half == "LowerTriangular" else np.triu(np.ones((3, 3)))
    wanted = array * kept
    if half == "Symmetric":
        wanted = np.where(kept > 0, wanted, wanted.transpose(0, 2, 1))
    np.testing.assert_array_equal(found["C"].to_numpy(), wanted)
    with pytest.raises(FinchError) as error:
        run(f"C .= 0\nfor k=_, i=_, j=_\n{update}\nend", given)
    assert error.value.kind == "access order"


def doubly_compressed(size: int) -> Tensor:
    """A matrix of `size` rows and columns with few entries, at the same places for any size."""
    places = np.array([[0, 3, 5, 9, 9], [2, 2, 5, 7, 9]])
    return Tensor.from_coo(DCSC, (size, size), list(places), np.arange(1.0, 6.0))


@pytest.mark.parametrize("loops", ["k=_, j=_, i=_", "k=_, i=_, j=_", "j=_, k=_, i=_"])
def test_steps_do_not_grow_with_sizes(loops: str) -> None:
    """Nor does memory: a workspace of all places would not fit."""
    text = f"C .= 0\nfor {loops}\nC[i, j] += A[i, k] * B[k, j]\nend"

    def steps(size: int) -> Any:
        given: dict[str, Any] = {name: doubly_compressed(size) for name in "AC"}
        given["B"] = doubly_compressed(size)
        if loops.startswith("k"):  # by rows
            given["B"] = SwizzledTensor(given["B"], (2, 1))
        known = {name: value.format for name, value in given.items()}
        kernel = Kernel(
            parse_kernel(text), known, exchanged=frozenset({"C_work"} if loops[0] == "j" else ())
        )
        stored = [getattr(given[n], "body", given[n]) for n in kernel.tensors]
        found = kernel.interpret(stored, [])
        assert len(given["C"].entries()[1]) > 0
        return found

    assert steps(10_000) == steps(10**8)


IN_PLACE = [CSC, DCSC, "SparseCOO{2}(Element(0.0))", "SparseList(Dense(Element(0.0)))"]


@pytest.mark.parametrize("fill", ["0.0", "1.0", "Inf"])
@pytest.mark.parametrize("format", IN_PLACE)
def test_updates_in_place(format: str, fill: str) -> None:
    """What was there comes first, whatever an entry of a batch begins with; in any order of loops."""
    format = format.replace("0.0", fill)
    random = np.random.default_rng(1)
    a = np.where(random.random((4, 5)) < 0.5, float(fill), random.integers(1, 5, (4, 5)))
    b = random.integers(1, 5, (4, 5)).astype(float)
    meanings = {"+=": a + b, "-=": a - b, "*=": a * b, "=": b, ":=": b}
    meanings |= {"<<min>>=": np.minimum(a, b), "<<max>>=": np.maximum(a, b)}
    given = {"C": tensor(a, format), "B": tensor(b, DENSE)}
    for (op, wanted), loops in zip(meanings.items(), ("i=_, j=_", "j=_, i=_") * 4, strict=False):
        found, _ = run(f"for {loops}\nC[i, j] {op} B[i, j]\nend", given)
        np.testing.assert_array_equal(found["C"].to_numpy(), wanted)
    text = "for j=_, i=_\nC[i, j] += B[i, j]\nend\nfor i=_, j=_\nC[i, j] *= 2\nend"
    np.testing.assert_array_equal(run(text, given)[0]["C"].to_numpy(), (a + b) * 2)


@pytest.mark.parametrize("update", ["+=", "-=", "=", ":="])
@pytest.mark.parametrize("format", [DCSC, "SparseCOO{2}(Element(0.0))"])
def test_updates_in_place_of_more_places_than_can_be_numbered(format: str, update: str) -> None:
    size = 2**40
    rows = np.array([[6, size - 1], [4, 2]])
    given: dict[str, Any] = {
        "C": Tensor.from_coo(format, (size, size), list(rows), np.array([4.0, 1.0]))
    }
    given |= {"I": tensor(np.array([8, 7, 7]), INTS), "J": tensor(np.array([4, 5, 5]), INTS)}
    given |= {"V": tensor(np.array([3.0, 4.0, 5.0]), "Dense(Element(0.0))")}
    known = {name: value.format for name, value in given.items()}
    kernel = Kernel(parse_kernel(f"for p=_\nC[I[p], J[p]] {update} V[p]\nend"), known)
    seven, eight = {"+=": (13.0, 3.0), "-=": (-5.0, -3.0)}.get(update, (5.0, 3.0))
    for engine in (kernel.interpret, kernel.run_residual, kernel.run_native):
        own = {name: copy_of(value) for name, value in given.items()}
        engine([own[name] for name in kernel.tensors], [])
        coordinates, values = own["C"].entries()
        entries = dict(zip(zip(*coordinates.tolist(), strict=True), values.tolist(), strict=True))
        assert entries == {(6, 4): seven, (7, 3): eight, (size - 1, 2): 1.0}
