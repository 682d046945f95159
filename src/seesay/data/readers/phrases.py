"""Phrases with boxes: Flickr30k Entities (Plummer et al., IJCV 2017), and tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seesay.data.boxes import MOST_PIXELS, from_inclusive
from seesay.data.corpus import SPLITS, Box, Omission, canonical_split
from seesay.data.features import has_box_files
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import MALFORMED_LINE, NO_SPLIT_LISTED, CorpusBuilder, explained
from seesay.data.readers.table_files import TableFormat
from seesay.data.texts import read_lines

_MOST_PAIRS = 10_000  # names times boxes of one object; real annotations have a few
BAD_ANNOTATION = Omission("annotation missing, truncated or malformed, image dropped")
NOT_VISUAL = "non-visual phrase, left out"
NO_BOX = "phrase without a box, left out"
# Takes linear time: "[" begins another phrase, and possessive quantifiers (++) do not backtrack.
_PHRASE = re.compile(r"\[/EN#(?P<entity>[^/\s\[\]]++)/(?P<kinds>[^\s\[]++)\s++(?P<words>[^\[\]]*+)\]")
GUESSED_SIZE = "box on an image of guessed size outside train, left out"
_TABLE = TableFormat(("image",), ("phrase",), ("x1",), ("y1",), ("x2",), ("y2",))
_Key = tuple[int, int | None, str, str | None, tuple[float, float] | None]


class _NoDoctype(ElementTree.TreeBuilder):
    """Rejects document types, and with them entity declarations that expand exponentially."""

    def doctype(self, *_: str | None) -> None:
        """Raise ValueError, before any declaration is read."""
        raise ValueError("a document type declaration")


@register_reader
class Flickr30kEntitiesReader(Reader):
    """Reads `Annotations/<id>.xml`, `Sentences/<id>.txt`, and lists `train.txt`, `val.txt`, `test.txt`.

    A sentence is written `[/EN#283585/people An older man] plays [/EN#283586/instruments his guitar] .`; the
    XML gives the boxes of each entity, in pixels counted from one, the last ones included, or none.
    """

    name = "flickr30k-entities"
    looks_like = "Annotations/*.xml and Sentences/*.txt"
    has_boxes = True
    order = 10

    def files(self, path: Path) -> list[Path]:
        return sorted((path / "Sentences").glob("*.txt")) if (path / "Annotations").is_dir() else []

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        builder.name = self.name  # only this corpus has such files, whatever their folder is called
        lists = ((path / f"{split}.txt", split) for split in SPLITS)
        described = has_box_files(path)
        splits = builder.read_split_lists(lists, lambda name: name.removesuffix(".jpg"))
        for file in self.find(path):
            split = splits.get(file.stem)
            if splits and split is None:
                builder.issues.add(NO_SPLIT_LISTED, file.stem)
                continue
            annotations = path / "Annotations" / f"{file.stem}.xml"
            builder.uses(annotations)
            try:
                frame, boxes_of = _parse(annotations.read_bytes())
            except (OSError, ValueError, LookupError, ElementTree.ParseError) as error:  # or an encoding
                builder.issues.add(BAD_ANNOTATION, f"{annotations}: {error}")
                continue
            name, stated = f"{file.stem}.jpg", (round(frame[0]), round(frame[1]))
            at = builder.find_image(name, split, str(file), measured=True, described=described, size=stated)
            if at is None:
                continue
            for number, line in enumerate(read_lines(file)):
                where = f"{file}:{number + 1}"
                for match in _PHRASE.finditer(line):
                    text, entity, kinds = match["words"], match["entity"], tuple(match["kinds"].split("/"))
                    if entity in boxes_of:
                        builder.phrase(text, at, boxes_of[entity], where, frame, entity, kinds, number)
                    else:
                        kind = NOT_VISUAL if "notvisual" in kinds else NO_BOX
                        builder.issues.add(kind, f"{where} {text}")


def _parse(data: bytes) -> tuple[tuple[float, float], dict[str, list[Box]]]:
    """Return the size of the image, and the boxes of each entity."""
    root = ElementTree.fromstring(data, parser=ElementTree.XMLParser(target=_NoDoctype()))
    frame, boxes = (_number(root, "size/width"), _number(root, "size/height")), dict[str, list[Box]]()
    if min(frame) < 1:
        raise ValueError(f"size {frame}")
    for item in root.iter("object"):
        names = [name.text.strip() for name in item.iter("name") if name.text]
        corners_of = list(item.iter("bndbox"))
        if len(names) * len(corners_of) > _MOST_PAIRS:
            raise ValueError(f"an object with {len(names)} names and {len(corners_of)} boxes")
        for corners in corners_of:
            pixels = [_number(corners, key) for key in ("xmin", "ymin", "xmax", "ymax")]
            box: Box = tuple(from_inclusive([pixels])[0].tolist())
            for name in names:
                boxes.setdefault(name, []).append(box)
    return frame, boxes


def _number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path, "")
    if not abs(float(text or "nan")) < MOST_PIXELS:  # also rejects NaN
        raise ValueError(f"<{path}> is '{text}'")
    return float(text)


_Pixels = Annotated[float, Field(ge=-MOST_PIXELS, le=MOST_PIXELS)]
_Side = Annotated[float, Field(ge=1, le=MOST_PIXELS)]


class _Row(BaseModel):
    """A row of a table, without its empty cells."""

    model_config = ConfigDict(str_strip_whitespace=True, coerce_numbers_to_str=True)

    image: str
    phrase: str
    x1: _Pixels
    y1: _Pixels
    x2: _Pixels
    y2: _Pixels
    split: str | None = None
    sentence: int = -1
    width: _Side | None = None
    height: _Side | None = None
    origin: Annotated[int, Field(ge=0, le=1)] | None = None
    size: str = ""
    chain: str | None = None
    kind: str = ""


@register_reader
class PhraseTableReader(Reader):
    """Reads a table of any kind with a row for each box.

    The columns are `image`, `phrase`, `x1`, `y1`, `x2` and `y2`.

    Optional columns:

    - `split`: train, val or test; without it, images are split 80/10/10.
    - `sentence`: which of the image's sentences contains the phrase, from 0; −1 if unknown.
    - `width`, `height`: the size of the image that the boxes were drawn on. Boxes are rescaled to the image
      that is found; without these columns they are in its pixels.
    - `origin`: 0 or 1. At 0 coordinates are continuous from zero and x2, y2 exclusive; at 1 they are pixels
      counted from one, x2 and y2 the last ones inside, as in Flickr30k Entities. The default is 1 if `width`
      and `height` are given (Flickr30k's own table), else 0.
    - `size`: how width and height are known. A row with `guess` is dropped unless its split is train.
    - `chain`: phrases of an image with the same value name the same entity. `kind`: such as people/clothing.

    Rows with the same image, sentence, phrase and chain are the boxes of one phrase.
    """

    name = "phrase-table"
    looks_like = "table with image, phrase, x1, y1, x2, y2"
    has_boxes = True
    order = 30

    def files(self, path: Path) -> list[Path]:
        return _TABLE.files(path)

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        groups = dict[_Key, tuple[str, tuple[str, ...], list[Box]]]()
        for where, cells in _TABLE.rows(file, builder.issues):
            filled = {name: cell for name, cell in cells.items() if str("" if cell is None else cell).strip()}
            try:
                row = _Row.model_validate(filled)
            except ValidationError as error:
                builder.issues.add(MALFORMED_LINE, explained(error, where))
                continue
            split = canonical_split(row.split, where) if row.split else None
            if row.size == "guess" and split != "train":
                builder.issues.add(GUESSED_SIZE, where)
            elif (at := builder.find_image(row.image, split, where, measured=True)) is not None:
                frame = (row.width, row.height) if row.width and row.height else None
                box: Box = (row.x1, row.y1, row.x2, row.y2)
                if row.origin or (row.origin is None and frame):
                    box = tuple(from_inclusive([box])[0].tolist())
                number = row.sentence if row.sentence >= 0 else None
                kinds = tuple(filter(None, row.kind.split("/")))
                key = at, number, row.phrase, row.chain, frame
                groups.setdefault(key, (where, kinds, []))[2].append(box)
        for (image, number, text, chain, frame), (where, kinds, boxes) in groups.items():
            builder.phrase(text, image, boxes, where, frame, chain, kinds, number)
