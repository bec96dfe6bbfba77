"""Random well-formed kernels together with tensors to run them on.

`generate(seed)` gives a `Case`: the top-level statements of one kernel, and what its free names are
bound to. Programs keep to what the language allows (formats that are written in order are mostly
written in order, indices that gather are in range), and data is finite, apart from infinite fills
in programs over `min`, `max` and `+`. Numbers are small whole ones, so that sums are exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

if __package__:
    from tests.generate_data import Case, DataGenerator, typed_text
else:
    from generate_data import Case, DataGenerator, typed_text

from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.sparse_bytemap import SparseByteMap
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import Scalar, SwizzledTensor, Tensor
from finchlang.types import TYPES, Type

LETTERS = "ijkl"


@dataclass
class _Known:
    """A tensor the program may use: the dimensions its modes have now, by name, and what matters
    for its use. `open`: declared and not read since; `written`: since then."""

    name: str
    dims: tuple[str, ...]
    level: Any
    type: Type
    plain: bool  # neither infinite nor (for gathers) special
    declared: bool = False
    written: bool = False
    usable: bool = True

    @property
    def is_sequential(self) -> bool:
        return any(lv.is_sequential for lv in self.level.levels())


@dataclass
class _Nest:
    """A loop nest under construction: its indices with their dimensions, those that an access has
    given an extent, and what it reads and writes."""

    indices: dict[str, str]
    bound: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    writes: dict[str, str] = field(default_factory=dict)
    lets: list[str] = field(default_factory=list)
    budget: int = 3  # of reads: code grows with the structures that meet in a loop


class _Generator(DataGenerator):
    def __init__(self, seed: int):
        super().__init__(seed)
        sizes = self.random.choices((0, 1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 3, 2, 2), k=3)
        self.sizes = dict(zip("mnp", sizes, strict=True))
        self.data: dict[str, Any] = {}
        self.known: dict[str, _Known] = {}
        self.names = (f"{c}{n}" if n else c for n in itertools.count() for c in "ABCDEFGH")
        self.fresh = (f"{c}{n}" for n in itertools.count(1) for c in "uvw")

    def new(self, dims: tuple[str, ...], output: bool = False, stale: bool = False) -> _Known:
        """A new tensor over `dims`; `stale`: of some other size, for it will be declared."""
        type, name = self.pick_type(output), next(self.names)
        shape = tuple(self.sizes[d] for d in dims)
        if stale:
            shape = tuple(self.random.randint(0, 5) for _ in dims)
        value: Any
        if not dims:
            fill = self.fill(type)
            value = Scalar(typed_literal(fill, type), self.value(type))
            level: Any = value.format
        elif self.kind != "minplus" and self.chance(0.2):
            value, level = self.foreign(shape, type)
        else:
            level = self.format(len(dims), type)
            if len(dims) > 1 and self.chance(0.15):
                permutation = list(range(1, len(dims) + 1))
                self.random.shuffle(permutation)
                stored = tuple(shape[p - 1] for p in permutation)
                value = SwizzledTensor(self.tensor(level, stored, type), tuple(permutation))
            else:
                value = self.tensor(level, shape, type)
        self.data[name] = value
        known = self.known[name] = _Known(name, dims, level, type, True)
        return known

    # ------------------------------------------------------------------ expressions

    def literal(self) -> str:
        if self.kind == "bool":
            return self.random.choice(("true", "false"))
        number = self.random.randint(0, 3)
        return str(number) if self.kind == "int" or self.chance(0.3) else f"{number}.0"

    def index_of(self, nest: _Nest, dim: str) -> str:
        """An index of the nest over a dimension."""
        index = self.random.choice([i for i, d in nest.indices.items() if d == dim])
        nest.bound.add(index)
        return index

    def readable(self, nest: _Nest, order: int | None = None) -> _Known:
        """A tensor whose dimensions the nest's indices run over, known already or new."""
        dims = sorted(set(nest.indices.values()))
        found = [
            k
            for k in self.known.values()
            if k.plain
            and k.usable
            and set(k.dims) <= set(dims)
            and k.name not in nest.writes
            and (order is None or len(k.dims) == order)
        ]
        if found and self.chance(0.5):
            return self.random.choice(found)
        if order is None:
            order = self.random.choices((0, 1, 2, 3, 4), (1, 5, 6, 0.4, 0.1))[0] if dims else 0
        return self.new(tuple(self.random.choice(dims) for _ in range(order)))

    def access(self, nest: _Nest, alone: bool = False) -> str:
        """A read: plain, with a protocol, shifted and permissive, or a gather. What may be missing
        stands `alone` or is coalesced: whether a zero beside it decides depends on the loops."""
        if not nest.budget:
            return self.literal()
        nest.budget -= 1
        known = self.readable(nest)
        nest.reads.add(known.name)
        self.read_from(known)
        indices = [self.mode(nest, known, d) for d in known.dims]
        text = f"{known.name}[{', '.join(indices)}]"
        if "~" not in text and not any(" + " in i and "(" not in i for i in indices):
            return text
        return text if alone and self.chance(0.3) else f"coalesce({text}, {self.literal()})"

    def mode(self, nest: _Nest, known: _Known, dim: str) -> str:
        if self.chance(0.05) and nest.indices:
            index, shift = self.random.choice(sorted(nest.indices)), self.random.randint(-2, 2)
            if self.chance(0.5) and shift:
                return f"~({index} {'+' if shift > 0 else '-'} {abs(shift)})"
            other = self.random.choice(sorted(nest.indices))
            return f"~({index} + {other})" if self.chance(0.3) else f"~{index}"
        if self.chance(0.08) and nest.indices and self.sizes[dim]:
            return self.gather(nest, dim)
        index = self.index_of(nest, dim)
        if self.chance(0.15):
            protocols = {
                Dense: ("follow",),
                SparseList: ("walk", "gallop", "follow"),
                SparseByteMap: ("walk", "gallop", "follow"),
            }
            kinds = {type(lv) for lv in known.level.levels() if not lv.is_leaf}
            if len(kinds) == 1:
                return f"{self.random.choice(protocols[kinds.pop()])}({index})"
        return index

    def gather(self, nest: _Nest, dim: str) -> str:
        """`I[i]`: a vector of valid places in `dim`, at an index of the nest."""
        over = self.random.choice(sorted(nest.indices.values()))
        name, size = f"I{len(self.data)}", self.sizes[over]
        leaf = Element(typed_literal(1, TYPES[self.random.choice(("Int64", "Int32", "UInt8"))]))
        kind = self.random.choice((Dense, SparseList, SparseByteMap))
        array = np.array([self.random.randint(1, self.sizes[dim]) for _ in range(size)], np.int64)
        self.data[name] = Tensor.from_numpy(array, kind(leaf))
        self.known[name] = _Known(name, (over,), kind(leaf), leaf.element_type, False)
        nest.reads.add(name)
        return f"{name}[{self.index_of(nest, over)}]"

    def read_from(self, known: _Known) -> None:
        known.declared = known.written = False

    def condition(self, nest: _Nest, depth: int = 1) -> str:
        """A Bool expression."""
        form = self.random.randint(0, 9)
        if form <= 3 and nest.indices:
            left = self.random.choice(sorted(nest.indices))
            right = self.random.choice([*sorted(nest.indices), "2", "3"])
            if self.chance(0.3):
                right += self.random.choice((" + 1", " - 1"))
            sign = self.random.choice(("<=", "<", ">=", ">", "==", "!="))
            return f"{left} {sign} {right}"
        if depth and form == 4:
            first, second = self.condition(nest, 0), self.condition(nest, 0)
            return f"({first}) {self.random.choice(('&&', '||'))} ({second})"
        if depth and form == 5:
            return f"!({self.condition(nest, 0)})"
        if self.kind == "bool" and form <= 7:
            return f"{self.access(nest)} == true"
        sign = self.random.choice(("!=", "==", ">", "<="))
        return f"{self.access(nest)} {sign} {self.literal()}"

    def expression(self, nest: _Nest, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.3):
            form = self.random.random()
            if nest.lets and form < 0.3:
                return self.random.choice(nest.lets)
            if form < 0.4:
                return self.literal()
            if form < 0.45 and nest.indices and self.kind in ("int", "float"):
                return self.random.choice(sorted(nest.indices))
            return self.access(nest, alone=depth == 2)
        a = self.expression(nest, depth - 1)
        if self.kind in ("int", "float") and self.chance(0.15):
            forms = ["abs({a})", "(-{a})", "({a})^2"]
            forms += ["div({a}, 2)", "({a}) % 3"] if self.kind == "int" else ["({a}) / 2"]
            forms += ["({a} + 2) - 1", "2 * ({a}) * 4", "-(2 * -({a}))"]
            return self.random.choice(forms).format(a=a)
        b = self.expression(nest, depth - 1)
        if self.kind in ("int", "float") and self.chance(0.08):
            forms = ["div({a}, abs({b}) + 1)", "fld({a}, abs({b}) + 1)", "({a}) % (abs({b}) + 1)"]
            power = "(2.0 + 2.0 * Float64({b} > 0))"  # so that quotients are exact
            exact = [f"({{a}}) / {power}", f"({{a}}) * inv({power})", f"({{a}}) * (1 / {power})"]
            forms += ["({a}) << 1", "mod({a}, 3)"] if self.kind == "int" else exact
            return self.random.choice(forms).format(a=a, b=b)
        if self.chance(0.08):
            return f"ifelse({self.condition(nest)}, {a}, {b})"
        if self.kind == "bool":
            if self.chance(0.2):
                return f"!(({a}) != ({b}))"
            sign = self.random.choice(("&", "|", "!=", "=="))
            return f"({a} {sign} {b})"
        if self.kind == "minplus":
            return self.random.choice((f"({a} + {b})", f"min({a}, {b})", f"max({a}, {b})"))
        forms = [f"{a} * {b}"] * 5 + [f"({a} + {b})"] * 3 + [f"({a} - {b})"] * 2
        forms += [f"min({a}, {b})", f"max({a}, {b})"]
        if self.kind == "int":
            forms += [f"({a} & {b})", f"({a} | {b})", f"xor({a}, {b})"]
        return self.random.choice(forms)

    # ------------------------------------------------------------------ statements

    def operator(self, known: _Known, nest: _Nest) -> str:
        """An assignment sign for a tensor: the one it has in this statement, or a new one."""
        plain = ("=", ":=")
        if known.name in nest.writes:
            before = nest.writes[known.name]
            return before if before not in plain else self.random.choice((before, "="))
        by_kind = {
            "float": ("+=", "+=", "+=", "-=", "*=", "<<min>>=", "<<max>>=", "<<choose(0)>>="),
            "int": ("+=", "+=", "-=", "*=", "<<min>>=", "<<max>>=", "|=", "&=", "<<choose(0)>>="),
            "bool": ("|=", "&=", "<<max>>=", "<<choose(false)>>="),
            "minplus": ("<<min>>=", "<<min>>=", "<<max>>="),
        }
        signs = by_kind[self.kind]
        if known.type.kind == "bool":
            signs = ("<<||>>=", "<<&&>>=", "|=", "&=")
        sign = self.random.choice(("=", "=", ":=", *signs, *signs))
        nest.writes[known.name] = sign
        return sign

    def output(self, nest: _Nest, order: int | None = None) -> tuple[list[str], _Known, list[str]]:
        """A tensor to write, with its declaration (or none), and the indices to write it at."""
        if order is None:
            most = len(nest.indices)
            order = self.random.choices((0, 1, 2, 3), (3, 5, 6, 1))[0]
            order = min(order, most)
        indices = self.random.sample(sorted(nest.indices), order)
        dims = tuple(nest.indices[i] for i in indices)
        old = [
            k
            for k in self.known.values()
            if k.plain and k.usable and len(k.dims) == order and k.name not in nest.reads
        ]
        old = [k for k in old if k.name not in nest.writes and self.is_output(k.type)]
        if old and self.chance(0.35):
            known = self.random.choice(old)
            if known.dims == dims and not (known.declared and known.written and self.chance(0.95)):
                return [], known, indices
            return self.declared(known, dims), known, indices
        declare = self.chance(0.7)
        known = self.new(dims, output=True, stale=declare)
        return (self.declared(known, dims) if declare else []), known, indices

    def is_output(self, type: Type) -> bool:
        """Whether what this kind of program computes can be kept as `type`."""
        return type.is_float or self.kind not in ("float", "minplus")

    def declared(self, known: _Known, dims: tuple[str, ...]) -> list[str]:
        """The declaration of a tensor that will be written over `dims`."""
        known.dims, known.declared, known.written = dims, True, False
        fill = typed_text(known.level.fill.value)
        dense = all(lv.is_dense or lv.is_leaf for lv in known.level.levels())
        if dense and self.chance(0.1) and known.type.kind != "bool":
            fill = str(abs(self.value(TYPES["Int64"])))
        return [f"{known.name} .= {fill}"]

    def assignment(self, nest: _Nest, known: _Known, indices: list[str]) -> str:
        sign = self.operator(known, nest)
        value = self.expression(nest)
        if known.type.kind == "bool" and self.kind != "bool":
            value = self.condition(nest)
        known.written = True
        return f"{known.name}[{', '.join(indices)}] {sign} {value}"

    def loops(self, nest: _Nest, order: list[str], body: list[str]) -> list[str]:
        """`body` in loops over `order`, outermost first."""
        headers = []
        for index in order:
            size = self.sizes[nest.indices[index]]
            explicit = index not in nest.bound or self.chance(0.1)
            headers.append(f"{index} = 1:{size}" if explicit else f"{index} = _")
        if not headers:
            return body
        if self.chance(0.5):
            return [f"for {', '.join(headers)}", *body, "end"]
        return [*(f"for {h}" for h in headers), *body, *(["end"] * len(headers))]

    def order_of(self, nest: _Nest, written: list[list[str]]) -> list[str]:
        """The loops' order: what tensors that are written in order need, most of the time."""
        rest = sorted(nest.indices)
        self.random.shuffle(rest)
        if not written or self.chance(0.02):
            return rest
        first = list(dict.fromkeys(written[0]))[::-1]
        return [*first, *(i for i in rest if i not in first)]

    def nest(self, fewest: int = 0) -> _Nest:
        count = max(fewest, self.random.choices((0, 1, 2, 3, 4), (1, 7, 8, 1.5, 0.1))[0])
        nest = _Nest({i: self.random.choice("mnp") for i in LETTERS[:count]})
        nest.budget = self.random.choices((1, 2, 3), (4, 5, 0.7))[0]
        return nest

    def statement(self) -> list[str]:
        form = self.random.random()
        if form < 0.1:
            return self.through_workspace()
        if form < 0.18:
            return self.through_scalar()
        if form < 0.26:
            return self.scatter()
        return self.plain()

    def plain(self) -> list[str]:
        """A loop nest with one or more assignments."""
        nest = self.nest()
        before, known, indices = self.output(nest)
        targets = [(known, indices)]
        nest.writes[known.name] = self.operator(known, nest)
        if self.chance(0.25):
            more, second, at = self.output(nest, 0 if self.chance(0.5) else None)
            if not second.is_sequential:
                before += more
                targets.append((second, at))
                self.operator(second, nest)
        body = self.body(nest, targets)
        ordered = [at for known, at in targets if known.is_sequential and known.declared]
        return [*before, *self.loops(nest, self.order_of(nest, ordered), body)]

    def body(self, nest: _Nest, targets: list[tuple[_Known, list[str]]]) -> list[str]:
        name = None
        if self.chance(0.15):
            name, value = next(self.fresh), self.expression(nest, 1)
            nest.lets.append(name)
        for known, at in targets:
            if not known.declared:
                nest.bound.update(at)
        lines = [self.assignment(nest, *t) for t in targets]
        lines += [self.assignment(nest, *t) for t in targets if self.chance(0.2)]
        lines = [self.sieved(nest, line) for line in lines]
        if self.chance(0.15):
            lines = [f"if {self.condition(nest)}", *lines, "end"]
        if name is not None:
            nest.lets.remove(name)
            lines = [f"let {name} = {value}", *lines, "end"]
        return lines

    def sieved(self, nest: _Nest, line: str) -> str:
        if self.chance(0.2):
            return f"if {self.condition(nest)}\n{line}\nend"
        return line

    def through_workspace(self) -> list[str]:
        """Gustavson's way: a row or column at a time in a tensor that is declared in the loop."""
        nest = self.nest(fewest=3)
        j, i, *inner = sorted(nest.indices)
        work = self.new((nest.indices[i],), output=True, stale=True)
        before, known, _ = self.output(nest, 0)
        if known.dims == ():
            known = self.new((nest.indices[i], nest.indices[j]), output=True, stale=True)
            before = self.declared(known, known.dims)
        work.usable = False
        nest.writes[work.name] = sign = self.operator(work, nest)
        value = self.expression(nest)
        if work.type.kind == "bool" and self.kind != "bool":
            value = self.condition(nest)
        order = [*inner, i] if not work.is_sequential else [i, *inner]
        fill = [f"{work.name} .= {typed_text(work.level.fill.value)}"]
        fill += self.loops(nest, order, [f"{work.name}[{i}] {sign} {value}"])
        nest.bound.add(i)
        keep = self.loops(nest, [i], [f"{known.name}[{i}, {j}] = {work.name}[{i}]"])
        known.written = True
        return [*before, *self.loops(nest, [j], [*fill, *keep])]

    def through_scalar(self) -> list[str]:
        """A scalar that is declared in the outer loop and reduced into in the inner ones."""
        nest = self.nest(fewest=2)
        j, *inner = sorted(nest.indices)
        total = self.new((), output=True)
        known = self.new((nest.indices[j],), output=True, stale=True)
        before = self.declared(known, known.dims)
        total.usable = False
        nest.writes |= {known.name: "=", total.name: "="}
        sign = self.random.choice(("+=", "<<max>>=")) if self.kind != "bool" else "|="
        if total.type.kind == "bool":
            sign = "|="
        value = self.expression(nest)
        if total.type.kind == "bool" and self.kind != "bool":
            value = self.condition(nest)
        reduce = self.loops(nest, inner, [f"{total.name}[] {sign} {value}"])
        keep = [f"{known.name}[{j}] = {total.name}[]"]
        if known.type.kind == "bool" and total.type.kind != "bool":
            keep = [f"{known.name}[{j}] = {total.name}[] != 0"]
        known.written = True
        start = f"{total.name} .= {typed_text(total.level.fill.value)}"
        return [*before, *self.loops(nest, [j], [start, *reduce, *keep])]

    def scatter(self) -> list[str]:
        """`y[I[i]] op e`, into a tensor that keeps its size."""
        nest = self.nest(fewest=1)
        dim = self.random.choice("mnp")
        if not self.sizes[dim]:
            return self.plain()
        known = self.new((dim,), output=True)
        nest.writes[known.name] = self.operator(known, nest)
        place = self.gather(nest, dim)
        before = []
        if self.chance(0.4) and not known.is_sequential:
            fill = typed_text(known.level.fill.value)
            before = [f"@declare({known.name}, {fill}, 1:{self.sizes[dim]})"]
        line = self.assignment(nest, known, [place])
        order = sorted(nest.indices)
        self.random.shuffle(order)
        return [*before, *self.loops(nest, order, [line])]


def generate(seed: int) -> Case:
    """The program and data that belong to `seed`."""
    generator = _Generator(seed)
    lines: list[str] = []
    count = generator.random.choices((1, 2, 3), (8, 3, 0.5))[0]
    for _ in range(count):
        lines.append("\n".join(generator.statement()))
    used = {n: v for n, v in generator.data.items() if any(n in line for line in lines)}
    return Case(tuple(lines), used)
