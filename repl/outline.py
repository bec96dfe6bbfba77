"""The names that a text binds, and their scopes, as its program has them, that of the lines that parse in a
text that is being typed; and other names for them, refused where these would mean something else."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pygments.token import Comment, Keyword, Name, Operator, String, Text, _TokenType

from finchlang.base.errors import FinchError
from finchlang.text.manual import words
from finchlang.text.terminals import terminals

from .highlight import CONSTANTS, KEYWORDS, OPENERS, FinchLexer

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
#: how many faults of a statement are left out
MOST = 20
#: longer statements are parsed anew for each outline
LONGEST = 10_000


@dataclass(frozen=True)
class Word:
    """A token of the lexer; `is_first` if a line begins with it."""

    at: int
    kind: _TokenType
    text: str
    is_first: bool

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def is_name(self) -> bool:
        return self.kind in Name

    @property
    def is_silent(self) -> bool:
        return self.kind in Comment or self.kind in String


@dataclass
class Scope:
    """A stretch of text with names of its own; `word` is "function", "for" or "let", "" for the whole."""

    word: str
    start: int
    end: int = 1 << 60
    parent: Scope | None = None

    def has(self, offset: int) -> bool:
        return self.start <= offset <= self.end


@dataclass
class Binding:
    """A place where a name is bound; `kind` is "variable", "function", "parameter" or "index". The range of
    an index ends at `until`: there the name means what it does around the loop."""

    name: str
    at: int
    kind: str
    scope: Scope = field(compare=False)
    until: int = 0

    @property
    def end(self) -> int:
        return self.at + len(self.name)


class Outline:
    """The words, scopes and bindings of a text."""

    def __init__(self, text: str):
        self.text = text
        self.words = list(_words(text))
        self.bindings: list[Binding] = []
        self._by_name: dict[str, list[Binding]] = {}
        self._labels = set[int]()  # where names of keyword arguments stand, which are no variables
        self._declared: list[tuple[str, int, Scope]] = []
        self._spoken = [word for word in self.words if not word.is_silent]
        from finchlang.syntax.traversal import EnoughFrames  # the prompt begins without

        whole = Scope("", -1)
        with EnoughFrames():
            for start, part in self._statements():
                self._starts = [start, *(start + found.end() for found in re.finditer("\n", part))]
                self._read((_tree if len(part) < LONGEST else _tree.__wrapped__)(part), whole)
        self._join()
        for name, at, scope in self._declared:  # of the kernel's own
            if self.meaning(name, at) is None:
                self._bind(name, at, "variable", scope)

    def word_at(self, offset: int) -> Word | None:
        """The word at or right before a place; a name or keyword if one touches it."""
        touching = [w for w in self.words if w.at <= offset <= w.end]
        names = [w for w in touching if w.is_name or w.kind in Keyword]
        inner = [w for w in touching if w.at <= offset < w.end]
        return next(iter(names or inner), None)

    def visible(self, offset: int) -> dict[str, Binding]:
        """The names visible at a place, each with its last binding before it in the innermost scope."""
        found = {name: self.meaning(name, offset) for name in self._by_name}
        return {name: binding for name, binding in found.items() if binding is not None}

    def meaning(self, name: str, offset: int) -> Binding | None:
        """What a name means at a place, if it is visible there."""
        found: Binding | None = None
        for binding in self._by_name.get(name, ()):
            scope = binding.scope
            if scope.has(offset) and not binding.at < offset < binding.until:
                is_nearer = found is None or scope.start > found.scope.start
                is_later = found is not None and scope is found.scope and binding.at <= offset
                if is_nearer or is_later:
                    found = binding
        return found

    def name_at(self, offset: int) -> Word | None:
        word = self.word_at(offset)
        return word if word and word.is_name and word.at not in self._labels else None

    def bound_at(self, offset: int) -> tuple[Word | None, Binding | None]:
        word = self.word_at(offset)
        return word, self.meaning(word.text, offset) if word and word.is_name else None

    def references(self, word: Word) -> list[Word]:
        """The words that mean the same variable, function or index as this one, in order. Names that
        nothing in the text binds mean the same wherever they stand."""
        same = [w for w in self.words if w.is_name and w.text == word.text]
        own = self._scope_of(word)
        return [w for w in same if self._scope_of(w) is own and w.at not in self._labels]

    def label(self, name: str) -> Word | None:
        same = (w for w in self._spoken if w.is_name and w.text == name)
        return next((w for w in same if w.at in self._labels), None)

    def call_around(self, offset: int) -> tuple[str, int] | None:
        """The function in whose brackets a place is, and how many arguments end before it, if any."""
        opened: list[tuple[str, int]] = []
        before: Word | None = None
        for word in self._spoken:
            if word.end > offset:
                break
            if word.text in _OPENING:
                is_call = word.text == "(" and before is not None and before.end == word.at
                opened.append((before.text if is_call and before and before.is_name else "", 0))
            elif word.text in _CLOSING:
                opened = opened[:-1]
            elif word.text in (",", ";") and opened:
                opened[-1] = opened[-1][0], opened[-1][1] + 1
            before = word
        return opened[-1] if opened and opened[-1][0] else None

    def _scope_of(self, word: Word) -> Scope | None:
        found = self.meaning(word.text, word.at)
        return None if found is None else found.scope

    def comment_before(self, offset: int) -> str:
        lines = self.text[:offset].split("\n")[:-1]
        found: list[str] = []
        while lines and lines[-1].lstrip().startswith("#") and not lines[-1].startswith("#!"):
            found.append(lines.pop().strip().removeprefix("#").removeprefix(" "))
        return "\n".join(reversed(found))

    # --------------------------------------------------------------------------------- reading

    def _statements(self) -> Iterator[tuple[int, str]]:
        """Where each statement begins, and its lines; one that is left open goes on to the end. So a new
        version of a text is parsed only where it is new."""
        start = blocks = brackets = 0
        head, before = "", ""
        for word in self._spoken:
            if word.is_first:
                goes_on = before or head in ("@schedule", "@workspace")
                if not (goes_on or blocks or brackets) and "\n" in self.text[start : word.at]:
                    at = self.text.rindex("\n", start, word.at) + 1
                    yield start, self.text[start:at]
                    start = at
                head = word.text
            brackets += (word.text in _OPENING) - (word.text in _CLOSING and brackets > 0)
            if word.kind is Keyword and not brackets:
                blocks += (word.text in OPENERS) - (word.text == "end" and blocks > 0)
            is_open = word.text == "," or word.kind is Operator and word.text not in ("'", ";")
            before = word.text if is_open else ""
        yield start, self.text[start:]

    def _read(self, node: Any, scope: Scope) -> None:
        """Find the bindings in a part of the program that stands in a scope."""
        from finchlang.syntax import nodes as ast, traversal as trees

        inner, inside = scope, list(trees.children(node))
        match node:
            case ast.Function(name, parameters):
                found = self._after(name, self._at(node))
                self._bind(name, found.at, "function", _home(scope))
                inner = self._scope("function", found.end, node, scope)
                self._parameters(parameters, found.end, inner)
            case ast.Lambda(parameters):
                inner = self._scope("function", self._at(node), node, scope)
                self._parameters(parameters, inner.start, inner)
            case ast.For(variable, iterable, names=own):
                inner = self._scope("for", self._at(node), node, scope)
                self._indices(own or (variable,), iterable, inner)
            case ast.Comprehension(_, names, iterables):
                inner = self._scope("for", self._at(node), node, scope)
                for own, iterable in zip(names, iterables, strict=True):
                    self._indices(own, iterable, inner)
            case ast.Loop(index, extent):
                inner = self._scope("for", self._at(node), node, scope)
                self._bind(index.name, self._at(index), "index", inner, self._end(extent))
            case ast.Local(values):
                inner = self._scope("let", self._at(node), node, scope)
                for name, value in values:
                    at = self._before(name, self._at(value)).at
                    self._bind(name, at, "variable", inner, self._end(value))
            case ast.Define(variable, value):
                inner = self._scope("let", self._at(node), node, scope)
                self._bind(variable.name, self._at(variable), "variable", inner, self._end(value))
            case ast.Try(_, name, handler) if name:
                within = self._scope("let", self._at(handler), handler, scope)
                self._bind(name, self._after(name, within.start).at, "variable", within)
            case ast.Let(targets):
                for target in targets:
                    if isinstance(target, ast.Variable):
                        self._bind(target.name, self._at(target), "variable", _home(scope))
            case ast.Declare(tensor):
                self._declared.append((tensor.name, self._at(tensor), _home(scope)))
            case ast.KeywordCall(_, _, keywords):
                self._labels |= {self._before(n, self._at(value)).at for n, value in keywords}
        for child in inside:
            self._read(child, inner)

    def _at(self, node: Any) -> int:
        return self._starts[node.span.line - 1] + node.span.column - 1

    def _end(self, node: Any) -> int:
        line, column = node.span.end
        is_open = line > len(self._starts)  # its `end` is not typed yet
        return len(self.text) if is_open else self._starts[line - 1] + column - 1

    def _after(self, name: str, at: int) -> Word:
        """The first word of a name from a place on."""
        k = bisect_left(self._spoken, at, key=lambda w: w.at)
        found = (w for w in self._spoken[k:] if w.text == name)
        return next(found, Word(len(self.text), Name, "", False))

    def _before(self, name: str, at: int) -> Word:
        """The last word of a name before a place."""
        k = bisect_left(self._spoken, at, key=lambda w: w.at)
        return next(w for w in reversed(self._spoken[:k]) if w.text == name)

    def _scope(self, word: str, start: int, node: Any, parent: Scope) -> Scope:
        return Scope(word, start, self._end(node), parent)

    def _bind(self, name: str, at: int, kind: str, scope: Scope, until: int = 0) -> None:
        self.bindings.append(Binding(name, at, kind, scope, until))
        self._by_name.setdefault(name, []).append(self.bindings[-1])

    def _parameters(self, names: tuple[str, ...], at: int, scope: Scope) -> None:
        for name in names:
            found = self._after(name, at)
            if found.at < scope.end:  # `>(a)` has a parameter that is not written
                self._bind(name, found.at, "parameter", scope)
                at = found.end

    def _indices(self, names: tuple[str, ...], iterable: Any, scope: Scope) -> None:
        """Bind the names of a loop, which stand before what it runs over."""
        at = self._at(iterable)
        for name in reversed(names):
            at = self._before(name, at).at
            self._bind(name, at, "index", scope, self._end(iterable))

    def _join(self) -> None:
        """An assignment in a function changes a variable of a function around it, if that has one."""
        for bindings in self._by_name.values():
            for binding in sorted(bindings, key=lambda b: b.scope.start):
                if binding.kind == "variable" and binding.scope.word == "function":
                    inside = binding.scope.start - 1
                    scopes = (b.scope for b in bindings if b.scope.word and b.scope.has(inside))
                    binding.scope = max(scopes, key=lambda s: s.start, default=binding.scope)


#: the outline of a text, of which an editor asks more than one thing
outline_of = lru_cache(maxsize=4)(Outline)


def _home(scope: Scope) -> Scope:
    """The scope that an assignment binds in: the function around it, or the whole text."""
    while scope.parent is not None and scope.word != "function":
        scope = scope.parent
    return scope


@lru_cache(maxsize=4096)
def _tree(text: str) -> Any:
    """The program of a statement; lines with faults are left out, and what is open at its end is closed."""
    from finchlang.base.errors import Source
    from finchlang.syntax.nodes import Script
    from finchlang.text.parse import parse_apart

    lines, ends = text.replace("\r\n", "\n").replace("\ufeff", " ").split("\n"), ""
    for _ in range(MOST):
        try:
            return parse_apart(Source("\n".join(lines) + ends), "script", False)
        except FinchError as error:
            if error.span is None:
                break
            if error.message.endswith("is not closed by an `end`"):
                ends += "\nend"
                continue
            at = min(error.span.line, len(lines)) - 1
            while at and not lines[at].strip():
                at -= 1
            lines[at] = ""
    return Script(())


def _words(text: str) -> Iterator[Word]:
    is_first = True
    for at, kind, value in FinchLexer().get_tokens_unprocessed(text):
        if kind in Text:
            is_first = is_first or "\n" in value
        elif kind is String.Interpol:  # `$x` or `$(x + 1)`
            code = value[2:-1] if value.startswith("$(") else value[1:]
            inside = at + value.index(code, 1)
            yield from (replace(w, at=inside + w.at, is_first=False) for w in _words(code))
        else:
            yield Word(at, kind, value, is_first)
            is_first = False


# ------------------------------------------------------------------------------- other names


def nameable(outline: Outline, offset: int) -> Word:
    """The name at a place that can be given another. Raises FinchError "unknown name" if there is none."""
    word = outline.name_at(offset)
    if word is None:
        raise FinchError("unknown name", "there is no name of a variable, function or index here")
    if outline.meaning(word.text, word.at) is not None:
        return word
    what = "is a word of the language" if word.text in words() else "is bound nowhere in this file"
    raise FinchError("unknown name", f"`{word.text}` {what}")


def renamed(outline: Outline, offset: int, name: str) -> list[Word]:
    """The words to be replaced by `name` for the one at a place. Raises FinchError if that cannot be."""
    word = nameable(outline, offset)
    if not re.fullmatch(terminals()["NAME"], name):
        raise FinchError("syntax", f"`{name}` is no name", hint="letters, digits and `_`")
    if name in KEYWORDS or name in CONSTANTS or name in words():
        raise FinchError("unknown name", f"`{name}` is a word of the language")
    found = outline.references(word)
    if name == word.text:
        return []
    bound = outline.meaning(word.text, word.at)
    assert bound is not None
    if bound.kind == "parameter" and (use := outline.label(word.text)) is not None:
        line = outline.text.count("\n", 0, use.at) + 1
        message = f"`{word.text}` is also the name of a keyword argument in line {line}"
        raise FinchError("unknown name", message)
    new = outline.text
    for each in reversed(found):
        new = new[: each.at] + name + new[each.end :]
    by = len(name) - len(word.text)
    places = [each.at + k * by for k, each in enumerate(found)]
    after = Outline(new)
    first = after.name_at(places[0])
    is_same = first is not None and [w.at for w in after.references(first)] == places
    is_seen = any(outline.meaning(name, each.at) for each in found)
    lets = (b for b in outline.bindings if b.name == name and b.scope.word == "let")
    if not is_same or is_seen or any(bound.scope.has(b.at) for b in lets):  # a `let` hides nothing
        raise FinchError("unknown name", f"`{name}` is taken where `{word.text}` is used")
    return found
