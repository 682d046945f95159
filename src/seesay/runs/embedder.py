"""The interface between an index and a matcher."""

from __future__ import annotations

from collections.abc import Sequence

from seesay.arrays import Vectors
from seesay.data.images import DecodedImage
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.runs.calibration import ScoreCalibration


class Embedder:
    """A matcher that embeds photos and sentences in a common space.

    Subclasses define a name, a fingerprint, a dimension and the embedding; the rest is optional. Vectors of
    queries differ from those of gallery items if the matcher is asymmetric.

    Attributes:
        name: the name of included weights (`seesay-small`), or a run's folder; stored in the index.
        fingerprint: identifies weights and preprocessing; vectors of different fingerprints are never mixed.
        dim: length of an embedding.
        side: the minimum shorter side of decoded photos, in pixels.
        calibration: of scores to probabilities; without one, the gallery tells which scores are high.
    """

    name: str

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
    def calibration(self) -> ScoreCalibration | None:
        """See above."""
        return None

    def embed_photos(self, photos: Sequence[DecodedImage], query: bool = False) -> Vectors:
        """Embed n decoded photos as rows (n, dim).

        Raises:
            ImageError: a photo cannot be embedded.
        """
        raise NotImplementedError

    def embed_sentences(self, sentences: Sequence[str], query: bool = False) -> Vectors:
        """Embed m sentences as rows (m, dim); the score is the inner product with an image's row."""
        raise NotImplementedError

    def unknown_words(self, sentences: Sequence[str]) -> list[str]:
        """Return the distinct unknown words of sentences, in lower case and in order."""
        del sentences
        return []

    def corrections(self, sentences: Sequence[str]) -> dict[str, str]:
        """Return corrections of misspelt words of sentences, in lower case."""
        del sentences
        return {}
