"""`finch fuzz`: generated scripts in several ways, in processes of their own, so that a crash or a hang of
one is a finding like any other."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from finchlang.source import FinchError
from finchlang.testing.blame import blame
from finchlang.testing.compare import Way, compare
from finchlang.testing.coverage import Coverage, report
from finchlang.testing.reduce import reduce
from finchlang.testing.replay import replay_text
from finchlang.testing.scripts import generate
from finchlang.testing.variants import differences

#: after so many seconds a case hangs, and a difference is reduced no further
HANGS, REDUCES = 120.0, 30.0
#: what a case may come to
RUN, REFUSED, DIFFERS, CRASHED, HUNG = "run", "refused", "differs", "crashed", "hangs"
#: that, what there is to say, what was reached (None if the process ended), and the script, if it is known
Outcome = tuple[str, str, Any, str]


@dataclass(frozen=True)
class Options:
    """What a campaign is to do: `cases` from `seed` on, or as many as there is time for in `minutes`;
    with `metamorphic`, einsums and their variants in place of scripts."""

    cases: int = 0
    minutes: float = 0.0
    seed: int = 0
    rules: str = "all"
    checked: bool = False
    coverage: bool = False
    metamorphic: bool = False
    workers: int = 1
    out: str = ""


@dataclass
class Summary:
    """What came of a campaign: how many cases of which kind, findings by seed, what was reached."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def report(self) -> str:
        """For people."""
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
        return json.dumps({**asdict(self), "reached": reached})


def ways(options: Options, seed: int) -> tuple[Way, ...]:
    """How the case of a seed is run: by all semantics, and each fourth by the paper's rules as well."""
    rules, checked = options.rules, options.checked
    found = [Way("denote"), Way("interpret", rules), Way("residual", rules)]
    found.append(Way("native", rules, checked=checked))
    if seed % 4 == 0 and rules != "paper":
        found.append(Way("interpret", "paper"))
    return tuple(found)


def run_case(seed: int, options: Options, cover: Coverage | None = None) -> tuple[str, str]:
    """What came of the case of a seed, and what there is to say. Nothing that goes wrong is let through."""
    try:
        if cover is not None and options.coverage and not options.metamorphic:
            cover.run(generate(seed))
        if options.metamorphic:
            found = differences(seed)
            return (DIFFERS, found) if found else (RUN, "")
        comparison = compare(generate(seed), ways=ways(options, seed))
    except FinchError as error:
        return REFUSED, error.kind
    except Exception as error:  # a Bug, or a crash of the tested code
        return CRASHED, f"{type(error).__name__}: {error}"
    if comparison.differences:
        return DIFFERS, comparison.report
    if comparison.errors:
        return REFUSED, next(iter(comparison.errors.values())).kind
    return RUN, ""


def _work(connection: Connection, options: Options) -> None:
    """Run the seeds that come, telling what came of each."""
    from finchlang.native.jit import compile_plainly

    os.environ["FINCH_CACHE_DIR"] = ""  # all that is compiled here is met once
    warnings.simplefilter("ignore")  # NumPy's, of infinities and NaN
    compile_plainly()
    while (seed := connection.recv()) is not None:
        cover = Coverage()
        kind, said = run_case(seed, options, cover)
        text = "" if options.metamorphic else generate(seed)
        if kind == DIFFERS and text:
            text = _reduced(text, ways(options, seed))
            said = str(blame(text, ways(options, seed))) or said
        connection.send((kind, said, cover.counts, text))


def _reduced(text: str, chosen: tuple[Way, ...]) -> str:
    """A smaller script that differs as this one does; the script itself where what looks for one fails."""
    try:
        return reduce(text, lambda small: not compare(small, ways=chosen).agrees, REDUCES)
    except Exception:
        return text


class _Worker:
    """A process that runs cases."""

    def __init__(self, options: Options):
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, options), daemon=True)
        self.process.start()
        other.close()
        self.seed, self.since = -1, 0.0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.connection.send(seed)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def fuzz(options: Options, progress: Callable[[str], Any] = lambda text: None) -> Summary:
    """Run a campaign; findings are written to the folder `out` too, each as `finch replay` takes it."""
    summary, start = Summary(), time.monotonic()
    last = options.seed + (options.cases or sys.maxsize)
    workers = [_Worker(options) for _ in range(options.workers)]
    seed = options.seed
    try:
        for worker in workers:
            if seed < last:
                worker.give(seed)
                seed += 1
        while any(worker.seed >= 0 for worker in workers):
            wait([w.connection for w in workers if w.seed >= 0], 1.0)
            for k, worker in enumerate(workers):
                outcome = _outcome(worker)
                if outcome is None:
                    continue
                _note(summary, options, worker.seed, outcome)
                summary.seconds = time.monotonic() - start
                progress(f"{sum(summary.counts.values())} cases, {len(summary.findings)} findings")
                if outcome[0] in (CRASHED, HUNG) and not outcome[2]:
                    worker.end()
                    workers[k] = worker = _Worker(options)
                in_time = not options.minutes or summary.seconds < 60 * options.minutes
                worker.seed = -1
                if seed < last and in_time:
                    worker.give(seed)
                    seed += 1
    finally:
        for worker in workers:
            worker.end()
    return summary


def _outcome(worker: _Worker) -> Outcome | None:
    """What came of the case that a worker has, if it is known; without counts if the worker is to end."""
    if worker.seed < 0:
        return None
    try:
        if worker.connection.poll():
            kind, said, counts, text = worker.connection.recv()
            return kind, said, counts or Counter({("script", "run"): 1}), text
    except (EOFError, OSError):
        worker.process.join()
        return CRASHED, f"the process ended with status {worker.process.exitcode}", None, ""
    if time.monotonic() - worker.since > HANGS:
        return HUNG, f"no end after {HANGS:.0f} s", None, ""
    return None


def _note(summary: Summary, options: Options, seed: int, outcome: Outcome) -> None:
    kind, said, counts, text = outcome
    summary.counts[kind] += 1
    if options.coverage:
        summary.reached.update(counts or {})
    if kind == REFUSED:
        summary.refusals[said] += 1
    elif kind != RUN:
        summary.findings[seed] = f"{kind}: {said}"
        if options.out:
            folder = Path(options.out)
            folder.mkdir(parents=True, exist_ok=True)
            script = text or ("" if options.metamorphic else generate(seed))
            file = replay_text(script, ways(options, seed), f"seed {seed}: {kind}: {said}")
            (folder / f"seed{seed}.finch").write_text(file, "utf-8")
