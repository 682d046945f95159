"""RefCOCO-style JSON: `instances.json` as in COCO, and `refs.json` with the phrases of its annotations.

A ref is `{"ann_id": …, "image_id": …, "split": "train", "sentences": [{"sent": "the red ball"}, …]}`; refs
published as a Python pickle must be converted to JSON first, because a pickle can run any code.
Source: Kazemzadeh et al., EMNLP 2014; Yu et al., "Modeling Context in Referring Expressions", ECCV 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seesay.data.boxes import MOST_PIXELS
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import CorpusBuilder
from seesay.data.readers.files import canonical_split, need, read_json
from seesay.errors import SeesayError

Record = Mapping[str, Any]
UNKNOWN_ANNOTATION = "phrase of an unknown annotation or image, dropped"
_TESTS = ("testa", "testb", "testc")  # people, other things, and RefClef's third; all are test splits


@register_reader
class RefCocoReader(Reader):
    """Reads the refs of a folder; the `kinds` of a phrase are the category of its annotation."""

    name = "refcoco"
    looks_like = "instances.json and refs.json"
    has_boxes = True
    order = 20

    def files(self, path: Path) -> list[Path]:
        pairs = [sorted(path.glob(f"{stem}*.json")) for stem in ("instances", "refs")]
        return [file for files in pairs for file in files] if all(pairs) else []

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        files = self.find(path)
        if len(files) != 2:
            names = ", ".join(file.name for file in files)
            raise SeesayError(f"{path}: expected a folder with one {self.looks_like}, found {names}.")
        instances, refs = files
        document = read_json(instances)
        pictures = _by_id(document, "images", instances)
        annotations = _by_id(document, "annotations", instances)
        categories = _by_id(document, "categories", instances) if "categories" in document else {}
        records = read_json(refs)
        if not isinstance(records, list):
            raise SeesayError(f"{refs}: expected a list of refs, not {type(records).__name__}.")
        for index, record in enumerate(records):
            where = f"{refs}: [{index}]"
            annotation = annotations.get(need(record, "ann_id", int, where))
            picture = pictures.get(_id(annotation, "image_id")) if annotation else None
            if annotation is None or picture is None:
                builder.issues.add(UNKNOWN_ANNOTATION, where)
                continue
            category = categories.get(_id(annotation, "category_id"), {}).get("name")
            _add(record, annotation, picture, (str(category),) if category else (), where, builder)


def _add(
    record: Record,
    annotation: Record,
    picture: Record,
    kinds: tuple[str, ...],
    where: str,
    builder: CorpusBuilder,
) -> None:
    name = need(picture, "file_name", str, where)
    image = builder.find_image(name, _split(record.get("split"), where), where, measured=True)
    if image is None:
        return
    frame = _frame(picture, where)
    box, chain = _box(annotation, where), f"annotation-{annotation['id']}"
    for sentence in need(record, "sentences", list, where):
        text = sentence if isinstance(sentence, str) else need(sentence, "sent", str, where)
        builder.phrase(text, image, [box], where, frame=frame, chain=chain, kinds=kinds)


def _box(annotation: Record, where: str) -> tuple[float, float, float, float]:
    """Convert COCO's x, y, width and height, from zero, to corners."""
    numbers = need(annotation, "bbox", list, where)
    if len(numbers) != 4 or not all(map(_is_number, numbers)):
        raise SeesayError(f"{where}: 'bbox' is {numbers}, not four numbers.")
    x, y, width, height = numbers
    return x, y, x + width, y + height


def _frame(picture: Record, where: str) -> tuple[float, float] | None:
    """Return the size of the image that the boxes were drawn on; None if it is not given."""
    sides: list[Any] = [picture.get("width"), picture.get("height")]
    if sides == [None, None]:
        return None
    if not all(_is_number(side) and side >= 1 for side in sides):
        raise SeesayError(f"{where}: the width and height of its image are {sides[0]} and {sides[1]}.")
    return float(sides[0]), float(sides[1])


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < MOST_PIXELS  # also rejects NaN


def _split(name: object, where: str) -> str | None:
    if not isinstance(name, str) or not name:
        return None
    return "test" if name.lower() in _TESTS else canonical_split(name, where)


def _id(record: Record, key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) else None


def _by_id(document: object, key: str, file: Path) -> dict[Any, Record]:
    records = need(document, key, list, str(file))
    return {need(r, "id", int, f"{file}: {key}[{i}]"): r for i, r in enumerate(records)}
