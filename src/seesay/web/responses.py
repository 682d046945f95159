"""What every response gets: headers, compression, and for a failure the body of a problem."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

from seesay.web.answers import MEDIA_TYPE, problem

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


def with_headers(send: Send, is_head: bool) -> Send:
    """Add the security headers, and replace the bodies of failures by those of `problem`."""
    failure: Message | None = None

    async def sending(message: Message) -> None:
        nonlocal failure
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            kind = headers.get("content-type", "").partition(";")[0]
            if message["status"] >= 400 and kind not in (MEDIA_TYPE, "text/html"):
                failure = message  # Starlette's own, such as for a range outside of a file
                return
        if failure is None:
            await send(message)
        elif not message.get("more_body", False):
            response = problem(failure["status"], f"{HTTPStatus(failure['status']).phrase}.")
            headers = MutableHeaders(scope=failure)
            headers["content-type"], headers["content-length"] = MEDIA_TYPE, str(len(response.body))
            await send(failure)
            await send({"type": "http.response.body", "body": b"" if is_head else response.body})

    return sending


class Compressed(GZipMiddleware):
    """ASGI middleware that compresses responses with gzip, except images, archives and parts of files.

    If a response contains a secret and text of an attacker's choice, its compressed size can reveal the
    secret despite TLS (BREACH). Here tokens are only in headers, which are not compressed, and pages of other
    sites cannot send requests to the API, see `Guard`.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_file = scope["type"] != "http" or scope["path"].endswith(_FILES)
        is_part = is_file or any(name == b"range" for name, _ in scope["headers"])
        await (self.app if is_part else super().__call__)(scope, receive, send)
