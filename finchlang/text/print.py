"""AST → text: any node of either stratum, at any stage, as a text that parses."""

from __future__ import annotations

from typing import Any

from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.user_function import Operation
from finchlang.text.literals import ASSIGNMENTS
from finchlang.text.print_expressions import (
    STATEMENTS,
    body_of,
    expression_text,
    lines_of,
    listed,
    macro_text,
    nested,
    pretty,
)

_ASSIGNMENT_SIGNS = {op: sign for sign, op in ASSIGNMENTS.items()}


# ------------------------------------------------------------------------------------- statements


def _closed(head: str, body: Any) -> list[str]:
    return [head, *body_of(body), "end"]


def _sequence(node: ast.Block | ast.Script) -> list[str]:
    return [line for s in node.statements for line in nested(s)]


def _assign(node: ast.Assign) -> list[str]:
    op = node.op
    plain = op.name if isinstance(op, ast.Variable) else ""
    sign = _ASSIGNMENT_SIGNS.get(plain) or f"<<{expression_text(op)}>>="
    return [f"{expression_text(node.target)} {sign} {expression_text(node.value)}"]


def _define(node: ast.Define) -> list[str]:
    name, value = node.variable.name, node.value
    if isinstance(value, ast.Formula):
        name, value = f"{name}[{listed(value.indices)}]", value.value
    return _closed(f"let {name} = {expression_text(value)}", node.body)


def _declare(node: ast.Declare) -> list[str]:
    if node.dims:
        return [f"@declare({listed((node.tensor, node.init, *node.dims))})"]
    return [f"{expression_text(node.tensor)} .= {expression_text(node.init)}"]


def _yield(node: ast.Yield) -> list[str]:
    names = listed(node.names)
    return [f"return {names}" if len(node.names) == 1 else f"return ({names})"]


def _headed(head: str, value: Any) -> list[str]:
    """`head` followed by a value, which may take several lines (a kernel, a block)."""
    first, *rest = nested(value)
    return [head + first, *rest]


def _let(node: ast.Let) -> list[str]:
    if isinstance(node.value, ast.Macro) and node.value.name == "einsum":
        indices, op, value = node.value.args
        assert isinstance(indices, ast.Group)
        (target,) = node.targets
        line = ast.Assign(ast.Access(target, indices.items), op, value)
        return [f"@einsum {_assign(line)[0]}"]
    return _headed(f"{listed(node.targets)} {node.op or ''}= ", node.value)


def _function(node: ast.Function | Operation) -> list[str]:
    types, defaults = {}, {}
    if isinstance(node, ast.Function):
        types = {name: f"::{type}" for name, type in node.types}
        defaults = {name: f" = {expression_text(given)}" for name, given in node.defaults}
    names = (f"{n}{types.get(n, '')}{defaults.get(n, '')}" for n in node.parameters)
    head = f"{node.name}({', '.join(names)})"
    if isinstance(node.body, ast.Script):
        return _closed(f"function {head}", node.body)
    return _headed(f"{head} = ", node.body)


def _if(node: ast.If) -> list[str]:
    lines: list[str] = []
    for k, (condition, body) in enumerate(node.branches):
        is_else = 0 < k == len(node.branches) - 1 and condition == ast.Literal(True)
        head = f"{'elseif' if k else 'if'} {expression_text(condition)}"
        lines += ["else" if is_else else head, *body_of(body)]
    return [*lines, "end"]


def _local(node: ast.Local) -> list[str]:
    values = ", ".join(f"{name} = {expression_text(value)}" for name, value in node.values)
    return _closed(f"let {values}", node.body)


def _try(node: ast.Try) -> list[str]:
    lines = ["try", *body_of(node.body)]
    if node.handler is not None:
        lines += [f"catch {node.name}".rstrip(), *body_of(node.handler)]
    if node.last is not None:
        lines += ["finally", *body_of(node.last)]
    return [*lines, "end"]


def _time(node: ast.Macro) -> list[str]:
    if node.name in ("time", "elapsed", "show"):
        return _headed(f"@{node.name} ", node.args[0])
    return [macro_text(node)[0]]


