"""COCO captions: `annotations/captions_{train,val}{2014,2017}.json`, images in folders beside it.

Source: Chen et al., "Microsoft COCO Captions", arXiv 1504.00325.
"""

from __future__ import annotations

import re
from pathlib import Path

from seesay.data.corpus import Omission
from seesay.data.features import id_text
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import REPEATED_IMAGE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.files import need, need_text, read_json, split_in_name
from seesay.errors import SeesayError

SHARED_IMAGE_ID = Omission("id of another image, dropped")
_YEAR = re.compile(r"(20\d\d)")


@register_reader
class CocoReader(Reader):
    """Reads one caption file, or all of a folder; the name of a file gives the split."""

    name = "coco"
    looks_like = "annotations/captions_*.json"
    order = 20

    def files(self, path: Path) -> list[Path]:
        if path.is_file():
            return [path] if path.suffix == ".json" and path.name.startswith("captions_") else []
        return sorted([*path.glob("annotations/captions_*.json"), *path.glob("captions_*.json")])

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        files = self.find(path)
        years = {year for file in files for year in _YEAR.findall(file.stem)}
        if len(years) > 1:
            raise SeesayError(
                f"{path}: captions of {' and '.join(sorted(years))}, which are the same images split "
                "differently; keep one year's, or give the path of one file."
            )
        if path.is_file() and builder.root.name == "annotations":
            builder.root = builder.root.parent
        if years:
            builder.name = "coco"  # else it is a corpus of the same format, named after its folder
        for file in files:
            document = read_json(file)
            _add_sentences(document, file, _add_images(document, file, builder), builder)


def _add_images(document: object, file: Path, builder: CorpusBuilder) -> dict[str, int | None]:
    """Add a file's images; return the position of each id, None for missing images."""
    split, folder = split_in_name(file.stem), file.stem.removeprefix("captions_")
    position: dict[str, int | None] = {}
    names: dict[str, str] = {}
    for index, record in enumerate(need(document, "images", list, str(file))):
        where = f"{file}: images[{index}]"
        name, key = need(record, "file_name", str, where), _id(record, "id", where)
        name = builder.distinct(name, folder)
        if names.setdefault(key, name) != name:
            builder.issues.add(SHARED_IMAGE_ID, f"{where} {name}: id {key}")
            continue
        if key in position or builder.has(name):
            builder.issues.add(REPEATED_IMAGE, f"{where} {name}")
        if key not in position:
            position[key] = builder.find_image(name, split, where, folder)
    return position


def _add_sentences(
    document: object, file: Path, position: dict[str, int | None], builder: CorpusBuilder
) -> None:
    for index, record in enumerate(need(document, "annotations", list, str(file))):
        where = f"{file}: annotations[{index}]"
        key, text = _id(record, "image_id", where), need_text(record, "caption", where)
        at = position.get(key)
        if key not in position:
            builder.issues.add(UNKNOWN_IMAGE, f"{where} image_id {key}")
            continue
        identifier = f"{file.stem} {_id(record, 'id', where)}" if "id" in record else f"{file.stem} #{index}"
        if not builder.is_repeated(identifier, text, at, where):
            builder.sentence(text, at, where)


def _id(record: object, key: str, where: str) -> str:
    """Return an id: an integer in COCO, often text or a float in files that imitate its format."""
    if isinstance(record, dict) and isinstance(record.get(key), str | float):
        return id_text(record[key])
    return id_text(need(record, key, int, where))
