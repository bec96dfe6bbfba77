"""The denotational semantics (Finch'25 Fig 8b): what a program means if every tensor is dense.

It runs on the program as parsed, visits every value of every index, and shares no rule with the rest of the
system: the interpreter and compiled code are checked against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq
from typing import Any

import numpy as np

from finchlang.base.errors import Bug, FinchError
from finchlang.denote import bindings, numpy_operators as ops, shape_arithmetic
from finchlang.denote.check_lifecycle import WRITES
from finchlang.denote.extents import Environment, Equations, Late
from finchlang.denote.index_modifiers import called, is_bare, is_mask, summands
from finchlang.denote.references import Arrays, Named, Places, needed
from finchlang.denote.shape_arithmetic import Bounds, tensors_of
from finchlang.denote.typed_values import Failed, Number, convert, integer, number
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.syntax.user_function import Operation


def updated(program: ast.Node) -> set[str]:
    """The names of the tensors that a program updates or declares."""
    targets = [n.target.tensor for n in trees.find_all(program, ast.Assign)]
    return {t.name for target in targets for t in tensors_of(target)} | _declared(program)


def _declared(program: ast.Node) -> set[str]:
    return {n.tensor.name for n in trees.find_all(program, ast.Declare)}


# -------------------------------------------------------------------------------- the semantics


class Denotation(Places):
    """Statements change `arrays`, expressions have values; operators compute as `meanings` say."""

    meanings: Mapping[tuple[str, int], ops.Meaning] = ops.MEANINGS

    dimensions: Equations

    def __init__(self, arrays: Arrays, functions: Mapping[Operation, bindings.ScriptFunction]):
        super().__init__(arrays)
        self.functions = functions
        self.declared: set[str] = set()  # the tensors that the program came to declare
        self.is_idle = False  # whether the value being computed is not needed
        self.doubt: FinchError | None = None  # the error of a condition around, if it is needed
        #: what steps of the loops around do not reduce into any more
        self.decided: set[ast.Node] = set()

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
                self.run(body, env | {variable.name: self.bound(value, env)}, ())
            case ast.Sieve(condition, body):
                self.sieve(self.value(condition, env), condition, body, env)
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
        updates = {(n.target.tensor, n.op) for n in trees.find_all(body, ast.Assign)}
        names, own = [name for name, _ in updates], _declared(body)
        named = [(name, op) for name, op in updates if isinstance(name, ast.Variable)]
        short = [(name, op) for name, op in named if self.array(name).is_short_circuit]
        return {(n, op) for n, op in short if n.name not in own and names.count(n) == 1}

    def decided_of(self, reduced: set[tuple[Any, ast.Node]]) -> set[ast.Node]:
        """The scalars whose value their operator gives back now, whatever is reduced into them."""
        arrays = [(name, op, self.arrays[name.name]) for name, op in reduced]
        return {name for name, op, a in arrays if ops.is_kept(op, a.data[()], a.type.dtype)}

    def leaves(self, node: Any, env: Environment) -> bool:
        """Whether an update leaves a decided scalar as it is: in a wider type others may decide it."""
        array = self.array(node.target.tensor)
        try:
            value = self.value(node.value, env)
        except FinchError:
            return True  # not needed
        if not isinstance(value, (Number, Failed)):
            return True
        return ops.is_kept(node.op, array.data[()], ops.common(array.type.dtype, value.value.dtype))

    def sieve(self, value: Any, condition: ast.Node, body: ast.Node, env: Environment) -> None:
        """Run `body` if its condition holds. The condition is not needed if `body` does nothing."""
        if isinstance(value, Failed) and self.doubt is None:
            self.doubt = value.error.at(condition.span)
            self.run(body, env, ())
            self.doubt = None
        elif isinstance(value, Failed):
            self.run(body, env, ())
        elif value is not ast.MISSING:
            if not isinstance(value, Number) or not value.is_bool:
                raise FinchError("type", "a condition must be a Bool", condition.span)
            if value.value:
                self.run(body, env, ())

    def declare(self, node: ast.Declare, env: Environment, rest: tuple[ast.Node, ...]) -> None:
        self.check_is_tensor(node.tensor, env)
        if self.doubt is not None:
            raise self.doubt
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
        """`target <<op>>= value`; nothing is done for or at `missing`. A place out of range is not needed
        if structure decides that the update does nothing."""
        try:
            name, at = self.place(target, env)
        except FinchError as error:
            if error.kind == "bounds" and self.is_neutral(target, op, value):
                return
            raise
        array = self.array(name)
        if value is ast.MISSING or at is None:
            return
        if self.doubt is not None:
            if self.is_neutral(target, op, value):
                return
            raise self.doubt
        old = Number(array.data[at].copy())  # a number, structural or not
        new = needed(self.after(op, old, needed(value, target), target), target)
        self.stored(new, target, array.type)
        stored = convert(new.value, array.type.dtype)
        changes = stored != old.value or op == ast.Variable("overwrite")
        array.write(at, stored, changes or not value.is_structural)

    def after(self, op: ast.Node, old: Any, value: Any, target: ast.Access) -> Any:
        """The new value of an element, before it is converted to the tensor's type."""
        if op in WRITES:
            return ops.apply(ast.Variable("identity"), [value], target)
        plain = Number(value.value) if isinstance(value, Number) else value
        return self.apply(op, [old, plain], target)

    def stored(self, value: Any, target: ast.Access, type: types.Type) -> None:
        """Raises FinchError of kind type for a value that a tensor of a type cannot store."""
        if not fits_in(value, type):
            found = types.type_of_dtype(value.value.dtype)
            name = next(tensors_of(target.tensor)).name
            message = f"{name} holds {type}, which cannot store {found}"
            raise FinchError("type", message, target.span)

    def is_neutral(self, target: ast.Access, op: ast.Node, value: Any) -> bool:
        """Whether `target <<op>>= value` changes nothing, whatever is there: `value` is structural."""
        if not isinstance(value, Number) or not value.is_structural:
            return value is ast.MISSING
        name = next(tensors_of(target.tensor))
        array = self.array(name)
        if op in WRITES:
            return name.name in self.declared and bool(value.value == array.fill)
        if array.type.dtype.names:
            return False
        type = array.type.dtype
        kept = [convert(np.float64(old), type) for old in (0, 1, 2, -3)]
        new = [self.apply(op, [Number(old), value], target) for old in kept]
        numbers = [convert(n.value, type) if isinstance(n, Number) else None for n in new]
        return all(map(eq, numbers, kept))

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
            case ast.Call(op, (*before, last)) if before[1:] and ops.choice(op) in ("&&", "||"):
                first = ast.Call(op, tuple(before), span=node.span)
                return self.value(ast.Call(op, (first, last), span=node.span), env)
            case ast.Call(op, args):
                values: list[Any] = []
                was_idle = self.is_idle
                try:
                    for arg in args:
                        self.is_idle = was_idle or not bindings.is_needed(op, values)
                        values.append(self.value(arg, env))
                finally:  # Late is raised here, too, and the program goes on
                    self.is_idle = was_idle
                found = self.as_structure(node, self.apply(op, values, node), env)
                return self.as_chosen(node, values, found)
        raise FinchError("type", "this is no number", node.span)

    def apply(self, op: ast.Node, args: list[Any], node: ast.Node) -> Any:
        if not isinstance(op, Operation):
            return ops.apply(op, args, node, self.meanings)
        if ast.MISSING in args:
            return ast.MISSING
        function = self.functions[op]
        type = bindings.type_of_result(function, args, node)
        is_step = isinstance(node, ast.Access)  # of an update, which computes with numbers alone
        if is_step or isinstance(op.body, ast.Script):
            return bindings.of_function(function, type, args, node, self.is_idle)
        return self.value(op.body, dict(zip(op.parameters, args, strict=True)))

    def as_structure(self, node: ast.Call, value: Any, env: Environment) -> Any:
        """The value of a call, structural where the text alone tells it: an index, perhaps moved by
        literals, is compared with itself or, like a mask, with an integer that is the same in all steps."""
        if called(node) not in ops.COMPARISONS or not isinstance(value, Number):
            return value
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

    def as_chosen(self, node: ast.Call, values: list[Any], found: Any) -> Any:
        """The value of a choice, which reads an element at an expression in what is chosen from: it is one
        between statements, in which the value chosen stays structural, if it is the fill that is read
        there, or the only structural one."""
        name, arms = ops.choice(node.op), node.args[1:]
        known = name and isinstance(found, Number) and isinstance(values[0], Number)
        if not known or not any(map(self.is_gathered, arms)):
            return found
        given = [*values[1:], Number(np.bool_(name == "||"), True)][:2]
        given = given[::-1] if name == "||" else given
        chosen = given[not values[0].value]
        fills = [f for arm in arms for a in trees.accesses(arm) for f in self.fills_of(a)]
        fills += [v.value for v in given if isinstance(v, Number) and v.is_structural]
        is_structural = isinstance(chosen, Number) and chosen.is_structural
        return Number(found.value, is_structural and _is_same(chosen.value, fills[0]))

    def is_gathered(self, node: ast.Node) -> bool:
        """Whether an expression reads an element of a tensor at an expression."""
        own = (a for a in trees.accesses(node) if not is_mask(self.within_wrappers(a)[0]))
        return any(not is_bare(index) for a in own for index in a.indices)

    def fills_of(self, access: ast.Access) -> list[Any]:
        root = self.within_wrappers(access)[0]
        array = self.arrays.get(root.name) if isinstance(root, ast.Variable) else None
        return [array.fill] if array is not None and array.has_gaps else []

    def is_outer(self, node: ast.Node, index: Any, env: Environment) -> bool:
        """Whether an expression is an integer that is the same in all steps of the loop of `index`."""
        within = list(env)[list(env).index(index.name) :]
        names = (n.name for n in trees.find_all(node, ast.Index, ast.Variable))
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
        found = found or self.extent(loop.extent, env)  # an end that only this step needs
        if found is None:
            message = f"nothing gives the index {loop.index.name} a dimension"
            hint = f"write `for {loop.index.name} = 1:n`"
            raise FinchError("dimension", message, loop.span, hint)
        return found

    def solve(self, region: ast.Node, env: Environment) -> Equations:
        """The dimensions of loops and declarations in `region`, as far as they follow, before it is run,
        from what `env` knows and what `region` does not change."""
        before = self.is_ahead, self.changing, self.resizing
        self.is_ahead, self.changing, self.resizing = True, updated(region), _declared(region)
        try:
            equations = Equations(self, region, env)
        finally:
            self.is_ahead, self.changing, self.resizing = before
        equations.solve()
        return equations

    def modes_of(self, named: Named) -> list[Bounds]:
        if not named.modes:
            region = ast.Define(ast.Variable(""), named.formula, ast.Variable(""))
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
        return int(integer(value, node, "a bound of an extent").value)


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def fits_in(value: Any, type: types.Type) -> bool:
    found = types.type_of_dtype(value.value.dtype)
    return found is not None and types.can_store(found, type)
