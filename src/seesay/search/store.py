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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.seal import seal
from seesay.search.filters import EVERYTHING, Filter, words_read
from seesay.search.hits import PageEnd, Ranked
from seesay.search.photo import FileState, Photo, Root, is_possible
from seesay.search.tables import AMONG_IDS, AMONG_TEXTS, Connection, Kind, Writer

if TYPE_CHECKING:
    from seesay.data.ocr import TextLine

_ROWS_AT_ONCE = 65_536  # vectors
MOST_ROOTS = 1000  # folders of an index
_HEX = re.compile("[0-9a-f]{32}")
_COPIED = 2000  # rows at once
_LONGEST_PATH = 4096  # characters; work on a path grows with their square
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1  # integers of SQLite

_PHOTO = """SELECT items.id, path, key, width, height, time, dated_by, mtime_ns, size, ctime_ns
    FROM items JOIN vectors ON vectors.id = items.vector WHERE"""
# SQLite takes no index for an expression: that of kinds would be read to its end for a few ids.
_OF_KIND = "items.kind || '' ="
_PHOTO_TYPES = (int, str, str, int, int, str, str, int, int, int)
_COLUMNS: dict[str, tuple[type | UnionType, ...]] = {  # in the order in which rows refer to each other
    "roots": (str,) * 4,
    "skipped": (str, int, int, int, str),
    "vectors": (int, str, str, int | None, int | None, str, bytes),
    "items": (int, str, int, *[str | None] * 2, *[int | None] * 3, *[str | None] * 4, float, int),
    "texts": (int, str, str, str),
}
_META = {  # that each index has
    "embedder": "(?s:.+)",
    "fingerprint": "(?s:.+)",
    "dim": "[1-9][0-9]{0,5}",
    "identity": "[0-9a-f]{32}",
}


Opened = TypeVar("Opened", bound=Any)


@contextmanager
def closed_on_error(opened: Opened) -> Iterator[Opened]:
    """Yield what was opened, and close it if the rest of opening an index fails."""
    try:
        yield opened
    except BaseException:
        opened.close()
        raise


