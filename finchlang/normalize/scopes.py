"""The scopes pass: every name is found, binders have names of their own, `return` is taken off."""

from __future__ import annotations

from functools import reduce
from typing import Any

from finchlang.algebra import FAMILIES, OPERATORS, operator
from finchlang.normalize.context import (
    PERMISSIVE,
    PLAIN,
    PROTOCOLS,
    RESERVED,
    Context,
    did_you_mean,
    is_call,
    mask_name,
    root,
)
from finchlang.normalize.reader import Reader, with_primitives, wrong_order
from finchlang.normalize.shape_operators import OPERATORS as SHAPE_OPERATORS
from finchlang.normalize.shaped import Shaped
from finchlang.operation import Operation
from finchlang.operations import LARGEST
from finchlang.properties import wrong_count
from finchlang.source import FinchError
from finchlang.syntax import (
    MODES,
    Access,
    Assign,
    Block,
    Call,
    Declare,
    Define,
    Dimensionless,
    Extent,
    Formula,
    Freeze,
    Index,
    Literal,
    Loop,
    Mode,
    Node,
    Sieve,
    Thaw,
    Typed,
    Value,
    Variable,
    Yield,
)
from finchlang.tensors.masks import MASKS
from finchlang.text.foreign import explained
from finchlang.text.print import pretty
from finchlang.types import Type, UInt8
from finchlang.walk import block, map_children, replace, walk

#: what a name bound in the kernel stands for
Environment = dict[str, Node]


def scopes(program: Node, context: Context) -> Node:
    """`program` with unique binders and nothing unbound (Finch'25 section 4); blocks are flat.

    Raises FinchError of kind "unknown name", "type", or "dimension" (a wrong number of indices).
    """
    context.reserve(program)
    program, context.yields = _without_return(program, context)
    return _Scopes(context).statement(program, {})


def _without_return(program: Node, context: Context) -> tuple[Node, tuple[str, ...]]:
    """The program without its final `return`, and the names that hands back."""
    statements = program.statements if isinstance(program, Block) else (program,)
    if not statements or not isinstance(statements[-1], Yield):
        return program, context.yields
    names = statements[-1].names
    for name in names:
        if name.name not in context.formats:
            hint = did_you_mean(name.name, context.formats)
            unknown = FinchError("unknown name", f"`{name.name}` is not known", name.span, hint)
            raise explained(unknown)
    return block(*statements[:-1]), tuple(n.name for n in names)


