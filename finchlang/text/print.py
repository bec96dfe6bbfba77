"""AST → text: any node of either stratum, at any stage, as source that parses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.looplets import Phase, Run, Sequence, Shift, Spike, Switch
from finchlang.operation import Operation
from finchlang.syntax import (
    Access,
    Annotated,
    Assign,
    Block,
    Break,
    Call,
    Colon,
    Continue,
    Declare,
    Define,
    Dimensionless,
    Extent,
    For,
    Formula,
    Freeze,
    Function,
    Group,
    If,
    Index,
    KernelNode,
    KeywordCall,
    Let,
    Literal,
    Loop,
    Macro,
    Mode,
    Node,
    Parametric,
    Policy,
    Range,
    Return,
    Rows,
    Schedule,
    Script,
    Sieve,
    Subscript,
    Text,
    Thaw,
    Typed,
    Value,
    Variable,
    While,
    Yield,
)
from finchlang.text.kernel_builder import ASSIGNMENTS
from finchlang.types import Pair
from finchlang.walk import walk

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
INFIX |= {".÷": PRODUCT, ".⊻": SUM}
_ASSIGNMENT_SIGNS = {op: sign for sign, op in ASSIGNMENTS.items()}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "$": "\\$", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_NAME = re.compile(r"[^\W\d]\w*\Z")
#: the types that literals have of themselves
_PLAIN = ("Bool", "Int64", "Float64")
INDENT = "    "


def pretty(node: Any) -> str:
    """`node` as source text, with no more parentheses than needed and one statement a line.

    `parse_script(pretty(p)) == p` and `parse_kernel(pretty(p)) == p` for whatever the parser
    yields. What no source can say prints as itself: a Value's host expression, and the objects
    that stand for tensors while rules run; a looplet does as Finch'25 Table 2 has it, without functions.
    """
    statement = STATEMENTS.get(type(node))
    return "\n".join(statement(node)) if statement else _expression(node)


# ------------------------------------------------------------------------------------ expressions


def _expression(node: Any, level: int = ANY) -> str:
    """`node` as an operand of an operator of that level: in parentheses if it binds less."""
    write = EXPRESSIONS.get(type(node))
    if write is None:
        return str(node)
    text, own = write(node)
    return f"({text})" if own < level else text


def _list(items: tuple[Any, ...]) -> str:
    return ", ".join(_expression(i) for i in items)


def _literal(node: Literal) -> tuple[str, int]:
    value, kind = node.value, node.type
    if isinstance(value, Pair):
        types = [None if t in _PLAIN else t for t in (kind or "")[5:-1].split(", ")]
        return _infix("=>", tuple(map(Literal, value, types)))
    if kind is not None and kind.startswith("UInt"):
        text = f"0x{value:0{int(kind[4:]) // 4}x}"
    elif kind is not None:
        shown = np.float32(value) if kind == "Float32" else value
        text = f"{kind}({_number(shown)})"
    elif type(value) in (int, float):
        text = _number(value)
        if text.startswith("-"):
            return text, PREFIX
    else:
        text = _number(value)
    return text, ATOM


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return "NaN"
        return ("-" if value < 0 else "") + "Inf" if math.isinf(value) else str(value)
    return str(value)


def _call(node: Call) -> tuple[str, int]:
    name = node.op.name if isinstance(node.op, Variable) else ""
    args = node.args
    if len(args) == 1 and name in ("-", "!", "~"):
        operand = _expression(args[0], PREFIX)
        if name == "-" and (operand[0] in "-.0123456789" or operand.startswith(("Inf", "NaN"))):
            operand = f"({operand})" if not _is_power(args[0]) else operand
        return name + operand, PREFIX
    if len(args) > 1 and name in INFIX and (len(args) == 2 or name in ("+", "*", "&&", "||")):
        return _infix(name, args)
    if isinstance(node.op, (Variable, Operation, Call, Access, Subscript, Parametric)):
        return f"{_expression(node.op, ATOM)}({_list(args)})", ATOM
    return f"({_expression(node.op)})({_list(args)})", ATOM


def _is_power(node: Any) -> bool:
    signs = (Variable("^"), Variable(".^"))
    return isinstance(node, Call) and node.op in signs and len(node.args) == 2


def _infix(name: str, args: tuple[Any, ...]) -> tuple[str, int]:
    level = INFIX[name]
    if name in ("^", ".^"):  # right to left, and a number may be its base but not a negative one
        return f"{_expression(args[0], ATOM)}{name}{_expression(args[1], PREFIX)}", POWER
    first = _expression(args[0], level + 1 if level in (PAIR, COMPARISON) else level)
    return f" {name} ".join([first] + [_expression(a, level + 1) for a in args[1:]]), level


def _range(node: Range | Extent) -> tuple[str, int]:
    ends = [node.start, node.stop]
    if node.step is not None:
        ends.insert(1, node.step)
    return ":".join(_expression(e, SUM) for e in ends), RANGE


def _bracketed(tensor: Any, indices: tuple[Any, ...]) -> tuple[str, int]:
    return f"{_expression(tensor, ATOM)}[{_list(indices)}]", ATOM


def _text(node: Text) -> tuple[str, int]:
    pieces = []
    for k, part in enumerate(node.parts):
        if isinstance(part, str):
            pieces.append("".join(_ESCAPES.get(c) or _printable(c) for c in part))
            continue
        rest = node.parts[k + 1] if k + 1 < len(node.parts) else ""
        follows = isinstance(rest, str) and re.match(r"\w", rest)
        plain = isinstance(part, Variable) and _NAME.match(part.name) and not follows
        pieces.append(f"${part.name}" if plain else f"$({_expression(part)})")
    return '"' + "".join(pieces) + '"', ATOM


def _printable(character: str) -> str:
    code = ord(character)
    return character if character.isprintable() else f"\\U{code:08x}"


def _rows(node: Rows) -> tuple[str, int]:
    if not node.is_matrix:
        return "[" + _list(node.rows[0] if node.rows else ()) + "]", ATOM
    # within an array a blank separates elements, and none stands right after a prefix minus
    rows = (" ".join(_expression(e) for e in row) for row in node.rows)
    return "[" + "; ".join(rows) + "]", ATOM


def _group(node: Group) -> tuple[str, int]:
    return f"({_list(node.items)}{',' * (len(node.items) == 1)})", ATOM


def _keyword_call(node: KeywordCall) -> tuple[str, int]:
    named = [f"{name} = {_expression(value)}" for name, value in node.keywords]
    arguments = ", ".join([_expression(a) for a in node.args] + named)
    return f"{_expression(node.op, ATOM)}({arguments})", ATOM


def _macro(node: Macro) -> tuple[str, int]:
    return " ".join([f"@{node.name}", *(pretty(a) for a in node.args)]), ATOM


def _looplet(name: str, *parts: Any) -> tuple[str, int]:
    return f"{name}({_list(parts)})", ATOM


def _end(end: Any) -> Node:
    """The start or stop of a phase, which may be left out."""
    return Dimensionless() if end is None else Value(end)


EXPRESSIONS: dict[type, Callable[[Any], tuple[str, int]]] = {
    Literal: _literal,
    Index: lambda n: (n.name, ATOM),
    Variable: lambda n: (n.name, ATOM),
    Operation: lambda n: (n.name, ATOM),
    Value: lambda n: (str(n.expr), ATOM),
    Extent: _range,
    Range: _range,
    Dimensionless: lambda n: ("_", ATOM),
    Call: _call,
    Access: lambda n: _bracketed(n.tensor, n.indices),
    Subscript: lambda n: _bracketed(n.object, n.indices),
    Text: _text,
    Rows: _rows,
    Group: _group,
    Typed: lambda n: (f"{n.name.name}::{n.kind}", ATOM),
    Mode: lambda n: (f"@mode({n.tensor.name})", ATOM),
    Colon: lambda n: (":", ATOM),
    KeywordCall: _keyword_call,
    Parametric: lambda n: (f"{n.name}{{{_list(n.parameters)}}}", ATOM),
    Macro: _macro,
    Run: lambda n: _looplet("run", n.body),
    Spike: lambda n: _looplet("spike", n.body, n.tail),
    Phase: lambda n: _looplet("phase", Extent(_end(n.start), _end(n.stop)), n.body),
    Sequence: lambda n: _looplet("sequence", *n.phases),
    Switch: lambda n: _looplet("switch", Value(n.condition), n.head, n.tail),
    Shift: lambda n: _looplet("shift", n.body, Value(n.delta)),
}

# ------------------------------------------------------------------------------------- statements


def _lines(node: Any) -> list[str]:
    """A statement's lines."""
    statement = STATEMENTS.get(type(node))
    return statement(node) if statement else [_expression(node)]


