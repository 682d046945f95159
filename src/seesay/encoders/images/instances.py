"""Instances: an image as at most 36 regions, each described by class probabilities (GVSE, AAAI 2019).

The paper detects them with a Faster R-CNN for the objects and attributes of Visual Genome. Here they are
proposals, each described by the 1,000 classes of the pretrained EfficientNet-Lite0. Like the paper's
attributes, these describe things that no training sentence names.

With `file` they are the boxes of a detector first, and then proposals; the detector's confidence in each of
its classes is added to the 1,000. `boxes: grid` takes the same boxes in every image, at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels
from seesay.encoders import register_image_encoder
from seesay.encoders.detector import Detector, confidences_in
from seesay.encoders.images.base import Arrays, ImageEncoder, squares_of
from seesay.encoders.images.efficientnet import LITE, run_squares
from seesay.encoders.proposals import SIDE, describe_regions, diverse_regions
from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.paths import home_expanded

INSTANCES = "instances"
VERSION = 1
COUNT = 36  # the paper's I, the whole image among them
CLASSES = 1000
# Each box is encoded in its own pass: pooling the maps of one pass is little better than the whole image.
_NETWORK = "efficientnet-lite0"
_OF_GRID = ((5, 1 / 3), (3, 1 / 2), (1, 3 / 4), (1, 1))  # boxes in a row, and their share of a side
_AT_ONCE = 12  # squares that the network sees at a time


class Instances(NamedTuple):
    """The i instances of an image.

    Attributes:
        squares: the boxes, cut out and resized, (i, size, size, 3) uint8.
        boxes: the boxes as shares of the image, (i, 4).
        confidences: the detector's confidence in each class, (i, C); C is 0 without a detector.
    """

    squares: Pixels
    boxes: NDArray[np.float32]
    confidences: NDArray[np.float32]


@register_image_encoder(INSTANCES)
class InstanceEncoder(ImageEncoder):
    """1000 class probabilities of each of at most 36 instances: 36,000-d, 72 kB per image.

    `pooled`, (n, 36·1000), are the probabilities, instance by instance; `boxes`, (n, 36·4), shares of the
    image. Missing instances are zeros. The last instance is the whole image. With a detector of C classes
    `pooled` is (n, 36·(1000 + C)): for each instance and class also the highest confidence of an object times
    the IoU of their boxes.
    """

    role = INSTANCES
    options: ClassVar = {**ImageEncoder.options, "boxes": ("proposals", "grid"), "file": ()}
    variants: ClassVar = {
        "": "class probabilities of each of at most 36 regions of an image",
        "boxes: grid": "the same, the regions of a grid of three sizes",
        "file: FILE": "the same, with the boxes and the classes of a detector (ONNX, YOLOX's layout)",
    }
    detector: Detector | None = None
    of_grid = False

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        file, of_grid = settings.get("file"), settings.get("boxes") == "grid"
        if file and of_grid:
            raise SeesayError(
                f"Encoder {settings}: a detector's boxes are followed by proposals; leave out grid."
            )
        what = f"{LITE[_NETWORK].sha256} v{VERSION} {describe_regions(COUNT)}"
        detector = Detector(home_expanded(file)) if file else None
        if detector is not None:
            what = f"{what} {detector.digest} classes"
        width = CLASSES + (detector.classes if detector else 0)
        dims = {"pooled": COUNT * width, "boxes": COUNT * 4}
        # Features do not depend on the path of the file.
        known = f"{INSTANCES}:detector" if detector else settings.title
        squares = run_squares(_NETWORK, ["pooled", "logits"], SIDE, device, run)
        encoder = cls(known, what, SIDE, dims, squares.named, "regions")
        encoder.of_grid, encoder.detector, encoder.sessions = of_grid, detector, squares.sessions
        return encoder

    def prepare(self, pixels: Pixels) -> Instances:
        """Cut out the instances and, with a detector, compute their confidences."""
        height, width = pixels.shape[:2]
        boxes, confidences = self._regions(pixels)
        shares: NDArray[np.float32] = np.divide(boxes, np.array([width, height] * 2, np.float32))
        return Instances(np.stack(squares_of(pixels, boxes, self.size)), shares, confidences)

    def encode_prepared(self, images: Sequence[Any]) -> Arrays:
        """Compute probabilities and boxes, n rows each."""
        described = np.zeros((len(images), COUNT, self.dims["pooled"] // COUNT), np.float32)
        places = np.zeros((len(images), COUNT, 4), np.float32)
        for row, (squares, boxes, confidences) in enumerate(images):
            starts = range(0, len(squares), _AT_ONCE)
            logits = np.concatenate([self._network(squares[i : i + _AT_ONCE])["logits"] for i in starts])
            described[row, : len(squares)] = np.concatenate([_softmax(logits), confidences], axis=1)
            places[row, : len(boxes)] = boxes
        return {"pooled": described.reshape(len(images), -1), "boxes": places.reshape(len(images), -1)}

    def _regions(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """At most 36 boxes (i, 4), the whole image last, and a detector's confidences in classes, (i, C)."""
        if self.of_grid:
            boxes = _grid() * np.array(pixels.shape[1::-1] * 2, np.float32)
        else:
            boxes = diverse_regions(pixels, COUNT)
        if self.detector is None:
            return boxes, np.zeros((len(boxes), 0), np.float32)
        objects, confidences = self.detector.objects(pixels, COUNT - 1)
        boxes = np.concatenate([objects, boxes[:-1][: COUNT - 1 - len(objects)], boxes[-1:]])
        return boxes, confidences_in(boxes, objects, confidences)


def _grid() -> NDArray[np.float32]:
    """The boxes of the grid as shares of the image, (36, 4), half overlapping; the last is the image."""
    boxes = []
    for count, side in _OF_GRID:
        starts = np.linspace(0, 1 - side, count) if count > 1 else np.array([(1 - side) / 2])
        boxes += [(x, y, x + side, y + side) for y in starts for x in starts]
    return np.array(boxes, np.float32)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
