"""A plain sentence for each step: its rule's template, with the program's names, regions and looplets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from finchlang.host.engine import Applied, EventKind, Rule
from finchlang.levels.looplets import AcceptRun, Lookup, Looplet
from finchlang.rules.base.context import accesses_in
from finchlang.syntax import nodes as ast, traversal as trees

from .trace_printer import Part, changed, index_of, part_of, shown

#: what a looplet of each kind is, for legends
LOOPLETS = {
    "run": "one value at every place of a range",
    "spike": "a run, then one entry at its end",
    "lookup": "an element at every place, read at once",
    "stepper": "pieces one after the other, each up to the next stored entry",
    "jumper": "a stepper that may leap to the place where another tensor has an entry",
    "sequence": "a few parts one after the other",
    "phase": "a part that covers only some places",
    "switch": "one of two, by a condition",
    "thunk": "something to load first, then another looplet",
    "acceptrun": "a place to write one value to a whole range at once",
}

#: a tensor's name in the name of an array, or of a part of it
_OF_ARRAYS = re.compile(r"(\w+?)_(?:acc_|new_)?(?:val|idx|ptr)\d*\[|(\w+)@")
#: texts of terms that are longer are not repeated in a sentence
SHORT = 64


def by_step(rules: Iterable[Rule]) -> dict[str, Rule]:
    """Rules by the names of their steps; a rule that has the name itself comes first."""
    found = [*rules][::-1]
    return {n: rule for rule in found for n in rule.steps} | {r.name: r for r in found}


def sentence(applied: Applied, rules: Mapping[str, Rule]) -> str:
    """What a step of one of the `rules` (`by_step`) does, in a plain sentence. A template has alternatives
    behind ` | `: one for each step of its rule, or for a premise, for what is left after it, and for when
    nothing is left."""
    rule = rules[applied.name]
    kinds = rule.says.split(" | ")
    if len(rule.steps) > 1:
        template = kinds[rule.steps.index(applied.name)]
    else:
        at = 0 if applied.kind == EventKind.PREMISE else 2 if ast.is_empty(applied.after) else 1
        template = kinds[min(at, len(kinds) - 1)]
    said = template.format_map(_Words(applied))
    return said[:1].upper() + said[1:]


class _Words(dict[str, str]):
    """The words of a template, made when they are asked for; `accesses` are those that the step is about,
    `parts` the parts of the term that it replaces."""

    def __init__(self, applied: Applied):
        super().__init__()
        self.before, self.after, self.law = applied.before, applied.after, applied.law
        self.parts = changed(applied.before, applied.after) or [applied.before]
        here = accesses_in(applied.before)
        there = {a.span: a for a in accesses_in(applied.after)}
        lost = [a for a in here if (b := there.get(a.span)) is None or b.tensor is not a.tensor]
        nested = [a for a in here if is_nested(a)]
        of_nested = [a for a in lost if is_nested(a)]
        self.accesses = of_nested or lost or nested or [*here]

    def __missing__(self, word: str) -> str:
        return _WORDS[word](self)

    def looplet(self) -> Part | None:
        return next((part for a in self.accesses if (part := _part(a)) is not None), None)

    def there(self) -> ast.Access | None:
        spans = {a.span for a in self.accesses[:1]}
        return next((a for a in accesses_in(self.after) if a.span in spans), None)


def is_nested(access: ast.Access) -> bool:
    """Whether a looplet stands in an access that is more than an element at each place."""
    tensor = access.tensor
    return isinstance(tensor, Looplet) and not isinstance(tensor, (Lookup, AcceptRun))


def _part(access: ast.Access) -> Part | None:
    return part_of(access.tensor, index_of(access)) if isinstance(access.tensor, Looplet) else None


def said(node: ast.Node) -> str:
    """A part of the program in the source's own words, between backticks."""
    if node.span is not None:
        return f"`{node.span.text}`"
    text = _text(node)
    if isinstance(node, ast.Access) and isinstance(node.tensor, Looplet):  # the compiler's own
        found = _OF_ARRAYS.search(text)
        return f"`{found[1] or found[2]}`" if found is not None else "the workspace"
    return f"`{text}`"


def _text(node: ast.Node) -> str:
    def own(access: ast.Node) -> ast.Node:
        is_own = isinstance(access, ast.Access) and access.span is not None
        return ast.Variable(access.span.text) if is_own and access.span is not None else access

    return " ".join(shown(trees.rewrite_bottom_up(own, node)).split())


