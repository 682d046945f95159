"""Pairs of stored features and sentences, for training loops of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Dataset

from seesay.data.corpus import Corpus
from seesay.data.features import FeatureRows
from seesay.errors import SeesayError


class FeaturePairs(Dataset[tuple[NDArray[np.float32], Any, int]]):
    """A map-style dataset for PyTorch's DataLoader: an image's features, a sentence, the number of the image.

    Args:
        images: (n, …), such as (n, 36, 2048) regions; `numpy.load(file, mmap_mode="r")` need not fit into
            memory.
        sentences: m of them, as an array of vectors, or as texts.
        image_of_sentence: for each sentence the row of its image, (m,).

    Raises:
        SeesayError: a sentence has no image.

    Example:
        >>> import numpy as np
        >>> from seesay.training.feature_pairs import FeaturePairs
        >>> pairs = FeaturePairs(np.zeros((2, 36, 8)), ["a dog", "a cat", "two cats"], [0, 1, 1])
        >>> features, sentence, image = pairs[2]
        >>> features.shape, sentence, image
        ((36, 8), 'two cats', 1)
    """

    def __init__(
        self,
        images: NDArray[Any] | FeatureRows,
        sentences: Sequence[str] | NDArray[Any],
        image_of_sentence: ArrayLike,
    ) -> None:
        self.images = images
        self.sentences: Any = sentences
        self.image_of_sentence = owners = np.asarray(image_of_sentence)
        n, m = images.shape[0], len(sentences)
        if owners.shape != (m,) or owners.dtype.kind not in "iu":
            raise SeesayError(
                f"image_of_sentence: shape {owners.shape}, dtype {owners.dtype}; it must be ({m},), the "
                "image of each sentence as a whole number."
            )
        if m and not (owners.min() >= 0 and owners.max() < n):
            raise SeesayError(
                f"image_of_sentence: {owners.min()} to {owners.max()}, but there are {n} images, from 0."
            )

    @classmethod
    def of(cls, corpus: Corpus) -> FeaturePairs:
        """Return the pairs of a corpus, or of a split of it, that has features of its own.

        Raises:
            SeesayError: it has none.
        """
        rows = np.array([-1 if image.row is None else image.row for image in corpus.images], np.int64)
        if corpus.features is None or (rows < 0).any():
            raise SeesayError(f"{corpus.root}: has no features of all its images.")
        return cls(corpus.features, corpus.texts(), rows[corpus.image_of_sentence()])

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.sentences)

    def __getitem__(self, at: int) -> tuple[NDArray[np.float32], Any, int]:
        """Return the features of a sentence's image, the sentence, and the number of the image."""
        image = int(self.image_of_sentence[at])
        features = self.images[np.array([image])][0]
        return np.array(features, np.float32), self.sentences[at], image
