"""The contract of arrays: each public function and method does what NumPy's does, of operands of any
format, type, order and size, of SciPy's and of extreme numbers too, and refuses what NumPy refuses.

What is called are the rows of `array_rows.txt`: a function is tested by being listed, and each public name
must be. `ARRAYS=40 pytest tests/contracts/test_array.py` tries so many kinds of operands for each row.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import math
import operator
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp
from rows import rows as rows_of

import finchlang.array as xp
from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.tensors.array_base import ArrayMethods

pytestmark = pytest.mark.filterwarnings("ignore")
strict.set_array_api_strict_flags(api_version="2024.12")

TYPES = (
    *("float64", "int64", "bool", "float32", "int8", "uint8"),
    *("int32", "uint64", "int16", "uint32", "uint16"),
)
#: R, C and D
SIZES = ((3, 4, 2), (2, 7, 3), (3, 3, 3), (1, 1, 1), (4, 1, 2), (0, 3, 2), (3, 0, 1))
SHAPES = {"m": "RC", "n": "RC", "v": "C", "p": "CR", "s": "RR", "t": "DRC", "x": ""}
FORMATS = {
    1: "Dense(%) SparseList(%) SparseBand(%) RunList(%) SparseByteMap(%) SparseCOO{1}(%)",
    2: "Dense(SparseList(%)) Dense(Dense(%)) SparseList(SparseList(%)) SparseCOO{2}(%)"
    " SparseList(Dense(%)) Dense(SparseRunList(%)) Dense(SparseHash{1}(%)) Dense(SparseBand(%))",
    3: "SparseCOO{3}(%) Dense(SparseList(SparseList(%))) Dense(Dense(Dense(%)))"
    " SparseList(SparseList(SparseList(%)))",
}
DENSE = ("NumPy", "Fortran", "strided")
KINDS = ("tensor", "lists", "SciPy", "filled", *DENSE)
#: methods that `test_guests.py` calls
OF_GUESTS = {"copy", "plan", "tolist", "conjugate", "itemsize", "minimum", "rmatvec"}
REFUSALS = (ValueError, IndexError, TypeError, ArithmeticError)
SIGNS = "+ - * / // % ** @ & | ^ << >> == != < <= > >= ~"
#: the number of kinds of operands that each row is tried with
COUNT = int(os.environ.get("ARRAYS", "4"))


@dataclass(frozen=True)
class Row:
    """A call, what NumPy is given instead, and what its operands may be."""

    ours: str
    numpy: str
    marks: str

    def types(self) -> list[str]:
        kinds = set("biuf") & set(self.marks)
        return [t for t in TYPES if np.dtype(t).kind in kinds] or [*TYPES]


def rows() -> Iterator[tuple[str, Row]]:
    """Each row, and which section it stands in."""
    section = ""
    for line in Path(__file__).with_name("array_rows.txt").read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isalpha():
            section = line[1:-1]
        elif section != "refused" and line and not line.startswith("#"):
            marks, call = re.fullmatch(r"(?:([biuf0-]+)\| )?(.*)", line).groups("")  # type: ignore
            ours, _, numpy = call.partition(" :: ")
            yield section, Row(ours, numpy or ours, marks)


ROWS = [*rows()]

# ---------------------------------------------------------------------------------------- operands


def usual(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    low, high = (0, 2) if dtype.kind == "b" else (0 if dtype.kind == "u" else -3, 4)
    found = rng.integers(low, high, shape).astype(dtype)
    return found / np.array(2, dtype) if dtype.kind == "f" else found


def extreme(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        chosen = [np.nan, np.inf, -np.inf, -0.0, limits.max, limits.tiny, -2.5, 0.5]
    else:
        whole = np.iinfo(dtype)
        chosen = [whole.min, whole.max, whole.max - 1, 1, 3]
    return rng.choice(np.array(chosen, dtype), shape)


def made(kind: str, array: np.ndarray, fill: Any, rnd: random.Random) -> Any:
    """An operand of a kind that has the values of an array."""
    if not array.ndim:
        return xp.asarray(array)
    if kind == "NumPy":
        return array
    if kind == "Fortran":
        return np.asfortranarray(array)
    if kind == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if kind == "SciPy" and array.ndim == 2:
        return sp.coo_array(array).asformat(rnd.choice(["csr", "csc", "coo", "dia", "lil", "dok"]))
    if kind == "lists":
        return xp.asarray(array, fill_value=fill)
    format = rnd.choice(FORMATS[array.ndim].split()).replace("%", "Element(0.0)")
    return xp.asarray(array, format=format, fill_value=fill).compute()


@dataclass
class Case:
    """Operands of a row: how they are made, by its text and a number, so that any may be made again."""

    row: Row
    number: int

    def __post_init__(self) -> None:
        self.rnd = rnd = random.Random(f"{self.row.ours}{self.number}")
        first = self.number == 0
        self.size = SIZES[0] if first else rnd.choice(SIZES)
        self.is_extreme = not first and "-" not in self.row.marks and rnd.random() < 0.3
        kinds = DENSE if self.is_extreme and "0" in self.row.marks else KINDS
        self.kinds = kinds[:1] * 2 if first else (rnd.choice(kinds), rnd.choice(kinds))
        types = self.row.types()
        type = types[0] if first else rnd.choice(types)
        self.types = type, type if rnd.random() < 0.7 else rnd.choice(types)
        self.is_lazy, self.is_numpy = rnd.random() < 0.5, rnd.random() < 0.3

    def __str__(self) -> str:
        odd = "extreme " * self.is_extreme
        return f"{self.row.ours} of {odd}{self.size} {self.kinds} {self.types}: case {self.number}"

    def operands(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Ours and NumPy's, by their names."""
        ours, numpy = dict[str, Any](), dict[str, np.ndarray]()
        rng = np.random.default_rng(self.rnd.randrange(1 << 30))
        sizes = dict(zip("RCD", self.size, strict=True))
        for name, modes in SHAPES.items():
            other = name in "nvp"
            dtype, kind = np.dtype(self.types[other]), self.kinds[other]
            fill = np.array(self.rnd.choice((1, 2, 0)) if kind == "filled" else 0).astype(dtype)
            shape = tuple(sizes[mode] for mode in modes)
            values = (extreme if self.is_extreme else usual)(rng, dtype, shape)
            numpy[name] = np.where(rng.random(shape) < 0.5, fill, values).astype(dtype)
            ours[name] = made(kind, numpy[name], fill.item(), self.rnd)
        for name, like in (("b", "m"), ("q", "v")):
            numpy[name] = rng.random(numpy[like].shape) < 0.4
            ours[name] = made(self.kinds[0], numpy[name], False, self.rnd)
        return ours, numpy


