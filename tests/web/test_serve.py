import socket
import threading
from pathlib import Path

import httpx2 as httpx
import pytest
import uvicorn

from seesay.errors import SeesayError
from seesay.web.app import serve
from tests.search.colours import opened


def test_a_taken_port_says_what_to_do(index_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SeesayError, match=rf"Port {port} .* is taken.*--port {port + 1}"):
            serve(opened(index_path), port=port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host.invalid", 8000)])
def test_places_that_are_none(index_path: Path, host: str, port: int) -> None:
    with pytest.raises(SeesayError):
        serve(opened(index_path), host=host, port=port)


@pytest.mark.parametrize("run", ["no such run", "seesay-small"])
def test_a_run_that_cannot_ground_is_an_error_at_once(index_path: Path, run: str) -> None:
    with pytest.raises(SeesayError, match=rf"{run}: no run of a grounding recipe"):
        serve(opened(index_path), port=0, ground_run=run)


def test_it_announces_its_address_and_answers_there(index_path: Path, monkeypatch) -> None:
    servers: list[uvicorn.Server] = []
    monkeypatch.setattr(uvicorn, "Server", lambda config: servers.append(Server(config)) or servers[-1])
    address: list[str] = []
    announced = threading.Event()

    def ready(url: str) -> None:
        address.append(url)
        announced.set()

    thread = threading.Thread(target=serve, args=(opened(index_path),), kwargs={"port": 0, "ready": ready})
    thread.start()
    assert announced.wait(20)
    response = httpx.get(f"{address[0]}/api/status")
    servers[0].should_exit = True
    thread.join(20)
    assert response.json()["images"] == 5
    assert "server" not in response.headers


Server = uvicorn.Server
