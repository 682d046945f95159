"""Files of scores or embeddings: NumPy (.npy, .npz), PyTorch (.pt, .pth) and Parquet. Nothing is unpickled.

A file holds one table of real numbers, or two named `images` and `sentences`. In Parquet a table is a column
of lists, one a row, or a column of numbers for each column of the table.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, naming_extras
from seesay.metrics.inputs import as_array

SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".parquet")
PAIR = ("images", "sentences")

Table = NDArray[Any]  # maybe memory-mapped
Named = tuple[str, Table]  # the table with what errors call it

_NOT_TENSORS = "something else than tensors"
_PARQUET = b"PAR1"
_FAILURES = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile)
_HOW = {
    ".npy": "NumPy file of plain numbers",
    ".npz": "NumPy archive of plain numbers",
    ".pt": "PyTorch file of plain tensors",
    ".pth": "PyTorch file of plain tensors",
    ".parquet": "Parquet file",
}
_WRITE = {
    ".npy": "write it with numpy.save(path, array)",
    ".npz": "write it with numpy.savez(path, images=…, sentences=…)",
    ".pt": "write it with torch.save(tensor, path)",
    ".pth": "write it with torch.save(tensor, path)",
    ".parquet": "write a column of lists of numbers",
}


def read_tables(path: Path) -> list[Named]:
    """Read a file's table, or its two tables, those of images first.

    Raises:
        SeesayError: the file is missing, damaged, or holds something else; says what.
    """
    if not path.is_file():
        raise SeesayError(f"{path}: no file there.")
    try:
        with naming_extras():
            found = _READERS[path.suffix](path)
    except _FAILURES as failure:
        reason = " ".join(str(failure).split()) or type(failure).__name__
        kind, advice = _HOW[path.suffix], _WRITE[path.suffix]
        raise SeesayError(f"{path}: no {kind} ({reason[:200]}); {advice}.") from None
    if not isinstance(found, Mapping):
        return [(str(path), _checked(found, str(path)))]
    if set(PAIR) <= found.keys():
        return [(f"{path}: '{key}'", _checked(found[key], f"{path}: '{key}'")) for key in PAIR]
    if len(found) == 1:
        return [(str(path), _checked(table, str(path))) for table in found.values()]
    names = ", ".join(map(str, found)) or "nothing"
    raise SeesayError(f"{path}: holds {names}; one table is wanted, or 'images' and 'sentences'.")


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
    return found


def _read_parquet(path: Path) -> dict[str, Table] | Table:
    from arro3.io import read_parquet

    with path.open("rb") as file:
        begins = file.read(4)
        file.seek(-4, 2)
        if begins != _PARQUET or file.read(4) != _PARQUET:  # of which the reader panics
            raise ValueError("it does not begin and end with PAR1")
    try:
        table = read_parquet(str(path)).read_all()
    except BaseException as panic:  # of the Rust code, which is no Exception
        if type(panic).__name__ == "PanicException":
            raise ValueError("damaged") from None
        raise
    columns = dict(zip(table.column_names, (_column(column) for column in table.columns), strict=True))
    if all(column.ndim == 2 for column in columns.values()):
        return columns
    return np.column_stack(list(columns.values()))


def _column(column: Any) -> Table:
    """A column of numbers as (n,), one of lists as (n, d)."""
    from arro3.core import DataType, list_flatten, list_offsets

    kinds: Any = DataType  # its type guards do not describe columns
    whole = column.combine_chunks()
    if whole.null_count:
        raise ValueError(f"column '{column.field.name}' has empty values")
    if not kinds.is_nested(whole.type):
        return np.asarray(whole.to_numpy())
    fixed = kinds.is_fixed_size_list(whole.type)
    if not fixed and len(np.unique(np.diff(np.asarray(list_offsets(whole))))) > 1:
        raise ValueError(f"the lists of column '{column.field.name}' differ in length")
    return np.asarray(list_flatten(whole).to_numpy()).reshape(len(whole), -1)


_READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".parquet": _read_parquet,
}
