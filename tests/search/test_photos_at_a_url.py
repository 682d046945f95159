"""Indexes of photos in an object store: as of a folder, but for what a store cannot do."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fastapi.testclient import TestClient

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.watch import follow
from seesay.web.app import create_app
from tests.object_stores import Flaky, ask_again_at_once, lost, uploaded
from tests.search.colours import Colours, gallery, picture

NAMES = ("red.png", "blue.png", "sub/green.png", "red-blue.png")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_again_at_once(monkeypatch)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return uploaded(gallery(tmp_path / "photos", *NAMES), "photos")


@pytest.fixture
def index(tmp_path: Path, url: str) -> Iterator[Index]:
    with Index.create(tmp_path / "index", Colours()) as made:
        made.update_images(url)
        yield made


def put(path: str, content: bytes) -> None:
    fsspec.filesystem("flaky").pipe_file(f"/bucket/photos/{path}", content)


def test_it_is_the_index_of_the_same_folder(index: Index, url: str, tmp_path: Path) -> None:
    with Index.create(tmp_path / "local", Colours()) as local:
        local.update_images(tmp_path / "photos")
        here, there = local.store.items().values(), index.store.items().values()
        assert {item.path: (item.key, item.width, item.size) for item in here} == {
            item.path: (item.key, item.width, item.size) for item in there
        }
        for query in ("red", "something green", tmp_path / "photos" / "blue.png"):
            assert [(hit.path, hit.score) for hit in local.search(query)] == [
                (hit.path, hit.score) for hit in index.search(query)
            ]
    assert [str(root.folder) for root in index.roots()] == [url]
    assert str(index.file_at("sub/green.png")) == f"{url}/sub/green.png"


def test_an_update_takes_what_is_new_moved_and_gone(index: Index, url: str) -> None:
    put("yellow.png", picture("yellow"))
    put("moved/red.png", picture("red"))
    fsspec.filesystem("flaky").rm("/bucket/photos/red.png")
    fsspec.filesystem("flaky").rm("/bucket/photos/blue.png")
    report = index.update_images(url)
    assert (report.added, report.moved, report.deleted, report.unchanged) == (1, 1, 1, 2)
    assert index.search("yellow")[0].path == "yellow.png"
    assert index.search("red")[0].path == "moved/red.png"


def test_what_cannot_be_read_or_listed_is_not_lost(index: Index, url: str) -> None:
    put("yellow.png", picture("yellow"))
    Flaky.failures["yellow.png"] = lost(3)
    report = index.update_images(url)
    assert report.skipped == [("yellow.png", "connection lost")]
    Flaky.failures["sub"] = lost(3)
    with pytest.raises(SeesayError, match=rf"^{url}/sub: cannot be read \(connection lost\)"):
        index.update_images(url)
    assert index.count("image") == 4
    assert index.update_images(url).added == 1
    with pytest.raises(SeesayError, match="not a folder; name the folder that holds the images"):
        index.update_images("flaky://bucket/elsewhere")


def test_folders_and_urls_may_be_of_one_index(index: Index, url: str, tmp_path: Path) -> None:
    scans = gallery(tmp_path / "scans", "yellow.png")
    assert index.update_images(scans).added == 1
    assert {item.path for item in index.store.items().values()} == {
        "scans/yellow.png",
        *(f"photos/{name}" for name in NAMES),
    }
    Flaky.failures["photos"] = lost(3)
    with pytest.raises(SeesayError, match=rf"{url}: cannot be read \(connection lost\)"):
        index.update_images()
    assert index.update_images().unchanged == 5
    assert index.absent() == []
    assert index.remove_images(url) == 4


def test_lost_thumbnails_are_made_again_when_they_are_wanted(index: Index, url: str) -> None:
    assert len(list((index.folder / "thumbnails").rglob("*.jpg"))) == 4
    shutil.rmtree(index.folder / "thumbnails")
    Flaky.reads.clear()
    assert Flaky.reads == []
    with TestClient(create_app(index), base_url="http://127.0.0.1:8000") as client:
        for _ in range(2):
            answer = client.get("/api/v1/images/1/thumbnail")
            assert answer.headers["content-type"] == "image/jpeg"
        name = index.store.items([1])[1].path
        assert Flaky.reads == [name]
        original = client.get("/api/v1/images/1/original")
        assert original.content == picture(*Path(str(name)).stem.split("-"))
        assert original.headers["content-type"] == "image/png"
        again = client.get("/api/v1/images/1/original", headers={"If-None-Match": original.headers["etag"]})
        assert again.status_code == 304
        assert client.get("/api/v1/images/1").json()["type"] == "image/png"
        assert client.get("/api/v1/images/archive?id=1").status_code == 422
        fsspec.filesystem("flaky").rm(f"/bucket/photos/{name}")
        assert client.get("/api/v1/images/1/original").status_code == 404


def test_a_store_cannot_be_watched(index: Index, url: str) -> None:
    with pytest.raises(SeesayError, match=r"--watch: .* does not report changes; run `seesay index`"):
        follow(index, lambda _: None, threading.Event())


def test_an_index_from_elsewhere_asks_no_store_until_it_is_confirmed(
    index: Index, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    Flaky.reads.clear()
    with Index.open(tmp_path / "index", Colours()) as theirs:
        assert theirs.file_at("red.png") is None
        with pytest.raises(SeesayError, match="was not made here by you"):
            create_app(theirs)
        with pytest.raises(SeesayError, match="was not made here by you"):
            theirs.update_images()
        assert Flaky.reads == []
        theirs.update_images(url)
        assert theirs.file_at("red.png") is not None
    with Index.open(tmp_path / "index", Colours(), root=url) as confirmed:
        assert confirmed.file_at("../../other/secret") is None
        np.testing.assert_equal(str(confirmed.file_at("red.png")), f"{url}/red.png")
