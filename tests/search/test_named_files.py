"""Files and folders are found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from seesay.search import Index
from seesay.web.app import create_app
from tests.search.colours import Colours, gallery, opened, picture


class Quiet(Colours):
    """Corrects nothing, and knows no name of a file."""

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        return [word for sentence in sentences for word in sentence.lower().split() if "_" in word]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    photos = gallery(tmp_path / "photos", "red.png", "Safari 2019/blue.png", "green.png")
    for number, colour in enumerate(("red", "blue", "white")):
        (photos / f"IMG_202{number}.png").write_bytes(picture(colour))
    with Index.create(tmp_path / "index", Quiet()) as index:
        index.update_images(photos)
    return tmp_path / "index"


@pytest.fixture
def index(folder: Path) -> Iterator[Index]:
    with opened(folder, Quiet()) as found:
        yield found


def paths(index: Index, query: str, **options: object) -> set[str | None]:
    return {hit.path for hit in index.search(query, **options)}  # type: ignore[arg-type]


def test_a_word_like_a_files_name_finds_the_files_of_that_name(index: Index) -> None:
    answer = index.search("img_2021")
    assert [(hit.path, hit.probability) for hit in answer] == [("IMG_2021.png", 1.0)]
    assert (answer.certainty, answer.unknown_words, answer.where_meant) == ("sure", (), None)
    assert paths(index, "IMG_202") == {f"IMG_202{number}.png" for number in range(3)}
    assert paths(index, "IMG_202", where="-name:2021") == {"IMG_2020.png", "IMG_2022.png"}


def test_pages_of_files_of_a_name_follow_each_other(index: Index) -> None:
    first = index.search("IMG_202", k=2)
    assert first.end is not None
    rest = index.search("IMG_202", k=2, after=first.end)
    assert {hit.path for hit in (*first, *rest)} == {f"IMG_202{number}.png" for number in range(3)}
    assert rest.end is None


@pytest.mark.parametrize("query", ["IMG_9999", '"IMG_2021"', "red", "IMG_2021 + red", "red."])
def test_other_queries_are_asked_of_the_photos(index: Index, query: str) -> None:
    assert len(paths(index, query)) == 6


def test_names_are_offered_where_nothing_fits(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("FITS", "SURE"):  # that no image reaches
        monkeypatch.setattr(f"seesay.search.hits.{line}", 2.0)
    assert index.search("safari").where_meant == "folder:safari"
    assert index.search("Safari 2019").where_meant == 'folder:"Safari 2019"'
    assert index.search("green", where="taken:1970..").where_meant == "taken:1970.. name:green"
    assert index.search("nowhere").where_meant is None
    assert index.search("safari - red").where_meant is None


def test_a_server_finds_files_by_their_names_and_opens_none(folder: Path) -> None:
    with TestClient(create_app(opened(folder, Quiet())), base_url="http://127.0.0.1:8000") as client:
        found = client.get("/api/v1/search", params={"q": "IMG_2021.png"}).json()
        assert [each["path"] for each in found["results"]] == ["IMG_2021.png"]
        assert found["certainty"] == "sure"
        assert found["q"] == found["query"][0]["text"].removeprefix("+ ") == "IMG_2021.png"
        assert client.get("/api/v1/search", params={"q": "/etc/passwd.jpg"}).status_code == 422


@pytest.mark.parametrize("asked", [('"IMG_2021.png"', "IMG_2021.png"), ("IMG_2021.png", '"IMG_2021.png"')])
def test_a_name_in_quotes_is_another_query_for_a_server_that_remembers_queries(
    folder: Path, asked: tuple[str, str]
) -> None:
    with TestClient(create_app(opened(folder, Quiet())), base_url="http://127.0.0.1:8000") as client:
        counts = {q: len(client.get("/api/v1/search", params={"q": q}).json()["results"]) for q in asked}
    assert counts == {'"IMG_2021.png"': 6, "IMG_2021.png": 1}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("Hund", "dog"),
        ("狗", "dog"),
        ("playa", "beach"),
        ("NEIGE", "snow"),
        ("red", None),
        ('"Hund"', None),
        ("Hund - red", None),
        ("chat", None),  # is English, too
    ],
)
def test_the_english_name_of_a_thing_is_offered(index: Index, query: str, meant: str | None) -> None:
    assert index.search(query).query_meant == meant
