"""Text, JSON and tables of a corpus, with errors that name the file and line; names of splits."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seesay.data.corpus import Issues, Omission
from seesay.data.suffixes import IMAGE_SUFFIXES
from seesay.data.walk import walk_files
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from _csv import Reader

MALFORMED_LINE = Omission("malformed line, dropped")
# The first name is seesay's; the others are those of well-known tables and of users for the same column.
_IMAGES = "image image_name file_name filename filepath image_path image_file file path img jpg jpeg png"
_CAPTIONS = "caption captions cap sentence sentences comment text txt description title raw"
IMAGE_COLUMNS = (*_IMAGES.split(), "photo", "picture", "bild", "foto", "datei", "dateiname")
CAPTION_COLUMNS = (*_CAPTIONS.split(), "beschreibung", "bildunterschrift", "satz")
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt")
_SPANNING = "row over several lines, kept; is a quotation mark missing?"
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_PEEK = 1 << 16
_TIMES, _MORE = 100, 1 << 20  # a gzip file may expand to this many times its size, plus so many bytes

_IMAGE_CELL = re.compile(rb"^\S+\.(?:jpe?g|png|webp)\"?[\t;|,]", re.IGNORECASE | re.MULTILINE)

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}
_ABSENT = frozenset(("nan", "none", "null"))  # as programs write an empty cell
_SEPARATOR = re.compile(r'"?sep=(?:.)"?\r?\n', re.IGNORECASE)  # the first line of tables for spreadsheets

T = TypeVar("T")


def files_of_suffix(path: Path, suffix: str) -> list[Path]:
    """Return the file, or the files below the folder, with that suffix in any case; sorted."""
    files = [path] if path.is_file() else walk_files(path, outside=True)
    return sorted(file for file in files if file.suffix.lower() == suffix)


def decode_text(data: bytes, where: Path | str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, without the mark; an error names the line.

    Lines may also end in carriage returns alone.
    """
    try:
        return _with_line_feeds(data.decode(_encoding(data)))
    except UnicodeDecodeError as error:
        at = error.start + len(codecs.BOM_UTF8) * data.startswith(codecs.BOM_UTF8)  # counted after it
        line = data[:at].count(b"\n") + 1
        raise SeesayError(
            f"{where}:{line}: byte 0x{data[at]:02x} is not UTF-8; save the file as UTF-8."
        ) from error


def _with_line_feeds(text: str) -> str:
    return text if "\n" in text else text.replace("\r", "\n")


def _encoding(data: bytes) -> str:
    return "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def _read_bytes(path: Path, limit: int = -1) -> bytes:
    try:
        with path.open("rb") as raw, gzip.open(raw) if path.suffix.lower() == ".gz" else raw as file:
            if limit >= 0 or file is raw:
                return file.read(limit)
            most = _MORE + _TIMES * path.stat().st_size
            if len(data := file.read(most + 1)) > most:
                raise SeesayError(
                    f"{path}: expands to over {_TIMES} times its size, far more than text does; unpack it."
                )
            return data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SeesayError(f"{path}: truncated or damaged gzip file ({error}); copy it again.") from error
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error


def read_text(path: Path) -> str:
    """Read a whole text file, gzipped if its name ends in `.gz`; raise SeesayError if it cannot be read."""
    return decode_text(_read_bytes(path), path)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, split at line feeds only.

    `str.splitlines` also splits at form feeds and U+2028, which occur inside sentences and would shift all
    later line numbers.
    """
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def parse_json(text: str, where: Path | str) -> Any:
    """Parse JSON; an error names line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SeesayError(f"{where}:{error.lineno}:{error.colno}: malformed JSON ({error.msg}).") from error
    except ValueError as error:  # Python reads integers of 4,300 digits at most
        raise SeesayError(f"{where}: a number in this JSON has too many digits.") from error
    except RecursionError as error:
        raise SeesayError(f"{where}: JSON is nested too deeply for a corpus.") from error


def read_json(path: Path) -> Any:
    """Read a whole JSON file; raise SeesayError if it cannot be read."""
    return parse_json(read_text(path), path)


