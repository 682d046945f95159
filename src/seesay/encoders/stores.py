"""Arrays on disk by content key, in files that survive killed processes, full disks and damage."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import cache_dir, locked, replace_text

if TYPE_CHECKING:
    from seesay.encoders.images.base import ImageEncoder

RECORD = struct.Struct("<16sII")  # a key, the number of its rows, and their checksum
_ARRAYS = "arrays.json"
_PATIENCE = 3600.0  # seconds to wait for another process, which holds the lock while it writes a batch
_SUFFIXES = {"<f2": "f16", "<f4": "f32"}

Rows = Mapping[str, NDArray[Any]]


class ArrayStore:
    """Named arrays (rows, width) by key (32 hexadecimal digits), with any number of rows per key.

    Each array is a raw file of rows; the index has the number of rows of each key and their checksum. Index
    records are written last, so a killed process loses at most the rows that it was writing. Damaged rows are
    detected when their key is looked up, and then count as missing.

    Args:
        folder: the folder of the store, created if it is missing.
        arrays: type ("<f2" or "<f4") and width of each array, by name.

    Raises:
        SeesayError: the folder has other contents, or cannot be read or written.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = ArrayStore(pathlib.Path(folder), {"boxes": ("<f4", 4)})
        ...     store.add({"0" * 32: {"boxes": np.ones((2, 4), np.float32)}})
        ...     print(len(store), store["0" * 32]["boxes"].shape)
        1 (2, 4)
    """

    def __init__(self, folder: Path, arrays: Mapping[str, tuple[str, int]]) -> None:
        self.folder, self._arrays, self._index = folder, dict(arrays), folder / "rows.bin"
        self._files = {name: folder / f"{name}.{_SUFFIXES[kind]}" for name, (kind, _) in arrays.items()}
        self._bytes = {name: np.dtype(kind).itemsize * width for name, (kind, width) in arrays.items()}
        self._records = self._rows = 0  # that are complete
        self._ranges: dict[str, tuple[int, int, int]] = {}  # start, stop, checksum
        self._sound: set[str] = set()
        with self._alone():
            path, text = folder / _ARRAYS, json.dumps(self._arrays, sort_keys=True)
            if not path.exists():
                replace_text(path, text)
            elif path.read_bytes() != text.encode():
                raise SeesayError(f"{path}: a store of another version or encoder; remove {folder}.")
            for file in (*self._files.values(), self._index):
                file.touch()
            self._refresh()

    def __len__(self) -> int:
        """Return the number of keys that have been written."""
        return len(self._ranges)

    def keys(self) -> list[str]:
        """Return the keys whose rows are in the store and undamaged, which reads all of them."""
        return [key for key in list(self._ranges) if key in self]

    def __contains__(self, key: str) -> bool:
        """Return whether the rows of that key are in the store and undamaged."""
        if key not in self._sound and key in self._ranges:
            start, stop, checksum = self._ranges[key]
            if _checksum({name: rows[start:stop] for name, rows in self._maps.items()}) != checksum:
                del self._ranges[key]
                return False
            self._sound.add(key)
        return key in self._sound

    def __getitem__(self, key: str) -> dict[str, NDArray[Any]]:
        """Return the rows of a key, read-only; raise SeesayError if they are not in the store."""
        return {name: self.read([key], name) for name in self._arrays}

    def read(self, keys: Sequence[str], name: str) -> NDArray[Any]:
        """Return the rows of one array for some keys, memory-mapped if contiguous, else copied.

        Raises:
            SeesayError: a key is not in the store.
        """
        ranges = [(0, 0)] if not keys else []
        for key in keys:
            if key not in self:
                raise SeesayError(f"{self.folder}: {key} is not in this store.")
            ranges.append(self._ranges[key][:2])
        rows = self._maps[name]
        if all(stop == start for (_, stop), (start, _) in pairwise(ranges)):
            return rows[ranges[0][0] : ranges[-1][1]]
        return np.concatenate([rows[start:stop] for start, stop in ranges])

    def add(self, items: Mapping[str, Rows]) -> None:
        """Append the rows of each key; keys that are already stored keep their rows.

        Raises:
            SeesayError: a number is not finite or too large for its type, or the rows cannot be written.
        """
        with self._alone():
            self._refresh()
            fresh = {
                key: {name: self._stored(rows[name], kind) for name, (kind, _) in self._arrays.items()}
                for key, rows in items.items()
                if key not in self
            }
            for name, file in self._files.items():
                rows = b"".join(arrays[name].tobytes() for arrays in fresh.values())
                _write(file, self._rows * self._bytes[name], rows)
            counts = [(key, len(next(iter(arrays.values())))) for key, arrays in fresh.items()]
            records = [RECORD.pack(bytes.fromhex(key), n, _checksum(fresh[key])) for key, n in counts]
            # The records come last: without them, rows are ignored.
            _write(self._index, self._records * RECORD.size, b"".join(records))
            self._refresh()

    def _stored(self, rows: NDArray[Any], kind: str) -> NDArray[Any]:
        """The rows as they are stored, which must be finite: in half precision, at most 65,504."""
        with np.errstate(over="ignore"):
            stored = np.asarray(rows, kind)
        if not np.isfinite(stored).all():
            raise SeesayError(
                f"{self.folder}: a number is not finite, or too large for {stored.dtype} (at most "
                f"{np.finfo(stored.dtype).max:g}); scale what the encoder returns."
            )
        return stored

    def _refresh(self) -> None:
        """Load new records, up to the first one whose rows are incomplete."""
        if self._index.stat().st_size < self._records * RECORD.size:  # another process has cut a damaged file
            self._records = self._rows = 0
            self._ranges, self._sound = {}, set()
        with self._index.open("rb") as file:
            file.seek(self._records * RECORD.size)
            data = file.read()
        whole = min(self._files[name].stat().st_size // width for name, width in self._bytes.items())
        ranges = {}
        for key, count, checksum in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
            if (stop := self._rows + count) > whole:
                break
            ranges[key.hex()] = (self._rows, stop, checksum)
            self._records, self._rows = self._records + 1, stop
        # The maps come first: other threads may read these ranges meanwhile.
        # Plain arrays, copy on write: slicing one is much cheaper than slicing a memmap.
        self._maps = {
            name: np.asarray(np.memmap(self._files[name], kind, "c", shape=(self._rows, width)))
            if self._rows
            else np.zeros((0, width), kind)
            for name, (kind, width) in self._arrays.items()
        }
        self._sound.difference_update(ranges)
        self._ranges |= ranges

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the folder against other processes and threads; raise OSErrors inside as SeesayError."""
        busy = f"{self.folder}: another process writes there; try again later."
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with locked(self.folder / "lock", busy, _PATIENCE):
                yield
        except OSError as error:
            raise SeesayError(f"{self.folder}: cannot be read or written ({error.strerror}).") from error


