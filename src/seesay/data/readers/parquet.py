"""Parquet files whose rows contain an encoded image and its sentences, as data set hubs distribute them.

The image is a column of bytes, or of `bytes` and `path`, such as the library `datasets` writes; or the name
of an image beside the file. Images stay where they are: what is read is the group of rows that holds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    MALFORMED_LINE,
    canonical_split,
    files_of_suffix,
    split_in_name,
)
from seesay.data.remote import as_remote, version_of
from seesay.errors import ImageError, SeesayError, UnavailableImageError, naming_extras

_GROUPS_KEPT = 2  # in memory: threads read one after another
_BUFFER = 1 << 16
_ONE_READS = Lock()  # of the threads that want one group of rows
MAX_ROWS = 2_000_000
"""Of a file; a few kilobytes can claim any number of equal rows."""
MAX_VALUES = 10 * MAX_ROWS
"""Of a column of a file: a row can hold a list, which can be as long as a file claims."""
_BATCH = 1024  # rows


@dataclass(frozen=True, slots=True)
class ParquetCell:
    """The image of one row of a Parquet file: row `row` of its group of rows `group`."""

    path: Path
    column: str
    group: int
    row: int
    version: str = ""

    def place(self) -> str:
        """Return what names the bytes at a URL, see `Placed`."""
        return f"{self.version} {self.column} {self.group} {self.row}" if self.version else ""

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes; raise ImageError if it cannot be read."""
        try:
            with _ONE_READS:
                column = _column(self.path, self.column, self.group)
            value = column[self.row].as_py()
        except OSError as error:
            reason = error.strerror or error
            raise UnavailableImageError(f"{self.path}: cannot be read ({reason}).") from error
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise ImageError(f"{self.path}: row {self.row} of group {self.group} has no image.")
        return data[:limit]


@register_reader
class ParquetReader(Reader):
    """Reads one Parquet file, or every one below a folder; the split is a column, or in the file's name."""

    name = "parquet"
    looks_like = "*.parquet with an image and a caption per row"
    order = 75

    def files(self, path: Path) -> list[Path]:
        return files_of_suffix(path, ".parquet")

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        for file in self.find(path):
            _read_file(file, builder)


def _read_file(file: Path, builder: CorpusBuilder) -> None:
    version = version_of(file)
    below = file.relative_to(builder.root).with_suffix("").as_posix()
    with _opened(file) as parquet:
        columns = {column.name.lower(): column.name for column in parquet.schema_arrow}
        image = next((columns[name] for name in IMAGE_COLUMNS if name in columns), None)
        caption = next((columns[name] for name in CAPTION_COLUMNS if name in columns), None)
        if image is None or caption is None:
            raise SeesayError(
                f"{file}: no columns image and caption; it has the columns {', '.join(columns)}."
            )
        is_name = str(parquet.schema_arrow.field(image).type) in ("string", "large_string")
        small = [caption, *([columns["split"]] if "split" in columns else [])]
        # Only the names of images in the file; their bytes are read when they are needed.
        named = image if is_name else f"{image}.path"
        if (count := parquet.metadata.num_rows) > MAX_ROWS:
            raise SeesayError(f"{file}: {count} rows, and at most {MAX_ROWS} of a file are read; divide it.")
        if (count := _values(parquet, {image, *small})) > MAX_VALUES:
            raise SeesayError(
                f"{file}: {count} values in one column, and at most {MAX_VALUES} are read; divide it."
            )
        for group in range(parquet.num_row_groups):
            batches = parquet.iter_batches(_BATCH, row_groups=[group], columns=[*small, named])
            for row, cells in enumerate(cells for batch in batches for cells in batch.to_pylist()):
                where = f"{file}: row {row} of group {group}"
                texts = cells[caption]
                texts = [texts] if isinstance(texts, str) else texts
                if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                    builder.issues.add(MALFORMED_LINE, where)
                    continue
                split = canonical_split(cells["split"], where) if cells.get("split") else split_in_name(below)
                if is_name:
                    at = builder.find_image(cells[image], split, where)
                else:
                    name = (cells.get(image) or {}).get("path") or f"{group:05d}-{row:06d}"
                    source = ParquetCell(file, image, group, row, version)
                    at = builder.image(f"{below}/{PurePosixPath(name).name}", split, source)
                for text in texts:
                    builder.sentence(text, at, where)


def _values(parquet: Any, columns: set[str]) -> int:
    """Count the values of the longest of some columns."""
    counts = Counter[str]()
    for group in map(parquet.metadata.row_group, range(parquet.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            counts[column.path_in_schema] += column.num_values
    return max((count for path, count in counts.items() if path.partition(".")[0] in columns), default=0)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    with naming_extras():
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import ParquetFile
    remote = as_remote(file)
    try:
        with remote.open(buffering=_BUFFER) if remote else file.open("rb") as raw:
            metadata = ParquetFile(raw).metadata
            leaves = map(metadata.schema.column, range(metadata.num_columns))
            # Equal images are one in memory, as in the file: any number of rows can share one.
            images = [leaf.path for leaf in leaves if _is_bytes(leaf)]
            yield ParquetFile(raw, metadata=metadata, read_dictionary=images)
    except ArrowException as error:
        if isinstance(error, OSError) and error.errno:
            raise
        reason = str(error).splitlines()[0]
        raise SeesayError(f"{file}: truncated or damaged Parquet file ({reason}); copy it again.") from error


def _is_bytes(leaf: Any) -> bool:
    """Return whether a column holds bytes rather than texts."""
    return bool(leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type == "NONE")


@lru_cache(_GROUPS_KEPT)
def _column(path: Path, column: str, group: int) -> Any:
    """Read a column of a group of rows, and keep it with the last few."""
    with _opened(path) as parquet:
        return parquet.read_row_group(group, columns=[column]).column(column)