def need(record: object, key: str, kind: type[T], where: str) -> T:
    """Return the value of `key` in a JSON object.

    Raises:
        SeesayError: not an object, no such key, or a value of another type.
    """
    if not isinstance(record, Mapping):
        raise SeesayError(f"{where}: expected an object, not {_kind(record)}.")
    if key not in record:
        raise SeesayError(f"{where}: '{key}' is missing.")
    value = record[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SeesayError(f"{where}: '{key}' is {_kind(value)}, not {_KINDS[kind]}.")
    return value


def _kind(value: object) -> str:
    """What JSON calls a value."""
    return _KINDS.get(type(value), "null")


def need_text(record: object, key: str, where: str) -> str:
    """Return a sentence in a JSON object, "" if it is null; raise SeesayError as `need` does."""
    is_null = isinstance(record, Mapping) and key in record and record[key] is None
    return "" if is_null else need(record, key, str, where)


class TableFormat:
    """CSV, TSV, JSON lines or a JSON list of objects, optionally gzipped, with certain columns in lower case.

    Args:
        *columns: the names that each column may have.
        unless: a column that such a table does not have.
        advice: the end of the error message about a missing column.
    """

    def __init__(self, *columns: tuple[str, ...], unless: str = "", advice: str = "") -> None:
        self.columns, self.unless, self.advice = columns, unless, advice

    def fits(self, path: Path) -> bool:
        """Return True if the header or the first record of a file has the columns."""
        name = path.name.lower().removesuffix(".gz")
        if name.startswith(".") or not name.endswith((*_SUFFIXES, ".json")) or not path.is_file():
            return False
        try:
            head = _read_bytes(path, _PEEK)
            text = _table_of(_with_line_feeds(head.decode(_encoding(head), "replace")))
            first = text.split("\n", 1)[0]
            if name.endswith(".json"):
                names = _keys(_first_of(text))
            else:
                names = _keys(parse_json(first, path)) if name.endswith(".jsonl") else _header(first)
        except (SeesayError, csv.Error):
            return False
        return self.unless not in names and not self._missing(names)

    def files(self, path: Path) -> list[Path]:
        """Return the path itself if it fits, or the files in a folder that fit, sorted by name."""
        found = sorted(file for file in ([path] if path.is_file() else path.iterdir()) if self.fits(file))
        # A JSON file may be an export of the table beside it.
        return [file for file in found if not _is_json(file)] or found

    def rows(self, file: Path, issues: Issues) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the rows by column name, each with its place; malformed rows are counted as issues."""
        if file.suffix.lower() in _SPREADSHEETS:
            raise SeesayError(f"{file}: a spreadsheet, which is not read; save it as CSV.")
        whole, records = read_text(file), None
        text = _table_of(whole)
        if _is_json(file):
            listed = parse_json(text, file)
            if not isinstance(listed, list):
                raise SeesayError(f"{file}: {_kind(listed)}, not a list of objects.")
            records = partial(_elements, listed, file)
        elif file.name.lower().removesuffix(".gz").endswith(".jsonl"):
            records = partial(_lines, text, file)
        try:
            names = _header(text.split("\n", 1)[0]) if records is None else _first_keys(records())
        except csv.Error as error:
            raise SeesayError(f"{file}:1: malformed table ({error}).") from error
        if missing := self._missing(names):
            there = ", ".join(names) if text.strip() else "none, the file is empty"
            if any(name.endswith(tuple(IMAGE_SUFFIXES)) for name in names):
                wrong = f"no header but '{there}'; add a first line such as image,caption."
            else:
                wrong = f"no column {', '.join(missing)}; it has the columns {there}."
            raise SeesayError(f"{file}:1: {wrong} {self.advice}".strip())
        if records is not None:
            return _json_rows(records(), issues)
        skipped = whole.count("\n") - text.count("\n")
        return _csv_rows(text, names, names[0] in self.columns[0], file, issues, skipped)

    def _missing(self, names: list[str]) -> list[str]:
        there = {*names, *map(without_number, names)}
        return [column[0] for column in self.columns if there.isdisjoint(column)]


@lru_cache(1024)
def without_number(column: str) -> str:
    """Return the name that numbered columns share: "caption" for "caption1" and "caption_2"."""
    stem = column.rstrip("0123456789")
    return stem[:-1] if stem != column and stem.endswith((" ", "_", "-")) else stem


def tables_in(path: Path) -> list[Path]:
    """Return the path itself if it is a table of any columns, or the tables in a folder, sorted by name."""
    return sorted(file for file in ([path] if path.is_file() else path.iterdir()) if _is_table(file))


def _table_of(text: str) -> str:
    """Return a table without a first line that tells a spreadsheet its delimiter."""
    return text[found.end() :] if (found := _SEPARATOR.match(text)) else text


def _is_table(file: Path) -> bool:
    """Judge by the suffix; a .txt file is a table if a line begins with an image's name and a delimiter."""
    name = file.name.lower().removesuffix(".gz")
    if name.startswith(".") or not name.endswith(_SUFFIXES + _SPREADSHEETS) or not file.is_file():
        return False
    return not name.endswith(".txt") or bool(_IMAGE_CELL.search(_read_bytes(file, _PEEK)))


def _cells(lines: Iterable[str], header: str) -> Reader:
    """Read the cells of lines, split at the delimiter of the header."""
    delimiter = _delimiter(header)
    if delimiter in "\t|":  # in a TSV, quotation marks are text
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=delimiter)


def _delimiter(header: str) -> str:
    return max("\t,|;", key=header.count)


