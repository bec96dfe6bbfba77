"""Shape operators of random scripts: for each a function from the sizes of its result to the sizes of its
tensors, and its other arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

Sizes = tuple[int, ...]
#: arguments before the tensors, the sizes of the tensors, and arguments after them
Made = tuple[tuple[Any, ...], list[Sizes], tuple[Any, ...]]
#: the most modes and the most elements of a tensor within operators
ORDER, ELEMENTS = 4, 150


def _with(sizes: Sizes, k: int, *new: int) -> Sizes:
    return (*sizes[:k], *new, *sizes[k + 1 :])


def _divisor(random: Any, n: int) -> int:
    return random.choice([d for d in range(1, n + 1) if n % d == 0] or [1])


def _collapse(random: Any, s: Sizes, k: int) -> Made:
    fast = _divisor(random, s[k])
    return (), [_with(s, k, fast, s[k] // fast)], (k + 1, k + 2)


def _split(random: Any, s: Sizes, k: int) -> Made | None:
    if k + 1 >= len(s) or not s[k]:
        return None
    return (), [(*s[:k], s[k] * s[k + 1], *s[k + 2 :])], (k + 1, s[k])


def _concat(random: Any, s: Sizes, k: int) -> Made:
    cut = random.randint(0, s[k])
    return (k + 1,), [_with(s, k, cut), _with(s, k, s[k] - cut)], ()


def _slice(random: Any, s: Sizes, k: int) -> Made:
    first, step = random.randint(1, 3), random.choice((1, 1, 2, 3, -1, -2))
    last = first + abs(step) * max(s[k] - 1, 0)
    ends = f"{first}:{step}:{last}" if step > 0 else f"{last}:{step}:{first}"
    ends = ends.replace(":1:", ":") if s[k] else f"{first}:{first - 1}"
    return (), [_with(s, k, last + random.randint(0, 2))], (k + 1, ends)


def _window(random: Any, s: Sizes, k: int) -> Made:
    _, inner, (_, ends) = _slice(random, s, k)
    return (), inner, tuple(ends if n == k else "nothing" for n in range(len(s)))


def _broadcast(random: Any, s: Sizes, k: int) -> Made | None:
    return ((), [_with(s, k)], (k + 1, s[k])) if len(s) > 1 else None


def _reshape(random: Any, s: Sizes, k: int) -> Made:
    first = _divisor(random, prod(s))
    return (), [(first, prod(s) // first)], s


def _stack(random: Any, s: Sizes, k: int) -> Made | None:
    return ((k + 1,), [_with(s, k)] * s[k], ()) if len(s) > 1 and s[k] in (1, 2, 3) else None


def _block(random: Any, s: Sizes, k: int) -> Made | None:
    if len(s) != 2:
        return None
    r, c = (random.randint(0, n) for n in s)
    return (2,), [(h, w) for h in (r, s[0] - r) for w in (c, s[1] - c)], ()


def _repeat(random: Any, s: Sizes, k: int) -> Made:
    times = _divisor(random, s[k])
    return (), [_with(s, k, s[k] // times)], (k + 1, times)


def _diagonal(random: Any, s: Sizes, k: int) -> Made | None:
    return ((), [(s[0], s[0] + random.randint(0, 1))], ()) if len(s) == 1 else None


def _kron(random: Any, s: Sizes, k: int) -> Made:
    fast = [_divisor(random, n) for n in s]
    return (), [tuple(n // f for n, f in zip(s, fast, strict=True)), tuple(fast)], ()


def _permute(random: Any, s: Sizes, k: int) -> Made:
    order = random.sample(range(1, len(s) + 1), len(s))
    return (), [tuple(s[order.index(n + 1)] for n in range(len(s)))], tuple(order)


def _swizzle(random: Any, s: Sizes, k: int) -> Made:
    order = random.sample(range(1, len(s) + 1), len(s))
    return (), [tuple(s[p - 1] for p in order)], tuple(order)


def _tril(random: Any, s: Sizes, k: int) -> Made | None:
    return ((), [s], (random.randint(-2, 2),)) if len(s) == 2 else None


OPERATORS: dict[str, Callable[[Any, Sizes, int], Made | None]] = {
    **{"collapse": _collapse, "split": _split, "concat": _concat, "cat": _concat},
    **{"slice": _slice, "window": _window, "broadcast": _broadcast, "reshape": _reshape},
    **{"stack": _stack, "block": _block, "repeat": _repeat, "tile": _repeat},
    "roll": lambda random, s, k: ((), [s], (k + 1, random.randint(-4, 4))),
    "flip": lambda random, s, k: ((), [s], (k + 1,)),
    "flatten": lambda random, s, k: ((), _reshape(random, s, k)[1], ()) if len(s) == 1 else None,
    "vec": lambda random, s, k: ((), _reshape(random, s, k)[1], ()) if len(s) == 1 else None,
    "vcat": lambda random, s, k: ((), _concat(random, s, 0)[1], ()),
    "hcat": lambda random, s, k: ((), _concat(random, s, 1)[1], ()) if len(s) == 2 else None,
    "expand_dims": lambda random, s, k: (
        ((), [_with(s, k)], (k + 1,)) if s[k] == 1 and len(s) > 1 else None
    ),
    "squeeze": lambda random, s, k: ((), [(*s[:k], 1, *s[k:])], (k + 1,)),
    **{"permute_dims": _permute, "swizzle": _swizzle, "diagonal": _diagonal, "kron": _kron},
    **{"tril": _tril, "triu": _tril},
}


#: operators through which an element can be written
WRITTEN = (
    "split",
    "concat",
    "collapse",
    "slice",
    "window",
    "reshape",
    "roll",
    "flip",
    "permute_dims",
    "swizzle",
)


def around(maker: Any, sizes: Sizes, depth: int, names: Sequence[str] = tuple(OPERATORS)) -> str:
    """An expression of these sizes: a tensor within up to `depth` operators."""
    for _ in range(6 if depth else 0):
        name = maker.random.choice(names)
        if name in ("kron", "tril", "triu") and maker.kind in ("bool", "minplus"):
            continue
        made = OPERATORS[name](maker.random, sizes, maker.random.randrange(len(sizes)))
        if made is None:
            continue
        first, within, last = made
        if any(len(s) > ORDER or not s or prod(s) > ELEMENTS for s in within):
            continue
        inner = [around(maker, s, depth - 1, names) for s in within]
        return f"{name}({', '.join(map(str, (*first, *inner, *last)))})"
    return maker.leaf(sizes)
