"""The denotational semantics by itself: what it takes and leaves alone, and errors that name the place.
What programs mean by it is said by those of `tests/programs`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from finchlang import FinchError
from finchlang.denote.denote import denote
from finchlang.denote.shape_arithmetic import OPERATORS
from finchlang.tensors.tensor import Scalar, Tensor
from finchlang.text.parse import parse_kernel


def run(text: str, **bindings: Any) -> dict[str, Any]:
    return denote(parse_kernel(text), bindings)


def error(text: str, **bindings: Any) -> FinchError:
    with pytest.raises(FinchError) as caught:
        run(text, **bindings)
    return caught.value


A = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
x = np.array([1.0, 2.0, 3.0])


def test_matrix_vector_product_of_any_kind_of_tensor():
    text = "y .= 0; for j=_, i=_; y[i] += A[i, j] * x[j] end"
    csr = scipy.sparse.csr_array(A)
    sparse = Tensor.from_numpy(A, "Dense(SparseList(Element(0.0)))")
    for matrix in (A, np.asfortranarray(A), csr, csr.tocsc(), sparse):
        y = run(text, A=matrix, x=x, y=np.zeros(0))["y"]
        np.testing.assert_array_equal(y, A @ x)


def test_bindings_are_left_alone():
    y = np.ones(2)
    result = run("for i=_; y[i] += 1 end", y=y)
    np.testing.assert_array_equal(result["y"], [2, 2])
    np.testing.assert_array_equal(y, [1, 1])


def test_scalars_give_their_value():
    s = Scalar(0.0)
    assert run("s .= 0; for i=_; s[] += x[i] end", s=s, x=x) == {"s": 6.0}
    assert s.value == 0.0
    assert run("s[] += 1", s=Scalar(1, 4)) == {"s": 5}


def test_mismatches_name_both_dimensions():
    caught = error("for i=1:4; s[] += x[i + 2] end", x=np.ones(7), s=Scalar(0.0))
    assert caught.kind == "dimension"
    assert "3:6" in caught.message and "1:7" in caught.message and "mode 1 of x" in caught.message


def test_two_names_of_one_tensor_see_each_other():
    assert run("a[] = 5; b[] += 1", a=(s := Scalar(0)), b=s) == {"a": 6, "b": 6}


@pytest.mark.parametrize(
    "name", [*OPERATORS, "window", "offset", "permissive", "swizzle", "toeplitz"]
)
def test_arguments_that_a_shape_operator_does_not_take_are_errors(name: str):
    """Too few, too many, a number or range for a tensor, a tensor for a number: no other exception."""
    ran = 0
    for count in range(4):
        for args in product(["x", "A", "1", "1:1"], repeat=count):
            for at in ("i", "i, i"):
                text = f"for i=1:1; y[i] = {name}({', '.join(args)})[{at}] end"
                try:
                    run(text, x=np.ones(1), A=np.ones((1, 1)), y=np.zeros(1))
                    ran += 1
                except FinchError as error:
                    assert error.kind in ("type", "dimension", "bounds"), text
    assert ran or name in ("collapse", "offset", "swizzle", "toeplitz")  # these need more modes
