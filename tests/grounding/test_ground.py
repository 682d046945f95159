"""Phrases and places: against the score matrix itself, and on drawn scenes whose shapes are known."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seesay.data.boxes import iou, vote
from seesay.data.corpus import Corpus
from seesay.data.images import EncodedImage, decode
from seesay.data.readers import read_corpus
from seesay.encoders.proposals import propose
from seesay.encoders.regions import RegionEncoder, load_region_encoder
from seesay.errors import ImageError, SeesayError
from seesay.grounding import (
    GroundedBox,
    Grounder,
    Grounding,
    best_boxes,
    can_ground,
    load_grounder,
)
from seesay.runs.calibration import Calibration, ScoreCalibration
from seesay.runs.run import Run
from tests.search.colours import Colours
from tools.scenes import SceneObject, draw_scene

OBJECTS = [SceneObject("large", "red", "circle", 40, 40), SceneObject("large", "blue", "square", 115, 85)]


def points_at(place: GroundedBox, item: SceneObject, scale: int = 1) -> bool:
    """Whether the place's centre is on the object; the small run knows what is where, not how far it goes."""
    x1, y1, x2, y2 = (value / scale for value in place.box)
    left, top, right, bottom = item.box
    return left < (x1 + x2) / 2 < right and top < (y1 + y2) / 2 < bottom


def encoded(image: Image.Image, format: str = "PNG", **more: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **more)
    return out.getvalue()


@pytest.fixture(scope="module")
def grounder(grounding_run: Path) -> Grounder:
    return Grounder(Run.load(str(grounding_run)))


@pytest.fixture(scope="module")
def scene() -> bytes:
    return encoded(draw_scene(OBJECTS, "grey"))


def test_the_phrases_of_a_sentence_are_found_where_they_are(grounder: Grounder, scene: bytes) -> None:
    text = "A large red circle is above a large blue square."
    found = grounder.ground(scene, "scene", text)
    assert (found.width, found.height) == (160, 128)
    assert [phrase.text for phrase in found.phrases] == ["A large red circle", "a large blue square"]
    for phrase, item in zip(found.phrases, OBJECTS, strict=True):
        assert text[phrase.start : phrase.end] == phrase.text
        assert phrase.known
        assert [points_at(place, item) for place in phrase.boxes] == [True]


def test_the_best_place_is_the_best_proposal(grounder: Grounder, scene: bytes) -> None:
    run = grounder.run
    pixels = decode(scene, "scene")
    boxes = propose(pixels, 60)
    features = load_region_encoder(run.recipe.encoders[0]).encode(pixels, boxes)
    sentences = run.prepare(["a red circle"])
    scores = run.score_prepared(features, sentences)[:, 0]
    (phrase,) = grounder.ground(scene, "scene", "a red circle", best=500).phrases
    first = phrase.boxes[0]
    assert first.box == tuple(boxes[scores.argmax()])
    assert first.score == pytest.approx(scores.max(), abs=1e-5)
    for i, place in enumerate(phrase.boxes):
        assert (iou([place.box], [other.box for other in phrase.boxes[:i]]) <= 0.5).all()


@pytest.mark.parametrize("text", ["zzyx", "  red  ", "quickly", "a 🐕 dog"])
def test_any_text_is_a_phrase(grounder: Grounder, scene: bytes, text: str) -> None:
    (phrase,) = grounder.ground(scene, "scene", text).phrases
    assert text[phrase.start : phrase.end] == phrase.text
    assert phrase.known == (text != "zzyx")
    assert len(phrase.boxes) == phrase.known


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_an_error(grounder: Grounder, scene: bytes, text: str) -> None:
    with pytest.raises(SeesayError, match="describe what to find"):
        grounder.ground(scene, "scene", text)


