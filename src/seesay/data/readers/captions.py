"""Sentences alone: a table with `image`, `cap1` to `capN` and optionally `split`; may be gzipped.

Flickr30k's sentences are distributed so (Multi30k). Images are only names: their sentences can be counted and
learned from.
"""

from __future__ import annotations

import re
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.readers.base import CorpusReader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, TableFormat, canonical_split

_TABLE = TableFormat(("image",), ("cap1",))
_CAPTION = re.compile(r"cap\d+")


@register_reader
class CaptionsReader(CorpusReader):
    """Reads every row; a row without a split is given one by `seeded_splits`, from the image's name."""

    name = "captions"
    looks_like = "CSV or TSV with image and cap1, cap2, …, without images"
    order = 50

    def files(self, path: Path) -> list[Path]:
        """Return the tables with such columns."""
        return _TABLE.files(path)

    def read(self, path: Path) -> Corpus:
        """Read the one table."""
        builder = CorpusBuilder(path if path.is_dir() else path.parent)
        for where, row in _TABLE.rows(self.find(path, single=True)[0], builder.issues):
            image, split = row.get("image"), row.get("split")
            texts = [text for column, text in row.items() if _CAPTION.fullmatch(column)]
            if not (
                isinstance(image, str) and image.strip() and all(isinstance(text, str) for text in texts)
            ):
                builder.issues.add(MALFORMED_LINE, where)
                continue
            at = builder.image(image, canonical_split(str(split), where) if split else None)
            for text in texts:
                builder.sentence(text, at, where)
        return builder.finish()
