"""The store of an index: photos, sentences and their half-precision vectors.

An index keeps them in one SQLite file in its folder (`seesay.search.file_store`), or in a database of
PostgreSQL (`seesay.search.postgresql`). Both have the same tables, and almost all SQL is understood by both:
it is here.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.search.filters import EVERYTHING, Filter
from seesay.search.hits import Place, Ranked
from seesay.search.photo import FileState, Photo
from seesay.search.roots import Root, is_possible
from seesay.search.sqlite_file import Kind
from seesay.search.thumbnails import Files
from seesay.search.writer import Connection, Writer

MOST_ROOTS = 1000  # folders of an index
_HEX = re.compile("[0-9a-f]{32}")
_LONGEST_PATH = 4096  # characters; work on a path grows with their square
_NONE: NDArray[np.int64] = np.empty(0, np.int64)
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1  # integers of SQLite

_PHOTO = """SELECT items.id, path, key, folded, width, height, time, dated_by, added, mtime_ns, size, ctime_ns
    FROM items JOIN vectors ON vectors.id = items.vector WHERE items.kind = 'image' AND"""
_PHOTO_TYPES = (int, str, str, str, int, int, str, str, float, int, int, int)
_IMAGES = "FROM items JOIN vectors ON vectors.id = items.vector WHERE items.kind = 'image'"


Parts = Iterable[tuple[NDArray[np.int64], NDArray[np.float16]]]
"""Ids (n,) and vectors (n, dim) of many items, some at a time."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes up to `generation`: the `ids` (m,) written, and all `alive` ids (n,), in order.

    Vectors (`Store.vectors`, `Store.parts`) are read later, in the state at that later time.
    """

    generation: int
    alive: NDArray[np.int64]
    ids: NDArray[np.int64]


class Store(ABC):
    """Items and vectors; readers always see complete transactions. Thread-safe, for any number of processes.

    Args:
        place: the folder or address of the index.
        meta: its metadata, by key.

    Attributes:
        place: see above.
        meta: as it was when the index was opened.
        dim: the length of the vectors.
        rows_at_once: vectors in each of the `parts`.
    """

    rows_at_once = 65_536
    _among_ids: str
    """Compares a column with ids that are one parameter of a query, in JSON."""

    def __init__(self, place: str, meta: Iterable[tuple[object, ...]]) -> None:
        self.place, self._process = place, os.getpid()
        self._counts: dict[Kind, tuple[int, int]] = {}  # of items, with the generation
        self._known_roots: tuple[int, list[Root]] = -1, []
        self._in_folders = -1, Counter[str]()  # images by folder, with the generation
        try:
            self.meta = dict[str, str](_typed(meta, str, str))
        except TypeError as error:
            raise self._damaged(f"what it says of itself: {error}") from error
        if missing := {"embedder", "fingerprint", "dim", "identity"} - self.meta.keys():
            raise self._damaged(f"no {min(missing)}")
        if not _HEX.fullmatch(self.meta["identity"]):
            raise self._damaged("its identity")
        if not re.fullmatch(r"[1-9][0-9]{0,5}", self.meta["dim"]):
            raise self._damaged("its dimension")
        self.dim = int(self.meta["dim"])

    @staticmethod
    @abstractmethod
    def exists(place: str | Path) -> bool:
        """See `seesay.search.places.store_exists`."""

    @classmethod
    @abstractmethod
    def create(cls, place: str | Path, meta: Mapping[str, str]) -> Self:
        """Create an empty store with this metadata; see `seesay.search.places.create_store`."""

    @classmethod
    @abstractmethod
    def open(cls, place: str | Path) -> Self:
        """See `seesay.search.places.open_store`."""

    @abstractmethod
    def _damaged(self, what: str) -> SeesayError:
        """Return the error of impossible contents."""

    def check_process(self) -> None:
        """Check that this process opened the store: locks and connections do not survive a fork.

        Raises:
            SeesayError: another process did.
        """
        if self._process != os.getpid():
            raise SeesayError(
                f"{self.place}: was opened before this process was forked; open the index again here."
            )

    @abstractmethod
    def check_in_place(self) -> None:
        """Check that the index is still in its place; raise a SeesayError if it was deleted or replaced."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections after other threads have finished reading and writing."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Writer]:
        """Write in one transaction, which starts the next generation."""

    @abstractmethod
    def sole_writer(self) -> AbstractContextManager[None]:
        """Exclude other updates; raise a SeesayError while there is one."""

    @abstractmethod
    def changed(self) -> float:
        """Return when the index was last written, by any process, in seconds since 1970."""

    @abstractmethod
    def size(self) -> int:
        """Return the size of the index in bytes."""

    @abstractmethod
    def files(self) -> Files:
        """Return where thumbnails are kept."""

    @abstractmethod
    def settle(self, kind: Kind, queries: Callable[[], NDArray[np.float32]]) -> None:
        """Prepare later searches, at the end of an update.

        Args:
            kind: of the items that were written.
            queries: returns vectors (q, dim) of queries such as an index is searched by.
        """

    @abstractmethod
    def nearest(
        self,
        kind: Kind,
        query: NDArray[np.float32],
        k: int,
        where: Filter = EVERYTHING,
        after: Place | None = None,
    ) -> Ranked:
        """Return ids and scores of the `k` best items by inner product, or fewer, best first; ties by id.

        Args:
            kind: of the items.
            query: a vector, (dim,).
            k: number of items.
            where: a filter that images must match.
            after: the end of the previous page.
        """

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Yield a connection that sees one consistent state."""

    @abstractmethod
    def _ids(self, connection: Connection, _among: str, values: Sequence[object]) -> NDArray[np.int64]:
        """Return the ids (n,) of items, in order; `among` is the end of a query."""

    @abstractmethod
    def _unpacked(self, data: Sequence[bytes]) -> NDArray[np.float16]:
        """Return the vectors (n, dim) of what `vectors` keeps; raise a ValueError for another length."""

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """Read a consistent state; impossible values are reported as damage."""
        self.check_process()
        with self._reading() as connection:
            try:
                yield connection
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
                raise self._damaged(f"{type(error).__name__}: {error}") from error

    def _generation(self, connection: Connection) -> int:
        row = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
        if row is None or not re.fullmatch("[0-9]{1,18}", str(row[0])):
            raise self._damaged("its generation")
        return int(row[0])

    def generation(self) -> int:
        """Return the number of write transactions so far."""
        with self._read() as connection:
            return self._generation(connection)

    def roots(self) -> list[Root]:
        """Return the image folders; none before the first update."""
        with self._read() as connection:
            generation = self._generation(connection)
            if self._known_roots[0] != generation:  # asked for with every hit
                query = "SELECT name, folder, seal FROM roots ORDER BY name LIMIT ?"
                rows = _typed(connection.execute(query, (MOST_ROOTS + 1,)), str, str, str)
                if len(rows) > MOST_ROOTS:
                    raise self._damaged(f"more than {MOST_ROOTS} folders")
                roots = [Root(name, Path(folder), seal) for name, folder, seal in rows]
                if not all(is_possible(root.folder) for root in roots):
                    raise self._damaged("a folder that cannot be")
                self._known_roots = generation, roots
            return list(self._known_roots[1])

    def not_read(self) -> dict[str, int]:
        """Return the number of skipped files of each kind in the last updates of the folders."""
        with self._read() as connection:
            counts = [json.loads(text) for (text,) in connection.execute("SELECT not_read FROM roots")]
            each = _typed((pair for folder in counts for pair in dict(folder).items()), str, int)
        total = Counter[str]()
        for kind, count in each:
            total[kind] += count
        return dict(total)

    def exclude(self) -> list[str]:
        """Return the patterns of files and folders that updates leave out."""
        text = self._meta("exclude") or "[]"
        with self._read():
            return [str(pattern) for (pattern,) in _typed(((each,) for each in list(json.loads(text))), str)]

    def background(self) -> str | None:
        """Return the gallery that was stored, see `seesay.search.judging`, or None."""
        return self._meta("background")

    def _meta(self, key: str) -> str | None:
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,), str)
        return str(rows[0][0]) if rows else None

    def _rows(self, query: str, values: Sequence[object], *types: type | UnionType) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whose columns have these types."""
        with self._read() as connection:
            return _typed(connection.execute(query, values), *types)

    def count(self, kind: Kind) -> int:
        """Count the items of a kind."""
        with self._read() as connection:
            return self._counted(connection, kind, self._generation(connection))

    def _counted(self, connection: Connection, kind: Kind, generation: int) -> int:
        """Count the items of a kind, once per generation.

        With a condition SQLite looks at each item, so only sentences, which are few, are counted with one.
        """
        if self._counts.get(kind, (-1, 0))[0] != generation:
            both = connection.execute(
                "SELECT COUNT(*), (SELECT COUNT(*) FROM items WHERE kind = 'sentence') FROM items"
            )
            items, sentences = map(int, both.fetchone())
            self._counts = {"image": (generation, items - sentences), "sentence": (generation, sentences)}
        return self._counts[kind][1]

    def photos(self, ids: Sequence[int] | None = None) -> dict[int, Photo]:
        """Return photos by id: all, or those of `ids` that still exist.

        Raises:
            SeesayError: a photo is damaged.
        """
        if ids is None:
            found = self._photos("TRUE", ())
        else:
            found = self._photos(f"items.id {self._among_ids}", (_as_json(ids),))
        return {photo.id: photo for photo in found}

    def _photos(self, which: str, values: Sequence[object]) -> list[Photo]:
        rows = self._rows(f"{_PHOTO} {which}", values, *_PHOTO_TYPES)
        for row in rows:
            if not _HEX.fullmatch(row[2]):
                raise self._damaged("a content key")
            if len(row[1]) > _LONGEST_PATH:
                raise self._damaged("a path that cannot be")
        return [
            Photo(id_, path, key, folder, width, height, time_, dated_by, added, FileState(*state))
            for id_, path, key, folder, width, height, time_, dated_by, added, *state in rows
        ]

    def sentences(self, ids: Sequence[int]) -> dict[int, str]:
        """Return those sentences that still exist, by id."""
        which = f"kind = 'sentence' AND id {self._among_ids}"
        return dict(self._rows(f"SELECT id, text FROM items WHERE {which}", (_as_json(ids),), int, str))

    def matching(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that match a filter, in order."""
        with self._read() as connection:
            return self._ids(connection, _among(where), where.values)

    def has(self, where: Filter) -> bool:
        """Return whether an image matches a filter."""
        return self._rows(f"SELECT EXISTS (SELECT 1 {_among(where)})", where.values, int) == [(1,)]

    def newest(
        self,
        count: int,
        where: Filter = EVERYTHING,
        after: tuple[str, int] | None = None,
        offset: int = 0,
    ) -> list[Photo]:
        """Return the newest images, newest first.

        Args:
            count: the maximum number.
            where: a filter that they must match.
            after: time and id of the last image of the previous page.
            offset: the number of images to skip.
        """
        behind, place = "TRUE", tuple[str | int, ...]()
        if after:
            behind, place = "(time, items.id) < (?, ?)", (after[0], min(max(after[1], _FIRST), _LAST))
        newest = f"{where.sql} AND {behind} ORDER BY time DESC, items.id DESC LIMIT ? OFFSET ?"
        return self._photos(newest, (*where.values, *place, min(count, _LAST), offset))

    def capture_seconds(self) -> dict[int, float]:
        """Return when images were taken, in seconds by the camera's clock, of those whose EXIF says so."""
        found = dict[int, float]()
        for id_, taken in self._rows(f"SELECT items.id, taken {_IMAGES} AND taken != ''", (), int, str):
            with suppress(ValueError):
                found[id_] = datetime.fromisoformat(taken).replace(tzinfo=UTC).timestamp()
        return found

    def months(self, where: Filter = EVERYTHING) -> dict[str, int]:
        """Return the number of images of each month, such as "2019-06", newest first."""
        month = "SELECT substr(time, 1, 7) AS month, COUNT(*)"
        query = f"{month} {_among(where)} GROUP BY month ORDER BY month DESC"
        return dict(self._rows(query, where.values, str, int))

    def folders(self, limit: int = 1000) -> dict[str, int]:
        """Return the number of images in each folder, with its subfolders, in order, for the largest ones."""
        with self._read() as connection:
            if self._in_folders[0] != (generation := self._generation(connection)):
                # In Python: SQLite has no function that finds the last slash in linear time.
                paths = connection.execute("SELECT path FROM items WHERE kind = 'image'")
                direct = Counter(str.rpartition(path, "/")[0] for (path,) in paths)
                counts = Counter[str]()
                for folder, images in direct.items():
                    while folder:
                        counts[folder] += images
                        folder = folder.rpartition("/")[0]
                self._in_folders = generation, counts
            return dict(sorted(self._in_folders[1].most_common(limit)))

    def vector(self, id_: int) -> NDArray[np.float32] | None:
        """Return the vector (dim,) of an image, or None if there is no image with that id.

        Raises:
            SeesayError: the vector is damaged.
        """
        query = f"SELECT data {_IMAGES} AND items.id {self._among_ids}"
        rows = self._rows(query, (_as_json([id_]),), bytes)
        return self._stacked([(id_, rows[0][0])])[1].astype(np.float32)[0] if rows else None

    def vectors(self, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return the existing ids (n,), in order, and their vectors, (n, dim).

        Raises:
            SeesayError: the vectors are damaged.
        """
        with self._read() as connection:
            rows = connection.execute(
                f"""SELECT items.id, data FROM items JOIN vectors ON vectors.id = items.vector
                WHERE items.id {self._among_ids} ORDER BY items.id""",
                (_as_json(ids),),
            ).fetchall()
        return self._stacked(rows)

    def parts(self, ids: NDArray[np.int64]) -> Parts:
        """Iterate in parts over the existing ids (n,) and their vectors (n, dim)."""
        for start in range(0, len(ids), self.rows_at_once):
            yield self.vectors(ids[start : start + self.rows_at_once].tolist())

    def paths(self, root: Root) -> dict[str, int]:
        """Return the paths of a folder's images with the sizes of their files in bytes."""
        prefix = root.path("")
        query = "SELECT path, size FROM items WHERE kind = 'image' AND substr(path, 1, ?) = ?"
        return dict(self._rows(query, (len(prefix), prefix), str, int))

    def skipped(self) -> dict[str, tuple[FileState, str]]:
        """Return the states of unusable files, and why they are, by path."""
        query = "SELECT path, mtime_ns, size, ctime_ns, reason FROM skipped"
        rows = self._rows(query, (), str, int, int, int, str)
        return {path: (FileState(*state), reason) for path, *state, reason in rows}

    def known(self, kind: Kind, keys: Iterable[str]) -> set[str]:
        """Return the content keys that have a vector."""
        with self._read() as connection:
            query = "SELECT 1 FROM vectors WHERE kind = ? AND key = ?"
            return {key for key in keys if connection.execute(query, (kind, key)).fetchone()}

    def changes(self, kind: Kind, since: int = 0, known: NDArray[np.int64] = _NONE) -> Changes:
        """Return the changes of a kind after generation `since`, as a consistent state.

        Args:
            kind: of the items.
            since: the generation before.
            known: ids (n,) of that generation, ascending, which are read again only if some were deleted.
        """
        with self._read() as connection:
            generation = self._generation(connection)
            if generation == since and len(known):
                return Changes(generation, known, _NONE)
            ids = self._ids(connection, "FROM items WHERE kind = ? AND generation > ?", (kind, since))
            new = ids[~np.isin(ids, known)]
            if len(known) + len(new) == self._counted(connection, kind, generation):
                return Changes(generation, np.sort(np.concatenate([known, new])) if len(new) else known, ids)
            return Changes(generation, self._ids(connection, "FROM items WHERE kind = ?", (kind,)), ids)

    def last_write(self, kind: Kind) -> int:
        """Return the generation that wrote the last items of a kind; 0 if there is none."""
        with self._read() as connection:
            query = "SELECT MAX(generation) FROM items WHERE kind = ?"
            return connection.execute(query, (kind,)).fetchone()[0] or 0

    def _stacked(self, rows: Sequence[tuple[int, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return the ids (n,) and vectors (n, dim) of rows; raise a SeesayError for damaged ones."""
        ids = np.fromiter((id_ for id_, _ in rows), np.int64, len(rows))
        try:
            vectors = self._unpacked([data for _, data in rows])
        except (ValueError, TypeError) as error:
            raise self._damaged("vectors of a wrong length") from error
        if not np.isfinite(vectors).all():  # a search would find nothing, or anything
            raise self._damaged("vectors that are not finite")
        return ids, vectors


def _among(where: Filter) -> str:
    """Return the end of a query for the images that match a filter."""
    return f"FROM items WHERE kind = 'image' AND {where.sql}"


def _typed(rows: Iterable[tuple[Any, ...]], *types: type | UnionType) -> list[tuple[Any, ...]]:
    """Check the types of the columns of rows, since SQLite columns may contain any type.

    Raises:
        TypeError: a value has another type.
    """
    found = list(rows)
    for row in found:
        for value, type_ in zip(row, types, strict=True):
            if not isinstance(value, type_):
                raise TypeError(f"{type(value).__name__} in place of {getattr(type_, '__name__', type_)}")
    return found


def _as_json(ids: Sequence[int]) -> str:
    """Write ids as one parameter of a query, since SQLite accepts at most 32,766 parameters.

    Impossible ids are left out.
    """
    return json.dumps([int(id_) for id_ in ids if _FIRST <= id_ <= _LAST])
