"""Indexes with a detector of objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.encoders.detector import Detection, Detector
from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.detecting import Detecting
from seesay.search.searcher import with_detector
from tests.encoders.test_detector import graph, rows
from tests.search.colours import Colours, gallery, photo_of, picture
from tests.search.test_gallery import Named


class Reds(Detector):
    """Sees an apple as wide as the red part of an image, and never a dog."""

    names = ("apple", "dog")
    path = Path("reds.onnx")
    fingerprint = "reds"

    def __init__(self) -> None:
        self.calls = 0

    def detect(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], list[Detection]]:
        self.calls += 1
        red = (pixels[:, :, 0] > 200) & (pixels[:, :, 1] < 50)
        if not red.any():
            return np.zeros(2, np.float32), []
        columns = np.flatnonzero(red.any(axis=0))
        share = float(red.mean())
        box = (float(columns[0]), 0.0, float(columns[-1] + 1), float(len(pixels)))
        return np.array([share, 0], np.float32), [Detection("apple", box, share)]


@pytest.fixture
def reds() -> Reds:
    return Reds()


@pytest.fixture
def detecting(reds: Reds) -> Detecting:
    return Detecting(Named(), reds)


@pytest.fixture
def index(tmp_path: Path, detecting: Detecting):
    photos = gallery(tmp_path / "photos", "red.png", "blue-red.png", "blue.png", "green.png", "black.png")
    with Index.create(tmp_path / "index", detecting) as made:
        made.update_images(photos)
        yield made


def test_objects_that_a_query_names_come_first_with_their_boxes(index: Index) -> None:
    answer = index.search("an apple")
    assert [hit.path for hit in answer][:2] == ["red.png", "blue-red.png"]
    assert [len(hit.objects) for hit in answer] == [1, 1, 0, 0, 0]
    assert answer[1].objects[0].box == (30, 0, 60, 40)
    first = answer.to_dict()["results"][0]
    assert first["objects"] == [{"name": "apple", "box": [0.0, 0.0, 60.0, 40.0], "confidence": 1.0}]


def test_the_score_is_the_sum_of_both(index: Index, detecting: Detecting) -> None:
    plain = Named()
    gap = {}
    for hit in index.search("apple"):
        (row,) = plain.embed_photos([photo_of(picture(*Path(hit.path).stem.split("-")))])
        gap[hit.path] = hit.score - float(row @ plain.embed_sentences(["apple"])[0])
    assert gap["red.png"] == pytest.approx(0.5, abs=1e-3)
    assert gap["blue-red.png"] == pytest.approx(0.25, abs=1e-3)
    assert gap["green.png"] == pytest.approx(0, abs=1e-3)


def test_other_queries_are_as_without_it(index: Index, tmp_path: Path) -> None:
    with Index.create(tmp_path / "plain", Colours()) as plain:
        plain.update_images(tmp_path / "photos")
        for query in ("green", "something blue"):
            with_it, without = index.search(query), plain.search(query)
            assert [(hit.path, hit.objects) for hit in with_it] == [(hit.path, ()) for hit in without]
            assert [hit.score for hit in with_it] == pytest.approx([hit.score for hit in without], abs=1e-6)


def test_what_the_detector_saw_decides_how_probable_a_name_is(index: Index, tmp_path: Path) -> None:
    chances = {hit.path: hit.probability for hit in index.search("an apple")}
    assert chances["red.png"] >= chances["blue-red.png"] > 0.5 > chances["blue.png"]
    assert index.search("a dog").nothing_fits
    with Index.create(tmp_path / "plain", Named()) as plain:
        plain.update_images(tmp_path / "photos")
        more = "an apple on the green grass of a wide field beside the river"
        for query, same in (("something blue", 1e-6), (more, 0.01)):
            pairs = zip(index.search(query), plain.search(query), strict=True)
            assert all(a.probability == pytest.approx(b.probability, abs=same) for a, b in pairs), query


def test_a_word_that_is_repeated_is_answered_like_the_word(index: Index) -> None:
    once, twice = index.search("apple"), index.search("apple + apple")
    assert [hit.score for hit in twice] == pytest.approx([hit.score for hit in once], abs=1e-3)
    assert [hit.probability for hit in twice] == pytest.approx([hit.probability for hit in once], abs=1e-2)


def test_what_is_taken_away_has_no_boxes(index: Index) -> None:
    assert all(not hit.objects for hit in index.search("something blue - apple"))


def test_it_is_asked_once_for_each_content(index: Index, reds: Reds, tmp_path: Path) -> None:
    assert reds.calls == 5
    (tmp_path / "photos" / "red.png").rename(tmp_path / "photos" / "moved.png")
    (tmp_path / "photos" / "blue-red.png").unlink()
    index.update_images(tmp_path / "photos")
    assert reds.calls == 5
    answer = index.search("apple")
    assert (answer[0].path, len(answer[0].objects)) == ("moved.png", 1)
    assert index.store.objects([hit.id for hit in answer], ["dog"]) == {}


def test_large_photographs_have_boxes_in_their_own_pixels(tmp_path: Path) -> None:
    detecting = Detecting(Colours(), Reds())
    large = picture("red", size=(4000, 3000), format="JPEG")
    _, ((found,),) = detecting.embed_and_detect([photo_of(large)])
    assert found.box == pytest.approx((0, 0, 4000, 3000))


def test_an_index_knows_its_detector(tmp_path: Path) -> None:
    file = graph(tmp_path / "two.onnx", rows())
    (tmp_path / "two.txt").write_text("dog\ncat\n")
    folder = tmp_path / "index"
    embedder = with_detector(folder, None, file)
    assert embedder.run.name == "seesay-small"
    Index.create(folder, embedder).close()
    with Index.open(folder) as opened:
        assert (opened.run_name, opened.detector) == ("seesay-small", file)
        assert opened.run.fingerprint == embedder.fingerprint
        assert opened.run.calibration is None
        assert opened.run.unknown_words(["xyzzy"]) == ["xyzzy"]
    assert with_detector(folder, None, file).fingerprint == embedder.fingerprint
    with pytest.raises(SeesayError, match="different weights or preprocessing"):
        Index.open(folder, "seesay-small")
    file.unlink()
    with (
        Index.open(folder) as opened,
        pytest.raises(SeesayError, match=r"two\.onnx, which no longer exists.* --detector FILE"),
    ):
        opened.search("dog")
