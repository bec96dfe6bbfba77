"""Random kernels that read and write through shape operators, nested up to four deep.

`generate_shapes(seed)` gives a `Case` as `generate` does, whose tensors are mostly results of operators
around tensors of the sizes that these need: each is made from the sizes it is to have, inwards.
"""

from __future__ import annotations

from math import prod

if __package__:
    from tests.generate import Generator
    from tests.generate_access import PROTOCOLS, Known, Nest
    from tests.generate_data import Case, typed_text
else:
    from generate import Generator
    from generate_access import PROTOCOLS, Known, Nest
    from generate_data import Case, typed_text

from finchlang.types import Type

Sizes = tuple[int, ...]
#: the most modes a tensor within operators has, and the most elements
ORDER, ELEMENTS = 4, 150
READ = (
    *("collapse", "split", "concat", "slice", "broadcast") * 3,
    *(
        "reshape",
        "flatten",
        "vec",
        "vcat",
        "hcat",
        "cat",
        "stack",
        "block",
        "repeat",
        "tile",
        "roll",
    ),
    *("flip", "expand_dims", "squeeze", "permute_dims", "diagonal", "kron", "tril", "triu"),
    *("swizzle", "window", "protocolize", "formula", "formula"),
)
#: those that what is written goes through to one element
WRITTEN = (
    *("split", "split", "concat", "collapse", "slice"),
    *("reshape", "roll", "flip", "permute_dims", "swizzle", "window"),
)


