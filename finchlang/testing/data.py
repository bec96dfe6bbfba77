"""`finch diff --cases`: a script with other data, as exact literals in its text, and in other formats; and
the user's own reference for its results (`--against`)."""

from __future__ import annotations

import runpy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cache
from inspect import signature
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError, did_you_mean
from finchlang.base.records import record
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.levels.element import differs
from finchlang.levels.level import Level, level_of
from finchlang.python.session import Session
from finchlang.syntax import traversal as trees
from finchlang.syntax.nodes import Assign, Extent, Let, Literal, Macro, Node, Variable
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor, body_of
from finchlang.testing.compare_stored import as_array
from finchlang.testing.generate import DrawnTensor, Maker, array, typed
from finchlang.testing.grammar import LEVELS
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

TENSORS = (Tensor, SwizzledTensor, Scalar, np.ndarray)
#: the most elements of a tensor
PLACES = 40_000


@record
class DataCase:
    """A script with other data, what these are, whether they are small enough for the denotation, and the
    seed that gave them other sizes."""

    text: str
    what: str
    is_small: bool = True
    seed: int | None = None


class Data:
    """The data that a script makes in its top-level statements: `tensors` by name, if they are made of no
    other tensor. Kernels are not run, so that a statement may fail that reads a result.
    Raises FinchError for a script that cannot be parsed."""

    def __init__(self, text: str, name: str = "<input>", args: Sequence[str] = ()):
        self.text, self.script = text, parse_script(text, name)
        self.tensors: dict[str, Any] = {}
        self.spans: dict[str, Any] = {}
        session = Session("check", "all", lambda _: None, args)
        for statement in self.script.statements:
            others = {n for n in session.names() if isinstance(session[n], TENSORS)}
            try:
                session.execute(statement)
            except FinchError:
                continue
            match statement:
                case Let((Variable(name),), None, made):
                    used = {n.name for n in trees.find_all(made, Variable)}
                    value = session[name]
                    is_own = isinstance(value, TENSORS) and not used & others
                    if is_own and _level(value).element_type.dtype.names is None:  # no pairs
                        self.tensors[name], self.spans[name] = value, statement.span

    def formats(self) -> Iterator[DataCase]:
        """The script with one tensor in another format: each of its levels replaced by each other one."""
        for name, value in self.tensors.items():
            for format in map(str, _others(_level(value))):
                new = f"{self.spans[name].text}; {name} = Tensor({format}, {name})"
                yield DataCase(_edited(self.text, [(self.spans[name], new)]), f"{name} as {format}")

    def case(
        self, seed: int, is_any: bool = False, is_finite: bool = False, keeps_sizes: bool = False
    ) -> DataCase:
        """The script with the data of a seed; with `is_any` in random formats, with `is_finite` without NaN
        and infinities, with `keeps_sizes` of the sizes that they have."""
        draw = _Draw(seed, is_finite)
        shapes = [tensor.shape for tensor in self.tensors.values()]
        old = {n for shape in shapes for n in shape}
        sizes = {n: n for n in old} if keeps_sizes else draw.new_sizes(old)
        while any(prod(sizes[n] for n in shape) > PLACES for shape in shapes):
            largest = max(sizes.values())
            sizes = {n: size // 2 if size == largest else size for n, size in sizes.items()}
        edits, said = list[tuple[Any, str]](), []
        for name, value in self.tensors.items():
            shape = tuple(sizes[n] for n in value.shape)
            fit = _others(_level(value)) if is_any and draw.chance(0.5) else []
            format = draw.random.choice(fit) if fit else None
            edits.append((self.spans[name], draw.tensor(name, value, shape, format)))
            said.append(f"{name} {' x '.join(map(str, shape))}{f' as {format}' if format else ''}")
        edits += _assertions(self.script)
        for node in self.script.statements:
            edits += [(size.span, str(sizes[size.value])) for size in _sizes(node, sizes)]
        is_small = max([1, *sizes.values()]) < 100
        what = f"seed {seed}: {', '.join(said)}"
        return DataCase(_edited(self.text, edits), what, is_small, None if keeps_sizes else seed)


def _level(value: Any) -> Any:
    return level_of((Tensor.from_numpy(value) if isinstance(value, np.ndarray) else value).format)


def _sizes(statement: Node, sizes: dict[int, int]) -> Iterator[Any]:
    """The literals that are sizes: values bound to names, and ends of loops."""
    ends = [n.stop for n in trees.find_all(statement, Extent)]
    for node in [statement.value, *ends] if isinstance(statement, Let) else ends:
        if isinstance(node, Literal) and type(node.value) is int and node.value in sizes:
            yield node


def _edited(text: str, edits: Sequence[tuple[Any, str]]) -> str:
    parts, at = list[str](), 0
    for (start, stop), new in sorted((span.offsets, new) for span, new in edits):
        if start >= at:  # and not within what another edit replaces
            parts += text[at:start], new
            at = stop
    return "".join([*parts, text[at:]])


@cache
def _others(format: Level) -> list[Level]:
    """The formats that differ from a tensor's in one level, and that the session accepts."""
    stack, found = list(format.levels()), list[Level]()
    sizes = ", 1" * sum(level.modes for level in stack)
    for k, own in enumerate(stack[:-1]):
        for name, row in LEVELS.items():
            if name == type(own).__name__ or row.modes not in (0, own.modes):
                continue
            heads = [str(a).removesuffix(f"({b})") for a, b in zip(stack, stack[1:], strict=False)]
            heads[k] = name if row.modes else f"{name}{{{own.modes}}}"
            text, session = "(".join([*heads, str(stack[-1])]) + ")" * len(heads), Session("check")
            with suppress(FinchError):  # it may be no format
                session.run(f"made = Tensor({text}{sizes})")
                found.append(session["made"].format)
    return found


class _Draw(Maker):
    """Draws other data. With `keeps_fills` fills are stored, too."""

    def __init__(self, seed: int, is_finite: bool):
        super().__init__(seed)
        self.keeps_fills = not is_finite and self.chance(0.5)
        self.special = 0.2 if not is_finite and self.chance(0.3) else 0.0
        self.extreme = 0.15 if self.chance(0.3) else 0.0

    def new_sizes(self, old: set[int]) -> dict[int, int]:
        """New sizes for old ones. Equal sizes stay equal, and often all change by the same amount."""
        if self.chance(0.3):
            by = self.random.choice((-2, -1, 1, 2, 5))
            return {n: max(0, n + by) for n in old}
        new = {n: self.random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8)) for n in sorted(old)}
        if old and self.chance(0.2):
            new[self.random.choice(sorted(old))] = self.random.choice((200, 200, 500, 4000))
        return new

    def tensor(self, name: str, old: Any, shape: tuple[int, ...], format: Level | None) -> str:
        """Statements that bind a name to a tensor with other entries; empty, if the format takes none of
        some attempts."""
        own = _level(old)
        element = own.element_type.name
        if isinstance(old, Scalar):
            return f"{name} = {str(old.format)[:-1]}, {self.value(element)})"
        order = old.permutation if isinstance(old, SwizzledTensor) else ()
        shape, level = tuple(shape[p - 1] for p in order) or shape, format or own
        levels = tuple((type(each).__name__, each.modes) for each in [*level.levels()][:-1])
        drawn = DrawnTensor(name, (), element, typed(level.fill.value, element), levels)
        is_array = isinstance(old, np.ndarray) and not format and 0 not in shape

        def attempts() -> Iterator[str]:
            for _ in range(3 if all(n in LEVELS for n, _ in levels) else 0):
                if self.keeps_fills and not is_array and 0 < prod(shape) <= 64:
                    found = self.entries(levels, shape, element)
                    some = {at: drawn.fill for at in found if self.chance(0.3)}
                    yield _stored(name, level, shape, found | some)
                yield f"{name} = {self.literal_of(drawn, shape, '' if is_array else str(level))}"
            yield _stored(name, level, shape, {})

        return _first_that_runs(attempts()) + _turned(name, old)


