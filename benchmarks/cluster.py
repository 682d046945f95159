"""Encoding on a Ray cluster of this machine with one and two workers, compared with encoding without Ray.

Each variant fills a new feature store with the same photographs, in a process of its own; all take turns, and
the best turn of each counts. Ray takes one core per worker; without it, one core and then two are used. The
start of the cluster is not measured. That of the workers is: it is the time that the whole takes beyond the
rate of the last three quarters of the images. Needs `seesay[cluster]`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks._harness import arguments, report
from seesay.data.corpus import CorpusImage
from seesay.data.readers import read_corpus
from seesay.encoders.images.base import load_image_encoder
from seesay.encoders.images.encode import fill_stores
from seesay.encoders.stores import ArrayStore

ENCODER = "efficientnet-lite0-int8"
TURNS = 2

Taken = tuple[float, float]  # seconds, and images a second once it runs
Way = Callable[[Sequence[CorpusImage], int], Taken]


def main() -> None:
    parser = arguments("Images a second with Ray's workers and without", "a captioned corpus with its images")
    parser.add_argument("--images", type=int, default=4000, help="photographs that are encoded")
    options = parser.parse_args()
    if find_spec("ray") is None:
        print("Ray is not installed: pip install 'seesay[cluster]'", file=sys.stderr)
        return
    images = read_corpus(options.data.resolve()).images[: options.images]
    ways: dict[str, tuple[Way, int]] = {
        "without Ray, 1 core": (_plain, 1),
        "without Ray, 2 cores": (_plain, 2),
        "Ray, 1 worker": (_on_ray, 1),
        "Ray, 2 workers": (_on_ray, 2),
    }
    rows: dict[str, dict[str, Any]] = {}
    for name, (way, cores) in list(ways.items()) * TURNS:
        row = _measured(name, way, cores, images)
        rows[name] = min(rows.get(name, row), row, key=lambda each: float(each["seconds"]))
    report("cluster", list(rows.values()), options)


def _measured(name: str, way: Way, cores: int, images: Sequence[CorpusImage]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        seconds, rate = alone.submit(way, images, cores).result()
    return {
        "way": name,
        "load before": round(load, 1),
        "images": len(images),
        "seconds": round(seconds, 1),
        "images/s once it runs": round(rate, 1),
        "seconds to start": round(max(seconds - len(images) / rate, 0), 1),
    }


def _plain(images: Sequence[CorpusImage], cores: int) -> Taken:
    """Encode without Ray."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        fill_stores([load_image_encoder(ENCODER)], Path(folder), images)
        seconds = time.perf_counter() - began
    return seconds, len(images) / seconds


def _on_ray(images: Sequence[CorpusImage], workers: int) -> Taken:
    """Encode on a cluster that is already running."""
    import ray

    ray.init(address="local", num_cpus=workers, object_store_memory=500 << 20, log_to_driver=False)
    came: list[tuple[float, int]] = []
    add = ArrayStore.add

    def add_and_note(store: ArrayStore, items: Any) -> None:
        came.append((time.perf_counter(), len(items)))
        add(store, items)

    ArrayStore.add = add_and_note  # type: ignore[assignment,method-assign]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        fill_stores([load_image_encoder(ENCODER)], Path(folder), images, "auto")
        seconds = time.perf_counter() - began
    ray.shutdown()
    later = came[len(came) // 4 :]
    return seconds, sum(count for _, count in later[1:]) / (later[-1][0] - later[0][0])


if __name__ == "__main__":
    main()
