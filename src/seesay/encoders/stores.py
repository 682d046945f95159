"""Arrays on disk by content key, in files that survive killed processes, full disks and damage; and `fill`.

Everything that is stored (features of images and regions, vectors of sentences) passes through `fill`. It
asks the stores what they lack, has that encoded in threads, a few items at a time, and appends it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.errors import ImageError, SeesayError
from seesay.paths import cache_dir, locked, replace_text
from seesay.progress import progress

CHUNK = 8  # items a thread takes at a time
STORED_AT_ONCE = 64  # rows between two writes, each of which waits for the disk
RECORD = struct.Struct("<16sII")  # a key, the number of its rows, and their checksum
_ARRAYS = "arrays.json"
_PATIENCE = 3600.0  # seconds to wait for another process, which holds the lock while it writes a batch
_SUFFIXES = {"<f2": "f16", "<f4": "f32"}

Rows = Mapping[str, NDArray[Any]]
Item = TypeVar("Item")
Content = TypeVar("Content")
In = TypeVar("In")
Out = TypeVar("Out")


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
        """Return the rows of a key; raise SeesayError if they are not in the store."""
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
            counts = [(key, _count(arrays)) for key, arrays in fresh.items()]
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


@dataclass(frozen=True)
class Encoding(Generic[Item, Content]):
    """How items are read and encoded for one store or several.

    Attributes:
        read: returns the key of an item, and its content.
        prepare: prepares a content for each of the stores with these numbers, which lack it.
        encode: computes the rows of some prepared items for the store with that number.
        uses_all_cores: whether `encode` does, so that items are encoded one at a time.

    The first two raise ImageError for a broken item.
    """

    read: Callable[[Item], tuple[str, Content]]
    prepare: Callable[[Content, Sequence[int]], Sequence[Any]]
    encode: Callable[[int, Sequence[Any]], Sequence[Rows]]
    uses_all_cores: bool = False


class Encoded(NamedTuple):
    """Some items after reading, and the rows that the stores lacked."""

    keys: dict[int, str | None]  # by the item's number; None for a broken one
    errors: list[ImageError]  # of the broken ones
    rows: list[dict[str, Rows]]  # by key, for each store


class Filled(NamedTuple):
    """The result of filling stores."""

    keys: list[str | None]  # of the items, in their order; None for a broken one
    errors: list[ImageError]  # of the broken ones
    encoded: int  # items that were not in the stores
    stores: list[ArrayStore]


def fill(
    what: str,
    items: Sequence[Item],
    stores: list[ArrayStore],
    encoding: Encoding[Item, Content],
    unit: str = "images",
) -> Filled:
    """Encode the items that stores lack and store them, with a progress bar for `what`.

    What is finished is stored, also before an error, so an interrupted call can be resumed.
    """
    numbered, size = list(enumerate(items)), 1 if encoding.uses_all_cores else CHUNK
    chunks = [numbered[i : i + size] for i in range(0, len(numbered), size)]
    encode = partial(encode_missing, encoding, stores, dict[str, object]())
    parts = map(encode, chunks) if encoding.uses_all_cores else in_threads(encode, chunks)
    return store_encoded(what, len(items), stores, parts, unit)


def encode_missing(
    encoding: Encoding[Item, Content],
    stores: Sequence[ArrayStore | frozenset[str]],
    claims: dict[str, object],
    items: Iterable[tuple[int, Item]],
) -> Encoded:
    """Encode those of a few numbered items whose keys are missing in stores.

    `claims`, which all threads share, marks the items that a thread encodes.
    """
    encoded = Encoded({}, [], [{} for _ in stores])
    wanted: list[dict[str, Any]] = [{} for _ in stores]
    for place, item in items:
        try:
            key, content = encoding.read(item)
            lacking = [number for number, store in enumerate(stores) if key not in store]
            prepared = encoding.prepare(content, lacking) if lacking else ()
        except ImageError as error:  # once for each name of a broken file
            encoded.errors.append(error)
            encoded.keys[place] = None
            continue
        encoded.keys[place] = key
        # Equal items are encoded once, by the thread that comes first.
        if lacking and claims.setdefault(key, claim := object()) is claim:
            for number, each in zip(lacking, prepared, strict=True):
                wanted[number][key] = each
    for number, some in enumerate(wanted):
        if some:
            rows = encoding.encode(number, list(some.values()))
            encoded.rows[number].update(zip(some, rows, strict=True))
    return encoded


def store_encoded(
    what: str, count: int, stores: list[ArrayStore], parts: Iterable[Encoded], unit: str = "images"
) -> Filled:
    """Store encoded parts of `count` items as they come, 64 rows at a time, and collect their keys."""
    keys, errors, encoded = dict[int, str | None](), list[ImageError](), set[str]()
    waiting: list[dict[str, Rows]] = [{} for _ in stores]

    def write() -> None:
        for store, rows in zip(stores, waiting, strict=True):
            store.add(rows)
            rows.clear()

    with progress(what, count, unit) as advance:
        try:
            for part in parts:
                keys |= part.keys
                errors += part.errors
                for of_store, rows in zip(waiting, part.rows, strict=True):
                    of_store |= rows
                    encoded.update(rows)
                advance(len(part.keys))
                if sum(_count(rows) for of_store in waiting for rows in of_store.values()) >= STORED_AT_ONCE:
                    write()
        finally:
            write()
    return Filled([keys[place] for place in range(count)], errors, len(encoded), stores)


def _count(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def in_threads(work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Apply `work` to every item, in order, with one thread per core, a few items ahead of the consumer."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[Out]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
