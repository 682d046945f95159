import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx2 as httpx
import pytest
import uvicorn
from PIL import Image

from seesay.errors import SeesayError
from seesay.web.app import serve
from seesay.web.options import Limits, ServerOptions
from tests.search.colours import Colours, opened


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
    with pytest.raises(SeesayError, match=rf"{run}: not a run of a grounding recipe"):
        serve(opened(index_path), port=0, options=ServerOptions(ground_run=run))


@contextmanager
def serving(
    index_path: Path,
    proxies: Sequence[str] = (),
    matcher: Colours | None = None,
    hosts: Sequence[str] = (),
    **limits: float,
) -> Iterator[int]:
    """A server in a thread; yields its port."""
    servers: list[uvicorn.Server] = []
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


UPLOAD = (
    b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
)
HALF = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Half: "


def test_half_sent_requests_are_ended_and_keep_nobody_out(index_path: Path) -> None:
    with serving(index_path, header_seconds=1.0) as port, ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(300)]
        for one in held:
            with suppress(OSError):
                one.sendall(HALF)
        status = httpx.get(f"http://127.0.0.1:{port}/api/v1/status").status_code
        assert status == 200
        started = time.monotonic()
        held[-1].settimeout(10)
        while time.monotonic() - started < 10:  # a byte now and then extends nothing
            try:
                held[-1].sendall(b"a")
                time.sleep(0.1)
            except OSError:
                break
        assert time.monotonic() - started < 3


def test_half_sent_bodies_are_ended(index_path: Path) -> None:
    with (
        serving(index_path, seconds=0.5) as port,
        socket.create_connection(("127.0.0.1", port)) as half,
    ):
        half.sendall(UPLOAD + b"Content-Length: 1000\r\n\r\n--x\r\n")
        half.settimeout(10)
        started = time.monotonic()
        answer = half.recv(10_000)
        while half.recv(10_000):
            pass
        assert answer.startswith(b"HTTP/1.1 503")
        assert time.monotonic() - started < 5


def test_a_large_upload_is_cut_after_its_answer(index_path: Path) -> None:
    sent = 0
    with serving(index_path, upload_bytes=100_000) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            client.sendall(UPLOAD + b"Content-Length: 1000000000\r\n\r\n")
            with suppress(OSError):
                while sent < 1_000_000_000:
                    sent += client.send(bytes(1 << 16))
            with suppress(ConnectionResetError):
                assert client.recv(10_000).startswith(b"HTTP/1.1 413")
        assert sent < 50_000_000  # a megabyte, and what sockets buffer
        assert httpx.get(f"http://127.0.0.1:{port}/api/v1/status").status_code == 200


@pytest.fixture
def large_path(index_path: Path, photos: Path) -> Path:
    """An index with an image of 24 MB, far more than sockets buffer."""
    Image.new("RGB", (4000, 2000)).save(photos / "large.bmp")
    with opened(index_path) as index:
        index.update_images(photos)
    return index_path


def ask_for_the_large_one(port: int, own: str = "127.0.0.1") -> socket.socket:
    (large,) = httpx.get(f"http://127.0.0.1:{port}/api/v1/images?where=width:4000").json()["results"]
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(20)
    client.bind((own, 0))
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET /api/v1/images/%d/original HTTP/1.1\r\nHost: localhost\r\n\r\n" % large["id"])
    return client


def test_a_client_that_takes_nothing_of_an_answer_is_left(large_path: Path) -> None:
    with (
        serving(large_path, untaken_seconds=0.5) as port,
        closing(ask_for_the_large_one(port)) as client,
    ):
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(1.5)
        taken = 0
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                taken += len(part)
        assert taken < 24_000_000


def test_a_slow_client_gets_all_of_its_answer(large_path: Path) -> None:
    """Also when the server has written all of it long ago."""
    with (
        serving(large_path, untaken_seconds=1.0, header_seconds=0.1) as port,
        closing(ask_for_the_large_one(port)) as client,
    ):
        taken = pause = 0
        while taken < 24_000_000:
            taken += len(part := client.recv(1 << 16))
            assert part
            if taken > pause:
                pause += 2_400_000
                time.sleep(0.15)


def test_a_client_that_drips_is_left(large_path: Path) -> None:
    """Though it takes some of the answer all the time."""
    with (
        serving(large_path, untaken_seconds=0.3, slowest=1_000_000) as port,
        closing(ask_for_the_large_one(port)) as client,
    ):
        taken, left = 0, time.monotonic() + 1.5
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 14):
                taken += len(part)
                time.sleep(0.05 * (time.monotonic() < left))  # then takes what the system has kept for it
        assert taken < 24_000_000


def test_slow_clients_of_several_addresses_keep_nobody_out(large_path: Path) -> None:
    limits = {"connections": 8, "connections_an_address": 4, "untaken_seconds": 60.0}
    with serving(large_path, **limits) as port, ExitStack() as stack:
        slow = [
            stack.enter_context(closing(ask_for_the_large_one(port, f"127.0.0.{2 + i // 4}")))
            for i in range(8)
        ]
        for client in slow:
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(2):
            assert httpx.get(f"http://127.0.0.1:{port}/api/v1/status").status_code == 200


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
    def status(port: int, client: str) -> int:
        headers = {"X-Forwarded-For": client}
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/search?q=red", headers=headers).status_code

    class Slow(Colours):
        def embed_sentences(self, sentences, query=False):
            time.sleep(0.5)
            return super().embed_sentences(sentences)

    limits = {"connections_an_address": 2}
    with ThreadPoolExecutor(8) as threads:
        with serving(index_path, ["127.0.0.0/8"], Slow(), **limits) as port:
            clients = ["10.0.0.1"] * 3 + ["10.0.0.2"] * 2
            found = list(threads.map(lambda client: status(port, client), clients))
            assert sorted(found[:3]) == [200, 200, 429]
            assert found[3:] == [200, 200]
        with serving(index_path, matcher=Slow(), **limits) as port:  # believes nobody
            asked = [threads.submit(status, port, f"10.0.0.{i}") for i in range(5)]
            assert sum(one.exception() is not None for one in asked) > 0


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


def test_a_body_does_not_wait_until_its_headers_are_acknowledged(index_path: Path) -> None:
    took = []
    with serving(index_path) as port, closing(HTTPConnection("127.0.0.1", port)) as client:
        for _ in range(30):
            started = time.perf_counter()
            client.request("GET", "/healthz")
            assert client.getresponse().read() == b"ok\n"
            took.append(time.perf_counter() - started)
    assert sorted(took)[5] < 0.03  # else each takes 0.04 s


Server = uvicorn.Server


HEAPS = """
import ctypes, sys, threading
from seesay.errors import SeesayError
from seesay.search import Index
from seesay.web.app import serve
from tests.search.colours import Colours
try:
    serve(Index.open(sys.argv[1], Colours()), port=70000)
except SeesayError:
    pass
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(12)
def allocate():
    together.wait()
    libc.malloc(ctypes.c_size_t(50_000))
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="needs glibc")
def test_the_threads_of_a_server_share_two_heaps(index_path: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HEAPS, str(index_path), str(tmp_path / "heaps")]
    subprocess.run(command, check=True, env=environment)
    assert (tmp_path / "heaps").read_text().count("<heap nr=") <= 2
