"""Who is let in: tokens, cookies, and pages of other sites."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from seesay.web.access import Access
from seesay.web.app import Options, create_app
from tests.linear import check_linear
from tests.search.colours import opened

TOKEN = "a-token-of-many-letters"


@pytest.mark.parametrize("escaped", [r"\"", r"\054", ";", "; ", "=", " "])
def test_the_time_to_find_a_cookie_is_linear_in_the_header(escaped: str) -> None:
    access = Access(TOKEN)

    def header(size: int) -> Headers:
        return Headers({"cookie": 'seesay="' + escaped * (size // len(escaped)) + '"'})

    check_linear(lambda headers: access.refusal("/api/v1/search", headers), header, 64_000)


def test_the_cookie_is_found_among_others() -> None:
    access = Access(TOKEN)
    ours = f"seesay={access.cookie}"
    for cookies in (ours, f"a=b; {ours}", f"{ours};c=d", f'x="q;"; {ours} ; y', f"seesay=old; {ours}"):
        assert access.refusal("/", Headers({"cookie": cookies})) is None, cookies
    for cookies in (f"not-{ours}", f"{ours}0", f"a={ours}", f'a="b{ours}"', ""):
        assert access.refusal("/", Headers({"cookie": cookies})) is not None, cookies


def test_large_headers_are_refused(index_path: Path) -> None:
    app = create_app(opened(index_path), Options(token=TOKEN))
    with TestClient(app, base_url="http://localhost") as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/v1/status", headers={**headers, "X": "x" * 15_000}).status_code == 200
        refused = client.get("/api/v1/status", headers={**headers, "X": "x" * 17_000})
        many = client.get("/api/v1/status", headers={**headers, **{f"X-{i}": "" for i in range(5000)}})
    assert (refused.status_code, many.status_code) == (431, 431)
    assert "16 KB" in refused.json()["detail"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_may_not_search(client: TestClient, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for address in ("search?q=red", "images/1/thumbnail", "status"):
        assert client.get(f"/api/v1/{address}", headers=headers).status_code == 403
        assert client.head(f"/api/v1/{address}", headers=headers).status_code == 403
    for address in ("/", "/docs", "/static/style.css", "/healthz"):
        assert client.get(address, headers=headers).status_code == 200, "a link may lead here"
    for own in ("same-origin", "none"):
        assert client.get("/api/v1/search?q=red", headers={"Sec-Fetch-Site": own}).status_code == 200
