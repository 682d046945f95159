"""Pretrained vectors of the words of a vocabulary, as matchers ask for them before training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.sentences.minilm import class_vectors, minilm_vectors
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PretrainedVectors:
    """Looks words up in the packaged vectors."""

    vocabulary: Vocabulary

    def word_vectors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors (V - 1, d) of the words, `glove` or `minilm`, and which are known, (V - 1,)."""
        words = self.vocabulary.words
        if name == "glove":
            return word_vectors(words)
        if name == "minilm":
            return minilm_vectors(words), np.ones(len(words), bool)
        raise SeesayError(f"No word vectors '{name}'; there are glove and minilm.")

    def class_vectors(self) -> NDArray[np.float32]:
        """Return the vectors (1000, 384) of the names of the ImageNet classes, less their mean."""
        return class_vectors()
