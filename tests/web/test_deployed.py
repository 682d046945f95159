"""deploy/postgresql.sh as its clients see it: Caddy, two servers, and three PostgreSQL servers."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from PIL import Image

from tests.search.test_postgresql_cluster import Servers, servers
from tests.web.test_proxies import DEPLOY, NAME, free_port

__all__ = ["servers"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed"),
]

TOKEN = "a-token-of-many-letters"
FIRST, MORE = 40, 400
SECONDS = 180  # a failed update is tried again after a minute


def photo(number: int, side: int = 64) -> bytes:
    """An encoded image of noise."""
    drawn = np.random.default_rng(number).integers(0, 256, (side, side, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(drawn).save(out, "PNG")
    return out.getvalue()


def write(folder: Path, numbers: range) -> None:
    for number in numbers:
        (folder / f"{number}.png").write_bytes(photo(number))


class Service:
    """What the script has started, and a client of it."""

    def __init__(self, index: str, folder: Path) -> None:
        self.photos = folder / "photos"
        self.photos.mkdir()
        write(self.photos, range(FIRST))
        (folder / "token").write_text(TOKEN)
        program = f"#!{sys.executable}\nfrom seesay.cli import main\nmain()\n"
        (folder / "seesay").write_text(program)
        (folder / "seesay").chmod(0o755)
        self.ports, port = (free_port(), free_port()), free_port()
        told = {
            "HOME": str(folder),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PHOTOS": str(self.photos),
            "SEESAY_CACHE": str(folder / "cache"),
            "SEESAY_HOST": f"http://{NAME}:{port}",
            "SEESAY_PORTS": " ".join(map(str, self.ports)),
            "SEESAY_SERVE_TOKEN_FILE": str(folder / "token"),
        }
        self._log = (folder / "log").open("wb")
        self._script = subprocess.Popen(
            [DEPLOY / "postgresql.sh", index, "--prefix", "/photos"],
            env=os.environ | told,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/photos/api/v1",
            headers={"Host": f"{NAME}:{port}", "Authorization": f"Bearer {TOKEN}"},
            timeout=60,
        )

    def images(self) -> int:
        """The number of images; -1 while it is not known."""
        with suppress(httpx.HTTPError):
            answer = self.client.get("/status")
            if answer.status_code == 200:
                return int(answer.json()["images"])
        return -1

    def wait_for(self, what: Callable[[], bool]) -> None:
        until = time.monotonic() + SECONDS
        while not what():
            assert self._script.poll() is None, Path(self._log.name).read_text()[-3000:]
            assert time.monotonic() < until, Path(self._log.name).read_text()[-3000:]
            time.sleep(0.1)

    def answers(self, number: int) -> bool:
        """Whether a server itself answers."""
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.ports[number])).close()
            return True
        return False

    def kill(self, number: int) -> None:
        """Kill a server at once."""
        (found,) = [
            int(folder.name)
            for folder in Path("/proc").glob("[0-9]*")
            if f"--port\0{self.ports[number]}\0".encode() in _command(folder)
        ]
        os.kill(found, signal.SIGKILL)

    def end(self) -> None:
        self.client.close()
        self._script.terminate()
        try:
            assert self._script.wait(60) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._script.pid, signal.SIGKILL)
            self._log.close()


def _command(folder: Path) -> bytes:
    with suppress(OSError):
        return (folder / "cmdline").read_bytes()
    return b""


@pytest.fixture
def service(servers: Servers, tmp_path: Path) -> Iterator[Service]:
    made = Service(f"{servers.address}#photos", tmp_path)
    try:
        made.wait_for(lambda: made.images() == FIRST and made.answers(1))
        yield made
    finally:
        made.end()


def test_two_servers_answer_as_one_and_nothing_is_lost(service: Service, servers: Servers) -> None:
    client = service.client
    assert client.get("/status", headers={"Authorization": "Bearer wrong"}).status_code == 401
    direct = f"http://127.0.0.1:{service.ports[0]}/photos/api/v1/status"
    assert httpx.get(direct, headers={"Host": "elsewhere.example.org"}).status_code == 400
    elsewhere = str(client.base_url).replace("/photos/api/v1/", "/other/api/v1/status")
    assert client.get(elsewhere).status_code == 404

    large = photo(0, 2620)
    assert 19 * 2**20 < len(large) < 20 * 2**20
    found = client.post("/search", params={"limit": 10}, files={"image": ("noise.png", large)})
    assert len(found.json()["results"]) == 10
    # Caddy may answer before it has read all; the rest would be the next request of the connection.
    alone = {"Connection": "close"}
    too_large = client.post(
        "/search", files={"image": ("noise.png", large + bytes(2 * 2**20))}, headers=alone
    )
    assert too_large.status_code == 413

    first = client.get("/search", params={"q": "noise", "limit": 10}).json()
    pages = [
        client.get("/search", params={"q": "noise", "limit": 10, "cursor": first["next"]}) for _ in range(6)
    ]
    assert {page.status_code for page in pages} == {200}  # whichever server answers
    assert len({tuple(hit["id"] for hit in page.json()["results"]) for page in pages}) == 1

    write(service.photos, range(FIRST, FIRST + MORE))
    seen = list[int]()
    service.wait_for(lambda: seen.append(service.images()) or seen[-1] > FIRST)
    servers.kill("one")  # in the middle of the update
    assert seen[-1] < FIRST + MORE
    primary = servers.promote()
    (kept,) = servers.ask(primary, "SELECT count(*) FROM seesay_photos.items")
    assert kept >= seen[-1]
    service.wait_for(lambda: service.images() == FIRST + MORE)

    service.kill(1)
    for _ in range(6):
        assert service.images() == FIRST + MORE
