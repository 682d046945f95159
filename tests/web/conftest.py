from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.search.index import Index
from seesay.web.app import create_app
from tests.search.colours import RGB, Colours, gallery, picture

NAMES = ("red.png", "blue.png", "sub/green.png", "red-blue.png", "yellow-black.png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", *NAMES)


@pytest.fixture
def index_path(tmp_path: Path, photos: Path) -> Path:
    index = Index.create(tmp_path / "index", Colours())
    index.update_images(photos, Colours())
    index.add_sentences([f"something {colour}" for colour in RGB], Colours())
    index.close()
    return tmp_path / "index"


@pytest.fixture
def client(index_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(index_path, Colours()), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
def red() -> bytes:
    return picture("red")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from tests.web.browser import chromium  # skips where there is none

    yield from chromium()