def _first_that_runs(texts: Iterable[str]) -> str:
    text = ""
    for text in texts:
        with suppress(FinchError):
            Session("interpret", "all", lambda _: None).run(text)
            break
    return text


def _turned(name: str, value: Any) -> str:
    order = getattr(value, "permutation", ())
    return f"\n{name} = swizzle({name}, {str(order)[1:-1]})" if order else ""


def _stored(name: str, level: Level, shape: tuple[int, ...], found: Mapping[Any, str]) -> str:
    """Statements that make a tensor and write these values, fills among them, which are then stored."""
    empty = f"{name} = Tensor({level}{''.join(f', {n}' for n in shape)})"
    if not found:
        return empty
    fill, order = typed(level.fill.value, level.element_type.name), "lkji"[-len(shape) :]
    mask = array(dict.fromkeys(found, "true"), "false", shape)
    at, loops = f"[{', '.join(order[::-1])}]", ", ".join(f"{i} = _" for i in order)
    body = f"if {name}_at{at}; {name}{at} = {name}_of{at} end"
    lines = empty, f"{name}_at = {mask}", f"{name}_of = {array(found, fill, shape)}"
    return "\n".join(
        [*lines, "@finch begin", f"{name} .= {fill}", f"for {loops}", body, "end", "end"]
    )


