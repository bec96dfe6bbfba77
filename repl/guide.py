"""What stands around the steps of a lowering: chapters, comments of the residual's lines, pictures
of the tensors, and sentences on the whole and on what is left."""

from __future__ import annotations

from typing import Any

import numpy as np

from finchlang.base.errors import number_of
from finchlang.calls.arguments import VALUE
from finchlang.calls.runner import KernelEvent
from finchlang.host import ir
from finchlang.host.engine import Applied, EventKind
from finchlang.levels.layout import Coordinate, Offsets, arrays
from finchlang.syntax import nodes as ast
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.tensor import Scalar

from .live_listing import WatchingHost
from .tensor_picture import tensor_svg

#: the most rows and columns of a grid
SIDE = 16


class Chapters:
    """The chapters of staging: in which loop a step is, and in which of the parts it is cut into."""

    def __init__(self) -> None:
        self._open: dict[int, str] = {}
        self._is_inside = False

    def of(self, applied: Applied) -> str:
        """The chapter of a step; steps are given in order."""
        self._open = {d: name for d, name in self._open.items() if d <= applied.depth}
        outside = "end" if self._is_inside else "start"
        name = self._open[max(self._open)] if self._open else outside
        self._is_inside = self._is_inside or bool(self._open)
        if isinstance(applied.before, ast.Loop):
            own = f"loop over {applied.before.index.name}"
            if _name(name) != own:
                self._open[applied.depth] = name = own
        if applied.kind == EventKind.PREMISE and applied.name in _PARTS:
            self._open[applied.depth + 1] = f"{_name(name)}: {_PARTS[applied.name][0]}"
        elif applied.name in _PARTS:
            self._open[applied.depth] = name = f"{_name(name)}: {_PARTS[applied.name][1]}"
        return name


#: the parts that rules cut loops into: that of their premise, and what comes after it
_PARTS = {"Sequence": ("first part", "next part")}
_PARTS |= dict.fromkeys(("StepperNext", "Jumper"), ("up to an entry", "next entry"))


def _name(chapter: str) -> str:
    return chapter.partition(":")[0]


class Guide:
    """What is said of a kernel besides its steps. `tensors` are its tensors with their pictures, and with
    the positions of the leaf that a run has read."""

    def __init__(self, event: KernelEvent):
        self.event = event
        self.tensors: list[dict[str, Any]] = []
        self._roles: dict[ir.Buffer, tuple[str, Any, bool]] = {}
        bounds = event.compiled.staged.bounds
        for bound in bounds:
            found: list[Any] = []
            for level in bound.level.levels():
                parts = {part.name: part for part in arrays(level.layout)}
                found += [(bound.name, parts.get(name), level.is_leaf) for name, _ in level.arrays]
            self._roles |= dict(zip(bound.buffers, found, strict=True))
        self._bounds = {bound.name: bound for bound in bounds}

    def watched(self, host: WatchingHost) -> None:
        """Take over what a run has read, and draw the tensors as they are after it."""
        given = self.event.given[0] if self.event.given else []
        names = list(self.event.compiled.signature.tensors)
        for name, argument in zip(names, given, strict=False):
            tensor = as_tensor(argument[VALUE])
            if tensor is None or isinstance(tensor, Scalar) or not 1 <= tensor.order <= 2:
                continue
            bound = self._bounds[name]
            leaf = bound.buffers[-1] if bound.buffers else None
            kept = [host.reads[b] for b in bound.buffers if b is leaf and b in host.reads]
            own = self._drawn(name, tensor, bound)
            visited = list(dict.fromkeys(kept[0])) if kept else []
            places = int(np.prod(tensor.shape))
            counts = {"visited": len(visited), "places": places, "stored": tensor.countstored()}
            own |= {"reads": visited[:400], "whole": host.is_whole, **counts}
            self.tensors.append(own)

    def _drawn(self, name: str, tensor: Any, bound: Any) -> dict[str, Any]:
        is_drawn = max(tensor.shape, default=0) <= SIDE and not bound.written
        names = [buffer.name for buffer in bound.buffers]
        return {
            "name": name,
            "format": str(self.event.compiled.formats.get(name, bound.level)),
            "svg": tensor_svg(tensor, names) if is_drawn else "",
            "written": bound.written,
            "leaf": names[-1] if names else "",
        }

    # ------------------------------------------------------------------------------ the residual

    def comment(self, line: str, about: Any) -> str:
        """What a line of the residual does, in a few words; empty if it says that itself."""
        match about:
            case ir.Load() | ir.Store() | ir.Grow() | ir.Room() | ir.Fill():
                return self._of_buffer(about)
            case ir.Search():
                return "search for the first entry at or after this place"
            case ir.Fail():
                return "stop with an error: sizes or places do not agree"
            case ir.Var():
                name = about.name.rpartition("_")[0] or about.name
                return "for each stored entry" if name == "q" else f"for each `{name}`"
        return "while there are entries left" if line.lstrip().startswith("while") else ""

    def _of_buffer(self, statement: Any) -> str:
        none = statement.buffer.name, None, False
        name, part, is_leaf = self._roles.get(statement.buffer, none)
        is_load = isinstance(statement, ir.Load)
        match statement, part:
            case ((ir.Load() | ir.Store()), Offsets()):
                what = "where the entries of `{}` here begin or end"
                return (what if is_load else "note where the entries of `{}` end").format(name)
            case ((ir.Load() | ir.Store()), Coordinate()):
                return f"the place of {'this' if is_load else 'a new'} entry of `{name}`, from 0"
            case ((ir.Load() | ir.Store()), _):
                return f"{'the value in' if is_load else 'write to'} `{name}`" if is_leaf else ""
            case ir.Fill(), _:
                return f"set all of `{name}` to its fill"
        return f"make room in `{name}`"

    # ------------------------------------------------------------------------------ sentences

    def overview(self, steps: list[dict[str, Any]], residual: list[Any]) -> dict[str, Any]:
        """What the whole page shows, and its parts with their steps."""
        passes = sum(step["kind"] == "pass" for step in steps)
        lead = "These steps turn your loops over all places into loops over stored entries."
        last, lines = len(steps) - 1, number_of(len(residual), "line")
        parts = [
            ["Prepare", 1, passes, "Sizes and the order of loops are settled."],
            ["Lower", passes + 1, last - 1, "Each step applies one rule."],
            ["Run", last, last, f"{lines} are left."],
        ]
        return {"say": lead, "parts": parts}

    def result(self, residual: list[Any]) -> str:
        """What is left, and how many entries a run has visited."""
        heads = [line[0].split(None, 1)[0] for line in residual if line[0].strip()]
        loops = sum(head in ("for", "while") for head in heads)
        parts = f"{number_of(len(residual), 'line')} with {number_of(loops, 'loop')}"
        told = [f"This is the program that is left to run: {parts}."]
        for t in self.tensors:
            if t["written"] or not t["visited"] or t["stored"] == t["places"]:
                continue
            least, places = "" if t["whole"] else "at least ", number_of(t["places"], "place")
            read = f"It reads {least}{t['visited']} of the {places} of `{t['name']}`"
            told.append(f"{read}, of which {t['stored']} are stored.")
        return " ".join(told)
