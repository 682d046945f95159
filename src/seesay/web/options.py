"""Options of the server, and limits of requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seesay.grounding import GROUND_RUN

API = "/api/v1"
"""The prefix of the API's paths."""

MAX_ANSWERS = 200
MAX_CHARACTERS = 500
MAX_UPLOADS = 4  # images of one query
MAX_HEADER_BYTES = 16 * 1024  # including the address


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request, its upload and its connection.

    Attributes:
        upload_bytes: the size of an encoded image, and of all images of one query together.
        upload_pixels: the width × height of an uploaded image.
        archive_bytes: the size of all images of an archive together.
        seconds: the time until a response begins, including that to send the request.
        header_seconds: the time in which the headers of a request must arrive.
        decode_seconds: the time in which an upload must be decoded.
        untaken_seconds: the interval over which a client's reading speed is measured.
        slowest: the least number of bytes per second that a client must read.
        connections: the connections of all clients.
        connections_an_address: connections from one IPv4 address or /64 network of IPv6; behind a proxy,
            concurrent requests of one client.
    """

    upload_bytes: int = 20 * 2**20
    upload_pixels: int = 50_000_000
    archive_bytes: int = 4 * 2**30
    seconds: float = 30.0
    header_seconds: float = 10.0
    decode_seconds: float = 10.0
    untaken_seconds: float = 10.0
    slowest: int = 2_000
    connections: int = 250
    connections_an_address: int = 64


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How indexes are served.

    Attributes:
        hosts: accepted host names, besides numeric addresses.
        prefix: the prefix of all paths, such as "/photos", for a server behind a proxy.
        proxies: addresses or networks of proxies, whose forwarding headers are trusted.
        token_file: a file of tokens, one of which clients must send, see `Access`; None for no
            authentication.
        ground_run: the run that grounds phrases.
        rerank_run: the run that re-ranks results on request.
        warm_up: load all runs in the background at the start, rather than on first use.
        access_log: write a line of JSON for each request to standard output.
        photos: folders of images to add to indexes at the start, by the name of the index.
        watch: update the indexes now, and when their folders change.
        limits: of requests and connections; only `serve` limits connections.
    """

    hosts: Collection[str] = ("localhost",)
    prefix: str = ""
    proxies: Collection[str] = ()
    token_file: Path | None = None
    ground_run: str = GROUND_RUN
    rerank_run: str | None = None
    warm_up: bool = False
    access_log: bool = False
    photos: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    watch: bool = False
    limits: Limits = field(default_factory=Limits)
