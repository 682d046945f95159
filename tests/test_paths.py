"""The cache's place, and text files that are whole or not there."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.paths import (
    cache_dir,
    data_dir,
    disk_errors,
    lock_of,
    locked,
    new_folder,
    replace_text,
    replacing,
    sweep,
    unusable,
)


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("SEESAY_CACHE")
    assert cache_dir().name == "seesay"
    monkeypatch.setenv("SEESAY_CACHE", "")
    assert cache_dir().name == "seesay"
    monkeypatch.setenv("SEESAY_CACHE", "~/photos/cache")
    assert cache_dir() == Path.home() / "photos/cache"


def test_what_must_be_kept_is_not_in_the_cache_that_people_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path))  # names one folder for both
    assert data_dir() == cache_dir() == tmp_path
    monkeypatch.delenv("SEESAY_CACHE")
    assert data_dir().name == "seesay"
    assert not data_dir().is_relative_to(cache_dir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(SeesayError, match=r"locks: cannot be written .*; set SEESAY_CACHE"):
        lock_of(tmp_path)


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


def test_an_error_of_the_system_names_the_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # as if the disk was full
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            replace_text(tmp_path / "a.json", "x" * 60_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(tmp_path / "a.json")


def test_a_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with replacing(tmp_path / "a.bin") as beside:
        beside.unlink()
        beside.touch(0o600)  # as some libraries make theirs
    assert (tmp_path / "a.bin").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_a_kill_left_is_swept(tmp_path: Path) -> None:
    abandoned, recent, other = (
        tmp_path / name for name in ("a.bin.99.34.tmp", "a.bin.99.35.tmp", "b.bin.99.34.tmp")
    )
    for file in (abandoned, recent, other):
        file.touch()
    for file in (abandoned, other):
        os.utime(file, (time.time() - 8 * 86_400,) * 2)
    with replacing(tmp_path / "a.bin") as beside:
        beside.write_bytes(b"whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.bin", recent.name, other.name]
    (tmp_path / "mine.tmp").touch()
    sweep(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.bin", "mine.tmp"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", "busy here"),
        pytest.raises(SeesayError, match="busy here"),
        locked(tmp_path / "lock", "busy here"),
    ):
        pass
    with locked(tmp_path / "lock", "busy here"):
        pass


def test_who_waits_for_a_lock_and_who_comes_later_are_not_both_inside(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", "busy here"):
        waiting = sqlite3.connect(tmp_path / "lock", 0, isolation_level=None)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            waiting.execute("BEGIN EXCLUSIVE")
    with (
        closing(waiting),
        locked(tmp_path / "lock", "busy here"),
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        waiting.execute("BEGIN EXCLUSIVE")


def test_a_patient_writer_waits(tmp_path: Path) -> None:
    entered, order = threading.Event(), []

    def first() -> None:
        with locked(tmp_path / "lock", "busy here", 10):
            entered.set()
            time.sleep(0.2)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(10)
    with locked(tmp_path / "lock", "busy here", 10):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_new_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    out = tmp_path / "clip"
    with pytest.raises(ValueError, match="no weights"), new_folder(out) as beside:  # noqa: PT012
        (beside / "half").touch()
        raise ValueError("no weights")
    assert list(tmp_path.iterdir()) == []
    with new_folder(out) as beside:
        (beside / "whole").touch()
        assert not out.exists()
    (tmp_path / "other").mkdir()
    assert [path.name for path in out.iterdir()] == ["whole"]
    assert out.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_a_killed_process_left_beside_a_new_folder_is_deleted_by_the_next(tmp_path: Path) -> None:
    killed = "import os, sys; from pathlib import Path; from seesay.paths import new_folder\n"
    killed += "with new_folder(Path(sys.argv[1])) as out:\n    (out / 'half').touch()\n    os._exit(9)"
    for name in ("clip", "other"):
        subprocess.run([sys.executable, "-c", killed, tmp_path / name], check=False)
    assert len(list(tmp_path.glob("*.tmp"))) == 2
    with new_folder(tmp_path / "clip") as out:
        (out / "whole").touch()
    assert [path.name.split(".")[0] for path in tmp_path.glob("*.tmp")] == ["other"]


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be opened")
def test_a_new_folder_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, flushed, fsync = tmp_path / "clip", list[tuple[int, bool]](), os.fsync

    def noting(number: int) -> None:
        flushed.append((os.fstat(number).st_ino, out.exists()))
        fsync(number)

    monkeypatch.setattr(os, "fsync", noting)
    with new_folder(out) as beside:
        (beside / "towers").mkdir()
        for name in ("run.json", "towers/image.onnx"):
            (beside / name).write_bytes(b"whole")
    written = {path.stat().st_ino for path in (out, *out.rglob("*"))}
    assert written == {inode for inode, has_name in flushed if not has_name}
    assert (tmp_path.stat().st_ino, True) in flushed


def test_processes_of_one_number_make_a_folder_at_once(tmp_path: Path) -> None:
    (tmp_path / f"clip.{os.getpid()}.tmp").mkdir()  # such as two containers have
    with new_folder(tmp_path / "clip") as first:
        (first / "whole").touch()
        with pytest.raises(ValueError, match="no weights"), new_folder(tmp_path / "clip"):
            raise ValueError("no weights")
    assert [path.name for path in (tmp_path / "clip").iterdir()] == ["whole"]


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_clock_that_jumps_does_not_make_another_ones_work_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    now = time.time()
    with replacing(tmp_path / "a.bin") as mine, new_folder(tmp_path / "clip") as held:
        mine.write_bytes(b"mine")
        (held / "image.onnx").write_bytes(b"mine")
        monkeypatch.setattr(time, "time", lambda: now + jump)
        with ThreadPoolExecutor(1) as another_thread:
            another_thread.submit(replace_text, tmp_path / "a.bin", "another one's").result()
        with new_folder(tmp_path / "clip") as another:
            (another / "image.onnx").write_bytes(b"another one's")
            assert (held / "image.onnx").exists()
        (tmp_path / "clip" / "image.onnx").unlink()
    replace_text(tmp_path / "a.bin", "again")
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a.bin", "clip", "image.onnx"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    def write() -> None:
        with disk_errors(tmp_path), Path("/dev/full").open("w") as file:
            file.write("x")

    with pytest.raises(SeesayError, match="No space left on device"):
        write()
    # Of libraries that keep only the system's words.
    with (
        pytest.raises(SeesayError, match=rf"{tmp_path}: cannot be written \(No space"),
        disk_errors(tmp_path),
    ):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    with pytest.raises(RuntimeError, match="other"), disk_errors(tmp_path):
        raise RuntimeError("other")


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EIO, os.strerror(errno.EIO)), ValueError("in Rust: Input/output error (os error 5)")],
)
def test_what_the_disk_does_not_return_is_not_called_damaged(failure: Exception) -> None:
    told = str(unusable(Path("run.json"), failure, "damaged; train again."))
    assert told.startswith("run.json: cannot be read (Input/output error); check the disk.")
    assert str(unusable(Path("run.json"), ValueError("no JSON"), "damaged.")) == "run.json: damaged."


def test_what_a_library_calls_damaged_is_read_again(tmp_path: Path) -> None:
    whole = tmp_path / "weights.safetensors"
    whole.write_bytes(b"damaged")
    assert str(unusable(whole, ValueError("no header"), "damaged.")) == f"{whole}: damaged."
    unmapped = Path("/proc/self/mem")  # a file whose first bytes cannot be read
    if not unmapped.exists():
        pytest.skip("no /proc here")
    told = str(unusable(unmapped, ValueError("no header"), "damaged."))
    assert told.startswith(f"{unmapped}: cannot be read (Input/output error); check the disk.")
