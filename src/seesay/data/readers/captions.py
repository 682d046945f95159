"""Captions as published: Karpathy's split files, COCO's JSON, and the token files of Flickr8k and Flickr30k.

Sources: Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments", CVPR 2015, and its code; Chen et al.,
"Microsoft COCO Captions", arXiv 1504.00325; Hodosh et al., JAIR 47 (2013); Young et al., TACL 2 (2014).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import ClassVar

from seesay.data.corpus import Omission
from seesay.data.features import RegionFiles, find_region_files, id_text, ids_beside
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import NO_SPLIT_LISTED, REPEATED_IMAGE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.files import (
    MALFORMED_LINE,
    canonical_split,
    need,
    need_text,
    read_json,
    read_lines,
    split_in_name,
)
from seesay.errors import SeesayError

SHARED_IMAGE_ID = Omission("id of another image, dropped")
_SPLIT_LIST = re.compile(r"(?:.*[._-])?(train|trn|dev|val|test)(?:_?images?)?\.(?:txt|lst)", re.IGNORECASE)
_TOKEN_LINE = re.compile(r"(?P<key>(?P<name>[^\t]+?)#\d+)\s+(?P<text>.*)|(?P<bare>[^\t]+?#\d+)\s*")
_YEAR = re.compile(r"(20\d\d)")


@register_reader
class KarpathyReader(Reader):
    """Reads `dataset_*.json`, with images in a folder beside it; COCO's `restval` images count as train.

    Features, such as those of bottom-up attention, may be beside it, with or without images. If there are
    several arrays, recipes name the files that they read.
    """

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
        try:  # as one array, if their shapes and images allow it
            features = [RegionFiles(arrays)] if arrays else []
        except SeesayError:
            features = [RegionFiles([array]) for array in arrays]
        for index, record in enumerate(records):
            where = f"{file}: images[{index}]"
            filename, split = need(record, "filename", str, where), need(record, "split", str, where)
            if split == self.skips:
                builder.format = self.name
                continue
            folder = str(record.get("filepath") or "")
            in_folder = f"{folder}/{filename}" if folder else filename
            filename = builder.distinct(filename, folder)
            if builder.has(filename):
                builder.issues.add(REPEATED_IMAGE, f"{where} {filename}")
            rows = []
            for files in features:
                row = files.row(in_folder)
                rows.append(files.row(filename, record.get("cocoid")) if row is None else row)
            at = builder.find_image(
                filename,
                canonical_split(split, where),
                where,
                folder,
                rows[0] if len(rows) == 1 else None,
                described=any(row is not None for row in rows),
            )
            sentences = need(record, "sentences", list, where) if at is not None else []
            for position, sentence in enumerate(sentences):
                spot = f"{where}.sentences[{position}]"
                if isinstance(sentence, dict) and "raw" not in sentence and "tokens" in sentence:
                    text = " ".join(map(str, need(sentence, "tokens", list, spot)))
                else:
                    text = need_text(sentence, "raw", spot)
                identifier = sentence.get("sentid")
                builder.sentence(text, at, spot, identifier if isinstance(identifier, int | str) else None)
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


@register_reader
class CocoReader(Reader):
    """Reads `captions_{train,val}{2014,2017}.json`, one or all of a folder, with images in folders beside it.

    The name of a file gives the split.
    """

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
            _add_file(file, builder)


def _add_file(file: Path, builder: CorpusBuilder) -> None:
    document, split, folder = read_json(file), split_in_name(file.stem), file.stem.removeprefix("captions_")
    position, names = dict[str, int | None](), dict[str, str]()  # by the ids of images
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
    for index, record in enumerate(need(document, "annotations", list, str(file))):
        where = f"{file}: annotations[{index}]"
        key, text = _id(record, "image_id", where), need_text(record, "caption", where)
        identifier = f"{file.stem} {_id(record, 'id', where)}" if "id" in record else f"{file.stem} #{index}"
        if key not in position:
            builder.issues.add(UNKNOWN_IMAGE, f"{where} image_id {key}")
        else:
            builder.sentence(text, position[key], where, identifier)


def _id(record: object, key: str, where: str) -> str:
    """Return an id: an integer in COCO, often text or a float in files that imitate its format."""
    if isinstance(record, dict) and isinstance(record.get(key), str | float):
        return id_text(record[key])
    return id_text(need(record, key, int, where))


@register_reader
class FlickrTokenReader(Reader):
    """Reads `name.jpg#0<tab>sentence`, and lists of the images of each split.

    Flickr8k: `Flickr8k.token.txt`, `Flickr_8k.trainImages.txt`, `.devImages`, `.testImages`. Flickr30k:
    `results_20130124.token`, `train.txt`, `val.txt`, `test.txt`, which may omit `.jpg`.
    """

    name = "flickr-token"
    looks_like = "*.token or *.token.txt with train/dev/test lists"
    order = 30

    def files(self, path: Path) -> list[Path]:
        files = [path] if path.is_file() else _near(path)
        names = (".token", ".token.txt")
        return [f for f in files if f.name.lower().endswith(names) and "lemma" not in f.name.lower()]

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        root = builder.root
        builder.name = root.resolve().name
        lists = ((list_, match[1]) for list_ in _near(root) if (match := _SPLIT_LIST.fullmatch(list_.name)))
        splits = builder.read_split_lists(lists, _stem)
        described: set[str] = set()
        for number, line in enumerate(read_lines(file), start=1):
            where = f"{file}:{number}"
            match = _TOKEN_LINE.fullmatch(line)
            if match is None:
                if line.strip():
                    builder.issues.add(MALFORMED_LINE, where)
                continue
            key = match["key"] or match["bare"]
            name, text = key.rpartition("#")[0], match["text"] or ""
            split = splits.get(_stem(name))
            if split or not splits:
                builder.sentence(text, builder.find_image(name, split, where), where, key)
            elif name not in described:
                builder.issues.add(NO_SPLIT_LISTED, f"{where} {name}")
            described.add(name)
        for stem in sorted(splits.keys() - {_stem(name) for name in described}):
            builder.find_image(f"{stem}.jpg", splits[stem], f"{root}: in the {splits[stem]} list,")


def _near(folder: Path) -> list[Path]:
    """Files of the folder and of the folders in it: Flickr8k's texts are in `Flickr8k_text/`."""
    return sorted(
        path
        for pattern in ("*.txt", "*.lst", "*.token")
        for depth in ("", "*/")
        for path in folder.glob(depth + pattern)
        if path.is_file() and not path.name.startswith(".")
    )


def _stem(name: str) -> str:
    """Return the name as lists and token files share it: lists may omit the suffix."""
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in (".jpg", ".jpeg", ".png") else path.name
