"""Precomputed features: rows of several files as one array, and the files of region features.

Bottom-up attention (Anderson et al., CVPR 2018) was published as TSV: a line per image with image_id
image_w image_h num_boxes boxes features, the last two base64 of float32, (num_boxes, 4) and (num_boxes, d).
Later work has `.npz` with `features` (n, r, d) and `img_id`, HDF5 with the same names, or `.npy` (n, r, d)
with the ids in `<name>_ids.txt`, one per line. Rows are looked up by id, in any order.
"""

from __future__ import annotations

import base64
import binascii
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError

_IDS = ("img_id", "image_id", "image_ids", "ids")
_FIELDS = 6
_COUNT = re.compile(rb"0*[1-9][0-9]{0,5}")  # of regions
_HDF5 = (".h5", ".hdf5")


class RowSource(Protocol):
    """An array (rows, d) or (rows, r, d), or an object that reads such rows from a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102

    def __getitem__(self, rows: Any, /) -> Any: ...


class FeatureRows:
    """Feature arrays stacked along their first axis without copying.

    Parts have shape (rows, d) or (rows, r, d), differ only in their number of rows, and may be memory-mapped.
    Indexed with an array of rows, it returns a copy of them in float32.
    """

    def __init__(self, parts: Sequence[RowSource]) -> None:
        if not parts or any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            raise ValueError(f"parts must have one shape, not {[part.shape for part in parts]}")
        self._parts = tuple(parts)
        self._starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), *parts[0].shape[1:])

    def as_stored(self, rows: Sequence[int]) -> NDArray[np.floating]:
        """Return rows in half precision if all parts have it: a view if they lie end to end, else a copy."""
        first, stop = (rows[0], rows[-1] + 1) if rows else (0, 0)
        number = int(np.searchsorted(self._starts, first, side="right")) - 1
        part, start = self._parts[number], int(self._starts[number])
        plain = isinstance(part, np.ndarray) and part.dtype in (np.float16, np.float32)
        if not plain or stop > self._starts[number + 1] or not np.array_equal(rows, np.arange(first, stop)):
            half = all(each.dtype == np.float16 for each in self._parts)
            return self._copied(rows, np.dtype(np.float16 if half else np.float32))
        return np.asarray(part[first - start : stop - start])

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
    """The region features of several files: `features` (n, r, d), and each image's row."""

    def __init__(self, paths: Sequence[Path]) -> None:
        parts: list[RowSource] = []
        self._rows: dict[str, int] = {}
        for path in paths:
            ids, rows = _open(path)
            if parts and rows.shape[1:] != parts[0].shape[1:]:
                raise SeesayError(
                    f"{path}: an image's regions have shape {rows.shape[1:]}, and {parts[0].shape[1:]} in "
                    f"{paths[0].name}; use files of one shape."
                )
            for each in ids:
                if each in self._rows:
                    raise SeesayError(f"{path}: image {each} occurs twice; keep one of its rows.")
                self._rows[each] = len(self._rows)
            parts.append(rows)
        self.features = FeatureRows(parts)

    def row(self, filename: str, number: object = None) -> int | None:
        """Look up the row of an image, by file name or number (COCO's `cocoid`); None if there is none."""
        stem = Path(filename).stem
        names = [filename, stem, str(number or stem), stem.rpartition("_")[2].lstrip("0")]
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
    return path.suffix in _HDF5 or (path.suffix == ".npy" and _ids_beside(path).is_file())


def _open(path: Path) -> tuple[list[str], RowSource]:
    if ".tsv" in path.suffixes:
        return _open_tsv(path)
    ids, rows = _open_hdf5(path) if path.suffix in _HDF5 else _open_numpy(path)
    if len(rows.shape) != 3:
        raise SeesayError(f"{path}: features of shape {rows.shape}; expected (images, regions, numbers).")
    if len(ids) != rows.shape[0]:
        raise SeesayError(f"{path}: {len(ids)} ids for the features of {rows.shape[0]} images.")
    return ids, rows


