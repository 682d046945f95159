"""Boxes of images with a feature of each box, from a file: proposals or detections of other tools.

`FILE.npz` holds `img_id` (n,), `boxes` (n, r, 4) and `features` (n, r, d). `FILE.npy` holds the features and
is memory-mapped; the ids are in `FILE_ids.txt` and the boxes in `FILE_boxes.npy`.

Boxes are x1 y1 x2 y2 in pixels from zero, x2 and y2 exclusive; an image with fewer than r boxes has zeros for
the others. If the boxes were drawn on images of another size than the corpus has, `img_wh` (n, 2), or
`FILE_img_wh.npy`, holds the width and height of these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.features import RegionFiles, find_array
from seesay.errors import ImageError, SeesayError

_TOLERANCE = 2.0  # pixels by which a box may leave its image: tools count from one, or round


class BoxFile:
    """A file of boxes and features.

    Raises:
        SeesayError: the file has no boxes, or they do not belong to its features.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = RegionFiles([path])
        shape = self._files.features.shape
        if len(shape) != 3:
            raise SeesayError(f"{path}: one feature per image; phrases need one per box, (n, r, d).")
        self._boxes = find_array(path, "boxes")
        if self._boxes is None:
            raise SeesayError(
                f"{path}: no boxes; add an array 'boxes' (n, r, 4), which lies in "
                f"{path.stem}_boxes.npy for the features of an .npy."
            )
        if self._boxes.shape != (*shape[:2], 4):
            raise SeesayError(f"{path}: boxes of shape {self._boxes.shape} for features of shape {shape}.")
        self._sizes = find_array(path, "img_wh")
        if self._sizes is not None and self._sizes.shape != (shape[0], 2):
            raise SeesayError(f"{path}: img_wh has shape {self._sizes.shape}; expected ({shape[0]}, 2).")

    @property
    def dim(self) -> int:
        """Width of the features."""
        return self._files.features.shape[2]

    def regions(
        self, image: CorpusImage, proposals: int, further: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.floating], int]:
        """Return boxes (r, 4) of an image in its pixels, their features (r, d), and the number of proposals.

        The first `proposals` of the file's boxes are proposals. With `further`, the others follow, such as
        the true boxes of training.

        Raises:
            ImageError: the file has no boxes of this image.
            SeesayError: a box lies outside the image.
        """
        row = self._files.row(image.name)
        if row is None:
            raise ImageError(f"{image.name}: not in {self.path}.")
        assert self._boxes is not None
        boxes = np.asarray(self._boxes[row], np.float32)
        filled = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        if not further:
            filled[proposals:] = False
        kept = np.flatnonzero(filled)
        if not len(kept):
            raise ImageError(f"{image.name}: no boxes in {self.path}.")
        boxes = self._scaled(boxes[kept], row, image)
        features = self._files.features.as_stored([row])[0]
        # Boxes without gaps are a view of the mapped file.
        whole = kept[-1] == len(kept) - 1
        return boxes, features[: len(kept)] if whole else features[kept], int((kept < proposals).sum())

    def _scaled(self, boxes: NDArray[np.float32], row: int, image: CorpusImage) -> NDArray[np.float32]:
        """Scale boxes (r, 4) to the image's pixels and clip them; an image of unknown size keeps them."""
        size: NDArray[Any] = np.array(image.size if self._sizes is None else self._sizes[row], np.float32)
        if not size.all():
            return boxes
        outside = ~((boxes >= -_TOLERANCE).all(axis=1) & (boxes[:, 2:] <= size + _TOLERANCE).all(axis=1))
        if outside.any():
            at = int(outside.argmax())
            raise SeesayError(
                f"{self.path}: box {boxes[at].tolist()} of image {image.name} lies outside its "
                f"{size[0]:.0f}×{size[1]:.0f} pixels; if it was drawn on another size, add 'img_wh' (n, 2)."
            )
        ends = np.tile(size, 2)
        scale = np.tile(image.size, 2) / ends if any(image.size) else np.ones(4)
        return np.asarray(np.clip(boxes, 0, ends) * scale, np.float32)
