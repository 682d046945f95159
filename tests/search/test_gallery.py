"""What an index knows of its images as a gallery, and the probabilities that follow from it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.search import Answer, Hit, Index
from seesay.search.certainty import FITS, IMAGES, unrelated_sentences
from seesay.search.judging import Background
from seesay.search.query import Image, Part, Query, Text
from tests.search.colours import RGB, Colours, gallery, picture, prepared


class Named(Colours):
    """Colours whose unrelated sentences have random vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> NDArray[np.float32]:
        self.asked += sentences
        rows = super().embed_sentences(sentences, query)
        for row, sentence in zip(rows, sentences, strict=True):
            if not set(sentence.lower().split()) & set(RGB):
                row[:] = np.abs(np.random.default_rng(len(sentence)).normal(size=64)) / 8
        return rows

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        return [word for sentence in sentences for word in sentence.split() if word.startswith("x")]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", *(f"{a}-{b}.png" for a in RGB for b in RGB if "green" not in (a, b)))


@pytest.fixture
def index(tmp_path: Path, photos: Path):
    with Index.create(tmp_path / "index", Named()) as made:
        made.update_images(photos)
        yield made


def test_a_gallery_of_changed_photos_is_learned_again(index: Index, photos: Path) -> None:
    before = index.store.current("background")
    assert index.update_images().unchanged > 0
    assert index.store.current("background") == before
    (photos / "red-blue.png").write_bytes(picture("yellow"))
    assert index.update_images().changed == 1
    assert index.store.current("background") != before


@settings(max_examples=20)
@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=20), st.floats(1e-6, 1e3))
def test_what_is_stored_is_read(sample: list[int], unit: float) -> None:
    read = Background.from_json(Background(len(sample), np.array(sample), unit).to_json())
    assert read is not None
    assert (read.count, read.sample.tolist(), read.unit) == (len(sample), sample, unit)


def test_hits_have_falling_probabilities(index: Index) -> None:
    answer = index.search("red", k=25)
    chances = [hit.probability for hit in answer]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.5 > FITS > chances[-1]
    assert answer.certainty == "sure"
    assert [hit.fits for hit in answer] == [chance >= FITS for chance in chances]
    assert [row["probability"] for row in answer.to_dict()["results"]] == [round(each, 4) for each in chances]


class Absolute(Named):
    """Colours whose scores are calibrated by themselves."""

    calibration = ScoreCalibration(Calibration(-4.0, 8.0), Calibration(-9.0, 10.0))


@pytest.mark.parametrize("matcher", [Named, Absolute])
def test_a_further_page_is_judged_beside_the_best_of_the_gallery(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, matcher: type[Named]
) -> None:
    with Index.create(tmp_path / "index", matcher()) as index:
        index.update_images(photos)
        first, searched, nearest = index.search("red", k=3), list[int](), index.nearest
        monkeypatch.setattr(index, "nearest", lambda *given: searched.append(given[2]) or nearest(*given))
        assert len(index.search("red", k=3, after=first.end)) == 3
        assert searched == [3, 1]


@pytest.mark.parametrize(("matcher", "asked"), [(Absolute, "red"), (Named, "a photo of red")])
def test_who_learned_from_captions_is_asked_for_what_they_describe(
    tmp_path: Path, photos: Path, matcher: type[Named], asked: str
) -> None:
    with Index.create(tmp_path / "index", matcher()) as index:
        index.update_images(photos)
        assert str(prepared(index, "a photo of red").query) == asked
        assert str(prepared(index, '"a photo of red"').query) == '"a photo of red"'


def test_a_calibration_of_scores_is_scaled_to_the_best_answer_of_the_gallery(
    tmp_path: Path, photos: Path
) -> None:
    with Index.create(tmp_path / "absolute", Absolute()) as index:
        index.update_images(photos)
        for text in ("red", "a red", "red + red - blue"):
            hits = index.search(text, k=25)
            own = np.array([1 / (1 + np.exp(4 - 8 * hit.score)) for hit in hits])
            found = np.array([hit.probability for hit in hits])
            np.testing.assert_allclose(found / found[0], own / own[0], atol=1e-6)


