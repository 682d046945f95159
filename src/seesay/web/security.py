"""Who may ask what: host names, tokens, pages of other sites, and limits of size, time and requests.

`Guard` checks each request before the application sees it. `may_show` in `search/reader.py` decides which
photos of an index may be shown. Slow and hostile connections are not its task:
put a reverse proxy in front of a server that strangers can reach.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template

import anyio
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seesay.errors import SeesayError
from seesay.web import log_line
from seesay.web.answers import problem

API = "/api/v1"
"""The prefix of the API's paths."""

MAX_HEADER_BYTES = 16 * 1024  # including the address
COOKIE = "seesay"
COOKIE_SECONDS = 30 * 24 * 3600
# Not with http.cookies, which takes quadratic time before Python 3.11.10 and 3.12.6.
_COOKIE = re.compile(rf"(?:^|; ?){COOKIE}=([0-9a-f]{{64}}) *(?=;|$)")
_MIN_CHARACTERS = 16
_OPEN = ("/healthz", "/readyz", "/login", "/static/")  # probes have no token; the login needs its styles
# For the parts of a multipart body around the file.
_ENVELOPE_BYTES = 64 * 1024
_CLOSE = {"Connection": "close"}
_LATER = {"Retry-After": "2"}  # seconds
_LONGEST_WAIT = 10  # seconds before a wrong token is answered


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


class AccessTokens:
    """Admits clients that send a token from a file: programs in a header, browsers in a cookie.

    A line of the file is a token, is empty, or begins with #. The file is read again when it has changed.

    Args:
        file: the file with the tokens.

    Raises:
        SeesayError: the file cannot be read, contains no token, or has an invalid line.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._changed = file, _changed(file)
        self._waiting: Counter[str] = Counter()  # requests with wrong tokens, by client
        self._tokens = _read(file)

    def _current(self) -> Collection[str]:
        """Read the file again if it has changed; without a token in it, the tokens stay as they were."""
        if (changed := _changed(self._file)) != self._changed:
            self._changed = changed
            try:
                self._tokens = _read(self._file)
            except SeesayError as error:
                log_line(f"{error} The tokens stay as they were.")
        return self._tokens

    @staticmethod
    def cookie(token: str) -> str:
        """Return the cookie for a token: a digest, which is useless for other servers."""
        return hmac.digest(token.encode(), b"seesay cookie", "sha256").hex()

    def is_token(self, given: str) -> bool:
        """Return whether this is a token, in constant time for wrong ones."""
        return _matching(given, self._current()) is not None

    def token_of(self, headers: Headers) -> str | None:
        """Return the token of a request, also one that its cookie stands for; None without a valid one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        of_cookies = {self.cookie(each): each for each in self._current()}
        token = _matching(given.strip(), self._tokens) if scheme.lower() == "bearer" else None
        for cookie in _COOKIE.findall(headers.get("cookie", "")):
            token = token or of_cookies.get(_matching(cookie, of_cookies) or "")
        return token

    async def slow_down(self, client: str) -> None:
        """Wait before a wrong token is answered: the more of them a client sends at once, the longer."""
        with _counted(self._waiting, client):
            await anyio.sleep(min(self._waiting[client], _LONGEST_WAIT))


@contextmanager
def _counted(counts: Counter[str], client: str) -> Iterator[None]:
    """Count a request of a client while it is handled; others are not remembered."""
    counts[client] += 1
    try:
        yield
    finally:
        counts[client] -= 1
        if not counts[client]:
            del counts[client]


def new_token() -> str:
    """Return a random token of 100 bits that is easy to type on a phone."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"  # without those that look alike
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4))


def _changed(file: Path) -> int:
    """Return when a file was last changed; 0 if it is missing."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return 0


def _matching(given: str, keys: Iterable[str]) -> str | None:
    """Return the matching key, in a time that reveals nothing about the keys."""
    found = [key for key in keys if secrets.compare_digest(key.encode(), given.encode())]
    return found[0] if found else None


