"""What one core serves and indexes: a table of capacity by the number of photos.

`seesay serve` runs on one core, over an index of `seesay-small` whose vectors are drawn as in
`benchmarks.search`. One client asks new sentences over HTTP. Queries a second a core are by the processor
time of the server, which other work on the machine changes less than the time that the client waits. Photos
indexed an hour are of 12 megapixels, by the processor time of `benchmarks.indexing`.

    python -m benchmarks.capacity [--counts 10000 100000 1000000]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import indexing
from benchmarks._harness import arguments, report
from benchmarks.search import Space, alone, fill
from seesay.runs.run import Run
from seesay.search import Index
from seesay.search.index import open_store
from seesay.search.neighbours import Neighbours

_AT_ONCE = 50_000  # drawn
_WARM = 20  # queries
_WORDS = (
    (
        "a brown dog",
        "two girls",
        "an old man",
        "a red car",
        "some children",
        "a woman in a hat",
        "three horses",
    ),
    ("running", "sitting", "standing", "jumping", "waiting", "sleeping", "playing", "walking"),
    (
        "on the beach",
        "in a park",
        "beside a lake",
        "on a bench",
        "in the snow",
        "near a house",
        "in the street",
    ),
)


def main() -> None:
    parser = arguments("Queries a second a core, memory, and photos indexed an hour, by the number of photos")
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=200, help="at most 392")
    parser.add_argument("--photos", type=int, default=60, help="number of photos that are made and indexed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photo_ms = alone(indexing.measured, Path(folder), options.photos)["seesay, ms"]
    rows = []
    for count in options.counts:
        with tempfile.TemporaryDirectory() as folder:
            alone(_build, Path(folder), count)
            row = {"photos": count} | _served(Path(folder) / "index", options.queries)
        row["photos indexed an hour a core"] = round(3.6e6 / photo_ms)
        row["hours to index them"] = round(count * photo_ms / 3.6e6, 1)
        rows.append(row | {"load": round(os.getloadavg()[0], 1)})
    report("capacity", rows, options)


def _build(folder: Path, count: int) -> None:
    """Write an index as updates leave it, with the vectors in their own file."""
    (folder / "photos").mkdir()
    Image.new("RGB", (64, 48), "red").save(folder / "photos" / "one.png")
    with Index.create(folder / "index", "seesay-small") as index:
        index.update_images(folder / "photos")  # the folder becomes that of the index
        space = Space(Run.load("seesay-small").dim)
        for start in range(0, count, _AT_ONCE):
            fill(index.store, space.images(min(_AT_ONCE, count - start)), start)
    Neighbours(open_store(folder / "index"), "image", folder / "index/vectors-image.f16").save()


def _served(index: Path, queries: int) -> dict[str, Any]:
    """Serve an index on one core and ask it; return the row."""
    core = max(os.sched_getaffinity(0))
    program = [sys.executable, "-m", "seesay", "serve", str(index), "--port", "0"]
    started = time.perf_counter()
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            sentences = [" ".join(parts) for parts in islice(product(*_WORDS), _WARM + queries)]
            for sentence in sentences[:_WARM]:
                _ask(address, sentence)
            ready, before = time.perf_counter() - started, _processor_seconds(server.pid)
            times = [_ask(address, sentence) for sentence in sentences[_WARM:]]
            spent = _processor_seconds(server.pid) - before
            return {
                "queries a second a core": round(len(times) / spent, 1),
                "p50 ms": round(1e3 * float(np.median(times)), 1),
                "peak MiB": _peak_mib(server.pid),
                "index, GB": round(sum(file.stat().st_size for file in index.iterdir()) / 1e9, 2),
                "seconds until ready": round(ready, 1),
            }
        finally:
            server.terminate()


def _ask(address: str, sentence: str) -> float:
    """Return the seconds that one answer took."""
    query = urllib.parse.urlencode({"q": sentence, "limit": 40})
    started = time.perf_counter()
    with urllib.request.urlopen(f"{address.rstrip('/')}/api/v1/search?{query}") as answer:
        answer.read()
    return time.perf_counter() - started


def _processor_seconds(process: int) -> float:
    facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
