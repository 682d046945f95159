"""Pretrained vectors that matchers start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.sentences.classes import class_vectors
from seesay.encoders.sentences.minilm import minilm_vectors
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PretrainedVectors:
    """Those of a vocabulary's words and of the ImageNet classes; see `seesay.matchers.base.Pretrained`."""

    vocabulary: Vocabulary

    def word_vectors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors of all words, and which of them are known; `name` is glove or minilm."""
        words = self.vocabulary.words
        if name == "glove":
            return word_vectors(words)
        if name == "minilm":
            return minilm_vectors(words), np.ones(len(words), bool)
        raise SeesayError(f"No word vectors '{name}'; there are glove, minilm.")

    def class_vectors(self) -> NDArray[np.float32]:
        """Return vectors (1000, 384) of the names of the classes."""
        return class_vectors()