def _read(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SeesayError(f"{file}: cannot be read as a file of tokens ({error}).") from error
    tokens = [line for line in lines if line and not line.startswith("#")]
    for token in tokens:
        if len(token) < _MIN_CHARACTERS or not token.isprintable() or " " in token:
            number = lines.index(token) + 1
            raise SeesayError(
                f"{file}, line {number}: a token is one word of at least {_MIN_CHARACTERS} characters."
            )
    if not tokens:
        raise SeesayError(f"{file}: contains no token; create one: seesay token > {quote(str(file))}")
    return tokens


def login_page(refused: bool = False) -> HTMLResponse:
    """Return the page that asks for the token, with a message if the last one was rejected."""
    page = Template(files(__package__).joinpath("login.html").read_text(encoding="utf-8"))
    message = "That token is not correct." if refused else ""
    return HTMLResponse(page.substitute(message=message), 401)


def check_proxies(names: Iterable[str]) -> None:
    """Raise a `SeesayError` if one is neither an address nor a network such as 10.0.0.0/8."""
    for name in names:
        try:
            ipaddress.ip_network(name)
        except ValueError as error:
            raise SeesayError(
                f"{name}: not an address or network; write one such as 127.0.0.1 or 172.30.57.0/24."
            ) from error


def client_of(host: str) -> str:
    """Return the identity of a client: an IPv4 address, or a /64 network of IPv6.

    >>> client_of("::ffff:192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return host if address is None else str(address)


def is_local(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def host_allowed(header: str, hosts: Collection[str]) -> bool:
    """Return True if a Host header is one of `hosts` or any numeric address.

    This prevents DNS rebinding, in which the name of another site resolves to this server.

    >>> host_allowed("a.example.com:80", ["*.example.com"]), host_allowed("example.com", ["*.example.com"])
    (True, False)
    """
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0].rstrip(".")
    below = tuple(each[1:] for each in hosts if each.startswith("*."))
    return name in hosts or name.endswith(below) or _address(name) is not None


def check_hosts(hosts: Iterable[str]) -> None:
    """Raise a `SeesayError` if a host name has a * other than for the names below a domain."""
    for host in hosts:
        if "*" in host and not re.fullmatch(r"\*(\.[^.*]+){2,}", host):
            raise SeesayError(f"{host}: write * only for all names below a domain, such as *.example.com.")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address, IPv4 also when mapped into IPv6; None if it is not one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def too_large(limit: int) -> HTTPException:
    """Return the exception for an upload beyond the limit."""
    return HTTPException(413, f"The upload is larger than {limit / 2**20:g} MB; send a smaller one.")


class Guard:
    """ASGI middleware that authenticates requests, and limits their number and time.

    Args:
        app: the application.
        limits: the limits of a request.
        hosts: accepted host names, besides numeric addresses.
        prefix: the prefix of all paths, such as "/photos"; "" for none.
        tokens: those of clients; None for no authentication.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        hosts: Collection[str],
        prefix: str = "",
        tokens: AccessTokens | None = None,
    ) -> None:
        self._app, self._limits, self._hosts = app, limits, frozenset(hosts)
        self._prefix, self._tokens = prefix, tokens
        self._at_work: Counter[str] = Counter()  # concurrent requests by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, address = Headers(scope=scope), client_of(scope["client"][0]) if scope.get("client") else ""
        # Nothing is so large that parts of it are needed, and Starlette answers 400 to what RFC 9110 ignores.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"range"]
        scope["root_path"], path = self._prefix, scope["path"].removeprefix(self._prefix) or "/"
        refusal, client = self._refusal(scope, path, headers), address
        if refusal is None and self._tokens is not None and not path.startswith(_OPEN):
            token = self._tokens.token_of(headers)
            if token is None:
                if "authorization" in headers or COOKIE in headers.get("cookie", ""):
                    await self._tokens.slow_down(address)
                how = "Send the server's token in the header Authorization: Bearer TOKEN."
                is_page = path == "/" and "text/html" in headers.get("accept", "")
                refusal = login_page() if is_page else problem(401, how, {"WWW-Authenticate": "Bearer"})
            client = f"token {token}"
        if refusal is None and self._at_work[client] >= self._limits.requests_a_client:
            refusal = problem(429, "Too many requests of yours at once; try again later.", _LATER)
        if refusal is None and self._at_work.total() >= self._limits.requests:
            refusal = problem(503, "The server is busy; try again later.", _LATER)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        with _counted(self._at_work, client):
            await self._answer(scope, self._bounded(receive, headers), send)

    def _refusal(self, scope: Scope, path: str, headers: Headers) -> ASGIApp | None:
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return problem(431, f"The request line and headers have more than {MAX_HEADER_BYTES // 1024} KB.")
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have used the other one, and take the rest for another client's request.
            return problem(400, "Content-Length and Transfer-Encoding contradict each other.", _CLOSE)
        form = _form_options(headers) or {}
        if form.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
            # Field names would be decoded with any codec of Python, some of which take quadratic time.
            return problem(400, "Forms are read as UTF-8; name no other charset.", _CLOSE)
        if not host_allowed(headers.get("host", ""), self._hosts):
            host = headers.get("host", "")[:100]
            return problem(400, f"This server does not answer to '{host}'; start it with --allow-host NAME.")
        is_link = scope["method"] == "GET" and not path.startswith(f"{API}/")
        if not is_link and _is_of_another_site(headers):
            return problem(403, "Requests from pages of other sites are not allowed.")
        if self._prefix and scope["path"] == self._prefix:
            return RedirectResponse(f"{self._prefix}/", 308)
        return None

    def _bounded(self, receive: Receive, headers: Headers) -> Receive:
        # Other bodies, such as that of a login, are read into memory as a whole.
        limit = _ENVELOPE_BYTES if _form_options(headers) is None else self._limits.upload_bytes
        left = limit + _ENVELOPE_BYTES
        length = headers.get("content-length", "0")
        announced = int(length) if length.isdecimal() else 0

        async def bounded() -> Message:
            nonlocal left
            if announced > limit + _ENVELOPE_BYTES:
                raise too_large(limit)
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise too_large(limit)
            return message

        return bounded

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the time limit."""
        started = False
        try:
            with anyio.fail_after(self._limits.seconds) as clock:

                async def starting(message: Message) -> None:
                    nonlocal started
                    started = True
                    clock.deadline = math.inf  # sending a large image to a slow client may take longer
                    await send(message)
                    clock.deadline = anyio.current_time() + self._limits.seconds

                await self._app(scope, receive, starting)
        except (TimeoutError, asyncio.CancelledError):  # uvicorn cancels what outlasts its shutdown
            if started:  # the server closes the connection, which tells the client
                log_line(f"{scope['path']}: not sent to its end, which took too long.")
            else:
                busy = problem(503, "This took too long; the server is busy or stopping. Try again.", _LATER)
                await busy(scope, receive, send)


def _form_options(headers: Headers) -> dict[bytes, bytes] | None:
    """Return the options of a multipart form, as its parser reads them; None for any other body."""
    kind, options = parse_options_header(headers.get("content-type", ""))
    return options if kind.startswith(b"multipart/") else None


def _is_of_another_site(headers: Headers) -> bool:
    """Return whether a request is from a page of another site.

    Without TLS, browsers send no `Sec-Fetch-Site`, so `Origin` or `Referer` is compared with the host.
    """
    site = headers.get("sec-fetch-site")
    page = headers.get("origin") or headers.get("referer")
    if site is None and page is not None:
        return page.partition("://")[2].partition("/")[0].lower() != headers.get("host", "").lower()
    return site not in (None, "none", "same-origin")
