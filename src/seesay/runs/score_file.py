"""Score matrices on disk, a store of rows each: rows are added as they are computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.array_store import INDEX, ArrayStore
from seesay.errors import SeesayError
from seesay.paths import locked

_KEPT = 4 << 30  # bytes: eight matrices of 5,000 × 25,000
_SCORES = "scores"
_LOCK = "in-use"
_VERSION = "v2"
_PATIENCE = 7 * 24 * 3600.0  # seconds to wait for another process that computes the same matrix


@contextmanager
def opened_scores(folder: Path, columns: int) -> Iterator[ArrayStore]:
    """Open the rows of one score matrix under a lock: another process that wants the same matrix waits.

    Args:
        folder: of this matrix.
        columns: m, at least 1.

    Raises:
        SeesayError: the folder cannot be read or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error
    with locked(folder / _LOCK, f"{folder}: another process computes these scores.", _PATIENCE):
        yield ArrayStore(folder, "scores", {_SCORES: ("<f4", columns)})


def read_rows(store: ArrayStore, into: NDArray[np.float32]) -> int:
    """Copy the rows from the first on into a matrix (n, m), and return their number."""
    there = 0
    while there < len(into) and _key(there) in store:
        into[there] = store[_key(there)][_SCORES]
        there += 1
    if there:
        os.utime(store.folder / INDEX)  # eviction is by time of last use
    return there


def add_rows(store: ArrayStore, first: int, rows: NDArray[np.float32]) -> None:
    """Add rows (k, m), the first of which is row `first`, and flush them to disk."""
    store.add({_key(first + i): {_SCORES: row[None]} for i, row in enumerate(rows)})


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
    for file in folder.parent.glob(f"*/{INDEX}"):
        with suppress(FileNotFoundError):
            length = sum(each.stat().st_size for each in file.parent.glob(f"{_SCORES}.*"))
            found.append((file.stat().st_mtime, length, file.parent))
    total = sum(length for _, length, _ in found)
    for _, length, other in sorted(found):
        if total <= max_bytes:
            return
        if other != folder:
            with suppress(SeesayError), locked(other / _LOCK, "in use"):
                for file in (
                    other / INDEX,
                    *other.glob(f"{_SCORES}.*"),
                ):  # lock files stay: others wait there
                    file.unlink(missing_ok=True)
            total -= length


def _key(row: int) -> str:
    return f"{row:032x}"
