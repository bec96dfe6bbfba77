"""Translates Python functions from their source to functions of the script; what would mean something
else there is refused, at its place in the file."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import lru_cache, reduce
from types import CodeType, FunctionType
from typing import Any

from finchlang.base.errors import FinchError, Source, Span
from finchlang.python.from_python import is_name
from finchlang.script.functions import PREDEFINED
from finchlang.syntax import nodes as syntax, types
from finchlang.syntax.control_flow import NEXT, ways

#: operators of Python by their names in the language; a name of Python that is one of the words is renamed
OPERATORS: dict[type, str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "fld"},
    **{ast.Mod: "mod", ast.Pow: "power", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "xor"},
    **{ast.And: "&&", ast.Or: "||", ast.Not: "!", ast.UAdd: "+", ast.USub: "-"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}
WORDS = {"ifelse", *(name for name in OPERATORS.values() if name.isidentifier())}
_ALLOWED = (
    "an operator has numbers, arithmetic, comparisons, functions of `math` and others like it, `if`, "
    "`while`, `for` over a range, names of its own and `return`"
)


#: the trees of the last few texts of Python files
_parsed = lru_cache(maxsize=8)(ast.parse)


def definition_of(
    function: FunctionType,
) -> tuple[str, list[str], ast.FunctionDef | ast.Lambda | None]:
    """The file of a Python function, its lines, and the definition there, None if that cannot be found."""
    code = function.__code__
    file = inspect.getsourcefile(function) or code.co_filename
    try:
        lines = inspect.findsource(function)[0]
        return file, lines, _defined(_parsed("".join(lines)), code)
    except (OSError, TypeError, SyntaxError, IndexError):
        return file, [], None


def file_called(file: str) -> str:
    """The name of a Python file in messages; of a cell of IPython or a notebook, its number."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = shell.compile.format_code_name(file) if shell is not None else None
    return cell[1] if cell else file


