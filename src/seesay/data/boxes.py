"""Boxes: arrays (n, 4) of x1 y1 x2 y2 in continuous pixels, counted from zero, x2 and y2 exclusive.

The whole image is the box 0 0 width height. Annotations often give the first and last pixels:
`from_inclusive` converts these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError

MOST_PIXELS = 1e9  # a coordinate that no image has; products with larger numbers could overflow


def as_boxes(boxes: ArrayLike) -> NDArray[np.float64]:
    """Return boxes (n, 4) in double precision. The list may be empty.

    Raises:
        SeesayError: the boxes are not numbers, have another shape, or are not finite.
    """
    try:
        array = np.asarray(boxes, np.float64)
    except (TypeError, ValueError, OverflowError) as failure:
        raise SeesayError(f"boxes: not numbers ({failure}); boxes must be (n, 4), x1 y1 x2 y2.") from failure
    if array.shape in ((0,), (1, 0)):
        return np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise SeesayError(f"boxes: shape {array.shape}; boxes must be (n, 4), x1 y1 x2 y2.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise SeesayError(f"boxes: box {bad[0]} is {array[bad[0]].tolist()}; coordinates must be finite.")
    return array


def from_inclusive(boxes: ArrayLike) -> NDArray[np.float64]:
    """Convert boxes given as first and last pixels, counted from one, to continuous boxes, (n, 4).

    >>> from_inclusive([[1, 1, 9, 10]]).tolist()
    [[0.0, 0.0, 9.0, 10.0]]
    """
    return np.asarray(as_boxes(boxes) - np.array([1, 1, 0, 0]))


def iou(a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
    """Compute the intersection over union of all pairs, (n, m), of boxes (n, 4) and (m, 4).

    A box without area has an IoU of 0 with any box.

    >>> iou([[0, 0, 2, 2]], [[1, 0, 3, 2], [0, 0, 2, 2]]).round(3).tolist()
    [[0.3330000042915344, 1.0]]
    """
    first, second = as_boxes(a)[:, None], as_boxes(b)[None]  # doubles, so that one half is exact
    corner, far = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.maximum(far - corner, 0).prod(axis=-1)
    union = _area(first) + _area(second) - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
    return np.asarray(ratio, np.float32)


def vote(boxes: ArrayLike, log_odds: ArrayLike, chosen: int, min_iou: float) -> NDArray[np.float32]:
    """Compute the mean of a box and the boxes that overlap it, weighted by their odds, (4,).

    Box voting (Gidaris and Komodakis, ICCV 2015): the mean of several boxes around one object is closer to it
    than the best of them. Boxes with higher odds than the chosen one have no vote, because they mark another
    place.

    Args:
        boxes: (n, 4).
        log_odds: the log odds that each box is correct, (n,).
        chosen: the index of the box.
        min_iou: the least IoU with it of boxes that have a vote.

    >>> vote([[0, 0, 2, 2], [0, 0, 2, 4], [6, 6, 9, 9]], [0, 0, 0], chosen=0, min_iou=0.25).tolist()
    [0.0, 0.0, 2.0, 3.0]
    """
    array, below = as_boxes(boxes), np.asarray(log_odds, np.float64)
    below = below - below[chosen]  # the chosen box has odds of one, which no other exceeds
    voters = (iou(array, array[[chosen]])[:, 0] >= min_iou) & (below <= 0)
    voters[chosen] = True
    weights = np.exp(below[voters])
    return np.asarray(weights @ array[voters] / weights.sum(), np.float32)


def jittered(box: ArrayLike, width: float, height: float, count: int, min_iou: float) -> NDArray[np.float32]:
    """Draw at most `count` boxes near one box of an image of that size, (n, 4).

    Each side is moved by up to an eighth of the box's extent, and boxes with an IoU below `min_iou` are left
    out. The result is the same for the same box.

    >>> jittered([20, 20, 60, 60], 100, 100, count=2, min_iou=0.7).shape
    (2, 4)
    """
    array = as_boxes(np.asarray(box)[None])
    generator = np.random.default_rng(np.frombuffer(array.astype("<f4").tobytes(), "<u4"))
    extent = np.tile(array[0, 2:] - array[0, :2], 2)
    moved = clip(array + generator.uniform(-1 / 8, 1 / 8, (8 * count, 4)) * extent, width, height)
    return moved[iou(moved, array)[:, 0] >= min_iou][:count]


def enclosing(boxes: ArrayLike) -> NDArray[np.float32]:
    """Compute the smallest box that contains all boxes, (4,); raise SeesayError if there are none."""
    array = as_boxes(boxes)
    if not len(array):
        raise SeesayError("boxes: an enclosing box needs at least one box, got none.")
    return np.concatenate([array[:, :2].min(axis=0), array[:, 2:].max(axis=0)]).astype(np.float32)


def clip(boxes: ArrayLike, width: float, height: float) -> NDArray[np.float32]:
    """Clip boxes to an image of that size, (n, 4); a box outside the image has no area left."""
    return np.clip(as_boxes(boxes), 0, [width, height, width, height]).astype(np.float32)


def _area(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.maximum(boxes[..., 2:] - boxes[..., :2], 0).prod(axis=-1))
