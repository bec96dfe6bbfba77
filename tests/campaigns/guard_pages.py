"""The native tests with every buffer against an unmapped page (a command of its own).

`python -m tests.campaigns.guard_pages` runs the tests of compiled code twice in child processes, with the
pages after and before the arrays; a crash is reported with the test's name and Python's stack, and the
tests behind it are gone on with. Arguments are test files, or options for pytest.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]  # the tests import one another by their bare names

from in_child import in_child  # noqa: E402

from finchlang.base import aligned_memory  # noqa: E402
from tests.campaigns.guarded_memory import SIDES, guarded  # noqa: E402

#: those in which native code goes through arrays of all kinds
PLACES = ("contracts", "properties", "programs")


class Watch:
    """Says which test begins and how it ends; leaves out those that were run before."""

    def __init__(self, report: Callable[[str], None], finished: set[str]):
        self.report, self.finished = report, finished

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        for name in "faulthandler_timeout", "faulthandler_exit_on_timeout":
            parser.addini(name, "of the plugin that is left out")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.finished]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.report(f"{nodeid}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.splitlines()
            told = [line for line in lines if line.startswith("E ")] or lines[-1:]
            self.report(f"!{told[0]}\n")


def run_once(
    side: str, options: list[str], finished: set[str], seconds: float = 3600.0
) -> tuple[list[str], list[str]]:
    """Run the tests that are not finished, up to a crash: their names, and what was found."""
    with tempfile.NamedTemporaryFile("w+") as stack:

        def work(report: Callable[[str], None]) -> None:
            faulthandler.enable(stack)
            aligned_memory.ALIGNMENT = 1  # or an array would end somewhat before its page
            quiet = contextlib.redirect_stdout(io.StringIO())
            with quiet, guarded(side):
                arguments = ["-q", "-p", "no:faulthandler", "-p", "no:cacheprovider", *options]
                status = pytest.main(arguments, plugins=[Watch(report, finished)])
                if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                    report(f"the tests themselves\n!pytest's status is {status!r}\n")
                os._exit(0)  # with all that is still in guarded memory

        ended = in_child(work, seconds)
        stack.seek(0)
        trace = "".join(stack.readlines()[:12])
    names: list[str] = []
    found: list[str] = []
    for line in ended.said.splitlines():
        if line.startswith("!"):
            found.append(f"{names[-1]} (pages {side}): failed: {line[1:]}")
        else:
            names.append(line)
    if not ended:
        name = names[-1] if names else "before the first test"
        found.append(f"{name} (pages {side}): {ended.fault}\n{trace or ended.said[-2000:]}")
    return names, found


def findings(side: str, options: list[str]) -> Iterator[str]:
    """What all the tests find; the last one is how many there were."""
    finished: set[str] = set()
    while True:
        names, found = run_once(side, options, finished)
        yield from found
        if not set(names) - finished or not any("failed:" not in one for one in found):
            break
        finished.update(names)
    yield f"pages {side}: {len(finished | set(names))} tests"


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="guard_pages", description=__doc__)
    parser.add_argument("--side", choices=(*SIDES, "both"), default="both")
    known, options = parser.parse_known_args()
    if not any(Path(option.partition("::")[0]).exists() for option in options):
        options += [str(TESTS / place) for place in PLACES]
    count = 0
    for side in SIDES if known.side == "both" else (known.side,):
        for finding in findings(side, options):
            count += not finding.startswith("pages")
            print(finding, flush=True)
    print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
