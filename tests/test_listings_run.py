"""The papers' listings run as they are printed, with the `end`s they leave out to save space: the same
in all four semantics, and what they are said to compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_listings import LISTINGS, SCRIPT_LISTINGS

from finchlang.testing.compare import compare

rng = np.random.default_rng(7)


def literal(array: Any) -> str:
    """An array as a script writes it."""
    array = np.asarray(array)
    if array.ndim == 1:
        return "[" + ", ".join(str(x).lower() for x in array.tolist()) + "]"
    return "[" + "; ".join(" ".join(str(x).lower() for x in row) for row in array.tolist()) + "]"


def sparse(*shape: int) -> np.ndarray:
    return rng.integers(1, 9, shape) * (rng.random(shape) < 0.5)


def ran(text: str) -> dict[str, Any]:
    found = compare(text)
    assert found.agrees and not found.errors, found.report
    values = found.results["native"]
    return {n: v.to_numpy() if hasattr(v, "to_numpy") else v for n, v in values.items()}


def kernel(body: str) -> str:
    return f"@finch begin\n{body.strip()}\nend\n"


a, b = sparse(20), sparse(20)
A, B = sparse(6, 4), sparse(4, 5)
SQUARE = sparse(6, 6)
HALF = np.triu(SQUARE)
x, diagonal = sparse(6), np.diag(SQUARE)
even = (np.arange(1, 21) % 2 == 0).astype(int)

VECTORS = (
    f"a = Tensor(SparseList(Element(0)), {literal(a)})\n"
    f"b = Tensor(SparseList(Element(0)), {literal(b)})\n"
    + "".join(f"{n} = Tensor(SparseList(Element(0)), 20)\n" for n in ("c", "ap", "cp", "f"))
)
FIGURE_2 = (
    "for i = _\n  if i % 2 == 0\n    c[i]=a[i]*b[i]\n  end\nend",
    LISTINGS["Fig 2"],
    "for i = _\n  cp[i] = a[i] * b[i]\nend\nfor i = _\n  if i % 2 == 0\n    c[i] = cp[i]\n  end\nend",
    "for i = _\n  if i % 2 == 0\n    f[i] = 1\n  end\nend\n"
    "for i = _\n  c[i] = a[i] * b[i] * f[i]\nend",
)


@pytest.mark.parametrize("strategy", range(4))
def test_figure_2(strategy: int) -> None:
    found = ran(VECTORS + kernel(FIGURE_2[strategy]))
    np.testing.assert_array_equal(found["c"], a * b * even)


def test_figure_7() -> None:
    assert ran("n = 4\nA = [2, 3, 0, 4]\n" + SCRIPT_LISTINGS["Fig 7"])["p"] == 0
    once = SCRIPT_LISTINGS["Fig 7"].replace("{0}", "{1}").replace(".= 0", ".= 1")
    assert ran("n = 4\nA = [2, 3, 5, 4]\n" + once)["p"] == 120


FIGURE_10 = (
    "for i=_, j=_\n  if i <= j\n    s[] += A[i - 1, j]\n  end\nend",
    "for i=_, j=_\n  if UpTriMask()[i, j]\n    s[] += OffsetTensor(A, (-1, 0))[i, j]\n  end\nend",
)


@pytest.mark.parametrize("stage", range(2))
@pytest.mark.parametrize("format", ["Dense(Dense(Element(0)))", "Dense(SparseList(Element(0)))"])
def test_figure_10(stage: int, format: str) -> None:
    text = f"A = Tensor({format}, {literal(SQUARE)})\ns = Scalar(0)\n" + kernel(FIGURE_10[stage])
    assert ran(text)["s"] == np.triu(SQUARE, 1).sum()  # A[i - 1, j] for i <= j


def test_figure_11() -> None:
    text = f"A = {literal(A[:3])}\nB = {literal(B)}\nC = Tensor(Dense(Dense(Element(0))))\n"
    for listing in (
        LISTINGS["Fig 11"],
        LISTINGS["Fig 11"].replace("j = _", "j = 1:5").replace("k = _", "k = 1:4"),
    ):
        np.testing.assert_array_equal(ran(text + kernel(listing))["C"], A[:3] @ B)


FIGURE_12 = (
    "for i = _\n  for j = _\n    s[] += A[i, j]\n  end\nend",
    "for i = _\n  for j = _\n    for k = i:i\n      s[] += A[k, j]\n    end\n  end\nend",
    "for i = _\n  A[I[i]] += 1\nend",
    "for i = _\n  for j = I[i]:I[i]\n    A[j] += 1\n  end\nend",
)


@pytest.mark.parametrize("format", ["Dense(Dense(Element(0)))", "Dense(SparseList(Element(0)))"])
@pytest.mark.parametrize("stage", range(2))
def test_figure_12_rows(stage: int, format: str) -> None:
    text = f"A = Tensor({format}, {literal(A)})\ns = Scalar(0)\n" + kernel(FIGURE_12[stage])
    assert ran(text)["s"] == A.sum()


@pytest.mark.parametrize("format", ["Dense(Element(0))", "SparseByteMap(Element(0))"])
@pytest.mark.parametrize("stage", range(2, 4))
def test_figure_12_scatter(stage: int, format: str) -> None:
    text = f"I = [3, 1, 3, 5]\nA = Tensor({format}, 5)\n" + kernel(FIGURE_12[stage])
    np.testing.assert_array_equal(ran(text)["A"], [1, 0, 2, 0, 1])


@pytest.mark.parametrize("format", ["Dense(Element(0))", "SparseByteMap(Element(0))"])
def test_figure_13(format: str) -> None:
    text = f"x = Tensor(Dense(Element(0)), {literal(x)})\ny = Tensor({format})\n"
    automatic = LISTINGS["Fig 13"].replace("@thaw(x)\n", "")
    automatic = automatic.replace("@freeze(y)\n", "").replace("\n@freeze(x)", "")
    assert "@" not in automatic
    for listing in (LISTINGS["Fig 13"], automatic):
        found = ran(text + kernel(listing))
        np.testing.assert_array_equal(found["y"], x + 2)
        np.testing.assert_array_equal(found["x"], x + 1 + x + 2)


def test_figure_16() -> None:
    """With A[j] in the second loop; i is not bound there."""
    columns = sparse(5, 3).astype(float)
    D = sparse(3).astype(float)
    text = f"""
