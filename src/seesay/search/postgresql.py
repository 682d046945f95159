"""Vectors in PostgreSQL with pgvector: `postgresql://USER@HOST:PORT/DATABASE`.

A table contains the vectors of one kind of an index. The index answers filters, and the database compares
the vectors of the ids that match. The table's mark, which the index also stores, identifies the generation
that it was updated to. The mark is written last, so an interrupted update is repeated. The next update
reloads lost vectors, or all vectors if the index does not know the mark, which then belongs to another copy
of its folder.
"""

from __future__ import annotations

import json
import re
import selectors
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Any, LiteralString

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format

from seesay.errors import SeesayError, first_line
from seesay.progress import tell
from seesay.search.hits import Place
from seesay.search.neighbours import Ranked, next_page
from seesay.search.sqlite_file import Kind
from seesay.search.store import Store

RECALL = 0.95
"""Share of the ten nearest vectors that a search has to find, for which `hnsw.ef_search` is chosen."""

_EFS = (40, 80, 120, 200, 320, 500, 800, 1000)  # values of `hnsw.ef_search`, up to pgvector's limit
_LINKS, _EF_CONSTRUCTION = 16, 200  # of the graph
_SAMPLE = 100  # vectors of items, and at most as many given queries, for which recall is measured
_ROUNDING = 1e-5  # of an inner product in single precision, relative
_CONNECTIONS = 8  # for the vectors of one kind, at most
_SECONDS = 60  # that a request may take
_CONNECT_SECONDS = 10
_BUILD_BYTES = 2 << 30  # that the server may use to build a graph
_MOST_DIMENSIONS = 4000  # of half precision in a graph of pgvector
_READ = 100_000  # ids in a request
_AT_ONCE = 1000  # vectors in a request, at most
_NEEDS = (0, 8)  # version of pgvector: iterative scans

_MARK = "seesay_mark"
_NO_MARK = "0"  # of a table that is not filled

_CREATE = "CREATE TABLE {table} (id bigint PRIMARY KEY, vector halfvec({dim}) NOT NULL)"
_PUT = """INSERT INTO {table} VALUES (%(id)s, %(vector)s::halfvec)
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector"""
_PORT = re.compile("[0-9,]*")

Statement = sql.SQL | sql.Composed
Values = dict[str, Any]
Queries = Callable[[], NDArray[np.float32]]
"""Returns vectors (q, dim) of queries such as an index is searched by."""


def checked_address(address: str) -> str:
    """Return the address of a database without a password, since the index stores it and errors show it.

    Raises:
        SeesayError: the address is invalid, or contains a password. The message repeats neither.
    """
    try:
        known = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        known = {}
    # Of a password with a slash, libpq takes the beginning for a port, and the rest for a database.
    is_whole = _PORT.fullmatch(str(known.get("port", ""))) and "@" not in str(known.get("dbname", ""))
    if not (known and is_whole and address.startswith(("postgresql://", "postgres://"))):
        raise SeesayError("--store: for PostgreSQL, write postgresql://USER@HOST:PORT/DATABASE.")
    if known.keys() & {"password", "sslpassword"}:
        raise SeesayError(
            "--store: the index would store the password in this address; remove it, and set PGPASSWORD "
            "or use ~/.pgpass."
        )
    return address


