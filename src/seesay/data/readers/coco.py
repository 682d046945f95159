"""COCO captions: `annotations/captions_{train,val}{2014,2017}.json`, images in folders or tars beside.

Source: Chen et al., "Microsoft COCO Captions", arXiv 1504.00325.
"""

from __future__ import annotations

import re
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.data.readers._builder import (
    MISSING_IMAGE,
    REPEATED_IMAGE,
    REPEATED_ROW,
    UNKNOWN_IMAGE,
    CorpusBuilder,
)
from seesay.data.readers._finder import ImageFinder
from seesay.data.readers._splits import split_in_name
from seesay.data.readers._text import need, read_json
from seesay.errors import SeesayError

NAME = "coco"
LOOKS_LIKE = "annotations/captions_*.json"
_YEAR = re.compile(r"(20\d\d)")


def recognises(path: Path) -> bool:
    """A folder with `annotations/captions_*.json`, or such a file."""
    if path.is_file():
        return path.suffix == ".json" and path.name.startswith("captions_")
    return bool(_files(path))


def read(path: Path) -> Corpus:
    """Read one caption file, or all of a folder; the file's name tells the split.

    Raises:
        SeesayError: annotations of several years, malformed JSON, or no image left.
    """
    files = [path] if path.is_file() else _files(path)
    if not files:
        raise SeesayError(f"{path}: no annotations/captions_*.json there.")
    years = {year for file in files for year in _YEAR.findall(file.stem)}
    if len(years) > 1:
        raise SeesayError(
            f"{path}: captions of {' and '.join(sorted(years))}, which are the same images split "
            "differently; keep one year's, or give the path of one file."
        )
    root = path if path.is_dir() else _root(path)
    builder = CorpusBuilder(f"coco{years.pop() if years else ''}", root)
    finder = ImageFinder(root, builder.issues)
    for file in files:
        _read_file(file, builder, finder)
    return builder.finish()


def _files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("annotations/captions_*.json"), *folder.glob("captions_*.json")])


def _root(file: Path) -> Path:
    return file.parent.parent if file.parent.name == "annotations" else file.parent


def _read_file(file: Path, builder: CorpusBuilder, finder: ImageFinder) -> None:
    document = read_json(file)
    split = split_in_name(file.stem)
    folder = file.stem.removeprefix("captions_")
    position: dict[int | str, int | None] = {}
    for index, record in enumerate(need(document, "images", list, str(file))):
        where = f"{file}: images[{index}]"
        name = need(record, "file_name", str, where)
        key = _identity(record, "id", where)
        if key in position or builder.has(name):
            builder.issues.add(REPEATED_IMAGE, f"{where} {name}")
            position.setdefault(key, builder.image(name, split) if builder.has(name) else None)
        elif (source := finder.find(name, folder)) is None:
            builder.issues.add(MISSING_IMAGE, f"{where} {name}")
            position[key] = None
        else:
            position[key] = builder.image(name, split, source)
    seen: set[int | str] = set()
    for index, record in enumerate(need(document, "annotations", list, str(file))):
        where = f"{file}: annotations[{index}]"
        key = _identity(record, "image_id", where)
        text = need(record, "caption", str, where)
        annotation = _identity(record, "id", where) if "id" in record else f"#{index}"
        at = position.get(key)
        if key not in position:
            builder.issues.add(UNKNOWN_IMAGE, f"{where} image_id {key}")
        elif annotation in seen:
            builder.issues.add(REPEATED_ROW, where)
        elif at is not None:
            builder.sentence(text, at, where)
        seen.add(annotation)


def _identity(record: object, key: str, where: str) -> int | str:
    """COCO's own ids are integers; files made in its image often have strings."""
    if isinstance(record, dict) and isinstance(record.get(key), str):
        return str(record[key])
    return need(record, key, int, where)
