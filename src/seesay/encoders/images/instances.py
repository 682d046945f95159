"""Instances: an image as at most 36 regions, each described by class probabilities (GVSE, AAAI 2019).

The paper detects them with a Faster R-CNN that knows the objects and attributes of Visual Genome; here they
are proposals, and their description the 1,000 classes of the pretrained EfficientNet-Lite0, which sees each
by itself. Like the paper's, these describe things that no training sentence names: "the set is large enough
so that it can be regarded as an attribute basis".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.images import concept_regions
from seesay.encoders.images.concept_regions import SIDE
from seesay.encoders.images.concept_regions import concept_regions as instance_boxes
from seesay.encoders.images.crops import Pixels, squares_of
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.images.encoder import INSTANCES, Arrays, Encoder, Network, lite_network
from seesay.encoders.regions import proposals

VERSION = 1
COUNT = 36  # the paper's I, the whole image among them
CLASSES = 1000
# Maps of one pass over the image, pooled under each box, do little better than the whole image alone; so each
# box is a pass of its own.
_NETWORK = "efficientnet-lite0"
_AT_ONCE = 12  # squares that the network sees at a time


class InstanceEncoder(Encoder):
    """`pooled`, (n, 36·1000): class probabilities, instance by instance; `boxes`, (n, 36·4), as parts of 1.

    An image with fewer instances has zeros in the places of the others. The last instance is the whole image.
    """

    def __init__(self, network: Network, weights: str) -> None:
        what = (
            f"{weights} v{VERSION} regions v{concept_regions.VERSION}={COUNT} proposals v{proposals.VERSION}"
        )
        dims = {"pooled": COUNT * CLASSES, "boxes": COUNT * 4}
        super().__init__(INSTANCES, what, SIDE, dims, network, "regions")

    def prepare(self, pixels: Pixels) -> tuple[Pixels, NDArray[np.float32]]:
        """The instances of one image as squares, (i, size, size, 3), and their boxes in pixels, (i, 4)."""
        boxes = instance_boxes(pixels, COUNT)
        squares = squares_of(pixels, boxes, self.size)
        shares: NDArray[np.float32] = np.divide(boxes, np.array(pixels.shape[1::-1] * 2, np.float32))
        return np.stack(squares), shares

    def encode_prepared(self, images: Sequence[Any]) -> Arrays:
        """Probabilities and boxes, n rows each."""
        classes = np.zeros((len(images), COUNT, CLASSES), np.float32)
        places = np.zeros((len(images), COUNT, 4), np.float32)
        for row, (squares, boxes) in enumerate(images):
            classes[row, : len(squares)] = self._probabilities(squares)
            places[row, : len(boxes)] = boxes
        return {"pooled": classes.reshape(len(images), -1), "boxes": places.reshape(len(images), -1)}

    def crops(self, pixels: Pixels) -> Pixels:
        """The instances of one image as squares, (i, size, size, 3); i differs between images."""
        return self.prepare(pixels)[0]

    def _probabilities(self, squares: Pixels) -> NDArray[np.float32]:
        parts = [self._network(squares[i : i + _AT_ONCE])["logits"] for i in range(0, len(squares), _AT_ONCE)]
        return softmax(np.concatenate(parts))


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probabilities of logits (n, k)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def load_instance_encoder(device: str) -> InstanceEncoder:
    """The encoder `instances`."""
    return InstanceEncoder(lite_network(_NETWORK, device, SIDE), LITE[_NETWORK].sha256)