def _body(node: Any) -> list[str]:
    """The lines of what stands between a head and its `end`."""
    statements = node.statements if isinstance(node, (Block, Script)) else (node,)
    return [INDENT + line for s in statements for line in _nested(s)]


def _nested(node: Any) -> list[str]:
    """The lines of a statement among others: one that is a sequence itself is a `begin` block."""
    if isinstance(node, (Block, Script)):
        return ["begin", *_body(node), "end"]
    return _lines(node)


def _closed(head: str, body: Any) -> list[str]:
    return [head, *_body(body), "end"]


def _sequence(node: Block | Script) -> list[str]:
    return [line for s in node.statements for line in _nested(s)]


def _assign(node: Assign) -> list[str]:
    op = node.op
    plain = op.name if isinstance(op, Variable) else ""
    sign = _ASSIGNMENT_SIGNS.get(plain) or f"<<{_expression(op)}>>="
    return [f"{_expression(node.target)} {sign} {_expression(node.value)}"]


def _define(node: Define) -> list[str]:
    name, value = node.variable.name, node.value
    if isinstance(value, Formula):
        name, value = f"{name}[{_list(value.indices)}]", value.value
    return _closed(f"let {name} = {_expression(value)}", node.body)


def _declare(node: Declare) -> list[str]:
    if node.dims:
        return [f"@declare({_list((node.tensor, node.init, *node.dims))})"]
    return [f"{_expression(node.tensor)} .= {_expression(node.init)}"]


