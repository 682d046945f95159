"""Pages of results, by cursors that hold for every kind of query."""

import base64
import json
import os
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.search.colours import opened, picture

SURROGATE = base64.urlsafe_b64encode(json.dumps(["2019-06-30\ud800", 1]).encode()).decode().rstrip("=")


def pages(client: TestClient, address: str, **query: object) -> list[list[dict]]:
    """All pages of two results each."""
    query = {"limit": 2, **query}
    answer = client.get(address, params=query).json()
    found = [answer["results"]]
    while answer["next"] is not None:
        answer = client.get(address, params={**query, "cursor": answer["next"]}).json()
        found.append(answer["results"])
    return found


@pytest.mark.parametrize("address", ["/api/v1/search?q=red", "/api/v1/search?q=id:1"])
def test_pages_are_what_one_page_would_be(client: TestClient, address: str) -> None:
    path, _, q = address.partition("?q=")
    whole = client.get(path, params={"q": q}).json()
    assert whole["next"] is None
    found = pages(client, path, q=q)
    assert [len(page) for page in found] == [2] * (len(whole["results"]) // 2) + [1] * (
        len(whole["results"]) % 2
    )
    assert [hit["id"] for page in found for hit in page] == [hit["id"] for hit in whole["results"]]


def test_pages_of_a_filter(client: TestClient) -> None:
    found = pages(client, "/api/v1/search", q="red", where="name:png")
    assert len({hit["id"] for page in found for hit in page}) == 5


def test_similar_images_are_without_the_image(client: TestClient) -> None:
    assert {hit["id"] for page in pages(client, "/api/v1/search", q="id:1") for hit in page} == {2, 3, 4, 5}
    assert client.get("/api/v1/search?q=id:999").status_code == 422


def test_further_pages_of_an_upload_need_no_upload(client: TestClient) -> None:
    files = {"image": ("a.png", picture("red"))}
    first = client.post("/api/v1/search", params={"q": "- blue", "limit": 2}, files=files).json()
    assert first["q"].startswith("- blue + upload:")
    whole = client.get("/api/v1/search", params={"q": first["q"]}).json()
    query = {"q": first["q"], "cursor": first["next"]}
    second = client.get("/api/v1/search", params=query).json()
    assert first["results"] + second["results"] == whole["results"]


def test_further_pages_of_a_long_query_with_uploads(client: TestClient) -> None:
    files = {"image": ("a.png", picture("red"))}
    params = {"q": "red " + "-blue " * 2 + "yellow " * 69, "limit": 2}
    assert len(str(params["q"])) == 499
    first = client.post("/api/v1/search", params=params, files=files).json()
    assert len(first["q"]) > 500
    second = client.get("/api/v1/search", params={"q": first["q"], "cursor": first["next"]})
    assert second.status_code == 200


def test_an_upload_that_is_forgotten_is_gone(client: TestClient) -> None:
    response = client.get("/api/v1/search", params={"q": "upload:" + "0" * 32})
    assert response.status_code == 410
    assert "upload the image again" in response.json()["detail"]
    assert client.get("/api/v1/search", params={"q": "upload:red"}).status_code == 200  # a sentence


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "W10", "W05hTiwxLDFd", "e30", "WyJhIiwxXQ", "////", "W1tbW1tb", SURROGATE],
)
def test_what_is_no_cursor_is_refused(client: TestClient, cursor: str) -> None:
    for address, query in (
        ("/api/v1/search", {"q": "red"}),
        ("/api/v1/search", {"q": "id:1"}),
    ):
        response = client.get(address, params={"cursor": cursor, **query})
        assert response.status_code == 422
        assert "Invalid cursor" in response.json()["detail"]


def test_the_newest_come_first_and_months_count_them(
    client: TestClient, photos: Path, index_path: Path
) -> None:
    for i, path in enumerate(sorted(photos.rglob("*.png"))):
        os.utime(path, (1_500_000_000 + i * 86_400 * 20,) * 2)
    opened(index_path).update_images(photos)
    images = client.get("/api/v1/images").json()["results"]
    assert [image["path"] for image in images] == sorted((i["path"] for i in images), reverse=True)
    assert images[0]["time"] == "2017-10-02T02:40:00"
    months = client.get("/api/v1/images/months").json()["counts"]
    assert sum(month["images"] for month in months) == 5
    assert months[0] == {"name": "2017-10", "images": 1}
    assert client.get("/api/v1/images", params={"where": "folder:sub"}).json()["results"][0]["path"] == (
        "sub/green.png"
    )
    older = client.get("/api/v1/images", params={"offset": 2, "limit": 2}).json()
    assert older["results"] == images[2:4]
    rest = client.get("/api/v1/images", params={"offset": 4}).json()
    assert rest["results"] == images[4:]
    assert client.get("/api/v1/images", params={"offset": -1}).status_code == 422
