"""What a detector that a user brings sees in an image: the names of objects, and where they are.

Names of the classes are those of COCO if there are 80, or the lines of a text file beside the detector's,
with its name and the suffix `.txt`.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Box
from seesay.encoders.regions.detector import Detector, best_boxes
from seesay.errors import SeesayError

_COCO = (
    "person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign "
    "parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella handbag "
    "tie suitcase frisbee skis snowboard sports_ball kite baseball_bat baseball_glove skateboard surfboard "
    "tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich orange broccoli carrot "
    "hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv laptop mouse remote "
    "keyboard cell_phone microwave oven toaster sink refrigerator book clock vase scissors teddy_bear "
    "hair_drier toothbrush"
)
_LEAST = 0.3  # confidence of an object that is kept
_MOST = 100  # objects of a class


class Detection(NamedTuple):
    """An object: the name of its class, its box in pixels of the image, and a confidence from 0 to 1."""

    name: str
    box: Box
    confidence: float

    def scaled(self, factor: float) -> Detection:
        """Return it in an image that is larger by that factor."""
        x1, y1, x2, y2 = (factor * value for value in self.box)
        return self._replace(box=(x1, y1, x2, y2))

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        box = [round(value, 1) for value in self.box]
        return {"name": self.name, "box": box, "confidence": round(self.confidence, 4)}


class NamedDetector:
    """A detector in a file of YOLOX's layout, see `seesay.encoders.regions.detector`.

    Args:
        path: of the ONNX file.

    Raises:
        SeesayError: there is no such file, it has another layout, or the names of its classes are missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._detector = Detector(path)
        self.names = _names(path, self._detector.classes)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the file and the names of the classes."""
        return f"{self._detector.digest[:16]}:{','.join(self.names)}"

    def detect(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], list[Detection]]:
        """Detect the objects of an upright image (h, w, 3) of RGB.

        Returns:
            The highest confidence of each class, (classes,), and the objects, best first.
        """
        boxes, confidences = self._detector.read(pixels)
        classes, best = confidences.argmax(axis=1), confidences.max(axis=1)
        found = []
        seen = best >= _LEAST
        for number in np.unique(classes[seen]):
            mine = np.flatnonzero((classes == number) & seen)
            for each in mine[best_boxes(boxes[mine], best[mine], _MOST)]:
                x1, y1, x2, y2 = boxes[each].tolist()
                found.append(Detection(self.names[number], (x1, y1, x2, y2), float(best[each])))
        found.sort(key=lambda detection: -detection.confidence)
        return np.clip(confidences.max(axis=0), 0, 1), found


def _names(path: Path, classes: int) -> tuple[str, ...]:
    listed = path.with_suffix(".txt")
    if listed.is_file():
        try:
            lines = listed.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as failure:
            raise SeesayError(f"{listed}: cannot be read as UTF-8 text ({failure}).") from failure
        names = tuple(line.strip().lower() for line in lines if line.strip())
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise SeesayError(f"{listed}: '{twice[0]}' occurs twice; give each class a name of its own.")
        if len(names) != classes:
            raise SeesayError(f"{listed}: {len(names)} names for {classes} classes; write one a line.")
        return names
    coco = tuple(name.replace("_", " ") for name in _COCO.split())
    if classes != len(coco):
        raise SeesayError(f"{path}: has {classes} classes; name them in {listed.name} beside it, one a line.")
    return coco