def _write(path: Path, start: int, data: bytes) -> None:
    """Replace what a file has from a position on, which a killed process may have left, and flush it."""
    with path.open("ab") as file:
        file.truncate(start)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _checksum(rows: Rows) -> int:
    return zlib.crc32(b"".join(array.tobytes() for array in rows.values()))


def stores_folder() -> Path:
    """Return the folder of the stores of all encoders, which all runs share."""
    return cache_dir() / "arrays"


def has_stores(folder: Path) -> bool:
    """Return whether a folder contains stores."""
    return next(folder.glob(f"*/{_ARRAYS}"), None) is not None


def sources_of(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """Collect the distinct encoders whose features are computed from pixels, by the keys of their stores."""
    return {encoder.source.stored_as: encoder.source for encoder in encoders}


def open_stores(encoders: Sequence[ImageEncoder], folder: Path) -> dict[str, ArrayStore]:
    """Open, or create, the stores of the sources of encoders, by their keys; features are half floats."""
    return {
        key: ArrayStore(folder / key, {name: ("<f2", dim) for name, dim in source.dims.items()})
        for key, source in sources_of(encoders).items()
    }


def read_features(
    encoder: ImageEncoder, store: ArrayStore, keys: Sequence[str], name: str
) -> NDArray[np.float32]:
    """Read one array of an encoder, (n, width), from the store of its source, or compute it from those."""
    if encoder.source is encoder:
        return np.asarray(store.read(keys, name), np.float32)
    stored = {each: np.asarray(store.read(keys, each), np.float32) for each in encoder.source.dims}
    return encoder.from_source(stored)[name]
