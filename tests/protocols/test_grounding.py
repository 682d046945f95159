"""Phrase localization of a run: its proposals' scores, the baselines, and real phrases."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seesay.data.boxes import vote
from seesay.data.readers import read_corpus
from seesay.data.readers.phrases import GUESSED_SIZE
from seesay.errors import SeesayError
from seesay.metrics import grounding_recall
from seesay.protocols.base import Options
from seesay.protocols.evaluate import evaluate, measure
from seesay.protocols.grounding import proposal_scores, proposed_boxes, ranked_boxes
from seesay.protocols.subject import RunSubject
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from tests.protocols.drawn import flat

PHRASES = Path(__file__).parents[2].parent / "shared" / "flickr8k-phrases"


@pytest.fixture(scope="module")
def subject(grounding_run: Path, scenes: Path) -> RunSubject:
    run = Run.load(str(grounding_run))
    inputs = split_inputs(
        run.recipe, read_corpus(scenes, phrases=True), "val", run.vocabulary, run.sentence_encoder
    )
    return RunSubject(run, inputs, "val")


def regions_of(subject: RunSubject) -> list[np.ndarray]:
    inputs = subject.inputs
    return [inputs.regions[i].boxes[: inputs.proposals[i]] for i in inputs.corpus.image_of_sentence()]


@pytest.mark.parametrize(("iou", "boxes"), [("plummer", "merged"), ("mdetr", "any")])
def test_a_run_is_measured_as_its_scores_are(subject: RunSubject, iou, boxes) -> None:
    phrases, regions = subject.inputs.corpus.sentences, regions_of(subject)
    truths = [phrase.boxes for phrase in phrases]
    result = flat(measure(subject, "grounding", Options(iou=iou, boxes=boxes, resamples=100)))
    scores = proposal_scores(subject.run, subject.inputs)
    expected = grounding_recall(scores, regions, truths, iou, boxes)
    assert result["phrases"] == len(phrases)
    assert {name: result[name] for name in expected} == expected
    convention = {"merged": "enclosing box", "any": "any box"}[boxes]
    assert (result["convention"], result["IoU"]) == (convention, iou)
    assert f"several boxes: {convention}, IoU as in" in result["notes"][0]
    whole = [[[0, 0, *subject.inputs.corpus.images[phrase.image].size]] for phrase in phrases]
    found = grounding_recall([[1.0]] * len(phrases), whole, truths, iou, boxes)
    assert result["whole image: R@1"] == found["R@1"]
    chance = [result[f"random proposal: {name}"] for name in ("R@1", "R@10", "upper bound")]
    assert 0 < chance[0] < chance[1] < chance[2] == result["upper bound"]
    for name in ("R@1", "R@5"):
        low, high = result["intervals"][name]
        assert low < result[name] < high


def test_scores_are_those_of_the_matcher_and_equal_ones_gain_nothing(subject: RunSubject) -> None:
    run, inputs = subject.run, subject.inputs
    scores, geometry = proposal_scores(run, inputs), run.recipe.regions.geometry
    texts = run.embed_prepared(inputs.sentences)
    for phrase in (0, len(scores) - 1):
        image = inputs.corpus.sentences[phrase].image
        rows = inputs.region_features(image, slice(0, int(inputs.proposals[image])), geometry)
        assert scores[phrase] == pytest.approx(run.embed_features(rows) @ texts[phrase], abs=1e-5)
    regions, truths = regions_of(subject), [phrase.boxes for phrase in inputs.corpus.sentences]
    constant = grounding_recall([np.ones(len(each)) for each in regions], regions, truths)
    assert constant["R@1"] < 5  # of phrases all of whose proposals are right


def shipped_with_voting(min_iou: float | None) -> Run:
    run = Run.load("seesay-ground")
    run.config = replace(run.config, regions={**run.config.regions, "box_voting": min_iou})
    return run


def test_the_best_box_of_a_phrase_is_voted_and_the_others_are_proposals(scenes: Path) -> None:
    run = shipped_with_voting(0.25)
    inputs = split_inputs(
        run.recipe, read_corpus(scenes, phrases=True), "val", run.vocabulary, run.sentence_encoder
    )
    proposals, scores = proposed_boxes(inputs), proposal_scores(run, inputs)
    ranked = ranked_boxes(run, proposals, scores)
    moved = 0
    for theirs, mine, column in zip(proposals, ranked, scores, strict=True):
        best = column.argmax()
        np.testing.assert_array_equal(mine[best], vote(theirs, column, best, 0.25))
        np.testing.assert_array_equal(np.delete(mine, best, axis=0), np.delete(theirs, best, axis=0))
        moved += not np.array_equal(mine[best], theirs[best])
    assert moved > len(ranked) / 2
    truths = [phrase.boxes for phrase in inputs.corpus.sentences]
    result = measure(RunSubject(run, inputs, "val"), "grounding").metrics
    assert result["R@1"] == grounding_recall(scores, ranked, truths)["R@1"]
    unvoted = grounding_recall(scores, proposals, truths)
    assert result["without box voting: R@1"] == unvoted["R@1"]
    assert result["upper bound"] == unvoted["upper bound"]
    plain = ranked_boxes(shipped_with_voting(None), proposals, scores)
    assert all(a is b for a, b in zip(plain, proposals, strict=True))


def test_a_phrase_of_two_kinds_counts_with_both(subject: RunSubject) -> None:
    corpus = subject.inputs.corpus
    kinds = [("people", "bodyparts"), ("people",), *[()] * (len(corpus.sentences) - 2)]
    phrases = [replace(phrase, kinds=kind) for phrase, kind in zip(corpus.sentences, kinds, strict=True)]
    inputs = replace(subject.inputs, corpus=replace(corpus, sentences=tuple(phrases)))
    found = measure(RunSubject(subject.run, inputs, "val"), "grounding").rows
    assert {part: row["phrases"] for part, row in found.items() if "phrases" in row} == {
        "people": 2,
        "bodyparts": 1,
    }


def test_a_run_is_compared_with_another(subject: RunSubject, scenes: Path) -> None:
    corpus = read_corpus(scenes, phrases=True)
    result = evaluate(subject.run, corpus, split="val", against="seesay-ground", resamples=0)
    theirs = evaluate("seesay-ground", corpus, split="val", resamples=0)
    difference = result.against.metrics["R@1"]
    assert result.against.name == "seesay-ground"
    assert difference.theirs == theirs.metrics["R@1"]
    assert difference.difference == pytest.approx(result.metrics["R@1"] - difference.theirs, abs=2e-3)
    low, high = difference.interval
    assert low <= difference.difference <= high
    assert 0 < difference.p <= 1


def test_phrases_and_captions_are_not_mixed_up(subject: RunSubject, scenes: Path) -> None:
    with pytest.raises(SeesayError, match="the protocol for them is 'grounding'"):
        evaluate(subject.run, read_corpus(scenes, phrases=True), "standard")
    with pytest.raises(SeesayError, match="'grounding' needs phrases with boxes"):
        evaluate("seesay-small", read_corpus(scenes), "grounding")
    with pytest.raises(SeesayError, match="iou is for protocol 'grounding', not 'standard'"):
        evaluate("seesay-small", read_corpus(scenes), iou="mdetr")


@pytest.mark.skipif(not PHRASES.exists(), reason="real data: no phrases at ../shared/flickr8k-phrases")
def test_the_whole_image_on_real_phrases(flickr8k: Path) -> None:
    corpus = read_corpus(PHRASES, images=flickr8k, phrases=True)
    assert len(corpus.sentences) == 24_046
    assert {image.size for image in corpus.images} == {(224, 224)}
    assert corpus.issues.counts[GUESSED_SIZE] == 2607
    splits = [corpus.split(name) for name in ("train", "val", "test")]
    assert sum(len(split.sentences) for split in splits) == len(corpus.sentences)
    boxes = corpus.enclosing_boxes()
    assert boxes.min() >= 0
    assert boxes.max() <= 224
    test = splits[-1]
    assert len(test.images) == 677
    assert sum(len(phrase.boxes) for phrase in test.sentences) == pytest.approx(3100, abs=30)
    whole = [[[0, 0, *test.images[phrase.image].size]] for phrase in test.sentences]
    truths, scores = [phrase.boxes for phrase in test.sentences], [[1.0]] * len(whole)
    assert grounding_recall(scores, whole, truths)["R@1"] == pytest.approx(24.4, abs=0.1)
    assert grounding_recall(scores, whole, truths, boxes="any")["R@1"] == pytest.approx(19.6, abs=0.1)
