"""Captions as published: by Karpathy, COCO, Flickr8k and Flickr30k, and with the features of VSE++ and SCAN.

Sources: Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments", CVPR 2015, and its code; Chen et al.,
"Microsoft COCO Captions", arXiv 1504.00325; Hodosh et al., JAIR 47 (2013); Young et al., TACL 2 (2014); the
data that Faghri et al. (BMVC 2018) and Lee et al. (ECCV 2018) published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from seesay.data.corpus import Omission, canonical_split, split_in_name
from seesay.data.features import (
    FeatureRows,
    RegionFiles,
    find_region_files,
    id_text,
    ids_beside,
    load_array,
)
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import (
    MALFORMED_LINE,
    NO_SPLIT_LISTED,
    REPEATED_IMAGE,
    UNKNOWN_IMAGE,
    CorpusBuilder,
    explained,
    without_usual_words,
)
from seesay.data.texts import read_json, read_lines
from seesay.errors import SeesayError

SHARED_IMAGE_ID = Omission("id of another image, dropped")
PART_OF_TESTALL = "test_ims.npy skipped: testall_ims.npy contains it"
_SUFFIX = "_ims.npy"
_BLOCK = 1024
_SPLIT_LIST = re.compile(r"(?:.*[._-])?(train|trn|dev|val|test)(?:_?images?)?\.(?:txt|lst)", re.IGNORECASE)
_TOKEN_LINE = re.compile(r"(?P<key>(?P<name>[^\t]+?)#\d+)\s+(?P<text>.*)|(?P<bare>[^\t]+?#\d+)\s*")
_YEAR = re.compile(r"(20\d\d)")
_Id = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(id_text)]
"""An integer in COCO, often text or a float in files that imitate its format."""
M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], file: Path) -> M:
    """Read a JSON file; raise SeesayError if it is not as the model says."""
    document = read_json(file)
    try:
        return model.model_validate(document)
    except ValidationError as failure:
        raise SeesayError(f"{explained(failure, str(file))}.") from failure


def _each(model: type[M], entries: list[Any], where: str, builder: CorpusBuilder) -> Iterator[tuple[str, M]]:
    """Iterate over the entries of a list, each with its place; those that the model rejects are counted."""
    for at, entry in enumerate(entries):
        place = f"{where}[{at}]"
        try:
            yield place, model.model_validate(entry)
        except ValidationError as failure:
            builder.issues.add(MALFORMED_LINE, explained(failure, place))


class _Spoken(BaseModel):
    """A sentence of Karpathy's files; a null text counts as an empty one."""

    raw: str | None = None
    tokens: list[Any] | None = None
    sentid: _Id | None = None


class _Split(BaseModel):
    """An image of Karpathy's files; null instead of its sentences counts as an empty one."""

    filename: str
    split: str
    sentences: list[Any] | None
    filepath: str | None = None
    cocoid: _Id | None = None


class _Dataset(BaseModel):
    images: list[Any]
    dataset: Any = None


@register_reader
class KarpathyReader(Reader):
    """Reads `dataset_*.json`, with images in a folder beside it; COCO's `restval` images count as train.

    Features, such as those of bottom-up attention, may be beside it, with or without images. If there are
    several arrays, recipes name the files that they read.
    """

    name = "karpathy"
    looks_like = "dataset_*.json with images beside it"
    patterns = ("dataset_*.json", "dataset.json")
    order = 10
    skips: ClassVar[str | None] = None  # a split that is not read

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        (file,) = self.find(path, single=True)
        document = _read(_Dataset, file)
        named = (document.dataset, file.stem, builder.root.resolve().name)
        telling = (
            name
            for name in named
            if isinstance(name, str) and (without_usual_words(name) or not name.isascii())
        )
        builder.name = next(telling, file.stem)
        arrays = find_region_files(file.parent)
        builder.uses(*arrays, *map(ids_beside, arrays))
        try:  # as one array, if their shapes and images allow it
            features = [RegionFiles(arrays)] if arrays else []
        except SeesayError:
            features = [RegionFiles([array]) for array in arrays]
        for where, record in _each(_Split, document.images, f"{file}: images", builder):
            folder = record.filepath or ""
            if record.split == self.skips:
                builder.reading["format"] = self.name
                continue
            in_folder = f"{folder}/{record.filename}" if folder else record.filename
            filename = builder.distinct(record.filename, folder)
            if builder.has(filename):
                builder.issues.add(REPEATED_IMAGE, f"{where} {filename}")
            rows = []
            for files in features:
                row = files.row(in_folder)
                rows.append(files.row(filename, record.cocoid) if row is None else row)
            at = builder.find_image(
                filename,
                canonical_split(record.split, where),
                where,
                folder,
                rows[0] if len(rows) == 1 else None,
                described=any(row is not None for row in rows),
            )
            listed = [] if at is None else [{}] if record.sentences is None else record.sentences
            for place, said in _each(_Spoken, listed, f"{where}.sentences", builder):
                text = said.raw or " ".join(map(str, said.tokens or ()))
                builder.sentence(text, at, place, said.sentid)
        if self.skips and "format" not in builder.reading:
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
    patterns = ("annotations/captions_*.json", "captions_*.json")
    order = 20

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


