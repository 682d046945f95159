"""WebDataset shards: tars of `key.jpg` with `key.txt` or `key.json`, read in place.

Sentences are the lines of the txt, or `caption` / `captions` of the JSON, which may also have `split`;
without it, the name or folder of the shard gives the split (`train-0001.tar`, `test/0.tar`).
Format: Aizman, Maltby and Breuel, "High Performance I/O for Large Scale Deep Learning", 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from seesay.data.corpus import Corpus
from seesay.data.pixels import IMAGE_SUFFIXES
from seesay.data.readers.base import CorpusReader, register_reader
from seesay.data.readers.builder import UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.files import MALFORMED_LINE, decode_text, parse_json
from seesay.data.readers.splits import canonical_split, split_in_name
from seesay.data.sources import TarMember, tar_members, walk_files
from seesay.errors import SeesayError

SECOND_IMAGE = "second image of one key, dropped"
_PEEK = 64


@dataclass(slots=True)
class _Sample:
    """The members of a shard that share one key."""

    image: str | None = None
    texts: dict[str, TarMember] = field(default_factory=dict)


@register_reader
class WebDatasetReader(CorpusReader):
    """Reads one shard, or every shard below a folder; images are named `{shard}/{key}.jpg`."""

    name = "webdataset"
    looks_like = "*.tar shards with key.jpg and key.txt or key.json"
    order = 70

    def recognises(self, path: Path) -> bool:
        """Return True for a tar, or a folder whose first tar holds an image with its text."""
        if path.is_file():
            return path.suffix.lower() == ".tar"
        return any(_has_pair(shard) for shard in _shards(path)[:1])

    def read(self, path: Path) -> Corpus:
        """Read the shards."""
        shards = [path] if path.is_file() else _shards(path)
        if not shards:
            raise SeesayError(f"{path}: no {self.looks_like} there.")
        root = path if path.is_dir() else path.parent
        builder = CorpusBuilder(root.resolve().name if path.is_dir() else path.stem, root)
        for shard in shards:
            members = tar_members(shard)
            below = shard.relative_to(root).with_suffix("").as_posix()
            for sample in _samples(shard, members, builder):
                _add(builder, shard, sample, members, f"{below}/", split_in_name(below))
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
    """Group members by key: the path up to the first dot of its last part."""
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
            offset = next(iter(sample.texts.values())).offset
            builder.issues.add(UNKNOWN_IMAGE, f"{shard}: no image beside offset {offset}")
        return
    where = f"{shard}: {sample.image}"
    captions, own_split = _captions(sample, where, builder)
    at = builder.image(prefix + sample.image, own_split or split, members[sample.image])
    for caption in captions:
        builder.sentence(caption, at, where)


def _captions(sample: _Sample, where: str, builder: CorpusBuilder) -> tuple[list[str], str | None]:
    """Read the sentences and the split of one sample; sentences of the text win over those of the JSON."""
    captions: list[str] = []
    split: str | None = None
    if "json" in sample.texts:
        try:
            record = parse_json(decode_text(sample.texts["json"].read(), where), where)
        except SeesayError:
            record = None
        record = record if isinstance(record, dict) else {}
        found = record.get("captions", record.get("caption"))
        found = [found] if isinstance(found, str) else found
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            captions = found
        name = record.get("split")
        split = canonical_split(name, where) if isinstance(name, str) and name else None
        if not captions and "txt" not in sample.texts:
            builder.issues.add(MALFORMED_LINE, f"{where}: its JSON has no caption")
    if "txt" in sample.texts:
        text = decode_text(sample.texts["txt"].read(), where)
        captions = [line for line in text.split("\n") if line.strip()] or [""]
    return captions, split
