"""Boxes: arrays (n, 4) of x1 y1 x2 y2 in continuous pixels from zero, x2 and y2 exclusive.

A box of the whole image is 0 0 width height.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError


def as_boxes(boxes: ArrayLike, where: str = "boxes") -> NDArray[np.float64]:
    """Checked boxes, (n, 4), in double precision; `where` is for messages. No boxes may be an empty list.

    Raises:
        SeesayError: another shape, or a coordinate that is no finite number.
    """
    array = np.asarray(boxes, np.float64)
    if array.size == 0:
        return np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise SeesayError(f"{where}: shape {array.shape}; boxes must be (n, 4), x1 y1 x2 y2.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise SeesayError(f"{where}: box {bad[0]} is {array[bad[0]].tolist()}; coordinates must be finite.")
    return array


def area(boxes: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """Areas in pixels, (n,); a box turned inside out has none. `inclusive` as in `iou`."""
    return _area(as_boxes(boxes), float(inclusive)).astype(np.float32)


def iou(a: ArrayLike, b: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """Intersection over union of all pairs, (n, m), from boxes (n, 4) and (m, 4).

    `inclusive` measures sides as x2 − x1 + 1, the extra-pixel convention of several published evaluators.
    Two boxes without area have an IoU of 0.

    >>> iou([[0, 0, 2, 2]], [[1, 0, 3, 2], [0, 0, 2, 2]]).round(3).tolist()
    [[0.3330000042915344, 1.0]]
    """
    return _iou(as_boxes(a)[:, None], as_boxes(b)[None], float(inclusive))


def paired_iou(a: ArrayLike, b: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """IoU of box i of `a` with box i of `b`, (n,), from boxes (n, 4) each. See `iou`.

    Raises:
        SeesayError: not as many boxes on each side.
    """
    first, second = as_boxes(a), as_boxes(b)
    if first.shape != second.shape:
        raise SeesayError(f"boxes: {len(first)} and {len(second)}; pairs need as many on each side.")
    return _iou(first, second, float(inclusive))


def enclosing(boxes: ArrayLike) -> NDArray[np.float32]:
    """The smallest box that holds all of these, (4,).

    Raises:
        SeesayError: no box.
    """
    array = as_boxes(boxes)
    if not len(array):
        raise SeesayError("boxes: none; an enclosing box needs at least one.")
    return np.concatenate([array[:, :2].min(axis=0), array[:, 2:].max(axis=0)]).astype(np.float32)


def clip(boxes: ArrayLike, width: float, height: float) -> NDArray[np.float32]:
    """The part of each box inside an image of that size, (n, 4); without area where it lies outside."""
    return np.clip(as_boxes(boxes), 0, [width, height, width, height]).astype(np.float32)


def _area(boxes: NDArray[np.float64], extra: float) -> NDArray[np.float64]:
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2] + extra, 0)
    return np.asarray(sides[..., 0] * sides[..., 1])


def _iou(a: NDArray[np.float64], b: NDArray[np.float64], extra: float) -> NDArray[np.float32]:
    """Over broadcast shapes (..., 4); in double precision, so that a half is a half."""
    corner, far = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    sides = np.maximum(far - corner + extra, 0)
    shared = sides[..., 0] * sides[..., 1]
    union = _area(a, extra) + _area(b, extra) - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
    return np.asarray(ratio, np.float32)
