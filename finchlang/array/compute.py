"""Computing expressions: their program is found by their structure and formats, or made, and run like
any other kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from finchlang.algebra import costs
from finchlang.array.expression import Array, Expression, Leaf, plain
from finchlang.array.logical.stats import entries_of
from finchlang.array.operands import as_expression
from finchlang.array.to_program import Lowering, Program
from finchlang.base.errors import FinchError
from finchlang.base.locks import keep
from finchlang.calls.runner import OWN
from finchlang.levels.element import Element, typed_literal
from finchlang.levels.level import Swizzled, level_of
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.syntax import nodes as ast, traversal as trees, types
from finchlang.tensors.adopt import as_tensor
from finchlang.tensors.formats import Format
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of, swizzled, tensor_over
from finchlang.text.print import pretty

#: results whose arrays have at most this many entries get preallocated arrays the next time
SPARE = 4096

#: at most this many programs are cached; the oldest goes first
PROGRAMS = 1024

#: a dense result of sparse operands may have SMALL bytes, or TIMES the bytes of its operands. The plan's
#: limits, in places, are within these: numbers have 8 bytes, positions with their values 4 or more
SMALL, TIMES = 8 * costs.FEW_PLACES, 2 * costs.TIMES

#: runs a kernel, given the values of its names
RunKernel = Callable[[ast.KernelNode, dict[str, Any]], Any]

_programs: dict[Any, Program] = {}
_kernels: dict[ast.KernelNode, ast.KernelNode] = {}


class _Nodes:
    """The distinct nodes of some expressions, arguments first. `numbers` maps a node to its place in
    `nodes`, the same for equal nodes; `key` is all that a program depends on, and names no operand."""

    def __init__(self, roots: tuple[Expression, ...]):
        self.nodes: list[Expression] = []
        self.key: list[Any] = []
        self.numbers: dict[Expression, int] = {}
        self.entries: dict[Any, int] = {}
        self.is_empty = False
        self.roots = tuple(map(self.add, roots))
        self.key.append((self.roots, self.is_empty))

    def add(self, node: Expression) -> int:
        """The number of a node, after those of its arguments; new if there is no equal one. Raises
        ValueError if an operand has changed its shape or type since the expression was made."""
        number = self.numbers.get(node)
        if number is not None:
            return number
        part = node.static
        if isinstance(node, Leaf):
            operand, kind = node.value, node.value.dtype.type
            if operand.shape != node.shape or not (
                kind is node.kind or np.dtype(kind) == node.values.type.dtype
            ):
                was = f"an operand was an array of {node.values.type.dtype} {node.shape}"
                now = f"is one of {operand.dtype} {operand.shape} now"
                raise ValueError(f"{was} when it was used, and {now}")
            entry: Any = part, id(operand)
            self.is_empty = self.is_empty or 0 in node.shape
        else:
            part = part, tuple([self.add(arg) for arg in node.args])
            entry = part, node.identity
        number = self.entries.get(entry)
        if number is None:
            number = self.entries[entry] = len(self.nodes)
            self.nodes.append(node)
            self.key.append(part)
        self.numbers[node] = number
        return number


def _magnitudes(nodes: list[Expression]) -> list[int]:
    """Sizes, and numbers of entries of operands, rounded to powers of 2, where plans are made again: index
    types hold all numbers below one. And which arrays are joined at the same places."""
    found = [size.bit_length() for node in nodes for size in node.shape]
    counts = [int(entries_of(node.value)) for node in nodes if isinstance(node, Leaf)]
    joined = [node.numbers for node in nodes if node.joined is not None]
    return found + [count.bit_length() for count in counts] + list(map(joined.index, joined))


def _program(
    roots: tuple[Expression, ...],
    found: _Nodes,
    is_dense: bool = False,
    outs: Any = None,
    reorder: str = "exact",
    is_wide: bool = False,
) -> Program:
    """The program for expressions, from the cache or new, with results in the formats of `outs`. If its
    plan `is_counted` it has a second key with the magnitudes of the operands."""
    if reorder not in ("exact", "any", "none"):
        raise ValueError(f"`reorder` is 'exact', 'any' or 'none', not {reorder!r}")
    stored = [None if out is None else as_expression(out).static for out in outs or ()]
    usual: tuple[Any, ...] = (is_dense, is_wide, reorder, tuple(stored), *found.key)
    program = _programs.get(usual)
    if program is not None and program.is_counted:
        program = _programs.get((*usual, *_magnitudes(found.nodes)))
    if program is None:
        magnitudes = _magnitudes(found.nodes)
        how = "none" if found.is_empty else reorder
        given = [s and s.format for s in stored] or [None] * len(roots)
        program = Lowering(found, is_dense, how, is_wide).program(roots, given)
        if not program.can_change_fills:
            graph = _Nodes(roots)  # without the nodes that the first one made
            program = Lowering(graph, is_dense, how, is_wide, False).program(roots, given)
        trees.check_depth(program.kernel)
        # other counts often give an equal kernel: the same object, so that it is not compiled again
        steps = [(_kernels.setdefault(kernel, kernel), names) for kernel, names in program.steps]
        program = replace(program, steps=tuple(steps))
        if program.is_counted:
            keep(_programs, (*usual, *magnitudes), program, PROGRAMS)
        keep(_programs, usual, program, PROGRAMS)
        for kernel, _ in steps:
            keep(_kernels, kernel, kernel, PROGRAMS)
    return program


def _bound(program: Program, nodes: list[Expression]) -> dict[str, Any]:
    values: dict[str, Any] = {name: nodes[n].value for n, name in program.operands.items()}  # type: ignore
    for (n, k), name in program.numbers.items():
        values[name] = nodes[n].numbers[k]
    for (n, k), name in program.sizes.items():
        values[name] = nodes[n].shape[k]
    for name, format in program.tensors:
        shape = tuple([nodes[n].shape[k] for n, k in program.shapes.get(name, ())])
        values[name] = new_tensor(format, program.rooms.get(name), shape)
    return values


# by the id of a level, which is kept with its memory so that the id is not used again
_empty: dict[int, tuple[Any, Memory]] = {}


def new_tensor(format: Format, rooms: list[int] | None = None, shape: tuple[int, ...] = ()) -> Any:
    """An empty tensor for a kernel to write, with a back buffer of `rooms` entries for each array; of a
    `shape` if the kernel does not give it one."""
    if isinstance(format, ScalarLevel):
        return Scalar(format)
    level = level_of(format)
    if shape:
        return swizzled(Tensor(level, *_as_stored(format, shape)), format)
    known = _empty.get(id(level)) or _empty.setdefault(id(level), (level, Tensor(level).memory))
    memory = known[1]
    # empty arrays can be shared, since nothing is written to them
    arrays = [array.copy() if array.size else array for array in memory.arrays]
    own = Memory(memory.shape, arrays, memory.counters)
    tensor = Tensor.over(level, own, True)
    if rooms is not None:
        pairs = zip(rooms, own.arrays, strict=True)
        spare = [np.empty(room, array.dtype) for room, array in pairs]
        tensor.back_buffer = Memory(own.shape, spare, own.counters)
    return swizzled(tensor, format)


def _remember(program: Program, values: dict[str, Any]) -> None:
    """Note how many entries the arrays of small tensors have, for `new_tensor` the next time: making NumPy
    arrays takes less time than making arrays of memory that a kernel has allocated."""
    for name, _ in program.tensors:
        tensor = values[name]
        sizes = [] if type(tensor) is Scalar else [a.size for a in body_of(tensor).memory.arrays]
        program.rooms[name] = sizes if max(sizes, default=SPARE + 1) <= SPARE else None


def compute(*arrays: Any, out: Any = None, reorder: str = "exact") -> Any:
    """The arrays as tensors, computed by one kernel, which shares their common subexpressions: a Tensor or
    a SwizzledTensor, a Scalar for an array without dimensions; a tuple if there are several arrays.
    `out` is a tensor or NumPy array for the result, or a tuple with one for each array, any of which may
    be None. `reorder` says how much products and sums may be reordered: "exact" as long as rounding errors
    stay of the same size, "any" also where differences of great numbers may cancel, "none" not at all.
    Raises TypeError if an output cannot hold the type or the fill of its result, or if a result
    is dense and much larger than its sparse operands; ValueError for an output of another shape, or if an
    operand has changed its shape or type, or for another `reorder`."""
    roots = tuple([as_expression(array) for array in arrays])
    outs = (out,) if out is not None and not isinstance(out, (tuple, list)) else out
    results = computed(roots, outs=outs, reorder=reorder)
    return results[0] if len(results) == 1 else tuple(results)


def computed(
    roots: tuple[Expression, ...],
    is_dense: bool = False,
    outs: Any = None,
    run_kernel: RunKernel = OWN.run_kernel,
    reorder: str = "exact",
) -> list[Any]:
    """The values of expressions, written to `outs` as in `compute`; with `is_dense`, in dense formats."""
    how = is_dense, outs, run_kernel, reorder
    try:
        return _computed(roots, *how)
    except RecursionError:
        with trees.EnoughFrames():
            return _computed(roots, *how)
    except FinchError as error:
        if error.kind != "resource":
            raise
        return _computed(roots, *how, is_wide=True)  # more entries than narrow indices can count


def _computed(
    roots: tuple[Expression, ...],
    is_dense: bool,
    outs: Any,
    run_kernel: RunKernel,
    reorder: str,
    is_wide: bool = False,
) -> list[Any]:
    if outs is not None:
        _check_outputs(roots, outs)
    found = _Nodes(roots)
    if outs is not None and _must_copy(found, outs):
        pairs = zip(computed(roots, run_kernel=run_kernel, reorder=reorder), outs, strict=True)
        return [r if out is None else compute(r, out=out) for r, out in pairs]
    program = _program(roots, found, is_dense, outs, reorder, is_wide)
    if outs is None and not is_dense:
        _check_density(program, found.nodes)
    values = _bound(program, found.nodes)
    if outs is not None:
        pairs = zip(program.results, outs, strict=True)
        values |= {name: out for name, out in pairs if out is not None}
    for kernel, names in program.steps:
        own = {name: values[one] for name, one in names.items()} if names else values
        run_kernel(kernel, own)
        if names:
            values |= {one: own[name] for name, one in names.items()}
    if outs is None:
        _remember(program, values)
    return [_with_fill(values[name], program.fills.get(name)) for name in program.results]


def _with_fill(found: Any, fill: ast.Literal | None) -> Any:
    """A result with this fill in place of the one with which it was computed."""
    if fill is None:
        return found
    body = body_of(found)
    level = body.format.with_leaf(Element(fill))
    own = found.format
    format = Swizzled(level, own.permutation) if isinstance(own, Swizzled) else level
    return tensor_over(format, body.memory, True)


def _must_copy(found: _Nodes, outs: Any) -> bool:
    """Whether an output is read too, or two are of one node: computed elsewhere first, then copied."""
    leaves = [node.value for node in found.nodes if isinstance(node, Leaf)]
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    bodies = {id(body_of(leaf)) for leaf in leaves}
    own = [out for out in outs if isinstance(out, np.ndarray)]
    is_shared = any(np.shares_memory(out, array) for out in own for array in arrays)
    is_read = is_shared or any(id(body_of(out)) in bodies for out in outs)
    return is_read or len(set(found.roots)) < len(found.roots)


def _check_outputs(roots: tuple[Expression, ...], outs: Any) -> None:
    """Raises ValueError for another number of outputs, or one of another shape than its result, TypeError
    for one that is no tensor or array, or that cannot hold the type or the fill."""
    if len(outs) != len(roots):
        raise ValueError(f"{len(outs)} outputs are given for {len(roots)} results")
    for root, out in zip(roots, outs, strict=True):
        if out is None:
            continue
        is_array = isinstance(out, (Tensor, SwizzledTensor, np.ndarray)) and out.ndim
        if not is_array and not isinstance(out, Scalar):
            what = "a tensor or an array of at least one dimension"
            raise TypeError(f"`out` is {what}, not {out!r}")
        if out.shape != root.shape:
            raise ValueError(f"`out` has the shape {out.shape}, the result {root.shape}")
        stored, values = as_expression(out).values, root.values
        if not types.can_store(values.type, stored.type):
            what = f"a result of {values.type.dtype}"
            raise TypeError(f"`out` of {stored.type.dtype} cannot take {what}")
        was, wanted = stored.fill.value, typed_literal(values.fill.value, stored.type).value
        if stored.is_fill and was != wanted and (was == was or wanted == wanted):  # NaN is NaN
            raise TypeError(f"`out` has the fill {was}, and cannot take a result of fill {wanted}")


def _check_density(program: Program, nodes: list[Expression]) -> None:
    for number in program.dense_of_sparse:
        node = nodes[number]
        size = math.prod(node.shape) * node.values.type.bits // 8
        given: list[Any] = [nodes[n] for n in program.operands]
        if size > SMALL and size > TIMES * sum(bytes_of(leaf.value) for leaf in given):
            what = f"the result is dense, of {size} bytes, and much larger than its operands"
            raise TypeError(f"{what}: `todense()` makes it")


def bytes_of(value: Any) -> int:
    """The bytes of an operand; of a SciPy matrix of any format, of its entries and places."""
    found = getattr(value, "nbytes", None)
    return value.nnz * (value.dtype.itemsize + 8) if found is None else found


def todense(x: Any) -> np.ndarray:
    """`x` as a dense NumPy array, however large. A NumPy array is returned itself."""
    node = as_expression(x)
    if type(node) is Leaf and not isinstance(x, Array):
        tensor = None if isinstance(x, np.ndarray) else as_tensor(x)
        return x if tensor is None else tensor.to_numpy()
    (result,) = computed((node,), is_dense=True)
    return result.to_numpy()


def is_much_smaller(x: Any) -> bool:
    """Whether a value with a shape is stored in much less memory than a dense array of it takes."""
    return math.prod(x.shape) * x.dtype.itemsize > max(SMALL, TIMES * bytes_of(x))


def dense_array(x: Any) -> np.ndarray:
    """As `todense`, but raises TypeError if the dense array is much larger than the memory of `x`."""
    if not hasattr(x, "shape"):
        return np.asarray(x)
    if isinstance(x, Array):
        x = compute(x)
    if not isinstance(x, Scalar) and is_much_smaller(x):
        told = f"a dense array of this has {math.prod(x.shape) * x.dtype.itemsize} bytes"
        raise TypeError(f"{told}: `todense()` makes one, `tocsr()` or `tocoo()` a SciPy array")
    return todense(x)


# ------------------------------------------------------------------------------------------ plan


def plan(*arrays: Any, reorder: str = "exact") -> str:
    """The program of these arrays as a script for `finch run`, printed too: its operands have formats and
    sizes but no entries; comments give the divisions into nests and the orders of loops that were weighed,
    with their costs. `reorder` is as for `compute`."""
    roots = tuple([as_expression(array) for array in arrays])
    found = _Nodes(roots)
    program = _program(roots, found, reorder=reorder)
    lines, formats = list[str](), dict(program.tensors)
    for name, value in _bound(program, found.nodes).items():
        if (kind := types.type_of_value(value)) is not None:
            made = pretty(plain(typed_literal(value, kind)))
        else:
            made = _made(formats.get(name) or as_expression(value).static.format, value.shape)
        lines.append(f"{name} = {made}")
    lines += [f"# {text}" for _, text in program.kernel.decisions]
    fills = {name: pretty(plain(fill)) for name, fill in program.fills.items()}
    lines += [f"# {name} is computed with this fill, and then has {f}" for name, f in fills.items()]
    lines += [pretty(program.kernel), *(f"println({name})" for name in program.results)]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    return text


def _made(format: Format, shape: tuple[int, ...]) -> str:
    """The expression that makes a tensor of this format in a script."""
    if isinstance(format, ScalarLevel):
        return str(format)
    if isinstance(format, Swizzled):
        own = _made(format.level, _as_stored(format, shape))
        return f"swizzle({own}, {', '.join(map(str, format.permutation))})"
    return f"Tensor({', '.join([str(format), *map(str, shape if any(shape) else ())])})"


def _as_stored(format: Format, shape: tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(format, Swizzled):
        return shape
    return tuple([shape[mode - 1] for mode in format.permutation])