A = Tensor(Dense(Element(0.0)))
B = Tensor(SparseList(SparseList(Element(0.0))), {literal(columns)})
C = Tensor(Dense(SparseList(Element(0.0))))
D = Tensor(SparseList(Element(0.0)), {literal(D)})
@finch begin
C .= 0
for k = _
  A .= 0
  for i = _
    A[i] = B[i, k] * 2
  end
  for j = _
    C[j, k] = A[j]^2 + D[k]
  end
end
end"""
    np.testing.assert_array_equal(ran(text)["C"], (2 * columns) ** 2 + D)


FIGURE_17 = """
A = Tensor(Dense(SparseList(Element(0.0))), {})
s = Tensor(Element(0.0))
@finch begin
  {}
end
"""
INPUT_17 = "s .= 0.0\nfor j = _\nfor i = _\nif i <= j\ns[] += A[i, j]\nend\nend\nend"


def test_figures_17_and_18() -> None:
    step_1 = LISTINGS["Fig 17"]
    sizes = "m = 6\nn = 6\nT = UpTriMask()\n"
    for listing in (INPUT_17, step_1, step_1.replace("@declare(s, 0.0)", "s .= 0.0")):
        found = ran(sizes + FIGURE_17.format(literal(SQUARE.astype(float)), listing.strip()))
        assert found["s"] == HALF.sum()


@pytest.mark.parametrize(
    "format",
    ["Dense(SparseList(Element(0)))", "SparseHash{2}(Element(0))", "Dense(RunList(Element(0)))"],
)
def test_figure_19(format: str) -> None:
    given = f"A = Tensor({format}, MATRIX)\nx = {literal(x)}\ny = Tensor(Dense(Element(0)))\n"
    row = "y .= 0\nfor j = _, i = _\n  y[i] += A[i, j] * x[j]\nend"
    column = "y .= 0\nfor j = _, i = _\n  y[j] += A[i, j] * x[i]\nend"
    np.testing.assert_array_equal(
        ran(given.replace("MATRIX", literal(SQUARE)) + kernel(row))["y"], SQUARE @ x
    )
    found = ran(given.replace("MATRIX", literal(SQUARE)) + kernel(column))
    np.testing.assert_array_equal(found["y"], SQUARE.T @ x)
    strict = np.triu(SQUARE, 1)
    given += f"D = {literal(diagonal)}\ny_j = Scalar(0)\n"
    found = ran(
        given.replace("MATRIX", literal(strict)) + kernel("y .= 0\n" + LISTINGS["Fig 19"].strip())
    )
    np.testing.assert_array_equal(found["y"], (strict + strict.T + np.diag(diagonal)) @ x)


FIGURE_21 = {
    "inner": "C .= 0\nfor j=_\nfor i=_\nfor k=_\nC[i, j] += AT[k, i] * B[k, j]\nend\nend\nend\nreturn C",
    "gustavson": LISTINGS["Fig 21"].strip(),
    "outer": "w .= 0\nfor k=_\nfor j=_\nfor i=_\nw[i, j] += A[i, k] * BT[j, k]\nend\nend\nend\n"
    "C .= 0\nfor j=_, i=_\nC[i, j] = w[i, j]\nend",
}
WORKSPACES = {
    "inner": "",
    "gustavson": "w = Tensor(SparseByteMap(Element(0)))\n",
    "outer": "w = Tensor(SparseHash(SparseHash(Element(0))))\n",
}


@pytest.mark.parametrize("algorithm", FIGURE_21)
def test_figure_21(algorithm: str) -> None:
    matrices = {"A": A, "AT": A.T, "B": B, "BT": B.T}
    used = {n: m for n, m in matrices.items() if f"{n}[" in FIGURE_21[algorithm]}
    text = "".join(
        f"{n} = Tensor(Dense(SparseList(Element(0))), {literal(m)})\n" for n, m in used.items()
    )
    text += "C = Tensor(Dense(SparseList(Element(0))))\n" + WORKSPACES[algorithm]
    np.testing.assert_array_equal(ran(text + kernel(FIGURE_21[algorithm]))["C"], A @ B)


# ------------------------------------------------------------------ Looplets'23, sections 7 to 9

VECTOR_FORMATS = (
    "Dense",
    "SparseList",
    "SparseByteMap",
    "SparseBlockList",
    "RunList",
    "SparseHash",
)
#: the listings of section 8 and 9 in the notation of Finch'25: `permit[i]` is `~i`, `window(a, b)[k]`
#: is `(a:b)(k)`, `offset(d)[i]` is `i` moved by d
WINDOW = "for k = _\n  C[k] = A[(3:5)(k)]\nend"
CONCATENATION = "for i = 1:n\n  C[i] = coalesce(A[~i], B[~(i - m)])\nend"
CONVOLUTION = "for i = 1:m, j = _\n  C[i] += coalesce(A[~(i + j - 2)], 0) * F[~j]\nend"
CONVOLUTION_9 = (
    "for i = 1:m, j = 1:3\n"
    "  C[i] += (A[i] != 0) * coalesce(A[~(j - 2 + i)], 0) * coalesce(F[~j], 0)\nend"
)


@pytest.mark.parametrize("format", VECTOR_FORMATS)
def test_index_modifiers_of_section_8(format: str) -> None:
    weights = np.array([1, 10, 100])
    text = (
        f"A = Tensor({format}(Element(0)), {literal(a)})\nB = Tensor({format}(Element(0)), {literal(b)})\n"
        f"F = {literal(weights)}\nC = Tensor(Dense(Element(0)))\nm = 20\nn = 40\n"
    )

    def result(listing: str) -> np.ndarray:
        return ran(text + kernel("C .= 0\n" + listing))["C"]

    np.testing.assert_array_equal(result(WINDOW), a[2:5])
    np.testing.assert_array_equal(result(CONCATENATION), np.concatenate((a, b)))
    filtered = np.convolve(a, weights[::-1], "same")
    np.testing.assert_array_equal(result(CONVOLUTION.replace("j = _", "j = 1:3")), filtered)
    np.testing.assert_array_equal(result(CONVOLUTION_9), filtered * (a != 0))


PROTOCOLS = ("walk", "gallop", "follow")


@pytest.mark.parametrize("format", ["SparseList", "SparseByteMap", "SparseBlockList", "RunList"])
def test_protocols_of_section_7(format: str) -> None:
    """The leader and follower protocols of Fig 6 in every combination."""
    text = f"A = Tensor({format}(Element(0)), {literal(a)})\n"
    text += f"B = Tensor(SparseList(Element(0)), {literal(b)})\n"
    body = []
    for left in PROTOCOLS:
        for right in PROTOCOLS:
            text += f"{left}_{right} = Scalar(0)\n"
            body.append(f"for i = _\n{left}_{right}[] += A[{left}(i)] * B[{right}(i)]\nend")
    found = ran(text + kernel("\n".join(body)))
    assert all(found[f"{p}_{q}"] == a @ b for p in PROTOCOLS for q in PROTOCOLS)


def test_kernels_of_section_9() -> None:
    graph = sparse(7, 7) > 0
    text = f"A = Tensor(Dense(SparseList(Pattern())), {literal(graph)})\nC = Scalar(0)\n"
    count = "for k=_, j=_, i=_\n  C[] += A[i, j] && A[j, k] && A[k, i]\nend"
    expected = np.trace(np.linalg.matrix_power(graph.astype(int), 3))
    assert ran(text + kernel(count))["C"] == expected

    images = sparse(4, 9)
    text = (
        f"A = Tensor(Dense(RunList(Element(0.0))), {literal(images.T.astype(float))})\n"
        "R = Tensor(Dense(Element(0.0)))\nO = Tensor(Dense(Dense(Element(0.0))))\no = Scalar(0.0)\n"
    )
    norms = "R .= 0\nfor k=_, ij=_\n  R[k] += A[ij, k]^2\nend\n"
    pairs = (
        "O .= 0\nfor l=_, k=_\n  o .= 0\n  for ij=_\n    o[] += A[ij, k] * A[ij, l]\n  end\n"
        "  O[k, l] = sqrt(R[k] + R[l] - 2 * o[])\nend"
    )
    distances = np.linalg.norm(images[:, None] - images[None], axis=2)
    np.testing.assert_allclose(ran(text + kernel(norms + pairs))["O"], distances, atol=1e-7)
