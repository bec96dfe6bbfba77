"""What do the tests catch? Faults are planted, one at a time, in a copy of the checkout, and a command is
run there: `python -m tests.campaigns.mutate [--with quick|test|programs|fuzz|COMMAND] [--layer L]
[--only NAME] [--jobs N] [--seconds S] [--out FILE]`; with `--blame` it is asked whether each is reduced
and its layer named.

The faults are data (`faults.toml`). A command that fails has caught its fault, as has one that dies or
says nothing for S seconds: a table says so, and which test was first. `--out FILE` keeps it as FILE.json
and FILE.md, and a second run of the same file goes on with the faults that were not caught. A fault may
name the test that caught it last; this is run first.
"""

from __future__ import annotations

import argparse
import compileall
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
#: what a copy has no use for
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".cache*", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist")
)
#: what stands beside the package in a checkout, and is part of it
BESIDE = ("grammar", "repl")
_MAKE = "make --no-print-directory VENV={venv} --old-file={venv}/installed"
#: the commands that have a name; each stops at the first failure, and says which test it is in
COMMANDS = {
    "quick": f'{_MAKE} quick PYTEST_ARGS="-x -n 0 -vv"',
    "test": f'{_MAKE} test PYTEST_ARGS="-x -n 0 -vv"',
    "programs": "{python} -m pytest -x -n 0 -q -vv tests/programs/test_programs.py",
    "fuzz": "{python} -m finchlang.repl fuzz --minutes 5 --seed 1 --stop",
}
#: one test, as `quick` runs it
ONE = '{python} -m pytest -x -n 0 -q -vv -m "not slow"'
#: how many seconds of processor time a command may be silent, and those that are longer
SILENT, LONG = 120.0, {"fuzz": 1200.0}


