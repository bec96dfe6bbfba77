"""Random well-formed kernels together with tensors to run them on.

`generate(seed)` gives a `Case`: the top-level statements of one kernel, and what its free names are
bound to. Programs keep to what the language allows (indices that gather are in range), and data is
finite, apart from infinite fills in programs over `min`, `max` and `+`. Numbers are small whole
ones, so that sums are exact. Formats that are written in order are mostly written in order;
with `any_order` they are written in any, by way of workspaces.
"""

from __future__ import annotations

import itertools

if __package__:
    from tests.generate_access import AccessGenerator, Known, Nest
    from tests.generate_data import OF_TWO_MODES, Case, typed_text
    from tests.generate_functions import Function, FunctionGenerator
else:
    from generate_access import AccessGenerator, Known, Nest
    from generate_data import OF_TWO_MODES, Case, typed_text
    from generate_functions import Function, FunctionGenerator

from finchlang.types import TYPES, Type

LETTERS = "ijkl"
#: what workspaces are to have: nothing of the kind, or a policy ("": any) and a capacity (0: any)
POLICIES = (None, *itertools.product(("", "coord", "hash", "bucket", "flags"), (0, 1, 2, 3)))


class Generator(AccessGenerator):
    def __init__(self, seed: int, any_order: bool = False, functions: bool = False):
        super().__init__(seed)
        self.any_order = any_order
        if functions:
            self.made = FunctionGenerator(seed, self.kind)
            self.functions, self.often_zero = self.made.functions(), 0.5
        self.regional: list[Function] = []

    # ------------------------------------------------------------------ statements

    def operator(self, known: Known, nest: Nest) -> str:
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
        elif self.kind != "bool" or known.type.kind == "bool":
            signs += 4 * tuple(f"<<{f.name}>>=" for f in self.functions if f.count == 2)
        sign = self.random.choice(("=", "=", ":=", *signs, *signs))
        nest.writes[known.name] = sign
        return sign

    def output(self, nest: Nest, order: int | None = None) -> tuple[list[str], Known, list[str]]:
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
        old = [k for k in old if not self.stored_half(k) or dims == k.dims]  # which are square
        if old and self.chance(0.35):
            known = self.random.choice(old)
            again = 0.3 if self.any_order else 0.95
            if known.dims == dims and not (known.declared and known.written and self.chance(again)):
                return [], known, indices
            return self.declared(known, dims), known, indices
        declare = self.chance(0.9 if self.any_order else 0.7)
        known = self.new(dims, output=True, stale=declare)
        return (self.declared(known, dims) if declare else []), known, indices

    def is_output(self, type: Type) -> bool:
        """Whether what this kind of program computes can be kept as `type`."""
        return type.is_float or self.kind not in ("float", "minplus")

    def declared(self, known: Known, dims: tuple[str, ...]) -> list[str]:
        """The declaration of a tensor that will be written over `dims`."""
        known.dims, known.declared, known.written = dims, True, False
        if self.functions and self.chance(0.15):
            return [f"{known.name} .= _"]
        fill = typed_text(known.level.fill.value)
        dense = all(lv.is_dense or lv.is_leaf for lv in known.level.levels())
        if dense and self.chance(0.1) and known.type.kind != "bool":
            fill = str(abs(self.value(TYPES["Int64"])))
        return [f"{known.name} .= {fill}"]

    def assignment(
        self, nest: Nest, known: Known, indices: list[str], value: str | None = None
    ) -> str:
        sign = self.operator(known, nest)
        if value is None:
            value = self.expression(nest)
            if known.type.kind == "bool" and self.kind != "bool":
                value = self.condition(nest)
        known.written = True
        line = f"{known.name}[{', '.join(indices)}] {sign} {value}"
        sign = self.stored_half(known)
        if sign and self.chance(0.9):
            return f"if {indices[0]} {sign} {indices[1]}\n{line}\nend"
        return line

    def stored_half(self, known: Known) -> str:
        """How the first two indices compare where a packed level is written; nothing for others."""
        value = self.data[known.name]
        kinds = {type(lv).__name__ for lv in known.level.levels()}
        sign = "<=" if kinds & {"UpperTriangular", "Symmetric"} else ">="
        if not kinds & set(OF_TWO_MODES) or len(known.dims) != 2:
            return ""
        is_swizzled = getattr(value, "permutation", (1, 2)) != (1, 2)
        return {"<=": ">=", ">=": "<="}[sign] if is_swizzled else sign

    def loops(self, nest: Nest, order: list[str], body: list[str]) -> list[str]:
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

    def order_of(self, nest: Nest, written: list[list[str]]) -> list[str]:
        """The loops' order: what tensors that are written in order need, most of the time."""
        rest = sorted(nest.indices)
        self.random.shuffle(rest)
        if not written or self.any_order or self.chance(0.02):
            return rest
        first = list(dict.fromkeys(written[0]))[::-1]
        return [*first, *(i for i in rest if i not in first)]

    def nest(self, fewest: int = 0) -> Nest:
        count = max(fewest, self.random.choices((0, 1, 2, 3, 4), (1, 7, 8, 1.5, 0.1))[0])
        nest = Nest({i: self.random.choice("mnp") for i in LETTERS[:count]})
        nest.budget = self.random.choices((1, 2, 3), (4, 5, 0.7))[0]
        return nest

    def statement(self) -> list[str]:
        form = self.random.random()
        if self.functions and self.chance(0.2):
            return self.in_a_region()
        if form < 0.1:
            return self.through_workspace()
        if form < 0.18:
            return self.through_scalar()
        if form < 0.26:
            return self.scatter()
        if form < 0.29:
            return self.into_a_part()
        return self.plain()

    def plain(self) -> list[str]:
        """A loop nest with one or more assignments."""
        nest = self.nest()
        before, known, indices = self.output(nest)
        targets = [(known, indices)]
        nest.writes[known.name] = self.operator(known, nest)
        if self.chance(0.25):
            more, second, at = self.output(nest, 0 if self.chance(0.5) else None)
            if (
                second.is_sequential and not self.any_order
            ):  # it may have been given dimensions that it never gets
                del self.known[second.name]
            else:
                before += more
                targets.append((second, at))
                self.operator(second, nest)
        body = self.body(nest, targets)
        ordered = [at for known, at in targets if known.is_sequential and known.declared]
        return [*before, *self.loops(nest, self.order_of(nest, ordered), body)]

    def body(self, nest: Nest, targets: list[tuple[Known, list[str]]]) -> list[str]:
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

    def sieved(self, nest: Nest, line: str) -> str:
        if self.chance(0.2):
            return f"if {self.condition(nest)}\n{line}\nend"
        return line

    def in_a_region(self) -> list[str]:
        """A function whose region goes by the fills of its operands, which they have."""
        nest = self.nest(fewest=1)
        function, known = self.made.regional(f"g{len(self.regional) + 1}")
        self.regional.append(function)
        args = [self.of_fill(nest, fill) for fill in known.fills]
        value = f"{function.name}({', '.join(args)})"
        if self.chance(0.25):
            signs = {"bool": "&|", "minplus": "+"}.get(self.kind, "+*")
            value = f"{value} {self.random.choice(signs)} {self.access(nest)}"
        before, target, at = self.output(nest)
        if before and self.chance(0.5):
            before = [f"{target.name} .= _"]
        if target.type.kind == "bool" and self.kind != "bool":
            value = f"{value} != {self.literal()}"
        if self.chance(0.7):
            nest.writes[target.name] = "="
        if not target.declared:
            nest.bound.update(at)
        line = self.assignment(nest, target, at, value)
        ordered = [at] if target.is_sequential and target.declared else []
        return [*before, *self.loops(nest, self.order_of(nest, ordered), [line])]

    def of_fill(self, nest: Nest, fill: str) -> str:
        """An access of a new tensor of this fill."""
        dims = sorted(set(nest.indices.values()))
        dims = [self.random.choice(dims) for _ in range(self.random.choice((1, 1, 2)))]
        self.only_fill = fill == "true" if self.kind == "bool" else float(fill)
        known, self.only_fill = self.new(tuple(dims)), None
        nest.reads.add(known.name)
        return f"{known.name}[{', '.join(self.index_of(nest, d) for d in known.dims)}]"

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
        order = [*inner, i] if self.any_order or not work.is_sequential else [i, *inner]
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

    def into_a_part(self) -> list[str]:
        """An update of a window or slice of a tensor."""
        nest = self.nest(fewest=1)
        target = self.cut(nest, output=True)
        value = self.expression(nest)
        name = next(n for n in nest.writes)
        if self.known[name].type.kind == "bool" and self.kind != "bool":
            value = self.condition(nest)
        sign = self.operator(self.known[name], Nest({}))
        order = sorted(nest.indices)
        self.random.shuffle(order)
        return self.loops(nest, order, [f"{target} {sign} {value}"])

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
        if self.chance(0.4) and (self.any_order or not known.is_sequential):
            fill = typed_text(known.level.fill.value)
            before = [f"@declare({known.name}, {fill}, 1:{self.sizes[dim]})"]
        line = self.assignment(nest, known, [place])
        order = sorted(nest.indices)
        self.random.shuffle(order)
        return [*before, *self.loops(nest, order, [line])]


def generate(seed: int, any_order: bool = False, functions: bool = False) -> Case:
    """The program and data that belong to `seed`; with `functions` it calls some of its own."""
    generator = Generator(seed, any_order, functions)
    lines: list[str] = []
    count = generator.random.choices((1, 2, 3), (8, 3, 0.5))[0]
    for _ in range(count):
        lines.append("\n".join(generator.statement()))
    used = {n: v for n, v in generator.data.items() if any(n in line for line in lines)}
    policy = POLICIES[seed % len(POLICIES)] if any_order else None
    made = (*generator.functions, *generator.regional)
    return Case(tuple(lines), used, policy, tuple(f.text for f in made))
