"""The scopes pass: every name is found, binders have names of their own, `return` is taken off."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from typing import Any

from finchlang.algebra import program_context as ctx
from finchlang.base.errors import FinchError, did_you_mean, write
from finchlang.levels.level import Level
from finchlang.normalize.shapes.reader import Reader, with_primitives, wrong_order
from finchlang.normalize.shapes.shape_table import OPERATORS as SHAPE_OPERATORS
from finchlang.normalize.shapes.shaped import Shaped
from finchlang.operators.build import LARGEST
from finchlang.operators.operator import wrong_count
from finchlang.operators.operator_table import FAMILIES, OPERATORS, operator, row_of
from finchlang.syntax import nodes as ast, types
from finchlang.syntax.traversal import block, find_all, map_children, replace, walk
from finchlang.syntax.user_function import Operation
from finchlang.text.meant import explained
from finchlang.text.print import pretty
from finchlang.wrappers.masks import MASKS

#: what a name bound in the kernel stands for
Environment = dict[str, Any]


def scopes(program: ast.Node, context: ctx.ProgramContext) -> ast.Node:
    """`program` with unique binders and nothing unbound (Finch'25 section 4); blocks are flat. Raises
    FinchError "unknown name", "type", or "dimension" (a wrong number of indices)."""
    context.reserve(program)
    statements, names = ctx.statements_of(program), tuple[ast.Variable, ...]()
    if statements and isinstance(statements[-1], ast.Yield):
        program, names = block(*statements[:-1]), statements[-1].names
    done = _Scopes(context, program).statement(program, {})
    for name in names:
        if name.name not in context.formats:
            raise _unknown(name, context.formats)
    context.yields = tuple(n.name for n in names) or context.yields
    return done


class _Scopes:
    def __init__(self, context: ctx.ProgramContext, program: ast.Node):
        self.context, self.program = context, program
        self.bound: set[str] = set()  # the names of binders seen so far
        self.extents: set[str] = set()  # those that a `let` bound to an extent
        self.formulas: dict[str, ast.Formula] = {}  # by the names that a `let` bound to them

    def statement(self, node: ast.Node, env: Environment) -> Any:
        match node:
            case ast.Block(statements):
                done = block(*(self.statement(s, env) for s in statements))
                return replace(done, span=node.span) if isinstance(done, ast.Block) else done
            case ast.Loop(index, extent, body):
                extent = self.extent(extent, env)
                new: Any = ast.Index(self.bind(index.name), span=index.span)
                inner = self.statement(body, {**env, index.name: new})
                return ast.Loop(new, extent, inner, span=node.span)
            case ast.Define():
                return self.define(node, env)
            case ast.Sieve(condition, body):
                condition = self.value(condition, env)
                return ast.Sieve(condition, self.statement(body, env), span=node.span)
            case ast.Assign(target, op, value):
                if ctx.mask_name(target.tensor):
                    raise FinchError("type", "a mask cannot be assigned to", target.span)
                if op not in ctx.PLAIN:
                    self.operator(op, 2, env)
                self.output(target.tensor, env)
                access = self.access(target, env)
                names = {n.name for n in find_all(access.tensor, ast.Variable)}
                if not names.isdisjoint(self.formulas):
                    message = f"`{pretty(target.tensor)}` is an expression, and is not written"
                    raise FinchError("type", message, target.span)
                return ast.Assign(access, op, self.value(value, env), span=node.span)
            case ast.Declare(tensor, init, dims):
                self.output(tensor, env)
                order = self.tensor(tensor, env)
                if dims and len(dims) != order:
                    raise wrong_order(tensor.name, order, dims, "dimensions", node)
                init = self.value(init, env)
                dims = tuple(self.extent(d, env) for d in dims)
                return ast.Declare(tensor, init, dims, span=node.span)
            case ast.Freeze(tensor) | ast.Thaw(tensor):
                self.tensor(tensor, env)
                return node
            case ast.Yield():
                raise FinchError("syntax", "`return` is the last statement of a kernel", node.span)
        raise FinchError("syntax", "a statement is expected here", node.span)

    def define(self, node: ast.Define, env: Environment) -> ast.Node:
        variable, value = node.variable, node.value
        if variable.name in env or variable.name in self.context.formats:
            message = f"`{variable.name}` is already bound"
            hint = "choose another name in the `let`"
            raise FinchError("unknown name", message, variable.span, hint)
        is_extent = isinstance(value, ast.Extent) or ast.is_meet(value)
        if isinstance(value, ast.Formula):
            value = self.formula(value, env)
        else:
            value = self.extent(value, env) if is_extent else self.value(value, env)
        new = ast.Variable(self.bind(variable.name), span=variable.span)
        if is_extent:
            self.extents.add(new.name)
        elif isinstance(value, ast.Formula):
            self.formulas[new.name] = with_primitives(value, self.reader({}))
        inner = self.statement(node.body, {**env, variable.name: new})
        return ast.Define(new, value, inner, span=node.span)

    def formula(self, value: ast.Formula, env: Environment) -> ast.Formula:
        indices = tuple([ast.Index(self.bind(i.name), span=i.span) for i in value.indices])
        names = dict(zip((i.name for i in value.indices), indices, strict=True))
        return ast.Formula(indices, self.value(value.value, {**env, **names}), span=value.span)

    def bind(self, name: str) -> str:
        """The name a binder gets: its own, if no other binder has it and it is not reserved or free."""
        if name in self.bound or name in ctx.RESERVED or name in self.context.formats:
            original, name = name, self.context.fresh(name)
            self.context.originals[name] = original
        self.bound.add(name)
        return name

    def extent(self, node: ast.Node, env: Environment) -> ast.Node:
        """A node in the place of a dimension: a range, `_`, a `meet`, a name for one, or `size(A, k)`."""
        match node:
            case ast.Dimensionless():
                return node
            case ast.Extent(start, stop, step):
                if step == ast.Literal(0):
                    raise FinchError("dimension", "the step of a slice is not 0", node.span)
                if step in (ast.Literal(ast.MISSING), ast.Literal(ast.NOTHING)):
                    message = f"a number is needed here, which is `{step.value}`"  # type: ignore[union-attr]
                    raise FinchError("type", message, node.span)
                if isinstance(step, ast.Literal) and abs(step.value) >= LARGEST:
                    message = f"the step of a slice, {step.value}, is beyond 2^62"
                    raise FinchError("dimension", message, step.span)
                step = None if step is None else self.value(step, env)
                ends = self.value(start, env), self.value(stop, env)
                return ast.Extent(*ends, step, span=node.span)
            case ast.Call(op, args) if ast.is_meet(node):
                return ast.Call(op, tuple(self.extent(a, env) for a in args), span=node.span)
            case ast.Index(name) | ast.Variable(name) if (
                name in env and env[name].name in self.extents
            ):
                return replace(env[name], span=node.span)
        known = self.context.formats.get(node.name) if isinstance(node, ast.Variable) else None
        if isinstance(node, ast.Variable) and isinstance(known, Level):
            hint = f"write `for i = _`, and `{_example(node.name, known.order)}` for an entry"
            message = f"a loop runs over indices, and `{node.name}` is a tensor"
            raise FinchError("type", message, node.span, hint)
        value = self.value(node, env)
        if ctx.is_call(node, "size"):
            return ast.Extent(ast.Literal(1, span=node.span), value, span=node.span)
        raise FinchError("type", "this is not an extent", node.span, "write `1:n`, or `_`")

    def value(self, node: ast.Node, env: Environment) -> Any:
        match node:
            case ast.Literal() | ast.Value():
                return node
            case ast.Index(name) | ast.Variable(name):
                return self.name(node, name, env)
            case ast.Typed(variable, kind):
                return self.typed(node, variable, kind)
            case ast.Mode(tensor):
                self.tensor(tensor, env)
                return node
            case ast.Access():
                return self.access(node, env)
            case ast.Call(op, args):
                if ctx.is_call(node, "size"):
                    return self.size(node, env)
                if ctx.is_call(node, *ctx.PROTOCOLS):
                    hint = "write it around an index, as in `A[gallop(i)]`"
                    raise FinchError("type", "a protocol stands in an access only", op.span, hint)
                self.operator(op, len(args), env, node)
                values = tuple(self.value(a, env) for a in args)
                if row_of(node).associative and len(values) > row_of(node).arity[1]:
                    return reduce(lambda a, b: ast.Call(op, (a, b), span=node.span), values)
                return ast.Call(op, values, span=node.span)
        hint = "a range is the extent of a loop or a dimension of a tensor"
        raise FinchError("type", "this is not a value", node.span, hint)

    def typed(self, node: ast.Node, variable: ast.Variable, kind: str) -> ast.Node:
        """`x::Int64`: the number x of the script, which must have this type."""
        known = self.context.formats.get(variable.name)
        if not isinstance(known, types.Type):
            what = f"`::` says the type of a number of the script, and `{variable.name}` is none"
            raise FinchError("type", what, node.span)
        if known.name != kind:
            message = f"`{variable.name}` is {known}, not {kind}"
            raise FinchError("type", message, node.span, f"write `{kind}({variable.name})`")
        return ast.Variable(variable.name, span=node.span)

    def name(self, node: ast.Node, name: str, env: Environment) -> ast.Node:
        found: Any = env.get(name)
        known = self.context.formats.get(name) if found is None else found.name in self.formulas
        if found is not None and found.name in self.extents:
            raise FinchError("type", f"`{name}` is an extent, not a value", node.span)
        if known and not isinstance(known, types.Type):
            example = _example(name, self.leaf(ast.Variable(name), env).order)
            hint = f"in a loop write `{example}`; the script computes with whole tensors"
            raise FinchError("type", f"`{name}` is a tensor, not a value", node.span, hint)
        if found is not None:
            return replace(found, span=node.span)
        if known:
            return ast.Variable(name, span=node.span)
        if name in ast.MODES:
            return ast.Literal(ast.MODES.index(name), types.UInt8.name, span=node.span)
        if isinstance(node, ast.Index):
            raise self.unbound(node, (), env)
        raise _unknown(node, (*env, *self.context.formats))

    def unbound(self, node: Any, known: Iterable[str], env: Environment) -> FinchError:
        loops = [self.context.written(n.name) for n in env.values() if isinstance(n, ast.Index)]
        hint: str | None = did_you_mean(node.name, known)
        if hint is None:
            hint = f"the loops around it bind {', '.join(f'`{name}`' for name in loops)}"
            if not loops:
                hint = f"no loop is around it: write `@finch for {node.name} = _; ... end`, or `@einsum`"
        return FinchError("unknown name", f"unbound index `{node.name}`", node.span, hint)

    def operator(
        self, op: ast.Node, count: int, env: Environment, whole: ast.Call | None = None
    ) -> None:
        """Check that `op` is an operator that takes `count` arguments."""
        row = operator(op)
        if row is not None and not (isinstance(op, ast.Variable) and op.name in env):
            least, most = row.arity
            if not least <= count <= most and not (row.associative and count > most):
                reduces = f"loops reduce: `s[] <<{row.name}>>= x[i]`"
                hint = reduces if row.associative and count == 1 else None
                if isinstance(op, Operation):
                    hint = f"it is defined as `{op.name}({', '.join(op.parameters)})`"
                raise wrong_count(row.name, row.arity, count, op.span, hint)
            return
        if isinstance(op, ast.Extent):
            message = "an extent cannot be called here"
            raise FinchError("type", message, op.span, "shift the loop instead")
        while isinstance(op, ast.Call) and getattr(op.op, "name", None) not in OPERATORS:
            op = op.op
        fault = FinchError("type", f"`{pretty(op)}` is a value, not an operator", op.span)
        if not isinstance(op, (ast.Variable, ast.Index)):
            raise fault
        known = self.context.formats.get(op.name)
        if op.name in env or isinstance(known, types.Type):
            raise fault
        if known is not None:
            told: Any = f"write `{_example(op.name, self.context.level(op.name).order)}`"
            if whole is not None:
                told = write(f"{op.name}[{', '.join(map(pretty, whole.args))}]")
            message = f"`{op.name}` is a tensor, not an operator"
            raise FinchError("type", message, (whole or op).span, told)
        hint = did_you_mean(op.name, (*OPERATORS, *FAMILIES, *MASKS))
        hint = hint or "a function of the script is defined before the kernel: `f(x) = ...`"
        message = f"there is no operator `{op.name}`"
        raise explained(FinchError("unknown name", message, op.span, hint), in_kernel=True)

    def size(self, node: ast.Call, env: Environment) -> ast.Node:
        """`size(A, k)`: the size of a tensor's mode k, a number."""
        if len(node.args) != 2:
            hint = "write `size(A, 1)`"
            raise FinchError("type", "`size` takes a tensor and a dimension", node.span, hint)
        tensor, mode = node.args
        found = self.reader(env).shaped(tensor)
        if not isinstance(mode, ast.Literal) or type(mode.value) is not int:
            message = "the dimension that `size` takes is an integer literal"
            raise FinchError("type", message, mode.span)
        if not 1 <= mode.value <= found.order:
            has = f"has no dimension {mode.value}, its order is {found.order}"
            raise FinchError("dimension", f"`{_described(tensor)}` {has}", mode.span)
        return node if found.node is tensor else found.size(mode.value)

    def access(self, node: ast.Access, env: Environment) -> ast.Access:
        found = self.reader(env).shaped(node.tensor)
        if len(node.indices) != found.order:
            raise wrong_order(_described(node.tensor), found.order, node.indices, "indices", node)
        indices = tuple(self.index(i, env) for i in node.indices)
        return ast.Access(found.written, indices, span=node.span)

    def index(self, node: ast.Node, env: Environment) -> ast.Node:
        """An index: a value, perhaps under the modifiers `~`, `walk`, `gallop`, `follow`."""
        if isinstance(node, ast.Call) and isinstance(node.op, ast.Extent) and len(node.args) == 1:
            op, index = self.extent(node.op, env), self.index(node.args[0], env)
            return replace(node, op=op, args=(index,))
        if ctx.is_call(node, ctx.PERMISSIVE, *ctx.PROTOCOLS):
            return map_children(lambda c: c if c is node.op else self.index(c, env), node)
        known = (*env, *self.context.formats)
        if isinstance(node, ast.Variable) and node.name not in known:
            raise self.unbound(node, known, env)
        return self.value(node, env)

    def output(self, tensor: ast.Node, env: Environment) -> None:
        """Check that what is assigned to, or declared, is a tensor."""
        if not isinstance(tensor, ast.Variable) or tensor.name in env:
            return
        name, format = tensor.name, self.context.formats.get(tensor.name)
        if format is not None and not isinstance(format, types.Type):
            return
        uses = list(find_all(self.program, ast.Access))
        own = next((n.indices for n in uses if n.tensor == tensor), (None,))
        made = f"zeros({', '.join(self.extent_of(i, uses) for i in own)})" if own else "Scalar(0.0)"
        hint = f"a kernel writes to tensors that exist: before it, write `{name} = {made}`"
        if format is None:
            hint = did_you_mean(name, (*env, *self.context.formats)) or hint
            raise FinchError("unknown name", f"`{name}` is not known", tensor.span, hint)
        raise FinchError("type", f"`{name}` is a number, not a tensor", tensor.span, hint)

    def extent_of(self, index: ast.Node | None, uses: list[ast.Access]) -> str:
        """The size, for a hint, of what `index` also reads; 3 if there is none."""
        for use in uses:
            shape = self.context.formats.get(getattr(use.tensor, "name", ""))
            if isinstance(shape, Level) and index in use.indices:
                return f"size({pretty(use.tensor)}, {use.indices.index(index) + 1})"
        return "3"

    def tensor(self, node: ast.Variable, env: Environment) -> int:
        """The number of indices the tensor `node` takes."""
        if node.name in env:
            raise FinchError("type", f"`{node.name}` is not a tensor here", node.span)
        known = self.context.formats.get(node.name)
        if known is None:
            raise _unknown(node, self.context.formats)
        if isinstance(known, types.Type):
            message = f"`{node.name}` is a number, not a tensor"
            raise FinchError("type", message, node.span, f"write `{node.name}` alone")
        return self.context.level(node.name).order

    def reader(self, env: Environment) -> Reader:
        value, extent = partial(self.value, env=env), partial(self.extent, env=env)
        return Reader(partial(self.leaf, env=env), value, extent)

    def leaf(self, node: ast.Variable, env: Environment) -> Shaped:
        found: Any = env.get(node.name, node)
        if found.name not in self.formulas:
            return Shaped(node, self.tensor(node, env))
        formula = self.formulas[found.name]
        return Shaped(formula, len(formula.indices), replace(found, span=node.span))


def _unknown(node: Any, known: Iterable[str]) -> FinchError:
    hint = did_you_mean(node.name, known)
    error = FinchError("unknown name", f"`{node.name}` is not known", node.span, hint)
    return explained(error, in_kernel=True)


def _described(tensor: ast.Node) -> str:
    name = None if any(ctx.is_call(n, *SHAPE_OPERATORS) for n in walk(tensor)) else ctx.root(tensor)
    return pretty(tensor) if name is None else name


def _example(name: str, order: int) -> str:
    letters = "ijklmnopq"
    return f"{name}[{', '.join(letters[k % len(letters)] for k in range(order))}]"
