"""Changes of the items of an index and their vectors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from seesay.arrays import Vector
from seesay.search.filters import folded_folder, folded_name
from seesay.search.photo import dated
from seesay.search.roots import Root
from seesay.search.sql_tables import Kind


class Connection(Protocol):
    """What a store executes SQL with, which SQLite and PostgreSQL understand; parameters are `?`."""

    def execute(self, query: str, values: Sequence[object] = ..., /) -> Any:
        """Execute one statement, and return its cursor."""
        ...

    def executemany(self, query: str, values: Iterable[Sequence[object]], /) -> Any:
        """Execute a statement with the values of each row."""
        ...


class Writer:
    """Writes within the transaction of `Store.write`; `packed` converts a vector to what the store keeps."""

    def __init__(self, connection: Connection, generation: int, packed: Callable[[Vector], object]) -> None:
        self._connection = connection
        self._generation = generation
        self._packed = packed
        self.set_meta(generation=str(generation), changed=str(time.time()))

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
        folders = ((folded_folder(path), id_) for path, id_ in paths)
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

    def put_rows(self, table: str, rows: Sequence[tuple[Any, ...]], last_id: int, set_last_id: str) -> None:
        """Add what `Store.rows` yields, with its ids, by `set_last_id` of the store that is written."""
        if table == "vectors":
            rows = [(*row, self._packed(vector)) for *row, vector in rows]
        if rows:
            values = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({values})", rows)
        elif last_id:
            self._connection.execute(set_last_id, (last_id, table))

    def put_vector(
        self,
        kind: Kind,
        key: str,
        vector: Vector,
        size: tuple[int, int] | None = None,
        taken: str = "",
    ) -> None:
        """Add the vector (dim,) of a content, unless there is one.

        An image has a width and height, and perhaps a time, see `EncodedImage.taken`.
        """
        width, height = size or (None, None)
        self._connection.execute(
            """INSERT INTO vectors (kind, key, width, height, taken, data) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING""",
            (kind, key, width, height, taken, self._packed(vector)),
        )

    def put_image(self, path: str, key: str, mtime_ns: int, size: int, ctime_ns: int = 0) -> None:
        """Add or change the image at a path, which keeps its id; the vector of its content must exist.

        It is of this generation if its content is new, not if only its file was touched or moved.
        """
        content = "SELECT id, taken FROM vectors WHERE kind = 'image' AND key = ?"
        vector, taken = self._connection.execute(content, (key,)).fetchone()
        change = """UPDATE items SET vector = ?, mtime_ns = ?, size = ?, ctime_ns = ?, folded = ?, name = ?,
            time = ?, dated_by = ?, generation = CASE vector WHEN ? THEN generation ELSE ? END
            WHERE path = ?"""
        values = vector, mtime_ns, size, ctime_ns, *_derived(path, mtime_ns, taken)
        last = vector, self._generation, path
        if not self._connection.execute(change, (*values, *last)).rowcount:
            self._connection.execute(
                """INSERT INTO items (kind, vector, mtime_ns, size, ctime_ns, folded, name, time, dated_by,
                    generation, path, added) VALUES ('image', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (*values, *last[1:], time.time()),
            )
        self.forget_skipped([path])

    def put_sentence(self, text: str, key: str) -> None:
        """Add a sentence, whose vector must exist."""
        self._connection.execute(
            """INSERT INTO items (kind, vector, text, added, generation)
            VALUES ('sentence', (SELECT id FROM vectors WHERE kind = 'sentence' AND key = ?), ?, ?, ?)
            ON CONFLICT DO NOTHING""",
            (key, text, time.time(), self._generation),
        )

    def move_image(self, id_: int, path: str) -> None:
        """Change the path of an image, which is then put there."""
        self._connection.execute("UPDATE items SET path = ? WHERE id = ?", (path, id_))

    def put_skipped(self, path: str, mtime_ns: int, size: int, ctime_ns: int, reason: str) -> None:
        """Record an unusable file, and delete its former item."""
        for table in ("items", "skipped"):
            self._connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
        row = path, mtime_ns, size, ctime_ns, reason
        self._connection.execute("INSERT INTO skipped VALUES (?, ?, ?, ?, ?)", row)

    def forget_skipped(self, paths: Iterable[str]) -> None:
        """Delete the records of unusable files that are gone or usable again."""
        self._connection.executemany("DELETE FROM skipped WHERE path = ?", [(path,) for path in paths])

    def put_text(self, key: str, words: str, lines: str, fault: str = "") -> None:
        """Keep the text that was read in an image with this content, or why it could not be read."""
        content = "SELECT id FROM vectors WHERE kind = 'image' AND key = ?"
        for (vector,) in self._connection.execute(content, (key,)).fetchall():
            self._connection.execute("DELETE FROM texts WHERE vector = ?", (vector,))
            row = vector, words, lines, fault
            self._connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", row)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete items."""
        self._connection.executemany("DELETE FROM items WHERE id = ?", [(id_,) for id_ in ids])

    def drop_orphans(self) -> list[str]:
        """Delete vectors that no item uses, and return the content keys of the images among them."""
        unused = "NOT EXISTS (SELECT 1 FROM items WHERE items.vector = vectors.id)"
        orphans = self._connection.execute(f"SELECT id, kind, key FROM vectors WHERE {unused}").fetchall()
        self._connection.executemany("DELETE FROM vectors WHERE id = ?", [(row[0],) for row in orphans])
        return [key for _, kind, key in orphans if kind == "image"]


def _derived(path: str, mtime_ns: int, taken: str) -> tuple[str, str, str, str]:
    """Return folder and name of an image as filters compare them, its time, and what the time is of."""
    return folded_folder(path), folded_name(path), *dated(path, mtime_ns, taken)
