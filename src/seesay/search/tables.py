"""The tables of an index, the same in SQLite and PostgreSQL, and the changes of their rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from seesay.arrays import Vector
from seesay.search.filters import folded_path
from seesay.search.photo import FileState, Root, dated

Kind = Literal["image", "sentence"]
KINDS: tuple[Kind, Kind] = ("image", "sentence")

# SQLite accepts at most 32,766 parameters, so many values are one parameter, in JSON.
AMONG_TEXTS = "IN (SELECT value FROM json_each(?))"
AMONG_IDS = "IN (SELECT CAST(value AS bigint) FROM json_each(?))"

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # A vector belongs to a content, so that identical files are embedded once. `taken` is when a photo was
    # taken, "2019-06-30T12:00:00", or empty.
    """CREATE TABLE vectors (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('image', 'sentence')),
        key TEXT NOT NULL,
        width bigint,
        height bigint,
        taken TEXT NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (kind, key)
    )""",
    # Ids grow: one that a page or a cache still holds is never given to another image.
    # `time` and `dated_by`: see `Photo`. `folded` is the folder of an image and `name` that of its file,
    # without case and accents, stored because folding a million paths takes seconds.
    """CREATE TABLE items (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('image', 'sentence')),
        vector bigint NOT NULL REFERENCES vectors (id),
        path TEXT,
        text TEXT,
        mtime_ns bigint,
        size bigint,
        ctime_ns bigint,
        time TEXT,
        dated_by TEXT,
        folded TEXT,
        name TEXT,
        added double precision NOT NULL,
        generation bigint NOT NULL,
        UNIQUE (path),
        UNIQUE (text),
        CHECK ((kind = 'image') = (path IS NOT NULL) AND (kind = 'sentence') = (text IS NOT NULL))
    )""",
    "CREATE INDEX items_by_vector ON items (vector)",
    "CREATE INDEX items_by_generation ON items (kind, generation)",
    # A page of the newest images is read in order, however many there are.
    "CREATE INDEX items_by_time ON items (kind, time, id)",
    # Files that could not be used are listed on every update, and decoded again only when they change.
    """CREATE TABLE skipped (
        path TEXT NOT NULL,
        mtime_ns bigint NOT NULL,
        size bigint NOT NULL,
        ctime_ns bigint NOT NULL,
        reason TEXT NOT NULL,
        UNIQUE (path)
    )""",
    # The text that was read in the picture of a content: `words` as filters compare it, `lines` in JSON, see
    # `seesay.data.ocr.TextLine`; `fault` says why it could not be read, or is empty.
    """CREATE TABLE texts (
        vector bigint PRIMARY KEY REFERENCES vectors (id) ON DELETE CASCADE,
        words TEXT NOT NULL,
        lines TEXT NOT NULL,
        fault TEXT NOT NULL
    )""",
    # An index may be of several folders; files of other kinds are counted for each.
    """CREATE TABLE roots (
        name TEXT PRIMARY KEY,
        folder TEXT NOT NULL,
        seal TEXT NOT NULL,
        not_read TEXT NOT NULL
    )""",
)
"""The statements that create the tables in SQLite; `seesay.search.postgresql` has other types."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What an index keeps of a content, an image or a sentence.

    Attributes:
        vector: (dim,).
        size: width and height of an upright image, in pixels.
        taken: when an image was taken, see `EncodedImage.taken`.
    """

    vector: Vector
    size: tuple[int, int] | None = None
    taken: str = ""


class Connection(Protocol):
    """What a store executes SQL with, which SQLite and PostgreSQL understand; parameters are `?`."""

    def execute(self, query: str, values: Sequence[object] = ..., /) -> Any:
        """Execute one statement, and return its cursor."""
        ...

    def executemany(self, query: str, values: Iterable[Sequence[object]], /) -> Any:
        """Execute a statement with the values of each row."""
        ...


@dataclass
class Writer:
    """Writes within the transaction of `Store.write`.

    Args:
        connection: of the transaction.
        insert: adds whole rows to a table; the last value of a row of `vectors` is the vector (dim,).
        generation: that the transaction starts.
        last_id: the largest id that an item has ever had.
    """

    _connection: Connection
    insert: Callable[[str, Sequence[tuple[Any, ...]]], None]
    _generation: int
    _last_id: int

    def __post_init__(self) -> None:
        """Record the generation."""
        self.set_meta(generation=str(self._generation), changed=str(time.time()))

    def put_root(self, root: Root) -> None:
        """Add a folder, or set the new location of the folder with that name."""
        self._connection.execute(
            """INSERT INTO roots VALUES (?, ?, ?, '{}')
            ON CONFLICT (name) DO UPDATE SET folder = excluded.folder, seal = excluded.seal""",
            (root.name, str(root.folder), root.seal),
        )

    def name_root(self, name: str) -> None:
        """Name the index's only folder; the paths of its images then begin with this name."""
        self._connection.execute("UPDATE roots SET name = ? WHERE name = ''", (name,))
        # In two steps: a new path may be the former one of another image, and no path begins with a slash.
        for table in ("items", "skipped"):
            self._connection.execute(
                f"UPDATE {table} SET path = '/' || ? || '/' || path WHERE path IS NOT NULL", (name,)
            )
            self._connection.execute(f"UPDATE {table} SET path = substr(path, 2) WHERE path IS NOT NULL")
        paths = self._connection.execute("SELECT path, id FROM items WHERE path IS NOT NULL").fetchall()
        folders = ((folded_path(path)[0], id_) for path, id_ in paths)
        self._connection.executemany("UPDATE items SET folded = ? WHERE id = ?", folders)

    def delete_root(self, root: Root) -> int:
        """Delete a folder with all its items, and return their number."""
        prefix = root.path("")
        for table in ("skipped", "items"):  # the items last, to be counted
            rows = f"DELETE FROM {table} WHERE substr(path, 1, ?) = ?"
            deleted = self._connection.execute(rows, (len(prefix), prefix)).rowcount
        self._connection.execute("DELETE FROM roots WHERE name = ?", (root.name,))
        return int(deleted)

    def set_meta(self, **values: str) -> None:
        """Store metadata of the index.

        Args:
            **values: by key: "embedder", the name or folder of the run; "exclude", patterns of what to leave
                out; "text", whether text in pictures is read; "background", the gallery, see
                `seesay.search.judging`. A store adds its own, such as "generation".
        """
        put = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        self._connection.executemany(put, values.items())

    def set_not_read(self, root: Root, counts: Mapping[str, int]) -> None:
        """Set the numbers of unsupported files in a folder, by kind."""
        row = (json.dumps(counts), root.name)
        self._connection.execute("UPDATE roots SET not_read = ? WHERE name = ?", row)

    def put_vectors(self, kind: Kind, contents: Mapping[str, Content]) -> None:
        """Add the vectors of contents, by their keys, unless they are there."""
        query = f"SELECT key FROM vectors WHERE kind = '{kind}' AND key"
        known = {key for (key,) in self._among(query, contents)}
        ((last,),) = self._connection.execute("SELECT coalesce(max(id), 0) FROM vectors").fetchall()
        new = (content for content in contents.items() if content[0] not in known)
        self.insert(
            "vectors",
            [
                (id_, kind, key, *(each.size or (None, None)), each.taken, each.vector)
                for id_, (key, each) in enumerate(new, last + 1)
            ],
        )

    def put_images(self, images: Mapping[str, tuple[str, FileState]]) -> None:
        """Add or change the images at paths, given the keys of their contents and the states of their files.

        The contents must have vectors. An image keeps its id; it is of this generation if its content is new,
        not if only its file was touched or moved.
        """
        keys, former = {key for key, _ in images.values()}, "DELETE FROM items WHERE path"
        contents = self._among("SELECT key, id, taken FROM vectors WHERE kind = 'image' AND key", keys)
        vectors = {key: (vector, taken) for key, vector, taken in contents}
        found = self._among(former, images, "RETURNING path, id, vector, added, generation")
        before = {path: about for path, *about in found}
        rows = list[tuple[Any, ...]]()
        for path, (key, state) in images.items():
            vector, taken = vectors[key]
            id_, was, added, generation = before.get(path) or (self._new_id(), None, time.time(), 0)
            time_, dated_by = dated(path, state.mtime_ns, taken)
            names = folded_path(path)
            written = generation if was == vector else self._generation
            rows.append((id_, "image", vector, path, None, *state, time_, dated_by, *names, added, written))
        self._add_items(rows)
        self.forget_skipped(images)

    def put_sentences(self, keys: Mapping[str, str]) -> None:
        """Add sentences, unless they are there, given the keys of their contents, which must have vectors."""
        known = {text for (text,) in self._among("SELECT text FROM items WHERE text", keys)}
        query = "SELECT key, id FROM vectors WHERE kind = 'sentence' AND key"
        vectors, none = dict(self._among(query, keys.values())), (None,) * 7
        self._add_items(
            [
                (self._new_id(), "sentence", vectors[key], None, text, *none, time.time(), self._generation)
                for text, key in keys.items()
                if text not in known
            ]
        )

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _add_items(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.insert("items", rows)
        self.set_meta(last_id=str(self._last_id))

    def _among(self, query: str, values: Iterable[object], end: str = "") -> list[tuple[Any, ...]]:
        """Return the rows of a query that ends with a column, which is one of some texts."""
        given = json.dumps(list(values), ensure_ascii=False)
        found = self._connection.execute(f"{query} {AMONG_TEXTS} {end}", (given,))
        return list(found.fetchall() if found.description else ())

    def move_images(self, paths: Mapping[int, str]) -> None:
        """Change the paths of images, by their ids; they are then put there."""
        moved = [(path, id_) for id_, path in paths.items()]
        self._connection.executemany("UPDATE items SET path = ? WHERE id = ?", moved)

    def put_skipped(self, files: Mapping[str, tuple[FileState, str]]) -> None:
        """Record unusable files and why they are, by path, and delete their former items."""
        self._among("DELETE FROM items WHERE path", files)
        self.forget_skipped(files)
        self.insert("skipped", [(path, *state, reason) for path, (state, reason) in files.items()])

    def forget_skipped(self, paths: Iterable[str]) -> None:
        """Delete the records of unusable files that are gone or usable again."""
        self._among("DELETE FROM skipped WHERE path", paths)

    def put_text(self, key: str, words: str, lines: str, fault: str = "") -> None:
        """Keep the text that was read in an image with this content, or why it could not be read."""
        content = "SELECT id FROM vectors WHERE kind = 'image' AND key = ?"
        for (vector,) in self._connection.execute(content, (key,)).fetchall():
            self._connection.execute("DELETE FROM texts WHERE vector = ?", (vector,))
            row = vector, words, lines, fault
            self._connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", row)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete items."""
        self._connection.execute(f"DELETE FROM items WHERE id {AMONG_IDS}", (json.dumps(list(ids)),))

    def drop_orphans(self) -> list[str]:
        """Delete vectors that no item uses, and return the content keys of the images among them."""
        unused = "NOT EXISTS (SELECT 1 FROM items WHERE items.vector = vectors.id)"
        deleted = self._connection.execute(f"DELETE FROM vectors WHERE {unused} RETURNING kind, key")
        return [key for kind, key in deleted.fetchall() if kind == "image"]
