"""The store of an index in a folder: one SQLite file, and beside it vectors as a search compares them."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.stores import in_threads
from seesay.errors import SeesayError
from seesay.paths import check_folder, disk_errors, home_expanded, locked, open_file, replacing, sweep
from seesay.search.filters import EVERYTHING, Filter
from seesay.search.hits import PageEnd, Ranked
from seesay.search.neighbours import Neighbours
from seesay.search.sqlite_file import (
    closed_on_error,
    create_database,
    database_exists,
    file_errors,
    in_time,
    open_database,
    transaction,
)
from seesay.search.store import Store
from seesay.search.tables import KINDS, Connection, Kind

FILE = "index.sqlite"  # in an index's folder


class FileStore(Store):
    """Items and vectors in the folder of an index.

    `index.sqlite` is the source of truth; `vectors-*.f16` and `thumbnails/` can be deleted at any time.
    """

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self._connection = connection
        self._lock = threading.RLock()
        with file_errors(self.path):
            super().__init__(str(folder), connection.execute("SELECT key, value FROM meta"))
        self._identity = _identity_of(self.path)
        self._near = {kind: Neighbours(self, kind, folder / f"vectors-{kind}.f16") for kind in KINDS}

    @staticmethod
    def exists(place: str | Path) -> bool:
        """See `store_exists`."""
        return database_exists(home_expanded(place) / FILE)

    @classmethod
    def create(cls, place: str | Path, meta: Mapping[str, str]) -> Self:
        """See `create_store`."""
        folder = home_expanded(place)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A creation that was killed can have left the beginning of a database.
            begun = all(file.name.startswith(FILE) for file in folder.iterdir())
        except OSError as error:
            raise SeesayError(f"{folder}: cannot hold an index ({error.strerror}).") from error
        check_folder(folder, cls.exists(folder) or begun)
        with closed_on_error(create_database(folder / FILE, meta)) as connection:
            return cls(connection, folder)

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """See `open_store`."""
        folder = home_expanded(place)
        with closed_on_error(open_database(folder / FILE)) as connection:
            return cls(connection, folder)

    def check_in_place(self) -> None:
        """See `Store`; writes to a file that was deleted or replaced would be lost."""
        if _identity_of(self.path) != self._identity:
            raise SeesayError(
                f"{self.folder}: was deleted or replaced while it was in use; open it again, or restart "
                "`seesay serve`."
            )

    def close(self) -> None:
        """See `Store`; those of the process that this one was forked from stay open."""
        if self._process == os.getpid():
            with self._lock:
                self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock, file_errors(self.path), transaction(self._connection):
            yield self._connection

    def _insert(self, connection: Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        values = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({values})", rows)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._lock, file_errors(self.path), in_time(self._connection):
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def sole_writer(self) -> Iterator[None]:
        """See `Store`."""
        self.check_process()
        self.check_in_place()
        busy = f"{self.folder}: another update is running; wait until it has finished."
        with disk_errors(self.folder), locked(self.folder / "update.lock", busy):
            sweep(self.folder)  # what a killed writer left
            yield

    def _thumbnail_file(self, key: str) -> Path | None:
        """The file of a content's thumbnail; None if it has no name, or a link leads elsewhere."""
        name = self.thumbnail_name(key)
        file = self.folder.resolve() / "thumbnails" / name[:2] / f"{name}.jpg"
        return file if name and file.resolve() == file else None

    def thumbnail(self, key: str) -> bytes | None:
        """See `Store`."""
        if (file := self._thumbnail_file(key)) is not None:
            with suppress(OSError), open_file(file, self.folder.resolve()) as kept:
                return kept.readall()
        return None

    def keep_thumbnails(self, made: Mapping[str, bytes]) -> None:
        """See `Store`."""

        def keep(key: str) -> None:
            if (file := self._thumbnail_file(key)) is not None:
                with suppress(OSError, SeesayError):
                    self.check_in_place()
                    for folder in (file.parents[1], file.parent):  # not that of an index deleted meanwhile
                        folder.mkdir(exist_ok=True)
                    with replacing(file) as beside:
                        beside.write_bytes(made[key])

        for _ in in_threads(keep, made):
            pass  # they wait for the disk

    def drop_thumbnails(self, keys: Iterable[str]) -> None:
        """See `Store`."""
        for file in filter(None, map(self._thumbnail_file, keys)):
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def settle(self, kind: Kind) -> None:
        """See `Store`: write the file of vectors."""
        self._near[kind].save()

    def nearest(
        self,
        kind: Kind,
        query: NDArray[np.float32],
        k: int,
        where: Filter = EVERYTHING,
        after: PageEnd | None = None,
    ) -> Ranked:
        """See `Store`; every vector is compared."""
        self.check_process()
        return self._near[kind].search(query, k, where, after)


def _identity_of(path: Path) -> tuple[int, int] | None:
    """The identity of the file at a path; None if there is none."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return None