class Store(ABC):
    """Items and vectors; readers always see complete transactions. Thread-safe, for any number of processes.

    Methods raise a SeesayError if what they read is damaged.

    Args:
        place: the folder or address of the index.
        meta: its metadata, by key.

    Attributes:
        place: see above.
        meta: as it was when the index was opened.
        dim: the length of the vectors.
    """

    _half, _head = "<f2", b""
    """The type of a vector's numbers, and what comes before them."""

    def __init__(self, place: str, meta: Iterable[tuple[object, ...]]) -> None:
        self.place, self._process = place, os.getpid()
        self._counts: dict[Kind, tuple[int, int]] = {}  # of items, with the generation
        self._known_roots: tuple[int, list[Root]] = -1, []
        try:
            self.meta = dict[str, str](_typed(meta, str, str))
        except TypeError as error:
            raise self._damaged(f"what it says of itself: {error}") from error
        for key, form in _META.items():
            if not re.fullmatch(form, self.meta.get(key, "")):
                raise self._damaged(f"its {key}" if key in self.meta else f"no {key}")
        self.dim = int(self.meta["dim"])

    @staticmethod
    @abstractmethod
    def exists(place: str | Path) -> bool:
        """See `seesay.search.index.store_exists`."""

    @classmethod
    @abstractmethod
    def create(cls, place: str | Path, meta: Mapping[str, str]) -> Self:
        """Create an empty store with this metadata; see `seesay.search.index.create_store`."""

    @classmethod
    @abstractmethod
    def open(cls, place: str | Path) -> Self:
        """See `seesay.search.index.open_store`."""

    def _damaged(self, what: str) -> SeesayError:
        """Return the error of impossible contents."""
        return SeesayError(f"{self.place}: damaged ({what}); index again under another name.")

    def check_process(self) -> None:
        """Raise a SeesayError in a forked process, which locks and connections do not survive."""
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

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Write in one transaction, which starts the next generation."""
        self.check_process()
        with self._writing() as connection:

            def insert(table: str, rows: Sequence[tuple[Any, ...]]) -> None:
                if table == "vectors":
                    rows = [(*row, self._head + each.astype(self._half).tobytes()) for *row, each in rows]
                if rows:
                    self._insert(connection, table, rows)

            last_id = self._number(connection, "last_id")
            yield Writer(connection, insert, self._number(connection, "generation") + 1, last_id)

    @abstractmethod
    def sole_writer(self) -> AbstractContextManager[None]:
        """Exclude other updates; raise a SeesayError while there is one."""

    def thumbnail_name(self, key: str) -> str:
        """Return the name of the thumbnail of a content, its seal; empty if this user's key cannot be read.

        Thumbnails in a copied index are therefore never found, and no content key leads elsewhere.
        """
        return seal(self.meta["identity"], f"thumbnail {key}")

    @abstractmethod
    def thumbnail(self, key: str) -> bytes | None:
        """Return the thumbnail of a content, if it is kept."""

    @abstractmethod
    def keep_thumbnails(self, made: Mapping[str, bytes]) -> None:
        """Keep thumbnails, by content key; without the right to write, they are made each time."""

    @abstractmethod
    def drop_thumbnails(self, keys: Iterable[str]) -> None:
        """Delete the thumbnails of removed contents."""

    @abstractmethod
    def settle(self, kind: Kind) -> None:
        """Prepare later searches for items of a kind, at the end of an update."""

    def nearest(
        self,
        kind: Kind,
        query: NDArray[np.float32],
        k: int,
        where: Filter = EVERYTHING,
        after: PageEnd | None = None,
    ) -> Ranked:
        """Return ids and scores of the `k` best items by inner product, or fewer, best first; ties by id.

        Args:
            kind: of the items.
            query: a vector, (dim,).
            k: number of items.
            where: a filter that images must match.
            after: the end of the previous page.
        """
        self.check_process()
        end = after or PageEnd(np.inf, 0, 0)
        asked, is_first = end.seen + k + 1, after is None
        while True:
            ids, scores = self._best(kind, query, asked, where, is_first)
            behind = (scores < end.score) | ((scores == end.score) & (ids > end.id))
            if len(ids) == asked:  # further ones may score as the last does, and have lower ids
                behind &= scores > scores[-1]
            # Items may have been added before that place since the previous page was read.
            if behind.sum() >= k or len(ids) < asked:
                return ids[behind][:k], scores[behind][:k]
            asked, is_first = 2 * asked, False

    @abstractmethod
    def _best(self, kind: Kind, query: NDArray[np.float32], k: int, where: Filter, is_first: bool) -> Ranked:
        """Return the `k` best items in order, of the last ties any; the first time, a few may be missed."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Yield a connection that sees one consistent state."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Connection]:
        """Yield a connection in a transaction that excludes other writers."""

    @abstractmethod
    def _insert(self, connection: Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add one or more whole rows to a table."""

    def _unpacked(self, data: Sequence[bytes]) -> NDArray[np.float16]:
        """Return the vectors (n, dim) of what `vectors` keeps; raise a ValueError for another length."""
        start = len(self._head)
        if any(len(each) != start + 2 * self.dim for each in data):
            raise ValueError("vectors of a wrong length")
        numbers = np.frombuffer(b"".join(each[start:] for each in data), self._half)
        return numbers.reshape(len(data), self.dim).astype(np.float16)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """Read a consistent state; impossible values are reported as damage."""
        self.check_process()
        with self._reading() as connection:
            try:
                yield connection
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
                raise self._damaged(f"{type(error).__name__}: {error}") from error

    def _number(self, connection: Connection, key: str) -> int:
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None or not re.fullmatch("[0-9]{1,18}", str(row[0])):
            raise self._damaged(f"its {key}")
        return int(row[0])

    def generation(self) -> int:
        """Return the number of write transactions so far."""
        with self._read() as connection:
            return self._number(connection, "generation")

    def roots(self) -> list[Root]:
        """Return the image folders; none before the first update."""
        with self._read() as connection:
            generation = self._number(connection, "generation")
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
        text = self.current("exclude") or "[]"
        with self._read():
            return [str(pattern) for (pattern,) in _typed(((each,) for each in list(json.loads(text))), str)]

    def changed(self) -> float:
        """Return when the index was last written, by any process, in seconds since 1970."""
        found = self.current("changed") or "0"
        if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]*)?", found):
            raise self._damaged("its last change")
        return float(found)

    def metadata(self) -> dict[str, str]:
        """Return the metadata as it is now, see `Writer.set_meta`."""
        return dict(self._rows("SELECT key, value FROM meta", (), str, str))

    def current(self, key: str) -> str | None:
        """Return the metadata with this key as it is now; None if there is none."""
        return self.metadata().get(key)

    def _rows(self, query: str, values: Sequence[object], *types: type | UnionType) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whose columns have these types."""
        with self._read() as connection:
            return _typed(connection.execute(query, values), *types)

    def count(self, kind: Kind) -> int:
        """Count the items of a kind, once per generation."""
        with self._read() as connection:
            generation = self._number(connection, "generation")
            if self._counts.get(kind, (-1, 0))[0] != generation:
                counted = connection.execute("SELECT COUNT(*) FROM items WHERE kind = ?", (kind,))
                self._counts[kind] = generation, int(counted.fetchone()[0])
            return self._counts[kind][1]

    def photos(self, ids: Sequence[int] | None = None) -> dict[int, Photo]:
        """Return photos by id: all, or those of `ids` that still exist."""
        if ids is None:
            found = self._photos("items.kind = 'image'", ())
        else:
            found = self._photos(f"{_OF_KIND} 'image' AND items.id {AMONG_IDS}", (_as_json(ids),))
        return {photo.id: photo for photo in found}

    def _photos(self, which: str, values: Sequence[object]) -> list[Photo]:
        rows = self._rows(f"{_PHOTO} {which}", values, *_PHOTO_TYPES)
        for row in rows:
            if not _HEX.fullmatch(row[2]):
                raise self._damaged("a content key")
            if len(row[1]) > _LONGEST_PATH:
                raise self._damaged("a path that cannot be")
        return [
            Photo(id_, path, key, width, height, time_, dated_by, FileState(*state))
            for id_, path, key, width, height, time_, dated_by, *state in rows
        ]

    def sentences(self, ids: Sequence[int]) -> dict[int, str]:
        """Return those sentences that still exist, by id."""
        which = f"{_OF_KIND} 'sentence' AND id {AMONG_IDS}"
        return dict(self._rows(f"SELECT id, text FROM items WHERE {which}", (_as_json(ids),), int, str))

    def matching(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that match a filter, in order."""
        with self._read() as connection:
            return _ids(connection, _among(where), where.values)

    def newest(self, count: int, where: Filter = EVERYTHING, offset: int = 0) -> list[Photo]:
        """Return at most `count` images that match a filter, newest first, without the first `offset`."""
        newest = f"items.kind = 'image' AND {where.sql} ORDER BY time DESC, items.id DESC LIMIT ? OFFSET ?"
        return self._photos(newest, (*where.values, min(count, _LAST), offset))

    def with_words(self, words: Sequence[str], count: int, where: Filter) -> list[tuple[int, int]]:
        """Return the ids of the images in whose text most of these words were read, and how many of them.

        At most `count` of those that match a filter; those with the most words come first, then the newest.
        """
        read, forms = words_read(words)
        # CROSS JOIN: SQLite begins with the texts, which few photos have.
        query = f"""SELECT items.id, read
            FROM (SELECT vector AS content, {read} AS read FROM texts) AS found CROSS JOIN items
            WHERE content = vector AND {_OF_KIND} 'image' AND read > ? AND {where.sql}
            ORDER BY read DESC, time DESC, items.id DESC LIMIT ?"""
        return self._rows(query, (*forms, len(words) // 2, *where.values, count), int, int)

    def months(self, where: Filter = EVERYTHING) -> dict[str, int]:
        """Return the number of images of each month, such as "2019-06", newest first."""
        month = "SELECT substr(time, 1, 7) AS month, COUNT(*)"
        query = f"{month} {_among(where)} GROUP BY month ORDER BY month DESC"
        return dict(self._rows(query, where.values, str, int))

    def folders(self, limit: int = 1000) -> dict[str, int]:
        """Return the number of images in each folder, with its subfolders, in order, for the largest ones."""
        # In Python: SQLite has no function that finds the last slash in linear time.
        paths = self._rows("SELECT path FROM items WHERE kind = 'image'", (), str)
        counts = Counter[str]()
        for folder, images in Counter(path.rpartition("/")[0] for (path,) in paths).items():
            while folder:
                counts[folder] += images
                folder = folder.rpartition("/")[0]
        return dict(sorted(counts.most_common(limit)))

    def vector(self, id_: int) -> NDArray[np.float32] | None:
        """Return the vector (dim,) of an image, or None if there is no image with that id."""
        _, found = self.vectors(list(self.photos([id_])))
        return found[0].astype(np.float32) if len(found) else None

    def vectors(self, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return the existing ids (n,), in order, and their vectors, (n, dim)."""
        existing, vectors, count = np.empty(len(ids), np.int64), np.empty((len(ids), self.dim), np.float16), 0
        query = f"""SELECT items.id, data FROM items JOIN vectors ON vectors.id = items.vector
            WHERE items.id {AMONG_IDS} ORDER BY items.id"""
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            some = _as_json(ids[start : start + _ROWS_AT_ONCE])
            with self._read() as connection:
                rows = connection.execute(query, (some,)).fetchall()
                here = slice(count, count + len(rows))
                existing[here] = [id_ for id_, _ in rows]
                vectors[here] = self._unpacked([data for _, data in rows])
            count += len(rows)
        if not np.isfinite(vectors[:count]).all():  # a search would find nothing, or anything
            raise self._damaged("vectors that are not finite")
        return existing[:count], vectors[:count]

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

    def rows(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield all but the metadata: tables with rows, some at a time, as `Writer.insert` takes them."""
        for table, types in _COLUMNS.items():
            # Tables without ids have few rows.
            part = f"WHERE id > ? ORDER BY id LIMIT {_COPIED}" if table in ("vectors", "items") else ""
            rows: list[tuple[Any, ...]] = [(0,)]
            while rows:
                last = (rows[-1][0],) if part else ()
                with self._read() as connection:
                    rows = _typed(connection.execute(f"SELECT * FROM {table} {part}", last), *types)
                    if table == "vectors":
                        vectors = self._unpacked([row[-1] for row in rows])
                        rows = [(*row[:-1], vector) for row, vector in zip(rows, vectors, strict=True)]
                yield table, rows
                if not part:
                    break

    def without_text(self) -> dict[str, str]:
        """Return the content keys of the images whose text has not been read, by path."""
        query = """SELECT path, key FROM items JOIN vectors ON vectors.id = items.vector
            WHERE items.kind = 'image' AND items.vector NOT IN (SELECT vector FROM texts)"""
        return dict(self._rows(query, (), str, str))

    def faults(self) -> dict[str, str]:
        """Return why files, or the text in them, could not be read, by path."""
        query = """SELECT path, reason FROM skipped UNION ALL
            SELECT path, fault FROM texts JOIN items ON items.vector = texts.vector WHERE fault != ''"""
        return dict(self._rows(query, (), str, str))

    def lines(self, id_: int) -> list[TextLine]:
        """Return the lines of text that were read in an image; none if it was not read."""
        from seesay.data.ocr import checked_lines

        query = "SELECT lines FROM texts JOIN items ON items.vector = texts.vector WHERE items.id = ?"
        found = self._rows(query, (id_,), str)
        with self._read():
            return checked_lines(json.loads(found[0][0])) if found else []

    def known(self, kind: Kind, keys: Iterable[str]) -> set[str]:
        """Return the content keys that have a vector."""
        query = f"SELECT key FROM vectors WHERE kind = ? AND key {AMONG_TEXTS}"
        return {key for (key,) in self._rows(query, (kind, json.dumps(list(keys))), str)}

    def ids(self, kind: Kind, since: int = 0) -> NDArray[np.int64]:
        """Return the ids (n,) of the items of a kind that were written after a generation, in order."""
        with self._read() as connection:
            return _ids(connection, "FROM items WHERE kind = ? AND generation > ?", (kind, since))


def _ids(connection: Connection, among: str, values: Sequence[object]) -> NDArray[np.int64]:
    """Return the ids (n,) of items, in order; `among` is the end of a query."""
    rows = connection.execute(f"SELECT items.id {among}", values)
    return np.sort(np.fromiter((id_ for (id_,) in rows), np.int64))


def _among(where: Filter) -> str:
    """Return the end of a query for the images that match a filter."""
    return f"FROM items WHERE kind = 'image' AND {where.sql}"


def _typed(rows: Iterable[tuple[Any, ...]], *types: type | UnionType) -> list[tuple[Any, ...]]:
    """Return rows, or raise a TypeError for a value of another type, since SQLite's columns contain any."""
    found = list(rows)
    for row in found:
        for value, type_ in zip(row, types, strict=True):
            if not isinstance(value, type_):
                raise TypeError(f"{type(value).__name__} in place of {getattr(type_, '__name__', type_)}")
    return found


def _as_json(ids: Sequence[int]) -> str:
    """Write ids as one parameter of a query; impossible ones are left out."""
    return json.dumps([int(id_) for id_ in ids if _FIRST <= id_ <= _LAST])


def is_finite(vectors: NDArray[np.float32]) -> bool:
    """Return whether all numbers are finite in half precision, in which an index stores them."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(vectors.astype(np.float16)).all())


def finite(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors, or raise a `SeesayError` if one is not finite, see `is_finite`."""
    if not is_finite(vectors):
        raise SeesayError(
            "The matcher returned a vector that is not finite or too large for half precision; its weights "
            "may be damaged."
        )
    return vectors
