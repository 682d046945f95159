import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import httpx2 as httpx
import pytest
import uvicorn

from seesay.cli import main
from seesay.errors import SeesayError
from seesay.web.app import serve
from seesay.web.security import AccessTokens, Limits
from seesay.web.service import ServerOptions
from tests.search.colours import Colours, opened


def test_a_taken_port_says_what_to_do(index_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SeesayError, match=rf"Port {port} .*already in use.*--port {port + 1}"):
            serve(opened(index_path), port=port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host.invalid", 8000)])
def test_places_that_are_none(index_path: Path, host: str, port: int) -> None:
    with pytest.raises(SeesayError):
        serve(opened(index_path), host=host, port=port)


@pytest.mark.parametrize("run", ["no such run", "seesay-small"])
def test_a_run_that_cannot_ground_is_an_error_at_once(index_path: Path, run: str) -> None:
    with pytest.raises(SeesayError, match=rf"{run}: not a run of a grounding recipe"):
        serve(opened(index_path), port=0, options=ServerOptions(ground_run=run))


@contextmanager
def serving(
    index_path: Path,
    proxies: Sequence[str] = (),
    matcher: Colours | None = None,
    hosts: Sequence[str] = (),
    servers: list[uvicorn.Server] | None = None,
    **limits: float,
) -> Iterator[int]:
    """A server in a thread, which is added to `servers`; yields its port."""
    servers = [] if servers is None else servers
    address: list[str] = []
    announced = threading.Event()

    def ready(url: str) -> None:
        address.append(url)
        announced.set()

    chosen = ServerOptions(proxies=proxies, hosts=hosts, limits=Limits(**limits))
    options = {"port": 0, "ready": ready, "options": chosen}
    thread = threading.Thread(target=serve, args=(opened(index_path, matcher),), kwargs=options)
    with pytest.MonkeyPatch.context() as patch:  # a thread gets no signal: the server is told to stop
        patch.setattr(uvicorn, "Server", lambda config: servers.append(Server(config)) or servers[-1])
        thread.start()
        assert announced.wait(20)
    try:
        yield int(address[0].rpartition(":")[2])
    finally:
        servers[0].should_exit = True
        thread.join(20)


def test_it_announces_its_address_and_answers_there(index_path: Path) -> None:
    with serving(index_path) as port:
        response = httpx.get(f"http://127.0.0.1:{port}/api/v1/status")
    assert response.json()["images"] == 5
    assert "server" not in response.headers


def test_the_address_it_announces_opens_where_all_are_listened_on(index_path: Path) -> None:
    class Announced(Exception):
        pass

    def ready(url: str) -> None:
        raise Announced(url)

    with pytest.raises(Announced, match=r"^http://localhost:\d+$"):
        serve(opened(index_path), host="0.0.0.0", port=0, ready=ready)


def test_a_phone_is_told_an_address_that_it_can_open(index_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("seesay.web.app._address_in_network", lambda: "192.168.1.7")
    for host, told in (("0.0.0.0", True), ("127.0.0.1", False)):
        with opened(index_path) as index:
            serve(index, host=host, port=0)
        assert bool(re.search(r"phone .*: http://192\.168\.1\.7:\d+$", capsys.readouterr().err, re.M)) is told


def test_the_only_index_here_needs_no_name(index_path: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    served = list[str]()
    monkeypatch.setattr("seesay.web.app.serve", lambda indexes, *_: served.extend(indexes))
    monkeypatch.chdir(tmp_path)

    def told(*given: str) -> str:
        with pytest.raises(SystemExit):
            main(given)
        return capsys.readouterr().err

    assert "There is no index (*.seesay)" in told("serve")
    for other in (("search", "red"), ("info",), ("sentences", "red.png"), ("copy", "copy.of")):
        assert "There is no index (*.seesay)" in told(*other)
    index_path.rename("one.seesay")
    told("serve")
    assert served == ["one"]
    told("info")
    told("copy", "copy.of")
    assert Path("copy.of").is_dir()
    assert "colours: no run there" in told("sentences", "red.png")  # of the index, which is opened
    assert "Expected one index, got one.seesay, copy.of." in told("info", "one.seesay", "copy.of")
    assert "did you mean 'taken'" in told("search", "something", "red", "--where", "takn:1900")
    shutil.copytree("one.seesay", "other.seesay")
    for several in (("serve",), ("info",), ("sentences", "red.png"), ("copy", "second.copy")):
        assert "name one of them first: one.seesay, other.seesay" in told(*several)


def test_a_new_token_is_one(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["token"])
    (tmp_path / "token").write_text(made := capsys.readouterr().out)
    assert AccessTokens(tmp_path / "token").is_token(made.strip())


UPLOAD = (
    b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
)


def test_a_body_that_does_not_arrive_in_time_is_answered_503(index_path: Path) -> None:
    with (
        serving(index_path, seconds=0.5) as port,
        socket.create_connection(("127.0.0.1", port), 20) as half,
    ):
        half.sendall(UPLOAD + b"Content-Length: 1000\r\n\r\n--x\r\n")
        answer = half.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in answer
        while half.recv(10_000):  # until the server ends the connection
            pass


def test_an_upload_that_is_too_large_is_answered_before_it_has_arrived(index_path: Path) -> None:
    with serving(index_path, upload_bytes=100_000) as port:
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(UPLOAD + b"Content-Length: 1000000000\r\n\r\n")
            assert client.recv(10_000).startswith(b"HTTP/1.1 413")
        assert httpx.get(f"http://127.0.0.1:{port}/api/v1/status").status_code == 200


class Slow(Colours):
    def embed_sentences(self, sentences, query=False):
        time.sleep(0.5)
        return super().embed_sentences(sentences)


def statuses(port: int, clients: Sequence[str]) -> list[httpx.Response]:
    """The responses to simultaneous searches, which name their client as a proxy would."""

    def ask(number: int, client: str) -> httpx.Response:
        address = f"http://127.0.0.1:{port}/api/v1/search?q=red+{number}"
        return httpx.get(address, headers={"X-Forwarded-For": client})

    with ThreadPoolExecutor(len(clients)) as threads:
        return list(threads.map(ask, range(len(clients)), clients))


def test_a_busy_server_says_when_to_come_back(index_path: Path) -> None:
    with serving(index_path, ["127.0.0.1"], Slow(), requests=3) as port:
        found = statuses(port, [f"10.0.0.{i}" for i in range(5)])
        refused = [response for response in found if response.status_code != 200]
        assert [response.status_code for response in refused] == [503, 503]
        assert all(int(response.headers["retry-after"]) > 0 for response in refused)
        assert refused[0].json()["detail"] == "The server is busy; try again later."
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200


def test_connections_beyond_twice_the_requests_are_answered_503(index_path: Path) -> None:
    with serving(index_path, requests=2) as port, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        response = httpx.get(f"http://127.0.0.1:{port}/healthz")
        assert (response.status_code, response.text) == (503, "Service Unavailable")


def test_requests_that_a_proxy_may_read_differently_are_refused(index_path: Path) -> None:
    head = UPLOAD.replace(b"/search", b"/update") + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        serving(index_path) as port,
        socket.create_connection(("127.0.0.1", port), 10) as client,
    ):
        client.sendall(head + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while part := client.recv(10_000):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_clients_behind_a_proxy_are_told_apart(index_path: Path) -> None:
    clients = ["10.0.0.1"] * 3 + ["10.0.0.2"] * 2
    with serving(index_path, ["127.0.0.0/8"], Slow(), requests_a_client=2) as port:
        found = [response.status_code for response in statuses(port, clients)]
        assert sorted(found[:3]) == [200, 200, 429]
        assert found[3:] == [200, 200]


def test_only_a_proxy_is_believed_who_its_clients_are(index_path: Path) -> None:
    with serving(index_path, matcher=Slow(), requests_a_client=2) as port:
        found = statuses(port, [f"10.0.0.{i}" for i in range(5)])
        assert sorted(response.status_code for response in found) == [200, 200, 429, 429, 429]
        assert all("retry-after" in response.headers for response in found if response.status_code == 429)


@pytest.mark.parametrize("proxy", ["localhost", "10.0.0.0/99", "10.0.0.1/8"])
def test_a_proxy_that_is_no_address(index_path: Path, proxy: str) -> None:
    with pytest.raises(SeesayError, match="not an address or network"):
        serve(opened(index_path), port=0, options=ServerOptions(proxies=[proxy]))


def test_head_on_a_connection_that_stays_open(index_path: Path) -> None:
    with serving(index_path) as port, closing(HTTPConnection("127.0.0.1", port)) as client:
        for method, body in (("HEAD", b""), ("GET", b"ok\n"), ("HEAD", b"")):
            client.request(method, "/healthz")
            answer = client.getresponse()
            assert (answer.status, answer.getheader("content-length"), answer.read()) == (200, "3", body)


def test_headers_and_bodies_are_sent_without_waiting_for_each_other(index_path: Path) -> None:
    servers: list[uvicorn.Server] = []
    with serving(index_path, servers=servers) as port, closing(HTTPConnection("127.0.0.1", port)) as client:
        client.request("GET", "/healthz")
        assert client.getresponse().read() == b"ok\n"
        (connection,) = servers[0].server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


Server = uvicorn.Server


def test_a_request_that_outlasts_the_shutdown_is_answered_503_and_fills_no_log(
    index_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()

    def search(*_: object) -> list[object]:
        has_begun.set()
        goes_on.wait()
        return []

    monkeypatch.setattr("seesay.search.Index.search", search)
    monkeypatch.setattr("seesay.web.app._SHUTDOWN_SECONDS", 0.1)
    with ThreadPoolExecutor(1) as client:
        try:
            with serving(index_path) as port:
                address = f"http://127.0.0.1:{port}/api/v1/search?q=red"
                response = client.submit(httpx.get, address, timeout=60)
                has_begun.wait()
        finally:
            goes_on.set()
        assert response.result().status_code == 503
    assert "Traceback" not in capfd.readouterr().err


def test_malformed_requests_fill_no_log(index_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with serving(index_path) as port:
        for sent in (
            b"\0\1\2\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET /static/x HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                client.sendall(sent)
                assert client.recv(10_000).startswith(b"HTTP/1.1 40")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ("*.example.com", "a.example.com", 200),
        ("*.example.com", "a.b.Example.com:80", 200),
        ("*.example.com", "example.com", 400),
        ("*.example.com", "evil-example.com", 400),
    ],
)
def test_all_names_below_a_domain_can_be_allowed(
    index_path: Path, allowed: str, host: str, status: int
) -> None:
    with serving(index_path, hosts=[allowed]) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("name", ["*", "*.com", "a.*.example.com", "*example.com"])
def test_a_star_for_more_than_that_is_refused(index_path: Path, name: str) -> None:
    with pytest.raises(SeesayError, match=r"such as \*\.example\.com"):
        serve(opened(index_path), port=0, options=ServerOptions(hosts=[name]))
