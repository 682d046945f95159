"""Arrays on disk by content key, in append-only files that survive killed processes, full disks and damage.

`FeatureStore` holds the features of image encoders, which all runs share; some encoders derive their features
from another encoder's.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import cache_dir, locked, read_small_json, replace_text

if TYPE_CHECKING:
    from seesay.encoders.images.base import ImageEncoder

RECORD = np.dtype([("key", "V16"), ("rows", "<u4"), ("crc", "<u4")])
INDEX = "rows.bin"
_META = "store.json"
_VERSION = 2
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
        label: a description for people, which may contain a path.
        arrays: type ("<f2" or "<f4") and width of each array, by name.

    Raises:
        SeesayError: the folder has other contents, or cannot be read or written.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = ArrayStore(pathlib.Path(folder), "boxes", {"boxes": ("<f4", 4)})
        ...     store.add({"0" * 32: {"boxes": np.ones((2, 4), np.float32)}})
        ...     print(len(store), store["0" * 32]["boxes"].shape)
        1 (2, 4)
    """

    def __init__(self, folder: Path, label: str, arrays: Mapping[str, tuple[str, int]]) -> None:
        self.folder = folder
        self._arrays, self._index = dict(arrays), folder / INDEX
        self._files = {name: folder / f"{name}.{_SUFFIXES[kind]}" for name, (kind, _) in arrays.items()}
        self._bytes = {name: np.dtype(kind).itemsize * width for name, (kind, width) in arrays.items()}
        self._records = self._rows = 0  # that are complete
        self._ranges: dict[str, tuple[int, int, int]] = {}  # start, stop, checksum
        self._sound: set[str] = set()
        with alone(folder):
            self._check_meta(label)
            self._refresh()

    def __len__(self) -> int:
        """Return the number of keys that have been written."""
        return len(self._ranges)

    def keys(self) -> list[str]:
        """Return the keys that have been written; damaged rows are only noticed when they are looked up."""
        return list(self._ranges)

    def __contains__(self, key: str) -> bool:
        """Return whether the rows of that key are in the store and undamaged."""
        if key not in self._sound and key in self._ranges:
            if _checksum(self._rows_of(key)) != self._ranges[key][2]:
                del self._ranges[key]
                return False
            self._sound.add(key)
        return key in self._sound

    def __getitem__(self, key: str) -> dict[str, NDArray[Any]]:
        """Return the rows of a key, read-only; raise SeesayError if they are not in the store."""
        if key not in self:
            raise SeesayError(f"{self.folder}: {key} is not in this store.")
        return self._rows_of(key)

    def all_rows(self, keys: list[str], name: str) -> NDArray[Any]:
        """Return all rows of one array for at least one key, memory-mapped if contiguous, else copied."""
        parts = [self[key][name] for key in keys]
        ranges = [self._ranges[key][:2] for key in keys]
        if all(stop == start for (_, stop), (start, _) in pairwise(ranges)):
            return self._maps[name][ranges[0][0] : ranges[-1][1]]
        return np.concatenate(parts)

    def add(self, items: Mapping[str, Rows]) -> None:
        """Append the rows of each key; keys that are already stored keep their rows."""
        with alone(self.folder):
            self._refresh()
            fresh = {
                key: {name: self._stored(rows[name], kind) for name, (kind, _) in self._arrays.items()}
                for key, rows in items.items()
                if key not in self
            }
            # A process that was killed while it appended has left rows without records.
            for name, width in self._bytes.items():
                _cut(self._files[name], self._rows * width)
            _cut(self._index, self._records * RECORD.itemsize)
            for name, file in self._files.items():
                append(file, b"".join(rows[name].tobytes() for rows in fresh.values()))
            records = np.zeros(len(fresh), RECORD)
            records["key"] = np.array([np.void(bytes.fromhex(key)) for key in fresh], "V16")
            records["rows"] = [len(next(iter(rows.values()))) for rows in fresh.values()]
            records["crc"] = [_checksum(rows) for rows in fresh.values()]
            # The records come last: without them, rows are ignored.
            append(self._index, records.tobytes())
            self._refresh()

    def _stored(self, rows: NDArray[Any], kind: str) -> NDArray[Any]:
        """The rows as they are stored: in half precision, at most 65,504, they must be finite."""
        with np.errstate(over="ignore"):
            stored = np.asarray(rows, kind)
        if stored.dtype == np.float16 and not np.isfinite(stored).all():
            raise SeesayError(
                f"{self.folder}: a feature is not finite, or too large for half precision (65,504); scale "
                "what the encoder returns."
            )
        return stored

    def _rows_of(self, key: str) -> dict[str, NDArray[Any]]:
        start, stop, _ = self._ranges[key]
        return {name: rows[start:stop] for name, rows in self._maps.items()}

    def _refresh(self) -> None:
        """Load new records, up to the first one whose rows are incomplete."""
        if _size(self._index) < self._records * RECORD.itemsize:  # another process has cut a damaged file
            self._records = self._rows = 0
            self._ranges, self._sound = {}, set()
        whole = min(_size(self._files[name]) // width for name, width in self._bytes.items())
        ranges = {}
        for record in self._new_records():
            stop = self._rows + int(record["rows"])
            if stop > whole:
                break
            ranges[bytes(record["key"]).hex()] = (self._rows, stop, int(record["crc"]))
            self._records, self._rows = self._records + 1, stop
        # The maps come first: other threads may read these ranges meanwhile.
        self._maps = {name: self._map(name) for name in self._arrays}
        self._sound.difference_update(ranges)
        self._ranges |= ranges

    def _new_records(self) -> NDArray[Any]:
        """Read complete records that have not been loaded yet."""
        if not self._index.exists():
            return np.zeros(0, RECORD)
        with self._index.open("rb") as file:
            file.seek(self._records * RECORD.itemsize)
            data = file.read()
        return np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)

    def _map(self, name: str) -> NDArray[Any]:
        """Map a file as a plain array, copy on write: slicing one is much cheaper than slicing a memmap."""
        kind, width = self._arrays[name]
        if self._rows == 0:
            return np.zeros((0, width), kind)
        return np.asarray(np.memmap(self._files[name], kind, "c", shape=(self._rows, width)))

    def _check_meta(self, label: str) -> None:
        """Check that the folder contains these arrays; labels may differ."""
        path = self.folder / _META
        meta = {"version": _VERSION, "label": label, "arrays": {k: list(v) for k, v in self._arrays.items()}}
        if not path.exists():
            replace_text(path, json.dumps(meta, indent=1))
            return
        try:
            found = read_small_json(path)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found | {"label": label} != meta:
            raise SeesayError(f"{path}: a store of another version or encoder; remove {self.folder}.")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes and threads; raise OSErrors inside as SeesayError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock", f"{folder}: another process writes there; try again later.", _PATIENCE):
            yield
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error


