"""The matrices, graphs and images that are measured: real ones where they are found, and generated
ones with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

#: real files, beside the project; a machine without them measures generated data only
SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"

Matrix = Any


def _csr(matrix: Any) -> Matrix:
    """Float64 values, int32 indices in order, no duplicates."""
    found = sp.csr_array(matrix, dtype=np.float64)
    found.sum_duplicates()
    found.sort_indices()
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def _distinct(rows: np.ndarray, columns: np.ndarray, n: int, seed: int) -> Matrix:
    """Random values at the given places, each once."""
    places = np.unique(rows.astype(np.int64) * n + columns)
    values = np.random.default_rng(seed).random(len(places)) + 0.5
    return _csr(sp.coo_array((values, (places // n, places % n)), (n, n)))


def erdos_renyi(n: int, degree: int, seed: int) -> Matrix:
    """n x n, about `degree` entries in a row, each anywhere with the same probability."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, n, (2, n * degree))
    return _distinct(rows, columns, n, seed)


def erdos_renyi_exact(n: int, count: int, seed: int) -> Matrix:
    """n x n, with `count` entries in all."""
    places = np.random.default_rng(seed).choice(n * n, count, replace=False)
    return _distinct(places // n, places % n, n, seed)


def rmat(scale: int, degree: int, seed: int) -> Matrix:
    """2^scale vertices, degrees by a power law (R-MAT: Chakrabarti, Zhan, Faloutsos, SDM'04, with
    Graph500's a, b, c = 0.57, 0.19, 0.19), vertices renumbered at random."""
    rng = np.random.default_rng(seed)
    count = degree << scale
    rows, columns = np.zeros((2, count), np.int64)
    for _ in range(scale):
        low = rng.random(count) > 0.57 + 0.19
        right = rng.random(count) > np.where(low, 0.19 / (0.19 + 0.05), 0.57 / (0.57 + 0.19))
        rows, columns = 2 * rows + low, 2 * columns + right
    names = rng.permutation(1 << scale)
    return _distinct(names[rows], names[columns], 1 << scale, seed)


def hypersparse(n: int, count: int, seed: int) -> Matrix:
    """n x n, with far fewer entries than rows."""
    rows, columns = np.random.default_rng(seed).integers(0, n, (2, count))
    return _distinct(rows, columns, n, seed)


def banded(n: int, width: int, seed: int) -> Matrix:
    """n x n, `width` diagonals around the main one, all stored."""
    rng = np.random.default_rng(seed)
    reach = range(-(width // 2), width - width // 2)
    diagonals = [rng.random(n - abs(k)) + 0.5 for k in reach]
    return _csr(sp.diags_array(diagonals, offsets=list(reach), shape=(n, n)))


def poisson(side: int, dimensions: int) -> Matrix:
    """The Laplacian of a grid with `side` points in each of 2 or 3 dimensions."""
    line = sp.diags_array(
        [-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1]
    )
    found: Any = line
    for _ in range(dimensions - 1):
        found = sp.kronsum(found, line)
    return _csr(found)


def blocks(count: int, size: int, degree: int, seed: int) -> Matrix:
    """As finite elements give it: a random graph of `count` nodes near each other, each edge a
    dense block of size x size."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(count), degree)
    columns = np.clip(rows + rng.integers(-50, 51, len(rows)), 0, count - 1)
    graph = sp.coo_array((np.ones(len(rows)), (rows, columns)), (count, count))
    found = _csr(sp.kron(graph + sp.eye_array(count), np.ones((size, size))))
    found.data[:] = rng.random(found.nnz) + 0.5
    return found


def hexahedra(side: int, seed: int) -> Matrix:
    """As finite elements give it for elasticity: side^3 nodes in a grid, three unknowns at each,
    an entry for each two unknowns of neighbours (27 with the node itself)."""
    line = sp.diags_array(np.ones((3, side)), offsets=[-1, 0, 1], shape=(side, side))
    found = _csr(sp.kron(sp.kron(sp.kron(line, line), line), np.ones((3, 3))))
    found.data[:] = np.random.default_rng(seed).random(found.nnz) + 0.5
    return found


def permutation(n: int) -> Matrix:
    """The reverse permutation."""
    return _csr(sp.coo_array((np.ones(n), (np.arange(n)[::-1], np.arange(n))), (n, n)))


def triangle(n: int, seed: int) -> Matrix:
    """A full upper triangle."""
    return _csr(np.triu(np.random.default_rng(seed).random((n, n)) + 0.5))


def symmetric(matrix: Matrix) -> Matrix:
    """The sum of a matrix and its transpose."""
    return _csr(matrix + matrix.T)


def real(name: str) -> Matrix:
    """A file of SHARED/matrices; a pattern has ones for values."""
    return _csr(scipy.io.mmread(SHARED / "matrices" / f"{name}.mtx", spmatrix=False))


MATRICES: dict[str, Callable[[], Matrix]] = {
    "10,000 of density 1e-3, seed 1": lambda: erdos_renyi(10_000, 10, 1),
    "10,000 of density 1e-3, seed 2": lambda: erdos_renyi(10_000, 10, 2),
    "Erdos-Renyi 10, seed 1": lambda: erdos_renyi(100_000, 10, 1),
    "Erdos-Renyi 10, seed 2": lambda: erdos_renyi(100_000, 10, 2),
    "Erdos-Renyi 100, seed 1": lambda: erdos_renyi(10_000, 100, 1),
    "Erdos-Renyi 100, seed 2": lambda: erdos_renyi(10_000, 100, 2),
    "RMAT 16, seed 1": lambda: rmat(16, 12, 1),
    "RMAT 16, seed 2": lambda: rmat(16, 12, 2),
    "band 5, seed 1": lambda: banded(200_000, 5, 1),
    "band 5, seed 2": lambda: banded(150_000, 5, 2),
    "band 30, seed 1": lambda: banded(40_000, 30, 1),
    "band 30, seed 2": lambda: banded(30_000, 30, 2),
    "band 100, seed 1": lambda: banded(12_000, 100, 1),
    "band 100, seed 2": lambda: banded(9_000, 100, 2),
    "Poisson 2-d": lambda: poisson(400, 2),
    "Poisson 3-d": lambda: poisson(50, 3),
    "blocks of 6, seed 1": lambda: blocks(3_000, 6, 12, 1),
    "blocks of 6, seed 2": lambda: blocks(3_000, 6, 12, 2),
    "blocks of 3, seed 1": lambda: blocks(10_000, 3, 12, 1),
    "hexahedra, seed 1": lambda: hexahedra(20, 1),
    "hexahedra, seed 2": lambda: hexahedra(17, 2),
    "triangle, seed 1": lambda: triangle(1_500, 1),
    "triangle, seed 2": lambda: triangle(1_200, 2),
    "reverse permutation": lambda: permutation(1_000_000),
    "RMAT 13, seed 1": lambda: rmat(13, 8, 1),
    "RMAT 13, seed 2": lambda: rmat(13, 8, 2),
    "dense square, seed 1": lambda: erdos_renyi(1_500, 60, 1),
    "dense square, seed 2": lambda: erdos_renyi(1_200, 60, 2),
    "one-entry columns": lambda: permutation(200_000),
    "hypersparse, seed 1": lambda: hypersparse(1_000_000, 50_000, 1),
    "hypersparse, seed 2": lambda: hypersparse(2_000_000, 50_000, 2),
}
REAL = [
    *("bcsstk13", "jagmesh7", "west0067", "olm1000", "zenios", "lp_afiro", "LFAT5"),
    *("karate", "pushpull", "cora", "citeseer"),
]


def available(*names: str) -> list[str]:
    """Those of `names` that there are on this machine: generated, or a real file that is here."""
    here = [name for name in REAL if (SHARED / "matrices" / f"{name}.mtx").exists()]
    return [name for name in names if name in MATRICES or name in here]


@cache
def matrix(name: str) -> Matrix:
    """A matrix by its name, as CSR; not to be changed."""
    return MATRICES[name]() if name in MATRICES else real(name)


@cache
def enlarged(name: str, count: int) -> Matrix:
    """A matrix of which each entry became a dense square block, for about `count` entries."""
    found = matrix(name)
    size = max(1, round((count / found.nnz) ** 0.5))
    return _csr(sp.kron(found, np.ones((size, size))))


def permuted(matrix: Matrix) -> Matrix:
    """The rows of a matrix, each moved down by one: about as many entries meet as do not."""
    return _csr(matrix[np.roll(np.arange(matrix.shape[0]), 1)])


def grid(rows: int, columns: int, seed: int) -> Matrix:
    """The graph of a grid, each vertex beside its four neighbours, with random lengths."""
    first, second = (
        sp.diags_array([np.ones(size - 1)], offsets=[1], shape=(size, size))
        for size in (rows, columns)
    )
    found = _csr(sp.kron(first, sp.eye_array(columns)) + sp.kron(sp.eye_array(rows), second))
    found.data[:] = np.random.default_rng(seed).random(found.nnz) + 0.5
    return symmetric(found)


# --------------------------------------------------------------------------------------- tensors

#: of tensors of FROSTT: their shapes, and about how many children a node has in each mode, where they
#: are cut down to a million entries (the first mode has what is left)
FROSTT = {
    "nell-2": ((12_092, 9_184, 28_818), (1, 228)),
    "nips": ((2_482, 2_862, 14_036, 17), (2, 560, 1)),
    "vast": ((165_427, 11_374, 2, 100, 89), (157, 1, 1, 1)),
}


@cache
def frostt(name: str, is_uniform: bool, count: int = 1_000_000) -> tuple[np.ndarray, np.ndarray]:
    """Places in the shape of a FROSTT tensor, in order, and the same moved on by one in the last mode
    (SparseArray'21 section 8.2.1): each place as likely, or in fibers as long as the tensor's."""
    shape, children = FROSTT[name]
    rng = np.random.default_rng(1)
    if is_uniform:
        places = np.unique(rng.integers(0, np.prod(shape), count))
    else:
        nodes = rng.choice(shape[0], max(1, count // int(np.prod(children))), replace=True)
        places = np.unique(nodes)
        for size, mean in zip(shape[1:], children, strict=True):
            many = rng.integers(max(1, mean // 2), mean + mean // 2 + 1, len(places))
            places = np.repeat(places, many)
            places = np.unique(places * size + rng.integers(0, size, len(places)))
    coordinates = np.array(np.unravel_index(places, shape))
    moved = coordinates.copy()
    moved[-1] = (moved[-1] + 1) % shape[-1]
    order = np.argsort(np.ravel_multi_index(moved, shape))
    return coordinates, moved[:, order]


# ---------------------------------------------------------------------------------------- images


@cache
def scan(size: int) -> np.ndarray:
    """Smooth blobs, as of a scanned head: random numbers without their high frequencies."""
    spectrum = np.fft.rfft2(np.random.default_rng(1).random((size, size)))
    across, along = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)
    low = np.exp(-(across**2 + along**2) * (size / 8) ** 2)
    return np.fft.irfft2(spectrum * low, s=(size, size))


@cache
def drawing(seed: int, size: int = 1111) -> np.ndarray:
    """A line drawing: 60 curves of ink (0) on paper (255), bytes of size x size."""
    rng = np.random.default_rng(seed)
    image = np.full((size, size), 255, np.uint8)
    t = np.linspace(0, 1, 4 * size)[:, None]
    for _ in range(60):
        a, b, c, d = rng.random((4, 2)) * (size - 8) + 4  # Bezier
        curve = (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d
        rows, columns = curve.astype(int).T
        for row in (-1, 0, 1):
            for column in (-1, 0, 1):
                image[rows + row, columns + column] = 0
    return image


def magnified(image: np.ndarray, times: int = 8) -> np.ndarray:
    """Each pixel as a square of times x times."""
    return image.repeat(times, axis=0).repeat(times, axis=1)


@cache
def omniglot(number: int) -> np.ndarray | None:
    """A handwritten character of the Omniglot set (ink is 0, paper 255), if it is here."""
    path = SHARED / "images" / "omniglot_small1.npz"
    if not path.exists():
        return None
    with np.load(path) as images:
        return np.ascontiguousarray(images["images"][number])


def photograph(size: int, seed: int) -> np.ndarray:
    """A smooth image with some noise, bytes of size x size."""
    x = np.linspace(0, 6, size)
    smooth = 110 + 50 * np.sin(x)[:, None] + 50 * np.cos(2 * x)
    noise = np.random.default_rng(seed).integers(-20, 21, (size, size), np.int8)
    return (smooth + noise).clip(0, 255).astype(np.uint8)


IMAGES = ["drawing, seed 1", "drawing, seed 2", "magnified, seed 1", "magnified, seed 2"]
OMNIGLOT = ["Omniglot 0", "Omniglot 100", "Omniglot 200"]


@cache
def image(name: str) -> np.ndarray:
    """An image by its name."""
    kind, number = name.split()[0].rstrip(","), int(name.split()[-1])
    if kind == "Omniglot":
        found = omniglot(number)
        assert found is not None
        return found
    return magnified(drawing(number)) if kind == "magnified" else drawing(number)


def images(*names: str) -> list[str]:
    """Those of `names` that there are on this machine."""
    here = (SHARED / "images" / "omniglot_small1.npz").exists()
    return [name for name in names if here or not name.startswith("Omniglot")]
