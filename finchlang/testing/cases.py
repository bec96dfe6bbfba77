"""A script compared on generated data, and in other formats in turn with these (`finch diff --cases`)."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from random import Random
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.testing.apart import Comparer
from finchlang.testing.compare_engines import Way
from finchlang.testing.data import Data

#: so many formats are tried, or as many as there are to be cases if these are more
FORMATS = 20


def compare_cases(
    text: str,
    ways: Sequence[Way],
    apart: Comparer,
    chosen: Mapping[str, Any],
    say: Callable[[str], object],
    told: Callable[[str], object],
    *,
    cases: int,
    seed: int,
    minutes: float,
    is_any: bool,
) -> tuple[Counter[str], tuple[str, Sequence[Way]] | None]:
    """How many cases agree, differ or end with an error of each kind, and the text and ways of the shortest
    that differs. `say` is given what is found, `told` what is being done; `cases` of data are made (0: 10
    within `minutes`), in other formats too if `is_any`."""
    data = Data(text, chosen["file"], chosen["args"])
    formats = [*data.formats()] if is_any else []
    if (every := len(formats)) > (most := max(FORMATS, cases)):
        formats = Random(seed).sample(formats, most)
        say(f"{most} of {every} formats are tried; `--cases {every}` tries all of them")
    seeds = range(seed, seed + (cases or 10))
    total, counts = len(formats) + len(seeds), Counter[str]()
    first: tuple[str, Sequence[Way]] | None = None
    minutes = minutes or (math.inf if cases else 1)
    end = time.monotonic() + 60 * minutes
    draw = partial(data.case, is_any=is_any, is_finite=bool(chosen["against"]))
    left: Iterator[Any] = filter(None, chain.from_iterable(zip_longest(formats, map(draw, seeds))))
    while (case := next(left, None)) is not None:
        if time.monotonic() > end:
            say(f"{counts.total()} of {total} cases were compared within {minutes:g} minutes")
            break
        told(f"case {counts.total() + 1} of {total}")
        own = tuple(w for w in ways if case.is_small or w.engine != "denote") or tuple(ways)
        try:
            found = apart.compare(case.text, own, **chosen)
        except FinchError as error:
            counts[error.kind] += 1
            say(f"{case.what}: {error.message}")
            continue
        if not found.agrees:
            counts["differs"] += 1
            say(f"{case.what}: {found.report}")
            if first is None or len(case.text) < len(first[0]):
                first = case.text, own
        elif found.errors:
            wrong = found.errors[found.engines[-1]]
            if wrong.kind in ("dimension", "bounds") and case.seed is not None:  # by its sizes
                left = chain([draw(case.seed, keeps_sizes=True)], left)
                continue
            counts[wrong.kind] += 1
            say(f"{case.what}: {wrong.kind} error: {wrong.message}")
        else:
            counts["agree"] += 1
    told("")
    return counts, first
