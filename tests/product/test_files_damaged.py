"""Damaged files of every kind, scripts and cache entries end in a value or a clear error: a few of the
campaign's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # `tests` is a package of the checkout

from tests.campaigns import files

pytestmark = pytest.mark.optimised  # other code is not kept in the cache


def test_some_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("binsparse")
    monkeypatch.setenv("FINCH_CACHE_DIR", str(tmp_path / "cache"))
    whole = files.whole_files(tmp_path)
    suffixes = (*whole, "cache")
    found = list(files.batch(range(500), suffixes, whole, tmp_path))
    assert not [finding for _, finding in found if finding]
    assert sum(done for done, _ in found) == 500
    assert (tmp_path / "cache").is_dir()  # there was something to damage


@pytest.mark.parametrize("fault", ["raises", "crashes", "changes what is bound"])
def test_what_goes_wrong_is_found(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: files.Session, text: str) -> None:
        if fault == "raises":
            raise IndexError
        if fault == "crashes":
            files.os.abort()
        self["kept1"][0] = 7
        self["found"] = 1

    monkeypatch.setattr(files.Session, "run", run)
    found = list(files.batch(range(3), (".mtx",), {".mtx": [b"1 1"]}, tmp_path))
    assert [done for done, _ in found] == [0, 0, 0] and all(finding for _, finding in found)
