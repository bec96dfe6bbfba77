"""`finch explain FILE --html OUT`: the lowering of a file's kernels as a page to step through. Its data are
the steps of passes and of staging, with places in the source, looplets, the growing residual, and the
first values in a run on a kernel's data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from inspect import cleandoc
from typing import Any

from finchlang.base.errors import FinchError, Source, Span
from finchlang.base.paths import replace_text
from finchlang.calls.runner import KernelEvent
from finchlang.functions.unit_rules import ALL
from finchlang.host.engine import Applied, EventKind, Machine, Rule, Step
from finchlang.host.executing import run_residual
from finchlang.host.ir import Const
from finchlang.levels.looplets import Looplet
from finchlang.normalize.pass_list import PASSES
from finchlang.rules.base.state import State
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty

from .guide import Chapters, Guide
from .live_listing import Enough, GrowingHost, WatchingHost
from .notes import Notes
from .sentences import LOOPLETS, by_step, is_nested, sentence
from .trace_printer import Part, changed, index_of as coordinate_of, part_of, shown, spans_of

#: the most kernels of a page
KERNELS = 40
#: the most steps that are shown, of staging and of passes together
STEPS = 1500
#: the most values that are looked at in the run on the data
LIMIT = 20_000
#: rules whose steps store a result, and rules whose steps belong to the step before them
STORING, FOLDED = ("Assign",), ("Simplify", "Extent", "Block")
#: the rules by the names of their steps
BY_STEP = by_step(ALL)
#: the most entries of an array that are shown
ENTRIES = 16


class Table:
    """Distinct items, numbered in order."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._known: dict[Any, int] = {}

    def number(self, key: Any, item: Any) -> int:
        number = self._known.setdefault(key, len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number


class Recording:
    """Records a kernel's steps. Lines of terms, terms, looplets and places in the source are stored once
    each, in tables, and referred to by number: most terms share most of their lines. With `reads_data` the
    kernel is run for its first values, on arguments that are as they were given."""

    def __init__(self, event: KernelEvent, reads_data: bool = True):
        self.event = event
        self.lines, self.terms, self.parts, self.places = Table(), Table(), Table(), Table()
        self.steps: list[dict[str, Any]] = []
        self.residual: list[list[Any]] = []
        self.abouts: list[Any] = []
        #: a comment for each line of the residual
        self.notes: list[str] = []
        self.left_out = 0
        #: the rules that are being applied, innermost last, each with the number of its last step
        self._applying: list[list[Any]] = []
        self._applied: list[Any] | None = None
        self._premises: list[tuple[int, list[Any]]] = []
        self._left: tuple[ast.Node | None, int] = None, 0
        span = event.source.span
        # a kernel of an array expression stands in no text: it is shown as it would be written
        self.source = span.source if span is not None else Source(pretty(event.source.program))
        self._host = GrowingHost(self._grown)
        self._chapters = Chapters()
        self.arrays: list[list[Any]] = []
        self.guide = Guide(event)
        self._passes()
        self._own = event.stage(self._host, self._step, self._noted)
        self._step_of_lines()
        if reads_data:
            self._values()
        self._key_steps()
        self._end()

    @property
    def key_sentences(self) -> list[str]:
        kinds = "step", "premise", "end"
        return [s["say"] for s in self.steps if s.get("key") and s["kind"] in kinds]

    def data(self) -> dict[str, Any]:
        """The recording for JSON, as `explain.js` reads it."""
        span = self.event.source.span
        formats = self.event.compiled.formats.items()
        return {
            "source": self.source.text.split("\n"),
            "place": None if span is None else [span.line, span.end_line],
            "formats": [[name, str(format)] for name, format in formats],
            "lines": self.lines.items,
            "terms": self.terms.items,
            "parts": self.parts.items,
            "places": self.places.items,
            "steps": self.steps,
            "residual": self.residual,
            "notes": self.notes,
            "arrays": self.arrays,
            "tensors": self.guide.tensors,
            "leftOut": self.left_out,
        }

    # ------------------------------------------------------------------------------ passes, steps

    def _passes(self) -> None:
        decided: dict[str, list[str]] = {}
        for name, what in self.event.decisions:
            decided.setdefault(name, []).append(what)
        before: ast.Node | None = None
        says = {name: said for name, _, said in PASSES}
        says["unit"] = "The loop or function, with its kernels, is one program."
        for name, program in self.event.passes:
            if before is None:
                whole: dict[str, Any] = {"kind": "overview", "chapter": "overview", "key": True}
                self._add("Overview", 0, program, program, **whole, lit=[])
            if before is not None and pretty(program) == pretty(before) and name not in decided:
                continue
            first = program if before is None else before
            said: dict[str, Any] = {"told": "\n".join(decided.get(name, ())), "say": says[name]}
            self._add(name, 0, first, program, kind="pass", chapter="normal form", **said)
            before = program

    def _step(self, applied: Applied) -> None:
        if applied.kind == EventKind.EXPRESSION:
            return
        # a rule without steps of its own is reported by the engine after it was applied (`_noted`)
        by, self._applied = self._applied or self._applying[-1], None
        is_premise = applied.kind == EventKind.PREMISE
        mark = "" if applied.at is None else str(applied.at)
        kind, law = "premise" if is_premise else "step", applied.law and f"The law: {applied.law}."
        terms = applied.before, applied.after
        said: dict[str, Any] = {"kind": kind, "told": law, "at": mark}
        said |= {"say": sentence(applied, BY_STEP), "chapter": self._chapters.of(applied)}
        nests = [sum(map(is_nested, trees.accesses(term))) for term in terms]
        # whether the compiler put it in, as a copy
        is_own = not all(a.span for a in trees.accesses(terms[0]))
        is_key = not is_own and (applied.name in STORING or nests[1] > nests[0])
        said |= {"fold": applied.name in FOLDED, "own": is_own, "key": is_key}
        by[1] = self._add(applied.name, applied.depth, *terms, **said)
        if is_premise:
            self._premises.append((by[1], by))

    def _add(self, name: str, depth: int, before: ast.Node, after: ast.Node, **more: Any) -> int:
        """Record a step with what `more` there is to say of it; gives the number of the last one."""
        if len(self.steps) >= STEPS:
            self.left_out += 1
            return len(self.steps) - 1
        places: list[int] = []
        for parts in changed(before, after), [before], [after]:
            spans = [span for node in parts for span in spans_of(node)]
            places = places or [p for span in spans if (p := self._place(span)) >= 0]
        step = {"rule": name, "depth": depth, "lit": list(dict.fromkeys(places))}
        step |= {"before": self._term(before), "after": self._term(after)}
        said = {what: value for what, value in more.items() if value not in ("", False)}
        self.steps.append({**step, "grown": len(self.residual), **said})
        return len(self.steps) - 1

    def _place(self, span: Span) -> int:
        if span.source is not self.source:
            return -1
        place = [span.line, span.column, span.end_line, span.end_column]
        return self.places.number(tuple(place), place)

    def _term(self, term: ast.Node) -> int:
        """The number of a term. The last one is kept: most steps begin with what the step before left."""
        if self._left[0] is not term:
            self._left = term, self._spelled(term)
        return self._left[1]

    def _spelled(self, term: ast.Node) -> int:
        text = shown(term)
        lines = [self.lines.number(line, line) for line in text.splitlines()]
        accesses: dict[int, list[Any]] = {}
        for access, region in _accesses(term, {}):
            if access.span is not None and (place := self._place(access.span)) >= 0:
                accesses.setdefault(place, [place, *self._access(access, region)])
        found = [lines, list(accesses.values())]
        return self.terms.number(repr(found), found)

    def _access(self, access: ast.Access, region: list[str] | None) -> list[Any]:
        if not isinstance(access.tensor, Looplet):
            return [shown(access), "", None, -1]
        index = access.indices[-1] if access.indices else None
        part = part_of(access.tensor, coordinate_of(access))
        name = index.name if isinstance(index, ast.Index) else ""
        at = region if name else [shown(index)] if index is not None else None
        return [shown(access), name, at, self._part(part)]

    def _part(self, part: Part) -> int:
        inner = [self._part(p) for p in part.parts]
        found = [part.kind, part.text, inner, part.start, part.stop, int(part.seeks)]
        return self.parts.number(part, found)

    # -------------------------------------------------------------------- the residual, and values

    def _noted(self, rule: Rule) -> Rule:
        """A rule that notes while it is applied: lines recorded meanwhile are known to be its."""

        def apply(machine: Machine, term: ast.Node, state: State) -> Step | None:
            self._applying.append(mine := [rule.name, -1])
            found = rule.apply(machine, term, state)
            self._applying.pop()
            if found is not None and not rule.steps:
                self._applied = mine
            return found

        return replace(rule, apply=apply)

    def _grown(self, line: str) -> None:
        self.residual.append([line, self._applying[-1] if self._applying else ["", -1]])
        self.abouts.append(self._host.about)

    def _step_of_lines(self) -> None:
        """Give each line the rule and step that wrote it, the end of a block those that began it."""
        open_blocks: dict[int, list[Any]] = {}
        for line in self.residual:
            text, by = line
            depth = len(text) - len(text.lstrip())
            word = text.strip().partition(" ")[0]
            if word in ("end", "else"):
                by = open_blocks.get(depth, by)
            else:
                open_blocks[depth] = by
            line[1:] = by
        self.steps[-1]["grown"] = len(self.residual)  # with the lines written after the last step
        for at, by in self._premises:  # a premise is shown at the places of its rule's last step
            self.steps[at]["lit"] = self.steps[by[1]]["lit"]

    def _key_steps(self) -> None:
        """Mark the steps that decide how much is done: those that leave a loop or store a result, those
        that give a tensor its structure, and passes that decided something; of equal ones the first."""
        for line in self.residual:
            if line[0].split(None, 1)[:1] in (["for"], ["while"]) and line[2] >= 0:
                at = line[2]  # of a rule that takes several steps the last one is known
                wanted = line[1], self.steps[at]["depth"]
                while at > 0 and (self.steps[at]["rule"], self.steps[at]["depth"]) != wanted:
                    at -= 1
                self.steps[at]["key"] = True
        seen: set[str] = set()
        for step in self.steps:
            is_key = step.pop("key", False) or bool(step.get("told")) and step["kind"] == "pass"
            is_own = step.pop("own", False) or step["rule"] in FOLDED
            if is_key and step.get("say") not in seen and not is_own:
                step["key"] = True
                seen.add(step.get("say", ""))

    def _end(self) -> None:
        """The last step: what is left, and how much of the tensors a run of it visits."""
        last = dict(self.steps[-1], rule="Result", kind="end", depth=1, key=True, chapter="end")
        last.pop("at", None)
        last |= {"before": last["after"], "say": self.guide.result(self.residual)}
        self.steps.append(last)
        self.steps[0] |= self.guide.overview(self.steps, self.residual)

    def _values(self) -> None:
        host = WatchingHost(LIMIT)
        residual = self.event.compiled.staged.recorded(self._host, self._own)
        with suppress(Enough, FinchError), self.event.memory() as given:
            run_residual(residual, *given, host)
            host.is_whole = True
        self.guide.watched(host)
        for line, about in zip(self.residual, self.abouts, strict=True):
            if about is not None:
                values, times = host.of(about)
                if times:
                    line.extend([[_number(v) for v in values], times])
            self.notes.append(self.guide.comment(line[0], about))
        for buffer, array in host.arrays.items():
            first = [_number(v) for v in array[:ENTRIES].tolist()]
            is_new = int(buffer in host.changed)
            self.arrays.append([buffer.name, str(buffer.type), first, len(array), is_new])


def _number(value: Any) -> str:
    if isinstance(value, float):
        value = float(f"{value:.6g}")
    return pretty(ast.Literal(value)) if isinstance(value, (bool, int, float)) else str(value)


def _accesses(node: ast.Node, regions: dict[str, list[str]]) -> Iterator[tuple[ast.Access, Any]]:
    if isinstance(node, ast.Loop):
        extent = node.extent
        ends = [extent.start, extent.stop] if isinstance(extent, ast.Extent) else []
        regions = {**regions, node.index.name: [*map(_end, ends)]}
    if isinstance(node, ast.Define):
        regions = {**regions, node.variable.name: [_end(node.value)]}
    if isinstance(node, ast.Access):
        last = node.indices[-1] if node.indices else None
        yield node, regions.get(last.name) if isinstance(last, ast.Index) else None
    for child in trees.children(node):
        yield from _accesses(child, regions)


def _end(node: ast.Node) -> str:
    if isinstance(node, ast.Value) and isinstance(node.expr, Const):
        return str(node.expr.value)
    text = shown(node)
    return text[1:-1] if text.startswith("(") and text.count("(") == 1 else text


class Page(Notes):
    """Records each kernel when it first runs."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []

    def kernel(self, event: KernelEvent) -> None:
        if len(self.kernels) < KERNELS:
            self.kernels.append(Recording(event).data())

    def text(self, name: str) -> str:
        used = {step["rule"] for kernel in self.kernels for step in kernel["steps"]}
        rules = [(name, rule) for name, rule in BY_STEP.items() if name in used]
        laws = {n: {"law": cleandoc(r.statement), "derived": r.is_derived} for n, r in rules}
        data = {"name": name, "kernels": self.kernels, "rules": laws, "looplets": LOOPLETS}
        # no `<` in the data, which could end the script element
        packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        template, script = (files(__package__) / f"explain.{kind}" for kind in ("html", "js"))
        page = template.read_text("utf-8").replace("@SCRIPT@", script.read_text("utf-8"))
        return page.replace("@DATA@", packed)

    def write(self, name: str, path: str) -> None:
        """Write the page to a file, which is replaced as a whole. Raises FinchError "I/O"."""
        replace_text(path, self.text(name))
