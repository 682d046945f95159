"""Regions for the prediction of concepts: many places, sizes and shapes, few near-duplicates (SCO, 3.2).

SCO takes r = 50 regions as HCP does (Wei et al., PAMI 2016): proposals that are tiny or drawn out are left
out, the others are clustered by overlap, and each cluster is stood for by its best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from seesay.data.boxes import iou
from seesay.encoders.images.crops import Pixels
from seesay.encoders.regions.proposals import propose

VERSION = 1  # changes with the boxes

REGIONS = 50  # the paper's r, the whole image among them
# Of the squares that an EfficientNet-Lite sees of each. At 160 regions tell as much as at 224, in half the
# time: on Flickr8k's first 200 val images an mAP of 35.9 either way, and class names find as many sentences.
SIDE = 160
_PROPOSALS = 200
_SMALLEST = 64 * 64  # square pixels; of less, the network would see little but blur
_LONGEST = 4.0  # of a box, its longer side over the shorter


def concept_regions(pixels: Pixels, count: int = REGIONS) -> NDArray[np.float32]:
    """At most `count` boxes of one image (h, w, 3), x1 y1 x2 y2 in pixels; the last is the whole image."""
    boxes = propose(pixels, _PROPOSALS).boxes
    found, whole = boxes[:-1], boxes[-1:]
    sides = np.maximum(found[:, 2:] - found[:, :2], 1)
    large = sides.prod(axis=1) >= _SMALLEST
    shapely = sides.max(axis=1) <= _LONGEST * sides.min(axis=1)
    return np.concatenate([best_of_clusters(found[large & shapely], count - 1), whole])


def best_of_clusters(boxes: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The first box of each of at most `count` clusters, in their order; boxes (r, 4) come best first.

    Clusters are merged by the mean of 1 - IoU between their boxes (average linkage).
    """
    if len(boxes) <= count or count < 1:
        return boxes[: max(count, 0)]
    apart = 1 - iou(boxes, boxes).astype(np.float64)
    np.fill_diagonal(apart, 0)
    tree = linkage(squareform(apart, checks=False), "average")
    _, first = np.unique(fcluster(tree, count, "maxclust"), return_index=True)
    return boxes[np.sort(first)]
