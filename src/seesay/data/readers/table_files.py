"""Tables as rows by column name: CSV and its relatives, JSON lines, a JSON list, Excel and Parquet."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

from seesay.data.corpus import Issues
from seesay.data.formats import IMAGE_SUFFIXES
from seesay.data.readers.builder import ABSENT, MALFORMED_LINE
from seesay.data.texts import (
    check_expansion,
    decode_text,
    is_utf16,
    json_or_none,
    parse_json,
    read_bytes,
    with_line_feeds,
)
from seesay.errors import MissingExtraError, SeesayError, first_line, naming_extras

WINDOWS = "table that is not UTF-8, read as Windows-1252"
PICTURE_IN_SHEET = "picture inside a sheet, not read; save it as a file"
OTHER_SHEET = "sheet after the first, not read; save it as a file"
_SPANNING = "row over several lines, kept; is a quotation mark missing?"
_UNREAD = (".xls", ".ods")
_SUFFIXES = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".xlsx", ".parquet", *_UNREAD)
_PEEK = 1 << 16
_SHOWN = 20  # columns that a message names
_PEEKED = 1000  # records of JSON, by whose keys a table is recognised
_BATCH = 64  # rows of Parquet, whose images are twice in memory
_IMAGE_CELL = re.compile(rb"^\S+\.(?:jpe?g|png|webp)\"?[\t;|,]", re.IGNORECASE | re.MULTILINE)
_UNNAMED = re.compile(r"(?:-\d+)?").fullmatch  # a cell of the header without text
_SEPARATOR = re.compile(r'"?sep=(?:.)"?\r?\n', re.IGNORECASE)  # the first line of tables for spreadsheets

Row = tuple[str, dict[str, Any]]
"""The place of a row, and its cells by column."""


class TableFormat:
    """A table with certain columns, whose names are in lower case.

    Args:
        *columns: the names that each column may have.
        unless: a column that such a table does not have.
        advice: the end of the error message about a missing column.
    """

    def __init__(self, *columns: tuple[str, ...], unless: str = "", advice: str = "") -> None:
        self.columns, self.unless, self.advice = columns, unless, advice

    def fits(self, file: Path) -> bool:
        """Return True if a file is a table with the columns."""
        if not _is_named_like_a_table(file):
            return False
        try:
            names, _ = self._opened(file, Issues())
        except MissingExtraError:
            return suffix_of(file) == ".parquet"
        except SeesayError:
            return False
        return self.unless not in names and not self._missing(names)

    def files(self, path: Path) -> list[Path]:
        """Return the path itself if it fits, or the files in a folder that fit, sorted by name."""
        found = sorted(file for file in ([path] if path.is_file() else path.iterdir()) if self.fits(file))
        # A JSON file may be an export of the table beside it.
        return [file for file in found if suffix_of(file) != ".json"] or found

    def rows(self, file: Path, issues: Issues) -> Iterator[Row]:
        """Iterate over the rows by column name, each with its place; malformed rows are counted as issues.

        A cell with a word for "empty" is None.

        Raises:
            SeesayError: the file cannot be read, or lacks a column.
        """
        names, rows = self._opened(file, issues)
        if missing := self._missing(names):
            named = [name for name in names if not _UNNAMED(name)]
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            there = f"the columns {', '.join(named[:_SHOWN])}{more}" if named else "no columns"
            if any(name.endswith(tuple(IMAGE_SUFFIXES)) for name in names):
                wrong = (
                    f"no header but '{', '.join(named[:_SHOWN])}'; add a first line such as image,caption."
                )
            else:
                wrong = f"no column {', '.join(missing)}; it has {there}."
                if len(named) == 1:
                    wrong += " If that is a title, delete the lines above the names of the columns."
            raise SeesayError(f"{file}:1: {wrong} {self.advice}".strip())
        for where, cells in rows:
            absent = (name for name, cell in cells.items() if isinstance(cell, str) and ABSENT(cell))
            yield where, cells | dict.fromkeys(absent)

    def _opened(self, file: Path, issues: Issues) -> tuple[list[str], Iterable[Row]]:
        """Return the names of the columns, and the rows, which are not parsed yet."""
        suffix = suffix_of(file)
        if suffix in _UNREAD:
            raise SeesayError(f"{file}: a spreadsheet, which is not read; save it as CSV or .xlsx.")
        if suffix == ".parquet":
            with _parquet(file) as parquet:
                names = [name.strip().lower() for name in parquet.schema_arrow.names]
            wanted = {"split", *(each for column in self.columns for each in column)}
            columns = [at for at, name in enumerate(names) if {name, without_number(name)} & wanted]
            return names, _parquet_rows(file, columns)
        if suffix == ".xlsx":
            cells = _sheet(file, issues)
            names = _numbered("" if cell is None else str(cell) for cell in next(cells, []))
            rows = ((number, row) for number, row in enumerate(cells, start=2) if row != [None] * len(row))
            return names, ((f"{file}:{at}", dict(zip(names, row, strict=False))) for at, row in rows)
        data = read_bytes(file)
        text = _decoded(data, file, issues)
        if suffix in (".json", ".jsonl"):
            records, peeked = tee(_json_rows(text, file, issues))
            keys = chain.from_iterable(cells for _, cells in islice(peeked, _PEEKED))
            return list(dict.fromkeys(keys)), records
        first = 3 if (found := _SEPARATOR.match(text)) else 2
        header, _, body = text[found.end() if found else 0 :].partition("\n")
        delimiter = max("\t,|;", key=header.count)
        try:
            names = _numbered(next(csv.reader([header.rstrip("\r")], delimiter=delimiter), []))
        except csv.Error as error:
            raise SeesayError(f"{file}:1: malformed table ({error}).") from error
        joined = None  # of two columns, the one without the image may have unquoted delimiters
        if len(names) == 2:
            joined = 1 if names[0] in self.columns[0] else 0
        return names, _delimited_rows(body, first, names, delimiter, joined, is_utf16(data), file, issues)

    def _missing(self, names: list[str]) -> list[str]:
        there = {*names, *map(without_number, names)}
        return [column[0] for column in self.columns if there.isdisjoint(column)]


@lru_cache(1024)
def without_number(column: str) -> str:
    """Return the name that numbered columns share: "caption" for "caption1" and "caption_2"."""
    stem = column.rstrip("0123456789")
    return stem[:-1] if stem != column and stem.endswith((" ", "_", "-")) else stem


def tables_in(path: Path) -> list[Path]:
    """Return the path itself if it is a table of any columns, or the tables in a folder, sorted by name.

    A .txt file is one if a line begins with an image's name and a delimiter; JSON has readers that say what
    is missing.
    """
    files = [path] if path.is_file() else path.iterdir()
    named = [each for each in files if _is_named_like_a_table(each) and suffix_of(each) != ".json"]
    return sorted(file for file in named if suffix_of(file) != ".txt" or _names_images(file))


def suffix_of(file: Path) -> str:
    """Return the suffix of a file in lower case, without one that says that it is compressed."""
    return Path(file.name.lower().removesuffix(".gz")).suffix


def _is_named_like_a_table(file: Path) -> bool:
    return not file.name.startswith((".", "~$")) and suffix_of(file) in _SUFFIXES and file.is_file()


def _names_images(file: Path) -> bool:
    with suppress(SeesayError):
        return _IMAGE_CELL.search(read_bytes(file, _PEEK)) is not None
    return False  # a damaged file that is probably no table


def _decoded(data: bytes, file: Path, issues: Issues) -> str:
    """Decode a table that Excel on Windows may have written in its own encoding.

    A text with any letter beyond ASCII in UTF-8 is UTF-8, however damaged.
    """
    try:
        return decode_text(data, file)
    except SeesayError:
        if is_utf16(data) or any(letter > "\x7f" for letter in data.decode(errors="ignore")):
            raise
        with suppress(UnicodeDecodeError):
            text = with_line_feeds(data.decode("cp1252"))
            issues.add(WINDOWS, str(file))
            return text
        raise


def _numbered(cells: Iterable[str]) -> list[str]:
    """Return the names of columns in lower case; a second "caption" gets the number of its column."""
    names = dict[str, None]()
    for number, cell in enumerate(cells, start=1):
        name = cell.strip().lower()
        names[f"{name}-{number}" if name in names else name] = None
    return list(names)


def _json_rows(text: str, file: Path, issues: Issues) -> Iterator[Row]:
    """Iterate over the objects of a list, or of the lines of a `.jsonl`."""
    if suffix_of(file) == ".json":
        listed = parse_json(text, file)
        if not isinstance(listed, list):
            raise SeesayError(f"{file}: expected a list of objects.")
        records = ((f"{file}: [{at}]", record) for at, record in enumerate(listed))
    else:
        lines = enumerate(text.split("\n"), start=1)
        records = ((f"{file}:{at}", json_or_none(line)) for at, line in lines if line.strip())
    for where, record in records:
        if isinstance(record, dict):
            yield where, {key.strip().lower(): value for key, value in record.items()}
        else:
            issues.add(MALFORMED_LINE, f"{where}: not a JSON object")


def _is_quoted(text: str, delimiter: str, columns: int) -> bool:
    """Return whether quotation marks enclose cells, which then fit, span lines or double marks inside."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    return all(len(row) == columns for row in rows if row) and ('""' in text or len(rows) < text.count("\n"))


