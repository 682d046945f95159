"""Precomputed features: the rows of several files as one array, and the formats of region features.

Features of bottom-up attention (Anderson et al., CVPR 2018) were published as TSV, a line per image: image_id
image_w image_h num_boxes boxes features; the last two are base64 of float32, (num_boxes, 4), (num_boxes, d).
Later work has `.npz` with `features` (n, r, d) and `img_id`, or `.npy` (n, r, d), or (n, d) of whole images,
with the ids in `<name>_ids.txt`, one per line. Rows are looked up by id, in any order.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError

_IDS = ("img_id", "image_id", "image_ids", "ids")
_READ = ("features", *_IDS)  # of the arrays in an archive
_FIELDS = 6
_COCO_NAME = re.compile(r"(?:COCO_.*_)?0*([0-9]+)")
_COUNT = re.compile(rb"0*[1-9][0-9]{0,5}")  # of regions
_MOST_GROWTH = 100  # times the compressed size; real features do not reach it
_UNREADABLE = (  # what NumPy raises for damaged files
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

    def __init__(self, parts: Mapping[Path, NDArray[Any] | _TsvRows]) -> None:
        self._parts, first = tuple(parts.values()), next(iter(parts))
        width = self._parts[0].shape[1:]
        for path, part in parts.items():
            if part.shape[1:] != width:
                raise SeesayError(
                    f"{path}: an image's features have shape {part.shape[1:]}, and {width} in {first.name}; "
                    "use files of one shape."
                )
        self._starts = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), *width)

    def as_stored(self, rows: Sequence[int]) -> NDArray[np.floating]:
        """Return consecutive rows of one part without copying them, in half or single precision.

        Other rows are copied, in half precision if all parts have it.
        """
        first, stop = (rows[0], rows[-1] + 1) if rows else (0, 0)
        number = int(np.searchsorted(self._starts, first, side="right")) - 1
        part, start = self._parts[number], int(self._starts[number])
        if (
            isinstance(part, np.ndarray)
            and part.dtype in (np.float16, np.float32)
            and stop <= self._starts[number + 1]
            and np.array_equal(rows, np.arange(first, stop))
        ):
            return np.asarray(part[first - start : stop - start])
        half = all(each.dtype == np.float16 for each in self._parts)
        return self._copied(rows, np.dtype(np.float16 if half else np.float32))

    def __getitem__(self, rows: NDArray[np.integer] | Sequence[int]) -> NDArray[np.float32]:
        return self._copied(rows, np.dtype(np.float32))

    def _copied(self, rows: NDArray[np.integer] | Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
        wanted = np.asarray(rows, np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.shape[0]):
            raise IndexError(f"row out of range for {self.shape[0]} rows")
        out = np.empty((len(wanted), *self.shape[1:]), dtype)
        part_of = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            out[here] = self._parts[number][wanted[here] - self._starts[number]]
        return out


class RegionFiles:
    """The features of several files: `features` (n, r, d) or (n, d), and the row of each image."""

    def __init__(self, paths: Sequence[Path]) -> None:
        opened = {path: _open(path) for path in paths}
        _pad_alike([rows for _, rows in opened.values() if isinstance(rows, _TsvRows)])
        self.features = FeatureRows({path: rows for path, (_, rows) in opened.items()})
        self._rows: dict[str, int] = {}
        for path, (ids, _) in opened.items():
            for each in ids:
                if each in self._rows:
                    raise SeesayError(f"{path}: image {each} occurs twice; keep one of its rows.")
                self._rows[each] = len(self._rows)

    def row(self, filename: str, number: object = None) -> int | None:
        """Look up the row of an image, by file name or number (COCO's `cocoid`); None if there is none."""
        stem = Path(filename).stem
        names = [filename, stem, stem if number is None else str(number)]
        if number_in_name := _COCO_NAME.fullmatch(stem):
            names.append(number_in_name[1])
        return next((self._rows[name] for name in names if name in self._rows), None)


def find_region_files(folder: Path) -> list[Path]:
    """Find the files of region features in a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and _is_region_file(path))


def _is_region_file(path: Path) -> bool:
    if ".tsv" in path.suffixes:  # some are published in parts, .tsv.0 and .tsv.1
        with path.open("rb") as file:
            fields = file.readline().split(b"\t")
        return len(fields) == _FIELDS and all(field.isdigit() for field in fields[1:4])
    if path.suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                return {"features.npy"} < set(archive.namelist())
        except (OSError, zipfile.BadZipFile):
            return False
    return path.suffix == ".npy" and _ids_beside(path).is_file()


def load_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers, (n, d) or (n, r, d); raise SeesayError if the file has none."""
    try:
        return _checked(np.load(path, mmap_mode="c", allow_pickle=False), path)
    except _UNREADABLE as error:
        raise SeesayError(f"{path}: not a NumPy array of numbers ({error}).") from error


def _checked(array: object, path: Path) -> NDArray[Any]:
    found = type(array).__name__
    if isinstance(array, np.ndarray):
        if array.dtype.kind in "fiu" and array.ndim in (2, 3) and all(array.shape[1:]):
            return array
        found = f"{array.dtype} {array.shape}"
    raise SeesayError(f"{path}: expected numbers of shape (n, d) or (n, r, d), got {found}.")


def _open(path: Path) -> tuple[list[str], NDArray[Any] | _TsvRows]:
    if ".tsv" in path.suffixes:
        return _open_tsv(path)
    if path.suffix == ".npz":
        return _open_npz(path)
    ids, rows = _ids_of(path), load_array(path)
    _check_count(path, ids, rows)
    return ids, rows


def _check_count(path: Path, ids: Sized, rows: Sized) -> None:
    if len(ids) != len(rows):
        raise SeesayError(f"{path}: {len(ids)} ids for the features of {len(rows)} images.")


def _open_npz(path: Path) -> tuple[list[str], NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            sizes = (each for each in archive.zip.infolist() if each.filename.removesuffix(".npy") in _READ)
            if any(each.file_size > _MOST_GROWTH * max(each.compress_size, 1 << 20) for each in sizes):
                raise SeesayError(
                    f"{path}: expands to over {_MOST_GROWTH} times its size; save its arrays with np.savez."
                )
            key = next((key for key in _IDS if key in archive), None)
            if key is None:
                raise SeesayError(f"{path}: no image ids; add an array of them as 'img_id'.")
            rows, ids = _checked(archive["features"], path), archive[key].reshape(-1)
            _check_count(path, ids, rows)  # before the ids become Python objects, which take far more memory
            return [each.decode() if isinstance(each, bytes) else str(each) for each in ids.tolist()], rows
    except _UNREADABLE as error:
        raise SeesayError(f"{path}: not arrays of numbers and ids ({error}).") from error


def _ids_of(path: Path) -> list[str]:
    """Read the ids of an array from the text file beside it, one per line."""
    beside = _ids_beside(path)
    try:
        lines = beside.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise SeesayError(f"{beside}: not a UTF-8 text file of ids ({error}).") from error
    return [line.strip() for line in lines if line.strip()]


def _ids_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}_ids.txt")


def _open_tsv(path: Path) -> tuple[list[str], _TsvRows]:
    """Read the id and the lengths of each line; features are decoded when they are indexed."""
    ids: list[str] = []
    starts: list[int] = []
    width = start = 0
    most, fullest_line = 0, ""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) != _FIELDS or not _COUNT.fullmatch(fields[3]):
                raise SeesayError(f"{where}: expected image_id image_w image_h num_boxes boxes features.")
            count, size = int(fields[3]), _bytes_in(fields[5])
            width = width or size // (4 * count)
            if not width or size != 4 * count * width or _bytes_in(fields[4]) != 16 * count:
                raise SeesayError(
                    f"{where}: {size / 4:g} numbers and {_bytes_in(fields[4]) // 16} boxes for {count} "
                    f"regions of {width}; is the line truncated?"
                )
            ids.append(fields[0].decode(errors="replace"))
            starts.append(start)
            if count > most:
                most, fullest_line = count, where
            start += len(line)
    return ids, _TsvRows(path, starts, (len(ids), most, width), fullest_line)


