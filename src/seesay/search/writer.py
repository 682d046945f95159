"""Changes of the items of an index and their vectors."""

from __future__ import annotations

import json
import re
import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from seesay.search.roots import Root
from seesay.search.sqlite_file import FOLDED, FOLDED_NAME, NAMED_TIME, Kind

STORED_MARK = re.compile(r'"([0-9]{1,18}-[0-9a-f]{32})"')  # a generation and hexadecimal digits
_MARKS = 1000  # that are kept, so that an older state of a database is recognised


class Writer:
    """Writes within the transaction of `Store.write`."""

    def __init__(self, connection: sqlite3.Connection, generation: int) -> None:
        self._connection = connection
        self._generation = generation
        connection.execute("UPDATE meta SET value = ? WHERE key = 'generation'", (str(generation),))

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
            new = f"UPDATE {table} SET path = '/' || ? || '/' || path WHERE path IS NOT NULL"
            self._connection.execute(new, (name,))
            self._connection.execute(f"UPDATE {table} SET path = substr(path, 2) WHERE path IS NOT NULL")
        self._connection.execute(f"UPDATE items SET folded = {FOLDED}(path) WHERE path IS NOT NULL")

    def delete_root(self, root: Root) -> int:
        """Delete a folder with all its items, and return their number."""
        prefix = root.path("")
        for table in ("skipped", "items"):  # the items last, to be counted
            rows = f"DELETE FROM {table} WHERE substr(path, 1, ?) = ?"
            deleted = self._connection.execute(rows, (len(prefix), prefix)).rowcount
        self._connection.execute("DELETE FROM roots WHERE name = ?", (root.name,))
        return deleted

    def set_meta(self, **values: str) -> None:
        """Store metadata of the index.

        Args:
            **values: by key: "embedder", the name or folder of the run; "exclude", patterns of what to leave
                out; "background", the gallery, see `seesay.search.judging`; "marks-KIND", see `add_mark`.
        """
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def set_not_read(self, root: Root, counts: Mapping[str, int]) -> None:
        """Set the numbers of unsupported files in a folder, by kind."""
        row = (json.dumps(counts), root.name)
        self._connection.execute("UPDATE roots SET not_read = ? WHERE name = ?", row)

    def add_mark(self, kind: Kind) -> str:
        """Return a new mark of this generation for the vectors of a kind in a database."""
        key, mark = f"marks-{kind}", f"{self._generation}-{uuid.uuid4().hex}"
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        known = STORED_MARK.findall(str(row[0])) if row else []
        marks = [*known, mark][-_MARKS:]
        self.set_meta(**{key: json.dumps(marks)})
        return mark

    def put_vector(
        self,
        kind: Kind,
        key: str,
        vector: NDArray[np.float32],
        size: tuple[int, int] | None = None,
        taken: str = "",
    ) -> None:
        """Add the vector (dim,) of a content, unless there is one.

        Args:
            kind: of the content.
            key: of the content.
            vector: (dim,).
            size: width and height of an image.
            taken: when it was taken, see `EncodedImage.taken`.
        """
        width, height = size or (None, None)
        self._connection.execute(
            "INSERT OR IGNORE INTO vectors (kind, key, width, height, taken, data) VALUES (?, ?, ?, ?, ?, ?)",
            (kind, key, width, height, taken, vector.astype(np.float16).tobytes()),
        )

    def put_image(self, path: str, key: str, mtime_ns: int, size: int, ctime_ns: int = 0) -> None:
        """Add or change the image at a path, which keeps its id; the vector of its content must exist."""
        self._connection.execute(
            """INSERT INTO items (kind, vector, path, mtime_ns, size, ctime_ns, added, generation)
            VALUES ('image', (SELECT id FROM vectors WHERE kind = 'image' AND key = ?), ?, ?, ?, ?, ?, ?)
            ON CONFLICT (path) DO UPDATE SET vector = excluded.vector, mtime_ns = excluded.mtime_ns,
                size = excluded.size, ctime_ns = excluded.ctime_ns, generation = excluded.generation""",
            (key, path, mtime_ns, size, ctime_ns, time.time(), self._generation),
        )
        self._derive("path = ?", path)
        self.forget_skipped([path])

    def _derive(self, which: str, value: str | int) -> None:
        """Set time, folder and name of images whose path, file or photo has changed."""
        self._connection.execute(
            f"""UPDATE items SET folded = {FOLDED}(path), name = {FOLDED_NAME}(path), (time, dated_by) = (
                SELECT CASE WHEN taken != '' THEN taken WHEN named != '' THEN named ELSE
                    strftime('%Y-%m-%dT%H:%M:%S', mtime_ns / 1000000000, 'unixepoch') END,
                CASE WHEN taken != '' THEN 'camera' WHEN named != '' THEN 'name' ELSE 'file' END
                FROM (SELECT taken, {NAMED_TIME}(items.path) AS named FROM vectors
                    WHERE vectors.id = items.vector)
            ) WHERE {which}""",
            (value,),
        )

    def put_sentence(self, text: str, key: str) -> None:
        """Add a sentence, whose vector must exist."""
        self._connection.execute(
            """INSERT OR IGNORE INTO items (kind, vector, text, added, generation)
            VALUES ('sentence', (SELECT id FROM vectors WHERE kind = 'sentence' AND key = ?), ?, ?, ?)""",
            (key, text, time.time(), self._generation),
        )

    def place(self, id_: int, path: str, mtime_ns: int, size: int, ctime_ns: int = 0) -> None:
        """Set the path and file state of an item; its vector and id are kept."""
        self._connection.execute(
            "UPDATE items SET path = ?, mtime_ns = ?, size = ?, ctime_ns = ? WHERE id = ?",
            (path, mtime_ns, size, ctime_ns, id_),
        )
        self._derive("id = ?", id_)
        self.forget_skipped([path])

    def put_skipped(self, path: str, mtime_ns: int, size: int, ctime_ns: int, reason: str) -> None:
        """Record an unusable file, and delete its former item."""
        self._connection.execute("DELETE FROM items WHERE path = ?", (path,))
        self._connection.execute(
            "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?, ?, ?)", (path, mtime_ns, size, ctime_ns, reason)
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
