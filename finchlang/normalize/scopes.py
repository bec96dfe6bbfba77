"""The scopes pass: every name is found, binders have names of their own, `return` is taken off."""

from __future__ import annotations

from functools import reduce
from typing import Any

from finchlang.algebra import FAMILIES, OPERATORS, operator
from finchlang.normalize.context import (
    PLAIN,
    PROTOCOLS,
    RESERVED,
    Context,
    did_you_mean,
    is_call,
    mask_name,
)
from finchlang.normalize.reader import Reader
from finchlang.normalize.shape_operators import OPERATORS as SHAPE_OPERATORS
from finchlang.normalize.shaped import WHOLE, Shaped
from finchlang.operation import Operation
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
from finchlang.tensors.wrappers import WRAPPERS
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
            raise FinchError("unknown name", f"`{name.name}` is not known", name.span, hint)
    return block(*statements[:-1]), tuple(n.name for n in names)


class _Scopes:
    def __init__(self, context: Context):
        self.context = context
        self.bound: set[str] = set()  # the names of binders seen so far
        self.extents: set[str] = set()  # those that a `let` bound to an extent

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
                access = self.access(target, env)
                return Assign(access, op, self.value(value, env), span=node.span)
            case Declare(tensor, init, dims):
                order = self.tensor(tensor, env)
                if dims and len(dims) != order:
                    raise _wrong_count(tensor.name, order, len(dims), "dimensions", node)
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
        is_extent = isinstance(value, Extent) or is_call(value, "meet")
        value = self.extent(value, env) if is_extent else self.value(value, env)
        new = Variable(self.bind(variable.name), span=variable.span)
        if is_extent:
            self.extents.add(new.name)
        inner = self.statement(body, {**env, variable.name: new})
        return Define(new, value, inner, span=node.span)

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
        raise FinchError(
            "unknown name", f"`{name}` is not known", node.span, did_you_mean(name, hint_names)
        )

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
        hint_or_none = did_you_mean(op.name, (*OPERATORS, *FAMILIES, *MASKS))
        message = f"there is no operator `{op.name}`"
        raise FinchError("unknown name", message, op.span, hint_or_none)

    def size(self, node: Call, env: Environment) -> Node:
        """`size(A, k)`: the size of a tensor's mode k, a number."""
        if len(node.args) != 2 or not isinstance(node.args[0], Variable):
            hint = "write `size(A, 1)`"
            raise FinchError("type", "`size` takes a tensor and a dimension", node.span, hint)
        tensor: Any = node.args[0]
        mode = node.args[1]
        order = self.tensor(tensor, env)
        if not isinstance(mode, Literal) or type(mode.value) is not int:
            message = "the dimension that `size` takes is an integer literal"
            raise FinchError("type", message, mode.span)
        if not 1 <= mode.value <= order:
            message = f"`{tensor.name}` has no dimension {mode.value}, its order is {order}"
            raise FinchError("dimension", message, mode.span)
        return node

    # ------------------------------------------------------------------ accesses

    def access(self, node: Access, env: Environment) -> Access:
        found = self.shaped(node.tensor, env)
        if len(node.indices) != found.order:
            what = self.describe(node.tensor)
            raise _wrong_count(what, found.order, len(node.indices), "indices", node)
        indices = tuple(self.index(i, env) for i in node.indices)
        return Access(found.written, indices, span=node.span)

    def describe(self, tensor: Node) -> str:
        while isinstance(tensor, Call):
            tensor = tensor.args[0] if tensor.args else tensor.op
        assert isinstance(tensor, Variable)
        return tensor.name

    def index(self, node: Node, env: Environment) -> Node:
        """An index: a value, perhaps under the modifiers `~`, `walk`, `gallop`, `follow`."""
        if isinstance(node, Call) and isinstance(node.op, Extent) and len(node.args) == 1:
            return replace(
                node, op=self.extent(node.op, env), args=(self.index(node.args[0], env),)
            )
        if is_call(node, "~", *PROTOCOLS):
            return map_children(lambda c: c if c is node.op else self.index(c, env), node)  # type: ignore[attr-defined]
        known = (*env, *self.context.formats)
        if isinstance(node, Variable) and node.name not in known:
            hint = did_you_mean(node.name, known)
            raise FinchError("unknown name", f"unbound index `{node.name}`", node.span, hint)
        return self.value(node, env)

    def tensor(self, node: Variable, env: Environment) -> int:
        """The number of indices the tensor `node` takes."""
        if node.name in env:
            raise FinchError("type", f"`{node.name}` is not a tensor here", node.span)
        known = self.context.formats.get(node.name)
        if known is None:
            hint = did_you_mean(node.name, self.context.formats)
            raise FinchError("unknown name", f"`{node.name}` is not known", node.span, hint)
        if isinstance(known, Type):
            message = f"`{node.name}` is a number, not a tensor"
            raise FinchError("type", message, node.span, f"write `{node.name}` alone")
        return self.context.level(node.name).order

    def shaped(self, node: Node, env: Environment) -> Shaped:
        """A tensor with all its wrappers, masks and shape operators checked, and their arguments under
        the names that are used from here on."""
        if isinstance(node, Variable):
            return Shaped(node, self.tensor(node, env))
        if not isinstance(node, Call) or not isinstance(node.op, Variable):
            raise FinchError("type", "a tensor is expected here", node.span)
        name = node.op.name
        if name in SHAPE_OPERATORS:
            return Reader(
                lambda n: self.shaped(n, env),
                lambda n: self.value(n, env),
                lambda n: self.extent(n, env),
            ).shaped(node)
        if name in MASKS:
            return self.mask(node, name, env)
        if name not in WRAPPERS and name != "swizzle":
            hint = did_you_mean(name, (*MASKS, *WRAPPERS, *SHAPE_OPERATORS, "swizzle"))
            raise FinchError("unknown name", f"there is no wrapper `{name}`", node.op.span, hint)
        return self.wrapper(node, name, env)

    def mask(self, node: Call, name: str, env: Environment) -> Shaped:
        given, wanted = len(node.args), len(MASKS[name].parameters)
        if given != wanted:
            message = f"`{MASKS[name]}` takes {wanted} arguments, not {given}"
            raise FinchError("type", message, node.span)
        for n in walk(node):
            if isinstance(n, Access):
                message = "the arguments of a mask are numbers, not elements of tensors"
                hint = "bind the element outside of the loops: let n = ..."
                raise FinchError("type", message, n.span, hint)
        args = tuple(self.value(a, env) for a in node.args)
        return Shaped(replace(node, args=args), MASKS[name].order)

    def wrapper(self, node: Call, name: str, env: Environment) -> Shaped:
        if not node.args:
            raise FinchError("type", f"`{name}` wraps a tensor", node.span)
        body, settings = self.shaped(node.args[0], env), node.args[1:]
        order = body.order
        if name == "toeplitz":
            mode: Any = settings[0] if len(settings) == 1 else None
            if not isinstance(mode, Literal) or mode.value not in range(1, order + 1):
                message = f"`toeplitz` takes a tensor and the mode to divide, from 1 to {order}"
                raise FinchError("type", message, node.span)
            return Shaped(replace(node, args=(body.node, mode)), order + 1)
        if len(settings) != order:
            what = f"{name}({self.describe(node.args[0])}, ...)"
            raise _wrong_count(what, order, len(settings), "settings", node)
        if name == "swizzle":
            modes = [s.value if isinstance(s, Literal) else None for s in settings]
            if sorted(modes, key=repr) != sorted(range(1, order + 1), key=repr):
                message = f"the modes of a swizzle are 1 to {order}, each once"
                raise FinchError("type", message, node.span)
        elif name == "offset":
            settings = tuple(self.value(s, env) for s in settings)
        elif name == "window":
            settings = tuple(s if s == WHOLE else self.extent(s, env) for s in settings)
            settings = tuple(WHOLE if isinstance(s, Dimensionless) else s for s in settings)
        return Shaped(replace(node, args=(body.node, *settings)), order)


def _wrong_count(name: str, order: int, given: int, what: str, node: Node) -> FinchError:
    message = f"`{name}` has {order} dimension{'s' * (order != 1)}, but {given} {what} are given"
    return FinchError("dimension", message, node.span)


def _example(name: str, order: int) -> str:
    letters = "ijklmnopq"
    return f"{name}[{', '.join(letters[k % len(letters)] for k in range(order))}]"
