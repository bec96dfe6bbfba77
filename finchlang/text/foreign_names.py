"""Calls of names of other languages in our way, by the rows of their table."""

from __future__ import annotations

import re
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from finchlang.base.errors import FinchError, Hint, Source, Span, write
from finchlang.base.late import late
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty, with_dot
from finchlang.text.terminals import text_of_grammar

_REDUCTIONS = ("sum", "prod", "mean", "maximum", "minimum", "any", "all")
_ALONG = ("cumsum", "cumprod", "sort", "diff", "reverse")
_OF_LINES = ("argmax", "argmin", "median", "norm", "count", "unique")
_LOGIC = tuple(map(ast.Variable, ("&&", "||", "!")))
#: functions that ask whether entries are true
_OF_TRUTHS = ("any", "all", "count", "findall", "findfirst")


#: how many errors are mended one after the other in one place
DEEPEST = 6
#: parses a text by a rule of the grammar, with its errors explained or not; set by the parser, which comes
#: here with what it cannot parse
parse: Any = None


def parse_fragment(text: str) -> Any:
    source = Source(text, "<hint>")
    for _ in range(DEEPEST):
        try:
            script = parse(source, "script", True)
            return script.statements[0] if script.statements else ast.NOTHING
        except FinchError as error:
            mended = error.mended()
            if mended is None:
                raise
            source = Source(mended, "<hint>")
    raise FinchError("syntax", "too much of it is foreign")


class NameRow(NamedTuple):
    """One meaning of a foreign name: its parameters (None: whatever it takes) and our way."""

    parameters: tuple[str, ...] | None
    ours: str
    is_text: bool
    is_elementwise: bool


@cache
def rows(in_kernel: bool) -> dict[str, list[NameRow]]:
    """The rows of each name, those with parameters before the others; for kernels theirs come first."""
    scripts, kernels = _tables()
    return _rows_of(kernels + scripts if in_kernel else scripts)


@cache
def _tables() -> list[str]:
    """The rows for scripts, and those for kernels only."""
    whole = text_of_grammar("foreign_names.txt").partition("\n[prompt]\n")[0]
    return whole.split("\n[kernels]\n")


@cache
def _rows_of(table: str) -> dict[str, list[NameRow]]:
    found: dict[str, list[NameRow]] = {}
    for line in table.strip().split("\n"):
        if line[:1] == "#" or not line:
            continue
        left, _, ours = line.partition(" | ")
        names, is_call, given = left.partition("(")
        parameters = tuple(filter(None, given.rstrip(")").split(", "))) if is_call else None
        code = ours.removeprefix(": ").removeprefix("@. ")
        row = NameRow(parameters, code, ours[0] == ":", ours[:2] == "@.")
        for name in names.split():
            found.setdefault(name, []).append(row)
    return found


def is_foreign(name: str) -> bool:
    return name in rows(True)


class OurWay(NamedTuple):
    """Our way for a name: what is wrong, the text that is to be replaced (None: the name), and a hint."""

    reason: str
    span: Span | None
    hint: Hint | str


def way_of(name: str, call: Any, in_kernel: bool, is_known: bool = False) -> OurWay | None:
    """Our way for `name`, which is called by the node `call` (None: not called). `is_known` if it is
    also a name of ours, which is called otherwise than in the table."""
    meant = rows(in_kernel).get(name, ())
    if in_kernel and meant and not meant[0].is_text and (of_scripts := _of_scripts(meant[0].ours)):
        meant = of_scripts
    args = getattr(call, "args", None)
    named = name.removeprefix(".")
    is_script = in_kernel and name not in rows(False)
    what = "not a function here" if call else "not a name here"
    what = "a function of scripts" if is_script else what
    reason = f"`{named}` is {what}" + ", and no operator of kernels" * is_script
    for row in meant:
        fits = args is not None and row.parameters is not None and len(row.parameters) == len(args)
        if not all(map(_is_typed, row.parameters or (), (args if fits else None) or repeat(None))):
            continue
        if is_known and not fits:
            continue
        if row.is_text:
            if row.parameters is None or fits or call is None:
                return OurWay(reason, None, row.ours)
        elif row.parameters is None:
            return OurWay(reason, None, Hint(f"it is written `{row.ours}`", row.ours))
        elif fits and not getattr(call, "keywords", ()):
            code = translated(row, call, in_kernel)
            return OurWay(reason, call.span, write(code, call.span))
        elif call is None and not in_kernel and not any(r.parameters is None for r in meant):
            return OurWay(reason, None, write(f"({', '.join(row.parameters)}) -> {row.ours}"))
    if meant and not is_known and meant[0].parameters is not None:
        called = f"{named}({', '.join(meant[0].parameters)})"
        return OurWay(reason, None, f"`{called}` is written `{meant[0].ours}`")
    return None


def _is_typed(parameter: str, arg: Any) -> bool:
    """Whether an argument is the literal that the parameter stands for, if it stands for one."""
    if parameter == "[]":
        return isinstance(arg, ast.Rows) and not any(arg.rows)
    return isinstance(arg, {"string": ast.Text, "tuple": ast.Group}.get(parameter, object))


