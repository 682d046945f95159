"""The key that seals what this user made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.seal import check_seals, is_sealed, seal

_SEAL = "from seesay.seal import seal; print(seal('index', '/photos'))"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has no key yet."""
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_seal_is_of_one_thing_of_one_index_by_one_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seal("index", "/photos")
    assert is_sealed("index", "/photos", made)
    assert not is_sealed("other", "/photos", made)
    assert not is_sealed("index", "/etc", made)
    assert not is_sealed("index", "/photos", "")
    assert not is_sealed("index", "/photos", "ü")
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    assert not is_sealed("index", "/photos", made)


def test_who_can_keep_no_key_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", "/dev/null/cache")
    assert seal("index", "/photos") == ""
    with pytest.raises(SeesayError, match="set SEESAY_CACHE to a writable folder"):
        check_seals()


def test_the_key_is_for_its_user_alone(cache: Path) -> None:
    seal("index", "/photos")
    assert (cache / "index.key").stat().st_mode & 0o777 == 0o600
    assert {file.name for file in cache.iterdir()} == {"index.key", "index.lock"}


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be opened")
def test_the_name_of_the_key_is_on_the_disk_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, fsync = list[int](), os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.fstat(number).st_ino) or fsync(number))
    seal("index", "/photos")
    assert flushed[-2:] == [cache.stat().st_ino, cache.parent.stat().st_ino]


@pytest.mark.parametrize("left", [b"", b"half"])
def test_a_key_that_a_full_disk_cut_off_is_replaced(cache: Path, left: bytes) -> None:
    cache.mkdir()
    (cache / "index.key").write_bytes(left)
    assert is_sealed("index", "/photos", seal("index", "/photos"))
    assert len((cache / "index.key").read_bytes()) == 32


def test_nothing_is_sealed_where_no_key_can_be_kept(cache: Path) -> None:
    cache.write_text("a file where the folder should be", encoding="utf-8")
    assert seal("index", "/photos") == ""


def test_processes_that_begin_at_once_make_one_key() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", _SEAL], stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    seals = {process.communicate()[0].strip() for process in processes}
    assert len(seals) == 1
    assert len(seals.pop()) == 32
