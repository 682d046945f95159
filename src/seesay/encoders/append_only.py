"""What stores have in common: files that are only ever appended to, one writer at a time, what they hold."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import replace_text

LOCK = "lock"  # the file by which a folder is held


class AppendOnlyStore:
    """A folder of files of rows, and a file of records that say whose they are.

    Rows count once their record is complete, and records are written last: a kill at any moment loses at most
    the rows that are being written.

    Args:
        folder: of the store, made if it is missing.
        meta: what the store is for; SeesayError is raised if the folder is for something else.
        widths: bytes of a row in each file of rows.
        index: the file of records.
        record: type of a record; it has a `key` of 16 bytes.
    """

    def __init__(
        self,
        folder: Path,
        meta: Mapping[str, object],
        widths: Mapping[str, int],
        index: str,
        record: np.dtype[np.void],
    ) -> None:
        self.folder = folder
        self._widths, self._index, self._record = widths, folder / index, record
        self._records = self._rows = 0  # that count
        with locked(folder):
            _check_meta(folder, meta)
            self._open()

    def _open(self) -> None:
        """Read what the store holds."""
        self._refresh()

    def _refresh(self) -> None:
        """Note what has been added since last time, by this process or another."""
        raise NotImplementedError

    def _whole_rows(self) -> int:
        """Rows that are complete in every file."""
        return min(size(self.folder / name) // width for name, width in self._widths.items())

    def _new_records(self) -> NDArray[Any]:
        """The whole records that have not been noted yet."""
        if not self._index.exists():
            return np.zeros(0, self._record)
        with self._index.open("rb") as file:
            file.seek(self._records * self._record.itemsize)
            data = file.read()
        return np.frombuffer(data, self._record, len(data) // self._record.itemsize)

    def _cut(self, records: int, rows: int) -> None:
        """Cut what lies behind the first rows and records, such as what a killed process has left."""
        for name, width in self._widths.items():
            cut(self.folder / name, rows * width)
        cut(self._index, records * self._record.itemsize)

    def _write(self, rows: Mapping[str, bytes], keys: list[str], fields: Mapping[str, Any]) -> None:
        """Append rows and, when these are on the disk, their records; the caller holds the lock."""
        self._cut(self._records, self._rows)
        for name in self._widths:
            append(self.folder / name, rows[name])
        records = np.zeros(len(keys), self._record)
        records["key"] = np.array([np.void(bytes.fromhex(key)) for key in keys], "V16")
        for name, values in fields.items():
            records[name] = values
        append(self._index, records.tobytes())
        self._refresh()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder alone, among processes and threads; raise OSErrors inside as SeesayError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error


def append(path: Path, data: bytes) -> None:
    """Append bytes to a file and wait until the disk has them."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def cut(path: Path, length: int) -> None:
    """Truncate a file to at most `length` bytes."""
    if size(path) > length:
        os.truncate(path, length)


def _check_meta(folder: Path, meta: Mapping[str, object]) -> None:
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
