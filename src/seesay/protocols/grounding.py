"""Phrase localization: the share of phrases whose region is among the first K that a run ranks.

Sources: Plummer et al., IJCV 2017; Wang et al., TPAMI 2019, Section 4.3. Evaluators differ in the IoU and in
the ground truth, see `grounding_recall`; a result names its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seesay.data.boxes import vote
from seesay.data.corpus import Sentence
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.grounding_recall import (
    METRICS,
    GroundingRecall,
    IoU,
    Overlaps,
    first_right,
    hits,
    random_hits,
    region_overlaps,
)
from seesay.protocols.base import Details, Options, Percent, Protocol, Result, ResultPart, register_protocol
from seesay.protocols.subject import PhraseSubject

if TYPE_CHECKING:
    from seesay.runs.inputs import PhraseInputs
    from seesay.runs.run import Run

GROUNDING = "grounding"

UNVOTED = "without box voting"  # as results name the ranking of the proposals alone
_TRUTH = {"merged": "enclosing box", "any": "any box"}  # as results name them

Hits = NDArray[np.floating] | NDArray[np.bool_]  # (p, 4)


_EVALUATORS = {"plummer": "Plummer et al., 2017", "mdetr": "MDETR (Kamath et al., 2021)"}  # whose IoU


class PhraseRecall(ResultPart):
    """The recalls of `n` phrases; the upper bound is the percentage with any right region."""

    r1: Percent = Field(alias="R@1")
    r5: Percent = Field(alias="R@5")
    r10: Percent = Field(alias="R@10")
    upper_bound: Percent = Field(alias="upper bound")
    n: int = Field(gt=0)


class GroundingMetrics(PhraseRecall):
    """The recalls of all phrases and of each kind; a phrase of two kinds counts with both.

    `convention` is the ground truth of a phrase of several boxes, `iou` the definition of the IoU.
    """

    by_kind: dict[str, PhraseRecall] = Field(alias="by kind")
    convention: Literal["enclosing box", "any box"]
    iou: IoU = Field(alias="IoU")


class GroundingResult(Result, GroundingMetrics):
    """The recalls of a run, and those of `baselines`."""

    monitor_metric = "R@1"
    metric_names = METRICS
    identity = ("convention", "IoU")

    images: int = Field(gt=0)
    baselines: dict[str, GroundingMetrics] | None = None

    def details(self) -> Details:
        """See `Result`."""
        return Details(after={**(self.baselines or {}), **self.by_kind}, notes=[conventions([self])])


def conventions(results: Iterable[Result]) -> str:
    """Describe how boxes were compared; empty for results without boxes."""
    grounded = (result for result in results if isinstance(result, GroundingResult))
    used = {f"{result.convention}, IoU as in {_EVALUATORS[result.iou]}" for result in grounded}
    return f"Right at IoU ≥ 0.5; several boxes: {'; '.join(sorted(used))}." if used else ""


@register_protocol
class GroundingProtocol(Protocol):
    """Each phrase is a query for the proposals of its image.

    Baselines are the largest proposals first, a random order, and the whole image; of a run with box voting
    also the ranking of the proposals alone.
    """

    name = GROUNDING
    summary = "phrase localization: each phrase is a query for the proposals of its image"
    needs = "phrases"
    result_type = GroundingResult
    options = ("iou", "boxes")

    def measure(self, subject: PhraseSubject, options: Options) -> Result:  # type: ignore[override]
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
        areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in proposals]
        sizes = [image.size for image in inputs.corpus.images]
        whole = overlaps_of([np.array([[0.0, 0.0, *sizes[p.image]]], np.float32) for p in phrases])
        named = {"convention": _TRUTH[options.boxes], "IoU": options.iou}
        baselines: dict[str, Hits] = {
            "largest proposal": hits(first_right(areas, overlaps)),
            "random proposal": random_hits(overlaps),
            "whole image": hits(first_right([np.ones(1)] * len(phrases), whole)),
        }
        if run.recipe.regions is not None and run.recipe.regions.box_voting is not None:
            baselines[UNVOTED] = plain
        images = [phrase.image for phrase in phrases]
        samples = [((), [MeanSample([(name,) for name in METRICS], 100.0 * found, images)])]
        return self.result(
            subject,
            options,
            samples,
            images=len(inputs.corpus.images),
            **_recalls(found, phrases) | named,
            baselines={name: _recalls(each, phrases) | named for name, each in baselines.items()},
        )


def proposed_boxes(inputs: PhraseInputs) -> list[NDArray[np.float32]]:
    """Return, for each phrase, the proposals of its image, (r, 4)."""
    return [inputs.regions[p.image].boxes[: inputs.proposals[p.image]] for p in inputs.corpus.sentences]


def ranked_boxes(
    run: Run, proposals: Sequence[NDArray[np.float32]], scores: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float32]]:
    """Return, for each phrase, the boxes that its scores (r,) rank, (r, 4).

    These are its proposals, (r, 4); where the run's recipe has box voting, the best of them is the mean that
    `seesay ground` points at.
    """
    min_iou = run.recipe.regions.box_voting if run.recipe.regions else None
    if min_iou is None:
        return list(proposals)
    ranked = [boxes.copy() for boxes in proposals]
    for boxes, mine in zip(ranked, scores, strict=True):
        if len(mine):
            best = int(mine.argmax())
            boxes[best] = vote(boxes, mine, best, min_iou)
    return ranked


def proposal_scores(run: Run, inputs: PhraseInputs) -> list[NDArray[np.float32]]:
    """Score, for each phrase, the proposals of its image, (r,)."""
    geometry = run.recipe.regions is not None and run.recipe.regions.geometry
    owners = inputs.corpus.image_of_sentence()
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(owners)
    order = np.argsort(owners, kind="stable")
    cuts = np.searchsorted(owners[order], np.arange(len(inputs.corpus.images) + 1))
    for image, (start, stop) in enumerate(pairwise(cuts)):
        there = slice(0, int(inputs.proposals[image]))
        if start == stop or not there.stop:
            continue
        mine = order[start:stop]
        features = inputs.features(image, there, geometry)
        scores = run.score_prepared(features, inputs.sentences.take(mine))
        for phrase, column in zip(mine, scores.T, strict=True):
            found[phrase] = column
    return found


def _recalls(found: Hits, phrases: Sequence[Sentence]) -> dict[str, object]:
    """Summarize the hits, or their probabilities, of all phrases and of each kind."""
    kinds = sorted({kind for phrase in phrases for kind in phrase.kinds})
    of_kind = {kind: np.array([kind in phrase.kinds for phrase in phrases]) for kind in kinds}
    by_kind = {k: GroundingRecall.from_hits(found[rows]).to_dict() for k, rows in of_kind.items()}
    return {**GroundingRecall.from_hits(found).to_dict(), "by kind": by_kind}