class Connections:
    """A small pool of connections to a database.

    Settings are per transaction, so poolers such as PgBouncer can be used.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._free = LifoQueue[psycopg.Connection | None]()
        for _ in range(_CONNECTIONS):
            self._free.put(None)  # which are opened when they are needed

    @contextmanager
    def transaction(
        self, settings: Values | None = None, seconds: float = _SECONDS
    ) -> Iterator[psycopg.Connection]:
        """Yield a connection in a transaction; its statements are sent together until a result is read.

        Args:
            settings: of PostgreSQL, for this transaction.
            seconds: the time limit of a statement; 0 for none.
        """
        try:
            connection = self._free.get(timeout=_SECONDS)
        except Empty:
            raise SeesayError(
                f"{self._address}: all {_CONNECTIONS} connections are busy; try again later."
            ) from None
        try:
            connection = self._opened(connection)
            settings = {"statement_timeout": round(seconds * 1000), **(settings or {})}
            values = [str(each) for pair in settings.items() for each in pair]
            calls = sql.SQL(", ").join([sql.SQL("set_config(%s, %s, true)")] * len(settings))
            with connection.pipeline(), connection.transaction():
                connection.execute(sql.SQL("SELECT {}").format(calls), values)
                yield connection
        finally:
            self._free.put(connection)

    def _opened(self, connection: psycopg.Connection | None) -> psycopg.Connection:
        """A connection if it is still open, else a new one."""
        if connection is not None:
            # Nothing arrives at an idle connection but its end, or a last message.
            if not connection.closed and not _has_input(connection):
                return connection
            connection.close()
        # Prepared statements are planned for any parameters, and poolers do not keep them.
        return psycopg.connect(
            self._address, autocommit=True, prepare_threshold=None, connect_timeout=_CONNECT_SECONDS
        )

    def execute(self, statement: Statement, values: Values | None = None) -> None:
        """Execute one statement in a transaction."""
        with self.transaction() as connection:
            connection.execute(statement, values)

    def rows(
        self, query: Statement, values: Values | None = None, settings: Values | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query, see `transaction` for the settings."""
        with self.transaction(settings) as connection:
            return connection.execute(query, values).fetchall()

    def upsert(self, query: Statement, rows: Sequence[Values]) -> None:
        """Execute a statement for each row, all in one transaction."""
        with self.transaction() as connection:
            connection.cursor().executemany(query, rows)

    def close(self) -> None:
        """Close the idle connections."""
        for connection in [self._free.get() for _ in range(self._free.qsize())]:
            if connection is not None:
                connection.close()
            self._free.put(None)


def _has_input(connection: psycopg.Connection) -> bool:
    with selectors.DefaultSelector() as selector:  # `select` fails for descriptors from 1,024 on
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


class _Vector(bytes):
    """A vector in pgvector's binary format, big-endian single or half precision."""

    @classmethod
    def of(cls, row: NDArray[np.floating], precision: str) -> _Vector:
        return cls(struct.pack("!HH", len(row), 0) + row.astype(precision).tobytes())


class _VectorDumper(Dumper):
    """Sends a vector as it is; the statement names its type, whose number differs between databases."""

    format = Format.BINARY

    def dump(self, obj: _Vector) -> bytes:
        return bytes(obj)


psycopg.adapters.register_dumper(_Vector, _VectorDumper)


