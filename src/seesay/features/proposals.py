"""Region proposals: boxes that may hold an object, from the edges of an image alone.

Edge Boxes (Zitnick and Dollár, ECCV 2014) scores a box by the contours that lie wholly inside it.
Its authors find edges with a structured forest; here they are Canny's, thinned to one pixel, with the
gradient's orientation.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from seesay.features.crops import Pixels

VERSION = 1  # changes with the boxes; stores of region features hold it


class Proposals(NamedTuple):
    """Boxes (r, 4) float32, best first, x1 y1 x2 y2 in pixels of the image; scores (r,) that fall."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]


def propose(pixels: Pixels, count: int = 200) -> Proposals:
    """At most `count` boxes of one image (h, w, 3); the whole image is always among them."""
    height, width = pixels.shape[:2]
    strength, orientation = _edges(pixels)
    finder = cv2.ximgproc.createEdgeBoxes(maxBoxes=count)
    boxes, scores = finder.getBoundingBoxes(strength, orientation)
    found = np.asarray(boxes, np.float32).reshape(-1, 4)[: count - 1]
    found[:, 2:] += found[:, :2]
    whole = np.array([[0, 0, width, height]], np.float32)
    rated = np.asarray(scores, np.float32).reshape(-1)[: count - 1]
    return Proposals(np.concatenate([found, whole]), np.append(rated, 0).astype(np.float32))


def _edges(pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Strength 0..1 of thinned edges, and the gradient's orientation in 0..π, (h, w) each."""
    grey = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), 1.0)
    dx, dy = cv2.Scharr(grey, cv2.CV_16S, 1, 0), cv2.Scharr(grey, cv2.CV_16S, 0, 1)
    thin = cv2.Canny(dx, dy, 300, 900, L2gradient=True) > 0
    fx, fy = dx.astype(np.float32), dy.astype(np.float32)
    strength = np.where(thin, np.hypot(fx, fy), 0)
    strong = float(np.percentile(strength[thin], 95)) if thin.any() else 1.0
    orientation = np.mod(np.arctan2(fy, fx), np.pi).astype(np.float32)
    return np.clip(strength / strong, 0, 1).astype(np.float32), orientation
