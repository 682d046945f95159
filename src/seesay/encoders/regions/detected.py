"""Regions with what a detector sees in them: `detector:FILE.onnx`, a file of YOLOX's layout.

The paper of the two-branch networks describes regions by a detector, Fast R-CNN, fine-tuned on the classes of
PASCAL. Here a detector adds to the pooled maps of EfficientNet-Lite0 how sure it is that a region holds each
of its classes, and its boxes are proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from seesay.data.boxes import iou
from seesay.encoders import register_region_encoder
from seesay.encoders.images.base import Pixels
from seesay.encoders.images.efficientnet import EIGHT_BITS
from seesay.encoders.regions.base import NETWORK, Boxes, RegionEncoder, Rows, load_region_encoder
from seesay.encoders.regions.detector import Detector, confidences_in
from seesay.encoders.regions.proposals import propose
from seesay.encoders.spec import EncoderSpec
from seesay.errors import SeesayError

DETECTOR = "detector"
MAPS = f"{NETWORK}{EIGHT_BITS}:roi"
_OBJECTS = 60  # of an image, at most
_SAME = 0.7  # the IoU above which a proposal is the box of an object


@register_region_encoder(DETECTOR)
class DetectedRegionEncoder(RegionEncoder):
    """Pooled maps and the classes of a detector's objects."""

    variants: ClassVar = {
        ":FILE": f"{MAPS}, and the classes of a detector (ONNX, YOLOX's layout), whose boxes are proposals"
    }
    detector: Detector

    @classmethod
    def load(cls, name: str, device: str) -> RegionEncoder:
        """Load the detector in the file that the name has."""
        file = EncoderSpec.parse(name).variant
        if not file:
            raise SeesayError("Region encoder 'detector': name its file, detector:FILE.onnx.")
        detector, maps = Detector(Path(file)), load_region_encoder(MAPS, device)

        def run(images: Sequence[Pixels], boxes: Sequence[Boxes]) -> list[Rows]:
            pooled = maps.encode_images(images, boxes)
            classes = [
                confidences_in(b, *detector.objects(p, _OBJECTS)) for p, b in zip(images, boxes, strict=True)
            ]
            return [np.concatenate(rows, axis=1) for rows in zip(pooled, classes, strict=True)]

        dim = maps.dim + detector.classes
        # Features do not depend on where the file lies.
        encoder = cls(DETECTOR, maps.fingerprint, f"{detector.digest} {_OBJECTS} {_SAME} v1", dim, run)
        encoder.name, encoder.detector = name, detector
        return encoder

    def propose(self, pixels: Pixels, count: int) -> Boxes:
        """Propose the objects' boxes, then those of edges that are no object's; the last is the image."""
        objects = self.detector.detect(pixels, min(_OBJECTS, count - 1)).boxes
        *_, whole = others = propose(pixels, count).boxes
        others = others[:-1]
        if len(objects):
            others = others[iou(others, objects).max(axis=1) < _SAME]
        return np.concatenate([objects, others[: count - 1 - len(objects)], whole[None]])
