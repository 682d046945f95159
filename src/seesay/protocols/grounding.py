"""Phrase localization: is the region that a phrase names among the first K that a method gives?

A region is right when its IoU with the phrase's ground truth is at least 0.5. Two conventions are in use
for a phrase of several boxes ("two men"): their enclosing box counts, or any one of them; and two for IoU:
with and without an extra pixel on each side (x2 − x1 + 1). Every result names those it was measured by.
Source: Plummer et al., IJCV 2017; Wang et al., TPAMI 2019, Section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.data.boxes import area, as_boxes, paired_iou
from seesay.data.phrases import Phrase, PhraseCorpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import how_drawn, mean_intervals

KS = (1, 5, 10)
LEAST_IOU = 0.5
MEASURES = ("R@1", "R@5", "R@10", "upper bound")
_BLOCK = 1024  # phrases compared at a time, which bounds the memory

Convention = Literal["enclosing", "any"]


def grounding_recall(
    ranked_boxes: Sequence[ArrayLike],
    phrases: Sequence[Phrase],
    convention: Convention = "enclosing",
    inclusive: bool = False,
    resamples: int = 0,
) -> dict[str, Any]:
    """R@1, R@5, R@10 in percent and the regions' upper bound, of all phrases and `by kind` where known.

    Args:
        ranked_boxes: for each phrase its regions, (r, 4), best first; r may differ, and be zero: a miss.
            The order is taken as given: who ranks by scores breaks the ties.
        phrases: with their ground truth, in the same frame.
        convention: whether the enclosing box of a phrase's boxes is the ground truth, or any of them.
        inclusive: measure sides with the extra pixel.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        `R@1`, `R@5`, `R@10`, `upper bound` (a right region among all that were given) and `n`, the phrases;
        `by kind`, the same for each kind, where a phrase of two kinds counts with both; and the `convention`
        and `IoU` that it was measured by; and `intervals` of all phrases'.

    Raises:
        SeesayError: no phrase, not one list a phrase, boxes of another shape, or a NaN among them.
    """
    overlaps = _overlaps(ranked_boxes, phrases, convention, inclusive)
    first = np.array([_first_right(overlap) for overlap in overlaps])
    hits = np.stack([first < k for k in (*KS, np.inf)], axis=1)
    told = {}
    if resamples:
        images = [phrase.image for phrase in phrases]
        found = mean_intervals(MEASURES, 100.0 * hits, images, resamples)
        told = {"intervals": how_drawn(resamples) | found}
    return {**_percent(hits, phrases), **_named(convention, inclusive), **told}


def random_recall(
    proposals: Sequence[ArrayLike],
    phrases: Sequence[Phrase],
    convention: Convention = "enclosing",
    inclusive: bool = False,
) -> dict[str, Any]:
    """What ranking each phrase's regions at random gives, as an expectation over all orders.

    With h right regions of r, the first K hold none of them with probability C(r − h, K) / C(r, K).
    Arguments, result and errors as `grounding_recall`.
    """
    overlaps = _overlaps(proposals, phrases, convention, inclusive)
    total = np.array([len(overlap) for overlap in overlaps])
    right = np.array([int((overlap >= LEAST_IOU).sum()) for overlap in overlaps])
    chances = np.stack([_chance(total, right, k) for k in KS] + [(right > 0).astype(float)], axis=1)
    return {**_percent(chances, phrases), **_named(convention, inclusive)}


def largest_first(proposals: ArrayLike) -> NDArray[np.float64]:
    """Regions (r, 4) by area, largest first, equal ones in their order: the "largest proposal" baseline."""
    boxes = as_boxes(proposals)
    return boxes[np.argsort(-area(boxes), kind="stable")]


def whole_images(corpus: PhraseCorpus) -> list[NDArray[np.float64]]:
    """For each phrase the box of its whole image, (1, 4): the "whole image" baseline."""
    return [np.array([[0.0, 0.0, *corpus.sizes[phrase.image]]]) for phrase in corpus.phrases]


def baselines(
    proposals: Sequence[ArrayLike],
    corpus: PhraseCorpus,
    convention: Convention = "enclosing",
    inclusive: bool = False,
) -> dict[str, dict[str, Any]]:
    """What needs no matcher: each phrase's largest proposal, a random one, and the whole image.

    Args:
        proposals: of each phrase's image, (r, 4).
        corpus: of the phrases.
        convention: as `grounding_recall`.
        inclusive: as `grounding_recall`.
    """
    phrases = corpus.phrases
    largest = [largest_first(boxes) for boxes in proposals]
    return {
        "largest proposal": grounding_recall(largest, phrases, convention, inclusive),
        "random proposal": random_recall(proposals, phrases, convention, inclusive),
        "whole image": grounding_recall(whole_images(corpus), phrases, convention, inclusive),
    }


def _overlaps(
    ranked: Sequence[ArrayLike], phrases: Sequence[Phrase], convention: Convention, inclusive: bool
) -> list[NDArray[np.float32]]:
    """For each phrase the IoU of its regions with its ground truth, (r,), the best one's under "any"."""
    if convention not in ("enclosing", "any"):
        raise SeesayError(f"convention '{convention}' is not known; use enclosing or any.")
    if not phrases or len(ranked) != len(phrases):
        raise SeesayError(f"grounding: {len(ranked)} lists of regions for {len(phrases)} phrases.")
    overlaps: list[NDArray[np.float32]] = []
    for start in range(0, len(phrases), _BLOCK):
        block = range(start, min(start + _BLOCK, len(phrases)))
        regions = [as_boxes(ranked[i], f"regions of phrase {i}") for i in block]
        overlaps += _paired(regions, [_truth(phrases[i], convention) for i in block], inclusive)
    return overlaps


