"""The feature store: features on disk, computed once, shared between runs.

One folder an encoder fingerprint. Each array is a raw little-endian float16 file of rows; `rows.bin` says for
each row which image it is (the content key) and the checksum of its numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.append_only import AppendOnlyStore, locked, size
from seesay.errors import SeesayError

RECORD = np.dtype([("key", "V16"), ("crc", "<u4")])
VERSION = 1
_BLOCK = 4096  # rows verified at a time


class FeatureStore(AppendOnlyStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Opening a store verifies all of it; `dropped` counts rows that are damaged, or follow a damaged one.

    Args:
        folder: of all stores; the store's own is named after the fingerprint.
        encoder: name of the encoder.
        fingerprint: of the encoder.
        dims: width of each array.

    Raises:
        SeesayError: the folder holds something else.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = FeatureStore(pathlib.Path(folder), "mean-colour", "f00d", {"pooled": 3})
        ...     store.append(["0" * 32], {"pooled": np.ones((1, 3), np.float32)})
        ...     print(len(store), store.read(["0" * 32], "pooled"))
        1 [[1. 1. 1.]]
    """

    def __init__(self, folder: Path, encoder: str, fingerprint: str, dims: Mapping[str, int]) -> None:
        self.dims = dict(dims)
        self.dropped = 0
        self._places: dict[str, int] = {}
        meta = {"version": VERSION, "encoder": encoder, "dims": self.dims}
        widths = {f"{name}.f16": 2 * dim for name, dim in self.dims.items()}
        super().__init__(folder / fingerprint, meta, widths, "rows.bin", RECORD)

    def __len__(self) -> int:
        """Return how many images the store holds."""
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        """Return whether the image with that content key is in the store."""
        return key in self._places

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows; images that are there already, from this process or another, are left as they are."""
        with locked(self.folder):
            self._refresh()
            fresh = {key: i for i, key in enumerate(keys) if key not in self._places}
            halves = {name: arrays[name][list(fresh.values())].astype("<f2") for name in self.dims}
            rows = {f"{name}.f16": values.tobytes() for name, values in halves.items()}
            self._write(rows, list(fresh), {"crc": _checksums(list(halves.values()))})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        try:
            places = [self._places[key] for key in keys]
        except KeyError as missing:
            raise SeesayError(f"{self.folder}: image {missing.args[0]} is not in this store.") from None
        if not places:
            return np.zeros((0, self.dims[name]), np.float32)
        return self._map(name, self._rows)[places].astype(np.float32)

    def _map(self, name: str, rows: int) -> NDArray[np.float16]:
        return np.memmap(self.folder / f"{name}.f16", "<f2", "r", shape=(rows, self.dims[name]))

    def _open(self) -> None:
        """Cut every file behind the last row that is whole and undamaged."""
        records = self._new_records()
        good = whole = min(len(records), self._whole_rows())
        for start in range(0, whole, _BLOCK):
            stop = min(start + _BLOCK, whole)
            rows = [np.asarray(self._map(name, whole)[start:stop]) for name in self.dims]
            wrong = np.flatnonzero(_checksums(rows) != records["crc"][start:stop])
            if wrong.size:
                good = start + int(wrong[0])
                break
        self.dropped = len(records) - good
        self._cut(good, good)
        self._refresh()

    def _refresh(self) -> None:
        """Note what other processes have added, or have dropped as damaged, since last time."""
        if size(self._index) < self._records * RECORD.itemsize:
            self._places.clear()
            self._records = 0
        records = self._new_records()
        for row, key in enumerate(records["key"], start=self._records):
            self._places[bytes(key).hex()] = row
        self._records += len(records)
        self._rows = self._records


def _checksums(arrays: Sequence[NDArray[np.float16]]) -> NDArray[np.uint32]:
    sums = np.zeros(len(arrays[0]), np.uint32)
    for i in range(len(sums)):
        crc = 0
        for rows in arrays:
            crc = zlib.crc32(rows[i].tobytes(), crc)
        sums[i] = crc
    return sums
