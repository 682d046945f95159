"""Serve the application on a port of this machine."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

import uvicorn

from seesay.errors import SeesayError
from seesay.grounding.ground import SHIPPED, can_ground
from seesay.search.index import Index
from seesay.web.app import create_app


def _announce(address: str) -> None:
    print(address, flush=True)  # at once, also where standard output is a file


def serve(
    index: Index,
    host: str = "127.0.0.1",
    port: int = 8000,
    ground_run: str = SHIPPED,
    rerank_run: str | None = None,
    ready: Callable[[str], None] = _announce,
) -> None:
    """Serve an index until interrupted, then close it.

    Args:
        index: to serve; its run is loaded at once.
        host: address to listen on.
        port: to listen on; 0 is any free one.
        ground_run: the run that points at phrases, if there is one.
        rerank_run: the run that re-ranks results.
        ready: called with the page's address.

    Raises:
        SeesayError: a run is missing or of another kind, or the port cannot be used.
    """
    if ground_run != SHIPPED and not can_ground(ground_run):
        raise SeesayError(
            f"{ground_run}: no run of a grounding recipe (ground-…); name one with --ground, or omit it "
            f"to use {SHIPPED}."
        )
    _ = index.run  # a missing run is an error now, not at the first query
    names = {"localhost", host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
    app = create_app(index, hosts=names, ground_run=ground_run, rerank_run=rerank_run)
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, limit_concurrency=256, timeout_graceful_shutdown=3
    )
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SeesayError(f"There is no port {port}; choose one from 1 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SeesayError(f"{host}: not an address of this machine; try --host 127.0.0.1.") from error
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
                f"Port {port} on {host} is taken; stop what runs there, or try --port {port % 65535 + 1}."
            )
        elif error.errno == errno.EACCES:
            message = (
                f"Port {port} on {host} needs more privileges; choose one above 1023, such as --port 8000."
            )
        else:
            message = f"Cannot listen on port {port} of {host} ({error.strerror}); try --host 127.0.0.1."
        raise SeesayError(message) from error
    return listening
