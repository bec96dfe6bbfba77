"""Binsparse files as containers of the library `binsparse` (which this module needs), with checks of what
a file says: its arrays are in it and not in other files, and fit in the memory."""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import binsparse
import h5py
import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.paths import check_memory, failure

#: brackets of a descriptor may nest so deeply; each level of a tensor takes one
DEPTH = 200
#: the codecs of Zarr that are allowed: those that encode nothing but numbers
CODECS = {"bytes", "transpose", "blosc", "gzip", "zstd", "crc32c"}
#: the keys of drafts of the standard with those of the standard, and the version in drafts
DRAFT = {"tensor": "custom", "level_kind": "level_desc"}
DRAFT_VERSION = "0.1"


@contextmanager
def opened(file: Path) -> Iterator[binsparse.BinsparseContainer]:
    """A container to read from a file. Raises ValueError for a damaged one, whatever libraries raise."""
    try:
        if file.suffix == ".zarr":
            yield Zarr(_zarr_group(file, "r"), file)
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as archive:
                yield Npz(archive, file)
        else:
            with h5py.File(file, "r") as group:
                yield Hdf5(group, file)
    except (KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from None


@contextmanager
def created(out: Any, suffix: str) -> Iterator[binsparse.BinsparseContainer]:
    """A container to write to an open file or, for `.zarr`, a folder."""
    if suffix == ".zarr":
        yield Zarr(_zarr_group(out, "w"))
    elif suffix == ".npz":
        arrays: dict[str, np.ndarray] = {}
        yield Npz(arrays)
        np.savez(out, **arrays)  # type: ignore[arg-type]
    else:  # the format of HDF5 1.8, whose headers have checksums
        with h5py.File(out, "w", libver=("v108", "v108")) as group:
            yield Hdf5(group)


class Checked(binsparse.BinsparseContainer):
    """A container that names its file in messages; subclasses read its descriptor and an `_array`."""

    _text: Callable[[], str]
    _array: Callable[[str], np.ndarray]

    def __init__(self, content: Any, path: Any = None):
        super().__init__(content)
        self.path = path

    def _read_header(self) -> dict[str, Any]:
        return checked_header(self._text(), self.path)

    def _read_buffer(self, key: str) -> np.ndarray:
        """An array as a vector. Raises ValueError unless it holds numbers of the descriptor's kind."""
        array = self._array(key)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"`{key}` is no array of numbers")
        told = str(self.read_header()["data_types"].get(key))
        if array.dtype.kind == "f" and "float" not in told:
            raise ValueError(f"`{key}` holds {array.dtype}, not {told}")
        return array.reshape(-1)


class Hdf5(Checked, binsparse.HDF5BinsparseContainer):
    """An HDF5 file. Links and external storage are refused: they would read other files."""

    def _text(self) -> str:
        text = self.group.attrs.get("binsparse")
        if text is None:
            raise ValueError("it is no Binsparse file: it has no attribute `binsparse`")
        return text if isinstance(text, str) else bytes(text).decode()

    def _write_header(self, value: dict[str, Any]) -> None:
        # a text of fixed length is in a header with a checksum, so damage is found; in another text HDF5
        # may read damage forever
        self.group.attrs["binsparse"] = np.bytes_(json.dumps({"binsparse": value}, indent=2))

    def _array(self, key: str) -> np.ndarray:
        link = self.group.get(key, getlink=True)
        if link is None:
            raise ValueError(f"it has no array `{key}`")
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"`{key}` is a link")
        stored = self.group[key]
        if not isinstance(stored, h5py.Dataset) or stored.shape is None:
            raise ValueError(f"`{key}` is no array of numbers")
        if stored.external or stored.is_virtual:
            raise ValueError(f"`{key}` is kept in other files")
        check_memory(f"what {self.path} holds", stored.size * max(stored.dtype.itemsize, 8))
        return stored[()]


class Npz(Checked, binsparse.NPZBinsparseContainer):
    """A NumPy archive, or a dictionary of arrays that will be written to one."""

    def _text(self) -> str:
        return str(self._array("binsparse").item())

    def _array(self, key: str) -> np.ndarray:
        if key not in self.file:
            raise ValueError(f"it has no array `{key}`")
        check_memory(f"what {self.path} holds", self.file.zip.getinfo(f"{key}.npy").file_size)
        return self.file[key]


def _zarr_group(folder: Path, mode: Any) -> Any:
    try:
        import zarr
    except ImportError:
        what = "read" if mode == "r" else "write"
        why = "it takes the library zarr, which is not installed"
        raise failure(what, folder, why, hint="pip install finchlang[zarr]") from None
    for text in folder.rglob("zarr.json"):
        check_depth(text.read_text())
    return zarr.open_group(zarr.storage.LocalStore(folder), mode=mode, zarr_format=3)


class Zarr(Checked, binsparse.ZarrBinsparseContainer):
    def _text(self) -> str:
        return json.dumps(self.group.attrs.asdict().get("binsparse"))

    def _array(self, key: str) -> np.ndarray:
        stored = self.group.get(key)
        if stored is None or not hasattr(stored, "chunks"):
            raise ValueError(f"it has no array `{key}`")
        unknown = {codec.to_dict()["name"] for codec in stored.metadata.codecs} - CODECS
        if unknown:
            raise ValueError(f"`{key}` is encoded as {', '.join(sorted(unknown))}")
        entries = max(math.prod(stored.shape), math.prod(stored.chunks))
        check_memory(f"what {self.path} holds", entries * max(stored.dtype.itemsize, 8))
        return stored[...]


def checked_header(text: str, file: Any) -> dict[str, Any]:
    """The descriptor in the standard's keys. Raises FinchError "type" if complex, else ValueError."""
    check_depth(text)
    found = json.loads(text, object_pairs_hook=lambda p: {DRAFT.get(k, k): v for k, v in p})
    header = found.get("binsparse") if isinstance(found, dict) else None
    if not isinstance(header, dict):
        raise ValueError("its descriptor is not one of Binsparse")
    if header.get("version") == DRAFT_VERSION:
        header["version"] = binsparse.BINSPARSE_VERSION
    shape = header.get("shape")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("its shape is no list of whole numbers from 0")
    if "complex[" in str(header.get("data_types")):
        raise FinchError("type", f"{file} holds complex numbers, which are no element type")
    return header


def check_depth(text: str) -> None:
    """Raises ValueError if brackets in JSON nest too deeply: its reader would overflow the C stack."""
    depth = deepest = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', text, re.DOTALL):
        depth += (found[0] in "[{") - (found[0] in "]}")
        deepest = max(deepest, depth)
    if deepest > DEPTH:
        raise ValueError(f"its descriptor is nested more than {DEPTH} deep")