class ShapeGenerator(Generator):
    def __init__(self, seed: int):
        super().__init__(seed)
        sizes = self.random.choices((0, 1, 2, 3, 4, 6, 8), (1, 2, 2, 2, 5, 5, 2), k=3)
        self.sizes = dict(zip("mnp", sizes, strict=True))
        self.lets: list[str] = []  # the formulas of this statement
        self.formulas = 0  # names given to formulas
        self.targets: list[Known] | None = None  # what is written, while a target is made

    # ------------------------------------------------------------------ tensors within operators

    def shaped(self, sizes: Sizes, depth: int, type: Type) -> str:
        """A tensor of these sizes, within so many operators, or fewer."""
        for _ in range(8 if depth else 0):
            form = self.random.choice(READ if self.targets is None else WRITTEN)
            text = getattr(self, f"a_{form}")(sizes, depth - 1, type)
            if text:
                return text
        return self.leaf(sizes, type)

    def leaf(self, sizes: Sizes, type: Type) -> str:
        """A tensor; a target is declared, or updated in place."""
        name = next(self.names)
        level = self.format(tuple(map(str, sizes)), type)
        self.data[name] = self.tensor(level, sizes, type)
        known = self.known[name] = Known(name, (), level, type, True, usable=False)
        if self.targets is not None:
            self.targets.append(known)
        return name

    def inner(self, sizes: Sizes, depth: int, type: Type) -> str:
        """A tensor within an operator; nothing if it would be too large."""
        if len(sizes) > ORDER or not sizes or prod(sizes) > ELEMENTS:
            return ""
        return self.shaped(sizes, depth, type)

    def around(self, name: str, inner: str, *settings: object) -> str:
        return f"{name}({', '.join((inner, *map(str, settings)))})" if inner else ""

    def number(self, n: int) -> str:
        """A size: a literal, a number of the script, or a sum."""
        form = self.random.random()
        if form < 0.7:
            return str(n)
        if form < 0.85:
            name = f"n{len(self.data)}"
            self.data[name] = n
            return name
        return f"{n + 1} - 1"

    def a_collapse(self, sizes: Sizes, depth: int, type: Type) -> str:
        k, size = self.one(sizes)
        fast = self.random.choice([f for f in range(1, size + 1) if size % f == 0] or [0, 2])
        slow = size // fast if fast else self.random.randint(0, 2)
        other = self.random.randint(k + 1, len(sizes))
        first, second = (k, other) if self.chance(0.6) else (other, k)
        inner = list(sizes)
        inner.insert(other, 0)
        inner[first], inner[second] = fast, slow
        text = self.inner(tuple(inner), depth, type)
        return self.around("collapse", text, first + 1, second + 1)

    def a_split(self, sizes: Sizes, depth: int, type: Type) -> str:
        if len(sizes) < 2:
            return ""
        k = self.random.randrange(len(sizes) - 1)
        is_slow_first = self.chance(0.4)
        fast = sizes[k + is_slow_first]
        if not fast:
            return ""
        text = self.inner((*sizes[:k], sizes[k] * sizes[k + 1], *sizes[k + 2 :]), depth, type)
        last = ("true",) if is_slow_first else ("false",) if self.chance(0.1) else ()
        return self.around("split", text, k + 1, self.number(fast), *last)

    def parts(self, sizes: Sizes, k: int, depth: int, type: Type) -> list[str]:
        """Tensors that make one of these sizes, one after the other along mode k, of any types."""
        cuts = sorted(
            self.random.randint(0, sizes[k]) for _ in range(self.random.choice((1, 1, 2)))
        )
        ends = [0, *cuts, sizes[k]]
        made = []
        for start, stop in zip(ends, ends[1:], strict=False):
            own = self.pick_type(self.targets is not None) if self.chance(0.3) else type
            made.append(self.inner((*sizes[:k], stop - start, *sizes[k + 1 :]), depth, own))
        return made if all(made) else []

    def joined(self, name: str, parts: list[str], *settings: object) -> str:
        return f"{name}({', '.join((*map(str, settings), *parts))})" if parts else ""

    def a_concat(self, sizes: Sizes, depth: int, type: Type, name: str = "concat") -> str:
        k, _ = self.one(sizes)
        return self.joined(name, self.parts(sizes, k, depth, type), k + 1)

    def a_cat(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.a_concat(sizes, depth, type, "cat")

    def a_vcat(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.joined("vcat", self.parts(sizes, 0, depth, type))

    def a_hcat(self, sizes: Sizes, depth: int, type: Type) -> str:
        if len(sizes) == 2 and sizes[1] in (1, 2, 3) and self.chance(0.5):
            columns = [self.inner(sizes[:1], depth, type) for _ in range(sizes[1])]
            return self.joined("hcat", columns if all(columns) else [])
        return self.joined("hcat", self.parts(sizes, 1, depth, type) if len(sizes) > 1 else [])

    def a_stack(self, sizes: Sizes, depth: int, type: Type) -> str:
        k, size = self.one(sizes)
        if len(sizes) < 2 or size not in (1, 2, 3):
            return ""
        parts = [self.inner((*sizes[:k], *sizes[k + 1 :]), depth, type) for _ in range(size)]
        return self.joined("stack", parts if all(parts) else [], k + 1)

    def a_block(self, sizes: Sizes, depth: int, type: Type) -> str:
        if len(sizes) != 2 or depth > 1:
            return ""
        rows, columns = (self.random.randint(0, n) for n in sizes)
        heights, widths = (rows, sizes[0] - rows), (columns, sizes[1] - columns)
        parts = [self.inner((h, w), depth, type) for h in heights for w in widths]
        return self.joined("block", parts if all(parts) else [], 2)

    def a_slice(self, sizes: Sizes, depth: int, type: Type, name: str = "slice") -> str:
        k, size = self.one(sizes)
        first, step = self.random.randint(1, 3), self.random.choice((1, 1, 1, 2, 3, -1, -2))
        last = first + abs(step) * max(size - 1, 0)
        text = self.inner(
            (*sizes[:k], last + self.random.randint(0, 2), *sizes[k + 1 :]), depth, type
        )
        ends = f"{first}:{first - 1}" if not size else f"{self.number(first)}:{last}"
        if size and step != 1:
            ends = f"{first}:{step}:{last}" if step > 0 else f"{last}:{step}:{first}"
        if name == "window":
            settings = ["nothing"] * len(sizes)
            settings[k] = ends
            return self.around("window", text, *settings)
        return self.around("slice", text, k + 1, ends)

    def a_window(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.a_slice(sizes, depth, type, "window")

    def a_broadcast(self, sizes: Sizes, depth: int, type: Type) -> str:
        k, size = self.one(sizes)
        text = self.inner((*sizes[:k], *sizes[k + 1 :]), depth, type)
        return self.around("broadcast", text, k + 1, self.number(size))

    def a_expand_dims(self, sizes: Sizes, depth: int, type: Type) -> str:
        k, size = self.one(sizes)
        text = self.inner((*sizes[:k], *sizes[k + 1 :]), depth, type) if size == 1 else ""
        return self.around("expand_dims", text, k + 1)

    def a_squeeze(self, sizes: Sizes, depth: int, type: Type) -> str:
        k = self.random.randint(0, len(sizes))
        return self.around("squeeze", self.inner((*sizes[:k], 1, *sizes[k:]), depth, type), k + 1)

    def a_reshape(self, sizes: Sizes, depth: int, type: Type) -> str:
        left, inner = prod(sizes), []
        while len(inner) < self.random.randint(1, 3) - 1:
            inner.append(
                self.random.choice([n for n in range(1, left + 1) if left % n == 0] or [1])
            )
            left //= inner[-1]
        self.random.shuffle(inner := [*inner, left])
        shown = list(map(self.number, sizes))
        k, _ = self.one(sizes)
        if prod(sizes) and self.chance(0.4):
            shown[k] = "-1"
        return self.around("reshape", self.inner(tuple(inner), depth, type), *shown)

    def a_flatten(self, sizes: Sizes, depth: int, type: Type) -> str:
        text = self.a_reshape(sizes, depth, type) if len(sizes) == 1 else ""
        return f"flatten({text[8:].rsplit(', ', 1)[0]})" if text else ""

    def a_vec(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.a_flatten(sizes, depth, type).replace("flatten", "vec", 1)

    def a_repeat(self, sizes: Sizes, depth: int, type: Type, name: str = "repeat") -> str:
        k, size = self.one(sizes)
        times = self.random.choice([t for t in (1, 2, 3, 4) if size % t == 0] or [1])
        text = self.inner((*sizes[:k], size // times, *sizes[k + 1 :]), depth, type)
        return self.around(name, text, k + 1, self.number(times))

    def a_tile(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.a_repeat(sizes, depth, type, "tile")

    def a_roll(self, sizes: Sizes, depth: int, type: Type) -> str:
        k, _ = self.one(sizes)
        return self.around(
            "roll", self.inner(sizes, depth, type), k + 1, self.random.randint(-4, 4)
        )

    def a_flip(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.around("flip", self.inner(sizes, depth, type), self.one(sizes)[0] + 1)

    def a_permute_dims(self, sizes: Sizes, depth: int, type: Type) -> str:
        order = self.permutation(len(sizes))
        inner = [sizes[order.index(k + 1)] for k in range(len(sizes))]
        return self.around("permute_dims", self.inner(tuple(inner), depth, type), *order)

    def a_swizzle(self, sizes: Sizes, depth: int, type: Type) -> str:
        order = self.permutation(len(sizes))
        inner = tuple(sizes[p - 1] for p in order)
        return self.around("swizzle", self.inner(inner, depth, type), *order)

    def a_protocolize(self, sizes: Sizes, depth: int, type: Type) -> str:
        settings = [self.random.choice((*PROTOCOLS, "nothing")) for _ in sizes]
        return self.around("protocolize", self.inner(sizes, depth, type), *settings)

    def a_diagonal(self, sizes: Sizes, depth: int, type: Type) -> str:
        inner = list(sizes[:-1])
        both = sorted(self.random.sample(range(len(sizes) + 1), 2))
        longer = self.random.sample((0, self.random.randint(0, 2)), 2)
        for k, more in zip(both, longer, strict=True):
            inner.insert(k, sizes[-1] + more)
        first, second = self.random.sample([k + 1 for k in both], 2)
        text = self.inner(tuple(inner), depth, type)
        named = () if len(inner) == 2 and self.chance(0.5) else (first, second)
        return self.around("diagonal", text, *named)

    def a_kron(self, sizes: Sizes, depth: int, type: Type) -> str:
        if self.kind == "bool":
            return ""
        fast = [
            self.random.choice([f for f in range(1, n + 1) if n % f == 0] or [2]) for n in sizes
        ]
        slow = [n // f for n, f in zip(sizes, fast, strict=True)]
        parts = [self.inner(tuple(part), min(depth, 1), type) for part in (slow, fast)]
        return self.joined("kron", parts if all(parts) else [])

    def a_tril(self, sizes: Sizes, depth: int, type: Type, name: str = "tril") -> str:
        above = (self.random.randint(-2, 2),) if self.chance(0.5) else ()
        return self.around(name, self.inner(sizes, depth, type) if len(sizes) == 2 else "", *above)

    def a_triu(self, sizes: Sizes, depth: int, type: Type) -> str:
        return self.a_tril(sizes, depth, type, "triu")

    def a_formula(self, sizes: Sizes, depth: int, type: Type) -> str:
        """An expression of its own indices, by name."""
        if len(sizes) > 3 or len(self.lets) > 1:
            return ""
        self.formulas += 1
        name, own = f"T{self.formulas}", "xyz"[: len(sizes)]

        def read() -> str:
            order = self.permutation(len(sizes))
            tensor = self.inner(tuple(sizes[p - 1] for p in order), depth, type)
            return f"{tensor}[{', '.join(own[p - 1] for p in order)}]" if tensor else ""

        value = read()
        if not value:
            return ""
        form = self.random.random()
        joins = {"bool": "|", "minplus": "+"}
        if form < 0.4 and (other := read()):
            value = f"{value} {joins.get(self.kind, self.random.choice('*+'))} {other}"
        elif form < 0.6:
            x, _ = self.one(sizes)
            vector = self.inner(sizes[x : x + 1], 0, type)
            value = f"{value} {joins.get(self.kind, self.random.choice('*-'))} {vector}[{own[x]}]"
        elif form < 0.7 and self.kind in ("int", "float"):
            value = f"{value} * {own[0]}"
        elif form < 0.8 and len(sizes) > 1:
            zero = {"bool": "false", "minplus": "Inf"}.get(self.kind, "0")
            value = f"ifelse({own[0]} <= {own[1]}, {value}, {zero})"
        self.lets.append(f"let {name}[{', '.join(own)}] = {value}")
        return name

    def one(self, sizes: Sizes) -> tuple[int, int]:
        k = self.random.randrange(len(sizes))
        return k, sizes[k]

    def permutation(self, order: int) -> list[int]:
        return self.random.sample(range(1, order + 1), order)

    # ------------------------------------------------------------------ what reads and writes them

    def access(self, nest: Nest, alone: bool = False) -> str:
        if not nest.budget or not nest.indices or self.chance(0.25):
            return super().access(nest, alone)
        nest.budget -= 1
        order = self.random.choices((1, 2, 3), (5, 5, 1))[0]
        dims = [self.random.choice(sorted(nest.indices.values())) for _ in range(order)]
        before = len(self.known)
        depth = self.random.choices((1, 2, 3, 4), (5, 4, 2, 1))[0]
        type = self.pick_type(False)
        text = self.shaped(tuple(self.sizes[d] for d in dims), depth, type)
        types, bound = {k.type for k in list(self.known.values())[before:]}, set(nest.bound)
        indices = [self.mode(nest, None, d) for d in dims]
        text = f"{text}[{', '.join(indices)}]"
        if not any("~" in i for i in indices):
            return text
        if (
            len(types) > 1 or "formula" in text or "kron" in text
        ):  # what type it has is another's test
            nest.bound = bound
            return self.literal()
        return (
            f"coalesce({text}, {'false' if type.kind == 'bool' else f'{type}({self.literal()})'})"
        )

    def copied(self) -> list[str]:
        """What operators make, perhaps with something else, to a tensor of its own, or reduced."""
        nest = self.nest(fewest=1)
        order = sorted(nest.indices)[: self.random.choice((1, 1, 2, 2, 3))]
        nest = Nest({i: nest.indices[i] for i in order})
        dims = tuple(nest.indices[i] for i in order)
        depth, type = self.random.choices((1, 2, 3, 4), (4, 4, 2, 1))[0], self.pick_type(False)
        text = self.shaped(tuple(self.sizes[d] for d in dims), depth, type)
        indices = [self.index_of(nest, d) for d in dims]
        indices = [
            f"{self.random.choice(PROTOCOLS)}({i})" if self.chance(0.2) else i for i in indices
        ]
        value = f"{text}[{', '.join(indices)}]"
        if self.chance(0.5):
            sign = {"bool": "&", "minplus": "+"}.get(self.kind, self.random.choice("**+"))
            value = f"{value} {sign} {self.expression(nest, 1)}"
        known = self.new(dims if self.chance(0.7) else (), output=True, stale=True)
        sign = nest.writes[known.name] = "=" if known.dims else self.operator(known, nest)
        if known.type.kind == "bool" and self.kind != "bool":
            value = f"{value} != 1"
        at = order if known.dims else []
        if self.chance(0.1):
            self.random.shuffle(order)
        line = self.sieved(nest, f"{known.name}[{', '.join(at)}] {sign} {value}")
        return [*self.declared(known, known.dims), *self.loops(nest, order[::-1], [line])]

    def through_operators(self) -> list[str]:
        """An assignment through operators to one or more tensors."""
        nest = self.nest(fewest=1)
        count = min(len(nest.indices), self.random.choice((1, 2, 2, 3)))
        indices = self.random.sample(sorted(nest.indices), count)
        if self.chance(0.8):
            nest = Nest({i: nest.indices[i] for i in indices})
        type, self.targets = self.pick_type(True), []
        depth = self.random.choices((1, 2, 3, 4), (6, 3, 2, 1))[0]
        target = self.shaped(tuple(self.sizes[nest.indices[i]] for i in indices), depth, type)
        written, self.targets = self.targets, None
        nest.bound.update(indices)
        nest.writes |= dict.fromkeys((k.name for k in written), "=")
        sign = self.operator(Known("", (), None, type, True), Nest(nest.indices))
        if len({k.type for k in written}) > 1 or self.chance(0.4):
            sign = "="
        value = self.expression(nest)
        if any(k.type.kind == "bool" for k in written) and self.kind != "bool":
            value = self.condition(nest)
        order = indices[::-1] + [i for i in nest.indices if i not in indices]
        if self.chance(0.1):
            self.random.shuffle(order)
        before = [self.declaration(k) for k in written if k.is_sequential or self.chance(0.6)]
        return [
            *before,
            *self.loops(nest, order, [f"{target}[{', '.join(indices)}] {sign} {value}"]),
        ]

    def declaration(self, known: Known) -> str:
        extents = ", ".join(f"1:{n}" for n in self.data[known.name].shape)
        return f"@declare({known.name}, {typed_text(known.level.fill.value)}, {extents})"

    def statement(self) -> list[str]:
        self.lets = []
        form = self.random.random()
        make = super().statement
        if form < 0.75:
            make = self.copied if form < 0.45 else self.through_operators
        lines = make()
        return [*self.lets, *lines, *["end"] * len(self.lets)]


def generate_shapes(seed: int) -> Case:
    """The program and data that belong to `seed`."""
    generator = ShapeGenerator(seed)
    lines = ["\n".join(generator.statement()) for _ in range(generator.random.choice((1, 1, 1, 2)))]
    text = "\n".join(lines)
    return Case(tuple(lines), {n: v for n, v in generator.data.items() if n in text})
