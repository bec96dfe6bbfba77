"""The denotational semantics (Finch'25 Fig 8b): what a program means if every tensor is dense.

It runs on the program as parsed, visits every value of every index, and shares no rule with the rest of the
system: the interpreter and compiled code are checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from finchlang.base.errors import Bug, FinchError
from finchlang.denote import shape_arithmetic
from finchlang.denote.bindings import (
    DenseArray,
    ScriptFunction,
    bind,
    is_needed,
    of_function,
    type_of_result,
)
from finchlang.denote.check_lifecycle import check_life_cycle
from finchlang.denote.extents import Environment, Equations, Late
from finchlang.denote.index_modifiers import summands
from finchlang.denote.numpy_operators import COMPARISONS, MEANINGS, Meaning, apply, common, is_kept
from finchlang.denote.references import Named, Places, needed
from finchlang.denote.shape_arithmetic import Bounds, tensors_of
from finchlang.denote.static_checks import settled
from finchlang.denote.typed_values import Failed, Number, convert, number
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.syntax.user_function import Operation


def denote(
    program: ast.Node,
    bindings: dict[str, Any],
    functions: Mapping[Operation, ScriptFunction] | None = None,
    semantics: Callable[..., Denotation] | None = None,
    declared: set[str] | None = None,
    stored: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The final contents of every tensor `program` updates, by name.

    `bindings` gives the free names: tensors (Tensor, SwizzledTensor, Scalar, NumPy, SciPy), numbers and
    ranges, none of which is changed. `functions` gives the script's functions in the program, `semantics`
    another class than Denotation. `declared` is extended by the names of the tensors whose declarations
    were reached, `stored` by masks of what each result stores. Results are NumPy arrays; of a Scalar, its
    value.

    Raises FinchError of kind dimension, bounds, type, life cycle or unknown name.
    """
    if isinstance(program, ast.Annotated):  # annotations do not change what it means
        program = program.program
    program = settled(program, bindings)
    arrays, environment = bind(program, bindings)
    try:
        made = (semantics or Denotation)(arrays, program, environment, functions or {})
        made.run(program, environment, ())
    except FinchError as error:
        if error.kind not in ("unknown name", "type"):
            check_life_cycle(program)  # before the others: it depends on no value
        raise
    check_life_cycle(program)
    if declared is not None:
        declared |= made.declared
    results = {name: arrays[name].data for name in sorted(_updated(program))}
    if stored is not None:
        stored |= {name: arrays[name].stored for name in results}
    return {name: data if data.ndim else data.item() for name, data in results.items()}


def _updated(program: ast.Node) -> set[str]:
    targets = [n.target.tensor for n in trees.walk(program) if isinstance(n, ast.Assign)]
    return {t.name for target in targets for t in tensors_of(target)} | _declared(program)


def _declared(program: ast.Node) -> set[str]:
    return {n.tensor.name for n in trees.walk(program) if isinstance(n, ast.Declare)}


# -------------------------------------------------------------------------------- the semantics


