"""The items of an index and their half-precision vectors, in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seesay.data.remote import path_of
from seesay.encoders.detector import Detection
from seesay.errors import SeesayError
from seesay.search.filters import Filter
from seesay.search.roots import Root
from seesay.search.seal import seal

Kind = Literal["image", "sentence"]

FILE = "index.sqlite"  # in an index's folder
_ROWS = 65_536  # vectors that are read at a time

# "sees" in ASCII, in the header of the file, distinguishes an index from other SQLite files.
APPLICATION_ID = 0x73656573

# To the times of `Dated`. Also a step below, so as little to be edited as these.
_SET_TIMES = """UPDATE items SET time = (SELECT CASE WHEN COALESCE(taken, '') = ''
    THEN strftime('%Y-%m-%dT%H:%M:%S', mtime_ns / 1000000000, 'unixepoch') ELSE taken END
    FROM vectors WHERE vectors.id = items.vector) WHERE kind = 'image'"""

# Step n brings a file from version n to n + 1. Never edit a step that was released: append one.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "INSERT INTO meta VALUES ('generation', '0')",
        # A vector belongs to a content, so that identical files are embedded once.
        """CREATE TABLE vectors (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('image', 'sentence')),
            key TEXT NOT NULL,
            width INTEGER,
            height INTEGER,
            data BLOB NOT NULL,
            UNIQUE (kind, key)
        )""",
        # AUTOINCREMENT: an id that a page or a cache still holds is never given to another image.
        """CREATE TABLE items (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL CHECK (kind IN ('image', 'sentence')),
            vector INTEGER NOT NULL REFERENCES vectors (id),
            path TEXT UNIQUE,
            text TEXT UNIQUE,
            mtime_ns INTEGER,
            size INTEGER,
            added REAL NOT NULL,
            generation INTEGER NOT NULL,
            CHECK ((kind = 'image') = (path IS NOT NULL) AND (kind = 'sentence') = (text IS NOT NULL))
        )""",
        "CREATE INDEX items_by_vector ON items (vector)",
        "CREATE INDEX items_by_generation ON items (kind, generation)",
        # Files that could not be used are listed on every update, and decoded again only when they change.
        """CREATE TABLE skipped (
            path TEXT PRIMARY KEY,
            mtime_ns INTEGER NOT NULL,
            size INTEGER NOT NULL,
            reason TEXT NOT NULL
        ) WITHOUT ROWID""",
    ),
    # When a photo was taken, "2019-06-30T12:00:00"; empty if it does not say, NULL until it is looked at.
    ("ALTER TABLE vectors ADD COLUMN taken TEXT",),
    # What a detector saw in an image: boxes in pixels of the upright image.
    (
        """CREATE TABLE objects (
            vector INTEGER NOT NULL REFERENCES vectors (id) ON DELETE CASCADE,
            name TEXT NOT NULL,
            x1 REAL NOT NULL,
            y1 REAL NOT NULL,
            x2 REAL NOT NULL,
            y2 REAL NOT NULL,
            confidence REAL NOT NULL
        )""",
        "CREATE INDEX objects_by_vector ON objects (vector)",
    ),
    # An index may be of several folders; files of other kinds are counted for each.
    (
        """CREATE TABLE roots (
            name TEXT PRIMARY KEY,
            folder TEXT NOT NULL UNIQUE,
            seal TEXT NOT NULL,
            not_read TEXT NOT NULL
        ) WITHOUT ROWID""",
        """INSERT INTO roots SELECT '', value,
            COALESCE((SELECT value FROM meta WHERE key = 'seal'), ''),
            COALESCE((SELECT value FROM meta WHERE key = 'not_read'), '{}')
            FROM meta WHERE key = 'root'""",
        "DELETE FROM meta WHERE key IN ('root', 'seal', 'not_read')",
    ),
    # A page of the newest images is read in order, however many there are.
    (
        "ALTER TABLE items ADD COLUMN time TEXT",
        _SET_TIMES,
        "CREATE INDEX items_by_time ON items (kind, time)",
    ),
)

_ITEM = """SELECT items.id, items.kind, items.path, items.text, vectors.key, vectors.width, vectors.height,
    items.mtime_ns, items.size FROM items JOIN vectors ON vectors.id = items.vector"""

_IMAGES = "FROM items JOIN vectors ON vectors.id = items.vector WHERE items.kind = 'image'"


@dataclass(frozen=True, slots=True)
class Item:
    """An image (`path`, see `Root.path`, with `/`) or a sentence (`text`); `key` is of its content."""

    id: int
    kind: Kind
    path: str | None
    text: str | None
    key: str
    width: int | None
    height: int | None
    mtime_ns: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Dated:
    """An image and its time, "2019-06-30T12:00:00": when it was taken, else when its file changed, in UTC."""

    id: int
    path: str
    width: int
    height: int
    time: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What filters ask about an image; `taken` is empty if it does not say, `added` in seconds since 1970."""

    path: str
    width: int
    height: int
    taken: str
    added: float


