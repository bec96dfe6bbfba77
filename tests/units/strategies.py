"""Hypothesis strategies for programs: the shapes the parser yields, of both strata."""

from __future__ import annotations

from hypothesis import strategies as st

from finchlang.forms import Broadcast, Comprehension, Lambda, Local, Try
from finchlang.syntax import (
    MISSING,
    NOTHING,
    Access,
    Assign,
    Break,
    Call,
    Colon,
    Continue,
    Declare,
    Define,
    Dimensionless,
    Extent,
    For,
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
    Range,
    Return,
    Rows,
    Script,
    Sieve,
    Subscript,
    Text,
    Thaw,
    Typed,
    Variable,
    While,
    Yield,
)
from finchlang.types import TYPES, Float32
from finchlang.walk import block

INDICES = ("i", "j", "k", "l")  # bound by loops and by nothing else
NAMES = ("A", "B", "x", "y", "α", "_F", "push!", "x_1")
INFIX = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=")
LOGICAL = ("&&", "||")
FUNCTIONS = ("min", "max", "coalesce", "ifelse", "div", "xor", "f")
ASSIGNMENTS = ("initwrite", "overwrite", "+", "-", "*", "/", "&", "|", "min", "&&", "<", "%")

names = st.sampled_from(NAMES)
variables = names.map(Variable)


@st.composite
def literals(draw: st.DrawFn) -> Node:
    """Numbers, typed and not; truth values; `missing` and `nothing`."""
    kind = draw(st.sampled_from([None, *TYPES]))
    if kind is None:
        plain = st.one_of(
            st.integers(-(2**63) + 1, 2**63 - 1),
            st.floats(),
            st.booleans(),
            st.sampled_from([MISSING, NOTHING, 0, 1]),
        )
        return Literal(draw(plain))
    type = TYPES[kind]
    if type.is_float:
        value = draw(st.floats(width=type.bits))
        return Literal(Float32.wrap(value) if kind == "Float32" else value, kind)
    return Literal(draw(st.booleans() if kind == "Bool" else _integers(type)), kind)


def _integers(type) -> st.SearchStrategy[int]:
    return st.integers(max(type.lowest, -(2**63) + 1), type.highest)


