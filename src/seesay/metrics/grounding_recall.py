"""Recall of phrase localization: the share of phrases with a right region among the first K.

A region is right if its IoU with the phrase's ground truth is at least 0.5. Published evaluators differ in
two respects, and both variants of each are available.

IoU. "plummer" (Plummer et al., IJCV 2017) uses the first and last pixels and adds one to each side, x2 − x1 +
1. For boxes with exclusive x2 and y2, as everywhere in seesay, this is the plain IoU. "mdetr" (Kamath et al.,
ICCV 2021) uses the annotated coordinates, which count from one and include the last pixel, without a
correction, so the upper left corner of true boxes is offset by one pixel.

Boxes. A phrase may have several ("two men"): "merged" uses the box that encloses them all, "any" the one with
the highest IoU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import as_array, refuse_nan
from seesay.errors import SeesayError

IoU = Literal["plummer", "mdetr"]
PhraseBoxes = Literal["merged", "any"]

MIN_IOU = 0.5
METRICS = ("R@1", "R@5", "R@10", "upper bound")

_KS = (1, 5, 10)
_BLOCK = 1024  # phrases compared at a time, which bounds the memory

Overlaps = Sequence[NDArray[np.float32]]  # for each phrase the IoU of its regions, (r,)


def grounding_recall(
    scores: Sequence[ArrayLike],
    regions: Sequence[ArrayLike],
    true_boxes: Sequence[ArrayLike],
    iou: IoU = "plummer",
    boxes: PhraseBoxes = "merged",
) -> dict[str, float]:
    """Compute R@1, R@5, R@10 and the regions' upper bound of phrase localization.

    Ties count against the phrase: a wrong region that scores as high as a right one ranks before it.

    Args:
        scores: for each phrase the scores of its regions, (r,); r may differ between phrases, and a phrase
            without regions counts as a miss.
        regions: for each phrase its regions, (r, 4), x1 y1 x2 y2 in pixels from zero, x2 and y2 exclusive.
        true_boxes: for each phrase its boxes, (b, 4), b at least 1, in the same frame.
        iou: "plummer" or "mdetr", see above.
        boxes: "merged" or "any", see above.

    Returns:
        The percentages of phrases with a right region among the first 1, 5 and 10, and among all.

    Raises:
        SeesayError: a shape is wrong, a score is NaN, a box is not finite, or there is no phrase.

    Example:
        >>> from seesay.metrics import grounding_recall
        >>> regions = [[[0, 0, 10, 10], [20, 20, 40, 40]]]
        >>> grounding_recall([[0.2, 0.7]], regions, [[[0, 0, 10, 12]]])
        {'R@1': 0.0, 'R@5': 100.0, 'R@10': 100.0, 'upper bound': 100.0}
    """
    overlaps = region_overlaps(regions, true_boxes, iou, boxes)
    return recalls(hits(first_right(scores, overlaps)))


def recalls(hits: NDArray[np.floating] | NDArray[np.bool_]) -> dict[str, float]:
    """Return the percentages of phrases by metric, from the `hits` of each or their probabilities, (p, 4)."""
    return dict(zip(METRICS, (100 * hits.mean(axis=0)).round(3).tolist(), strict=True))


def region_overlaps(
    regions: Sequence[ArrayLike],
    true_boxes: Sequence[ArrayLike],
    iou: IoU = "plummer",
    boxes: PhraseBoxes = "merged",
) -> Overlaps:
    """Compute the IoU of each phrase's regions with its ground truth, (r,); for "any", the highest."""
    for name, value, known in (("iou", iou, ("plummer", "mdetr")), ("boxes", boxes, ("merged", "any"))):
        if value not in known:
            raise SeesayError(f"{name}: unknown value '{value}'; use {' or '.join(known)}.")
    if not len(true_boxes):
        raise SeesayError("true_boxes: there are no phrases to measure.")
    if len(regions) != len(true_boxes):
        raise SeesayError(
            f"regions: {len(regions)} lists; there must be {len(true_boxes)}, one for each phrase."
        )
    overlaps: list[NDArray[np.float32]] = []
    for start in range(0, len(true_boxes), _BLOCK):
        block = range(start, min(start + _BLOCK, len(true_boxes)))
        truths = [_truth(true_boxes[i], f"true_boxes[{i}]", iou, boxes) for i in block]
        overlaps += _paired([_boxes(regions[i], f"regions[{i}]") for i in block], truths)
    return overlaps