def test_a_broken_image_is_named(grounder: Grounder, scene: bytes) -> None:
    for data in (b"", b"no image", scene[: len(scene) // 2]):
        with pytest.raises(ImageError, match=r"photo\.jpg"):
            grounder.ground(data, "photo.jpg", "a red circle")


def test_an_image_without_edges_is_one_place(grounder: Grounder) -> None:
    found = grounder.ground(encoded(Image.new("RGB", (50, 30))), "plain", "a red circle", best=5)
    assert [place.box for place in found.phrases[0].boxes] == [(0, 0, 50, 30)]


def test_without_proposals_nothing_is_found(grounder: Grounder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegionEncoder, "propose", lambda *_: np.zeros((0, 4), np.float32))
    found = grounder.ground(encoded(Image.new("RGB", (31, 17))), "plain", "a red circle")
    assert (found.width, found.height) == (31, 17)
    assert found.phrases[0].boxes == ()


def test_boxes_are_in_pixels_of_the_upright_original(grounder: Grounder) -> None:
    """A large JPEG is decoded small, and EXIF 6 turns it by a quarter."""
    large = draw_scene(OBJECTS, "white").resize((3200, 2560))
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(large.rotate(90, expand=True), "JPEG", exif=exif)
    found = grounder.ground(turned, "large", "a red circle and a blue square")
    assert (found.width, found.height) == large.size
    for phrase, item in zip(found.phrases, OBJECTS, strict=True):
        assert points_at(phrase.boxes[0], item, scale=20)


def test_an_image_is_looked_at_once(
    grounder: Grounder, scene: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = grounder.ground(scene, "scene", "a red circle")

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(EncodedImage, "pixels", never)
    assert grounder.ground(scene, "again", "a red circle") == first


def test_memory_is_bounded_and_threads_agree(grounder: Grounder) -> None:
    images = [encoded(Image.new("RGB", (20 + i, 20))) for i in range(20)]
    widths: dict[int, int] = {}

    def work(at: int) -> None:
        widths[at] = grounder.ground(images[at], "plain", "a ring").width

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert widths == {i: 20 + i for i in range(20)}
    assert len(grounder._seen) == 16


def test_it_is_right_far_more_often_than_by_chance(grounder: Grounder, scenes: Path) -> None:
    corpus: Corpus = read_corpus(scenes, phrases=True).split("val")
    hits, chances = [], []
    for phrase in corpus.sentences:
        source = corpus.images[phrase.image].source
        assert source is not None
        data = source.read()
        place = grounder.ground(data, "scene", phrase.text).phrases[0].boxes[0]
        hits.append(float(iou([place.box], [phrase.box])[0, 0] >= 0.5))
        boxes = propose(decode(data, "scene"), 60)
        chances.append((iou(boxes, [phrase.box]) >= 0.5).mean())
    assert np.mean(hits) > 5 * np.mean(chances)


def test_a_run_of_whole_images_cannot_ground() -> None:
    with pytest.raises(SeesayError, match=r"seesay-small: .* grounding recipe"):
        Grounder(Run.load("seesay-small"))


def test_what_can_be_loaded(grounding_run: Path, tmp_path: Path) -> None:
    assert can_ground(str(grounding_run))
    assert not can_ground(str(tmp_path))
    assert not can_ground("no such run")
    assert can_ground("seesay-ground")
    assert not can_ground("seesay-small")


def test_an_encoder_that_reads_any_letters_knows_no_word_in_all_of_them(scene: bytes) -> None:
    """MiniLM has a vector for whatever is typed; neither the train split nor GloVe has "xqzzk"."""
    shipped = Grounder(Run.load("seesay-ground"))
    assert shipped.run.prepare(["xqzzk"]).vectors.any()
    for text, known in (("xqzzk", False), ("a xqzzk dog", True), ("dachshund", True), ("...", False)):
        assert [phrase.known for phrase in shipped.ground(scene, "scene", text).phrases] == [known]


boxes_and_scores = st.lists(
    st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(1, 30)] * 2, st.integers(-3, 3)), max_size=12
)


@given(boxes_and_scores, st.integers(1, 6))
def test_suppression_as_a_loop_has_it(drawn: Sequence[tuple[int, ...]], count: int) -> None:
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h, _ in drawn], np.float32).reshape(-1, 4)
    scores = np.array([row[-1] for row in drawn], np.float32)

    def overlap(a: np.ndarray, b: np.ndarray) -> float:
        across = max(0, min(a[2], b[2]) - max(a[0], b[0]))
        down = max(0, min(a[3], b[3]) - max(a[1], b[1]))
        areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
        return across * down / (areas - across * down)

    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[i], boxes[j]) <= 0.5 for j in kept):
            kept.append(i)
    places = best_boxes(boxes, scores, count)
    assert [place.box for place in places] == [tuple(boxes[i]) for i in kept[:count]]
    assert [place.score for place in places] == [scores[i] for i in kept[:count]]


