"""Metamorphic checks (TenSure, arXiv 2603.18372): a script is rewritten so that it must leave the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.operators.operator_table import OPERATORS
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.tensors.tensor import Tensor, body_of
from finchlang.testing.compare_engines import Way
from finchlang.testing.compare_stored import as_array, same
from finchlang.testing.grammar import LEVELS
from finchlang.testing.random_shapes import divisor
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: levels of one mode that take any entries
PLAIN = tuple(name for name, row in LEVELS.items() if row.takes == "any" and row.weight > 2)
#: reductions whose steps may be taken in any order
_FREE = ("+", "-", "*", "min", "max", "|", "&", "||", "&&", "xor")
Values = dict[str, Any]
#: makes another script with random choices, given the values that the original left; None if it cannot
Variant = Callable[[ast.Script, random.Random, Values], ast.Script | None]


def _in_programs(function: Callable[[Any], Any], script: ast.Node) -> Any:
    """A script with `function` applied to its einsums, and its kernels without annotations."""
    if type(script) is ast.KernelNode and type(script.program) is not ast.Annotated:
        return trees.replace(script, program=function(script.program))
    if type(script) is ast.Macro and script.name == "einsum":
        return function(script)
    return trees.map_children(lambda child: _in_programs(function, child), script)


def _written(node: ast.Node) -> set[str]:
    found: list[ast.Node] = [n.target for n in trees.find_all(node, ast.Assign)]
    found += [n.tensor for n in trees.find_all(node, ast.Declare)]
    return _names(*found)


def _names(*nodes: ast.Node) -> set[str]:
    return {n.name for node in nodes for n in trees.find_all(node, ast.Variable)}


def _in_nodes(change: Callable[[Any, Values], Any]) -> Variant:
    """A variant that changes nodes of programs, children before parents."""

    def variant(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
        def changed(program: Any) -> Any:
            return trees.rewrite_bottom_up(lambda node: change(node, values), program)

        return _in_programs(changed, script)

    return variant


def _permuted(node: Any, values: Values) -> Any:
    match node:
        case ast.Call(ast.Variable(name), (a, b)) if name in OPERATORS:
            return trees.replace(node, args=(b, a)) if OPERATORS[name].commutative else node
    return node


def _renamed(node: Any, values: Values) -> Any:
    return ast.Index(f"{node.name}q") if type(node) is ast.Index else node


def _reordered(node: Any, values: Values) -> Any:
    inner: Any = getattr(node, "body", None)
    if type(node) is not ast.Loop or type(inner) is not ast.Loop:
        return node
    within = list(trees.walk(node))
    assigns: list[Any] = [n for n in within if type(n) is ast.Assign]
    is_free = all(getattr(a.op, "name", "") in _FREE for a in assigns)
    is_free &= not trees.mentions(inner.extent, node.index)
    is_free &= not any(type(n) is ast.Declare for n in within)
    is_free &= not _names(*(a.value for a in assigns)) & _written(node)
    return trees.replace(inner, body=trees.replace(node, body=inner.body)) if is_free else node


def _doubled(node: Any, values: Values) -> Any:
    """A sum of Float64 in two halves, by which a factor is taken out."""
    match node:
        case ast.Assign(ast.Access(ast.Variable(name)), ast.Variable("+"), value):
            if getattr(as_array(values.get(name)), "dtype", "") == "float64":
                half = ast.Call(ast.Variable("*"), (ast.Literal(0.5), value))
                return trees.block(*[trees.replace(node, value=half)] * 2)
    return node


def _twice(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    def repeated(node: Any) -> tuple[Any, ...]:
        if type(node) is not ast.KernelNode or type(node.program) is ast.Annotated:
            return (node,)
        seen = list(trees.walk(node.program))
        names: list[Any] = [n for n in seen if type(n) in (ast.Declare, ast.Variable)]
        first = {getattr(n, "tensor", n).name: type(n) for n in reversed(names)}
        is_anew = all(first[name] is ast.Declare for name in _written(node))
        return (node, node) if is_anew else (node,)

    statements = tuple(s for n in script.statements for s in repeated(n))
    return trees.replace(script, statements=statements)


def _is_finite(values: Values) -> bool:
    arrays = [np.asarray(as_array(value)) for value in values.values()]
    return all(bool(np.isfinite(a).all()) for a in arrays if a.dtype.kind == "f")


def _format(rng: random.Random, value: Any, more: int = 0) -> str:
    text = str(body_of(value).format.leaf).replace("Pattern()", "Element(false)")
    for _ in range(len(value.shape) + more):
        text = f"{rng.choice(PLAIN)}({text})"
    return text


def _tensors(script: ast.Script, values: Values) -> dict[str, tuple[int, Any]]:
    """The tensors that are first made by `Tensor`, in formats that take any entries, the last one first,
    each with the number of statements up to there."""
    found = dict[str, Any]()
    for at, node in enumerate(script.statements, 1):
        match node:
            case ast.Let((ast.Variable(name), *_), _, ast.Call(ast.Variable("Tensor"))):
                value = values.get(name)
                if not isinstance(value, Tensor) or not value.shape:
                    continue
                levels = [type(level).__name__ for level in value.format.levels()][:-1]
                if all(n in LEVELS and LEVELS[n].takes in ("any", "runs") for n in levels):
                    found.setdefault(name, (at, value))
    return dict(reversed(found.items()))


def _with(script: ast.Script, at: int, text: str) -> ast.Script:
    rows, new = script.statements, parse_script(text).statements
    return trees.replace(script, statements=(*rows[:at], *new, *rows[at:]))


def _converted(
    script: ast.Script, rng: random.Random, values: Values, is_last: bool = True
) -> ast.Script:
    """Tensors in other formats from the beginning, or at the end of a script."""
    for name, (at, value) in _tensors(script, values).items():
        at = len(script.statements) if is_last else at
        script = _with(script, at, f"{name} = Tensor({_format(rng, value)}, {name})")
    return script


def _formats(script: ast.Script, rng: random.Random, values: Values) -> ast.Script | None:
    """Other formats for tensors. None where the result depends on formats: with `.= _`, annotations, and
    NaN or infinities, which only a zero that is stored makes NaN of."""
    inits = [n.init for n in trees.find_all(script, ast.Declare)]
    is_annotated = any(type(n) is ast.Annotated for n in trees.walk(script))
    is_kept = any(type(init) is ast.Dimensionless for init in inits) or not _is_finite(values)
    return None if is_annotated or is_kept else _converted(script, rng, values, is_last=False)


def _split(script: ast.Script, rng: random.Random, values: Values) -> ast.Script | None:
    """One mode of a tensor that is only read is split, and collapsed where it is read."""
    known, written = _tensors(script, values), _written(script)
    known = {n: k for n, k in known.items() if n not in written and len(k[1].shape) < 4}
    has_functions = any(type(n) is ast.Function for n in trees.walk(script))
    if not known or not _is_finite(values) or has_functions:
        return None
    name = rng.choice(sorted(known))
    at, value = known[name]
    k = rng.randrange(len(value.shape)) + 1
    fast = divisor(rng, value.shape[k - 1])
    whole = parse_script(f"collapse({name}_parts, {k}, {k + 1})").statements[0]

    def joined(node: Any) -> Any:
        is_read = type(node) is ast.Access and node.tensor == ast.Variable(name)
        return trees.replace(node, tensor=whole) if is_read else node

    def split(program: Any) -> Any:
        return program if type(program) is ast.Macro else trees.rewrite_bottom_up(joined, program)

    text = f"{name}_parts = Tensor({_format(rng, value, 1)}, split({name}, {k}, {fast}))"
    return _with(_in_programs(split, script), at, text)


VARIANTS: dict[str, Variant] = {
    "operands permuted": _in_nodes(_permuted), "indices renamed": _in_nodes(_renamed),
    "loops reordered": _in_nodes(_reordered), "a factor taken out": _in_nodes(_doubled),
    "called twice": _twice, "formats changed": _formats, "results into other formats": _converted,
    "a mode split": _split,
}  # fmt: skip


def differences(text: str, seed: int = 0, engine: str = "native") -> str:
    """The differences that a script shows when all variants are applied one after the other, in an order of
    the seed; "" if there are none. If the result is refused or differs, each variant is tried alone. Raises
    FinchError as the script does."""
    script, rng = parse_script(text), random.Random(seed)
    expected = _left(text, engine)

    def tried(*names: str) -> tuple[bool, str]:
        """Whether the script with these variants is refused, and what differs."""
        changed, made = script, list[str]()
        for name in names:
            other = VARIANTS[name](changed, rng, expected)
            if other is not None and other != changed:
                changed, made = other, [*made, name]
        shown = pretty(changed)
        try:
            found = _left(shown, engine) if made else expected
        except FinchError as error:
            if error.kind == "access order":  # it depends on loops and formats
                return True, ""
            return True, f"{engine}, {', '.join(made)}: {error}\n{shown}"
        wrong = [n for n, value in expected.items() if not same(value, found[n], 1e-9)]
        said = f"{engine}, {', '.join(made)}: {', '.join(wrong)} differs\n{text}\n{shown}"
        return False, said if wrong else ""

    names = rng.sample(list(VARIANTS), len(VARIANTS))
    is_refused, said = tried(*names)
    alone = [tried(name)[1] for name in names if is_refused or said]
    return "\n".join(filter(None, alone)) or said


def _left(text: str, engine: str) -> Values:
    session = Way(engine).session()
    session.run(text)
    return {n: session[n] for n in session.names() if as_array(session[n]) is not None}
