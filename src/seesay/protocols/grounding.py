"""Phrase localization: the share of phrases whose region is among the first K of a run.

Sources: Plummer et al., IJCV 2017; Wang et al., TPAMI 2019, Section 4.3. Evaluators differ in the IoU and in
the ground truth, see `grounding_recall`; results state which were used.

`fit_boxes` fits probabilities to the box scores of phrases that an image shows, and of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.data.boxes import vote
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.grounding_recall import (
    METRICS,
    MIN_IOU,
    Overlaps,
    first_right,
    hits,
    random_hits,
    recalls,
    region_overlaps,
)
from seesay.protocols.base import Options, Protocol, Result, Value, of_part, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import Calibration
from seesay.runs.prepare import rows_of_each
from seesay.text.concepts import nouns

if TYPE_CHECKING:
    from seesay.runs.inputs import Inputs
    from seesay.runs.run import Run

GROUNDING = "grounding"

UNVOTED = "without box voting"  # the name, in results, of the ranking of the proposals alone
_TRUTH = {"merged": "enclosing box", "any": "any box"}  # their names in results

_EVALUATORS = {"plummer": "Plummer et al., 2017", "mdetr": "MDETR (Kamath et al., 2021)"}  # whose IoU

Hits = NDArray[np.floating] | NDArray[np.bool_]  # (p, 4)


def conventions(abouts: Iterable[Mapping[str, JsonValue]]) -> str:
    """Describe how boxes were compared, from the `about` of results; empty for results without boxes."""
    grounded = [about for about in abouts if "IoU" in about]
    used = {f"{about['convention']}, IoU as in {_EVALUATORS[str(about['IoU'])]}" for about in grounded}
    return f"Right at IoU ≥ 0.5; several boxes: {'; '.join(sorted(used))}." if used else ""


@register_protocol
class GroundingProtocol(Protocol[RunSubject]):
    """Each phrase is a query for the proposals of its image.

    Baselines are a random order, and the whole image; for a run with box voting also the ranking without it.
    `convention` is the ground truth of a phrase with several boxes.
    """

    name = GROUNDING
    needs = "phrases"
    monitor = "R@1"
    metrics = METRICS

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure R@1, R@5, R@10 and the proposals' upper bound."""
        run, inputs = subject.run, subject.inputs
        phrases = inputs.corpus.sentences
        truths = [phrase.boxes for phrase in phrases]

        def overlaps_of(boxes: Sequence[NDArray[np.float32]]) -> Overlaps:
            return region_overlaps(boxes, truths, options.iou, options.boxes)

        proposals, scores = proposed_boxes(inputs), proposal_scores(run, inputs)
        overlaps = overlaps_of(proposals)
        plain = hits(first_right(scores, overlaps))
        found = hits(first_right(scores, overlaps_of(ranked_boxes(run, proposals, scores))))
        found[:, -1] = plain[:, -1]  # the upper bound is the proposals'
        sizes = [image.size for image in inputs.corpus.images]
        whole = overlaps_of([np.array([[0.0, 0.0, *sizes[p.image]]], np.float32) for p in phrases])
        baselines: dict[str, Hits] = {
            "random proposal": random_hits(overlaps),
            "whole image": hits(first_right([np.ones(1)] * len(phrases), whole)),
        }
        settings = run.config.region_settings
        if settings is not None and settings.box_voting is not None:
            baselines[UNVOTED] = plain
        further: dict[str, Value] = {}
        for name, each in baselines.items():
            further |= of_part(name, recalls(each))
        images = [phrase.image for phrase in phrases]
        samples = [("", [MeanSample(METRICS, 100.0 * found, images)])]
        about: dict[str, JsonValue] = {
            "images": len(inputs.corpus.images),
            "phrases": len(phrases),
            "convention": _TRUTH[options.boxes],
            "IoU": options.iou,
        }
        for kind in sorted({kind for phrase in phrases for kind in phrase.kinds}):
            rows = np.array([kind in phrase.kinds for phrase in phrases])  # one of two kinds counts for both
            further |= of_part(kind, recalls(found[rows]))
            further[f"{kind}: phrases"] = int(rows.sum())
        return self.result(subject, options, samples, about, further, [conventions([about])])


