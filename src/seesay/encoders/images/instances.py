"""Instances: an image as at most 36 regions, each described by class probabilities (GVSE, AAAI 2019).

The paper detects them with a Faster R-CNN that knows the objects and attributes of Visual Genome; here they
are proposals, and their description the 1,000 classes of the pretrained EfficientNet-Lite0, which sees each
by itself. Like the paper's attributes, these describe things that no training sentence names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels, squares_of
from seesay.encoders.images.efficientnet import LITE, lite_network
from seesay.encoders.regions.proposals import SIDE, describe_regions, diverse_regions

INSTANCES = "instances"
VERSION = 1
COUNT = 36  # the paper's I, the whole image among them
CLASSES = 1000
# Each box is a pass of its own: maps of one pass, pooled in each box, do little better than the whole image.
_NETWORK = "efficientnet-lite0"
_AT_ONCE = 12  # squares that the network sees at a time


@register_image_encoder(INSTANCES)
class InstanceEncoder(ImageEncoder):
    """1000 class probabilities of each of at most 36 instances: 36,000-d, 72 kB an image.

    `pooled`, (n, 36·1000), are the probabilities, instance by instance; `boxes`, (n, 36·4), shares of the
    image. An image with fewer instances has zeros in place of the others. The last instance is the image.
    """

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        what = f"{LITE[_NETWORK].sha256} v{VERSION} {describe_regions(COUNT)}"
        dims = {"pooled": COUNT * CLASSES, "boxes": COUNT * 4}
        return cls(name, what, SIDE, dims, lite_network(_NETWORK, device, SIDE), "regions")

    def prepare(self, pixels: Pixels) -> tuple[Pixels, NDArray[np.float32]]:
        """Cut out the i instances, (i, size, size, 3), with their boxes as shares of the image, (i, 4)."""
        boxes = diverse_regions(pixels, COUNT)
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


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
