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

    `image` is the position of its image in `PhraseCorpus.images`; boxes are x1 y1 x2 y2 in pixels of that
    image, from zero, x2 and y2 exclusive, and lie within it. Phrases of one image with the same `chain` name
    the same entity (coreference). `kinds` (people, clothing, …) is empty, `sentence` None where unknown.
    """

    text: str
    image: int
    boxes: tuple[Box, ...]
    chain: str | None = None
    kinds: tuple[str, ...] = ()
    sentence: int | None = None

    @property
    def box(self) -> NDArray[np.float32]:
        """The box that encloses all of the phrase's boxes, (4,): the paper's joined plural entity."""
        return enclosing(self.boxes)


@dataclass(frozen=True)
class PhraseCorpus:
    """Images and the phrases that name things in them.

    `images_root` is where the images were looked for. `sizes` (n_images, 2) holds each image's width and
    height in pixels, upright: the frame of the boxes.
    """

    name: str
    root: Path
    images_root: Path
    images: tuple[CorpusImage, ...]
    phrases: tuple[Phrase, ...]
    sizes: NDArray[np.int64]
    issues: Issues = field(default_factory=Issues)

    def split(self, name: str) -> PhraseCorpus:
        """The part of the corpus in one split, its phrases renumbered to its images.

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
        )

    def image_of_phrase(self) -> NDArray[np.int64]:
        """For each phrase the position of its image, shape (n_phrases,)."""
        return np.fromiter((p.image for p in self.phrases), np.int64, len(self.phrases))

    def texts(self) -> Sequence[str]:
        """The phrases' texts, in order."""
        return [p.text for p in self.phrases]

    def enclosing_boxes(self) -> NDArray[np.float32]:
        """Each phrase's enclosing box, (n_phrases, 4)."""
        return np.array([p.box for p in self.phrases], np.float32).reshape(-1, 4)
