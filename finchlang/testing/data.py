"""`finch diff --cases`: a script with other data, as exact literals in its text, and in other formats; and
the user's own reference for its results (`--against`)."""

from __future__ import annotations

import random
import runpy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.levels.level import Level
from finchlang.python.session import Session
from finchlang.syntax import traversal as trees, types
from finchlang.syntax.nodes import Access, Assign, Extent, Let, Literal, Macro, Node, Variable
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.testing.compare_stored import as_array
from finchlang.testing.grammar import LEVELS
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

TENSORS = (Tensor, SwizzledTensor, Scalar, np.ndarray)
#: the most elements of a tensor, and about the most entries of a large one
PLACES, ENTRIES = 40_000, 300
SPECIAL = (float("inf"), float("-inf"), float("nan"), -0.0)
#: where entries are: anywhere, at one coordinate of a mode, up to an end, in a run, on a side of a diagonal
FORMS = ("some", "some", "one", "end", "run", "side")


@dataclass(frozen=True)
class DataCase:
    """A script with other data: its text, a description, and whether the denotation can be asked: it is
    slow, and for finite numbers only."""

    text: str
    what: str
    is_plain: bool = True


class Data:
    """The data that a script makes in its top-level statements: `tensors` by name, if they are made of no
    other tensor, and `numbers`. Kernels are not run. Raises FinchError for a script that is wrong."""

    def __init__(self, text: str, name: str = "<input>", args: Sequence[str] = ()):
        self.text, self.script = text, parse_script(text, name)
        self.tensors: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.spans: dict[str, Any] = {}
        session = Session("check", "all", lambda _: None, args)
        for statement in self.script.statements:
            others = {n for n in session.names() if isinstance(session[n], TENSORS)}
            session.execute(statement)
            if not isinstance(statement, Let):
                continue
            target: Any = statement.targets[0]
            if isinstance(target, Variable) and not statement.op and len(statement.targets) == 1:
                used = {n.name for n in trees.walk(statement.value) if isinstance(n, Variable)}
                value = session[target.name]
                if isinstance(value, TENSORS) and _is_numeric(value) and not used & others:
                    self.tensors[target.name], self.spans[target.name] = value, statement.span
                elif isinstance(value, (bool, int, float)):
                    self.numbers[target.name] = value

    def formats(self) -> Iterator[DataCase]:
        """The script with one tensor in another format: each of its levels replaced by each other one."""
        for name, value in self.tensors.items():
            for format in _formats(value):
                new = f"{self.spans[name].text}; {name} = Tensor({format}, {name})"
                yield DataCase(_edited(self.text, [(self.spans[name], new)]), f"{name} as {format}")

    def case(self, seed: int, is_any: bool = False, is_finite: bool = False) -> DataCase:
        """The script with the data of a seed; with `is_any` in random formats, with `is_finite` without NaN
        and infinities."""
        draw = _Draw(seed, is_finite)
        shapes = [tensor.shape for tensor in self.tensors.values()]
        sizes = draw.sizes({n for shape in shapes for n in shape})
        while any(prod(sizes[n] for n in shape) > PLACES for shape in shapes):
            largest = max(sizes.values())
            sizes = {n: size // 2 if size == largest else size for n, size in sizes.items()}
        edits, said = list[tuple[Any, str]](), []
        for name, value in self.tensors.items():
            shape = tuple(sizes[n] for n in value.shape)
            fit = [*_formats(value)] if is_any and draw.chance(0.5) else []
            format = draw.random.choice(fit) if fit else ""
            edits.append((self.spans[name], draw.tensor(name, value, shape, format)))
            said.append(f"{name} {' x '.join(map(str, shape))}{format and f' as {format}'}")
        edits += _assertions(self.script)
        for node in self.script.statements:
            edits += [(size.span, str(sizes[size.value])) for size in _sizes(node, sizes)]
        is_plain = not draw.is_special and max([1, *sizes.values()]) < 100
        return DataCase(_edited(self.text, edits), f"seed {seed}: {', '.join(said)}", is_plain)


def _is_numeric(value: Any) -> bool:
    level = value.format.level if isinstance(value, SwizzledTensor) else _level(value)
    return bool(level.element_type.name != "Pair" and level.element_type.dtype.names is None)


def _level(value: Any) -> Any:
    return Tensor.from_numpy(value).format if isinstance(value, np.ndarray) else value.format


def _sizes(statement: Node, sizes: dict[int, int]) -> Iterator[Any]:
    """The literals that are sizes: values bound to names, and ends of loops."""
    ends = [n.stop for n in trees.walk(statement) if isinstance(n, Extent)]
    for node in [statement.value, *ends] if isinstance(statement, Let) else ends:
        if isinstance(node, Literal) and type(node.value) is int and node.value in sizes:
            yield node


def _edited(text: str, edits: Sequence[tuple[Any, str]]) -> str:
    """A text with some spans, which do not overlap, replaced."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for span, new in sorted(edits, key=lambda e: (e[0].line, e[0].column), reverse=True):
        start, stop = starts[span.line - 1] + span.column, starts[span.end_line - 1]
        text = text[: start - 1] + new + text[stop + span.end_column - 1 :]
    return text


def _formats(value: Any) -> Iterator[str]:
    """The formats that differ from a tensor's in one level, and that the session accepts."""
    stack = list(_level(value.body if isinstance(value, SwizzledTensor) else value).levels())
    sizes = ", 1" * sum(level.modes for level in stack)
    for k, own in enumerate(stack[:-1]):
        for name, row in LEVELS.items():
            if name == type(own).__name__ or row.modes not in (0, own.modes):
                continue
            heads = [str(a).removesuffix(f"({b})") for a, b in zip(stack, stack[1:], strict=False)]
            heads[k] = name if row.modes else f"{name}{{{own.modes}}}"
            format = "(".join([*heads, str(stack[-1])]) + ")" * len(heads)
            try:
                Session("check").run(f"Tensor({format}{sizes})")
            except FinchError:
                continue  # it is no format
            yield format


class _Draw:
    def __init__(self, seed: int, is_finite: bool):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.keeps_fills = not is_finite and self.chance(0.5)
        self.is_finite, self.is_special = is_finite or self.chance(0.7), False
        self.extreme = 0.15 if self.chance(0.3) else 0.0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def sizes(self, old: set[int]) -> dict[int, int]:
        """New sizes for old ones. Equal sizes stay equal, and often all change by the same amount."""
        if self.chance(0.3):
            by = self.random.choice((-2, -1, 1, 2, 5))
            return {n: max(0, n + by) for n in old}
        new = {n: self.random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8)) for n in sorted(old)}
        if old and self.chance(0.2):
            new[self.random.choice(sorted(old))] = self.random.choice((200, 200, 500, 4000))
        return new

    def number(self, type: types.Type) -> str:
        if type.name == "Bool":
            return "true" if self.chance(0.7) else "false"
        value: Any = self.random.randint(0 if type.name[0] == "U" else -3, 4)
        if type.is_float:
            value = float(value)
            if not self.is_finite and self.chance(0.2):
                value, self.is_special = self.random.choice(SPECIAL), True
        elif self.chance(self.extreme):
            value = self.random.choice((type.highest, max(type.lowest, -type.highest)))
        return _typed(value, type)

    def tensor(self, name: str, old: Any, shape: tuple[int, ...], format: str) -> str:
        """Statements that bind a name to a tensor with other entries; empty, if the format takes none of 20
        attempts."""
        if isinstance(old, Scalar):
            return f"{name} = {str(old.format)[:-1]}, {self.number(old.format.element_type)})"
        order = old.permutation if isinstance(old, SwizzledTensor) else ()
        level = _level(old.body if order else old)
        shape = tuple(shape[p - 1] for p in order) or shape
        own = "" if isinstance(old, np.ndarray) and 0 not in shape else str(level)
        for _ in range(20):
            mask = self.mask(shape)
            made = self.literal(level, format or own, mask)
            text = f"{name} = " + (f"swizzle({made}, {str(order)[1:-1]})" if order else made)
            if own and not order and self.keeps_fills and mask.any() and mask.size <= 64:
                new = self.literal(level, "", mask & (self.numbers.random(mask.shape) < 0.7))
                text += _stored(name, level, mask, new)
            try:
                Session("interpret", "all", lambda _: None).run(text)
            except FinchError:
                continue
            return text
        return f"{name} = Tensor({format or level}{''.join(f', {n}' for n in shape)})"

    def mask(self, shape: tuple[int, ...]) -> np.ndarray:
        """Where a tensor has entries: nowhere, everywhere, or in one of FORMS."""
        found = self.numbers.random(shape) < self.random.choice((0.0, 0.2, 0.5, 0.8, 1.1))
        form, k = self.random.choice(FORMS), self.random.randrange(len(shape))
        if found.size > ENTRIES and form in ("some", "side"):
            found &= self.numbers.random(shape) < ENTRIES / found.size
        if not found.size or form == "some":
            return found
        at = np.indices(shape)
        if form == "side":
            return found & (at[k] <= at[self.random.randrange(len(shape))])
        first, last = sorted(self.random.randint(0, shape[k]) for _ in "ab")
        last = first + 1 if form == "one" else last
        return (at[k] < last) & ((at[k] >= first) | (form == "end"))

    def literal(self, level: Level, format: str, mask: np.ndarray) -> str:
        """An expression for a tensor with entries where the mask says; without a format for an array."""
        type, shape = level.element_type, ", ".join(map(str, mask.shape))
        alike = self.number(type) if self.chance(0.2) else ""
        if format and not mask.any():
            return f"Tensor({format}, {shape})"
        if format and not level.fill.value and (mask.size > 100 or self.chance(0.5)):
            rows = [(*at, alike or self.number(type)) for at in (np.argwhere(mask) + 1).tolist()]
            if self.chance(0.3):  # in any order, with some twice
                rows += [(*row[:-1], _typed(type.wrap(0), type)) for row in rows[:2]]
                self.random.shuffle(rows)
            lists = ", ".join(f"[{', '.join(map(str, c))}]" for c in zip(*rows, strict=True))
            return f"Tensor({format}, fsparse({lists}, ({shape},)))"
        fill = _typed(level.fill.value, type)
        values = [(alike or self.number(type)) if m else fill for m in mask.ravel("F").tolist()]
        return f"Tensor({format}, {_array(values, shape)})" if format else _array(values, shape)


