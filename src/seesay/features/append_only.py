"""Files that are only ever appended to, and the lock that writers of one folder take in turn."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seesay.errors import SeesayError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder alone, among processes and threads; made where it is missing.

    Raises:
        SeesayError: whatever the operating system objects to inside.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error


def append(path: Path, data: bytes) -> None:
    """Add bytes to the end of a file and wait until the disk has them."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def size(path: Path) -> int:
    """Bytes in the file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def cut(path: Path, length: int) -> None:
    """Leave at most the first `length` bytes."""
    if size(path) > length:
        os.truncate(path, length)