def statements_of(name: str, value: Any) -> str:
    """Statements that make a tensor like `value`, with its stored fills if a script can write them."""
    if isinstance(value, Scalar):
        return f"{name} = {str(value.format)[:-1]}, {typed(value.value, value.format.element_type.name)})"
    body: Any = body_of(value)
    level, dense, type = body.format, body.to_numpy(), body.format.element_type.name
    every = {at: typed(own.item(), type) for at, own in np.ndenumerate(dense)}
    kept = {at: every[at] for at in zip(*body.entries()[0].tolist(), strict=True)}
    made = [f"{name} = Tensor({level}, {array(every, '', body.shape)})"] if every else []
    made.append(_stored(name, level, body.shape, kept))
    has_fills = any(dense[at] == level.fill.value for at in kept)
    made.append(_stored(name, level, body.shape, {}))
    return _first_that_runs(made[-2::-1] if has_fills else made) + _turned(name, value)


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
    macros = (node for node in script.statements if isinstance(node, Macro))
    return [(node.span, "nothing") for node in macros if node.name == "assert"]


class Inputs(Observer):
    """The tensors that kernels use, as the first kernel finds each. A tensor that is empty then is taken
    as the first kernel finds it that reads it alone: kernels before that make the data."""

    def __init__(self) -> None:
        self.kernels: list[set[int]] = []  # of each the tensors that it writes, by identity
        self._found: dict[int, tuple[Any, Any, int]] = {}  # also itself, and how many make it
        self._empty: set[int] = set()

    def kernel(self, event: KernelEvent) -> None:
        assert event.meaning is not None
        values, kernel = event.meaning()[1], event.compiled
        names = list(kernel.signature.tensors.values())
        changed = [names[at] for at in kernel.written]
        written = {id(body_of(values[n])) for n in changed if n in values}
        for own in (body_of(v) for v in values.values() if isinstance(v, TENSORS)):
            key = id(own)
            is_made = key in self._empty and key not in written
            if is_made or key not in self._found:
                made = [k + 1 for k, before in enumerate(self.kernels) if key in before]
                self._found[key] = own, deepcopy(own), max(made, default=0)
                is_empty = not isinstance(own, Scalar) and not np.any(differs(*_entries(own)))
                (self._empty.add if is_empty and not is_made else self._empty.discard)(key)
        self.kernels.append(written)

    def of(self, value: Any) -> tuple[Any, int]:
        """A value as kernels find it, and how many kernels have run by then to make it."""
        own, found, made = self._found.get(id(body_of(value)), (value, value, 0))
        is_turned = isinstance(value, SwizzledTensor) and found is not value
        return SwizzledTensor(found, value.permutation) if is_turned else found, made