def test_what_is_not_there_fits_nothing(index: Index) -> None:
    answer = index.search("green")
    assert answer.certainty == "nothing"
    assert len(answer) == 10
    assert answer.to_dict()["certainty"] == "nothing"


def test_a_part_of_the_gallery_has_the_same_probabilities(index: Index) -> None:
    whole = {hit.path: hit.probability for hit in index.search("red", k=25)}
    for part in (index.search("red", k=3), index.search("red", where="taken:1970..", k=5)):
        assert part
        for hit in part:
            assert hit.probability == whole[hit.path]
    assert index.search("red", where="taken:..1970").certainty == "nothing"


def chances_of(answer: Answer) -> dict[str | None, float]:
    return {hit.path: hit.probability or 0.0 for hit in answer}


def test_answers_to_an_image_are_counted_from_the_mean_to_the_image_itself(index: Index) -> None:
    items = index.store.photos()
    vectors = np.stack([index.store.vector(id_) for id_ in items])
    query = index.store.vector(1)
    found = chances_of(index.search("id:1", k=25))
    assert len(found) == len(items) - 1
    for vector, item in zip(vectors, items.values(), strict=True):
        if item.id != 1:
            mean = vectors.mean(axis=0) @ query
            share = (vector @ query - mean) / (query @ query - mean)
            expected = 1 / (1 + np.exp(-(IMAGES.intercept + IMAGES.slope * share)))
            assert found[item.path] == pytest.approx(expected, rel=1e-2)


def test_an_image_that_nothing_is_like_fits_nothing(index: Index, photos: Path) -> None:
    assert index.search(picture("green")).certainty == "nothing"
    assert index.search(picture("red", "blue"))[0].probability > 0.5
    assert index.search(photos / "red-red.png").certainty != "nothing"


def test_a_query_with_an_image_is_judged_by_its_parts(index: Index) -> None:
    image, blue = Part(Image(picture("red")), 3.0), Part(Text("blue"))
    both, less = (
        chances_of(index.search(Query(parts), k=25))
        for parts in ((image, blue), (image, blue, Part(Text("white"), -0.5)))
    )
    white = chances_of(index.search("white", k=25))
    for path, chance in less.items():
        assert chance == pytest.approx((1 - white[path]) * both[path], rel=0.02, abs=1e-3)
    assert both["red-blue.png"] > max(both["red-red.png"], both["blue-blue.png"]) > both["white-white.png"]
    assert chances_of(index.search(Query((image, image, blue, blue)), k=25)) == pytest.approx(both)
    half = index.search(Query((image, Part(Text("blue xyzzy")))), k=25)
    assert chances_of(half) == pytest.approx({path: chance / 2 for path, chance in both.items()})
    assert index.search("red + blue")[0].probability is not None


def test_parts_that_each_show_a_little_show_more_together(index: Index) -> None:
    red, blue = (chances_of(index.search(picture(colour), k=25)) for colour in ("red", "blue"))
    both = chances_of(index.search(Query((Part(Image(picture("red"))), Part(Image(picture("blue"))))), k=25))
    for path, chance in both.items():
        odds = [p / (1 - p) for p in (red[path], blue[path], 0.06)]  # six in a hundred show something anyway
        assert chance / (1 - chance) == pytest.approx(odds[0] * odds[1] / odds[2], rel=0.02)


def test_unknown_words_that_are_taken_away_take_nothing_away(index: Index) -> None:
    for wanted in ("red", Image(picture("red"))):
        parts = Query.parse(wanted).parts if isinstance(wanted, str) else (Part(wanted),)
        plain = chances_of(index.search(Query(parts), k=25))
        less = chances_of(index.search(Query((*parts, Part(Text("xyzzy"), -0.01))), k=25))
        assert less == pytest.approx(plain, abs=0.05)