#: what a looplet is, in words: those of its parts, its text (`t`) and its end
_KINDS = {
    "payload": "`{t}`",
    "run": "always {0}",
    "spike": "{0} up to an entry, and {1} there",
    "blocks": "block after block, each {0}",
    "lookup": "an element at each place, {0}",
    "acceptrun": "a range written at once, {0}",
    "switch": "{0} if `{t}`, else {1}",
    "shift": "{0}, moved by `{t}`",
    "phase": "{0}, up to `{end}`",
}
_JOINTS = {"sequence": "; then ", "choice": " or "}


def words(part: Part) -> str:
    inside = [words(p) for p in part.parts]
    if part.kind in ("stepper", "jumper"):
        spike = _without_thunks(part.parts[0])
        if spike.kind != "spike":
            return f"pieces in turn, each {inside[0]}"
        between, entry = map(words, spike.parts)
        return f"stored entries {entry} with {between} between them"
    if part.kind in _JOINTS:
        return _JOINTS[part.kind].join(inside)
    kind = "{0}" if part.kind == "phase" and not part.stop else _KINDS.get(part.kind, "{0}")
    return kind.format(*inside, t=part.text, end=part.stop)


def _without_thunks(part: Part) -> Part:
    return _without_thunks(part.parts[0]) if part.kind == "thunk" else part


# ----------------------------------------------------------------------------- words of templates


def _joined(accesses: list[ast.Access]) -> str:
    return " and ".join(dict.fromkeys(map(said, accesses))) or "the tensor"


def _is(w: _Words) -> str:
    access = w.there()
    if access is None:
        return "done"
    part = _part(access)
    return f"`{shown(access)}`" if part is None else words(part)


def _first(w: _Words) -> str:
    part = w.looplet()
    return words(part.parts[0]) if part is not None and part.parts else "what comes first"


def _of(kind: Any, pick: Callable[[Any], str], otherwise: str) -> Callable[[_Words], str]:
    """Words for the first node of a kind in the term, or in what is left of it."""

    def make(w: _Words) -> str:
        for term in (w.before, w.after):
            for node in trees.walk(term):
                if isinstance(node, kind):
                    return pick(node)
        return otherwise

    return make


def _region(w: _Words) -> str:
    loop = next(trees.find_all(w.after, ast.Loop), None)
    return "what is left" if loop is None else f"`{shown(loop.extent)}`"


def _condition(w: _Words) -> str:
    if isinstance(w.before, ast.Sieve):
        return f"`{_text(w.before.condition)}`"
    part = w.looplet()
    return f"`{part.text}`" if part is not None and part.kind == "switch" else "its condition"


def _case(w: _Words) -> str:
    """What Spike goes on with."""
    if isinstance(w.after, ast.Block):
        return "First comes the part before the entry, then the entry itself"
    access = w.there()
    is_before = access is not None and isinstance(access.tensor, Looplet)
    return "Here is the part before it" if is_before else "Here is the entry itself"


def _change(w: _Words) -> str:
    """What Simplify has done."""
    old = w.parts[0]
    if isinstance(old, ast.Define):
        return f"from here `{_text(old.variable)}` is written as its value, `{_text(old.value)}`"
    left = changed(w.after, w.before)
    text = _text(old)
    name = f"`{text}`" if len(text) <= SHORT else "a statement"
    new = _text(left[0]) if left and not ast.is_empty(w.after) else ""
    if not new:
        return f"{name} changes nothing and is removed"
    return f"{name} becomes `{new}`" if len(new) <= SHORT else f"{name} becomes simpler"


_MODES = ast.Declare, ast.Freeze, ast.Thaw
_WORDS: dict[str, Callable[[_Words], str]] = {
    "access": lambda w: _joined(w.accesses[:1]),
    "accesses": lambda w: _joined([a for a in accesses_in(w.before) if is_nested(a)]),
    "index": _of(ast.Loop, lambda n: f"`{n.index.name}`", "the index"),
    "start": _of(ast.Loop, lambda n: f"`{shown(n.extent.start)}`", "the start"),
    "region": _region,
    "is": _is,
    "was": lambda w: words(part) if (part := w.looplet()) is not None else "an entry",
    "first": _first,
    "case": _case,
    "condition": _condition,
    "name": _of(ast.Define, lambda n: f"`{n.variable.name}`", "at hand"),
    "tensor": _of(_MODES, lambda n: f"`{n.tensor.name}`", "the tensor"),
    "statement": _of(ast.Assign, said, "the update"),
    "change": _change,
    "law": lambda w: w.law,
}
