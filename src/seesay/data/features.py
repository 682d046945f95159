"""Precomputed features: the rows of several files as one array, and the formats of region features.

Features of regions (n, r, d), or of whole images (n, d), are the array `features` of an `.npz` that also has
`img_id`, or an `.npy` with the ids in `<name>_ids.txt`, one per line. Rows are looked up by id, in any order.
"""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from seesay.errors import ImageError, SeesayError

_IDS = ("img_id", "image_id", "image_ids", "ids")
_COCO_NAME = re.compile(r"(?:COCO_.*_)?0*([0-9]+)")
_TOLERANCE = 2.0  # pixels by which a box may leave its image: tools count from one, or round
_MOST_GROWTH = 100  # times the compressed size; real features do not reach it
UNREADABLE = (  # what NumPy raises for damaged files
    *(OSError, ValueError, EOFError, SyntaxError, TypeError, RuntimeError, MemoryError, ArithmeticError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),  # the last for a damaged header
)


class FeatureRows:
    """Feature arrays of files, at least one, stacked along their first axis without copying.

    Parts have shape (rows, d) or (rows, r, d), and may be memory-mapped. Indexed with an array of rows, it
    returns a copy of them in float32.

    Raises:
        SeesayError: the parts differ in more than their number of rows.
    """

    def __init__(self, parts: Mapping[Path, NDArray[Any]]) -> None:
        self._parts, first = tuple(parts.values()), next(iter(parts))
        width = self._parts[0].shape[1:]
        for path, part in parts.items():
            if part.shape[1:] != width:
                raise SeesayError(
                    f"{path}: an image's features have shape {part.shape[1:]}, and {width} in {first.name}; "
                    "use files of one shape."
                )
        self._starts = np.cumsum([0, *map(len, self._parts)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), *width)

    def as_stored(self, rows: NDArray[np.integer] | Sequence[int]) -> NDArray[np.floating]:
        """Return rows in half or single precision, consecutive ones of one part without copying them.

        Copies are in half precision if all parts have it.
        """
        wanted = np.asarray(rows, np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.shape[0]):
            raise IndexError(f"row out of range for {self.shape[0]} rows")
        part_of = np.searchsorted(self._starts, wanted, side="right") - 1
        numbers = np.unique(part_of)
        if len(numbers) == 1 and (np.diff(wanted) == 1).all():
            part, first = self._parts[numbers[0]], wanted[0] - self._starts[numbers[0]]
            if part.dtype in (np.float16, np.float32):
                return np.asarray(part[first : first + len(wanted)])
        half = all(each.dtype == np.float16 for each in self._parts)
        out = np.empty((len(wanted), *self.shape[1:]), np.float16 if half else np.float32)
        for number in numbers:
            here = part_of == number
            out[here] = self._parts[number][wanted[here] - self._starts[number]]
        return out

    def __getitem__(self, rows: NDArray[np.integer] | Sequence[int]) -> NDArray[np.float32]:
        return self.as_stored(rows).astype(np.float32)


