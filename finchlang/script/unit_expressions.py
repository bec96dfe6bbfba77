"""Expressions and kernels of a loop that becomes a unit (`as_unit.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from finchlang.base.errors import Span
from finchlang.calls import substitute
from finchlang.calls.environment import Environment, Scope
from finchlang.calls.kernel import CallSite
from finchlang.functions import unit as ir
from finchlang.levels.element import typed_literal
from finchlang.levels.level import Level, level_of
from finchlang.levels.positions import is_positioned
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.operators.operator_table import OPERATORS, Operator
from finchlang.script.as_operator import operation
from finchlang.script.functions import PREDEFINED, FinchFunction, LevelName, MaskName
from finchlang.script.unit_names import (
    CallFrame,
    NotStaged,
    NumberName,
    Several,
    SlotName,
    Static,
    UnitNames,
    size_mode,
)
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Int64, PairType, Type, type_of_value
from finchlang.syntax.user_function import Operation
from finchlang.tensors.tensor import Scalar
from finchlang.wrappers.masks import MaskValue

#: gives the value of a node of a script in an environment
Evaluate = Callable[[ast.Node, Environment], Any]
#: a scalar that a unit makes for the value of an entry, and the index of one that it sets
_ENTRY, _INDEX, _VALUE = "entry", "index", "value"


class UnitExpressions:
    """What expressions are in a unit: nodes of numbers, slots, known values or tuples of these. `evaluate`
    gives the values of expressions in which all is known, `choices` are those of the kernels."""

    #: emits the body of a function in place of a call
    call: Callable[[FinchFunction, list[Any], Span | None], Any]

    def __init__(
        self, environment: Environment, evaluate: Evaluate, choices: tuple[str, bool, bool]
    ):
        self.names, self.evaluate, self.choices = UnitNames(environment), evaluate, choices
        self.frames: list[CallFrame] = []
        self.loops: list[Callable[[], Any]] = []  # what names mean at the beginning of each
        self.within: list[ast.Function] = []  # the functions around
        self.is_lazy = False  # whether what is emitted now might not be run

    def value(self, node: ast.Node, frame: CallFrame | Environment) -> Any:
        match node:
            case ast.Literal():
                return node
            case ast.Variable(name):
                return self.named(name, frame, node.span)
            case ast.Text(parts) if all(isinstance(part, str) for part in parts):
                return Static("".join(parts))
            case ast.Group(items):
                return Several(tuple(self.several(items, frame)))
            case ast.Call(ast.Variable() as op, given):
                return self.called(node, op, given, frame)
            case ast.Call() | ast.Parametric() if self.is_known(node, frame):
                return self.made(self.evaluated(node, frame), node.span)
            case ast.Subscript():
                return self.entry(node, frame)
        what = _WORDS.get(type(node), "this")
        raise NotStaged(f"{what} stands in the loop", node.span)

    def named(self, name: str, frame: CallFrame | Environment, span: Span | None) -> Any:
        found = self.names.meaning(name, frame, span)
        if isinstance(found, NumberName):
            return ast.Variable(found.name, span=span)
        type = type_of_value(found.value) if isinstance(found, Static) else None
        if type is None or isinstance(type, PairType):
            return found
        return typed_literal(found.value)

    def expression_of(self, value: Any, span: Span | None) -> ast.Node:
        """A value as an expression on numbers."""
        if isinstance(value, Static) and type_of_value(value.value) is not None:
            return typed_literal(value.value)
        if not isinstance(value, ast.Node):
            raise NotStaged("a number is needed here", span)
        return value

    def several(self, nodes: Sequence[ast.Node], frame: CallFrame | Environment) -> list[Any]:
        """The values of expressions that are evaluated one after the other: what one emits does not change
        those before it."""
        found: list[Any] = []
        out = self.names.out
        for node in nodes:
            before = len(out)
            value = self.value(node, frame)
            emitted = out[before:]
            if emitted:
                del out[before:]
                found = [self.kept(v) if isinstance(v, ast.Node) else v for v in found]
                out += emitted
            found.append(value)
        return found

    def kept(self, node: ast.Node) -> ast.Node:
        """The value that an expression has now."""
        if isinstance(node, ast.Literal):
            return node
        name = self.names.fresh(_VALUE)
        self.emit(ast.Let((ast.Variable(name),), None, node, span=node.span))
        return ast.Variable(name, span=node.span)

    def emit(self, node: ast.Node) -> None:
        if self.is_lazy:
            raise NotStaged("this may not be evaluated, and takes statements", node.span)
        self.names.emit(node)

    # ---------------------------------------------------------------- what is known

    def is_known(self, node: ast.Node, frame: CallFrame | Environment) -> bool:
        """Whether all in an expression is known, and evaluating it has no effect."""
        match node:
            case ast.Variable(name):
                return isinstance(self.names.meaning(name, frame, node.span), Static)
            case ast.Text(parts):
                return all(isinstance(part, str) for part in parts)
            case ast.Literal():
                return True
            case ast.Parametric(_, parameters):
                return all(self.is_known(p, frame) for p in parameters)
            case ast.Call(op, given):
                called = (
                    self.names.meaning(op.name, frame, op.span).value
                    if isinstance(op, ast.Variable) and self.is_known(op, frame)
                    else None
                )
                is_pure = isinstance(op, ast.Parametric) or isinstance(
                    called, (LevelName, MaskName, Operator, Type)
                )
                return is_pure and all(self.is_known(a, frame) for a in (op, *given))
        return False

    def evaluated(self, node: ast.Node, frame: CallFrame | Environment) -> Any:
        variables = {n.name for n in trees.walk(node) if isinstance(n, ast.Variable)}
        values = {n: self.names.meaning(n, frame, node.span) for n in variables}
        known = {n: v.value for n, v in values.items() if v.value is not PREDEFINED.get(n)}
        return self.evaluate(node, Environment(Scope(), None, known))

    def made(self, value: Any, span: Span | None) -> Any:
        """A value that is known; a scalar is made anew."""
        if not isinstance(value, Scalar):
            return Static(value)
        slot = self.make(value.format, (), span)
        if value.value != value.fill or repr(value.value) != repr(value.fill):
            self.assign_scalar(slot, typed_literal(value.value, value.format.element_type), span)
        return slot

    # ---------------------------------------------------------------- calls

    def called(
        self,
        node: ast.Call,
        op: ast.Variable,
        given: tuple[ast.Node, ...],
        frame: CallFrame | Environment,
    ) -> Any:
        meant = self.names.meaning(op.name, frame, op.span) if op.name not in _LAZY else None
        function = meant.value if isinstance(meant, Static) else None
        if meant is None or (isinstance(function, Operator) and function.name in _LAZY):
            return self.lazily(op, given, frame, node.span)
        if isinstance(function, FinchFunction):
            if self.is_lazy:
                return self.as_operator(function, given, frame, node)
            return self.call(function, self.several(given, frame), node.span)
        if function is PREDEFINED["Tensor"] and given:
            return self.tensor(given, frame, node.span)
        if function is PREDEFINED["size"] or function is PREDEFINED["length"]:
            return self.size(node, self.several(given, frame), function is PREDEFINED["length"])
        if function is PREDEFINED["countstored"] or function is PREDEFINED["nnz"]:
            return self.stored(node, self.several(given, frame))
        if function is PREDEFINED["sum"]:
            return self.total(node, self.several(given, frame))
        is_scalar = function is PREDEFINED["Scalar"]
        is_fixed = is_scalar and all(self.is_known(g, frame) for g in given)
        if is_fixed or self.is_known(node, frame):
            return self.made(self.evaluated(node, frame), node.span)
        if is_scalar:
            return self.scalar(given, frame, node.span)
        row = OPERATORS.get(function.name) if isinstance(function, Type) else function
        if not isinstance(row, Operator) or row.node is not None:
            raise NotStaged(f"`{op.name}` is called, which cannot be staged", node.span)
        return self.applied(row, self.several(given, frame), node.span)

    def applied(self, row: Operator, values: list[Any], span: Span | None) -> ast.Node:
        exprs = tuple([self.expression_of(value, span) for value in values])
        least, most = row.arity
        op = ast.Variable(row.name, span=span)
        if row.associative and len(exprs) > most:
            return reduce(lambda a, b: ast.Call(op, (a, b), span=span), exprs)
        if not least <= len(exprs) <= most:
            raise NotStaged(f"`{row.name}` takes another number of arguments", span)
        return ast.Call(op, exprs, span=span)

    def lazily(
        self,
        op: ast.Variable,
        given: tuple[ast.Node, ...],
        frame: CallFrame | Environment,
        span: Span | None,
    ) -> Any:
        """`&&`, `||` and `c ? a : b`, of which later operands may not be evaluated."""
        if len(given) != (3 if op.name == "ifelse" else 2):
            raise NotStaged(f"`{op.name}` does not take {len(given)} arguments", span)
        first = self.value(given[0], frame)
        if isinstance(first, (Static, ast.Literal)):
            return self.decided(op.name, first, given, frame)
        around, self.is_lazy = self.is_lazy, True
        try:
            others = [self.value(node, frame) for node in given[1:]]
        finally:
            self.is_lazy = around
        exprs = [self.expression_of(value, span) for value in (first, *others)]
        return ast.Call(op, tuple(exprs), span=span)

    def decided(
        self, name: str, first: Any, given: tuple[ast.Node, ...], frame: CallFrame | Environment
    ) -> Any:
        if type(first.value) is not bool:
            raise NotStaged("this condition is no Bool", given[0].span)
        if name == "ifelse":
            return self.value(given[1 if first.value else 2], frame)
        return self.value(given[1], frame) if first.value is (name == "&&") else first

    def as_operator(
        self,
        function: FinchFunction,
        given: tuple[ast.Node, ...],
        frame: CallFrame | Environment,
        node: ast.Call,
    ) -> ast.Node:
        """A call as that of an operator, which may be evaluated or not."""
        found = operation(function)
        self.check_closed(function, node.span)
        assert isinstance(found, Operation)
        if len(found.parameters) != len(given):
            raise NotStaged("the function takes another number of arguments", node.span)
        exprs = [self.expression_of(self.value(a, frame), a.span) for a in given]
        return ast.Call(replace(found, span=node.op.span), tuple(exprs), span=node.span)

    def size(self, node: ast.Call, given: list[Any], is_length: bool) -> Any:
        of, *modes = given or [None]
        if not isinstance(of, SlotName):
            raise NotStaged("this is no tensor of the loop", node.span)
        format = self.names.formats[of.name]
        order = level_of(format).order
        if is_length and not modes and order == 1:
            return ir.SlotSize(of.name, 0, span=node.span)
        if is_length or len(modes) > 1:
            raise NotStaged("this size is not one of a mode", node.span)
        all_of = [ir.SlotSize(of.name, size_mode(format, k), span=node.span) for k in range(order)]
        if not modes:
            return Several(tuple(all_of))
        mode = modes[0].value if isinstance(modes[0], ast.Literal) else None
        if type(mode) is not int or not 1 <= mode <= order:
            raise NotStaged("the mode is no number that is known", node.span)
        return all_of[mode - 1]

    # ---------------------------------------------------------------- tensors that are made

    def tensor(
        self, given: tuple[ast.Node, ...], frame: CallFrame | Environment, span: Span | None
    ) -> SlotName:
        format, *sizes = self.several(given, frame)
        level = format.value if isinstance(format, Static) else None
        if not isinstance(level, Level) or isinstance(level, ScalarLevel):
            raise NotStaged("the format of this tensor is not known", span)
        if len(sizes) != level.order and sizes:
            raise NotStaged("these are no sizes of a tensor", span)
        exprs = [self.expression_of(size, span) for size in sizes or [ast.Literal(0)] * level.order]
        return self.make(level, tuple(exprs), span)

    def scalar(
        self, given: tuple[ast.Node, ...], frame: CallFrame | Environment, span: Span | None
    ) -> SlotName:
        """`Scalar(fill, value)`."""
        fill, *value = self.several(given, frame)
        if not isinstance(fill, ast.Literal) or len(value) != 1:
            raise NotStaged("the fill of this scalar is not known", span)
        level = ScalarLevel(typed_literal(fill.value if fill.type is None else fill))
        slot = self.make(level, (), span)
        self.assign_scalar(slot, self.expression_of(value[0], span), span)
        return slot

    def make(self, level: Level, sizes: tuple[ast.Node, ...], span: Span | None) -> SlotName:
        names = self.names
        slot, tensor = names.slot(level, "made"), ast.Variable("made", span=span)
        kept = tuple([self.kept(size) for size in sizes])
        stops = [ast.Variable(f"size{k + 1}", span=span) for k in range(len(kept))]
        numbers = zip([stop.name for stop in stops], kept, strict=True)
        dims = [ast.Extent(ast.Literal(1), stop, span=span) for stop in stops]
        declare = ast.Declare(tensor, level.fill, tuple(dims), span=span)
        program = ast.Block((declare,), span=span)
        run = ir.RunKernel(program, (("made", slot),), tuple(numbers), span=span)
        self.emit(ir.Make(slot, kept, run, span=span))
        return SlotName(slot)

    def assign_scalar(self, slot: SlotName, value: ast.Node, span: Span | None) -> None:
        self.set_in(slot, (), value, span)

    # ---------------------------------------------------------------- entries

    def entry(self, node: ast.Subscript, frame: CallFrame | Environment) -> ast.Node:
        of = self.value(node.object, frame)
        if not isinstance(of, SlotName):
            raise NotStaged("this is no tensor of the loop", node.span)
        format, span = self.names.formats[of.name], node.span
        level = level_of(format)
        if isinstance(level.element_type, PairType):
            raise NotStaged("a pair is no number", span)
        indices = self.indices(node, of, frame)
        if isinstance(level, ScalarLevel) and not indices:
            return ir.ScalarValue(of.name, span=span)
        at, numbers = self.at(indices)
        read = ast.Access(ast.Variable("x", span=span), at, span=span)
        return self.computed(read, of, numbers, level.element_type, span)

    def stored(self, node: ast.Call, given: list[Any]) -> ast.Node:
        """`countstored(A)`."""
        if len(given) != 1 or not isinstance(given[0], SlotName):
            raise NotStaged("this is no tensor of the loop", node.span)
        slot = given[0].name
        if not is_positioned(level_of(self.names.formats[slot])):
            raise NotStaged("the entries of this tensor are not counted", node.span)
        return ir.StoredCount(slot, span=node.span)

    def total(self, node: ast.Call, given: list[Any]) -> ast.Node:
        """`sum(A)` of integers or Booleans; that of floats depends on the order."""
        if len(given) != 1 or not isinstance(given[0], SlotName):
            raise NotStaged("this is no tensor of the loop", node.span)
        level = level_of(self.names.formats[given[0].name])
        if level.element_type not in (Int64, Bool) or not level.order:
            raise NotStaged("a sum of floats depends on their order", node.span)
        indices = tuple([ast.Index(f"{_INDEX}{k + 1}") for k in range(level.order)])
        read = ast.Access(ast.Variable("x", span=node.span), indices, span=node.span)
        return self.computed(read, given[0], (), Int64, node.span, indices)

    def computed(
        self,
        value: ast.Node,
        of: SlotName,
        numbers: tuple[tuple[str, ast.Node], ...],
        type: Type,
        span: Span | None,
        over: tuple[ast.Index, ...] = (),
    ) -> ast.Node:
        """The value that a kernel computes of a tensor, called x in it, or its sum over indices."""
        fill = typed_literal(type.wrap(0), type)
        scalar, entry = self.names.slot(ScalarLevel(fill), _ENTRY), ast.Variable(_ENTRY, span=span)
        target, op = ast.Access(entry, (), span=span), "+" if over else "overwrite"
        assign: ast.Node = ast.Assign(target, ast.Variable(op, span=span), value, span=span)
        for index in over:
            assign = ast.Loop(index, ast.Dimensionless(), assign, span=span)
        program = ast.Block((ast.Declare(entry, fill, span=span), assign), span=span)
        run = ir.RunKernel(program, ((_ENTRY, scalar), ("x", of.name)), numbers, span=span)
        return ir.ScalarValue(scalar, run, span=span)

    def indices(
        self, node: ast.Subscript, of: SlotName, frame: CallFrame | Environment
    ) -> tuple[ast.Node, ...]:
        order = level_of(self.names.formats[of.name]).order
        has_end = any(n == ast.Variable("end") for i in node.indices for n in trees.walk(i))
        if has_end or len(node.indices) != order:
            raise NotStaged("`end`, or another number of indices", node.span)
        found = self.several(node.indices, frame)
        return tuple([self.expression_of(i, node.span) for i in found])

    def at(
        self, indices: tuple[ast.Node, ...]
    ) -> tuple[tuple[ast.Node, ...], tuple[tuple[str, ast.Node], ...]]:
        """UnitNames of a kernel for indices, and what these are."""
        names = tuple([ast.Variable(f"{_INDEX}{k + 1}") for k in range(len(indices))])
        return names, tuple(zip([n.name for n in names], indices, strict=True))

    def set_entry(
        self, target: ast.Subscript, value: ast.Node, frame: CallFrame | Environment
    ) -> None:
        of = self.value(target.object, frame)
        if not isinstance(of, SlotName):
            raise NotStaged("this is no tensor of the loop", target.span)
        level = level_of(self.names.formats[of.name])
        if not (isinstance(level, ScalarLevel) or level.is_all_dense):
            raise NotStaged("entries of a sparse tensor are not set one by one", target.span)
        value = self.kept(value)
        self.set_in(of, self.indices(target, of, frame), value, target.span)

    def set_in(
        self, of: SlotName, indices: tuple[ast.Node, ...], value: ast.Node, span: Span | None
    ) -> None:
        at, numbers = self.at((*indices, value))
        tensor = ast.Variable("x", span=span)
        assign = ast.Assign(
            ast.Access(tensor, at[:-1], span=span),
            ast.Variable("overwrite", span=span),
            at[-1],
            span=span,
        )
        self.emit(ir.RunKernel(ast.Block((assign,)), (("x", of.name),), numbers, span=span))

    # ---------------------------------------------------------------- kernels

    def kernel(self, node: ast.KernelNode, frame: CallFrame | Environment) -> Any:
        """Emit a kernel; gives the tensors that it returns."""
        site = CallSite(node, self.choices, operation)
        if substitute.inferring(node.program):
            raise NotStaged("a kernel infers a fill", node.span)
        tensors, numbers, masks = [], [], dict[str, Any]()
        for name, variable in site.variables.items():
            try:
                found = self.names.meaning(name, frame, variable.span)
            except NotStaged:
                continue  # a name of the kernel's own, or an error
            if isinstance(found, SlotName):
                tensors.append((name, found.name))
            elif isinstance(found, NumberName):
                numbers.append((name, ast.Variable(found.name, span=variable.span)))
            elif isinstance(found, Static) and isinstance(found.value, MaskValue):
                masks[name] = found.value
        operations: dict[str, ast.Node] = {}
        for name, variable in site.called.items():
            value = self.names.meaning(name, frame, variable.span)
            function = operation(value.value) if isinstance(value, Static) else None
            if isinstance(function, Operation) and function.laws.ranged:
                raise NotStaged(f"`{name}` has laws over a range", variable.span)
            if function is not None:
                self.check_closed(value.value, variable.span)
                operations[name] = function
        own = substitute.apart(operations, node)
        whole = substitute.specialized(node, masks, own)
        self.emit(ir.RunKernel(whole.program, tuple(tensors), tuple(numbers), span=node.span))
        yields = [n for n in trees.walk(node.program) if isinstance(n, ast.Yield)]
        found = [self.value(v, frame) for n in yields for v in n.names]
        return found[0] if len(found) == 1 else Several(tuple(found)) if found else None

    def check_closed(self, value: Any, span: Span | None) -> None:
        """Note what a function is made of. Raise NotStaged if it takes numbers from around it, which may
        change."""
        if isinstance(value, FinchFunction):
            self.names.uses += value.closed.uses
            for _, name, used in value.closed.uses:
                if not (isinstance(used, FinchFunction) or used is None or name in PREDEFINED):
                    raise NotStaged(f"`{value}` takes `{name}` from around it", span)


_LAZY = ("&&", "||", "ifelse")
_WORDS: dict[type, str] = {
    ast.Text: "a text with values in it",
    ast.Rows: "an array",
    ast.Comprehension: "a comprehension",
    ast.Broadcast: "a call for each element",
    ast.Lambda: "a function without a name",
    ast.KeywordCall: "a call with named arguments",
    ast.Range: "a range",
    ast.Typed: "a declared type",
}
