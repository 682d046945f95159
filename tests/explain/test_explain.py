"""Explanations against plain scores of what is left, and against windows silenced by hand."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch
from PIL import Image

from seesay.cli.printing import print_explanation
from seesay.encoders.images.encode import encode_images
from seesay.encoders.sentences.base import SentenceEncoder, fit_sentence_encoder
from seesay.encoders.sentences.minilm import MiniLM
from seesay.errors import ImageError, SeesayError
from seesay.explain import Explanation, Reading, Window, Word, explain
from seesay.matchers import Ensemble, MatchingCNN
from seesay.matchers.mcnn import LEVELS
from seesay.matchers.settings import MatcherInputs
from seesay.recipes.load import load_recipe
from seesay.runs.images import join_features
from seesay.runs.run import Run
from seesay.text.vocabulary import Vocabulary, tokenize
from tests.matchers.test_mcnn import silenced

WORDS = tokenize("a two dog dogs man red ball chases plays on in the grass snow with and's jumps over water")
SENTENCE = "Two dogs, a man: plays on the grass with a red ball zyxw in the SNOW!"


def png() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


def network(level: str, words: int) -> MatchingCNN:
    torch.manual_seed(LEVELS.index(level))
    model = MatchingCNN(1280, words, level=level, image=6, maps=(8, 10, 12), hidden=9)
    with torch.no_grad():
        for layer in model.layers:
            layer.bias.uniform_(-0.5, 0.5)
    return model.eval()


@cache
def run_of(*levels: str) -> Run:
    vocabulary = Vocabulary(WORDS)
    recipe = load_recipe("mcnn-wd", changes=["encoders=[efficientnet-lite0]"])
    networks = [network(level, len(vocabulary)) for level in levels]
    matcher = networks[0] if len(networks) == 1 else Ensemble(networks, 1280, 0)
    return Run.from_matcher(Path(), recipe, vocabulary, None, matcher)


def bag_of_words(encoder: SentenceEncoder) -> Run:
    """A bag of words that reads through an encoder too."""
    vocabulary = Vocabulary(WORDS)
    recipe = load_recipe(
        "projection",
        changes=[
            "encoders=[efficientnet-lite0]",
            "arrays=[pooled]",
            "matcher.class_names=0",
            "class_pairs=0",
        ],
    )
    torch.manual_seed(0)
    matcher = recipe.matcher.build(MatcherInputs((1280,), len(vocabulary), encoder.dim))
    return Run.from_matcher(Path(), recipe, vocabulary, encoder, matcher)


@cache
def small_run() -> Run:
    return bag_of_words(MiniLM())


def features(run: Run) -> np.ndarray:
    return join_features(run.config.arrays, encode_images(run.encoders, [png()], ["x"]).arrays)


def score(run: Run, text: str) -> float:
    """Of the image and a sentence, as search and evaluation compute it."""
    return float(run.score_prepared(features(run), run.prepare([text]))[0, 0])


@pytest.mark.parametrize("level", LEVELS[:3])
def test_windows_contribute_what_the_score_falls_by(level: str) -> None:
    """Each window is silenced within the convolution itself, and the layers behind are run again."""
    run = run_of(level)
    found = explain(run, png(), "x", SENTENCE)
    (reading,) = found.readings
    assert reading.score == found.score == pytest.approx(score(run, SENTENCE), abs=1e-5)
    image, words = torch.from_numpy(features(run)), run.prepare([SENTENCE]).to_tensors().words
    with torch.inference_mode():
        left = [silenced(run.matcher, image, words, number) for number in range(len(reading.windows))]
    contributions = [window.contribution for window in reading.windows]
    assert contributions == pytest.approx([reading.score - each for each in left], abs=1e-5)
    assert max(map(abs, contributions)) > 1e-3


@pytest.mark.parametrize("make", [lambda: run_of("st"), small_run], ids=["st", "minilm"])
def test_words_contribute_what_the_score_falls_by(make) -> None:  # type: ignore[no-untyped-def]
    run = make()
    found = explain(run, png(), "x", SENTENCE)
    (reading,) = found.readings
    words = tokenize(SENTENCE)
    assert [window.contribution for window in reading.windows] == list(reading.words)
    for i, word in enumerate(found.words):
        assert word.text.lower() == words[i]
        assert SENTENCE[word.start : word.end] == word.text
        left = SENTENCE[: word.start] + SENTENCE[word.end :]
        assert reading.words[i] == pytest.approx(score(run, SENTENCE) - score(run, left), abs=1e-4)


def test_an_ensemble_is_read_by_each_member() -> None:
    found = explain(run_of(*LEVELS), png(), "x", SENTENCE)
    assert [reading.level for reading in found.readings] == list(LEVELS)
    assert found.score == pytest.approx(score(run_of(*LEVELS), SENTENCE), abs=1e-4)
    for level, reading in zip(LEVELS, found.readings, strict=True):
        assert reading == explain(run_of(level), png(), "x", SENTENCE).readings[0]


def test_a_word_has_the_mean_of_its_windows() -> None:
    found = explain(run_of("phs"), png(), "x", SENTENCE)
    (reading,) = found.readings
    for i, value in enumerate(reading.words):
        assert value == pytest.approx(
            fmean(w.contribution for w in reading.windows if i in range(w.start, w.end))
        )
    assert len(reading.words) == len(tokenize(SENTENCE))
    assert max(map(abs, reading.strengths())) == 1
    assert [s > 0 for s in reading.strengths()] == [v > 0 for v in reading.words]


@pytest.mark.parametrize("level", ["wd", "st"])
def test_words_beyond_the_thirtieth_are_cut_off(level: str) -> None:
    long = " ".join(WORDS * 2)
    found = explain(run_of(level), png(), "x", long)
    assert found.cut == len(WORDS) * 2 - 30
    assert len(found.words) == len(WORDS) * 2
    assert len(found.readings[0].words) == 30
    assert f"The last {found.cut} words were ignored: the run reads 30." in found.notes()[0]
    assert "".join(text for text, _ in found.pieces(found.readings[0])) == long
    short = explain(run_of(level), png(), "x", " ".join((WORDS * 2)[:30]))
    assert short.readings == found.readings
    assert short.cut == 0


def test_a_matcher_that_reads_everything_cuts_nothing() -> None:
    found = explain(small_run(), png(), "x", " ".join(WORDS * 2))
    assert (found.cut, len(found.readings[0].words)) == (0, 2 * len(WORDS))


def test_unknown_words_are_listed() -> None:
    assert explain(run_of("wd"), png(), "x", SENTENCE).unknown == ["zyxw"]
    assert explain(run_of("wd"), png(), "x", "a castle").notes() == ["Unknown to the run: castle."]
    assert explain(small_run(), png(), "x", "a castle").unknown == []  # MiniLM reads it


def test_words_are_known_by_the_vectors_that_the_run_reads(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("zyxw 1 2\ndog 2 1\nman 0 1\n")
    encoder = fit_sentence_encoder(f"mean:{tmp_path / 'words.txt'}", ["dog zyxw", "man", "dog"], 2)
    assert explain(bag_of_words(encoder), png(), "x", "zyxw castle").unknown == ["castle"]


@pytest.mark.parametrize(
    "sentence", ["DOG", "İstanbul dog’s ball", "a dog’s   ball_red", "é café 犬", "a cafe\u0301"]
)
def test_odd_sentences_keep_their_places(sentence: str) -> None:
    for run in (run_of("phl"), run_of("st"), small_run()):
        found = explain(run, png(), "x", sentence)
        spoken = [found.sentence[w.start : w.end].lower().replace("’", "'") for w in found.words]
        assert spoken == tokenize(sentence)
        assert "".join(text for text, _ in found.pieces(found.readings[0])) == found.sentence
        assert all(np.isfinite(found.readings[0].words))


@pytest.mark.parametrize("sentence", ["", "  ", "?!"])
def test_a_sentence_without_words_is_an_error(sentence: str) -> None:
    with pytest.raises(SeesayError, match="contains no words"):
        explain(run_of("wd"), png(), "x", sentence)


def test_a_broken_image_is_an_error() -> None:
    with pytest.raises(ImageError, match=r"notes\.jpg"):
        explain(run_of("wd"), b"no image", "notes.jpg", "a dog")


def test_plain_values() -> None:
    words = (Word("a", 0, 1, True), Word("dog", 2, 5, True), Word("zz", 6, 8, False))
    reading = Reading("wd", 1.23456, (Window(0, 3, -0.5), Window(1, 3, 0.25)), (-0.5, -0.125, -0.125))
    found = Explanation("a dog zz", words, 0, (reading,))
    assert reading.best(1) == [Window(0, 3, -0.5)]
    assert reading.strengths() == [-1, -0.25, -0.25]
    plain = found.to_dict()
    assert (plain["score"], plain["unknown"], plain["cut"]) == (1.2346, ["zz"], 0)
    (level,) = plain["readings"]
    assert level["windows"][1] == {"text": "dog zz", "start": 2, "end": 8, "contribution": 0.25}
    assert level["words"][1] == {"text": "dog", "start": 2, "end": 5, "contribution": -0.125}


def test_the_readings_of_an_ensemble_stand_below_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    words = (Word("a", 0, 1, True), Word("dog", 2, 5, True))
    readings = tuple(Reading(level, 1.25, (Window(0, 2, 0.5),), (0.5, 0.5)) for level in ("wd", "phs"))
    print_explanation(Explanation("a dog", words, 0, readings), 1)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split() == ["2.500", "All", "of", "them", "together"]
    assert [line.split()[0] for line in lines] == ["1.250", "+0.500"] * 2
    print_explanation(Explanation("a dog", words, 0, readings[:1]), 1)
    assert "together" not in capsys.readouterr().out
