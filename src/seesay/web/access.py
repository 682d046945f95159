"""Authentication with tokens, which programs send in a header and browsers in a cookie."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from seesay.errors import SeesayError
from seesay.web.answers import problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp

COOKIE = "seesay"
COOKIE_SECONDS = 30 * 24 * 3600
# Not with http.cookies, which takes quadratic time before Python 3.11.10 and 3.12.6.
_COOKIE = re.compile(rf"(?:^|; ?){COOKIE}=([0-9a-f]{{64}}) *(?=;|$)")
_MIN_CHARACTERS = 16
_OPEN = ("/healthz", "/readyz", "/login", "/static/")  # probes have no token; the login needs its styles


class Access:
    """Admits clients that send a token from a file.

    A line of the file is a token, or the name of its owner and the token. Empty lines, and those that begin
    with #, are ignored.

    Args:
        file: the file with the tokens.

    Raises:
        SeesayError: the file cannot be read, contains no token, or has an invalid line.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: dict[str, str] = {}  # by token
        self._of_cookies: dict[str, str] = {}  # tokens
        self.reread()

    def reread(self) -> int:
        """Read the file again, and return its number of tokens; removed tokens are rejected from now on.

        Raises:
            SeesayError: as for the class; the tokens are then unchanged.
        """
        self._names = _read(self._file)
        self._of_cookies = {self.cookie(token): token for token in self._names}
        return len(self._names)

    @staticmethod
    def cookie(token: str) -> str:
        """Return the cookie for a token: a digest, which is useless for other servers."""
        return hashlib.blake2b(b"seesay cookie", key=token.encode()[:64], digest_size=32).hexdigest()

    def is_token(self, given: str) -> bool:
        """Return whether this is a token, in constant time for wrong ones."""
        return _key(given, self._names) is not None

    def name_of(self, headers: Headers) -> str | None:
        """Return the owner of a request's token or cookie, "" if unnamed; None without a valid one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = _key(given.strip(), self._names) if scheme.lower() == "bearer" else None
        for cookie in _COOKIE.findall(headers.get("cookie", "")):
            token = token or self._of_cookies.get(_key(cookie, self._of_cookies) or "")
        return None if token is None else self._names[token]

    def refusal(self, path: str, headers: Headers) -> ASGIApp:
        """Return the response to a request without a valid token."""
        if path == "/" and "text/html" in headers.get("accept", ""):
            return login_page()
        response = problem(401, "Send the server's token in the header Authorization: Bearer TOKEN.")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


def is_open(path: str) -> bool:
    """Return whether a path needs no token."""
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in _OPEN)


def _key(given: str, keys: Iterable[str]) -> str | None:
    """Return the matching key, in a time that reveals nothing about the keys."""
    found = [key for key in keys if secrets.compare_digest(key.encode(), given.encode())]
    return found[0] if found else None


def _read(file: Path) -> dict[str, str]:
    """Return the owners of the tokens in a file, by token."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SeesayError(f"{file}: cannot be read as a file of tokens ({error}).") from error
    names: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match line.split():
            case []:
                continue
            case [start, *_] if start.startswith("#"):
                continue
            case [token] | [_, token] if len(token) >= _MIN_CHARACTERS and token.isprintable():
                names[token] = line.split()[0] if len(line.split()) == 2 else ""
            case _:
                raise SeesayError(
                    f"{file}, line {number}: a token is one word of at least {_MIN_CHARACTERS} "
                    f"characters, optionally after a name."
                )
    if not names:
        raise SeesayError(f"{file}: contains no token; create one: openssl rand -hex 32 > {quote(str(file))}")
    return names


def login_page(refused: bool = False) -> HTMLResponse:
    """Return the page that asks for the token, with a message if the last one was rejected."""
    page = Template(files(__package__).joinpath("login.html").read_text(encoding="utf-8"))
    message = "That token is not correct." if refused else ""
    return HTMLResponse(page.substitute(message=message), 401)
