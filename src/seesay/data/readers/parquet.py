"""Parquet files whose rows contain an encoded image and its sentences, as data set hubs distribute them.

The image is a column of bytes, or of `bytes` and `path` as the library `datasets` writes it, or the name of
an image beside the file. Images stay in the file: a group of rows is read when one of its images is needed.
Only images with the same name are compared while the corpus is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from seesay.data.images import content_key
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder, read_options
from seesay.data.readers.files import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    MALFORMED_LINE,
    canonical_split,
    files_of_suffix,
    split_in_name,
)
from seesay.errors import ImageError, SeesayError, UnavailableImageError, first_line, naming_extras

_GROUPS_KEPT = 2  # in memory, since threads read groups one after another
_ONE_READS = Lock()  # so that threads that need the same group of rows read it once
MAX_ROWS = 2_000_000
"""The most rows of a file; a few kilobytes can claim any number of equal rows."""
MAX_VALUES = 10 * MAX_ROWS
"""The most values in a column of a file: a row can have a list of any length."""
MAX_TEXT = 1 << 30
"""The most bytes of a file's sentences and names: any number of rows can share one."""
MOST_COMPARED = 4 << 30
"""The most bytes of images to compare, in addition to 16 times the size of their column in the file."""
_BATCH = 1024  # rows
_TIMES, _MORE = 16, 64 << 20  # a column may expand to this many times its size in the file, plus bytes


@dataclass(frozen=True, slots=True)
class ParquetCell:
    """The image of one row of a Parquet file: row `row` of its group of rows `group`."""

    path: Path
    column: str
    group: int
    row: int

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes; raise ImageError if it cannot be read."""
        try:
            with _ONE_READS:
                column = _column(self.path, self.column, self.group, _stamp(self.path))
            if isinstance(column, SeesayError):
                raise ImageError(str(column))
            value = column[self.row].as_py()
        except OSError as error:
            reason = error.strerror or error
            raise UnavailableImageError(f"{self.path}: cannot be read ({reason}).") from error
        except SeesayError as error:
            raise ImageError(str(error)) from error
        except IndexError as error:
            raise ImageError(f"{self.path}: has changed since it was read; read it again.") from error
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise ImageError(f"{self.path}: row {self.row} of group {self.group} has no image.")
        return data[:limit]


@register_reader
class ParquetReader(Reader):
    """Reads one Parquet file, or every one below a folder; the split is a column, or in the file's path."""

    name = "parquet"
    looks_like = "*.parquet with an image and a caption per row"
    order = 75

    def files(self, path: Path) -> list[Path]:
        return files_of_suffix(path, ".parquet")

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        for file in self.find(path):
            _read_file(file, builder)


def _read_file(file: Path, builder: CorpusBuilder) -> None:
    options = read_options()
    below = file.relative_to(builder.root).with_suffix("").as_posix()
    with _opened(file) as parquet:
        columns = {column.name.lower(): column.name for column in parquet.schema_arrow}
        image = _column_of(columns, options.image_column, IMAGE_COLUMNS)
        caption = _column_of(columns, options.caption_column, CAPTION_COLUMNS)
        if image is None or caption is None:
            wanted = f"{options.image_column or 'image'} and {options.caption_column or 'caption'}"
            raise SeesayError(
                f"{file}: no columns {wanted}; it has the columns {', '.join(columns)}. Name the right ones "
                "with --image-column and --caption-column."
            )
        leaves = list(map(parquet.schema.column, range(parquet.metadata.num_columns)))
        is_name = any(leaf.path == image and leaf.logical_type.type == "STRING" for leaf in leaves)
        splits = columns.get("split")
        small = [caption, *([splits] if splits else [])]
        # Without the bytes of images, which are read when they are needed.
        named = image if is_name else f"{image}.path"
        if (rows := parquet.metadata.num_rows) > MAX_ROWS:
            raise SeesayError(f"{file}: {rows} rows, and at most {MAX_ROWS} of a file are read; divide it.")
        if (values := _values(parquet, (image, *small))) > MAX_VALUES:
            raise SeesayError(
                f"{file}: {values} values in one column, and at most {MAX_VALUES} are read; divide it."
            )
        has_paths = f"{image}.path" in {leaf.path for leaf in leaves}
        first = _rows(file, parquet, [named]) if has_paths else ()
        owns = (_own_name(cells, image) for _, _, cells in first)
        names = _Names(below, owns, _TIMES * _compressed(parquet, image) + MOST_COMPARED)
        for group, row, cells in _rows(file, parquet, [*small, named]):
            builder.issues.rows += 1
            where = f"{file}: row {row} of group {group}"
            texts = cells[caption]
            texts = [texts] if isinstance(texts, str) else texts
            well_formed = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
            if not well_formed or (is_name and not cells[image]):
                builder.issues.leave_out(MALFORMED_LINE, where)
                continue
            split = _split(cells.get(splits) if splits else None, where) or split_in_name(below)
            if is_name:
                at = builder.find_image(cells[image], split, where)
            else:
                cell = ParquetCell(file, image, group, row)
                at = builder.image(names.name(_own_name(cells, image), cell), split, cell)
            builder.row(texts, at, cells[image] if is_name else "", where)


