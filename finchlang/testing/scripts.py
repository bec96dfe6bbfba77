"""`generate(seed)`: a random script with its data, which all semantics run alike. The levels of one tensor
come from a walk through all pairs and triples in all contexts (`grammar.stack_of`), an operator from a walk
through the table; everything else is random."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product

from finchlang.base.errors import FinchError
from finchlang.operators.operator_table import OPERATORS
from finchlang.syntax.nodes import Call, Variable
from finchlang.syntax.types import TYPES
from finchlang.testing import grammar
from finchlang.testing.generate import LETTERS, DrawnTensor, Levels, typed
from finchlang.testing.grammar import KERNELS, LEVELS, SCRIPTS, WALKED, Form
from finchlang.testing.random_expressions import PERMISSIVE, PROTOCOLS, ExpressionMaker, Nest
from finchlang.testing.random_shapes import OPERATORS as SHAPES, WRITTEN, around, within
from finchlang.text.print import pretty

#: one seed in so many has NaN, infinities and -0.0 in its data
SPECIAL = 5
#: how a tensor is accessed, by the name of a context: what stands around it, and each index
SPELLED = {name: ("{0}", f"{name}({{}})") for name in PROTOCOLS}
SPELLED |= {"moved": ("offset({0}, {1})", "{}"), "later": ("{0}", "{} + 1")}
#: how a tensor of given levels is accessed, and whether it is written so; "" stands for as it is
CONTEXTS = (
    *((name, False) for name in (*SHAPES, *PERMISSIVE, *SPELLED)),
    *((name, True) for name in (*WRITTEN, *PERMISSIVE)),
    *(("", False), ("", True)) * 11,
)
#: how many operators a script applies to numbers of their own
EACH = 9
_TENSOR = re.compile(r"([A-Z])(!?)(?:\[([^\]]*)\]|:([a-z@]*))?(?:@(.*))?")


def is_special(seed: int) -> bool:
    return seed % SPECIAL == SPECIAL - 1


class Writer(ExpressionMaker):
    """Fills in the templates of `tables.toml`."""

    def __init__(self, seed: int):
        super().__init__(seed, is_special(seed))
        self.seed, self.number, self.misfit = seed, 0, 0.003

    def nest(self, form: Form) -> Nest:
        """A nest with the indices of a form, and random dimensions for them."""
        spec = form.text.partition(" // ")[0].split()
        if "-" in spec:
            spec = ["0-0"]
        if "-" in spec[0]:
            low, high = map(int, spec[0].split("-"))
            weights = (1, 7, 8, 1.5, 0.2)[low : high + 1]
            spec[:1] = LETTERS[: self.random.choices(range(low, high + 1), weights)[0]]
        dims = [d for d in "mnp" if self.sizes[d] or "+" not in form.kinds]
        if not dims:
            self.sizes["q"], dims = 3, ["q"]
        nest = Nest({}, budget=self.random.choices((1, 2, 3), (4, 5, 0.7))[0])
        nest.budget = self.random.choice((3, 4)) if "budget" in spec else nest.budget
        for index, _, other in (part.partition("=") for part in spec if part != "budget"):
            nest.indices[index] = nest.indices[other] if other else self.random.choice(dims)
        return nest

    def form(self, form: Form, nest: Nest | None = None) -> list[str]:
        """The lines of a form; lines that belong before the kernel are added to `before`."""
        nest = nest or self.nest(form)
        nest.declares = set(re.findall(r"// \.+([A-Z])", form.text))
        nest.always = set(re.findall(r"// \.\.([A-Z])", form.text))
        nest.every, has_loops = dict(nest.indices), "for " in form.text
        self.number += 1
        number, made, done = str(self.number), list[str](), list[str]()
        opened: list[list[str]] = []
        for line in form.text.split(" // ")[1:]:
            if re.match(r"(@finch )?(for|if|let|function|while) (?!.* end$)|.*begin$", line):
                own = nest.every if " over" in line else re.findall(r"(\w) = [?_]", line)
                opened.append([i for i in own if i in nest.every])
            elif line == "end":
                opened.pop()
            if has_loops:
                nest.indices = {i: nest.every[i] for own in opened for i in own}
            filled = self.filled(line.replace("$", number), nest)
            if line.startswith("^"):
                self.before.append(filled[1:])
            elif line.startswith("{") and re.match(r"\{[A-Z]!", line):
                made += self.guarded(nest, line[1], filled)
            else:
                made += filled.split("\n") if filled else []
            if found := re.match(r"let (\w+) = ", filled):
                nest.lets.append(found[1])
            if line == "end" and not opened:  # indices that the nest has bound are free again
                done += [text for line in made for text in self.settled(line, nest)]
                nest.bound, made = set(), []
        if nest.is_rounded:
            self.tensors = [t for t in self.tensors if t not in nest.tensors.values()]
        return done + [text for line in made for text in self.settled(line, nest)]

    def guarded(self, nest: Nest, key: str, line: str) -> list[str]:
        """An assignment, guarded so that its target can store it, and sometimes under a condition."""
        lines, half = [line], nest.tensors[key].half
        if half and self.chance(0.97):
            lines = [f"if {half.format(*nest.at[key])}", line, "end"]
        if not self.chance(0.15):
            return lines
        found = [f"if {self.filled('{b}', nest)}", *lines]
        if self.chance(0.2):
            found += [f"elseif {self.filled('{b}', nest)}", *lines]
        return [*found, *(["else", *lines] if self.chance(0.2) else []), "end"]

    def settled(self, line: str, nest: Nest) -> list[str]:
        """A line once the nest is complete: names, declarations, loop orders and extents are filled in."""
        if found := re.fullmatch(r"\.+([A-Z])", line):
            known = nest.tensors.get(found[1])
            return self.declared(known, nest) if known and found[1] in nest.declares else []
        line = re.sub(r"%([A-Z])\b", lambda m: nest.tensors[m[1]].name, line)
        line = re.sub(r"#([a-z])\b", lambda m: str(self.sizes[nest.every[m[1]]]), line)
        if found := re.fullmatch(r"for over ?(\w?)", line):
            order = self.order(nest, nest.at.get(found[1], []))
            if not order:
                return ["for once = 1:1"]
            line = f"for {', '.join(f'{i} = ?' for i in order)}"
        return [re.sub(r"(\w+) = \?", lambda m: f"{m[1]} = {self.extent(nest, m[1])}", line)]

    def extent(self, nest: Nest, index: str) -> str:
        is_found = index in nest.bound and self.chance(0.9)
        return "_" if is_found else f"1:{self.sizes[nest.every[index]]}"

    def order(self, nest: Nest, at: list[str]) -> list[str]:
        """An order of loops: mostly the one in which a target is stored."""
        plain = [i for i in at if i in nest.every]
        rest = [i for i in nest.every if i not in plain]
        self.random.shuffle(rest)
        found = [*dict.fromkeys(plain[::-1]), *rest]
        if self.chance(0.25):
            self.random.shuffle(found)
        return found

    def declared(self, target: DrawnTensor, nest: Nest) -> list[str]:
        sizes = ", ".join(f"1:{self.sizes[d]}" for d in target.dims)
        whole = f"@declare({target.name}, {target.fill}, {sizes})"
        if target.name in nest.scattered:
            return [whole]
        forms = [f"{target.name} .= {target.fill}"] * 8
        if any(not LEVELS[name].complete for name, _ in target.levels):
            forms.append(f"{target.name} .= _")
        if target.dims:
            forms += [whole]
            if target.fill.isdigit():
                forms.append(f"{target.name} := {target.fill}({sizes})")
        return [self.random.choice(forms)]

    # ------------------------------------------------------------------------------------ tokens

    def token(self, token: str, nest: Nest, depth: int) -> str:
        if token[0] == "?":
            return self.filled(self.random.choice(_alternatives(token[1:])), nest, depth)
        if token[0] == "/":
            by_kind = {part[0]: part[1:] for part in token.split("/")[1:]}
            return self.filled(by_kind[self.kind[0]], nest, depth)
        made: dict[str, Callable[[], str]] = {
            "=": self.sign, "r": lambda: self.sign(True), "O": self.einsum,
            "F": lambda: self.regional(nest), "P": lambda: self.part(nest), "R": lambda: self.rounded(nest),
            "S": lambda: self.permitted(nest, self.new(tuple(nest.indices.values()))),
            "K": lambda: "\n".join(self.form(self.chosen(KERNELS))), "z": lambda: self.zero,
            "L": lambda: self.round(nest, depth - 1),
            "v": lambda: f"{self.random.uniform(1, 9)}e{self.random.randint(-300, 300)}",
        }  # fmt: skip
        if token in made:
            return made[token]()
        if token.isdigit():  # of a format
            return f"{{{token}}}"
        if token in grammar.WORDS:
            return re.sub(r"\s+// ", "\n", self.filled(grammar.WORDS[token], nest, depth))
        if found := _TENSOR.fullmatch(token):
            return self.tensor(nest, found)
        return super().token(token, nest, depth)

    def round(self, nest: Nest, depth: int) -> str:
        """A statement of a loop in a script, which has no further statements at depth 0."""
        fit = tuple(row for row in grammar.ROUNDS if depth or "{L}" not in row.text)
        return self.written(fit, nest, depth).replace(" // ", "\n")

    def tensor(self, nest: Nest, token: re.Match[str]) -> str:
        key, output, at, over, levels = token.groups()
        spec = over if at is None else at
        if spec is None:
            return nest.tensors[key].name
        spec = "".join(nest.at[key]) if spec == "*" else spec
        places = self.places_of(nest, spec)
        if key not in nest.tensors:
            dims = tuple(dim for _, _, dim in places)
            chosen, fill = None, ""
            if levels:
                chosen = self.levels_of(levels, len(dims))
                fill = "Inf" if self.kind == "minplus" else self.zero
            nest.tensors[key] = self.new(dims, bool(output), chosen, fill)
        known, texts = nest.tensors[key], [text for text, _, _ in places]
        nest.at[key] = texts
        if output:
            nest.writes.add(known.name)
            if key in nest.declares - nest.always and not self.chance(0.7):
                nest.declares.discard(key)
            if any("[" in text for text in texts):
                nest.scattered.add(known.name)
        if not output or key not in nest.declares:
            nest.bound.update(index for _, index, _ in places)
        return known.name if at is None else f"{known.name}[{', '.join(texts)}]"

    def places_of(self, nest: Nest, spec: str) -> list[tuple[str, str, str]]:
        """For each mode its index as it is written, the loop's index in it, and the dimension."""
        if spec == "?":
            count = min(self.random.choices((0, 1, 2, 3), (3, 5, 6, 0.7))[0], len(nest.every))
            spec = "".join(self.random.sample(sorted(nest.every), count))
        found = []
        for scatter, index in re.findall(r"(@?)([a-z])", spec):
            dim = nest.every[index]
            if scatter:
                over, dim = dim, self.random.choice([d for d in "mnpq" if self.sizes.get(d)])
                found.append((f"{self.places_in(dim, over)}[{index}]", index, dim))
            else:
                found.append((index, index, dim))
        return found

    def levels_of(self, spec: str, order: int) -> Levels:
        if " " not in spec:  # a level of all modes
            return ((self.random.choice(spec.split("/")), order),) if order else ()
        return tuple((self.random.choice(part.split("/")), 1) for part in spec.split())

    def sign(self, reduces: bool = False) -> str:
        found = self.chosen(grammar.SIGNS).text
        if self.functions and self.chance(0.1):
            name, known = next(iter(self.functions.items()))
            found = f"<<{name}>>=" if known.count == 2 else found
        is_refused = "/" in found or (reduces and found in ("=", ":="))
        return self.sign(reduces) if is_refused else found

    def rounded(self, nest: Nest) -> str:
        """A rounded expression; its target is not read later."""
        nest.is_rounded = True
        form = self.chosen(grammar.ROUNDED).text.replace("{n}", "Float64({n})")
        return self.filled(form, nest, 1)

    def part(self, nest: Nest) -> str:
        at = self.random.sample(sorted(nest.indices), len(nest.indices))
        sizes = tuple(self.sizes[nest.indices[i]] for i in at)
        nest.bound.update(at)
        self.is_target = True  # so that the tensors are of a type that takes the values assigned
        text = around(self, sizes, self.random.choice((1, 1, 2)), WRITTEN)
        self.is_target = False
        nest.writes.update(re.findall(r"\b[A-H]\d*\b", text))
        return f"{text}[{', '.join(at)}]"

    def regional(self, nest: Nest) -> str:
        """A call of a function whose region depends on fills, on operands with these fills."""
        known = self.random.choice([k for k in self.known_functions() if k.fills])
        name, given, dims = self.function_of(known), [], sorted(set(nest.indices.values()))
        del self.functions[name]
        for fill in known.fills:
            own = tuple(self.random.choice(dims) for _ in range(self.random.choice((1, 1, 2))))
            value = typed(float(fill.replace("false", "0")), grammar.TYPES[self.kind][0])
            made = self.new(own, levels=self.levels(own), fill=value, is_kept=False)
            given.append(f"{made.name}[{', '.join(self.index_of(nest, d) for d in own)}]")
        return f"{name}({', '.join(given)})"

    def operations(self) -> tuple[list[str], list[str]]:
        """A loop with the next operators of the table, and one with an operator that may have no result."""
        names, own = _walk(), [name for name in _walk() if OPERATORS[name].undefined]
        turn = [names[(self.seed * EACH + k) % len(names)] for k in range(EACH)]
        size, sparse = self.random.choice((1, 3, 6)), self.random.randrange(2 * EACH)
        loop = [self.operation(name, size, k == sparse) for k, name in enumerate(turn)]
        last = self.operation(own[self.seed % len(own)], size, is_careful=self.chance(0.8))
        return ["@finch for i = _", *loop, "end"], ["@finch for i = _", last, "end"]

    def operation(
        self, name: str, size: int, is_sparse: bool = False, is_careful: bool = True
    ) -> str:
        """An assignment of an operator's result for elements of a vector, to one of its type."""
        types = self.random.choice(operands(name))
        result = OPERATORS[name].result_type(tuple(TYPES[type] for type in types)).name
        called, to = self.applied(name, types, size, is_sparse, is_careful), f"O{len(self.before)}"
        self.before.append(f"{to} = Tensor(Dense(Element({typed(0, result)})), {size})")
        return f"{to}[i] = {called}"

    def applied(
        self, name: str, types: tuple[str, ...], size: int, is_sparse: bool, is_careful: bool
    ) -> str:
        """An operator applied to elements of vectors, and to literals; a careful one has a result."""
        is_partial, given = OPERATORS[name].undefined is not None, list[str]()
        for n, type in enumerate(types):
            draw = self.value if name in COUNTED and n == 2 else self.far_value
            if is_partial and is_careful:  # it converts, or it divides by the last one
                draw = self.small_value if len(types) == 1 else self.divisor if n else draw
            values = [draw(type) for _ in range(size)]
            given.append(values[0])
            if n == 0 or self.chance(0.75):
                text, own = f"[{', '.join(values)}]", f"o{len(self.before)}"
                level = self.random.choice(("SparseByteMap", "RunList", "SparseList"))
                text = f"Tensor({level}(Element({values[0]})), {text})" if is_sparse else text
                self.before.append(f"{own} = {text}")
                given[-1] = f"{own}[i]"
        called = pretty(Call(Variable(name), tuple(Variable(f"o{n}") for n in range(len(types)))))
        return re.sub(r"\bo(\d)\b", lambda m: given[int(m[1])], called)

    def einsum(self) -> str:
        """An `@einsum` of one operator, which finds the type of the result."""
        name = self.random.choice(_walk())
        called = self.applied(name, self.random.choice(operands(name)), 3, self.chance(0.5), True)
        return f"@einsum E{len(self.before)}[i] = {called}"

    # ------------------------------------------------------------------------------------ scripts

    def walked(self) -> list[str]:
        """A nest that reads, writes or updates a tensor with the levels and in the context of the seed."""
        levels, turn = grammar.stack_of(self.seed, len(CONTEXTS))
        chosen: Levels = tuple((n, LEVELS[n].modes or 1) for n in levels)
        context, is_written = CONTEXTS[turn]
        head, index = SPELLED.get(context, ("", ""))
        is_partial = any(LEVELS[n].takes in ("one", "run") for n in levels)
        is_written &= not (is_partial and self.chance(0.85))
        call, sizes = within(context, self.random, [modes for _, modes in chosen])
        own = call[1][0] if call else sizes
        at = dict(zip(LETTERS, self.dims_of(sizes), strict=False))
        nest = Nest(at, budget=1 if len(own) > 3 else 2)
        tensor = nest.tensors["T"] = self.new(self.dims_of(own), True, chosen)
        nest.at["T"], text = [*at], ""
        if call:
            first, parts, last = call
            inner = [tensor.name if s == own else self.leaf(s) for s in parts]
            text = f"{context}({', '.join(map(str, (*first, *inner, *last)))})[{', '.join(at)}]"
        elif index:
            whole = head.format(tensor.name, ", ".join("1" for _ in at))
            text = f"{whole}[{', '.join(map(index.format, at))}]"
        elif context in PERMISSIVE:
            text = self.permitted(nest, tensor, context)
        if call or index:
            nest.bound.update(at)
        if text and is_written:  # what is written through an operator is declared with its sizes
            nest.writes.add(tensor.name)
            nest.scattered.add(tensor.name)
        rows = [row for row in WALKED if ("{T!" in row.text) == is_written]
        rows = [row for row in rows if ("^}" in row.text) == bool(text)]
        if "1" in head + index:  # with dimensions of its own
            rows = [row for row in WALKED if "{C![]}" in row.text]
        form = self.chosen(tuple(rows))
        return self.form(replace(form, text=re.sub(r"\{T!?\^\}", lambda _: text, form.text)), nest)


