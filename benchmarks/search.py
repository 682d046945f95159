"""Search among 100,000 vectors: the index compared with exact search in NumPy, on one core in one run.

The vectors resemble those of a matcher: unit vectors in clusters of very different sizes within broader
topics, with variance that decreases along the axes. Image queries are drawn like the images. Sentence
queries have cosines of about 0.4 to their best images, which makes them harder for inverted lists.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks._harness import arguments, report
from seesay.search.ann import Neighbours
from seesay.search.store import Store

Vectors = NDArray[np.float32]
Search = Callable[[Vectors], NDArray[np.int64]]

DIM = 512
K = 10


def main() -> None:
    parser = arguments("Search p50/p99 and recall@10: index, other quantizer, exact NumPy")
    parser.add_argument("--count", type=int, default=100_000, help="vectors in the index")
    parser.add_argument("--queries", type=int, default=500, help="queries of each kind")
    options = parser.parse_args()
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        faiss.omp_set_num_threads(1)
        rows = measure(Path(folder), options.count, options.queries)
    report("search", rows, options)


def measure(folder: Path, count: int, queries: int) -> list[dict[str, Any]]:
    vectors, asked = draw(count, queries)
    store = Store.create(folder / "index.sqlite", "benchmark", "0", DIM)
    fill(store, vectors)
    # The store's vectors, in half precision, are the truth for all methods.
    vectors = vectors.astype(np.float16).astype(np.float32)

    started = time.perf_counter()
    near = Neighbours(store, "image", folder / "vectors.faiss")
    near.refresh()
    near.save()
    built = time.perf_counter() - started
    eight_bit, eight_bit_built, eight_bit_size = lists_of_bytes(vectors)

    cached = size(folder / "vectors.faiss")  # none if the vectors are few enough for exact search
    ways: list[tuple[str, Search, float, int]] = [
        ("exact NumPy", lambda q: exact(vectors, q), 0.0, vectors.nbytes),
        ("the index", lambda q: near.search(q, K)[0] - 1, built, cached or vectors.nbytes),
        ("IVF-SQ8", eight_bit, eight_bit_built, eight_bit_size),
    ]
    rows = []
    for kind, batch in asked.items():
        truth = [set(exact(vectors, query)) for query in batch]
        slowest: float | None = None
        for name, search, seconds, bytes_ in ways:
            p50, p99, recall = timed(search, batch, truth)
            slowest = slowest or p50  # the first way is the exact one
            rows.append(
                {
                    "vectors": count,
                    "query": kind,
                    "way": name,
                    "p50 ms": round(p50, 3),
                    "p99 ms": round(p99, 3),
                    "times faster": round(slowest / p50, 1),
                    "recall@10": round(recall, 4),
                    "build s": round(seconds, 2),
                    "MB": round(bytes_ / 1e6, 1),
                }
            )
    return rows


def draw(count: int, queries: int) -> tuple[Vectors, dict[str, Vectors]]:
    """Draw images, (count, DIM), and queries of two kinds, (queries, DIM) each."""
    space = Space()
    images = space.images(count + queries)
    return images[queries:], {"image": images[:queries], "sentence": space.sentences(images[:queries])}


class Space:
    """A distribution of vectors: 3000 clusters of very different sizes around 100 topics."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._spread = (np.arange(1, DIM + 1) ** -0.35).astype(np.float32)
        topics = self._noise(100)
        self._clusters = unit(topics[self._rng.integers(0, 100, 3000)] + 0.9 * self._noise(3000))
        sizes = self._rng.zipf(1.4, 3000).clip(max=2000).astype(float)
        self._shares = sizes / sizes.sum()

    def images(self, count: int) -> Vectors:
        """Draw the next images, (count, DIM)."""
        clusters = self._rng.choice(3000, count, p=self._shares)
        return unit(self._clusters[clusters] + 0.8 * self._noise(count))

    def sentences(self, images: Vectors) -> Vectors:
        """Draw a sentence for each image; all share an offset from the images, as in any two-branch space."""
        apart = unit(self._noise(1))
        return unit(0.5 * images + 0.45 * self._noise(len(images)) + 0.8 * apart)

    def _noise(self, rows: int) -> Vectors:
        return unit(self._rng.standard_normal((rows, DIM), dtype=np.float32) * self._spread)


def unit(rows: Vectors) -> Vectors:
    scaled: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def fill(store: Store, vectors: Vectors, first: int = 0) -> None:
    for start in range(0, len(vectors), 5000):
        with store.write() as writer:
            for i, vector in enumerate(vectors[start : start + 5000], first + start):
                writer.put_vector("image", f"{i:032x}", vector, (640, 480))
                writer.put_image(f"{i}.jpg", f"{i:032x}", 0, 0)


def exact(vectors: Vectors, query: Vectors) -> NDArray[np.int64]:
    scores = vectors @ query
    best = np.argpartition(scores, -K)[-K:]
    found: NDArray[np.int64] = best[np.argsort(-scores[best])]
    return found


def lists_of_bytes(vectors: Vectors) -> tuple[Search, float, int]:
    """Return an index with another quantizer and the same lists and probes, its build time and size."""
    started = time.perf_counter()
    lists = round(2 * len(vectors) ** 0.5)
    index: Any = faiss.index_factory(DIM, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.nprobe, index.cp.niter = lists // 8, 10
    index.train(vectors[np.random.default_rng(0).permutation(len(vectors))[: 64 * lists]])
    index.add(vectors)
    built = time.perf_counter() - started
    return lambda query: index.search(query[None], K)[1][0], built, len(faiss.serialize_index(index))


def timed(search: Search, queries: Vectors, truth: list[set[Any]]) -> tuple[float, float, float]:
    """Return p50 and p99 of single queries in milliseconds, and the share of the true top ten found."""
    for query in queries[:20]:
        search(query)
    times, hits = [], 0
    for query, best in zip(queries, truth, strict=True):
        started = time.perf_counter()
        found = search(query)
        times.append((time.perf_counter() - started) * 1e3)
        hits += len(best.intersection(found.tolist()))
    return float(np.percentile(times, 50)), float(np.percentile(times, 99)), hits / (K * len(queries))


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


if __name__ == "__main__":
    main()
