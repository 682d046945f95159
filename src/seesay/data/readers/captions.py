"""Sentences alone: a table with `image`, `cap1` to `capN` and, where there is one, `split`; may be gzipped.

Flickr30k's sentences travel so (Multi30k). The images are names: their words can be counted and learned from.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from pathlib import Path
from typing import Literal

from seesay.data.corpus import Corpus
from seesay.data.readers._builder import MALFORMED_LINE, CorpusBuilder
from seesay.data.readers._splits import canonical_split
from seesay.data.readers._text import decode_text
from seesay.errors import SeesayError

NAME = "captions"
LOOKS_LIKE = "CSV or TSV with image and cap1, cap2, …, its images nowhere"
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PEEK = 1 << 12


def recognises(path: Path) -> bool:
    """Such a table, or a folder with one and no other."""
    return len(_tables(path)) == 1 if path.is_dir() else _is_table(path)


def read(path: Path) -> Corpus:
    """Read every row; a row without a split is given one by `seeded_splits`, from the image's name.

    Raises:
        SeesayError: no or several tables, no such columns, an unknown split, or no row left.
    """
    files = _tables(path) if path.is_dir() else [path]
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise SeesayError(f"{path}: one {LOOKS_LIKE} is wanted there, found {found}.")
    (file,) = files
    root = path if path.is_dir() else path.parent
    builder = CorpusBuilder(root.resolve().name, root)
    header, *lines = _text(file).split("\n")
    delimiter = "\t" if "\t" in header else ","
    names = _cells(header, delimiter)
    sentences = [at for at, name in enumerate(names) if re.fullmatch(r"cap\d+", name)]
    if "image" not in names or not sentences:
        raise SeesayError(f"{file}:1: columns 'image' and 'cap1' are wanted, not {names}.")
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        cells, where = _cells(line, delimiter), f"{file}:{number}"
        if len(cells) != len(names) or not cells[names.index("image")].strip():
            builder.issues.add(MALFORMED_LINE, where)
            continue
        split = cells[names.index("split")] if "split" in names else ""
        at = builder.image(cells[names.index("image")], canonical_split(split, where) if split else None)
        for column in sentences:
            builder.sentence(cells[column], at, where)
    return builder.finish()


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _is_table(file) and not file.name.startswith("."))


def _is_table(path: Path) -> bool:
    """Whether the first line names an image and a first sentence."""
    if not path.name.lower().endswith(_SUFFIXES) or not path.is_file():
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            first = file.read(_PEEK).decode("utf-8-sig", "replace").split("\n", 1)[0]
    except (OSError, EOFError, zlib.error):
        return False
    try:
        names = _cells(first, "\t" if "\t" in first else ",")
    except csv.Error:  # UTF-16, or no text at all: no table of this format
        return False
    return "image" in names and "cap1" in names


def _cells(line: str, delimiter: str) -> list[str]:
    # In a TSV a quotation mark is a quotation mark.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    return next(csv.reader([line.removesuffix("\r")], delimiter=delimiter, quoting=quoting), [])


def _text(file: Path) -> str:
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise SeesayError(f"{file}: cannot be read ({error}).") from error
    return decode_text(data, file)
