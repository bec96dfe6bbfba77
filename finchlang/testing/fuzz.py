"""`finch fuzz`: generated scripts in several ways, in processes of their own, so that a crash or a hang is
a finding like any other."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.base.records import record
from finchlang.testing.apart import DIED, HUNG, Apart, Comparer, quick, shows
from finchlang.testing.blame import Blame, blame
from finchlang.testing.compare_engines import Comparison, Way, compare
from finchlang.testing.coverage import Coverage, report
from finchlang.testing.declared_laws import law_difference
from finchlang.testing.expected import expected_difference
from finchlang.testing.reduce import reduce
from finchlang.testing.replay import replay_text
from finchlang.testing.scripts import generate
from finchlang.testing.variants import differences
from finchlang.text.parse import parse_script
from finchlang.text.print import pretty

#: the seconds after which a case hangs, those for reducing a difference, those for finding its cause, and
#: the least that a smaller text may take (one that takes far longer than the whole has no end)
HANGS, REDUCES, CAUSES, LEAST = 120.0, 30.0, 60.0, 2.0
#: outcomes of a case
RUN, REFUSED, DIFFERS, CRASHED, HANG = "run", "refused", "differs", "crashed", "hangs"


@record
class Options:
    """The options of a campaign: `cases` from `seed` on, or as many as there is time for in `minutes`; with
    `metamorphic` scripts are compared with their variants; with `stop` it ends at the first finding."""

    cases: int = 0
    minutes: float = 0.0
    seed: int = 0
    rules: str = "all"
    checked: bool = False
    coverage: bool = False
    metamorphic: bool = False
    stop: bool = False
    workers: int = 1
    out: str = ""


@dataclass
class Summary:
    """The results of a campaign: the number of cases of each kind, findings by seed, what was reached, and
    whether it was interrupted."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    is_interrupted: bool = False

    @property
    def report(self) -> str:
        lines = [f"seed {seed}: {said}" for seed, said in sorted(self.findings.items())]
        total = sum(self.counts.values())
        share = self.counts[RUN] / total if total else 1.0
        lines.append(f"{total} cases in {self.seconds:.0f} s, {share:.1%} ran: {dict(self.counts)}")
        if self.refusals:
            lines.append(f"refused: {dict(self.refusals)}")
        if self.reached:
            lines.append(report(self.reached))
        return "\n".join(lines)

    @property
    def json(self) -> str:
        reached = {f"{kind} {name}": count for (kind, name), count in self.reached.items()}
        return json.dumps({**vars(self), "reached": reached})


def ways(options: Options, seed: int) -> tuple[Way, ...]:
    """The ways to run the case of a seed: all semantics, if it is even with the paper's rules, too; native
    code has its memory checked each third time."""
    rules, checked = options.rules, options.checked or seed % 3 == 0
    found = [Way("denote"), Way("interpret", rules), Way("residual", rules)]
    found.append(Way("native", rules, checked=checked))
    if seed % 2 == 0 and rules != "paper":
        found.append(Way("interpret", "paper"))
    return tuple(found)


#: by the last digit of a seed what else is tried: values beside NumPy's, and declarations of laws
APART = {2: expected_difference, 6: expected_difference, 9: law_difference}


def is_apart(seed: int, options: Options) -> bool:
    """Whether a case is no plain comparison."""
    return options.metamorphic or seed % 10 in APART


def run_case(seed: int, options: Options, cover: Coverage | None = None) -> tuple[str, str]:
    """The outcome of the case of a seed, and a message. Every exception is an outcome."""
    try:
        if is_apart(seed, options):
            engine, is_variants = ("native", "interpret")[seed % 2], options.metamorphic
            made = differences(generate(seed, True), seed, engine) if is_variants else ""
            found = made if is_variants else APART[seed % 10](seed)
            return (DIFFERS, found) if found else (RUN, "")
        text, chosen = generate(seed), ways(options, seed)
        script = parse_script(text)
        if parse_script(pretty(script)) != script:
            return DIFFERS, "it is another script when it is printed and parsed again"
        if cover is not None and options.coverage:
            cover.run(text, chosen[-1].rules)
        comparison = compare(text, ways=chosen)
    except FinchError as error:
        return REFUSED, error.kind
    except Exception as error:  # a Bug, or a crash of the tested code
        return CRASHED, f"{type(error).__name__}: {error}"
    if comparison.differences:
        return DIFFERS, comparison.report
    for refusal in comparison.errors.values():
        if refusal.span is None:
            return DIFFERS, f"an error that says no place: {refusal}"
        if refusal.kind == "syntax":
            return DIFFERS, f"a generated script is no program: {refusal}"
        return REFUSED, refusal.kind
    return RUN, ""