def _header(line: str) -> list[str]:
    """Return the names of the columns; the second "caption" is "caption2"."""
    cells = [cell.strip().lower() for cell in next(_cells([line.rstrip("\r")], line), [])]
    names, taken, numbers = list[str](), set(cells), dict[str, int]()
    for cell in cells:
        name = cell
        while cell in numbers and name in taken:
            numbers[cell] += 1
            name = f"{cell}{numbers[cell]}"
        numbers.setdefault(cell, 1)
        taken.add(name)
        names.append(name)
    return names


def _keys(record: object) -> list[str]:
    if not isinstance(record, dict):
        return []
    return [key.strip().lower() for key in record]


def _first_keys(records: Iterable[tuple[str, object]]) -> list[str]:
    """Return the keys of the first record that is an object."""
    return next((names for _, record in records if (names := _keys(record))), [])


def _is_json(file: Path) -> bool:
    return file.name.lower().removesuffix(".gz").endswith(".json")


def _elements(listed: list[object], file: Path) -> Iterator[tuple[str, object]]:
    """Iterate over the elements of a JSON list, each with its place."""
    return ((f"{file}: [{number}]", record) for number, record in enumerate(listed))


def _lines(text: str, file: Path) -> Iterator[tuple[str, object]]:
    """Iterate over the records of JSON lines, each with its place; a malformed one is None."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            record = None
            with suppress(SeesayError):
                record = parse_json(line, file)
            yield f"{file}:{number}", record


def _first_of(text: str) -> object:
    """Return the first element of a JSON list, whose text may end after it; None for other text."""
    inside = text.lstrip()
    if not inside.startswith("["):
        return None
    try:
        return json.JSONDecoder().raw_decode(inside[1:].lstrip())[0]
    except (ValueError, RecursionError):
        return None


def _json_rows(records: Iterable[tuple[str, object]], issues: Issues) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, record in records:
        issues.rows += 1
        if isinstance(record, dict):
            yield where, {key.strip().lower(): value for key, value in record.items()}
        else:
            issues.leave_out(MALFORMED_LINE, f"{where}: not a JSON object")


def _csv_rows(
    text: str, names: list[str], image_first: bool, file: Path, issues: Issues, skipped: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over rows; of two columns, the one without the image may have unquoted delimiters.

    `skipped` is the number of lines before the header. A cell with a word for "empty" is None.
    """
    header, number = text.split("\n", 1)[0], 1
    reader = _cells(io.StringIO(text, newline=""), header)
    try:
        next(reader, [])
        number = reader.line_num + 1
        for cells in reader:
            where, start, number = f"{file}:{number + skipped}", number, reader.line_num + 1
            if number - start > 1 and any(_delimiter(header) in cell.partition("\n")[2] for cell in cells):
                issues.add(_SPANNING, where)
            if not any(cell.strip() for cell in cells):
                continue
            issues.rows += 1
            if len(cells) > len(names) == 2:
                at = 1 if image_first else len(cells) - 1
                cells = [_delimiter(header).join(part) for part in (cells[:at], cells[at:])]
            if len(cells) == len(names):
                filled = (None if cell.strip().lower() in _ABSENT else cell for cell in cells)
                yield where, dict(zip(names, filled, strict=True))
            else:
                issues.leave_out(MALFORMED_LINE, f"{where}: {len(cells)} columns, not {len(names)}")
    except csv.Error as error:
        raise SeesayError(f"{file}:{number}: malformed table ({error}).") from error


_ALIASES = (
    dict.fromkeys(("train", "training", "trn", "restval"), "train")  # COCO's restval is trained on
    | dict.fromkeys(("val", "valid", "validation", "dev"), "val")
    | dict.fromkeys(("test", "testing"), "test")
)
_WORD = re.compile(r"[a-z]+")


def canonical_split(name: str, where: str) -> str:
    """Return `train`, `val` or `test` for any of the usual names; raise SeesayError for other names."""
    split = _ALIASES.get(name.strip().lower())
    if split is None:
        raise SeesayError(f"{where}: split '{name}' is unknown; use train, val or test.")
    return split


def split_in_name(name: str) -> str | None:
    """Return the split in a file name such as `captions_val2014.json`; None if there is none or several."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    found = {_ALIASES[word] for word in _WORD.findall(spaced) if word in _ALIASES}
    return found.pop() if len(found) == 1 else None


def seeded_splits(names: Iterable[str]) -> dict[str, str]:
    """Split images 80/10/10 by a hash of their names, independently of their order.

    With three or more images, each split has at least one.
    """

    def key(name: str) -> tuple[bytes, str]:
        text = f"0:{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest(), name

    ranked = sorted(set(names), key=key)
    tenth = max(len(ranked) // 10, 1) if len(ranked) >= 3 else 0
    return {
        name: "val" if rank < tenth else "test" if rank < 2 * tenth else "train"
        for rank, name in enumerate(ranked)
    }
