"""The derived rule Initialisation: a dense tensor that a loop visits is initialised in it."""

from __future__ import annotations

import numpy as np
import pytest

from finchlang.host.ir import Fill
from finchlang.host.walk import walk
from finchlang.run.kernel import Kernel
from finchlang.tensors.formats import parse_format
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel

pytestmark = pytest.mark.checked

VECTOR, MATRIX = "Dense(Element(0.0))", "Dense(Dense(Element(0.0)))"
FUSED = {
    "every entry": "for i=_ y[i] = x[i] + 1 end",
    "in two loops": "for j=_, i=_ C[i, j] = A[i, j] * x[i] end",
    "with a definition": "for i=_ let t = x[i] begin s[] += t; y[i] = t + 1 end end end",
    "at the edges, too": "for i=_ y[i] = coalesce(x[~(i - 1)], 0.5) + x[i] end",
    "at the edges by definition": (
        "for i=_ let t = x[~(i + 1)] begin y[i] = coalesce(t, x[~(i - 1)], 1.5) end end end"
    ),
    "after something else": "begin s .= 0; for i=_ s[] += x[i] end; for i=_ y[i] = x[i] + s[] end end",
    "increased": "for i=_ y[i] += x[i] end",
    "increased in a loop": "for i=_, j=_ y[i] += A[j, i] * x[j] end",
    "increased by sparse rows": "for i=_, j=_ y[i] += S[j, i] * x[j] end",
    "in places": "for i=_ if x[i] > 1 y[i] = x[i] end end",
    "increased before": "for i=_ begin y[i] += x[i]; y[i] = x[i] end end",
    "unless it is missing": "for i=_ y[i] = x[~(i + 1)] end",
    "unless a definition is missing": "for i=_ let t = x[~(i + 1)] begin y[i] = t + 1 end end end",
    "in a part": "for j=_, i=_ if x[i] <= 2 C[i, j] = A[i, j] end end",
}
FILLED = {
    "in the other order": "for i=_, j=_ C[i, j] = A[i, j] * x[i] end",
    "under a mask": "for j=_, i=_ if lotrimask()[i, j] C[i, j] = A[i, j] end end",
    "perhaps by no step": "for k=1:n[], i=_ y[i] = x[i] end",
    "in the inner loop": "for j=_, i=_ y[i] += S[i, j] * x[j] end",
    "from what is sparse": "for i=_ y[i] = v[i] end",
    "at one place twice": "for i=_ C[i, i] = x[i] end",
    "at two places": "for i=_ begin y[i] += x[i]; y[k[i]] += 1 end end",
    "at read places": "for i=_ y[k[i]] = x[i] end",
    "in part of a dimension": "for i=2:3 y[i] += coalesce(x[~i], 0) end",
}
CONSTANT = {
    "the fill": "for i=_ y[i] = x[i] * 0.0 end",
    "another number": "for i=_ y[i] = 3.0 + 0 * x[i] end",
    "the fill in a loop": "for j=_, i=_ C[i, j] = A[i, j] * 0.0 end",
}
FORMATS = {
    "x": VECTOR,
    "y": VECTOR,
    "v": "SparseList(Element(0.0))",
    "A": MATRIX,
    "C": MATRIX,
    "S": "Dense(SparseList(Element(0.0)))",
    "k": "Dense(Element(Int64(0)))",
    "s": "Scalar(0.0)",
    "n": "Scalar(Int64(0))",
}


def kernel(text: str, rules: str = "all") -> Kernel:
    output = "C" if "C[" in text else "y"
    program = parse_kernel(f"{output} .= 0; {text}".replace("begin s .= 0; ", "s .= 0; begin "))
    formats = {name: parse_format(format) for name, format in FORMATS.items() if name in text}
    return Kernel(program, formats, rules)


def given(n: int) -> dict[str, Tensor | Scalar]:
    rng = np.random.default_rng(n)
    x, A, k = rng.random(n) * 2, rng.random((n, n)), rng.permutation(n) + 1
    found = {"x": x, "v": np.where(x > 1, x, 0.0), "A": A, "S": np.where(A > 0.5, A, 0.0), "k": k}
    tensors = {name: Tensor.from_numpy(array, FORMATS[name]) for name, array in found.items()}
    old = {name: np.full_like(array, 7.0) for name, array in {"y": x, "C": A}.items()}
    tensors |= {name: Tensor.from_numpy(array, FORMATS[name]) for name, array in old.items()}
    return {**tensors, "s": Scalar(0.0), "n": Scalar(0)}


def results(text: str, rules: str, n: int) -> list[np.ndarray]:
    """Of the interpreter, the residual evaluated and native code, on memory that is not empty."""
    made, found = kernel(text, rules), []
    for run in (made.interpret, made.run_residual, made.run_native):
        tensors = given(n)
        run([tensors[name] for name in made.tensors], [])
        found.append(tensors["C" if "C[" in text else "y"].to_numpy())
    return found


def fills(text: str, rules: str = "all") -> int:
    return sum(isinstance(s, Fill) for s in walk(kernel(text, rules).residual.body))


@pytest.mark.parametrize("case", FUSED)
def test_what_is_visited_once_is_not_filled_before(case: str) -> None:
    assert fills(FUSED[case]) == 0 < fills(FUSED[case], "paper")


@pytest.mark.parametrize("case", FILLED)
def test_what_may_be_left_as_it_is_is_filled(case: str) -> None:
    assert fills(FILLED[case]) == fills(FILLED[case], "paper") > 0


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("case", [*FUSED, *FILLED, *CONSTANT])
def test_the_results_are_the_same(case: str, n: int) -> None:
    text = (FUSED | FILLED | CONSTANT)[case]
    expected, *others = results(text, "paper", n) + results(text, "all", n)
    for found in others:
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("rules", ["all", "paper"])
@pytest.mark.parametrize("extent", ["3:5", "1:5"])
def test_what_is_declared_from_another_place_on_is_filled_before_it(
    extent: str, rules: str
) -> None:
    """A tensor declared over 3:5 has five entries, of which the loop assigns three."""
    text = f"@declare(y, 0, {extent}); for i={extent} y[i] = coalesce(x[~(i - 2)], 1.5) end"
    formats = {name: parse_format(VECTOR) for name in "xy"}
    made = Kernel(parse_kernel(text), formats, rules)
    for run in (made.interpret, made.run_residual, made.run_native):
        given = {"x": np.arange(1.0, 4.0), "y": np.full(5, 7.0)}
        tensors = {name: Tensor.from_numpy(array) for name, array in given.items()}
        run([tensors[name] for name in made.tensors], [])
        before = [0.0, 0.0] if extent == "3:5" else [1.5, 1.5]
        assert tensors["y"].to_numpy().tolist() == [*before, 1.0, 2.0, 3.0]
