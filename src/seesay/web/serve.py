"""Serving the application on a port of this machine."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from seesay.errors import SeesayError
from seesay.grounding.ground import SHIPPED, can_ground
from seesay.search.embedder import Embedder
from seesay.web.app import create_app


def _announce(address: str) -> None:
    print(address, flush=True)  # at once, also where standard output is a file


def serve(
    index_path: Path,
    embedder: Embedder,
    host: str = "127.0.0.1",
    port: int = 8000,
    ground_run: str = SHIPPED,
    rerank_run: str | None = None,
    ready: Callable[[str], None] = _announce,
) -> None:
    """Serves an index until interrupted; `ready` gets the page's address. Port 0 is any free one.

    `ground_run` points at phrases in an image, where there is such a run; `rerank_run`, if given, re-ranks.

    Raises:
        SeesayError: no index there, one of another matcher, no grounding run of a name that is not the
            shipped one's, none to re-rank with, or the port cannot be had.
    """
    if ground_run != SHIPPED and not can_ground(ground_run):
        raise SeesayError(
            f"{ground_run}: no run of a grounding recipe (ground-…) there; name one with --ground, or leave "
            f"it away for {SHIPPED}."
        )
    names = {"localhost", host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
    app = create_app(index_path, embedder, hosts=names, ground_run=ground_run, rerank_run=rerank_run)
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, limit_concurrency=256, timeout_graceful_shutdown=3
    )
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SeesayError(f"Port {port} does not exist: choose one from 1 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SeesayError(f"{host}: no address of this machine; try --host 127.0.0.1.") from error
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(256)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            message = (
                f"Port {port} on {host} is taken: stop what runs there, or try --port {port % 65535 + 1}."
            )
        elif error.errno == errno.EACCES:
            message = f"Port {port} on {host} needs more rights: choose one above 1023, such as --port 8000."
        else:
            message = f"{host} port {port}: cannot be listened on ({error.strerror}); try --host 127.0.0.1."
        raise SeesayError(message) from error
    return listening
