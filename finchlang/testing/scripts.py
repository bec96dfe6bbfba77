"""`generate(seed)`: a random script with its data, which all semantics run alike. The levels of one tensor
come from a walk through all pairs and triples (`grammar.stack_of`), all else is drawn."""

from __future__ import annotations

from finchlang.testing.generate import Nest, eval_zero
from finchlang.testing.grammar import stack_of
from finchlang.testing.statements import FORMS, Writer

#: statements of scripts, with how often they come
WHOLE = {"kernel": 10, "einsum": 1.5, "array": 1, "scheduled": 1.5, "policy": 1, "runs": 0.7}


class Script(Writer):
    """Writes statements of scripts, which may have kernels in them."""

    def kernel(self, levels: tuple[str, ...] = ()) -> list[str]:
        lines = self.walked(levels) if levels else []
        for _ in range(self.random.choices((0, 1, 2), (5, 4, 1))[0] if levels else 1):
            lines += getattr(self, self.pick(FORMS))()
        text = ["@finch begin", *lines, "end"]
        form = self.random.random()
        if form < 0.06:
            name = f"go{len(self.before)}"
            head = [f"function {name}(n)", "k = 0", "while k < n"]
            return [*head, *text, "k += 1", "end", "return k", "end", f"r{name} = {name}(2)"]
        if form < 0.1:
            return ["for step = 1:2", *text, "end"]
        if form < 0.14 and self.tensors:
            handed = self.random.choice(self.tensors).name
            return ["z = @finch begin", *lines, f"return {handed}", "end"]
        return text

    def einsum(self) -> list[str]:
        """`@einsum`, and the same by loops."""
        nest = self.nest(1, 3, budget=0)
        for i in nest.indices:
            nest.indices[i] = self.random.choice([d for d in "mnp" if self.sizes[d]] or ["m"])
        order = self.random.sample(sorted(nest.indices), self.random.randint(0, len(nest.indices)))
        used: list[str] = []
        for i in sorted(nest.indices):
            others = [j for j in nest.indices if j != i and self.chance(0.4)][:1]
            at = self.random.sample([i, *others], 1 + len(others))
            made = self.new(tuple(nest.indices[x] for x in at))
            if made.dims:
                used.append(f"{made.name}[{', '.join(at)}]")
        sign = {"bool": "|", "minplus": "+"}.get(self.kind, "*")
        reduce = {"bool": "<<||>>=", "minplus": "min=", "int": "+="}.get(self.kind, "+=")
        name = f"E{len(self.before)}"
        return [f"@einsum {name}[{', '.join(order)}] {reduce} {f' {sign} '.join(used)}"]

    def array(self) -> list[str]:
        """`@array` of two or three operands of one shape."""
        dims = tuple(self.random.choice("mnp") for _ in range(self.random.choice((1, 2))))
        a, b, c = (self.new(dims).name for _ in "abc")
        sign = {"bool": ".&", "minplus": ".+"}.get(
            self.kind, self.random.choice((".*", ".+", ".-"))
        )
        text = f"{a} {sign} max({b}, {c})"
        form = self.random.randrange(4)
        if form == 1 and len(dims) == 2:
            text = f"permutedims({text}, (2, 1))"
        elif form == 2 and all(self.sizes[d] for d in dims):
            text = f"maximum({text}; dims = 1)"
        return [f"@array X{len(self.before)} = {text}"]

    def scheduled(self) -> list[str]:
        """A product with a schedule."""
        dims = {i: self.random.choice("mnp") for i in "ijk"}
        a, b = self.new((dims["i"], dims["k"])), self.new((dims["k"], dims["j"]))
        c = self.new(
            (dims["i"], dims["j"]),
            output=True,
            levels=(("Dense", 1), (self.random.choice(("Dense", "SparseList", "SparseHash")), 1)),
        )
        sign = {"bool": ("<<||>>=", "&"), "minplus": ("<<min>>=", "+")}.get(self.kind, ("+=", "*"))
        order = self.random.sample("ijk", 3)
        value = f"{a.name}[i, k] {sign[1]} {b.name}[k, j]"
        forms = [
            f"reorder({', '.join(self.random.sample('ijk', 3))})",
            f"split({order[0]}, t, s, {self.random.randint(1, 3)})",
            f"fuse({order[0]}, {order[1]}, f)",
            f"precompute({value}, ({order[1]}, {order[2]}), W)" if set(order[1:]) != {"k"} else "",
        ]
        body = [
            f"for {', '.join(f'{i} = _' for i in order)}",
            f"{c.name}[i, j] {sign[0]} {value}",
            "end",
        ]
        return [
            f"@schedule {self.random.choice(forms[:3])}",
            "@finch begin",
            f"{c.name} .= {c.fill}",
            *body,
            "end",
        ]

    def policy(self) -> list[str]:
        """A workspace of a policy."""
        dim, over = "m", "n"
        if not self.sizes[dim] or not self.sizes[over] or self.kind == "minplus":
            return self.kernel()
        known = self.new(
            (dim,),
            output=True,
            levels=((self.random.choice(("SparseList", "SparseBlockList")), 1),),
        )
        nest = Nest({"i": over}, {"i"}, {known.name}, budget=2)
        given = self.random.choice(("coord", "hash", "bucket", "flags"))
        capacity = (
            f" capacity={self.random.randint(1, 3)}"
            if given != "flags" and self.chance(0.6)
            else ""
        )
        sign = "+=" if self.kind != "bool" else "<<||>>="
        if known.fill not in ("false",) and not eval_zero(known.fill):
            capacity = ""
        line = f"{known.name}[{self.places_in(dim, over)}[i]] {sign} {self.expression(nest)}"
        start = f"@declare({known.name}, {known.fill}, 1:{self.sizes[dim]})"
        return [
            f"@workspace {known.name} policy={given}{capacity}",
            "@finch begin",
            start,
            "for i = _",
            line,
            "end",
            "end",
        ]

    def runs(self) -> list[str]:
        """Floats of any size reduced over runs, of one sign, so that no sum cancels."""
        values = [f"{self.random.uniform(1, 9)}e{self.random.randint(-300, 300)}" for _ in "ab"]
        n = self.random.choice((0, 1, 5, 64, 300))
        s, v = f"s{len(self.before)}", f"v{len(self.before)}"
        sign = self.random.choice(("+=", "-=", "*=", "/="))
        start = f"-{values[0]}" if sign == "-=" else values[0]
        return [
            f"{s} = Scalar({start})",
            f"{v} = {values[1]}",
            f"@finch for i = 1:{n}; {s}[] {sign} {v} end",
        ]


def generate(seed: int) -> str:
    """The script that belongs to a seed."""
    writer = Script(seed)
    if writer.chance(0.25):
        writer.function()
    lines = writer.kernel(stack_of(seed))
    if writer.chance(0.5):
        form = writer.pick(WHOLE)
        lines += getattr(writer, form)()
    return "\n".join([*writer.before, *lines, ""])
