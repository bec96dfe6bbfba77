"""The contract of levels in NumPy: what goes into a format comes out of it, is stored as Finch'25 Table 4
says, is counted, moves to other formats, is refused where it does not fit, and is checked when it is
given.

The goldens list each level's arrays, read against the level's docstring and REFERENCE.md's table.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from every_format import LEAVES, TEXTS, fits, nests
from level_kernels import changed, run
from stacks import Stack, singles

from finchlang import FinchError, Scalar, Session, Tensor
from finchlang.tensors.formats import parse_format
from finchlang.tensors.storage_report import measure

pytestmark = pytest.mark.checked

#: levels that do not hold everything, and those of which an entry is more than a coordinate
CHOOSY = ("SparsePinpoint", "SparseInterval", "LowerTriangular", "UpperTriangular", "Symmetric")
MERGED = ("Run", "PackBits", "Interval", "Symmetric")
#: a multiple that memory of ours begins at
ALIGNMENT = 64

SCATTERED = np.array([[0.0, 2, 0, 0], [1, 0, 0, 0], [0, 3, 0, 5], [0, 0, 0, 0]])
ONE_A_COLUMN = np.array([[0.0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 5], [0, 0, 0, 0]])
BLOCKS = np.array([[1.0, 0, 4, 0], [2, 0, 5, 0], [0, 0, 0, 0], [3, 6, 7, 0]])
BAND = np.array([[1.0, 2, 0, 0], [3, 4, 0, 0], [0, 5, 6, 0], [0, 0, 7, 8]])
RUNS = np.array([[0.0, 2, 2, 0], [1, 2, 2, 0], [1, 3, 2, 0], [1, 3, 0, 0]])
COLUMNS = RUNS[:, [0, 0, 3, 3]]
INTERVALS = np.array([[0.0, 0, 2, 3], [1, 0, 2, 3], [1, 0, 0, 3], [0, 0, 0, 3]])
LITERALS = np.array([[1.0, 0], [2, 0], [3, 0], [3, 5], [3, 6], [3, 7]])
RAGGED = np.array([[1.0, 2, 4, 0], [0, 3, 5, 0], [0, 0, 6, 0], [0, 0, 0, 0]])
UPPER = np.array([[1.0, 2, 4, 7], [0, 3, 5, 8], [0, 0, 6, 9], [0, 0, 0, 10]])
SYMMETRIC = UPPER + UPPER.T - np.diag(np.diag(UPPER))

#: a matrix for each format, by the name of the golden file
EXAMPLES = {
    "dense": ("Dense(Dense(Element(0.0)))", SCATTERED),
    "sparse_list": ("Dense(SparseList(Element(0.0)))", SCATTERED),
    "sparse_list_twice": ("SparseList(SparseList(Element(0.0)))", SCATTERED),
    "sparse_list_pattern": ("Dense(SparseList(Pattern()))", SCATTERED != 0),
    "sparse_pinpoint": ("Dense(SparsePinpoint(Element(0.0)))", ONE_A_COLUMN),
    "sparse_block_list": ("Dense(SparseBlockList(Element(0.0)))", BLOCKS),
    "sparse_band": ("Dense(SparseBand(Element(0.0)))", BAND),
    "run_list": ("Dense(RunList(Element(0.0)))", RUNS),
    "run_list_of_columns": ("RunList(Dense(Element(0.0)))", COLUMNS),
    "sparse_run_list": ("Dense(SparseRunList(Element(0.0)))", RUNS),
    "sparse_interval": ("Dense(SparseInterval(Element(0.0)))", INTERVALS),
    "ragged": ("Dense(Ragged(Element(0.0)))", RAGGED),
    "pack_bits": ("Dense(PackBits(Element(0.0)))", LITERALS),
    "sparse_coo": ("SparseCOO{2}(Element(0.0))", SCATTERED),
    "sparse_bytemap": ("Dense(SparseByteMap(Element(0.0)))", SCATTERED),
    "upper_triangular": ("UpperTriangular(Element(0.0))", UPPER),
    "lower_triangular": ("LowerTriangular(Element(0.0))", UPPER.T),
    "symmetric": ("Symmetric(Element(0.0))", SYMMETRIC),
}


def shown(tensor: Tensor) -> str:
    said: list[str] = []
    session = Session(output=said.append)
    session["A"] = tensor
    session.run("display(A)")
    return "".join(said)


@pytest.mark.parametrize("name", EXAMPLES)
def test_table_4(name: str, golden: Any) -> None:
    """Packed, and written by a kernel; what kernels index by is handed out to be read alone."""
    format, matrix = EXAMPLES[name]
    tensor = Tensor.from_numpy(matrix, format)
    np.testing.assert_array_equal(tensor.to_numpy(), matrix)
    golden(f"storage/{name}.txt", shown(tensor))
    fill = "false" if matrix.dtype == bool else "0.0"
    source = Tensor.from_numpy(matrix, f"Dense(SparseList(Element({fill})))")
    text = f"C .= {fill}\n" + Stack(format).loops("A[i1, i2]")
    found, _ = run(text, {"A": source, "C": Tensor(format, *matrix.shape)})
    assert shown(found["C"]) == shown(tensor)
    for own in tensor.storage[:-1]:
        for array_name, part in own.items():
            if isinstance(part, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    part[...] = 99
                own[array_name] = part + 99
    np.testing.assert_array_equal(tensor.to_numpy(), matrix)


# ----------------------------------------------------------------------------------- in and out


def arrays(order: int, dtype: Any, fill: Any, value: Any) -> dict[str, np.ndarray]:
    """Arrays of odd shapes and contents, and some that choosy levels can hold."""
    shape = (3, 4, 2)[:order]
    some = np.full(shape, fill, dtype)
    some[(np.indices(shape).sum(axis=0) % 3) == 1] = value
    one = np.full((3,) * order, fill, dtype)
    one[(1,) * order] = value
    found = {
        "some": some,
        "all fill": np.full(shape, fill, dtype),
        "no fill": np.full(shape, value, dtype),
        "one entry": one,
        "a single place": np.full((1,) * order, value, dtype),
        "no places": np.full((0,) * order, fill, dtype),
        "no rows": np.full((0, *shape[1:]), fill, dtype),
        "no columns": np.full((*shape[:-1], 0), fill, dtype),
    }
    if order == 2:
        square = np.full((4, 4), value, dtype)
        found["lower"] = np.where(np.tri(4, dtype=bool), square, fill).astype(dtype)
        found["upper"] = found["lower"].T
        found["diagonal"] = np.where(np.eye(4, dtype=bool), square, fill).astype(dtype)
    return found


def check_round_trip(format: str, name: str, array: np.ndarray) -> bool:
    """Whether the format holds the array; if it does, that it gives it back, soundly stored."""
    tensor = fits(format, array)
    if tensor is None:
        assert any(choosy in format for choosy in CHOOSY), f"{format} cannot hold {name}"
        return False
    back, values = tensor.to_numpy(), tensor.entries()[1]
    kept = pickle.loads(pickle.dumps(tensor))
    assert kept.format == tensor.format and np.array_equal(kept.to_numpy(), array)
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array, f"{name} in {format}")
    tensor.checked = False
    tensor.validate()
    for use, storage in zip(measure(tensor), tensor.storage, strict=True):
        assert {n for n, a in storage.items() if isinstance(a, np.ndarray)} == use.arrays.keys()
        for array_name, used in use.arrays.items():
            assert len(used) <= len(storage[array_name])
            assert not used.size or used.ctypes.data % ALIGNMENT == 0, (format, array_name)
    assert len(values) >= np.count_nonzero(array != tensor.fill)
    if any(merged in format for merged in MERGED):
        assert tensor.countstored() <= max(len(values), array.size), format
    else:
        assert tensor.countstored() == len(values), format
    if tensor.order == 2 and tensor.fill == 0:
        np.testing.assert_array_equal(tensor.to_scipy().toarray(), array)
    return True


@pytest.mark.parametrize("change", [lambda s: s[1:], lambda s: [{}, *s[1:]], lambda s: [*s, {}]])
def test_storage_that_is_not_whole_is_refused(change: Any) -> None:
    tensor = Tensor.from_numpy(np.eye(3), "SparseList(SparseList(Element(0.0)))")
    storage = change(tensor.storage)
    for work in (
        lambda: Tensor.from_storage(tensor.format, (3, 3), storage, False),
        lambda: setattr(tensor, "storage", storage),
    ):
        with pytest.raises(FinchError, match="storage|parts") as caught:
            work()
        assert caught.value.kind == "type"


@pytest.mark.parametrize("leaf", ["Element(0.0)", "Pattern()"])
@pytest.mark.parametrize("order", [1, 2])
def test_every_level_over_every_level(order: int, leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    for format in nests(leaf, order):
        cases = arrays(order, dtype, fill, value).items()
        assert any([check_round_trip(format, *case) for case in cases]), format


def test_three_levels() -> None:
    cases = arrays(3, *LEAVES["Element(0.0)"])
    for format in nests("Element(0.0)", 3)[::17]:  # a sample: there are thousands
        for name in ("some", "one entry", "no rows"):
            check_round_trip(format, name, cases[name])


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_element_type(leaf: str) -> None:
    for format in nests(leaf, 1):
        for name, array in arrays(1, *LEAVES[leaf]).items():
            check_round_trip(format, name, array)
    for text in TEXTS:
        if parse_format(text.format("Element(0.0)")).modes == 2 and (
            "Pattern" not in leaf or text.startswith(("SparseCOO", "SparseHash"))
        ):
            for name, array in arrays(2, *LEAVES[leaf]).items():
                check_round_trip(text.format(leaf), name, array)


def test_not_a_number_is_kept_and_may_be_the_fill() -> None:
    array = np.array([[np.nan, 1.0], [np.inf, -0.0]])
    for format in nests("Element(0.0)", 2):
        if (tensor := fits(format, array)) is not None:
            np.testing.assert_array_equal(tensor.to_numpy(), array, format)
    for format in nests("Element(NaN)", 1):
        tensor = fits(format, array[0])
        assert tensor is not None
        np.testing.assert_array_equal(tensor.to_numpy(), array[0])
    assert Tensor.from_numpy(array[0], "SparseList(Element(NaN))").countstored() == 1


@pytest.mark.parametrize("format", ["RunList", "PackBits", "SparseRunList"])
def test_zeros_of_both_signs_and_nans_are_merged(format: str) -> None:
    """The sign of a zero is not kept by arithmetic, so what is stored does not depend on it."""
    array = np.array([0.0, -0.0, np.nan, np.nan, 3.0, -0.0, 2.0])
    given = {
        "A": Tensor.from_numpy(array, "Dense(Element(1.0))"),
        "C": Tensor(f"{format}(Element(1.0))", 7),
    }
    made = Tensor.from_numpy(array, given["C"].format)
    assert shown(run("C .= 1.0\nfor i = _\nC[i] = A[i]\nend", given)[0]["C"]) == shown(made)


@pytest.mark.parametrize(
    ("format", "count"),
    [
        ("Dense(RunList(Element(0)))", 4),
        ("Dense(SparseRunList(Element(0)))", 2),
        ("Dense(PackBits(Element(0)))", 4),
        ("RunList(Dense(Element(0)))", 12),
    ],
)
def test_a_run_is_one_stored_leaf(format: str, count: int) -> None:
    array = np.array([[1, 1, 1, 0], [0, 0, 0, 0], [2, 2, 2, 2]]).T
    assert Tensor.from_numpy(array, format).countstored() == count


# ------------------------------------------------------------------------------- between formats


def two_levels(leaf: str) -> list[str]:
    """Each level once as the inner of two (or as both)."""
    found = []
    for text in TEXTS:
        modes = parse_format(text.format("Element(0.0)")).modes
        is_below = modes == 1 and not text.startswith("Workspace")  # which stands below none
        if modes == 2 or is_below:
            found.append(text.format(leaf) if modes == 2 else f"Dense({text.format(leaf)})")
    return found


@pytest.mark.parametrize("source", two_levels("Element(0.0)"))
def test_between_any_two_formats(source: str) -> None:
    cases = arrays(2, np.float64, 0.0, 2.5)
    for name in ("one entry", "lower", "upper", "some", "no rows", "diagonal"):
        tensor = fits(source, cases[name])
        if tensor is None:
            continue
        for target in two_levels("Element(0.0)") + two_levels("Element(1.0)"):
            if fits(target, cases[name]) is None:
                with pytest.raises(FinchError):
                    Tensor(target, tensor)
                continue
            moved = Tensor(target, tensor)
            np.testing.assert_array_equal(moved.to_numpy(), cases[name], f"{source} to {target}")
            assert moved.format == parse_format(target)


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("Dense(SparsePinpoint(Element(0.0)))", "a second coordinate, "),
        ("Dense(SparseInterval(Element(0.0)))", "second run"),
        ("LowerTriangular(Element(0.0))", "no place for an entry at (1, 2)"),
        ("Symmetric(Element(0.0))", "not symmetric"),
        ("SparseList(Element(0.0))", "has 1 dimension, "),
        ("Dense(SparseList(Element(0)))", "cannot store Float64"),
        ("Dense(SparseList(Element(false)))", "cannot store Float64"),
    ],
)
def test_what_a_format_cannot_hold_is_said(format: str, words: str) -> None:
    array = np.triu(np.arange(16.0).reshape(4, 4))
    tensor = Tensor.from_numpy(array, "SparseCOO{2}(Element(0.0))")
    with pytest.raises(FinchError) as caught:
        Tensor(format, tensor)
    assert words in caught.value.message


# ---------------------------------------------------------------------------- what is given as storage


def broken(array: np.ndarray, size: int) -> list[np.ndarray]:
    """The array with an entry changed by little or by much, without its last, backwards, and none."""
    found = [array[:-1], array[::-1].copy(), array[:0]]
    for at in {0, len(array) // 2, len(array) - 1} if len(array) else ():
        for value in (-2, -1, size, size + 1, int(array[at]) + 1, int(array[at]) - 1):
            found.append(array.copy())
            found[-1][at] = value
    return found


@pytest.mark.parametrize("format", [f for f in singles() if "Int8" not in f])
def test_what_is_accepted_can_be_read(format: str) -> None:
    """Whatever the arrays are: either they are refused by the level's name, or they are read by each
    protocol as NumPy reads them, and written again."""
    own = Stack(format)
    size, refused = 5, 0
    empty = np.full((size,) * own.order, own.level.fill.value, own.level.element_type.dtype)
    for places in ((np.s_[1:4],), (np.s_[2],)):
        array = empty.copy()
        array[places * own.order] = True if own.fill == "false" else 2.5
        sound = fits(format, array)
        if sound is not None:
            break
    assert sound is not None
    inner = ", ".join(own.letters[:-1])
    reads = [f"A[{inner}{', ' * bool(inner)}{how}(i{own.order})]" for how in ("walk", "follow")]
    heads = ", ".join(f"{x} = _" for x in reversed(own.letters))
    updates = "\n".join(
        f"s{k}[] += ifelse({read} == {own.fill}, 0, i1)" for k, read in enumerate(reads)
    )
    weights = np.indices(array.shape)[0] + 1
    renewed = f"C .= {own.fill}\n{own.loops(f'A{own.place}')}"
    for name, part in sound.storage[0].items():
        is_array = isinstance(part, np.ndarray)
        for other in broken(part, size) if is_array else (part + 1, part // 2, 10**6):
            given = changed(sound, 0, lambda s, n=name, o=other: s.update({n: o}))
            try:
                expected = (weights * (given.to_numpy() != own.level.fill.value)).sum()
            except FinchError as error:
                assert error.kind == "bounds" and "corrupt" in error.message
                refused += 1
                continue
            values = {"A": given, "s0": Scalar(0), "s1": Scalar(0)}
            found, _ = run(f"for {heads}\n{updates}\nend", values, interpreted=False)
            assert found["s0"].value == found["s1"].value == expected, (name, other)
            found, _ = run(renewed, {"A": sound, "C": given}, interpreted=False)
            np.testing.assert_array_equal(found["C"].to_numpy(), array)
    assert refused or not any(isinstance(p, np.ndarray) for p in sound.storage[0].values())


# ------------------------------------------------------------------------------- few bits for an index

LISTS = ("SparseList", "SparseByteMap", "SparseBlockList", "SparseBand")
RUN_LEVELS = ("RunList", "SparseRunList", "PackBits")
NARROW = (*LISTS, *RUN_LEVELS, "SparseHash", "SparseInterval", "SparsePinpoint")


@pytest.mark.parametrize("level", NARROW)
@pytest.mark.parametrize(("index", "most"), [("Int8", 127), ("UInt8", 255), ("Int16", 32767)])
def test_dimensions_of_any_size_that_fits(level: str, index: str, most: int) -> None:
    """What an index type cannot hold is an error, never another number."""
    if index == "UInt8" and level in ("SparseBand", "SparsePinpoint"):
        with pytest.raises(FinchError, match="signed"):
            parse_format(f"{level}{{UInt8}}(Element(0.0))")
        return
    format, copy = f"{level}{{{index}}}(Element(0.0))", "C .= 0\nfor i = _\nC[i] = x[i]\nend"
    for size in (most, most + 1):
        array = np.append(np.zeros(size - 1), 1)
        given = {"C": Tensor(format, 1), "x": Tensor.from_numpy(array, "SparseList(Element(0.0))")}
        if size == most:
            np.testing.assert_array_equal(run(copy, given)[0]["C"].to_numpy(), array)
            np.testing.assert_array_equal(Tensor.from_numpy(array, format).to_numpy(), array)
            continue
        for make in (lambda: Tensor(format, most + 1), lambda: Tensor(format, array)):  # noqa: B023
            with pytest.raises(FinchError, match=f"{index} has no room") as caught:
                make()
            assert caught.value.kind == "dimension"
        with pytest.raises(FinchError, match=f"of size {size}") as caught:
            run(copy, given)
        assert caught.value.kind == "dimension"


@pytest.mark.parametrize("level", [*LISTS, *RUN_LEVELS])
def test_positions_of_all_fibers_together(level: str) -> None:
    """Each fiber is short, but the positions of all are counted."""
    format = f"Dense({level}{{Int8}}(Element(0.0)))"
    text = "C .= 0\nfor j = _, i = _\nC[i, j] = x[i, j]\nend"
    for columns in (12, 13):
        x = 1.0 + np.arange(10 * columns).reshape(10, columns)
        tensors = {"C": Tensor(format, 1, 1), "x": Tensor.from_numpy(x)}
        if columns == 12:
            np.testing.assert_array_equal(run(text, tensors)[0]["C"].to_numpy(), x)
            np.testing.assert_array_equal(Tensor.from_numpy(x, format).to_numpy(), x)
            continue
        for make in (lambda: run(text, tensors), lambda: Tensor(format, x)):  # noqa: B023
            with pytest.raises(FinchError, match="130 positions") as caught:
                make()
            assert caught.value.kind == "resource"


@pytest.mark.parametrize("leaf", ["Element(0.0)", "Element(Inf)", "Pattern()"])
def test_every_format_is_measured_thinned_and_copied(leaf: str) -> None:
    dtype, fill, value = LEAVES[leaf]
    array = np.full((3, 3), fill, dtype)
    array[1, 1] = value
    for format in nests(leaf, 2)[::3]:
        session = Session("interpret")
        session["A"] = tensor = fits(format, array)
        session.run("n = nnz(A); m = countstored(A); B = dropfills(A); P = pattern(A)")
        assert session["n"] == session["m"] == tensor.countstored() >= 1
        thinned, pattern = session["B"], session["P"].to_numpy()
        np.testing.assert_array_equal(thinned.to_numpy(), array)
        assert thinned.format == tensor.format
        assert 1 <= thinned.countstored() <= tensor.countstored()
        assert pattern.dtype == np.bool_ and pattern[1, 1] and pattern.sum() >= 1
