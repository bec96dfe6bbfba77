"""What is wrong with a text in the words of who typed it, and the code that is meant: the tables of other
languages, tried on the text before they are shown."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError, Hint, Source, Span, write
from finchlang.base.late import late
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text import build_script, foreign_names as names
from finchlang.text.foreign_names import DEEPEST, parse_fragment
from finchlang.text.print import pretty
from finchlang.text.terminals import text_of_grammar

#: longer lines were not written by a person, and would take long to search
LONGEST = 1000
PACKAGES = (
    r"np|numpy|torch|tf|jnp|math|cmath|scipy|sp|sparse|plt|pd|"
    r"random|operator|Math|Finch|Base|LinearAlgebra|SparseArrays|Statistics|std|System"
)
NUMPY = r"np|numpy|torch|tf|jnp"
NO_PACKAGES = "there are no packages: functions stand alone"
NO_METHODS = "there are no methods: a function stands before its arguments"
_COMMENT_OR_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|#(?!include\b)[^\n]*')


class ForeignForm(NamedTuple):
    """A row of `grammar/foreign_forms.toml`, which says what its fields mean."""

    pattern: str
    reason: str
    way: str | None = None
    code: str | None = None
    only: str = ""


@cache
def forms() -> tuple[ForeignForm, ...]:
    """What other languages write and ours does not."""
    brackets = r"[(\[{][^()\[\]{}]*[)\]}]"
    for _ in range(3):
        brackets = rf"[(\[{{](?:[^()\[\]{{}}]|{brackets})*[)\]}}]"
    text = text_of_grammar("foreign_forms.toml")
    for name, pattern in (
        ("PACKAGES", "|".join(sorted(build_script.PACKAGES))),
        ("EXPR", rf"(?:(?!->|\breturn\b|\s+end\b)[^()\[\]{{}},;=]|[=!<>]=|{brackets})+"),
        ("STATEMENT", rf"(?:(?!\s+end\b)[^()\[\]{{}},;]|{brackets})+"),
    ):
        text = text.replace(name, pattern)
    return tuple(ForeignForm(**row) for row in tomllib.loads(text)["form"])


class Remedy(NamedTuple):
    """What is wrong at `start` to `stop` of a line, and a hint, perhaps with code in its place."""

    start: int
    stop: int
    reason: str
    hint: Hint | str | None


def explained(
    error: FinchError, in_kernel: bool = False, rule: str = "script", tried: tuple[str, ...] = ()
) -> FinchError:
    """The error in the words of the row that matches at its place, if any. `tried` are being mended."""
    span = error.span
    if span is None or error.kind not in ("syntax", "unknown name"):
        return error
    is_syntax = error.kind == "syntax"
    places = [(span.line, span.column - 1)]
    if is_syntax:  # the cause of something unclosed may be at the end of the text
        places += _ends(span.source, span.line, span.source.text.count("\n") + 2)
    if error.message.startswith("this `if` is not closed"):
        places += _else_ifs(span.source, span.line)
    for line, at in places:
        for found in _forms_at(span.source, line, at, is_syntax, in_kernel):
            place = Span(span.source, line, found.start + 1, line, found.stop + 1)
            hint = found.hint
            if isinstance(hint, Hint):
                settled = settle(place, hint.code, rule, tried)
                if settled is None or settled[1] == settled[0].text:
                    continue
                is_same, (where, code) = settled == (place, hint.code), settled
                place, hint = where, Hint(hint, code, where) if is_same else write(code, where)
            return FinchError(error.kind, found.reason, place, hint)
    if not is_syntax and (named := _foreign_name(span, in_kernel, rule)):
        return FinchError(error.kind, named.reason, named.span or span, named.hint)
    return error


def settle(
    span: Span, code: str, rule: str, tried: tuple[str, ...] = ()
) -> tuple[Span, str] | None:
    """The place and the code of a hint, with what else is wrong there mended too; None if that cannot
    be, so that the hint would lead to the next error, or back to a text that is being mended."""
    whole = span.source.text
    tried = (*tried, whole)
    start, stop = span.offsets
    tail, text = len(whole) - stop, whole[:start] + code + whole[stop:]
    for _ in range(DEEPEST):
        if text in tried or len(tried) > DEEPEST:
            return None
        source = Source(text, span.source.name)
        try:
            names.parse(source, rule, False)
        except FinchError as error:
            at = error.span.offsets[0] if error.span is not None else len(text)
            end = len(text) - tail
            is_next = at == end and text[end : end + 1] not in ("", " ", "\n")
            is_here = start <= at < end or is_next
            if not is_here and (at < start or re.search(r"[\n;]", text[end:at])):
                break  # what is wrong in another statement is another mistake
            try:
                names.parse(source, rule, True, tried)
            except FinchError as told:
                mended, place = told.mended(), getattr(told.hint, "span", None) or told.span
                if mended is None or place is None:
                    if is_here:
                        return None
                    break
                first, last = place.offsets
                start, tail, text = min(start, first), min(tail, len(text) - last), mended
        else:
            break
    else:
        return None
    return span.source.span(start, len(whole) - tail), text[start : len(text) - tail]


# ------------------------------------------------------------------------------- forms in a line


def _forms_at(
    source: Source, number: int, at: int, is_syntax: bool, in_kernel: bool
) -> Iterator[Remedy]:
    """What matches around position `at` (from 0), for a syntax error also right before it."""
    line = source.line(number)
    if len(line) > LONGEST:
        return
    code = _COMMENT_OR_STRING.sub(_blank, line)
    if (found := _member(line, code, at, in_kernel)) is not None:
        yield found
    for form in forms():
        if form.only and (form.only == "kernel") != in_kernel:
            continue
        for match in _compiled(form.pattern).finditer(code):
            if not match.start() <= at < match.end() + is_syntax:
                continue
            named = {k: match.span(k) for k, part in match.groupdict().items() if part is not None}
            parts = {k: _Part(line[start:stop]) for k, (start, stop) in named.items()}
            start, stop = named.get("at", match.span())
            try:
                ours = form.code and form.code.format(**parts)
            except FinchError:  # a part that does not parse
                continue
            way = form.way and form.way.format(code=ours, **parts)
            hint = way if ours is None else Hint(way or "", ours)
            yield Remedy(start, stop, form.reason.format(**parts), hint)


def _ends(source: Source, *lines: int) -> list[tuple[int, int]]:
    found = []
    for line in lines:
        for number in range(line - 1, max(line - 5, 0), -1):
            code = _COMMENT_OR_STRING.sub(_blank, source.line(number)).rstrip()
            if code:
                found.append((number, len(code)))
                break
    return found


def _else_ifs(source: Source, first: int) -> list[tuple[int, int]]:
    """Where a line from `first` on begins with `else if`, which opens a block of its own."""
    lines = source.text.split("\n")[first:]
    found = [(k, s) for k, s in enumerate(lines, first + 1) if re.match(r"\s*else\s+if\b", s)]
    return [(k, len(s) - len(s.lstrip())) for k, s in found]


#: compiled only once there is an error; `re` would not keep this many
_compiled = cache(re.compile)


def _blank(found: re.Match[str]) -> str:
    """A comment as blanks, a string as its quotes with `_` between them."""
    whole = found[0]
    return " " * len(whole) if whole[0] == "#" else f'"{"_" * len(found[1])}"'


class _Part(str):
    """A part of a line in the code of a row, where `{e:dots}` has it in one of the WAYS."""

    def __format__(self, way: str) -> str:
        return WAYS[way](self) if way else str(self)


def _grouped(text: str) -> str:
    """In parentheses if a colon or a choice in it would be taken for another."""
    text = text.strip()
    is_joined = re.search(r"[?:]|\bif\b", text) and not re.fullmatch(r"\(.*\)", text)
    return f"({text})" if is_joined else text


def _place(text: str, by: int) -> str:
    """An index of Python's, which counts from 0, and from the end below it."""
    if text[:1] == "-":
        return f"end - {int(text[1:]) - by}" if int(text[1:]) > by else "end"
    return str(int(text or 0) + by)