def _stored(name: str, level: Level, kept: np.ndarray, values: str) -> str:
    """A kernel that writes values where `kept` says, fills among them, which are then stored."""
    mask = _array([str(m).lower() for m in kept.ravel("F").tolist()], str(kept.shape)[1:-1])
    order = "lkji"[-kept.ndim :]
    at, loops = f"[{', '.join(order[::-1])}]", ", ".join(f"{i} = _" for i in order)
    fill = _typed(level.fill.value, level.element_type)
    body = f"if {name}_at{at}; {name}{at} = {name}_of{at} end"
    lines = f"{name}_at = {mask}", f"{name}_of = {values}", "@finch begin", f"{name} .= {fill}"
    return "\n".join(["", *lines, f"for {loops}", body, "end", "end"])


def statements_of(name: str, value: Any) -> str:
    """Statements that bind a name to a tensor like `value`, with its stored fills if a script can write
    them."""
    if isinstance(value, Scalar):
        return (
            f"{name} = {str(value.format)[:-1]}, {_typed(value.value, value.format.element_type)})"
        )
    is_turned = isinstance(value, SwizzledTensor)
    body = value.body if is_turned else value
    level, array, kept = body.format, body.to_numpy(), np.zeros(body.shape, bool)
    kept[tuple(body.entries()[0])] = True
    entries = [_typed(v, level.element_type) for v in array.ravel("F").tolist()]
    values, sizes = _array(entries, str(array.shape)[1:-1]), ", ".join(map(str, array.shape))
    empty = f"{name} = Tensor({level}, {sizes})"
    made = [f"{name} = Tensor({level}, {values})", empty + _stored(name, level, kept, values)]
    has_fills = bool((array[kept] == level.fill.value).any())
    for text in made[:: -1 if has_fills else 1] if array.size else ():
        session = Session("interpret", "all", lambda _: None)
        try:
            session.run(text)
        except FinchError:
            continue
        turned = f"\n{name} = swizzle({name}, {str(value.permutation)[1:-1]})" if is_turned else ""
        return text + turned
    return empty