#: the operators of which the last argument is a number of steps
COUNTED = {row.stepped for row in OPERATORS.values()}


@cache
def operands(name: str) -> tuple[tuple[str, ...], ...]:
    """The element types that an operator takes, of three operands at most."""
    row, found = OPERATORS[name], list[tuple[str, ...]]()
    is_called = row.name == name and row.keeps_old  # no other spelling, and no `=`
    for count in range(row.arity[0], min(row.arity[1], 3) + 1) if is_called else ():
        for given in product(TYPES.values(), repeat=count):
            is_counted = name not in COUNTED or given[2].name == "UInt8"
            with suppress(FinchError):
                if is_counted and row.result_type(given) in TYPES.values():
                    found.append(tuple(type.name for type in given))
    return tuple(found)


@cache
def _walk() -> tuple[str, ...]:
    """The operators that have operands, in order."""
    return tuple(name for name in OPERATORS if operands(name))


def _alternatives(text: str) -> list[str]:
    """The alternatives between bars that are not within braces."""
    return re.split(r"\|(?![^{}]*\})", text)


def generate(seed: int, is_short: bool = False) -> str:
    """The script of a seed; a short one has one nest or statement."""
    writer = Writer(seed)
    if writer.chance(0.25):
        writer.function()
    is_nest = not is_short or seed % 3 > 0
    lines = writer.walked() if is_nest else []
    more = 0 if is_short else writer.random.choices((0, 1, 2), (5, 4, 1))[0]
    for _ in range(more):
        lines += writer.form(writer.chosen(KERNELS))
    lines = ["@finch begin", *lines, "end"] if is_nest else []
    if not is_nest or (not is_short and writer.chance(0.6)):
        lines += writer.form(writer.chosen(SCRIPTS))
    first, last = ([], []) if is_short else writer.operations()
    return "\n".join([*writer.before, *first, *lines, *last, ""])