def proposed_boxes(inputs: Inputs) -> list[NDArray[np.float32]]:
    """Return, for each phrase, the proposals of its image, (r, 4)."""
    return [inputs.regions[p.image].boxes[: inputs.proposals[p.image]] for p in inputs.corpus.sentences]


def ranked_boxes(
    run: Run, proposals: Sequence[NDArray[np.float32]], scores: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float32]]:
    """Return for each phrase the boxes (r, 4) that its scores (r,) rank.

    These are its proposals, (r, 4); with box voting, the best of them is replaced by the mean that `seesay
    ground` returns.
    """
    settings = run.config.region_settings
    min_iou = settings.box_voting if settings else None
    if min_iou is None:
        return list(proposals)
    ranked = [boxes.copy() for boxes in proposals]
    for boxes, mine in zip(ranked, scores, strict=True):
        if len(mine):
            best = int(mine.argmax())
            boxes[best] = vote(boxes, mine, best, min_iou)
    return ranked


def proposal_scores(run: Run, inputs: Inputs) -> list[NDArray[np.float32]]:
    """Score, for each phrase, the proposals of its image, (r,)."""
    found = [np.zeros(0, np.float32)] * len(inputs.image_of_sentence)
    for image, mine in enumerate(rows_of_each(inputs.image_of_sentence, len(inputs.corpus.images))):
        if len(mine) and inputs.proposals[image]:
            for phrase, scores in zip(mine, _scores_in(image, run, inputs, mine), strict=True):
                found[phrase] = scores
    return found


def best_box(subject: RunSubject, phrase: int) -> NDArray[np.float32] | None:
    """Return the best box (4,) of a phrase, by its number; None if its image has no proposals."""
    inputs = subject.inputs
    image = inputs.corpus.sentences[phrase].image
    if not inputs.proposals[image]:
        return None
    (scores,) = _scores_in(image, subject.run, inputs, np.array([phrase]))
    (boxes,) = ranked_boxes(subject.run, [inputs.regions[image].boxes[: inputs.proposals[image]]], [scores])
    return np.asarray(boxes[scores.argmax()])


def _scores_in(image: int, run: Run, inputs: Inputs, phrases: NDArray[np.int64]) -> NDArray[np.float32]:
    """Score p phrases, by number, for the proposals of an image, (p, r)."""
    settings = run.config.region_settings
    assert settings is not None
    proposals = slice(0, int(inputs.proposals[image]))
    features = inputs.region_features(image, proposals, settings.geometry)
    return run.score_prepared(features, inputs.sentences.take(phrases)).T


def fit_boxes(subject: RunSubject) -> Calibration:
    """Fit the probability that the best box of a phrase is right, from its score less the mean of all boxes.

    Each phrase is located in its own image, where the box is right or wrong. In each image, as many phrases
    of other images are located that share no noun with its own; there every box is wrong.

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
            right.append(overlap[mine.argmax()] >= MIN_IOU)
    wrong = [above_mean(column).max() for column in _of_other_images(subject)]
    return Calibration.fit([*values, *wrong], [*right, *[False] * len(wrong)])


def above_mean(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the scores (r,) of an image's boxes for a phrase minus their mean."""
    return np.asarray(scores - scores.mean(dtype=np.float64), np.float64)


def _of_other_images(subject: RunSubject) -> Iterator[NDArray[np.float32]]:
    """Yield the box scores (r,) of images for phrases that share no noun with the image's own.

    Each image has as many of them as it has phrases of its own, or fewer if there are not enough.
    """
    inputs = subject.inputs
    named = [nouns(phrase.text) for phrase in inputs.corpus.sentences]
    order = np.random.default_rng(0).permutation(len(named))
    for image, own in enumerate(rows_of_each(inputs.image_of_sentence, len(inputs.corpus.images))):
        shown = set().union(*(named[i] for i in own))
        others = [i for i in np.roll(order, -image) if named[i] and not named[i] & shown][: len(own)]
        if others and inputs.proposals[image]:
            yield from _scores_in(image, subject.run, inputs, np.array(others))
