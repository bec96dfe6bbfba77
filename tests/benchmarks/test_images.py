"""Images: erosion of packed bits and of runs, masked histograms, convolution, blending.

Row y of an image is column y of a tensor: both are contiguous.
"""

from __future__ import annotations

import numpy as np
import peers
import pytest
import scipy.sparse as sp
from calls import calls
from data import IMAGES, OMNIGLOT, erdos_renyi, image, images, photograph
from experts import expert
from programs import session_with

from finchlang import Session, Tensor

ALL = images(*IMAGES, *OMNIGLOT)


def runs_of(on):
    """The runs of a Bool image, row by row: where rows begin, and first and last pixels."""
    edges = np.diff(np.pad(on.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, left = np.nonzero(edges == 1)
    right = np.nonzero(edges == -1)[1] - 1
    ptr = np.searchsorted(rows, np.arange(on.shape[0] + 1))
    return ptr.astype(np.int32), left.astype(np.int32), right.astype(np.int32)


def run_tensor(on):
    """Dense(SparseRunList(Pattern())) of a Bool image, built from its runs."""
    tensor = Tensor("Dense(SparseRunList{Int32}(Pattern()))", 0, 0)
    ptr, left, right = runs_of(on)
    arrays = {"ptr": ptr, "left": left, "right": right}
    storage = [{}, tensor.storage[1] | arrays | {"stored": len(left)}, tensor.storage[2]]
    return Tensor.from_storage(tensor.format, on.shape[::-1], storage, False)


def dense_of(ptr, left, right, shape):
    """The Bool image that has the given runs."""
    edges = np.zeros((shape[0], shape[1] + 1), np.int8)
    rows = np.repeat(np.arange(shape[0]), np.diff(ptr))
    np.add.at(edges, (rows, left), 1)
    np.add.at(edges, (rows, right + 1), -1)
    return np.cumsum(edges[:, :-1], axis=1, dtype=np.int8) > 0


def eroded(on):
    """Two erosions by 3 x 3, beyond the border all on, by NumPy."""
    for _ in range(2):
        for axis in (0, 1):
            before, after = on.copy(), on.copy()
            ahead = [slice(None)] * 2
            behind = [slice(None)] * 2
            ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
            before[tuple(ahead)], after[tuple(behind)] = on[tuple(behind)], on[tuple(ahead)]
            on = on & before & after
    return on


def opencv_erosion(bytes, expected):
    if peers.opencv is None:
        return None
    square = np.ones((3, 3), np.uint8)

    def erode():
        return peers.opencv.erode(bytes, square, iterations=2)

    assert np.array_equal(erode() != 0, expected)
    return erode


# --------------------------------------------------------------------------------------- erosion


@pytest.mark.parametrize("name", ALL)
def test_erosion_runs(meter, name):
    """Two iterations of examples/erosion.finch on runs of paper."""
    bytes = image(name)
    on, (n, m) = bytes >= 128, bytes.shape
    expected = eroded(on)
    session = session_with("erosion")
    session["input"] = run_tensor(on)
    session["once"] = Tensor("Dense(SparseRunList{Int32}(Pattern()))", m, n)
    session["twice"] = Tensor("Dense(SparseRunList{Int32}(Pattern()))", m, n)
    session["line"] = Tensor("SparseRunList{Int32}(Pattern())", m)
    session["other"] = Tensor("SparseRunList{Int32}(Pattern())", m)
    program = "erode(once, line, input)\nerode(twice, other, once)"
    session.run(program)
    level = session["twice"].storage[1]
    count = level["ptr"][n]
    runs = level["ptr"][: n + 1], level["left"][:count], level["right"][:count]
    assert np.array_equal(dense_of(*runs, on.shape), expected)
    others = {
        "OpenCV": opencv_erosion(bytes, expected),
        "expert C": expert_run_erosion(on, expected),
    }
    kind = {"d": "", "m": ", magnified", "O": ", Omniglot"}[name[0]]
    meter.race(f"erosion runs{kind}", name, calls(session, program), others)


def expert_run_erosion(on, expected):
    n, m = on.shape
    source = runs_of(on)
    room = 2 * len(source[1]) + n
    made = [
        (np.zeros(n + 1, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int32))
        for _ in range(2)
    ]
    work = np.zeros(4 * m, np.int32)
    first = expert("images", "erode_runs", m, n, *source, work, *made[0])
    second = expert("images", "erode_runs", m, n, *made[0], work, *made[1])
    if first is None or second is None:
        return None

    def erode():
        first()
        return second()

    count = erode()
    ptr, left, right = made[1]
    assert np.array_equal(dense_of(ptr, left[:count], right[:count], on.shape), expected)
    return erode


WORDS = "Dense(Dense(Element(0x0000000000000000)))"
BITS = """@finch begin
    output .= 0
    for y = _
        tmp .= 0
        for w = _
            tmp[w] = coalesce(input[w, ~(y - 1)], 0xffffffffffffffff) & input[w, y] &
                coalesce(input[w, ~(y + 1)], 0xffffffffffffffff)
        end
        for w = _
            let below = coalesce(tmp[~(w - 1)], 0xffffffffffffffff), t = tmp[w],
                above = coalesce(tmp[~(w + 1)], 0xffffffffffffffff)
                output[w, y] = ((above << 63) | (t >> 1)) & t & ((t << 1) | (below >> 63))
            end
        end
    end
end"""


def packed(on):
    """Words of 64 pixels, the first in the lowest bit; pixels beyond the image are on."""
    n, m = on.shape
    wide = np.ones((n, -(-m // 64) * 64), bool)
    wide[:, :m] = on
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64)


def unpacked(words, m):
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :m].astype(bool)


@pytest.mark.parametrize("name", ALL)
def test_erosion_bits(meter, name):
    """Two iterations of the erosion of examples/erosion_bits.finch."""
    bytes = image(name)
    on, m = bytes >= 128, bytes.shape[1]
    expected, words = eroded(on), packed(on)
    session = Session()
    session["input"] = words.T
    session["once"], session["twice"] = Tensor(WORDS, 0, 0), Tensor(WORDS, 0, 0)
    session["tmp"] = Tensor("Dense(Element(0x0000000000000000))", words.shape[1])
    again = BITS.replace("input", "once").replace("output", "twice")
    program = BITS.replace("output", "once").removesuffix("end") + again.removeprefix(
        "@finch begin"
    )
    session.run(program)
    twice = np.ascontiguousarray(session["twice"].to_numpy().T)
    assert np.array_equal(unpacked(twice, m), expected)
    others = {
        "OpenCV": opencv_erosion(bytes, expected),
        "expert C": expert_bit_erosion(words, m, expected),
    }
    meter.race("erosion bits", name, calls(session, program), others)


def expert_bit_erosion(words, m, expected):
    n, width = words.shape
    once, twice, tmp = np.zeros_like(words), np.zeros_like(words), np.zeros(width + 2, np.uint64)
    first = expert("images", "erode_bits", width, n, words, tmp, once)
    second = expert("images", "erode_bits", width, n, once, tmp, twice)
    if first is None or second is None:
        return None

    def erode():
        first()
        second()

    erode()
    assert np.array_equal(unpacked(twice, m), expected)
    return erode


# ------------------------------------------------------------------------------------- histogram

HISTOGRAM = """@finch begin
    bins .= 0
    for y = _, x = _
        if mask[x, y]
            bins[div(image[x, y], 16) + 1] += 1
        end
    end
end"""


def disk(size):
    x = np.arange(size) - size / 2
    return x[:, None] ** 2 + x**2 <= (size / 2) ** 2


@pytest.mark.parametrize("shape", ["ink", "disk"])
@pytest.mark.parametrize("name", IMAGES)
def test_histogram(meter, name, shape):
    """examples/histogram.finch under the ink of a drawing, or a disk, as runs."""
    drawn = image(name)
    n = m = len(drawn)
    on = drawn < 128 if shape == "ink" else disk(n)
    bytes = photograph(n, int(name[-1]))
    expected = np.bincount(bytes[on] // 16, minlength=16)
    session, bins = Session(), np.zeros(16, np.int64)
    session["image"], session["mask"], session["bins"] = bytes.T, run_tensor(on), bins
    session.run(HISTOGRAM)
    assert np.array_equal(bins, expected)
    counted = np.zeros(16, np.int64)
    call = expert("images", "histogram", m, n, bytes, *runs_of(on), counted)
    if call is not None:
        call()
        assert np.array_equal(counted, expected)
    others = {"OpenCV": opencv_histogram(bytes, on, expected), "expert C": call}
    workload = "histogram" + (", magnified" if name.startswith("m") else "")
    meter.race(workload, f"{name}, {shape}", calls(session, HISTOGRAM), others)


def opencv_histogram(bytes, on, expected):
    if peers.opencv is None:
        return None
    mask = on.astype(np.uint8) * 255

    def count():
        return peers.opencv.calcHist([bytes], [0], mask, [16], [0, 256])

    assert np.array_equal(count().ravel(), expected)
    return count


# ----------------------------------------------------------------------------------- convolution

CONVOLUTION = """@finch begin
    C .= 0
    for k = _, i = _, l = _, j = _
        C[i, k] += (A[i, k] != 0) * coalesce(A[~(i + j - 6), ~(k + l - 6)], 0) * F[j, l]
    end
end"""


@pytest.mark.parametrize("name", [f"{p} %, seed {s}" for p in ("0.1", "1", "5") for s in (1, 2)])
def test_convolution(meter, name):
    """examples/convolution.finch: 11 x 11 on a sparse image, where it has entries."""
    n = 1111
    share = float(name.partition(" ")[0]) / 100
    A = erdos_renyi(n, round(n * share), int(name[-1])).tocsc()
    A.sort_indices()
    x = np.arange(11) - 5
    F = np.exp(-(x[:, None] ** 2 + 2.0 * x**2) / 8)
    dense = A.toarray()
    padded = np.pad(dense, 5)
    expected = sum(F[j, k] * padded[j : j + n, k : k + n] for j in range(11) for k in range(11)) * (
        dense != 0
    )
    session = Session()
    session["A"], session["F"] = A, F
    session["C"] = Tensor("Dense(SparseList{Int32}(Element(0.0)))", n, n)
    session.run(CONVOLUTION)
    assert np.allclose(session["C"].to_numpy(), expected)
    out = np.zeros(A.nnz)
    weight = np.ascontiguousarray(F.T)
    call = expert("images", "convolution", n, A.indptr, A.indices, A.data, weight, out)
    if call is not None:
        call()
        assert np.allclose(sp.csc_array((out, A.indices, A.indptr), A.shape).toarray(), expected)
    others = {"OpenCV": opencv_convolution(dense, F, expected), "expert C": call}
    meter.race("convolution", name, calls(session, CONVOLUTION), others)


def opencv_convolution(dense, F, expected):
    if peers.opencv is None:
        return None
    border = peers.opencv.BORDER_CONSTANT

    def convolve():
        return peers.opencv.filter2D(dense, -1, F, borderType=border)

    assert np.allclose(convolve() * (dense != 0), expected)
    return convolve


# -------------------------------------------------------------------------------------- blending

BLEND = """@finch begin
    A .= 0
    for j = _, i = _
        A[i, j] = UInt8(round(alpha * B[i, j] + beta * C[i, j]))
    end
end"""


@pytest.mark.parametrize("name", images(*IMAGES[:2], *OMNIGLOT))
def test_blend(meter, name):
    """examples/blend.finch on runs: an image, and the same upside down."""
    b = image(name)
    c = np.ascontiguousarray(b[::-1])
    alpha, beta = 0.75, 0.25
    form = "Dense(RunList{Int32}(Element(0x00)))"
    session = Session()
    session["B"], session["C"] = Tensor.from_numpy(b.T, form), Tensor.from_numpy(c.T, form)
    session["A"] = Tensor(form, *b.shape[::-1])
    session["alpha"], session["beta"] = alpha, beta
    session.run(BLEND)
    expected = np.rint(alpha * b + beta * c).astype(np.uint8)
    assert np.array_equal(session["A"].to_numpy().T, expected)
    others = {
        "OpenCV": opencv_blend(b, c, alpha, beta, expected),
        "expert C": expert_blend(session["B"], session["C"], alpha, beta, expected),
    }
    meter.race("blend", name, calls(session, BLEND), others)


def opencv_blend(b, c, alpha, beta, expected):
    if peers.opencv is None:
        return None

    def blend():
        return peers.opencv.addWeighted(b, alpha, c, beta, 0)

    assert np.array_equal(blend(), expected)
    return blend


def expert_blend(B, C, alpha, beta, expected):
    n, m = expected.shape
    pieces = []
    for tensor in (B, C):
        level = tensor.storage[1]
        pieces += [level["ptr"], level["right"], tensor.storage[2]["val"]]
    room = len(pieces[1]) + len(pieces[4])
    ptr, right = np.zeros(n + 1, np.int32), np.zeros(room, np.int32)
    val = np.zeros(room, np.uint8)
    call = expert("images", "blend", m, n, alpha, beta, *pieces, ptr, right, val)
    if call is not None:
        count = call()
        starts = np.r_[-1, right[: count - 1]]
        starts[ptr[:-1]] = -1
        lengths = right[:count] - starts
        assert np.array_equal(np.repeat(val[:count], lengths).reshape(n, m), expected)
    return call
