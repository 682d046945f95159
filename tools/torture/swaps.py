"""Photos that are swapped for links to private files, pipes and other folders while a server sends them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

from PIL import Image

from seesay.search.index import Index
from tests.search.colours import Colours, gallery
from tools.torture.base import Outcome, Stage, attack
from tools.torture.server import SERVE, serving_at

CLIENTS = 4
LATE = 20.0  # seconds after which an answer counts as hung
SECRET = "a camera that nobody may know"

# Swaps a photo, and the folder above another one, as fast as it can, and deletes the index's thumbnails.
SWAP = """
import os, shutil, sys
from itertools import count
photos, secrets, index = sys.argv[1:]
os.chdir(photos)
os.rename("red.png", ".photo")
os.rename("sub", ".folder")
for number in count():
    kind = ("photo", "link", "photo", "pipe")[number % 4]
    if kind == "photo":
        os.link(".photo", ".next")
    elif kind == "link":
        os.symlink(secrets + "/green.png", ".next")
    else:
        os.mkfifo(".next")
    os.replace(".next", "red.png")
    if number % 2:
        os.remove("sub")
        os.symlink(secrets, "sub")
    else:
        if os.path.lexists("sub"):
            os.remove("sub")
        os.symlink(".folder", "sub")
    if not number % 20_000:
        shutil.rmtree(index + "/thumbnails", ignore_errors=True)
"""


@contextmanager
def swapping(photos: Path, secrets: Path, index: Path) -> Iterator[None]:
    """Swap photos until the end of the block."""
    process = subprocess.Popen([sys.executable, "-c", SWAP, photos, secrets, index])
    try:
        yield
    finally:
        assert process.poll() is None, "nothing was swapped"
        process.kill()
        process.wait()


def _is_black(data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as image:
        return max(image.convert("RGB").resize((1, 1)).tobytes()) < 60


def _members(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist()]


ROUTES: dict[str, tuple[str, Callable[[bytes], bool]]] = {
    "original": ("{0}/original", _is_black),
    "zip": ("archive?id={0}&id={1}", lambda data: any(map(_is_black, _members(data)))),
    "thumbnail": ("{0}/thumbnail", _is_black),
    "view": ("{0}/view", _is_black),
    "facts": ("{0}", lambda data: SECRET.encode() in data),
}
"""The routes that read files: their addresses, and whether an answer is of the private file."""


@attack(
    "swaps",
    "photos swapped for links, pipes and other folders while each route sends them: no foreign bytes",
)
def swaps(stage: Stage) -> Outcome:
    """Ask each route for its share of the time; the photos are red and green, the private file is black."""
    outcome, counted = Outcome(), Counter[str]()
    secrets = stage.folder / "secrets"
    secrets.mkdir()
    exif = Image.Exif()
    exif[0x0110] = SECRET
    Image.new("RGB", (64, 48)).save(secrets / "green.png", exif=exif)
    photos, index = gallery(stage.folder / "photos", "red.png", "sub/green.png"), stage.folder / "index"
    with Index.create(index, Colours()) as made:
        made.update_images(photos)
    server = serving_at([sys.executable, "-c", SERVE, str(index)])
    with server as (port, _), swapping(photos, secrets, index):
        for route in ROUTES:
            _ask(route, port, replace(stage, seconds=stage.seconds / len(ROUTES)), outcome, counted)
    outcome.measured = ", ".join(f"{route} {count:,}" for route, count in counted.items()) + " with an image"
    return outcome


def _ask(route: str, port: int, stage: Stage, outcome: Outcome, counted: Counter[str]) -> None:
    stage = replace(stage, started=time.monotonic())
    address, is_foreign = ROUTES[route]
    lock = threading.Lock()
    connection = HTTPConnection("127.0.0.1", port, timeout=LATE)
    connection.request("GET", "/api/v1/images")
    ids = [image["id"] for image in json.loads(connection.getresponse().read())["results"]]

    def ask() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=LATE)
        turn = 0
        while stage.goes_on or not turn:
            turn += 1
            one, other = ids[turn % len(ids)], ids[(turn + 1) % len(ids)]
            try:
                connection.request("GET", f"/api/v1/images/{address.format(one, other)}")
                answer = connection.getresponse()
                data = answer.read()
            except OSError as error:
                connection.close()
                with lock:
                    outcome.check(False, f"{route}: {error}")
                continue
            with lock:
                outcome.check(answer.status in (200, 404, 422), f"{route}: status {answer.status}")
                outcome.check(answer.status != 200 or not is_foreign(data), f"{route}: foreign bytes")
                counted[route] += answer.status == 200

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
