"""The denotational semantics against NumPy, and its own rules about dimensions and bounds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

from finchlang.base.errors import FinchError
from finchlang.denote.denotation import denote
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


def test_sieves_lets_masks_and_swizzles():
    text = """
    U .= 0
    D .= 0
    T .= 0
    for j=_, i=_
        if UpTriMask()[i, j]
            U[i, j] = S[i, j]
        end
        if diagmask()[i, j]
            D[i, j] = S[i, j]
        end
        let v = S[i, j] + 1
            swizzle(T, 2, 1)[i, j] = v
        end
    end
    """
    S = np.arange(12.0).reshape(3, 4)
    out = run(text, S=S, U=np.zeros((0, 0)), D=np.zeros((0, 0)), T=np.zeros((0, 0)))
    np.testing.assert_array_equal(out["U"], np.triu(S))
    np.testing.assert_array_equal(out["D"], np.diag(np.diag(S[:, :3])).tolist() @ np.eye(3, 4))
    np.testing.assert_array_equal(out["T"], S.T + 1)


def test_a_swizzle_names_the_modes_as_table_5_says():
    # swizzle(A, 2, 3, 1)[i, j, k] is A[j, k, i]
    A3 = np.arange(24).reshape(2, 3, 4)
    text = "B .= 0; for k=_, j=_, i=_; B[i, j, k] = swizzle(A, 2, 3, 1)[i, j, k] end"
    B = run(text, A=A3, B=np.zeros((0, 0, 0), np.int64))["B"]
    np.testing.assert_array_equal(B, A3.transpose(2, 0, 1))


def test_else_takes_what_the_condition_leaves():
    text = "y .= 0; for i=_; if x[i] > 1; y[i] = 1 else y[i] = 2 end end"
    np.testing.assert_array_equal(run(text, x=x, y=np.zeros(0))["y"], [2, 1, 1])


def test_permissive_reads_are_missing_and_missing_does_nothing():
    text = "y .= 0; for i=_; y[i] = coalesce(x[~(i - 1)], 10) + coalesce(x[~(i+1)], 20) end"
    with pytest.raises(FinchError):  # nothing gives i a dimension, and y has size 0
        run(text + "; z[0] = 1", x=x, y=np.zeros(0), z=np.zeros(1))
    y = run(text, x=x, y=np.zeros(3))["y"]
    np.testing.assert_array_equal(y, [12, 4, 22])
    y = run("for i=1:5; y[~i] += x[~(i - 1)] end", x=x, y=np.ones(3))["y"]
    np.testing.assert_array_equal(y, [1, 2, 3])
    y = run("for i=1:3; y[i] = permissive(x, true)[i + 1] end", x=x, y=np.zeros(3))["y"]
    np.testing.assert_array_equal(y, [2, 3, 0])
    y = run("for i=1:3; y[i] = ifelse(i < 3, x[~(i+1)], -1.0) end", x=x, y=np.zeros(3))["y"]
    np.testing.assert_array_equal(y, [2, 3, -1])


def test_an_index_of_two_loop_variables_is_permissive():
    text = "y .= 0; for i=1:3, j=_; y[i] += x[i + j - 1] * w[j] end"
    y = run(text, x=x, w=np.array([1.0, 10.0]), y=np.zeros(0))["y"]
    np.testing.assert_array_equal(y, [21, 32, 3])


def test_shifted_indices_shift_the_dimension():
    np.testing.assert_array_equal(
        run("y .= 0; for i=_; y[i + 1] = x[i] end", x=x, y=np.zeros(0))["y"], [0, 1, 2, 3]
    )
    caught = error("for i=1:4; s[] += x[i + 2] end", x=np.ones(7), s=Scalar(0.0))
    assert caught.kind == "dimension"
    assert "3:6" in caught.message and "1:7" in caught.message and "mode 1 of x" in caught.message


def test_dimensions_flow_from_inner_workspaces_to_outputs():
    text = """
    out .= false
    for y = _
        tmp .= false
        for x = _
            tmp[x] = coalesce(img[x, ~(y-1)], true) & img[x, y] & coalesce(img[x, ~(y+1)], true)
        end
        for x = _
            out[x, y] = coalesce(tmp[~(x-1)], true) & tmp[x] & coalesce(tmp[~(x+1)], true)
        end
    end
    """
    img = np.ones((5, 4), bool)
    img[2, 1] = False
    out = run(text, img=img, out=np.zeros((0, 0), bool), tmp=np.zeros(0, bool))["out"]
    expected = np.ones((5, 4), bool)
    expected[1:4, 0:3] = False  # the two passes together erode by a 3 x 3 square
    np.testing.assert_array_equal(out, expected)


def test_a_declaration_no_index_tells_about_keeps_the_size():
    y = run("y .= 0; for i=_; y[i] = i end", y=np.zeros(3, np.int64))["y"]
    np.testing.assert_array_equal(y, [1, 2, 3])
    y = run("y .= 0; y[2] = 7", y=np.ones(3))["y"]
    np.testing.assert_array_equal(y, [0, 7, 0])


def test_extents_may_depend_on_data_and_outer_indices():
    text = "y .= 0; for p=1:3; for i=a[p]:a[p + 1] - 1; y[~i] += p end end"
    assert error(text, a=np.array([1, 3, 3, 5]), y=np.zeros(4)).kind == "dimension"
    text = "y .= 0; for p=1:3; for i=a[p]:b[p]; y[~i] += p end end"
    y = run(text, a=np.array([1, 3, 3]), b=np.array([2, 2, 4]), y=np.zeros(4))["y"]
    np.testing.assert_array_equal(y, [1, 1, 3, 3])
    y = run(
        "y .= 0; for j=1:3; t .= 0; for i=1:j; t[i] = i end; y[j] = t[j] end",
        y=np.zeros(0),
        t=np.zeros(0),
    )["y"]
    np.testing.assert_array_equal(y, [1, 2, 3])


def test_explicit_dimensions():
    text = "@declare(y, 0, 1:n); for i = meet(1:n, 1:4); y[i] = size(x, 1) end; @freeze(y)"
    y = run(text, x=x, y=np.zeros(0, int), n=4)["y"]
    np.testing.assert_array_equal(y, [3] * 4)
    assert error("for i = meet(1:n, 1:3); y[i] = 1 end", y=np.zeros(4), n=4).kind == "dimension"


def test_what_is_never_run_is_never_out_of_range():
    text = "for i=_; if i > 9; let v = x[9]; for k=x[8]:3; y[~k] = v end end end; y[i] = 5 end"
    np.testing.assert_array_equal(run(text, x=np.arange(3), y=np.zeros(2))["y"], [5, 5])
    assert error(text.replace("9;", "1;"), x=np.arange(3), y=np.zeros(2)).kind == "bounds"


def test_what_an_output_keeps_is_what_it_is_read_over():
    text = "A .= 0; for j=_, i=_; A[i, j] -= 1 end; for j=_, i=_; C[i, j] += A[i, j] end"
    assert error(text, A=np.zeros((5, 5)), C=np.zeros((1, 3))).kind == "dimension"


def test_mismatches_name_both_dimensions():
    caught = error("for i=_; s[] += x[i] * z[i] end", x=np.ones(3), z=np.ones(4), s=Scalar(0.0))
    assert caught.kind == "dimension"
    for part in ("1:3", "1:4", "mode 1 of x", "mode 1 of z"):
        assert part in caught.message
    assert caught.span is not None
    nowhere = error("for i=_; s[] += i end", s=Scalar(0))
    assert nowhere.kind == "dimension" and nowhere.hint is not None


def test_scatter_and_gather_are_checked():
    at = np.array([2, 3, 1])
    text = "y .= 0; for i=_; y[i] = x[at[i]] end"
    np.testing.assert_array_equal(run(text, at=at, x=x, y=np.zeros(0))["y"], [2, 3, 1])
    assert error(text, at=at + 1, x=x, y=np.zeros(0)).kind == "bounds"
    caught = error("for i=_; y[at[i]] += 1 end", at=at - 1, y=np.zeros(3))
    assert caught.kind == "bounds" and "0 is not in 1:3" in caught.message
    y = run("for i=_; for k=at[i]:at[i]; y[k] += i end end", at=at, y=np.zeros(3))["y"]
    np.testing.assert_array_equal(y, [3, 1, 2])


def test_types_are_the_operator_tables():
    out = run("for i=_; y[i] += 200 end", y=np.array([100, 1], np.uint8))["y"]
    assert out.dtype == np.uint8 and out.tolist() == [44, 201]
    assert error("for i=_; y[i] += 0.5 end", y=np.zeros(2, np.int64)).kind == "type"
    assert error("for i=_; if y[i]; y[i] = 1 end end", y=np.zeros(2)).kind == "type"
    out = run("for i=_; y[i] <<max>>= i / 2 end", y=np.ones(4, np.float32))["y"]
    assert out.dtype == np.float32 and out.tolist() == [1, 1, 1.5, 2]
    p = run("p .= 0; for i=_; p[] <<choose(0)>>= at[i] end", p=Scalar(0), at=np.array([0, 4, 5]))
    assert p == {"p": 4}


def test_unknown_names_and_misuse():
    assert error("for i=_; y[i] = nosuch end", y=np.ones(1)).kind == "unknown name"
    assert error("for i=_; y[i] = f(i) end", y=np.ones(1)).kind == "unknown name"
    assert error("y[1] = x", y=np.ones(1), x=x).kind == "type"
    assert error("for i=_; y[i, 1] = 1 end", y=np.ones(1)).kind == "dimension"


def test_two_names_of_one_tensor_see_each_other():
    assert run("a[] = 5; b[] += 1", a=(s := Scalar(0)), b=s) == {"a": 6, "b": 6}


matrices = st.integers(0, 4).flatmap(
    lambda m: st.integers(0, 4).flatmap(
        lambda n: st.lists(st.integers(-3, 3), min_size=m * n, max_size=m * n).map(
            lambda v: np.array(v, np.int64).reshape(m, n)
        )
    )
)


@settings(max_examples=40)
@given(matrices, matrices)
def test_products_are_numpys(a: np.ndarray, b: np.ndarray) -> None:
    text = "C .= 0; for j=_, k=_, i=_; C[i, j] += A[i, k] * B[k, j] end"
    bindings = {"A": a, "B": b, "C": np.zeros((0, 0), np.int64)}
    if a.shape[1] != b.shape[0]:
        assert error(text, **bindings).kind == "dimension"
    else:
        np.testing.assert_array_equal(run(text, **bindings)["C"], a @ b)


@settings(max_examples=40)
@given(matrices)
def test_reductions_are_numpys(a: np.ndarray) -> None:
    text = """
    lo .= Inf
    rows .= 0
    for j=_, i=_
        lo[] <<min>>= a[i, j]
        rows[i] += a[i, j]
        t[j, i] = a[i, j]
    end
    """
    t = np.zeros(a.shape[::-1], np.int64)
    out = run(text, a=a, lo=Scalar(np.inf), rows=np.zeros(0, np.int64), t=t)
    assert out["lo"] == a.min(initial=np.iinfo(np.int64).max) or a.size == 0
    np.testing.assert_array_equal(out["rows"], a.sum(axis=1))
    np.testing.assert_array_equal(out["t"], a.T)


def test_lets_need_new_names_and_operators_their_arity():
    assert error("let x = 1; y[1] = x end", x=x, y=np.ones(1)).kind == "unknown name"
    assert error("for i=1:1; let i = 1; y[i] = 1 end end", y=np.ones(1)).kind == "unknown name"
    assert error("for i=_; y[i] = div(x[i], 1, 2) end", x=x, y=np.ones(3)).kind == "type"


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
    assert ran or name in (
        "collapse",
        "offset",
        "swizzle",
        "toeplitz",
    )  # which need more modes or places


def test_the_papers_life_cycle_listing():
    # Finch'25 Fig 13
    text = """
    y .= 0
    for i = _; y[i] = x[i] + 1 end
    @thaw(x)
    for i = _; x[i] += 1 end
    y[1] += 1
    for i = _; x[i] += y[i] end
    """
    out = run(text, x=x, y=np.zeros(0))
    np.testing.assert_array_equal(out["y"], [3, 3, 4])
    np.testing.assert_array_equal(out["x"], [5, 6, 8])


def test_the_papers_breadth_first_search():
    # Finch'25 Fig 24, bfs_push: the path 1 - 2 - 3 and the edge 1 - 4
    push = """
    _F .= false
    for j=_, k=_
        if F[j] && A[k, j] && !(V[k])
            _F[k] |= true
            P[k] <<choose(0)>>= j
        end
    end
    """
    graph = np.zeros((4, 4), bool)
    for a, b in ((0, 1), (1, 2), (0, 3)):
        graph[a, b] = graph[b, a] = True
    V = np.array([True, False, False, False])
    state = {"F": V.copy(), "P": np.array([1, 0, 0, 0])}
    while state["F"].any():
        out = run(push, A=graph, V=V, _F=np.zeros(0, bool), **state)
        state = {"F": out["_F"], "P": out["P"]}
        V |= out["_F"]
    assert state["P"].tolist() == [1, 1, 2, 1]
