"""Who may ask: with a token, those who send it, as programs do in a header and browsers in a cookie."""

from __future__ import annotations

import hashlib
import re
import secrets
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from seesay.errors import SeesayError
from seesay.web.problems import problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp

COOKIE = "seesay"
COOKIE_SECONDS = 30 * 24 * 3600
# Not by http.cookies: before Python 3.11.10 and 3.12.6 its time grows with the square of a cookie's length.
_COOKIE = re.compile(rf"(?:^|; ?){COOKIE}=([0-9a-f]{{64}}) *(?=;|$)")
_MIN_CHARACTERS = 16
_OPEN = ("/healthz", "/readyz", "/login", "/static/")  # probes have no token; the login needs its styles


def read_token(file: Path) -> str:
    """Read a token from a file.

    Raises:
        SeesayError: the file cannot be read, or its content is too short or not one line of ASCII.
    """
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SeesayError(f"{file}: no token can be read from it ({error}).") from error
    if len(token) < _MIN_CHARACTERS or not token.isprintable() or " " in token:
        raise SeesayError(
            f"{file}: a token is one word of at least {_MIN_CHARACTERS} characters; make one: "
            f"openssl rand -hex 32 > {file}"
        )
    return token


class Access:
    """Lets those in who know the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        # Browsers keep a digest, which opens no door but this server's page.
        self.cookie = hashlib.blake2b(b"seesay cookie", key=self._token[:64], digest_size=32).hexdigest()

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in the same time for any that is not."""
        return secrets.compare_digest(given.encode(), self._token)

    def refusal(self, path: str, headers: Headers) -> ASGIApp | None:
        """Return the answer to a request that is not let in; None if it is."""
        if any(path == each or (each.endswith("/") and path.startswith(each)) for each in _OPEN):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return None
        cookies = _COOKIE.findall(headers.get("cookie", ""))
        if any(secrets.compare_digest(each, self.cookie) for each in cookies):
            return None
        if path == "/" and "text/html" in headers.get("accept", ""):
            return login_page(401)
        response = problem(401, "Send the server's token in the header Authorization: Bearer TOKEN.")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


def login_page(status: int, refused: bool = False) -> HTMLResponse:
    """Return the page that asks for the token, or asks again where another word was refused."""
    page = Template(files(__package__).joinpath("login.html").read_text(encoding="utf-8"))
    said = {"key": ' data-t="wrongToken"', "message": "This is not the token."}
    return HTMLResponse(page.substitute(said if refused else dict.fromkeys(said, "")), status)
