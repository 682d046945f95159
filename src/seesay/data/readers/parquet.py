"""Parquet files, as data set hubs distribute them: rows with an encoded image, or the name of one.

The image is a column of bytes, or of `bytes` and `path` as the library `datasets` writes it. Images stay in
the file: a group of rows is read when one of its images is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from seesay.errors import ImageError, SeesayError, UnavailableImageError, first_line, naming_extras

_GROUPS_KEPT = 2  # in memory, since threads read groups one after another
_ONE_READS = Lock()  # so that threads that need the same group of rows read it once
MAX_VALUES = 5_000_000
"""The most values in a column of a file; a few kilobytes can claim any number of equal rows or sentences."""
MAX_TEXT = 1 << 30
"""The most bytes of a file's sentences and names: any number of rows can share one."""
_BATCH = 1024  # rows
_TIMES, _MORE = 16, 64 << 20  # a column may expand to this many times its size in the file, plus bytes


@dataclass(frozen=True, slots=True)
class ParquetCell:
    """The image of one row of a Parquet file: row `row` of its group of rows `group`.

    `own` is the last part of the path that the image has in the file; "" without one.
    """

    path: Path
    column: str
    group: int
    row: int
    own: str = field(default="", compare=False)

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes; raise ImageError if it cannot be read."""
        try:
            stat = self.path.stat()
            with _ONE_READS:
                column = _column(self.path, self.column, self.group, (stat.st_mtime_ns, stat.st_size))
            if isinstance(column, SeesayError):
                raise ImageError(str(column))
            value = column[self.row].as_py()
        except OSError as error:
            reason = error.strerror or error
            raise UnavailableImageError(f"{self.path}: cannot be read ({reason}).") from error
        except IndexError as error:
            raise ImageError(f"{self.path}: has changed since it was read; read it again.") from error
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise ImageError(f"{self.path}: row {self.row} of group {self.group} has no image.")
        return data[:limit]


def column_names(file: Path) -> list[str]:
    """Return the names of the columns in lower case; raise SeesayError if the file is damaged."""
    with _opened(file) as parquet:
        return [name.strip().lower() for name in parquet.schema_arrow.names]


def rows(file: Path, wanted: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the rows: their places and their cells in the wanted columns, in lower case.

    An image is a ParquetCell, whose bytes are not read yet.

    Raises:
        SeesayError: the file is damaged, or its columns expand far beyond its size.
    """
    with _opened(file) as parquet:
        fields = {each.name.strip().lower(): each for each in parquet.schema_arrow}
        images = {name: fields[name].name for name in wanted if _holds_bytes(fields[name].type)}
        read = {name: fields[name].name for name in wanted if name not in images}
        leaves = {parquet.schema.column(at).path for at in range(parquet.metadata.num_columns)}
        columns = [*read.values(), *leaves.intersection(f"{column}.path" for column in images.values())]
        groups = list(map(parquet.metadata.row_group, range(parquet.num_row_groups)))
        _check_size(file, groups, columns)
        size = 0
        for group in range(len(groups)):
            row = 0
            for batch in parquet.iter_batches(_BATCH, row_groups=[group], columns=columns):
                size += sum(map(_text_bytes, batch.columns))
                if size > MAX_TEXT:
                    raise SeesayError(
                        f"{file}: more than {MAX_TEXT >> 20} MB of sentences and names; divide it."
                    )
                for found in batch.to_pylist():
                    record = {name: found[column] for name, column in read.items()}
                    for name, column in images.items():
                        own = PurePosixPath(str((found.get(column) or {}).get("path") or "")).name
                        record[name] = ParquetCell(file, column, group, row, own)
                    yield f"{file}: row {row} of group {group}", record
                    row += 1


def _holds_bytes(kind: Any) -> bool:
    """Whether a column of that type has encoded images."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(each.name == "bytes" for each in kind)
    value = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_binary(value) or types.is_large_binary(value))


def _text_bytes(array: Any) -> int:
    """Count the bytes of the texts in an array, in which equal texts may share memory."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        lengths = compute.take(compute.binary_length(array.dictionary), array.indices)
        return compute.sum(compute.cast(lengths, "int64")).as_py() or 0
    if types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _text_bytes(array.flatten())
    return int(array.nbytes)


def _check_size(file: Path, groups: Iterable[Any], columns: Collection[str]) -> None:
    """Check columns of groups of rows before they are decompressed.

    Raises:
        SeesayError: one has too many values, or is far larger than in the file.
    """
    values = Counter[str]()
    for group in groups:
        for each in map(group.column, range(group.num_columns)):
            path, expanded = each.path_in_schema, each.total_uncompressed_size
            if not any(path == name or path.startswith(f"{name}.") for name in columns):
                continue
            values[path] += each.num_values
            if values[path] > MAX_VALUES:
                raise SeesayError(
                    f"{file}: {values[path]} values in one column; at most {MAX_VALUES} are read; divide it."
                )
            if expanded > _TIMES * each.total_compressed_size + _MORE:
                raise SeesayError(
                    f"{file}: the column {path} has {each.total_compressed_size} bytes and expands to "
                    f"{expanded}; write the file again with less compression."
                )


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open a file with pyarrow; equal values share memory."""
    with naming_extras():
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        with file.open("rb") as opened:
            metadata = ParquetFile(opened).metadata
            leaves = map(metadata.schema.column, range(metadata.num_columns))
            # As in the file, in which any number of rows can share an image or a sentence.
            shared = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            yield ParquetFile(opened, metadata=metadata, read_dictionary=shared)
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:  # of the disk; errors of Arrow have no number
            raise
        raise SeesayError(
            f"{file}: truncated or damaged Parquet file ({first_line(error)}); copy it again."
        ) from error


@lru_cache(_GROUPS_KEPT)
def _column(path: Path, column: str, group: int, version: tuple[int, int]) -> Any | SeesayError:
    """Read a column of a group of rows; the last few columns, or their errors, are cached."""
    del version  # of the file, which is read again if it changes
    try:
        with _opened(path) as parquet:
            _check_size(path, [parquet.metadata.row_group(group)], (column,))
            return parquet.read_row_group(group, columns=[column]).column(column)
    except SeesayError as error:
        return error  # cached as well: otherwise each image of the group would decode it again
    except (ValueError, LookupError):  # there is no such group or column any more
        return SeesayError(f"{path}: has changed since it was read; read it again.")
