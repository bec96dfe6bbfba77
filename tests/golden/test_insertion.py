"""Workspaces that are inserted (Workspaces'24 Fig 5), with what is decided of each: kept as a file."""

from __future__ import annotations

from collections.abc import Callable

from finchlang.algebra.program_context import ProgramContext
from finchlang.normalize.pass_list import stages
from finchlang.tensors.formats import parse_format
from finchlang.text.parse import parse_kernel
from finchlang.text.print import pretty

DENSE = "Dense(Dense(Element(0.0)))"
CSC = "Dense(SparseList(Element(0.0)))"
DCSC = "SparseList(SparseList(Element(0.0)))"
CSF = "Dense(SparseList(SparseList(Element(0.0))))"
MATRICES = {"C": CSC, "A": CSC, "B": CSC}

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
    "d: sum of sparse matrices": ("for j=_, i=_\nC[i, j] = A[i, j] + B[i, j]\nend", MATRICES),
    "e: inner product": ("for j=_, i=_, k=_\nC[i, j] += A[k, i] * B[k, j]\nend", MATRICES),
    "f: Gustavson's product": ("for j=_, k=_, i=_\nC[i, j] += A[i, k] * B[k, j]\nend", MATRICES),
    "g: outer product": ("for k=_, j=_, i=_\nC[i, j] += A[i, k] * B[k, j]\nend", MATRICES),
    "h: product, transposed": ("for j=_, k=_, i=_\nC[j, i] += A[i, k] * B[k, j]\nend", MATRICES),
    "i: tensor times matrix over its middle mode": (
        "for l=_, k=_, i=_, j=_\nC[i, j, l] += A[i, k, l] * B[j, k]\nend",
        {"C": CSF, "A": CSF, "B": CSC},
    ),
    "j: MTTKRP": (
        "for l=_, k=_, i=_, j=_\nC[j, i] += A[i, k, l] * B[j, k] * D[j, l]\nend",
        {"C": DCSC, "A": CSF, "B": CSC, "D": CSC},
    ),
}


def test_figure_5_in_classes(golden: Callable[[str, str], None]) -> None:
    parts = []
    for name, (text, names) in FIGURE_5.items():
        context = ProgramContext({n: parse_format(f) for n, f in names.items()})
        for _, last in stages(parse_kernel(f"C .= 0\n{text}"), context):
            program = last
        told = [what for stage, what in context.decisions if stage == "workspaces"]
        notes = [note.message for note in context.notes]
        parts.append("\n".join([f"# {name}", *told, *notes, pretty(program)]))
    golden("insertion/fig5.txt", "\n\n".join(parts) + "\n")
