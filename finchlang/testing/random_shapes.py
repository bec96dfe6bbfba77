"""Shape operators of random scripts, from the outside in: the result's sizes give those within."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Sizes = tuple[int, ...]
Made = tuple[tuple[Any, ...], list[Sizes], tuple[Any, ...]]
#: operators through which an element can be written, and all others
WRITTEN = (
    *("split", "concat", "collapse", "slice", "window", "reshape", "roll", "flip", "permute_dims"),
    "swizzle",
)
OPERATORS = (
    *(*WRITTEN, "cat", "vcat", "hcat", "broadcast", "stack", "block", "repeat", "tile", "flatten"),
    *("vec", "expand_dims", "squeeze", "diagonal", "kron", "tril", "triu"),
)
#: the most modes and the most elements of a tensor within operators
ORDER, ELEMENTS = 4, 150


def divisor(random: Any, n: int) -> int:
    return random.choice([d for d in range(1, n + 1) if n % d == 0] or [1])


def made(name: str, random: Any, s: Sizes) -> Made | None:
    """The arguments of an operator with a result of sizes `s`: those before its tensors, the sizes of the
    tensors, and those after them; None if it cannot have such a result."""
    k = {"vcat": 0, "hcat": len(s) - 1}.get(name, random.randrange(len(s)))
    order = random.sample(range(1, len(s) + 1), len(s))
    n, cut, fast = s[k], random.randint(0, s[k]), divisor(random, s[k])
    parts, whole = [divisor(random, m) for m in s], divisor(random, prod(s))
    first, step = random.randint(1, 3), random.choice((1, 1, 2, 3, -1, -2))
    last = first + abs(step) * max(n - 1, 0)
    ends = f"{first}:{step}:{last}" if step > 0 else f"{last}:{step}:{first}"
    ends = ends.replace(":1:", ":") if n else f"{first}:{first - 1}"
    longer = last + random.randint(0, 2)

    def within(*new: int) -> Sizes:
        return (*s[:k], *new, *s[k + 1 :])

    match name:
        case "split" if k + 1 < len(s) and n:
            return (), [(*s[:k], n * s[k + 1], *s[k + 2 :])], (k + 1, n)
        case "concat" | "cat" | "vcat" | "hcat" if name != "hcat" or len(s) == 2:
            at = () if name in ("vcat", "hcat") else (k + 1,)
            return at, [within(cut), within(n - cut)], ()
        case "collapse":
            return (), [within(fast, n // fast)], (k + 1, k + 2)
        case "slice":
            return (), [within(longer)], (k + 1, ends)
        case "window":
            return (), [within(longer)], tuple(ends if m == k else "nothing" for m in range(len(s)))
        case "reshape":
            return (), [(whole, prod(s) // whole)], s
        case "flatten" | "vec" if len(s) == 1:
            return (), [(fast, n // fast)], ()
        case "roll":
            return (), [s], (k + 1, random.randint(-4, 4))
        case "flip":
            return (), [s], (k + 1,)
        case "permute_dims":
            return (), [tuple(s[order.index(m + 1)] for m in range(len(s)))], tuple(order)
        case "swizzle":
            return (), [tuple(s[p - 1] for p in order)], tuple(order)
        case "broadcast" if len(s) > 1:
            return (), [within()], (k + 1, n)
        case "stack" if len(s) > 1 and n in (1, 2, 3):
            return (k + 1,), [within()] * n, ()
        case "block" if len(s) == 2:
            rows, columns = (random.randint(0, m) for m in s)
            heights, widths = (rows, s[0] - rows), (columns, s[1] - columns)
            return (2,), [(h, w) for h in heights for w in widths], ()
        case "repeat" | "tile":
            return (), [within(n // fast)], (k + 1, fast)
        case "expand_dims" if n == 1 and len(s) > 1:
            return (), [within()], (k + 1,)
        case "squeeze":
            return (), [(*s[:k], 1, *s[k:])], (k + 1,)
        case "diagonal" if len(s) == 1:
            return (), [(n, n + random.randint(0, 1))], ()
        case "kron":
            return (), [tuple(m // f for m, f in zip(s, parts, strict=True)), tuple(parts)], ()
        case "tril" | "triu" if len(s) == 2:
            return (), [s], (random.randint(-2, 2),)
    return None


def within(name: str, random: Any, modes: Sequence[int]) -> tuple[Made | None, Sizes]:
    """What `made` gives for a call of an operator on a tensor with levels of so many modes, outermost
    first, and the sizes of the result; or None, and sizes of such a tensor. Modes of a level are equal."""
    order, small = sum(modes), (1, 2, 2, 3, 4) if sum(modes) < 4 else (1, 2, 2)
    levels = [k for k, count in enumerate(reversed(modes)) for _ in range(count)]
    for _ in range(300 if name in OPERATORS else 0):
        more = random.choice((-1, 0, 0, 1) if order > 1 else (0, 1))
        sizes = tuple(random.choice(small) for _ in range(order + more))
        call = made(name, random, sizes)
        own = call[1][0] if call else ()
        is_fit = len(own) == order and len({*zip(levels, own, strict=True)}) == len(modes)
        if is_fit and prod(own) <= ELEMENTS:
            return call, sizes
    drawn = [random.choice(small) for _ in modes]
    return None, tuple(drawn[k] for k in levels)


def around(maker: Any, sizes: Sizes, depth: int, names: Sequence[str] = OPERATORS) -> str:
    """An expression of these sizes: a tensor within up to `depth` operators."""
    for _ in range(6 if depth else 0):
        name = maker.random.choice(names)
        if name in ("kron", "tril", "triu") and maker.kind in ("bool", "minplus"):
            continue
        first, within, last = made(name, maker.random, sizes) or ((), [()], ())
        if all(s and len(s) <= ORDER and prod(s) <= ELEMENTS for s in within):
            inner = [around(maker, s, depth - 1, names) for s in within]
            return f"{name}({', '.join(map(str, (*first, *inner, *last)))})"
    return maker.leaf(sizes)