def _of_scripts(code: str) -> list[NameRow]:
    """What stands in kernels in place of a function that the code calls, and they have not."""
    called = [code, *re.findall(r"\w+!?(?=\()", code)]
    of_kernels = _rows_of(_tables()[1])
    return next((of_kernels[name] for name in called if name in of_kernels), [])


def translated(row: NameRow, call: Any, in_kernel: bool) -> str:
    """The code that stands for a call, with its arguments, translated too, in place of the parameters."""
    if row.ours == "_":
        return "_"
    args = [matrix_of(ours_of(arg, in_kernel)) for arg in call.args]
    names: Any = map(ast.Variable, row.parameters or ())
    given = dict(zip(names, args, strict=True))
    whole = trees.rewrite_bottom_up(lambda n: given.get(n, n), parse_fragment(row.ours))
    whole = trees.rewrite_bottom_up(_folded, whole)
    is_of_arrays = not in_kernel and not all(isinstance(n, ast.Literal) for n in args)
    has_dots = isinstance(call, ast.Broadcast) or (is_of_arrays and row.is_elementwise)
    return text_of(dotted(whole) if has_dots else whole)


def ours_of(node: ast.Node, in_kernel: bool) -> Any:
    """An expression with the foreign calls in it translated, where the table has code for them."""

    def change(n: Any) -> ast.Node:
        is_call = isinstance(n, (ast.Call, ast.Broadcast)) and isinstance(n.op, ast.Variable)
        for row in rows(in_kernel).get(n.op.name, ()) if is_call else ():
            if not row.is_text and len(row.parameters or ()) == len(n.args):
                return parse_fragment(translated(row, n, in_kernel))
            if not row.is_text and row.parameters is None:
                return trees.replace(n, op=ast.Variable(row.ours))
        return n

    return trees.rewrite_bottom_up(change, node)


def _folded(node: Any) -> ast.Node:
    """A difference of literal integers, and a negative literal, as one literal."""
    match node:
        case ast.Call(ast.Variable("-"), (ast.Literal(value, None),)):
            return ast.Literal(-value)
        case ast.Call(ast.Variable("-"), (ast.Literal(a, None), ast.Literal(b, None))):
            return ast.Literal(a - b) if type(a) is type(b) is int else node
    return node


def text_of(node: Any) -> str:
    """An expression as it is typed: `A'` for `adjoint(A)`."""
    return re.sub(r"\badjoint\((\w+)\)", r"\1'", pretty(node))


def along_axis(call: Any) -> str | None:
    """A function along an axis as NumPy has it, which counts axes from 0; reductions leave the axis out."""
    if not isinstance(call, ast.KeywordCall) or not isinstance(call.op, ast.Variable):
        return None
    name, given = call.op.name, dict(call.keywords)
    kept = re.sub("^a?(max|min)$", r"\1imum", name)
    axis: Any = given.get("axis")
    axes = axis.items if isinstance(axis, ast.Group) else (axis,)
    numbers: list[Any] = [getattr(n, "value", None) for n in axes]
    if len(given) > 1 or not all(type(n) is int and n >= 0 for n in numbers):
        return None
    args, dims = ", ".join(map(pretty, call.args)), ", ".join(str(n + 1) for n in numbers)
    dims = f"({dims})" if len(numbers) > 1 else dims
    if kept in _OF_LINES and len(call.args) == 1 and dims in ("1", "2"):
        return f"[{kept}(v) for v in each{'col' if dims == '1' else 'row'}({args})]"
    of = f"{kept}({args}, dims = {dims})"
    if kept in _ALONG:
        return of
    return f"dropdims({of}, dims = {dims})" if kept in _REDUCTIONS else None


def compared(node: Any) -> Any:
    """A number as a condition: `x != 0`; what is made of conditions, and a literal, as it is."""
    op = getattr(node, "op", None)
    if isinstance(node, ast.Literal) or op in _LOGIC:
        return node
    if isinstance(op, ast.Variable) and op.name in _OF_TRUTHS and len(node.args) == 1:
        each = with_dot(ast.Variable("!="), (*node.args, ast.Literal(0)), node.span)
        return ast.Call(op, (each,))
    return ast.call("!=", node, ast.Literal(0))


def dotted(node: Any) -> Any:
    """An expression by entries: `x .> 1` for `x > 1`, `sqrt.(x)` for `sqrt(x)`; `sum(x)` stays."""
    if not isinstance(node, ast.Call) or not isinstance(node.op, ast.Variable):
        return node
    if late("is_of_wholes")(node.op.name):
        return node
    return with_dot(node.op, tuple(map(dotted, node.args)), node.span)


def matrix_of(node: Any) -> Any:
    """A matrix for vectors of one length in a vector: `[1 2; 3 4]` for `[[1, 2], [3, 4]]` of NumPy."""
    rows = node.rows[0] if isinstance(node, ast.Rows) and not node.is_matrix and node.rows else ()
    inner = [r.rows[0] for r in rows if isinstance(r, ast.Rows) and not r.is_matrix and r.rows]
    if not inner or len(inner) < len(rows) or len({*map(len, inner)}) > 1:
        return node
    return ast.Rows(tuple(inner), True, span=node.span)
