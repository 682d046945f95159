"""What every response gets: headers and compression."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

_FILES = ("/original", "/jpeg", "/view", "/thumbnail", "/archive")  # images, which are compressed already
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Pages of other sites may neither show these images nor frame this page.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-cache",  # otherwise browsers run old scripts for days after an upgrade
    # Not no-referrer, with which browsers send the origin "null" with the page's own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def with_headers(send: Send) -> Send:
    """Add the security headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


class Compressed(GZipMiddleware):
    """ASGI middleware that compresses responses with gzip, except images and archives.

    If a response contains a secret and text of an attacker's choice, its compressed size can reveal the
    secret despite TLS (BREACH). Here tokens are only in headers, which are not compressed, and pages of other
    sites cannot send requests to the API, see `Guard`.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_file = scope["type"] != "http" or scope["path"].endswith(_FILES)
        await (self.app if is_file else super().__call__)(scope, receive, send)
