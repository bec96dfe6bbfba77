"""What random scripts are made of: data, expressions and functions, by the tables of `grammar`.

Data are small integers, so that sums are exact in any order. Indices that gather are within bounds, values
that may be missing are coalesced, and a tensor has one operator in a nest. The levels of one tensor come
from a walk through all pairs and triples (`grammar.stack_of`); everything else is random.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

from finchlang.testing.grammar import CONDITIONS, LEVELS, TYPES, VALUES
from finchlang.testing.random_functions import Functions
from finchlang.testing.random_shapes import around

PROTOCOLS = ("walk", "gallop", "follow")
SCALARS = ("Scalar", "SparseScalar", "ShortCircuitScalar", "SparseShortCircuitScalar")
LETTERS = "ijklabcd"
Levels = tuple[tuple[str, int], ...]
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 1e300)
#: a token in braces, which may contain tokens
_TOKEN = re.compile(r"\{((?:[^{}]|\{[^{}]*\})+)\}")


@dataclass
class DrawnTensor:
    """A tensor of the script: its dimensions by name, element type, fill, and levels, outermost first."""

    name: str
    dims: tuple[str, ...]
    type: str
    fill: str
    levels: Levels = ()
    written: bool = False

    @property
    def half(self) -> str:
        """The comparison of indices under which a tensor with packed levels is written."""
        at, found = len(self.dims), []
        for name, modes in self.levels:
            at -= modes
            if LEVELS[name].takes in ("<=", ">="):
                found.append(f"{{{at}}} {LEVELS[name].takes} {{{at + 1}}}")
        return " && ".join(found)


@dataclass
class Nest:
    """A loop nest being made. `indices` can be read here, `every` are all; both give dimensions. `bound`
    are the indices with an extent, `writes` the names that are written, `budget` how many more tensors may
    be read. The `tensors` of a form are known by letters, `at` has their indices; `declares` are those that
    are declared, `always` those that must be, `scattered` those written at gathered places."""

    indices: dict[str, str]
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
    is_rounded: bool = False


class Maker(Functions):
    def __init__(self, seed: int, is_special: bool = False):
        super().__init__(seed, "float" if is_special else "")
        self.is_special, self.is_target = is_special, False
        sizes = self.random.choices((0, 1, 2, 3, 4, 5, 8), (0.5, 1, 3, 4, 3, 2, 0.5), k=3)
        self.sizes = dict(zip("mnp", sizes, strict=True))
        self.names = (f"{c}{n}" if n else c for n in itertools.count() for c in "ABCDEFGH")
        self.tensors: list[DrawnTensor] = []

    # ------------------------------------------------------------------------------------ data

    def value(self, type: str) -> str:
        if type == "Bool":
            return self.typed(self.chance(0.7), type)
        if type.startswith("UInt"):
            extreme = 2 ** int(type[4:]) - 1
            return self.typed(extreme if self.chance(0.03) else self.random.randint(0, 4), type)
        if type.startswith("Int") and self.kind == "int" and self.chance(0.04):
            return self.typed(self.random.choice((1, -1)) * (2 ** (int(type[3:]) - 1) - 1), type)
        if self.is_special and type.startswith("Float") and self.chance(0.2):
            return self.typed(self.random.choice(SPECIAL), type)
        return self.typed(self.random.randint(-3, 3), type)

    def extreme(self, type: str) -> str:
        """A random value, often one at an end of the type."""
        if type == "Bool" or self.chance(0.5):
            return self.value(type)
        if type.startswith("Float"):
            return self.typed(self.random.choice((0.5, -2.5, 1e30, 1e-30, 127.0, 255.5)), type)
        bits = int(type.lstrip("UInt"))
        low, high = (
            (0, 2**bits - 1) if type[0] == "U" else (1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1)
        )
        return self.typed(self.random.choice((low, high, high - 1, 1)), type)

    def element(self, output: bool) -> tuple[str, str]:
        type = self.random.choice(TYPES[self.kind])
        if self.kind == "float" and not output and self.chance(0.15):
            other = self.random.choice((*TYPES["int"], "Bool"))
            type = type if self.is_target else other
        if self.kind == "minplus" and self.chance(0.7):
            return type, "Inf"
        return type, self.typed(0, type) if self.chance(0.75) else self.value(type)

    def levels(self, dims: tuple[str, ...], output: bool = False) -> Levels:
        """Random levels for dimensions; outputs seldom get levels that cannot store all entries."""
        made: list[tuple[str, int]] = []
        left = len(dims)
        while left:
            square = left > 1 and dims[left - 1] == dims[left - 2]
            fit = {n: r.weight for n, r in LEVELS.items() if r.modes < 2 or square}
            if output and self.chance(0.9):
                fit = {n: w for n, w in fit.items() if LEVELS[n].takes not in ("one", "run")}
            if left > 2 or (left == 2 and self.chance(0.6)):
                fit.pop("Interleaved")  # it can only be above a leaf
            name = self.pick(fit)
            modes = LEVELS[name].modes or self.random.randint(1, left)
            modes = left if name == "Interleaved" else modes
            made.append((name, modes))
            left -= modes
        return tuple(made)

    def format(self, tensor: DrawnTensor) -> str:
        last = tensor.levels[-1][0] if tensor.levels else ""
        is_false = tensor.type == "Bool" and tensor.fill == "false"
        if is_false and last not in ("", "Interleaved", "Workspace") and not LEVELS[last].complete:
            text = "Pattern()" if self.chance(0.5) else "Element(false)"
        else:
            text = f"Element({tensor.fill})"
        for name, modes in reversed(tensor.levels):
            given = [str(modes)] if not LEVELS[name].modes and (modes > 1 or "COO" in name) else []
            if name == "Workspace":
                policy = self.random.choice(("", "", ", coord", ", hash", ", bucket", ", hash, 2"))
                given = [f"{modes}{policy}"]
            if name in ("SparseList", "SparseCOO", "SparseHash") and self.chance(0.15):
                given.append(self.random.choice(("Int32", "Int16")))
            text = f"{name}{{{', '.join(given)}}}({text})" if given else f"{name}({text})"
        return text

    def places(self, takes: str, shape: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        """Coordinates of a fiber, in groups that share what is below them."""
        density = self.random.choice((0.0, 0.3, 0.5, 0.8, 1.0))
        all_of = list(itertools.product(*map(range, shape)))
        low, high = sorted(self.random.randint(0, len(all_of)) for _ in range(2))
        if takes in ("run", "first", "block", "one"):
            low = 0 if takes == "first" else low
            chosen = all_of[low : min(high, low + 1) if takes == "one" else high]
            return [chosen] if takes == "run" and chosen else [[c] for c in chosen]
        if takes == "runs":
            cuts = sorted({0, len(all_of), *(self.random.randint(0, len(all_of)) for _ in "ab")})
            runs = [all_of[a:b] for a, b in itertools.pairwise(cuts)]
            return [run for run in runs if self.chance(density)]
        if takes in ("<=", ">="):
            all_of = [c for c in all_of if (c[0] <= c[1]) == (takes == "<=") or c[0] == c[1]]
        return [[c] for c in all_of if self.chance(density)]

    def entries(
        self, levels: Levels, shape: tuple[int, ...], tensor: DrawnTensor
    ) -> dict[tuple[int, ...], str]:
        """The entries of a tensor: values by coordinates."""
        if not levels:
            return {(): "true" if tensor.type == "Bool" else self.value(tensor.type)}
        (name, modes), *rest = levels
        found: dict[tuple[int, ...], str] = {}
        for group in self.places(LEVELS[name].takes, shape[-modes:]):
            below = self.entries(tuple(rest), shape[:-modes], tensor)
            for own in group:
                found |= {at + own: value for at, value in below.items()}
                if name == "Symmetric":
                    found |= {at + own[::-1]: value for at, value in below.items()}
        return found

    def literal_of(
        self, tensor: DrawnTensor, shape: tuple[int, ...], is_empty: bool = False
    ) -> str:
        format = self.format(tensor)
        sizes = ", ".join(map(str, shape))
        found = {} if is_empty else self.entries(tensor.levels, shape, tensor)
        if not found or 0 in shape:
            return f"Tensor({format}, {sizes})"
        if len(shape) > 2 and float(tensor.fill == "false" or eval_zero(tensor.fill)):
            places = (f"[{', '.join(str(at[k] + 1) for at in found)}]" for k in range(len(shape)))
            values = f"[{', '.join(found.values())}]"
            return f"Tensor({format}, fsparse({', '.join(places)}, {values}, ({sizes})))"
        every = itertools.product(*(range(n) for n in reversed(shape)))
        flat = [found.get(at[::-1], tensor.fill) for at in every]
        if len(shape) == 1:
            return f"Tensor({format}, [{', '.join(flat)}])"
        if len(shape) == 2 and shape[1] > 1:
            rows = (" ".join(flat[i :: shape[0]]) for i in range(shape[0]))
            return f"Tensor({format}, [{'; '.join(rows)}])"
        return f"Tensor({format}, reshape([{', '.join(flat)}], {sizes}))"

    def new(
        self,
        dims: tuple[str, ...],
        output: bool = False,
        levels: Levels | None = None,
        is_plain: bool = False,
    ) -> DrawnTensor:
        """A new tensor of the script. A plain one has the main type of the kind, and its zero as the
        fill."""
        type, fill = self.element(output)
        if is_plain:
            type = TYPES[self.kind][0]
            fill = self.typed(float("inf") if self.kind == "minplus" else 0, type)
        tensor = DrawnTensor(next(self.names), dims, type, fill)
        shape = tuple(self.sizes[d] for d in dims)
        if not dims:
            kind = self.random.choice(SCALARS) if self.chance(0.4) else "Scalar"
            given = f"{fill}, {self.value(type)}"
            self.before.append(f"{tensor.name} = {kind}({given})")
        elif levels is None and self.chance(0.12) and len(dims) < 3 and 0 not in shape:
            tensor.levels = (("Dense", 1),) * len(dims)
            tensor.fill = self.typed(0, type)
            text = self.literal_of(tensor, shape)
            array = text.split(", ", 1)[1][:-1]  # the array literal alone, if it is one
            self.before.append(f"{tensor.name} = {array if array[0] in '[r' else text}")
        else:
            tensor.levels = self.levels(dims, output) if levels is None else levels
            self.before.append(f"{tensor.name} = {self.literal_of(tensor, shape)}")
        self.tensors.append(tensor)
        return tensor

    # ------------------------------------------------------------------------------------ expressions

    def written(self, table: tuple, nest: Nest, depth: int, kind: str = "") -> str:
        """A random row of a table, filled in."""
        letter = (kind or self.kind)[0]
        fit = [(weight, form) for kinds, weight, form in table if letter in kinds]
        form = self.random.choices([f for _, f in fit], [w for w, _ in fit])[0]
        return self.filled(form, nest, depth)

    def filled(self, form: str, nest: Nest, depth: int = 3) -> str:
        return re.sub(_TOKEN, lambda found: self.token(found[1], nest, depth), form)

    def token(self, token: str, nest: Nest, depth: int) -> str:
        match token:
            case "n":
                return self.expression(nest, depth - 1)
            case "n1" | "n3":
                return self.expression(nest, int(token[1]))
            case "b":
                return self.written(CONDITIONS, nest, depth - 1) if depth > 0 else "true"
            case "i":
                return self.random.choice(sorted(nest.indices)) if nest.indices else "2"
            case "a":
                return self.access(nest)
            case "l":
                return self.literal()
            case "k":
                return str(self.random.randint(1, 3))
        raise AssertionError(token)

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
            name, known = self.random.choice(self.functions)
            given = (self.expression(nest, depth - 1) for _ in range(known.count))
            return f"{name}({', '.join(given)})"
        return self.written(VALUES, nest, depth)

    def index_of(self, nest: Nest, dim: str) -> str:
        index = self.random.choice([i for i, d in nest.indices.items() if d == dim])
        nest.bound.add(index)
        return index

    def access(self, nest: Nest) -> str:
        """A read of a known or new tensor, sometimes through wrappers and shape operators."""
        if not nest.budget:
            return self.literal()
        nest.budget -= 1
        dims = sorted(set(nest.indices.values()))
        found = [t for t in self.tensors if set(t.dims) <= set(dims) and t.name not in nest.writes]
        if found and self.chance(0.5):
            tensor = self.random.choice(found)
        else:
            order = self.random.choices((0, 1, 2, 3), (1, 5, 5, 0.3))[0] if dims else 0
            own = tuple(self.random.choice(dims) for _ in range(order))
            if order and self.chance(0.2):
                return self.shaped(nest, own)
            tensor = self.new(own)
        zero = self.typed(self.random.randint(0, 1), tensor.type)
        if tensor.dims and self.chance(0.08):
            return f"coalesce({self.permitted(nest, tensor)}, {zero})"
        at = [self.mode(nest, d) for d in tensor.dims]
        if len(at) > 1 and self.chance(0.08):
            turned = self.random.sample(range(len(at)), len(at))
            modes = ", ".join(str(k + 1) for k in turned)
            places = ", ".join(at[turned.index(k)] for k in range(len(at)))
            return f"swizzle({tensor.name}, {modes})[{places}]"
        if at and self.chance(0.05):
            given = ", ".join(self.random.choice((*PROTOCOLS, "nothing")) for _ in at)
            return f"protocolize({tensor.name}, {given})[{', '.join(at)}]"
        return f"{tensor.name}[{', '.join(at)}]"

    def mode(self, nest: Nest, dim: str) -> str:
        """An index within a dimension: that of a loop, sometimes with a protocol, or a gathered one."""
        if self.chance(0.06) and self.sizes[dim]:
            over = self.random.choice(sorted(nest.indices.values()))
            if self.sizes[over]:
                return f"{self.places_in(dim, over)}[{self.index_of(nest, over)}]"
        index = self.index_of(nest, dim)
        return f"{self.random.choice(PROTOCOLS)}({index})" if self.chance(0.15) else index

    def places_in(self, dim: str, over: str) -> str:
        """A new vector over one dimension, of coordinates in another."""
        name = f"I{len(self.before)}"
        type = self.random.choice(("Int64", "Int32", "UInt8"))
        given = (
            self.typed(self.random.randint(1, self.sizes[dim]), type)
            for _ in range(self.sizes[over])
        )
        level = self.random.choice(("Dense", "SparseList", "SparseByteMap", "RunList"))
        self.before.append(
            f"{name} = Tensor({level}(Element({self.typed(1, type)})), [{', '.join(given)}])"
        )
        return name

    def permitted(self, nest: Nest, tensor: DrawnTensor) -> str:
        """An access that may be out of range, and is permissive."""
        indices = sorted(nest.indices)
        shifts = [self.random.randint(-2, 2) for _ in tensor.dims]
        at = [self.random.choice(indices) for _ in tensor.dims]
        form = self.random.randrange(4)
        name, every = tensor.name, ", ".join("true" for _ in at)
        if form == 0:
            moved = f"offset({name}, {', '.join(map(str, shifts))})"
            return f"permissive({moved}, {every})[{', '.join(at)}]"
        if form == 1:
            at.insert(0, self.random.choice(indices))
            return f"toeplitz(permissive({name}, {every}), 1)[{', '.join(at)}]"
        if form == 2:
            at[0] = f"({at[0]} + {self.random.choice(indices)})"
        moves = (f"+ {n}" if n >= 0 else f"- {-n}" for n in shifts)
        return f"{name}[{', '.join(f'~({i} {d})' for i, d in zip(at, moves, strict=True))}]"

    def shaped(self, nest: Nest, dims: tuple[str, ...]) -> str:
        """A read through shape operators and slices, of tensors with the sizes that these need."""
        text = around(self, tuple(self.sizes[d] for d in dims), self.random.choice((1, 1, 2, 3)))
        return f"{text}[{', '.join(self.index_of(nest, d) for d in dims)}]"

    def leaf(self, sizes: tuple[int, ...]) -> str:
        names = {f"d{n}": n for n in sizes}
        self.sizes |= names
        known = self.new(tuple(f"d{n}" for n in sizes))
        self.tensors.remove(known)
        return known.name


def eval_zero(fill: str) -> bool:
    return fill.split("(")[-1].rstrip(")") in ("0", "0.0")
