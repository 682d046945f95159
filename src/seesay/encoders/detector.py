"""Object detection with a user's detector: an ONNX file in the layout of YOLOX (Ge et al. 2021).

The input is pixels (1, 3, s, s), BGR, from 0 to 255, with the image in the upper left corner and grey (114)
around it. The output (1, n, 5 + C) has a row for each cell of the grids of stride 8, 16 and 32: centre and
logarithmic size of a box in cells, and the probabilities of an object and of the C classes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Pixels
from seesay.data.boxes import iou
from seesay.encoders.images.base import resize
from seesay.errors import SeesayError
from seesay.onnx import onnx_session
from seesay.paths import file_digest

_STRIDES = (8, 16, 32)
_GREY = 114
_MIN_SCORE, _OVERLAP = 0.05, 0.6  # least score of a box, and least IoU of two that are one object


class Detector:
    """A detector in an ONNX file.

    Attributes:
        path: the file.
        classes: the number of classes.
        digest: SHA-256 of the file.

    Raises:
        SeesayError: the file does not exist or has another layout.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SeesayError(f"{path}: no such detector; name an ONNX file of YOLOX's layout.")
        self._session = onnx_session(path, 1, "name an ONNX file of YOLOX's layout")
        (given, *more), outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = given.shape
        square = len(shape) == 4 and shape[1:3] == [3, shape[3]] and isinstance(shape[3], int)
        takes_one = square and (shape[0] == 1 or not isinstance(shape[0], int))
        if more or not takes_one or given.type != "tensor(float)" or len(outputs) != 1:
            raise SeesayError(
                f"{path}: not of YOLOX's layout, one input (1, 3, side, side) of float32 and one output; its "
                f"inputs are {[(each.shape, each.type) for each in (given, *more)]}."
            )
        self._name, self._side = given.name, int(shape[2])
        # The upper left corner of each output row's cell, in cells, (n, 2), and its stride, (n, 1).
        sides = [self._side // stride for stride in _STRIDES]
        grids = [np.mgrid[:side, :side].reshape(2, -1) for side in sides]
        self._cells = np.concatenate([grid[::-1].T for grid in grids]).astype(np.float32)
        self._strides = np.repeat(np.array(_STRIDES, np.float32), np.square(sides))[:, None]
        shape = outputs[0].shape
        if len(shape) != 3 or shape[1] != len(self._cells) or not isinstance(shape[2], int) or shape[2] < 6:
            raise SeesayError(
                f"{path}: not of YOLOX's layout, whose output is (1, {len(self._cells)}, 5 + classes); it is "
                f"{shape}."
            )
        self.path, self.classes, self.digest = path, shape[2] - 5, file_digest(path)

    def objects(self, pixels: Pixels, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Find at most `count` objects, best first: boxes (r, 4), and confidences in each class, (r, C).

        Boxes that overlap a better one by an IoU of 0.6 or more, with a confidence below 0.05 or with a side
        below one pixel are left out.
        """
        boxes, confidences = self.read(pixels)
        scores, sides = confidences.max(axis=1), boxes[:, 2:] - boxes[:, :2]
        order = np.argsort(-scores, kind="stable")
        left = order[(scores[order] >= _MIN_SCORE) & (sides[order] >= 1).all(axis=1)]
        chosen: list[int] = []
        while len(left) and len(chosen) < count:
            first, left = int(left[0]), left[1:]
            chosen.append(first)
            left = left[iou(boxes[left], boxes[first : first + 1])[:, 0] < _OVERLAP]
        return boxes[chosen], confidences[chosen]

    def read(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the box of each cell of the grids, (n, 4), and its confidence in each class, (n, C)."""
        height, width = pixels.shape[:2]
        scale = self._side / max(height, width)
        fitted = resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)))
        square = np.full((self._side, self._side, 3), _GREY, np.float32)
        square[: fitted.shape[0], : fitted.shape[1]] = fitted[:, :, ::-1]
        rows = self._session.run(None, {self._name: square.transpose(2, 0, 1)[None]})[0][0]
        if not np.isfinite(rows).all():
            raise SeesayError(f"{self.path}: returned a number that is not finite; export it again.")
        middles = (rows[:, :2] + self._cells) * self._strides
        sides = np.exp(rows[:, 2:4]) * self._strides
        shares = np.concatenate([middles - sides / 2, middles + sides / 2], axis=1) / scale
        boxes = np.clip(shares, 0, [width, height] * 2).astype(np.float32)
        return boxes, np.clip(rows[:, 4:5] * rows[:, 5:], 0, 1, dtype=np.float32)
