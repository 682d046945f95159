"""Stores on disk: append-only files of arrays, and the features of images, computed once for all runs."""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.onnx import network_cache
from seesay.paths import read_small_json, replace_text

LOCK = "lock"  # the file by which a folder is held


class AppendOnlyStore:
    """Rows of arrays by key (32 hexadecimal digits), in files that are only ever appended to.

    Each array is a raw file of rows; the index says for each key how many rows are its own and their
    checksum. Records of the index are written last, so a kill at any moment loses at most the rows that are
    being written. Damaged rows are found when their key is looked up, and then are no longer in the store.

    Args:
        folder: of the store, created if it is missing.
        meta: identifies the contents, but for the name under `encoder`; SeesayError is raised if the folder
            holds a store of something else.
        arrays: file, type and width of each array.
        index: file of the index.
        record: type of its records: `key`, `crc`, and `rows` if it is not one row a key.
    """

    def __init__(
        self,
        folder: Path,
        meta: Mapping[str, object],
        arrays: Sequence[tuple[str, str, int]],
        index: str,
        record: np.dtype[np.void],
    ) -> None:
        self.folder = folder
        self._arrays, self._index, self._record = arrays, folder / index, record
        self._bytes = {name: np.dtype(kind).itemsize * width for name, kind, width in arrays}  # of a row
        self._records = self._rows = 0  # that count
        self._ranges: dict[str, tuple[int, int, int]] = {}  # start, stop, checksum
        self._sound: set[str] = set()
        with locked(folder):
            _check_meta(folder, meta)
            self._refresh()

    def __len__(self) -> int:
        """Return the number of keys that have been written."""
        return len(self._ranges)

    def keys(self) -> list[str]:
        """Return the keys whose rows are in the store and undamaged."""
        return [key for key in list(self._ranges) if key in self]

    def __contains__(self, key: str) -> bool:
        """Return whether the rows of that key are in the store and undamaged."""
        if key not in self._sound and key in self._ranges:
            if _checksum(self._rows_of(key)) != self._ranges[key][2]:
                del self._ranges[key]
                return False
            self._sound.add(key)
        return key in self._sound

    def _rows_of(self, key: str) -> list[NDArray[Any]]:
        start, stop, _ = self._ranges[key]
        return [rows[start:stop] for rows in self._maps]

    def _append(self, items: Mapping[str, Sequence[NDArray[Any]]]) -> None:
        """Append the rows of each key; keys that are there already are left as they are."""
        with locked(self.folder):
            self._refresh()
            fresh = {key: rows for key, rows in items.items() if key not in self}
            # A process that was killed in its append has left rows that never counted.
            for name, width in self._bytes.items():
                cut(self.folder / name, self._rows * width)
            cut(self._index, self._records * self._record.itemsize)
            for i, name in enumerate(self._bytes):
                append(self.folder / name, b"".join(rows[i].tobytes() for rows in fresh.values()))
            records = np.zeros(len(fresh), self._record)
            records["key"] = np.array([np.void(bytes.fromhex(key)) for key in fresh], "V16")
            records["crc"] = [_checksum(rows) for rows in fresh.values()]
            if "rows" in (self._record.names or ()):
                records["rows"] = [len(rows[0]) for rows in fresh.values()]
            # The records come last: they are what makes the rows count.
            append(self._index, records.tobytes())
            self._refresh()

    def _refresh(self) -> None:
        """Note what has been added since last time, up to the first record whose rows are not all there."""
        if size(self._index) < self._records * self._record.itemsize:  # another process has cut damaged files
            self._records = self._rows = 0
            self._ranges, self._sound = {}, set()
        whole = min(size(self.folder / name) // width for name, width in self._bytes.items())
        ranges = {}
        for record in self._new_records():
            stop = self._rows + (int(record["rows"]) if "rows" in (self._record.names or ()) else 1)
            if stop > whole:
                break
            ranges[bytes(record["key"]).hex()] = (self._rows, stop, int(record["crc"]))
            self._records, self._rows = self._records + 1, stop
        # The maps come first: other threads read by these ranges while one appends.
        self._maps = [self._map(*array) for array in self._arrays]
        self._sound.difference_update(ranges)
        self._ranges |= ranges

    def _new_records(self) -> NDArray[Any]:
        """Read the whole records that have not been noted yet."""
        if not self._index.exists():
            return np.zeros(0, self._record)
        with self._index.open("rb") as file:
            file.seek(self._records * self._record.itemsize)
            data = file.read()
        return np.frombuffer(data, self._record, len(data) // self._record.itemsize)

    def _map(self, name: str, kind: str, width: int) -> NDArray[Any]:
        """Map a file as a plain array: slicing one is several times cheaper than slicing a memmap."""
        if self._rows == 0:
            return np.zeros((0, width), kind)
        return np.asarray(np.memmap(self.folder / name, kind, "r", shape=(self._rows, width)))


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
        found = read_small_json(path)
    except ValueError:
        found = None
    # The encoder's name is a label and may say where a file lies; the folder's name, made of its fingerprint,
    # identifies it.
    if not isinstance(found, dict) or found | {"encoder": meta.get("encoder")} != meta:
        raise SeesayError(f"{path}: a store of another version or encoder; remove {folder}.")


def _checksum(arrays: Sequence[NDArray[Any]]) -> int:
    return zlib.crc32(b"".join(rows.tobytes() for rows in arrays))


RECORD = np.dtype([("key", "V16"), ("crc", "<u4")])
VERSION = 1


def stores_folder() -> Path:
    """Return the folder of the feature stores, which all runs share."""
    return network_cache("features")


class FeatureStore(AppendOnlyStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Args:
        folder: of all stores; the store's own is named after the fingerprint.
        encoder: name of the encoder, noted for people.
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
        meta = {"version": VERSION, "encoder": encoder, "dims": self.dims}
        arrays = [(f"{name}.f16", "<f2", dim) for name, dim in self.dims.items()]
        super().__init__(folder / fingerprint, meta, arrays, "rows.bin", RECORD)

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows (n, width) of n images; images that are there already are left as they are."""
        halves = [arrays[name].astype("<f2") for name in self.dims]
        self._append({key: [rows[i : i + 1] for rows in halves] for i, key in enumerate(keys)})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        missing = next((key for key in keys if key not in self), None)
        if missing is not None:
            raise SeesayError(f"{self.folder}: image {missing} is not in this store.")
        places = np.array([self._ranges[key][0] for key in keys], np.int64)
        rows: NDArray[np.float16] = self._maps[list(self.dims).index(name)][places]
        return rows.astype(np.float32)
