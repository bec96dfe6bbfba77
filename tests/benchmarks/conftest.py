"""One thread for everybody, the options, the meter, and the table at the end.

    python -m pytest tests/benchmarks [-k NAME] [--quick] [--results FOLDER]

`--quick` takes one data set for each test, and shorter races; `--results FOLDER` (or
FINCH_BENCH_RESULTS) also writes this processor's part of RESULTS.md, and its chart.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

for _name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "VECLIB_MAXIMUM"):  # before anyone starts threads
    os.environ[f"{_name}_NUM_THREADS"] = "1"
os.environ["FINCH_CACHE_DIR"] = ""  # what is compiled is compiled in this process
os.environ.pop("FINCH_CHECK", None)  # as users have it, without the checks of tests

import pytest  # noqa: E402
from meter import Meter  # noqa: E402
from report import summary_lines, write_results  # noqa: E402

METER = pytest.StashKey[Meter]()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--quick", action="store_true", help="fewer data sets and shorter races")
    parser.addoption("--results", metavar="FOLDER", help="write RESULTS.md and results.svg there")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "long: is left out by --quick")
    config.stash[METER] = Meter(seconds=0.05 if config.getoption("quick", False) else 0.6)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """With --quick, one data set for each test is enough, with each of its other parameters."""
    if config.getoption("quick", False):
        seen: set[Any] = set()
        quick = [item for item in items if item.get_closest_marker("long") is None]
        items[:] = [item for item in quick if not _is_like_another(item, seen)]


def _is_like_another(item: Any, seen: set[Any]) -> bool:
    parameters = dict(getattr(getattr(item, "callspec", None), "params", {}))
    parameters.pop("name", None)
    key = item.path, item.originalname, tuple(sorted(map(str, parameters.items())))
    seen_before = key in seen
    seen.add(key)
    return seen_before


@pytest.fixture
def meter(request: Any) -> Meter:
    return request.config.stash[METER]


@pytest.fixture
def quick(request: Any) -> bool:
    return request.config.getoption("quick", False)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    meter = config.stash[METER]
    if not meter.rows:
        return
    for line in summary_lines(meter):
        terminalreporter.write_line(line)
    folder = config.getoption("results") or os.environ.get("FINCH_BENCH_RESULTS")
    if folder:
        command = shlex.join(["python", "-m", "pytest", *config.invocation_params.args])
        write_results(meter, Path(folder), command)
        terminalreporter.write_line(f"written: {folder}/RESULTS.md")
