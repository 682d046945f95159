"""The cache's place, and text files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seesay.paths import cache_dir, replace_text, replacing


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("SEESAY_CACHE")
    assert cache_dir().name == "seesay"
    monkeypatch.setenv("SEESAY_CACHE", "")
    assert cache_dir().name == "seesay"


def test_text_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    replace_text(path, "Grüße, 1")
    replace_text(path, "Grüße, 2")
    assert path.read_text(encoding="utf-8") == "Grüße, 2"
    assert list(tmp_path.iterdir()) == [path]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_text(path, "Grüße, 3")
    assert path.read_text(encoding="utf-8") == "Grüße, 2"


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write_half() -> None:
        with replacing(path) as beside:
            beside.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
