"""The denotation's shape operators against NumPy: what they read, where they write, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from finchlang.denote.denotation import denote
from finchlang.source import FinchError
from finchlang.text.parse import parse_kernel

A = np.arange(1, 13.0).reshape(3, 4)
B = np.arange(13, 25.0).reshape(3, 4)
V = np.arange(12.0)
T = np.arange(24.0).reshape(2, 3, 4)


def run(text: str, result: Any, **given: Any) -> np.ndarray:
    return denote(parse_kernel(text), {"A": A, "B": B, "V": V, "T": T, "C": result} | given)["C"]


def copied(tensor: str, order: int, **given: Any) -> np.ndarray:
    indices = ("i", "j", "k")[:order]
    loops = ", ".join(f"{i} = _" for i in reversed(indices))
    at = ", ".join(indices)
    text = f"C .= 0; for {loops}; C[{at}] = {tensor}[{at}] end"
    return run(text, np.zeros((0,) * order), **given)


READ = {
    "collapse(A, 1, 2)": A.ravel("F"),
    "collapse(A, 2, 1)": A.ravel(),
    "collapse(T, 1, 2)": T.reshape(6, 4, order="F"),
    "collapse(T, 3, 1)": T.transpose(0, 2, 1).reshape(8, 3),
    "collapse(T, 1, 3)": T.transpose(2, 0, 1).reshape(8, 3),
    "split(V, 1, 3)": V.reshape(4, 3).T,
    "split(V, 1, 3, true)": V.reshape(4, 3),
    "split(A, 2, 2)": A.reshape(3, 2, 2).transpose(0, 2, 1),
    "concat(1, A, B, A)": np.concatenate([A, B, A]),
    "concat(2, A, window(B, nothing, 2:3))": np.hstack([A, B[:, 1:3]]),
    "slice(A, 2, 2:3)": A[:, 1:3],
    "broadcast(A, 2, 5)": np.broadcast_to(A[:, None, :], (3, 5, 4)),
    "reshape(A, 2, -1)": A.reshape(2, 6, order="F"),
    "reshape(T, 4, 3, 2)": T.reshape(4, 3, 2, order="F"),
    "flatten(T)": T.ravel("F"),
    "vcat(A, B)": np.vstack([A, B]),
    "hcat(V, V)": np.stack([V, V], 1),
    "cat(2, A, B)": np.hstack([A, B]),
    "stack(2, A, B)": np.stack([A, B], 1),
    "block(2, A, B, B, A)": np.block([[A, B], [B, A]]),
    "repeat(A, 1, 2)": np.repeat(A, 2, 0),
    "tile(A, 2, 3)": np.tile(A, (1, 3)),
    "roll(A, 2, -5)": np.roll(A, -5, 1),
    "flip(A, 1)": A[::-1],
    "expand_dims(A, 1)": A[None],
    "squeeze(slice(A, 2, 2:2), 2)": A[:, 1],
    "permute_dims(T, 2, 3, 1)": T.transpose(1, 2, 0),
    "diagonal(A)": np.diagonal(A),
    "diagonal(T, 1, 3)": np.diagonal(T, 0, 0, 2),
    "kron(A, B)": np.kron(A, B),
    "tril(A, 1)": np.tril(A, 1),
    "triu(A, -1)": np.triu(A, -1),
    "collapse(split(concat(2, A, B), 2, 4), 3, 1)": np.stack([A, B], 1).reshape(6, 4, order="F").T,
}
# by rows of the stacked pairs: element (k, j) is A or B at (k's slow part, j)
READ["collapse(split(concat(2, A, B), 2, 4), 3, 1)"] = np.stack([A, B], 1).reshape(6, 4)


@pytest.mark.parametrize("tensor", READ)
def test_reading(tensor: str) -> None:
    expected = READ[tensor]
    np.testing.assert_array_equal(copied(tensor, expected.ndim), expected)


def test_writing() -> None:
    text = (
        "C .= 0; for j=_, i=_; split(C, 1, 3)[i, j] = A[i, j] end"  # C has the size that this needs
    )
    np.testing.assert_array_equal(run(text, np.zeros(0)), A.ravel("F"))
    text = "for j=_, i=_; split(C, 1, 3, true)[i, j] = A[j, i] end"
    np.testing.assert_array_equal(run(text, np.zeros(12)), A.ravel("F"))
    text = "for k=_; collapse(C, 2, 1)[k] += V[k] end"
    np.testing.assert_array_equal(run(text, np.ones((3, 4))), V.reshape(3, 4) + 1)
    text = "for k=_; concat(1, D, flip(C, 1))[k] = V[k] end"
    np.testing.assert_array_equal(run(text, np.zeros(5), D=np.zeros(7)), V[:6:-1])


def test_a_concatenation_has_the_type_its_parts_have_in_common() -> None:
    text = "for i=_; C[i] = div(concat(1, a, b)[i], 2) end"
    a, b = np.array([3, 5]), np.array([3.0])
    np.testing.assert_array_equal(run(text, np.zeros(3), a=a, b=b), [1, 2, 1])
    text = "for i=_; C[i] = concat(1, a, b)[i] / 2 end"
    np.testing.assert_array_equal(run(text, np.zeros(3), a=a, b=b), [1.5, 2.5, 1.5])


def test_outside_of_a_triangle_there_is_a_structural_zero() -> None:
    infinite = np.full((3, 3), np.inf)
    text = "C .= 0; for j=_, i=_; C[i, j] = triu(D)[i, j] * E[i, j] end"
    found = run(text, np.zeros((0, 0)), D=np.ones((3, 3)), E=infinite)
    np.testing.assert_array_equal(found, [[np.inf] * 3, [0, np.inf, np.inf], [0, 0, np.inf]])


REFUSED = {
    "collapse(A, 1, 1)": "twice",
    "collapse(A, 1, 3)": "no mode 3 of 2",
    "split(V, 1, 5)": "12 is not split into parts of size 5",
    "split(V, 1, 0)": "not split by 0",
    "concat(1, A, V)": "order 2 and 1",
    "concat(1, A, swizzle(B, 2, 1))": "sizes 4 and 3 in dimension 2",
    "slice(A, 1, 2:9)": "2:1:9 is not within 1:3",
    "reshape(A, -1, -1)": "no sizes",
    "reshape(A, 5, -1)": "12 elements",
    "collapse(offset(A, 1, 0), 1, 2)": "counts from 1",
    "collapse(permissive(A, true, false), 1, 2)": "counts from 1",
    "collapse(broadcast(V, 1, 4611686018427387904), 1, 2)": "cannot have the size",
}


@pytest.mark.parametrize("tensor", REFUSED)
def test_refusals(tensor: str) -> None:
    orders = 1 if tensor.startswith("collapse") else 2
    with pytest.raises(FinchError) as caught:
        copied(tensor, orders)
    assert caught.value.kind in ("dimension", "bounds")
    assert REFUSED[tensor] in caught.value.message


def test_what_is_no_element_is_not_written() -> None:
    for tensor in ("kron(C, C)", "tril(C)"):
        with pytest.raises(FinchError, match="cannot be assigned to"):
            run(f"for j=_, i=_; {tensor}[i, j] = 1 end", np.zeros((2, 2)))


def test_an_expression_as_a_tensor() -> None:
    text = (
        "let D[j, i] = A[i, j] * B[i, j] + i; C .= 0; for k=_; C[k] = collapse(D, 2, 1)[k] end end"
    )
    expected = (A * B + np.arange(1, 4)[:, None]).ravel("F")
    np.testing.assert_array_equal(run(text, np.zeros(0)), expected)
    text = "let D[i] = A[i, 2]; for i=_; C[i] = concat(1, D, V, D)[i] end end"
    expected = np.concatenate([A[:, 1], V, A[:, 1]])
    np.testing.assert_array_equal(run(text, np.zeros(18)), expected)
    with pytest.raises(FinchError, match="cannot be assigned to"):
        run("let D[i] = V[i]; for i=_; D[i] = 1 end end", np.zeros(2))
