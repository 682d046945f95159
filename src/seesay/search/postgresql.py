"""The store of an index in PostgreSQL with pgvector: `postgresql://USER@HOST:PORT/DATABASE#NAME`.

A schema holds the tables of the index, its vectors in half precision, and its thumbnails, so that any number
of servers answer from one database and keep nothing themselves. A graph (HNSW) finds candidates among many
vectors; their exact scores are compared. The address is libpq's; a password is taken from PGPASSWORD or
~/.pgpass.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from seesay.errors import SeesayError, first_line
from seesay.search.filters import Filter
from seesay.search.hits import Ranked
from seesay.search.store import Store, closed_on_error
from seesay.search.tables import AMONG_IDS, AMONG_TEXTS, TABLES, Connection, Kind

VERSION = "seesay 3"
"""Of the tables, in the comment of their schema; others are rejected."""

_LINKS, _EF_CONSTRUCTION = 16, 200  # of the graph
_EF_SEARCH, _MOST_EF = 400, 1000  # the latter is pgvector's limit
_WIDE_FROM = 300_000  # vectors; among a million, the usual width found 0.88 to 0.93 of the ten best
_FILTERS = 16  # whose few matches are known until the index changes
_CONNECTIONS = 8  # at most
_SECONDS = 60  # that a statement may take
_CONNECT_SECONDS = 10
# Prepared statements are planned for any parameters, and poolers do not keep them.
_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "connect_timeout": _CONNECT_SECONDS,
}
_BUILD_BYTES = 2 << 30  # that the server may use to build a graph, or its own maintenance_work_mem if larger
_LEAST_BUILD_BYTES = 64 << 20  # with less, PostgreSQL builds with a single process
_LINK_BYTES = 900  # of a vector in a graph, besides its numbers: measured 720 to 760
_MOST_DIMENSIONS = 4000  # of half precision in a graph of pgvector
_NEEDS = (0, 8)  # version of pgvector: iterative scans
_NAME = re.compile("[a-z][a-z0-9_]{0,39}")
_PORT = re.compile("[0-9,]*")

_TYPES = {
    "INTEGER": "bigint",
    "TEXT": 'text COLLATE "C"',
    # Paths and sentences can be too long for ordered indexes.
    "UNIQUE (path)": "EXCLUDE USING hash (path WITH =)",
    "UNIQUE (text)": "EXCLUDE USING hash (text WITH =)",
}
_THUMBNAILS = "CREATE TABLE thumbnails (name text PRIMARY KEY, data bytea NOT NULL)"
_SQL = {"json_each(?)": "json_array_elements_text(?::json)", "instr(": "strpos(", "?": "%s"}
"""What PostgreSQL and psycopg have for what SQLite has."""

# Views, rules, policies and triggers could run anything with the rights of whoever opens an index.
_COMMENT = """SELECT CASE WHEN EXISTS (
        SELECT 1 FROM pg_class LEFT JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal
        WHERE relnamespace = pg_namespace.oid
        AND (relkind NOT IN ('r', 'i') OR relhasrules OR relrowsecurity OR tgrelid IS NOT NULL)
    ) THEN '' ELSE coalesce(obj_description(oid, 'pg_namespace'), '') END
    FROM pg_namespace WHERE nspname = %s"""


class _Connection:
    """A connection that takes queries and parameters as SQLite does."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[object] = ()) -> psycopg.Cursor:
        return self._connection.cursor(binary=True).execute(_translated(query).encode(), values or None)

    def executemany(self, query: str, values: Iterable[Sequence[object]]) -> None:
        self._connection.cursor().executemany(_translated(query).encode(), list(values))

    def copy(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        cursor, known = self._connection.cursor(), self._connection.adapters.types
        columns = cursor.execute(f"SELECT * FROM {table} LIMIT 0".encode()).description or ()
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
            # Vectors are of no type that psycopg knows, and are bytes already.
            copy.set_types([each.type_code if known.get(each.type_code) else "bytea" for each in columns])
            for row in rows:
                copy.write_row(row)


def _translated(query: str, words: Mapping[str, str] = _SQL) -> str:
    for theirs, ours in words.items():
        query = query.replace(theirs, ours)
    return query


class _Database:
    """A database and the schema of an index in it.

    Args:
        place: the address of the index.

    Raises:
        SeesayError: the address is invalid, or contains a password. The message repeats neither.
    """

    def __init__(self, place: str) -> None:
        self.address, _, name = place.partition("#")
        try:
            known = conninfo_to_dict(self.address)
        except psycopg.ProgrammingError:
            known = {}
        # Of a password with a slash, libpq takes the beginning for a port, and the rest for a database.
        is_whole = _PORT.fullmatch(str(known.get("port", ""))) and "@" not in str(known.get("dbname", ""))
        if not (known and is_whole and _NAME.fullmatch(name)):
            raise SeesayError(
                "An index in PostgreSQL is named postgresql://USER@HOST:PORT/DATABASE#NAME, with a NAME of "
                "small letters, digits and _."
            )
        if known.keys() & {"password", "sslpassword"}:
            raise SeesayError(
                "The address of an index is shown and logged; remove the password, and set PGPASSWORD or use "
                "~/.pgpass."
            )
        self.place, self.schema = place, f"seesay_{name}"
        self._is_closed = False
        self._pool = ConnectionPool(
            self.address,
            min_size=0,
            max_size=_CONNECTIONS,
            open=False,
            check=ConnectionPool.check_connection,
            timeout=_CONNECT_SECONDS,
            kwargs=_CONNECTION,
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert the database's errors to a SeesayError."""
        if self._is_closed:
            raise SeesayError(f"{self.place}: this index is closed; open it again.")
        try:
            yield
        except PoolTimeout as failure:
            raise SeesayError(
                f"{self.place}: PostgreSQL does not answer, or all {_CONNECTIONS} connections are busy; try "
                "again later."
            ) from failure
        except (psycopg.Error, UnicodeEncodeError) as failure:
            raise SeesayError(
                f"{self.place}: PostgreSQL cannot be used ({first_line(failure)[:200]}); start it, or check "
                "the address and PGPASSWORD."
            ) from failure

    def connect(self) -> psycopg.Connection:
        """Open a connection outside the pool."""
        return psycopg.connect(self.address, **_CONNECTION)

    @contextmanager
    def transaction(
        self,
        kind: str,
        seconds: float = _SECONDS,
        on: psycopg.Connection | None = None,
        **settings: object,
    ) -> Iterator[_Connection]:
        """Yield a connection in a transaction.

        Args:
            kind: "READ ONLY", which sees one state, or "READ WRITE".
            seconds: the time limit of a statement; 0 for none.
            on: the connection; by default one of the pool.
            **settings: of PostgreSQL, for this transaction, so that poolers can be used.
        """
        settings = {
            "statement_timeout": round(seconds * 1000),
            "search_path": f"{self.schema}, public",
        } | settings
        level = "REPEATABLE READ" if kind == "READ ONLY" else "READ COMMITTED"
        calls = ", ".join(["set_config(?, ?, true)"] * len(settings))
        with self.errors():
            self._pool.open()
            # Statements that only read are sent together, until a result is asked for.
            with (
                nullcontext(on) if on else self._pool.connection() as connection,
                connection.pipeline() if kind == "READ ONLY" else nullcontext(),
                connection.transaction(),
            ):
                usable = _Connection(connection)
                usable.execute(f"SET TRANSACTION ISOLATION LEVEL {level} {kind}")
                usable.execute(f"SELECT {calls}", [str(each) for pair in settings.items() for each in pair])
                yield usable

    def comment(self) -> str | None:
        """Return the comment of the schema, empty if it has more than tables; None if there is no schema."""
        with self.errors(), self.connect() as connection:  # an error comes at once, unlike from the pool
            row = connection.execute(_COMMENT, (self.schema,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        self._is_closed = True
        self._pool.close()


class DatabaseStore(Store):
    """Items, vectors and thumbnails in a schema of PostgreSQL.

    Args:
        database: with the schema.

    Attributes:
        graph_from: the number of vectors from which a graph is built; fewer are compared exhaustively.
        few_matches: the number of images that match a filter up to which they are compared without the graph,
            whose search would read many others. Their ids are kept until the index changes.
    """

    graph_from = 10_000
    few_matches = 2_000
    _half = ">f2"

    def __init__(self, database: _Database) -> None:
        self._database = database
        self._sole: psycopg.Connection | None = None  # which holds the lock of an update
        with database.transaction("READ ONLY") as connection:
            super().__init__(database.place, connection.execute("SELECT key, value FROM meta"))
        self._head = struct.pack(">hh", self.dim, 0)  # of a halfvec
        self._few = lru_cache(_FILTERS)(self._few_at)

    @staticmethod
    def exists(place: str | Path) -> bool:
        """See `store_exists`."""
        return _Database(str(place)).comment() is not None

    @classmethod
    def create(cls, place: str | Path, meta: Mapping[str, str]) -> Self:
        """See `create_store`."""
        database = _Database(str(place))
        if database.comment() is not None:
            raise SeesayError(f"{place}: already exists; open it, or choose another name behind #.")
        if int(meta["dim"]) > _MOST_DIMENSIONS:
            raise SeesayError(
                f"{place}: pgvector supports vectors of up to {_MOST_DIMENSIONS} dimensions, but those of "
                f"this run have {meta['dim']}; index into a folder."
            )
        with database.errors(), database.connect() as connection:
            with suppress(psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):  # not installed
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            (version,) = connection.execute(query).fetchone() or ("0.0",)
        if tuple(map(int, version.split(".")[:2])) < _NEEDS:
            raise SeesayError(f"{place}: pgvector is {version}; install or update it to 0.8 or newer.")
        with closed_on_error(database), database.transaction("READ WRITE") as writing:
            writing.execute(f"CREATE SCHEMA {database.schema}")
            writing.execute(f"COMMENT ON SCHEMA {database.schema} IS '{VERSION}'")
            for statement in (*TABLES, _THUMBNAILS):
                writing.execute(_translated(statement, _TYPES | {"BLOB": f"halfvec({meta['dim']})"}))
            writing.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        return cls(database)

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """See `open_store`."""
        database = _Database(str(place))
        comment = database.comment()
        if comment is None:
            raise SeesayError(f"{place}: no index there; create one with `seesay index`.")
        if comment != VERSION:
            raise SeesayError(
                f"{place}: made by another version of seesay, or by something else; index again under "
                "another name."
            )
        with closed_on_error(database):
            return cls(database)

    def check_in_place(self) -> None:
        """See `Store`."""
        if self.current("identity") != self.meta["identity"]:
            raise SeesayError(f"{self.place}: was replaced while it was in use; open it again.")

    def close(self) -> None:
        """See `Store`."""
        if self._process == os.getpid():
            self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        # An update that has lost its connection has lost its lock, and writes nothing more.
        with self._database.transaction("READ WRITE", on=self._sole) as connection:
            connection.execute("SELECT value FROM meta WHERE key = 'generation' FOR UPDATE")
            yield connection

    def _insert(self, connection: Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        cast(_Connection, connection).copy(table, rows)

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._database.transaction("READ ONLY")

    @contextmanager
    def sole_writer(self) -> Iterator[None]:
        """See `Store`; the lock ends with its connection, so that a killed update leaves none."""
        self.check_in_place()
        with self._database.errors(), self._database.connect() as connection:
            lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
            row = connection.execute(lock, (self._database.schema,)).fetchone()
            if row != (True,):
                raise SeesayError(f"{self.place}: another update is running; wait until it has finished.")
            self._sole = connection
            try:
                yield
            finally:
                self._sole = None
                with suppress(psycopg.Error):  # at once: the server ends a closed connection a little later
                    connection.execute("SELECT pg_advisory_unlock_all()")

    def settle(self, kind: Kind) -> None:
        """See `Store`: build the graph once there are enough vectors."""
        count = self.count(kind)
        if count < self.graph_from:
            return
        # What does not fit takes as long as all the rest; a parallel build takes all of it at once.
        needed = max(_LEAST_BUILD_BYTES, count * (2 * self.dim + _LINK_BYTES))
        with self._database.transaction("READ WRITE", 0, self._sole) as connection:
            if connection.execute(f"SELECT to_regclass('graph_{kind}')").fetchone() == (None,):
                connection.execute(
                    "SELECT set_config('maintenance_work_mem', least(?, greatest(?, pg_size_bytes("
                    "current_setting('maintenance_work_mem')))) / 1024 || 'kB', true)",
                    (needed, _BUILD_BYTES),
                )
                connection.execute(
                    f"CREATE INDEX graph_{kind} ON vectors USING hnsw (data halfvec_ip_ops) "
                    f"WITH (m = {_LINKS}, ef_construction = {_EF_CONSTRUCTION}) WHERE kind = '{kind}'"
                )
                connection.execute("ANALYZE vectors, items")

    def _best(self, kind: Kind, query: NDArray[np.float32], k: int, where: Filter, is_first: bool) -> Ranked:
        """See `Store`; for pages after the first, and for ties, all vectors are compared."""
        is_large = (total := self.count(kind)) >= self.graph_from
        few = self._few(where, self.generation()) if where.values and is_large else None
        if is_first and is_large and few is None:
            found = self._in_graph(kind, query, k, where, total > _WIDE_FROM)
            # If few vectors match a filter, the search of the graph may end before they are found.
            if len(found[0]) == k:
                return found
        which = where if few is None else Filter(f"items.id {AMONG_IDS}", (few,))
        every = f"SELECT items.id, data FROM {_JOINED} WHERE items.kind = '{kind}' AND {which.sql}"
        with self._read() as connection:
            return _scored(connection, every, which.values, query, k)

    def _few_at(self, where: Filter, _generation: int) -> str | None:
        """Return the ids of the images that match a filter, in JSON; None if they are many."""
        which = f"kind = 'image' AND {where.sql} LIMIT ?"
        rows = self._rows(f"SELECT id FROM items WHERE {which}", (*where.values, self.few_matches + 1), int)
        return None if len(rows) > self.few_matches else json.dumps([id_ for (id_,) in rows])

    def _in_graph(
        self, kind: Kind, query: NDArray[np.float32], count: int, where: Filter, is_wide: bool
    ) -> Ranked:
        """Search the graph in half precision, and score twice as many as are wanted with the full query."""
        width = _MOST_EF if is_wide else min(max(_EF_SEARCH, 2 * count), _MOST_EF)
        settings = {"hnsw.ef_search": width, "hnsw.iterative_scan": "relaxed_order"}
        wanted = 2 * count
        # With a filter, a scan that ends early is better followed by a comparison of all that pass it.
        if is_wide and not where.values:
            wanted += width  # after which it goes on with the next best, if these limits allow it
            settings |= {"hnsw.max_scan_tuples": 100_000, "hnsw.scan_mem_multiplier": 16}
        near = (
            f"SELECT items.id, data FROM {_JOINED} WHERE vectors.kind = '{kind}' AND {where.sql} "
            "ORDER BY data <#> ?::vector::halfvec LIMIT ?"
        )
        with self._database.transaction("READ ONLY", _SECONDS, None, **settings) as connection:
            values = (*where.values, str(query.tolist()), wanted)
            return _scored(connection, near, values, query, count)

    def thumbnail(self, key: str) -> bytes | None:
        """See `Store`."""
        rows = self._rows("SELECT data FROM thumbnails WHERE name = ?", (self.thumbnail_name(key),), bytes)
        return rows[0][0] if rows else None

    def keep_thumbnails(self, made: Mapping[str, bytes]) -> None:
        """See `Store`."""
        put = "INSERT INTO thumbnails VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET data = excluded.data"
        if named := [(name, data) for key, data in made.items() if (name := self.thumbnail_name(key))]:
            with suppress(SeesayError), self._database.transaction("READ WRITE") as connection:
                connection.executemany(put, named)

    def drop_thumbnails(self, keys: Iterable[str]) -> None:
        """See `Store`."""
        if found := list(filter(None, map(self.thumbnail_name, keys))):
            with self._database.transaction("READ WRITE") as connection:
                connection.execute(f"DELETE FROM thumbnails WHERE name {AMONG_TEXTS}", (json.dumps(found),))


_JOINED = "vectors JOIN items ON items.vector = vectors.id"


def _scored(
    connection: Connection, items: str, values: Sequence[object], query: NDArray[np.float32], count: int
) -> Ranked:
    """Return the best of a query's items by exact inner products; ties in order of ids."""
    best = (
        f"SELECT id, -(data::vector <#> ?::vector) AS score FROM ({items}) AS near "
        "ORDER BY score DESC, id LIMIT ?"
    )
    rows = connection.execute(best, (str(query.tolist()), *values, count)).fetchall()
    return np.array([id_ for id_, _ in rows], np.int64), np.array([score for _, score in rows], np.float32)
