"""Checks of every request (host name, token, size and time); headers and compression of every response."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from http import HTTPStatus

import anyio
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seesay.web.access import Access, is_open
from seesay.web.answers import MEDIA_TYPE, problem
from seesay.web.connections import client_of, host_allowed
from seesay.web.options import API, MAX_HEADER_BYTES, Limits

# For the parts of a multipart body around the file.
_ENVELOPE_BYTES = 64 * 1024

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


# Responses with images, which are compressed already.
_FILES = ("/original", "/jpeg", "/thumbnail", "/archive")


def too_large(limit: int) -> HTTPException:
    """Return the exception for an upload beyond the limit."""
    return HTTPException(413, f"The upload is larger than {limit / 2**20:g} MB; send a smaller image.")


class Guard:
    """ASGI middleware that authenticates requests, limits their number and time, and adds headers.

    Args:
        app: the application.
        limits: the limits of a request.
        hosts: accepted host names, besides numeric addresses.
        prefix: the prefix of all paths, such as "/photos"; "" for none.
        access: checks tokens; None for no authentication.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        hosts: Collection[str],
        prefix: str = "",
        access: Access | None = None,
    ) -> None:
        self._app, self._limits, self._hosts = app, limits, frozenset(hosts)
        self._prefix, self._access = prefix, access
        self._at_work: Counter[str] = Counter()  # concurrent requests by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["root_path"] = self._prefix
        headers = Headers(scope=scope)
        send = _with_headers(send, scope["method"] == "HEAD")
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        client = _client(scope)
        self._at_work[client] += 1
        try:
            await self._answer(scope, self._counted(receive, headers), send)
        finally:
            self._at_work[client] -= 1
            if not self._at_work[client]:
                del self._at_work[client]

    def _refusal(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        if _header_bytes(scope) > MAX_HEADER_BYTES:
            return problem(431, f"The request line and headers have more than {MAX_HEADER_BYTES // 1024} KB.")
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have used the other one, and take the rest for another client's request.
            return problem(400, "Content-Length and Transfer-Encoding contradict each other.", close=True)
        form = _form_options(headers) or {}
        if form.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
            # Field names would be decoded with any codec of Python, some of which take quadratic time.
            return problem(400, "Forms are read as UTF-8; name no other charset.", close=True)
        if not host_allowed(headers.get("host", ""), self._hosts):
            host = headers.get("host", "")[:100]
            return problem(400, f"This server does not answer to '{host}'; start it with --allow-host NAME.")
        path = scope["path"].removeprefix(self._prefix) or "/"
        is_link = scope["method"] in ("GET", "HEAD") and not path.startswith(f"{API}/")
        if not is_link and _is_of_another_site(headers):
            return problem(403, "Requests from pages of other sites are not allowed.")
        if self._at_work[_client(scope)] >= self._limits.connections_an_address:
            return problem(429, "Too many concurrent requests from your address; try again later.")
        if self._prefix and scope["path"] == self._prefix:
            return RedirectResponse(f"{self._prefix}/", 308)
        if self._access is None or is_open(path):
            return None
        name = self._access.name_of(headers)
        if name is None:
            return self._access.refusal(path, headers)
        scope["user"] = name  # for the log
        return None

    def _counted(self, receive: Receive, headers: Headers) -> Receive:
        # Other bodies, such as that of a login, are read into memory as a whole.
        limit = _ENVELOPE_BYTES if _form_options(headers) is None else self._limits.upload_bytes
        left = limit + _ENVELOPE_BYTES
        length = headers.get("content-length", "0")
        announced = int(length) if length.isdecimal() else 0

        async def counted() -> Message:
            nonlocal left
            if announced > limit + _ENVELOPE_BYTES:
                raise too_large(limit)
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise too_large(limit)
            return message

        return counted

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the time limit; HEAD like GET, but without the body."""
        started, is_head = False, scope["method"] == "HEAD"
        try:
            with anyio.fail_after(self._limits.seconds) as clock:

                async def starting(message: Message) -> None:
                    nonlocal started
                    if started and is_head:
                        return
                    started = True
                    clock.deadline = math.inf  # sending a large image to a slow client may take longer
                    await send(message)
                    if is_head:
                        await send({"type": "http.response.body"})
                        clock.cancel()  # a body that is not sent need not be read

                if is_head:
                    scope["method"] = "GET"  # in place, so that the log has the route
                await self._app(scope, receive, starting)
        except TimeoutError:
            if started:
                raise
            await problem(503, "This took too long; the server is busy. Try again.")(scope, receive, starting)
        finally:
            if is_head:
                scope["method"] = "HEAD"


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


def _form_options(headers: Headers) -> dict[bytes, bytes] | None:
    """Return the options of a multipart form, as its parser reads them; None for any other body."""
    kind, options = parse_options_header(headers.get("content-type", ""))
    return options if kind.startswith(b"multipart/") else None


def _client(scope: Scope) -> str:
    return client_of(scope["client"][0]) if scope.get("client") else ""


def _header_bytes(scope: Scope) -> int:
    address = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in scope["headers"])


def _is_of_another_site(headers: Headers) -> bool:
    """Return whether a request is from a page of another site.

    Without TLS, browsers send no `Sec-Fetch-Site`, so `Origin` or `Referer` is compared with the host.
    """
    site = headers.get("sec-fetch-site")
    page = headers.get("origin") or headers.get("referer")
    if site is None and page is not None:
        return page.partition("://")[2].partition("/")[0].lower() != headers.get("host", "").lower()
    return site not in (None, "none", "same-origin")


def _with_headers(send: Send, is_head: bool) -> Send:
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
