"""Folders of images, with their texts beside them or without any.

img2dataset writes pairs such as `0001.jpg` and `0001.txt`, in folders or in the shards of a WebDataset, which
are tar archives. The lines of a `.txt`, `.caption` or `.cap` are sentences; without one, `caption` or
`captions` of a `.json`, which may also have `split`. Otherwise the folder's name gives the split
(`train-0001/`, `test/0/`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePath

from seesay.data.corpus import Issues, canonical_split, split_in_name
from seesay.data.formats import IMAGE_SUFFIXES, SIGNATURE_BYTES, format_of, is_image, unread_kind
from seesay.data.images import FileSource, Source, TarSource
from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import MALFORMED_LINE, OTHER_FILE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.finder import UNREAD_KIND, UNREAD_SHARD, UNREADABLE
from seesay.data.readers.shards import SHARD, members_of
from seesay.data.readers.table_files import tables_in
from seesay.data.texts import decode_text, parse_json, split_lines
from seesay.data.walk import LINK_OUT, walk_files
from seesay.errors import SeesayError

_TEXTS = (".txt", ".caption", ".cap", ".json")
_PEEK = 64  # texts, by which a folder or a shard is recognised


@register_reader
class PairsReader(Reader):
    """Reads the images below a folder, named by their paths, and the texts of the same names.

    A text belongs to the image whose name it has, with or without the image's suffix, or else to the only
    image that has the same name up to its first dot: `x.outputs.txt` to `x.input.jpg`.

    If no image of the folder has a text, its shards are read, or the shard that the path is: each image is
    named as if the shard had been unpacked beside it.
    """

    name = "pairs"
    looks_like = "images beside texts: 0001.jpg and 0001.txt, .caption, .cap or .json, also in shards (.tar)"
    order = 70

    def recognises(self, path: Path) -> bool:
        below, linked = [path], list[Path]()

        def left_out(file: Path, reason: str, _unread: bool) -> None:
            if reason == LINK_OUT and os.path.isfile(file):  # noqa: PTH113 — which never raises
                linked.append(file)  # so that the corpus is recognised, and says that it does not follow it

        if path.is_dir():
            below = [*walk_files(path.resolve(), left_out), *linked]
        files = {file: FileSource(file) for file in below if _is_text(file) or is_image(file)}
        return _are_pairs(files) or any(_are_pairs(_in_shards([file])) for file in below)

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        files, shards, root = dict[Path, Source](), [path], builder.root
        if path.is_dir():
            finder = builder.finder
            shards, root = finder.archives, finder.root
            files.update((image.path, image) for _, image in finder.images)
            files.update((file, FileSource(file)) for file in finder.others if _is_text(file))
        if not _are_pairs(files):
            files |= _in_shards(shards, builder)
        else:
            for shard in shards:
                if not shard.with_suffix("").is_dir() and _are_pairs(_in_shards([shard])):
                    builder.uses(shard)
                    builder.issues.add(UNREAD_SHARD, str(shard))
        if not (files or path.is_dir()):
            raise SeesayError(f"{path}: expected {self.looks_like}.")
        _add_pairs(files, root, builder)


def _is_text(file: Path) -> bool:
    return file.suffix.lower() in _TEXTS


def _in_shards(archives: Iterable[Path], builder: CorpusBuilder | None = None) -> dict[Path, Source]:
    """Return the images and texts in shards, up to where one is damaged; a builder counts everything else.

    Of several files of one name, the last is taken, as it would be left by unpacking them.
    """
    files, issues = dict[Path, Source](), builder.issues if builder is not None else Issues()
    for shard in (archive for archive in archives if archive.suffix.lower() == SHARD):
        if builder is not None:
            builder.uses(shard)
        try:
            for file, part in members_of(shard):
                if part is None:
                    issues.add(UNREADABLE, f"{shard}: {file.name}: a link, or no plain file")
                elif not (_is_text(file) or _is_image_in(file, part)):
                    issues.add(UNREAD_KIND if unread_kind(file.name) else OTHER_FILE, str(part))
                else:
                    if file in files:
                        issues.add(OTHER_FILE, f"{files[file]}, of which there are several")
                    files[file] = part
        except SeesayError as error:
            issues.add(UNREADABLE, str(error))
    return files


def _is_image_in(file: Path, part: TarSource) -> bool:
    """Return what `is_image` does, of a file in a shard."""
    if suffix := file.suffix.lower():
        return suffix in IMAGE_SUFFIXES
    return format_of(replace(part, size=min(part.size, SIGNATURE_BYTES)).read()) is not None


def _add_pairs(files: Mapping[Path, Source], root: Path, builder: CorpusBuilder) -> None:
    """Add images, named by their paths below the root, and their texts."""
    texts_of = _pairs(files)
    for file, source in files.items():
        if _is_text(file):
            continue
        name, captions = file.relative_to(root).as_posix(), list[str]()
        split = split_in_name(str(PurePath(name).parent))
        for text in sorted(texts_of.get(file, []), key=_is_json):
            builder.uses(text)
            try:
                found, own_split = _read(text, files[text])
            except SeesayError as error:
                builder.issues.add(MALFORMED_LINE, str(error))
                continue
            split = own_split or split
            captions = captions if captions and _is_json(text) else captions + found
            if not captions:
                builder.issues.add(MALFORMED_LINE, f"{files[text]}: no caption")
        at = builder.image(name, split, source)
        for caption in captions:
            builder.sentence(caption, at, str(source))
    for text in texts_of.get(None, []):
        if _has_sentences(text, files[text]):
            builder.uses(text)
            builder.issues.add(UNKNOWN_IMAGE, str(files[text]))


def _are_pairs(files: Mapping[Path, Source]) -> bool:
    """Return True if any of the first texts that have the name of an image has sentences."""
    texts = (text for image, texts in _pairs(files).items() if image is not None for text in texts)
    return any(_has_sentences(text, files[text]) for text in islice(texts, _PEEK))


def _pairs(files: Iterable[Path]) -> dict[Path | None, list[Path]]:
    """Return the texts of each image, and by None those of no image; files are one or the other."""
    named, keyed, texts = dict[Path, Path](), defaultdict[tuple[Path, str], list[Path]](list), list[Path]()
    for file in files:
        if _is_text(file):
            texts.append(file)
        else:
            named.setdefault(file.with_suffix(""), file)
            named.setdefault(file, file)
            keyed[file.parent, file.name.partition(".")[0]].append(file)
    texts_of = defaultdict[Path | None, list[Path]](list)
    for text in texts:
        alike = keyed.get((text.parent, text.name.partition(".")[0]), [])
        texts_of[named.get(text.with_suffix("")) or (alike[0] if len(alike) == 1 else None)].append(text)
    return texts_of


def _is_json(text: Path) -> bool:
    return text.suffix.lower() == ".json"


def _read(text: Path, source: Source) -> tuple[list[str], str | None]:
    """Return the sentences and the split that a text gives an image; raise SeesayError if it is malformed."""
    decoded = decode_text(source.read(), str(source))
    if not _is_json(text):
        return [line for line in split_lines(decoded) if line.strip()] or [""], None
    record = parse_json(decoded, str(source))
    record = record if isinstance(record, dict) else {}
    found, split = record.get("captions") or record.get("caption"), record.get("split")
    found = found if isinstance(found, list) else [found] if found else []
    captions = [each or "" for each in found] if all(isinstance(each, str | None) for each in found) else []
    return captions, canonical_split(split, str(source)) if isinstance(split, str) and split else None


def _has_sentences(text: Path, source: Source) -> bool:
    """Whether a text that has the name of an image is about it; many programs keep notes as JSON."""
    with suppress(SeesayError):
        return not _is_json(text) or bool(_read(text, source)[0])
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
