"""Precomputed features: the rows of several files as one array, and the formats of region features.

Features of regions (n, r, d), or of whole images (n, d), are the array `features` of an `.npz` that also has
`img_id`, or an `.npy` with the ids in `<name>_ids.txt`, one per line. Rows are looked up by id, in any order.
"""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence, Set, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError

_IDS = ("img_id", "image_id", "image_ids", "ids")
_READ = ("features", "boxes", "img_wh", *_IDS)  # of the arrays in an archive
_COCO_NAME = re.compile(r"(?:COCO_.*_)?0*([0-9]+)")
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

    def as_stored(self, rows: Sequence[int]) -> NDArray[np.floating]:
        """Return consecutive rows of one part without copying them, in half or single precision.

        Other rows are copied, in half precision if all parts have it.
        """
        first, stop = (rows[0], rows[-1] + 1) if rows else (0, 0)
        number = int(np.searchsorted(self._starts, first, side="right")) - 1
        part, start = self._parts[number], int(self._starts[number])
        if (
            part.dtype in (np.float16, np.float32)
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

    @property
    def ids(self) -> Set[str]:
        """The ids of all images."""
        return self._rows.keys()

    def row(self, filename: str, number: object = None) -> int | None:
        """Look up the row of an image, by file name or number (COCO's `cocoid`); None if there is none.

        Names without a suffix, such as train/0, are looked up as they are: 0 would be dev/0, too.
        """
        stem = Path(filename).stem if Path(filename).suffix else filename
        names = [filename, stem, stem if number is None else id_text(number)]
        if number_in_name := _COCO_NAME.fullmatch(stem):
            names.append(number_in_name[1])
        return next((self._rows[name] for name in names if name in self._rows), None)


def open_region_files(paths: Sequence[Path]) -> list[RegionFiles]:
    """Open files of features: as one array if they are its parts, and else each by itself.

    Parts have features of one shape, and no image in common.
    """
    alone = [RegionFiles([path]) for path in paths]
    shapes = {files.features.shape[1:] for files in alone}
    distinct = len({name for files in alone for name in files.ids})
    if len(paths) < 2 or len(shapes) > 1 or distinct < sum(len(files.ids) for files in alone):
        return alone
    return [RegionFiles(paths)]


def find_region_files(folder: Path) -> list[Path]:
    """Find the files of region features in a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and _is_region_file(path))


def _is_region_file(path: Path) -> bool:
    if path.suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                return {"features.npy"} < set(archive.namelist())
        except (OSError, zipfile.BadZipFile):
            return False
    return path.suffix == ".npy" and ids_beside(path).is_file()


def load_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers, (n, d) or (n, r, d); raise SeesayError if the file has none."""
    try:
        return _checked(np.load(path, mmap_mode="c", allow_pickle=False), path)
    except _UNREADABLE as error:
        raise SeesayError(f"{path}: not a NumPy array of numbers ({error}).") from error


def array_beside(path: Path, name: str) -> NDArray[Any] | None:
    """Return another array of an archive, or the one of `<stem>_<name>.npy` beside an array; None if missing.

    Raises:
        SeesayError: it cannot be read, or is not an array of numbers.
    """
    if path.suffix != ".npz":
        beside = path.with_name(f"{path.stem}_{name}.npy")
        return load_array(beside) if beside.is_file() else None
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _checked(archive[name], path) if name in archive else None
    except _UNREADABLE as error:
        raise SeesayError(f"{path}: its array '{name}' cannot be read ({error}).") from error


def _checked(array: object, path: Path) -> NDArray[Any]:
    found = type(array).__name__
    if isinstance(array, np.ndarray):
        if array.dtype.kind in "fiu" and array.ndim in (2, 3) and all(array.shape[1:]):
            return array
        found = f"{array.dtype} {array.shape}"
    raise SeesayError(f"{path}: expected numbers of shape (n, d) or (n, r, d), got {found}.")


def _open(path: Path) -> tuple[list[str], NDArray[Any]]:
    if not path.is_file():
        raise SeesayError(f"{path}: no such file of features; a relative path starts at the corpus.")
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
            return list(map(id_text, ids.tolist())), rows
    except _UNREADABLE as error:
        raise SeesayError(f"{path}: not arrays of numbers and ids ({error}).") from error


def _ids_of(path: Path) -> list[str]:
    """Read the ids of an array from the text file beside it, one per line."""
    beside = ids_beside(path)
    try:
        lines = beside.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise SeesayError(f"{beside}: not a UTF-8 text file of ids ({error}).") from error
    return [id_text(line.strip()) for line in lines if line.strip()]


def ids_beside(path: Path) -> Path:
    """Return the file of the ids of an array."""
    return path.with_name(f"{path.stem}_ids.txt")
