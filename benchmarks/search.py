"""Search in the index beside bare scans by NumPy and FAISS: single queries on one core.

The vectors resemble those of a matcher: unit vectors in clusters of very different sizes within broader
topics, with variance that decreases along the axes. Image queries are drawn like the images. Sentence
queries have cosines of about 0.4 to their best images. Building and searching run in processes of their own,
so that the memory is that of each alone.

    OMP_NUM_THREADS=1 taskset -c 1 python -m benchmarks.search [--counts 10000 100000 1000000]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import faiss
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks._harness import arguments, peak_mib, report
from seesay.arrays import Vectors
from seesay.search.index import create_store, open_store
from seesay.search.neighbours import Neighbours
from seesay.search.photo import FileState
from seesay.search.store import Store
from seesay.search.tables import Content

T = TypeVar("T")
Search = Callable[[Vectors], NDArray[np.int64]]

DIM = 512
K = 40
_AT_ONCE = 50_000  # drawn


def main() -> None:
    parser = arguments("Search in the index, and bare scans of the same vectors, on one core")
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=50, help="queries of each kind")
    options = parser.parse_args()
    rows = list[dict[str, Any]]()
    for count in options.counts:
        with tempfile.TemporaryDirectory() as folder:
            alone(_draw, Path(folder), count, options.queries)
            built = alone(_build, Path(folder))
            rows += [{"vectors": count} | alone(way, Path(folder)) for way in (_numpy, _faiss)]
            rows.append({"vectors": count} | alone(_index, Path(folder)) | built)
    report("search", rows, options)


def alone(work: Callable[..., T], *given: Any) -> T:
    """Return the result of a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as one:
        return one.submit(work, *given).result()


def _draw(folder: Path, count: int, queries: int) -> None:
    """Write an index, its queries, and their best rows as the products of matrices find them."""
    space = Space()
    images = space.images(queries)
    asked = np.concatenate([images, space.sentences(images)])
    best, scores = np.zeros((2 * queries, 0), np.int64), np.zeros((2 * queries, 0), np.float32)
    store = create_store(folder, "benchmark", "0", DIM)
    for start in range(0, count, _AT_ONCE):
        vectors = space.images(min(_AT_ONCE, count - start))
        fill(store, vectors, start)
        here = asked @ vectors.astype(np.float16).astype(np.float32).T
        numbers = np.broadcast_to(np.arange(start, start + len(vectors)), here.shape)
        scores, best = np.concatenate([scores, here], axis=1), np.concatenate([best, numbers], axis=1)
        kept = np.argsort(-scores, axis=1)[:, :K]
        scores, best = np.take_along_axis(scores, kept, axis=1), np.take_along_axis(best, kept, axis=1)
    store.close()
    np.savez(folder / "queries.npz", asked=asked, best=best)


def _build(folder: Path) -> dict[str, Any]:
    near, started = _opened(folder), time.perf_counter()
    near.save()
    return {"build s": round(time.perf_counter() - started, 2), "build peak MiB": round(peak_mib())}


def _opened(folder: Path) -> Neighbours:
    return Neighbours(open_store(folder), "image", folder / "vectors-image.f16")


def _index(folder: Path) -> dict[str, Any]:
    started = time.perf_counter()
    near = _opened(folder)
    near.refresh()
    near.search(np.zeros(DIM, np.float32), K)
    opened = round(time.perf_counter() - started, 2)
    return _timed("the index", folder, lambda query: near.search(query, K)[0] - 1) | {"open s": opened}


def _numpy(folder: Path) -> dict[str, Any]:
    vectors = _vectors(folder).astype(np.float32)

    def search(query: Vectors) -> NDArray[np.int64]:
        return np.argpartition(-(vectors @ query), K)[:K]

    return _timed("NumPy, single precision", folder, search)


def _faiss(folder: Path) -> dict[str, Any]:
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexScalarQuantizer(DIM, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    flat.add(_vectors(folder).astype(np.float32))
    return _timed("FAISS, half precision", folder, lambda query: flat.search(query[None], K)[1][0])


def _vectors(folder: Path) -> NDArray[np.float16]:
    store = open_store(folder)
    return store.vectors(store.ids("image").tolist())[1]


def _timed(way: str, folder: Path, search: Search) -> dict[str, Any]:
    """Measure single queries: times in milliseconds, and the share of the true best that are found."""
    given = np.load(folder / "queries.npz")
    times, hits = [], 0
    with threadpool_limits(1):
        for query in given["asked"][:5]:
            search(query)
        for query, best in zip(given["asked"], given["best"], strict=True):
            started = time.perf_counter()
            found = search(query)
            times.append((time.perf_counter() - started) * 1e3)
            hits += len(set(best.tolist()).intersection(found.tolist()))
    return {
        "way": way,
        "p50 ms": round(float(np.percentile(times, 50)), 2),
        "p99 ms": round(float(np.percentile(times, 99)), 2),
        f"of the best {K}": round(hits / given["best"].size, 4),
        "peak MiB": round(peak_mib()),
    }


class Space:
    """A distribution of vectors: 3000 clusters of very different sizes around 100 topics."""

    def __init__(self, dim: int = DIM) -> None:
        self._rng = np.random.default_rng(0)
        self._spread = (np.arange(1, dim + 1) ** -0.35).astype(np.float32)
        topics = self._noise(100)
        self._clusters = unit(topics[self._rng.integers(0, 100, 3000)] + 0.9 * self._noise(3000))
        sizes = self._rng.zipf(1.4, 3000).clip(max=2000).astype(float)
        self._shares = sizes / sizes.sum()

    def images(self, count: int) -> Vectors:
        """Draw the next images, (count, dim)."""
        clusters = self._rng.choice(3000, count, p=self._shares)
        return unit(self._clusters[clusters] + 0.8 * self._noise(count))

    def sentences(self, images: Vectors) -> Vectors:
        """Draw a sentence for each image; all share an offset from the images, as in any two-branch space."""
        apart = unit(self._noise(1))
        return unit(0.5 * images + 0.45 * self._noise(len(images)) + 0.8 * apart)

    def _noise(self, rows: int) -> Vectors:
        return unit(self._rng.standard_normal((rows, len(self._spread)), dtype=np.float32) * self._spread)


def unit(rows: Vectors) -> Vectors:
    scaled: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def fill(store: Store, vectors: Vectors, first: int = 0) -> None:
    for start in range(0, len(vectors), 5000):
        contents = {
            f"{i:032x}": Content(vector, (640, 480))
            for i, vector in enumerate(vectors[start : start + 5000], first + start)
        }
        with store.write() as writer:
            writer.put_vectors("image", contents)
            writer.put_images({path_of(int(key, 16)): (key, FileState(0, 0, 0)) for key in contents})


def path_of(number: int) -> str:
    """Return the path of an image: half of all are in a folder, and a hundredth in a folder in it."""
    return f"{'half/few/' if number % 100 == 0 else 'half/' if number % 2 == 0 else ''}{number}.jpg"


if __name__ == "__main__":
    main()
