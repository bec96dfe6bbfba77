"""The denotation of a program: modes and types that it asks for are settled (Finch'25 sections 4 and 5.5),
its types are checked, with unknown values, and it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.denote.bindings import ScriptFunction, bind
from finchlang.denote.check_lifecycle import check_life_cycle
from finchlang.denote.denotation import Denotation, updated
from finchlang.denote.extents import Environment
from finchlang.denote.references import Named
from finchlang.denote.shape_arithmetic import tensors_of
from finchlang.denote.typed_values import Failed
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import type_of_value
from finchlang.syntax.user_function import Operation

_COALESCE = ast.Variable("coalesce")


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
        made = (semantics or Denotation)(arrays, functions or {})
        try:
            made.dimensions = made.solve(program, environment)
            made.dimensions.check_all_known()
        except FinchError as error:
            if error.kind == "dimension":  # types, which depend on no value, are told before
                check_types(made, program, environment)
            raise
        check_types(made, program, environment)
        made.run(program, environment, ())
    except FinchError as error:
        if error.kind not in ("unknown name", "type"):
            check_life_cycle(program)  # before the others: it depends on no value
        raise
    check_life_cycle(program)
    if declared is not None:
        declared |= made.declared
    results = {name: arrays[name].data for name in sorted(updated(program))}
    if stored is not None:
        stored |= {name: arrays[name].stored for name in results}
    return {name: data if data.ndim else data.item() for name, data in results.items()}


def settled(program: ast.Node, bindings: Mapping[str, Any]) -> ast.Node:
    """`program` with the modes that it asks for as numbers, and typed names checked and made plain. Raises
    FinchError of kind type for a name whose value is of another type."""
    kinds = {type(n) for n in trees.walk(program)}
    if kinds.isdisjoint((ast.Mode, ast.Typed)):
        return program
    asked = check_life_cycle(program) if ast.Mode in kinds else {}
    own = {n.variable.name for n in trees.find_all(program, ast.Define)}

    def settle(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Variable) and node.name in ast.MODES:
            is_bound = node.name in own or node.name in bindings
            return node if is_bound else _number(node.name)
        if isinstance(node, ast.Mode):
            if type_of_value(bindings.get(node.tensor.name)) is not None:
                raise FinchError("type", f"{node.tensor.name} is a number, no tensor", node.span)
            return _number(asked[id(node)])
        if isinstance(node, ast.Typed):
            found = type_of_value(bindings.get(node.name.name))
            if found is None or found.name != node.kind:
                raise FinchError("type", f"{node.name.name} is no {node.kind}", node.span)
            return node.name
        return trees.map_children(settle, node)

    return settle(program)


def _number(mode: str) -> ast.Literal:
    return ast.Literal(ast.MODES.index(mode), "UInt8")


def _unknown(dtype: Any) -> Failed:
    return Failed(FinchError("type", "this is not known"), np.zeros((), dtype)[()])


def check_types(semantics: Denotation, program: ast.Node, env: Environment) -> None:
    """Raises FinchError of kind type for what no value could make right: an operator that does not take its
    operands, a condition that is no Bool, a value that a tensor cannot store. Each operand of
    `coalesce` may be its value."""
    calls = [n for n in trees.find_all(program, ast.Call) if n.op == _COALESCE]
    for k in range(max((len(n.args) for n in calls), default=1)):
        UnknownValues(semantics, k).statement(program, env)


class UnknownValues(Denotation):
    kth: int  # which operand of `coalesce` is its value

    def __init__(self, given: Denotation, kth: int):
        # no function is called: what the program never comes to need not return
        self.__dict__ |= given.__dict__ | {"kth": kth, "unwrapped": {}, "is_idle": True}

    def statement(self, node: ast.Node, env: Environment) -> None:
        """Check a statement; errors of other kinds are told where the program comes to them."""
        try:
            self.visit(node, env)
        except FinchError as error:
            if error.kind == "type":
                raise

    def visit(self, node: ast.Node, env: Environment) -> None:
        match node:
            case ast.Block(statements):
                for each in statements:
                    self.statement(each, env)
            case ast.Loop(index, _, body):
                self.statement(body, env | {index.name: _unknown(np.int64)})
            case ast.Define(variable, value, body):
                is_extent = isinstance(value, ast.Extent) or ast.is_meet(value)
                bound = (1, 1) if is_extent else self.bound(value, env)
                self.statement(body, env | {variable.name: bound})
            case ast.Sieve(condition, body):
                value = self.value(condition, env)
                if isinstance(value, Failed) and value.value.dtype.kind != "b":
                    raise FinchError("type", "a condition must be a Bool", condition.span)
                self.statement(body, env)
            case ast.Assign(target, op, value):
                new = self.value(value, env)
                for name in tensors_of(target.tensor) if new is not ast.MISSING else ():
                    type = self.array(name).type
                    self.stored(self.after(op, _unknown(type.dtype), new, target), target, type)

    def value(self, node: ast.Node, env: Environment) -> Any:
        if isinstance(node, ast.Call) and node.op == ast.Variable("size"):
            return _unknown(np.int64)
        return super().value(node, env)

    def apply(self, op: ast.Node, args: list[Any], node: ast.Node) -> Any:
        if op == _COALESCE and args:
            return args[min(self.kth, len(args) - 1)]
        return super().apply(op, args, node)

    def read(self, access: ast.Access, env: Environment) -> Any:
        root, modes = self.within_wrappers(access)
        for mode in modes:
            self.value(mode.index, env)
        return _unknown(self.dtype(root, env))

    def dtype(self, tensor: Any, env: Environment) -> np.dtype:
        named = env.get(getattr(tensor, "name", ""))
        if not isinstance(named, Named):
            return super().dtype(tensor, env)
        indices = {index.name: _unknown(np.int64) for index in named.formula.indices}
        return self.value(named.formula.value, named.env | indices).value.dtype