def _yield(node: Yield) -> list[str]:
    names = _list(node.names)
    return [f"return {names}" if len(node.names) == 1 else f"return ({names})"]


def _headed(head: str, value: Any) -> list[str]:
    """`head` and a value, which may itself take several lines (a kernel, a block)."""
    first, *rest = _nested(value)
    return [head + first, *rest]


def _let(node: Let) -> list[str]:
    if isinstance(node.value, Macro) and node.value.name == "einsum":
        indices, op, value = node.value.args
        assert isinstance(indices, Group)
        (target,) = node.targets
        line = Assign(Access(target, indices.items), op, value)
        return [f"@einsum {_assign(line)[0]}"]
    return _headed(f"{_list(node.targets)} {node.op or ''}= ", node.value)


def _function(node: Function | Operation) -> list[str]:
    head = f"{node.name}({', '.join(node.parameters)})"
    if isinstance(node.body, Script):
        return _closed(f"function {head}", node.body)
    return _headed(f"{head} = ", node.body)


def _if(node: If) -> list[str]:
    lines: list[str] = []
    for k, (condition, body) in enumerate(node.branches):
        last = k > 0 and k == len(node.branches) - 1
        if last and condition == Literal(True):
            head = "else"
        else:
            head = f"{'elseif' if k else 'if'} {_expression(condition)}"
        lines += [head, *_body(body)]
    return [*lines, "end"]


def _time(node: Macro) -> list[str]:
    if node.name == "time":
        return _headed("@time ", node.args[0])
    return [_macro(node)[0]]


def _kernel(node: KernelNode) -> list[str]:
    """A kernel, after the functions that it calls."""
    program = node.program
    lines = [line for f in _functions(program) for line in (*_function(f), *_laws(f))]
    if isinstance(program, Annotated):
        lines += [line for a in program.annotations for line in _lines(a)]
        program = program.program
    return [*lines, *_headed("@finch ", program)]


def _laws(function: Operation) -> list[str]:
    """What is declared of a function."""
    name, laws, stated, lines = function.name, function.laws, [*function.laws.properties], []
    for law, given in (
        *(("identity", given) for given in (laws.identity,) if given),
        *(("annihilator", given) for given in laws.annihilators),
        *(("distributes", given) for given in laws.distributes),
        *(("inverse", (h, None)) for h in (laws.inverse,) if h),
    ):
        args = [pretty(given[0]), *([] if given[1] is None else [str(given[1])])]
        stated.append(f"{law}({', '.join(args)})")
    if stated:
        lines.append(f"@properties {name} {' '.join(stated)}")
    for case in laws.cases:
        body = case.result.body  # type: ignore[attr-defined]
        lines += _headed(f"@case {name}({_list(case.patterns)}) = ", body)
    if laws.region is not None:
        lines.append(f"@iterate {name}({_list(laws.region[0])}) = {pretty(laws.region[1])}")
    return lines


def _functions(program: Node) -> list[Operation]:
    """The functions in a program, each once, after those that it calls."""
    found: dict[Operation, None] = {}
    for node in walk(program):
        if isinstance(node, Operation):
            laws = node.laws
            named = [g for g in (*(g for g, _ in laws.distributes), laws.inverse) if g is not None]
            bodies = [node.body, *(case.result.body for case in laws.cases)]  # type: ignore
            within = [f for n in (*named, *bodies) for f in _functions(n)]
            found |= dict.fromkeys((*within, node))
    return list(found)


def _policy(node: Policy) -> list[str]:
    policy = f" policy={node.policy}" if node.policy else ""
    capacity = f" capacity={node.capacity}" if node.capacity else ""
    return [f"@workspace {node.tensor.name}{policy}{capacity}"]


STATEMENTS: dict[type, Callable[[Any], list[str]]] = {
    Assign: _assign,
    Loop: lambda n: _closed(f"for {n.index.name} = {_expression(n.extent)}", n.body),
    Define: _define,
    Sieve: lambda n: _closed(f"if {_expression(n.condition)}", n.body),
    Block: _sequence,
    Declare: _declare,
    Freeze: lambda n: [f"@freeze({n.tensor.name})"],
    Thaw: lambda n: [f"@thaw({n.tensor.name})"],
    Yield: _yield,
    Let: _let,
    Function: _function,
    Return: lambda n: ["return"] if n.value is None else _headed("return ", n.value),
    While: lambda n: _closed(f"while {_expression(n.condition)}", n.body),
    For: lambda n: _closed(f"for {n.variable} = {_expression(n.iterable)}", n.body),
    If: _if,
    Break: lambda n: ["break"],
    Continue: lambda n: ["continue"],
    Macro: _time,
    KernelNode: _kernel,
    Schedule: lambda n: [f"@schedule {n.name}({_list(n.args)})"],
    Policy: _policy,
    Annotated: lambda n: [line for part in (*n.annotations, n.program) for line in _lines(part)],
    Script: _sequence,
}
assert all(issubclass(kind, Node) for kind in STATEMENTS)