def with_values(text: str, span: Any, values: dict[str, Any]) -> str:
    """A script that binds names to these values before the statement at `span`, without its assertions,
    which are about other data. "" if there is no such place."""
    if span is None:
        return ""
    made = [
        statements_of(n, x) if isinstance(x, TENSORS) else f"{n} = {pretty(Literal(x)).strip()}"
        for n, x in values.items()
    ]
    return _edited(text, [(span, "\n".join([*made, span.text])), *_assertions(parse_script(text))])


def _assertions(script: Any) -> list[tuple[Any, str]]:
    """Edits that take the assertions out."""
    macros = (node for node in script.statements if isinstance(node, Macro))
    return [(node.span, "nothing") for node in macros if node.name == "assert"]


def _typed(value: Any, type: types.Type) -> str:
    is_usual = type.name in ("Bool", "Int64", "Float64")
    return pretty(Literal(value, type=None if is_usual else type.name)).strip()


def _array(values: Sequence[str], shape: str) -> str:
    row = f"[{', '.join(values)}]"
    return f"reshape({row}, {shape})" if "," in shape.strip(",") else row


def reference(function: str, text: str, name: str, args: Sequence[str] = ()) -> dict[str, Any]:
    """The results of the user's own function, written `FILE.py:NAME`, for the data of a script, by name. It
    is called with the tensors and numbers that its parameters name, as NumPy arrays and numbers. A single
    array is the result for the only tensor that the script's kernels write. Raises FinchError of kind type
    if the function cannot be called, or fails."""
    path, _, own = function.rpartition(":")
    try:
        called, data = runpy.run_path(path)[own], Data(text, name, args)
        given = data.numbers | {n: plain(value) for n, value in data.tensors.items()}
        names = signature(called).parameters
        is_any = any(p.kind is p.VAR_KEYWORD for p in names.values())
        found = called(**{n: value for n, value in given.items() if is_any or n in names})
    except Exception as error:
        raise FinchError("type", f"{function}: {type(error).__name__}: {error}") from None
    if isinstance(found, dict):
        return found
    targets = (n.target for n in trees.walk(data.script) if isinstance(n, Assign))
    written = {
        t.tensor for t in targets if isinstance(t, Access) and isinstance(t.tensor, Variable)
    }
    if len(written) != 1:
        message = f"{function} gives one array, and kernels write {len(written)} tensors"
        raise FinchError("type", message, hint="give a dict of arrays by name")
    return {written.pop().name: found}


def plain(value: Any) -> Any:
    """A value of a script as a number or as a NumPy array of its own."""
    array = None if isinstance(value, Scalar) else as_array(value)
    return getattr(value, "value", value) if array is None else array.copy()
