"""Parquet files, as data set hubs distribute them: rows with an encoded image, or the name of one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError, first_line, naming_extras

_BATCH = 64  # rows, whose images are twice in memory


def column_names(file: Path) -> list[str]:
    """Return the names of the columns in lower case; raise SeesayError if the file is damaged."""
    with _opened(file) as parquet:
        return [name.strip().lower() for name in parquet.schema_arrow.names]


def rows(file: Path, wanted: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the rows: their places and their cells in the wanted columns, in lower case.

    Raises:
        SeesayError: the file is damaged.
    """
    with _opened(file) as parquet:
        names = {name.strip().lower(): name for name in parquet.schema_arrow.names}
        row = 0
        for batch in parquet.iter_batches(_BATCH, columns=[names[name] for name in wanted]):
            for cells in batch.to_pylist():
                yield f"{file}: row {row}", {name: cells[names[name]] for name in wanted}
                row += 1


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    with naming_extras():
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        with ParquetFile(file) as parquet:
            yield parquet
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:  # of the disk; errors of Arrow have no number
            raise
        raise SeesayError(
            f"{file}: truncated or damaged Parquet file ({first_line(error)}); copy it again."
        ) from error
