"""The statements `@array` and `@einsum` of scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang import FinchError, Session
from finchlang.session import Observer
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

rng = np.random.default_rng(13)
A = rng.random((4, 5)) * (rng.random((4, 5)) < 0.5)
B = rng.random((5, 3)) * (rng.random((5, 3)) < 0.5)
S = rng.random((4, 4)) * (rng.random((4, 4)) < 0.6)
V, W = rng.random(5), rng.random(4)
M = rng.random((4, 5)) < 0.5
START = """
A = Tensor(Dense(SparseList(Element(0.0))), A)
B = Tensor(SparseList(SparseList(Element(0.0))), B)
S = Tensor(Dense(SparseList(Element(0.0))), S)
f(x, y) = x > y ? x : y
function g(x)
    n = 0
    while x > 0.2
        x = x / 2
        n += 1
    end
    n
end
"""


def session(engine: str = "native") -> Session:
    made = Session(engine=engine)
    for name, value in {"A": A, "B": B, "S": S, "v": V, "w": W, "m": M}.items():
        made[name] = value
    made.run(START)
    return made


def halvings(x: float) -> int:
    count = 0
    while x > 0.2:
        x, count = x / 2, count + 1
    return count


STATEMENTS: list[tuple[str, Any]] = [
    ("@einsum C[i, j] += A[i, k] * B[k, j]", A @ B),
    ("@einsum C[j, i] += A[i, k] * B[k, j]", (A @ B).T),
    ("@einsum C[i] max= A[i, j]", A.max(1)),
    ("@einsum C[j] <<max>>= f(A[i, j], w[i])", np.maximum(A, W[:, None]).max(0)),
    ("@einsum C[i] min= A[i, j] + v[j]", (A + V).min(1)),
    ("@einsum C[i, j] = 2 * A[i, j] + 1", 2 * A + 1),
    ("@einsum C[i] = S[i, i]", np.diag(S)),
    ("@einsum C[] += A[i, j] * v[j] * w[i]", W @ A @ V),
    ("@einsum C[i, j] += S[i, k] * S[k, l] * S[l, j]", S @ S @ S),
    ("@einsum C[i, j] = v[i] * w[j]", np.outer(V, W)),
    ("@einsum C[] += A[i, j] > 0.5", (A > 0.5).sum()),
    ("@einsum A[i, j] = A[i, j] * A[i, j]", A * A),
    ("@array C = log1p(A) .* m", np.log1p(A) * M),
    ("@array C = sum(A; dims = 1)", A.sum(0, keepdims=True)),
    ("@array C = maximum(A; dims = (1, 2))", A.max(keepdims=True)),
    ("@array C = dropdims(mean(A; dims = 2); dims = 2)", A.mean(1)),
    ("@array C = sum(A)", A.sum()),
    ("@array C = A * B * 2", A @ B * 2),
    ("@array C = A * v", A @ V),
    ("@array C = A .* w .+ 1", A * W[:, None] + 1),
    ("@array C = A .* transpose(v) .- A", A * V - A),
    ("@array C = transpose(A .> 0.5)", (A > 0.5).T),
    ("@array C = permutedims(A, (2, 1))", A.T),
    ("@array C = 0.2 .< A .<= 0.7 || A .== 0", (A > 0.2) & (A <= 0.7) | (A == 0)),
    ("@array C = A .> 0.5 ? A : 7.0", np.where(A > 0.5, A, 7.0)),
    ("@array C = f(A, 0.3) .^ 2", np.maximum(A, 0.3) ** 2),
    ("@array C = g(A)", np.vectorize(halvings)(A)),
    ("@array C = round(A .* 10) ./ 10", np.round(A * 10) / 10),
    ("@array C = Int64(A .* 10 .÷ 1) .⊻ 1", (A * 10).astype(int) ^ 1),
    ("@array C = A[2, :]", A[1]),
    ("@array C = A[1:2:4, 5:-1:2]", A[0:4:2, 4:0:-1]),
    ("x = 3\n@array C = A[x - 1, x] + x", A[1, 2] + 3),
    ("@array C = A[3:2, 5:-1:1]", np.zeros((0, 5))),
    ("@array C = todense(A .+ 1)", A + 1),
    ("C = @array A .+ A", A + A),
]


@pytest.mark.parametrize("engine", ["native", "interpret", "residual", "denote"])
@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[s for s, _ in STATEMENTS])
def test_a_statement_makes_what_numpy_does(text: str, expected: Any, engine: str) -> None:
    found = session(engine)
    value = found.run(text)
    assert value is found["A" if text.startswith("@einsum A") else "C"]
    value = np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
    assert value.shape == np.shape(expected)
    np.testing.assert_allclose(value, expected)


WRONG = [
    (
        "@einsum C[i, j] += A[i, k] * S[k, j]",
        "dimension",
        "`k` has size 5 in A[i, k], 4 in S[k, j]",
    ),
    ("@einsum C[i] = S[i, i] * v[i]", "dimension", "`i` has size 4 in S[i, i], 5 in v[i]"),
    ("@einsum C[i] = A[i, j]", "type", "`=` does not say how `j` is reduced"),
    ("@einsum C[i, z] += A[i, j]", "dimension", "no array has the index `z`"),
    ("@einsum C[i] += A[i]", "dimension", "1 indices of an array of 2 modes"),
    ("@einsum C[i] += no[i]", "unknown name", "no is not defined"),
    ("@einsum C[i] <<f>>= A[i, j]", "type", "`f` cannot reduce arrays: it has no identity"),
    ("@einsum C[i, i] += A[i, i]", "syntax", "the index `i` is there twice"),
    (
        "@einsum C[i] += A[i + 1, j]",
        "syntax",
        "an index of `@einsum` is a name, a number or a window",
    ),
    ("@einsum C += A[i, j]", "syntax", "this is no array with its indices"),
    ("@array C = A .+ B", "dimension", "arrays of sizes 4 x 5 and 5 x 3 do not broadcast"),
    ("@array C = A < A", "type", "`<` is not defined between arrays"),
    ("@array C = A * A", "dimension", "arrays of sizes 4 x 5 and 4 x 5 have no product"),
    ("@array C = sum(A; dims = 3)", "dimension", "an array of size 4 x 5 has no mode 3"),
    ("@array C = sum(A; dims = (1, 1))", "dimension", "mode 1 is there twice in `dims`"),
    ("@array C = max(A; dims = 1)", "type", "this is not how `max` is called here"),
    ("@array C = A[5, 1]", "bounds", "index 5 of a mode of size 4"),
    ("@array C = A[1]", "dimension", "1 indices of an array of size 4 x 5"),
    ("@array C = println(A)", "type", "`println` is no operator of elements"),
    ("@array C[1] = A", "syntax", "`@array` makes an array of a name: `@array C = A .* B`"),
    ("@finch for i = _; C[i] = v[i] .* 2; end", "syntax", "`.*` is of whole arrays"),
]


@pytest.mark.parametrize(("text", "kind", "message"), WRONG)
def test_errors_have_a_place(text: str, kind: str, message: str) -> None:
    found = session()
    with pytest.raises(FinchError) as caught:
        found.run(text)
    assert (caught.value.kind, caught.value.message) == (kind, message)
    assert caught.value.span is not None
    assert "C" not in found


def test_a_statement_of_a_function_binds_a_local_name() -> None:
    found = session()
    found.run("function twice(X)\n@array Y = X .* 2\nreturn Y\nend\nZ = twice(A)")
    assert "Y" not in found
    np.testing.assert_allclose(found["Z"].to_numpy(), A * 2)


def test_a_statement_is_one_kernel_and_known_again() -> None:
    class Count(Observer):
        kernels = 0

        def kernel(self, event: Any) -> None:
            self.kernels += 1

    observer = Count()
    found = Session(observer=observer)
    found["A"], found["B"] = A, B
    for _ in range(3):
        found.run("@array C = (A .+ 1) * B")
    assert observer.kernels == 1


def test_engine_check_makes_nothing() -> None:
    found = Session(engine="check")
    found["A"], found["B"] = A, B
    found.run("@einsum C[i, j] += A[i, k] * B[k, j]\n@array D = C .* 2")
    wrong = Session(engine="check")
    wrong["A"] = A
    with pytest.raises(FinchError):
        wrong.run("@einsum C[i, j] += A[i, k] * A[k, j]")


@pytest.mark.parametrize(
    "text",
    [
        "@einsum C[i, j] += A[i, k] * B[k, j]",
        "@einsum s[] <<f>>= A[i]^2",
        "C = @array log1p(A) .* M.^-2",
        "@time @array sum(A, dims = 1) .<= 3",
        "@array A .÷ B .⊻ C .<< 2 .&& D .|| E .| F .- 1",
    ],
)
def test_text_is_printed_as_it_is_read(text: str) -> None:
    assert pretty(parse_script(text)) == text
    assert parse_script("@array C = A .≤ B") == parse_script("C = @array A .<= B")