def _kernel(node: ast.KernelNode) -> list[str]:
    """A kernel, after the functions that it calls."""
    program = node.program
    # functions that differ only in what is known of their operands are printed once
    functions = dict.fromkeys((*_function(f), *_laws(f)) for f in _functions(program))
    lines = [line for function in functions for line in function]
    if isinstance(program, ast.Annotated):
        lines += [line for a in program.annotations for line in lines_of(a)]
        program = program.program
    return [*lines, *_headed("@finch ", program)]


def _laws(function: Operation) -> list[str]:
    name, laws, lines = function.name, function.laws, []
    for own, range in ((laws, None), *((r.laws, r) for r in laws.ranged)):
        stated = [*own.properties]
        for law, given in (
            *(("identity", given) for given in (own.identity,) if given),
            *(("annihilator", given) for given in own.annihilators),
            *(("distributes", given) for given in own.distributes),
            *(("inverse", (h, None)) for h in (own.inverse,) if h),
        ):
            args = [pretty(given[0]), *([] if given[1] is None else [str(given[1])])]
            stated.append(f"{law}({', '.join(args)})")
        if range is not None:
            stated.append(f"where {' && '.join(map(pretty, range.bounds))}")
        if stated:
            lines.append(f"@properties {name} {' '.join(stated)}")
    for case in laws.cases:
        body = case.result.body  # type: ignore[attr-defined]
        lines += _headed(f"@case {name}({listed(case.patterns)}) = ", body)
    if laws.region is not None:
        lines.append(f"@iterate {name}({listed(laws.region[0])}) = {pretty(laws.region[1])}")
    return lines


def _functions(program: ast.Node) -> list[Operation]:
    """The functions in a program, each once, and after those that it uses."""
    found: dict[Operation, None] = {}
    for node in trees.walk(program):
        if isinstance(node, Operation):
            laws = node.laws
            every = (laws, *(r.laws for r in laws.ranged))
            given = (g for own in every for g in (*(g for g, _ in own.distributes), own.inverse))
            named = [g for g in given if g is not None]
            bodies = [node.body, *(case.result.body for case in laws.cases)]  # type: ignore
            within = [f for n in (*named, *bodies) for f in _functions(n)]
            found |= dict.fromkeys((*within, node))
    return list(found)


def _policy(node: ast.Policy) -> list[str]:
    given = {"policy": node.policy, "capacity": node.capacity}
    settings = [f"{name}={value}" for name, value in given.items() if value]
    return [" ".join(("@workspace", node.tensor.name, *settings))]


STATEMENTS |= {
    ast.Assign: _assign,
    ast.Loop: lambda n: _closed(f"for {n.index.name} = {expression_text(n.extent)}", n.body),
    ast.Define: _define,
    ast.Sieve: lambda n: _closed(f"if {expression_text(n.condition)}", n.body),
    ast.Block: _sequence,
    ast.Declare: _declare,
    ast.Freeze: lambda n: [f"@freeze({n.tensor.name})"],
    ast.Thaw: lambda n: [f"@thaw({n.tensor.name})"],
    ast.Yield: _yield,
    ast.Let: _let,
    ast.Function: _function,
    ast.Return: lambda n: ["return"] if n.value is None else _headed("return ", n.value),
    ast.While: lambda n: _closed(f"while {expression_text(n.condition)}", n.body),
    ast.For: lambda n: _closed(f"for {n.variable} = {expression_text(n.iterable)}", n.body),
    ast.If: _if,
    ast.Local: _local,
    ast.Try: _try,
    ast.Break: lambda n: ["break"],
    ast.Continue: lambda n: ["continue"],
    ast.Macro: _time,
    ast.KernelNode: _kernel,
    ast.Schedule: lambda n: [f"@schedule {n.name}({listed(n.args)})"],
    ast.Policy: _policy,
    ast.Annotated: lambda n: [s for p in (*n.annotations, n.program) for s in lines_of(p)],
    ast.Script: _sequence,
}
assert all(issubclass(kind, ast.Node) for kind in STATEMENTS)
