"""tf-idf features of sentences, which the two-branch paper's conference version found as good as HGLMM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.names import register_sentence_encoder
from seesay.encoders.sentences.base import SentenceFeatures, Tensors, Vectors
from seesay.errors import SeesayError
from seesay.text.vocabulary import Vocabulary

_MIN_COUNT = 2  # occurrences of a word
_MAX_WORDS = 6000  # the most frequent: PCA takes the square of it


@register_sentence_encoder("tfidf")
@dataclass(frozen=True)
class Tfidf(SentenceFeatures):
    """tf-idf: unit vectors of word counts, weighted by log((1 + n) / (1 + sentences with the word)) + 1."""

    vocabulary: Vocabulary
    idf: NDArray[np.float32]  # each word's inverse document frequency, (v,)

    @classmethod
    def fit(cls, texts: Sequence[str], images: NDArray[np.int64] | None = None) -> Tfidf:
        """Count the words of sentences; raise SeesayError if none occurs twice."""
        del images
        vocabulary = Vocabulary(Vocabulary.from_texts(texts, _MIN_COUNT).words[:_MAX_WORDS])
        if not vocabulary.words:
            raise SeesayError(
                f"tf-idf needs words that occur twice; the {len(texts)} training sentences have none."
            )
        found = Counter(number for text in texts for number in set(vocabulary.encode(text)))
        counts = np.array([found[number] for number in range(1, len(vocabulary))])
        return cls(vocabulary, (np.log((1 + len(texts)) / (1 + counts)) + 1).astype(np.float32))

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> Tfidf:
        """Restore what `tensors` returned."""
        words = tensors["words"].tobytes().decode().split("\n")
        return cls(Vocabulary(words), tensors["idf"].astype(np.float32))

    def tensors(self) -> Tensors:
        """Return all that was fitted; the words as UTF-8, one a line."""
        words = "\n".join(self.vocabulary.words).encode()
        return {"words": np.frombuffer(words, np.uint8), "idf": self.idf}

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Compute features, (m, v); a sentence without a known word is zeros."""
        rows = np.zeros((len(texts), len(self.vocabulary)), np.float32)
        for row, text in zip(rows, texts, strict=True):
            np.add.at(row, self.vocabulary.encode(text), 1)
        weighted: Vectors = rows[:, 1:] * self.idf
        lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
        weighted /= np.where(lengths > 0, lengths, 1)
        return weighted
