"""Tensors as Python meets them: what they have, what they are made of, and how notebooks show them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from finchlang import FinchError, Scalar, Session, SwizzledTensor, Tensor, kernel

CSC = "Dense(SparseList(Element(0.0)))"
VALUES = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


def test_a_tensor_has_what_arrays_have() -> None:
    tensor = Tensor(CSC, VALUES)
    assert (tensor.ndim, tensor.shape, tensor.size, tensor.nnz) == (2, (2, 3), 6, 3)
    assert (tensor.dtype, tensor.fill_value, str(tensor.format)) == (np.float64, 0.0, CSC)
    assert tensor.nbytes == 4 * 8 + 3 * 8 + 3 * 8  # ptr, idx, val
    assert np.array_equal(tensor.T.todense(), VALUES.T)
    assert tensor.astype(np.float32).dtype == np.float32
    other = tensor.copy()
    other.storage[-1]["val"][0] = 9.0
    assert other[0, 0].todense() == 9.0 and tensor[0, 0].todense() == 1.0
    assert np.array_equal(tensor[:, 1:].todense(), VALUES[:, 1:])


def test_a_scalar_and_a_swizzled_tensor_have_it_too() -> None:
    scalar = Scalar(0.0, 1.5)
    assert (scalar.ndim, scalar.shape, scalar.size, scalar.nnz, scalar.nbytes) == (0, (), 1, 1, 8)
    assert (scalar.fill_value, scalar.copy().value, float(scalar.T)) == (0.0, 1.5, 1.5)
    turned = SwizzledTensor(Tensor(CSC, VALUES), (2, 1))
    assert (turned.shape, turned.size, turned.nnz, turned.fill_value) == ((3, 2), 6, 3, 0.0)
    assert np.array_equal(turned.copy().to_numpy(), VALUES.T)


@pytest.mark.parametrize(
    "array",
    [
        VALUES,
        np.asfortranarray(VALUES),
        VALUES.tolist(),
        sp.csr_array(VALUES),
        sp.coo_array(VALUES),
    ],
)
def test_tensors_are_made_of_arrays(array: Any) -> None:
    assert Tensor(CSC, array).nnz == 3
    assert np.array_equal(Tensor(CSC, array).to_numpy(), VALUES)
    assert np.array_equal(Tensor(array).to_numpy(), VALUES)  # in the array's own format


def test_lazy_arrays_are_computed_when_they_are_bound() -> None:
    session, tensor = Session(), Tensor(CSC, VALUES)
    session["A"], session["total"] = tensor.T * 2, tensor.sum()
    tensor.storage[-1]["val"][0] = 9.0
    assert session.run("A[1, 1] + total[]") == 8.0
    assert np.array_equal(Tensor(CSC, tensor * 2).to_numpy(), tensor.to_numpy() * 2)
    assert kernel("A[1, 2]")(tensor.T) == 0.0


def test_hints_have_the_name_that_was_bound() -> None:
    with pytest.raises(FinchError) as caught:
        Session()["prices"] = named("polars.frame", "DataFrame", to_numpy=0)
    assert caught.value.hint == "`prices.to_numpy()`"


def named(module: str, name: str, **attributes: Any) -> Any:
    """An object of a class that another library might have."""
    return type(name, (), {"__module__": module, **attributes})()


class Coordinates:
    """As much of `sparse.COO` as is used."""

    def __init__(self, array: np.ndarray, fill: float):
        self.coords, self.fill_value = np.array(np.nonzero(array != fill)), fill
        self.data, self.shape = array[tuple(self.coords)], array.shape
        self.ndim, self.dtype = array.ndim, array.dtype

    def asformat(self, name: str) -> Coordinates:
        assert name == "coo"
        return self


def test_sparse_arrays_of_pydata_are_taken_with_their_fill(monkeypatch: Any) -> None:
    monkeypatch.setattr(Coordinates, "__module__", "sparse.numba_backend._coo.core")
    session = Session()
    for array in (VALUES, VALUES + 7, np.arange(6.0), np.ones((2, 3, 4))):
        given: Any = Coordinates(array, 7.0)
        session["A"] = given
        assert session["A"].fill == 7.0 and np.array_equal(session["A"].to_numpy(), array)
        assert np.array_equal(Tensor(given).to_numpy(), array)
    assert np.array_equal((Tensor(CSC, VALUES) * Coordinates(VALUES, 7.0)).todense(), VALUES**2)


@pytest.mark.parametrize(
    ("value", "said", "way"),
    [
        (named("polars.frame", "DataFrame", to_numpy=0), "polars.DataFrame", "x.to_numpy()"),
        (named("polars.lazy", "LazyFrame", collect=0), "polars.Lazy", "x.collect().to_numpy()"),
        (named("xarray", "Dataset", __array__=0, to_array=0), "xarray.Dataset", "x.to_array()"),
        (named("other", "Field", __array__=0), "other.Field", "np.asarray(x)"),
        (np.ma.array([1.0], mask=[True]), "masked", "x.filled(0.0)"),
    ],
)
def test_other_arrays_are_refused_by_name_when_they_are_bound(
    value: Any, said: str, way: str
) -> None:
    for bind in (Session().__setitem__, lambda _, given: Tensor(CSC, given)):
        with pytest.raises(FinchError) as caught:
            bind("x", value)
        assert caught.value.kind == "type" and said in caught.value.message
        assert way in str(caught.value.hint)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tensor(), "Tensor takes a format"),
        (lambda: Tensor(5), "is a format, not"),
        (lambda: Session().run(None), "a script is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Session().execute(None), "a script that is parsed, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Session().run_kernel("x", {}), "`@finch`, not a str"),  # type: ignore[arg-type]
        (lambda: Session().run_file(None), "a path is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Tensor(CSC, None), "a size must be an integer"),
        (lambda: Tensor(CSC, "a"), "a size must be an integer"),
        (lambda: Tensor(CSC, 3), "has 2 modes"),
        (lambda: Tensor("Foo(1)", 3), "there is no level Foo"),
        (lambda: Tensor(Scalar(1.0)), "made by Scalar"),
        (lambda: Tensor.from_numpy(VALUES, 5), "a format is a text"),  # type: ignore[arg-type]
        (lambda: SwizzledTensor(5, (1,)), "the modes of a int"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_an_error_of_ours(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(FinchError, match=said):
        make()


def test_names_of_other_libraries_have_a_word_on_ours() -> None:
    tensor = Tensor(CSC, VALUES)
    with pytest.raises(AttributeError, match="todense") as caught:
        tensor.toarray()  # type: ignore[attr-defined]
    assert caught.value.name == "toarray" and not hasattr(tensor, "nothing_like_it")
    with pytest.raises(AttributeError, match="no attribute 'sise'"):
        Scalar(1.0).sise = 1  # type: ignore[attr-defined]
    assert np.array_equal(copy.deepcopy(tensor).to_numpy(), VALUES)


class Page(HTMLParser):
    """The tags of a page, which must be closed in order, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("shape", [(6,), (2, 3), (0, 3), (300, 200), (3, 4, 5), (1000, 1)])
def test_notebooks_show_levels_and_a_picture(shape: tuple[int, ...]) -> None:
    dense = np.random.default_rng(0).random(shape)
    format = "Dense(" * (len(shape) - 1) + "SparseList(Element(0.0))" + ")" * (len(shape) - 1)
    page = Page(Tensor(format, np.where(dense < 0.1, dense, 0))._repr_html_())
    assert page.tags.count("tr") == 2 + len(shape) and page.tags.count("svg") == 1
    assert " x ".join(map(str, shape)) in page.text and format in page.text
    assert "SparseList" in page.text


def test_the_picture_shows_where_entries_are() -> None:
    page = Tensor(CSC, VALUES)._repr_html_()
    assert 'd="M0 0h1v1H0zM2 0h1v1H2zM2 1h1v1H2z"' in page
    assert "a square is an entry" in page


def test_what_is_not_computed_is_shown_as_text() -> None:
    for value in (Tensor(CSC, VALUES) + 1, Scalar(1.0)):
        assert value._repr_html_() is None
