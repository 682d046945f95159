"""Karpathy's split files: `dataset_*.json`, images in a folder beside it.

Features, such as those of bottom-up attention, may be beside it, with or without images. If there are several
arrays, recipes name the files that they read.

Source: Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments", CVPR 2015, and its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from seesay.data.features import RegionFiles, find_region_files, ids_beside, open_region_files
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import REPEATED_IMAGE, CorpusBuilder
from seesay.data.readers.files import canonical_split, need, need_text, read_json
from seesay.errors import SeesayError


@register_reader
class KarpathyReader(Reader):
    """Reads a split file; COCO's `restval` images count as train."""

    name = "karpathy"
    looks_like = "dataset_*.json with images beside it"
    order = 10
    skips: ClassVar[str | None] = None  # a split that is not read

    def files(self, path: Path) -> list[Path]:
        if path.is_file():
            return [path] if path.suffix == ".json" and path.name.startswith("dataset") else []
        return sorted([*path.glob("dataset_*.json"), *path.glob("dataset.json")])

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        document = read_json(file)
        records = need(document, "images", list, str(file))
        name = document.get("dataset")
        builder.name = name if isinstance(name, str) else file.stem
        arrays = find_region_files(file.parent)
        builder.uses(*arrays, *map(ids_beside, arrays))
        features = open_region_files(arrays)
        for index, record in enumerate(records):
            where = f"{file}: images[{index}]"
            if self.skips and need(record, "split", str, where) == self.skips:
                builder.format = self.name
                continue
            at = _add_image(builder, record, where, features)
            if at is not None:
                _add_sentences(builder, at, record, where)
        if self.skips and builder.format is None:
            raise SeesayError(
                f"{file}: has no {self.skips} images to leave out; leave out the format instead."
            )
        builder.features = features[0].features if len(features) == 1 else None


@register_reader
class WithoutRestval(KarpathyReader):
    """Reads COCO's split file without its `restval` images: 82,783 train images, as in SCO, not 113,287."""

    name = "karpathy-without-restval"
    looks_like = "dataset_coco.json with images beside it, if you name this format"
    skips = "restval"

    def recognises(self, path: Path) -> bool:  # noqa: ARG002 — only read if it is named
        return False


def _add_image(
    builder: CorpusBuilder, record: Any, where: str, features: Sequence[RegionFiles]
) -> int | None:
    """Add an image; return its position, or None if it is missing."""
    filename = need(record, "filename", str, where)
    folder = str(record.get("filepath") or "")
    in_folder = f"{folder}/{filename}" if folder else filename
    filename = builder.distinct(filename, folder)
    split = canonical_split(need(record, "split", str, where), where)
    if builder.has(filename):
        builder.issues.add(REPEATED_IMAGE, f"{where} {filename}")
    rows = []
    for files in features:
        row = files.row(in_folder)
        rows.append(files.row(filename, record.get("cocoid")) if row is None else row)
    row = rows[0] if len(rows) == 1 else None
    described = any(each is not None for each in rows)
    return builder.find_image(filename, split, where, folder, row, described=described)


def _add_sentences(builder: CorpusBuilder, at: int, record: object, where: str) -> None:
    for position, sentence in enumerate(need(record, "sentences", list, where)):
        spot = f"{where}.sentences[{position}]"
        if isinstance(sentence, dict) and "raw" not in sentence and "tokens" in sentence:
            text = " ".join(map(str, need(sentence, "tokens", list, spot)))
        else:
            text = need_text(sentence, "raw", spot)
        identifier = sentence.get("sentid")
        if not isinstance(identifier, int | str) or not builder.is_repeated(identifier, text, at, spot):
            builder.sentence(text, at, spot)
