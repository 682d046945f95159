"""Up to ten million vectors in the stores of vectors.

Filling, building and searching run in processes of their own, so that the memory is that of each alone.
Recorded rows that are not measured again are kept. PostgreSQL is a server that the tests start; the other
databases run within the process.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from psycopg.sql import SQL, Literal

from benchmarks._harness import RESULTS, arguments, peak_mib, report
from benchmarks.search import DIM, K, Space, Vectors, fill, timed
from seesay.search.ann import Neighbours
from seesay.search.store import Store
from seesay.search.stores import VectorStore, open_vectors
from seesay.search.stores.postgresql import PostgreSQL
from tests.search.stores import SERVERS, address

T = TypeVar("T")
UPDATE = 10_000
QUERIES = 200
RECALL = 0.9
_ROWS = 100_000  # drawn at once

# What is measured: the names for the command line, and those for the table.
WAYS = {
    "embedded": "embedded",
    "recall": f"embedded, `--recall {RECALL}`",
    "qdrant": "Qdrant's edition within a process",
    "milvus": "Milvus Lite",
    "postgresql": "PostgreSQL, a server",
}
DATABASES = ("qdrant", "milvus", "postgresql")


def main() -> None:
    parser = arguments("Vectors in the stores of vectors")
    parser.add_argument(
        "measured",
        nargs="*",
        default=["embedded:100000", "embedded:1000000"],
        metavar="WAY:COUNT",
        help=f"{', '.join(WAYS)}, and a number of vectors",
    )
    options = parser.parse_args()
    rows = {_key(row): row for row in _recorded() if row["benchmark"] == "scale"}
    for way, count in (each.split(":") for each in options.measured):
        row = measured(way, int(count))
        rows[_key(row)] = row
    order = list(WAYS.values())
    rows = dict(sorted(rows.items(), key=lambda each: (each[0][1], order.index(each[0][0]))))
    report("scale", list(rows.values()), options)


def _key(row: dict[str, Any]) -> tuple[str, int]:
    return row["store"], row["vectors"]


def measured(way: str, count: int) -> dict[str, Any]:
    """Measure one store at one size."""
    load = os.getloadavg()[0]
    if way == "postgresql":  # one server for all the processes that use it
        os.environ[SERVERS[way]] = address(way, Path())
    with tempfile.TemporaryDirectory() as folder:
        filled = alone(_fill, Path(folder), count)
        built = alone(_build, Path(folder), way)
        found = alone(_search, Path(folder), way)
    return {"store": WAYS[way], "vectors": count, "load before": round(load, 1)} | filled | built | found


def alone(work: Callable[..., T], *given: Any) -> T:
    """Return the result of a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as one:
        return one.submit(work, *given).result()


def _fill(folder: Path, count: int) -> dict[str, Any]:
    space = Space()
    images = space.images(QUERIES)
    asked = {"image": images, "sentence": space.sentences(images)}
    np.savez(folder / "update.npz", more=space.images(UPDATE), hints=space.sentences(space.images(QUERIES)))
    store = Store.create(folder / "index.sqlite", "benchmark", "0", DIM)
    best = {kind: _Best(queries) for kind, queries in asked.items()}
    seconds = 0.0
    for start in range(0, count, _ROWS):
        vectors = space.images(min(_ROWS, count - start))
        for each in best.values():
            each.see(_half(vectors), start)
        started = time.perf_counter()
        fill(store, vectors, start)
        seconds += time.perf_counter() - started
    store.close()
    for kind, each in best.items():
        np.savez(folder / f"{kind}.npz", queries=each.queries, best=each.rows)
    return {
        "items/s written": round(count / seconds),
        "SQLite MB": round((folder / "index.sqlite").stat().st_size / 1e6),
    }


class _Best:
    """The true ten best rows for queries among all vectors so far."""

    def __init__(self, queries: Vectors) -> None:
        self.queries = queries
        self.rows = np.full((len(queries), K), -1)
        self._scores = np.full((len(queries), K), -np.inf, np.float32)

    def see(self, vectors: Vectors, first: int) -> None:
        scores = np.concatenate([self._scores, self.queries @ vectors.T], axis=1)
        new = np.broadcast_to(np.arange(first, first + len(vectors)), (len(scores), len(vectors)))
        rows = np.concatenate([self.rows, new], axis=1)
        kept = np.argpartition(scores, -K, axis=1)[:, -K:]
        self._scores, self.rows = (np.take_along_axis(each, kept, axis=1) for each in (scores, rows))


def _opened(folder: Path, way: str) -> tuple[Store, VectorStore]:
    store = Store.open(folder / "index.sqlite")
    where = address(way, folder) if way in DATABASES else ""
    (folder / "vectors").mkdir(exist_ok=True)
    hints = np.load(folder / "update.npz")["hints"]
    if where:
        return store, open_vectors(where, store, "image", lambda: hints)
    return store, Neighbours(store, "image", folder / "vectors" / "lists", queries=lambda: hints)


def _build(folder: Path, way: str) -> dict[str, Any]:
    store, near = _opened(folder, way)
    if way == "recall":
        with store.write() as writer:
            writer.set_meta(recall=repr(RECALL))
    started = time.perf_counter()
    near.save()
    seconds = time.perf_counter() - started
    if isinstance(near, PostgreSQL):
        query = SQL("SELECT pg_total_relation_size({}::regclass)").format(Literal(near.name))
        ((size,),) = near.client.rows(query)
    else:
        size = sum(file.stat().st_size for file in (folder / "vectors").rglob("*") if file.is_file())
    near.close()
    return {
        "build s": round(seconds, 1),
        "vectors MB": round(size / 1e6),
        "build peak MiB": round(peak_mib()),
    }


def _search(folder: Path, way: str) -> dict[str, Any]:
    store, near = _opened(folder, way)
    started = time.perf_counter()
    near.refresh()
    near.search(np.load(folder / "image.npz")["queries"][0], K)
    opened = time.perf_counter() - started
    times = {}
    for kind in ("image", "sentence"):
        kept = np.load(folder / f"{kind}.npz")
        truth = [set(best.tolist()) for best in kept["best"]]
        times[kind] = timed(lambda q: near.search(q, K)[0] - 1, kept["queries"], truth)
    peak = peak_mib()
    started = time.perf_counter()
    with store.write() as writer:
        for number, vector in enumerate(np.load(folder / "update.npz")["more"]):
            writer.put_vector("image", f"{number + (1 << 64):032x}", vector, (640, 480))
            writer.put_image(f"more/{number}.jpg", f"{number + (1 << 64):032x}", 0, 0)
    if way in DATABASES:
        near.save()
    near.refresh()
    updated = time.perf_counter() - started
    near.close()
    return {
        "open s": round(opened, 1),
        "p50 ms": round(times["image"][0], 2),
        "p99 ms": round(times["image"][1], 2),
        "recall@10": round(times["image"][2], 4),
        "recall@10, sentences": round(times["sentence"][2], 4),
        "peak MiB": round(peak),
        "updates/s": round(UPDATE / updated),
    }


def _half(vectors: Vectors) -> Vectors:
    """The vectors as the store keeps them, in half precision."""
    return vectors.astype(np.float16).astype(np.float32)


def _recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
