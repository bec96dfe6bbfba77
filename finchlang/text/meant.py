"""What is wrong with names and values, in the words of who typed them, with the code meant as the hint."""

from __future__ import annotations

from typing import Any

from finchlang.base.errors import FinchError, Hint, write
from finchlang.base.late import late
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty, with_dot


def _mend() -> Any:
    """The module `mend`; programs whose trees are kept on disk do without the parser."""
    from finchlang.text.parse import mending

    return mending()


def explained(error: FinchError, in_kernel: bool = False) -> FinchError:
    """The error in the words of the row that matches at its place; the error itself if there is none."""
    return _mend().explained(error, in_kernel)


def indices_as_typed(text: str) -> tuple[ast.Node, ...]:
    """The indices of an access as it is typed."""
    return getattr(_mend().parse_fragment(text), "indices", ())


def from_one(given: ast.Node) -> str | None:
    """The text of an extent that counts from 0, counted from 1; None for others."""
    if not isinstance(given, ast.Extent) or given.start != ast.Literal(0) or given.span is None:
        return None
    match given.stop:
        case ast.Literal(int(stop)):
            last: ast.Node = ast.Literal(stop + 1)
        case ast.Call(ast.Variable("-"), (stop, ast.Literal(1))):
            last = stop
        case stop:
            last = ast.call("+", stop, ast.Literal(1))
    return pretty(ast.Extent(ast.Literal(1), last))


def called_by(error: FinchError) -> FinchError:
    """An error about the name of an array that is called, with its access as the hint."""
    mend = _mend()
    call: Any = mend.node_at(error.span, "script", True) if error.span is not None else None
    error.hint = call and write(pretty(ast.Access(call.op, call.args)), call.span)
    error.span = call.span if call is not None else error.span
    return error


#: hints of errors about values that code is made of here, where their text is known
JOINED, INDEXED, REPEATED = "with `string`", "with brackets", "with `repeat`"
EXCHANGED, PARSED = "with the arguments exchanged", "with `parse`"
AS_VECTOR = "with a vector"
#: of a value that is called, where the script has bound the name of a function to it
SHADOWED = (
    "the script has set this name, which is a function's, to a value: give the value another name"
)
COMPARED = "compare it, as in `x != 0`"
#: and of those that are told as they are
FORMATTED = 'a string holds values: `"x = $x"`, `"$(round(x, digits=2))"`'


def _made(hint: Any, node: Any) -> Any:
    """The expression that one of these hints is about; None for other hints."""
    from finchlang.text import foreign_names as names

    match hint:
        case "with `string`" | "with `repeat`":
            sign, op = getattr(getattr(node, "op", None), "name", ""), ast.Variable(hint[6:-1])
            if isinstance(node, ast.Let):
                value = ast.Call(op, (node.targets[0], node.value))
                return trees.replace(node, op=None, value=value)
            if sign in (".+", ".*") or isinstance(node, ast.Broadcast):
                return with_dot(op, node.args)
            return trees.replace(node, op=op) if sign in ("+", "*") else None
        case "with a vector":
            return trees.replace(node, args=(ast.Rows((node.args,), False),))
        case "with `parse`":
            return ast.call("parse", node.op, *node.args)
        case "with the arguments exchanged" if len(getattr(node, "args", ())) == 2:
            return trees.replace(node, args=node.args[::-1])
        case "with brackets":
            return ast.Access(node.op, node.args)
    return names.compared(node) if hint == COMPARED else None


def called_otherwise(error: FinchError) -> FinchError:
    """An error of type with how it is written here as the hint, if other languages have it otherwise."""
    from finchlang.text import foreign_names as names

    mend = _mend()
    span, hint = error.span, error.hint
    node = mend.node_at(span, "script") if span is not None and not isinstance(hint, Hint) else None
    if span is None or node is None:
        return error
    is_call = isinstance(node, (ast.Call, ast.KeywordCall)) and isinstance(node.op, ast.Variable)
    if hint == SHADOWED and not (is_call and late("is_of_wholes")(node.op.name)):
        error.hint = hint = None
    keywords = dict(getattr(node, "keywords", ()))
    way = None
    is_counted = "argument" in error.message and len(getattr(node, "args", ())) > 1
    if is_call and (hint is not None or is_counted):
        way = names.way_of(node.op.name, node, False, is_known=True)
    code = names.along_axis(node) or (way and getattr(way.hint, "code", None))
    if [*keywords] == ["dtype"]:
        code = pretty(ast.Call(node.op, (keywords["dtype"], *node.args)))
    elif way is not None and code is None:
        error.hint = way.hint
    elif code is None and (made := _made(hint, node)) is not None:
        code = None if made == node else names.text_of(made)
    if code is not None:
        code = mend.in_place(code, span)
        if mend.settle(span, code, "script") == (span, code):
            error.hint = write(code, span)
    return error
