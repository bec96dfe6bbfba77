"""Files with bytes changed, cut off, lost or slipped in are read or refused, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from finchlang.script.files import fread, fwrite
from finchlang.source import FinchError
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor

MATRIX = np.array([[0, 0.25, 0, -1e-300], [3, 0, 0, 1 / 3], [0, 0, 0, 0]])
FORMATS = (
    *("Dense(Dense(Element(0.0)))", "Dense(SparseList(Element(0.0)))"),
    *("SparseCOO{2}(Element(0.0))", "SparseList(SparseList(Element(0.0)))"),
)
SYMMETRIC = "%%MatrixMarket matrix coordinate integer symmetric\n% text\n3 3 2\n1 1 5\n3 1 -7\n"


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content with one kind of damage."""
    found, at = bytearray(content), chance.randrange(len(content))
    kind = chance.randrange(4)
    if kind == 0:
        for _ in range(chance.choice((1, 2, 20))):
            found[chance.randrange(len(found))] = chance.choice((0, 255, 57, 45, 10))
    elif kind == 1:
        del found[at:]
    elif kind == 2:
        del found[at : at + chance.randrange(1, 9)]
    else:
        found[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(found)


@pytest.mark.parametrize("suffix", [".mtx", ".ttx", ".tns", ".npy", ".bsp.h5", ".bsp.npz"])
def test_damaged_files(tmp_path: Path, suffix: str) -> None:
    if suffix.startswith(".bsp"):
        pytest.importorskip("binsparse")
    path, chance = tmp_path / f"a{suffix}", random.Random(1)
    whole: list[bytes] = [SYMMETRIC.encode()] if suffix == ".mtx" else []
    for value in (*(Tensor.from_numpy(MATRIX, format) for format in FORMATS), MATRIX != 0):
        fwrite(str(path), value)
        whole.append(path.read_bytes())
    refused = 0
    for _ in range(300):
        path.write_bytes(damaged(chance.choice(whole), chance))
        try:
            found = fread(str(path))
        except FinchError as error:
            refused += 1
            assert error.kind in ("I/O", "type", "resource", "dimension", "bounds"), error
        else:
            assert isinstance(found, (np.ndarray, Scalar, SwizzledTensor, Tensor))
            if isinstance(found, (SwizzledTensor, Tensor)):
                found.validate()
    assert refused > 30