def _extended(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Calls, prefix, infix and logical operators over `inner`."""
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(lambda o, p: Call(Variable(o), p), st.sampled_from(INFIX + LOGICAL), pairs),
        st.builds(lambda o, x: Call(Variable(o), (x,)), st.sampled_from("-!~"), inner),
        st.builds(
            lambda o, a: Call(Variable(o), tuple(a)),
            st.sampled_from(FUNCTIONS),
            st.lists(inner, max_size=3),
        ),
    )


# -------------------------------------------------------------------------------- kernel stratum


def kernel_expressions(bound: tuple[str, ...] = (), size: int = 8) -> st.SearchStrategy[Node]:
    """Expressions of a kernel where the loops over `bound` stand around."""
    typed = st.builds(Typed, variables, st.sampled_from(["Int64", "UInt8", "Float32", "Bool"]))
    leaf = st.one_of(literals(), variables, variables.map(Mode), typed)
    if bound:
        leaf = st.one_of(leaf, st.sampled_from(bound).map(Index))
    return st.recursive(leaf, _kernel_extended, max_leaves=size)


def _kernel_extended(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(_extended(inner), accesses(inner))


def accesses(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Accesses of tensors and wrappers, with plain and modified indices."""
    wrapper = st.builds(
        lambda name, args: Call(Variable(name), tuple(args)),
        st.sampled_from(["swizzle", "offset", "UpTriMask", "window"]),
        st.lists(st.one_of(inner, st.builds(Extent, inner, inner)), max_size=2),
    )
    modified = st.one_of(
        st.builds(
            lambda m, i: Call(Variable(m), (i,)),
            st.sampled_from(["~", "walk", "gallop", "follow"]),
            inner,
        ),
        st.builds(lambda a, b, i: Call(Extent(a, b), (i,)), inner, inner, inner),
    )
    indices = st.lists(st.one_of(inner, modified), max_size=3).map(tuple)
    return st.builds(Access, st.one_of(variables, wrapper), indices)


@st.composite
def kernel_statements(draw: st.DrawFn, bound: tuple[str, ...] = (), depth: int = 3) -> Node:
    """A statement of a kernel (Finch'25 Fig 8a)."""
    expression = kernel_expressions(bound, 4)
    kinds = ["assign", "declare", "freeze", "thaw"]
    kind = draw(st.sampled_from(kinds + ["loop", "let", "if", "block"] * (depth > 0)))
    if kind == "assign":
        op = st.one_of(
            st.sampled_from(ASSIGNMENTS).map(Variable),
            st.just(Call(Variable("choose"), (Literal(0),))),
        )
        return Assign(draw(accesses(expression)), draw(op), draw(expression))
    if kind == "declare":
        dims = draw(st.lists(st.builds(Extent, expression, expression), max_size=2))
        return Declare(draw(variables), draw(expression), tuple(dims))
    if kind in ("freeze", "thaw"):
        return (Freeze if kind == "freeze" else Thaw)(draw(variables))
    if kind == "loop":
        index = draw(st.sampled_from(INDICES))
        extent = st.one_of(
            st.just(Dimensionless()), st.builds(Extent, expression, expression), expression
        )
        inside = tuple(sorted({*bound, index}))
        return Loop(Index(index), draw(extent), draw(kernel_statements(inside, depth - 1)))
    if kind == "let":
        variable = draw(variables)
        return Define(variable, draw(expression), draw(kernel_statements(bound, depth - 1)))
    if kind == "if":
        return Sieve(draw(expression), draw(kernel_statements(bound, depth - 1)))
    return block(*draw(st.lists(kernel_statements(bound, depth - 1), max_size=3)))


@st.composite
def kernels(draw: st.DrawFn) -> Node:
    """A whole kernel, with or without a `return`."""
    statements = draw(st.lists(kernel_statements(), min_size=1, max_size=3))
    if draw(st.booleans()):
        statements.append(Yield(tuple(draw(st.lists(variables, min_size=1, max_size=2)))))
    return block(*statements)


# -------------------------------------------------------------------------------- script stratum


def script_expressions(size: int = 8) -> st.SearchStrategy[Node]:
    """Expressions of a script."""
    leaf = st.one_of(literals(), variables, st.just(Macro("__DIR__", ())))
    return st.recursive(leaf, _script_extended, max_leaves=size)


def _script_extended(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    few = st.lists(inner, max_size=3).map(tuple)
    some = st.lists(inner, min_size=1, max_size=2).map(tuple)
    callee = st.one_of(variables, st.builds(Parametric, names, some))
    keywords = st.lists(st.tuples(names, inner), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        _extended(inner),
        st.builds(Call, st.builds(Parametric, names, some), few),
        st.builds(KeywordCall, callee, few, keywords),
        st.builds(Subscript, variables, st.lists(st.one_of(inner, st.just(Colon()))).map(tuple)),
        st.builds(Range, inner, st.one_of(st.none(), inner), inner),
        st.builds(Group, few),
        st.builds(lambda items: Rows((items,) if items else (), False), few),
        matrices(inner),
        texts(inner),
        st.builds(Lambda, st.lists(names, max_size=2).map(tuple), inner),
        st.builds(Broadcast, variables, few),
        comprehensions(inner),
    )


@st.composite
def comprehensions(draw: st.DrawFn, inner: st.SearchStrategy[Node]) -> Node:
    count, condition = draw(st.integers(1, 2)), draw(st.one_of(st.none(), inner))
    bound = st.lists(names, min_size=1, max_size=2).map(tuple)
    loops = tuple(draw(bound) for _ in range(count)), tuple(draw(inner) for _ in range(count))
    is_grid = condition is None and (count == 1 or draw(st.booleans()))
    return Comprehension(draw(inner), *loops, condition, is_grid)


@st.composite
def matrices(draw: st.DrawFn, inner: st.SearchStrategy[Node]) -> Node:
    width = draw(st.integers(2, 3))
    row = st.lists(inner, min_size=width, max_size=width).map(tuple)
    return Rows(tuple(draw(st.lists(row, min_size=1, max_size=2))), True)


@st.composite
def texts(draw: st.DrawFn, inner: st.SearchStrategy[Node]) -> Node:
    """Strings; the parser joins neighbouring stretches of text, and has no empty ones."""
    parts: list = []
    plain = st.text(min_size=1).filter(lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t))
    interpolated = st.one_of(variables, st.builds(Subscript, variables, st.tuples(literals())))
    for part in draw(st.lists(st.one_of(plain, interpolated), max_size=4)):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return Text(tuple(parts))


targets = st.one_of(variables, st.builds(Subscript, variables, st.tuples(literals())))


@st.composite
def script_statements(draw: st.DrawFn, depth: int = 2) -> Node:
    """A statement of a script."""
    expression = script_expressions(4)
    kinds = ["let", "tuple", "update", "expression", "break", "continue", "return", "assert"]
    deep = ["while", "for", "if", "function", "short", "begin", "kernel", "time", "array"]
    deep += ["try", "local"]
    kind = draw(st.sampled_from(kinds + deep * (depth > 0)))
    if kind == "expression":
        return draw(expression)
    if kind in ("break", "continue"):
        return Break() if kind == "break" else Continue()
    if kind == "let":
        return Let((draw(targets),), None, draw(st.one_of(expression, kernel_values)))
    if kind == "tuple":
        several = draw(st.lists(targets, min_size=2, max_size=3))
        return Let(tuple(several), None, draw(expression))
    if kind == "update":
        return Let((draw(targets),), draw(st.sampled_from("+-*/&|%^")), draw(expression))
    if kind == "return":
        return Return(draw(st.one_of(st.none(), expression)))
    if kind == "assert":
        message = draw(st.lists(texts(expression), max_size=1))
        condition = draw(expression.filter(lambda e: not isinstance(e, Group)))
        return Macro("assert", (condition, *message))
    if kind == "array":
        value = Macro("array", (draw(expression),))
        return draw(st.sampled_from([value, Let((draw(variables),), None, value)]))
    if kind == "time":
        return Macro("time", (draw(expression),))
    if kind == "kernel":
        return draw(kernel_values)
    body = st.lists(script_statements(depth - 1), max_size=2).map(lambda s: Script(tuple(s)))
    if kind == "local":
        values = st.lists(st.tuples(names, expression), min_size=1, max_size=2).map(tuple)
        return Local(draw(values), draw(body))
    if kind == "try":
        last = draw(st.one_of(st.none(), body))
        handler = draw(body if last is None else st.one_of(st.none(), body))
        name = "" if handler is None else draw(st.one_of(st.just(""), names))
        return Try(draw(body), name, handler, last)
    if kind == "begin":
        return draw(body)
    if kind == "while":
        return While(draw(expression), draw(body))
    if kind == "for":
        return For(draw(names), draw(expression), draw(body))
    if kind == "if":
        branches = draw(st.lists(st.tuples(expression, body), min_size=1, max_size=3))
        return If(tuple(branches))
    parameters = tuple(draw(st.lists(names, max_size=2)))
    return Function(draw(names), parameters, draw(body if kind == "function" else expression))


kernel_values = kernel_statements(depth=1).map(KernelNode)


def scripts() -> st.SearchStrategy[Script]:
    """Whole scripts."""
    return st.lists(script_statements(), max_size=4).map(lambda s: Script(tuple(s)))
