"""Options of the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seesay.grounding import GROUND_RUN


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request and its upload, and of requests at the same time.

    Attributes:
        upload_bytes: the size of an uploaded image, encoded.
        upload_pixels: the width × height of an uploaded image.
        archive_bytes: the size of all images of an archive together.
        seconds: the time until a response begins, including that to send the request, and until each further
            part of it is read.
        decode_seconds: the time in which an upload must be decoded.
        requests: the requests of all clients at the same time.
        requests_a_client: those of one token or, without tokens, of one IPv4 address or /64 network of IPv6.
    """

    upload_bytes: int = 20 * 2**20
    upload_pixels: int = 50_000_000
    archive_bytes: int = 4 * 2**30
    seconds: float = 30.0
    decode_seconds: float = 10.0
    requests: int = 250
    requests_a_client: int = 64


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How indexes are served.

    Attributes:
        hosts: accepted host names, besides numeric addresses.
        prefix: the prefix of all paths, such as "/photos", for a server behind a proxy.
        proxies: addresses or networks of proxies, whose forwarding headers are trusted.
        token_file: a file of tokens, one of which clients must send, see `AccessTokens`; None for no
            authentication.
        ground_run: the run that grounds phrases.
        warm_up: load all runs in the background at the start, rather than on first use.
        access_log: write a line of JSON for each request to standard output.
        photos: folders of images to add to indexes at the start, by the name of the index.
        watch: update the indexes now, and when their folders change.
        limits: of requests.
    """

    hosts: Collection[str] = ("localhost",)
    prefix: str = ""
    proxies: Collection[str] = ()
    token_file: Path | None = None
    ground_run: str = GROUND_RUN
    warm_up: bool = False
    access_log: bool = False
    photos: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    watch: bool = False
    limits: Limits = field(default_factory=Limits)
