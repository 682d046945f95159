"""The feature store: features on disk, computed once, shared between runs.

One folder an encoder fingerprint. Each array is a raw little-endian float16 file of rows that is
only ever appended to; `rows.bin` says for each row which image it is (the content key) and the
checksum of its numbers. A row counts when its record is complete and its checksum right, so a
kill at any moment loses at most the rows being written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.append_only import append, check_meta, cut, locked, read_records, size
from seesay.errors import SeesayError

RECORD = np.dtype([("key", "V16"), ("crc", "<u4")])
VERSION = 1
_BLOCK = 4096  # rows verified at a time


class FeatureStore:
    """Features of images by content key (32 hexadecimal digits).

    Attributes:
        folder: where it lies.
        dims: the width of each array.
        dropped: rows that failed their checksum on opening and will be computed again.
    """

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dims: Mapping[str, int]) -> None:
        """Open the store of that encoder, making it where there is none, and verify it.

        Raises:
            SeesayError: the folder holds something else.
        """
        self.folder = folder / fingerprint
        self.dims = dict(dims)
        self.dropped = 0
        self._rows: dict[str, int] = {}
        self._known = 0
        with locked(self.folder):
            check_meta(self.folder, {"version": VERSION, "encoder": encoder, "dims": self.dims})
            self._heal()
            self._refresh()

    def __len__(self) -> int:
        """How many images it holds."""
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        """Whether the image with that content key is there."""
        return key in self._rows

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows; images that are there already, from this process or another, are left as they are."""
        with locked(self.folder):
            self._refresh()
            # Another process may have been killed in its append: its rows never counted, but take up room.
            self._cut(self._known)
            fresh: dict[str, int] = {key: i for i, key in enumerate(keys) if key not in self._rows}
            chosen = list(fresh.values())
            halves = {name: arrays[name][chosen].astype("<f2") for name in self.dims}
            for name, rows in halves.items():
                append(self._file(name), rows.tobytes())
            records = np.zeros(len(chosen), RECORD)
            records["key"] = np.array([np.void(bytes.fromhex(key)) for key in fresh], "V16")
            records["crc"] = _checksums(list(halves.values()))
            # The records come last: they are what makes the rows count.
            append(self.folder / "rows.bin", records.tobytes())
            self._refresh()

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """The rows of one array in the order of `keys`, (n, width) float32.

        Raises:
            SeesayError: an image is not in the store.
        """
        try:
            rows = [self._rows[key] for key in keys]
        except KeyError as missing:
            raise SeesayError(f"{self.folder}: image {missing.args[0]} is not in this store.") from None
        if not rows:
            return np.zeros((0, self.dims[name]), np.float32)
        return self._map(name, self._known)[rows].astype(np.float32)

    def _map(self, name: str, rows: int) -> NDArray[np.float16]:
        return np.memmap(self._file(name), "<f2", "r", shape=(rows, self.dims[name]))

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.f16"

    def _heal(self) -> None:
        """Cut every file behind the last row that is whole, wherever a kill or a disk left it."""
        records = read_records(self.folder / "rows.bin", RECORD)
        whole = min([len(records), *(size(self._file(n)) // (2 * d) for n, d in self.dims.items())])
        good = whole
        for start in range(0, whole, _BLOCK):
            stop = min(start + _BLOCK, whole)
            rows = [np.asarray(self._map(name, whole)[start:stop]) for name in self.dims]
            wrong = np.flatnonzero(_checksums(rows) != records["crc"][start:stop])
            if wrong.size:
                good = start + int(wrong[0])
                break
        self.dropped = len(records) - good
        self._cut(good)

    def _cut(self, rows: int) -> None:
        """Leave the first `rows` rows of every file."""
        for name, dim in self.dims.items():
            cut(self._file(name), rows * dim * 2)
        cut(self.folder / "rows.bin", rows * RECORD.itemsize)

    def _refresh(self) -> None:
        """Take note of what other processes have added, or have dropped as damaged, since last time."""
        if size(self.folder / "rows.bin") < self._known * RECORD.itemsize:
            self._rows.clear()
            self._known = 0
        records = read_records(self.folder / "rows.bin", RECORD, self._known)
        for row, key in enumerate(records["key"], start=self._known):
            self._rows[bytes(key).hex()] = row
        self._known += len(records)


def _checksums(arrays: Sequence[NDArray[np.float16]]) -> NDArray[np.uint32]:
    sums = np.zeros(len(arrays[0]), np.uint32)
    for i in range(len(sums)):
        crc = 0
        for rows in arrays:
            crc = zlib.crc32(rows[i].tobytes(), crc)
        sums[i] = crc
    return sums