# --------------------------------------------------------------------------------------- comparing


def plain(value: Any) -> Any:
    """What a result is to NumPy. A lazy array knows its shape and type before it is computed."""
    if isinstance(value, xp.Array):
        found = plain(value.compute())
        assert (value.shape, value.dtype) == (found.shape, found.dtype)
        return found
    if isinstance(value, Scalar):
        return np.asarray(value.value, value.dtype)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.to_numpy() if hasattr(value, "to_numpy") else value


def called(text: str, module: Any, operands: dict[str, Any]) -> Any:
    """What becomes of a call: a value, or the exception that it raises."""
    names = {"operator": operator, "dtype": np.dtype, "int": int, "truth": builtins.bool}
    array = (
        np.array if module is np else lambda x: xp.asarray(np.array(x) if type(x) is list else x)
    )
    try:
        return plain(eval(text, {**vars(module), **operands, **names, "array": array}))
    except REFUSALS as error:
        return error


def refused(value: Any) -> Any:
    return next((kind for kind in REFUSALS if isinstance(value, kind)), None)


def expected(row: Row, operands: dict[str, np.ndarray]) -> Any:
    """What NumPy makes of it; what is to it a matter of float16 is one of float64 here."""
    found = called(row.numpy, np, operands)
    narrow = getattr(found, "dtype", np.dtype("float64")).name in ("float16", "float32")
    own = {n: x for n, x in operands.items() if n in re.findall(r"\b[mnvpstx]\b", row.numpy)}
    if narrow and "float32" not in row.numpy and {x.dtype.kind for x in own.values()} <= {*"biu"}:
        return called(row.numpy, np, operands | {name: x.astype(float) for name, x in own.items()})
    return found


