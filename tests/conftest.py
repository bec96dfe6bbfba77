"""What the tests share: `--update-golden`, the fixture that compares with golden files, and native
code that is compiled quickly."""

from __future__ import annotations

import gc
import os
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from finchlang.calls import staging
from finchlang.native.compiler import compile_plainly

GOLDEN = Path(__file__).parent / "golden"

#: a shell lets what it starts in the background ignore Ctrl-C, which tests send to themselves
signal.signal(signal.SIGINT, signal.default_int_handler)

#: every residual program is checked when it is made, and after each pass
os.environ["FINCH_CHECK"] = "1"
staging.STAGED = 160  # the ways to run a program share what is staged, however many kernels it has

#: How long an example or its making takes says nothing on a machine that has other work. Examples are the
#: same in each run, so that no change is blamed for what another finds; who asks for more gets new ones.
settings.register_profile(
    "same",
    deadline=None,
    derandomize=not {"ARRAYS", "PLANS"} & {*os.environ},
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


def pytest_collection_finish() -> None:
    """What is there now stays: it is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With TEST_SAMPLE=n in the environment, every test runs with every n-th of its parameters."""
    sample = int(os.environ.get("TEST_SAMPLE", "1"))
    seen: Counter[str] = Counter()
    kept, left = [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        (left if seen[name] % sample else kept).append(item)
        seen[name] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


#: what `make quick` asks for; then no native code is optimised
QUICK = "not slow"


@pytest.fixture(scope="session")
def is_quick(request: pytest.FixtureRequest) -> bool:
    return request.config.option.markexpr == QUICK


def pytest_runtest_setup(item: pytest.Item) -> None:
    """For `make quick` no native code is optimised, else that of one test of four is, or where the mark
    says so that of all."""
    is_whole = item.get_closest_marker("optimised") or "benchmarks" in item.path.parts
    some = zlib.crc32(item.nodeid.encode()) % 4 == 0
    compile_plainly(item.config.option.markexpr == QUICK or not (is_whole or some))


@pytest.fixture(autouse=True, scope="module")
def checked_native_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the mark, native code checks each access to memory."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("checked"):
            patch.setenv("FINCH_CHECKED", "1")
        yield


@pytest.fixture
def plainly() -> Callable[[bool], None]:
    """Says whether LLVM's passes are left out from now on, up to the end of the test."""
    return compile_plainly


@pytest.fixture
def nothing_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are staged anew, whatever was staged before."""
    monkeypatch.setattr(staging, "_staged", {})
    monkeypatch.setattr(staging, "STAGED", 0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(path, text)`: `text` is what the file `path` under tests/golden holds."""

    def check(path: str, text: str) -> None:
        file = GOLDEN / path
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file} is missing; run pytest with --update-golden"
        assert text == file.read_text(encoding="utf-8"), f"{file} differs"

    return check