@dataclass(frozen=True)
class Fault:
    """In `file`, which has `old` once, there is `new`: what that does is what it `says`. `test` is one that
    is known to catch it."""

    name: str
    layer: str
    file: str
    old: str
    new: str
    says: str
    test: str = ""

    def planted(self, text: str) -> str:
        """The text of the file with the fault. Raises ValueError if there is no one place for it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {text.count(self.old)} places in {self.file}, not one")
        return text.replace(self.old, self.new)


def faults() -> list[Fault]:
    """All that are known."""
    return [Fault(**row) for row in tomllib.loads(FAULTS.read_text("utf-8"))["fault"]]


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: whether it was `caught`, `how` ("failed", "died", "hung", "passed"), in
    which test first, and after how many seconds."""

    name: str
    layer: str
    caught: bool
    how: str
    test: str
    seconds: float


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of a checkout in which the package is whole."""
    copy = folder / "checkout"
    shutil.copytree(checkout, copy, ignore=LEFT_OUT, symlinks=True)
    for name in BESIDE:
        if not (link := copy / "finchlang" / name).exists():
            link.symlink_to(f"../{name}", target_is_directory=True)
    return copy


def plant(fault: Fault, copy: Path) -> None:
    """Have a fault in a copy, and no code that was compiled from the file before."""
    path = copy / fault.file
    path.write_text(fault.planted(path.read_text("utf-8")), encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def tried(fault: Fault, command: str, seconds: float, checkout: Path = CHECKOUT) -> Outcome:
    """Run a command with a fault in a checkout; if it is tests, the one that is known first."""
    known = {"python": sys.executable, "venv": sys.prefix}
    words = shlex.split(COMMANDS.get(command, command).format(**known))
    one = [*shlex.split(ONE.format(**known)), f"tests/{fault.test}"]
    with tempfile.TemporaryDirectory(prefix="finch-fault-") as folder:
        copy = copied(checkout, Path(folder))
        plant(fault, copy)
        if fault.test and command in ("quick", "test"):
            outcome = run(fault, one, copy, seconds)
            if outcome.caught and outcome.test:  # it was run
                return outcome
        return run(fault, words, copy, seconds)


def run(fault: Fault, words: Sequence[str], copy: Path, seconds: float) -> Outcome:
    """Run a command, by its words, in a copy that has a fault."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONUNBUFFERED": "1",
        "FINCH_CACHE_DIR": str(copy.parent / "cache"),
    }
    log, start = copy.parent / "log", time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(
            words,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = awaited(process, log, seconds)
        finally:
            ended(process)
    took, text = time.monotonic() - start, log.read_text("utf-8", "replace")
    how = "hung" if status is None else "passed" if status == 0 else kind_of(text)
    return Outcome(fault.name, fault.layer, status != 0, how, first_test(text), round(took, 1))


def awaited(process: subprocess.Popen[bytes], log: Path, seconds: float) -> int | None:
    """The status of a process; None if it has not said anything in `log` for so many seconds of processor
    time, as a busy machine only has it wait, or for five times as many by the clock."""

    def now() -> tuple[float, float]:
        return processor_time(process.pid), time.monotonic() / 5

    said, since = 0, now()
    while all(t - began < seconds for t, began in zip(now(), since, strict=True)):
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            if (size := log.stat().st_size) != said:
                said, since = size, now()
    return None


def processor_time(group: int) -> float:
    """The seconds that the processes of a group, and those that they waited for, have used processors."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text("utf-8").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) if int(fields[2]) == group else 0
    return total / os.sysconf("SC_CLK_TCK")


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, and those it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kind_of(text: str) -> str:
    """How a command failed, by what it printed: pytest and fuzz that are not killed have a last word."""
    last = r"\d+ (failed|errors?)\b|no tests ran|^ERROR|^\d+ cases in"
    is_over = re.search(last, text, re.MULTILINE)
    return "failed" if is_over else "died"


def first_test(text: str) -> str:
    """The first test that failed, or what `finch fuzz` found, else the last one that was begun."""
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", text, re.MULTILINE)
    failed += re.findall(r"^seed \d+: .*", text, re.MULTILINE)
    begun = re.findall(r"^(tests/\S+::.+?)(?: (?:PASSED|FAILED|SKIPPED).*)?$", text, re.MULTILINE)
    found = failed[0] if failed else begun[-1] if begun else ""
    return found.strip().removeprefix("tests/")


#: what `blame` is to say of a fault of a layer whose programs differ
NAMED = {
    **{
        "base rules": "the rules",
        "derived rules": "the derived rule",
        "laws": "the operator table",
    },
    **{"levels": "the level", "shapes": "the shape operator", "workspaces": "workspaces"},
    **{"hosts": "the executing host|staging", "passes": "a pass over the residual"},
    **{"native": "native code", "normalisation": "normalisation"},
}


@dataclass(frozen=True)
class Blamed:
    """A fault that was looked for: in which program or by which seed it was `found` ("" if it was not),
    how many `lines` are left of that, what the report says, and whether that names the layer."""

    name: str
    layer: str
    found: str = ""
    lines: int = 0
    says: str = ""

    @property
    def is_named(self) -> bool:
        named = NAMED.get(self.layer, "(?!)")
        return re.search(rf"^look at .*({named})", self.says, re.MULTILINE) is not None

    def __str__(self) -> str:
        part = re.search(r"^look at (.*)$", self.says, re.MULTILINE)
        mark = "" if self.is_named else " (**wrong**)" if part else ""
        said = f"{part[1] if part else ''}{mark}"
        return f"| {self.layer} | {self.name} | {self.found or '**no**'} | {self.lines} | {said} |"


def blamed(fault: Fault, seconds: float, checkout: Path) -> Blamed:
    """Look in a copy with the fault for a program that shows it, first the one of a test that is known to
    catch it, and have that reduced and blamed."""
    with tempfile.TemporaryDirectory(prefix="finch-fault-") as folder:
        copy = copied(checkout, Path(folder))
        plant(fault, copy)
        words = [
            sys.executable,
            "-m",
            "tests.campaigns.mutate",
            "--hunt",
            f"{fault.file} {fault.test}",
        ]
        given = {**os.environ, "PYTHONPATH": str(copy), "FINCH_CACHE_DIR": ""}
        command = [*words, "--seconds", str(seconds)]
        done = subprocess.run(command, cwd=copy, env=given, capture_output=True, text=True)
        found = done.stdout.splitlines()[-1:] or ["{}"]
        return Blamed(fault.name, fault.layer, **json.loads(found[0]))


def tell_blamed(rows: Iterable[Blamed]) -> int:
    """Print a table of them, each when it is known; whether at most one in ten is not as it should be."""
    print("| layer | fault | found in | lines | blamed |\n|---|---|---|---|---|")
    good = []
    for row in rows:
        print(row, flush=True)
        good.append(row.is_named and row.lines <= 12)
    print(f"\n{sum(good)} of {len(good)} in at most 12 lines, their layer named")
    return int(sum(good) < 0.9 * len(good))


def hunt(given: str, seconds: float) -> dict[str, Any]:
    """The first program that differs, as Blamed has it: those of `tests/programs`, then generated ones.
    `given` is the file that a fault is in, of which those that have more words come first, and the test
    that catches it, if that is known, of which the program comes before them."""
    from finchlang.base.errors import FinchError
    from finchlang.testing.apart import Comparer
    from finchlang.testing.compare_engines import ways_of
    from finchlang.testing.fuzz import small_text
    from finchlang.testing.scripts import generate

    file, _, test = given.partition(" ")
    words = re.findall(r"[a-z]{4,}", Path(file).stem + Path(file).parent.stem)
    files = sorted((CHECKOUT / "tests" / "programs").rglob("*.finch"))
    texts = {path.name: path.read_text("utf-8") for path in files}
    known_to = re.findall(r"\w+", test)
    order = sorted(texts, key=lambda n: -sum(w in (n + texts[n]).lower() for w in words))
    order.sort(key=lambda n: n.partition(".")[0] not in known_to)
    programs = itertools.chain(
        ((n, texts[n]) for n in order),
        ((f"seed {seed}", generate(seed)) for seed in itertools.count()),
    )
    end = time.monotonic() + seconds
    with Comparer(120, is_quick=True) as apart:
        for name, text in programs:
            if time.monotonic() > end:
                return {}
            with suppress(FinchError):
                if not re.search("^# engines", text, re.M) and not apart.compare(text).agrees:
                    small, why = small_text(text, ways_of(), 60, apart)
                    return {"found": name, "lines": len(small.splitlines()), "says": str(why)}
    return {}


def table(outcomes: Sequence[Outcome], command: str) -> str:
    """The outcomes for people, as Markdown."""
    caught = sum(outcome.caught for outcome in outcomes)
    lines = [
        f"`{command}` caught {caught} of {len(outcomes)} faults.",
        "",
        "| layer | fault | caught | seconds | first test |",
        "|---|---|---|---|---|",
    ]
    for o in sorted(outcomes, key=lambda o: (o.layer, o.name)):
        how = o.how if o.caught else "**no**"
        test = f"`{o.test}`" if o.caught and o.test else ""
        lines.append(f"| {o.layer} | {o.name} | {how} | {o.seconds:.0f} | {test} |")
    return "\n".join(lines) + "\n"


def keep(outcomes: Iterable[Outcome], command: str, out: str) -> None:
    """Write a table, and the same as JSON."""
    rows = list(outcomes)
    Path(f"{out}.json").write_text(json.dumps([asdict(o) for o in rows], indent=1) + "\n")
    Path(f"{out}.md").write_text(table(rows, command))


def kept(path: Path) -> list[Outcome]:
    """The outcomes that a file has."""
    rows: list[Any] = json.loads(path.read_text()) if path.exists() else []
    return [Outcome(**row) for row in rows]


def main() -> int:
    description = (__doc__ or "").partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="tests.campaigns.mutate", description=description)
    parser.add_argument("--with", dest="command", default="quick", help="a name or a command")
    parser.add_argument("--layer", action="append", help="faults of this layer")
    parser.add_argument("--only", action="append", help="this fault")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="how long a command may be silent")
    parser.add_argument("--out", default="", help="FILE.json and FILE.md take the table")
    parser.add_argument("--blame", action="store_true", help="have them found, reduced and named")
    parser.add_argument(
        "--hunt", metavar="FILE", help="look for a program that a fault of FILE breaks"
    )
    given = parser.parse_args()
    if given.hunt:
        print(json.dumps(hunt(given.hunt, given.seconds)))
        return 0
    seconds = given.seconds or LONG.get(given.command, SILENT)
    chosen = [
        fault
        for fault in faults()
        if (not given.layer or fault.layer in given.layer)
        and (not given.only or fault.name in given.only)
    ]
    found = {o.name: o for o in kept(Path(f"{given.out}.json")) if o.caught}
    left = [fault for fault in chosen if fault.name not in found]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        sound = copied(CHECKOUT, Path(folder))
        compileall.compile_dir(sound / "finchlang", quiet=2)  # once for all of them
        if given.blame:
            rows = (pool.submit(blamed, fault, seconds, sound) for fault in chosen)
            return tell_blamed(row.result() for row in [*rows])
        runs = [pool.submit(tried, fault, given.command, seconds, sound) for fault in left]
        for run in as_completed(runs):
            outcome = run.result()
            found[outcome.name] = outcome
            print(
                f"{outcome.how:7} {outcome.seconds:6.0f} s  {outcome.name}  {outcome.test}",
                flush=True,
            )
            if given.out:
                keep(found.values(), given.command, given.out)
    print(f"\n{table([*found.values()], given.command)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
