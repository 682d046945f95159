"""Score matrices on disk, one folder each: rows are appended as they are computed.

A row is m scores, little-endian float32, and a checksum of them and of the row's number. Whatever follows
the last intact row, as after a kill, is cut off.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.feature_store import LOCK, append, cut, locked, size

_KEPT = 4 << 30  # bytes: eight matrices of 5,000 × 25,000
_ROWS = "rows.f32"
_VERSION = "v1"


class ScoreFile:
    """The rows of one score matrix, from the first on.

    Args:
        path: the file; its folder must exist.
        columns: m, at least 1.
    """

    def __init__(self, path: Path, columns: int) -> None:
        self.path = path
        self._record = np.dtype([("scores", "<f4", (columns,)), ("crc", "<u4")])

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, columns: int) -> Iterator[ScoreFile]:
        """Open the file in a folder under a lock: another process that wants the same matrix waits.

        Raises:
            SeesayError: the folder cannot be read or written.
        """
        with locked(folder):
            yield cls(folder / _ROWS, columns)

    def read(self, into: NDArray[np.float32]) -> int:
        """Copy the intact rows into a matrix (n, m), cut off what follows them, and return their number."""
        whole = min(size(self.path) // self._record.itemsize, len(into))
        there = 0
        if whole:
            records = np.memmap(self.path, self._record, "r", shape=(whole,))
            while there < whole and records["crc"][there] == _checksum(there, records["scores"][there]):
                into[there] = records["scores"][there]
                there += 1
            os.utime(self.path)  # eviction is by time of last use
        cut(self.path, there * self._record.itemsize)
        return there

    def append(self, first: int, rows: NDArray[np.float32]) -> None:
        """Append rows (k, m), the first of which is row `first`, and flush them to disk."""
        records = np.zeros(len(rows), self._record)
        records["scores"] = rows
        records["crc"] = [_checksum(first + i, row) for i, row in enumerate(records["scores"])]
        append(self.path, records.tobytes())

    def clear(self) -> int:
        """Drop all rows and return 0, the number left."""
        cut(self.path, 0)
        return 0


def matrix_name(parts: Iterable[str | NDArray[np.generic]]) -> str:
    """Return the folder name of the matrix that is computed from these parts, a hash of them."""
    digest = hashlib.blake2b(_VERSION.encode(), digest_size=16)
    for part in parts:
        if isinstance(part, str):
            digest.update(f"{len(part)} {part}".encode())
        else:
            digest.update(f"{part.shape} {part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def drop_oldest(folder: Path, max_bytes: int = _KEPT) -> None:
    """Remove the least recently used matrices beside that folder, until all together have that many bytes.

    Matrices that a process is using stay; another process may remove some at the same time.
    """
    found: list[tuple[float, int, Path]] = []
    for file in folder.parent.glob(f"*/{_ROWS}"):
        with suppress(FileNotFoundError):
            about = file.stat()
            found.append((about.st_mtime, about.st_size, file.parent))
    total = sum(length for _, length, _ in found)
    for _, length, other in sorted(found):
        if total <= max_bytes:
            return
        if other != folder:
            _remove(other)
            total -= length


def _remove(folder: Path) -> None:
    with suppress(OSError), (folder / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _checksum(number: int, row: NDArray[np.float32]) -> int:
    # With its number, so that rows appended to a file removed meanwhile are not taken for its first rows.
    return zlib.crc32(row.tobytes(), number)
