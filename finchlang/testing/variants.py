"""Metamorphic checks (TenSure, arXiv 2603.18372): a script is rewritten so that it must leave the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.operators.operator_table import OPERATORS
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import (
    block,
    map_children,
    mentions,
    replace,
    rewrite_bottom_up,
    walk,
)
from finchlang.testing.compare_engines import Way
from finchlang.testing.compare_stored import as_array, same
from finchlang.testing.grammar import LEVELS
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
    """A script with `function` applied to the programs of its kernels without annotations, and to
    einsums."""
    if type(script) is ast.KernelNode and type(script.program) is not ast.Annotated:
        return replace(script, program=function(script.program))
    if type(script) is ast.Macro and script.name == "einsum":
        return function(script)
    return map_children(lambda child: _in_programs(function, child), script)


def _written(node: ast.Node) -> set[str]:
    """The names of tensors that may be written."""
    found: list[ast.Node] = [n.target for n in walk(node) if type(n) is ast.Assign]
    found += [n.tensor for n in walk(node) if type(n) is ast.Declare]
    return {n.name for target in found for n in walk(target) if type(n) is ast.Variable}


def _permuted(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    def swapped(node: Any) -> Any:
        if type(node) is ast.Access:
            return node
        node = map_children(swapped, node)
        row = OPERATORS.get(getattr(getattr(node, "op", None), "name", ""))
        is_pair = type(node) is ast.Call and len(node.args) == 2
        return replace(node, args=node.args[::-1]) if is_pair and row and row.commutative else node

    return _in_programs(swapped, script)


def _renamed(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    def renamed(node: Any) -> Any:
        return ast.Index(f"{node.name}q") if type(node) is ast.Index else node

    return _in_programs(lambda program: rewrite_bottom_up(renamed, program), script)


def _reordered(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    def is_free(loop: ast.Loop, inner: ast.Loop) -> bool:
        if any(type(n) is ast.Declare for n in walk(loop)) or mentions(inner.extent, loop.index):
            return False
        targets = [n for n in walk(loop) if type(n) is ast.Assign]
        reads = {n.name for a in targets for n in walk(a.value) if type(n) is ast.Variable}
        return not reads & _written(loop) and all(
            getattr(a.op, "name", "") in _FREE for a in targets
        )

    def exchanged(node: Any) -> Any:
        if type(node) is ast.Loop and type(node.body) is ast.Loop and is_free(node, node.body):
            return replace(node.body, body=replace(node, body=node.body.body))
        return node

    return _in_programs(lambda program: rewrite_bottom_up(exchanged, program), script)


def _doubled(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    """Sums of Float64 in two halves each, by which a factor is taken out."""

    def halved(node: Any) -> Any:
        if type(node) is ast.Assign and node.op == ast.Variable("+"):
            name = getattr(node.target.tensor, "name", "")
            if getattr(as_array(values.get(name)), "dtype", "") == "float64":
                half = ast.Call(ast.Variable("*"), (ast.Literal(0.5), node.value))
                return block(replace(node, value=half), replace(node, value=half))
        return node

    return _in_programs(lambda program: rewrite_bottom_up(halved, program), script)


def _twice(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    """Kernels that declare all that they write are run twice."""

    def repeated(node: Any) -> tuple[Any, ...]:
        if type(node) is not ast.KernelNode or type(node.program) is ast.Annotated:
            return (node,)
        seen = list(walk(node.program))
        names: list[Any] = [n for n in seen if type(n) in (ast.Declare, ast.Variable)]
        first = {getattr(n, "tensor", n).name: type(n) for n in reversed(names)}
        is_anew = all(first[name] is ast.Declare for name in _written(node))
        return (node, node) if is_anew else (node,)

    return replace(script, statements=tuple(s for n in script.statements for s in repeated(n)))


def _parsed(text: str) -> Any:
    """The first statement of a text; it may be an expression."""
    return parse_script(text).statements[0]


def _format(rng: random.Random, order: int, leaf: ast.Node) -> str:
    text = pretty(leaf).replace("Pattern()", "Element(false)")
    for _ in range(order):
        text = f"{rng.choice(PLAIN)}({text})"
    return text


def _tensors(script: ast.Script, values: Values) -> dict[str, tuple[ast.Let, ast.Node, int]]:
    """The tensors that are first made by `Tensor`, in formats that take any entries: the statement, the
    leaf, and the order."""
    found = dict[str, Any]()
    lets: list[Any] = [node for node in script.statements if type(node) is ast.Let]
    for node in lets:
        if type(node.value) is ast.Call and node.value.op == ast.Variable("Tensor"):
            levels, leaf = [], node.value.args[0]
            while type(leaf) is ast.Call and leaf.args and leaf.op != ast.Variable("Element"):
                levels.append(getattr(leaf.op, "name", ""))
                leaf = leaf.args[0]
            shape = getattr(as_array(values.get(node.targets[0].name)), "shape", ())
            if shape and all(n in LEVELS and LEVELS[n].takes in ("any", "runs") for n in levels):
                found.setdefault(node.targets[0].name, (node, leaf, len(shape)))
    return found


def _formats(script: ast.Script, rng: random.Random, values: Values) -> ast.Script | None:
    """Other formats for tensors. None where the result depends on formats: with `.= _` and annotations."""
    nodes = list(walk(script))
    is_found = any(type(n) is ast.Declare and type(n.init) is ast.Dimensionless for n in nodes)
    if is_found or any(type(n) is ast.Annotated for n in nodes):
        return None
    known = {id(node): (leaf, order) for node, leaf, order in _tensors(script, values).values()}

    def changed(node: Any) -> Any:
        if id(node) not in known:
            return node
        leaf, order = known[id(node)]
        made = (_parsed(_format(rng, order, leaf)), *node.value.args[1:])
        return replace(node, value=replace(node.value, args=made))

    return replace(script, statements=tuple(map(changed, script.statements)))


def _converted(script: ast.Script, rng: random.Random, values: Values) -> ast.Script:
    more = [
        _parsed(f"{name} = Tensor({_format(rng, order, leaf)}, {name})")
        for name, (_, leaf, order) in _tensors(script, values).items()
    ]
    return replace(script, statements=(*script.statements, *more))


def _split(script: ast.Script, rng: random.Random, values: Values) -> ast.Script | None:
    """One mode of a tensor that is only read is split, and collapsed where it is read."""
    written, known = _written(script), _tensors(script, values)
    known = {n: k for n, k in known.items() if n not in written and k[2] < 4}
    if not known or any(type(n) is ast.Function for n in walk(script)):
        return None
    name = rng.choice(sorted(known))
    at, leaf, order = known[name]
    k = rng.randrange(order) + 1
    size = values[name].shape[k - 1]
    fast = rng.choice([n for n in range(1, size + 1) if size % n == 0] or [1])
    format = _format(rng, order + 1, leaf)
    made = _parsed(f"{name}_parts = Tensor({format}, split({name}, {k}, {fast}))")
    whole = _parsed(f"collapse({name}_parts, {k}, {k + 1})")

    def joined(node: Any) -> Any:
        is_read = type(node) is ast.Access and node.tensor == ast.Variable(name)
        return replace(node, tensor=whole) if is_read else node

    def split(program: Any) -> Any:
        return program if type(program) is ast.Macro else rewrite_bottom_up(joined, program)

    found = _in_programs(split, script)
    where = script.statements.index(at) + 1
    return replace(found, statements=(*found.statements[:where], made, *found.statements[where:]))


VARIANTS: dict[str, Variant] = {
    "operands permuted": _permuted, "indices renamed": _renamed, "loops reordered": _reordered,
    "a factor taken out": _doubled, "called twice": _twice, "formats changed": _formats,
    "results into other formats": _converted, "a mode split": _split,
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
