"""Instances: an image as at most 36 regions, each described by class probabilities (GVSE, AAAI 2019).

The paper detects them with a Faster R-CNN for the objects and attributes of Visual Genome. Here they are
proposals, each described by the 1,000 classes of the pretrained EfficientNet-Lite0. Like the paper's
attributes, these describe things that no training sentence names.

`boxes: grid` takes the same boxes in every image, at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels
from seesay.encoders.images.base import Arrays, ImageEncoder, squares_of
from seesay.encoders.images.efficientnet import DIMS, LITE, lite_network
from seesay.encoders.proposals import SIDE, describe_regions, diverse_regions
from seesay.encoders.settings import EncoderSettings, register_image_encoder

INSTANCES = "instances"
VERSION = 1
COUNT = 36  # the paper's I, the whole image among them
# Each box is encoded in its own pass: pooling the maps of one pass is little better than the whole image.
_NETWORK = "efficientnet-lite0"
_OF_GRID = ((5, 1 / 3), (3, 1 / 2), (1, 3 / 4), (1, 1))  # boxes in a row, and their share of a side
_AT_ONCE = 12  # squares that the network sees at a time


@register_image_encoder(INSTANCES)
class InstanceEncoder(ImageEncoder):
    """1000 class probabilities of each of at most 36 instances: 36,000-d, 72 kB per image.

    `pooled`, (n, 36·1000), are the probabilities, instance by instance; `boxes`, (n, 36·4), shares of the
    image. Missing instances are zeros. The last instance is the whole image.
    """

    role = INSTANCES
    options: ClassVar = {**ImageEncoder.options, "boxes": ("proposals", "grid")}
    variants: ClassVar = {
        "": "class probabilities of each of at most 36 regions of an image",
        "boxes: grid": "the same, the regions of a grid of three sizes",
    }
    of_grid = False

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None) -> ImageEncoder:
        what = f"{LITE[_NETWORK].sha256} v{VERSION} {describe_regions(COUNT)}"
        dims = {"pooled": COUNT * DIMS["logits"], "boxes": COUNT * 4}
        network, sessions = lite_network(_NETWORK, DIMS, SIDE, device, run)
        encoder = cls(settings.title, what, SIDE, dims, network, "regions")
        encoder.of_grid, encoder.sessions = settings.get("boxes") == "grid", sessions
        return encoder

    def prepare(self, pixels: Pixels) -> tuple[Pixels, NDArray[np.float32]]:
        """Cut out at most 36 boxes, the whole image last.

        Returns them resized, (i, size, size, 3) uint8, and the boxes as shares of the image, (i, 4).
        """
        size = np.array(pixels.shape[1::-1] * 2, np.float32)
        boxes = _grid() * size if self.of_grid else diverse_regions(pixels, COUNT)
        return np.stack(squares_of(pixels, boxes, self.size)), np.divide(boxes, size)

    def encode(self, images: Sequence[Any]) -> Arrays:
        """Compute probabilities and boxes, n rows each."""
        described = np.zeros((len(images), COUNT, DIMS["logits"]), np.float32)
        places = np.zeros((len(images), COUNT, 4), np.float32)
        for row, (squares, boxes) in enumerate(images):
            starts = range(0, len(squares), _AT_ONCE)
            logits = np.concatenate([self.network(squares[i : i + _AT_ONCE])["logits"] for i in starts])
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            described[row, : len(squares)] = powers / powers.sum(axis=1, keepdims=True)
            places[row, : len(boxes)] = boxes
        return {"pooled": described.reshape(len(images), -1), "boxes": places.reshape(len(images), -1)}


def _grid() -> NDArray[np.float32]:
    """The boxes of the grid as shares of the image, (36, 4), half overlapping; the last is the image."""
    boxes = []
    for count, side in _OF_GRID:
        starts = np.linspace(0, 1 - side, count) if count > 1 else np.array([(1 - side) / 2])
        boxes += [(x, y, x + side, y + side) for y in starts for x in starts]
    return np.array(boxes, np.float32)
