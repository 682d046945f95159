"""A grounding recipe trained end to end on drawn scenes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from seesay.data.boxes import iou
from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.encoders.proposals import propose
from seesay.protocols.evaluate import measure_inputs
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import TrainingSummary, list_runs
from seesay.training.phrase_task import PhraseSampler
from seesay.training.summarize import calibrate


def test_it_grounds_far_above_random_proposals(scenes: Path, grounding_run: Path) -> None:
    run, corpus = Run.load(str(grounding_run)), read_corpus(scenes, phrases=True)
    inputs = split_inputs(run.recipe, corpus, "val", run.vocabulary, run.sentence_encoder)
    measured = measure_inputs(run, inputs, "val").to_dict()
    assert measured == TrainingSummary.load(grounding_run).best_val
    metrics = measured["metrics"]
    assert metrics["upper bound"] == metrics["random proposal: upper bound"]
    assert metrics["R@1"] > 5 * metrics["random proposal: R@1"]
    assert metrics["R@5"] > 2 * metrics["random proposal: R@5"]


def test_the_summary_says_how_many_regions_are_right_for_a_phrase(scenes: Path, grounding_run: Path) -> None:
    run = Run.load(str(grounding_run))
    inputs = split_inputs(run.recipe, read_corpus(scenes, phrases=True), "train", run.vocabulary)
    near = []
    for phrase, true in zip(inputs.corpus.sentences, inputs.true_region, strict=True):
        boxes, proposed = inputs.regions[phrase.image].boxes, inputs.proposals[phrase.image]
        near.append(1 + (iou(boxes[:proposed], boxes[[true]]) >= 0.7).sum())
    assert TrainingSummary.load(grounding_run).train["positives"] == round(float(np.mean(near)), 2)


def test_its_recall_chooses_the_epoch(grounding_run: Path) -> None:
    assert TrainingSummary.load(grounding_run).monitor == "R@1"
    assert "val R@1" in dict(list_runs(grounding_run.parent))[str(grounding_run)]


def test_a_few_images_give_boxes_no_probabilities(scenes: Path, grounding_run: Path, tmp_path: Path) -> None:
    run = Run.load(str(shutil.copytree(grounding_run, tmp_path / "run")))
    assert run.config.calibration is not None
    assert "probabilities need 20" in str(calibrate(run, read_corpus(scenes, phrases=True)))
    assert Run.load(str(tmp_path / "run")).config.calibration is None


def test_training_alone_has_proposals_of_its_own(scenes: Path, grounding_run: Path) -> None:
    run, corpus = Run.load(str(grounding_run)), read_corpus(scenes, phrases=True)
    dense = run.recipe.model_copy(
        update={"regions": run.recipe.regions.model_copy(update={"train_nms": 0.9, "positives": "augmented"})}
    )
    plain, more = (
        split_inputs(recipe, corpus, "train", run.vocabulary, run.sentence_encoder)
        for recipe in (run.recipe, dense)
    )
    for image, proposed in enumerate(more.proposals):
        pixels = decode(corpus.split("train").images[image].source.read(), "scene")
        np.testing.assert_array_equal(more.regions[image].boxes[:proposed], propose(pixels, 60, 0.9))
        true = [split.regions[image].boxes[split.proposals[image] :] for split in (plain, more)]
        np.testing.assert_array_equal(*true)
    near = [
        np.mean([len(each) for each in PhraseSampler(split, dense.regions).near]) for split in (plain, more)
    ]
    assert near[1] > 1.2 * near[0]
    for split in ("val", "test"):
        plain, more = (
            split_inputs(recipe, corpus, split, run.vocabulary, run.sentence_encoder)
            for recipe in (run.recipe, dense)
        )
        for one, other in zip(plain.regions, more.regions, strict=True):
            np.testing.assert_array_equal(one.boxes, other.boxes)


def test_boxes_around_true_ones_are_regions_of_training_alone(scenes: Path, grounding_run: Path) -> None:
    run, corpus = Run.load(str(grounding_run)), read_corpus(scenes, phrases=True)
    jittered = run.recipe.model_copy(
        update={"regions": run.recipe.regions.model_copy(update={"positives": "jittered"})}
    )
    for split, more in (("train", 9), ("val", 0)):
        plain, drawn = (
            split_inputs(recipe, corpus, split, run.vocabulary, run.sentence_encoder)
            for recipe in (run.recipe, jittered)
        )
        for few, many, proposed in zip(plain.regions, drawn.regions, plain.proposals, strict=True):
            assert len(many.boxes) - len(few.boxes) == more * (len(few.boxes) - proposed)
            np.testing.assert_array_equal(many.boxes[: len(few.boxes)], few.boxes)
        np.testing.assert_array_equal(drawn.true_region, plain.true_region)
