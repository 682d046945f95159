"""The corpus: images, sentences, which sentence belongs to which image, and the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.data.features import FeatureRows
from seesay.errors import SeesayError

SPLITS = ("train", "val", "test")


class ByteSource(Protocol):
    """Where the encoded bytes of one image lie: a file, or a member of a tar."""

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes; raise ImageError if it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class CorpusImage:
    """One image of a corpus.

    `row` is its row in `Corpus.features` if the corpus has precomputed features; `source` is None if the
    corpus comes without the image itself.
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
    """Data-quality issues that a reader found: how often each kind occurs, and its first places.

    Kinds are short phrases that a person understands: "image listed but missing", "empty sentence".
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, where: str) -> None:
        """Count one issue, and keep its place if it is among the first five."""
        self.counts[kind] += 1
        places = self.examples.setdefault(kind, [])
        if len(places) < 5:
            places.append(where)


def images_of_split(images: Sequence[CorpusImage], name: str, root: Path) -> list[int]:
    """Return the positions of a split's images.

    Raises:
        SeesayError: the split has none; the message names the splits that have.
    """
    kept = [i for i, image in enumerate(images) if image.split == name]
    if not kept:
        there = ", ".join(sorted({image.split for image in images})) or "none"
        raise SeesayError(f"{root}: no image in split '{name}'; splits there: {there}.")
    return kept


@dataclass(frozen=True)
class Corpus:
    """Images and the sentences that describe them, any number of sentences per image.

    `features` holds precomputed global features (rows, d) or region features (rows, r, d), for corpora that
    are exchanged without their images, or beside them. Index it with an array of rows: a whole COCO of
    regions is 33 GB, so it may be memory-mapped.

    Example:
        >>> images = CorpusImage("a.jpg", "train"), CorpusImage("b.jpg", "test")
        >>> corpus = Corpus("pets", Path("pets"), images, (Sentence("a dog", 0), Sentence("a cat", 1)))
        >>> corpus.split("test").texts()
        ['a cat']
        >>> corpus.image_of_sentence()
        array([0, 1])
    """

    name: str
    root: Path
    images: tuple[CorpusImage, ...]
    sentences: tuple[Sentence, ...]
    issues: Issues = field(default_factory=Issues)
    features: NDArray[np.float32] | FeatureRows | None = None

    def split(self, name: str) -> Corpus:
        """Return the part of the corpus in one split, its sentences renumbered to its images.

        Raises:
            SeesayError: no image is in that split.
        """
        kept = images_of_split(self.images, name, self.root)
        position = {old: new for new, old in enumerate(kept)}
        return replace(
            self,
            images=tuple(self.images[i] for i in kept),
            sentences=tuple(
                Sentence(s.text, position[s.image]) for s in self.sentences if s.image in position
            ),
        )

    def image_of_sentence(self) -> NDArray[np.int64]:
        """Return the position of each sentence's image, (n_sentences,)."""
        return np.fromiter((s.image for s in self.sentences), np.int64, len(self.sentences))

    def texts(self) -> Sequence[str]:
        """Return the texts of the sentences, in order."""
        return [s.text for s in self.sentences]