def _paired(
    regions: list[NDArray[np.float64]], truths: list[NDArray[np.float64]], inclusive: bool
) -> list[NDArray[np.float32]]:
    """As `_overlaps`, in one long list of pairs instead of a small matrix for each phrase."""
    left = np.concatenate([np.repeat(r, len(t), axis=0) for r, t in zip(regions, truths, strict=True)])
    right = np.concatenate([np.tile(t, (len(r), 1)) for r, t in zip(regions, truths, strict=True)])
    ends = np.cumsum([len(r) * len(t) for r, t in zip(regions, truths, strict=True)])
    parts = np.split(paired_iou(left, right, inclusive), ends[:-1])
    return [part.reshape(-1, len(t)).max(axis=1) for part, t in zip(parts, truths, strict=True)]


def _truth(phrase: Phrase, convention: Convention) -> NDArray[np.float64]:
    return as_boxes(phrase.boxes if convention == "any" else phrase.box[None], phrase.text)


def _first_right(overlap: NDArray[np.float32]) -> float:
    """Zero-based rank of the first right region; infinity where none is."""
    right = np.flatnonzero(overlap >= LEAST_IOU)
    return float(right[0]) if right.size else np.inf


def _chance(total: NDArray[np.int64], right: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Probability of a right region among k drawn without replacement from `total`, for each phrase."""
    none = np.ones(len(total))
    for drawn in range(k):
        left = np.maximum(total - drawn, 0)
        none *= np.divide(np.maximum(left - right, 0), left, out=np.ones(len(total)), where=left > 0)
    return 1 - none


def _percent(chances: NDArray[Any], phrases: Sequence[Phrase]) -> dict[str, Any]:
    """The measures from each phrase's four chances of a hit, (n, 4): of all phrases and of each kind."""
    kinds = sorted({kind for phrase in phrases for kind in phrase.kinds})
    of_kind = {kind: np.array([kind in phrase.kinds for phrase in phrases]) for kind in kinds}
    return {**_mean(chances), "by kind": {kind: _mean(chances[rows]) for kind, rows in of_kind.items()}}


def _mean(chances: NDArray[Any]) -> dict[str, float]:
    return {
        **dict(zip(MEASURES, (100 * chances.mean(axis=0)).round(3).tolist(), strict=True)),
        "n": len(chances),
    }


def _named(convention: Convention, inclusive: bool) -> dict[str, str]:
    return {
        "convention": "enclosing box" if convention == "enclosing" else "any box",
        "IoU": "with the extra pixel" if inclusive else "continuous",
    }
