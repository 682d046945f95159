"""CSV, TSV or JSON lines with `image`, `caption` and optionally `split`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.readers.base import CorpusReader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, TableFormat, canonical_split, split_in_name
from seesay.errors import SeesayError

# The first is ours; the others are what well-known tables call the same column.
_IMAGE = ("image", "image_name", "file_name", "filename", "filepath")
_CAPTION = ("caption", "captions", "sentence", "comment", "text", "title")
_TABLE = TableFormat(_IMAGE, _CAPTION, unless="phrase")


@register_reader
class TableReader(CorpusReader):
    """Reads a table, or a table for each split (`train.csv`, `val.csv`, `test.csv`).

    A row without a split is given one by `seeded_splits`, from the names of the images.
    """

    name = "table"
    looks_like = "CSV, TSV or JSONL with image and caption"
    order = 60

    def files(self, path: Path) -> list[Path]:
        """Return the tables with such columns."""
        return _TABLE.files(path)

    def read(self, path: Path) -> Corpus:
        """Read the table or tables."""
        files = self.find(path)
        splits = [split_in_name(file.stem) for file in files] if len(files) > 1 else [None]
        if len(files) > 1 and (None in splits or len(set(splits)) < len(files)):
            names = ", ".join(file.name for file in files)
            raise SeesayError(f"{path}: several tables ({names}), not one for each split; give one's path.")
        builder = CorpusBuilder(path)
        for file, split in zip(files, splits, strict=True):
            for where, row in _TABLE.rows(file, builder.issues):
                _add(builder, row, where, split)
        return builder.finish()


def _add(builder: CorpusBuilder, row: dict[str, Any], where: str, split_of_file: str | None) -> None:
    image, captions, split = _first(row, _IMAGE), _first(row, _CAPTION), row.get("split")
    captions = [captions] if isinstance(captions, str) else captions
    if not (
        isinstance(image, str)
        and image.strip()
        and isinstance(captions, list)
        and all(isinstance(text, str) for text in captions)
        and isinstance(split, str | None)
    ):
        builder.issues.add(MALFORMED_LINE, where)
        return
    split = canonical_split(split, where) if split and split.strip() else split_of_file
    at = builder.find_image(image.strip(), split, where)
    if at is not None:
        for caption in captions:
            builder.sentence(caption, at, where)


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)
