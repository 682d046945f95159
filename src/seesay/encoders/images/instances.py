"""Instances: an image as at most 36 regions, each described by class probabilities (GVSE, AAAI 2019).

The paper detects them with a Faster R-CNN that knows the objects and attributes of Visual Genome; here they
are proposals, and their description the 1,000 classes of the pretrained EfficientNet-Lite0, which sees each
by itself. Like the paper's attributes, these describe things that no training sentence names.

`instances:FILE.onnx` takes the boxes of a detector first, and proposals for what is left of the 36.
`instances:grid` takes boxes that are the same in every image, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels, squares_of
from seesay.encoders.images.efficientnet import LITE, lite_network
from seesay.encoders.regions.detector import Detector
from seesay.encoders.regions.proposals import SIDE, describe_regions, diverse_regions

INSTANCES = "instances"
VERSION = 1
COUNT = 36  # the paper's I, the whole image among them
CLASSES = 1000
# Each box is a pass of its own: maps of one pass, pooled in each box, do little better than the whole image.
_NETWORK = "efficientnet-lite0"
GRID = f"{INSTANCES}:grid"
_OF_GRID = ((5, 1 / 3), (3, 1 / 2), (1, 3 / 4), (1, 1))  # boxes a row, and their side as a share of the image
_AT_ONCE = 12  # squares that the network sees at a time


@register_image_encoder(INSTANCES)
class InstanceEncoder(ImageEncoder):
    """1000 class probabilities of each of at most 36 instances: 36,000-d, 72 kB an image.

    `pooled`, (n, 36·1000), are the probabilities, instance by instance; `boxes`, (n, 36·4), shares of the
    image. An image with fewer instances has zeros in place of the others. The last instance is the image.
    """

    variants: ClassVar = {
        "": "class probabilities of each of at most 36 regions of an image",
        ":grid": "the same, the regions of a grid of three sizes",
        ":FILE": "the same, the boxes of a detector (ONNX, YOLOX's layout) among them",
    }
    detector: Detector | None = None

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        what = f"{LITE[_NETWORK].sha256} v{VERSION} {describe_regions(COUNT)}"
        dims = {"pooled": COUNT * CLASSES, "boxes": COUNT * 4}
        file = name.partition(":")[2] if name != GRID else ""
        detector = Detector(Path(file)) if file else None
        if detector is not None:
            what = f"{what} {detector.digest}"
        known = f"{INSTANCES}:detector" if detector else name  # features do not depend on where the file lies
        encoder = cls(known, what, SIDE, dims, lite_network(_NETWORK, device, SIDE), "regions")
        encoder.name, encoder.detector = name, detector
        return encoder

    def prepare(self, pixels: Pixels) -> tuple[Pixels, NDArray[np.float32]]:
        """Cut out the i instances, (i, size, size, 3), with their boxes as shares of the image, (i, 4)."""
        boxes = self._regions(pixels)
        squares = squares_of(pixels, boxes, self.size)
        shares: NDArray[np.float32] = np.divide(boxes, np.array(pixels.shape[1::-1] * 2, np.float32))
        return np.stack(squares), shares

    def encode_prepared(self, images: Sequence[Any]) -> Arrays:
        """Compute probabilities and boxes, n rows each."""
        classes = np.zeros((len(images), COUNT, CLASSES), np.float32)
        places = np.zeros((len(images), COUNT, 4), np.float32)
        for row, (squares, boxes) in enumerate(images):
            starts = range(0, len(squares), _AT_ONCE)
            logits = np.concatenate([self._network(squares[i : i + _AT_ONCE])["logits"] for i in starts])
            classes[row, : len(squares)] = _softmax(logits)
            places[row, : len(boxes)] = boxes
        return {"pooled": classes.reshape(len(images), -1), "boxes": places.reshape(len(images), -1)}

    def crops(self, pixels: Pixels) -> Pixels:
        return self.prepare(pixels)[0]

    def _regions(self, pixels: Pixels) -> NDArray[np.float32]:
        """At most 36 boxes, those of the detector's objects first and the whole image last."""
        if self.name == GRID:
            return _grid() * np.array(pixels.shape[1::-1] * 2, np.float32)
        if self.detector is None:
            return diverse_regions(pixels, COUNT)
        objects = self.detector.detect(pixels, COUNT - 1).boxes
        proposals = diverse_regions(pixels, COUNT)
        return np.concatenate([objects, proposals[:-1][: COUNT - 1 - len(objects)], proposals[-1:]])


def _grid() -> NDArray[np.float32]:
    """The boxes of the grid as shares of the image, (36, 4), half over each other; the last is the image."""
    boxes = []
    for count, side in _OF_GRID:
        starts = np.linspace(0, 1 - side, count) if count > 1 else np.array([(1 - side) / 2])
        boxes += [(x, y, x + side, y + side) for y in starts for x in starts]
    return np.array(boxes, np.float32)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