def _with_dots(text: str) -> str:
    node = parse_fragment(text)
    if not isinstance(node, ast.Let):
        return names.text_of(names.dotted(node))
    target, value = node.targets[0], names.text_of(names.dotted(node.value))
    return f"{pretty(target)} .{node.op or ''}= {value}"


#: how parts stand in the code of a row
WAYS: dict[str, Callable[[str], str]] = {
    "group": _grouped,
    "dots": _with_dots,
    "first": lambda text: _place(text, 1),
    "last": lambda text: _place(text, 0) if text else "end",
    "fields": lambda text: re.sub(r"\{([^{}:]+)(?::[^{}]*)?\}", r"$(\1)", text),
    "pairs": lambda text: re.sub(r"\s*:\s*", " => ", text),
}


# ------------------------------------------------------------- forms that need balanced brackets


def _other_bracket(code: str, at: int, step: int = 1) -> int:
    """From a bracket on in one direction, the place of the bracket that belongs to it."""
    depth, opens, closes = 0, *("([{", ")]}")[::step]
    while 0 <= at < len(code):
        depth += (code[at] in opens) - (code[at] in closes)
        if depth <= 0:
            break
        at += step
    return at


def _before(code: str, at: int) -> int:
    """Where the operand that ends at `at` begins: a name with its calls and subscripts, or a string."""
    start = at
    while start > 0:
        c = code[start - 1]
        if c in ")]}":
            opener = _other_bracket(code, start - 1, -1)
            if opener < 0:
                return start
            start = opener
        elif c == '"' and (quote := code.rfind('"', 0, start - 1)) >= 0:
            return quote
        elif c.isalnum() or c in "_'":
            start -= 1
        else:
            break
    return start