def _is_rightly_quoted(lines: Sequence[str], delimiter: str, columns: int) -> bool:
    """Return whether the lines of one row are as a program writes them, and no further line begins a row."""
    begins_row = any(_IMAGE_CELL.match(line.encode()) for line in lines[1:])
    return not begins_row and _is_quoted("".join(lines) + "\n", delimiter, columns)


def _delimited_rows(
    text: str,
    number: int,
    names: list[str],
    delimiter: str,
    joined: int | None,
    is_quoted: bool,
    file: Path,
    issues: Issues,
) -> Iterator[Row]:
    """Iterate over the rows of a text with delimiters, which begins in line `number` of the file.

    `joined` is the column that takes surplus cells; `is_quoted` says that quotation marks enclose cells.
    """
    is_text = delimiter in "\t|" and not is_quoted and not _is_quoted(text, delimiter, len(names))
    quoting: Any = csv.QUOTE_NONE if is_text else csv.QUOTE_MINIMAL
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
    first = number
    try:
        for row in reader:
            where, start, number = f"{file}:{number}", number, first + reader.line_num
            if not any(cell.strip() for cell in row):
                continue
            own = lines[start - first : number - first]
            if len(own) > 1 and not _is_rightly_quoted(own, delimiter, len(names)):
                issues.add(_SPANNING, where)
            if joined is not None and len(row) > 2:
                at = joined or len(row) - 1
                row = [delimiter.join(row[:at]), delimiter.join(row[at:])]
            if len(row) == len(names):
                yield where, dict(zip(names, row, strict=True))
            else:
                issues.add(MALFORMED_LINE, f"{where}: {len(row)} columns, not {len(names)}")
    except csv.Error as error:
        raise SeesayError(f"{file}:{number}: malformed table ({error}).") from error