def _work(task: tuple[int, Options], tell: Callable[[str], None]) -> tuple[str, str, Any]:
    quick()
    (seed, options), cover = task, Coverage()
    return (*run_case(seed, options, cover), cover.counts)


def small_text(
    text: str, chosen: tuple[Way, ...], seconds: float, apart: Comparer, **given: Any
) -> tuple[str, Blame]:
    """A smaller script that shows the same difference, as small as `seconds` allow, and its cause; `given`
    are further arguments of `compare`. Raises FinchError of kind resource if no way ends."""
    compared: Callable[..., Comparison] = partial(apart.compare, **given)
    start = time.monotonic()
    found = compared(text, ways=chosen)
    if found.agrees:
        return text, Blame(())
    hangs = any(fault[0] == HUNG for fault in found.faults)
    each = math.inf if hangs else max(LEAST, 4 * (time.monotonic() - start))
    end = time.monotonic() + seconds
    for ways in (_telling(found, chosen), chosen):
        # some time is left to see that the smaller text differs in all ways
        with apart.within(0.8 * (end - time.monotonic()), each):
            small = _reduced(text, ways, compared, apart.until)
        with apart.within(end - time.monotonic(), each):
            if small != text and shows(compared, found, small, chosen):
                text = small
                break
    with apart.within(CAUSES):
        try:
            return text, blame(text, chosen, compared)
        except FinchError:  # it takes too long
            return text, Blame(tuple(found.differences))


def _reduced(
    text: str, ways: tuple[Way, ...], compared: Callable[..., Comparison], until: float
) -> str:
    with suppress(FinchError):
        if (first := compared(text, ways=ways)).faults:
            left = until - time.monotonic()
            return reduce(text, lambda small: shows(compared, first, small, ways), left)
    return text


def _telling(found: Comparison, chosen: tuple[Way, ...]) -> tuple[Way, ...]:
    """Two of the ways that differ from each other, if the faults name them; else all."""
    by_label = dict(zip(found.engines, chosen, strict=True))
    for _, groups, *_ in (fault for fault in found.faults if fault[0] in ("value", "error")):
        return by_label[groups[0][-1]], by_label[groups[1][0]]
    return chosen


def fuzz(options: Options, progress: Callable[[str], Any] = lambda text: None) -> Summary:
    """Run a campaign. Findings are also written to the folder `out`, as files for `finch replay`."""
    summary, start = Summary(), time.monotonic()
    last = options.seed + (options.cases or sys.maxsize)
    seeds = iter(range(options.seed, last))
    workers = [Apart(_work) for _ in range(options.workers)]
    at: dict[Apart, int] = {}
    try:
        while True:
            for worker in workers:
                goes_on = not options.minutes or summary.seconds < 60 * options.minutes
                goes_on = goes_on and not (options.stop and summary.findings)
                if worker not in at and goes_on and (seed := next(seeds, None)) is not None:
                    at[worker] = seed
                    worker.give((seed, options))
            if not at:
                return summary
            wait([worker.connection for worker in at], 1.0)
            for worker in [*at]:
                if (outcome := worker.answer(HANGS)) is not None:
                    _note(summary, options, at.pop(worker), *outcome)
                    summary.seconds = time.monotonic() - start
                    total = sum(summary.counts.values())
                    progress(f"{total} cases, {len(summary.findings)} findings")
    except KeyboardInterrupt:  # what was found so far is not lost
        summary.is_interrupted = True
        return summary
    finally:
        for worker in workers:
            worker.end()


def _note(summary: Summary, options: Options, seed: int, outcome: str, answer: Any) -> None:
    crash = {DIED: CRASHED, HUNG: HANG}.get(outcome)
    kind, said, counts = (crash, answer, {}) if crash else answer
    summary.counts[kind] += 1
    if options.coverage:
        summary.reached.update(counts)
    if kind == REFUSED:
        summary.refusals[said] += 1
    if kind in (RUN, REFUSED):
        return
    summary.findings[seed] = f"{kind}: {said}"
    text, chosen = "" if is_apart(seed, options) else generate(seed), ways(options, seed)
    if text:
        # reducing may take too long: then the script stays as it is
        with suppress(FinchError), Comparer(REDUCES, is_quick=True) as apart:
            text, why = small_text(text, chosen, REDUCES, apart)
            said = str(why) or said
    summary.findings[seed] = f"{kind}: {said}"
    if options.out:
        folder = Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
        file = replay_text(text, chosen, f"seed {seed}: {kind}: {said}")
        (folder / f"seed{seed}.finch").write_text(file, "utf-8")