def _member(line: str, code: str, at: int, in_kernel: bool) -> Remedy | None:
    """`np.sum(x)`, `x.sum()` and `x.shape`: packages, methods and attributes."""
    for dot in re.finditer(r"\.(?=[A-Za-z_])", code):
        start = _before(code, dot.start())
        is_package = re.fullmatch(PACKAGES, code[start : dot.start()])
        head = re.compile(r"(?:\.\w+)*\.(\w+)" if is_package else r"\.(\w+)")
        chain = head.match(code, dot.start())
        assert chain is not None
        if start == dot.start() or not start <= at <= chain.end():
            continue
        if re.search(r"(?<![\w)\]}'])'[^'\"]*$", code[:start]) or code[start] == "'":
            continue  # in single quotes
        name, end = chain[1], chain.end()
        is_call = code[end : end + 1] == "("
        whole = code[start:end]
        if not is_package and whole in names.rows(in_kernel):  # `is.na`, a name of R
            stop = _other_bracket(code, end) + 1 if is_call else end
            text = f"{name}{line[end:stop]}"
            return _translated(start, stop, f"`{whole}` is no name here", whole, text, in_kernel)
        if name == "shape" and (size := re.match(r"\[(\d+)\]", code[end:])):
            ours = f"size({line[start : dot.start()]}, {int(size[1]) + 1})"
            return Remedy(start, end + size.end(), "there is no member access", write(ours))
        stop = _other_bracket(code, end) + 1 if is_call else end
        inside = line[end + 1 : stop - 1].strip() if is_call else ""
        if is_package:
            own = f"np.{name}"
            is_foreign = {name, own} & names.rows(in_kernel).keys()
            is_array = not (is_foreign or in_kernel) and late("is_of_elements")(name)
            is_array = is_array and not re.fullmatch(r"[-.\d]*", inside)
            if is_array and re.fullmatch(NUMPY, code[start : dot.start()]):
                text = f"{name}.({inside})" if is_call else name
                return Remedy(start, stop, NO_PACKAGES, write(text))
            text = f"{name}({inside})" if is_call else name
            is_own = own in names.rows(in_kernel) and code.startswith(("np.", "numpy."), start)
            return _translated(start, stop, NO_PACKAGES, own if is_own else name, text, in_kernel)
        reason = NO_METHODS if is_call else "there is no member access"
        args = ", ".join(filter(None, [line[start : dot.start()], inside]))
        known = f".{name}" in names.rows(in_kernel)
        called = f".{name}" if known else name
        found = _translated(start, stop, reason, called, f"{name}({args})", in_kernel)
        if is_call or known:
            return found
        maker = re.match(r"\w+(?=\()", code[start:])  # `svd(A).S`
        if maker and (way := names.way_of(maker[0], None, in_kernel)):
            reason = f"`{maker[0]}` is not a function here"
            return Remedy(start, start + maker.end(), reason, str(way.hint))
        told = f'no value has a part `{name}`; a dictionary `d` has `d["{name}"]`'
        return Remedy(start, stop, reason, told)
    return None


