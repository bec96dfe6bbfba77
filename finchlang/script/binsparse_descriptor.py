"""The descriptor of a Binsparse file (Binsparse 0.1): its shape, its levels, the types of its arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

VERSION = "0.1"
#: a level of the standard: its kind and how many dimensions it has
DENSE, SPARSE = "dense", "sparse"
Nest = tuple[tuple[str, int], ...]

_DENSE, _SPARSE, _COORDINATES = (DENSE, 1), (SPARSE, 1), (SPARSE, 2)
#: the standard's names for nests of levels, outermost first, over elements, and their `transpose`
NAMED: dict[str, tuple[Nest, tuple[int, ...]]] = {
    "DVEC": ((_DENSE,), (0,)),
    "CVEC": ((_SPARSE,), (0,)),
    "DMATR": ((_DENSE, _DENSE), (0, 1)),
    "DMATC": ((_DENSE, _DENSE), (1, 0)),
    "CSR": ((_DENSE, _SPARSE), (0, 1)),
    "CSC": ((_DENSE, _SPARSE), (1, 0)),
    "DCSR": ((_SPARSE, _SPARSE), (0, 1)),
    "DCSC": ((_SPARSE, _SPARSE), (1, 0)),
    "COOR": ((_COORDINATES,), (0, 1)),
    "COOC": ((_COORDINATES,), (1, 0)),
}
ALIASES = {"DMAT": "DMATR", "COO": "COOR"}
#: the names of element types; a Bool is kept in a byte
TYPES = {
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{"float32": "float32", "float64": "float64", "bint8": "bool"},
}
TYPE_NAMES = {np.dtype(name): text for text, name in TYPES.items()}
STRUCTURES = tuple(
    f"{kind}_{half}" for kind in ("symmetric", "skew_symmetric") for half in ("lower", "upper")
)


@dataclass
class Descriptor:
    """What the JSON says. `nest` lists the levels, outermost first, which have the dimensions in the
    order `transpose`: dimension k of the nest is dimension `transpose[k]` of the tensor."""

    shape: tuple[int, ...]
    nest: Nest
    transpose: tuple[int, ...]
    number_of_stored_values: int
    data_types: dict[str, str] = field(default_factory=dict)
    fill: bool = False
    structure: str | None = None
    index_base: int = 0

    def sizes(self) -> list[tuple[int, ...]]:
        """The sizes of each level's dimensions, and which they are counted from the outermost."""
        sizes = [self.shape[k] for k in self.transpose]
        ends = np.cumsum([0, *(rank for _, rank in self.nest)]).tolist()
        return [tuple(sizes[a:b]) for a, b in pairwise(ends)]


def parse_descriptor(text: str) -> Descriptor:
    """Read a descriptor. Raises ValueError that says what is wrong with it."""
    try:
        header = json.loads(text)
        header = header.get("binsparse", header)
        major = str(header["version"]).partition(".")[0]
        if major != VERSION.partition(".")[0]:
            raise ValueError(f"it has version {header['version']} of Binsparse, not {VERSION}")
        # what the standard calls `custom` was `tensor` in a draft, `level_desc` was `level_kind`
        custom = header.get("custom", header.get("tensor"))
        shape = tuple(header["shape"])
        nest, transpose = _levels(header.get("format", "custom"), custom, len(shape))
        structure = header.get("structure", "general")
        found = Descriptor(
            shape=shape,
            nest=nest,
            transpose=transpose,
            number_of_stored_values=header["number_of_stored_values"],
            data_types=dict(header["data_types"]),
            fill=bool(header.get("fill", False)),
            structure=None if structure == "general" else structure,
            index_base=header.get("index_base", 0),
        )
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"its descriptor lacks or misuses {error}") from None
    _check(found)
    return found


def _levels(
    name: str, custom: dict[str, Any] | None, dimensions: int
) -> tuple[Nest, tuple[int, ...]]:
    name = ALIASES.get(name, name)
    if name in NAMED:
        return NAMED[name]
    if name != "custom" or custom is None:
        raise ValueError(f"its format `{name}` is not known")
    nest: list[tuple[str, int]] = []
    level = custom["level"]
    while (kind := level.get("level_desc", level.get("level_kind"))) != "element":
        if kind not in (DENSE, SPARSE) or type(level["rank"]) is not int or level["rank"] < 1:
            raise ValueError(f"its level `{kind}` of rank {level.get('rank')} is not known")
        nest.append((kind, level["rank"]))
        level = level["level"]
    return tuple(nest), tuple(custom.get("transpose") or range(dimensions))


def _check(found: Descriptor) -> None:
    order = sum(rank for _, rank in found.nest)
    if any(type(n) is not int or n < 0 for n in (*found.shape, found.number_of_stored_values)):
        raise ValueError("its sizes are no whole numbers from 0")
    if len(found.shape) != order:
        raise ValueError(f"its shape has {len(found.shape)} dimensions, its levels {order}")
    if any(type(k) is not int for k in found.transpose) or sorted(found.transpose) != [
        *range(order)
    ]:
        raise ValueError(f"its transpose {list(found.transpose)} is no order of the dimensions")
    if found.index_base not in (0, 1):
        raise ValueError(f"its indices count from {found.index_base}")
    if found.structure is not None:
        if found.structure not in STRUCTURES:
            raise ValueError(f"its structure `{found.structure}` is not known for real numbers")
        if order != 2 or found.shape[0] != found.shape[1]:
            raise ValueError(f"a {found.structure} tensor is a square matrix")


def write_descriptor(descriptor: Descriptor) -> str:
    """The JSON of a descriptor, with the standard's name for its levels where it has one."""
    header: dict[str, Any] = {
        "version": VERSION,
        "format": "custom",
        "shape": list(descriptor.shape),
        "number_of_stored_values": descriptor.number_of_stored_values,
        "data_types": descriptor.data_types,
    }
    levels = (descriptor.nest, descriptor.transpose)
    known = [name for name, meaning in NAMED.items() if meaning == levels]
    if known:
        header["format"] = known[0]
    else:
        level: dict[str, Any] = {"level_desc": "element"}
        for kind, rank in reversed(descriptor.nest):
            level = {"level_desc": kind, "rank": rank, "level": level}
        header["custom"] = {"level": level, "transpose": list(descriptor.transpose)}
    if descriptor.fill:
        header["fill"] = True
    return json.dumps({"binsparse": header}, indent=2)