@contextmanager
def _parquet(file: Path) -> Iterator[Any]:
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


def _parquet_rows(file: Path, columns: Sequence[int]) -> Iterator[Row]:
    row = 0
    with _parquet(file) as parquet:
        names = [parquet.schema_arrow.names[at] for at in columns]
        for batch in parquet.iter_batches(_BATCH, columns=names):
            for cells in batch.to_pylist():
                yield f"{file}: row {row}", {name.strip().lower(): cells[name] for name in names}
                row += 1


def _sheet(file: Path, issues: Issues) -> Iterator[list[Any]]:
    """Iterate over the rows of an Excel file's first sheet; pictures inside are counted as issues."""
    with naming_extras():
        from openpyxl import load_workbook
    try:
        with zipfile.ZipFile(file) as archive:
            check_expansion(file, sum(each.file_size for each in archive.infolist()))
            for name in archive.namelist():
                if name.startswith("xl/media/"):
                    issues.add(PICTURE_IN_SHEET, f"{file}: {name}")
        book = load_workbook(file, read_only=True, data_only=True)
        try:
            for sheet in book.worksheets[1:]:
                if any(cell is not None for row in sheet.iter_rows(values_only=True) for cell in row):
                    issues.add(OTHER_SHEET, f"{file}: {sheet.title}")
            for row in book.worksheets[0].iter_rows(values_only=True):
                yield [cell if cell is None else str(cell) for cell in row]
        finally:
            book.close()
    except SeesayError:
        raise
    except Exception as error:  # openpyxl raises nearly anything on damaged files
        raise SeesayError(f"{file}: damaged, or not an .xlsx file ({first_line(error)}).") from error
