"""A server under hostile uploads, while somebody searches."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from PIL import Image

from seesay.search.index import Index
from tests.search.colours import Colours, gallery
from tools.torture.base import ROOT, Outcome, Stage, attack
from tools.torture.images import SHRUNK, bombs

P99 = 1.0  # seconds of a search
BYTES = 1_000_000_000  # by which a server may grow while images are uploaded
KEPT = 200_000_000  # of them, when it is over: an allocator keeps what it may need again
THREADS = 4  # that upload
PATIENCE = 30.0  # seconds in which an upload is repeated that the server was too busy for

SERVE = """
import sys
from seesay.search.index import Index
from seesay.web.app import serve
from tests.search.colours import Colours
serve(Index.open(sys.argv[1], Colours()), port=0)
"""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """A server of a small index; yields its port and its process."""
    with Index.create(folder / "index", Colours()) as index:
        index.update_images(gallery(folder / "photos", "red.png", "blue.png", "green.png"))
    with serving_at([sys.executable, "-c", SERVE, str(folder / "index")]) as served:
        yield served


@contextmanager
def serving_at(command: list[str]) -> Iterator[tuple[int, int]]:
    """Run a server that prints its address; yields its port and its process."""
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "", **_cache()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(":")[2])
    try:
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _cache() -> dict[str, str]:
    import os

    return {name: os.environ[name] for name in ("HOME", "SEESAY_CACHE") if name in os.environ}


def _search(port: int) -> float:
    """Seconds of one search; raises OSError if it is not answered with 200."""
    started = time.perf_counter()
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/api/v1/search?q=something+red")
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise OSError(f"status {answer.status}")
    finally:
        connection.close()
    return time.perf_counter() - started


def _searches(stage: Stage, port: int, outcome: Outcome, look: Callable[[], None] = lambda: None) -> None:
    """Search until the time is over, and look at something beside it; check answers and p99."""
    took: list[float] = []
    while stage.goes_on:
        look()
        try:
            took.append(_search(port))
            outcome.tried += 1
        except OSError as error:
            outcome.check(False, f"a search: {error}")
        time.sleep(0.01)
    p50, p99 = np.percentile(took, (50, 99)) if took else (np.inf, np.inf)
    outcome.check(stage.is_brief or bool(p99 <= P99), f"p99 of searches is {p99:.2f} s")
    outcome.measured = f"p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms"


def memory(process: int) -> int:
    """Return the bytes that a process has in RAM."""
    with Path(f"/proc/{process}/status").open() as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


@attack("hostile uploads", "four clients that upload bombs during searches")
def hostile_uploads(stage: Stage) -> Outcome:
    """Upload bombs, and photographs at the limit, from four threads."""
    outcome = Outcome()
    out = io.BytesIO()
    Image.new("RGB", (7000, 7000)).save(out, "PNG", compress_level=1)
    data = out.getvalue()
    built = bombs(SHRUNK if stage.is_brief else 1)
    uploads = [("49 megapixels", data), ("half of it", data[: len(data) // 2])]
    uploads += [each for each in built if len(each[1]) < 20 << 20]
    stage = replace(stage, started=time.monotonic())  # building the bombs took a while

    statuses: set[int] = set()

    def post(port: int, thread: int, gives_up: float) -> None:
        number, last = (len(uploads) * each // THREADS for each in (thread, thread + 1))
        while stage.goes_on or number < last:  # between them they upload each at least once
            name, image = uploads[number % len(uploads)]
            number += 1
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + image
            headers = {"Content-Type": "multipart/form-data; boundary=x"}
            try:
                connection.request("POST", "/api/v1/search", body + b"\r\n--x--\r\n", headers)
                status = connection.getresponse().status
                statuses.add(status)
                if status == 503 and time.monotonic() < gives_up:  # the server was busy: ask again, as told
                    number -= 1
                    time.sleep(0.05)
                outcome.check(status in (200, 413, 422, 503), f"{name}: status {status}")
            except OSError as error:
                outcome.check(False, f"{name}: {error}")
            finally:
                connection.close()

    with serving(stage.folder) as (port, process):
        _search(port)
        before, most = memory(process), 0

        def look() -> None:
            nonlocal most
            most = max(most, memory(process) - before)

        gives_up = time.monotonic() + PATIENCE  # counted from the first answer: a busy machine starts it late
        threads = [threading.Thread(target=post, args=(port, each, gives_up)) for each in range(THREADS)]
        for thread in threads:
            thread.start()
        _searches(stage, port, outcome, look)
        for thread in threads:
            thread.join()
        _search(port)
        kept = memory(process) - before
        # A server that refuses everything, or takes everything, was not attacked.
        outcome.check({200, 422} <= statuses, f"only the statuses {sorted(statuses)}")
        outcome.check(most < BYTES, f"the server grew by {most / 1e6:.0f} MB")
        outcome.check(kept < KEPT, f"the server kept {kept / 1e6:.0f} MB")
        outcome.measured += f", server grew by {most / 1e6:.0f} MB and kept {kept / 1e6:.0f}"
    return outcome
