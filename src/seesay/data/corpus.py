"""The corpus: images, sentences, which sentence belongs to which image, and the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.data.feature_rows import FeatureRows
from seesay.errors import SeesayError

SPLITS = ("train", "val", "test")


class ByteSource(Protocol):
    """Where the encoded bytes of one image lie: a file, or a member of a tar."""

    def read(self) -> bytes:
        """The encoded image; raises ImageError when it is missing or unreadable."""
        ...


@dataclass(frozen=True, slots=True)
class CorpusImage:
    """One image of a corpus.

    `row` is its row in `Corpus.features` when the corpus comes with precomputed features; `source` is
    None where it comes without the image itself.
    """

    name: str
    split: str
    source: ByteSource | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; `image` is the position of its image in `Corpus.images`."""

    text: str
    image: int


@dataclass
class Issues:
    """What a reader met and how often, with the first places where it did.

    Keys are short phrases a person understands: "image listed but missing", "empty sentence".
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, where: str) -> None:
        """Count one issue and keep its place among the first five."""
        self.counts[kind] += 1
        places = self.examples.setdefault(kind, [])
        if len(places) < 5:
            places.append(where)


def images_of_split(images: Sequence[CorpusImage], name: str, root: Path) -> list[int]:
    """The positions of a split's images.

    Raises:
        SeesayError: there are none; names the splits that there are.
    """
    kept = [i for i, image in enumerate(images) if image.split == name]
    if not kept:
        there = ", ".join(sorted({image.split for image in images})) or "none"
        raise SeesayError(f"{root}: no image in split '{name}'; splits there: {there}.")
    return kept


@dataclass(frozen=True)
class Corpus:
    """Images and the sentences that describe them, any number each.

    `features` holds precomputed global features, shape (rows, d), or regions, (rows, r, d), as corpora
    are exchanged without their images, or beside them; memory-mapped where the format allows. Index it with
    an array of rows, as either type allows: a whole COCO of regions is 33 GB.
    """

    name: str
    root: Path
    images: tuple[CorpusImage, ...]
    sentences: tuple[Sentence, ...]
    issues: Issues = field(default_factory=Issues)
    features: NDArray[np.float32] | FeatureRows | None = None

    def split(self, name: str) -> Corpus:
        """The part of the corpus in one split, its sentences renumbered to its images.

        Raises:
            SeesayError: no image is in that split.
        """
        kept = images_of_split(self.images, name, self.root)
        position = {old: new for new, old in enumerate(kept)}
        sentences = tuple(Sentence(s.text, position[s.image]) for s in self.sentences if s.image in position)
        return Corpus(
            self.name, self.root, tuple(self.images[i] for i in kept), sentences, self.issues, self.features
        )

    def image_of_sentence(self) -> NDArray[np.int64]:
        """For each sentence the position of its image, shape (n_sentences,)."""
        return np.fromiter((s.image for s in self.sentences), np.int64, len(self.sentences))

    def texts(self) -> Sequence[str]:
        """The sentences' texts, in order."""
        return [s.text for s in self.sentences]
