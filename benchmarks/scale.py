"""Up to ten million vectors in the stores of vectors, and a plan for up to ten billion.

Filling, building and searching run in processes of their own, so that the memory is that of each alone.
Recorded rows that are not measured again are kept. PostgreSQL is a server that the tests start; the other
databases run within the process. The plan is computed from the recorded rows of this benchmark,
`benchmarks.indexing` and `benchmarks.cluster`, and from two assumed prices: of a core for an hour, and of a
GB of memory for an hour.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from psycopg.sql import SQL, Literal

from benchmarks._harness import RESULTS, arguments, peak_mib, report
from benchmarks.search import DIM, K, Space, Vectors, fill, timed
from seesay.data.images import EncodedImage
from seesay.data.readers import read_corpus
from seesay.encoders.stores import RECORD, sources_of
from seesay.runs.run import Run
from seesay.search import thumbnails
from seesay.search.ann import Neighbours
from seesay.search.store import Store
from seesay.search.stores import VectorStore, open_vectors
from seesay.search.stores.postgresql import PostgreSQL
from tests.search.stores import SERVERS, address

T = TypeVar("T")
UPDATE = 10_000
QUERIES = 200
PHOTOS = 200
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

# What stops working first, by the number of images, and the remedy.
BREAKS = {
    10**6: "nothing: one process",
    10**7: "lists of vectors fill a small machine's memory: `--recall`",
    10**8: "an eighth of the lists is too many to read: `--recall`, or a graph in a database",
    10**9: "the vectors no longer fit in one machine's memory: `--recall`, or shards of a database",
    10**10: "one process searches all shards, and a database leaves one SQLite file: indexes side by side",
}


def main() -> None:
    parser = arguments(
        "Vectors in the stores of vectors; a plan to 10¹⁰ images", "photographs, for thumbnails"
    )
    parser.add_argument(
        "measured",
        nargs="*",
        default=["embedded:100000", "embedded:1000000"],
        metavar="WAY:COUNT",
        help=f"{', '.join(WAYS)}, and a number of vectors",
    )
    parser.add_argument("--plan", action="store_true", help="compute the plan from recorded rows only")
    parser.add_argument(
        "--core-hour", type=float, default=0.04, help="assumed price of a core for an hour, $"
    )
    parser.add_argument("--gb-hour", type=float, default=0.005, help="assumed price of a GB of memory, $")
    options = parser.parse_args()
    rows = {_key(row): row for row in _recorded() if row["benchmark"] == "scale"}
    if not options.plan:
        for way, count in (each.split(":") for each in options.measured):
            row = measured(way, int(count))
            rows[_key(row)] = row
        order = list(WAYS.values())
        rows = dict(sorted(rows.items(), key=lambda each: (each[0][1], order.index(each[0][0]))))
        report("scale", list(rows.values()), options)
    report("scale-plan", plan(list(rows.values()), options), options)


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


def plan(rows: list[dict[str, Any]], options: Namespace) -> list[dict[str, Any]]:
    """Compute the plan for numbers of images, from measured figures or in proportion to them."""
    image_ms = _indexing_ms()
    thumbnail = thumbnail_bytes(options.data)
    cached = cached_bytes()
    planned = []
    for images, breaks in BREAKS.items():

        def of(way: str, figure: str, images: int = images) -> float:
            return _extrapolated([row for row in rows if row["store"] == WAYS[way]], figure, images)

        core_hours = images * image_ms / 3.6e6
        memory = of("embedded", "peak MiB") * 2**20 / 1e9
        stored = of("embedded", "SQLite MB") + of("embedded", "vectors MB")
        planned.append(
            {
                "images": f"{images:.0e}".replace("e+0", "e").replace("e+", "e"),
                "indexing, core hours": _short(core_hours),
                "indexing, $": _short(core_hours * options.core_hour),
                "building lists, hours": _short(of("embedded", "build s") / 3600),
                "the same, `--recall`": _short(of("recall", "build s") / 3600),
                "vectors and facts, GB": _short(stored / 1e3),
                "thumbnails, GB": _short(images * thumbnail / 1e9),
                "cached features, GB": _short(images * cached / 1e9),
                "memory GB": _short(memory),
                "memory, $ a month": _short(memory * options.gb_hour * 730),
                "p50 ms, an eighth read": _short(of("embedded", "p50 ms")),
                "memory GB, `--recall`": _short(of("recall", "peak MiB") * 2**20 / 1e9),
                "p50 ms, `--recall`": _short(of("recall", "p50 ms")),
                "what breaks next": breaks,
            }
        )
    return planned


def _extrapolated(rows: list[dict[str, Any]], figure: str, images: int) -> float:
    """A figure for a number of images: as measured, else extrapolated from the largest row.

    Figures are in proportion to the images, except builds, which grow by the power of the two largest rows.
    """
    *_, second, largest = sorted(rows, key=lambda row: int(row["vectors"]))
    for row in rows:
        if row["vectors"] == images:
            return float(row[figure])
    power = 1.0
    if figure == "build s":
        power = math.log(largest[figure] / second[figure]) / math.log(largest["vectors"] / second["vectors"])
    return float(largest[figure] * (images / largest["vectors"]) ** power)


def _indexing_ms() -> float:
    """Milliseconds of a core for a photo of 12 megapixels on a Ray cluster, with its thumbnail."""
    recorded = _recorded()
    (image_ms,) = (row["seesay, ms"] for row in recorded if row["benchmark"] == "indexing")
    rates = {row["way"]: row["images/s once it runs"] for row in recorded if row["benchmark"] == "cluster"}
    return float(image_ms * rates["without Ray, 2 cores"] / rates["Ray, 2 workers"])


def thumbnail_bytes(data: Path) -> float:
    """Return the mean size of the thumbnails of photographs in bytes."""
    images = [(image.name, image.source) for image in read_corpus(data).images[:PHOTOS]]
    photos = [EncodedImage(of.read(), name).photo(thumbnails.SIDE) for name, of in images if of is not None]
    return float(np.mean([len(thumbnails.make(photo)) for photo in photos]))


def cached_bytes() -> int:
    """Return the bytes of a photo in the stores of the features that `seesay-small` uses."""
    sources = sources_of(Run.load("seesay-small").encoders).values()
    return sum(2 * sum(source.dims.values()) + RECORD.itemsize for source in sources)


def _short(number: float) -> float:
    """Round to two significant digits, since it is an extrapolation."""
    return float(f"{number:.2g}")


if __name__ == "__main__":
    main()
