"""What stores have in common: files that are only ever appended to, one writer at a time, what they hold."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import replace_text

LOCK = "lock"  # the file by which a folder is held


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder alone, among processes and threads; made where it is missing.

    Raises:
        SeesayError: whatever the operating system objects to inside.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error


def check_meta(folder: Path, meta: dict[str, object]) -> None:
    """Note in a new folder what it is for, in an old one hold that against `meta`.

    Raises:
        SeesayError: the folder is for something else, or damaged.
    """
    path = folder / "store.json"
    if not path.exists():
        replace_text(path, json.dumps(meta, indent=1))
        return
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if found != meta:
        raise SeesayError(f"{path}: a store of another version or encoder; remove {folder}.")


def read_records(path: Path, kind: np.dtype[np.void], start: int = 0) -> NDArray[Any]:
    """The whole records of a file from number `start`."""
    if not path.exists():
        return np.zeros(0, kind)
    with path.open("rb") as file:
        file.seek(start * kind.itemsize)
        data = file.read()
    return np.frombuffer(data, kind, len(data) // kind.itemsize)


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
