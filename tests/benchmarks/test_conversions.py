"""What it takes to bring data into a format and out of it: not part of any other row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from data import IMAGES, available, image, images, matrix
from test_images import packed, run_tensor, runs_of

from finchlang import Tensor

MATRICES = available("10,000 of density 1e-3, seed 1", "Poisson 2-d", "cora")
CSC = "Dense(SparseList{Int32}(Element(0.0)))"


@pytest.mark.parametrize("name", images(*IMAGES))
def test_image_to_bits(meter, name):
    """Words of 64 pixels, as the erosion of bits takes them, are made by NumPy alone; PackBits is a
    format of ours."""
    on = image(name) >= 128
    words = packed(on)
    assert words.dtype == np.uint64 and len(words) == len(on)
    meter.race("convert: image to words of bits, by NumPy", name, lambda: packed(on), {})
    form = "Dense(PackBits{Int32}(Element(false)))"
    assert np.array_equal(Tensor.from_numpy(on.T, form).to_numpy(), on.T)
    meter.race("convert: image to PackBits", name, lambda: Tensor.from_numpy(on.T, form), {})


@pytest.mark.parametrize("name", images(*IMAGES))
def test_image_to_runs(meter, name):
    """By hand from NumPy's differences, as the benchmarks of images do it, and by `from_numpy`."""
    pixels = image(name)
    on, form = pixels >= 128, "Dense(RunList{Int32}(Element(0x00)))"
    assert np.array_equal(run_tensor(on).to_numpy(), on.T)
    assert np.array_equal(Tensor.from_numpy(pixels.T, form).to_numpy(), pixels.T)
    others = {"NumPy, the runs alone": lambda: runs_of(on)}
    meter.race("convert: mask to runs", name, lambda: run_tensor(on), others)
    meter.race("convert: image to runs", name, lambda: Tensor.from_numpy(pixels.T, form), {})


FORMATS = {
    "CSC": CSC,
    "COO": "SparseCOO{2, Int32}(Element(0.0))",
    "hash": "SparseHash{2, Int32}(Element(0.0))",
    "blocks": "Dense(SparseBlockList{Int32}(Element(0.0)))",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", MATRICES)
def test_scipy(meter, name, format):
    """From SciPy's matrices and back to them, beside a copy by SciPy."""
    A = matrix(name).tocsc()
    coordinates = A.tocoo()

    def convert():
        places = coordinates.row, coordinates.col
        return Tensor.from_coo(FORMATS[format], A.shape, places, coordinates.data)

    tensor = convert()
    assert abs(sp.csc_array(tensor.to_scipy()) - A).max() == 0
    others = {"SciPy, from COO": coordinates.tocsc, "SciPy, a copy": A.copy}
    meter.race(f"convert: SciPy to {format}", name, convert, others)
    meter.race(f"convert: {format} to SciPy", name, tensor.to_scipy, {"SciPy, a copy": A.copy})
