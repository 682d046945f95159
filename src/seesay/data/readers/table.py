"""Tables of sentences: CSV, TSV, JSON lines or a JSON list, optionally gzipped, with or without images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from seesay.data.features import id_text
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder, read_options
from seesay.data.readers.files import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    MALFORMED_LINE,
    TableFormat,
    canonical_split,
    parse_json,
    split_in_name,
    tables_in,
    without_number,
)
from seesay.errors import SeesayError

SEVERAL_IN_ONE = "caption with '|', kept as one; give each of several a row or a column"
_NAME = "name"  # of what an image shows, where a table has no captions


def _format() -> TableFormat:
    _, image, caption = read_options()
    return TableFormat(
        (image.strip().lower(),) if image else IMAGE_COLUMNS,
        (caption.strip().lower(),) if caption else (*CAPTION_COLUMNS, _NAME),
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
    looks_like = "CSV, TSV or JSON with image and caption, image and cap1, cap2, …, or image and name"
    order = 50

    def files(self, path: Path) -> list[Path]:
        return _format().files(path)

    def find(self, path: Path, single: bool = False) -> list[Path]:
        """Return the tables that fit, or else all tables, so that the error names their columns."""
        return self.files(path) or tables_in(path) or super().find(path, single)

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        files = self.find(path)
        splits = [split_in_name(file.stem) for file in files] if len(files) > 1 else [None]
        if len(files) > 1 and (None in splits or len(set(splits)) < len(files)):
            names = ", ".join(file.name for file in files)
            raise SeesayError(
                f"{path}: several tables ({names}), which are not named after splits; give the path of one."
            )
        for file, split in zip(files, splits, strict=True):
            _read_table(file, split, builder)


def _read_table(file: Path, split: str | None, builder: CorpusBuilder) -> None:
    table = _format()
    for where, row in table.rows(file, builder.issues):
        image, *_ = _values(row, table.columns[0]) or [None]
        captions = _values(row, [column for column in table.columns[1] if column != _NAME])
        if not captions and _NAME in table.columns[1]:
            captions = _values(row, (_NAME,))
            captions = [_sentences_of_name(captions[0])] if len(captions) == 1 else captions
        captions = [text for cell in captions for text in _listed(cell)]
        if isinstance(image, str | int | float) and not isinstance(image, bool):
            image = id_text(image)
        if not _well_formed(image, captions, row.get("split")):
            builder.issues.leave_out(MALFORMED_LINE, where)
            continue
        name = row.get("split") or ""
        own = canonical_split(name, where) if name.strip() else split
        if row.get("cap1") is not None and builder.finder.is_empty:
            at: int | None = builder.image(image.strip(), own)
        else:
            at = builder.find_image(image.strip(), own, where)
        for caption in captions:
            if "|" in caption:
                builder.issues.add(SEVERAL_IN_ONE, where)
        builder.row(captions, at, image.strip(), where)


def _listed(cell: Any) -> list[Any]:
    """Return the sentences of a cell, which may be a list of them, also as JSON in a CSV."""
    if isinstance(cell, str) and cell.strip().startswith('["'):
        with suppress(SeesayError):
            cell = parse_json(cell, "")
    return cell if isinstance(cell, list) else [cell]


def _well_formed(image: Any, captions: Any, split: Any) -> bool:
    named = isinstance(image, str) and image.strip() and isinstance(split, str | None)
    return (
        bool(named and captions)
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