def _open_numpy(path: Path) -> tuple[list[str], RowSource]:
    try:
        if path.suffix == ".npy":
            ids = _ids_beside(path).read_text(encoding="utf-8").split()
            return ids, np.load(path, mmap_mode="c", allow_pickle=False)
        with np.load(path, allow_pickle=False) as archive:
            key = next((key for key in _IDS if key in archive), None)
            if key is None:
                raise SeesayError(f"{path}: no image ids; add an array of them as 'img_id'.")
            return _texts(archive[key]), archive["features"]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SeesayError(f"{path}: not arrays of numbers and ids ({error}).") from error


def _open_hdf5(path: Path) -> tuple[list[str], RowSource]:
    try:
        import h5py  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise SeesayError(f"{path}: HDF5 is read with h5py; pip install h5py.") from None
    try:
        file = h5py.File(path)
        features = next((file[key] for key in ("features", "image_features") if key in file), None)
        if features is None:
            raise SeesayError(f"{path}: no 'features'; it contains {', '.join(file)}.")
        beside = _ids_beside(path)
        key = next((key for key in _IDS if key in file), None)
        if key is None and not beside.is_file():
            raise SeesayError(f"{path}: no image ids; add 'img_id' to it, or {beside.name} beside it.")
        ids = _texts(file[key][:]) if key else beside.read_text(encoding="utf-8").split()
    except OSError as error:
        raise SeesayError(f"{path}: not HDF5, or truncated ({error}).") from error
    return ids, _Hdf5Rows(features)


def _ids_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}_ids.txt")


def _texts(ids: NDArray[Any]) -> list[str]:
    return [each.decode() if isinstance(each, bytes) else str(each) for each in ids.reshape(-1).tolist()]


class _Hdf5Rows:
    """An array in HDF5, which can only be indexed with ascending rows."""

    def __init__(self, array: Any) -> None:
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.generic]:
        ascending, back = np.unique(rows, return_inverse=True)
        found: NDArray[np.generic] = self._array[ascending][back]
        return found


def _open_tsv(path: Path) -> tuple[list[str], RowSource]:
    """Scan each line once for its id and lengths; features are decoded when they are indexed."""
    ids: list[str] = []
    starts: list[int] = []
    max_count = width = start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) != _FIELDS or not _COUNT.fullmatch(fields[3]):
                raise SeesayError(f"{where}: expected image_id image_w image_h num_boxes boxes features.")
            count, numbers = int(fields[3]), _bytes_in(fields[5]) // 4
            width = width or numbers // count
            if not width or numbers != count * width or _bytes_in(fields[4]) != 16 * count:
                raise SeesayError(
                    f"{where}: {numbers} numbers and {_bytes_in(fields[4]) // 16} boxes for {count} regions "
                    f"of {width}; is the line truncated?"
                )
            ids.append(fields[0].decode(errors="replace"))
            starts.append(start)
            max_count = max(max_count, count)
            start += len(line)
    return ids, _TsvRows(path, starts, (len(ids), max_count, width))


def _bytes_in(text: bytes) -> int:
    """Count the bytes that base64 text encodes; -1, which matches nothing, if it is truncated."""
    return len(text) // 4 * 3 - (len(text) - len(text.rstrip(b"="))) if len(text) % 4 == 0 else -1


class _TsvRows:
    """Lines of a TSV, decoded when they are indexed; missing regions are zeros."""

    dtype = np.dtype(np.float32)

    def __init__(self, path: Path, starts: Sequence[int], shape: tuple[int, int, int]) -> None:
        self._path, self._starts, self.shape = path, starts, shape

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.zeros((len(rows), *self.shape[1:]), np.float32)
        with self._path.open("rb") as file:
            for at, row in enumerate(rows):
                file.seek(self._starts[row])
                text = file.readline().rstrip(b"\r\n").split(b"\t")[5]
                try:
                    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
                except binascii.Error as error:
                    raise SeesayError(f"{self._path}: line {row + 1} is not base64 ({error}).") from error
                found[at, : len(numbers) // self.shape[2]] = numbers.reshape(-1, self.shape[2])
        return found
