"""Score matrices on disk: rows are appended as they are computed, and believed by their checksums.

One folder a matrix. A row of its file is m scores, little-endian float32, and a checksum of them and of
the row's number; what a kill or a disk left behind the last right row is cut off.
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

_KEPT = 4 << 30  # bytes of matrices in the cache: eight of 5,000 × 25,000
_ROWS = "rows.f32"
_VERSION = "v1"


class ScoreFile:
    """The rows of one score matrix, from the first on.

    Args:
        path: of the file; its folder is there.
        columns: m, at least 1.
    """

    def __init__(self, path: Path, columns: int) -> None:
        self.path = path
        self._record = np.dtype([("scores", "<f4", (columns,)), ("crc", "<u4")])

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, columns: int) -> Iterator[ScoreFile]:
        """The file in that folder, for one process alone: another that wants the same matrix waits for it.

        Raises:
            SeesayError: the folder cannot be read or written.
        """
        with locked(folder):
            yield cls(folder / _ROWS, columns)

    def read(self, into: NDArray[np.float32]) -> int:
        """Copy the rows that are there into a matrix (n, m), cut off what stands behind them: how many."""
        whole = min(size(self.path) // self._record.itemsize, len(into))
        there = 0
        if whole:
            records = np.memmap(self.path, self._record, "r", shape=(whole,))
            while there < whole and records["crc"][there] == _checksum(there, records["scores"][there]):
                into[there] = records["scores"][there]
                there += 1
            os.utime(self.path)  # the oldest is what was not asked for longest
        cut(self.path, there * self._record.itemsize)
        return there

    def append(self, first: int, rows: NDArray[np.float32]) -> None:
        """Add rows (k, m), the first of which is number `first`; they are on the disk at the end."""
        records = np.zeros(len(rows), self._record)
        records["scores"] = rows
        records["crc"] = [_checksum(first + i, row) for i, row in enumerate(records["scores"])]
        append(self.path, records.tobytes())

    def clear(self) -> int:
        """Drop all rows: 0 are there."""
        cut(self.path, 0)
        return 0


def matrix_name(parts: Iterable[str | NDArray[np.generic]]) -> str:
    """A folder's name for the matrix that is computed from those parts."""
    digest = hashlib.blake2b(_VERSION.encode(), digest_size=16)
    for part in parts:
        if isinstance(part, str):
            digest.update(f"{len(part)} {part}".encode())
        else:
            digest.update(f"{part.shape} {part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def drop_oldest(folder: Path) -> None:
    """Remove the matrices beside that folder that were not asked for longest, until all fit together.

    Those that a process is at stay, and what another process removes meanwhile is no matter.
    """
    found: list[tuple[float, int, Path]] = []
    for file in folder.parent.glob(f"*/{_ROWS}"):
        with suppress(FileNotFoundError):
            about = file.stat()
            found.append((about.st_mtime, about.st_size, file.parent))
    total = sum(length for _, length, _ in found)
    for _, length, other in sorted(found):
        if total <= _KEPT:
            return
        if other != folder:
            _remove(other)
            total -= length


def _remove(folder: Path) -> None:
    with suppress(OSError), (folder / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def _checksum(number: int, row: NDArray[np.float32]) -> int:
    # With its number: what is appended to a file that was meanwhile removed are not its first rows.
    return zlib.crc32(row.tobytes(), number)