def check_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        for one, other in zip(found, wanted, strict=True):
            check_same(one, other)
    elif isinstance(wanted, (np.ndarray, np.generic)):
        found, wanted = np.asarray(found), np.asarray(wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        if found.dtype.kind in "biu":
            np.testing.assert_array_equal(found, wanted)
        else:
            near = 1e-5 if found.dtype == np.float32 else 1e-11
            most = np.abs(wanted).max(initial=1, where=np.isfinite(wanted))  # as of eigenvalues
            np.testing.assert_allclose(found, wanted, rtol=near, atol=near * most)
    else:
        assert type(found) is type(wanted)
        assert found == wanted or found != found and wanted != wanted


def check(case: Case, section: str) -> None:
    """That a call of ours does what NumPy's does. Some are NumPy's functions, of operands of ours."""
    ours, numpy = case.operands()
    has_signs = section == "methods" or re.search(r"[mnvpst]( ?[-+*/<>&|.=]|\[)", case.row.ours)
    if case.is_lazy or case.is_numpy or has_signs:
        ours = {name: x if hasattr(x, "plan") else xp.asarray(x) for name, x in ours.items()}
    wanted = expected(case.row, numpy)
    is_numpy = case.is_numpy and section == "functions" and case.row.ours == case.row.numpy
    module = np if is_numpy else xp
    found = called(case.row.ours, module, ours)
    if refused(wanted) or refused(found):
        assert refused(found) is refused(wanted), (found, wanted)
    else:
        check_same(found, wanted)


def quick() -> Iterator[Any]:
    """Each row; of functions every third is quick."""
    for k, (section, row) in enumerate(ROWS):
        marks = [pytest.mark.slow] if section == "functions" and k % 3 else []
        yield pytest.param(section, row, id=row.ours, marks=marks)


@pytest.mark.parametrize(("section", "row"), [*quick()])
def test_rows(section: str, row: Row) -> None:
    check(Case(row, 0), section)


@pytest.mark.slow
@pytest.mark.parametrize(("section", "row"), ROWS, ids=[row.ours for _, row in ROWS])
def test_rows_of_other_operands(section: str, row: Row) -> None:
    for number in range(1, COUNT if section != "creation" else 1):
        case = Case(row, number)
        try:
            check(case, section)
        except Exception as error:
            raise AssertionError(str(case)) from error


def test_each_public_name_has_a_row() -> None:
    calls = "\n".join(row.ours for _, row in ROWS)
    missing = set(xp.__all__) - {*re.findall(r"[A-Za-z_]\w*", calls)}
    own = {"Array", "FrozenArray", "frozen", "plan"}  # of which others tell
    assert missing == {*own, "__array_api_version__", "__array_namespace_info__"}
    methods = {name for name in vars(ArrayMethods) if not name.startswith("_")} - OF_GUESTS
    assert methods <= {*re.findall(r"(?<=[a-z\])]\.)[A-Za-z]\w*", calls)}
    signs = {*re.findall(r"[^\w\s(),.'\"\[\]:]+", calls)}
    assert signs >= set(SIGNS.split())


def test_functions_take_the_arguments_of_the_standard() -> None:
    """By their names, as far as we have them; and what the namespace says of itself."""
    for name in set(strict.__all__) & set(xp.__all__):
        own, wanted = getattr(xp, name), getattr(strict, name)
        if inspect.isfunction(own) and inspect.isfunction(wanted):
            parameters = inspect.signature(wanted).parameters.values()
            keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
            assert keywords <= {*inspect.signature(own).parameters}, name
    info = xp.__array_namespace_info__()
    assert {*info.dtypes()} == {*TYPES} and info.dtypes(kind="complex floating") == {}
    assert info.default_device() in info.devices() and xp.__array_api_version__ == "2024.12"
    assert all(xp.isdtype(dtype, ("bool", "numeric")) for dtype in info.dtypes().values())


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations_with_replacement(TYPES, 2)])
def test_types_promote_as_numpys(one: str, other: str) -> None:
    a, b = np.ones(2, one), np.ones(2, other)
    check_same(plain(xp.maximum(a, b)), np.maximum(a, b))
    assert xp.result_type(a.dtype, b) == np.result_type(a, b)
    for number in (True, 3, 2.5):
        wanted = np.result_type(a, number)
        assert xp.result_type(a, number) == (wanted if wanted != np.float16 else np.float64)


@pytest.mark.parametrize("dtype", [None, np.float32])
@pytest.mark.parametrize("more", [lambda a: a, lambda a: xp.asarray(a) + 0])
def test_a_copy_has_memory_of_its_own(more: Any, dtype: Any) -> None:
    given = np.arange(3.0)
    copied = xp.asarray(more(given), dtype=dtype, copy=True)
    given[0] = 9
    assert copied.todense().tolist() == [0, 1, 2] and copied.dtype == (dtype or np.float64)


PARTS = [
    (1, [3, 0, 5]),
    ((-1, 2), np.float32(7)),
    ((slice(None, None, -2), slice(1, None)), np.array([[1.0, 0], [2, 3]])),
    ((Ellipsis, [2, 0, 2]), np.array([[1.0], [2], [3], [4]])),
    (np.array([True, False, False, True]), -1),
    (np.eye(4, 3) == 1, 9),
    (np.eye(4, 3) == 1, [1, 2, 3]),
    (slice(2, 2), 5),
]