def _translated(
    start: int, stop: int, reason: str, name: str, text: str, in_kernel: bool
) -> Remedy:
    """A call or a name without its package, in our way if it has another one."""
    try:
        call = parse_fragment(text)
    except FinchError as error:
        if error.hint is not None and not isinstance(error.hint, Hint):  # of what is within
            return Remedy(start, stop, error.message, error.hint)
        return Remedy(start, stop, reason, write(text))
    called = call if isinstance(call, (ast.Call, ast.KeywordCall)) else None
    ours = names.along_axis(call)
    if ours is None and (way := names.way_of(name, called, in_kernel)) is not None:
        if not isinstance(way.hint, Hint):
            return Remedy(start, stop, reason, way.hint)
        code = way.hint.code
        ours = code if way.span else text.replace(name.split(".")[-1], code, 1)
    return Remedy(start, stop, reason, write(ours or names.text_of(names.ours_of(call, in_kernel))))


# -------------------------------------------------------------------------------- names and calls


def node_at(span: Span, rule: str, of_name: bool = False) -> Any:
    """The outermost expression at a place of a text, or the call whose function stands there."""
    try:
        tree = names.parse(span.source, rule, False)
    except FinchError:
        return None if rule == "program" else node_at(span, "program", of_name)
    node: Any
    wanted = span.line, span.column, span.end
    for node in trees.walk(tree):
        is_call = isinstance(node, (ast.Call, ast.KeywordCall, ast.Broadcast))
        place = node.op.span if of_name and is_call else None if of_name else node.span
        if isinstance(node, ast.Script):
            continue
        if place is not None and (place.line, place.column, place.end) == wanted:
            return node
    return None


def _foreign_name(span: Span, in_kernel: bool, rule: str) -> names.OurWay | None:
    name = span.text
    if not names.is_foreign(name):
        return None
    way = names.way_of(name, node_at(span, rule, True), in_kernel)
    return way and _placed(way, span)


def _placed(way: names.OurWay, span: Span) -> names.OurWay | None:
    """A way whose code stands in parentheses where it has to."""
    hint, place = way.hint, way.span or span
    if not isinstance(hint, Hint):
        return way
    code = in_place(hint.code, place)
    return way if code == hint.code else way._replace(hint=write(code, place))


def in_place(code: str, span: Span) -> str:
    """The code of an expression in parentheses, if others than separators stand beside its place."""
    if re.fullmatch(r"[\w.]+([(\[].*[)\]])?'?|(?!\(\w*\) ->)[(\[@].*|_", code):
        return code
    start, stop = span.offsets
    before, after = span.source.text[:start].rstrip(" "), span.source.text[stop:].lstrip(" ")
    begins = r"^$|[\n(,;\[]$|(?<![=!<>])=$|\b(?:in|if|elseif|while)$"
    is_alone = re.search(begins, before)
    return code if is_alone and re.match(r"$|[\n),;\]#]|end\b", after) else f"({code})"
