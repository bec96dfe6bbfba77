"""What the tests share: `--update-golden`, and the fixture that compares with golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


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
