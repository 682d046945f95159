"""The store of an index in a folder: one SQLite file, and beside it vectors as a search compares them."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.stores import in_threads
from seesay.errors import SeesayError
from seesay.paths import (
    INDEX,
    check_folder,
    disk_errors,
    failure_of_disk,
    home_expanded,
    locked,
    open_file,
    replacing,
    sweep,
)
from seesay.search.filters import Filter
from seesay.search.hits import Ranked
from seesay.search.neighbours import Neighbours
from seesay.search.store import Store, closed_on_error
from seesay.search.tables import KINDS, TABLES, Connection, Kind

# "sees" in ASCII, in the header of the file, distinguishes an index from other SQLite files.
APPLICATION_ID = 0x73656573

# SQLite quotes a damaged schema in its error, and Python cannot decode that if it is not UTF-8.
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError)  # the last for an id too large

VERSION = 14
"""Of the schema; files of other versions are rejected."""

_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names another

MOST_SECONDS = 120.0
"""Time limit of reading for one query, a hundred times what a million images take."""

_STEPS = 1_000_000  # of SQLite's virtual machine between checks of the clock
_ADVICE = {  # by a word in SQLite's message
    "interrupted": f"damaged, or too large to be read in {MOST_SECONDS:g} seconds; index again into a new "
    "folder.",
    "locked": "another process is writing to it; try again later.",
    "full": "the disk is full; free some space and run the same command again. Finished work is kept.",
}

# A part of a name or folder is looked for in this index alone, without reading the rows.
_SCHEMA = (*TABLES, "CREATE INDEX items_by_name ON items (kind, name, folded)")


class FileStore(Store):
    """Items and vectors in the folder of an index.

    `index.sqlite` is the source of truth; `vectors-*.f16` and `thumbnails/` can be deleted at any time.
    """

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self.folder, self.path = folder, folder / INDEX
        self._connection = connection
        self._lock = threading.RLock()
        super().__init__(str(folder), connection.execute("SELECT key, value FROM meta"))
        self._identity = _identity_of(self.path)
        self._near = {kind: Neighbours(self, kind, folder / f"vectors-{kind}.f16") for kind in KINDS}

    @staticmethod
    def exists(place: str | Path) -> bool:
        """See `store_exists`; an empty SQLite file is left by a killed process."""
        path = home_expanded(place) / INDEX
        try:
            with disk_errors(path):
                if not _is_file(path):
                    return False
                with closing(_connect(path)) as connection:
                    return not _is_empty(connection)
        except DAMAGE:
            return True

    @classmethod
    def create(cls, place: str | Path, meta: Mapping[str, str]) -> Self:
        """See `create_store`."""
        folder = home_expanded(place)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A creation that was killed can have left the beginning of a database.
            begun = all(file.name.startswith(INDEX) for file in folder.iterdir())
        except OSError as error:
            raise SeesayError(f"{folder}: cannot hold an index ({error.strerror}).") from error
        check_folder(folder, cls.exists(folder) or begun)
        path = folder / INDEX
        with file_errors(path), closed_on_error(_connect(path)) as connection:
            with transaction(connection):  # a kill leaves an index or an empty file, nothing between
                if not _is_empty(connection):
                    raise SeesayError(f"{path}: already exists; open it.")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
            _use_log(connection)
            return cls(connection, folder)

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """See `open_store`."""
        folder = home_expanded(place)
        path = folder / INDEX
        with file_errors(path):
            if not _is_file(path):
                raise SeesayError(f"{folder}: no index there; create one with `seesay index`.")
            with closed_on_error(_connect(path)) as connection:
                if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                    raise SeesayError(f"{path}: not a seesay index; name a folder created by `seesay index`.")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version != VERSION:
                    raise SeesayError(
                        f"{path}: made by another version of seesay; index again into a new folder."
                    )
                if _schema_of(connection) != _expected_schema():  # views and triggers could run any SQL
                    raise SeesayError(f"{path}: damaged (its schema); index again into a new folder.")
                if not _is_read_only(path):
                    _use_log(connection)
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

    def _best(self, kind: Kind, query: NDArray[np.float32], k: int, where: Filter, _is_first: bool) -> Ranked:
        return self._near[kind].search(query, k, where)


def _identity_of(path: Path) -> tuple[int, int] | None:
    """The identity of the file at a path; None if there is none."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return None


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and the disk to messages for the user."""
    try:
        with disk_errors(path):
            yield
    except sqlite3.OperationalError as error:
        reason = str(error)
        told = next((told for word, told in _ADVICE.items() if word in reason), None)
        if told is None and _is_read_only(path):
            told = "cannot be opened read-only, because others may write to it; copy its folder, or let its "
            told += "owner open it first."
        raise SeesayError(
            f"{path}: {told or f'cannot be used ({reason}); check the disk and its permissions.'}"
        ) from error
    except DAMAGE as error:
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise SeesayError(f"{path.parent}: this index is closed; open it again.") from error
        raise SeesayError(
            f"{path}: not a seesay index, or damaged ({error}); index again into a new folder, unless only "
            "its disk failed."
        ) from error


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert the error of an unreadable path, such as another user's folder, but not of a failing disk."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or failure_of_disk(error):
            raise
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error


def _is_file(path: Path) -> bool:
    with _readable(path.parent):
        return path.is_file()


def _check_journal(path: Path) -> None:
    """Refuse a rollback journal that names another journal: SQLite deletes the file of that name.

    SQLite names one only for a transaction over several databases, which seesay does not use. An index from
    elsewhere could name any file.
    """
    journal = path.with_name(f"{path.name}-journal")
    with suppress(FileNotFoundError), _readable(journal):
        there = journal.lstat()
        if stat.S_ISREG(there.st_mode):
            with journal.open("rb") as file:
                file.seek(max(0, there.st_size - len(_NAMES_ANOTHER)))
                if file.read() != _NAMES_ANOTHER:
                    return
        raise SeesayError(f"{journal}: damaged; index again into a new folder.")


def _is_read_only(path: Path) -> bool:
    """Whether an index exists and is not writable for this process."""
    here, above = os.access(path, os.W_OK), os.access(path.parent, os.W_OK)
    return os.access(path, os.F_OK) and not (here and above)


def _is_immutable(path: Path) -> bool:
    """Whether an index has no write-ahead log and nobody can create one."""
    has_log = any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
    is_on_read_only_disk = hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY
    return not has_log and bool(is_on_read_only_disk or not path.parent.stat().st_mode & 0o222)


def _connect(path: Path) -> sqlite3.Connection:
    """A connection with explicit transactions, for any thread that holds its owner's lock."""
    path = path.resolve()
    _check_journal(path)
    # SQLite writes beside a file that it only reads, unless it is promised that the file never changes.
    mode = "" if not _is_read_only(path) else "?mode=ro" + ("&immutable=1" if _is_immutable(path) else "")
    connection = sqlite3.connect(
        path.as_uri() + mode, uri=True, timeout=30, isolation_level=None, check_same_thread=False
    )
    with closed_on_error(connection):
        connection.execute("PRAGMA foreign_keys = ON")
        # As SQLite advises for files from elsewhere.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Let readers continue while a writer writes."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str, str | None]]:
    """The definitions in a file, in order, truncated if there are far more than expected."""
    what = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name LIMIT 100"
    return connection.execute(what).fetchall()


@cache
def _expected_schema() -> list[tuple[str, str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        return _schema_of(connection)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


@contextmanager
def in_time(connection: sqlite3.Connection) -> Iterator[None]:
    """Interrupt statements that still run after `MOST_SECONDS`."""
    until = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the changes made inside, or roll them back on an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise
