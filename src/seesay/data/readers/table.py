"""CSV, TSV or JSON lines with `image`, `caption` and, where there is one, `split`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seesay.data.corpus import ByteSource, Corpus
from seesay.data.readers._builder import (
    MALFORMED_LINE,
    MISSING_IMAGE,
    REPEATED_ROW,
    CorpusBuilder,
)
from seesay.data.readers._finder import ImageFinder
from seesay.data.readers._splits import canonical_split, split_in_name
from seesay.data.readers._text import parse_json, read_lines, read_text
from seesay.errors import SeesayError

NAME = "table"
LOOKS_LIKE = "CSV, TSV or JSONL with image and caption"
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt")
# The first is ours; the others are what well-known tables call the same column.
_IMAGE = ("image", "image_name", "file_name", "filename", "filepath")
_CAPTION = ("caption", "captions", "sentence", "comment", "text", "title")
_PEEK = 1 << 16


@dataclass(frozen=True, slots=True)
class _Row:
    image: str
    captions: list[str]
    split: str | None
    where: str


def recognises(path: Path) -> bool:
    """A folder with such tables, or one of them."""
    return _is_table(path) if path.is_file() else bool(_tables(path))


def read(path: Path) -> Corpus:
    """Read a table, or a table for each split (`train.csv`, `val.csv`, `test.csv`).

    A row without a split is given one by `seeded_splits`, from the images' names.

    Raises:
        SeesayError: no or several tables, no such columns, an unknown split, or no image left.
    """
    files = [path] if path.is_file() else _tables(path)
    if not files:
        raise SeesayError(f"{path}: no {LOOKS_LIKE} there.")
    splits = [split_in_name(file.stem) for file in files]
    if len(files) > 1 and (None in splits or len(set(splits)) < len(files)):
        names = ", ".join(file.name for file in files)
        raise SeesayError(f"{path}: several tables ({names}), not one for each split; give one's path.")
    root = path if path.is_dir() else path.parent
    builder = CorpusBuilder(root.resolve().name if path.is_dir() else path.stem, root)
    finder = ImageFinder(root, builder.issues)
    sources: dict[str, ByteSource | None] = {}
    seen: set[tuple[str, str]] = set()
    for file, of_file in zip(files, splits, strict=True):
        for row in _rows(file, builder):
            _add(builder, finder, row, of_file if len(files) > 1 else None, sources, seen)
    return builder.finish()


def _add(
    builder: CorpusBuilder,
    finder: ImageFinder,
    row: _Row,
    of_file: str | None,
    sources: dict[str, ByteSource | None],
    seen: set[tuple[str, str]],
) -> None:
    if row.image not in sources:
        sources[row.image] = finder.find(row.image)
        if sources[row.image] is None:
            builder.issues.add(MISSING_IMAGE, f"{row.where} {row.image}")
    source = sources[row.image]
    split = canonical_split(row.split, row.where) if row.split else of_file
    if source is None:
        return
    at = builder.image(row.image, split, source)
    for caption in row.captions:
        if (row.image, caption) in seen:
            builder.issues.add(REPEATED_ROW, row.where)
            continue
        seen.add((row.image, caption))
        builder.sentence(caption, at, row.where)


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _is_table(file) and not file.name.startswith("."))


def _is_table(path: Path) -> bool:
    """Whether the first line has the columns; one that cannot be told is none."""
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        return False
    with path.open("rb") as handle:
        head = handle.read(_PEEK)
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    first = head.decode(encoding, "replace").split("\n", 1)[0].rstrip("\r")
    if path.suffix.lower() == ".jsonl":
        try:
            record = parse_json(first, path)
        except SeesayError:
            return len(head) == _PEEK or "{" in first
        return isinstance(record, dict) and _pick(record, _IMAGE) is not None
    names = next(csv.reader([first], delimiter=_delimiter(first)), [])
    return _columns(names) is not None


def _delimiter(header: str) -> str:
    return max("\t,|;", key=header.count)


def _columns(names: list[str]) -> tuple[int, int, int | None] | None:
    """Positions of image, caption and split in a header, or None without the first two."""
    lowered = {name.strip().lower(): at for at, name in reversed(list(enumerate(names)))}
    image, caption = _pick(lowered, _IMAGE), _pick(lowered, _CAPTION)
    return None if image is None or caption is None else (image, caption, lowered.get("split"))


def _pick(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _rows(file: Path, builder: CorpusBuilder) -> Iterator[_Row]:
    return (_json_rows if file.suffix.lower() == ".jsonl" else _csv_rows)(file, builder)


def _json_rows(file: Path, builder: CorpusBuilder) -> Iterator[_Row]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file}:{number}"
        if not line.strip():
            continue
        try:
            record = parse_json(line, where)
        except SeesayError:
            record = None
        record = record if isinstance(record, dict) else {}
        image, captions, split = _pick(record, _IMAGE), _pick(record, _CAPTION), record.get("split")
        captions = [captions] if isinstance(captions, str) else captions
        texts = isinstance(captions, list) and all(isinstance(text, str) for text in captions)
        if not (isinstance(image, str) and image and texts and isinstance(split, str | None)):
            builder.issues.add(MALFORMED_LINE, where)
            continue
        yield _Row(image, captions, split, where)


def _csv_rows(file: Path, builder: CorpusBuilder) -> Iterator[_Row]:
    text = read_text(file)
    delimiter = _delimiter(text.split("\n", 1)[0])
    # In a TSV a quotation mark is a quotation mark.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter in "\t|" else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    number = 1
    try:
        names = next(reader, [])
        columns = _columns(names)
        if columns is None:
            raise SeesayError(f"{file}:1: columns 'image' and 'caption' are wanted, not {names}.")
        image, caption, split = columns
        number = reader.line_num + 1
        for cells in reader:
            where, number = f"{file}:{number}", reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names) or not cells[image].strip():
                builder.issues.add(MALFORMED_LINE, where)
                continue
            kept = cells[split].strip() or None if split is not None else None
            yield _Row(cells[image].strip(), [cells[caption]], kept, where)
    except csv.Error as error:
        raise SeesayError(f"{file}:{number}: malformed table ({error}).") from error
