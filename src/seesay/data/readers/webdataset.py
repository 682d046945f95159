"""WebDataset shards: tars of `key.jpg` with `key.txt` or `key.json`, read in place.

Sentences are the lines of the txt, or `caption` / `captions` of the JSON, which may also have `split`;
without one, the shard's name or folder tells it (`train-0001.tar`, `test/0.tar`).
Format: Aizman, Maltby and Breuel, "High Performance I/O for Large Scale Deep Learning", 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from seesay.data.corpus import Corpus
from seesay.data.pixels import IMAGE_SUFFIXES
from seesay.data.readers._builder import MALFORMED_LINE, UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers._finder import walk_files
from seesay.data.readers._splits import canonical_split, split_in_name
from seesay.data.readers._text import decode_text, parse_json
from seesay.data.sources import TarMember, tar_members
from seesay.errors import SeesayError

NAME = "webdataset"
LOOKS_LIKE = "*.tar shards with key.jpg and key.txt or key.json"
SECOND_IMAGE = "second image of one key, dropped"
_PEEK = 64


@dataclass(slots=True)
class _Sample:
    """What a shard holds under one key."""

    image: str | None = None
    texts: dict[str, TarMember] = field(default_factory=dict)


def recognises(path: Path) -> bool:
    """A tar; or a folder with one in which an image and its text stand side by side."""
    if path.is_file():
        return path.suffix.lower() == ".tar"
    return any(_has_pair(shard) for shard in _shards(path)[:1])


def read(path: Path) -> Corpus:
    """Read one shard, or every shard below a folder; images are named `{shard}/{key}.jpg`.

    Raises:
        SeesayError: no shard, a damaged or compressed one, or no image left.
    """
    shards = [path] if path.is_file() else _shards(path)
    if not shards:
        raise SeesayError(f"{path}: no {LOOKS_LIKE} there.")
    root = path if path.is_dir() else path.parent
    builder = CorpusBuilder(root.resolve().name if path.is_dir() else path.stem, root)
    for shard in shards:
        members = tar_members(shard)
        below = shard.relative_to(root).with_suffix("")
        split = split_in_name(below.as_posix())
        for sample in _samples(shard, members, builder):
            _add(builder, shard, sample, members, f"{below.as_posix()}/", split)
    return builder.finish()


def _shards(folder: Path) -> list[Path]:
    return sorted(file for file in walk_files(folder) if file.suffix.lower() == ".tar")


def _has_pair(shard: Path) -> bool:
    try:
        samples = _group(tar_members(shard, limit=_PEEK)).values()
    except SeesayError:
        return False
    return any(sample.image and sample.texts for sample in samples)


def _group(members: dict[str, TarMember]) -> dict[str, _Sample]:
    """Members by key: the path up to the first dot of its last part."""
    samples: dict[str, _Sample] = {}
    for name, member in members.items():
        folder, _, last = name.rpartition("/")
        stem, _, extension = last.partition(".")
        sample = samples.setdefault(f"{folder}/{stem}", _Sample())
        if PurePosixPath(last).suffix.lower() in IMAGE_SUFFIXES:
            sample.image = sample.image or name
        elif extension.lower() in ("txt", "json"):
            sample.texts[extension.lower()] = member
    return samples


def _samples(shard: Path, members: dict[str, TarMember], builder: CorpusBuilder) -> Iterable[_Sample]:
    samples = _group(members)
    images = {sample.image for sample in samples.values()}
    for name in members:
        if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES and name not in images:
            builder.issues.add(SECOND_IMAGE, f"{shard}: {name}")
    return samples.values()


def _add(
    builder: CorpusBuilder,
    shard: Path,
    sample: _Sample,
    members: dict[str, TarMember],
    prefix: str,
    split: str | None,
) -> None:
    if sample.image is None:
        if sample.texts:
            builder.issues.add(UNKNOWN_IMAGE, f"{shard}: no image beside offset {_offset(sample)}")
        return
    where = f"{shard}: {sample.image}"
    captions, said = _captions(sample, where, builder)
    at = builder.image(prefix + sample.image, said or split, members[sample.image])
    for caption in captions:
        builder.sentence(caption, at, where)


def _offset(sample: _Sample) -> int:
    return next(iter(sample.texts.values())).offset


def _captions(sample: _Sample, where: str, builder: CorpusBuilder) -> tuple[list[str], str | None]:
    """The sentences and the split that text and JSON of one sample give; the text's sentences win."""
    captions: list[str] = []
    split: str | None = None
    if "json" in sample.texts:
        try:
            record = parse_json(decode_text(sample.texts["json"].read(), where), where)
        except SeesayError:
            record = None
        record = record if isinstance(record, dict) else {}
        given = record.get("captions", record.get("caption"))
        given = [given] if isinstance(given, str) else given
        if isinstance(given, list) and all(isinstance(text, str) for text in given):
            captions = given
        said = record.get("split")
        split = canonical_split(said, where) if isinstance(said, str) and said else None
        if not captions and "txt" not in sample.texts:
            builder.issues.add(MALFORMED_LINE, f"{where}: its JSON has no caption")
    if "txt" in sample.texts:
        text = decode_text(sample.texts["txt"].read(), where)
        lines = [line for line in text.split("\n") if line.strip()]
        captions = lines or [""]
    return captions, split
