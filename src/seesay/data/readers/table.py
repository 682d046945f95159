"""Tables of sentences, with images beside them, inside them (Parquet), or without images."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from seesay.data.corpus import Omission, canonical_split, split_in_name
from seesay.data.features import id_text
from seesay.data.images import MemorySource, content_key
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import MALFORMED_LINE, CorpusBuilder
from seesay.data.readers.table_files import TableFormat, suffix_of, tables_in, without_number
from seesay.data.texts import json_or_none
from seesay.data.walk import walk_files
from seesay.errors import SeesayError

SEVERAL_IN_ONE = "caption with '|', kept as one; give each of several a row or a column"
_NONE = "HTML, an address or a word for an empty cell, which is no caption"
NO_CAPTION = Omission(f"{_NONE}, dropped")
PASSED_OVER = f"{_NONE}, passed over for another column"
# The first name is seesay's; the others are those of well-known tables and of users for the same column.
_IMAGES = (
    "image image_name file_name filename filepath image_path image_file file path img jpg jpeg png images"
)
_CAPTIONS = "caption captions cap sentence sentences comment text txt description title raw"
_IMAGE_COLUMNS = (*_IMAGES.split(), "image src", "photo", "picture", "bild", "foto", "datei", "dateiname")
_CAPTION_COLUMNS = (*_CAPTIONS.split(), "beschreibung", "bildunterschrift", "satz", "name")
_SHOWN = 80  # characters of what is no caption
_NO_CAPTION = re.compile(
    r"\s*(?:#(?:N/?A|NULL!|REF!|VALUE!|NAME\?|DIV/0!|NUM!)|n/?a|-+|\u2013|\u2014|(?:https?://|www\.)\S+)\s*$",
    re.IGNORECASE,
)
_NEXT_ADDRESS = re.compile(r",\s*(?=https?://)")
_QUOTED = r"""(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
_PYTHON_LIST = re.compile(rf"\s*\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED})*\s*\]\s*")
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


def _format(reading: Mapping[str, object]) -> TableFormat:
    named = [str(reading.get(column, "")).strip().lower() for column in ("image_column", "caption_column")]
    return TableFormat(
        (named[0],) if named[0] else _IMAGE_COLUMNS,
        (named[1],) if named[1] else _CAPTION_COLUMNS,
        unless="phrase",
        advice="Name the right ones with --image-column and --caption-column.",
    )


@register_reader
class TableReader(Reader):
    """Reads `image`, `caption` and optionally `split`, or a table for each split (`train.csv`, `val.csv`).

    Several sentences of an image have a row each, or a column each, `caption1` to `captionN`. Flickr30k's are
    distributed with `cap1` to `cap5` and without images (Multi30k): if there are none, images are only names,
    but the sentences can be counted and used for training. Rows without a split get one from `seeded_splits`,
    by the names of their images; a single table called `test` or `val` is that split. Parquet files may be at
    any depth, and hold the images themselves.
    """

    name, names_columns = "table", True
    looks_like = "CSV, TSV, JSON, Excel or Parquet with image and caption, or image and cap1, cap2, …"
    order = 50

    def files(self, path: Path) -> list[Path]:
        return _files(_format({}), path)

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        table = _format(builder.reading)
        # Without any that fits, the error names the columns that there are.
        files = _files(table, path) or tables_in(path) or self.find(path)
        builder.uses(*files)
        names = [file.relative_to(builder.root).with_suffix("").as_posix() for file in files]
        splits = list(map(split_in_name, names))
        if suffix_of(files[0]) != ".parquet":
            if len(files) == 1:  # "test" is a split, "my-test" a trial
                splits = splits if names[0].isalpha() and splits != ["train"] else [None]
            elif None in splits or len(set(splits)) < len(files):
                there = ", ".join(file.name for file in files)
                raise SeesayError(
                    f"{path}: several tables ({there}), which are not named after one split each; give the "
                    "path of one."
                )
        for file, split in zip(files, splits, strict=True):
            _read_table(table, file, split, builder)


def _files(table: TableFormat, path: Path) -> list[Path]:
    """Return the tables that fit: of texts, or else Parquet files at any depth."""
    found = table.files(path)
    if texts := [file for file in found if suffix_of(file) != ".parquet"]:
        return texts
    below = walk_files(path, outside=True) if path.is_dir() else [path]
    return sorted(file for file in below if suffix_of(file) == ".parquet" and table.fits(file))


def _read_table(table: TableFormat, file: Path, split: str | None, builder: CorpusBuilder) -> None:
    names = dict[tuple[str, str], str]()
    for number, (where, row) in enumerate(table.rows(file, builder.issues)):
        named = next(_filled(row, table.columns[0]), {})
        image = next(iter(named.values()), None)
        cells, *others = [*_filled(row, table.columns[1])] or [{}]
        better = next((each for each in others if any(map(_is_caption, each.values()))), None)
        if better and not any(map(_is_caption, cells.values())):
            builder.issues.add(PASSED_OVER, f"{where}: {_shown(*cells.values())}")
            cells = better
        builder.columns.update(name for name, value in {**named, **cells}.items() if value != "")
        captions = list[Any]()
        for cell in cells.values():
            captions += _listed(cell)
        own = ""
        if isinstance(image, dict):  # as the library `datasets` writes it
            own = PurePosixPath(str(image.get("path") or "")).name
            image = image.get("bytes") or own
        if isinstance(image, str | int | float) and not isinstance(image, bool):
            image = id_text(image).strip()
            if image.startswith(("https://", "http://")):  # as shops export them, perhaps several
                with suppress(ValueError):
                    image = urlsplit(_NEXT_ADDRESS.split(image, 1)[0]).path
        captions = captions or [""]  # a cell without anything is an empty sentence in each format
        said = "" if row.get("split") is None else row["split"]
        are_texts = all(isinstance(text, str) for text in (said, *captions))
        if not (isinstance(image, str | bytes) and image and are_texts):
            builder.issues.add(MALFORMED_LINE, where)
            continue
        of_row = canonical_split(said, where) if said.strip() else split
        if isinstance(image, bytes):
            source, key = MemorySource(image), (own, content_key(image))
            below = file.relative_to(builder.root).with_suffix("").as_posix()
            name = f"{below}/{own}"  # other images may have the same name, since it has no folder
            if not own or builder.has(name):
                name = f"{below}/{number:06d}/{own or 'image'}"
            image = names.setdefault(key, name)
            at: int | None = builder.image(image, of_row, source)
        elif row.get("cap1") is not None and not builder.finder.images:
            at = builder.image(image, of_row)
        else:
            at = builder.find_image(image, of_row, where)
        for text in captions:
            if "|" in text:
                builder.issues.add(SEVERAL_IN_ONE, where)
            if _is_caption(text):
                builder.sentence(text, at, where)
            else:
                builder.issues.add(NO_CAPTION, f"{where}: {_shown(text)}")


def _listed(cell: Any) -> list[Any]:
    """Return the sentences of a cell: one or a list, in a CSV as JSON or as pandas writes it; null is ""."""
    listed = cell
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        listed = json_or_none(cell)
        if listed is None and _PYTHON_LIST.fullmatch(cell):
            with suppress(SyntaxError, ValueError):  # of escape sequences
                listed = literal_eval(cell.strip())
    if isinstance(listed, list) and all(isinstance(each, str | None) for each in listed):
        return [each or "" for each in listed]
    return [cell]


def _filled(row: dict[str, Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Iterate over the cells of the columns that are filled in, by name; numbered columns count as one.

    If none is filled in, these are the empty cells of the first.
    """
    groups = list[dict[str, Any]]()
    for name in names:
        columns = [column for column in row if name in (column, without_number(column))]
        groups.append({column: row[column] for column in columns if row[column] is not None})
    filled = [cells for cells in groups if any(value != "" for value in cells.values())]
    yield from filled or list(filter(None, groups))[:1]


def _shown(*cells: object) -> str:
    return " ".join(" ".join(map(str, cells)).split())[:_SHOWN]


def _is_caption(cell: object) -> bool:
    return not isinstance(cell, str) or not (_NO_CAPTION.match(cell) or _TAG.search(cell))
