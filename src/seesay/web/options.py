"""Options of the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seesay.grounding import GROUND_RUN
from seesay.web.security import Limits


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
