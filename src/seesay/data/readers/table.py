"""Tables of sentences, with images beside them, inside them (Parquet), or without images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from seesay.data.corpus import Issues, Omission
from seesay.data.features import id_text
from seesay.data.images import content_key
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder, ReadOptions
from seesay.data.readers.files import MALFORMED_LINE, canonical_split, parse_json, split_in_name
from seesay.data.readers.parquet import ParquetCell
from seesay.data.readers.tables import TableFormat, tables_in, without_number
from seesay.data.walk import walk_files
from seesay.errors import ImageError, SeesayError, UnavailableImageError

SEVERAL_IN_ONE = "caption with '|', kept as one; give each of several a row or a column"
NO_CAPTION = Omission("HTML, an address or a word for an empty cell, which is no caption, dropped")
MOST_COMPARED = 4 << 30
"""The most bytes of a file's images to compare, in addition to 16 times its size: rows can share an image."""
# The first name is seesay's; the others are those of well-known tables and of users for the same column.
_IMAGES = (
    "image image_name file_name filename filepath image_path image_file file path img jpg jpeg png images"
)
_CAPTIONS = "caption captions cap sentence sentences comment text txt description title raw"
_IMAGE_COLUMNS = (*_IMAGES.split(), "image src", "photo", "picture", "bild", "foto", "datei", "dateiname")
_CAPTION_COLUMNS = (*_CAPTIONS.split(), "beschreibung", "bildunterschrift", "satz")
_SHOWN = 80  # characters of what is no caption
_NAME = "name"  # of what an image shows, where a table has no captions
_NO_CAPTION = re.compile(
    r"\s*(?:#(?:N/?A|NULL!|REF!|VALUE!|NAME\?|DIV/0!|NUM!)|n/?a|-+|\u2013|\u2014|(?:https?://|www\.)\S+)\s*$",
    re.IGNORECASE,
)
_NEXT_ADDRESS = re.compile(r",\s*(?=https?://)")
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


def _format(options: ReadOptions = ReadOptions()) -> TableFormat:  # noqa: B008 — immutable
    image, caption = options.image_column, options.caption_column
    return TableFormat(
        (image.strip().lower(),) if image else _IMAGE_COLUMNS,
        (caption.strip().lower(),) if caption else (*_CAPTION_COLUMNS, _NAME),
        unless="phrase",
        advice="Name the right ones with --image-column and --caption-column.",
    )


@register_reader
class TableReader(Reader):
    """Reads `image`, `caption` and optionally `split`, or a table for each split (`train.csv`, `val.csv`).

    Several sentences of an image have a row each, or a column each, `caption1` to `captionN`. Flickr30k's are
    distributed with `cap1` to `cap5` and without images (Multi30k): if there are none, images are only names,
    but the sentences can be counted and used for training. Rows without a split get one from `seeded_splits`,
    by the names of their images. Instead of captions, a table may have a `name` for what each image shows:
    "piano" becomes the sentences "piano", "a piano" and "a photo of a piano".
    """

    name = "table"
    looks_like = "CSV, TSV, JSON or Excel with image and caption, image and cap1, cap2, …, or image and name"
    order = 50

    def files(self, path: Path) -> list[Path]:
        return [file for file in _format().files(path) if file.suffix.lower() != ".parquet"]

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        # Without any that fits, the error names the columns that there are.
        files = _format(builder.options).files(path) or tables_in(path) or self.find(path)
        builder.uses(*files)
        splits = [split_in_name(file.stem) for file in files] if len(files) > 1 else [None]
        if len(files) > 1 and (None in splits or len(set(splits)) < len(files)):
            names = ", ".join(file.name for file in files)
            raise SeesayError(
                f"{path}: several tables ({names}), which are not named after splits; give the path of one."
            )
        for file, split in zip(files, splits, strict=True):
            _read_table(file, split, builder)


@register_reader
class ParquetReader(Reader):
    """Reads one Parquet file, or every one below a folder; the split is a column, or in the file's path."""

    name = "parquet"
    looks_like = "*.parquet with an image and a caption per row"
    order = 75

    def files(self, path: Path) -> list[Path]:
        files = [path] if path.is_file() else walk_files(path, outside=True)
        return sorted(file for file in files if file.suffix.lower() == ".parquet")

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        for file in self.find(path):
            _read_table(file, split_in_name(file.relative_to(builder.root).as_posix()), builder)


def _read_table(file: Path, split: str | None, builder: CorpusBuilder) -> None:
    table, names = _format(builder.options), _Names(file, builder.root)
    for where, row in table.rows(file, builder.issues):
        image, *_ = _values(row, table.columns[0]) or [None]
        captions = _values(row, [column for column in table.columns[1] if column != _NAME])
        if not captions and _NAME in table.columns[1]:
            captions = _values(row, (_NAME,))
            captions = [_sentences_of_name(captions[0])] if len(captions) == 1 else captions
        captions = [text for cell in captions for text in _listed(cell)]
        if isinstance(image, str | int | float) and not isinstance(image, bool):
            image = _file_name(id_text(image))
        if not _well_formed(image, captions, row.get("split")):
            builder.issues.leave_out(MALFORMED_LINE, where)
            continue
        said = row.get("split") or ""
        own = canonical_split(said, where) if said.strip() else split
        if isinstance(image, ParquetCell):
            at: int | None = builder.image(image := names.of(cell := image), own, cell)
        elif row.get("cap1") is not None and builder.finder.is_empty:
            at = builder.image(image, own)
        else:
            at = builder.find_image(image, own, where)
        builder.row([each for each in captions if _is_caption(each, where, builder.issues)], at, image, where)


def _is_caption(text: str, where: str, issues: Issues) -> bool:
    if "|" in text:
        issues.add(SEVERAL_IN_ONE, where)
    if _NO_CAPTION.match(text) or _TAG.search(text):
        issues.add(NO_CAPTION, f"{where}: {' '.join(text.split())[:_SHOWN]}")
        return False
    return True


def _file_name(image: str) -> str:
    """Return the name of an image; of addresses, as shops export them, the path of the first one."""
    image = image.strip()
    with suppress(ValueError):
        if image.startswith(("https://", "http://")):
            return urlsplit(_NEXT_ADDRESS.split(image, 1)[0]).path
    return image


def _listed(cell: Any) -> list[Any]:
    """Return the sentences of a cell, which may be a list of them, also as JSON in a CSV."""
    if isinstance(cell, str) and cell.strip().startswith('["'):
        with suppress(SeesayError):
            cell = parse_json(cell, "")
    return cell if isinstance(cell, list) else [cell]


def _well_formed(image: Any, captions: Any, split: Any) -> bool:
    named = isinstance(image, ParquetCell) or (isinstance(image, str) and image)
    return (
        bool(named and captions)
        and isinstance(split, str | None)
        and isinstance(captions, list)
        and all(isinstance(text, str) for text in captions)
    )


def _sentences_of_name(name: Any) -> Any:
    """The name of a thing as users might search for it; other values are returned unchanged."""
    if not isinstance(name, str) or not name.strip():
        return name
    name = " ".join(name.replace("_", " ").split())
    one = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return [name, one, f"a photo of {one}"]


def _values(row: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """Return the values of the first of these columns that the row has; numbered columns count as one."""
    for name in names:
        columns = [column for column in row if name in (column, without_number(column))]
        if values := [row[column] for column in columns if row[column] is not None]:
            return values
    return []


class _Names:
    """Names the images in a Parquet file, below the file's own name.

    Several rows may have the same image, each with one of its sentences. But images of different folders can
    also have the same name, since the library `datasets` keeps only the last part of their paths. Images with
    the same name are therefore compared by content, and those that differ from the first are named after
    their rows.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self._below = file.relative_to(root).with_suffix("").as_posix()
        self._left = MOST_COMPARED + 16 * file.stat().st_size
        self._first: dict[str, ParquetCell | None] = {}  # None once it was compared
        self._contents: dict[tuple[str, str], str] = {}

    def of(self, cell: ParquetCell) -> str:
        """Return the name of an image, which it shares only with equal images.

        Raises:
            SeesayError: the images with one name are too large to be compared.
            UnavailableImageError: one of them cannot be read now.
        """
        own = cell.own
        row = f"{self._below}/{cell.group:05d}-{cell.row:06d}/{own}".rstrip("/")  # no `own` contains a slash
        if not own:
            return f"{row}/image"
        first = self._first.setdefault(own, cell)
        if first is cell:
            return f"{self._below}/{own}"
        if first is not None:
            self._contents[own, self._content(first)] = f"{self._below}/{own}"
            self._first[own] = None
        return self._contents.setdefault((own, self._content(cell)), row)

    def _content(self, cell: ParquetCell) -> str:
        try:
            data = cell.read()
        except UnavailableImageError:
            raise
        except ImageError:
            return f"{cell.group} {cell.row}"  # an image without content equals no other
        self._left -= len(data)
        if self._left < 0:
            raise SeesayError(
                f"{cell.path}: images of several rows have one name, and are too many to compare; write one "
                "row for each image, with a list of its sentences."
            )
        return content_key(data)
