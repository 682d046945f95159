"""Where a region lies, beside what it looks like."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GEOMETRY = 5  # x1 y1 x2 y2 and the area


def region_features(
    features: NDArray[np.floating], boxes: NDArray[np.float32], size: NDArray[np.int64], geometry: bool
) -> NDArray[np.float32]:
    """What a matcher takes of regions, (r, d); with `geometry` their box and area as well, (r, d + 5).

    Args:
        features: of the regions, (r, d).
        boxes: x1 y1 x2 y2 in pixels, (r, 4).
        size: width and height of the image, (2,).
        geometry: whether to add box and area, as shares of the image.
    """
    rows = np.asarray(features, np.float32)
    if not geometry:
        return rows
    shares = boxes / np.tile(size, 2)
    sides = shares[:, 2:] - shares[:, :2]
    return np.concatenate([rows, shares, sides.prod(axis=1, keepdims=True)], axis=1, dtype=np.float32)
