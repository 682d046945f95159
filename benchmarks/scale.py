"""A million vectors in the embedded store, and what that means for ten thousand millions.

Drawing, filling and searching are processes of their own, so that the memory is that of searching alone. The
plan is computed from the recorded rows of this benchmark and of `benchmarks.int8`, and from two prices that
are assumptions: a core for an hour, and a GB of memory for an hour.
"""

from __future__ import annotations

import json
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

from benchmarks._harness import RESULTS, arguments, peak_mib, report
from benchmarks.search import DIM, K, draw, fill, size, timed
from seesay.search.ann import Neighbours
from seesay.search.store import Store

T = TypeVar("T")
UPDATE = 10_000
QUERIES = 200
_ROWS = 100_000  # multiplied at once

# What stops working first, by the number of images, and what one does about it.
BREAKS = {
    10**6: "nothing: one process",
    10**7: "building in memory takes minutes; a second process searches meanwhile",
    10**8: "an eighth of the lists is too many to read: fewer probes, or Qdrant's graph",
    10**9: "the vectors fill no machine's memory: shards of a database, vectors of 8 bits or fewer on disk",
    10**10: "one SQLite file of paths and facts: an index a shard, and queries sent to all",
}


def main() -> None:
    parser = arguments("10⁵ and 10⁶ vectors in the embedded store; a plan to 10¹⁰ images")
    parser.add_argument("--counts", default="100000,1000000", help="vectors in the index")
    parser.add_argument("--plan", action="store_true", help="compute the plan from recorded rows only")
    parser.add_argument(
        "--core-hour", type=float, default=0.04, help="assumed price of a core for an hour, $"
    )
    parser.add_argument("--gb-hour", type=float, default=0.005, help="assumed price of a GB of memory, $")
    options = parser.parse_args()
    if options.plan:
        rows = [row for row in _recorded() if row["benchmark"] == "scale"]
    else:
        rows = [measured(int(count)) for count in options.counts.split(",")]
        report("scale", rows, options)
    report("scale-plan", plan(rows, options), options)


def measured(count: int) -> dict[str, Any]:
    """Measure one size."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        filled = _alone(_fill, Path(folder), count)
        built = _alone(_build, Path(folder))
        found = _alone(_search, Path(folder))
    return {"vectors": count, "load before": round(load, 1)} | filled | built | found


def _alone(work: Callable[..., T], *given: Any) -> T:
    """Do something in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as one:
        return one.submit(work, *given).result()


def _fill(folder: Path, count: int) -> dict[str, Any]:
    vectors, asked = draw(count, QUERIES)
    more = draw(UPDATE, 0)[0]
    queries = asked["image"]
    scores = np.concatenate([queries @ _half(vectors[i : i + _ROWS]).T for i in range(0, count, _ROWS)], 1)
    np.savez(folder / "queries.npz", queries=queries, best=np.argpartition(scores, -K)[:, -K:], more=more)
    store = Store.create(folder / "index.sqlite", "benchmark", "0", DIM)
    started = time.perf_counter()
    fill(store, vectors)
    seconds = time.perf_counter() - started
    store.close()
    return {
        "items/s written": round(count / seconds),
        "SQLite MB": round(size(folder / "index.sqlite") / 1e6),
    }


def _build(folder: Path) -> dict[str, Any]:
    store = Store.open(folder / "index.sqlite")
    near = Neighbours(store, "image", folder / "vectors.faiss")
    started = time.perf_counter()
    near.save()
    seconds = time.perf_counter() - started
    megabytes = round(size(folder / "vectors.faiss") / 1e6)
    return {"build s": round(seconds, 1), "FAISS MB": megabytes, "build peak MiB": round(peak_mib())}


def _search(folder: Path) -> dict[str, Any]:
    kept = np.load(folder / "queries.npz")
    store = Store.open(folder / "index.sqlite")
    near = Neighbours(store, "image", folder / "vectors.faiss")
    started = time.perf_counter()
    near.refresh()
    opened = time.perf_counter() - started
    truth = [set(best.tolist()) for best in kept["best"]]
    p50, p99, recall = timed(lambda q: near.search(q, K)[0] - 1, kept["queries"], truth)
    peak = peak_mib()
    started = time.perf_counter()
    with store.write() as writer:
        for number, vector in enumerate(kept["more"]):
            writer.put_vector("image", f"more-{number}", vector, (640, 480))
            writer.put_image(f"more/{number}.jpg", f"more-{number}", 0, 0)
    near.refresh()
    updated = time.perf_counter() - started
    return {
        "open s": round(opened, 1),
        "p50 ms": round(p50, 2),
        "p99 ms": round(p99, 2),
        "recall@10": round(recall, 4),
        "peak MiB": round(peak),
        "updates/s": round(UPDATE / updated),
    }


def _half(vectors: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """What the store keeps of them."""
    kept: np.ndarray[Any, np.dtype[np.float32]] = vectors.astype(np.float16).astype(np.float32)
    return kept


def _recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def plan(rows: list[dict[str, Any]], options: Namespace) -> list[dict[str, Any]]:
    """Compute what so many images take, in proportion to the largest size that was measured."""
    largest = max(rows, key=lambda row: int(row["vectors"]))
    encoders = [row for row in _recorded() if row["benchmark"] == "int8"]
    (image_ms,) = (row["int8 ms"] for row in encoders if row["encoder"].startswith("all images'"))
    count = largest["vectors"]
    planned = []
    for images, breaks in BREAKS.items():
        share = images / count
        core_hours = images * image_ms / 3.6e6
        memory = largest["peak MiB"] * share * 2**20 / 1e9
        planned.append(
            {
                "images": f"{images:.0e}".replace("e+0", "e").replace("e+", "e"),
                "encoding, core hours": _short(core_hours),
                "encoding, $": _short(core_hours * options.core_hour),
                "$ a million images": _short(1e6 * image_ms / 3.6e6 * options.core_hour),
                "on disk GB": _short((largest["SQLite MB"] + largest["FAISS MB"]) * share / 1e3),
                "memory GB": _short(memory),
                "memory, $ a month": _short(memory * options.gb_hour * 730),
                "p50 ms, an eighth read": _short(largest["p50 ms"] * share),
                "what breaks next": breaks,
            }
        )
    return planned


def _short(number: float) -> float:
    """Two significant digits: it is an extrapolation."""
    return float(f"{number:.2g}")


if __name__ == "__main__":
    main()
