"""What random programs read: accesses with every protocol, index modifier and wrapper, masks, and
expressions of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

if __package__:
    from tests.generate_data import DataGenerator
    from tests.generate_functions import Function
else:
    from generate_data import DataGenerator
    from generate_functions import Function

from finchlang.tensors.dense import Dense
from finchlang.tensors.element import Element, typed_literal
from finchlang.tensors.sparse_bytemap import SparseByteMap
from finchlang.tensors.sparse_list import SparseList
from finchlang.tensors.tensor import SwizzledTensor, Tensor
from finchlang.types import TYPES, Type

PROTOCOLS = ("walk", "gallop", "follow")


@dataclass
class Known:
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
class Nest:
    """A loop nest under construction: its indices with their dimensions, those that an access has
    given an extent, and what it reads and writes."""

    indices: dict[str, str]
    bound: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    writes: dict[str, str] = field(default_factory=dict)
    lets: list[str] = field(default_factory=list)
    budget: int = 3  # of reads: code grows with the structures that meet in a loop


class AccessGenerator(DataGenerator):
    def __init__(self, seed: int):
        super().__init__(seed)
        sizes = self.random.choices((0, 1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 3, 2, 2), k=3)
        self.sizes = dict(zip("mnp", sizes, strict=True))
        self.functions: tuple[Function, ...] = ()
        self.data: dict[str, Any] = {}
        self.known: dict[str, Known] = {}
        self.names = (f"{c}{n}" if n else c for n in itertools.count() for c in "ABCDEFGH")
        self.fresh = (f"{c}{n}" for n in itertools.count(1) for c in "uvw")

    def new(self, dims: tuple[str, ...], output: bool = False, stale: bool = False) -> Known:
        """A new tensor over `dims`; `stale`: of some other size, for it will be declared."""
        type, name = self.pick_type(output), next(self.names)
        sizes = {d: self.random.randint(0, 5) for d in dims} if stale else self.sizes
        shape = tuple(sizes[d] for d in dims)
        value: Any
        if not dims:
            value = self.scalar(type)
            level: Any = value.format
        elif self.kind != "minplus" and not self.only_fill and self.chance(0.2):
            value, level = self.foreign(shape, type)
        else:
            permutation = list(range(1, len(dims) + 1))
            if len(dims) > 1 and self.chance(0.15):
                self.random.shuffle(permutation)
            level = self.format(tuple(dims[p - 1] for p in permutation), type)
            value = self.tensor(level, tuple(shape[p - 1] for p in permutation), type)
            if permutation != sorted(permutation):
                value = SwizzledTensor(value, tuple(permutation))
        self.data[name] = value
        known = self.known[name] = Known(name, dims, level, type, True)
        return known

    # ------------------------------------------------------------------ expressions

    def literal(self) -> str:
        if self.kind == "bool":
            return self.random.choice(("true", "false"))
        number = self.random.randint(0, 3)
        return str(number) if self.kind == "int" or self.chance(0.3) else f"{number}.0"

    def index_of(self, nest: Nest, dim: str) -> str:
        """An index of the nest over a dimension."""
        index = self.random.choice([i for i, d in nest.indices.items() if d == dim])
        nest.bound.add(index)
        return index

    def readable(self, nest: Nest, order: int | None = None) -> Known:
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

    def access(self, nest: Nest, alone: bool = False) -> str:
        """A read: plain, with modifiers, through wrappers, or a gather. What may be missing stands
        `alone` or is coalesced: whether a zero beside it decides depends on the loops."""
        if not nest.budget:
            return self.literal()
        nest.budget -= 1
        if nest.indices and self.chance(0.06):
            return self.cut(nest)
        known = self.readable(nest)
        nest.reads.add(known.name)
        self.read_from(known)
        if known.dims and self.chance(0.15):
            text, is_missing = self.wrapped(nest, known)
        else:
            indices = [self.mode(nest, known, d) for d in known.dims]
            text = f"{known.name}[{', '.join(indices)}]"
            is_missing = any("~" in i or (" + " in i and "(" not in i) for i in indices)
        if not is_missing or (alone and self.chance(0.3)):
            return text
        # of the type of what it stands in for: that of `coalesce` is that of the argument which is there
        other = "false" if known.type.kind == "bool" else f"{known.type}({self.literal()})"
        return f"coalesce({text}, {other})"

    def mode(self, nest: Nest, known: Known | None, dim: str) -> str:
        """An index for a mode: of any loop if it may lead out of the dimension."""
        if self.chance(0.05):
            index, shift = self.any_index(nest), self.random.randint(-2, 2)
            if self.chance(0.5) and shift:
                return f"~({index} {'+' if shift > 0 else '-'} {abs(shift)})"
            other = self.any_index(nest)
            return f"~({index} + {other})" if self.chance(0.3) else f"~{index}"
        if self.chance(0.08) and self.sizes[dim]:
            return self.gather(nest, dim)
        index = self.index_of(nest, dim)
        return f"{self.random.choice(PROTOCOLS)}({index})" if self.chance(0.15) else index

    def any_index(self, nest: Nest) -> str:
        return self.random.choice(sorted(nest.indices))

    def wrapped(self, nest: Nest, known: Known) -> tuple[str, bool]:
        """A read through one or two wrappers, and whether it may lead out of the dimensions."""
        text, order, is_missing = known.name, len(known.dims), False
        bound = set(nest.bound)
        indices = [self.index_of(nest, d) for d in known.dims]
        for _ in range(self.random.choice((1, 1, 2))):
            pick = [self.chance(0.6) for _ in range(order)]
            form = self.random.choice(
                ("swizzle", "protocolize", "offset", "permissive", "toeplitz")
            )
            if form == "swizzle":
                order_of = list(range(1, order + 1))
                if order > 1:
                    k = self.random.randrange(order - 1)
                    order_of[k : k + 2] = order_of[k : k + 2][::-1]
                    indices[k : k + 2] = indices[k : k + 2][::-1]
                text = f"swizzle({text}, {', '.join(map(str, order_of))})"
            elif form == "protocolize":
                settings = [self.random.choice(PROTOCOLS) if p else "nothing" for p in pick]
                text = f"protocolize({text}, {', '.join(settings)})"
            elif form == "toeplitz" and self.chance(0.5):
                mode, is_missing = self.random.randint(1, order), True
                indices.insert(mode, self.any_index(nest))
                text = f"toeplitz({text}, {mode})"
                break
            else:
                is_missing = True
                if form == "offset":
                    text = f"offset({text}, {', '.join(str(self.random.randint(-2, 2)) for _ in pick)})"
                    pick = [True] * order
                text = f"permissive({text}, {', '.join('true' if p else 'false' for p in pick)})"
        if is_missing:  # it gives no extents
            nest.bound = bound
        return f"{text}[{', '.join(indices)}]", is_missing

    def cut(self, nest: Nest, output: bool = False) -> str:
        """A part of a tensor that is larger than the loop: a window or a slice, as a modifier or as
        a wrapper."""
        dims = tuple(
            self.random.choice(sorted(nest.indices)) for _ in range(self.random.choice((1, 2)))
        )
        shape, ranges = [], []
        for index in dims:
            size = self.sizes[nest.indices[index]]
            first, step = self.random.randint(1, 3), self.random.choice((1, 1, 1, 2, 3, -1, -2))
            last = first + abs(step) * max(size - 1, 0)
            shape.append(last + self.random.randint(0, 2))
            if not size:
                ranges.append(f"{first}:{first - 1}")
            elif step == 1:
                ranges.append(f"{first}:{last}")
            else:
                ends = (first, last) if step > 0 else (last, first)
                ranges.append(f"{ends[0]}:{step}:{ends[1]}")
        type, name = self.pick_type(output), next(self.names)
        level = self.format(tuple(map(str, shape)), type)
        self.data[name] = self.tensor(level, tuple(shape), type)
        self.known[name] = Known(name, (), level, type, True, usable=False)
        (nest.writes.setdefault if output else lambda n, _: nest.reads.add(n))(name, "=")
        nest.bound.update(dims)
        if self.chance(0.5):
            return f"{name}[{', '.join(f'({r})({i})' for r, i in zip(ranges, dims, strict=True))}]"
        return f"window({name}, {', '.join(ranges)})[{', '.join(dims)}]"

    def gather(self, nest: Nest, dim: str) -> str:
        """`I[i]`: a vector of valid places in `dim`, at an index of the nest."""
        over = self.random.choice(sorted(nest.indices.values()))
        name, size = f"I{len(self.data)}", self.sizes[over]
        leaf = Element(typed_literal(1, TYPES[self.random.choice(("Int64", "Int32", "UInt8"))]))
        kind = self.random.choice((Dense, SparseList, SparseByteMap))
        array = np.array([self.random.randint(1, self.sizes[dim]) for _ in range(size)], np.int64)
        self.data[name] = Tensor.from_numpy(array, kind(leaf))
        self.known[name] = Known(name, (over,), kind(leaf), leaf.element_type, False)
        nest.reads.add(name)
        return f"{name}[{self.index_of(nest, over)}]"

    def read_from(self, known: Known) -> None:
        known.declared = known.written = False

    def condition(self, nest: Nest, depth: int = 1) -> str:
        """A Bool expression."""
        form = self.random.randint(0, 11)
        if form <= 3 and nest.indices:
            left = self.any_index(nest)
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
        if form in (10, 11) and nest.indices:
            return self.mask(nest)
        if self.kind == "bool" and form <= 7:
            return f"{self.access(nest)} == true"
        sign = self.random.choice(("!=", "==", ">", "<="))
        return f"{self.access(nest)} {sign} {self.literal()}"

    def mask(self, nest: Nest) -> str:
        """A mask over indices of the nest; the last two give them extents."""
        i, j, k = (self.any_index(nest) for _ in range(3))
        n, parts = (self.sizes[nest.indices[index]] for index in (i, j))
        forms = [f"{name}()[{i}, {j}]" for name in ("UpTriMask", "LoTriMask", "DiagMask")]
        forms.append(f"BandMask()[{i}, {j}, {k}]")
        if parts and i != j:
            forms.append(f"splitmask({n}, {parts})[{i}, {j}]")
        lengths = [b for b in range(1, n + 1) if -(-n // b) == parts]
        if lengths and i != j:
            forms.append(f"chunkmask({n}, {self.random.choice(lengths)})[{i}, {j}]")
        text = self.random.choice(forms)
        if "split" in text or "chunk" in text:
            nest.bound.update((i, j))
        return text.lower() if self.chance(0.2) else text

    def expression(self, nest: Nest, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.3):
            form = self.random.random()
            if nest.lets and form < 0.3:
                return self.random.choice(nest.lets)
            if form < 0.4:
                return self.literal()
            if form < 0.45 and nest.indices and self.kind in ("int", "float"):
                return self.random.choice(sorted(nest.indices))
            return self.access(nest, alone=depth == 2)
        if self.functions and self.chance(0.4):
            called = self.random.choice(self.functions)
            args = ", ".join(self.expression(nest, depth - 1) for _ in range(called.count))
            return f"{called.name}({args})"
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