def id_text(value: object) -> str:
    """Return an id as a text that is the same for 12, 12.0, "12" and "12.0"."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text.removesuffix(".0") if text.removesuffix(".0").isdigit() else text


class RegionFiles:
    """The features of several files: `features` (n, r, d) or (n, d), and the row of each image."""

    def __init__(self, paths: Sequence[Path]) -> None:
        opened = {path: _open(path) for path in paths}
        self.features = FeatureRows({path: rows for path, (_, rows) in opened.items()})
        self._rows: dict[str, int] = {}
        for path, (ids, _) in opened.items():
            for each in ids:
                if each in self._rows:
                    raise SeesayError(f"{path}: image {each} occurs twice; keep one of its rows.")
                self._rows[each] = len(self._rows)

    def row(self, filename: str, number: object = None) -> int | None:
        """Look up the row of an image, by file name or number (COCO's `cocoid`); None if there is none.

        Names without a suffix, such as train/0, are looked up as they are: 0 would be dev/0, too.
        """
        stem = Path(filename).stem if Path(filename).suffix else filename
        names = [filename, stem, stem if number is None else id_text(number)]
        if number_in_name := _COCO_NAME.fullmatch(stem):
            names.append(number_in_name[1])
        return next((self._rows[name] for name in names if name in self._rows), None)


def find_region_files(folder: Path) -> list[Path]:
    """Find the files of region features in a folder, sorted by name."""
    found = [path for path in folder.glob("*.npy") if ids_beside(path).is_file()]
    for path in folder.glob("*.npz"):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            found += [path] if {"features.npy"} < set(archive.namelist()) else []
    return sorted(found)


def has_box_files(folder: Path) -> bool:
    """Return whether a folder has features with boxes, see `BoxFile`; they are not read."""

    def has_boxes(path: Path) -> bool:
        if path.suffix != ".npz":
            return path.with_name(f"{path.stem}_boxes.npy").is_file()
        with zipfile.ZipFile(path) as archive:
            return "boxes.npy" in archive.namelist()

    return any(map(has_boxes, find_region_files(folder)))


def belongs_to_array(file: Path) -> bool:
    """Return whether a file is an array, or has the ids or texts of one that lies beside it."""
    rows = re.fullmatch("(.+)_(?:ids|texts)", file.stem)
    beside = file.suffix == ".txt" and rows is not None and file.with_name(f"{rows[1]}.npy").is_file()
    return beside or file.suffix in (".npy", ".npz")


def load_array(path: Path) -> NDArray[Any]:
    """Return the features of a file, see `find_array`; raise SeesayError if there are none."""
    if (rows := find_array(path, "features")) is None:
        raise SeesayError(f"{path}: no such file of features; relative paths start at the corpus.")
    return rows


def find_array(path: Path, name: str) -> NDArray[Any] | None:
    """Return an array of numbers, (n, d) or (n, r, d); None if there is none.

    Of an `.npz`, it is the one of that name. An `.npy` has the features, and the others are beside it in
    `<stem>_<name>.npy`; they are mapped.

    Raises:
        SeesayError: it cannot be read, or is not an array of numbers.
    """
    array = _loaded(path, name)
    if array is None or (array.dtype.kind in "fiu" and array.ndim in (2, 3) and all(array.shape[1:])):
        return array
    raise SeesayError(
        f"{path}: expected numbers of shape (n, d) or (n, r, d), got {array.dtype} {array.shape}."
    )


def _loaded(path: Path, name: str) -> NDArray[Any] | None:
    try:
        if path.suffix != ".npz":
            file = path if name == "features" else path.with_name(f"{path.stem}_{name}.npy")
            return np.lib.format.open_memmap(file, "c") if file.is_file() else None
        with np.load(path, allow_pickle=False) as archive:
            if name not in archive:
                return None
            return array_of(archive, name, path)
    except UNREADABLE as error:
        raise SeesayError(f"{path}: its array '{name}' cannot be read ({error}).") from error


def array_of(archive: NpzFile, name: str, path: Path) -> NDArray[Any]:
    """Read an array of an `.npz`; raise SeesayError if it would expand far more than numbers do."""
    assert archive.zip is not None  # it is open
    (stored, *_) = (each for each in archive.zip.infolist() if each.filename.removesuffix(".npy") == name)
    if stored.file_size > _MOST_GROWTH * max(stored.compress_size, 1 << 20):
        raise SeesayError(
            f"{path}: expands to over {_MOST_GROWTH} times its size; save its arrays with np.savez."
        )
    return np.asarray(archive[name])


def _open(path: Path) -> tuple[list[str], NDArray[Any]]:
    """Return the ids of a file of features, and the features."""
    rows, ids = load_array(path), None
    if path.suffix == ".npz":
        ids = next((ids for key in _IDS if (ids := _loaded(path, key)) is not None), None)
        if ids is None:
            raise SeesayError(f"{path}: no image ids; add an array of them as 'img_id'.")
        ids = ids.reshape(-1)
    else:
        try:
            lines = ids_beside(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise SeesayError(f"{ids_beside(path)}: not a UTF-8 text file of ids ({error}).") from error
        ids = np.array([line.strip() for line in lines if line.strip()])
    if len(ids) != len(rows):  # before the ids become Python objects, which take far more memory
        raise SeesayError(f"{path}: {len(ids)} ids for the features of {len(rows)} images.")
    return [id_text(each) for each in ids.tolist()], rows


def ids_beside(path: Path) -> Path:
    """Return the file of the ids of an array, one per line."""
    return path.with_name(f"{path.stem}_ids.txt")


class BoxFile:
    """Boxes of images with a feature of each box: proposals or detections of other tools.

    Beside the features (n, r, d), a file of features has `boxes` (n, r, 4): x1 y1 x2 y2 in pixels from zero,
    x2 and y2 exclusive; an image with fewer than r boxes has zeros for the others. If the boxes were drawn on
    images of another size than the corpus has, `img_wh` (n, 2) holds the width and height of these.

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
        self, name: str, size: tuple[int, int], proposals: int, further: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.floating], int]:
        """Return boxes (r, 4) of an image in its pixels, their features (r, d), and the number of proposals.

        `size` is the width and height of the image of that name, or zeros if they are not known.

        The first `proposals` of the file's boxes are proposals. With `further`, the others follow, such as
        the true boxes of training.

        Raises:
            ImageError: the file has no boxes of this image.
            SeesayError: a box lies outside the image.
        """
        row = self._files.row(name)
        if row is None:
            raise ImageError(f"{name}: not in {self.path}.")
        assert self._boxes is not None
        boxes = np.asarray(self._boxes[row], np.float32)
        filled = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        if not further:
            filled[proposals:] = False
        kept = np.flatnonzero(filled)
        if not len(kept):
            raise ImageError(f"{name}: no boxes in {self.path}.")
        boxes = self._scaled(boxes[kept], row, name, size)
        features = self._files.features.as_stored([row])[0]
        # Boxes without gaps are a view of the mapped file.
        whole = kept[-1] == len(kept) - 1
        return boxes, features[: len(kept)] if whole else features[kept], int((kept < proposals).sum())

    def _scaled(
        self, boxes: NDArray[np.float32], row: int, name: str, size: tuple[int, int]
    ) -> NDArray[np.float32]:
        """Scale boxes (r, 4) to the image's pixels and clip them; an image of unknown size keeps them."""
        drawn: NDArray[Any] = np.array(size if self._sizes is None else self._sizes[row], np.float32)
        if not drawn.all():
            return boxes
        outside = ~((boxes >= -_TOLERANCE).all(axis=1) & (boxes[:, 2:] <= drawn + _TOLERANCE).all(axis=1))
        if outside.any():
            at = int(outside.argmax())
            raise SeesayError(
                f"{self.path}: box {boxes[at].tolist()} of image {name} lies outside its "
                f"{drawn[0]:.0f}×{drawn[1]:.0f} pixels; if it was drawn on another size, add 'img_wh' (n, 2)."
            )
        ends = np.tile(drawn, 2)
        scale = np.tile(size, 2) / ends if any(size) else np.ones(4)
        return np.asarray(np.clip(boxes, 0, ends) * scale, np.float32)
