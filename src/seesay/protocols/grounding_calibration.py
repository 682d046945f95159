"""Scores of boxes as probabilities: fitted to phrases that an image shows and to phrases that it does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.grounding_recall import region_overlaps
from seesay.protocols.grounding import proposal_scores, proposed_boxes, ranked_boxes
from seesay.protocols.subject import PhraseSubject
from seesay.runs.calibration import Calibration
from seesay.text.concepts import nouns

_RIGHT = 0.5  # IoU with the box of the phrase


def fit_boxes(subject: PhraseSubject) -> Calibration:
    """Fit the probability that the best box of a phrase is right, from its score less the mean of all boxes.

    Each phrase is asked of its own image, where the box is right or wrong, and of another whose phrases share
    no noun with it, where every box is wrong.

    Raises:
        NothingToFitError: all boxes are right, or all are wrong.
    """
    inputs = subject.inputs
    phrases = inputs.corpus.sentences
    scores = proposal_scores(subject.run, inputs)
    boxes = ranked_boxes(subject.run, proposed_boxes(inputs), scores)
    overlaps = region_overlaps(boxes, [phrase.boxes for phrase in phrases], "plummer", "merged")
    values, right = [], []
    for mine, overlap in zip(scores, overlaps, strict=True):
        if len(mine):
            values.append(above_mean(mine).max())
            right.append(overlap[mine.argmax()] >= _RIGHT)
    wrong = [above_mean(column).max() for column in _of_other_images(subject)]
    return Calibration.fit([*values, *wrong], [*right, *[False] * len(wrong)])


def above_mean(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the scores (r,) of an image's boxes for a phrase, less their mean."""
    return np.asarray(scores - scores.mean(dtype=np.float64), np.float64)


def _of_other_images(subject: PhraseSubject) -> Iterator[NDArray[np.float32]]:
    """Yield the scores (r,) of boxes of images that no phrase of theirs shares a noun with, by phrase."""
    run, inputs = subject.run, subject.inputs
    regions = run.recipe.regions
    assert regions is not None
    phrases, owners = inputs.corpus.sentences, inputs.corpus.image_of_sentence()
    named = [nouns(phrase.text) for phrase in phrases]
    shown = [
        set().union(*(named[i] for i in np.flatnonzero(owners == image)))
        for image in range(len(inputs.corpus.images))
    ]
    order = np.random.default_rng(0).permutation(len(phrases))
    for image, there in enumerate(shown):
        count = int((owners == image).sum())
        others = [i for i in np.roll(order, -image) if named[i] and not named[i] & there][:count]
        proposals = slice(0, int(inputs.proposals[image]))
        if others and proposals.stop:
            features = inputs.features(image, proposals, regions.geometry)
            yield from run.score_prepared(features, inputs.sentences.take(np.array(others))).T
