"""The phrase corpus: images, phrases, and the boxes of what each phrase names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.boxes import enclosing
from seesay.data.corpus import CorpusImage, Issues, images_of_split

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
    image in pixels, upright: the frame of the boxes. Some annotations give boxes as pixels counted from
    one, the last ones included, as Flickr30k Entities does. `pixels` (n_images, 2) then holds the width and
    height of an annotated pixel in the image at hand, 1 unless that was resized, and
    `boxes.to_inclusive(phrase.boxes, 1, corpus.pixels[phrase.image])` gives the annotated coordinates back.

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
        """Return the part of the corpus in one split, its phrases renumbered to its images.

        Raises:
            SeesayError: no image is in that split.
        """
        kept = images_of_split(self.images, name, self.root)
        position = {old: new for new, old in enumerate(kept)}
        return replace(
            self,
            images=tuple(self.images[i] for i in kept),
            phrases=tuple(replace(p, image=position[p.image]) for p in self.phrases if p.image in position),
            sizes=self.sizes[kept],
            pixels=None if self.pixels is None else self.pixels[kept],
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
