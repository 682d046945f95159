"""Flickr30k Entities: `Annotations/<id>.xml`, `Sentences/<id>.txt`, lists `train.txt`, `val.txt`, `test.txt`.

A sentence is written `[/EN#283585/people An older man] plays [/EN#283586/instruments his guitar] .`; the
XML gives the boxes of each entity, in pixels counted from one, the last ones included, or none.
Source: Plummer et al., "Flickr30k Entities", IJCV 2017.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from seesay.data.boxes import MOST_PIXELS, from_inclusive
from seesay.data.corpus import SPLITS, Box, Omission
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import NO_SPLIT_LISTED, CorpusBuilder
from seesay.data.readers.files import read_lines

_MOST_PAIRS = 10_000  # names times boxes of one object; real annotations have a few
BAD_ANNOTATION = Omission("annotation missing, truncated or malformed, image dropped")
NOT_VISUAL = "non-visual phrase, left out"
SCENE_ONLY = "phrase of the whole scene without a box, left out"
NO_BOX = "phrase without a box, left out"
# Takes linear time: "[" begins another phrase, and possessive quantifiers (++) do not backtrack.
_PHRASE = re.compile(r"\[/EN#(?P<entity>[^/\s\[\]]++)/(?P<kinds>[^\s\[]++)\s++(?P<words>[^\[\]]*+)\]")


@dataclass(slots=True)
class _Annotation:
    """The annotation of one image: its size, the boxes of each entity, and the entities that are scenes."""

    frame: tuple[float, float]
    boxes: dict[str, list[Box]] = field(default_factory=dict)
    scenes: set[str] = field(default_factory=set)


class _NoDoctype(ElementTree.TreeBuilder):
    """Rejects document types, and with them entity declarations that expand exponentially."""

    def doctype(self, *_: str | None) -> None:
        """Raise ValueError, before any declaration is read."""
        raise ValueError("a document type declaration")


@register_reader
class Flickr30kEntitiesReader(Reader):
    """Reads the annotations and sentences of a folder."""

    name = "flickr30k-entities"
    looks_like = "Annotations/*.xml and Sentences/*.txt"
    has_boxes = True
    order = 10

    def files(self, path: Path) -> list[Path]:
        return sorted((path / "Sentences").glob("*.txt")) if (path / "Annotations").is_dir() else []

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        lists = ((path / f"{split}.txt", split) for split in SPLITS)
        splits = builder.read_split_lists(lists, lambda name: name.removesuffix(".jpg"))
        for file in self.find(path):
            split = splits.get(file.stem)
            if splits and split is None:
                builder.issues.add(NO_SPLIT_LISTED, file.stem)
            else:
                _read_image(path / "Annotations" / f"{file.stem}.xml", file, split, builder)


def _read_image(annotations: Path, sentences: Path, split: str | None, builder: CorpusBuilder) -> None:
    builder.uses(annotations)
    try:
        annotation = _parse(annotations.read_bytes())
    except (OSError, ValueError, LookupError, ElementTree.ParseError) as error:  # LookupError: bad encoding
        builder.issues.add(BAD_ANNOTATION, f"{annotations}: {error}")
        return
    at = builder.find_image(f"{sentences.stem}.jpg", split, str(sentences), measured=True)
    if at is None:
        return
    for number, line in enumerate(read_lines(sentences)):
        where = f"{sentences}:{number + 1}"
        for match in _PHRASE.finditer(line):
            entity, kinds = match["entity"], tuple(match["kinds"].split("/"))
            boxes = annotation.boxes.get(entity)
            if boxes is None:
                scene = SCENE_ONLY if entity in annotation.scenes else NO_BOX
                builder.issues.add(NOT_VISUAL if "notvisual" in kinds else scene, f"{where} {match['words']}")
                continue
            builder.phrase(match["words"], at, boxes, where, annotation.frame, entity, kinds, number)


def _parse(data: bytes) -> _Annotation:
    root = ElementTree.fromstring(data, parser=ElementTree.XMLParser(target=_NoDoctype()))
    found = _Annotation((_number(root, "size/width"), _number(root, "size/height")))
    if min(found.frame) < 1:
        raise ValueError(f"size {found.frame}")
    for item in root.iter("object"):
        names = [name.text.strip() for name in item.iter("name") if name.text]
        corners_of = list(item.iter("bndbox"))
        if len(names) * len(corners_of) > _MOST_PAIRS:
            raise ValueError(f"an object with {len(names)} names and {len(corners_of)} boxes")
        if item.findtext("scene", "0").strip() == "1":
            found.scenes.update(names)
        for corners in corners_of:
            pixels = [_number(corners, key) for key in ("xmin", "ymin", "xmax", "ymax")]
            box: Box = tuple(from_inclusive([pixels])[0].tolist())
            for name in names:
                found.boxes.setdefault(name, []).append(box)
    return found


def _number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"no <{path}>")
    number = float(text)
    if not abs(number) < MOST_PIXELS:  # also rejects NaN
        raise ValueError(f"<{path}> is {text}")
    return number