class Denotation(Places):
    """Statements change `arrays`, expressions have values; operators compute as `meanings` say."""

    meanings: Mapping[tuple[str, int], Meaning] = MEANINGS

    def __init__(
        self,
        arrays: dict[str, DenseArray],
        program: ast.Node,
        env: Environment,
        functions: Mapping[Operation, ScriptFunction],
    ):
        super().__init__(arrays)
        self.functions = functions
        self.declared: set[str] = set()  # the tensors that the program came to declare
        self.is_idle = False  # whether the value being computed is not needed
        #: what steps of the loops around do not reduce into any more
        self.decided: set[ast.Node] = set()
        self.dimensions = self.solve(program, env)

    # ---------------------------------------------------------------- statements

    def run(self, node: ast.Node, env: Environment, rest: tuple[ast.Node, ...]) -> None:
        """Perform a statement; `rest` are the statements after it in its block."""
        match node:
            case ast.Block(statements):
                for k, statement in enumerate(statements):
                    self.run(statement, env, statements[k + 1 :])
            case ast.Loop(index, ast.Extent(at, end), body) if (
                at == end and self.value(at, env) is ast.MISSING
            ):
                self.run(body, env | {index.name: ast.MISSING}, ())
            case ast.Loop(index, _, body):
                start, stop = self.extent_of(node, env)
                before, reduced = self.decided, self.reduced_by(body)
                for i in range(start, stop + 1):
                    self.decided = before.union(self.decided_of(reduced))
                    self.run(body, env | {index.name: number(i)}, ())
                self.decided = before
            case ast.Define(variable, value, body):
                if variable.name in env or variable.name in self.arrays:
                    message = f"{variable.name} is bound already: `let` needs a new name"
                    raise FinchError("unknown name", message, variable.span)
                bound = self.bound(value, env)
                if trees.mentions(body, variable):
                    needed(bound, value)
                self.run(body, env | {variable.name: bound}, ())
            case ast.Sieve(condition, body):
                if self.holds(condition, env):
                    self.run(body, env, ())
            case ast.Declare():
                self.declare(node, env, rest)
            case ast.Assign(target, op, value):
                if target.tensor not in self.decided or not self.leaves(node, env):
                    self.assign(target, op, self.value(value, env), env)
            case ast.Freeze() | ast.Thaw() | ast.Yield():
                pass
            case _:
                raise Bug(f"no statement: {node}")

    def reduced_by(self, body: ast.Node) -> set[tuple[Any, ast.Node]]:
        """The short-circuit scalars that the steps of a loop reduce into, each by its only operator."""
        if not any(array.is_short_circuit for array in self.arrays.values()):
            return set()
        updates = {(n.target.tensor, n.op) for n in trees.walk(body) if isinstance(n, ast.Assign)}
        names, own = [name for name, _ in updates], _declared(body)
        return {
            (name, op)
            for name, op in updates
            if isinstance(name, ast.Variable)
            and self.array(name).is_short_circuit
            and name.name not in own
            and names.count(name) == 1
        }

    def decided_of(self, reduced: set[tuple[Any, ast.Node]]) -> set[ast.Node]:
        """The scalars whose value their operator gives back now, whatever is reduced into them."""
        arrays = [(name, op, self.arrays[name.name]) for name, op in reduced]
        return {name for name, op, a in arrays if is_kept(op, a.data[()], a.type.dtype)}

    def leaves(self, node: Any, env: Environment) -> bool:
        """Whether an update leaves a decided scalar as it is: in a wider type others may decide it."""
        array = self.array(node.target.tensor)
        try:
            value = self.value(node.value, env)
        except FinchError:
            return True  # not needed
        if not isinstance(value, (Number, Failed)):
            return True
        return is_kept(node.op, array.data[()], common(array.type.dtype, value.value.dtype))

    def holds(self, condition: ast.Node, env: Environment) -> bool:
        value = needed(self.value(condition, env), condition)
        if value is ast.MISSING:
            return False
        if not isinstance(value, Number) or not value.is_bool:
            raise FinchError("type", "a condition must be a Bool", condition.span)
        return bool(value.value)

    def declare(self, node: ast.Declare, env: Environment, rest: tuple[ast.Node, ...]) -> None:
        self.check_is_tensor(node.tensor, env)
        array = self.array(node.tensor)
        # sizes that depend on the loops around are solved for when the program comes here
        shape = self.dimensions.shape(node)
        if shape is None:
            shape = self.solve(ast.Block((node, *rest)), env).shape(node)
        if shape is None:
            message = f"the size of {node.tensor.name} is not known where it is declared"
            raise FinchError("dimension", message, node.span)
        for a, b in array.mirrored:
            if shape[a] != shape[b]:
                message = f"{node.tensor.name} is square, not {shape[a]} x {shape[b]}"
                raise FinchError("dimension", message, node.span)
        init = needed(self.value(node.init, env), node.init)
        if not isinstance(init, Number) or not (fits_in(init, array.type) or init.value == 0):
            what = f"{node.tensor.name} of {array.type} cannot be declared as this"
            raise FinchError("type", what, node.init.span)
        array.declare(shape, convert(init.value, array.type.dtype))
        self.declared.add(node.tensor.name)

    def assign(self, target: ast.Access, op: ast.Node, value: Any, env: Environment) -> None:
        """`target <<op>>= value`; nothing is done for or at `missing`."""
        name, at = self.place(target, env)
        array = self.array(name)
        if value is ast.MISSING or at is None:
            return
        value = needed(value, target)
        old = Number(array.data[at].copy())  # a number, structural or not
        sign = op.name if isinstance(op, ast.Variable) else ""
        if sign in ("initwrite", "overwrite"):  # `=`, `:=`
            new = apply(ast.Variable("identity"), [value], target)
        else:
            operands = [old, Number(value.value) if isinstance(value, Number) else value]
            new = needed(self.apply(op, operands, target), target)
        if not fits_in(new, array.type):
            found = types.type_of_dtype(new.value.dtype)
            message = f"{name.name} holds {array.type}, which cannot store {found}"
            raise FinchError("type", message, target.span)
        stored = convert(new.value, array.type.dtype)
        changes = stored != old.value or sign == "overwrite"
        array.write(at, stored, changes or not value.is_structural)

    # ---------------------------------------------------------------- expressions

    def value(self, node: ast.Node, env: Environment) -> Any:
        """The value of an expression: a Number, Failed, `missing` or `nothing`."""
        match node:
            case ast.Literal(value, name):
                found = types.TYPES[name] if name else types.type_of_value(value)
                return value if found is None else number(value, found, is_structural=True)
            case ast.Index(name) | ast.Variable(name):
                if name not in env:
                    raise self.unknown(node)
                if env[name] is None:
                    raise Late
                if isinstance(env[name], Named):
                    raise FinchError("type", f"{name} is a tensor, not a number", node.span)
                return env[name]
            case ast.Access():
                return self.read(node, env)
            case ast.Call(
                ast.Variable("size"), (ast.Variable() | ast.Call() as tensor, ast.Literal(k))
            ):
                shape = [shape_arithmetic.size(b) for b in self.bounds(tensor, env)]
                if k not in range(1, len(shape) + 1):
                    name = getattr(tensor, "name", "the tensor")
                    message = f"{name} has {len(shape)} dimensions, not {k}"
                    raise FinchError("dimension", message, node.span)
                return number(shape[k - 1])
            case ast.Call(op, args):
                values: list[Any] = []
                was_idle = self.is_idle
                try:
                    for arg in args:
                        self.is_idle = was_idle or not is_needed(op, values)
                        values.append(self.value(arg, env))
                finally:  # Late is raised here, too, and the program goes on
                    self.is_idle = was_idle
                return self.as_structure(node, self.apply(op, values, node), env)
        raise FinchError("type", "this is no number", node.span)

    def apply(self, op: ast.Node, args: list[Any], node: ast.Node) -> Any:
        if not isinstance(op, Operation):
            return apply(op, args, node, self.meanings)
        if ast.MISSING in args:
            return ast.MISSING
        function = self.functions[op]
        type = type_of_result(function, args, node)
        if isinstance(op.body, ast.Script):
            return of_function(function, type, args, node, self.is_idle)
        return self.value(op.body, dict(zip(op.parameters, args, strict=True)))

    def as_structure(self, node: ast.Call, value: Any, env: Environment) -> Any:
        """The value of a call, structural where the text alone tells it: a comparison of an index, perhaps
        moved by literals, with an integer that is the same in all steps of its loop, like a mask, or with
        itself; and an integer less itself."""
        name = node.op.name if isinstance(node.op, ast.Variable) else ""
        if len(node.args) != 2 or not isinstance(value, (Number, Failed)):
            return value
        if name == "-" and node.args[0] == node.args[1] and value.value.dtype.kind in "iu":
            return Number(value.value.dtype.type(0), True)
        if name in COMPARISONS and isinstance(value, Number):
            indices = []
            for moved, outer in (node.args, node.args[::-1]):
                terms = [n for n in summands(moved) if not isinstance(n[1], ast.Literal)]
                deep = terms[0][1] if len(terms) == 1 and terms[0][0] > 0 else None
                indices += [deep] if isinstance(deep, ast.Index) else []
                known = all(isinstance(n, (ast.Index, ast.Literal)) for _, n in summands(outer))
                is_like_mask = isinstance(deep, ast.Index) and (known or deep == moved)
                if is_like_mask and self.is_outer(outer, deep, env):
                    return Number(value.value, True)
            return Number(value.value, value.is_structural or indices[1:] == indices[:1] != [])
        return value

    def is_outer(self, node: ast.Node, index: Any, env: Environment) -> bool:
        """Whether an expression is an integer that is the same in all steps of the loop of `index`."""
        within = list(env)[list(env).index(index.name) :]
        names = (n.name for n in trees.walk(node) if isinstance(n, (ast.Index, ast.Variable)))
        if any(name in within for name in names):
            return False
        found = self.value(node, env)
        return isinstance(found, Number) and found.value.dtype.kind == "i"

    def bound(self, node: ast.Node, env: Environment) -> Any:
        """What a `let` binds: a value, an extent, or an expression as a tensor."""
        if isinstance(node, ast.Formula):
            return Named(node, env)
        is_extent = isinstance(node, ast.Extent) or ast.is_meet(node)
        return self.extent(node, env) if is_extent else self.value(node, env)

    # ---------------------------------------------------------------- dimensions (section 4)

    def extent_of(self, loop: ast.Loop, env: Environment) -> tuple[int, int]:
        found = self.dimensions.extent(loop) or self.solve(loop, env).extent(loop)
        if found is None:
            message = f"nothing gives the index {loop.index.name} a dimension"
            hint = f"write `for {loop.index.name} = 1:n`"
            raise FinchError("dimension", message, loop.span, hint)
        return found

    def solve(self, region: ast.Node, env: Environment) -> Equations:
        """The dimensions of loops and declarations in `region`, as far as they follow, before it is run,
        from what `env` knows and what `region` does not change."""
        before = self.is_ahead, self.changing, self.resizing
        self.is_ahead, self.changing, self.resizing = True, _updated(region), _declared(region)
        try:
            equations = Equations(self, region, env)
        finally:
            self.is_ahead, self.changing, self.resizing = before
        equations.solve()
        return equations

    def modes_of(self, named: Named) -> list[Bounds]:
        if not named.modes:
            region = ast.Define(ast.Variable(""), named.formula, ast.EMPTY)
            found = self.solve(region, named.env).tensors[""]
            if any(d.state == 1 for d in found):
                raise Late
            named.modes.extend((d.start, d.stop) if d.is_known else None for d in found)
        return named.modes

    def extent(self, node: ast.Node, env: Environment) -> tuple[int, int] | None:
        """The extent that an expression stands for, or None for `_`. Raises Late."""
        match node:
            case ast.Dimensionless():
                return None
            case ast.Extent(start, stop):
                return self.whole(start, env), self.whole(stop, env)
            case ast.Call(_, args) if ast.is_meet(node):
                parts = [self.extent(a, env) for a in args]
                known = [p for p in parts if p is not None]
                if any(p != known[0] for p in known):
                    both = " and ".join(f"{a}:{b}" for a, b in known)
                    raise FinchError("dimension", f"the extents {both} do not match", node.span)
                return known[0] if known else None
            case ast.Call(ast.Variable("size")):
                return 1, self.whole(node, env)
            case ast.Variable(name) if name in env:
                if env[name] is None:
                    raise Late
                if isinstance(env[name], tuple):
                    return env[name]
        raise FinchError("type", "the extent of an index is a range like 1:n", node.span)

    def whole(self, node: ast.Node, env: Environment) -> int:
        value = needed(self.value(node, env), node)
        if value is ast.MISSING:
            raise FinchError("type", "a number is needed here, which is `missing`", node.span)
        if not isinstance(value, Number) or not value.is_integer:
            raise FinchError("type", "a bound of an extent must be an integer", node.span)
        return int(value.value)


def fits_in(value: Any, type: types.Type) -> bool:
    found = types.type_of_dtype(value.value.dtype)
    return found is not None and types.can_store(found, type)
