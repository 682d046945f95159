"""Searches, uploads, pages and updates of a served index together: memory stays as it is."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from tools.torture.base import Outcome, Stage, attack
from tools.torture.server import memory, serving_at

FLAT = 0.05  # share of its memory by which the server may grow
WARMING = 0.25  # share of the time after which memory is compared: caches fill, and threads start
PHOTOS = 60
WORDS = "a dog man woman red car beach snow water two playing ball grass child bike on the runs near tree"

SERVE = """
import sys
from seesay.cli import main
main(["serve", sys.argv[1], "--port", "0"])
"""


def photo(draw: Random) -> Image.Image:
    """A picture of coloured blocks, of a size that photos of phones have when they are sent."""
    width, height = draw.randint(600, 1600), draw.randint(400, 1200)
    blocks = np.frombuffer(draw.randbytes(8 * 6 * 3), np.uint8).reshape(6, 8, 3)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.BICUBIC)


def query(draw: Random) -> str:
    """A query of a few words, hardly ever the same twice."""
    return "+".join(draw.choices(WORDS.split(), k=draw.randint(1, 12)))


@dataclass
class Load:
    """Clients of one server, each of which asks one request after the other until it is over."""

    stage: Stage
    port: int
    photos: Path
    outcome: Outcome = field(default_factory=Outcome)
    asked: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, watch: Callable[[], None]) -> None:
        """Ask until the time is over; call `watch` every second."""
        loops = {"search": self._search, "upload": self._upload, "page": self._page, "update": self._update}
        threads = [
            threading.Thread(target=self._repeat, args=(name, once, Random(self.stage.draw.random())))
            for name, once in loops.items()
        ]
        for thread in threads:
            thread.start()
        while self.stage.goes_on:
            time.sleep(1)
            watch()
        for thread in threads:
            thread.join()

    def _repeat(self, name: str, once: Callable[[Random, Callable[..., bytes]], None], draw: Random) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)

        def ask(address: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
            connection.request("GET" if body is None else "POST", address, body, headers or {})
            answer = connection.getresponse()
            said = answer.read()
            with self.lock:
                self.asked[name] = self.asked.get(name, 0) + 1
                allowed = answer.status in (200, 202, 304, 404, 409, 503)  # 503: it is busy, and says so
                allowed = allowed or b"no such image in the index" in said  # an update has deleted it
                self.outcome.check(allowed, f"{address}: status {answer.status}: {said[:200]!r}")
            return said

        while self.stage.goes_on:
            try:
                once(draw, ask)
            except (OSError, HTTPException) as error:
                with self.lock:  # a photo that is deleted while it is sent ends its connection
                    self.outcome.check(name == "page", f"{name}: {error}")
                connection.close()
        connection.close()

    def _search(self, draw: Random, ask: Callable[..., bytes]) -> None:
        ask(f"/api/v1/search?q={query(draw)}&limit={draw.randint(1, 50)}")

    def _upload(self, draw: Random, ask: Callable[..., bytes]) -> None:
        photo(draw).save(out := io.BytesIO(), "JPEG")
        part = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        address = draw.choice(("/api/v1/search", "/api/v1/sentences"))
        ask(address, part + out.getvalue() + b"\r\n--x--\r\n", headers)

    def _page(self, draw: Random, ask: Callable[..., bytes]) -> None:
        page = json.loads(ask("/api/v1/images?limit=20"))
        for image in page["results"][:5]:
            ask(f"/api/v1/images/{image['id']}/thumbnail")
        some = draw.choice(page["results"])["id"]
        for address in (f"{some}", f"{some}/original", "months", "folders"):
            ask(f"/api/v1/images/{address}")
        ask(f"/api/v1/search?q=id:{some}")
        ask("/metrics")
        ask("/api/v1/images/duplicates")

    def _update(self, draw: Random, ask: Callable[..., bytes]) -> None:
        files = sorted(self.photos.iterdir())
        for file in draw.sample(files, 6):
            file.unlink()
        for _ in range(6):
            photo(draw).save(self.photos / f"{draw.randrange(10**9)}.jpg")
        ask("/api/v1/update", b"")
        for _ in count():
            if not json.loads(ask("/api/v1/update"))["running"] or not self.stage.goes_on:
                break
            time.sleep(0.5)
        time.sleep(2)


@contextmanager
def serving_run(stage: Stage, photos: Path) -> Iterator[tuple[int, int]]:
    """Serve an index of photos as `seesay serve` does; yields its port and its process."""
    from seesay.search.index import Index

    photos.mkdir()
    for number in range(PHOTOS):
        photo(stage.draw).save(photos / f"{number}.jpg")
    with Index.create(stage.folder / "index") as index:
        index.add_sentences(["a dog runs on the beach", "a red car", "two cats"])
        index.update_images(photos)
    with serving_at([sys.executable, "-c", SERVE, str(stage.folder / "index")]) as served:
        yield served


@attack(
    "mixed load",
    "searches, uploads, pages and updates together: "
    f"memory grows by at most {FLAT:.0%} after the first quarter",
)
def mixed_load(stage: Stage) -> Outcome:
    """Note the server's memory every second; compare its medians after the first quarter and at the end."""
    with serving_run(stage, stage.folder / "photos") as (port, process):
        started = time.monotonic()  # when the server answers, not when its index was begun
        load = Load(replace(stage, started=started), port, stage.folder / "photos")
        seconds, sizes = [], []

        def watch() -> None:
            seconds.append(time.monotonic() - started)
            sizes.append(memory(process))
            if int(seconds[-1]) % 30 == 0:
                print(f"  {seconds[-1]:4.0f} s: {sizes[-1] / 1e6:.0f} MB", flush=True)

        load.run(watch)
    warm = [index for index, at in enumerate(seconds) if at >= WARMING * seconds[-1]]
    tenth = max(len(warm) // 10, 1)
    times, kept = (np.array(each)[warm] for each in (seconds, sizes))
    before, after = np.median(kept[:tenth]), np.median(kept[-tenth:])
    slope = np.polyfit(times / 60, kept / 1e6, 1)[0] if len(warm) > 1 else 0.0
    outcome = load.outcome
    growth = after / before - 1
    outcome.check(stage.is_brief or bool(growth <= FLAT), f"memory grew by {growth:.1%}")
    asked = ", ".join(f"{name} {number:,}" for name, number in sorted(load.asked.items()))
    outcome.measured = (
        f"{before / 1e6:.0f} MB, {growth:+.1%}, {slope:+.2f} MB/min in {seconds[-1] / 60:.0f} min; {asked}"
    )
    return outcome