Parts = Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]]
"""Ids (n,) and vectors (n, dim) of many items, some at a time."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes up to `generation`: `ids` (m,) of what was written, and all that are `alive` (n,), in order.

    Their vectors (`Store.vectors`, `Store.parts`) are read later, and are then those of that time.
    """

    generation: int
    alive: NDArray[np.int64]
    ids: NDArray[np.int64]


class Store:
    """Items and vectors; readers always see whole transactions.

    Any thread may use a store, and other processes may write to the same file at the same time.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()
        with _file_errors(path):
            if not _is_read_only(path):
                connection.execute("PRAGMA journal_mode = WAL")  # readers go on while a writer writes
                connection.execute("PRAGMA synchronous = NORMAL")
            rows = connection.execute("SELECT key, value FROM meta WHERE key != 'generation'")
            self.meta = dict[str, str](rows.fetchall())
        try:
            self.dim = int(self.meta["dim"])
        except (KeyError, ValueError) as failure:
            raise SeesayError(
                f"{path}: damaged (no dimension); delete its folder and index again."
            ) from failure

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether there is a store; an empty SQLite file, left by a kill, is none."""
        if not path.is_file():
            return False
        try:
            with closing(_connect(path)) as connection:
                return not _is_empty(connection)
        except sqlite3.DatabaseError:
            return True

    @classmethod
    def create(cls, path: Path, embedder: str, fingerprint: str, dim: int, vectors: str = "") -> Store:
        """Create an empty store; `vectors` is the address of those that are searched, if not embedded.

        Raises:
            SeesayError: there is one already, or the file cannot be written.
        """
        meta = {"embedder": embedder, "fingerprint": fingerprint, "dim": str(dim)}
        meta |= {"created": str(time.time()), "identity": uuid.uuid4().hex}
        if vectors:
            meta |= {"store": vectors, "store_seal": seal(meta["identity"], vectors)}
        with _file_errors(path):
            connection = _connect(path)
            if not _is_empty(connection):
                raise SeesayError(f"{path}: already exists; open it, or delete it first.")
            with _transaction(connection):  # a kill leaves an index or an empty file, nothing between
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                _migrate(connection, since=0)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
        return cls(connection, path)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a store, and migrate it from an earlier version.

        Raises:
            SeesayError: no such file, not an index, damaged, or made by a newer seesay.
        """
        if not path.is_file():
            raise SeesayError(f"{path.parent}: no index there; make one with `seesay index`.")
        with _file_errors(path):
            connection = _connect(path)
            if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                raise SeesayError(f"{path}: not a seesay index; name a folder that `seesay index` made.")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                raise SeesayError(f"{path}: made by a newer seesay; upgrade seesay or index again.")
            if version < len(MIGRATIONS):
                if _is_read_only(path):
                    raise SeesayError(
                        f"{path}: made by an older seesay, and cannot be brought up to date without "
                        "writing to it; have its owner open it, or copy its folder to one of your own."
                    )
                with _transaction(connection):
                    _migrate(connection, since=version)
        return cls(connection, path)

    def close(self) -> None:
        """Close the file, once other threads have finished what they read or write."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Write in one transaction, which makes the next generation."""
        with self._lock, _file_errors(self.path), _transaction(self._connection):
            yield Writer(self._connection, self._generation() + 1)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _file_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    def _generation(self) -> int:
        return int(self._connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])

    def generation(self) -> int:
        """Return the number of write transactions so far."""
        with self._lock, _file_errors(self.path):
            return self._generation()

    def roots(self) -> list[Root]:
        """Return the folders that the images are in; none before the first update of images."""
        with self._read() as connection:
            rows = connection.execute("SELECT name, folder, seal FROM roots ORDER BY name").fetchall()
        return [Root(name, path_of(folder), seal) for name, folder, seal in rows]

    def not_read(self) -> dict[str, int]:
        """Return the number of files of each kind that the last updates of the folders did not read."""
        with self._read() as connection:
            rows = connection.execute("SELECT not_read FROM roots").fetchall()
        return dict(sum((Counter(json.loads(counts)) for (counts,) in rows), Counter[str]()))

    def background(self) -> str | None:
        """Return what `Writer.set_background` stored; None if nothing is."""
        return self._meta("background")

    def recall(self) -> float | None:
        """Return what `Writer.set_recall` stored; None if nothing is."""
        text = self._meta("recall")
        return None if text is None else float(text)

    def _meta(self, key: str) -> str | None:
        with self._read() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else None

    def count(self, kind: Kind) -> int:
        """Count the items of a kind."""
        with self._read() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM items WHERE kind = ?", (kind,)).fetchone()[0])

    def items(self, ids: Sequence[int] | None = None) -> dict[int, Item]:
        """Return items by id: all images, or those of `ids` that still exist."""
        with self._read() as connection:
            if ids is None:
                rows = connection.execute(f"{_ITEM} WHERE items.kind = 'image'").fetchall()
            else:
                query = f"{_ITEM} WHERE items.id IN (SELECT value FROM json_each(?))"
                rows = connection.execute(query, (_as_json(ids),)).fetchall()
        return {row[0]: Item(*row) for row in rows}

    def facts(self, ids: Sequence[int]) -> dict[int, Facts]:
        """Return the facts of those images by id."""
        query = f"""SELECT items.id, path, width, height, COALESCE(taken, ''), added {_IMAGES}
            AND items.id IN (SELECT value FROM json_each(?))"""
        with self._read() as connection:
            rows = connection.execute(query, (_as_json(ids),)).fetchall()
        return {row[0]: Facts(*row[1:]) for row in rows}

    def matching(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that a filter lets through, in order."""
        with self._read() as connection:
            query = f"SELECT items.id {_IMAGES} AND ({where.sql}) ORDER BY items.id"
            rows = connection.execute(query, where.values).fetchall()
        return np.array(rows, np.int64).ravel()

    def newest(
        self, count: int, where: Filter | None = None, after: tuple[str, int] | None = None
    ) -> list[Dated]:
        """Return the newest images, newest first.

        Args:
            count: how many at most.
            where: a filter that they pass.
            after: time and id of the last one of the page before.
        """
        where = where or Filter("1", ())
        behind, place = ("(time, items.id) < (?, ?)", after) if after else ("1", ())
        with self._read() as connection:
            rows = connection.execute(
                f"""SELECT items.id, path, width, height, time {_IMAGES}
                AND ({where.sql}) AND {behind}
                ORDER BY time DESC, items.id DESC LIMIT ?""",
                (*where.values, *place, count),
            ).fetchall()
        return [Dated(*row) for row in rows]

    def dated(self, ids: Sequence[int]) -> dict[int, Dated]:
        """Return the images of those ids that still exist, with their times."""
        with self._read() as connection:
            rows = connection.execute(
                f"""SELECT items.id, path, width, height, time {_IMAGES}
                AND items.id IN (SELECT value FROM json_each(?))""",
                (_as_json(ids),),
            ).fetchall()
        return {row[0]: Dated(*row) for row in rows}

    def months(self, where: Filter | None = None) -> dict[str, int]:
        """Return the number of images of each month, such as "2019-06", newest first."""
        among = f"AND id IN (SELECT items.id {_IMAGES} AND ({where.sql}))" if where and where.limits else ""
        with self._read() as connection:
            rows = connection.execute(
                f"""SELECT substr(time, 1, 7) AS month, COUNT(*) FROM items WHERE kind = 'image' {among}
                GROUP BY month ORDER BY month DESC""",
                where.values if where else (),
            ).fetchall()
        return dict(rows)

    def without_time(self) -> dict[str, str]:
        """Return a path for each content key of an image whose time has not been looked at."""
        with self._read() as connection:
            query = """SELECT key, path FROM vectors JOIN items ON vectors.id = items.vector
                WHERE vectors.kind = 'image' AND taken IS NULL"""
            return dict(connection.execute(query).fetchall())

    def vector(self, id_: int) -> NDArray[np.float32] | None:
        """Return the vector (dim,) of an image; None if there is no image of that id.

        Raises:
            SeesayError: the vector is damaged.
        """
        with self._read() as connection:
            row = connection.execute(
                f"SELECT data {_IMAGES} AND items.id = ?",
                (id_,),
            ).fetchone()
        if row is None:
            return None
        vector = np.frombuffer(row[0], np.float16).astype(np.float32) if len(row[0]) == 2 * self.dim else None
        if vector is None or not np.isfinite(vector).all():
            raise SeesayError(f"{self.path}: damaged (the vector of image {id_}); delete and index again.")
        return vector

    def vectors(self, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return which of those ids there are, (n,), in order, and their vectors, (n, dim).

        Raises:
            SeesayError: the vectors are damaged.
        """
        with self._read() as connection:
            rows = connection.execute(
                """SELECT items.id, data FROM items JOIN vectors ON vectors.id = items.vector
                WHERE items.id IN (SELECT value FROM json_each(?)) ORDER BY items.id""",
                (_as_json(ids),),
            ).fetchall()
        return self._stacked(rows)

    def parts(self, ids: NDArray[np.int64]) -> Parts:
        """Iterate over those of the ids that there are, (n,), and their vectors, (n, dim), some at a time."""
        for start in range(0, len(ids), _ROWS):
            here, vectors = self.vectors(ids[start : start + _ROWS].tolist())
            yield here, vectors.astype(np.float32)

    def objects(self, ids: Sequence[int], names: Sequence[str]) -> dict[int, list[Detection]]:
        """Return the objects of those names that a detector saw, best first, by the ids of images."""
        with self._read() as connection:
            rows = connection.execute(
                """SELECT items.id, name, x1, y1, x2, y2, confidence
                FROM items JOIN objects ON objects.vector = items.vector
                WHERE items.id IN (SELECT value FROM json_each(?))
                    AND name IN (SELECT value FROM json_each(?))
                ORDER BY confidence DESC""",
                (_as_json(ids), json.dumps(list(names))),
            ).fetchall()
        found: dict[int, list[Detection]] = {}
        for id_, name, x1, y1, x2, y2, confidence in rows:
            found.setdefault(id_, []).append(Detection(name, (x1, y1, x2, y2), confidence))
        return found

    def paths(self, root: Root) -> dict[str, int]:
        """Return the paths of a folder's images with the sizes of their files in bytes."""
        prefix = root.path("")
        with self._read() as connection:
            query = "SELECT path, size FROM items WHERE kind = 'image' AND substr(path, 1, ?) = ?"
            return dict(connection.execute(query, (len(prefix), prefix)).fetchall())

    def skipped(self) -> dict[str, tuple[int, int, str]]:
        """Return (mtime_ns, size, reason) of unusable files by path."""
        with self._read() as connection:
            rows = connection.execute("SELECT path, mtime_ns, size, reason FROM skipped").fetchall()
        return {path: (mtime, size, reason) for path, mtime, size, reason in rows}

    def known(self, kind: Kind, keys: Iterable[str]) -> set[str]:
        """Return those of the content keys that have a vector."""
        with self._read() as connection:
            query = "SELECT 1 FROM vectors WHERE kind = ? AND key = ?"
            return {key for key in keys if connection.execute(query, (kind, key)).fetchone()}

    def changes(self, kind: Kind, since: int = 0) -> Changes:
        """Return what was written of a kind after generation `since`, as of one moment."""
        with self._read() as connection:
            generation = self._generation()
            alive = connection.execute("SELECT id FROM items WHERE kind = ? ORDER BY id", (kind,))
            ids = connection.execute(
                "SELECT id FROM items WHERE kind = ? AND generation > ? ORDER BY id", (kind, since)
            )
            return Changes(generation, _column(alive), _column(ids))

    def _stacked(self, rows: Sequence[tuple[int, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return the ids (n,) and vectors (n, dim) of rows of both; raise a SeesayError for damaged ones."""
        if any(len(data) != self.dim * 2 for _, data in rows):
            raise SeesayError(f"{self.path}: damaged (vectors of a wrong length); delete and index again.")
        ids = np.fromiter((id_ for id_, _ in rows), np.int64, len(rows))
        vectors = np.frombuffer(b"".join(data for _, data in rows), np.float16).reshape(len(rows), self.dim)
        if not np.isfinite(vectors).all():  # a search would find nothing, or anything
            raise SeesayError(f"{self.path}: damaged (vectors that are not finite); delete and index again.")
        return ids, vectors


def _column(rows: sqlite3.Cursor) -> NDArray[np.int64]:
    """The only column of rows, (n,), of which there may be millions."""
    return np.fromiter((value for (value,) in rows), np.int64)


class Writer:
    """Writes within the transaction of `Store.write`."""

    def __init__(self, connection: sqlite3.Connection, generation: int) -> None:
        self._connection = connection
        self._generation = generation
        connection.execute("UPDATE meta SET value = ? WHERE key = 'generation'", (str(generation),))

    def put_root(self, root: Root) -> None:
        """Add a folder, or say where the one of that name is now."""
        self._connection.execute(
            """INSERT INTO roots VALUES (?, ?, ?, '{}')
            ON CONFLICT (name) DO UPDATE SET folder = excluded.folder, seal = excluded.seal""",
            (root.name, str(root.folder), root.seal),
        )

    def name_root(self, name: str) -> None:
        """Give the folder that the index is of alone a name, with which the paths of its images begin."""
        self._connection.execute("UPDATE roots SET name = ? WHERE name = ''", (name,))
        # In two steps: a new path may be the former one of another image, and no path begins with a slash.
        for table, also in (("items", f", generation = {self._generation}"), ("skipped", "")):
            new = f"UPDATE {table} SET path = '/' || ? || '/' || path{also} WHERE path IS NOT NULL"
            self._connection.execute(new, (name,))
            self._connection.execute(f"UPDATE {table} SET path = substr(path, 2) WHERE path IS NOT NULL")

    def delete_root(self, root: Root) -> int:
        """Delete a folder with all its items, and return how many these were."""
        prefix = root.path("")
        for table in ("skipped", "items"):  # the items last, to be counted
            rows = f"DELETE FROM {table} WHERE substr(path, 1, ?) = ?"
            deleted = self._connection.execute(rows, (len(prefix), prefix)).rowcount
        self._connection.execute("DELETE FROM roots WHERE name = ?", (root.name,))
        return deleted

    def set_embedder(self, name: str) -> None:
        """Store the name or folder that the run of the vectors has now."""
        self._connection.execute("UPDATE meta SET value = ? WHERE key = 'embedder'", (name,))

    def set_not_read(self, root: Root, counts: Mapping[str, int]) -> None:
        """Set the number of files of each kind in a folder that is not read."""
        row = (json.dumps(counts), root.name)
        self._connection.execute("UPDATE roots SET not_read = ? WHERE name = ?", row)

    def set_background(self, text: str) -> None:
        """Store what is known of the images as a gallery, see `seesay.search.background`."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('background', ?)", (text,))

    def set_recall(self, recall: float) -> None:
        """Store the recall@10 that lists of vectors are made for, see `seesay.search.quantise`."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('recall', ?)", (repr(recall),))

    def put_vector(
        self, kind: Kind, key: str, vector: NDArray[np.float32], size: tuple[int, int] | None = None
    ) -> None:
        """Add the vector (dim,) of a content, with (width, height) for an image."""
        width, height = size or (None, None)
        self._connection.execute(
            "INSERT OR IGNORE INTO vectors (kind, key, width, height, data) VALUES (?, ?, ?, ?, ?)",
            (kind, key, width, height, vector.astype(np.float16).tobytes()),
        )

    def put_objects(self, key: str, objects: Iterable[Detection]) -> None:
        """Add what a detector saw in the image of that content, whose vector must be there."""
        self._connection.executemany(
            """INSERT INTO objects SELECT id, ?, ?, ?, ?, ?, ? FROM vectors
            WHERE kind = 'image' AND key = ?""",
            [(each.name, *each.box, each.confidence, key) for each in objects],
        )

    def set_time(self, key: str, taken: str) -> None:
        """Set when the photo of that content was taken, as `taken_at` tells."""
        self._connection.execute(
            "UPDATE vectors SET taken = ? WHERE kind = 'image' AND key = ?", (taken, key)
        )
        self._connection.execute(
            """UPDATE items SET generation = ?
            WHERE vector = (SELECT id FROM vectors WHERE kind = 'image' AND key = ?)""",
            (self._generation, key),
        )
        self._date("vector = (SELECT id FROM vectors WHERE kind = 'image' AND key = ?)", key)

    def put_image(self, path: str, key: str, mtime_ns: int, size: int) -> None:
        """Add or change the image at a path, which keeps its id; its content's vector must be there."""
        self._connection.execute(
            """INSERT INTO items (kind, vector, path, mtime_ns, size, added, generation)
            VALUES ('image', (SELECT id FROM vectors WHERE kind = 'image' AND key = ?), ?, ?, ?, ?, ?)
            ON CONFLICT (path) DO UPDATE SET vector = excluded.vector, mtime_ns = excluded.mtime_ns,
                size = excluded.size, generation = excluded.generation""",
            (key, path, mtime_ns, size, time.time(), self._generation),
        )
        self._date("path = ?", path)
        self.forget_skipped([path])

    def _date(self, which: str, value: str | int) -> None:
        """Set the times of images whose file or photo has changed."""
        self._connection.execute(f"{_SET_TIMES} AND {which}", (value,))

    def put_sentence(self, text: str, key: str) -> None:
        """Add a sentence, whose vector must be there."""
        self._connection.execute(
            """INSERT OR IGNORE INTO items (kind, vector, text, added, generation)
            VALUES ('sentence', (SELECT id FROM vectors WHERE kind = 'sentence' AND key = ?), ?, ?, ?)""",
            (key, text, time.time(), self._generation),
        )

    def place(self, id_: int, path: str, mtime_ns: int, size: int) -> None:
        """Move an item to another path or modification time; its vector and id stay."""
        self._connection.execute(
            "UPDATE items SET path = ?, mtime_ns = ?, size = ?, generation = ? WHERE id = ?",
            (path, mtime_ns, size, self._generation, id_),
        )
        self._date("id = ?", id_)
        self.forget_skipped([path])

    def put_skipped(self, path: str, mtime_ns: int, size: int, reason: str) -> None:
        """Record a file that cannot be used, and delete its former item."""
        self._connection.execute("DELETE FROM items WHERE path = ?", (path,))
        self._connection.execute(
            "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?, ?)", (path, mtime_ns, size, reason)
        )

    def forget_skipped(self, paths: Iterable[str]) -> None:
        """Delete the records of unusable files that are gone or usable again."""
        self._connection.executemany("DELETE FROM skipped WHERE path = ?", [(path,) for path in paths])

    def delete(self, ids: Iterable[int]) -> None:
        """Delete items."""
        self._connection.executemany("DELETE FROM items WHERE id = ?", [(id_,) for id_ in ids])

    def drop_orphans(self) -> list[str]:
        """Delete vectors that no item uses, and return the content keys of the images among them."""
        orphans = self._connection.execute(
            "SELECT id, kind, key FROM vectors WHERE id NOT IN (SELECT vector FROM items)"
        ).fetchall()
        self._connection.executemany("DELETE FROM vectors WHERE id = ?", [(row[0],) for row in orphans])
        return [key for _, kind, key in orphans if kind == "image"]


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file into a message for the user."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = str(error)
        if "locked" in reason:
            raise SeesayError(f"{path}: another process is writing to it; try again later.") from error
        if "full" in reason:
            raise SeesayError(
                f"{path}: the disk is full; free some space and run the same command again. What was "
                "finished is kept."
            ) from error
        if ("unable to open" in reason or "readonly" in reason) and _is_read_only(path):
            raise SeesayError(
                f"{path}: cannot be read without writing beside it, since others may write to it; copy its "
                "folder to one of your own, or have its owner open it first."
            ) from error
        raise SeesayError(
            f"{path}: cannot be used ({reason}); check the disk and its permissions."
        ) from error
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise SeesayError(f"{path.parent}: this index is closed; open it again.") from error
        raise SeesayError(
            f"{path}: not a seesay index, or damaged ({error}); delete its folder and index again."
        ) from error


def _is_read_only(path: Path) -> bool:
    """Whether an index exists that this process cannot write to."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _is_immutable(path: Path) -> bool:
    """Whether nobody has left changes beside an index, in SQLite's log, and nobody can make such a log."""
    if any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm")):
        return False
    if hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY:
        return True
    return not path.parent.stat().st_mode & 0o222


def _connect(path: Path) -> sqlite3.Connection:
    """A connection with explicit transactions, usable from any thread under its owner's lock."""
    path = path.resolve()
    # SQLite writes beside a file that it only reads, unless it is promised that the file never changes.
    mode = "" if not _is_read_only(path) else "?mode=ro" + ("&immutable=1" if _is_immutable(path) else "")
    connection = sqlite3.connect(
        path.as_uri() + mode, uri=True, timeout=30, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _as_json(ids: Sequence[int]) -> str:
    """Write ids as one parameter of a query, of which SQLite takes at most 32,766."""
    return json.dumps([int(id_) for id_ in ids])


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside, or roll all of it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, since: int) -> None:
    for step in MIGRATIONS[since:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
