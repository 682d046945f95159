"""The cache folder, atomic writing of files and folders, and locks."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir, user_data_dir

from seesay.errors import SeesayError

INDEX, RUN, WEIGHTS = "index.sqlite", "run.json", "weights.safetensors"
"""Files of indexes and runs, by which their folders are recognised."""

_ABANDONED = 7 * 86_400.0  # seconds; another process may still write to a younger temporary file
_LONGEST_NAME = 200  # bytes; file systems take 255, with what is added to it
_MAX_JSON_BYTES = 16 << 20
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)
_AT_ONCE = 1 << 20  # bytes


def cache_dir() -> Path:
    """Return the cache folder: $SEESAY_CACHE, or the operating system's folder for caches."""
    return _chosen_dir() or Path(user_cache_dir("seesay"))


def data_dir() -> Path:
    """Return the folder of what must be kept: $SEESAY_CACHE, or the operating system's folder for data."""
    return _chosen_dir() or Path(user_data_dir("seesay"))


def _chosen_dir() -> Path | None:
    chosen = os.environ.get("SEESAY_CACHE")
    return home_expanded(chosen) if chosen else None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` at the end, or delete it on an error.

    After a kill or a power cut, the file is either old or new, never partial. Its mode is that of any new
    file, whatever wrote it. An error of the operating system always names a file.
    """
    sweep(path.parent, glob.escape(path.name), older_than=_ABANDONED)
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        beside.touch()
        mode = beside.stat().st_mode
        yield beside
        beside.chmod(mode)
        flush(beside)
        beside.replace(path)
        flush(path.parent)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # writing to an open file, as on a full disk
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    if os.name == "nt" and path.is_dir():  # which cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path, names: str = "*", older_than: float = 0.0) -> None:
    """Delete the temporary files of `replacing` that a kill left in a folder, beside files of those `names`.

    `older_than` are seconds since the last write; 0 is safe only if no other process writes to the folder.
    """
    for file in folder.glob(f"{names}.[0-9]*.[0-9]*.tmp"):
        with suppress(OSError):
            if not older_than or time.time() - file.stat().st_mtime >= older_than:
                file.unlink()


@contextmanager
def locked(lock: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock file; the system releases the lock whenever the process ends.

    The file stays: if it were deleted, one process could hold the old file and another a new one.

    Raises:
        SeesayError: another process still holds it after `patience` seconds, with the message `busy`; it is
            not an empty file; or it cannot be written.
    """
    with suppress(OSError):
        there = lock.lstat()
        if not stat.S_ISREG(there.st_mode) or there.st_size:
            raise SeesayError(f"{lock}: not a lock file, which is empty; delete it.")
    # SQLite locks files on every platform. A journal beside an empty file is deleted, not played back.
    with ExitStack() as stack:
        try:
            connection = sqlite3.connect(lock, patience, isolation_level=None, check_same_thread=False)
            stack.enter_context(closing(connection))
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise SeesayError(busy) from error
            raise SeesayError(f"{lock.parent}: cannot be written ({error}).") from error
        yield


def home_expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with `~` replaced by the home folder; without a known one it stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 — that of Path raises an error


def file_beside(corpus: Path, file: str) -> Path:
    """Return the path of a file that is named relative to the folder of a corpus."""
    return (corpus if corpus.is_dir() else corpus.parent) / home_expanded(file)


def lock_of(path: Path) -> Path:
    """Return the lock file of a file or folder, in the cache.

    Raises:
        SeesayError: the cache cannot be written.
    """
    folder = cache_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable_cache(folder, error) from error
    return folder / hashlib.sha256(str(path.resolve()).encode()).hexdigest()


def unwritable_cache(path: Path, error: OSError) -> SeesayError:
    """Return an error about a file or folder of the cache that cannot be written."""
    return SeesayError(
        f"{path}: cannot be written ({error.strerror or error}); set SEESAY_CACHE to a writable folder."
    )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Convert errors about a full or failing disk, from any library, to a `SeesayError`."""
    try:
        yield
    except SeesayError:
        raise
    except Exception as error:
        if failure := failure_of_disk(error):
            place = getattr(error, "filename", None) or folder
            done = "read or written" if failure == os.strerror(errno.EIO) else "written"
            raise SeesayError(
                f"{place}: cannot be {done} ({failure}); fix that and continue. Finished work is kept."
            ) from error
        raise


def failure_of_disk(error: BaseException) -> str:
    """Return the system's message about a full or failing disk, from any library; else ""."""
    for number in _DISK_ERRORS:
        # Libraries in Rust and C++ keep only the system's words, so the number is not always there.
        if getattr(error, "errno", None) == number or os.strerror(number) in str(error):
            return os.strerror(number)
    return ""


def unusable(path: Path, error: BaseException, otherwise: str) -> SeesayError:
    """Return an error about a file that cannot be used: `otherwise`, unless the disk failed to return it.

    The file is read again, because libraries may take for damage what a failing disk did not return.
    """
    if failure := failure_of_disk(error) or _failure_to_read(path):
        return SeesayError(
            f"{path}: cannot be read ({failure}); check the disk. The file itself may be undamaged."
        )
    return SeesayError(f"{path}: {otherwise}")


def _failure_to_read(path: Path) -> str:
    try:
        with open_file(path) as file:
            while file.read(_AT_ONCE):
                pass
    except OSError as error:
        return failure_of_disk(error)
    return ""


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder beside `out` that becomes `out` at the end: all of it, or nothing on an error.

    What a killed process left beside `out` is deleted: whoever still writes holds the lock in its folder.

    Raises:
        SeesayError: `out` exists and is not an empty folder, which is checked first, or cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SeesayError(f"{out}: already exists; choose another folder.")
    busy = f"{out}: another process writes it."
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for lock in out.parent.glob(f"{glob.escape(out.name)}.????????.tmp/lock"):
            with suppress(SeesayError), locked(lock, busy):
                shutil.rmtree(lock.parent, ignore_errors=True)
        with (
            disk_errors(out),
            tempfile.TemporaryDirectory(
                ".tmp", f"{out.name}.", out.parent, ignore_cleanup_errors=True
            ) as held,
            locked(Path(held, "lock"), busy),
        ):
            beside = Path(held) / "new"  # a folder of its own, which has the mode of any new folder
            beside.mkdir()
            yield beside
            for path in (beside, *beside.rglob("*")):
                flush(path)
            if out.exists():
                out.rmdir()
            beside.rename(out)
            with suppress(OSError):  # the folder is complete and in place, so nothing needs to be repeated
                flush(out.parent)
    except OSError as error:
        raise SeesayError(f"{out}: cannot be written ({error.strerror or error}).") from error


def is_folder(path: Path) -> bool:
    """Return whether a folder is there; False if its disk or network does not answer."""
    return os.path.isdir(path)  # noqa: PTH112 — is_dir raises errors of an unavailable disk or network


def open_file(path: Path, inside: Path | None = None) -> FileIO:
    """Open a regular file for reading.

    Check and read this one descriptor: the name may belong to another file a moment later. A pipe in its
    place is refused instead of waited for. `inside` is a folder that the file must not leave. Links to files
    inside it are followed; each folder on the way is opened in the one before, so that a link that appears
    meanwhile leads nowhere.

    Raises:
        OSError: the file is missing, cannot be read, is not a regular one, or is not inside the folder.
    """
    file = FileIO(path, opener=lambda name, _: _descriptor(Path(name), inside))
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _descriptor(path: Path, inside: Path | None) -> int:
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    if inside is None:
        return os.open(path, flags)
    root, real = Path(os.path.realpath(inside)), Path(os.path.realpath(path))
    if not real.is_relative_to(root) or real == root:
        raise FileNotFoundError(errno.ENOENT, "not in its folder", str(path))
    if os.open not in os.supports_dir_fd:  # Windows
        return os.open(real, flags)
    *folders, name = real.relative_to(root).parts
    walk = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
    with ExitStack() as stack:
        at = os.open(root, walk)
        stack.callback(os.close, at)
        for folder in folders:
            at = os.open(folder, walk | os.O_NOFOLLOW, dir_fd=at)
            stack.callback(os.close, at)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(out: Path, suffixes: Collection[str]) -> None:
    """Check that a file can be written there, before anything is computed for it.

    Raises:
        SeesayError: the suffix is another one, the folder does not exist, or there is a folder of that name.
    """
    if out.suffix.lower() not in suffixes:
        raise SeesayError(f"{out}: the name must end in {', '.join(suffixes)}; choose one of these.")
    if not out.parent.is_dir():
        raise SeesayError(f"{out.parent}: no such folder; create it before writing {out.name} to it.")
    if out.is_dir():
        raise SeesayError(f"{out}: a folder; choose the name of a file.")


def check_output(
    out: Path,
    inputs: Iterable[str | Path | None],
    overwrite: bool,
    is_ours: Callable[[Path], bool] = lambda _: False,
) -> None:
    """Check that a command can write a file there without destroying another.

    `inputs`, which are never replaced, are files that the command reads, and folders in which it may read any
    file; other names, such as those of included weights, are ignored. `is_ours` recognises a file that the
    command made, which it may replace; others only with `overwrite`.

    Raises:
        SeesayError: the file would replace an input, or another existing file.
    """
    if not os.path.lexists(out) or (out.is_file() and is_ours(out)):
        return
    if not out.is_file():  # renaming a file onto a device would replace it, for every program
        raise SeesayError(f"{out}: is no file; choose the name of one.")
    for each in (given for given in inputs if given):
        with suppress(OSError, ValueError):  # a link to nothing, or not the name of a file
            if out.samefile(each) or out.resolve().is_relative_to(Path(each).resolve(strict=True)):
                raise SeesayError(
                    f"{out}: this command reads it, or its folder ({each}); choose another name."
                )
    if not overwrite:
        raise SeesayError(f"{out}: exists; choose another name, or replace it with --overwrite.")


def is_file_name(name: str) -> bool:
    """Return whether a name from a file of somebody else can name a file or folder, and is not a path.

    >>> [is_file_name(name) for name in ("vse++", "mine 2", "../mine", "/mine", ".mine", chr(0), "")]
    [True, True, False, False, False, False, False]
    """
    return (
        bool(name)
        and name.isprintable()
        and name == Path(name).name
        and "\\" not in name
        and not name.startswith((".", "-"))
        and len(name.encode(errors="replace")) <= _LONGEST_NAME
    )


def check_folder(out: Path, is_ours: bool = False) -> None:
    """Check that a command can write its files to a folder: one without files, or one that it made.

    Raises:
        SeesayError: the folder contains something else, or cannot be read.
    """

    def failed(error: OSError) -> None:
        raise error

    try:
        folders = () if is_ours or not out.exists() else os.walk(out, onerror=failed)
        other = next((name for _, _, files in folders for name in files), None)
    except OSError as error:
        raise SeesayError(f"{out}: cannot be used ({error.strerror}); choose another folder.") from error
    if other is not None:
        raise SeesayError(f"{out}: contains other files ({other}, …); choose an empty folder.")


@contextmanager
def writing(out: Path) -> Iterator[Path]:
    """Like `replacing`, but raise a `SeesayError` on failure, for files that a user named."""
    try:
        with replacing(out) as beside:
            yield beside
    except OSError as error:
        raise SeesayError(f"{out}: cannot be written ({error.strerror or error}).") from error


def read_small_json(path: Path) -> Any:
    """Read a JSON file of a run, such as a vocabulary.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, nested too deeply, or larger than 16 MiB.
    """
    with path.open("rb") as file:
        text = file.read(_MAX_JSON_BYTES + 1)
    if len(text) > _MAX_JSON_BYTES:
        raise ValueError(f"more than {_MAX_JSON_BYTES >> 20} MB")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def replace_text(path: Path, text: str) -> None:
    """Write a text file as `replacing` does."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
