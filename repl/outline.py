"""The names that a text binds, and their scopes, by tokens alone: texts that are being typed do not
parse."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    _TokenType,
)

from .highlight import KEYWORDS, OPENERS, FinchLexer

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
#: what opens a function
_FUNCTIONS = ("function", "do", "->")
#: words after which an expression goes on in the next line, besides operators
_GOES_ON = ("=", "->", "in", "∈", ",", "?", ":")
#: what an assignment or a parameter may follow, besides the start of a line
_BEGINNINGS = ("begin", "else", "let", "for", ";", ",")


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
    """A stretch of text with names of its own, as a function, a loop or a `let`, or in brackets; `word` is
    what opens it, and of a function without the word `function` it is `->`."""

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


class Outline:
    """The words, scopes and bindings of a text."""

    def __init__(self, text: str):
        self.text = text
        self.words = list(_words(text))
        self.bindings: list[Binding] = []
        self._by_name: dict[str, list[Binding]] = {}
        self._functions: list[Scope] = []
        self.scopes: list[Scope] = []
        self._silent_free = [word for word in self.words if not word.is_silent]
        self._read(self._silent_free)

    def word_at(self, offset: int) -> Word | None:
        """The word at or right before a place; a name or keyword if one touches it."""
        touching = [w for w in self.words if w.at <= offset <= w.end]
        names = [w for w in touching if w.is_name or w.kind in Keyword]
        inner = [w for w in touching if w.at <= offset < w.end]
        return next(iter(names or inner), None)

    def visible(self, offset: int) -> dict[str, Binding]:
        """The names visible at a place: of each the binding in the innermost scope, and in that the last
        one before the place."""
        found = {name: self.meaning(name, offset) for name in self._by_name}
        return {name: binding for name, binding in found.items() if binding is not None}

    def meaning(self, name: str, offset: int) -> Binding | None:
        """What a name means at a place, if it is visible there."""
        found: Binding | None = None
        for binding in self._by_name.get(name, ()):
            scope = binding.scope
            is_inside = scope.start <= offset <= scope.end
            if is_inside and not binding.at < offset < binding.until:
                is_nearer = found is None or scope.start > found.scope.start
                is_later = found is not None and scope is found.scope and binding.at <= offset
                if is_nearer or is_later:
                    found = binding
        return found

    def name_at(self, offset: int) -> Word | None:
        word = self.word_at(offset)
        return word if word is not None and word.is_name and not self._is_label(word) else None

    def bound_at(self, offset: int) -> tuple[Word | None, Binding | None]:
        word = self.word_at(offset)
        is_name = word is not None and word.is_name
        return word, self.meaning(word.text, offset) if word is not None and is_name else None

    def references(self, word: Word) -> list[Word]:
        """The words that mean the same variable, function or index as this one, in order. Names that
        nothing in the text binds mean the same wherever they stand."""
        same = [w for w in self.words if w.is_name and w.text == word.text]
        own = self._scope_of(word)
        return [w for w in same if self._scope_of(w) is own and not self._is_label(w)]

    def label(self, name: str) -> Word | None:
        same = (w for w in self._silent_free if w.is_name and w.text == name)
        return next((w for w in same if self._is_label(w)), None)

    def call_around(self, offset: int) -> tuple[str, int] | None:
        """The function in whose brackets a place is, and how many arguments end before it, if any."""
        opened: list[tuple[str, int]] = []
        before: Word | None = None
        for word in self._silent_free:
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

    def _is_label(self, word: Word) -> bool:
        """Whether a word names a keyword argument of a call, or a field, and so no variable."""
        k = bisect_left(self._silent_free, word.at, key=lambda w: w.at)
        before, after = (self._silent_free[j : j + 1] for j in (max(k - 1, 0), k + 1))
        if k and before[0].text == "." and before[0].end == word.at:
            return True
        is_keyword = k and after and after[0].text == "=" and before[0].text in ("(", ",", ";")
        if not is_keyword or any(b.at == word.at for b in self._by_name.get(word.text, ())):
            return False
        inside = [s for s in self.scopes if s.start < word.at <= s.end]
        return max(inside, key=lambda s: s.start).word in ("(", "{")

    def comment_before(self, offset: int) -> str:
        lines = self.text[:offset].split("\n")[:-1]
        found: list[str] = []
        while lines and lines[-1].lstrip().startswith("#") and not lines[-1].startswith("#!"):
            found.append(lines.pop().strip().removeprefix("#").removeprefix(" "))
        return "\n".join(reversed(found))

    # --------------------------------------------------------------------------------- reading

    def _read(self, words: list[Word]) -> None:
        """Find scopes and bindings in one pass; scopes end with their `end` or bracket."""
        scope = Scope("", -1)
        self.scopes.append(scope)
        self._functions.append(scope)
        open_scopes = [scope]
        declared: list[tuple[Word, Scope]] = []
        for k, word in enumerate(words):
            scope = open_scopes[-1]
            if word.kind is Keyword and word.text in OPENERS:
                in_brackets = scope.word in _OPENING  # there `for` and `if` have no `end`
                if not (in_brackets and word.text in ("for", "if")):
                    open_scopes.append(self._open(word, scope))
                if word.text == "do":
                    self._bind_line(words, k + 1, open_scopes[-1])
                if word.text == "function":
                    self._function(words, k, scope, open_scopes[-1])
            elif word.kind is Keyword and word.text == "end":
                if len(open_scopes) > 1 and scope.word in OPENERS:
                    open_scopes.pop().end = word.end
            elif word.kind is Punctuation and word.text in _OPENING:
                open_scopes.append(self._open(word, scope))
            elif word.kind is Punctuation and word.text in _CLOSING:
                if len(open_scopes) > 1 and scope.word in _OPENING:
                    open_scopes.pop().end = word.end
            elif word.text in ("=", "∈", "in"):
                self._assignment(words, k, scope)
            elif word.text == ".=" and k and words[k - 1].is_first and words[k - 1].is_name:
                declared.append((words[k - 1], self._home(words[k - 1].at)))
            elif k and words[k - 1].text == "catch" and word.is_name and not word.is_first:
                self._bind(word, "variable", scope)
            elif word.text == "->" and k:
                self._lambda(words, k, scope)
        self._join()
        for word, scope in declared:  # a tensor of the kernel's own
            if self.meaning(word.text, word.at) is None:
                self._bind(word, "variable", scope)

    def _open(self, word: Word, parent: Scope, end: int = 1 << 60) -> Scope:
        scope = Scope(word.text, word.at, end, parent)
        self.scopes.append(scope)
        if word.text in _FUNCTIONS:
            self._functions.append(scope)
        return scope

    def _bind(self, word: Word, kind: str, scope: Scope, until: int = 0) -> None:
        self.bindings.append(Binding(word.text, word.at, kind, scope, until))
        self._by_name.setdefault(word.text, []).append(self.bindings[-1])

    def _home(self, at: int) -> Scope:
        """The scope that an assignment binds in: the function around it, or the whole text. Places come in
        order, so what has ended is left out."""
        self._functions = [s for s in self._functions if at <= s.end]
        return max((s for s in self._functions if s.start < at), key=lambda s: s.start)

    def _join(self) -> None:
        """An assignment in a function changes a variable of a function around it, if that has one."""
        for bindings in self._by_name.values():
            for binding in sorted(bindings, key=lambda b: b.scope.start):
                if binding.kind == "variable" and binding.scope.word in _FUNCTIONS:
                    inside = binding.scope.start - 1
                    scopes = (b.scope for b in bindings if b.scope.word and b.scope.has(inside))
                    binding.scope = max(scopes, key=lambda s: s.start, default=binding.scope)

    def _function(self, words: list[Word], k: int, outer: Scope, inner: Scope) -> None:
        """`function f(x, y)`: binds the name in the scope around it, the parameters within."""
        if k + 1 < len(words) and words[k + 1].is_name:
            self._bind(words[k + 1], "function", self._home(words[k].at))
            self._parameters(words, k + 2, inner)

    def _parameters(self, words: list[Word], k: int, scope: Scope) -> int:
        """Bind the name at the start of each item in the brackets that open at the k-th word; returns the
        place of the word after them."""
        depth, start = 0, k
        while k < len(words):
            word, before = words[k], words[k - 1].text
            depth += (word.text in _OPENING) - (word.text in _CLOSING)
            if depth == 0:
                break
            if depth == 1 and k > start and word.is_name and before in ("(", ",", ";"):
                self._bind(word, "parameter", scope)
            k += 1
        return k + 1

    def _assignment(self, words: list[Word], k: int, scope: Scope) -> None:
        """Bind the names before the `=`, `in` or `∈` at k, if it assigns to them."""
        if k == 0 or scope.word in ("(", "{") and words[k].text == "=":
            return  # a keyword argument
        if words[k - 1].text == ")":
            if _heads(words, k - 1, "for"):
                self._names_before(words, k - 2, scope)
            elif not self._tuple(words, k - 1):
                self._short_function(words, k, scope)
            return
        at = k - 1
        while at >= 0 and words[at].is_name:
            word, before = words[at], words[at - 1].text if at else "\n"
            is_start = word.is_first or before in _BEGINNINGS or at == 0
            if not is_start:
                return
            is_index = _heads(words, at, "for")
            if is_index or _heads(words, at, "let"):
                kind, until = "index" if is_index else "variable", _expression_end(words, k + 1)
                self._bind(word, kind, scope, until)
            else:
                self._bind(word, "variable", self._home(word.at))
            if before != "," or word.is_first or _heads(words, at, "for", "let"):
                return
            at -= 2

    def _tuple(self, words: list[Word], k: int) -> bool:
        """`(a, b) = ...`: bind the names in the brackets that close at k, if they begin a statement."""
        at = _opening(words, k)
        if at < 0 or not (words[at].is_first or at == 0 or words[at - 1].text in _BEGINNINGS):
            return False
        for word in words[at + 1 : k : 2]:
            if word.is_name:
                self._bind(word, "variable", self._home(word.at))
        return True

    def _bind_line(self, words: list[Word], k: int, scope: Scope) -> None:
        while k < len(words) and not words[k].is_first and words[k].text != ";":
            if words[k].is_name:
                self._bind(words[k], "parameter", scope)
            k += 1

    def _names_before(self, words: list[Word], k: int, scope: Scope) -> None:
        while k > 0 and words[k].text != "(":
            if words[k].is_name:
                self._bind(words[k], "index", scope)
            k -= 1

    def _short_function(self, words: list[Word], k: int, scope: Scope) -> None:
        """`f(x, y) = ...`: bind the name, and the parameters up to the end of the body."""
        at = _opening(words, k - 1)
        name = words[at - 1] if at > 0 else None
        is_next = name is not None and name.is_name and name.end == words[at].at
        if name and is_next and (name.is_first or words[at - 2].text in _BEGINNINGS):
            self._bind(name, "function", self._home(name.at))
            self._lambda(words, k, scope)

    def _lambda(self, words: list[Word], k: int, scope: Scope) -> None:
        """The parameters before the sign at k, in brackets or one name, of the function after it."""
        at = _opening(words, k - 1) if words[k - 1].text == ")" else k - 1
        inner = self._open(replace(words[at], text="->"), scope, _expression_end(words, k + 1))
        if at < k - 1:
            self._parameters(words, at, inner)
        elif words[at].is_name:
            self._bind(words[at], "parameter", inner)


def _factors(number: str) -> re.Match[str] | None:
    """The number and the name of `2x`. The parser is imported for it: the prompt begins without."""
    from finchlang.text.lines import FACTORS
    from finchlang.text.literals import is_float

    return None if is_float(number) else FACTORS.match(number)


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
            found = _factors(value) if kind in Number else None
            if found is not None:  # `2x`
                yield Word(at, kind, found[1], is_first)
                at, value, is_first = at + len(found[1]), found[2], False
                kind = Keyword if value in KEYWORDS else Name
            yield Word(at, kind, value, is_first)
            is_first = False


def _heads(words: list[Word], k: int, *heads: str) -> bool:
    """Whether the k-th word is in the head of a `for` or `let`, which goes on after a comma at a line's
    end."""
    while k > 0:
        k -= 1
        if words[k].text in heads:
            return True
        if words[k].kind is Keyword and words[k].text not in ("in", "∈"):
            return False
        if words[k + 1].is_first and words[k].text != ",":
            return False
    return False


def _opening(words: list[Word], k: int) -> int:
    """The place of the word that opens the brackets that close at the k-th; -1 if none does."""
    depth = 0
    while k >= 0:
        depth += (words[k].text in _CLOSING) - (words[k].text in _OPENING)
        if depth == 0:
            break
        k -= 1
    return k


def _expression_end(words: list[Word], k: int) -> int:
    """The end of the expression that begins at the k-th word."""
    opened: list[str] = []
    before: Word | None = None
    for at in range(k, len(words)):
        word = words[at]
        is_block = word.kind is Keyword and word.text in OPENERS
        if not opened and before is not None:
            is_operand = word.is_name or word.kind in Number or word.kind in String
            ends = before.is_name or before.kind in Number or before.text in _CLOSING
            is_next = is_operand and ends and word.at > before.end
            is_over = word.is_first and before.kind not in Operator and before.text not in _GOES_ON
            if is_over or is_next or (is_block and word.text != "do"):
                break
        if word.text in _OPENING or (is_block and not (opened and opened[-1] in _OPENING)):
            opened.append(word.text)
        elif word.text in _CLOSING or word.text == "end":
            if not opened:
                break
            if word.text != "end" or opened[-1] in OPENERS:
                opened.pop()
        elif not opened and word.text in (",", ";"):
            break
        before = word
    return before.end if before is not None else words[k - 1].end
