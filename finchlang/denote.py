"""The denotational semantics (Finch'25 Fig 8b): what a program means if every tensor is dense.

It runs on the program as it was parsed, visits every value of every index, and shares no rule with
the rest of the system: the interpreter and compiled code are checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from finchlang.algebra import Operator, literal_type, operator
from finchlang.host.build import cast, const
from finchlang.host.ir import Const
from finchlang.denote_dimensions import MASKS, Environment, Equations, Late, modes, root
from finchlang.rewrite import walk
from finchlang.source import Bug, FinchError
from finchlang.syntax import (
    MISSING,
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
    Node,
    Sieve,
    Thaw,
    Variable,
    Yield,
)
from finchlang.tensors.tensor import as_tensor
from finchlang.types import Bool, Type, can_store, type_of_dtype, type_of_value


def denote(program: Node, bindings: dict[str, Any]) -> dict[str, Any]:
    """The final contents of every tensor `program` updates, by name.

    `bindings` gives the free names: tensors (Tensor, SwizzledTensor, Scalar, NumPy, SciPy), numbers
    and ranges, none of which is changed. Results are NumPy arrays; of a Scalar, its value.
    Raises FinchError of kind dimension, bounds, type or unknown name.
    """
    arrays, environment = _bind(program, bindings)
    semantics = Denotation(arrays)
    semantics.learn(program, environment)
    semantics.run(program, environment, ())
    return {
        name: arrays[name].data[()] if arrays[name].data.ndim else arrays[name].data.item()
        for name in sorted(_updated(program))
        if name in arrays
    }


@dataclass
class DenseArray:
    """A tensor as a function from indices to values: a dense array of `type`."""

    data: np.ndarray
    type: Type


def _bind(program: Node, bindings: dict[str, Any]) -> tuple[dict[str, DenseArray], Environment]:
    arrays: dict[str, DenseArray] = {}
    environment: Environment = {}
    same: dict[int, DenseArray] = {}  # two names of one tensor see each other's updates
    used = {n.name for n in walk(program) if isinstance(n, Variable)}
    for name in used & bindings.keys():
        value = bindings[name]
        if type_of_value(value) is not None:
            environment[name] = const(value, type_of_value(value))
        elif hasattr(value, "start") and hasattr(value, "stop"):
            environment[name] = (int(value.start), int(value.stop))
        elif (tensor := as_tensor(value)) is not None:
            if id(value) not in same:
                data = np.array(tensor.to_numpy(), order="F")
                element = type_of_dtype(data.dtype)
                assert element is not None
                same[id(value)] = DenseArray(data, element)
            arrays[name] = same[id(value)]
    return arrays, environment


def _updated(program: Node) -> set[str]:
    """The names of the tensors that are assigned to or declared in `program`."""
    targets = [n.target for n in walk(program) if isinstance(n, Assign)]
    declared = {n.tensor.name for n in walk(program) if isinstance(n, Declare)}
    return declared | {root.name for t in targets if isinstance(root := root(t), Variable)}


# -------------------------------------------------------------------------------- the semantics


class Denotation:
    """Programs as changes to `arrays`. `extents` and `sizes` hold the dimensions found so far, of
    loops and declarations, by the identity of the node."""

    def __init__(self, arrays: dict[str, DenseArray]):
        self.arrays = arrays
        self.extents: dict[int, tuple[int, int]] = {}
        self.sizes: dict[int, list[int]] = {}
        self.changing: set[str] = set()  # tensors whose contents must not be looked at now
        self.resizing: set[str] = set()  # tensors whose sizes must not be looked at now

    # ---------------------------------------------------------------- statements

    def run(self, node: Node, env: Environment, rest: tuple[Node, ...]) -> None:
        """Perform a statement; `rest` are the statements after it in its block."""
        match node:
            case Block(statements):
                for k, statement in enumerate(statements):
                    self.run(statement, env, statements[k + 1 :])
            case Loop(index, _, body):
                start, stop = self.extent_of(node, env)
                for i in range(start, stop + 1):
                    self.run(body, env | {index.name: const(i)}, ())
            case Define(variable, value, body):
                self.run(body, env | {variable.name: self.value(value, env)}, ())
            case Sieve(condition, body):
                if self.holds(condition, env):
                    self.run(body, env, ())
            case Declare(tensor, init):
                self.declare(node, env, rest)
            case Assign(target, op, value):
                self.assign(target, op, self.value(value, env), env)
            case Freeze() | Thaw() | Yield():
                pass
            case _:
                raise Bug(f"no statement: {node}")

    def holds(self, condition: Node, env: Environment) -> bool:
        value = self.value(condition, env)
        if value is MISSING:
            return False
        if not isinstance(value, Const) or value.type != Bool:
            raise FinchError("type", "a condition must be a Bool", condition.span)
        return value.value

    def declare(self, node: Declare, env: Environment, rest: tuple[Node, ...]) -> None:
        array = self.array(node.tensor)
        if array.data.ndim and id(node) not in self.sizes:
            self.learn(Block((node, *rest)), env)
            if id(node) not in self.sizes:
                message = f"the size of {node.tensor.name} is not known where it is declared"
                raise FinchError("dimension", message, node.span)
        init = self.value(node.init, env)
        if not isinstance(init, Const) or array.type.wrap(init.value) != init.value:
            what = f"{node.tensor.name} of {array.type} cannot be declared as this"
            raise FinchError("type", what, node.init.span)
        shape = self.sizes.get(id(node), [])
        array.data = np.full(shape, init.value, array.type.dtype, order="F")

    def assign(self, target: Access, op: Node, value: Any, env: Environment) -> None:
        """`target <<op>>= value`; of or at `missing`, nothing."""
        name, place = self.place(target, env)
        if not isinstance(name, Variable):
            raise FinchError("type", "a mask cannot be assigned to", target.span)
        array = self.array(name)
        if value is MISSING or place is None:
            return
        old = const(array.data[place].item(), array.type)
        new = self.apply(_operator(op), [old, value], target)
        if not can_store(new.type, array.type):
            message = f"{name.name} holds {array.type}, which cannot store {new.type}"
            raise FinchError("type", message, target.span)
        array.data[place] = cast(new, array.type).value  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- expressions

    def value(self, node: Node, env: Environment) -> Any:
        """The value of an expression: a Const, `missing` or `nothing`."""
        match node:
            case Literal(value):
                found = literal_type(node)
                return value if found is None else const(value, found)
            case Index(name) | Variable(name):
                if name not in env:
                    raise self.unknown(node)
                if env[name] is None:
                    raise Late
                return env[name]
            case Access():
                return self.read(node, env)
            case Call(Variable("size"), (Variable() as tensor, Literal(k))):
                return const(self.shape(tensor)[k - 1])
            case Call(op, args):
                return self.apply(_operator(op), [self.value(a, env) for a in args], node)
        raise FinchError("type", "this is no number", node.span)

    def apply(self, op: Operator, args: list[Any], node: Node) -> Any:
        """An operator on values; `missing` gives `missing`, but for coalesce and ifelse."""
        if op.name == "coalesce":
            return next((a for a in args if a is not MISSING), MISSING)
        if op.name == "ifelse" and len(args) == 3 and MISSING in args:
            return MISSING if args[0] is MISSING else args[1] if args[0].value else args[2]
        if MISSING in args:
            return MISSING
        if not all(isinstance(a, Const) for a in args):
            raise FinchError("type", f"{op.name} takes numbers", node.span)
        try:
            if op.associative and len(args) > op.arity[1]:
                return reduce(op.build, args)
            if not op.arity[0] <= len(args) <= op.arity[1]:
                raise FinchError("type", f"{op.name} does not take {len(args)} arguments")
            return op.build(*args)
        except FinchError as error:
            raise error.at(node.span) from None

    def read(self, access: Access, env: Environment) -> Any:
        root, place = self.place(access, env)
        if place is None:
            return MISSING
        if not isinstance(root, Variable):
            return const(MASKS[root.op.name.lower()](*place))
        if root.name in self.changing:
            raise Late
        array = self.array(root)
        return const(array.data[place].item(), array.type)

    def place(self, access: Access, env: Environment) -> tuple[Any, tuple[int, ...] | None]:
        """The tensor (its name, or a mask's call) and the 0-based place in it that is accessed; of
        a mask, 1-based. None for a place out of range that reads `missing`."""
        root, modes = modes(access)
        mask = isinstance(root, Call)
        shape = (None, None) if mask else self.shape(root)
        if len(modes) != len(shape):
            name = root.op.name if mask else root.name
            message = f"{name} has {len(shape)} dimensions, {len(modes)} indices given"
            raise FinchError("dimension", message, access.span)
        place: list[int] = []
        outside = False
        for (index, permissive), size in zip(modes, shape, strict=True):
            i = self.value(index, env)
            if i is MISSING:
                outside = True
                continue
            if not isinstance(i, Const) or not i.type.is_integer:
                raise FinchError("type", "an index must be an integer", index.span)
            if size is not None and not 1 <= i.value <= size:
                if not permissive:
                    message = f"index {i.value} is not in 1:{size} of {root.name}"
                    raise FinchError("bounds", message, index.span)
                outside = True
            place.append(i.value if mask else i.value - 1)
        return root, None if outside else tuple(place)

    def array(self, name: Variable) -> DenseArray:
        if name.name not in self.arrays:
            raise self.unknown(name)
        return self.arrays[name.name]

    def shape(self, name: Variable) -> tuple[int, ...]:
        if name.name in self.resizing:
            raise Late
        return self.array(name).data.shape

    def unknown(self, node: Index | Variable) -> FinchError:
        if node.name in self.arrays:
            hint = f"a tensor is read by {node.name}[...]"
            return FinchError("type", f"{node.name} is a tensor, not a number", node.span, hint)
        return FinchError("unknown name", f"{node.name} is not defined", node.span)

    # ---------------------------------------------------------------- dimensions (section 4)

    def extent_of(self, loop: Loop, env: Environment) -> tuple[int, int]:
        """The dimension of a loop's index."""
        if id(loop) in self.extents:
            return self.extents[id(loop)]
        found = self.learn(loop, env)
        if id(loop) not in found:
            message = f"nothing gives the index {loop.index.name} a dimension"
            hint = f"write `for {loop.index.name} = 1:n`"
            raise FinchError("dimension", message, loop.span, hint)
        return found[id(loop)]

    def learn(self, region: Node, env: Environment) -> dict[int, tuple[int, int]]:
        """Find the dimensions of loops and declarations in `region`, as seen from where it begins.

        What is the same whenever the region is run is kept.
        """
        updated = _updated(region)
        declared = {n.tensor.name for n in walk(region) if isinstance(n, Declare)}
        self.changing, self.resizing = updated, declared
        try:
            equations = Equations(self, region, env)
        finally:
            self.changing, self.resizing = set(), set()
        equations.solve()
        found = {k: (d.start, d.stop) for k, d in equations.loops.items() if d.is_known}
        if not isinstance(region, Loop):
            sizes = {
                key: [max(d.stop, 0) for d in dims]
                for key, dims in equations.declarations.items()
                if all(d.is_known for d in dims)
            }
            if not env.keys() & {n.name for n in walk(region) if isinstance(n, Index)}:
                self.extents |= found
            self.sizes |= sizes
        return found

    def extent(self, node: Node, env: Environment) -> tuple[int, int] | None:
        """The extent an expression stands for; None for `_`. Raises Late."""
        match node:
            case Dimensionless():
                return None
            case Extent(start, stop):
                return self.whole(start, env), self.whole(stop, env)
            case Call(Variable("meet"), args):
                parts = [self.extent(a, env) for a in args]
                known = [p for p in parts if p is not None]
                if any(p != known[0] for p in known):
                    both = " and ".join(f"{a}:{b}" for a, b in known)
                    raise FinchError("dimension", f"the extents {both} do not match", node.span)
                return known[0] if known else None
            case Call(Variable("size")):
                return 1, self.whole(node, env)
            case Variable(name) if isinstance(env.get(name), tuple):
                return env[name]
        raise FinchError("type", "the extent of an index is a range like 1:n", node.span)

    def whole(self, node: Node, env: Environment) -> int:
        value = self.value(node, env)
        if not isinstance(value, Const) or not value.type.is_integer:
            raise FinchError("type", "a bound of an extent must be an integer", node.span)
        return value.value


def _operator(node: Node) -> Operator:
    found = operator(node)
    if found is None:
        name = node.name if isinstance(node, Variable) else "this"
        raise FinchError("unknown name", f"{name} is not an operator", node.span)
    return found
