"""The files of nginx and Caddy in deploy/, in front of a server, where these are installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.web.test_serve import serving

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "photos.example.org"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def nginx(port: int, server: int, folder: Path) -> Sequence[str]:
    """The command of an nginx that speaks HTTP on the port, and is otherwise as it is documented."""
    site = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    site = (
        re.sub(r"\n *ssl_.*", "", site).replace("443 ssl", f"127.0.0.1:{port}").replace("8000", str(server))
    )
    places = "".join(
        f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""  # whose workers may write to the folder
    rest = f"{user} pid {folder}/pid; error_log {folder}/log; events {{}} daemon off;"
    file.write_text(f"{rest} http {{ access_log off; {places} {site} }}")
    return "nginx", "-c", str(file), "-p", str(folder)


def caddy(port: int, server: int, folder: Path) -> Sequence[str]:
    """The command of a Caddy that speaks HTTP on the port, and is otherwise as it is documented."""
    told = (f"HOME={folder}", f"SEESAY_HOST=http://{NAME}:{port}", f"SEESAY_SERVER=127.0.0.1:{server}")
    return "env", *told, "caddy", "run", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_behind_a_proxy(proxy, index_path: Path, tmp_path: Path) -> None:
    if shutil.which(proxy.__name__) is None:
        pytest.skip(f"{proxy.__name__} is not installed")
    port = free_port()
    url, asked = f"http://127.0.0.1:{port}/api/v1", {"Host": f"{NAME}:{port}"}
    large = {"image": ("large.png", bytes(19 * 2**20))}
    with (
        serving(index_path, proxies=["127.0.0.1"], hosts=[NAME]) as server,
        running(proxy(port, server, tmp_path), port),
    ):
        assert httpx.get(f"{url}/status", headers=asked).json()["images"] == 5
        assert (
            httpx.get(f"http://127.0.0.1:{port}/openapi.json", headers=asked).headers["content-encoding"]
            == "gzip"
        )
        refused = httpx.post(f"{url}/search", headers=asked, files=large, timeout=30)
        assert refused.status_code == 422  # by seesay: no image
    with serving(index_path, proxies=["127.0.0.1"]) as server, running(proxy(port, server, tmp_path), port):
        refused = httpx.get(f"{url}/status", headers=asked)
    assert refused.status_code == 400
    assert f"does not answer to '{NAME}" in refused.json()["detail"]
    assert "--allow-host" in refused.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_ends_a_client_that_sends_half_of_a_request(proxy, index_path: Path, tmp_path: Path) -> None:
    if shutil.which(proxy.__name__) is None:
        pytest.skip(f"{proxy.__name__} is not installed")
    port = free_port()
    with (
        serving(index_path, proxies=["127.0.0.1"], hosts=[NAME]) as server,
        running(proxy(port, server, tmp_path), port),
        socket.create_connection(("127.0.0.1", port), timeout=30) as half,
    ):
        half.sendall(f"GET /api/v1/status HTTP/1.1\r\nHost: {NAME}:{port}\r\nX-Half: ".encode())
        while half.recv(10_000):
            pass
