"""Exhaustive tests in a small scope: each kernel of a script on every pattern of its operands up to a size
in each mode, with symbols for Float64 values (`symbols.py`), both values of Bool, and natively with
numbers.

A place of an operand is empty, stored, or stores the fill; in a format that merges equal neighbours it may
also be equal to its neighbour. Modes with the same index have the same size. Values of other types are
numbers. Of the cases that comparisons of symbols lead to, those are run in which one of POINTS choices of
values lies. The interpreter derives what it does once for all patterns.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.calls.arguments import describe
from finchlang.calls.kernel import SpecializedKernel
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.denote.bindings import DenseArray, dense
from finchlang.denote.denote import denote
from finchlang.host.listing import text as printed
from finchlang.levels.level import Level, Swizzled
from finchlang.levels.scalars import Scalar as ScalarLevel
from finchlang.python.session import Session
from finchlang.syntax.nodes import Access, Call, Extent, Index, Node, Variable
from finchlang.syntax.traversal import walk
from finchlang.syntax.types import Bool, Float64, Int64, Type
from finchlang.tensors.memory import Memory
from finchlang.tensors.tensor import Scalar, Tensor, body_of, swizzled, tensor_over
from finchlang.testing import symbols
from finchlang.testing.compare_engines import LET_THROUGH, Way, ways_of
from finchlang.testing.data import with_values
from finchlang.testing.looking import Looking

EMPTY, STORED, FILL, SAME = "empty", "stored", "fill", "same"
PRIMES = [n for n in range(2, 1500) if all(n % k for k in range(2, math.isqrt(n) + 1))]
PROTOCOLS = [Variable(name) for name in ("walk", "gallop", "follow", "extrude", "laminate")]
#: how many choices of values for symbols there are, and up to how many cases of a pattern are run
POINTS, CASES = 40, 64
#: how many operands and results are kept for other patterns
KEPT = 5000


@dataclass
class Covered:
    """What was run of a kernel: how many `patterns` of how many, in how many `cases`. `whole` is the size
    up to which there was time for all patterns without stored fills, `values` names the operands with
    symbols. `wrong` are differences, each with its operands; `text` is a script that shows the first one
    with numbers, in `ways`. `unproven` counts values that are different terms, but equal wherever they were
    tried. `numbers` says why there were no symbols, if there were none."""

    kernel: str
    patterns: int = 0
    of: int = 0
    cases: int = 0
    refused: int = 0
    unproven: int = 0
    whole: int = -1
    values: str = ""
    numbers: str = ""
    wrong: list[str] = field(default_factory=list)
    text: str = ""
    ways: tuple[Way, ...] = ()

    def __str__(self) -> str:
        share = f"{self.patterns} of {self.of} patterns"
        if self.patterns < self.of:
            share += f", of empty and stored all up to size {self.whole}" if self.whole >= 0 else ""
        how = f"numbers only ({self.numbers})" if self.numbers else f"all values of {self.values}"
        said = f"{self.kernel}: {share}, {self.cases} cases, {self.refused} refused alike, {how}"
        said += f", {self.unproven} not shown equal" if self.unproven else ""
        return "\n".join([said, *self.wrong[:3]])

    @property
    def json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "ways"}


@record
class Operand:
    """A tensor that a kernel takes. Modes with the same key in `modes` have the same size; `first` is the
    number of its first value, and values are symbols if it `is_free`."""

    name: str
    format: Any
    modes: tuple[Any, ...]
    is_renewed: bool
    first: int
    is_free: bool

    @property
    def level(self) -> Level:
        return self.format.level if isinstance(self.format, Swizzled) else self.format

    def states(self, with_fill: bool) -> tuple[str, ...]:
        levels = [level for level in self.level.levels() if not level.is_leaf]
        if self.is_renewed:
            return (EMPTY,)
        has_gaps = any(x.has_gaps or x.merges for x in levels)
        found: tuple[str, ...] = (STORED, EMPTY) if has_gaps else (STORED,)
        if any(level.merges for level in levels):
            found += (SAME,)
        is_bool = self.level.element_type is Bool  # of which the fill is the other value
        is_scalar = isinstance(self.level, ScalarLevel)
        is_pattern = is_bool and not is_scalar and "val" not in dict(self.level.leaf.arrays)
        has_fills = with_fill and (len(found) > 1 or is_bool) and not is_pattern
        return (*found, FILL) if has_fills else found

    def body_shape(self, sizes: dict[Any, int]) -> tuple[int, ...]:
        shape = tuple(sizes[mode] for mode in self.modes)
        is_turned = isinstance(self.format, Swizzled)
        return tuple(shape[p - 1] for p in self.format.permutation) if is_turned else shape

    def value(self, k: int) -> Any:
        type, level = self.level.element_type, self.level
        if type is Bool:
            return not level.fill.value
        if type.is_float or self.is_free:
            number = PRIMES[self.first + k] * (-1) ** (k % 2)
            return float(number) if type.is_float else number
        return type.wrap(1 + k % 3) if type.is_integer else type.wrap((PRIMES[k], 1 + k % 3))

    def tensor(self, shape: tuple[int, ...], states: Sequence[str], is_symbolic: bool) -> Any:
        """The operand with these states of its places. Raises FinchError if it cannot store them."""
        if isinstance(self.level, ScalarLevel):
            is_fill = self.is_renewed or FILL in states
            value = self.level.fill.value if is_fill else self.value(0)
            return Scalar(self.format, self.boxed(value) if is_symbolic else value)
        cells, kept = list(np.ndindex(shape)), [k for k, s in enumerate(states) if s != EMPTY]
        values: list[Any] = []
        for k, state in enumerate(states):
            fresh = self.level.fill.value if state == FILL else self.value(k)
            values.append(values[-1] if state == SAME and values else fresh)
        coords = np.array([cells[k] for k in kept], np.int64).reshape(-1, len(shape)).T
        numbers = np.array([values[k] for k in kept], self.level.element_type.dtype)
        body = Tensor.from_coo(self.level, shape, list(coords), numbers)
        if is_symbolic and self.is_free:
            body = symbols.with_values(body, self.boxed)
        return swizzled(body, self.format)

    def boxed(self, value: Any) -> Any:
        if not self.is_free or value == self.level.fill.value or not value:
            return value
        term = symbols.atom("symbol", f"{self.name}_{value:g}", value)
        return symbols.boxed(term, self.level.element_type is Int64)


class Small:
    """A kernel on all small operands, with each set of rules; all engines run by the first set."""

    def __init__(self, event: KernelEvent, text: str = "", rules: Sequence[str] = ("all", "paper")):
        assert event.meaning is not None
        kernel, self.text = event.compiled, text
        self.node, self.bound, self.functions = event.meaning()
        self.numbers: tuple[Any, ...] = ()
        self.kernels = {
            which: SpecializedKernel(kernel.source, kernel.formats, which) for which in rules
        }
        self.formats, self.kernel = kernel.formats, self.kernels[rules[0]]
        line = self.node.span.line if self.node.span else 1
        self.covered = Covered(f"kernel at line {line}")
        self.operands = self._operands(kernel, self.node.program)
        read = [o for o in self.operands if not o.is_renewed]
        every = [o.name for o in read if o.is_free or o.level.element_type is Bool]
        self.is_symbolic, self.covered.values = any(o.is_free for o in read), ", ".join(every)
        if not every:
            self.covered.numbers = "no operand holds Float64, or Int64 that is no index, or Bool"
        self.keys = sorted({m for o in self.operands for m in o.modes}, key=str)
        self.is_interpreted = True
        self.made: dict[tuple[Any, ...], Any] = {}
        self.arrays: dict[str, DenseArray] = {}
        self.interpreter: symbols.SymbolicInterpreter | None = None
        self.denotation = symbols.symbolic_denotation(lambda: self.path)

    def _operands(self, kernel: SpecializedKernel, program: Node) -> list[Operand]:
        named: dict[tuple[str, int], Any] = {}
        same: dict[Any, Any] = {}

        def root(x: Any) -> Any:
            while x in same:
                x = same[x]
            return x

        symbolic = {Float64, Int64}
        for access in walk(program):
            if isinstance(access, Extent) and any(isinstance(n, Access) for n in walk(access)):
                symbolic.discard(Int64)
            if isinstance(access, Access) and isinstance(access.tensor, Variable):
                for k, index in enumerate(access.indices):
                    if isinstance(index, Call) and len(index.args) == 1:  # by a protocol
                        index = index.args[0] if index.op in PROTOCOLS else index
                    if not isinstance(index, Index):  # it may use Int64 entries
                        symbolic.discard(Int64)
                        continue
                    key = named.setdefault((access.tensor.name, k), index.name)
                    if root(key) != root(index.name):
                        same[root(key)] = root(index.name)
        found: list[Operand] = []
        for name, bound in zip(kernel.tensors, kernel.bounds, strict=False):
            modes = [(name, k) for k in range(bound.level.order)]
            keys = tuple(root(named[m]) if m in named else f"{m[0]}.{m[1] + 1}" for m in modes)
            is_renewed = bound.name in kernel.signature.renewed
            own = name, self.formats[name], keys, is_renewed, 27 * (len(found) % 8)
            found.append(Operand(*own, bound.level.element_type in symbolic))
        return found

    def distinct(self) -> tuple[str, ...]:
        """The sets of rules with another residual than the first one's. Of equal residuals one is run."""
        texts = {which: printed(kernel.staged.residual) for which, kernel in self.kernels.items()}
        first = next(iter(texts.values()))
        kept = {text: which for which, text in reversed(texts.items())}
        self.kernels = {which: self.kernels[which] for which in reversed(kept.values())}
        return tuple(which for which, text in texts.items() if text != first)

    # ------------------------------------------------------------------------------------ patterns

    def sizes(self, largest: int) -> Iterator[tuple[dict[Any, int], tuple[Any, ...]]]:
        """Sizes of modes, with values of the numbers that the kernel takes, the smallest sizes first."""
        types: list[Type] = [self.formats[n] for n in self.kernel.numbers]  # type: ignore[misc]
        whole = range(largest + 1)
        choices = [[False, True] if t is Bool else [2.5] if t.is_float else whole for t in types]
        every = itertools.product(range(largest + 1), repeat=len(self.keys))
        for each in sorted(every, key=lambda s: (max(s, default=0), sum(s))):
            for numbers in itertools.product(*choices):
                yield dict(zip(self.keys, each, strict=True)), numbers

    def run(self, largest: int, seconds: float, seed: int = 0, interpreted: int = 1) -> Covered:
        """Run patterns up to a size in a random order; the interpreter runs one in `interpreted`."""
        end, draw, found = time.process_time() + seconds, random.Random(seed), self.covered
        found.whole = largest
        for with_fill in (False, True):
            for sizes, numbers in self.sizes(largest):
                states = [o.states(with_fill) for o in self.operands]
                cells = [math.prod(o.body_shape(sizes)) for o in self.operands]
                places = [s for s, n in zip(states, cells, strict=True) for _ in range(n)]
                total = math.prod(map(len, places))
                plain = math.prod(len([s for s in each if s != FILL]) for each in places)
                wanted = total - plain if with_fill else total
                found.of += wanted
                is_run, done = bool(wanted) and time.process_time() <= end, 0
                for k, rest in enumerate(_shuffled(total, draw) if is_run else ()):
                    chosen = []
                    for each in places:
                        rest, at = divmod(rest, len(each))
                        chosen.append(each[at])
                    if time.process_time() > end:
                        break
                    if with_fill and FILL not in chosen:
                        continue
                    self.is_interpreted, self.numbers = k % interpreted == 0, numbers
                    self.pattern(sizes, cells, chosen)
                    done += 1
                found.patterns += done
                if done < wanted and not with_fill:
                    found.whole = min(found.whole, max(sizes.values(), default=largest) - 1)
        return found

    def pattern(self, sizes: dict[Any, int], cells: list[int], states: list[str]) -> None:
        def tensors(is_symbolic: bool) -> dict[str, Any] | None:
            own = iter(states)
            made = {}
            for operand, count in zip(self.operands, cells, strict=True):
                chosen = tuple(itertools.islice(own, count))
                key = operand.name, operand.body_shape(sizes), chosen, is_symbolic
                if key not in self.made:
                    try:
                        tensor = operand.tensor(*key[1:])
                        self.made[key] = tensor, dense(tensor)
                    except FinchError:
                        self.made[key] = None
                if self.made[key] is None:
                    return None
                made[operand.name], self.arrays[operand.name] = self.made[key]
            return made

        if len(self.made) > KEPT:
            self.made.clear()
        plain = tensors(False)
        given = tensors(True) if self.is_symbolic else plain
        if plain is None or given is None:
            self.covered.refused += 1
            return
        self.given = given
        points = symbols.points(POINTS if self.is_symbolic else 0)
        stack: list[tuple[bool, ...]] = [()]
        for _ in range(CASES):
            if not stack:
                break
            self.path = symbols.Path(points, stack.pop())
            try:
                self._case(plain)
            except symbols.Unsupported as reason:
                self.is_symbolic, self.covered.numbers = False, str(reason)
                return self.pattern(sizes, cells, states)
            self.covered.cases += 1
            stack += self.path.others
        return None

    # --------------------------------------------------------------------------------------- cases

    def _case(self, plain: dict[str, Any]) -> None:
        self.said: list[str] = []
        outcomes = {"denote": self._denoted()}
        for which, kernel in self.kernels.items():
            outcomes[f"residual, {which}"] = self._run("residual", kernel, self.given)
        if self.is_interpreted:
            outcomes["interpret"] = self._run("interpret", self.kernel, self.given)
        if not self.path.given:
            outcomes["native"] = self._run("native", self.kernel, plain)
        meant, sees = outcomes.pop("denote")
        if isinstance(meant, dict) and sees and all(o == "bounds" for o in outcomes.values()):
            return  # a place out of range that is not needed
        stored = next(iter(outcomes.values()))
        is_told = len(self.said) == len(outcomes) and meant != stored
        let_through = LET_THROUGH.values() if is_told else ()
        if any(all(re.match(form, e) for e in self.said) for form in let_through):
            return
        self.covered.refused += isinstance(meant, str) and meant == stored
        if isinstance(meant, dict) and isinstance(stored, dict):
            meant = meant | {key: x for key, x in stored.items() if isinstance(key, tuple)}
        for name, outcome in outcomes.items():
            self._compare(name, meant, outcome)

    def _denoted(self) -> tuple[Any, bool]:
        """What the program means, and whether the denotation saw a place out of range."""
        numbers = dict(zip(self.kernel.numbers, self.numbers, strict=True))
        bindings = self.bound | self.arrays | numbers
        places: list[Any] = []
        semantics = partial(self.denotation if self.is_symbolic else Looking, places)
        try:
            meant: Any = denote(self.node.program, bindings, self.functions, semantics)
        except FinchError as error:
            meant = error.kind
        return meant, bool(places)

    def _run(self, engine: str, kernel: SpecializedKernel, given: dict[str, Any]) -> Any:
        host = symbols.SymbolicHost(self.path) if engine == "residual" else None
        if engine == "interpret":
            host = self.interpreter = self.interpreter or symbols.SymbolicInterpreter(self.path)
            host.begin(self.path)
        tensors = [given[name] for name in kernel.tensors]
        if engine == "native":
            tensors = [t.copy() if k in kernel.written else t for k, t in enumerate(tensors)]
        try:
            arguments: list[Any] = [describe(tensor) for tensor in tensors]
            made, _ = kernel.run(engine, arguments, list(self.numbers), None, host)
        except BaseException as error:
            self.interpreter = None  # it may be in the middle of a derivation
            if isinstance(error, FinchError):
                self.said.append(f"{error.kind}: {error.message}")
                return error.kind
            if isinstance(error, Exception) and not isinstance(error, symbols.Unsupported):
                return error  # such as no user should ever see
            raise
        found: dict[Any, Any] = {}
        for at, memory in made:
            name, value = kernel.tensors[at], arguments[at][0]
            if isinstance(value, Scalar):
                value = value.format.value_of(memory.counters) if memory else value.value
                found[name] = np.asarray(value)
            else:
                found[name], found[name, "places"] = self.contents(name, value, memory)
        return found

    def contents(
        self, name: str, tensor: Any, memory: Memory | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A tensor that a kernel has left in `memory`, as a dense array, and the places it stores."""
        if memory is not None:
            tensor = tensor_over(tensor.format, memory, True)
        memory = body_of(tensor).memory
        key = name, memory.shape, memory.counters, *[array.tobytes() for array in memory.arrays]
        if key not in self.made:
            self.made[key] = tensor.to_numpy(), tensor.entries()[0]
        found: tuple[np.ndarray, np.ndarray] = self.made[key]
        return found

    def _compare(self, name: str, meant: Any, found: Any) -> None:
        if not isinstance(meant, dict) or not isinstance(found, dict):
            if not isinstance(meant, str) or not isinstance(found, str) or meant != found:
                self._tell(name, "", meant, found)
            return
        for tensor, array in found.items():
            expected = np.asarray(meant[tensor])
            if expected.shape != array.shape:
                self._tell(name, tensor, expected.shape, array.shape)
                continue
            for a, b in zip(expected.ravel().tolist(), array.ravel().tolist(), strict=True):
                if name == "native":
                    a = symbols.number_of(a)
                if isinstance(a, float) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9):
                    continue
                is_term = any(isinstance(x, float) or symbols.is_symbolic(x) for x in (a, b))
                differ = self.path.differ(a, b) if is_term else a != b
                if differ is None:
                    self.covered.unproven += 1
                elif differ is not False:
                    point = differ if isinstance(differ, dict) else self.path.points[0]
                    self._tell(name, tensor, symbols.written(a), symbols.written(b), point)
                    break

    def _tell(self, name: str, tensor: Any, a: Any, b: Any, point: Any = None) -> None:
        arrays = ((n, t.to_numpy()) for n, t in self.given.items())
        terms = ((n, x.shape, [symbols.written(v) for v in x.ravel().tolist()]) for n, x in arrays)
        shown = "; ".join(f"{n} = {shape}{values}" for n, shape, values in terms)
        self.covered.wrong.append(f"  {name}: {tensor} is {b}, the denotation has {a}, of {shown}")
        if not self.covered.text:
            rules = name.partition(", ")[2] or next(iter(self.kernels))
            self.covered.ways = tuple(replace(way, rules=rules) for way in ways_of())
            bound = dict(zip(self.kernel.numbers, self.numbers, strict=True))
            for n, tensor in self.given.items():
                bound[n] = symbols.with_values(tensor, lambda v: symbols.number_of(v, point))
            self.covered.text = with_values(self.text, self.node.span, bound)


def _shuffled(total: int, draw: random.Random) -> Iterator[int]:
    """The numbers below `total`, by a random stride that is prime to it."""
    step = draw.randrange(total) | 1
    while math.gcd(step, total) != 1:
        step += 2
    return (k * step % total for k in range(total))


def kernels(
    text: str,
    name: str = "<input>",
    args: Sequence[str] = (),
    rules: Sequence[str] = ("all", "paper"),
) -> list[Small]:
    """The kernels that a script runs, for these sets of rules. Raises FinchError as the script does."""
    made: list[Small] = []

    class Found(Observer):
        def kernel(self, event: KernelEvent) -> None:
            made.append(Small(event, text, rules))

    Session("native", "all", lambda _: None, args, Found()).run(text, name)
    return made


def exhaustive(
    text: str, name: str, largest: int, seconds: float = 60.0, args: Sequence[str] = ()
) -> Iterator[Covered]:
    """Run each kernel of a script on all operands up to a size, within `seconds` in all; gives what was run
    of each, when it was. Raises FinchError for a script that is wrong."""
    found = kernels(text, name, args)
    end = time.process_time() + seconds
    for k, small in enumerate(found):
        yield small.run(largest, (end - time.process_time()) / (len(found) - k))
