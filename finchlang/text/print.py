"""AST → text: any node of either stratum, at any stage, as a text that parses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Pair
from finchlang.syntax.user_function import Itself, Operation
from finchlang.text.literals import ASSIGNMENTS

# Precedence levels, lowest first, as in the grammar.
ANY, PAIR, DISJUNCTION, CONJUNCTION, COMPARISON = range(5)
RANGE, SUM, PRODUCT, SHIFT, PREFIX, POWER, ATOM = range(5, 12)
INFIX = {
    "=>": PAIR,
    "||": DISJUNCTION,
    "&&": CONJUNCTION,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys(("+", "-", "|"), SUM),
    **dict.fromkeys(("*", "/", "%", "&"), PRODUCT),
    **dict.fromkeys(("<<", ">>"), SHIFT),
    "^": POWER,
}
INFIX |= {f".{sign}": level for sign, level in INFIX.items() if sign != "=>"}  # of arrays
INFIX |= {"\\": PRODUCT, ".=": ANY, ".÷": PRODUCT, ".⊻": SUM, ".≈": COMPARISON}


def with_dot(op: ast.Variable, args: tuple[ast.Node, ...], span: Any = None) -> ast.Node:
    """A call of an operator or function for each entry of arrays: `a .+ b`, `f.(a)`."""
    name = op.name
    if name[0] == "." or name == "adjoint" or (name == "-" and len(args) == 1):
        return ast.Call(op, args, span=span)
    if name == "!" or (len(args) == 2 and f".{name}" in INFIX):
        return ast.Call(ast.Variable(f".{name}"), args, span=span)
    return ast.Broadcast(op, args, span=span)


_ESCAPES = {"\\": "\\\\", '"': '\\"', "$": "\\$", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NAME = re.compile(r"[^\W\d]\w*\Z")
_POWERS = ast.Variable("^"), ast.Variable(".^")
#: what is called without parentheses around it
_CALLED = ast.Variable, Operation, Itself, ast.Call, ast.Access, ast.Parametric
#: types of literals that are printed without their type
_PLAIN = ("Bool", "Int64", "Float64")
INDENT = "    "
#: an expression as text, with how tightly it binds, if others can bind more tightly
Written = str | tuple[str, int]


def pretty(node: Any, level: int = ANY) -> str:
    """`node` as source text, with no more parentheses than needed and one statement a line; in parentheses
    if it binds less tightly than an operator of this level.

    `parse_script(pretty(p)) == p` and `parse_kernel(pretty(p)) == p` for everything that the parser makes.
    Nodes without a source form print as themselves: the host expression of a Value, and objects that stand
    for tensors while rules run; looplets print as in Finch'25 Table 2, without their functions.
    """
    write = TEXTS.get(type(node), str)
    made = write(node)
    text, own = (made, ATOM) if isinstance(made, str) else made
    return f"({text})" if own < level else text


def nested(node: Any) -> str:
    """A statement among others; a sequence becomes a `begin` block."""
    return _closed("begin", node) if isinstance(node, (ast.Block, ast.Script)) else pretty(node)


def _inside(node: Any) -> str:
    statements = node.statements if isinstance(node, (ast.Block, ast.Script)) else (node,)
    return "".join(f"{INDENT}{nested(s)}".replace("\n", f"\n{INDENT}") + "\n" for s in statements)


def _closed(head: str, body: Any) -> str:
    return f"{head}\n{_inside(body)}end"


def listed(items: tuple[Any, ...]) -> str:
    return ", ".join(map(pretty, items))


def _literal(node: ast.Literal) -> Written:
    value, kind = node.value, node.type
    if isinstance(value, Pair):
        types = [None if t in _PLAIN else t for t in (kind or "")[5:-1].split(", ")]
        return _infix("=>", tuple(map(ast.Literal, value, types)))
    if kind is not None and kind.startswith("UInt"):
        return f"0x{value:0{int(kind[4:]) // 4}x}"
    text = _number(np.float32(value) if kind == "Float32" else value)
    if kind is not None:
        return f"{kind}({text})"
    is_negative = type(value) in (int, float) and text.startswith("-")
    return text, PREFIX if is_negative else ATOM


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return "NaN"
        return ("-" if value < 0 else "") + "Inf" if math.isinf(value) else str(value)
    return str(value)


def _call(node: ast.Call) -> Written:
    name = node.op.name if isinstance(node.op, ast.Variable) else ""
    args = node.args
    if len(args) == 1 and name in ("-", "!", "~", ".-", ".!"):
        operand = pretty(args[0], PREFIX)
        if name == "-" and (operand[0] in "-.0123456789" or operand.startswith(("Inf", "NaN"))):
            inner: Any = args[0]
            is_power = isinstance(inner, ast.Call) and inner.op in _POWERS
            operand = operand if is_power and len(inner.args) == 2 else f"({operand})"
        return name + operand, PREFIX
    if len(args) > 1 and name in INFIX and (len(args) == 2 or name in ("+", "*", "&&", "||")):
        return _infix(name, args)
    op = pretty(node.op, ATOM)
    if not isinstance(node.op, _CALLED):
        op = f"({pretty(node.op)})"
    return f"{op}({listed(args)})"


def _infix(name: str, args: tuple[Any, ...]) -> tuple[str, int]:
    level = INFIX[name]
    if name in ("^", ".^"):  # right to left; a number may be its base, but not a negative one
        base = pretty(args[0], ATOM)
        # `2.^` is that of 2.0
        between = f" {name} " if name == ".^" and base[-1].isdigit() else name
        return f"{base}{between}{pretty(args[1], PREFIX)}", POWER
    first = pretty(args[0], level + 1 if level in (PAIR, COMPARISON) else level)
    return f" {name} ".join([first] + [pretty(a, level + 1) for a in args[1:]]), level


def _range(node: ast.Extent) -> tuple[str, int]:
    ends = [node.start, node.stop]
    if node.step is not None:
        ends.insert(1, node.step)
    return ":".join(pretty(e, SUM) for e in ends), RANGE


def _text(node: ast.Text) -> str:
    pieces: list[str] = []
    for k, part in enumerate(node.parts):
        if isinstance(part, str):
            pieces += (_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in part)
            continue
        rest = node.parts[k + 1] if k + 1 < len(node.parts) else ""
        follows = isinstance(rest, str) and re.match(r"\w", rest)
        plain = isinstance(part, ast.Variable) and _NAME.match(part.name) and not follows
        pieces.append(f"${part.name}" if plain else f"$({pretty(part)})")
    return '"' + "".join(pieces) + '"'


def _rows(node: ast.Rows | ast.Numbers) -> str:
    if not node.is_matrix:
        between = "; " if len(node.rows) > 1 else ", "
        return f"[{between.join(listed(row) for row in node.rows)}]"
    # in an array a blank separates elements, so that none may follow a prefix minus
    rows = (" ".join(pretty(e) for e in row) for row in node.rows)
    return "[" + "; ".join(rows) + "]"


def _named(values: tuple[tuple[str, Any], ...]) -> list[str]:
    return [f"{name} = {pretty(value)}" for name, value in values]


def _keyword_call(node: ast.KeywordCall) -> str:
    arguments = ", ".join([pretty(a) for a in node.args] + _named(node.keywords))
    return f"{pretty(node.op, ATOM)}({arguments})"


def _bound(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _comprehension(node: ast.Comprehension) -> str:
    rows = zip(node.names, node.iterables, strict=True)
    loops = [f"{_bound(names)} in {pretty(iterable)}" for names, iterable in rows]
    each = ", ".join(loops) if node.is_grid else " for ".join(loops)
    condition = "" if node.condition is None else f" if {pretty(node.condition)}"
    return f"[{pretty(node.value)} for {each}{condition}]"


def _macro(node: ast.Macro) -> str:
    between = " = " if node.name in ("case", "iterate") else " "
    return f"@{node.name} {between.join(map(nested, node.args))}".rstrip()


#: functions that print nodes
TEXTS: dict[type, Callable[[Any], Written]] = {
    ast.Literal: _literal,
    **dict.fromkeys((ast.Index, ast.Variable, Operation, Itself), lambda n: n.name),
    ast.Value: lambda n: str(n.expr),
    ast.Extent: _range,
    ast.Dimensionless: lambda n: "_",
    ast.Call: _call,
    ast.Access: lambda n: f"{pretty(n.tensor, ATOM)}[{listed(n.indices)}]",
    ast.Text: _text,
    ast.Rows: _rows,
    ast.Numbers: _rows,
    ast.Group: lambda n: f"({listed(n.items)}{',' * (len(n.items) == 1)})",
    ast.Typed: lambda n: f"{n.name.name}::{n.kind}",
    ast.Mode: lambda n: f"@mode({n.tensor.name})",
    ast.Splat: lambda n: f"{pretty(n.value)}...",
    ast.Colon: lambda n: ":",
    ast.KeywordCall: _keyword_call,
    ast.Parametric: lambda n: f"{n.name}{{{listed(n.parameters)}}}",
    ast.Macro: _macro,
    ast.Lambda: lambda n: (f"{_bound(n.parameters)} -> {nested(n.body)}", ANY),
    ast.Comprehension: _comprehension,
    ast.Broadcast: lambda n: f"{pretty(n.op, ATOM)}.({listed(n.args)})",
}

_ASSIGNMENT_SIGNS = {op: sign for sign, op in ASSIGNMENTS.items()}


# ------------------------------------------------------------------------------------- statements


def _sequence(node: ast.Block | ast.Script) -> str:
    return "\n".join(map(nested, node.statements))


def _assign(node: ast.Assign) -> str:
    op = node.op
    plain = op.name if isinstance(op, ast.Variable) else ""
    sign = _ASSIGNMENT_SIGNS.get(plain) or f"<<{pretty(op)}>>="
    return f"{pretty(node.target)} {sign} {pretty(node.value)}"


def _define(node: ast.Define) -> str:
    name, value = node.variable.name, node.value
    if isinstance(value, ast.Formula):
        name, value = f"{name}[{listed(value.indices)}]", value.value
    return _closed(f"let {name} = {pretty(value)}", node.body)


def _declare(node: ast.Declare) -> str:
    if node.dims:
        return f"@declare({listed((node.tensor, node.init, *node.dims))})"
    return f"{pretty(node.tensor)} .= {pretty(node.init)}"


def _let(node: ast.Let) -> str:
    if isinstance(node.value, ast.Macro) and node.value.name == "einsum":
        indices, op, value = node.value.args
        assert isinstance(indices, ast.Group)
        (target,) = node.targets
        line = ast.Assign(ast.Access(target, indices.items), op, value)
        return f"@einsum {_assign(line)}"
    return f"{listed(node.targets)} {node.op or ''}= {nested(node.value)}"


def _function(node: ast.Function | Operation) -> str:
    types, defaults = {}, {}
    if isinstance(node, ast.Function):
        types = {name: f"::{type}" for name, type in node.types}
        defaults = {name: f" = {pretty(given)}" for name, given in node.defaults}
    names = (f"{n}{types.get(n, '')}{defaults.get(n, '')}" for n in node.parameters)
    head = f"{node.name}({', '.join(names)})"
    if isinstance(node.body, ast.Script):
        return _closed(f"function {head}", node.body)
    return f"{head} = {nested(node.body)}"


def _if(node: ast.If) -> str:
    text = ""
    for k, (condition, body) in enumerate(node.branches):
        is_else = 0 < k == len(node.branches) - 1 and condition == ast.Literal(True)
        head = f"{'elseif' if k else 'if'} {pretty(condition)}"
        text += f"{'else' if is_else else head}\n{_inside(body)}"
    return f"{text}end"


def _try(node: ast.Try) -> str:
    handler = final = ""
    if node.handler is not None:
        handler = f"{f'catch {node.name}'.rstrip()}\n{_inside(node.handler)}"
    if node.last is not None:
        final = f"finally\n{_inside(node.last)}"
    return f"try\n{_inside(node.body)}{handler}{final}end"


def _kernel(node: ast.KernelNode) -> str:
    program = node.program
    # functions that differ only in what is known of their operands are printed once
    functions = dict.fromkeys((_function(f), *_laws(f)) for f in _functions(program))
    lines = [line for function in functions for line in function]
    if isinstance(program, ast.Annotated):
        lines += map(pretty, program.annotations)
        program = program.program
    return "\n".join([*lines, f"@finch {nested(program)}"])


def _laws(function: Operation) -> list[str]:
    name, laws, lines = function.name, function.laws, []
    for own, range in ((laws, None), *((r.laws, r) for r in laws.ranged)):
        rows: list[tuple[str, Any]] = [("identity", own.identity)] if own.identity else []
        rows += [("annihilator", row) for row in own.annihilators]
        rows += [("distributes", row) for row in own.distributes]
        rows += [("inverse", (own.inverse, None))] if own.inverse else []
        stated = [*own.properties]
        for law, (value, at) in rows:
            stated.append(f"{law}({pretty(value)}{'' if at is None else f', {at}'})")
        if range is not None:
            stated.append(f"where {' && '.join(map(pretty, range.bounds))}")
        if stated:
            lines.append(f"@properties {name} {' '.join(stated)}")
    for case in laws.cases:
        body = case.result.body  # type: ignore[attr-defined]
        lines.append(f"@case {name}({listed(case.patterns)}) = {nested(body)}")
    if laws.region is not None:
        lines.append(f"@iterate {name}({listed(laws.region[0])}) = {pretty(laws.region[1])}")
    return lines


def _functions(program: ast.Node) -> list[Operation]:
    """The functions in a program, each once, and after those that it uses."""
    found: dict[Operation, None] = {}
    for node in trees.walk(program):
        if isinstance(node, Operation):
            used: list[Any] = []
            for laws in (node.laws, *(r.laws for r in node.laws.ranged)):
                used += [*(given for given, _ in laws.distributes), laws.inverse]
            used += [node.body, *(case.result.body for case in node.laws.cases)]  # type: ignore
            within = [f for n in used if n is not None for f in _functions(n)]
            found |= dict.fromkeys((*within, node))
    return list(found)


def _policy(node: ast.Policy) -> str:
    given = {"policy": node.policy, "capacity": node.capacity}
    settings = [f"{name}={value}" for name, value in given.items() if value]
    return " ".join(("@workspace", node.tensor.name, *settings))


def _for(node: ast.For, around: list[str]) -> str:
    """A loop, together with those in it that are joined to it."""
    heads = [*around, f"{node.variable} = {pretty(node.iterable)}"]
    match node.body:
        case ast.Script((ast.For(joined=True) as inner,)):
            return _for(inner, heads)
    return _closed(f"for {', '.join(heads)}", node.body)


TEXTS |= {
    ast.Assign: _assign,
    ast.Loop: lambda n: _closed(f"for {n.index.name} = {pretty(n.extent)}", n.body),
    ast.Define: _define,
    ast.Sieve: lambda n: _closed(f"if {pretty(n.condition)}", n.body),
    ast.Block: _sequence,
    ast.Declare: _declare,
    ast.Freeze: lambda n: f"@freeze({n.tensor.name})",
    ast.Thaw: lambda n: f"@thaw({n.tensor.name})",
    ast.Yield: lambda n: f"return {_bound(tuple(name.name for name in n.names))}",
    ast.Let: _let,
    ast.Function: _function,
    ast.Return: lambda n: "return" if n.value is None else f"return {nested(n.value)}",
    ast.While: lambda n: _closed(f"while {pretty(n.condition)}", n.body),
    ast.For: lambda n: _for(n, []),
    ast.If: _if,
    ast.Local: lambda n: _closed(f"let {', '.join(_named(n.values))}", n.body),
    ast.Try: _try,
    ast.Break: lambda n: "break",
    ast.Continue: lambda n: "continue",
    ast.KernelNode: _kernel,
    ast.Schedule: lambda n: f"@schedule {n.name}({listed(n.args)})",
    ast.Policy: _policy,
    ast.Annotated: lambda n: "\n".join(map(pretty, (*n.annotations, n.program))),
    ast.Script: _sequence,
}