def _bytes_in(text: bytes) -> int:
    """Count the bytes that a base64 text encodes; -1, which matches no size, if it is truncated."""
    return len(text) // 4 * 3 - (len(text) - len(text.rstrip(b"="))) if len(text) % 4 == 0 else -1


class _TsvRows:
    """Lines of a TSV, decoded when they are indexed; missing regions are zeros."""

    dtype = np.dtype(np.float32)

    def __init__(
        self, path: Path, starts: Sequence[int], shape: tuple[int, int, int], fullest_line: str
    ) -> None:
        self.path, self._starts, self.shape = path, starts, shape
        self.fullest_line = fullest_line  # has the most regions

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.zeros((len(rows), *self.shape[1:]), np.float32)
        with self.path.open("rb") as file:
            for at, row in enumerate(rows):
                file.seek(self._starts[row])
                text = file.readline().rstrip(b"\r\n").split(b"\t")[5]
                try:
                    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
                except binascii.Error as error:
                    raise SeesayError(f"{self.path}: line {row + 1} is not base64 ({error}).") from error
                found[at, : len(numbers) // self.shape[2]] = numbers.reshape(-1, self.shape[2])
        return found


def _pad_alike(parts: Sequence[_TsvRows]) -> None:
    """Give all images as many regions as the image that has the most; missing regions are zeros.

    Raises:
        SeesayError: the features of a file would be more than 100 times as large as the file.
    """
    if not parts:
        return
    fullest = max(parts, key=lambda part: part.shape[1])
    for part in parts:
        part.shape = (part.shape[0], fullest.shape[1], part.shape[2])
        if 4 * math.prod(part.shape) > _MOST_GROWTH * max(part.path.stat().st_size, 1 << 20):
            raise SeesayError(
                f"{fullest.fullest_line}: {fullest.shape[1]} regions, as many as every image of "
                f"{part.path.name} would get, most of them empty; leave this image out."
            )
