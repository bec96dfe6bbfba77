"""Tensors of a loop that becomes a unit (`as_unit.py`): sizes, entries, kernels, and those it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from finchlang.algebra.laws import identity_of
from finchlang.algebra.program_context import INIT
from finchlang.base.errors import Span
from finchlang.calls import substitute
from finchlang.calls.environment import Environment
from finchlang.calls.kernel import CallSite
from finchlang.functions import unit as loop_ir
from finchlang.levels.element import typed_literal
from finchlang.levels.level import Level, level_of
from finchlang.levels.positions import is_positioned
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.operators.operator_table import OPERATORS, operator
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.script.unit_names import CallFrame, NotStaged, SlotName, Static, UnitNames, size_mode
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Bool, Int64, PairType, Type, UInt64, promote, type_of_value
from finchlang.syntax.user_function import Operation
from finchlang.wrappers.masks import MaskValue

#: the operators of reductions of all entries, and whether these are of Bools only
REDUCTIONS = {
    **{"sum": ("+", False), "prod": ("*", False), "any": ("||", True), "all": ("&&", True)},
    **{"maximum": ("max", False), "minimum": ("min", False), "count": ("+", True)},
}
#: gives the value of a node of a script in an environment
Evaluate = Callable[[ast.Node, Environment], Any]
#: a scalar that a unit makes for the value of an entry, and the index of one that it sets
_ENTRY, _INDEX, _VALUE = "entry", "index", "value"


class UnitTensors:
    """Emits what a unit does with tensors. `evaluate` gives the values of expressions in which all is
    known, `choices` are those of the kernels, `operation` makes operators of functions."""

    #: the value of an expression: a node of numbers, a slot, a known value, or a tuple of these
    value: Callable[[ast.Node], Any]

    def __init__(
        self,
        names: UnitNames,
        evaluate: Any,
        choices: Any,
        operation: Callable[..., Any],
        types: Sequence[Type] = (),
    ):
        self.names, self.choices, self.as_operation = names, choices, operation
        self.evaluate: Evaluate = evaluate
        self.frame: CallFrame | Environment = names.environment  # the scope around
        self.frames: list[CallFrame] = []
        #: of each loop around what names mean at its beginning, and the numbers where it is left
        self.loops: list[tuple[Callable[[], Any], dict[Any, Any]]] = []
        self.within: list[ast.Function] = []  # the functions around
        self.calls = 0  # of functions, whose bodies stand in their place
        #: of each comprehension the number that its values are, and the type that these are taken to have
        self.collected: list[str] = []
        self.types = [*types]

    def meaning(self, name: str, span: Span | None) -> Any:
        """What a name means here. Raises NotStaged if it may have no value."""
        return self.names.meaning(name, self.frame, span)

    def expression_of(self, value: Any, span: Span | None) -> ast.Node:
        """A value as an expression on numbers."""
        if isinstance(value, Static) and type_of_value(value.value) is not None:
            return typed_literal(value.value)
        if not isinstance(value, ast.Node):
            raise NotStaged("a number is needed here", span)
        return value

    def slot_of(self, given: Any, span: Span | None) -> tuple[str, Any]:
        """The slot that a value, or the one argument of a call, is, and its format. Raises NotStaged."""
        of = given[0] if isinstance(given, list) and len(given) == 1 else given
        if not isinstance(of, SlotName):
            raise NotStaged("this is no tensor of the loop", span)
        return of.name, self.names.formats[of.name]

    def several(self, nodes: Sequence[ast.Node]) -> list[Any]:
        """The values of expressions in order: what one emits does not change those before it."""
        found: list[Any] = []
        out = self.names.out
        for node in nodes:
            before = len(out)
            value = self.value(node)
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
        self.names.emit(ast.Let((ast.Variable(name),), None, node, span=node.span))
        return ast.Variable(name, span=node.span)

    # ---------------------------------------------------------------- sizes and counts

    def size(self, name: str, given: list[Any], span: Span | None) -> Any:
        modes, is_length = given[1:], name == "length"
        slot, format = self.slot_of(given[:1], span)
        order = level_of(format).order
        sizes = [loop_ir.SlotSize(slot, size_mode(format, k), span=span) for k in range(order)]
        if not modes and (not is_length or order == 1):
            return sizes[0] if is_length else tuple(sizes)
        mode = modes[0].value if len(modes) == 1 and isinstance(modes[0], ast.Literal) else None
        if is_length or type(mode) is not int or not 1 <= mode <= order:
            raise NotStaged("this size is not one of a mode that is known", span)
        return sizes[mode - 1]

    # ---------------------------------------------------------------- tensors that are made

    def tensor(self, given: tuple[ast.Node, ...], span: Span | None) -> SlotName:
        format, *sizes = self.several(given)
        level = format.value if isinstance(format, Static) else None
        if not isinstance(level, Level) or isinstance(level, ScalarLevel):
            raise NotStaged("the format of this tensor is not known", span)
        if len(sizes) != level.order and sizes:
            raise NotStaged("these are no sizes of a tensor", span)
        exprs = [self.expression_of(size, span) for size in sizes or [ast.Literal(0)] * level.order]
        return self.make(level, tuple(exprs), span)

    def scalar(self, given: tuple[ast.Node, ...], span: Span | None) -> SlotName:
        """`Scalar(fill, value)`."""
        fill, *value = self.several(given)
        if not isinstance(fill, ast.Literal) or len(value) != 1:
            raise NotStaged("the fill of this scalar is not known", span)
        level = ScalarLevel(typed_literal(fill.value if fill.type is None else fill))
        slot = self.make(level, (), span)
        self.set_in(slot.name, (), self.expression_of(value[0], span), span)
        return slot

    def copied(self, name: str, given: list[Any], span: Span | None) -> SlotName:
        slot, level = self.slot_of(given, span)
        if self.names.is_array(slot) or not isinstance(level, Level):
            raise NotStaged(f"`{slot}` is an array, and so is its copy", span)
        sizes = [loop_ir.SlotSize(slot, mode, span=span) for mode in range(level.order)]
        return self.make(level, tuple(sizes), span, slot)

    def make(
        self,
        level: Level,
        sizes: tuple[ast.Node, ...],
        span: Span | None,
        source: str = "",
        is_array: bool = False,
    ) -> SlotName:
        """Emit a new tensor, of fill or with what another one has; gives its slot."""
        slot = self.names.slot(level, "made", is_array)
        kept = tuple([self.kept(size) for size in sizes])
        tensors, (stops, numbers) = {"made": slot}, _named("size", kept, span)
        if source:  # whose sizes are those of the loops
            over = _indices(len(kept))
            tensors["x"], stops, numbers = source, (), ()
            fill = (_assigned(_access("made", over, span), INIT, _access("x", over, span), over),)
        dims = tuple([ast.Extent(ast.Literal(1), stop, span=span) for stop in stops])
        declare = ast.Declare(ast.Variable("made", span=span), level.fill, dims, span=span)
        program = ast.Block((declare, *(fill if source else ())), span=span)
        run = loop_ir.RunKernel(program, tuple(tensors.items()), numbers, span=span)
        self.names.emit(loop_ir.Make(slot, level, kept, run, span=span))
        return SlotName(slot)

    # ---------------------------------------------------------------- entries

    def entry(self, node: ast.Access) -> ast.Node:
        slot, _ = self.slot_of(self.value(node.tensor), node.span)
        return self.entry_at(slot, self.indices(node, slot), node.span)

    def entry_at(self, slot: str, indices: tuple[ast.Node, ...], span: Span | None) -> ast.Node:
        level = level_of(self.names.formats[slot])
        if isinstance(level.element_type, PairType):
            raise NotStaged("a pair is no number", span)
        if isinstance(level, ScalarLevel) and not indices:
            return loop_ir.ScalarValue(slot, span=span)
        at, numbers = _named(_INDEX, indices)
        fill = typed_literal(level.element_type.wrap(0), level.element_type)
        return self.computed(_access("x", at, span), slot, numbers, fill)

    def stored(self, name: str, given: list[Any], span: Span | None) -> ast.Node:
        slot, format = self.slot_of(given, span)
        if not is_positioned(level_of(format)):
            raise NotStaged("the entries of this tensor are not counted", span)
        return loop_ir.StoredCount(slot, span=span)

    def reduced(self, name: str, given: list[Any], span: Span | None) -> ast.Node:
        """A reduction of all entries of a tensor, `name(A)`, or of what a function gives for them,
        `name(f, A)`, which a kernel computes; a sum of floats in any order."""
        op, is_of_bools = REDUCTIONS[name]
        function = given[0] if len(given) == 2 else None
        slot, format = self.slot_of(given[-1:] if function is not None else given, span)
        level = level_of(format)
        indices, type = _indices(level.order), level.element_type
        value: ast.Node = _access("x", indices, span)
        if function is not None:
            node = self.as_operation(function.value) if isinstance(function, Static) else None
            row = None if node is None else operator(node)
            if node is None or row is None or row.arity != (1, 1):
                raise NotStaged("this is no function of elements", span)
            self.check_closed(function.value, span)
            value, type = ast.Call(node, (value,), span=span), row.result_type((type,))
        row = OPERATORS[op]
        if not indices or isinstance(type, PairType) or (is_of_bools and type != Bool):
            raise NotStaged(f"`{name}` does not take this tensor", span)
        type = row.result_type((type, type))
        if op in "+*" and not type.is_float:  # as outside of units
            type = promote(type, UInt64 if type.kind == "uint" else Int64)
        if row.idempotent and not is_of_bools:  # the greatest of nothing is no number
            fails = loop_ir.RaiseError("there are no entries to reduce", span=span)
            for k in range(level.order):
                size = loop_ir.SlotSize(slot, k, span=span)
                is_empty = ast.Call(ast.Variable("=="), (size, ast.Literal(0)), span=span)
                self.names.emit(ast.If(((is_empty, fails),), span=span))
        return self.computed(value, slot, (), identity_of(op, type), indices, op)

    def computed(
        self,
        value: ast.Node,
        slot: str,
        numbers: tuple[tuple[str, ast.Node], ...],
        fill: ast.Literal,
        over: tuple[ast.Index, ...] = (),
        op: str = "overwrite",
    ) -> ast.Node:
        """What a kernel computes of a tensor, x in it, or its reduction over indices from `fill` on."""
        scalar, span = self.names.slot(ScalarLevel(fill), _ENTRY), value.span
        target = _access(_ENTRY, (), span)
        declare = ast.Declare(ast.Variable(_ENTRY, span=span), fill, span=span)
        program = ast.Block((declare, _assigned(target, op, value, over)), span=span)
        run = loop_ir.RunKernel(program, ((_ENTRY, scalar), ("x", slot)), numbers, span=span)
        return loop_ir.ScalarValue(scalar, run, span=span)

    def indices(self, node: ast.Access, slot: str) -> tuple[ast.Node, ...]:
        format = self.names.formats[slot]
        if len(node.indices) != level_of(format).order:
            raise NotStaged("this takes another number of indices", node.span)
        ends = [loop_ir.SlotSize(slot, size_mode(format, k)) for k in range(len(node.indices))]
        found = self.several([*map(_with_end, node.indices, ends)])
        return tuple([self.expression_of(i, node.span) for i in found])

    def set_entry(
        self, slot: str, indices: tuple[ast.Node, ...], value: ast.Node, span: Span | None
    ) -> None:
        level = level_of(self.names.formats[slot])
        if not (isinstance(level, ScalarLevel) or level.is_all_dense):
            raise NotStaged("entries of a sparse tensor are not set one by one", span)
        self.set_in(slot, indices, value, span)

    def set_in(
        self, slot: str, indices: tuple[ast.Node, ...], value: ast.Node, span: Span | None
    ) -> None:
        at, numbers = _named(_INDEX, (*indices, value))
        assign = _assigned(_access("x", at[:-1], span), "overwrite", at[-1])
        self.names.emit(loop_ir.RunKernel(ast.Block((assign,)), (("x", slot),), numbers, span=span))

    # ---------------------------------------------------------------- kernels

    def kernel(self, node: ast.KernelNode) -> Any:
        """Emit a kernel; gives the tensors that it returns."""
        site = CallSite(node, self.choices, self.as_operation)
        if substitute.inferring(node.program):
            raise NotStaged("a kernel infers a fill", node.span)
        declared = {n.tensor for n in trees.find_all(node.program, ast.Declare)}
        tensors, numbers, masks = [], [], dict[str, Any]()
        for name, variable in site.variables.items():
            try:
                found = self.meaning(name, variable.span)
            except NotStaged:
                continue  # a name of the kernel's own, or an error
            if isinstance(found, SlotName):
                if found.name in self.names.arrays and variable in declared:
                    message = f"`{name}` is an array of the loop, and declared"
                    raise NotStaged(message, variable.span)
                tensors.append((name, found.name))
            elif isinstance(found, ast.Variable):
                numbers.append((name, ast.Variable(found.name, span=variable.span)))
            elif isinstance(found, Static) and isinstance(found.value, MaskValue):
                masks[name] = found.value
        operations: dict[str, ast.Node] = {}
        for name, variable in site.called.items():
            value = self.meaning(name, variable.span)
            function = self.as_operation(value.value) if isinstance(value, Static) else None
            if isinstance(function, Operation) and function.laws.ranged:
                raise NotStaged(f"`{name}` has laws over a range", variable.span)
            if function is not None:
                self.check_closed(value.value, variable.span)
                operations[name] = function
        own = substitute.apart(operations, node)
        whole = substitute.specialized(node, masks, own)
        names = tuple(tensors), tuple(numbers)
        self.names.emit(loop_ir.RunKernel(whole.program, *names, False, span=node.span))
        yields = [*trees.find_all(node.program, ast.Yield)]
        found = [self.value(v) for n in yields for v in n.names]
        return found[0] if len(found) == 1 else tuple(found) if found else None

    def check_closed(self, value: Any, span: Span | None) -> None:
        """Note what a function is made of. Raise NotStaged if it takes numbers from around it."""
        if isinstance(value, FinchFunction):
            self.names.uses += value.closed.uses
            for _, name, used in value.closed.uses:
                if not (isinstance(used, FinchFunction) or used is None or name in PREDEFINED):
                    raise NotStaged(f"`{value}` takes `{name}` from around it", span)


def _named(
    name: str, values: tuple[ast.Node, ...], span: Span | None = None
) -> tuple[tuple[ast.Node, ...], tuple[tuple[str, ast.Node], ...]]:
    """Names of a kernel for numbers, and what these are."""
    names = tuple([ast.Variable(f"{name}{k + 1}", span=span) for k in range(len(values))])
    return names, tuple(zip([n.name for n in names], values, strict=True))


def _indices(count: int) -> tuple[ast.Index, ...]:
    return tuple([ast.Index(f"{_INDEX}{k + 1}") for k in range(count)])


def _access(name: str, indices: tuple[ast.Node, ...], span: Span | None) -> ast.Access:
    return ast.Access(ast.Variable(name, span=span), indices, span=span)


def _assigned(
    target: ast.Access, op: str, value: ast.Node, over: tuple[ast.Index, ...] = ()
) -> ast.Node:
    """An assignment in loops over all of some indices."""
    span = target.span
    made: ast.Node = ast.Assign(target, ast.Variable(op, span=span), value, span=span)
    for index in over:
        made = ast.Loop(index, ast.Dimensionless(), made, span=span)
    return made


def _with_end(index: ast.Node, end: ast.Node) -> ast.Node:
    """An index in which `end` is the size of the mode; that of a subscript within it is its own."""
    if index == ast.Variable("end"):
        return trees.replace(end, span=index.span)
    if isinstance(index, ast.Access):
        return index
    return trees.map_children(lambda part: _with_end(part, end), index)


#: the functions of tensors that a unit has, by their names
OF_TENSORS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("size", "length"), UnitTensors.size),
    **dict.fromkeys(("countstored", "nnz"), UnitTensors.stored),
    **dict.fromkeys(REDUCTIONS, UnitTensors.reduced),
    "copy": UnitTensors.copied,
}
