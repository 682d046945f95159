"""Phrases and boxes over HTTP, with a small run trained on drawn scenes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.grounding import Grounder
from seesay.runs.run import Run
from seesay.search import Index
from seesay.web.security import Limits
from tests.search.colours import Colours
from tests.web.conftest import client_of

TEXT = "a red circle is above a blue square"


@pytest.fixture(scope="module")
def scene(scenes: Path) -> Path:
    return min((scenes / "images").iterdir())


@pytest.fixture(scope="module")
def folder(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of one scene, its photos beside it."""
    folder = tmp_path_factory.mktemp("grounded")
    (folder / "photos").mkdir()
    shutil.copy(scene, folder / "photos")
    index = Index.create(folder / "index", Colours())
    index.update_images(folder / "photos")
    index.add_sentences(["something red"])
    index.close()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, grounding_run: Path) -> Iterator[TestClient]:
    with client_of(folder / "index", ground_run=str(grounding_run)) as client:
        yield client


def test_an_upload_and_an_indexed_image_are_answered_as_the_grounder_does(
    client: TestClient, scene: Path, grounding_run: Path
) -> None:
    data = scene.read_bytes()
    expected = Grounder(Run.load(str(grounding_run))).ground(data, "scene", TEXT, 3)
    upload = client.post(
        "/api/v1/ground", params={"q": TEXT, "limit": 3}, files={"image": ("x.jpg", data)}
    ).json()
    indexed = client.get("/api/v1/images/1/ground", params={"q": TEXT, "limit": 3}).json()
    assert upload["phrases"] == indexed["phrases"]
    assert (upload["width"], upload["height"]) == (160, 128)
    for phrase, known in zip(upload["phrases"], expected.phrases, strict=True):
        assert (phrase["phrase"], phrase["start"], phrase["end"]) == (known.text, known.start, known.end)
        for box, place in zip(phrase["boxes"], known.boxes, strict=True):
            assert box["box"] == pytest.approx(place.box, abs=0.051)
            assert box["score"] == pytest.approx(place.score, abs=1e-4)


def test_a_phrase_of_no_known_word_says_so(client: TestClient) -> None:
    (phrase,) = client.get("/api/v1/images/1/ground", params={"q": "zzyx"}).json()["phrases"]
    assert (phrase["known"], phrase["boxes"]) == (False, [])


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/v1/images/1/ground", 422),
        ("/api/v1/images/1/ground?q=%20", 422),
        ("/api/v1/images/1/ground?q=red&limit=0", 422),
        ("/api/v1/images/1/ground?q=red&limit=21", 422),
        ("/api/v1/images/1/ground?q=" + "a" * 501, 422),
        ("/api/v1/images/0/ground?q=red", 422),
        ("/api/v1/images/999/ground?q=red", 404),
        ("/api/v1/images/2/ground?q=red", 404),  # a sentence
        ("/api/v1/images/..%2F..%2Fetc%2Fpasswd/ground?q=red", 404),
        ("/api/v1/ground?q=red", 405),
    ],
)
def test_failures_are_json_with_their_status(client: TestClient, address: str, status: int) -> None:
    response = client.get(address)
    assert response.status_code == status
    assert response.json()["detail"]


def test_uploads_that_are_no_images(client: TestClient) -> None:
    response = client.post("/api/v1/ground", params={"q": "red"}, files={"image": ("x.jpg", b"no image")})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("the image: ")
    assert client.post("/api/v1/ground?q=red", data={"image": "/etc/passwd"}).status_code == 422


def test_errors_about_a_file_do_not_name_its_folder(client: TestClient, folder: Path, scene: Path) -> None:
    file = folder / "photos" / scene.name
    try:
        file.write_bytes(b"no image")
        broken = client.get("/api/v1/images/1/ground?q=red")
        file.unlink()
        gone = client.get("/api/v1/images/1/ground?q=red")
    finally:
        shutil.copy(scene, file)
    assert (broken.status_code, gone.status_code) == (422, 404)
    assert str(folder) not in broken.text + gone.text


def test_large_uploads_are_refused(folder: Path, grounding_run: Path) -> None:
    limits = Limits(upload_bytes=10_000)
    with client_of(folder / "index", limits=limits, ground_run=str(grounding_run)) as client:
        for size in (20_000, 200_000):
            files = {"image": ("x.jpg", bytes(size))}
            assert client.post("/api/v1/ground?q=red", files=files).status_code == 413


@pytest.mark.parametrize(("run", "words"), [("nowhere", "no run there"), ("seesay-small", "whole images")])
def test_without_a_run_that_grounds(folder: Path, run: str, words: str, capsys) -> None:
    with client_of(folder / "index", ground_run=run) as c:
        response = c.get("/api/v1/images/1/ground?q=red")
        assert response.status_code == 503
        assert "the log of the server says why" in response.json()["detail"]
        assert words in capsys.readouterr().err
        assert c.get("/api/v1/status").json()["grounding"] is False
        assert c.get("/api/v1/search?q=red").status_code == 200


def test_the_schema_names_the_routes(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/api/v1/ground", "/api/v1/images/{id}/ground"} <= set(paths)
    answers = paths["/api/v1/ground"]["post"]["responses"]
    assert set(answers) == {"200", "400", "401", "403", "413", "422", "429", "431", "500", "503", "507"}