def test_an_image_is_like_itself_in_a_gallery_without_others(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Named()) as index:
        index.update_images(photos)
        assert index.search(photos / "red.png")[0].probability > 0.9
        assert index.search(picture("blue"))[0].probability < 0.1


def test_unknown_words_make_an_answer_less_probable(index: Index) -> None:
    known, half = (index.search(text)[0].probability for text in ("red", "red xyzzy"))
    assert half == pytest.approx(known / 2)
    assert index.search("xyzzy xqwop").certainty == "nothing"


def test_it_is_learned_when_images_change_and_read_at_queries(tmp_path: Path, photos: Path) -> None:
    first = unrelated_sentences()[0]
    with Index.create(tmp_path / "index", Named()) as index:
        index.update_images(photos)
        index.search("red")
        assert index.run.asked.count(first) == 1
        generation = index.store.generation()
        index.update_images(photos)
        assert index.run.asked.count(first) == 1
        before = index.search("green")[0].probability
        gallery(photos, "green.png")
        index.update_images(photos)
        assert index.store.generation() > generation
        assert index.search("green")[0].probability > 0.5 > FITS > before
        (photos / "green.png").unlink()
        index.update_images(photos)
        assert index.search("green")[0].probability == pytest.approx(before, abs=1e-6)
    with Index.open(tmp_path / "index", Named()) as again:
        assert again.search("green")[0].probability == pytest.approx(before, abs=1e-6)
        assert again.run.asked == ["green"]


@pytest.mark.parametrize("stored", [None, "", "[]", '{"generation": 1}'])
def test_an_index_that_stores_none_learns_it(tmp_path: Path, index: Index, stored: str | None) -> None:
    expected = [hit.probability for hit in index.search("red")]
    copy = tmp_path / "copy"
    index.close()
    shutil.copytree(tmp_path / "index", copy)
    with closing(sqlite3.connect(copy / "index.sqlite")) as connection, connection:
        if stored is None:
            connection.execute("DELETE FROM meta WHERE key = 'background'")
        else:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'background'", (stored,))
    with Index.open(copy, Named()) as opened:
        assert [hit.probability for hit in opened.search("red")] == pytest.approx(expected)
        opened.search("blue")
        assert opened.run.asked.count(unrelated_sentences()[0]) == 1


def test_an_embedder_without_a_calibration_has_the_usual_one(tmp_path: Path, photos: Path) -> None:
    with Index.create(tmp_path / "plain", Colours()) as index:
        index.update_images(photos)
        assert 0 <= index.search("red")[0].probability <= 1


def test_an_index_that_begins_empty_has_probabilities_later(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "broken.png").write_bytes(b"no image")
    with Index.create(tmp_path / "index", Named()) as index:
        index.update_images(photos)
        assert index.search("red") == []
        gallery(photos, "red-red.png", "blue-blue.png")
        index.update_images(photos)
        found = index.search("red")
        assert len(found) == 2
        assert all(0 <= hit.probability <= 1 for hit in found if hit.probability is not None)
        assert found[0].probability is not None


def test_what_captions_seldom_say_is_not_called_absent(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", *(f"{n}/blue.png" for n in range(30))))
        assert index.search("a red car").certainty == "nothing"
        for asked in ("a black and white photo", "Photographs", "old pictures"):
            answer = index.search(asked)
            assert answer
            assert not answer[0].fits
            assert answer.certainty == "perhaps"
        assert index.search("an old photo", where="taken:1970").certainty == "nothing"


def test_an_empty_answer_fits_nothing(tmp_path: Path) -> None:
    assert Answer().certainty == "nothing"
    assert Answer([Hit(1, 0.5, "a.jpg", None)]).certainty == "perhaps"  # without a probability
    with Index.create(tmp_path / "empty", Named()) as index:
        assert index.search("red").certainty == "nothing"
