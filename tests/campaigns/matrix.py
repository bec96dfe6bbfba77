"""Every level over every level, read, written and updated in each context with each operator, in all
semantics: `python -m tests.campaigns.matrix [--part K/N] [--jobs J] [--match TEXT] [--unoptimised]`.

Prints what differs, and at the end how many cases ran, how many all semantics refuse for which kind of
error, and how much was let through though it differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import Pool

from finchlang.native.compiler import compile_plainly
from finchlang.testing.compare_engines import compare
from finchlang.testing.generate import LETTERS, DrawnTensor
from finchlang.testing.grammar import LEVELS, LOWER, PAIRS, TRIPLES
from finchlang.testing.random_expressions import ExpressionMaker

#: operators: the kind of values, how they update, and how they combine two of them
OPERATORS = {
    "+": ("float", "+=", "{} + {}"),
    "*": ("float", "*=", "{} * {}"),
    "-": ("int", "-=", "{} * {}"),
    "min": ("minplus", "<<min>>=", "{} + {}"),
    "max": ("int", "<<max>>=", "max({}, {})"),
    "|": ("bool", "|=", "{} | {}"),
    "&&": ("bool", "<<&&>>=", "{} && {}"),
    "choose": ("int", "<<choose(0)>>=", "{} + {}"),
    "=": ("float", "=", "{} - {}"),
}
ACTIONS = ("read", "read two", "write", "update")
PROTOCOLS = ("walk", "gallop", "follow")
DENSE = (("Dense", 1),)


@dataclass
class Context:
    """How a tensor is accessed: within what, by how many more indices, and each index. A tensor of
    fewer modes than `least` has no such context."""

    within: str = "{0}"
    more: int = 0
    index: str = "{0}"
    least: int = 1
    loops: Callable[[list[str]], list[str]] = lambda letters: letters[::-1]
    condition: str = ""
    is_missing: bool = False

    @property
    def extent(self) -> str:
        return "1:5" if self.is_missing else "_"


CONTEXTS = {
    "plain": Context(),
    **{protocol: Context(index=protocol + "({0})") for protocol in PROTOCOLS},
    "mask": Context(condition="{first} <= {last}"),
    "part": Context(condition="2 <= {first} <= 3"),
    "transposed": Context(least=2, loops=lambda letters: letters),
    "offset": Context("offset({0}, {ones})"),
    "shifted": Context(index="{0} + 1"),
    "permissive": Context(index="~({0} - 1)", is_missing=True),
    "collapse": Context("collapse({0}, 1, 2)", -1, least=2),
    "split": Context("split({0}, 1, {part})", 1),
    "concat": Context("concat(1, {0}, {0}2)"),
    "slice": Context("slice({0}, {order}, 2:{size})"),
    "strided": Context("slice({0}, 1, 1:2:{first_size})"),
    "flip": Context("flip({0}, 1)"),
    "roll": Context("roll({0}, {order}, 1)"),
    "broadcast": Context("broadcast({0}, 1, 2)", 1),
    "swizzle": Context("swizzle({0}, {turned})"),
}


@dataclass(frozen=True)
class Case:
    """A tensor of `nest`, outermost level first, in a context with an operator; `number` settles what
    else there is to choose."""

    number: int
    nest: tuple[str, ...]
    action: str
    context: str
    operator: str

    @property
    def name(self) -> str:
        return f"{'/'.join(self.nest)} {self.action} {self.context} {self.operator}"

    @property
    def script(self) -> str:
        """The case as a script with its data."""
        maker = ExpressionMaker(self.number, kind=OPERATORS[self.operator][0])
        levels = self.levels
        size = maker.random.choice((1, 2, 3, 4, 6) if len(levels) < 3 else (1, 2))
        maker.sizes = {"m": size, "n": maker.random.choice((size, size, 0, 5 - size % 5))}
        is_square = any(modes == 2 for _, modes in levels)
        dims = (("m",) * 9 if is_square else ("m", "n") * 9)[: sum(m for _, m in levels)]
        tensor = maker.new(dims, True, levels)
        declared, statement, half = self.statement(maker, tensor)
        letters = self.letters(tensor)
        condition = self.around.condition.format(first=letters[0], last=letters[-1])
        heads = [f"for {i} = {self.around.extent}" for i in self.around.loops(letters)]
        heads += [f"if {test}" for test in (condition, half) if test]
        copies = [f"{n}2 = copy({n})" for n in (tensor.name, "W") if f"{n}2" in statement]
        nest = [declared, *heads, statement, *["end"] * len(heads)]
        return "\n".join([*maker.before, *copies, "@finch begin", *nest, "end", ""])

    @property
    def levels(self) -> tuple[tuple[str, int], ...]:
        return tuple((n, LEVELS[n].modes or 1 + self.number % 2) for n in self.nest)

    @property
    def has_all_modes(self) -> bool:
        """Whether the context is one of tensors of so many modes."""
        return sum(modes for _, modes in self.levels) >= self.around.least

    @property
    def around(self) -> Context:
        return CONTEXTS[self.context]

    def letters(self, tensor: DrawnTensor) -> list[str]:
        return list(LETTERS[: len(tensor.dims) + self.around.more])

    def statement(self, maker: ExpressionMaker, tensor: DrawnTensor) -> tuple[str, str, str]:
        """What declares the result, what updates it, and the condition under which it has a place."""
        _, sign, both = OPERATORS[self.operator]
        letters = self.letters(tensor)
        read = self.access(self.around, maker, tensor)
        if self.around.is_missing:
            read = f"coalesce({read}, {maker.literal()})"
        if not self.action.startswith("read"):
            maker.before.append(f"W = Tensor(typeof({tensor.name}), copy({tensor.name}))")
            written = replace(tensor, name="W")
            own = Context() if self.context in PROTOCOLS else self.around
            sizes = ", ".join(f"1:{maker.sizes[d]}" for d in tensor.dims)
            declared = f"@declare(W, {tensor.fill}, {sizes})" * (self.action == "write")
            has_half = tensor.half and self.around.within in ("{0}", "offset({0}, {ones})")
            half = tensor.half.format(*letters) if has_half else ""
            return declared, f"{self.access(own, maker, written)} {sign} {read}", half
        if self.action == "read two":
            other = maker.new(tensor.dims[: len(letters)])
            at = ", ".join(f"~{letter}" for letter in letters[: len(other.dims)])
            read = f"coalesce({both.format(read, f'{other.name}[{at}]')}, {maker.literal()})"
        is_scalar = self.number % 2 or self.context in ("offset", "shifted")
        result = maker.new(() if is_scalar else ("m",), True, None if is_scalar else DENSE)
        at = "" if is_scalar else letters[0]
        return f"{result.name} .= {result.fill}", f"{result.name}[{at}] {sign} {read}", ""

    def access(self, context: Context, maker: ExpressionMaker, tensor: DrawnTensor) -> str:
        sizes, order = [maker.sizes[d] for d in tensor.dims], len(tensor.dims)
        first = sizes[0]
        within = context.within.format(
            tensor.name,
            ones=", ".join("1" for _ in sizes),
            part=next((n for n in (2, 3) if first and first % n == 0), 1),
            order=order,
            size=max(sizes[-1], 1),
            first_size=first,
            turned=", ".join(map(str, (*range(2, order + 1), 1))),
        )
        return f"{within}[{', '.join(map(context.index.format, self.letters(tensor)))}]"


def cases() -> Iterator[Case]:
    """All cases."""
    return (case for case in _combined() if case.has_all_modes)


def _combined() -> Iterator[Case]:
    """Every level and every pair of them in each context for each action, with the operators in turn;
    and every triple once."""
    nests = [*((n,) for n in LOWER), *PAIRS]
    number = 0
    for nest, context, action in product(nests, CONTEXTS, ACTIONS):
        number += 1
        yield Case(number, nest, action, context, list(OPERATORS)[number % len(OPERATORS)])
    turn = [list(table) for table in (ACTIONS, CONTEXTS, OPERATORS)]
    for nest in TRIPLES:
        number += 1
        yield Case(number, nest, *(table[number % len(table)] for table in turn))


def run(case: Case) -> tuple[str, str]:
    """What came of a case, and what differs if that is "different"."""
    found = compare(case.script)
    if not found.agrees:
        return "different", found.report
    kinds = {error.kind for error in found.errors.values()}
    return f"refused: {kinds.pop()}" if kinds else "run", ""


def main() -> int:
    """Run the command; 1 if there was a difference."""
    parser = argparse.ArgumentParser(prog="matrix", description=__doc__)
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--match", default="", help="only cases with this text in their names")
    parser.add_argument("--unoptimised", action="store_true", help="compile without LLVM's passes")
    options = parser.parse_args()
    os.environ["FINCH_CACHE_DIR"] = ""  # all that is compiled here is met once
    if options.unoptimised:
        compile_plainly()
    part, parts = map(int, options.part.split("/"))
    chosen = [c for c in list(cases())[part - 1 :: parts] if options.match in c.name]
    counts: Counter[str] = Counter()
    with Pool(options.jobs) as pool:
        for case, (kind, said) in zip(chosen, pool.imap(run, chosen, 8), strict=True):
            counts[kind] += 1
            if said:
                print(f"{case.number} {case.name}\n{case.script}\n{said}\n", flush=True)
    print(dict(counts))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
