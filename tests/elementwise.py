"""Hypothesis strategy for programs over one dimension in which operands of any formats, fills and
protocols meet in nested operators: what unions of their structures have to do with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from finchlang.tensors.tensor import Tensor

LEVELS = (
    *("Dense", "SparseList", "SparseByteMap", "SparseHash", "SparseCOO{1}", "SparsePinpoint"),
    *("SparseBand", "SparseBlockList", "RunList", "PackBits", "SparseRunList", "SparseInterval"),
)
#: levels that store a value for a whole run
OF_RUNS = ("RunList", "PackBits", "SparseRunList", "SparseInterval")
#: levels over which there is no Pattern
COMPLETE = ("Dense", "RunList", "PackBits", "SparseBand")
OUTPUTS = ("SparseList", "SparseByteMap", "SparseBlockList", "SparseRunList")
VALUES = (-3.0, -1.0, 0.0, 1.0, 2.0, 4.0)

Draw = Callable[[Any], Any]


@dataclass
class Elementwise:
    """A kernel, and what its names are bound to; its outputs are X and Y."""

    text: str
    tensors: dict[str, Tensor]

    def __repr__(self) -> str:
        data = [f"{n}: {t.format} = {t.to_numpy().tolist()}" for n, t in self.tensors.items()]
        return "\n".join([self.text, *data])


def _array(draw: Draw, level: str, size: int, fill: Any, values: Any) -> np.ndarray:
    array = np.full(size, fill)
    if level == "SparsePinpoint":
        if size and draw(st.booleans()):
            array[draw(st.integers(0, size - 1))] = draw(values)
        return array
    at = 0
    while at < size:  # a gap, then a run or a block
        at += draw(st.integers(0, 3))
        length = draw(st.integers(1, 3))
        whole = draw(values)
        for k in range(at, min(size, at + length)):
            array[k] = whole if level in OF_RUNS else draw(values)
        at += length
        if level == "SparseInterval":
            break
    return array


def _operand(draw: Draw, name: str, size: int, levels: tuple[str, ...]) -> tuple[str, str, Tensor]:
    """An access, its kind (number or bool) and its tensor."""
    level = draw(st.sampled_from(levels))
    if level not in COMPLETE and draw(st.integers(0, 4)) == 4:
        kind, leaf, other = "bool", "Pattern()", "false"
        array = _array(draw, level, size, False, st.just(True))
    else:
        fill = draw(st.sampled_from((0.0,) * 6 + (1.0, 2.0)))
        kind, leaf, other = "number", f"Element({fill})", draw(st.sampled_from(("0.0", "1.0")))
        array = _array(draw, level, size, fill, st.sampled_from(VALUES))
    tensor = Tensor.from_numpy(array, f"{level}({leaf})")
    protocol = draw(st.sampled_from((None,) * 12 + ("walk", "gallop", "follow")))
    index = "i" if protocol is None or level == "Dense" else f"{protocol}(i)"
    access = f"{name}[{index}]"
    if draw(st.integers(0, 15)) == 15:
        access = f"coalesce({name}[~(i + {draw(st.integers(1, 2))})], {other})"
    return access, kind, tensor


UNARY = ("sqrt(abs({}))", "abs({})", "(-{})", "({} * 2.0)", "({} + 1.0)", "({})^2")
BINARY = (
    *("({} + {})", "({} + {})", "({} * {})", "({} * {})", "({} - {})"),
    *("min({}, {})", "max({}, {})"),
)


def _number(draw: Draw, leaves: list[tuple[str, str]]) -> str:
    if len(leaves) == 1:
        ((access, kind),) = leaves
        value = access if kind == "number" else f"({access} * {draw(st.sampled_from((1, 2)))})"
    else:
        at = draw(st.integers(1, len(leaves) - 1))
        if draw(st.integers(0, 9)) == 9:
            condition, second = _bool(draw, leaves[:at]), _number(draw, leaves[at:])
            return f"ifelse({condition}, {second}, {draw(st.sampled_from(('0.0', '1.0')))})"
        first, second = _number(draw, leaves[:at]), _number(draw, leaves[at:])
        value = str(draw(st.sampled_from(BINARY))).format(first, second)
    return str(draw(st.sampled_from(UNARY))).format(value) if draw(st.booleans()) else value


def _bool(draw: Draw, leaves: list[tuple[str, str]]) -> str:
    if len(leaves) == 1:
        ((access, kind),) = leaves
        if kind == "bool":
            return str(draw(st.sampled_from(("{}", "{}", "!({})")))).format(access)
        sign = draw(st.sampled_from(("!=", ">", "<=", "==")))
        return f"({access} {sign} {draw(st.sampled_from(('0.0', '1.0')))})"
    if draw(st.integers(0, 6)) == 6:
        return f"({_number(draw, leaves)} != 0.0)"
    at = draw(st.integers(1, len(leaves) - 1))
    first, second = _bool(draw, leaves[:at]), _bool(draw, leaves[at:])
    forms = ("({} && {})", "({} || {})", "xor({}, {})", "xor({}, {})")
    return str(draw(st.sampled_from(forms))).format(first, second)


@st.composite
def programs(draw: Draw, most: int = 4) -> Elementwise:
    """Programs of 2 to `most` operands."""
    size = draw(st.sampled_from((6, 4, 7, 2, 1, 0)))
    levels = draw(st.sampled_from((LEVELS, ("SparseList",), ("SparseList", "SparseBlockList"))))
    tensors, leaves = {}, []
    for name in "ABDEFGH"[: draw(st.sampled_from((3, 4, most, 2)))]:
        access, kind, tensors[name] = _operand(draw, name, size, levels)
        leaves.append((access, kind))
    declared, lines = [], []
    for name in "XY"[: draw(st.sampled_from((1, 1, 2)))]:
        read = draw(st.permutations(leaves))[: draw(st.sampled_from((most, 3)))]
        level = draw(st.sampled_from(OUTPUTS))
        if draw(st.integers(0, 2)) == 2:
            fill, leaf, value = "false", "Pattern()", _bool(draw, read)
        else:
            fill = draw(st.sampled_from(("0.0", "0.0", "0.0", "1.0")))
            leaf, value = f"Element({fill})", _number(draw, read)
        tensors[name] = Tensor(f"{level}({leaf})", size)
        declared.append(f"{name} .= {fill}")
        line = f"{name}[i] = {value}"
        if draw(st.integers(0, 9)) == 9:
            line = f"if {_bool(draw, [draw(st.sampled_from(leaves))])}\n{line}\nend"
        lines.append(line)
    text = "\n".join(["begin", *declared, "for i = _", *lines, "end", "end"])
    return Elementwise(text, tensors)