class Translation:
    """A function of Python to one of the script. `names` maps the function's own names to names of the
    script, `free` names of the script to paths outside of the function (`math.pi`). Raises FinchError
    "type" if there is no source, or it cannot be translated."""

    def __init__(self, function: FunctionType):
        code = function.__code__
        self.name = code.co_name
        file, lines, found = definition_of(function)
        if found is None:
            message = f"the source of the Python function `{self.name}` cannot be found"
            hint = f"an operator is translated from its source: define `{self.name}` in a file"
            raise FinchError("type", message, hint=hint)
        self.node, self.source = found, Source("".join(lines), file_called(file))
        self.free: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.taken = set(WORDS)
        for name in (*code.co_varnames, *code.co_cellvars):
            if name not in self.names:
                self.names[name] = self.fresh(name)

    def fresh(self, name: str) -> str:
        """A name of the script similar to this one, not in use and not predefined."""
        while name in self.taken or name in PREDEFINED or not is_name(name):
            name += "_"
        self.taken.add(name)
        return name

    def span(self, node: Any = None) -> Span:
        node = self.node if node is None else node
        lines = self.source.text.split("\n")
        last, end = node.end_lineno, node.end_col_offset
        if isinstance(node, ast.FunctionDef):  # only its first line
            last, end = node.lineno, len(lines[node.lineno - 1].encode())
        starts = lines[node.lineno - 1].encode()[: node.col_offset], lines[last - 1].encode()[:end]
        first, behind = (len(start.decode(errors="replace")) + 1 for start in starts)
        return Span(self.source, node.lineno, first, last, behind)

    def refused(self, node: ast.AST, message: str = "", hint: str | None = _ALLOWED) -> FinchError:
        if not message:
            text = ast.unparse(node).split("\n")[0]
            message = f"`{text}` cannot be translated in `{self.name}`, which is an operator"
        return FinchError("type", message, self.span(node), hint)

    def definition(self) -> syntax.Function:
        node, span = self.node, self.span()
        given = node.args
        others = (*given.kwonlyargs, given.vararg, given.kwarg, *given.defaults)
        if any(other is not None for other in others):
            message = f"`{self.name}` has more than a fixed number of arguments"
            hint = "an operator takes its arguments in order, without defaults"
            raise FinchError("type", message, span, hint)
        parameters = tuple(self.names[a.arg] for a in (*given.posonlyargs, *given.args))
        if isinstance(node, ast.Lambda):
            return syntax.Function("lambda", parameters, self.expression(node.body), span=span)
        body = self.block(node.body)
        if NEXT in ways(body):
            message = f"`{self.name}` returns nothing where it ends"
            raise FinchError("type", message, span, "return a number on every way")
        return syntax.Function(self.fresh(self.name), parameters, body, span=span)

    # ---------------------------------------------------------------- statements

    def block(self, statements: list[ast.stmt]) -> syntax.Script:
        return syntax.Script(tuple([done for node in statements for done in self.statement(node)]))

    def statement(self, node: ast.stmt) -> list[syntax.Node]:
        span = self.span(node)
        match node:
            case ast.Pass() | ast.Expr(ast.Constant(str())):
                return []
            case ast.Return(value) if value is not None:
                return [syntax.Return(self.expression(value), span=span)]
            case ast.Assign(targets, value):
                first = self.assign(targets[0], value, span)
                return [first, *(self.assign(t, targets[0], span) for t in targets[1:])]
            case ast.AnnAssign(target, _, value) if value is not None:
                return [self.assign(target, value, span)]
            case ast.AugAssign(ast.Name() as target, op, value):
                both = (self.target(target), self.expression(value))
                return [syntax.Let(both[:1], None, self.binary(node, op, *both), span=span)]
            case ast.If(test, body, otherwise):
                arms = [(self.expression(test), self.block(body))]
                if otherwise:
                    arms.append((syntax.Literal(True), self.block(otherwise)))
                return [syntax.If(tuple(arms), span=span)]
            case ast.While(test, body, []):
                return [syntax.While(self.expression(test), self.block(body), span=span)]
            case ast.For(ast.Name() as target, ast.Call(ast.Name("range"), args, []), body, []):
                if "range" not in self.names and 1 <= len(args) <= 3:
                    return [self.count(node, target, args, body)]
            case ast.Break():
                return [syntax.Break(span=span)]
            case ast.Continue():
                return [syntax.Continue(span=span)]
        raise self.refused(node)

    def target(self, node: ast.expr) -> syntax.Variable:
        if not isinstance(node, ast.Name) or node.id not in self.names:
            raise self.refused(node, "an operator assigns to names of its own alone", None)
        return syntax.Variable(self.names[node.id], span=self.span(node))

    def assign(self, target: ast.expr, value: ast.expr, span: Span) -> syntax.Let:
        if not isinstance(target, ast.Tuple):
            return syntax.Let((self.target(target),), None, self.expression(value), span=span)
        targets = tuple(map(self.target, target.elts))
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
            message = f"{len(targets)} names of an operator are given {len(targets)} values"
            raise self.refused(value, message, "as in `a, b = b, a`")
        values = tuple(map(self.expression, value.elts))
        whole = values[0] if len(values) == 1 else syntax.Group(values)
        return syntax.Let(targets, None, whole, span=span)

    def count(
        self, node: ast.For, target: ast.Name, args: list[ast.expr], body: list[ast.stmt]
    ) -> syntax.For:
        """A loop over a range, with a new counter: its variable keeps the last value afterwards."""
        given = [self.expression(arg) for arg in args]
        bounds = given if len(given) > 1 else [syntax.Literal(0), *given]
        start, stop, step = (*bounds, syntax.Literal(1))[:3]
        if not isinstance(step, syntax.Literal) or type(step.value) is not int or not step.value:
            raise self.refused(node.iter, "the step of a range is an integer, and not 0", None)
        sign = syntax.Variable("-" if step.value > 0 else "+")
        before = syntax.Call(sign, (stop, syntax.Literal(1)))
        span, own = self.span(node), self.target(target)
        counter = self.fresh(own.name + "_")
        begin = syntax.Let((own,), None, syntax.Variable(counter), span=own.span)
        steps = None if step.value == 1 else step
        range = syntax.Extent(start, before, steps, span=self.span(node.iter))
        whole = syntax.Script((begin, *self.block(body).statements))
        return syntax.For(counter, range, whole, span=span)

    # ---------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> syntax.Node:
        span = self.span(node)
        match node:
            case ast.Constant(value) if type(value) in (bool, int, float):
                if types.type_of_value(value) is None:
                    raise self.refused(node, f"`{ast.unparse(node)}` has more than 64 bits", None)
                return syntax.Literal(value, span=span)
            case ast.Name() | ast.Attribute():
                return self.variable(node)
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return self.binary(node, op, self.expression(left), self.expression(right))
            case ast.UnaryOp(op, operand):
                return self.unary(op, self.expression(operand), span)
            case ast.BoolOp(op, values):
                parts = tuple(map(self.expression, values))
                return reduce(lambda a, b: syntax.call(OPERATORS[type(op)], a, b, span=span), parts)
            case ast.Compare(left, ops, others) if all(type(op) in OPERATORS for op in ops):
                parts = tuple(map(self.expression, (left, *others)))
                pairs = zip(ops, parts, parts[1:], strict=False)
                holds = [syntax.call(OPERATORS[type(op)], a, b, span=span) for op, a, b in pairs]
                return reduce(lambda a, b: syntax.call("&&", a, b, span=span), holds)
            case ast.IfExp(test, body, otherwise):
                parts = tuple(map(self.expression, (test, body, otherwise)))
                return syntax.call("ifelse", *parts, span=span)
            case ast.Call(function, args, []):
                called, parts = self.variable(function), tuple(map(self.expression, args))
                if len(parts) > 2 and self.free.get(called.name, "") in ("max", "min"):
                    return reduce(lambda a, b: syntax.Call(called, (a, b), span=span), parts)
                return syntax.Call(called, parts, span=span)
        raise self.refused(node)

    def unary(self, op: ast.unaryop, operand: syntax.Node, span: Span) -> syntax.Node:
        if isinstance(op, ast.Invert):  # in Python ~ of a bool is an integer, as + of it is
            return syntax.call("~", syntax.call("+", operand, span=span), span=span)
        is_number = isinstance(operand, syntax.Literal) and type(operand.value) is not bool
        if isinstance(op, ast.USub) and is_number:
            return syntax.Literal(-operand.value, span=span)  # type: ignore[attr-defined]
        return syntax.call(OPERATORS[type(op)], operand, span=span)

    def binary(
        self, node: ast.AST, op: ast.operator, left: syntax.Node, right: syntax.Node
    ) -> syntax.Node:
        if type(op) not in OPERATORS:
            raise self.refused(node)
        name, span = OPERATORS[type(op)], self.span(node)
        if name == "power" and isinstance(right, syntax.Literal) and type(right.value) is int:
            if right.value < 0:  # in Python a float, also for integers
                left = syntax.call("/", left, syntax.Literal(1), span=span)
            name = "^"
        return syntax.call(name, left, right, span=span)

    def variable(self, node: ast.expr) -> syntax.Variable:
        """A name of the function, or a path outside of it."""
        path, root = [], node
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or (path and root.id in self.names):
            raise self.refused(node)
        span, name = self.span(node), ".".join((root.id, *path[::-1]))
        if name in self.names:
            return syntax.Variable(self.names[name], span=span)
        free = name
        while free in self.taken:
            free += "."
        self.free[free] = name
        return syntax.Variable(free, span=span)


def _defined(module: ast.Module, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The definition from which this code was compiled; None if the file has changed."""
    found: Any = None
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno:
                found = node
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and _holds(node, code):
            found = node  # of nested lambdas the inner one, which `walk` comes to later
    if found is None:
        return None
    given = [a.arg for a in (*found.args.posonlyargs, *found.args.args)]
    return found if given == [*code.co_varnames[: code.co_argcount]] else None


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of the code are in the body of a lambda."""
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    at = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return bool(at) and all(start <= place < end for place in at)
