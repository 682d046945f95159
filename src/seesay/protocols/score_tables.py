"""Files of scores or embeddings: NumPy (.npy, .npz), PyTorch (.pt, .pth) and Parquet. Nothing is unpickled.

A file holds one table of real numbers, or two named `images` and `sentences`. In Parquet a table is a column
of lists, one a row, and other columns, such as names, are passed over; or, without lists, every column is a
column of the table.
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
_PARQUET = b"PAR1"
_FAILURES = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile)


def read_tables(path: Path) -> list[Named]:
    """Read a file's table, or its two tables, those of images first.

    Raises:
        SeesayError: the file is missing, damaged, or holds something else; says what.
    """
    if not path.is_file():
        raise SeesayError(f"{path}: no file there.")
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
    if any(table.layout != torch.strided for table in tables):
        raise ValueError("a sparse tensor")
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
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        lists = {name: column for name, column in columns.items() if _is_list(column)}
        if lists:
            return {name: _column(name, column) for name, column in lists.items()}
        return np.column_stack([_column(name, column) for name, column in columns.items()])
    except SeesayError:
        raise
    except Exception as failure:  # the reader raises plain ones
        raise ValueError(str(failure)) from None
    except BaseException as panic:  # of the Rust code, which is no Exception
        if type(panic).__name__ == "PanicException":
            raise ValueError("damaged") from None
        raise


def _is_list(column: Any) -> bool:
    from arro3.core import DataType

    kinds: Any = DataType  # its type guards do not describe columns
    return bool(kinds.is_nested(column.type))


def _column(name: str, column: Any) -> Table:
    """A column of numbers as (n,), one of lists as (n, d)."""
    from arro3.core import DataType, list_flatten, list_offsets

    kinds: Any = DataType  # its type guards do not describe columns
    if column.null_count:
        raise ValueError(f"column '{name}' has empty values")
    if not _is_list(column):
        return np.asarray(column.to_numpy())
    fixed = kinds.is_fixed_size_list(column.type)
    if not fixed and len(np.unique(np.diff(np.asarray(list_offsets(column))))) > 1:
        raise ValueError(f"the lists of column '{name}' differ in length")
    return np.asarray(list_flatten(column).to_numpy()).reshape(len(column), -1)


# By suffix: what reads such a file, what it must be, and how to write one.
_FORMATS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    ".npy": (_read_npy, "NumPy file of plain numbers", "write it with numpy.save(path, array)"),
    ".npz": (
        _read_npz,
        "NumPy archive of plain numbers",
        "write it with numpy.savez(path, images=…, sentences=…)",
    ),
    ".pt": (_read_pt, "PyTorch file of plain tensors", "write it with torch.save(tensor, path)"),
    ".parquet": (_read_parquet, "Parquet file", "write a column of lists of numbers"),
}
_FORMATS[".pth"] = _FORMATS[".pt"]
SUFFIXES = tuple(_FORMATS)
