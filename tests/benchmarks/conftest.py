"""One thread for everybody, the options, the meter, and the table at the end.

    python -m pytest tests/benchmarks [-k NAME] [--quick] [--results FOLDER]

`--quick` takes fewer data sets and shorter races; `--results FOLDER` (or FINCH_BENCH_RESULTS) also
writes RESULTS.md and results.svg.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

for _name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "VECLIB_MAXIMUM"):  # before anyone starts threads
    os.environ[f"{_name}_NUM_THREADS"] = "1"
os.environ["FINCH_CACHE_DIR"] = ""  # what is compiled is compiled in this process

import pytest  # noqa: E402
from meter import Meter  # noqa: E402
from report import summary_lines, write_results  # noqa: E402

METER = pytest.StashKey[Meter]()


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--quick", action="store_true", help="fewer data sets and shorter races")
    parser.addoption("--results", metavar="FOLDER", help="write RESULTS.md and results.svg there")


def pytest_configure(config: Any) -> None:
    config.stash[METER] = Meter(seconds=0.2 if config.getoption("quick", False) else 0.6)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """With --quick, one seed is enough."""
    if config.getoption("quick", False):
        items[:] = [item for item in items if not _is_second_seed(item)]


def _is_second_seed(item: Any) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(
        str(value).endswith("seed 2") for value in parameters.params.values()
    )


@pytest.fixture
def meter(request: Any) -> Meter:
    return request.config.stash[METER]


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
