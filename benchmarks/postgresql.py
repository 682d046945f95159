"""An index in PostgreSQL beside one in a folder and bare pgvector: loading, size, and filtered searches.

The vectors and queries are those of `benchmarks.search`. Half of the images are in one folder, and a
hundredth in a folder in it; a filter asks for one of these folders. An index is loaded
in transactions of 5,000 images, and once by `seesay copy`, without its graph. After the searches, 1,000 more
are written. Bare pgvector is loaded by COPY, has the same graph, and its filters are columns of its table.
Clients are threads of one process, which ask without pauses. At last, photos are written with thumbnails, in
the small transactions of an update; "own" is the processor time of the process that writes, without the
server's. The server is started for the benchmark, or is that of SEESAY_TEST_POSTGRESQL.

    OMP_NUM_THREADS=1 python -m benchmarks.postgresql [--counts 100000]
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg_pool import ConnectionPool

from benchmarks._harness import arguments, report
from benchmarks.search import DIM, Space, fill
from seesay.arrays import Vectors
from seesay.search.filters import Filter
from seesay.search.index import Index, create_store
from seesay.search.postgresql import DatabaseStore
from seesay.search.store import Store
from tests.search.stores import SERVER, server

K = 10
CLIENTS = 16
MORE = 1000  # images of an update
PHOTOS, AT_ONCE = 6400, 64  # that are written with thumbnails, in transactions of an update
EF = 400  # of the searches, as in an index of up to 300,000 vectors
SHARES = {"": "none", "folder:half": "50 %", "folder:few": "1 %"}
Search = Callable[[Vectors, str], NDArray[np.int64]]
Update = Callable[[], object]
Row = dict[str, Any]


def main() -> None:
    parser = arguments("Indexes in PostgreSQL and in a folder, and bare pgvector")
    parser.add_argument("--counts", type=int, nargs="*", default=[100_000])
    parser.add_argument("--queries", type=int, default=50, help="queries of each kind")
    options = parser.parse_args()
    address = os.environ.get(SERVER) or server("shared_buffers=1GB", "max_wal_size=8GB")
    loads, searches = list[Row](), list[Row]()
    for count in options.counts:
        space = Space()
        images = space.images(options.queries)
        asked = np.concatenate([images, space.sentences(images)])
        vectors = space.images(count)
        best = {where: _best(vectors, asked, where) for where in SHARES}
        more = space.images(MORE)
        with tempfile.TemporaryDirectory() as folder:
            for way, search, update, about in _ways(Path(folder), address, vectors, more):
                for where, share in SHARES.items():
                    if search is None:
                        break
                    measured = _measured(search, asked, where, best[where])
                    searches.append({"vectors": count, "way": way, "filter": share} | measured)
                    print(searches[-1], flush=True)  # a long run may be stopped
                seconds = round(_seconds(update), 2) if update is not None else None
                loads.append({"vectors": count, "way": way} | about | {f"{MORE:,} more s": seconds})
                print(loads[-1], flush=True)
    if loads:
        report("postgresql-load", loads, options)
        report("postgresql", searches, options)
    report("postgresql-write", list(_written(address)), options)


def _written(address: str) -> Iterator[Row]:
    """Write photos with their thumbnails as an update does, and yield a row for each store."""
    vectors, name = Space().images(PHOTOS), uuid.uuid4().hex[:12]
    thumbnail = os.urandom(20_000)  # bytes, about as many as those of photographs have
    with tempfile.TemporaryDirectory() as folder:
        for place in (f"{folder}/index", f"{address}#w{name}"):
            with closing(create_store(place, "benchmark", "0", DIM)) as store:
                processor, started = time.process_time(), time.perf_counter()
                for start in range(0, PHOTOS, AT_ONCE):
                    fill(store, vectors[start : start + AT_ONCE], start)
                    store.keep_thumbnails({f"{i:032x}": thumbnail for i in range(start, start + AT_ONCE)})
                elapsed, processor = time.perf_counter() - started, time.process_time() - processor
            way = "PostgreSQL" if place.startswith(address) else "a folder"
            own = round(1e3 * processor / PHOTOS, 3)
            yield {"way": way, "photos": PHOTOS, "photos/s": round(PHOTOS / elapsed), "own ms a photo": own}
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA seesay_w{name} CASCADE")


def _best(vectors: Vectors, asked: Vectors, where: str) -> NDArray[np.int64]:
    """Return the ids (q, K) of the best images for each query, as a product of matrices finds them."""
    rows = np.arange(0, len(vectors), {"": 1, "folder:half": 2, "folder:few": 100}[where])
    scores = asked @ vectors[rows].astype(np.float16).astype(np.float32).T
    return rows[np.argsort(-scores, axis=1)[:, :K]] + 1


def _ways(
    folder: Path, address: str, vectors: Vectors, more: Vectors
) -> Iterator[tuple[str, Search | None, Update | None, Row]]:
    """Yield each way to keep the vectors: its name, search and update, and how it was loaded."""

    def of_index(store: Store) -> tuple[Search, Update]:
        def update() -> None:
            fill(store, more, len(vectors))
            store.settle("image")
            store.nearest("image", more[0], K)

        return lambda query, where: store.nearest("image", query, K, Filter.parse(where))[0], update

    with closing(create_store(folder / "index", "benchmark", "0", DIM)) as embedded:
        load, settle = _seconds(lambda: fill(embedded, vectors)), _seconds(lambda: embedded.settle("image"))
        size = sum(file.stat().st_size for file in (folder / "index").rglob("*") if file.is_file())
        yield "a folder", *of_index(embedded), _loaded(load, settle, size)
        name = uuid.uuid4().hex[:12]
        with closing(create_store(f"{address}#b{name}", "benchmark", "0", DIM)) as database:
            load, settle = (
                _seconds(lambda: fill(database, vectors)),
                _seconds(lambda: database.settle("image")),
            )
            size = _size(address, f"seesay_b{name}")
            yield "PostgreSQL", *of_index(database), _loaded(load, settle, size)
        from_graph, DatabaseStore.graph_from = DatabaseStore.graph_from, 2 * len(vectors)
        load = _seconds(lambda: Index(embedded).copy_to(f"{address}#c{name}"))
        DatabaseStore.graph_from = from_graph
        size = _size(address, f"seesay_c{name}")
        yield "PostgreSQL, by seesay copy", None, None, _loaded(load, None, size)
    with ConnectionPool(address, min_size=CLIENTS, kwargs={"autocommit": True}, configure=_tuned) as pool:
        load, build = _bare(pool, f"bare_{name}", vectors)

        def search(query: Vectors, where: str) -> NDArray[np.int64]:
            near = f"SELECT id FROM bare_{name}.vectors {where and f'WHERE {where[7:]}'}"
            with pool.connection() as connection:
                values = str(query.tolist()), K
                found = connection.execute(
                    f"{near} ORDER BY data <#> %s::halfvec LIMIT %s", values
                ).fetchall()
            return np.array([id_ for (id_,) in found], np.int64)

        def update() -> None:
            with pool.connection() as connection:
                _copy(connection, f"bare_{name}", more, len(vectors))

        yield "bare pgvector", search, update, _loaded(load, build, _size(address, f"bare_{name}"))
    with psycopg.connect(address, autocommit=True) as connection:
        for schema in (f"seesay_b{name}", f"seesay_c{name}", f"bare_{name}"):
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def _bare(pool: ConnectionPool, schema: str, vectors: Vectors) -> tuple[float, float]:
    """Load a table of vectors and build its graph; return the seconds of both."""
    with pool.connection() as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        columns = f"id bigint PRIMARY KEY, half boolean, few boolean, data halfvec({DIM})"
        connection.execute(f"CREATE TABLE {schema}.vectors ({columns})")

        def build() -> None:
            graph = "USING hnsw (data halfvec_ip_ops) WITH (m = 16, ef_construction = 200)"
            connection.execute("SET maintenance_work_mem = '2GB'")
            connection.execute(f"CREATE INDEX graph ON {schema}.vectors {graph}")
            connection.execute(f"ANALYZE {schema}.vectors")

        return _seconds(lambda: _copy(connection, schema, vectors)), _seconds(build)


def _copy(connection: psycopg.Connection, schema: str, vectors: Vectors, first: int = 0) -> None:
    with connection.cursor().copy(f"COPY {schema}.vectors FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "bool", "bool", "bytea"])
        for i, vector in enumerate(vectors.astype(">f2"), first):
            copy.write_row((i + 1, i % 2 == 0, i % 100 == 0, struct.pack(">hh", DIM, 0) + vector.tobytes()))


def _tuned(connection: psycopg.Connection) -> None:
    connection.execute(f"SET hnsw.ef_search = {EF}")
    connection.execute("SET hnsw.iterative_scan = relaxed_order")


def _size(address: str, schema: str) -> int:
    query = """SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
        WHERE relkind = 'r' AND relnamespace = %s::regnamespace"""
    with psycopg.connect(address) as connection:
        row = connection.execute(query, (schema,)).fetchone()
    return int(row[0]) if row else 0


def _loaded(load: float, index: float | None, size: int) -> Row:
    built = None if index is None else round(index, 1)
    return {"load s": round(load, 1), "index s": built, "MiB": round(size / 2**20)}


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _measured(search: Search, asked: Vectors, where: str, best: NDArray[np.int64]) -> Row:
    """Measure the searches of one client and of several, in milliseconds, and recall."""
    found = [search(query, where) for query in asked]  # this warms up, too
    right = sum(len(set(ids.tolist()) & set(true.tolist())) for ids, true in zip(found, best, strict=True))

    def client(number: int) -> list[float]:
        order = np.random.default_rng(number).permutation(len(asked))
        return [1e3 * _seconds(partial(search, asked[i], where)) for i in order]

    alone = client(0)
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        together = [time_ for times in threads.map(client, range(CLIENTS)) for time_ in times]
    rate = len(together) / (time.perf_counter() - started)
    row: Row = {}
    for name, times in (("1 client", alone), (f"{CLIENTS} clients", together)):
        for percent in (50, 99):
            row[f"{name}, p{percent} ms"] = round(float(np.percentile(times, percent)), 1)
    return row | {"queries/s": round(rate, 1), f"recall@{K}": round(right / best.size, 3)}


if __name__ == "__main__":
    main()