def first_right(scores: Sequence[ArrayLike], overlaps: Overlaps) -> NDArray[np.float64]:
    """Return the zero-based rank of each phrase's first right region, (p,); infinity if none is right."""
    ranks = np.full(len(overlaps), np.inf)
    if len(scores) != len(overlaps):
        raise SeesayError(f"scores: {len(scores)} lists; there must be {len(overlaps)}, one for each phrase.")
    for phrase, overlap in enumerate(overlaps):
        mine = as_array(scores[phrase], f"scores[{phrase}]", len(overlap))
        refuse_nan(mine, f"scores[{phrase}]")
        right = overlap >= MIN_IOU
        if right.any():
            ranks[phrase] = (mine[~right] >= mine[right].max()).sum()
    return ranks


def hits(first: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return True where a right region is among the first 1, 5, 10 and among all, (p, 4)."""
    return np.stack([first < k for k in (*_KS, np.inf)], axis=1)


def random_hits(overlaps: Overlaps) -> NDArray[np.float64]:
    """Return the probabilities of `hits` if each phrase's regions are ranked at random, (p, 4).

    With h right regions of r, the first K hold none of them with probability C(r − h, K) / C(r, K).
    """
    total = np.array([len(overlap) for overlap in overlaps])
    right = np.array([int((overlap >= MIN_IOU).sum()) for overlap in overlaps])
    none = [np.ones(len(total))]  # the chance of no right region among 0, 1, … drawn
    for drawn in range(max(_KS)):
        left = np.maximum(total - drawn, 0)
        wrong = np.divide(np.maximum(left - right, 0), left, out=np.ones(len(total)), where=left > 0)
        none.append(none[-1] * wrong)
    return np.stack([1 - none[k] for k in _KS] + [(right > 0).astype(float)], axis=1)


def _boxes(boxes: ArrayLike, name: str) -> NDArray[np.float64]:
    array = as_array(boxes, name)
    array = np.zeros((0, 4)) if not array.size else as_array(array, name, "n", 4).astype(np.float64)
    if not np.isfinite(array).all():
        raise SeesayError(f"{name}: box {int(np.argwhere(~np.isfinite(array))[0][0])} is not finite.")
    return array


def _truth(boxes: ArrayLike, name: str, iou: IoU, which: PhraseBoxes) -> NDArray[np.float64]:
    array = _boxes(boxes, name)
    if not len(array):
        raise SeesayError(f"{name}: no box; a phrase needs at least one.")
    if which == "merged":
        array = np.concatenate([array[:, :2].min(axis=0), array[:, 2:].max(axis=0)])[None]
    return array + np.array([1, 1, 0, 0]) if iou == "mdetr" else array


def _paired(
    regions: list[NDArray[np.float64]], truths: list[NDArray[np.float64]]
) -> list[NDArray[np.float32]]:
    """Compute the IoUs as one long list of pairs, which is faster than a small matrix for each phrase."""
    left = np.concatenate([np.repeat(r, len(t), axis=0) for r, t in zip(regions, truths, strict=True)])
    right = np.concatenate([np.tile(t, (len(r), 1)) for r, t in zip(regions, truths, strict=True)])
    ends = np.cumsum([len(r) * len(t) for r, t in zip(regions, truths, strict=True)])
    # In double precision, so that one half is exact.
    both = np.concatenate(
        [np.maximum(left[:, :2], right[:, :2]), np.minimum(left[:, 2:], right[:, 2:])], axis=1
    )
    shared, *areas = (np.maximum(x[:, 2:] - x[:, :2], 0).prod(axis=1) for x in (both, left, right))
    union = sum(areas) - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0).astype(np.float32)
    parts = np.split(ratio, ends[:-1])
    return [part.reshape(-1, len(t)).max(axis=1) for part, t in zip(parts, truths, strict=True)]