def append(path: Path, data: bytes) -> None:
    """Append bytes to a file and flush them to disk."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _size(path: Path) -> int:
    """The size of a file in bytes, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def _cut(path: Path, length: int) -> None:
    """Truncate a file to at most `length` bytes."""
    if _size(path) > length:
        os.truncate(path, length)


def _checksum(rows: Rows) -> int:
    crc = 0
    for array in rows.values():
        crc = zlib.crc32(array.tobytes(), crc)
    return crc


def stores_folder() -> Path:
    """Return the folder of feature and region stores, which all runs share."""
    return cache_dir() / "arrays"


def has_stores(folder: Path) -> bool:
    """Return whether a folder contains stores."""
    return next(folder.glob(f"*/{_META}"), None) is not None


class FeatureStore(ArrayStore):
    """Features of images by content key (32 hexadecimal digits), in half precision.

    Args:
        folder: the parent of the store's folder.
        encoder: the name of the encoder, for people.
        key: the name of the store's folder; see `Encoder.stored_as`.
        dims: the width of each array.

    Raises:
        SeesayError: the folder has other contents, or cannot be read or written.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = FeatureStore(pathlib.Path(folder), "mean-colour", "f00d", {"pooled": 3})
        ...     store.append(["0" * 32], {"pooled": np.ones((1, 3), np.float32)})
        ...     print(len(store), store.read(["0" * 32], "pooled"))
        1 [[1. 1. 1.]]
    """

    def __init__(self, folder: Path, encoder: str, key: str, dims: Mapping[str, int]) -> None:
        self.dims = dict(dims)
        super().__init__(folder / key, encoder, {name: ("<f2", dim) for name, dim in dims.items()})

    def append(self, keys: Sequence[str], arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Add rows (n, width) of n images; images that are already stored keep their rows."""
        self.add({key: {name: arrays[name][i : i + 1] for name in self.dims} for i, key in enumerate(keys)})

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Read the rows of one array, (n, width); raise SeesayError if an image is not in the store."""
        missing = next((key for key in keys if key not in self), None)
        if missing is not None:
            raise SeesayError(f"{self.folder}: {missing} is not in this store.")
        first = np.array([self._ranges[key][0] for key in keys], np.int64)
        return np.asarray(self._maps[name][first], np.float32)


def sources_of(encoders: Sequence[ImageEncoder]) -> dict[str, ImageEncoder]:
    """Collect the distinct encoders whose features are computed from pixels, by the keys of their stores."""
    return {encoder.source.stored_as: encoder.source for encoder in encoders}


class DerivedStore:
    """Features that are computed on reading from another encoder's stored features."""

    def __init__(self, encoder: ImageEncoder, store: FeatureStore) -> None:
        self._encoder, self._store = encoder, store

    def __contains__(self, key: str) -> bool:
        """Return whether there are features of that image."""
        return key in self._store

    def read(self, keys: Sequence[str], name: str) -> NDArray[np.float32]:
        """Compute the rows of one array, (n, width)."""
        stored = {each: self._store.read(keys, each) for each in self._store.dims}
        return self._encoder.from_source(stored)[name]


Stores = list[FeatureStore | DerivedStore]  # one per encoder


def opened_stores(encoders: Sequence[ImageEncoder], folder: Path) -> Stores | None:
    """Open the encoders' stores under `folder`; return None unless all exist and are readable."""
    try:
        if all((folder / encoder.source.stored_as).is_dir() for encoder in encoders):
            return open_stores(encoders, folder)[1]
    except (SeesayError, OSError):  # such as a cache that is not writable
        pass
    return None


def open_stores(encoders: Sequence[ImageEncoder], folder: Path) -> tuple[list[FeatureStore], Stores]:
    """Open, or create, the stores of the sources of encoders; also return a store for each encoder."""
    sources = sources_of(encoders).items()
    opened = {key: FeatureStore(folder, e.name, key, e.dims) for key, e in sources}
    stores = [opened[encoder.source.stored_as] for encoder in encoders]
    return list(opened.values()), [
        store if encoder.source is encoder else DerivedStore(encoder, store)
        for encoder, store in zip(encoders, stores, strict=True)
    ]


class SortedKeys:
    """Content keys of 32 hexadecimal digits in a sorted array, which processes can share."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = np.sort(np.fromiter(map(bytes.fromhex, keys), "S16", len(keys)))

    def __contains__(self, key: str) -> bool:
        """Return whether a key is among them."""
        wanted = np.array(bytes.fromhex(key), "S16")
        at = np.searchsorted(self._keys, wanted)
        return bool(at < len(self._keys) and self._keys[at : at + 1] == wanted)
