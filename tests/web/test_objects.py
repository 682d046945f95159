"""Objects that a detector saw, over HTTP and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.search import Index
from seesay.search.detecting import Detecting
from seesay.web.app import create_app
from tests.search.colours import Colours, gallery
from tests.search.test_detecting import Reds


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    photos = gallery(tmp_path / "photos", "blue-red.png", "green.png")
    with Index.create(tmp_path / "index", Detecting(Colours(), Reds())) as index:
        index.update_images(photos)
    opened = Index.open(tmp_path / "index", Detecting(Colours(), Reds()))
    with TestClient(create_app(opened), base_url="http://127.0.0.1:8000") as client:
        yield client


def test_results_have_the_boxes_of_what_the_query_names(client: TestClient) -> None:
    first, second = client.get("/api/v1/search", params={"q": "apples"}).json()["results"]
    assert first["path"] == "blue-red.png"
    assert first["objects"] == [{"name": "apple", "box": [30, 0, 60, 40], "confidence": 0.5}]
    assert second["objects"] == []
    others = client.get("/api/v1/search", params={"q": "something red"}).json()["results"]
    assert [each["objects"] for each in others] == [[], []]
