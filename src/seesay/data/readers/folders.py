"""Folders of images, with their texts beside them or without any.

img2dataset writes pairs such as `0001.jpg` and `0001.txt`, in folders or in the shards of a WebDataset, which
are tar archives. The lines of a `.txt`, `.caption` or `.cap` are sentences; without one, `caption` or
`captions` of a `.json`, which may also have `split`. Otherwise the folder's name gives the split
(`train-0001/`, `test/0/`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath

from seesay.data.corpus import canonical_split, split_in_name
from seesay.data.formats import is_image, unread_kind
from seesay.data.images import PartSource, Source
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import MALFORMED_LINE, OTHER_FILE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.finder import UNREAD_KIND, UNREADABLE
from seesay.data.readers.shards import SHARD, parts_of
from seesay.data.readers.table_files import tables_in
from seesay.data.texts import decode_text, parse_json, read_bytes, split_lines
from seesay.data.walk import walk_files
from seesay.errors import SeesayError

_TEXTS = (".txt", ".caption", ".cap", ".json")
_PEEK = 64  # texts, by which a folder or a shard is recognised
_PEEKED_FILES, _PEEKED_SHARDS = 1024, 4


@register_reader
class PairsReader(Reader):
    """Reads the images below a folder, named by their paths, and the texts of the same names.

    A text belongs to the image whose name it has, with or without the image's suffix, or else to the only
    image that has the same name up to its first dot: `x.outputs.txt` to `x.input.jpg`.

    If no image of the folder has a text, its shards are read, or the shard that the path is, as if they had
    been unpacked beside it.
    """

    name = "pairs"
    looks_like = "images beside texts: 0001.jpg and 0001.txt, .caption, .cap or .json, also in shards (.tar)"
    order = 70

    def recognises(self, path: Path) -> bool:
        files = list(walk_files(path.resolve())) if path.is_dir() else [path]
        shards = (file for file in files if file.suffix.lower() == SHARD)
        return _are_pairs(files, {}) or any(
            _are_pairs(parts, parts) for parts in map(_beginning, islice(shards, _PEEKED_SHARDS))
        )

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        images, files, shards = list[tuple[str, Path, Source]](), list[Path](), [path]
        if path.is_dir():
            finder = builder.finder
            images, shards = [(name, each.path, each) for name, each in finder.images], finder.archives
            files = [*(file for _, file, _ in images), *finder.others]
        parts = {} if _are_pairs(files, {}) else _read_shards(shards, builder)
        if parts:
            names = {file: file.relative_to(builder.root).as_posix() for file in parts if is_image(file)}
            images, files = [(name, file, parts[file]) for file, name in names.items()], list(parts)
        texts_of = _pairs(files)
        for name, file, source in images:
            captions, split = list[str](), split_in_name(str(PurePath(name).parent))
            for text in sorted(texts_of.get(file, []), key=_is_json):
                builder.uses(text)
                try:
                    found, own_split = _read(text, parts)
                except SeesayError as error:
                    builder.issues.add(MALFORMED_LINE, str(error))
                    continue
                split = own_split or split
                captions = captions if captions and _is_json(text) else captions + found
                if not captions:
                    builder.issues.add(MALFORMED_LINE, f"{text}: no caption")
            at = builder.image(name, split, source)
            for caption in captions:
                builder.sentence(caption, at, str(file))
        for text in texts_of.get(None, []):
            if _has_sentences(text, parts):
                builder.uses(text)
                builder.issues.add(UNKNOWN_IMAGE, str(text))


def _read_shards(shards: Iterable[Path], builder: CorpusBuilder) -> dict[Path, PartSource]:
    """Return what is in shards, up to where one is damaged; count what is neither an image nor a text."""
    parts = dict[Path, PartSource]()
    for shard in shards:
        if shard.suffix.lower() != SHARD:
            continue
        builder.uses(shard)
        try:
            for file, part in parts_of(shard):
                if is_image(file) or file.suffix.lower() in _TEXTS:
                    parts[file] = part
                else:
                    builder.issues.add(UNREAD_KIND if unread_kind(file.name) else OTHER_FILE, str(file))
        except SeesayError as error:
            builder.issues.add(UNREADABLE, str(error))
    return parts


def _beginning(shard: Path) -> dict[Path, PartSource]:
    """Return the first files of a shard, up to where it is damaged."""
    parts = dict[Path, PartSource]()
    with suppress(SeesayError):
        parts.update(islice(parts_of(shard), _PEEKED_FILES))
    return parts


def _are_pairs(files: Iterable[Path], parts: Mapping[Path, PartSource]) -> bool:
    """Return True if any of the first texts that have the name of an image has sentences."""
    texts = (text for image, texts in _pairs(files).items() if image is not None for text in texts)
    return any(_has_sentences(text, parts) for text in islice(texts, _PEEK))


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


def _read(text: Path, parts: Mapping[Path, PartSource]) -> tuple[list[str], str | None]:
    """Return the sentences and the split that a text gives an image; raise SeesayError if it is malformed."""
    decoded = decode_text(parts[text].read() if text in parts else read_bytes(text), text)
    if not _is_json(text):
        return [line for line in split_lines(decoded) if line.strip()] or [""], None
    record = parse_json(decoded, text)
    record = record if isinstance(record, dict) else {}
    found, split = record.get("captions") or record.get("caption"), record.get("split")
    found = found if isinstance(found, list) else [found] if found else []
    captions = [each or "" for each in found] if all(isinstance(each, str | None) for each in found) else []
    return captions, canonical_split(split, str(text)) if isinstance(split, str) and split else None


def _has_sentences(text: Path, parts: Mapping[Path, PartSource]) -> bool:
    """Whether a text that has the name of an image is about it; many programs keep notes as JSON."""
    with suppress(SeesayError):
        return not _is_json(text) or bool(_read(text, parts)[0])
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
