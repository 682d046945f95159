"""Tables of sentences (CSV, TSV or JSON lines, optionally gzipped), with or without images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, TableFormat, canonical_split, split_in_name
from seesay.errors import SeesayError

# The first is ours; the others are what well-known tables call the same column.
_IMAGE = ("image", "image_name", "file_name", "filename", "filepath")
_CAPTION = ("caption", "captions", "sentence", "comment", "text", "title")
_NAME = "name"  # of what an image shows, where a table has no captions
_TABLE = TableFormat(_IMAGE, (*_CAPTION, _NAME), unless="phrase")

_ALONE = TableFormat(("image",), ("cap1",))
_NUMBERED = re.compile(r"cap\d+")


@register_reader
class TableReader(Reader):
    """Reads `image`, `caption` and optionally `split`, or a table for each split (`train.csv`, `val.csv`).

    Rows without a split get one from `seeded_splits`, by the names of their images. A table may say by `name`
    what each image shows instead: "piano" becomes the sentences "piano", "a piano" and "a photo of a piano".
    """

    name = "table"
    looks_like = "CSV, TSV or JSONL with image and caption, or image and name"
    order = 60

    def files(self, path: Path) -> list[Path]:
        return _TABLE.files(path)

    def read(self, path: Path, images: Path | None = None) -> Corpus:
        files = self.find(path)
        splits = [split_in_name(file.stem) for file in files] if len(files) > 1 else [None]
        if len(files) > 1 and (None in splits or len(set(splits)) < len(files)):
            names = ", ".join(file.name for file in files)
            raise SeesayError(
                f"{path}: several tables ({names}), which are not named after splits; give the path of one."
            )
        builder = CorpusBuilder(path, images=images)
        for file, split in zip(files, splits, strict=True):
            for where, row in _TABLE.rows(file, builder.issues):
                captions = _first(row, _CAPTION)
                captions = _sentences_of_name(row.get(_NAME)) if captions is None else captions
                captions = [captions] if isinstance(captions, str) else captions
                if not _well_formed(_first(row, _IMAGE), captions, row.get("split")):
                    builder.issues.add(MALFORMED_LINE, where)
                    continue
                name = row.get("split") or ""
                own = canonical_split(name, where) if name.strip() else split
                at = builder.find_image(_first(row, _IMAGE).strip(), own, where)
                for caption in captions:
                    builder.sentence(caption, at, where)
        return builder.finish()


@register_reader
class CaptionsReader(Reader):
    """Reads a table with `image`, `cap1` to `capN` and optionally `split`: sentences without the images.

    Flickr30k's sentences are distributed in this form (Multi30k). Images are only names, but sentences can be
    counted and learned from.
    """

    name = "captions"
    looks_like = "CSV or TSV with image and cap1, cap2, …, without images"
    order = 50

    def files(self, path: Path) -> list[Path]:
        return _ALONE.files(path)

    def read(self, path: Path, images: Path | None = None) -> Corpus:
        builder = CorpusBuilder(path if path.is_dir() else path.parent, images=images)
        for where, row in _ALONE.rows(self.find(path, single=True)[0], builder.issues):
            image, split = row.get("image") or "", row.get("split")
            texts = [text for column, text in row.items() if _NUMBERED.fullmatch(column)]
            if not _well_formed(image, texts, None):
                builder.issues.add(MALFORMED_LINE, where)
                continue
            at = builder.image(image, canonical_split(str(split), where) if split else None)
            for text in texts:
                builder.sentence(text, at, where)
        return builder.finish()


def _well_formed(image: Any, captions: Any, split: Any) -> bool:
    named = isinstance(image, str) and image.strip() and isinstance(split, str | None)
    return bool(named) and isinstance(captions, list) and all(isinstance(text, str) for text in captions)


def _sentences_of_name(name: Any) -> Any:
    """The name of a thing as somebody might search for it; anything but a name as it is."""
    if not isinstance(name, str) or not name.strip():
        return name
    name = " ".join(name.replace("_", " ").split())
    one = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return [name, one, f"a photo of {one}"]


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)