def _entries(value: Any) -> tuple[np.ndarray, Any]:
    return (value, 0) if isinstance(value, np.ndarray) else (value.entries()[1], value.fill)


class Reference:
    """The user's own function, written `FILE.py:NAME`, on the data of a script. `call` gives it the
    tensors and numbers that its parameters name, as NumPy arrays and numbers. The script is run, since its
    kernels may make these: the first `made` of them do. `written` are the names that the others write.
    Raises FinchError of kind type if it cannot be called, or fails."""

    def __init__(self, function: str, text: str, name: str, args: Sequence[str] = ()):
        path, _, called = function.rpartition(":")
        self.function, inputs = function, Inputs()
        if not path:
            message = f"`--against {function}` names no function"
            raise FinchError(
                "type", message, hint=f"write `{function}:NAME`, a function of that file"
            )
        if not Path(path).is_file():
            raise FinchError("I/O", f"cannot read {path}: there is no such file")
        with _told(function):
            found = runpy.run_path(path)
        if not callable(found.get(called)):
            known = [n for n, f in found.items() if callable(f) and n[0] != "_"]
            hint = did_you_mean(called, known) or f"its functions are {', '.join(known) or 'none'}"
            raise FinchError("unknown name", f"{path} has no function `{called}`", hint=hint)
        with _told(function):
            self._called = found[called]
            names = signature(self._called).parameters
        script = parse_script(text, name)
        session = Session("native", "all", lambda _: None, args, inputs)
        session.execute(script)
        values = {n: session[n] for n in session.names()}
        is_any = any(p.kind is p.VAR_KEYWORD for p in names.values())
        kinds = (*TENSORS, bool, int, float)
        given = {n: v for n, v in values.items() if (is_any or n in names) and isinstance(v, kinds)}
        found = {n: inputs.of(value) for n, value in given.items()}
        self._given = {n: plain(value) for n, (value, _) in found.items()}
        self.made = 0 if is_any else max([made for _, made in found.values()], default=0)
        kernels = inputs.kernels[: self.made], inputs.kernels[self.made :]
        makes, rest = (set[int]().union(*some) for some in kernels)
        own = {n: id(body_of(value)) for n, value in values.items() if isinstance(value, TENSORS)}
        targets = (n.target.tensor for n in trees.find_all(script, Assign))
        named = {t.name for t in targets if isinstance(t, Variable) and t.name in own}
        written = {n for n in named if own[n] not in makes - rest}
        self.written = written or {n for n in own if own[n] in rest}

    def call(self) -> Any:
        with _told(self.function):
            return self._called(**self._given)


@contextmanager
def _told(function: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise FinchError("type", f"{function}: {type(error).__name__}: {error}") from None


def reference(
    function: str, text: str, name: str, args: Sequence[str] = ()
) -> tuple[dict[str, Any], set[str]]:
    """The results of the user's own function (`Reference`) by name, and the names that the script's kernels
    write. A single array is the result for the only tensor that they write."""
    own = Reference(function, text, name, args)
    found, written = own.call(), own.written
    if isinstance(found, dict):
        return found, written
    if len(written) != 1:
        message = f"{function} gives one array, and kernels write {len(written)} tensors"
        raise FinchError("type", message, hint="give a dict of arrays by name")
    return dict.fromkeys(written, found), written


def plain(value: Any) -> Any:
    """A value of a script as a number or as a NumPy array of its own."""
    array = None if isinstance(value, Scalar) else as_array(value)
    return getattr(value, "value", value) if array is None else array.copy()
