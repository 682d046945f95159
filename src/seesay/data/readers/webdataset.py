"""WebDataset shards: tars of `key.jpg` with `key.txt` or `key.json`, read in place.

Sentences are the lines of the txt, or `caption` / `captions` of the JSON, which may also have `split`;
without it, the name or folder of the shard gives the split (`train-0001.tar`, `test/0.tar`).
Format: Aizman, Maltby and Breuel, "High Performance I/O for Large Scale Deep Learning", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from seesay.data.readers import Reader, register_reader
from seesay.data.readers.builder import UNKNOWN_IMAGE, CorpusBuilder
from seesay.data.readers.files import (
    MALFORMED_LINE,
    canonical_split,
    decode_text,
    files_of_suffix,
    parse_json,
    split_in_name,
)
from seesay.data.sources import TarMember, tar_members
from seesay.data.suffixes import IMAGE_SUFFIXES
from seesay.errors import SeesayError

SECOND_IMAGE = "second image with the same key, dropped"
_PEEK = 64


@dataclass(slots=True)
class _Sample:
    """The members of a shard that share one key."""

    images: list[str] = field(default_factory=list)
    texts: dict[str, TarMember] = field(default_factory=dict)


@register_reader
class WebDatasetReader(Reader):
    """Reads one shard, or every shard below a folder; images are named `{shard}/{key}.jpg`."""

    name = "webdataset"
    looks_like = "*.tar shards with key.jpg and key.txt or key.json"
    order = 70

    def files(self, path: Path) -> list[Path]:
        return files_of_suffix(path, ".tar")

    def recognises(self, path: Path) -> bool:
        return path.suffix.lower() == ".tar" if path.is_file() else any(map(_has_pair, self.files(path)[:1]))

    def add(self, path: Path, builder: CorpusBuilder) -> None:
        for shard in self.find(path):
            members = tar_members(shard)
            below = shard.relative_to(builder.root).with_suffix("").as_posix()
            split = split_in_name(below)
            for sample in _group(members).values():
                if sample.images:
                    where = f"{shard}: {sample.images[0]}"
                    captions, own_split = _captions(sample, where, builder)
                    name, source = f"{below}/{sample.images[0]}", members[sample.images[0]]
                    at = builder.image(name, own_split or split, source)
                    for caption in captions:
                        builder.sentence(caption, at, where)
                elif sample.texts:
                    offset = next(iter(sample.texts.values())).offset
                    builder.issues.add(UNKNOWN_IMAGE, f"{shard}: no image next to offset {offset}")
                for second in sample.images[1:]:
                    builder.issues.add(SECOND_IMAGE, f"{shard}: {second}")


def _has_pair(shard: Path) -> bool:
    try:
        samples = _group(tar_members(shard, limit=_PEEK)).values()
    except SeesayError:
        return False
    return any(sample.images and sample.texts for sample in samples)


def _group(members: dict[str, TarMember]) -> dict[str, _Sample]:
    """Group members by key: the path up to the first dot of its last part."""
    samples: dict[str, _Sample] = {}
    for name, member in members.items():
        folder, _, last = name.rpartition("/")
        stem, _, extension = last.partition(".")
        sample = samples.setdefault(f"{folder}/{stem}", _Sample())
        if PurePosixPath(last).suffix.lower() in IMAGE_SUFFIXES:
            sample.images.append(name)
        elif extension.lower() in ("txt", "json"):
            sample.texts[extension.lower()] = member
    return samples


def _captions(sample: _Sample, where: str, builder: CorpusBuilder) -> tuple[list[str], str | None]:
    """Read the sentences and the split of one sample; those of the text take precedence over the JSON."""
    captions: list[str] = []
    split: str | None = None
    if "json" in sample.texts:
        try:
            record = parse_json(decode_text(sample.texts["json"].read(), where), where)
        except SeesayError:
            record = None
        record = record if isinstance(record, dict) else {}
        found = record.get("captions") or record.get("caption")
        found = [found] if isinstance(found, str) else found
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            captions = found
        name = record.get("split")
        split = canonical_split(name, where) if isinstance(name, str) and name else None
        if not captions and "txt" not in sample.texts:
            builder.issues.add(MALFORMED_LINE, f"{where}: its JSON has no caption")
    if "txt" in sample.texts:
        try:
            text = decode_text(sample.texts["txt"].read(), where)
            captions = [line for line in text.split("\n") if line.strip()] or [""]
        except SeesayError as error:
            builder.issues.add(MALFORMED_LINE, str(error))
    return captions, split
