"""The SQLite file of an index: making it, opening it, bringing it up to date."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seesay.errors import SeesayError

# "sees" in ASCII, in the header of the file: tells an index from any other SQLite file.
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
        # AUTOINCREMENT: an id that a page or a cache still holds never comes to mean another image.
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
        # Files that could not be used: listed on every update, decoded again only when they change.
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
    """Turns what SQLite raises about the file into a sentence for the user."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise SeesayError(f"{path}: busy with another writer; try again when that is done.") from error
        raise SeesayError(f"{path}: cannot be used ({error}); check the disk and its permissions.") from error
    except sqlite3.DatabaseError as error:
        message = f"{path}: not a seesay index, or damaged ({error}); delete its folder and index again."
        raise SeesayError(message) from error


def read_only(path: Path) -> bool:
    """Whether an index lies on a disk or in a folder that this process cannot write."""
    return path.exists() and not os.access(path.parent, os.W_OK)


def connect(path: Path) -> sqlite3.Connection:
    """A connection with explicit transactions, usable from any thread under a lock of its owner."""
    # Where nobody can write, no lock and no log is needed, and none could be made.
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1" if read_only(path) else path.resolve().as_uri()
    connection = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no table yet."""
    return int(connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]) == 0


def create(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Schema and meta in one transaction: a kill leaves an index or an empty file, nothing between."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _apply(connection, since=0)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Sees that the file is an index of this or an earlier version, and migrates the earlier one.

    Raises:
        SeesayError: another program's file, or an index that a newer seesay made.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise SeesayError(f"{path}: not a seesay index; give a folder that `seesay index` made.")
    if _version(connection) > len(MIGRATIONS):
        raise SeesayError(f"{path}: made by a newer seesay; upgrade seesay or index again.")
    if _version(connection) < len(MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            _apply(connection, since=_version(connection))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    if read_only(path):
        return
    connection.execute("PRAGMA journal_mode = WAL")  # readers go on while a writer writes
    connection.execute("PRAGMA synchronous = NORMAL")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _apply(connection: sqlite3.Connection, since: int) -> None:
    for step in MIGRATIONS[since:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
