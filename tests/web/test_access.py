"""Who is let in: tokens, cookies, and pages of other sites."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from seesay.errors import SeesayError
from seesay.web.app import create_app
from seesay.web.security import AccessTokens, Guard, Limits
from seesay.web.service import ServerOptions
from tests.linear import check_linear
from tests.search.colours import opened
from tests.web.conftest import TOKEN

OTHER = "another-token-of-many-letters"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def client_of(index_path: Path, tokens: Path, **options) -> TestClient:
    app = create_app(opened(index_path), ServerOptions(token_file=tokens, **options))
    return TestClient(app, base_url="http://localhost")


def test_a_token_is_asked_for(index_path: Path, tokens: Path) -> None:
    with client_of(index_path, tokens) as client:
        for address in (
            "/api/v1/search?q=red",
            "/api/v1/images/1/original",
            "/metrics",
            "/openapi.json",
        ):
            refused = client.get(address)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get(address, headers=bearer(f"{TOKEN}x")).status_code == 401
            assert client.get(address, headers=bearer(TOKEN)).status_code == 200
        for address in ("/healthz", "/readyz", "/static/style.css"):
            assert client.get(address).status_code == 200
        assert client.get("/api/v1/status", headers=bearer(TOKEN)).json()["login"] is True


def test_the_page_asks_for_the_token_and_keeps_a_cookie(index_path: Path, tokens: Path) -> None:
    with client_of(index_path, tokens, prefix="/photos") as client:
        page = client.get("/photos/", headers={"Accept": "text/html"})
        assert (page.status_code, "password" in page.text) == (401, True)
        assert client.post("/photos/login", data={"token": "wrong"}).status_code == 401
        assert not client.cookies
        # Where a refused token leaves the browser.
        back = client.get("/photos/login?view=3", follow_redirects=False)
        assert (back.status_code, back.headers["location"]) == (303, "/photos/?view=3")
        entered = client.post("/photos/login", data={"token": TOKEN}, follow_redirects=False)
        assert (entered.status_code, entered.headers["location"]) == (303, "/photos/")
        cookie = entered.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/photos/"))
        assert TOKEN not in cookie
        assert client.get("/photos/").status_code == 200
        other = TestClient(client.app, base_url="http://localhost")
        assert other.get("/photos/", headers={"Cookie": f"seesay={'0' * 64}"}).status_code == 401
        assert other.get("/photos/", headers={"Cookie": cookie.partition(";")[0]}).status_code == 200


def test_whoever_logs_out_has_no_cookie_any_more(index_path: Path, tokens: Path) -> None:
    with client_of(index_path, tokens, prefix="/photos") as client:
        client.post("/photos/login", data={"token": TOKEN})
        assert client.get("/photos/api/v1/status").status_code == 200
        left = client.post("/photos/logout", follow_redirects=False)
        assert (left.status_code, left.headers["location"]) == (303, "/photos/")
        assert not client.cookies
        assert client.get("/photos/api/v1/status").status_code == 401


def test_each_token_lets_in(index_path: Path, tokens: Path) -> None:
    tokens.write_text(f"# at home\n{TOKEN}\n\n{OTHER}\n")
    with client_of(index_path, tokens) as client:
        for token in (TOKEN, OTHER):
            assert client.get("/api/v1/status", headers=bearer(token)).status_code == 200
        client.post("/login", data={"token": TOKEN})
        assert client.get("/api/v1/status").status_code == 200
        assert client.get("/api/v1/status", headers={"Cookie": "", **bearer("# at home")}).status_code == 401


def test_tokens_that_were_taken_out_of_the_file_open_nothing(
    tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access = AccessTokens(tokens)
    cookie = Headers({"cookie": f"seesay={access.cookie(TOKEN)}"})
    assert access.token_of(cookie) == TOKEN
    tokens.write_text(OTHER)
    assert access.token_of(cookie) is None
    assert not access.is_token(TOKEN)
    assert access.is_token(OTHER)
    tokens.write_text("short")
    assert access.is_token(OTHER)
    assert "line 1" in capsys.readouterr().err
    tokens.unlink()
    assert access.is_token(OTHER)


@pytest.mark.parametrize("text", ["", "# none", "short", "one two words-of-some-length", "ä" * 20])
def test_files_without_tokens(tmp_path: Path, text: str) -> None:
    file = tmp_path / "my tokens"
    file.write_text(text)
    with pytest.raises(SeesayError, match="token"):
        AccessTokens(file)
    with pytest.raises(SeesayError, match="token"):
        AccessTokens(tmp_path / "nowhere")


def test_the_hint_to_make_a_token_can_be_copied(tmp_path: Path) -> None:
    file = tmp_path / "my 'tokens"
    file.touch()
    with pytest.raises(SeesayError) as raised:
        AccessTokens(file)
    assert os.system(str(raised.value).rpartition("create one: ")[2].replace("seesay token", "echo")) == 0
    assert file.read_text() == "\n"


@pytest.mark.parametrize("escaped", [r"\"", r"\054", ";", "; ", "=", " "])
def test_the_time_to_find_a_cookie_is_linear_in_the_header(tokens: Path, escaped: str) -> None:
    def header(size: int) -> Headers:
        return Headers({"cookie": 'seesay="' + escaped * (size // len(escaped)) + '"'})

    check_linear(AccessTokens(tokens).token_of, header, 64_000)


def test_the_cookie_is_found_among_others(tokens: Path) -> None:
    access = AccessTokens(tokens)
    ours = f"seesay={access.cookie(TOKEN)}"
    for cookies in (ours, f"a=b; {ours}", f"{ours};c=d", f'x="q;"; {ours} ; y', f"seesay=old; {ours}"):
        assert access.token_of(Headers({"cookie": cookies})) == TOKEN, cookies
    for cookies in (f"not-{ours}", f"{ours}0", f"a={ours}", f'a="b{ours}"', ""):
        assert access.token_of(Headers({"cookie": cookies})) is None, cookies


def test_a_form_names_no_codec(index_path: Path, tokens: Path) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="a-"\r\n\r\n1\r\n--x--\r\n'
    with client_of(index_path, tokens) as client:
        for charset in ("punycode", '"utf-7"', "utf-8; charset=punycode", "utf-8-sig", '"utf-8;-sig"'):
            headers = {"content-type": f"multipart/form-data; boundary=x; Charset={charset}"}
            answer = client.post("/login", content=body, headers=headers)
            assert (answer.status_code, answer.json()["detail"][:25]) == (400, "Forms are read as UTF-8; ")
        for usual in ("boundary=x; charset=UTF-8", "boundary=x;charset = utf8", "boundary=----charsetB"):
            headers = {"content-type": f"multipart/form-data; {usual}"}
            assert "Forms are read" not in client.post("/login", content=body, headers=headers).text


def test_large_headers_are_refused(index_path: Path, tokens: Path) -> None:
    with client_of(index_path, tokens) as client:
        client.headers |= bearer(TOKEN)
        assert client.get("/api/v1/status", headers={"X": "x" * 15_000}).status_code == 200
        refused = client.get("/api/v1/status", headers={"X": "x" * 17_000})
        many = client.get("/api/v1/status", headers={f"X-{i}": "" for i in range(5000)})
    assert (refused.status_code, many.status_code) == (431, 431)
    assert "16 KB" in refused.json()["detail"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not_search(client: TestClient, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for address in ("search?q=red", "images/1/thumbnail", "status"):
        assert client.get(f"/api/v1/{address}", headers=headers).status_code == 403
        assert client.head(f"/api/v1/{address}", headers=headers).status_code == 403
    for address in ("/", "/static/style.css", "/healthz"):
        assert client.get(address, headers=headers).status_code == 200, "a link may lead here"
    for own in ("same-origin", "none"):
        assert client.get("/api/v1/search?q=red", headers={"Sec-Fetch-Site": own}).status_code == 200


def test_without_tls_the_referer_tells_whose_page_asks(client: TestClient) -> None:
    host = client.base_url.netloc.decode()
    for page, status in (
        (f"http://{host}/?q=red", 200),
        ("http://elsewhere.example/", 403),
        ("http://elsewhere.example", 403),
    ):
        assert client.get("/api/v1/search?q=red", headers={"Referer": page}).status_code == status


@pytest.mark.usefixtures("index_path")  # so that nobody else asks the same server
def test_another_site_may_change_nothing(client: TestClient) -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 202)):
        assert client.post("/api/v1/update", headers={"Sec-Fetch-Site": site}).status_code == status


@pytest.mark.usefixtures("index_path")  # so that nobody else asks the same server
def test_another_site_may_change_nothing_without_tls(client: TestClient) -> None:
    for origin, status in (("http://other.example", 403), ("null", 403), ("http://localhost", 202)):
        assert client.post("/api/v1/update", headers={"Origin": origin}).status_code == status


def test_a_cookie_stands_for_its_whole_token(tokens: Path) -> None:
    long = "a" * 64
    tokens.write_text(f"{long}b\n{long}c\n")
    access = AccessTokens(tokens)
    removed = Headers({"cookie": f"seesay={access.cookie(f'{long}b')}"})
    assert access.token_of(removed) == f"{long}b"
    tokens.write_text(f"{long}c\n")
    assert access.token_of(removed) is None


def test_wrong_tokens_are_slowed_and_the_owner_is_not(index_path: Path, tokens: Path) -> None:
    def seconds(client: TestClient, token: str, status: int) -> float:
        started = time.monotonic()
        assert client.get("/api/v1/status", headers=bearer(token)).status_code == status
        return time.monotonic() - started

    with client_of(index_path, tokens) as client, ThreadPoolExecutor(4) as threads:
        wrong = [threads.submit(seconds, client, f"{OTHER}{i}", 401) for i in range(4)]
        assert seconds(client, TOKEN, 200) < 1
        waited = [each.result() for each in wrong]
        started = time.monotonic()
        assert client.post("/login", data={"token": "wrong"}).status_code == 401
        assert time.monotonic() - started >= 1
    assert min(waited) >= 1
    assert max(waited) >= 4


def test_requests_are_limited_by_token_and_not_by_address(tokens: Path) -> None:
    tokens.write_text(f"{TOKEN}\n{OTHER}\n")

    async def answers() -> list[tuple[int, str | None]]:
        going = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await going.wait()
            await PlainTextResponse("ok")(scope, receive, send)

        guard = Guard(app, Limits(requests_a_client=2), ["localhost"], tokens=AccessTokens(tokens))

        async def ask(token: str) -> tuple[int, str | None]:
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
            scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
            await guard(scope | {"client": ("192.0.2.1", 1)}, anyio.sleep_forever, send)
            return sent[0]["status"], Headers(raw=sent[0]["headers"]).get("retry-after")

        asked = [asyncio.ensure_future(ask(token)) for token in (TOKEN, TOKEN, TOKEN, OTHER, OTHER)]
        await asyncio.sleep(0.1)
        going.set()
        return [await each for each in asked]

    served = (200, None)
    assert asyncio.run(answers()) == [served, served, (429, "2"), served, served]
