"""Searches per second and their times under load: the server, a bare FastAPI endpoint, the matcher alone.

Clients on the same machine keep one connection each and send the next query when the last is answered. The
bare endpoint answers with about as many bytes as a search, from the same server software. The matcher alone
embeds and searches one query after another in this process, without HTTP.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._harness import arguments, report
from seesay.search.index import Index
from seesay.search.store import Store

CLIENTS = (1, 8, 64)
WORDS = ("dog", "cat", "child", "woman", "red", "blue", "beach", "snow", "street", "grass", "ball", "horse")

SERVE = """
import sys
from seesay.search.index import Index
from seesay.web.app import serve
from seesay.web.options import ServerOptions
serve(Index.open(sys.argv[1]), port=0, options=ServerOptions(warm_up=True, ground_run="seesay-ground"))
"""

BARE = """
import socket, sys
import uvicorn
from fastapi import FastAPI
app = FastAPI()
body = [{"id": i, "path": f"{i}.jpg", "score": 0.5, "width": 640, "height": 480} for i in range(40)]
@app.get("/api/v1/search")
async def search(q: str):
    return body
listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen(256)
print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, http="h11", log_level="warning")).run(sockets=[listening])
"""


def main() -> None:
    parser = arguments("Queries per second, p50 and p99 of search for 1, 8 and 64 clients")
    parser.add_argument("--count", type=int, default=10_000, help="images in the index, of drawn vectors")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--requests", type=int, default=100_000, help="before the last measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.count, options.seconds, options.requests)
    report("load", rows, options)


def measure(folder: Path, count: int, seconds: float, requests: int) -> list[dict[str, Any]]:
    path = drawn_index(folder / "index", count)
    rows = [row("the matcher alone, no HTTP", 1, partial(alone, path, seconds), seconds)]
    with serving(BARE) as port:
        rows += [
            row("bare FastAPI endpoint", each, partial(ask, port, each, seconds), seconds) for each in CLIENTS
        ]
    with serving(SERVE, path) as port:
        rows += [row("search", each, partial(ask, port, each, seconds), seconds) for each in CLIENTS]
        with indexing(folder):
            busy = "search while another process indexes"
            rows.append(row(busy, 8, partial(ask, port, 8, seconds), seconds))
        use(port, requests)
        used = f"search after {requests:,} requests"
        rows.append(row(used, 8, partial(ask, port, 8, seconds), seconds))
    return rows


def drawn_index(path: Path, count: int) -> Path:
    """Create an index of drawn unit vectors, whose searches take as long as those of photographs."""
    draw = np.random.default_rng(0)
    with Index.create(path) as index:
        assert isinstance(index.store, Store)
        for start in range(0, count, 1000):
            vectors = draw.standard_normal((1000, index.run.dim)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            with index.store.write() as writer:
                for i, vector in enumerate(vectors, start):
                    writer.put_vector("image", f"{i:032x}", vector, (640, 480))
                    writer.put_image(f"{i}.jpg", f"{i:032x}", 0, 0)
    return path


def query(draw: np.random.Generator) -> str:
    return " ".join(draw.choice(WORDS, 6))


def alone(path: Path, seconds: float) -> list[float]:
    draw, took = np.random.default_rng(1), list[float]()
    with Index.open(path) as index:
        index.search("a photograph", 40)
        until = time.perf_counter() + seconds
        while (started := time.perf_counter()) < until:
            index.search(query(draw), 40)
            took.append(time.perf_counter() - started)
    return took


def ask(port: int, clients: int, seconds: float) -> list[float]:
    """Return the seconds of each request that was sent within the time."""
    took: list[float] = []
    until = time.perf_counter() + seconds

    def client(seed: int) -> None:
        draw = np.random.default_rng(seed)
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while (started := time.perf_counter()) < until:
            connection.request("GET", f"/api/v1/search?limit=40&q={query(draw).replace(' ', '+')}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            took.append(time.perf_counter() - started)
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def use(port: int, requests: int) -> None:
    """Send requests from eight connections: one in fifty is a search, the others get the update's state."""

    def client(seed: int) -> None:
        draw = np.random.default_rng(seed)
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        for number in range(requests // 8):
            search = f"search?q={query(draw).replace(' ', '+')}"
            connection.request("GET", f"/api/v1/{'update' if number % 50 else search}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        connection.close()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(client, seed) for seed in range(8)]:
            done.result()


@contextmanager
def serving(source: str, *given: object) -> Iterator[int]:
    """Start a server in a process of its own and warm it up; yield its port."""
    command = [sys.executable, "-c", source, *map(str, given)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().rpartition(":")[2])
        time.sleep(3.0 if given else 0.0)  # until grounding is also loaded
        ask(port, 1, 1.0)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def indexing(folder: Path) -> Iterator[None]:
    """Index photographs in another process within the block."""
    photos = folder / "photos"
    photos.mkdir()
    draw = np.random.default_rng(0)
    for number in range(300):
        Image.fromarray(draw.integers(0, 255, (480, 640, 3), np.uint8)).save(photos / f"{number}.jpg")
    command = [sys.executable, "-m", "seesay.cli", "index", str(photos), "--out", str(folder / "other")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(3.0)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def row(way: str, clients: int, measured: Callable[[], list[float]], seconds: float) -> dict[str, Any]:
    load, took = round(os.getloadavg()[0], 2), measured()
    p50, p99 = np.percentile(took, (50, 99)) * 1e3
    return {
        "way": way,
        "clients": clients,
        "load before": load,
        "queries/s": round(len(took) / seconds, 1),
        "p50 ms": round(float(p50), 1),
        "p99 ms": round(float(p99), 1),
    }


if __name__ == "__main__":
    main()
