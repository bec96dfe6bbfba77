"""Random statements of kernels: each form is a method, with how often it comes in FORMS."""

from __future__ import annotations

from finchlang.testing.generate import LETTERS, Levels, Maker, Nest, Tensor
from finchlang.testing.grammar import FUNCTIONS, LEVELS, ROUNDED, SIGNS, TYPES

#: statements of a kernel, and of the script, with how often they come
FORMS = {
    **{"plain": 8, "merge": 3, "through_workspace": 1.5, "through_scalar": 1.5, "scatter": 1.5},
    **{"into_part": 1, "early": 1, "pairs": 0.7, "formula": 1, "region": 1.2, "stencil": 0.7},
}


class Writer(Maker):
    """Writes statements."""

    def nest(self, fewest: int = 0, most: int = 4, budget: int = 0) -> Nest:
        weights = (1, 7, 8, 1.5, 0.2)[fewest : most + 1]
        count = self.random.choices(range(fewest, most + 1), weights)[0]
        nest = Nest({i: self.random.choice("mnp") for i in LETTERS[:count]})
        nest.budget = budget or self.random.choices((1, 2, 3), (4, 5, 0.7))[0]
        return nest

    def loops(self, nest: Nest, order: list[str], body: list[str]) -> list[str]:
        """`body` in loops, outermost first."""
        if not order:
            return body
        heads = []
        for index in order:
            is_found = index in nest.bound and self.chance(0.9)
            heads.append(f"{index} = {'_' if is_found else f'1:{self.sizes[nest.indices[index]]}'}")
        if self.chance(0.5):
            return [f"for {', '.join(heads)}", *body, "end"]
        return [*(f"for {h}" for h in heads), *body, *["end"] * len(heads)]

    def order(self, nest: Nest, at: list[str]) -> list[str]:
        """Loops' order: mostly the one in which a target is stored."""
        rest = [i for i in nest.indices if i not in at]
        self.random.shuffle(rest)
        found = [*dict.fromkeys(at[::-1]), *rest]
        if self.chance(0.25):
            self.random.shuffle(found)
        return found

    def declared(self, target: Tensor) -> list[str]:
        sizes = ", ".join(f"1:{self.sizes[d]}" for d in target.dims)
        forms = [f"{target.name} .= {target.fill}"] * 6
        if target.dims:
            forms.append(f"@declare({target.name}, {target.fill}, {sizes})")
            if target.fill.isdigit():
                forms.append(f"{target.name} := {target.fill}({sizes})")
        return [self.random.choice(forms)]

    def target(self, nest: Nest, most: int = 3) -> tuple[list[str], Tensor, list[str]]:
        """A tensor to write, with its declaration if it is to have one, and the indices to write it at."""
        count = min(self.random.choices((0, 1, 2, 3), (3, 5, 6, 0.7))[0], most, len(nest.indices))
        at = self.random.sample(sorted(nest.indices), count)
        tensor = self.new(tuple(nest.indices[i] for i in at), output=True)
        nest.writes.add(tensor.name)
        if self.chance(0.7):
            return self.declared(tensor), tensor, at
        nest.bound.update(at)
        return [], tensor, at

    def sign(self, reduces: bool = False) -> str:
        table = [(w, s) for kinds, w, s in SIGNS if self.kind[0] in kinds and "/" not in s]
        if self.functions and self.functions[0][1].count == 2:
            table.append((1.5, f"<<{self.functions[0][0]}>>="))
        found = self.random.choices([s for _, s in table], [w for w, _ in table])[0]
        return self.sign(True) if reduces and found in ("=", ":=") else found

    def assigned(
        self, nest: Nest, target: Tensor, at: list[str], value: str = "", sign: str = ""
    ) -> list[str]:
        if not value and self.kind == "float" and self.chance(0.1):
            form = self.random.choice(ROUNDED).replace("{n}", "Float64({n})")
            value, sign = self.filled(form, nest, 1), "="
            self.tensors = [t for t in self.tensors if t is not target]  # rounded, so read no more
        line = (
            f"{target.name}[{', '.join(at)}] {sign or self.sign()} {value or self.expression(nest)}"
        )
        half = target.half
        if half and self.chance(0.97):
            return [f"if {half.format(*at)}", line, "end"]
        return [line]

    def plain(self) -> list[str]:
        """A loop nest with one or two targets, conditions and names."""
        nest = self.nest()
        before, target, at = self.target(nest)
        name = f"u{len(self.before)}" if self.chance(0.15) else ""
        named = [f"let {name} = {self.expression(nest, 1)}"] if name else []
        nest.lets = [name] if name else []
        body = self.conditional(nest, self.assigned(nest, target, at))
        if self.chance(0.25):
            more, second, where = self.target(nest)
            before += more
            body += self.conditional(nest, self.assigned(nest, second, where))
        body = [*named, *body, *["end"] * len(named)]
        after = [f"@freeze({target.name})"] if before and self.chance(0.08) else []
        if after and self.chance(0.5):
            after += [f"@thaw({target.name})"]
        return [*before, *self.loops(nest, self.order(nest, at), body), *after]

    def conditional(self, nest: Nest, lines: list[str]) -> list[str]:
        if not self.chance(0.25):
            return lines
        found = [f"if {self.filled('{b}', nest, 2)}", *lines]
        if self.chance(0.2):
            found += [f"elseif {self.filled('{b}', nest, 2)}", *lines]
        return [*found, *(["else", *lines] if self.chance(0.2) else []), "end"]

    def merge(self) -> list[str]:
        """Many operands that meet in one loop."""
        nest = self.nest(1, 1, budget=self.random.choice((3, 4)))
        before, target, at = self.target(nest, 1)
        value = self.expression(nest, 3)
        return [*before, *self.loops(nest, ["i"], self.assigned(nest, target, at, value))]

    def through_workspace(self) -> list[str]:
        """A column at a time through a tensor that is declared in the loop."""
        nest = self.nest(2, 3)
        j, i, *inner = sorted(nest.indices)
        work, known = (
            self.new(tuple(nest.indices[x] for x in of), output=True) for of in (i, (i, j))
        )
        self.tensors.remove(work)
        nest.writes |= {work.name, known.name}
        body = self.assigned(nest, work, [i])
        fill = [f"{work.name} .= {work.fill}", *self.loops(nest, [*inner, i], body)]
        nest.bound.add(i)
        keep = self.assigned(nest, known, [i, j], f"{work.name}[{i}]", "=")
        return [
            *self.declared(known),
            *self.loops(nest, [j], [*fill, *self.loops(nest, [i], keep)]),
        ]

    def through_scalar(self) -> list[str]:
        """A scalar that is declared in the outer loop and reduced into in the inner ones."""
        nest = self.nest(2, 3)
        j, *inner = sorted(nest.indices)
        total, known = self.new((), output=True), self.new((nest.indices[j],), output=True)
        self.tensors.remove(total)
        nest.writes |= {total.name, known.name}
        reduce = self.loops(nest, inner, self.assigned(nest, total, [], "", self.sign(True)))
        keep = self.assigned(nest, known, [j], f"{total.name}[]", "=")
        start = f"{total.name} .= {total.fill}"
        return [*self.declared(known), *self.loops(nest, [j], [start, *reduce, *keep])]

    def scatter(self) -> list[str]:
        """`y[I[i]] op= e`."""
        nest = self.nest(1, 2)
        dim, over = self.random.choice("mnp"), nest.indices["i"]
        if not self.sizes[dim] or not self.sizes[over]:
            return self.plain()
        known = self.new((dim,), output=True)
        nest.writes.add(known.name)
        nest.bound.add("i")
        line = self.assigned(nest, known, [f"{self.places_in(dim, over)}[i]"], "", self.sign(True))
        before = [f"@declare({known.name}, {known.fill}, 1:{self.sizes[dim]})"]
        return [
            *(before if self.chance(0.5) else []),
            *self.loops(nest, self.order(nest, []), line),
        ]

    def into_part(self) -> list[str]:
        """An update of a window or slice, or through a shape operator that is one to one."""
        nest = self.nest(1, 2)
        at = sorted(nest.indices)
        sizes = [self.sizes[nest.indices[i]] for i in at]
        step, first = self.random.choice((1, 1, 2, -1)), self.random.randint(1, 2)
        last = first + abs(step) * max(sizes[0] - 1, 0)
        ends = (
            f"{first}:{last}"
            if step == 1
            else f"{first}:{step}:{last}"
            if step > 0
            else f"{last}:{step}:{first}"
        )
        if not sizes[0]:
            return self.plain()
        name = self.leaf((last + self.random.randint(0, 2), *sizes[1:]))
        nest.writes.add(name)
        nest.bound.update(at)
        form = self.random.choice(("window", "slice", "flip", "roll"))
        settings = {
            "window": ", ".join([ends, *["nothing"] * (len(at) - 1)]),
            "slice": f"1, {ends}",
        }
        if form in settings:
            target = f"{form}({name}, {settings[form]})"
        else:
            name = self.leaf(tuple(sizes))
            target = f"{form}({name}, 1{', 1' if form == 'roll' else ''})"
        line = f"{target}[{', '.join(at)}] {self.sign()} {self.expression(nest)}"
        return self.loops(nest, self.order(nest, at), [line])

    def early(self) -> list[str]:
        """Reductions that end their loops."""
        nest = self.nest(1, 2)
        value, zero = self.value(TYPES[self.kind][0]), self.typed(0, TYPES[self.kind][0])
        sign, start = {
            "bool": ("<<||>>=", "false"),
            "int": ("*=", "1"),
        }.get(self.kind, (f"<<choose({zero})>>=", zero))
        made = self.expression(nest, 1)
        name = f"q{len(self.before)}"
        kind = self.random.choice(("ShortCircuitScalar", "SparseShortCircuitScalar"))
        self.before.append(f"{name} = {kind}({start})")
        line = [f"{name}[] {sign} {made}"]
        if self.chance(0.3):
            before, target, at = self.target(nest)
            line += self.assigned(nest, target, at, value)
            return [*before, f"{name} .= {start}", *self.loops(nest, sorted(nest.indices), line)]
        return [f"{name} .= {start}", *self.loops(nest, sorted(nest.indices), line)]

    def pairs(self) -> list[str]:
        """The place of the least, or of the greatest."""
        if self.kind in ("bool", "minplus"):
            return self.plain()
        nest = self.nest(1, 2)
        i = sorted(nest.indices)[-1]
        op = self.random.choice(("minby", "maxby"))
        least = "Inf" if op == "minby" else "-Inf"
        start = least if self.kind == "float" else f"{100 if op == 'minby' else -100}"
        name = f"q{len(self.before)}"
        made = f"{start} => 0"
        value = self.expression(nest, 1)
        value = f"Float64({value})" if self.kind == "float" else f"Int64({value})"
        body = [f"{name}[] <<{op}>>= {value} => {i}"]
        self.before.append(f"{name} = Scalar({made})")
        return [f"{name} .= {made}", *self.loops(nest, sorted(nest.indices), body)]

    def formula(self) -> list[str]:
        """An expression by name, read through an operator."""
        nest = self.nest(2, 2)
        i, j = sorted(nest.indices)
        inner = Nest({"x": nest.indices[i], "y": nest.indices[j]}, budget=2)
        a, b = (self.new((nest.indices[i], nest.indices[j])) for _ in "ab")
        value = f"{a.name}[x, y] {'|' if self.kind == 'bool' else '+'} {b.name}[x, y]"
        if self.chance(0.5):
            value = f"ifelse({self.filled('{b}', inner, 1)}, {a.name}[x, y], {b.name}[x, y])"
        form = self.random.choice(
            ("T", "flip(T, 1)", "roll(T, 2, 1)", "protocolize(T, nothing, walk)")
        )
        before, target, at = self.target(nest, 2)
        nest.bound.update((i, j))
        line = self.assigned(nest, target, at, f"{form}[{i}, {j}]")
        return [
            *before,
            f"let T[x, y] = {value}",
            *self.loops(nest, self.order(nest, at), line),
            "end",
        ]

    def region(self) -> list[str]:
        """A function whose region goes by fills that its operands have."""
        nest = self.nest(1, 2)
        known = [k for k in FUNCTIONS if k.fills and self.kind[0] in k.kinds]
        if not known:
            return self.plain()
        found = self.random.choice(known)
        self.function_of(found)
        name = self.functions.pop()[0]
        given, dims = [], sorted(set(nest.indices.values()))
        type = TYPES[self.kind][0]
        for fill in found.fills:
            own = tuple(self.random.choice(dims) for _ in range(self.random.choice((1, 1, 2))))
            levels = self.levels(own)
            value = fill if self.kind in ("bool", "minplus") else self.typed(float(fill), type)
            made = Tensor(next(self.names), own, type, value, levels)
            self.before.append(
                f"{made.name} = {self.literal_of(made, tuple(self.sizes[d] for d in own))}"
            )
            given.append(f"{made.name}[{', '.join(self.index_of(nest, d) for d in own)}]")
        before, target, at = self.target(nest)
        line = self.assigned(nest, target, at, f"{name}({', '.join(given)})", "=")
        return [*before, *self.loops(nest, self.order(nest, at), line)]

    def stencil(self) -> list[str]:
        """What may be missing, alone on the right, and at missing places."""
        nest = self.nest(1, 2)
        tensor = self.new(tuple(nest.indices[i] for i in sorted(nest.indices)))
        before, target, at = self.target(nest)
        line = self.assigned(nest, target, at, self.permitted(nest, tensor), "=")
        return [*before, *self.loops(nest, self.order(nest, at), line)]

    # ------------------------------------------------------------------------------------ kernels

    def walked(self, levels: tuple[str, ...]) -> list[str]:
        """A nest with a tensor of these levels: read, written, or updated."""
        chosen: list[tuple[str, int]] = [(n, LEVELS[n].modes or 1) for n in levels]
        order = sum(m for _, m in chosen)
        small = (1, 2, 2, 3, 4) if order < 4 else (1, 2, 2)
        dims, at = [], list(LETTERS[:order])
        for k, (_, modes) in enumerate(reversed(chosen)):
            self.sizes[f"w{k}"] = self.random.choice(small)
            dims += [f"w{k}"] * modes
        nest = Nest(dict(zip(at, dims, strict=True)), budget=1 if order > 3 else 2)
        stack: Levels = tuple(chosen)
        tensor = self.new(tuple(dims), output=True, levels=stack)
        partial = any(LEVELS[n].takes in ("one", "run") for n in levels)
        role = self.random.choice(("read", "read", "written", "updated"))
        role = "read" if partial and self.chance(0.85) else role
        if role == "read":
            before, target, where = self.target(nest, 2)
            nest.bound.update(at)
            value = f"{tensor.name}[{', '.join(at)}]"
            if self.chance(0.5):
                sign = {"bool": "&", "minplus": "+"}.get(self.kind, "*")
                value = f"{value} {sign} {self.expression(nest, 1)}"
            line = self.assigned(nest, target, where, value)
            return [*before, *self.loops(nest, self.order(nest, at), line)]
        nest.writes.add(tensor.name)
        before = self.declared(tensor) if role == "written" else []
        if not before:
            nest.bound.update(at)
        line = self.assigned(nest, tensor, at)
        return [*before, *self.loops(nest, self.order(nest, at), line)]
