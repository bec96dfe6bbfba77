"""Expressions, accesses and functions of random scripts, by the tables of `grammar`. Indices that gather
are within bounds, and values that may be missing are coalesced."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from finchlang.syntax.types import TYPES
from finchlang.testing import grammar
from finchlang.testing.generate import DrawnTensor, Maker, typed
from finchlang.testing.grammar import Form, Known
from finchlang.testing.random_shapes import around

PROTOCOLS = ("walk", "gallop", "gallop", "follow")
#: ways to access a tensor where it may not reach
PERMISSIVE = ("offset", "toeplitz", "sum", "shift")
#: a token in braces, which may contain tokens
_TOKEN = re.compile(r"\{((?:[^{}]|\{[^{}]*\})+)\}")


@dataclass
class Nest:
    """A loop nest being made. `indices` can be read here, `every` are all; both give dimensions. `bound`
    are the indices with an extent, `writes` the names that are written, `budget` how many more tensors may
    be read. The `tensors` of a form are known by letters, `at` has their indices; `declares` are those that
    are declared, `always` those that must be, `scattered` those written at gathered places. Elements were
    `read` in loops over indices, the last one by a `protocol`."""

    indices: dict[str, str] = field(default_factory=dict)
    every: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    lets: list[str] = field(default_factory=list)
    budget: int = 3
    tensors: dict[str, DrawnTensor] = field(default_factory=dict)
    at: dict[str, list[str]] = field(default_factory=dict)
    declares: set[str] = field(default_factory=set)
    always: set[str] = field(default_factory=set)
    scattered: set[str] = field(default_factory=set)
    read: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    protocol: str = ""
    is_rounded: bool = False


class ExpressionMaker(Maker):
    """Fills in tokens. `functions` are those that a script has, by name."""

    def __init__(self, seed: int, is_special: bool = False, kind: str = ""):
        super().__init__(seed, is_special, kind)
        self.functions: dict[str, Known] = {}

    def chosen(self, table: tuple[Form, ...]) -> Form:
        fit = [form for form in table if self.kind[0] in form.kinds]
        return self.random.choices(fit, [form.weight for form in fit])[0]

    def written(self, table: tuple[Form, ...], nest: Nest, depth: int = 3) -> str:
        return self.filled(self.chosen(table).text, nest, depth)

    def filled(self, form: str, nest: Nest, depth: int = 3) -> str:
        return re.sub(_TOKEN, lambda found: self.token(found[1], nest, depth), form)

    def token(self, token: str, nest: Nest, depth: int) -> str:
        made: dict[str, Callable[[], str]] = {
            "n": lambda: self.expression(nest, depth - 1), "n1": lambda: self.expression(nest, 1),
            "n3": lambda: self.expression(nest, 3), "a": lambda: self.access(nest), "l": self.literal,
            "g": lambda: self.element_of(nest, 0.6),
            "b": lambda: self.written(grammar.CONDITIONS, nest, depth - 1) if depth > 0 else "true",
            "i": lambda: self.random.choice(sorted(nest.indices) or ["2"]),
            "k": lambda: str(self.random.randint(1, 3)), "p": lambda: self.random.choice("pq"),
            "c": lambda: self.written(grammar.COMPARED, nest), "x": lambda: self.computed(nest, depth),
        }  # fmt: skip
        return made[token]()

    def literal(self) -> str:
        if self.kind == "bool":
            return self.random.choice(("true", "false"))
        number = self.random.randint(0, 3)
        return str(number) if self.kind == "int" or self.chance(0.3) else f"{number}.0"

    def expression(self, nest: Nest, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.3):
            if nest.lets and self.chance(0.3):
                return self.random.choice(nest.lets)
            return self.literal() if self.chance(0.12) else self.access(nest)
        if self.functions and self.chance(0.25):
            name = self.random.choice([*self.functions])
            given = (self.expression(nest, depth - 1) for _ in range(self.functions[name].count))
            return f"{name}({', '.join(given)})"
        return self.written(grammar.VALUES, nest, depth)

    # ------------------------------------------------------------------------------------ accesses

    def index_of(self, nest: Nest, dim: str) -> str:
        index = self.random.choice([i for i, d in nest.indices.items() if d == dim])
        nest.bound.add(index)
        return index

    def access(self, nest: Nest) -> str:
        """A read as one before in the same loops, or of a known or new tensor, sometimes through wrappers
        and shape operators."""
        before = nest.read.setdefault((*nest.indices,), [])
        if before and self.chance(0.25 if nest.budget else 0.5):
            return self.random.choice(before)
        if not nest.budget:
            return self.literal()
        nest.budget -= 1
        before.append(self.element_of(nest))
        return before[-1]

    def element_of(self, nest: Nest, gathers: float = 0.06) -> str:
        dims = sorted(set(nest.indices.values()))
        found = [t for t in self.tensors if set(t.dims) <= set(dims) and t.name not in nest.writes]
        if found and self.chance(0.5):
            tensor = self.random.choice(found)
        else:
            order = self.random.choices((0, 1, 2, 3), (1, 5, 5, 0.3))[0] if dims else 0
            own = tuple(self.random.choice(dims) for _ in range(order))
            if order and self.chance(0.2):
                shape = tuple(self.sizes[d] for d in own)
                text = around(self, shape, self.random.choice((1, 1, 2, 3)))
                return f"{text}[{', '.join(self.index_of(nest, d) for d in own)}]"
            tensor = self.new(own)
        if tensor.dims and self.chance(0.08):
            zero = typed(self.random.randint(0, 1), tensor.type)
            return f"coalesce({self.permitted(nest, tensor)}, {zero})"
        at = [self.mode(nest, d, gathers) for d in tensor.dims]
        if len(at) > 1 and self.chance(0.08):
            turned = self.random.sample(range(len(at)), len(at))
            modes = ", ".join(str(k + 1) for k in turned)
            places = ", ".join(at[turned.index(k)] for k in range(len(at)))
            return f"swizzle({tensor.name}, {modes})[{places}]"
        if at and self.chance(0.05):
            given = ", ".join(self.random.choice((*PROTOCOLS, "nothing")) for _ in at)
            return f"protocolize({tensor.name}, {given})[{', '.join(at)}]"
        return f"{tensor.name}[{', '.join(at)}]"

    def mode(self, nest: Nest, dim: str, gathers: float) -> str:
        """An index within a dimension: that of a loop, sometimes with a protocol, or so often a gathered
        one, which may be out of range."""
        if self.chance(gathers) and self.sizes[dim]:
            over = self.random.choice(sorted(nest.indices.values()))
            if self.sizes[over]:
                return f"{self.places_in(dim, over, gathers / 2)}[{self.index_of(nest, over)}]"
        if not nest.protocol or self.chance(0.3):
            nest.protocol = self.random.choice(PROTOCOLS)
        index = self.index_of(nest, dim)
        return f"{nest.protocol}({index})" if self.chance(0.25) else index

    def places_in(self, dim: str, over: str, misfit: float = 0.05) -> str:
        name, type = f"I{len(self.before)}", self.random.choice(("Int64", "Int32", "UInt8"))
        most = self.sizes[dim] + self.chance(misfit)
        places = (self.random.randint(1, most) for _ in range(self.sizes[over]))
        level = self.random.choice(("Dense", "SparseList", "SparseByteMap", "RunList"))
        given = ", ".join(typed(place, type) for place in places)
        self.before.append(f"{name} = Tensor({level}(Element({typed(1, type)})), [{given}])")
        return name

    def permitted(self, nest: Nest, tensor: DrawnTensor, way: str = "") -> str:
        """An access that may be out of range, and is permissive, in one of the ways."""
        indices = sorted(nest.indices)
        shifts = [self.random.randint(-2, 2) for _ in tensor.dims]
        at = [self.random.choice(indices) for _ in tensor.dims]
        way = way or self.random.choice(PERMISSIVE)
        name, every = tensor.name, ", ".join("true" for _ in at)
        if way == "offset":
            moved = f"offset({name}, {', '.join(map(str, shifts))})"
            return f"permissive({moved}, {every})[{', '.join(at)}]"
        if way == "toeplitz":
            at.insert(0, self.random.choice(indices))
            return f"toeplitz(permissive({name}, {every}), 1)[{', '.join(at)}]"
        if way == "sum":
            at[0] = f"({at[0]} + {self.random.choice(indices)})"
        moves = (f"+ {n}" if n >= 0 else f"- {-n}" for n in shifts)
        return f"{name}[{', '.join(f'~({i} {d})' for i, d in zip(at, moves, strict=True))}]"

    def dims_of(self, sizes: Sequence[int]) -> tuple[str, ...]:
        self.sizes |= {f"d{n}": n for n in sizes}
        return tuple(f"d{n}" for n in sizes)

    def leaf(self, sizes: tuple[int, ...]) -> str:
        return self.new(self.dims_of(sizes), is_kept=False).name

    # ------------------------------------------------------------------------------------ functions

    def function(self) -> None:
        """A new function of the script: one of random steps, or one with known laws, but without a region
        that depends on fills."""
        if self.chance(0.4):
            count = self.random.randint(1, 3)
            steps = [self.written(grammar.STEPS, Nest(), 2) for _ in range(count)]
            steps.append(f"return {self.computed(Nest(), 2)}")
            self.defined(Known(self.kind[0], "\n".join(steps)))
        else:
            self.function_of(self.random.choice(self.known_functions()), False)

    def known_functions(self) -> list[Known]:
        return [known for known in grammar.FUNCTIONS if self.kind[0] in known.kinds]

    def computed(self, nest: Nest, depth: int) -> str:
        if depth <= 0 or self.chance(0.25):
            return self.random.choice(("p", "q", self.numbers(self.literal())))
        return self.written(grammar.COMPUTED, nest, depth - 1)

    def defined(self, known: Known) -> str:
        """Define a function, on operands converted to the kind's main type; returns its name."""
        name, given = f"f{len(self.before)}", ("p", "q", "r")[: known.count]
        if "return" in known.body:
            own = [f"{a} = {self.conversion}({a}0)" for a in given]
            head = f"function {name}({', '.join(f'{a}0' for a in given)})"
            text = "\n".join([head, *own, self.numbers(known.body), "end"])
        else:
            text = f"{name}({', '.join(given)}) = {self.converted(known.body)}"
        self.before.append(text)
        self.functions[name] = known
        return name

    @property
    def conversion(self) -> str:
        """Converts to the kind's main type."""
        return TYPES[grammar.TYPES[self.kind][0]].cut

    def converted(self, text: str) -> str:
        return re.sub(r"\b[pqr]\b", lambda m: f"{self.conversion}({m[0]})", self.numbers(text))

    def function_of(self, known: Known, is_regional: bool = True) -> str:
        """A new function of the script, with some of its laws; returns its name."""
        name = self.defined(known)
        head = f"{name}({', '.join(('p', 'q', 'r')[: known.count])})"
        some, where, over = known.laws.partition(" where ")
        laws = [w for w in re.findall(r"\w+(?:\([^)]*\))?", some) if self.chance(0.6)]
        if not any(law.startswith("identity") for law in laws):
            laws = [law for law in laws if not law.startswith("inverse")]
        if laws:
            self.before.append(f"@properties {name} {' '.join(laws)}{where}{over}")
        for case in known.cases:
            if self.chance(0.5):
                pattern, result = case.split(" = ")
                pattern, result = self.numbers(pattern), self.converted(result)
                self.before.append(f"@case {name}({pattern}) = {result}")
        if known.region and (is_regional or (not known.fills and self.chance(0.5))):
            self.before.append(f"@iterate {head} = {known.region}")
        return name

    def numbers(self, text: str) -> str:
        """A text with 0, 1 and 2 as floats where the kind has them, but not in loops and places of laws."""
        if grammar.TYPES[self.kind][0] != "Float64" or "for" in text:
            return text
        return re.sub(r"(?<![\w:.(])([012])(?![\w:.])(?! ?, ?[12]\))", r"\1.0", text)