class PostgreSQL:
    """Vectors of one kind in a table of PostgreSQL, in half precision, with pgvector's graph (HNSW).

    The address is libpq's, "postgresql://USER@HOST:PORT/DATABASE?…"; a password is taken from PGPASSWORD or
    ~/.pgpass. The comment of the table contains the mark and the width of searches (`hnsw.ef_search`): the
    least that reaches `RECALL` after an update has built or doubled the graph. Thread-safe.

    Args:
        address: of the database.
        store: of the items.
        kind: of the items.

    Attributes:
        client: the connections.
        graph_from: the number of vectors from which a graph is built; fewer are compared exhaustively.
        numbers_at_once: the limit of a request; about 10 MB as text.
    """

    graph_from = 10_000
    numbers_at_once = 500_000

    def __init__(self, address: str, store: Store, kind: Kind) -> None:
        self.address, self.dim = address, store.dim
        self.name = f"seesay_{store.meta['identity']}_{kind}"
        self.client = Connections(address)
        self._store, self._kind = store, kind
        self._table = sql.Identifier(self.name)
        self._comment: Values = {}
        self._seen = -1  # generation of the items at the last look

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the database's errors to a SeesayError."""
        try:
            yield
        except psycopg.Error as failure:
            raise SeesayError(
                f"{self.address}: PostgreSQL cannot be used ({first_line(failure)[:200]}); start it, or "
                "check the address and PGPASSWORD."
            ) from failure

    def refresh(self) -> None:
        """Check once per generation that the table exists; updates of the index fill it."""
        generation = self._store.generation()
        if self._seen == generation:
            return
        with self._errors():
            if self._marked() in (None, _NO_MARK) and self._store.count(self._kind):
                raise SeesayError(
                    f"{self.address}: has no vectors of this index; run `seesay index` again to load them."
                )
        self._seen = generation

    def save(self, queries: Queries) -> None:
        """Write vectors that the table lacks, and delete those that the index no longer has.

        Args:
            queries: for which the recall of a new graph is measured.
        """
        with self._errors():
            mark = self._marked()
            since = self._store.marked(self._kind, mark) if mark else None
            if since == self._store.generation():
                return
            if mark is None:
                self._create()
            elif since is None:  # of another copy of the folder: nothing may remain
                self._mark(_NO_MARK)
            with self._store.write() as writer:
                new = writer.add_mark(self._kind)
            changes = self._store.changes(self._kind, since or 0)
            self._write(changes.ids)
            if self._count() != len(changes.alive):
                self._write(self._lost(changes.alive))
            self._settle(queries)
            self._mark(new)

    def _write(self, ids: NDArray[np.int64]) -> None:
        """Write vectors to the table, replacing those with the same ids."""
        at_once = min(_AT_ONCE, max(self.numbers_at_once // self.dim, 1))
        for start in range(0, len(ids), at_once):
            here, vectors = self._store.vectors(ids[start : start + at_once].tolist())
            halves = (_Vector.of(row, ">f2") for row in vectors)
            rows = [{"id": id_, "vector": each} for id_, each in zip(here.tolist(), halves, strict=True)]
            self.client.upsert(self._sql(_PUT), rows)

    def _lost(self, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Delete vectors that are not alive, and return missing ones."""
        there = [np.empty(0, np.int64)]
        for some in self._ids():
            there.append(np.asarray(some, np.int64))
            if gone := np.setdiff1d(there[-1], alive).tolist():
                self._delete(gone)
        return np.setdiff1d(alive, np.concatenate(there))

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        among: NDArray[np.int64] | None = None,
        after: Place | None = None,
    ) -> Ranked:
        """See `Neighbours.search`; pages after the first compare all vectors."""
        self.refresh()
        with self._errors():
            if not self._store.count(self._kind):  # there may be no table
                return np.empty(0, np.int64), np.empty(0, np.float32)
            if after is None:
                return self._best(query, k, among, exact=False)
            return next_page(lambda asked: self._best(query, asked, among, exact=True), k, after)

    def _best(
        self, query: NDArray[np.float32], k: int, among: NDArray[np.int64] | None, exact: bool
    ) -> Ranked:
        asked = k + 1
        while True:
            ids, scores = self._nearest(query, asked, among, exact)
            # Of equal scores those with the lowest ids are wanted, but a database returns any: ask for all.
            if len(ids) < asked or scores[-1] < scores[k - 1]:
                order = np.lexsort((ids, -scores))[:k]
                return ids[order], scores[order]
            asked *= 2

    def _sql(self, statement: LiteralString, **parts: sql.Composable | int) -> sql.Composed:
        """A statement with the table, its name and other parts filled in."""
        name = sql.Literal(self._table.as_string())
        return sql.SQL(statement).format(table=self._table, name=name, **parts)

    def _marked(self) -> str | None:
        """Return the last mark, `_NO_MARK` without a mark, or None without a table."""
        query = "SELECT to_regclass({name})::oid, obj_description(to_regclass({name}), 'pg_class')"
        ((table, comment),) = self.client.rows(self._sql(query))
        self._comment = _read_comment(comment)
        return None if table is None else str(self._comment.get(_MARK, _NO_MARK))

    def _create(self) -> None:
        if self.dim > _MOST_DIMENSIONS:
            raise SeesayError(
                f"{self.address}: pgvector supports vectors of up to {_MOST_DIMENSIONS} dimensions, but "
                f"those of this run have {self.dim}; use another store."
            )
        self._check_pgvector()
        self.client.execute(self._sql(_CREATE, dim=self.dim))

    def _check_pgvector(self) -> None:
        """Create the extension if necessary, and check its version."""
        available = sql.SQL("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        if not self.client.rows(available):
            raise SeesayError(
                f"{self.address}: PostgreSQL has no pgvector; install 0.8 or newer on the server."
            )
        self.client.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS vector"))
        found = sql.SQL("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        ((version,),) = self.client.rows(found)
        if tuple(int(part) for part in str(version).split(".")[:2]) < _NEEDS:
            raise SeesayError(
                f"{self.address}: pgvector is {version}, but 0.8 is needed; upgrade it, and run "
                "`ALTER EXTENSION vector UPDATE`."
            )

    def _settle(self, queries: Queries) -> None:
        """Build the graph once there are enough vectors, and choose the width of searches."""
        count = self._count()
        if count < self.graph_from or count < 2 * self._comment.get("measured", 0):
            return
        self._build(count)
        self._comment |= {"ef": self._ef_of_recall(queries()), "measured": count}

    def _build(self, count: int) -> None:
        """Build the graph if it is missing, and analyse the table for the planner."""
        memory = min(_BUILD_BYTES, max(64 << 20, count * (2 * self.dim + 400)))
        with self.client.transaction({"maintenance_work_mem": f"{memory >> 10}kB"}, seconds=0) as connection:
            graph = self._sql(
                "CREATE INDEX IF NOT EXISTS {graph} ON {table} USING hnsw (vector halfvec_ip_ops) "
                "WITH (m = {links}, ef_construction = {width})",
                graph=sql.Identifier(f"{self.name}_graph"),
                links=_LINKS,
                width=_EF_CONSTRUCTION,
            )
            connection.execute(graph)
            connection.execute(self._sql("ANALYZE {table}"))

    def _ef_of_recall(self, queries: NDArray[np.float32]) -> int:
        """The least search width that reaches `RECALL`, for images and for sentences."""
        alive = self._store.changes(self._kind).alive
        asked = _asked_for_recall(self._store, alive, queries)
        for ef in _EFS:
            found = min(
                np.mean([self._share(ef, *each) for each in zip(some, tenth, strict=True)])
                for some, tenth in asked
            )
            if found >= RECALL:
                break
        tell(
            f"PostgreSQL: {len(alive)} vectors, hnsw.ef_search {ef}; recall@10 {found:.3f} (target: "
            f"{RECALL})."
        )
        return ef

    def _share(self, ef: int, query: NDArray[np.float32], tenth: np.float32) -> float:
        """The share of the ten nearest that a search finds, by the score of the tenth."""
        _, scores = self._in_graph(query, 10, None, ef)
        return float((scores >= tenth - _ROUNDING * abs(tenth)).sum()) / 10

    def _mark(self, mark: str) -> None:
        self._comment |= {_MARK: mark}
        text = sql.Literal(json.dumps(self._comment))
        self.client.execute(self._sql("COMMENT ON TABLE {table} IS {text}", text=text))

    def _count(self) -> int:
        return int(self.client.rows(self._sql("SELECT count(*) FROM {table}"))[0][0])

    def _ids(self) -> Iterator[Sequence[int]]:
        query = self._sql("SELECT id FROM {table} WHERE id > %(after)s ORDER BY id LIMIT {most}", most=_READ)
        after = -1
        while rows := self.client.rows(query, {"after": after}):
            yield [id_ for (id_,) in rows]
            after = rows[-1][0]

    def _delete(self, ids: list[int]) -> None:
        self.client.execute(self._sql("DELETE FROM {table} WHERE id = ANY(%(ids)s)"), {"ids": ids})

    def _nearest(
        self, query: NDArray[np.float32], count: int, among: NDArray[np.int64] | None, exact: bool
    ) -> Ranked:
        if not exact and (ef := self._comment.get("ef")):
            ids, scores = self._in_graph(query, count, among, ef)
            # If few vectors match a filter, the search of the graph may end before they are found.
            if len(ids) == count:
                return ids, scores
        return self._scored(query, self._table, _where(among), _values(among), count)

    def _in_graph(
        self, query: NDArray[np.float32], count: int, among: NDArray[np.int64] | None, ef: int
    ) -> Ranked:
        """Search the graph; the nearest in half precision are re-scored with the full query."""
        near = self._sql(
            "(SELECT id, vector FROM {table} WHERE {where} "
            "ORDER BY vector <#> %(query)s::vector::halfvec LIMIT {most})",
            where=_where(among),
            most=2 * count,
        )
        settings = {
            "hnsw.ef_search": max(ef, min(2 * count, _EFS[-1])),
            "hnsw.iterative_scan": "relaxed_order",
        }
        return self._scored(query, near, _where(None), _values(among), count, settings)

    def _scored(
        self,
        query: NDArray[np.float32],
        table: sql.Composable,
        where: Statement,
        values: Values,
        count: int,
        settings: Values | None = None,
    ) -> Ranked:
        """Return the best of a table by exact inner products; ties in order of ids."""
        statement = sql.SQL(
            "SELECT id, -(vector::vector <#> %(query)s::vector) AS score FROM {} AS items WHERE {} "
            "ORDER BY score DESC, id LIMIT {}"
        ).format(table, where, count)
        rows = self.client.rows(statement, {**values, "query": _Vector.of(query, ">f4")}, settings)
        return np.array([id_ for id_, _ in rows], np.int64), np.array([s for _, s in rows], np.float32)


def _where(among: NDArray[np.int64] | None) -> sql.SQL:
    """The condition that an id is one of those in the parameter `among`."""
    return sql.SQL("true" if among is None else "id = ANY(%(among)s)")


def _values(among: NDArray[np.int64] | None) -> Values:
    return {} if among is None else {"among": among.tolist()}


def _asked_for_recall(
    store: Store, ids: NDArray[np.int64], queries: NDArray[np.float32]
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return queries for which recall is measured, (q, dim), with the scores of their tenth best items, (q,).

    Vectors drawn from the items, and the given queries (q, dim), are one pair each.
    """
    some = np.random.default_rng(0).permutation(ids)[:_SAMPLE]
    own = store.vectors(some.tolist())[1].astype(np.float32)
    asked = [each for each in (own, queries[:_SAMPLE]) if len(each)]
    best = [np.full((len(each), 10), -np.inf, np.float32) for each in asked]
    for _, vectors in store.parts(ids):
        rows = vectors.astype(np.float32)
        for each, kept in zip(asked, best, strict=True):
            both = np.concatenate([kept, each @ rows.T], axis=1)
            kept[:] = -np.partition(-both, 9, axis=1)[:, :10]
    return [(each, kept.min(axis=1)) for each, kept in zip(asked, best, strict=True)]


def _read_comment(text: object) -> Values:
    """The contents written by `_mark`; empty for other comments."""
    try:
        found = json.loads(str(text))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    numbers = {name: found[name] for name in ("ef", "measured") if isinstance(found.get(name), int)}
    if not 1 <= numbers.get("ef", 1) <= _EFS[-1]:
        return {}
    return numbers | ({_MARK: found[_MARK]} if isinstance(found.get(_MARK), str) else {})
