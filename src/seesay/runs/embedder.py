"""What an index asks of a matcher."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import Photo
from seesay.encoders.detector import Detection
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.runs.calibration import USUAL, Calibration

Vectors = NDArray[np.float32]


class Embedder:
    """A matcher that embeds photos and sentences as vectors of one space, and knows what these mean.

    A subclass has a name, a fingerprint and a dimension, and embeds; the rest is optional. Vectors of queries
    differ from those of gallery items if the matcher is asymmetric.

    Attributes:
        name: of shipped weights (`seesay-small`), or a run's folder; an index stores it.
        fingerprint: changes whenever weights or preprocessing change; vectors of two fingerprints are never
            mixed.
        dim: length of an embedding.
        detector: the file of the detector of objects that it looks at photos with; an index stores it.
        side: pixels that it needs of the shorter side of a photo.
        calibration: what makes the best score a probability that something in the gallery fits.
    """

    name: str
    detector: Path | None = None

    @property
    def fingerprint(self) -> str:
        """See above."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """See above."""
        raise NotImplementedError

    @property
    def side(self) -> int:
        """See above."""
        return SHARED_SIDE

    @property
    def calibration(self) -> Calibration:
        """See above."""
        return USUAL

    def embed_photos(self, photos: Sequence[Photo], query: bool = False) -> Vectors:
        """Embed n decoded photos as rows (n, dim).

        Raises:
            ImageError: one of them cannot be embedded.
        """
        raise NotImplementedError

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> Vectors:
        """Embed m sentences as rows (m, dim); the score is the inner product with an image's row."""
        raise NotImplementedError

    def embed_and_detect(self, photos: Sequence[Photo]) -> tuple[Vectors, list[list[Detection]]]:
        """Embed photos, and return what a detector saw in each, best first, in pixels of the whole photo."""
        return self.embed_photos(photos), [[] for _ in photos]

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the words of sentences that mean nothing to it, in lower case, each once, in order."""
        del sentences
        return []

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return the words that were probably meant by misspelt ones of sentences, in lower case."""
        del sentences
        return {}

    def named(self, sentences: Sequence[str]) -> list[str]:
        """Return the names of objects that its detector looks for and that sentences name."""
        del sentences
        return []
