"""Expressions of a loop that becomes a unit (`as_unit.py`), or of functions (`as_operator.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.calls.environment import Environment, Scope
from finchlang.functions import unit as loop_ir
from finchlang.levels.element import typed_literal
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script.functions import PREDEFINED, FinchFunction, LevelName, MaskName
from finchlang.script.unit_names import NotStaged, Static
from finchlang.script.unit_tensors import OF_TENSORS, UnitTensors
from finchlang.script.values import Builtin
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import PairType, Type, type_of_value
from finchlang.syntax.user_function import Operation
from finchlang.tensors.tensor import Scalar
from finchlang.wrappers.masks import MaskValue


class UnitExpressions(UnitTensors):
    """What expressions are in a unit: nodes of numbers, slots, known values or tuples of these."""

    #: emits the body of a function in place of a call
    call: Callable[[FinchFunction, list[Any], dict[str, Any], Span | None], Any]
    comprehension: Callable[[ast.Comprehension], Any]

    def value(self, node: ast.Node) -> Any:
        match node:
            case ast.Literal(value, kind):
                is_number = kind is not None or type_of_value(value) is not None
                return node if is_number else Static(value)
            case ast.Variable(name):
                return self.named(name, node.span)
            case ast.Text(parts) if all(isinstance(part, str) for part in parts):
                return Static("".join(parts))
            case ast.Group(items):
                return tuple(self.several(items))
            case ast.Call(ast.Variable() as op, given):
                return self.called(node, op, given)
            case ast.Call() | ast.Parametric() if self.is_known(node):
                return self.made(self.evaluated(node), node.span)
            case ast.Access():
                return self.entry(node)
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.KernelNode():
                return self.kernel(node)
            case loop_ir.SlotSize() | loop_ir.ScalarValue():
                return node
            case ast.KeywordCall(ast.Variable() as op, given, keywords):
                return self.called(node, op, given, keywords)
        raise self.refused(node)

    def refused(self, node: ast.Node) -> Exception:
        """The error at a node that is not staged."""
        what = "@" + node.name if isinstance(node, ast.Macro) else WORDS.get(type(node), "this")
        return NotStaged(f"{what} stands in the loop", node.span)

    def named(self, name: str, span: Span | None) -> Any:
        found = self.meaning(name, span)
        if isinstance(found, (ast.Variable, ast.Literal)):
            return replace(found, span=span)
        return self.made(found.value, span) if isinstance(found, Static) else found

    # ---------------------------------------------------------------- what is known

    def is_known(self, node: ast.Node) -> bool:
        """Whether all in an expression is known, and evaluating it has no effect."""
        match node:
            case ast.Variable(name):
                return isinstance(self.meaning(name, node.span), Static)
            case ast.Text(parts):
                return all(isinstance(part, str) for part in parts)
            case ast.Literal():
                return True
            case ast.Parametric(_, parameters):
                return all(self.is_known(p) for p in parameters)
            case ast.Call(op, given):
                pure, called = (LevelName, MaskName, MaskValue, Operator, Type), None
                if isinstance(op, ast.Variable) and self.is_known(op):
                    called = self.meaning(op.name, op.span).value
                is_pure = isinstance(op, ast.Parametric) or isinstance(called, pure)
                return is_pure and all(self.is_known(a) for a in (op, *given))
        return False

    def evaluated(self, node: ast.Node) -> Any:
        variables = {n.name for n in trees.find_all(node, ast.Variable)}
        values = {n: self.meaning(n, node.span) for n in variables}
        known = {n: v.value for n, v in values.items() if v.value is not PREDEFINED.get(n)}
        return self.evaluate(node, Environment(Scope(), None, known))

    def made(self, value: Any, span: Span | None) -> Any:
        """A value that is known, as a literal if it is a number; a scalar is made anew."""
        if not isinstance(value, Scalar):
            type = type_of_value(value)
            is_number = type is not None and not isinstance(type, PairType)
            return typed_literal(value) if is_number else Static(value)
        slot = self.make(value.format, (), span)
        if value.value != value.fill or repr(value.value) != repr(value.fill):
            self.set_in(slot.name, (), typed_literal(value.value, value.format.element_type), span)
        return slot

    # ---------------------------------------------------------------- calls

    def called(
        self,
        node: ast.Call | ast.KeywordCall,
        op: ast.Variable,
        given: tuple[ast.Node, ...],
        keywords: tuple[tuple[str, ast.Node], ...] = (),
    ) -> Any:
        meant = self.meaning(op.name, op.span) if op.name not in LAZY else None
        function = meant.value if isinstance(meant, Static) else None
        name = op.name if meant is None else getattr(function, "name", "")
        if name in LAZY:
            return self.lazily(name, given, node.span)
        if isinstance(function, FinchFunction):
            values = self.several((*given, *(value for _, value in keywords)))
            named = zip([name for name, _ in keywords], values[len(given) :], strict=True)
            return self.call(function, values[: len(given)], dict(named), node.span)
        if keywords:
            raise NotStaged(f"`{op.name}` is called with named arguments", node.span)
        return self.built_in(node, op, function, given)

    def built_in(
        self, node: ast.Node, op: ast.Variable, function: Any, given: tuple[ast.Node, ...]
    ) -> Any:
        """A call of a function of the language, or of a value that is none."""
        if function is PREDEFINED["Tensor"] and given:
            return self.tensor(given, node.span)
        if isinstance(function, Builtin) and (method := OF_TENSORS.get(function.name)):
            return method(self, function.name, self.several(given), node.span)
        is_scalar = function is PREDEFINED["Scalar"]
        is_fixed = is_scalar and all(self.is_known(g) for g in given)
        if is_fixed or self.is_known(node):
            return self.made(self.evaluated(node), node.span)
        if is_scalar:
            return self.scalar(given, node.span)
        row = row_of(function)
        if row is None:
            raise NotStaged(f"`{op.name}` is called, which cannot be staged", node.span)
        values = self.several(given)
        if isinstance(function, Builtin) and len(values) == 2:  # `round(Int64, x)`
            kind, number = values
            if not isinstance(kind, Static) or not isinstance(kind.value, Type):
                raise NotStaged(f"`{op.name}` takes a type and a number", node.span)
            whole = self.applied(row, [number], op, node.span)
            return self.applied(OPERATORS[kind.value.name], [whole], op, node.span)
        return self.applied(row, values, op, node.span)

    def applied(
        self, row: Operator, values: list[Any], op: ast.Variable, span: Span | None
    ) -> ast.Node:
        """The call of an operator of the table by this name; one that is associative takes more arguments.
        Raises FinchError "type" for another number of arguments."""
        args = tuple([self.expression_of(value, span) for value in values])
        meant = replace(self.operator(row, op), span=op.span)
        if row.associative and len(args) > row.arity[1]:
            return reduce(lambda a, b: ast.Call(meant, (a, b), span=span), args)
        if not row.arity[0] <= len(args) <= row.arity[1]:
            raise wrong_count(op.name, row.arity, len(args), span)
        return ast.Call(meant, args, span=span)

    def operator(self, row: Operator, op: ast.Variable) -> ast.Node:
        if row.node is not None:
            raise NotStaged(f"`{op.name}` is called, which cannot be staged", op.span)
        return ast.Variable(row.name)

    def lazily(self, name: str, given: tuple[ast.Node, ...], span: Span | None) -> Any:
        """`&&`, `||` and `c ? a : b`: a later operand that takes statements stands in an arm of an `if`."""
        if len(given) != (3 if name == "ifelse" else 2):
            raise NotStaged(f"`{name}` does not take {len(given)} arguments", span)
        first, names, found = self.value(given[0]), self.names, list[ast.Node]()
        if isinstance(first, (Static, ast.Literal)):
            if type(first.value) is not bool:
                raise NotStaged("this condition is no Bool", given[0].span)
            if name == "ifelse":
                return self.value(given[1 if first.value else 2])
            return self.value(given[1]) if first.value is (name == "&&") else first

        def arm(node: ast.Node) -> tuple[ast.Script, dict[Any, Any]]:
            return names.within(lambda: found.append(self.expression_of(self.value(node), span)))

        holds, blocks = self.expression_of(first, span), [arm(node) for node in given[1:]]
        if not any(block.statements for block, _ in blocks):
            return ast.Call(ast.Variable(name), (holds, *found), span=span)
        if name != "ifelse":  # one is the value of the condition
            at = name == "&&"
            found.insert(at, ast.Literal(not at))
            blocks.insert(at, names.within(lambda: None))
        result = ast.Variable(names.fresh("value"))
        then, other = (
            ast.Script((*block.statements, ast.Let((result,), None, value, span=span)))
            for (block, _), value in zip(blocks, found, strict=True)
        )
        (_, one), (_, behind) = blocks
        other = names.join(one, behind, other, span)
        names.emit(ast.If(((holds, then), (ast.Literal(True), other)), span=span))
        return result

    def as_operator(
        self, function: FinchFunction, given: list[Any], span: Span | None
    ) -> ast.Node | None:
        """A call of a function of numbers as that of an operator, whose code is shared, which may call
        itself, and may be evaluated or not. None for other functions, and other arguments."""
        try:
            found = self.as_operation(function, True)
            self.check_closed(function, span)
            exprs = [self.expression_of(value, span) for value in given]
        except FinchError:
            return None
        if not isinstance(found, Operation) or len(found.parameters) != len(exprs):
            return None
        return ast.Call(replace(found, span=span), tuple(exprs), span=span)


#: operators that may not evaluate all operands
LAZY = ("&&", "||", "ifelse")
#: what messages call nodes that are not staged
WORDS: dict[type, str] = {
    ast.Text: "a text with values in it",
    ast.KernelNode: "a kernel",
    ast.Rows: "an array",
    ast.Numbers: "an array",
    ast.Splat: "`...`",
    ast.Access: "an entry of an array",
    ast.Group: "a tuple",
    ast.Extent: "a range",
    ast.Function: "a definition of a function",
    ast.Macro: "a macro",
    ast.Comprehension: "a comprehension",
    ast.Broadcast: "a call for each element",
    ast.Lambda: "a function without a name",
    ast.Typed: "a declared type",
    ast.Try: "`try`",
}


def row_of(value: Any) -> Operator | None:
    """The operator that a value is: also a type, or a built-in function named as one is."""
    if isinstance(value, (Type, Builtin)):
        return OPERATORS.get(value.name)
    return value if isinstance(value, Operator) else None
