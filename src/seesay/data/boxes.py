"""Boxes: arrays (n, 4) of x1 y1 x2 y2 in continuous pixels from zero, x2 and y2 exclusive.

A box of the whole image is 0 0 width height. Annotations often count pixels and include the last ones;
`from_inclusive` and `to_inclusive` convert between the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError


def as_boxes(boxes: ArrayLike, where: str = "boxes") -> NDArray[np.float64]:
    """Check boxes and return them in double precision, (n, 4); an empty list is allowed.

    Args:
        boxes: (n, 4).
        where: what error messages call them.

    Raises:
        SeesayError: another shape, or a coordinate that is not finite.
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


def from_inclusive(boxes: ArrayLike, origin: int = 1) -> NDArray[np.float64]:
    """Convert boxes given as first and last pixels, counted from `origin`, to continuous boxes, (n, 4).

    >>> from_inclusive([[1, 1, 9, 10]]).tolist()
    [[0.0, 0.0, 9.0, 10.0]]
    """
    return np.asarray(as_boxes(boxes) - np.array([origin, origin, origin - 1, origin - 1]))


def to_inclusive(boxes: ArrayLike, origin: int = 1, pixel: ArrayLike = 1.0) -> NDArray[np.float64]:
    """Convert continuous boxes to first and last pixels, counted from `origin`: undoes `from_inclusive`.

    Two evaluators' conventions can be expressed with it. Plummer's adds one pixel to each side of inclusive
    boxes, `iou(to_inclusive(a), to_inclusive(b), inclusive=True)`, which is `iou(a, b)`. MDETR's takes the
    annotated coordinates as they are, `iou(to_inclusive(a), regions)`.

    Args:
        boxes: (n, 4).
        origin: the number of the first pixel, 0 or 1.
        pixel: width and height of an annotated pixel, (2,) or (n, 2), if the image has been resized since;
            see `PhraseCorpus.pixels`.

    >>> to_inclusive([[0, 0, 9, 10]]).tolist()
    [[1.0, 1.0, 9.0, 10.0]]
    """
    first = np.broadcast_to(np.asarray(pixel, np.float64), (*np.shape(pixel)[:-1], 2))
    return np.asarray(as_boxes(boxes) + np.concatenate([first * origin, first * (origin - 1)], axis=-1))


def area(boxes: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """Compute areas in pixels, (n,); a box turned inside out has none. See `iou` for `inclusive`."""
    return _area(as_boxes(boxes), float(inclusive)).astype(np.float32)


def iou(a: ArrayLike, b: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """Compute the intersection over union of all pairs, (n, m), of boxes (n, 4) and (m, 4).

    With `inclusive`, boxes are given as first and last pixels, so that a side is x2 − x1 + 1. Two boxes
    without area have an IoU of 0.

    >>> iou([[0, 0, 2, 2]], [[1, 0, 3, 2], [0, 0, 2, 2]]).round(3).tolist()
    [[0.3330000042915344, 1.0]]
    """
    return _iou(as_boxes(a)[:, None], as_boxes(b)[None], float(inclusive))


def paired_iou(a: ArrayLike, b: ArrayLike, inclusive: bool = False) -> NDArray[np.float32]:
    """Compute the IoU of box i of `a` with box i of `b`, (n,), from boxes (n, 4) each. See `iou`.

    Raises:
        SeesayError: the two hold different numbers of boxes.
    """
    first, second = as_boxes(a), as_boxes(b)
    if first.shape != second.shape:
        raise SeesayError(f"boxes: {len(first)} and {len(second)}; pairs need as many on each side.")
    return _iou(first, second, float(inclusive))


def enclosing(boxes: ArrayLike) -> NDArray[np.float32]:
    """Compute the smallest box that holds all of these, (4,).

    Raises:
        SeesayError: there is no box.
    """
    array = as_boxes(boxes)
    if not len(array):
        raise SeesayError("boxes: none; an enclosing box needs at least one.")
    return np.concatenate([array[:, :2].min(axis=0), array[:, 2:].max(axis=0)]).astype(np.float32)


def clip(boxes: ArrayLike, width: float, height: float) -> NDArray[np.float32]:
    """Clip boxes to an image of that size, (n, 4); a box outside it keeps no area."""
    return np.clip(as_boxes(boxes), 0, [width, height, width, height]).astype(np.float32)


def _area(boxes: NDArray[np.float64], extra: float) -> NDArray[np.float64]:
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2] + extra, 0)
    return np.asarray(sides[..., 0] * sides[..., 1])


def _iou(a: NDArray[np.float64], b: NDArray[np.float64], extra: float) -> NDArray[np.float32]:
    """IoU over broadcast shapes (..., 4); in double precision, so that a half is a half."""
    corner, far = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    sides = np.maximum(far - corner + extra, 0)
    shared = sides[..., 0] * sides[..., 1]
    union = _area(a, extra) + _area(b, extra) - shared
    ratio = np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
    return np.asarray(ratio, np.float32)