def _column_of(columns: Mapping[str, str], wanted: str | None, usual: Sequence[str]) -> str | None:
    """Return the first column with one of these names, which are in lower case."""
    names = (wanted.strip().lower(),) if wanted else usual
    return next((columns[name] for name in names if name in columns), None)


def _split(value: object, where: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise SeesayError(f"{where}: split is {value!r}, not a name; write train, val or test.")
    return canonical_split(value, where)


class _Names:
    """Names the images of a file.

    Several rows may have the same image, each with one of its sentences. But images of different folders can
    also have the same name, since the library `datasets` keeps only the last part of their paths. Images with
    the same name are therefore compared by content, and those that differ from the first are named after
    their rows.

    Args:
        folder: the beginning of the names.
        owns: the images' own names, for all rows; "" for an image without one.
        most: the most bytes to compare; any number of rows can share one image in the file.
    """

    def __init__(self, folder: str, owns: Iterable[str], most: int) -> None:
        self._folder, self._most = folder, most
        self._counts = Counter(owns)
        self._contents: dict[str, dict[str, str]] = {}
        self._compared = 0

    def name(self, own: str, cell: ParquetCell) -> str:
        """Return the name of an image, which it shares only with equal images.

        Raises:
            SeesayError: the images with one name are too large to be compared.
            UnavailableImageError: one of them cannot be read now.
        """
        if not own:
            return self._of_row(own, cell)
        if self._counts[own] == 1:
            return f"{self._folder}/{own}"
        known = self._contents.setdefault(own, {})
        new = self._of_row(own, cell) if known else f"{self._folder}/{own}"
        return known.setdefault(self._content(cell), new)

    def _of_row(self, own: str, cell: ParquetCell) -> str:
        name = "-".join(filter(None, (f"{cell.group:05d}-{cell.row:06d}", own)))
        while name in self._counts:
            name = f"row-{name}"
        return f"{self._folder}/{name}"

    def _content(self, cell: ParquetCell) -> str:
        try:
            data = cell.read()
        except UnavailableImageError:
            raise
        except ImageError:
            return f"{cell.group} {cell.row}"  # an image without content equals no other
        self._compared += len(data)
        if self._compared > self._most:
            raise SeesayError(
                f"{cell.path}: images of several rows have one name, and are more than {self._most >> 20} MB "
                "to compare; write one row for each image, with a list of its sentences."
            )
        return content_key(data)


def _own_name(cells: Mapping[str, Any], image: str) -> str:
    """Return the last part of the path of a row's image; "" if there is none."""
    return PurePosixPath((cells.get(image) or {}).get("path") or "").name


def _compressed(parquet: Any, column: str) -> int:
    """Return the size of a column in the file, in bytes."""
    groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
    return sum(each.total_compressed_size for group in groups for each in _columns(group, [column]))


def _rows(file: Path, parquet: Any, columns: list[str]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Iterate over the rows of a file: group, number in the group, and cells by column.

    Raises:
        SeesayError: a column would expand too far, or sentences and names have too many bytes.
    """
    size = 0
    for group in range(parquet.num_row_groups):
        _check_size(file, parquet.metadata.row_group(group), columns)
        numbers = count()
        for batch in parquet.iter_batches(_BATCH, row_groups=[group], columns=columns):
            size += sum(map(_text_bytes, batch.columns))
            if size > MAX_TEXT:
                raise SeesayError(
                    f"{file}: more than {MAX_TEXT >> 20} MB of sentences and names, and no more are read; "
                    "divide it."
                )
            yield from ((group, next(numbers), cells) for cells in batch.to_pylist())


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


def _check_size(file: Path, group: Any, columns: Collection[str]) -> None:
    """Check the expanded size of columns in a group of rows before they are decompressed.

    Raises:
        SeesayError: it is far larger than in the file.
    """
    for each in _columns(group, columns):
        size, expanded = each.total_compressed_size, each.total_uncompressed_size
        if expanded > _TIMES * size + _MORE:
            raise SeesayError(
                f"{file}: the column {each.path_in_schema} has {size} bytes and expands to {expanded}; write "
                "the file again with less compression."
            )


def _columns(group: Any, names: Collection[str]) -> Iterator[Any]:
    """Iterate over the columns of these names in a group of rows, and those inside them."""
    for column in map(group.column, range(group.num_columns)):
        path = column.path_in_schema
        if any(path == name or path.startswith(f"{name}.") for name in names):
            yield column


def _values(parquet: Any, columns: Collection[str]) -> int:
    """Count the values of the longest of these columns."""
    counts = Counter[str]()
    for group in map(parquet.metadata.row_group, range(parquet.num_row_groups)):
        for each in _columns(group, columns):
            counts[each.path_in_schema] += each.num_values
    return max(counts.values(), default=0)


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


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_mtime_ns} {status.st_size}"


@lru_cache(_GROUPS_KEPT)
def _column(path: Path, column: str, group: int, version: str) -> Any | SeesayError:
    """Read a column of a group of rows; the last few columns, or their errors, are cached."""
    del version  # of the file, which is read again if it changes
    try:
        with _opened(path) as parquet:
            _check_size(path, parquet.metadata.row_group(group), (column,))
            return parquet.read_row_group(group, columns=[column]).column(column)
    except SeesayError as error:
        return error  # cached as well: otherwise each image of the group would decode it again
    except (ValueError, LookupError):  # there is no such group or column any more
        return SeesayError(f"{path}: has changed since it was read; read it again.")
