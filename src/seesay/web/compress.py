"""Compression of JSON, pages and scripts, for a server without a proxy in front of it."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

_LEAST = 1000  # bytes that are worth it
_LEVEL = 6
_FILES = ("/original", "/jpeg", "/thumbnail", "/archive")  # images, which are compressed, and streams of them


class Compressed:
    """ASGI middleware that compresses answers with gzip, but for images, archives and parts of files.

    Where an answer holds a secret beside text of an attacker's choice, its compressed size can reveal the
    secret over TLS (BREACH). Here tokens are in headers alone, which are not compressed, and pages of other
    sites cannot send requests to the API, see `Guard`.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._plain, self._gzip = app, GZipMiddleware(app, _LEAST, _LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_file = scope["type"] != "http" or scope["path"].endswith(_FILES)
        is_part = is_file or any(name == b"range" for name, _ in scope["headers"])
        await (self._plain if is_part else self._gzip)(scope, receive, send)
