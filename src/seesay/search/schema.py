"""The SQLite file of an index: creating, opening and migrating it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seesay.errors import SeesayError

# "sees" in ASCII, in the header of the file, distinguishes an index from other SQLite files.
APPLICATION_ID = 0x73656573

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
)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about the file into a message for the user."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise SeesayError(f"{path}: another process is writing to it; try again later.") from error
        raise SeesayError(f"{path}: cannot be used ({error}); check the disk and its permissions.") from error
    except sqlite3.DatabaseError as error:
        raise SeesayError(
            f"{path}: not a seesay index, or damaged ({error}); delete its folder and index again."
        ) from error


def read_only(path: Path) -> bool:
    """Return whether an index lies in a folder that this process cannot write to."""
    return path.exists() and not os.access(path.parent, os.W_OK)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection with explicit transactions, usable from any thread under its owner's lock."""
    # A read-only file needs no lock and no log, and none could be made.
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1" if read_only(path) else path.resolve().as_uri()
    connection = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether the file has no tables yet."""
    return int(connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]) == 0


def create(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Create schema and meta in one transaction: a kill leaves an index or an empty file, nothing between."""
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _migrate(connection, since=0)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file is an index of this version, or migrate it from an earlier one.

    Raises:
        SeesayError: another program's file, or an index of a newer seesay.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise SeesayError(f"{path}: not a seesay index; name a folder that `seesay index` made.")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise SeesayError(f"{path}: made by a newer seesay; upgrade seesay or index again.")
    if version < len(MIGRATIONS):
        with transaction(connection):
            _migrate(connection, since=version)
    if read_only(path):
        return
    connection.execute("PRAGMA journal_mode = WAL")  # readers go on while a writer writes
    connection.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside, or roll all of it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, since: int) -> None:
    for step in MIGRATIONS[since:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
