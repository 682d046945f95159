"""Object detectors as ONNX files in the layout of YOLOX (Ge et al. 2021): what is in an image, and where.

The graph takes one image, letterboxed, (1, 3, side, side) of 0 to 255 in the order blue, green, red. It
gives a row for each cell of three grids of strides 8, 16 and 32: centre, size (its logarithm) in strides,
objectness, and a probability of each class, (1, cells, 5 + classes). Names of the classes are those of COCO
if there are 80, or the lines of a text file beside the graph, with its name and the suffix `.txt`.
"""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import Box
from seesay.errors import SeesayError
from seesay.paths import file_digest

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

_COCO = (
    "person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign "
    "parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella handbag "
    "tie suitcase frisbee skis snowboard sports_ball kite baseball_bat baseball_glove skateboard surfboard "
    "tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich orange broccoli carrot "
    "hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv laptop mouse remote "
    "keyboard cell_phone microwave oven toaster sink refrigerator book clock vase scissors teddy_bear "
    "hair_drier toothbrush"
)
_STRIDES = (8, 16, 32)
_GREY = 114  # of what a letterbox adds
_SAME = 0.45  # IoU above which two boxes of a class are the same object
_LEAST = 0.3  # confidence of an object that is kept


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


class Detector:
    """A detector in a file.

    Args:
        path: of the ONNX file.

    Raises:
        SeesayError: there is no such file, it has another layout, or nobody says how its classes are called.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        shape, output = self._session.get_inputs()[0].shape, self._session.get_outputs()[0].shape
        if len(shape) != 4 or shape[1] != 3 or shape[2] != shape[3] or not isinstance(shape[2], int):
            raise SeesayError(f"{path}: takes {shape}; a detector in the layout of YOLOX takes (1, 3, n, n).")
        self._side = int(shape[2])
        if len(output) != 3 or output[1] != len(self._cells) or not isinstance(output[2], int):
            wanted = f"(1, {len(self._cells)}, 5 + classes)"
            raise SeesayError(f"{path}: gives {output}; a detector in the layout of YOLOX gives {wanted}.")
        self.names = _names(path, int(output[2]) - 5)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the file and the names of the classes."""
        return f"{file_digest(self.path)[:16]}:{','.join(self.names)}"

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            return onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise SeesayError(f"{self.path}: cannot be read as an ONNX file; name a detector's.") from error

    @cached_property
    def _cells(self) -> Floats:
        """Column, row and stride of each cell, (cells, 3)."""
        grids = []
        for stride in _STRIDES:
            rows, columns = np.mgrid[: self._side // stride, : self._side // stride]
            grids.append(np.stack([columns, rows, np.full_like(rows, stride)], axis=-1).reshape(-1, 3))
        return np.concatenate(grids).astype(np.float32)

    def detect(self, pixels: Pixels) -> tuple[Floats, list[Detection]]:
        """Detect the objects of an upright image (h, w, 3) of RGB.

        Returns:
            The highest confidence of each class, (classes,), and the objects, best first.
        """
        letterboxed, scale = self._letterboxed(pixels)
        with self._lock:
            (rows,) = self._session.run(None, {self._session.get_inputs()[0].name: letterboxed})[0]
        confidences = rows[:, 4:5] * rows[:, 5:]
        return np.clip(confidences.max(axis=0), 0, 1), self._objects(rows, confidences, scale, pixels.shape)

    def _letterboxed(self, pixels: Pixels) -> tuple[Floats, float]:
        height, width = pixels.shape[:2]
        scale = min(self._side / height, self._side / width)
        size = max(round(width * scale), 1), max(round(height * scale), 1)
        canvas = np.full((self._side, self._side, 3), _GREY, np.uint8)
        canvas[: size[1], : size[0]] = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
        return np.ascontiguousarray(canvas[:, :, ::-1].transpose(2, 0, 1)[None], np.float32), scale

    def _objects(
        self, rows: Floats, confidences: Floats, scale: float, shape: tuple[int, ...]
    ) -> list[Detection]:
        classes = confidences.argmax(axis=1)
        best = confidences[np.arange(len(rows)), classes]
        kept = np.flatnonzero(best >= _LEAST)
        cells = self._cells[kept]
        centres = (rows[kept, :2] + cells[:, :2]) * cells[:, 2:]
        sizes = np.exp(rows[kept, 2:4]) * cells[:, 2:]
        corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=1) / scale
        limits = np.array([shape[1], shape[0]] * 2, np.float32)
        boxes = np.clip(corners, 0, limits).astype(np.float32)
        found = []
        for number in np.unique(classes[kept]):
            mine = np.flatnonzero(classes[kept] == number)
            for each in _distinct(boxes[mine], best[kept][mine]):
                x1, y1, x2, y2 = boxes[mine[each]].tolist()
                found.append(Detection(self.names[number], (x1, y1, x2, y2), float(best[kept][mine[each]])))
        return sorted(found, key=lambda detection: -detection.confidence)


def _distinct(boxes: Floats, confidences: Floats) -> list[int]:
    """Return the rows of boxes (n, 4) after non-maximum suppression, best first."""
    from seesay.data.boxes import iou

    left = np.argsort(-confidences, kind="stable")
    kept = []
    while len(left):
        kept.append(int(left[0]))
        left = left[iou(boxes[left], boxes[left[:1]])[:, 0] <= _SAME]
    return kept


def _names(path: Path, classes: int) -> tuple[str, ...]:
    listed = path.with_suffix(".txt")
    if listed.is_file():
        lines = listed.read_text(encoding="utf-8").splitlines()
        names = tuple(line.strip().lower() for line in lines if line.strip())
        if len(names) != classes:
            raise SeesayError(f"{listed}: {len(names)} names for {classes} classes; write one a line.")
        return names
    coco = tuple(name.replace("_", " ") for name in _COCO.split())
    if classes != len(coco):
        raise SeesayError(f"{path}: has {classes} classes; name them in {listed.name} beside it, one a line.")
    return coco
