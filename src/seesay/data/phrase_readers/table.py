"""CSV, TSV or JSON lines, gzipped or not, with a row for each box: `image`, `phrase`, `x1 y1 x2 y2`.

Further columns that count where they are there:

- `split`: train, val or test; without it images are split 80/10/10.
- `sentence`: which of the image's sentences holds the phrase, from 0; −1 where that is not known.
- `width`, `height`: the size of the image that the boxes were drawn on. Boxes are rescaled to the image at
  hand; without these columns they are its own pixels.
- `origin`: 0 or 1. At 0 coordinates are continuous from zero and x2, y2 exclusive; at 1 they are pixels
  counted from one, x2 and y2 the last ones inside, as Flickr30k Entities has them. Without the column it
  is 1 where `width` and `height` are there (Flickr30k's own table), else 0.
- `size`: how width and height are known. A row with `guess` serves training and is left out elsewhere.
- `chain`: phrases of an image with one value name the same entity. `kind`: people/clothing.

Rows with one image, sentence, phrase and chain are several boxes of one phrase.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from seesay.data.phrase_readers._builder import PhraseBuilder
from seesay.data.phrases import Box, PhraseCorpus
from seesay.data.readers._builder import MALFORMED_LINE
from seesay.data.readers._splits import canonical_split
from seesay.data.readers._text import decode_text, parse_json
from seesay.errors import SeesayError

NAME = "table"
LOOKS_LIKE = "CSV, TSV or JSONL with image, phrase, x1, y1, x2, y2"
GUESSED_SIZE = "box on an image of guessed size outside train, dropped"
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt")
_WANTED = ("image", "phrase", "x1", "y1", "x2", "y2")
_PEEK = 1 << 16


@dataclass(slots=True)
class _Group:
    """The rows of one phrase."""

    where: str
    frame: tuple[float, float] | None
    chain: str | None
    kinds: tuple[str, ...]
    sentence: int | None
    boxes: list[Box] = field(default_factory=list)


def recognises(path: Path) -> bool:
    """A folder with such a table, or one."""
    return _is_table(path) if path.is_file() else bool(_tables(path))


def read(path: Path, images: Path) -> PhraseCorpus:
    """Read a table; its images lie below `images`.

    Raises:
        SeesayError: no or several tables, columns missing, an unknown split, or no phrase left.
    """
    files = [path] if path.is_file() else _tables(path)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise SeesayError(f"{path}: one {LOOKS_LIKE} is wanted, found {names}; give the file's path.")
    file = files[0]
    builder = PhraseBuilder(path.resolve().name.split(".")[0], path, images)
    groups: dict[tuple[str, int | None, str, str | None], _Group] = {}
    for where, record in _records(file, builder):
        _add(record, where, groups, builder)
    for (image, _, phrase, _), g in groups.items():
        builder.phrase(
            phrase, image, g.boxes, g.where, frame=g.frame, chain=g.chain, kinds=g.kinds, sentence=g.sentence
        )
    return builder.finish()


def _add(
    record: Mapping[str, Any],
    where: str,
    groups: dict[tuple[str, int | None, str, str | None], _Group],
    builder: PhraseBuilder,
) -> None:
    try:
        image, phrase = _text(record, "image"), _text(record, "phrase")
        sized = bool(_given(record, "width") or _given(record, "height"))
        frame = (_number(record, "width", 1), _number(record, "height", 1)) if sized else None
        corners = tuple(_number(record, name) for name in ("x1", "y1", "x2", "y2"))
        sentence = int(_number(record, "sentence", -1)) if _given(record, "sentence") else -1
        origin = _origin(record, sized)
    except ValueError as error:
        builder.issues.add(MALFORMED_LINE, f"{where}: {error}")
        return
    split = canonical_split(str(record["split"]), where) if _given(record, "split") else None
    if str(record.get("size")).strip() == "guess" and split != "train":
        builder.issues.add(GUESSED_SIZE, where)
        return
    if not builder.image(image, split, where):
        return
    chain = str(record["chain"]).strip() if _given(record, "chain") else None
    kinds = tuple(kind for kind in str(record.get("kind") or "").strip().split("/") if kind)
    held = sentence if sentence >= 0 else None
    group = groups.setdefault((image, held, phrase, chain), _Group(where, frame, chain, kinds, held))
    group.boxes.append((corners[0] - origin, corners[1] - origin, corners[2], corners[3]))


def _given(record: Mapping[str, Any], name: str) -> bool:
    return record.get(name) is not None and str(record[name]).strip() != ""


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {value!r}, not text")
    return value.strip()


def _number(record: Mapping[str, Any], name: str, least: float = float("-inf")) -> float:
    try:
        value = float(record[name])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name} is {record.get(name)!r}, not a number") from None
    if not isfinite(value) or value < least:
        raise ValueError(f"{name} is {value}")
    return value


def _origin(record: Mapping[str, Any], sized: bool) -> int:
    if not _given(record, "origin"):
        return int(sized)
    origin = _number(record, "origin")
    if origin not in (0, 1):
        raise ValueError(f"origin is {origin}, not 0 or 1")
    return int(origin)


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _is_table(file) and not file.name.startswith("."))


def _is_table(path: Path) -> bool:
    """Whether the first line has the columns; one that cannot be told is none."""
    if not path.is_file() or _suffix(path) not in _SUFFIXES:
        return False
    try:
        first = decode_text(_bytes(path, _PEEK).split(b"\n", 1)[0], path)
        if _suffix(path) == ".jsonl":
            record = parse_json(first, path)
            return isinstance(record, dict) and all(name in record for name in _WANTED)
    except SeesayError:
        return False
    return all(name in _names(first) for name in _WANTED)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return "." + name.rpartition(".")[2]


def _bytes(path: Path, limit: int = -1) -> bytes:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as handle:
            return handle.read(limit)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SeesayError(f"{path}: not a whole gzip file ({error}); copy it again.") from error


def _names(header: str) -> list[str]:
    cells = next(csv.reader([header.rstrip("\r")], delimiter=_delimiter(header)), [])
    return [cell.strip().lower() for cell in cells]


def _delimiter(header: str) -> str:
    return max("\t,|;", key=header.count)


def _records(file: Path, builder: PhraseBuilder) -> Iterator[tuple[str, Mapping[str, Any]]]:
    text = decode_text(_bytes(file), file)
    return (_json_records if _suffix(file) == ".jsonl" else _csv_records)(text, file, builder)


def _json_records(text: str, file: Path, builder: PhraseBuilder) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        where = f"{file}:{number}"
        if not line.strip():
            continue
        try:
            record = parse_json(line, where)
        except SeesayError:
            record = None
        if isinstance(record, dict):
            yield where, record
        else:
            builder.issues.add(MALFORMED_LINE, f"{where}: not a JSON object")


def _csv_records(text: str, file: Path, builder: PhraseBuilder) -> Iterator[tuple[str, Mapping[str, Any]]]:
    header = text.split("\n", 1)[0]
    names = _names(header)
    missing = [name for name in _WANTED if name not in names]
    if missing:
        there = ", ".join(names) if text.strip() else "none, the file is empty"
        raise SeesayError(f"{file}:1: no column {', '.join(missing)}; columns there: {there}.")
    delimiter = _delimiter(header)
    # In a TSV a quotation mark is a quotation mark.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter in "\t|" else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    try:
        next(reader)
        for cells in reader:
            where = f"{file}:{reader.line_num}"
            if len(cells) == len(names):
                yield where, dict(zip(names, cells, strict=True))
            elif any(cell.strip() for cell in cells):
                builder.issues.add(MALFORMED_LINE, f"{where}: {len(cells)} columns, not {len(names)}")
    except csv.Error as error:
        raise SeesayError(f"{file}:{reader.line_num}: malformed table ({error}).") from error