class _Listed(BaseModel):
    id: _Id
    file_name: str


class _Caption(BaseModel):
    image_id: _Id
    caption: str | None
    id: _Id | None = None


class _Captions(BaseModel):
    images: list[Any]
    annotations: list[Any]


def _add_file(file: Path, builder: CorpusBuilder) -> None:
    document, split = _read(_Captions, file), split_in_name(file.stem)
    folder = file.stem.removeprefix("captions_")
    position, names = dict[str, int | None](), dict[str, str]()  # by the ids of images
    for where, record in _each(_Listed, document.images, f"{file}: images", builder):
        name = builder.distinct(record.file_name, folder)
        if names.setdefault(record.id, name) != name:
            builder.issues.add(SHARED_IMAGE_ID, f"{where} {name}: id {record.id}")
            continue
        if record.id in position or builder.has(name):
            builder.issues.add(REPEATED_IMAGE, f"{where} {name}")
        if record.id not in position:
            position[record.id] = builder.find_image(name, split, where, folder)
    for where, said in _each(_Caption, document.annotations, f"{file}: annotations", builder):
        if said.image_id not in position:
            builder.issues.add(UNKNOWN_IMAGE, f"{where} image_id {said.image_id}")
        else:
            identifier = f"{file.stem} {where if said.id is None else said.id}"
            builder.sentence(said.caption or "", position[said.image_id], where, identifier)


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


@register_reader
class PrecompReader(Reader):
    """Reads the features and sentences of every split; images are named `{split}/{row}`, as in their file."""

    name = "precomp"
    looks_like = "{train,dev,test}_ims.npy with *_caps.txt"
    patterns = (f"*{_SUFFIX}",)
    order = 40

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if path.is_file():
            raise SeesayError(f"{path}: expected a folder with {self.looks_like}.")
        files, test = self.find(path), path / f"test{_SUFFIX}"
        if test in files and path / f"testall{_SUFFIX}" in files:
            files.remove(test)
            builder.issues.add(PART_OF_TESTALL, str(test))
        parts = {file: load_array(file) for file in files}
        builder.features = FeatureRows(parts)
        start = 0
        for file, rows in parts.items():
            stem, count = file.name.removesuffix(_SUFFIX), len(rows)
            split = canonical_split("test" if stem == "testall" else stem, str(file))
            captions = file.with_name(f"{stem}_caps.txt")
            builder.uses(captions)
            lines = read_lines(captions)
            each, rest = divmod(len(lines), max(count, 1))
            if rest or bool(each) != bool(count):
                raise SeesayError(
                    f"{captions}: {len(lines)} lines for {count} rows of features; expected one line for "
                    "each row, or the same number for each."
                )
            owners = np.repeat(np.arange(count), each) if each > 1 else _first_rows(rows)
            for number, (line, first) in enumerate(zip(lines, owners.tolist(), strict=True), start=1):
                at = builder.image(f"{stem}/{first}", split, row=start + first)
                builder.sentence(line, at, f"{captions}:{number}")
            start += count


def _first_rows(rows: NDArray[np.generic]) -> NDArray[np.integer]:
    """Return the first row of each row's image, if each row belongs to a sentence.

    In published files, each row is repeated five times; otherwise, each run of equal rows is an image.
    """
    new = np.ones(len(rows), bool)
    for start in range(1, len(rows), _BLOCK):
        block = np.ascontiguousarray(rows[start - 1 : start + _BLOCK]).reshape(-1, rows[0].size)
        same = block.view(np.uint8)  # NaN is equal to itself
        new[start : start + _BLOCK] = (same[1:] != same[:-1]).any(axis=1)
    fives = np.arange(len(rows)) % 5 == 0
    if len(rows) % 5 == 0 and not new[~fives].any():
        new = fives  # two neighbouring images may have equal features
    return np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
