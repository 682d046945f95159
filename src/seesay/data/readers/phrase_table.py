"""CSV, TSV, JSON lines or a JSON list, optionally gzipped, with a row for each box.

The columns are `image`, `phrase`, `x1`, `y1`, `x2` and `y2`.

Optional columns:

- `split`: train, val or test; without it, images are split 80/10/10.
- `sentence`: which of the image's sentences contains the phrase, from 0; −1 if unknown.
- `width`, `height`: the size of the image that the boxes were drawn on. Boxes are rescaled to the image
  that is found; without these columns they are in its pixels.
- `origin`: 0 or 1. At 0 coordinates are continuous from zero and x2, y2 exclusive; at 1 they are pixels
  counted from one, x2 and y2 the last ones inside, as in Flickr30k Entities. The default is 1 if `width` and
  `height` are given (Flickr30k's own table), else 0.
- `size`: how width and height are known. A row with `guess` is dropped unless its split is train.
- `chain`: phrases of an image with the same value name the same entity. `kind`: such as people/clothing.

Rows with the same image, sentence, phrase and chain are the boxes of one phrase.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from seesay.data.boxes import MOST_PIXELS, from_inclusive
from seesay.data.corpus import Box
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, canonical_split
from seesay.data.readers.tables import TableFormat

GUESSED_SIZE = "box on an image of guessed size outside train, left out"
_TABLE = TableFormat(("image",), ("phrase",), ("x1",), ("y1",), ("x2",), ("y2",))
_Key = tuple[int, int | None, str, str | None]


@dataclass(slots=True)
class _Group:
    """The rows of one phrase."""

    where: str
    frame: tuple[float, float] | None
    kinds: tuple[str, ...]
    boxes: list[Box] = field(default_factory=list)


@register_reader
class PhraseTableReader(Reader):
    """Reads a table of phrases and boxes."""

    name = "phrase-table"
    looks_like = "CSV, TSV or JSON with image, phrase, x1, y1, x2, y2"
    has_boxes = True
    order = 30

    def files(self, path: Path) -> list[Path]:
        return _TABLE.files(path)

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        groups: dict[_Key, _Group] = {}
        for where, row in _TABLE.rows(file, builder.issues):
            try:
                _add(row, where, groups, builder)
            except ValueError as error:
                builder.issues.leave_out(MALFORMED_LINE, f"{where}: {error}")
        for (image, number, text, chain), group in groups.items():
            builder.phrase(text, image, group.boxes, group.where, group.frame, chain, group.kinds, number)


def _add(row: Mapping[str, Any], where: str, groups: dict[_Key, _Group], builder: CorpusBuilder) -> None:
    """Add a row's box to its phrase, unless its image cannot be used.

    Raises:
        ValueError: the row is malformed.
    """
    image, phrase = _text(row, "image"), _text(row, "phrase")
    sized = _has(row, "width") or _has(row, "height")
    frame = (_pixels(row, "width", 1), _pixels(row, "height", 1)) if sized else None
    corners = [_pixels(row, name) for name in ("x1", "y1", "x2", "y2")]
    number = int(_number(row, "sentence", -1)) if _has(row, "sentence") else -1
    origin = _number(row, "origin") if _has(row, "origin") else int(sized)
    if origin not in (0, 1):
        raise ValueError(f"origin is {origin}, not 0 or 1")
    split = canonical_split(str(row["split"]), where) if _has(row, "split") else None
    if str(row.get("size")).strip() == "guess" and split != "train":
        builder.issues.add(GUESSED_SIZE, where)
    elif (at := builder.find_image(image, split, where, measured=True)) is not None:
        chain = str(row["chain"]).strip() if _has(row, "chain") else None
        kinds = tuple(kind for kind in str(row.get("kind") or "").strip().split("/") if kind)
        key = at, number if number >= 0 else None, phrase, chain
        x1, y1, x2, y2 = from_inclusive([corners])[0].tolist() if origin else corners
        group = groups.setdefault(key, _Group(where, frame, kinds))
        if group.frame != frame:
            raise ValueError("width and height are not those of the phrase's first row")
        group.boxes.append((x1, y1, x2, y2))


def _has(row: Mapping[str, Any], name: str) -> bool:
    return row.get(name) is not None and str(row[name]).strip() != ""


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {_shown(value)}, not text")
    return value.strip()


def _shown(value: object) -> str:
    return "empty" if value is None or value == "" else json.dumps(value, ensure_ascii=False)


def _pixels(row: Mapping[str, Any], name: str, minimum: float = float("-inf")) -> float:
    value = _number(row, name, minimum)
    if abs(value) > MOST_PIXELS:
        raise ValueError(f"{name} is {value:g} pixels")
    return value


def _number(row: Mapping[str, Any], name: str, minimum: float = float("-inf")) -> float:
    try:
        value = float(row[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {_shown(row.get(name))}, not a number") from None
    if not isfinite(value) or value < minimum:
        raise ValueError(f"{name} is {value}")
    return value