@given(boxes_and_scores, st.integers(1, 6))
def test_places_by_vote_are_apart_and_begin_with_the_best_box(
    drawn: Sequence[tuple[int, ...]], count: int
) -> None:
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h, _ in drawn], np.float32).reshape(-1, 4)
    scores = np.array([row[-1] for row in drawn], np.float32)
    places = best_boxes(boxes, scores, count, box_voting=0.25)
    assert bool(places) == bool(len(boxes))
    assert len(places) <= count
    found = [place.box for place in places]
    if places:
        best = int(scores.argmax())
        assert found[0] == tuple(vote(boxes, scores, best, 0.25).tolist())
        assert places[0].score == scores[best]
        overlaps = iou(found, found)
        assert (overlaps[~np.eye(len(found), dtype=bool)] <= 0.5).all()
    assert [place.score for place in places] == sorted((place.score for place in places), reverse=True)


def test_boxes_are_as_probable_as_their_scores_stand_out(
    grounding_run: Path, scene: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(grounding_run, folder)
    Run.load(str(folder)).update(calibration=Calibration(-2.0, 0.5))
    (phrase,) = Grounder(Run.load(str(folder))).ground(scene, "scene", "a red circle", best=500).phrases
    chances = [place.probability for place in phrase.boxes]
    assert chances == sorted(chances, reverse=True)
    logits = np.log(np.array(chances) / (1 - np.array(chances)))
    scores = np.array([place.score for place in phrase.boxes])
    assert np.diff(logits) == pytest.approx(0.5 * np.diff(scores), rel=1e-3, abs=1e-4)
    (partly,) = Grounder(Run.load(str(folder))).ground(scene, "scene", "a red zzyx circle").phrases
    assert partly.boxes[0].probability < 1
    assert Grounding(width=160, height=128, phrases=[phrase]).to_dict()["phrases"][0]["boxes"][0][
        "probability"
    ] == round(chances[0], 4)
    Run.load(str(folder)).update(calibration=None)
    (plain,) = Grounder(Run.load(str(folder))).ground(scene, "scene", "a red circle").phrases
    assert plain.boxes[0].probability is None


def test_what_the_whole_image_does_not_show_is_told(grounding_run: Path, scene: bytes) -> None:
    class Absolute(Colours):
        calibration = ScoreCalibration(Calibration(-15.0, 50.0), Calibration(-15.0, 50.0))

    run = Run.load(str(grounding_run))
    found = Grounder(run, Absolute()).ground(scene, "scene", "a red circle and a green square")
    assert [phrase.fits for phrase in found.phrases] == [True, False]
    assert all(phrase.boxes for phrase in found.phrases)
    assert [each["fits"] for each in found.to_dict()["phrases"]] == [True, False]
    for other in (None, Colours()):  # without a judge whose scores are calibrated
        assert all(p.fits for p in Grounder(run, other).ground(scene, "scene", "a green square").phrases)


def test_only_phrases_of_the_included_run_are_judged(grounding_run: Path, scene: bytes) -> None:
    for run, fits in ((str(grounding_run), True), ("seesay-ground", False)):
        (phrase,) = load_grounder(run).ground(scene, "scene", "a woman in an orange kimono").phrases[:1]
        assert phrase.fits is fits


def test_the_shipped_run_doubts_nonsense_and_what_is_not_there() -> None:
    grounder = Grounder(Run.load("seesay-ground"))
    image = encoded(draw_scene(OBJECTS, "grey"))
    (nonsense,) = grounder.ground(image, "scene", "xyzzy qwop").phrases
    assert not nonsense.known
    assert nonsense.boxes == ()
    (known,) = grounder.ground(image, "scene", "a red circle").phrases
    assert 0 < known.boxes[0].probability < 1


def test_a_phrase_is_found_where_it_was_typed(grounder: Grounder, scene: bytes) -> None:
    text = " a red circle above a blue square"
    found = grounder.ground(scene, "scene", text)
    assert [text[phrase.start : phrase.end] for phrase in found.phrases] == [
        "a red circle",
        "a blue square",
    ]