class _Scopes:
    def __init__(self, context: Context):
        self.context = context
        self.bound: set[str] = set()  # the names of binders seen so far
        self.extents: set[str] = set()  # those that a `let` bound to an extent
        self.formulas: dict[str, Formula] = {}  # and to expressions as tensors

    # ------------------------------------------------------------------ statements

    def statement(self, node: Node, env: Environment) -> Any:
        match node:
            case Block(statements):
                done = block(*(self.statement(s, env) for s in statements))
                return replace(done, span=node.span) if isinstance(done, Block) else done
            case Loop(index, extent, body):
                extent = self.extent(extent, env)
                new: Any = Index(self.bind(index.name), span=index.span)
                inner = self.statement(body, {**env, index.name: new})
                return Loop(new, extent, inner, span=node.span)
            case Define(variable, value, body):
                return self.define(node, variable, value, body, env)
            case Sieve(condition, body):
                return Sieve(self.value(condition, env), self.statement(body, env), span=node.span)
            case Assign(target, op, value):
                if mask_name(target.tensor):
                    raise FinchError("type", "a mask cannot be assigned to", target.span)
                if op not in PLAIN:
                    self.operator(op, 2, env)
                self.output(target.tensor, len(target.indices), env)
                access = self.access(target, env)
                if any(
                    isinstance(n, Variable) and n.name in self.formulas for n in walk(access.tensor)
                ):
                    message = f"`{pretty(target.tensor)}` is an expression, and is not written"
                    raise FinchError("type", message, target.span)
                return Assign(access, op, self.value(value, env), span=node.span)
            case Declare(tensor, init, dims):
                self.output(tensor, 1, env)
                order = self.tensor(tensor, env)
                if dims and len(dims) != order:
                    raise wrong_order(tensor.name, order, dims, "dimensions", node)
                init = self.value(init, env)
                dims = tuple(self.extent(d, env) for d in dims)
                return Declare(tensor, init, dims, span=node.span)
            case Freeze(tensor) | Thaw(tensor):
                self.tensor(tensor, env)
                return node
            case Yield():
                message = "`return` is the last statement of a kernel"
                raise FinchError("syntax", message, node.span)
        raise FinchError("syntax", "a statement is expected here", node.span)

    def define(
        self, node: Node, variable: Variable, value: Node, body: Node, env: Environment
    ) -> Node:
        if variable.name in env or variable.name in self.context.formats:
            message = f"`{variable.name}` is already bound"
            hint = "give what `let` binds another name"
            raise FinchError("unknown name", message, variable.span, hint)
        if isinstance(value, Formula):
            return self.formula(node, variable, value, body, env)
        is_extent = isinstance(value, Extent) or is_call(value, "meet")
        value = self.extent(value, env) if is_extent else self.value(value, env)
        new = Variable(self.bind(variable.name), span=variable.span)
        if is_extent:
            self.extents.add(new.name)
        inner = self.statement(body, {**env, variable.name: new})
        return Define(new, value, inner, span=node.span)

    def formula(
        self, node: Node, variable: Variable, value: Formula, body: Node, env: Environment
    ) -> Node:
        indices = [Index(self.bind(i.name), span=i.span) for i in value.indices]
        names = dict(zip((i.name for i in value.indices), indices, strict=True))
        formula = Formula(
            tuple(indices), self.value(value.value, {**env, **names}), span=value.span
        )
        new = Variable(self.bind(variable.name), span=variable.span)
        self.formulas[new.name] = with_primitives(formula, self.reader({}))
        inner = self.statement(body, {**env, variable.name: new})
        return Define(new, formula, inner, span=node.span)

    def bind(self, name: str) -> str:
        """The name a binder gets: its own, unless that is another binder's or means something."""
        if name in self.bound or name in RESERVED or name in self.context.formats:
            original, name = name, self.context.fresh(name)
            self.context.originals[name] = original
        self.bound.add(name)
        return name

    # ------------------------------------------------------------------ expressions

    def extent(self, node: Node, env: Environment) -> Node:
        """What stands where a dimension is expected."""
        match node:
            case Dimensionless():
                return node
            case Extent(start, stop, step):
                if step == Literal(0):
                    raise FinchError("dimension", "the step of a slice is not 0", node.span)
                if isinstance(step, Literal) and abs(step.value) >= LARGEST:
                    message = f"the step of a slice, {step.value}, is beyond 2^62"
                    raise FinchError("dimension", message, step.span)
                step = None if step is None else self.value(step, env)
                return Extent(self.value(start, env), self.value(stop, env), step, span=node.span)
            case Call(op, args) if is_call(node, "meet"):
                return Call(op, tuple(self.extent(a, env) for a in args), span=node.span)
            case Index(name) | Variable(name) if name in env and env[name].name in self.extents:  # type: ignore[attr-defined]
                return replace(env[name], span=node.span)
        value = self.value(node, env)
        if is_call(node, "size"):
            return Extent(Literal(1, span=node.span), value, span=node.span)
        raise FinchError("type", "this is not an extent", node.span, "write `1:n`, or `_`")

    def value(self, node: Node, env: Environment) -> Any:
        match node:
            case Literal() | Value():
                return node
            case Index(name) | Variable(name):
                return self.name(node, name, env)
            case Typed(variable, kind):
                return self.typed(node, variable, kind)
            case Mode(tensor):
                self.tensor(tensor, env)
                return node
            case Access():
                return self.access(node, env)
            case Call(op, args):
                if is_call(node, "size"):
                    return self.size(node, env)
                if is_call(node, *PROTOCOLS):
                    hint = "write it around an index, as in `A[gallop(i)]`"
                    raise FinchError("type", "a protocol stands in an access only", op.span, hint)
                self.operator(op, len(args), env)
                values = tuple(self.value(a, env) for a in args)
                row = operator(op)
                if row is not None and row.associative and len(values) > row.arity[1]:
                    return reduce(lambda a, b: Call(op, (a, b), span=node.span), values)
                return Call(op, values, span=node.span)
        hint = "a range is the extent of a loop or a dimension of a tensor"
        raise FinchError("type", "this is not a value", node.span, hint)

    def typed(self, node: Node, variable: Variable, kind: str) -> Node:
        """`x::Int64`: the number x of the script, which must have this type."""
        known = self.context.formats.get(variable.name)
        if not isinstance(known, Type):
            what = f"`::` says the type of a number of the script, and `{variable.name}` is none"
            raise FinchError("type", what, node.span)
        if known.name != kind:
            message = f"`{variable.name}` is {known}, not {kind}"
            raise FinchError("type", message, node.span, f"write `{kind}({variable.name})`")
        return Variable(variable.name, span=node.span)

    def name(self, node: Node, name: str, env: Environment) -> Node:
        if name in env:
            found: Any = env[name]
            if found.name in self.formulas:
                hint = f"write `{_example(name, len(self.formulas[found.name].indices))}`"
                raise FinchError("type", f"`{name}` is a tensor, not a value", node.span, hint)
            if found.name in self.extents:
                raise FinchError("type", f"`{name}` is an extent, not a value", node.span)
            return replace(found, span=node.span)
        known = self.context.formats.get(name)
        if isinstance(known, Type):
            return Variable(name, span=node.span)
        if known is not None:
            order = self.context.level(name).order
            hint = f"write `{_example(name, order)}`"
            raise FinchError("type", f"`{name}` is a tensor, not a value", node.span, hint)
        if name in MODES:
            return Literal(MODES.index(name), UInt8.name, span=node.span)
        if isinstance(node, Index):
            raise FinchError("unknown name", f"unbound index `{name}`", node.span)
        hint_names = (*env, *self.context.formats)
        hint_or_none = did_you_mean(name, hint_names)
        unknown = FinchError("unknown name", f"`{name}` is not known", node.span, hint_or_none)
        raise explained(unknown)

    def operator(self, op: Node, count: int, env: Environment) -> None:
        """Check that `op` is an operator that takes `count` arguments."""
        row = operator(op)
        if row is not None and not (isinstance(op, Variable) and op.name in env):
            least, most = row.arity
            if not least <= count <= most and not (row.associative and count > most):
                hint = None
                if isinstance(op, Operation):
                    hint = f"it is defined as `{op.name}({', '.join(op.parameters)})`"
                raise wrong_count(row.name, row.arity, count, op.span, hint)
            return
        if isinstance(op, Extent):
            message = "an extent cannot be called here"
            raise FinchError("type", message, op.span, "shift the loop instead")
        while isinstance(op, Call):
            op = op.op
        assert isinstance(op, (Variable, Index))
        known = self.context.formats.get(op.name)
        if op.name in env or isinstance(known, Type):
            raise FinchError("type", f"`{op.name}` is a value, not an operator", op.span)
        if known is not None:
            hint = f"write `{_example(op.name, self.context.level(op.name).order)}`"
            raise FinchError("type", f"`{op.name}` is a tensor, not an operator", op.span, hint)
        hint = did_you_mean(op.name, (*OPERATORS, *FAMILIES, *MASKS)) or (
            f"a function of the script is defined before the kernel: `{op.name}(x) = ...`"
        )
        message = f"there is no operator `{op.name}`"
        raise explained(FinchError("unknown name", message, op.span, hint))

    def size(self, node: Call, env: Environment) -> Node:
        """`size(A, k)`: the size of a tensor's mode k, a number."""
        if len(node.args) != 2:
            hint = "write `size(A, 1)`"
            raise FinchError("type", "`size` takes a tensor and a dimension", node.span, hint)
        tensor, mode = node.args
        found = self.reader(env).shaped(tensor)
        if not isinstance(mode, Literal) or type(mode.value) is not int:
            message = "the dimension that `size` takes is an integer literal"
            raise FinchError("type", message, mode.span)
        if not 1 <= mode.value <= found.order:
            message = (
                f"`{_described(tensor)}` has no dimension {mode.value}, its order is {found.order}"
            )
            raise FinchError("dimension", message, mode.span)
        return node if found.node is tensor else found.size(mode.value)

    # ------------------------------------------------------------------ accesses

    def access(self, node: Access, env: Environment) -> Access:
        found = self.reader(env).shaped(node.tensor)
        if len(node.indices) != found.order:
            what = _described(node.tensor)
            raise wrong_order(what, found.order, node.indices, "indices", node)
        indices = tuple(self.index(i, env) for i in node.indices)
        return Access(found.written, indices, span=node.span)

    def index(self, node: Node, env: Environment) -> Node:
        """An index: a value, perhaps under the modifiers `~`, `walk`, `gallop`, `follow`."""
        if isinstance(node, Call) and isinstance(node.op, Extent) and len(node.args) == 1:
            return replace(
                node, op=self.extent(node.op, env), args=(self.index(node.args[0], env),)
            )
        if is_call(node, PERMISSIVE, *PROTOCOLS):
            return map_children(lambda c: c if c is node.op else self.index(c, env), node)  # type: ignore[attr-defined]
        known = (*env, *self.context.formats)
        if isinstance(node, Variable) and node.name not in known:
            hint = did_you_mean(node.name, known)
            raise FinchError("unknown name", f"unbound index `{node.name}`", node.span, hint)
        return self.value(node, env)

    def output(self, tensor: Node, order: int, env: Environment) -> None:
        """Check that there is a tensor to assign to, or to declare, with so many modes."""
        known = (*env, *self.context.formats)
        if not isinstance(tensor, Variable) or tensor.name in env:
            return
        name, format = tensor.name, self.context.formats.get(tensor.name)
        made = f"zeros({', '.join('3' * order)})" if order else "Scalar(0.0)"
        hint = f"a kernel writes to what there is: before it, write `{name} = {made}`"
        if format is None:
            hint = did_you_mean(name, known) or hint
            raise FinchError("unknown name", f"`{name}` is not known", tensor.span, hint)
        if isinstance(format, Type):
            raise FinchError("type", f"`{name}` is a number, not a tensor", tensor.span, hint)

    def tensor(self, node: Variable, env: Environment) -> int:
        """The number of indices the tensor `node` takes."""
        if node.name in env:
            raise FinchError("type", f"`{node.name}` is not a tensor here", node.span)
        known = self.context.formats.get(node.name)
        if known is None:
            hint = did_you_mean(node.name, self.context.formats)
            unknown = FinchError("unknown name", f"`{node.name}` is not known", node.span, hint)
            raise explained(unknown)
        if isinstance(known, Type):
            message = f"`{node.name}` is a number, not a tensor"
            raise FinchError("type", message, node.span, f"write `{node.name}` alone")
        return self.context.level(node.name).order

    def reader(self, env: Environment) -> Reader:
        """What finds out about tensors where these names are bound."""
        return Reader(
            lambda variable: self.leaf(variable, env),
            lambda node: self.value(node, env),
            lambda node: self.extent(node, env),
        )

    def leaf(self, node: Variable, env: Environment) -> Shaped:
        found: Any = env.get(node.name, node)
        if found.name not in self.formulas:
            return Shaped(node, self.tensor(node, env))
        formula = self.formulas[found.name]
        return Shaped(formula, len(formula.indices), replace(found, span=node.span))


def _described(tensor: Node) -> str:
    name = None if any(is_call(n, *SHAPE_OPERATORS) for n in walk(tensor)) else root(tensor)
    return pretty(tensor) if name is None else name


def _example(name: str, order: int) -> str:
    letters = "ijklmnopq"
    return f"{name}[{', '.join(letters[k % len(letters)] for k in range(order))}]"
