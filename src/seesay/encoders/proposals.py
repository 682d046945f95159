"""Region proposals: boxes that may contain an object, from the edges of an image.

Edge Boxes (Zitnick and Dollár, ECCV 2014) scores a box by the contours that are entirely inside it. Its
authors find edges with a structured forest; here they are Canny's, one pixel wide, with the orientation of
the gradient. The constants were chosen on Flickr8k's val phrases at IoU 0.5; the most important one is the
threshold of non-maximum suppression (NMS): boxes that overlap by more than 0.55 are one proposal. That leaves
few boxes near a true one to learn from, so training may use another threshold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels
from seesay.data.boxes import iou
from seesay.encoders.images.base import resize

VERSION = 3  # changes with the boxes; part of the names of region stores
_DIVERSE_VERSION = 1  # changes with the choice of `diverse_regions`
# Side of the squares to which diverse regions are resized for an EfficientNet-Lite: as good as 224 in half
# the time (on Flickr8k's first 200 val images, an mAP of 35.9 either way).
SIDE = 160

_AREA = 224 * 224  # pixels of the image in which edges are found; the constants are for this size
_BLUR = 1.0  # σ in pixels; without blur it takes five times as long
# Canny's upper threshold on Scharr gradients of 8-bit grey; the lower one is a third of it. It is halved for
# a dim or soft image until there are enough edges.
_THRESHOLD, _MIN_THRESHOLD = 900, 60
_MIN_EDGES = 1000
# Time grows faster than the number of edge pixels; one photograph in twenty has more.
_MAX_EDGES = 5000
NMS = 0.55  # the IoU above which two boxes are one proposal: the paper's β, for recall at IoU 0.5
_SIZE_PENALTY = 1.2  # the paper's κ, there 1.5; a smaller one favours large boxes
_MIN_AREA = 64 * 64  # of a diverse region, in square pixels; smaller ones would be little but blur
_MAX_ASPECT = 4.0  # of a diverse region, its longer side over the shorter


def propose(pixels: Pixels, count: int = 200, nms: float = NMS) -> NDArray[np.float32]:
    """Propose at most `count` boxes of one image (h, w, 3), (r, 4), best first; the last is the whole image.

    They are x1 y1 x2 y2 in pixels. Boxes that overlap a better one by an IoU of more than `nms` are removed.
    """
    import cv2

    height, width = pixels.shape[:2]
    boxes = np.array([[0, 0, width, height]], np.float32)
    scale = (_AREA / (height * width)) ** 0.5
    small = resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)))
    strength, orientation = _edges(small)
    # The finder does not accept a maximum of 0, and fails without edges.
    if count < 2 or not strength.any():
        return boxes
    finder = cv2.ximgproc.createEdgeBoxes(beta=nms, kappa=_SIZE_PENALTY, maxBoxes=count - 1)
    found = np.asarray(finder.getBoundingBoxes(strength, orientation)[0], np.float32).reshape(-1, 4)
    found[:, 2:] += found[:, :2]  # from x y width height
    found *= np.array([width / small.shape[1], height / small.shape[0]] * 2, np.float32)
    return np.concatenate([found, boxes])


def diverse_regions(pixels: Pixels, count: int) -> NDArray[np.float32]:
    """Choose at most `count` diverse boxes with few near-duplicates (SCO, 3.2).

    As in HCP (Wei et al., PAMI 2016), tiny or elongated proposals are left out, the others are clustered by
    overlap, and the best of each cluster is taken. The last box is the whole image.
    """
    boxes = propose(pixels)
    found, whole = boxes[:-1], boxes[-1:]
    sides = np.maximum(found[:, 2:] - found[:, :2], 1)
    kept = (sides.prod(axis=1) >= _MIN_AREA) & (sides.max(axis=1) <= _MAX_ASPECT * sides.min(axis=1))
    return np.concatenate([best_of_clusters(found[kept], count - 1), whole])


def describe_regions(count: int) -> str:
    """Identify the settings of `diverse_regions`, for fingerprints."""
    return f"regions v{_DIVERSE_VERSION}={count} proposals v{VERSION}"


def best_of_clusters(boxes: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Take the first box of each of at most `count` clusters, in their order; boxes (r, 4) come best first.

    Clusters are merged by the mean of 1 - IoU between their boxes (average linkage).
    """
    if len(boxes) <= count or count < 1:
        return boxes[: max(count, 0)]
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = 1 - iou(boxes, boxes).astype(np.float64)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    _, first = np.unique(fcluster(tree, count, "maxclust"), return_index=True)
    return boxes[np.sort(first)]


def _edges(pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The strength of thinned edges, 0..1, and the orientation of the gradient, 0..π, (h, w) each."""
    import cv2

    grey = cv2.GaussianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (0, 0), _BLUR)
    dx, dy = cv2.Scharr(grey, cv2.CV_16S, 1, 0), cv2.Scharr(grey, cv2.CV_16S, 0, 1)
    threshold = float(_THRESHOLD)
    while True:
        thin = cv2.Canny(dx, dy, threshold / 3, threshold, L2gradient=True) > 0
        if np.count_nonzero(thin) >= _MIN_EDGES or threshold <= _MIN_THRESHOLD:
            break
        threshold /= 2
    across, down = dx.astype(np.float32), dy.astype(np.float32)
    strength = np.where(thin, np.hypot(across, down), 0)
    strength.ravel()[np.argpartition(strength, -_MAX_EDGES, axis=None)[:-_MAX_EDGES]] = 0
    full = np.percentile(strength[strength > 0], 95) if strength.any() else 1
    orientation = np.mod(np.arctan2(down, across), np.pi)
    return np.clip(strength / full, 0, 1).astype(np.float32), orientation.astype(np.float32)
