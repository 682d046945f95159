"""Re-ranking over HTTP, with a small pair matcher trained on drawn scenes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search import Answer, Index
from seesay.search.rerank import Reranked, Reranker
from seesay.web.app import create_app, serve
from seesay.web.options import ServerOptions
from seesay.web.routes import queries
from seesay.web.service import Lazy, Service
from tests.search.colours import Colours, opened, picture
from tests.web.conftest import client_of

TEXT = "a red circle is above a blue square"


@pytest.fixture(scope="module")
def client(scene_index: Path, pair_run: Path) -> Iterator[TestClient]:
    with TestClient(create_app(opened(scene_index), ServerOptions(rerank_run=str(pair_run)))) as client:
        client.base_url = "http://localhost"
        yield client


@pytest.fixture(scope="module")
def expected(scene_index: Path, pair_run: Path) -> Reranked:
    with opened(scene_index) as index:
        return Reranker(Run.load(str(pair_run))).search(index, TEXT, 10)


def test_images_come_in_the_order_of_the_run(client: TestClient, expected: Reranked) -> None:
    plain = client.get("/api/v1/search", params={"q": TEXT}).json()
    assert plain["reranking"] is None
    assert {image["shortlist_rank"] for image in plain["results"]} == {None}
    answer = client.get("/api/v1/search", params={"q": TEXT, "rerank": True, "limit": 4}).json()
    for image, hit in zip(answer["results"], expected.hits[:4], strict=True):
        assert (image["path"], image["shortlist_rank"]) == (hit.path, hit.shortlist_rank)
        assert image["score"] == pytest.approx(hit.score, abs=1e-4)
        assert image["shortlist_score"] == plain["results"][hit.shortlist_rank - 1]["score"]
    assert (answer["reranking"]["compared"], answer["reranking"]["left"]) == (10, 0)
    assert 0 < answer["reranking"]["milliseconds"] <= answer["milliseconds"]


def test_sentences_of_an_upload(client: TestClient) -> None:
    files = {"image": ("mine.png", picture("red"))}
    answer = client.post("/api/v1/sentences", params={"rerank": True}, files=files).json()
    assert sorted(line["shortlist_rank"] for line in answer["results"]) == [1, 2, 3]
    scores = [line["score"] for line in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    bad = client.post("/api/v1/sentences?rerank=true", files={"image": ("x.jpg", b"no image")})
    assert bad.status_code == 422


def test_a_server_says_whether_it_re_ranks(client: TestClient, scene_index: Path) -> None:
    assert client.get("/api/v1/status").json()["reranking"] is True
    with client_of(scene_index) as without:
        assert without.get("/api/v1/status").json()["reranking"] is False
        files = {"image": ("mine.png", picture("red"))}
        for response in (
            without.get("/api/v1/search?q=red&rerank=true"),
            without.post("/api/v1/sentences?rerank=1", files=files),
        ):
            assert response.status_code == 422
            assert "--rerank" in response.json()["detail"]
    assert client.get("/api/v1/search?q=red&rerank=perhaps").status_code == 422


def test_the_run_is_loaded_when_it_is_first_needed(scene_index: Path, pair_run: Path, tmp_path: Path) -> None:
    shutil.copy(pair_run / "run.json", tmp_path)  # without weights
    with client_of(scene_index, rerank_run=str(tmp_path)) as client:
        assert client.get("/api/v1/search?q=red").status_code == 200
        assert client.get("/api/v1/search?q=red&rerank=true").status_code == 503


def test_something_lazy_is_loaded_once() -> None:
    loaded: list[int] = []
    lazy = Lazy(lambda: loaded.append(1) or object())
    assert not loaded
    assert lazy.get() is lazy.get()
    assert loaded == [1]


class Slow:
    """A re-ranker that counts the queries that it works on at once, and finishes when it is told to."""

    def __init__(self) -> None:
        self.at_once = 0
        self.going, self.done = threading.Semaphore(0), threading.Event()

    shortlist = 100

    def search(self, *_: object) -> Reranked:
        self.at_once += 1
        self.going.release()
        self.done.wait(20)
        self.at_once -= 1
        return Reranked(Answer(), 0, 0, [], 0.0)


def test_plain_queries_do_not_wait_for_re_rankings(scene_index: Path) -> None:
    """Though more are asked for than there are cores."""
    slow, count = Slow(), (os.cpu_count() or 1) + 1
    app = FastAPI()
    with opened(scene_index) as index, ThreadPoolExecutor(count) as threads:
        app.state.service = Service({"scenes": index}, ServerOptions(ground_run="nowhere"))
        app.state.service.reranker = Lazy(lambda: slow)
        app.include_router(queries.router)
        with TestClient(app) as client:
            slowly = [threads.submit(client.get, "/api/v1/search?q=red&rerank=true") for _ in range(count)]
            assert slow.going.acquire(timeout=10)
            try:
                assert client.get("/api/v1/search?q=red").status_code == 200
                assert slow.at_once == 1
            finally:
                slow.done.set()
            assert [each.result().status_code for each in slowly] == [200] * count


def test_files_that_are_gone_are_counted(scene_index: Path, pair_run: Path, tmp_path: Path) -> None:
    shutil.copytree(scene_index.parent / "photos", tmp_path / "photos")
    name = "never seen.png"
    (tmp_path / "photos" / name).write_bytes(picture("red", "black", "white"))
    index = Index.create(tmp_path / "index", Colours())
    index.update_images(tmp_path / "photos")
    index.close()
    (tmp_path / "photos" / name).unlink()
    with client_of(tmp_path / "index", rerank_run=str(pair_run)) as client:
        answer = client.get("/api/v1/search", params={"q": TEXT, "rerank": True}).json()
    assert (answer["reranking"]["compared"], answer["reranking"]["left"]) == (10, 1)
    assert answer["results"][-1]["path"] == name
    assert answer["results"][-1]["shortlist_rank"] is None


@pytest.mark.parametrize("name", ["nowhere", "seesay-ground"])
def test_a_run_that_cannot_is_an_error_at_once(scene_index: Path, name: str) -> None:
    with pytest.raises(SeesayError, match=r"no run there|matches phrases with regions"):
        serve(opened(scene_index), port=0, options=ServerOptions(rerank_run=name))
