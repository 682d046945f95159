"""Corpora: images with the sentences, or the phrases and boxes, that describe them, and their splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import enclosing
from seesay.data.features import FeatureRows
from seesay.errors import SeesayError

SPLITS = ("train", "val", "test")


class ByteSource(Protocol):
    """Where the encoded bytes of one image lie: a file, or a member of a tar."""

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes; raise ImageError if it cannot be read."""
        ...


@runtime_checkable
class Placed(ByteSource, Protocol):
    """A source at a URL, which may tell when its bytes have changed."""

    def place(self) -> str:
        """Return what names these bytes in this version, and no others; empty if nothing does."""
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


def _positions(images: Sequence[CorpusImage], split: str, root: Path) -> dict[int, int]:
    """Map the positions of a split's images to their positions in that split."""
    kept = [at for at, image in enumerate(images) if image.split == split]
    if not kept:
        there = ", ".join(sorted({image.split for image in images})) or "none"
        raise SeesayError(f"{root}: no image in split '{split}'; splits there: {there}.")
    return {old: new for new, old in enumerate(kept)}


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
        """Return the part of the corpus in one split; raise SeesayError if no image is in it."""
        kept = _positions(self.images, name, self.root)
        return replace(
            self,
            images=tuple(self.images[i] for i in kept),
            sentences=tuple(Sentence(s.text, kept[s.image]) for s in self.sentences if s.image in kept),
        )

    def image_of_sentence(self) -> NDArray[np.int64]:
        """Return the position of each sentence's image, (n_sentences,)."""
        return np.fromiter((s.image for s in self.sentences), np.int64, len(self.sentences))

    def texts(self) -> Sequence[str]:
        """Return the texts of the sentences, in order."""
        return [s.text for s in self.sentences]


Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of an image and its boxes: several for "two men", always at least one.

    `image` is the position of its image in `PhraseCorpus.images`. Boxes are x1 y1 x2 y2 in continuous pixels
    of that image, from zero, x2 and y2 exclusive, and lie within it. Phrases of one image with the same
    `chain` name the same entity (coreference). `kinds` (people, clothing, …) may be empty; `sentence` is None
    if unknown.
    """

    text: str
    image: int
    boxes: tuple[Box, ...]
    chain: str | None = None
    kinds: tuple[str, ...] = ()
    sentence: int | None = None

    @property
    def box(self) -> NDArray[np.float32]:
        """The box (4,) that encloses all boxes of the phrase."""
        return enclosing(self.boxes)


@dataclass(frozen=True)
class PhraseCorpus:
    """Images and the phrases that name things in them.

    Images were looked for below `images_root`. `sizes` (n_images, 2) holds the width and height of each
    image in pixels, upright: the frame of the boxes. If boxes were annotated as pixels counted from one, the
    last ones included, as in Flickr30k Entities, `pixels` (n_images, 2) holds the width and height of an
    annotated pixel in the image at hand, 1 unless that was resized.

    Example:
        >>> phrase = Phrase("two men", 0, ((0, 0, 10, 20), (30, 0, 40, 20)))
        >>> images, sizes = (CorpusImage("a.jpg", "test"),), np.array([[64, 48]])
        >>> corpus = PhraseCorpus("men", Path("men"), Path("men"), images, (phrase,), sizes)
        >>> corpus.split("test").enclosing_boxes().tolist()
        [[0.0, 0.0, 40.0, 20.0]]
    """

    name: str
    root: Path
    images_root: Path
    images: tuple[CorpusImage, ...]
    phrases: tuple[Phrase, ...]
    sizes: NDArray[np.int64]
    issues: Issues = field(default_factory=Issues)
    pixels: NDArray[np.float64] | None = None

    def split(self, name: str) -> PhraseCorpus:
        """Return the part of the corpus in one split; raise SeesayError if no image is in it."""
        kept = _positions(self.images, name, self.root)
        rows = list(kept)
        return replace(
            self,
            images=tuple(self.images[i] for i in kept),
            phrases=tuple(replace(p, image=kept[p.image]) for p in self.phrases if p.image in kept),
            sizes=self.sizes[rows],
            pixels=None if self.pixels is None else self.pixels[rows],
        )

    def image_of_phrase(self) -> NDArray[np.int64]:
        """Return the position of each phrase's image, (n_phrases,)."""
        return np.fromiter((p.image for p in self.phrases), np.int64, len(self.phrases))

    def texts(self) -> Sequence[str]:
        """Return the texts of the phrases, in order."""
        return [p.text for p in self.phrases]

    def enclosing_boxes(self) -> NDArray[np.float32]:
        """Return the enclosing box of each phrase, (n_phrases, 4)."""
        return np.array([p.box for p in self.phrases], np.float32).reshape(-1, 4)
