"""Folders of images, with their texts beside them or without any.

img2dataset writes pairs such as `0001.jpg` and `0001.txt`, and so are the unpacked shards of a WebDataset.
The lines of a `.txt`, `.caption` or `.cap` are sentences; without one, `caption` or `captions` of a `.json`,
which may also have `split`. Otherwise the folder's name gives the split (`train-0001/`, `test/0/`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath

from seesay.data.corpus import canonical_split, split_in_name
from seesay.data.formats import is_image
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import MALFORMED_LINE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.table_files import tables_in
from seesay.data.texts import read_json, read_lines
from seesay.data.walk import walk_files
from seesay.errors import SeesayError

_TEXTS = (".txt", ".caption", ".cap", ".json")
_PEEK = 64


@register_reader
class PairsReader(Reader):
    """Reads the images below a folder, named by their paths, and the texts of the same names.

    A text belongs to the image whose name it has, with or without the image's suffix, or else to the only
    image that has the same name up to its first dot: `x.outputs.txt` to `x.input.jpg`.
    """

    name = "pairs"
    looks_like = "images beside texts: 0001.jpg and 0001.txt, .caption, .cap or .json"
    order = 70

    def recognises(self, path: Path) -> bool:
        paired = _pairs(walk_files(path.resolve()) if path.is_dir() else ())
        texts = (text for image, texts in paired.items() if image is not None for text in texts)
        return any(map(_has_sentences, islice(texts, _PEEK)))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if not path.is_dir():
            raise SeesayError(f"{path}: expected a folder of {self.looks_like}.")
        images = builder.finder.images
        texts_of = _pairs([*(source.path for _, source in images), *builder.finder.others])
        for name, source in images:
            captions, split = list[str](), split_in_name(str(PurePath(name).parent))
            for text in sorted(texts_of.get(source.path, []), key=_is_json):
                builder.uses(text)
                try:
                    found, own_split = _read(text)
                except SeesayError as error:
                    builder.issues.add(MALFORMED_LINE, str(error))
                    continue
                split = own_split or split
                captions = captions if captions and _is_json(text) else captions + found
                if not captions:
                    builder.issues.add(MALFORMED_LINE, f"{text}: no caption")
            at = builder.image(name, split, source)
            for caption in captions:
                builder.sentence(caption, at, str(source.path))
        for text in texts_of.get(None, []):
            if _has_sentences(text):
                builder.uses(text)
                builder.issues.add(UNKNOWN_IMAGE, str(text))


def _pairs(files: Iterable[Path]) -> dict[Path | None, list[Path]]:
    """Return the texts of each image, and by None those of no image."""
    named, keyed, texts = dict[Path, Path](), defaultdict[Path, list[Path]](list), list[Path]()
    for file in files:
        if file.suffix.lower() in _TEXTS:
            texts.append(file)
        elif is_image(file):
            named.setdefault(file.with_suffix(""), file)
            named.setdefault(file, file)
            keyed[file.with_name(file.name.partition(".")[0])].append(file)
    texts_of = defaultdict[Path | None, list[Path]](list)
    for text in texts:
        alike = keyed.get(text.with_name(text.name.partition(".")[0]), [])
        texts_of[named.get(text.with_suffix("")) or (alike[0] if len(alike) == 1 else None)].append(text)
    return texts_of


def _is_json(text: Path) -> bool:
    return text.suffix.lower() == ".json"


def _read(text: Path) -> tuple[list[str], str | None]:
    """Return the sentences and the split that a text gives an image; raise SeesayError if it is malformed."""
    if not _is_json(text):
        return [line for line in read_lines(text) if line.strip()] or [""], None
    record = read_json(text)
    record = record if isinstance(record, dict) else {}
    found, split = record.get("captions") or record.get("caption"), record.get("split")
    found = found if isinstance(found, list) else [found] if found else []
    captions = [each or "" for each in found] if all(isinstance(each, str | None) for each in found) else []
    return captions, canonical_split(split, str(text)) if isinstance(split, str) and split else None


def _has_sentences(text: Path) -> bool:
    """Whether a text that has the name of an image is about it; many programs keep notes as JSON."""
    with suppress(SeesayError):
        return not _is_json(text) or bool(_read(text)[0])
    return False


@register_reader
class FolderReader(Reader):
    """Reads images, named by their path below the folder.

    All images are in split `test`: without sentences they cannot be used for training, and commands that only
    look at images read `test` by default.
    """

    name = "folder"
    looks_like = "any images"
    order = 1000

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and not tables_in(path) and any(map(is_image, walk_files(path, outside=True)))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        if not path.is_dir():
            raise SeesayError(f"{path}: expected a folder of images.")
        for name, source in builder.finder.images:
            builder.image(name, "test", source)
