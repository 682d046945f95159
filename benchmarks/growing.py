"""A large index in daily use: filters by time, updates that find nothing new, and a thousand new images.

The index is drawn as in `benchmarks.search`, with a photo every ten minutes. "Nothing new" is what an update
does after it has compared the files. Processor time hardly depends on other processes. Memory is the
process's own, without the files that it maps.

    python -m benchmarks.growing [--vectors 1000000] [--folder FOLDER]

The index is kept in FOLDER for the next run.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, report
from benchmarks.search import DIM, Space, alone
from seesay.runs.embedder import Embedder
from seesay.search.filters import Filter
from seesay.search.judging import Judge
from seesay.search.neighbours import Neighbours
from seesay.search.store import Store

NEW = 1000
MOST_MS = {"`taken:2010..2015`": 100, "nothing new": 50, "1,000 new: saved": 1000}
MOST_MIB = 100
_AT_ONCE = 50_000
_FIRST, _APART = 946_684_800, 631  # seconds since 1970 of the first photo, and between two


def main() -> None:
    parser = arguments("A large index from day to day")
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the index is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "index.sqlite").exists():
            folder.mkdir(parents=True, exist_ok=True)
            alone(draw, folder, options.vectors)
        alone(save, folder)
        rows = alone(measured, folder)
    report("growing", rows, options)
    for row in rows:
        most = MOST_MS.get(row["what"], np.inf)
        if options.vectors <= 1_000_000 and (row["processor ms"] > most or row["private MiB"] > MOST_MIB):
            raise SystemExit(1)


def draw(folder: Path, count: int) -> None:
    space, store = Space(), Store.create(folder / "index.sqlite", "benchmark", "0", DIM)
    for start in range(0, count, _AT_ONCE):
        put(store, space.images(min(_AT_ONCE, count - start)), start)
    store.close()


def put(store: Store, vectors: NDArray[np.float32], first: int) -> None:
    with store.write() as writer:
        for number, vector in enumerate(vectors, first):
            key = f"{number:032x}"
            writer.put_vector("image", key, vector, (640, 480))
            writer.put_image(f"{number // 1000}/{number}.jpg", key, (_FIRST + _APART * number) * 10**9, 0)


def opened(folder: Path) -> tuple[Store, Neighbours]:
    store = Store.open(folder / "index.sqlite")
    return store, Neighbours(store, "image", folder / "vectors-image.f16")


def save(folder: Path) -> None:
    store, near = opened(folder)
    near.save()
    Judge(store).learn(cast(Embedder, Sentences()))


class Sentences:
    """An embedder of the sentences that an index is judged by."""

    def embed_sentences(  # noqa: D102 — the interface's
        self, texts: Sequence[object], query: bool = False
    ) -> NDArray[np.float32]:
        del query
        return np.random.default_rng(0).standard_normal((len(texts), DIM)).astype(np.float32)


def measured(folder: Path) -> list[dict[str, Any]]:
    store, near = opened(folder)
    judge, run, rows = Judge(store), cast(Embedder, Sentences()), list[dict[str, Any]]()
    count = store.count("image")

    def row(what: str, work: Callable[[], object], repeats: int = 1) -> None:
        load = round(os.getloadavg()[0], 1)
        seconds, processor = list[float](), list[float]()
        with private_mib() as grown:
            for _ in range(repeats):
                started, used = time.perf_counter(), time.process_time()
                work()
                seconds.append(time.perf_counter() - started)
                processor.append(time.process_time() - used)
        times = {"ms": round(1e3 * min(seconds)), "processor ms": round(1e3 * min(processor))}
        rows.append({"what": what, "images": count, "load before": load, **times, "private MiB": grown()})

    def nothing_new() -> None:
        with store.write():  # as an update does
            pass
        judge.learn(run)
        near.save()

    row("opened", near.refresh)
    for where in ("taken:2005", "taken:2010..2015", "folder:12"):
        row(f"`{where}`", partial(store.matching, Filter.parse(where)), 5)
    row("nothing new", nothing_new, 5)
    put(store, Space().images(NEW) + 1e-3, count)
    row("1,000 new: found", near.refresh)
    row("1,000 new: saved", near.save)
    return rows


@contextmanager
def private_mib() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the largest growth of this process's own memory, in MiB (Linux)."""
    ended, seen = threading.Event(), [_private()]

    def look() -> None:
        while not ended.wait(0.01):
            seen.append(_private())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lambda: round((max(*seen, _private()) - seen[0]) / 1024)
    finally:
        ended.set()
        watcher.join()


def _private() -> int:
    """The memory of this process that is not mapped from files, in KiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0])


if __name__ == "__main__":
    main()