@pytest.mark.parametrize("fill", [None, 0])
def test_assigned_parts(fill: Any) -> None:
    """The array becomes another one; what it was made of and what was made of it do not."""
    a = np.array([[0, 2.0, 0], [1, 0, 0], [0, 0, 3], [0, 4, 0]])
    given = a.copy()
    x = xp.asarray(a, fill_value=fill)
    before = x * 1
    for key, value in PARTS:
        x[key] = value
        given[key] = value
        assert np.array_equal(x.todense(), given) and x.dtype == given.dtype
        assert fill is None or x.fill == 0
    assert np.array_equal(before.todense(), a) and a[0, 1] == 2


@pytest.mark.parametrize("key", [True, np.array(False), np.zeros(0, bool), np.zeros((4, 0), bool)])
def test_masks_of_no_axes_and_no_elements(key: Any) -> None:
    a = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(xp.asarray(a)[key].todense(), a[key])


@pytest.mark.parametrize(("wrong", "error", "said"), rows_of("array_rows.txt", "refused"))
def test_what_is_wrong_is_told_at_once(wrong: str, error: str, said: str) -> None:
    names = {"m": xp.asarray(np.eye(3, 4), fill_value=0), "operator": operator, "np": np, "xp": xp}
    names |= {"Tensor": Tensor, "Session": Session}
    with pytest.raises({**vars(builtins), "FinchError": FinchError}[error], match=said):
        eval(wrong, names)


def test_quotients_by_zero_depend_on_structure() -> None:
    """A fill of 0 on the left decides; elsewhere floats are as NumPy's. Of integers they are 0."""
    whole, zeros = np.array([0, 3]), np.array([0.0, 3.0])
    assert (Tensor("SparseList(Element(0))", whole) // whole).todense().tolist() == [0, 1]
    assert (Tensor("SparseList(Element(0.0))", zeros) / 0).todense().tolist() == [0, math.inf]
    for fill in (0, 1, 3):
        by = Tensor(f"SparseList(Element({fill}))", whole)
        for left, right in ((by, whole), (whole, by), (by, by), (by, 0), (3, by), (by, 2)):
            a, b = [np.asarray(x.todense() if x is by else x) for x in (left, right)]
            check_same(plain(xp.floor_divide(left, right)), a // b)
            check_same(plain(xp.remainder(left, right)), a % b)


@pytest.mark.parametrize("format", ["Dense(Element(0.0))", "SparseList(Element(1.0))"])
@pytest.mark.parametrize("by", [2.0, -2.0, math.inf, -math.inf, 0.1])
def test_quotients_of_infinities_are_those_of_the_standard(format: str, by: float) -> None:
    x = Tensor(format, np.array([math.inf, -math.inf, 1.0, -1.0, math.nan]))
    finite = [by * math.inf, -by * math.inf, *np.floor_divide([1.0, -1.0], by), math.nan]
    ends = (0.0, -1.0) if by > 0 else (-1.0, 0.0)
    wanted = [math.nan, math.nan, *ends, math.nan] if math.isinf(by) else finite
    check_same(plain(xp.floor_divide(x, by)), np.array(wanted))


def test_numbers_without_bounds() -> None:
    a, huge = np.arange(1, 13.0).reshape(3, 4), 2**63 - 1
    m = xp.asarray(a, format="Dense(SparseList(Element(0.0)))")
    for k in (huge, -huge, 10**30, -(10**30)):
        assert np.array_equal(xp.todense(xp.tril(m, k)), a * (k > 0))
        assert np.array_equal(xp.todense(xp.triu(m, k)), a * (k < 0))
    assert xp.full(2, np.array(3)).todense().tolist() == [3, 3]
    assert xp.logical_and(np.array([1, 0], np.int8), 2**40).todense().tolist() == [True, False]
    assert np.array_equal(xp.todense(m[::huge]), a[:1])
    assert np.array_equal(xp.todense(m[:, ::-huge]), a[:, ::-huge])
    assert np.array_equal(xp.todense(xp.reshape(m, np.array([2, 6]))), a.reshape(2, 6))


def test_coordinates_are_widened_where_a_result_needs_it() -> None:
    """Those of SciPy's matrices are Int32; an axis that is made may be longer."""

    def corners(rows: int, columns: int) -> Any:
        places = (np.array([0, size - 1], np.int32) for size in (rows, columns))
        return xp.asarray(sp.coo_array((np.ones(2), tuple(places)), (rows, columns)).tocsr())

    wide = 2**31 - 10
    for made, shape, last in (
        (xp.concat([corners(1, wide)] * 2, axis=1), (1, 2 * wide), [0, 2 * wide - 1]),
        (xp.reshape(corners(70_000, 70_000), (-1,)), (70_000**2,), [70_000**2 - 1]),
    ):
        assert made.shape == shape and np.asarray(xp.nonzero(made))[:, -1].tolist() == last
