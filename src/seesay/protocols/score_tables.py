"""Files of scores or embeddings: NumPy (.npy, .npz) and PyTorch (.pt, .pth). Nothing is unpickled.

A file holds one table of real numbers, or two named `images` and `sentences`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, naming_extras
from seesay.metrics.inputs import as_array

PAIR = ("images", "sentences")

Table = NDArray[Any]  # maybe memory-mapped
Named = tuple[str, Table]  # the table with what errors call it

_NOT_TENSORS = "something else than tensors"
_FAILURES = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile)


def read_tables(path: Path) -> list[Named]:
    """Read a file's table, or its two tables, those of images first.

    Raises:
        SeesayError: the file is missing or damaged, or has other contents.
    """
    if not path.is_file():
        raise SeesayError(f"{path}: no such file.")
    read, kind, advice = _FORMATS[path.suffix]
    try:
        with naming_extras():
            found = read(path)
    except _FAILURES as failure:
        reason = " ".join(str(failure).split()) or type(failure).__name__
        if "allow_pickle" in reason:  # NumPy's advice
            reason = "it has objects, which are not unpickled"
        raise SeesayError(f"{path}: no {kind} ({reason[:200]}); {advice}.") from None
    if not isinstance(found, Mapping):
        return [(str(path), _checked(found, str(path)))]
    if set(PAIR) <= found.keys():
        return [(f"{path}: '{key}'", _checked(found[key], f"{path}: '{key}'")) for key in PAIR]
    if len(found) == 1:
        return [(str(path), _checked(table, str(path))) for table in found.values()]
    names = ", ".join(map(str, found)) or "nothing"
    raise SeesayError(f"{path}: contains {names}; expected one table, or 'images' and 'sentences'.")


def _checked(values: Any, where: str) -> Table:
    table = as_array(values, where, kinds="fiubcOSUMmV")
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise SeesayError(
            f"{where}: {table.dtype} {table.shape}; a score matrix is (images, sentences), embeddings are "
            "(images, d) and (sentences, d), of real numbers."
        )
    return table


def _read_npy(path: Path) -> Table:
    table: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(table, np.ndarray):
        table.close()
        raise ValueError("several arrays, as in a .npz file")
    return table


def _read_npz(path: Path) -> dict[str, Table]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _read_pt(path: Path) -> Any:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:  # whose message advises to unpickle the file
        raise ValueError(_NOT_TENSORS) from None
    tables = found.values() if isinstance(found, Mapping) else [found]
    if not all(isinstance(table, torch.Tensor) for table in tables):
        raise ValueError(_NOT_TENSORS)
    if any(table.layout != torch.strided for table in tables):
        raise ValueError("a sparse tensor")
    return found


# By suffix: what reads such a file, what it must be, and how to write one.
_FORMATS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    ".npy": (_read_npy, "NumPy file of plain numbers", "write it with numpy.save(path, array)"),
    ".npz": (
        _read_npz,
        "NumPy archive of plain numbers",
        "write it with numpy.savez(path, images=…, sentences=…)",
    ),
    ".pt": (_read_pt, "PyTorch file of plain tensors", "write it with torch.save(tensor, path)"),
}
_FORMATS[".pth"] = _FORMATS[".pt"]
SUFFIXES = tuple(_FORMATS)
